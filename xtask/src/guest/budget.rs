//! When a guest has had enough: time, processor time, silence, output.
//!
//! On a busy machine five seconds of work take a minute, and a limit on the clock alone would end
//! runs that do nothing wrong. So time is counted less the time in which the guest wanted to run and
//! was not let: the kernel adds that up for each thread. A limit on the clock stands behind, many
//! times as long.
//!
//! ```text
//!            Up               Started             Exit
//!   Booting ────▶ Preparing ─────────▶ Running ─────────▶ Closing
//! ```
//!
//! I1  Each phase has a limit of its own on silence: what sends no frame for so long is stuck.
//! I2  Counted time never runs faster than the clock.

use std::time::Duration;

/// What a run may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Counted time from the start of the program to its end.
    pub(crate) time: Duration,
    /// Processor time of the whole guest.
    pub(crate) cpu: Duration,
    /// Bytes on both output streams together.
    pub(crate) output: u64,
    /// Bytes of files that come back.
    pub(crate) files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(300),
            cpu: Duration::from_secs(1200),
            output: 64 << 20,
            files: 256 << 20,
        }
    }
}

/// How long each phase may be silent, in counted time. A guest sends a beat every second from the
/// moment that it is up; an emulated kernel takes about 4 s to get there.
const SILENCE: Duration = Duration::from_secs(60);

/// How much longer than its counted time a run may take by the clock.
const CLOCK_FACTOR: u32 = 10;

/// How long a guest may take to hand back files once its program has ended, in counted time.
const CLOSING: Duration = Duration::from_secs(60);

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The kernel starts.
    Booting,
    /// Modules are loaded and links made.
    Preparing,
    /// The program runs.
    Running,
    /// The program has ended.
    Closing,
}

/// What a look at the guest's process shows, all since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Time by the clock.
    pub(crate) wall: Duration,
    /// Processor time.
    pub(crate) cpu: Duration,
    /// Time in which it wanted to run and was not let.
    pub(crate) starved: Duration,
}

/// Keeps the account of one run.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    phase: Phase,
    last: Look,
    /// Counted time since the start of the phase, and since the last frame.
    in_phase: Duration,
    silent: Duration,
    n_output: u64,
    n_files: u64,
}

impl Budget {
    /// For a guest that starts now.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            phase: Phase::Booting,
            last: Look::default(),
            in_phase: Duration::ZERO,
            silent: Duration::ZERO,
            n_output: 0,
            n_files: 0,
        }
    }

    /// The guest sent a frame.
    pub(crate) fn heard(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// The run came to this phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.in_phase = Duration::ZERO;
    }

    /// Counts output; whether it is still within the limit.
    pub(crate) fn has_room_for_output(&mut self, n: usize) -> bool {
        self.n_output = self.n_output.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
        self.n_output <= self.limits.output
    }

    /// Counts bytes of files; whether they are still within the limit.
    pub(crate) fn has_room_for_files(&mut self, n: usize) -> bool {
        self.n_files = self.n_files.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
        self.n_files <= self.limits.files
    }

    /// Takes a look; returns the limit that was reached, if one was.
    pub(crate) fn look(&mut self, look: Look) -> Option<String> {
        let wall = look.wall.saturating_sub(self.last.wall);
        let starved = look.starved.saturating_sub(self.last.starved);
        let counted = wall.saturating_sub(starved);
        self.last = look;
        self.in_phase += counted;
        self.silent += counted;
        let clock = (self.limits.time + SILENCE * 2 + CLOSING) * CLOCK_FACTOR;
        if look.wall > clock {
            return Some(format!("{} s by the clock", clock.as_secs()));
        }
        if look.cpu > self.limits.cpu {
            return Some(format!("{} s of processor time", self.limits.cpu.as_secs()));
        }
        match self.phase {
            Phase::Running if self.in_phase > self.limits.time => {
                Some(format!("{} s", self.limits.time.as_secs_f64()))
            }
            Phase::Closing if self.in_phase > CLOSING => {
                Some(format!("{} s to hand back files", CLOSING.as_secs()))
            }
            _ if self.silent > SILENCE => Some(format!(
                "no sign of life for {} s while {}",
                SILENCE.as_secs(),
                self.phase.words()
            )),
            _ => None,
        }
    }

    /// What the last look showed.
    pub(crate) fn last(&self) -> Look {
        self.last
    }
}

impl Phase {
    fn words(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::Preparing => "preparing",
            Self::Running => "the program ran",
            Self::Closing => "it closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn running(time: u64) -> Budget {
        let mut budget = Budget::new(Limits { time: seconds(time), ..Limits::default() });
        budget.enter(Phase::Preparing);
        budget.enter(Phase::Running);
        budget
    }

    fn at(wall: u64, starved: u64) -> Look {
        Look { wall: seconds(wall), cpu: Duration::ZERO, starved: seconds(starved) }
    }

    #[test]
    fn time_without_a_processor_is_not_counted() {
        let mut budget = running(10);
        for second in 1..100 {
            budget.heard();
            assert_eq!(budget.look(at(second, second * 9 / 10)), None, "after {second} s");
        }
        for second in 100..111 {
            budget.heard();
            if let Some(which) = budget.look(at(second, 89)) {
                assert_eq!(which, "10 s");
                return;
            }
        }
        panic!("it was never ended");
    }

    #[test]
    fn an_idle_guest_is_ended_at_its_time() {
        let mut budget = running(10);
        budget.heard();
        assert_eq!(budget.look(at(10, 0)), None);
        assert_eq!(budget.look(at(11, 0)).as_deref(), Some("10 s"));
    }

    #[test]
    fn a_silent_guest_is_told_from_a_slow_one() {
        let mut budget = Budget::new(Limits::default());
        assert_eq!(budget.look(at(60, 0)), None);
        let why = budget.look(at(61, 0)).unwrap();
        assert!(why.contains("booting"), "{why}");
        let mut budget = Budget::new(Limits::default());
        assert_eq!(budget.look(at(600, 550)), None);
    }

    #[test]
    fn the_clock_ends_a_run_that_is_starved_for_ever() {
        let mut budget = running(10);
        let mut look = None;
        for second in 0..10_000 {
            budget.heard();
            look = look.or_else(|| budget.look(at(second, second)));
        }
        assert!(look.unwrap().contains("by the clock"));
    }

    #[test]
    fn processor_time_and_bytes_have_limits() {
        let limits = Limits { cpu: seconds(5), output: 10, files: 4, ..Limits::default() };
        let mut budget = Budget::new(limits);
        assert!(budget.has_room_for_output(10) && !budget.has_room_for_output(1));
        assert!(budget.has_room_for_files(4) && !budget.has_room_for_files(1));
        let spent = Look { wall: seconds(3), cpu: seconds(6), starved: Duration::ZERO };
        assert!(budget.look(spent).unwrap().contains("processor"));
    }
}
