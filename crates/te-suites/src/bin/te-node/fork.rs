//! A command that forks the process while its engine lives, and tells what the child met.
//!
//! The child does what a Python program would do after `os.fork`: it calls the engine that it
//! inherited, builds one of its own, and ends. It reports over a pipe, and an alarm ends it when it
//! hangs.
#![allow(unsafe_code, reason = "there is no fork but the system's")]

use std::io::{Read as _, Write as _};
use std::time::Duration;

use serde_json::{Value, json};
use te_engine::{EngineConfig, RegisterOptions, TransferEngine, TransferRequest};
use te_suites::now;

use crate::chain;
use crate::commands::{Node, Refusal, text, word};

/// Seconds after which a child that hangs is ended by the system.
const ALARM: u32 = 30;

impl Node {
    /// Forks; the child writes `len` bytes to `dst` of `target` with an engine of its own.
    pub(crate) fn fork(&mut self, c: &Value) -> Result<Value, Refusal> {
        let (mut reader, writer) = std::io::pipe().map_err(|error| (-1, error.to_string()))?;
        // SAFETY: the child touches memory of its own copy only, calls what a forked program may
        // be expected to call, and ends in `std::process::exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let report = self.as_child(c);
            let mut writer = writer;
            // The parent sees a report that is cut short.
            let _ = writeln!(writer, "{report}");
            drop(writer);
            std::process::exit(0);
        }
        drop(writer);
        if pid < 0 {
            return Err((-1, std::io::Error::last_os_error().to_string()));
        }
        let mut report = String::new();
        let read = reader.read_to_string(&mut report);
        let code = reap(pid);
        read.map_err(|error| (-1, error.to_string()))?;
        let mut answer: Value = serde_json::from_str(report.trim())
            .map_err(|error| (-1, format!("the child said `{report}`, ended {code}: {error}")))?;
        answer["exit"] = json!(code);
        Ok(answer)
    }

    /// The child's part: everything that a caller may do with the inherited engine, then an engine
    /// of its own, then the end of both.
    fn as_child(&mut self, c: &Value) -> Value {
        // SAFETY: no handler is installed, so the signal only ends this process.
        unsafe { libc::alarm(ALARM) };
        let calls: Vec<Value> = self
            .inherited_calls(c)
            .into_iter()
            .map(|(call, seconds, error)| json!({ "call": call, "s": seconds, "error": error }))
            .collect();
        let own = own_engine(c);
        let begun = now();
        let closed = self.engine.close(Duration::from_secs(1));
        json!({
            "calls": calls, "own": own.err(), "close_s": begun.elapsed().as_secs_f64(),
            "joined": closed.joined,
        })
    }

    /// Name of the call, seconds, and its error.
    fn inherited_calls(&self, c: &Value) -> Vec<(&'static str, f64, Option<String>)> {
        let engine = &*self.engine;
        let target = c["target"].as_str().unwrap_or_default();
        let mut calls = Vec::new();
        let mut call = |name: &'static str, run: &dyn Fn() -> Option<String>| {
            let begun = now();
            let error = run();
            calls.push((name, begun.elapsed().as_secs_f64(), error));
        };
        call("open", &|| engine.open_segment(target).err().map(|e| chain(&e)));
        call("allocate_batch", &|| engine.allocate_batch(1).err().map(|e| chain(&e)));
        call("probe", &|| engine.probe(target, Duration::from_secs(2)).err().map(|e| chain(&e)));
        call("transfer", &|| {
            let request = self.request(te_engine::Opcode::Write, c);
            match request {
                Ok(request) => {
                    engine.transfer(&[request], Duration::from_secs(2)).err().map(|e| chain(&e))
                }
                Err((_, why)) => Some(why),
            }
        });
        call("register", &|| {
            let region = engine.allocate(4096).ok()?;
            engine.register(&region, RegisterOptions::default()).err().map(|e| chain(&e))
        });
        call("unregister", &|| engine.unregister(self.addr).err().map(|e| chain(&e)));
        calls
    }
}

/// Builds an engine, writes with it, and drops it.
fn own_engine(c: &Value) -> Result<(), String> {
    let config = EngineConfig::from_process().map_err(|error| chain(&error))?;
    let built = TransferEngine::builder().config(config).name("127.0.0.1").build();
    let engine = built.map_err(|error| chain(&error))?;
    let len = word(c, "len").map_err(|(_, why)| why)?;
    let region = engine.allocate(len).map_err(|error| chain(&error))?;
    let bytes = vec![0xc4; usize::try_from(len).map_err(|error| error.to_string())?];
    region.write_from(0, &bytes).map_err(|error| chain(&error))?;
    engine.register(&region, RegisterOptions::default()).map_err(|error| chain(&error))?;
    let target = text(c, "target").map_err(|(_, why)| why)?;
    let segment = engine.open_segment(target).map_err(|error| chain(&error))?;
    let dst = word(c, "dst").map_err(|(_, why)| why)?;
    let write = TransferRequest::write(region.whole(), segment, dst);
    engine.transfer(&[write], Duration::from_secs(10)).map_err(|error| chain(&error))?;
    Ok(())
}

/// Waits for the child: its exit code, or its signal as a number below 0.
fn reap(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is a place for one number, and the child is ours and not waited for yet.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if ended != pid {
        return i32::MIN;
    }
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}
