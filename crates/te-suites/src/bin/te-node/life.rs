//! Commands about the life of the engine: what it holds, whom it knows, and how it ends.

use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::{Value, json};
use te_engine::{EngineCloseReport, Notify, TransferEngine};
use te_suites::{now, wire};

use crate::commands::{Node, Refusal, refusal, text, word};
use crate::transfer::millis;
use crate::{answer, chain};

impl Node {
    /// The commands of this file and of those that it knows.
    pub(crate) fn dispatch_life(&mut self, c: &Value) -> Result<Value, Refusal> {
        match c["op"].as_str().unwrap_or_default() {
            "quarantined" => Ok(json!({ "bytes": self.engine.quarantined_bytes() })),
            "quiescent" => {
                let patience = Duration::from_millis(word(c, "timeout_ms")?);
                Ok(json!({ "is": self.engine.wait_quiescent(patience) }))
            }
            "stats" => Ok(self.stats()),
            "open" | "probes" => self.at_once(c),
            "forget" => self.forget(c),
            "tell" => self.tell(c),
            "protect" => {
                let access = text(c, "access")?;
                let done = self.memory.protect(word(c, "addr")?, word(c, "len")?, access);
                done.map(|()| json!({})).map_err(|why| (-1, why))
            }
            "via" => {
                let target = self.engine.open_segment(text(c, "target")?);
                let target = target.map_err(|error| refusal(error.into()))?;
                Ok(json!({ "transport": self.engine.transport_to(target) }))
            }
            "guard_memory" => {
                let behavior = rustix::process::DumpableBehavior::NotDumpable;
                let done = rustix::process::set_dumpable_behavior(behavior);
                done.map(|()| json!({})).map_err(|error| (-1, error.to_string()))
            }
            "hog" => self.hog(c),
            "unhog" => {
                self.hogs.clear();
                Ok(json!({}))
            }
            "close" => Ok(told(self.engine.close(millis(c, "timeout_ms").unwrap_or(CLOSE)))),
            "fork" => self.fork(c),
            "publication" | "published" | "reg_many" | "known" | "sync" => {
                self.dispatch_publication(c)
            }
            _ => self.dispatch_load(c),
        }
    }

    fn stats(&self) -> Value {
        let s = self.engine.stats();
        json!({
            "submitted": s.submitted, "completed": s.completed, "failed": s.failed,
            "retries": s.retries, "refreshes": s.refreshes, "stale": s.stale_completions,
            "notify_refused": s.notify_refused,
        })
    }

    /// Opens or probes every name in `targets` from a thread of its own, all at the same moment.
    fn at_once(&self, c: &Value) -> Result<Value, Refusal> {
        let names: Vec<&str> =
            c["targets"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let start = Barrier::new(names.len());
        let engine = &*self.engine;
        let open = |name: &str| {
            start.wait();
            let begun = now();
            let error = if c["op"] == "open" {
                engine.open_segment(name).err().map(|error| chain(&error))
            } else {
                engine.probe(name, Duration::from_secs(2)).err().map(|error| chain(&error))
            };
            (begun.elapsed(), error)
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let open = &open;
            let threads: Vec<_> =
                names.iter().map(|name| scope.spawn(move || open(name))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
        });
        if outcomes.len() != names.len() {
            return Err((-1, "an opener panicked".to_owned()));
        }
        let slowest = outcomes.iter().map(|(took, _)| *took).max().unwrap_or_default();
        let errors: Vec<&String> = outcomes.iter().filter_map(|(_, why)| why.as_ref()).collect();
        let mut answer =
            json!({ "failed": errors.len(), "slowest_ms": slowest.as_secs_f64() * 1000.0 });
        answer["ms"] = outcomes.iter().map(|(took, _)| took.as_secs_f64() * 1000.0).collect();
        if let Some(first) = errors.first() {
            answer["error"] = json!(first);
        }
        Ok(answer)
    }

    fn forget(&self, c: &Value) -> Result<Value, Refusal> {
        let done = self.engine.forget_segment(text(c, "target")?);
        done.map(|()| json!({})).map_err(|error| refusal(error.into()))
    }

    /// Sends a notification that follows no transfer, `n` times; tells how many were taken.
    fn tell(&self, c: &Value) -> Result<Value, Refusal> {
        let (name, msg) = (text(c, "name")?.to_owned(), text(c, "msg")?.to_owned());
        let notify = Notify { name, msg };
        let target = text(c, "target")?;
        for taken in 0..c["n"].as_u64().unwrap_or(1) {
            if let Err(error) = self.engine.notify(target, &notify) {
                return Ok(json!({ "rc": error.code(), "taken": taken, "error": chain(&error) }));
            }
        }
        Ok(json!({ "taken": c["n"].as_u64().unwrap_or(1) }))
    }

    /// Opens connections that say nothing, from our own ports, and keeps them.
    fn hog(&mut self, c: &Value) -> Result<Value, Refusal> {
        let (host, port) = (text(c, "host")?, word(c, "port")?);
        let port = u16::try_from(port).map_err(|error| (-1, error.to_string()))?;
        let before = self.hogs.len();
        for _ in 0..word(c, "n")? {
            match TcpStream::connect((host, port)) {
                Ok(stream) => {
                    // A reset frees the port at once.
                    let reset = wire::reset_on_close(&stream);
                    reset.map_err(|cause| (-1, cause.to_string()))?;
                    self.hogs.push(stream);
                }
                Err(cause) => {
                    let n = self.hogs.len() - before;
                    return Ok(json!({ "n": n, "why": cause.to_string() }));
                }
            }
        }
        Ok(json!({ "n": self.hogs.len() - before }))
    }
}

/// How long closing may take when the command does not say.
pub(crate) const CLOSE: Duration = Duration::from_secs(5);

/// What closing left.
pub(crate) fn told(report: EngineCloseReport) -> Value {
    json!({
        "open_tasks": report.open_tasks, "joined": report.joined, "kept": report.kept_bytes,
    })
}

/// Ends the node in one of the ways that programs end in: `drop` lets the engine go out of scope,
/// `exit` leaves the process under its feet, `panic` unwinds through it.
pub(crate) fn end(node: Node, how: &str) -> ExitCode {
    let begun = now();
    match how {
        "exit" => std::process::exit(0),
        "panic" => {
            let _engine = node;
            panic!("the command asked for it");
        }
        _ => {
            drop(node);
            answer(&json!({ "rc": 0, "s": begun.elapsed().as_secs_f64() }));
            ExitCode::SUCCESS
        }
    }
}

/// An engine that is shared with threads of ours.
pub(crate) type Engine = Arc<TransferEngine>;
