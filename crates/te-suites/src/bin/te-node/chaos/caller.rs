//! One caller: a batch of random requests after the other, each checked from end to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use te_engine::{
    BatchId, Opcode, Region, RegisterOptions, RemoteSide, SegmentId, TaskState, TransferRequest,
    TransferStatus, UnregisterError,
};
use te_suites::pattern::{self, Random};
use te_suites::{now, pace};

use super::LANES;
use super::report::{Report, word};
use super::slot::Slot;
use crate::chain;
use crate::life::Engine;

/// What an end may take beyond the deadline of its request.
const LATE: Duration = Duration::from_secs(5);

/// A target, with the slots of one caller.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// Address of the first slot.
    pub(crate) addr: u64,
    pub(crate) slots: Vec<Slot>,
}

/// The caller.
#[derive(Debug)]
pub(crate) struct Caller {
    engine: Engine,
    random: Random,
    targets: Vec<Target>,
    memory: Region,
    lane: u64,
    /// The pattern that stands in each lane of our memory while no request uses it.
    resting: Vec<u64>,
    /// The last seed that was given; each is given once.
    last_seed: u64,
    begun: Instant,
    report: Report,
}

/// One request of a batch.
#[derive(Debug, Clone, Copy)]
struct Plan {
    lane: u64,
    op: Opcode,
    seed: u64,
    len: u64,
    checked: bool,
}

impl Caller {
    /// Caller `number` of a run with this seed.
    pub(crate) fn new(
        engine: Engine,
        (seed, number): (u64, u64),
        targets: Vec<Target>,
        lane: u64,
    ) -> Result<Self, String> {
        let memory = engine.allocate(LANES * lane).map_err(|error| chain(&error))?;
        engine.register(&memory, RegisterOptions::default()).map_err(|error| chain(&error))?;
        let mut caller = Self {
            engine,
            random: Random::new(seed ^ (number << 48)),
            targets,
            memory,
            lane,
            resting: vec![0; usize::try_from(LANES).unwrap_or(0)],
            last_seed: (seed ^ number.wrapping_mul(0x9e37_79b9)) << 24,
            begun: now(),
            report: Report::default(),
        };
        (0..LANES).try_for_each(|lane| caller.rest(lane))?;
        Ok(caller)
    }

