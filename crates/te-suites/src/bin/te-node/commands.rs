//! The commands, by their names on the wire between suite and node.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use te_engine::{
    BatchId, EngineCloseReport, EngineError, LocalRange, Notify, RegisterOptions, RemoteAccess,
    TransferEngine,
};
use te_suites::{now, pattern, wire};

use crate::chain;
use crate::chaos::Chaos;
use crate::life::Engine;
use crate::memory::{self, Memory};
use crate::stress::{Churn, RoundCheck};
use crate::transfer::millis;

/// Why a command did not succeed: the peers' number, and the text.
pub(crate) type Refusal = (i32, String);

/// The engine, its memory, and what runs in the background.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) memory: Memory,
    pub(crate) addr: u64,
    /// Batches that were submitted by `submit_one`, with what `check` found last.
    pub(crate) singles: HashMap<u64, BatchId>,
    pub(crate) churn: Option<Churn>,
    pub(crate) check: Option<RoundCheck>,
    /// Connections that only take ports away.
    pub(crate) hogs: Vec<TcpStream>,
    pub(crate) chaos: Option<Chaos>,
    /// Engines that are only there.
    pub(crate) more: Vec<TransferEngine>,
}

impl Node {
    /// A node whose buffer starts at `addr`.
    pub(crate) fn new(engine: Engine, memory: Memory, addr: u64) -> Self {
        Self {
            engine,
            memory,
            addr,
            singles: HashMap::new(),
            churn: None,
            check: None,
            hogs: Vec::new(),
            chaos: None,
            more: Vec::new(),
        }
    }

    /// Runs one command. The answer has `rc` and the seconds that it took.
    pub(crate) fn run(&mut self, command: &Value) -> Value {
        let start = now();
        let result = self.dispatch(command);
        let seconds = start.elapsed().as_secs_f64();
        let mut answer = match result {
            Ok(answer) => answer,
            Err((rc, error)) => json!({ "rc": rc, "error": error }),
        };
        if answer["rc"].is_null() {
            answer["rc"] = json!(0);
        }
        answer["s"] = json!(seconds);
        answer
    }

    /// Closes the engine.
    pub(crate) fn close(mut self, timeout: Duration) -> EngineCloseReport {
        self.churn = None;
        self.chaos = None;
        self.engine.close(timeout)
    }

    fn dispatch(&mut self, c: &Value) -> Result<Value, Refusal> {
        match c["op"].as_str().unwrap_or_default() {
            "ping" => Ok(json!({})),
            "fill" | "pattern" | "verify" | "crc" | "hex" | "count" => self.bytes(c),
            "keep" => {
                let range = self.local(c)?;
                self.memory.keep(range).map(empty).map_err(|error| (-1, chain(&error)))
            }
            "changed" => {
                let found = self.memory.changed().map_err(|error| (-1, chain(&error)))?;
                Ok(json!({ "first": found.map(|f| f.0), "last": found.map(|f| f.1) }))
            }
            "alloc" => self.alloc(c),
            "unmap" => {
                self.memory.unmap(word(c, "addr")?, word(c, "len")?).map(empty).map_err(plain)
            }
            "reg" => self.register(c),
            "unreg" => self.unregister(c),
            "write" | "read" => self.single(c),
            "batch" => self.batch(c),
            "submit" => self.submit(c),
            "wait" => self.wait(c),
            "status" => self.status(c),
            "cancel" => self.cancel(c),
            "limit" => self.limit(c),
            "free" => self.free_batch(c),
            "submit_one" => self.submit_one(c),
            "check" => self.check(c),
            "notify" => self.notify(c),
            "notifies" => Ok(self.notifies()),
            "probe" => self.probe(c),
            "rusage" => Ok(usage()),
            "descriptor" => Ok(self.descriptor(c)),
            "storm" => self.storm(c),
            "rounds" => self.rounds(c),
            "check_rounds" => self.check_rounds(c),
            "check_result" => self.check_result(),
            "churn" => self.start_churn(c),
            "churn_stop" => self.stop_churn(),
            _ => self.dispatch_life(c),
        }
    }

    /// Commands on bytes take `off` in the main buffer, or `addr` anywhere.
    pub(crate) fn local(&self, c: &Value) -> Result<LocalRange, Refusal> {
        let addr = match c["addr"].as_u64() {
            Some(addr) => addr,
            None => self.addr.wrapping_add(word(c, "off")?),
        };
        self.memory.range(addr, word(c, "len")?).map_err(plain)
    }

