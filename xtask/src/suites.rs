//! Which suites there are, and running one.

use anyhow::Context as _;

use crate::flags::Level;
use crate::journal::Journal;
use crate::outcome::{Outcome, Tally, TestResult};
use crate::results::LastRun;
use crate::ui;
use crate::workspace::Workspace;
use crate::{capi, consumers, features, guest, loom, memory, python, rdma, system, topology, unit};

/// One rung of the ladder that docs/testing.md describes.
#[derive(Debug)]
pub(crate) struct Suite {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it proves, in one line.
    pub(crate) about: &'static str,
    /// The lowest level that includes it.
    pub(crate) from: Level,
    /// How it is run.
    pub(crate) kind: Kind,
}

/// How a suite is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unit, contract and documentation tests of every crate.
    Unit,
    /// Builds of single crates with single features.
    Features,
    /// An outside workspace that uses the crates.
    Consumers,
    /// A file `crates/te-suites/tests/NAME.rs`: real processes.
    System(PeerUse),
    /// Tests in which every interleaving of a few threads is tried.
    Loom,
    /// Tests under AddressSanitizer and valgrind.
    Memory,
    /// Emulated machines.
    Guest,
    /// Machines in files, this one, and emulated ones.
    Topology,
    /// A fake fabric, and emulated machines.
    Rdma,
    /// Programs in C, C++ and Go on the C library.
    Capi,
    /// Tests in Python of what te-python builds.
    Python,
}

/// Which tests of a system suite need the real peer, which comes from PyPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerUse {
    /// None.
    None,
    /// Some; without it these are skipped.
    Some,
    /// All; without it the suite is skipped.
    All,
}

/// All suites, in the order in which `test` runs them.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "unit",
        about: "each crate by itself: unit, property, contract and documentation tests",
        from: Level::Quick,
        kind: Kind::Unit,
    },
    Suite {
        name: "features",
        about: "each crate builds alone, with each of its features, without warnings",
        from: Level::Default,
        kind: Kind::Features,
    },
    Suite {
        name: "faults",
        about: "the attacks and accidents that a real Mooncake was put through, on us",
        from: Level::Default,
        kind: Kind::System(PeerUse::None),
    },
    Suite {
        name: "lifecycle",
        about: "transfers, regions and peers that end: killed, stopped, restarted, taken away",
        from: Level::Default,
        kind: Kind::System(PeerUse::Some),
    },
    Suite {
        name: "shm",
        about: "processes of one host that copy directly, under guards that both see",
        from: Level::Default,
        kind: Kind::System(PeerUse::None),
    },
    Suite {
        name: "field",
        about: "bugs that users of Mooncake reported, as tests of ours",
        from: Level::Default,
        kind: Kind::System(PeerUse::None),
    },
    Suite {
        name: "metadata",
        about: "stores on real etcd, redis and HTTP services that die, hang and are guarded",
        from: Level::Default,
        kind: Kind::System(PeerUse::Some),
    },
    Suite {
        name: "interop",
        about: "the published Mooncake package and us, in both directions",
        from: Level::Default,
        kind: Kind::System(PeerUse::All),
    },
    Suite {
        name: "consumers",
        about: "an outside workspace uses each crate alone, and a transport of its own",
        from: Level::Default,
        kind: Kind::Consumers,
    },
    Suite {
        name: "guest",
        about: "emulated machines with RDMA devices and NUMA nodes are what they say they are",
        from: Level::Default,
        kind: Kind::Guest,
    },
    Suite {
        name: "topology",
        about: "which NIC is near which memory: on machines in files, emulated ones and this one",
        from: Level::Default,
        kind: Kind::Topology,
    },
    Suite {
        name: "rdma",
        about: "RDMA on a fake fabric and on real verbs, with faults, and with the published peer",
        from: Level::Default,
        kind: Kind::Rdma,
    },
    Suite {
        name: "capi",
        about: "programs in C, C++ and Go on the C library, also under valgrind",
        from: Level::Default,
        kind: Kind::Capi,
    },
    Suite {
        name: "python",
        about: "te_engine beside the published package, under code of others, and by itself",
        from: Level::Default,
        kind: Kind::Python,
    },
    Suite {
        name: "loom",
        about: "the lock-free parts, in every order that their threads can run in",
        from: Level::Full,
        kind: Kind::Loom,
    },
    Suite {
        name: "memory",
        about: "region, frame and shared code under AddressSanitizer and valgrind",
        from: Level::Full,
        kind: Kind::Memory,
    },
];

/// What a run of a suite is told.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// How much.
    pub(crate) level: Level,
    /// Only tests whose name contains this.
    pub(crate) filter: Option<String>,
}

/// Finds a suite by its name.
pub(crate) fn find(name: &str) -> anyhow::Result<&'static Suite> {
    let names = || SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ");
    let found = SUITES.iter().find(|suite| suite.name == name);
    found.with_context(|| format!("there is no suite `{name}`; there are {}", names()))
}

/// Runs a suite, keeps its results and prints its closing line. A suite that cannot be run is one
/// failed test.
pub(crate) fn run(
    workspace: &Workspace,
    suite: &Suite,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let _alone = workspace.exclusive()?;
    ui::heading(&format!("suite {} - {}", suite.name, suite.about));
    let started = ui::wall_clock();
    let mut journal = Journal::create(workspace, suite.name)?;
    let results = dispatch(workspace, &mut journal, suite, order).unwrap_or_else(|error| {
        let why = format!("{error:#}");
        ui::error(&why);
        vec![TestResult::new(format!("{}::(all)", suite.name), Outcome::Failed(why))]
    });
    // A part of a suite must not pass for the whole of it.
    if order.filter.is_none() {
        LastRun { started, results: results.clone() }.write(workspace, suite.name)?;
    }
    let tally = Tally::of(&results);
    if tally.n_failed > 0 {
        ui::say(&format!("  the whole output is in {}", journal.shown()));
    }
    ui::say(&format!("suite {}: {tally}", suite.name));
    Ok(results)
}

fn dispatch(
    workspace: &Workspace,
    journal: &mut Journal,
    suite: &Suite,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    match suite.kind {
        Kind::Unit => unit::run(workspace, journal, order),
        Kind::Features => features::run(workspace, journal, order),
        Kind::Consumers => consumers::run(workspace, journal, order),
        Kind::System(peer) => system::run(workspace, journal, suite.name, peer, order),
        Kind::Loom => loom::run(workspace, journal, order),
        Kind::Memory => memory::run(workspace, journal, order),
        Kind::Guest => guest::run_suite(workspace, journal, order),
        Kind::Topology => topology::run(workspace, journal, order),
        Kind::Rdma => rdma::run(workspace, journal, order),
        Kind::Capi => capi::run(workspace, journal, order),
        Kind::Python => python::run(workspace, journal, order),
    }
}