    /// Calls until it is told to stop, and looks at every slot once more.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> Report {
        while !stop.load(Ordering::Relaxed) {
            if let Err(what) = self.step() {
                self.report.wrong(format!("{:?}: {what}", self.begun.elapsed()));
            }
        }
        for target in &self.targets {
            for slot in &target.slots {
                let good = slot.is_unchanged().and_then(|()| slot.explain(&slot.bytes()?));
                if let Err(what) = good {
                    self.report.wrong(format!("at the end, {}: {what}", target.name));
                }
            }
        }
        self.report
    }

    fn step(&mut self) -> Result<(), String> {
        let at = usize::try_from(self.random.below(self.targets.len() as u64)).unwrap_or(0);
        let Ok(target) = self.engine.open_segment(&self.targets[at].name) else {
            self.report.refused();
            pace(Duration::from_millis(10));
            return Ok(());
        };
        let timeout = Duration::from_millis([30, 300, 2000, 5000][self.pick(4)]);
        let plans = self.plan(at)?;
        let requests: Vec<_> =
            plans.iter().map(|plan| self.request(plan, (at, target), timeout)).collect();
        let batch = self.engine.allocate_batch(requests.len()).map_err(|error| chain(&error))?;
        let begun = now();
        if self.engine.submit(batch, &requests).is_err() {
            self.report.refused();
            self.engine.free_batch(batch).map_err(|error| chain(&error))?;
            return self.give_up(at, &plans);
        }
        self.report.submitted(plans.len() as u64);
        self.interfere(batch, plans.len())?;
        self.engine
            .wait(batch, (timeout + LATE).saturating_sub(begun.elapsed()))
            .map_err(|error| format!("no end in {timeout:?} + {LATE:?}: {error}"))?;
        let late = begun.elapsed().saturating_sub(timeout);
        let ends = self.ends(batch, plans.len())?;
        self.engine.free_batch(batch).map_err(|error| chain(&error))?;
        for (plan, end) in plans.iter().zip(&ends) {
            self.report.ended(end.state, end.remote, u64::try_from(late.as_millis()).unwrap_or(0));
            if let Err(what) = self.check(at, plan, end) {
                let (op, state, remote) = (plan.op, end.state, word(end.remote));
                self.report.wrong(format!(
                    "{:?}: {op:?} of {} B at {}, {state:?}, {remote}: {what}",
                    self.begun.elapsed(),
                    plan.len,
                    self.targets[at].name
                ));
            }
            self.rest(plan.lane)?;
        }
        Ok(())
    }

    fn pick(&mut self, n: u64) -> usize {
        usize::try_from(self.random.below(n)).unwrap_or(0)
    }

    fn new_seed(&mut self) -> u64 {
        self.last_seed += 1;
        self.last_seed
    }

    /// Makes a plan for some lanes, after a look at what they should have kept.
    fn plan(&mut self, at: usize) -> Result<Vec<Plan>, String> {
        let mut plans = Vec::new();
        for lane in 0..1 + self.random.below(LANES) {
            self.look_back(at, lane)?;
            let most = 8 << self.random.below(u64::from((self.lane / 8).ilog2()) + 1);
            let len = 8 + self.random.below(most) / 8 * 8;
            let op = if self.random.below(3) == 0 { Opcode::Read } else { Opcode::Write };
            let checked = self.random.below(4) == 0;
            let seed = self.new_seed();
            let plan = Plan { lane, op, seed, len: len.min(self.lane), checked };
            if op == Opcode::Write {
                self.fill(lane, seed, plan.len)?;
                self.targets[at].slots[usize::try_from(lane).unwrap_or(0)].unsettle();
            }
            plans.push(plan);
        }
        Ok(plans)
    }

    /// Looks at what a lane should have kept; what it has is taken as it is then.
    fn look_back(&mut self, at: usize, lane: u64) -> Result<(), String> {
        let target = &mut self.targets[at];
        let slot = &mut target.slots[usize::try_from(lane).unwrap_or(0)];
        if let Err(what) = slot.is_unchanged() {
            self.report.wrong(format!("{:?}: {}: {what}", self.begun.elapsed(), target.name));
            slot.unsettle();
        }
        if let Err(what) = self.rests(lane) {
            self.report.wrong(format!("{:?}: {what}", self.begun.elapsed()));
            self.rest(lane)?;
        }
        Ok(())
    }

    fn request(
        &self,
        plan: &Plan,
        (at, target): (usize, SegmentId),
        timeout: Duration,
    ) -> TransferRequest {
        let local = self.memory.range(plan.lane * self.lane, plan.len);
        let local = local.unwrap_or_else(|_| self.memory.whole());
        let offset = self.targets[at].addr + plan.lane * self.lane;
        let request = TransferRequest::write(local, target, offset).with_timeout(timeout);
        TransferRequest { op: plan.op, checked: plan.checked, ..request }
    }

    /// Calls the batch back, or a task of it, or takes the memory away from under it, or none.
    fn interfere(&mut self, batch: BatchId, n: usize) -> Result<(), String> {
        let choice = self.random.below(16);
        if choice < 4 {
            pace(Duration::from_micros(self.random.below(20_000)));
        }
        match choice {
            0 | 1 => self.engine.cancel(batch).map_err(|error| chain(&error)),
            2 => {
                let index = self.pick(n as u64);
                self.engine.cancel_task(batch, index).map_err(|error| chain(&error))
            }
            3 => self.take_memory_away(),
            _ => Ok(()),
        }
    }

    fn take_memory_away(&self) -> Result<(), String> {
        let limit = now() + LATE + LATE;
        loop {
            match self.engine.unregister(self.memory.address()) {
                Ok(()) => break,
                Err(UnregisterError::Busy { .. }) if now() < limit => {}
                Err(error) => return Err(format!("our own memory: {}", chain(&error))),
            }
        }
        let again = self.engine.register(&self.memory, RegisterOptions::default());
        again.map_err(|error| format!("our own memory: {}", chain(&error)))
    }

    /// The ends, looked at twice: they must not change.
    fn ends(&mut self, batch: BatchId, n: usize) -> Result<Vec<TransferStatus>, String> {
        let status = |index| self.engine.status(batch, index).map_err(|error| chain(&error));
        let ends = (0..n).map(status).collect::<Result<Vec<_>, _>>()?;
        for end in &ends {
            if !end.state.is_final() {
                return Err(format!("a final batch has a task that is {:?}", end.state));
            }
            if end.quarantined {
                self.report.quarantined();
            }
        }
        if ends.iter().any(|end| end.quarantined) && !self.engine.wait_quiescent(2 * LATE) {
            return Err("memory stays in quarantine".to_owned());
        }
        let again = (0..n).map(status).collect::<Result<Vec<_>, _>>()?;
        for (first, second) in ends.iter().zip(&again) {
            if first.state != second.state {
                return Err(format!("{:?} became {:?}", first.state, second.state));
            }
        }
        Ok(ends)
    }

    fn check(&mut self, at: usize, plan: &Plan, end: &TransferStatus) -> Result<(), String> {
        let lane = usize::try_from(plan.lane).unwrap_or(0);
        let done = end.state == TaskState::Completed;
        if plan.op == Opcode::Read {
            let read = self.read(plan.lane, plan.len)?;
            return if done { self.targets[at].slots[lane].agrees(&read) } else { Ok(()) };
        }
        let slot = &mut self.targets[at].slots[lane];
        let (state, remote) = (end.state, word(end.remote));
        let fault = end.fault.as_ref().map(ToString::to_string).unwrap_or_default();
        let when = self.begun.elapsed();
        slot.note(plan.seed, format!("{when:?}, {} B, {state:?}, {remote}, {fault}", plan.len));
        if done || end.remote != RemoteSide::Untouched {
            slot.wrote(plan.seed, plan.len, done);
        }
        let bytes = slot.bytes()?;
        slot.explain(&bytes)?;
        slot.look(bytes, end.remote);
        Ok(())
    }

    /// A batch that was refused wrote nothing.
    fn give_up(&mut self, at: usize, plans: &[Plan]) -> Result<(), String> {
        for plan in plans {
            let slot = &self.targets[at].slots[usize::try_from(plan.lane).unwrap_or(0)];
            slot.explain(&slot.bytes()?)?;
            self.rest(plan.lane)?;
        }
        Ok(())
    }

    // ---- our memory

    fn fill(&self, lane: u64, seed: u64, len: u64) -> Result<(), String> {
        let bytes = pattern::bytes(seed, usize::try_from(len).unwrap_or(0));
        self.memory.write_from(lane * self.lane, &bytes).map_err(|error| chain(&error))
    }

    fn read(&self, lane: u64, len: u64) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.memory.read_into(lane * self.lane, &mut bytes).map_err(|error| chain(&error))?;
        Ok(bytes)
    }

    /// Puts a pattern into a lane that no request has; no target may ever hold it.
    fn rest(&mut self, lane: u64) -> Result<(), String> {
        let seed = self.new_seed();
        self.resting[usize::try_from(lane).unwrap_or(0)] = seed;
        self.fill(lane, seed, self.lane)
    }

    /// Whether a lane still holds it.
    fn rests(&self, lane: u64) -> Result<(), String> {
        let seed = self.resting[usize::try_from(lane).unwrap_or(0)];
        let bytes = self.read(lane, self.lane)?;
        if bytes == pattern::bytes(seed, bytes.len()) {
            return Ok(());
        }
        Err("our memory changed although no request used it".to_owned())
    }
}