    fn bytes(&self, c: &Value) -> Result<Value, Refusal> {
        let range = self.local(c)?;
        let done = match c["op"].as_str().unwrap_or_default() {
            "fill" => memory::fill(&range, byte(c)?).map(empty),
            "pattern" => memory::fill_pattern(&range, word(c, "seed")?).map(empty),
            "verify" => memory::verify(&range, word(c, "seed")?)
                .map(|(bad, first)| json!({ "bad": bad, "first": first })),
            "crc" => crc(&range),
            "hex" => hex(&range),
            _ => count(&range, byte(c)?),
        };
        done.map_err(|error| (-1, chain(&error)))
    }

    fn alloc(&mut self, c: &Value) -> Result<Value, Refusal> {
        let region = self.memory.map(word(c, "len")?).map_err(plain)?;
        Ok(json!({ "addr": region.address() }))
    }

    fn register(&self, c: &Value) -> Result<Value, Refusal> {
        let region = self.memory.region(word(c, "addr")?, word(c, "len")?).map_err(plain)?;
        let remote = match c["remote"].as_str() {
            Some("none") => RemoteAccess::None,
            Some("read") => RemoteAccess::Read,
            _ => RemoteAccess::ReadWrite,
        };
        let options = RegisterOptions { remote, ..RegisterOptions::default() };
        self.engine.register(&region, options).map(empty).map_err(|error| refusal(error.into()))
    }

    fn unregister(&self, c: &Value) -> Result<Value, Refusal> {
        let done = self.engine.unregister(word(c, "addr")?);
        done.map(empty).map_err(|error| refusal(error.into()))
    }

    fn notifies(&self) -> Value {
        let messages = self.engine.take_notifies().into_iter();
        json!({ "n": messages.map(|n: Notify| (n.name, n.msg)).collect::<Vec<_>>() })
    }

    /// What we publish, or the engine behind `port`, as it is seen from inside our network
    /// namespace.
    fn descriptor(&self, c: &Value) -> Value {
        let port = c["port"].as_u64().and_then(|port| port.try_into().ok());
        let port = port.unwrap_or_else(|| self.engine.rpc_port());
        json!({ "descriptor": wire::descriptor("127.0.0.1", port) })
    }

    fn probe(&self, c: &Value) -> Result<Value, Refusal> {
        let patience = millis(c, "timeout_ms").unwrap_or(Duration::from_secs(2));
        let took = self.engine.probe(text(c, "target")?, patience).map_err(refusal)?;
        Ok(json!({ "rtt": took.as_secs_f64() }))
    }
}

fn crc(range: &LocalRange) -> Result<Value, te_engine::CopyError> {
    let mut crc = 0;
    memory::look(range, |_, bytes| crc = pattern::crc32(crc, bytes))?;
    Ok(json!({ "crc": crc }))
}

fn hex(range: &LocalRange) -> Result<Value, te_engine::CopyError> {
    let mut text = String::new();
    memory::look(range, |_, bytes| {
        for byte in bytes {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
    })?;
    Ok(json!({ "hex": text }))
}

fn count(range: &LocalRange, wanted: u8) -> Result<Value, te_engine::CopyError> {
    let mut n = 0;
    memory::look(range, |_, bytes| n += memory::count(bytes, wanted))?;
    Ok(json!({ "n": n }))
}

fn usage() -> Value {
    match te_suites::Usage::of(std::process::id()) {
        Ok(usage) => json!({
            "cpu": usage.cpu, "rss_kib": usage.rss_kib,
            "threads": usage.threads, "fds": usage.fds,
        }),
        Err(error) => json!({ "rc": -1, "error": error.to_string() }),
    }
}

/// A number of a command.
pub(crate) fn word(c: &Value, key: &str) -> Result<u64, Refusal> {
    c[key].as_u64().ok_or_else(|| (-1, format!("no number `{key}` in {c}")))
}

/// A text of a command.
pub(crate) fn text<'a>(c: &'a Value, key: &str) -> Result<&'a str, Refusal> {
    c[key].as_str().ok_or_else(|| (-1, format!("no text `{key}` in {c}")))
}

fn byte(c: &Value) -> Result<u8, Refusal> {
    u8::try_from(word(c, "byte")?).map_err(|_| (-1, "a byte is below 256".to_owned()))
}

fn empty((): ()) -> Value {
    json!({})
}

fn plain(why: String) -> Refusal {
    (-1, why)
}

/// The peers' number for an error of the engine, and its text with its causes.
pub(crate) fn refusal(error: EngineError) -> Refusal {
    (error.code(), chain(&error))
}
