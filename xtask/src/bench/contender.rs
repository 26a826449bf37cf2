//! Who does some work, and how that is said to each program.

/// The direction, seen from the side that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Write,
    Read,
}

impl Op {
    pub(crate) const BOTH: [Self; 2] = [Self::Write, Self::Read];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }

    pub(crate) fn capitals(self) -> &'static str {
        match self {
            Self::Write => "WRITE",
            Self::Read => "READ",
        }
    }
}

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) op: Op,
    /// Bytes of a request.
    pub(crate) block: u64,
    /// Requests that are under way together.
    pub(crate) batch: u32,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// `te bench` with a second process of ours, and these options.
    Te(&'static str),
    /// The same of another revision.
    TeBefore(&'static str),
    /// Mooncake to Mooncake.
    Mooncake,
    /// Mooncake's Python, one request at a time, with so many microseconds between.
    MooncakeLatency { pause_us: u32 },
    /// Our initiator, Mooncake's target.
    TeToMooncake,
    /// Mooncake's initiator, our target.
    MooncakeToTe,
    /// So many streams.
    Iperf(u32),
    /// Private memory into a shared mapping, within a process.
    Memcpy,
    /// The bare system call.
    ProcessVm,
    /// NIXL over UCX with these transports.
    Nixl(&'static str),
    /// libfabric over TCP, complete when delivered.
    Libfabric,
    /// An idle engine of ours with a hundred peers.
    Idle,
}

/// A program that does some work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contender {
    /// How verdicts call it; unique within a group.
    pub(crate) label: String,
    pub(crate) who: Who,
    pub(crate) work: Work,
    /// Both ends on core 0.
    pub(crate) on_one_core: bool,
}

impl Contender {
    /// `name` and the direction are its label.
    pub(crate) fn new(name: &str, who: Who, work: Work) -> Self {
        let label = format!("{name} {}", work.op.word());
        Self { label, who, work, on_one_core: false }
    }

    pub(crate) fn on_one_core(self) -> Self {
        Self { on_one_core: true, ..self }
    }
}
