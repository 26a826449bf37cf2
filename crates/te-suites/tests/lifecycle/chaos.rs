//! Chaos: everything at once, at random, from a seed.
//!
//! Four targets, two initiators with eight callers each, and a third initiator that is itself
//! killed. The callers (`te-node`, chaos.rs) know what every word of their slots may be; this side
//! breaks things on a schedule that depends on the seed only. What nobody may write stands between
//! and around the slots, in memory that is not registered too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use te_suites::pattern::Random;
use te_suites::wire::{Fault, Front};
use te_suites::{
    Bound, Case, Heartbeat, Kind, Node, NodeSpec, TempDir, available_memory, chaos_seconds,
    chaos_seed, need, now, pace, say,
};

/// Bytes of one slot; a caller has four in each target.
const LANE: u64 = 512 << 10;

/// From one caller's slots to the next one's: four slots, and bytes that nobody may write.
const STRIDE: u64 = 4 * LANE + GAP;

const GAP: u64 = 4096;

/// Bytes at both ends of a target's memory that are not registered.
const MARGIN: u64 = 64 << 10;

/// Callers with slots: 16 that live, 2 that die.
const CALLERS: u64 = 18;

const SIZE: u64 = 2 * MARGIN + CALLERS * STRIDE;

/// What stands where nobody may write.
const CANARY: u8 = 0xca;

const TARGETS: usize = 4;

/// A target: the process, its memory, and what leads to it.
struct Target {
    node: Node,
    file: PathBuf,
    addr: u64,
    front: Option<Front>,
    /// When it goes on, if it is stopped.
    resumes: Option<Instant>,
    /// When its line is set right, if it is broken.
    heals: Option<Instant>,
}

impl Target {
    fn start(dir: &TempDir, number: usize) -> Self {
        let file = dir.path().join(format!("target-{number}"));
        let mut bytes = vec![CANARY; usize::try_from(SIZE).unwrap()];
        for caller in 0..CALLERS {
            let start = usize::try_from(MARGIN + caller * STRIDE).unwrap();
            bytes[start..start + 4 * usize::try_from(LANE).unwrap()].fill(0);
        }
        std::fs::write(&file, bytes).unwrap();
        let addr = 0x5000_0000_0000 + ((number as u64) << 36);
        let node = spec(&file, addr).start();
        // Half of them are reached directly, half through a line that can be broken.
        let front = (number % 2 == 1).then(|| Front::start(&node, Fault::None).unwrap());
        Self { node, file, addr, front, resumes: None, heals: None }
    }

    fn name(&self) -> &str {
        self.front.as_ref().map_or_else(|| self.node.name(), Front::name)
    }

    fn told(&self) -> Value {
        json!({ "name": self.name(), "file": self.file, "addr": self.addr })
    }

    /// Ends it as a crash would and starts it again under its name, with its memory.
    fn restart(&mut self) {
        let port = self.node.rpc_port();
        self.node.child().kill();
        self.node = spec(&self.file, self.addr).port(port).start();
        self.resumes = None;
    }

    /// Takes its memory back, looks whether that is so, and gives it again.
    fn withdraw(&mut self) -> Result<(), String> {
        let (start, len) = (self.addr + MARGIN, SIZE - 2 * MARGIN);
        let taken = self.node.unreg(start);
        if !taken.is_ok() {
            return Err(format!("{}: unregister: {}", self.node.name(), taken.refused()));
        }
        let before = self.bytes();
        pace(Duration::from_millis(100));
        let changed = before != self.bytes();
        self.node.reg(start, len).ok();
        if changed {
            Err(format!("{}: changed after unregister", self.node.name()))
        } else {
            Ok(())
        }
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.file).unwrap()
    }

    /// Whether everything that nobody may write is as it was.
    fn canaries(&self) -> Result<(), String> {
        let bytes = self.bytes();
        let (margin, stride) = (usize::try_from(MARGIN).unwrap(), usize::try_from(STRIDE).unwrap());
        let slots = 4 * usize::try_from(LANE).unwrap();
        let inner = &bytes[margin..bytes.len() - margin];
        let gaps = inner.chunks(stride).map(|piece| &piece[slots..]);
        let margins = [&bytes[..margin], &bytes[bytes.len() - margin..]];
        let good = gaps.chain(margins).all(|piece| piece.iter().all(|byte| *byte == CANARY));
        if good { Ok(()) } else { Err(format!("{}: a byte outside was written", self.node.name())) }
    }
}

fn spec(file: &std::path::Path, addr: u64) -> NodeSpec {
    let spec = NodeSpec::new(Kind::Te, SIZE).file(file).at(addr);
    limits(spec.arg("--margin").arg(&MARGIN.to_string()))
}

