//! Callers that use the engine at random while a suite breaks what it can, and that check every
//! word of what they are told.
//!
//! Each caller has slots of its own in every target, so that it knows what they may hold. A target's
//! buffer is a mapping of a file: what it holds is read from there, past every engine, also while
//! the target is stopped or dead.
//!
//! One thread for each caller, until the suite asks for the report.

mod caller;
mod report;
mod slot;

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use self::caller::{Caller, Target};
use self::report::Report;
use self::slot::Slot;
use crate::commands::{Node, Refusal, text, word};

/// Slots of one caller in one target, and requests of one batch.
pub(crate) const LANES: u64 = 4;

/// The callers that run.
#[derive(Debug)]
pub(crate) struct Chaos {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Report>>,
}

impl Node {
    /// The commands of this file.
    pub(crate) fn dispatch_chaos(&mut self, c: &Value) -> Result<Value, Refusal> {
        match text(c, "op")? {
            "chaos_start" => self.start_chaos(c),
            "chaos_stop" => self.stop_chaos(),
            other => Err((-1, format!("no command {other}"))),
        }
    }

    /// Starts `callers` callers whose slots follow each other from number `first` on.
    fn start_chaos(&mut self, c: &Value) -> Result<Value, Refusal> {
        let stop = Arc::new(AtomicBool::new(false));
        let (first, n) = (word(c, "first")?, word(c, "callers")?);
        let mut threads = Vec::new();
        for number in first..first + n {
            let targets = c["targets"].as_array().into_iter().flatten();
            let targets = targets.map(|t| target(t, c, number)).collect::<Result<Vec<_>, _>>()?;
            let engine = Arc::clone(&self.engine);
            let caller = Caller::new(engine, (word(c, "seed")?, number), targets, word(c, "lane")?)
                .map_err(|why| (-1, why))?;
            let stop = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || caller.run(&stop)));
        }
        self.chaos = Some(Chaos { stop, threads });
        Ok(json!({}))
    }

    /// Ends them; the answer is what they found.
    fn stop_chaos(&mut self) -> Result<Value, Refusal> {
        let mut chaos = self.chaos.take().ok_or_else(|| (-1, "no caller runs".to_owned()))?;
        chaos.stop.store(true, Ordering::Relaxed);
        let mut sum = Report::default();
        for thread in chaos.threads.drain(..) {
            let report = thread.join().map_err(|_| (-1, "a caller panicked".to_owned()))?;
            sum.and(report);
        }
        Ok(sum.told())
    }
}

/// The target `t` as caller `number` sees it.
fn target(t: &Value, c: &Value, number: u64) -> Result<Target, Refusal> {
    let path = text(t, "file")?;
    let file = File::open(path).map_err(|cause| (-1, format!("{path}: {cause}")))?;
    let file = Arc::new(file);
    let (lane, start) = (word(c, "lane")?, word(c, "margin")? + number * word(c, "stride")?);
    let known = c["known"] == true;
    let slots = (0..LANES).map(|i| Slot::new(Arc::clone(&file), start + i * lane, lane, known));
    Ok(Target {
        name: text(t, "name")?.to_owned(),
        addr: word(t, "addr")? + start,
        slots: slots.collect(),
    })
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // What they found is of no interest any more.
            drop(thread.join());
        }
    }
}
