//! Commands that keep an engine under load for a while, and tell what each caller got.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use te_engine::{BatchError, Opcode, TaskState, TransferEngine, TransferRequest};
use te_suites::{now, pace};

use crate::chain;
use crate::commands::{Node, Refusal, text, word};

impl Node {
    /// The commands of this file, and of those after it.
    pub(crate) fn dispatch_load(&mut self, c: &Value) -> Result<Value, Refusal> {
        match text(c, "op")? {
            "flood" => self.flood(c),
            "cycles" => self.cycles(c),
            "flaws" => self.flaws(c),
            "pings" => self.pings(c),
            _ => self.dispatch_registering(c),
        }
    }

    /// Every role in `roles` is a caller with `threads` threads, each of which writes batches of
    /// `depth` requests of `len` bytes, one batch after the other, for `ms` milliseconds.
    fn flood(&self, c: &Value) -> Result<Value, Refusal> {
        let until = now() + Duration::from_millis(word(c, "ms")?);
        let mut roles = Vec::new();
        for role in c["roles"].as_array().into_iter().flatten() {
            let request = self.request(Opcode::Write, role)?;
            let depth = usize::try_from(role["depth"].as_u64().unwrap_or(1)).unwrap_or(1);
            roles.push((vec![request; depth], role["threads"].as_u64().unwrap_or(1)));
        }
        let engine = &*self.engine;
        let gained: Vec<Gain> = std::thread::scope(|scope| {
            let start = |(requests, n): &(Vec<TransferRequest>, u64)| {
                let requests = requests.clone();
                let callers = (0..*n).map(|_| {
                    let requests = requests.clone();
                    scope.spawn(move || write_until(engine, &requests, until))
                });
                callers.collect::<Vec<_>>()
            };
            let all: Vec<_> = roles.iter().map(start).collect();
            let join = |callers: Vec<std::thread::ScopedJoinHandle<'_, Gain>>| {
                callers
                    .into_iter()
                    .filter_map(|caller| caller.join().ok())
                    .fold(Gain::default(), Gain::and)
            };
            all.into_iter().map(join).collect()
        });
        Ok(json!({ "roles": gained.into_iter().map(Gain::told).collect::<Vec<_>>() }))
    }

    /// `n` batches of one request, allocated, submitted, waited for and freed: of each four, two
    /// that go through, one that is refused and one whose time is up at once.
    fn cycles(&self, c: &Value) -> Result<Value, Refusal> {
        let good = self.request(Opcode::Write, c)?;
        let bad = TransferRequest { offset: 1 << 46, ..good.clone() };
        let late = good.clone().with_timeout(Duration::ZERO);
        let kinds = [&good, &bad, &good, &late];
        let (n, threads) = (word(c, "n")?, word(c, "threads")?);
        let engine = &*self.engine;
        let counts: Vec<Result<Counts, String>> = std::thread::scope(|scope| {
            let run = || {
                let mut counts = Counts::default();
                for i in 0..n / threads {
                    let kind = kinds[usize::try_from(i % 4).unwrap_or(0)];
                    counts.add(cycle(engine, kind)?);
                }
                Ok(counts)
            };
            let callers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            let join = |caller: std::thread::ScopedJoinHandle<'_, _>| caller.join();
            callers.into_iter().filter_map(|caller| join(caller).ok()).collect()
        });
        let mut sum = Counts::default();
        for counts in counts {
            sum.and(counts.map_err(|why| (-1, why))?);
        }
        Ok(json!({ "completed": sum.completed, "failed": sum.failed, "timeout": sum.timeout }))
    }

    /// `n` requests one after the other, each after a silence of `idle_ms`.
    fn pings(&self, c: &Value) -> Result<Value, Refusal> {
        let request = self.request(Opcode::Write, c)?;
        let idle = Duration::from_millis(word(c, "idle_ms")?);
        let mut gain = Gain::default();
        for _ in 0..word(c, "n")? {
            if !idle.is_zero() {
                pace(idle);
            }
            let begun = now();
            let moved =
                self.engine.transfer(std::slice::from_ref(&request), Duration::from_secs(60));
            gain.bytes += moved.map_err(|error| (-1, chain(&error)))?;
            gain.took.push(begun.elapsed());
        }
        Ok(gain.told())
    }

    /// A batch of `n` requests of which every one fails, `rounds` times; tells the first text.
    fn flaws(&self, c: &Value) -> Result<Value, Refusal> {
        let request = self.request(Opcode::Write, c)?;
        let requests = vec![request; usize::try_from(word(c, "n")?).unwrap_or(1)];
        let mut text = String::new();
        for _ in 0..word(c, "rounds")? {
            match self.engine.transfer(&requests, Duration::from_secs(60)) {
                Ok(_) => return Err((-1, "a batch went through".to_owned())),
                Err(error) => text = chain(&error),
            }
        }
        Ok(json!({ "text": text }))
    }
}

/// One batch from its allocation to its end.
fn cycle(engine: &TransferEngine, request: &TransferRequest) -> Result<TaskState, String> {
    let told = |error: &dyn std::error::Error| chain(error);
    let batch = engine.allocate_batch(1).map_err(|error| told(&error))?;
    engine.submit(batch, std::slice::from_ref(request)).map_err(|error| told(&error))?;
    match engine.free_batch(batch) {
        Err(BatchError::Busy { .. }) => {
            engine.wait(batch, Duration::from_secs(60)).map_err(|error| told(&error))?;
        }
        // It was final already, and is gone: its state cannot be asked for any more.
        Ok(()) => return Ok(TaskState::Pending),
        Err(error) => return Err(told(&error)),
    }
    let status = engine.status(batch, 0).map_err(|error| told(&error))?;
    engine.free_batch(batch).map_err(|error| told(&error))?;
    match engine.free_batch(batch) {
        Err(BatchError::Unknown { .. }) => Ok(status.state),
        other => Err(format!("a second free gave {other:?}")),
    }
}

/// How batches ended.
#[derive(Debug, Default)]
struct Counts {
    completed: u64,
    failed: u64,
    timeout: u64,
}

impl Counts {
    fn add(&mut self, state: TaskState) {
        match state {
            TaskState::Completed => self.completed += 1,
            TaskState::Timeout => self.timeout += 1,
            TaskState::Pending => {}
            _ => self.failed += 1,
        }
    }

    fn and(&mut self, other: Self) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.timeout += other.timeout;
    }
}

/// What one caller got.
#[derive(Debug, Default)]
struct Gain {
    bytes: u64,
    took: Vec<Duration>,
    failed: u64,
    error: Option<String>,
}

impl Gain {
    fn and(mut self, other: Self) -> Self {
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.took.extend(other.took);
        self.error = self.error.or(other.error);
        self
    }

    fn told(mut self) -> Value {
        self.took.sort_unstable();
        let at = |percent: usize| {
            let place = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
            self.took.get(place).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
        };
        json!({
            "bytes": self.bytes, "n": self.took.len(), "failed": self.failed, "error": self.error,
            "p50_ms": at(50), "p99_ms": at(99), "max_ms": at(100),
        })
    }
}

fn write_until(engine: &TransferEngine, requests: &[TransferRequest], until: Instant) -> Gain {
    let mut gain = Gain::default();
    while now() < until {
        let begun = now();
        match engine.transfer(requests, Duration::from_secs(60)) {
            Ok(bytes) => gain.bytes += bytes,
            Err(error) => {
                gain.failed += 1;
                gain.error = Some(chain(&error));
            }
        }
        gain.took.push(begun.elapsed());
    }
    gain
}