/// Limits that a minute of chaos can reach.
fn limits(spec: NodeSpec) -> NodeSpec {
    spec.env("MC_TCP_PROGRESS_TIMEOUT_SEC", "3")
        .env("TE_TCP_CONNECT_TIMEOUT_MS", "1500")
        .env("TE_ENGINE_UNREGISTER_TIMEOUT_MS", "2000")
        .env("TE_PEER_EXCHANGE_TIMEOUT_SECONDS", "2")
}

/// A process with callers.
struct Initiator {
    node: Node,
    first: u64,
    callers: u64,
    /// What it held before it had callers.
    case: Option<Case>,
    resumes: Option<Instant>,
}

impl Initiator {
    fn start((first, callers): (u64, u64), targets: &[Target], seed: u64, known: bool) -> Self {
        let mut node = limits(NodeSpec::new(Kind::Te, 4096)).start();
        let case = Some(Case::start(&format!("FB38: callers from {first} on"), node.pid()));
        let told: Vec<Value> = targets.iter().map(Target::told).collect();
        let command = json!({
            "op": "chaos_start", "first": first, "callers": callers, "seed": seed,
            "targets": told, "lane": LANE, "stride": STRIDE, "margin": MARGIN, "known": known,
        });
        node.ask(&command).ok();
        Self { node, first, callers, case, resumes: None }
    }
}

/// One thing to do: to whom, with what, until when.
struct Strike {
    deed: usize,
    at: usize,
    fault: Fault,
    long: Instant,
    short: Instant,
    seed: u64,
}

/// What may become of a line.
const FAULTS: [Fault; 4] = [Fault::CutAll, Fault::Stall, Fault::Swallow, Fault::HalfClose];

/// Everything that runs.
struct World {
    targets: Vec<Target>,
    initiators: Vec<Initiator>,
    /// Dies, again and again.
    victim: Initiator,
    random: Random,
    /// What was done when, for the text of a failure.
    deeds: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
    begun: Instant,
}

impl World {
    fn start(dir: &TempDir, seed: u64) -> Self {
        let targets: Vec<_> = (0..TARGETS).map(|number| Target::start(dir, number)).collect();
        let initiators = [(0, 8), (8, 8)];
        let initiators = initiators.map(|places| Initiator::start(places, &targets, seed, true));
        let victim = Initiator::start((16, 2), &targets, seed, false);
        Self {
            targets,
            initiators: initiators.into_iter().collect(),
            victim,
            random: Random::new(seed),
            deeds: Vec::new(),
            counts: BTreeMap::new(),
            wrong: Vec::new(),
            begun: now(),
        }
    }

    fn did(&mut self, what: &'static str, whom: &str) {
        *self.counts.entry(what).or_default() += 1;
        self.deeds.push(format!("{:>7.3} s {what} {whom}", self.begun.elapsed().as_secs_f64()));
    }

    /// What is done next, drawn as a whole, so that the schedule does not depend on what happened.
    fn draw(&mut self) -> Strike {
        let mut below = |n: usize| usize::try_from(self.random.below(n as u64)).unwrap();
        let (deed, at, fault) = (below(12), below(TARGETS), below(FAULTS.len()));
        let time =
            |most: u64, random: &mut Random| now() + Duration::from_millis(5 + random.below(most));
        let long = time(2500, &mut self.random);
        let short = time(800, &mut self.random);
        Strike { deed, at, fault: FAULTS[fault], long, short, seed: self.random.word() }
    }

    /// One deed, on something that is not suffering already.
    fn strike(&mut self) {
        let Strike { deed, at, fault, long, short, seed } = self.draw();
        let name = format!("target {at}");
        let suffers = self.targets[at].resumes.is_some();
        match deed {
            0 | 1 => {
                self.did("kill", &name);
                self.targets[at].restart();
            }
            2..=4 if !suffers => {
                self.did("stop", &name);
                self.targets[at].resumes = Some(long);
                self.targets[at].node.child().stop();
            }
            5 | 6 if !suffers => {
                self.did("unregister", &name);
                let withdrawn = self.targets[at].withdraw();
                self.wrong.extend(withdrawn.err());
            }
            7 | 8 => self.disturb(at | 1, fault, short),
            9 => {
                let at = at % 2;
                if self.initiators[at].resumes.is_none() {
                    self.did("stop", &format!("initiator {at}"));
                    self.initiators[at].resumes = Some(short);
                    self.initiators[at].node.child().stop();
                }
            }
            10 => {
                self.did("kill", "the victim");
                let places = (self.victim.first, self.victim.callers);
                self.victim.node.child().kill();
                self.victim = Initiator::start(places, &self.targets, seed, false);
            }
            _ => {}
        }
    }

    /// Breaks the line to a target for a while, or cuts all its connections.
    fn disturb(&mut self, at: usize, fault: Fault, until: Instant) {
        self.did("break", &format!("the line to target {at}: {fault:?}"));
        self.targets[at].heals = Some(until);
        if let Some(front) = &self.targets[at].front {
            front.proxy().set(fault);
        }
    }

    /// Ends what has lasted long enough; with `all`, everything.
    fn relent(&mut self, all: bool) {
        let due = |at: &Option<Instant>| at.is_some_and(|at| all || now() >= at);
        for target in &mut self.targets {
            if due(&target.resumes) {
                target.resumes = None;
                target.node.child().resume();
            }
            if due(&target.heals) {
                target.heals = None;
                target.front.iter().for_each(|front| front.proxy().set(Fault::None));
            }
        }
        for initiator in &mut self.initiators {
            if due(&initiator.resumes) {
                initiator.resumes = None;
                initiator.node.child().resume();
            }
        }
    }

    fn rage(&mut self, time: Duration) {
        let mut next = now();
        while self.begun.elapsed() < time {
            self.relent(false);
            if now() >= next {
                self.strike();
                next = now() + Duration::from_millis(20 + self.random.below(280));
            }
            pace(Duration::from_millis(5));
        }
        self.relent(true);
    }

    /// Stops the callers and puts together what they found.
    fn report(&mut self) -> Vec<Value> {
        // The last requests have to end by themselves.
        const LAST: Duration = Duration::from_secs(60);
        let all = self.initiators.iter_mut().chain([&mut self.victim]);
        let mut all: Vec<_> = all.map(|initiator| &mut initiator.node).collect();
        all.iter_mut().for_each(|node| node.send(&json!({ "op": "chaos_stop" })));
        let mut reports = Vec::new();
        for node in all {
            let report = node.receive(LAST).ok();
            let what = report.value("what").as_array().cloned().unwrap_or_default();
            self.wrong.extend(what.iter().filter_map(Value::as_str).map(str::to_owned));
            reports.push(json!({}));
            let last = reports.last_mut().unwrap();
            for key in COUNTS {
                last[key] = report.value(key).clone();
            }
        }
        for target in &self.targets {
            self.wrong.extend(target.canaries().err());
        }
        reports
    }
}

/// What the callers count.
const COUNTS: [&str; 11] = [
    "submitted",
    "completed",
    "failed",
    "timeout",
    "canceled",
    "invalid",
    "in_doubt",
    "quarantined",
    "refused",
    "late_ms",
    "wrong",
];

#[test]
fn fb38_chaos_ends_every_task_once_and_tells_the_truth() {
    // FB38: random kills, stops, restarts, cancels, unregistrations, timeouts and broken lines.
    // Each task has one end within its deadline + 5 s; no byte of a completed one is wrong; none is
    // written outside, and none after a settled end; what the processes hold is what they held.
    let test = "fb38_chaos_ends_every_task_once_and_tells_the_truth";
    need!(test, Kind::Te.available());
    need!(test, available_memory(2 << 30));
    let seconds = chaos_seconds();
    let seed = chaos_seed().unwrap_or_else(fresh_seed);
    say(&format!("{test}: {seconds} s; TE_CHAOS_SEED={seed} repeats the schedule"));
    let dir = need!(test, TempDir::in_memory());
    let mut world = World::start(&dir, seed);
    let heartbeat = Heartbeat::start();
    world.rage(Duration::from_secs(seconds));
    let reports = world.report();
    say(&format!("{test}: deeds {:?}, worst stall {:?}", world.counts, heartbeat.worst()));
    for report in &reports {
        say(&format!("{test}: {report}"));
    }
    for report in &reports[..2] {
        let n = |key: &str| report[key].as_u64().unwrap();
        let ended = n("completed") + n("failed") + n("timeout") + n("canceled");
        if ended != n("submitted") {
            world.wrong.push(format!("{} tasks, {ended} ends", n("submitted")));
        }
        assert!(n("completed") > 100, "hardly anything went through: {report}");
    }
    if !world.wrong.is_empty() {
        let (wrong, deeds) = (world.wrong.join("\n  "), world.deeds.join("\n  "));
        panic!("seed {seed}:\n  {wrong}\nwhat was done:\n  {deeds}");
    }
    let bound = Bound::NOTHING.with_threads(2).with_rss_mib(64);
    for case in world.initiators.iter_mut().filter_map(|initiator| initiator.case.take()) {
        case.end(bound);
    }
    for target in &mut world.targets {
        target.node.ping();
    }
}

/// A seed that is another one each time.
fn fresh_seed() -> u64 {
    let port = te_suites::free_port("127.0.0.1").map_or(1, u64::from);
    port << 20 | u64::from(std::process::id())
}
