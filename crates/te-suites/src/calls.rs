//! The commands that both kinds of node know, one method each.

use std::time::Duration;

use serde_json::{Value, json};

use crate::node::{Answer, Node};

/// Write or read, seen from the node that calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the caller's memory into the target's.
    Write,
    /// From the target's memory into the caller's.
    Read,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Write, Self::Read];

    /// Its word in commands.
    pub fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// The parts of a batch: three lists of one length.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Addresses in the caller.
    pub src: Vec<u64>,
    /// Addresses in the target.
    pub dst: Vec<u64>,
    /// Bytes.
    pub len: Vec<u64>,
}

impl Parts {
    /// Adds one part.
    pub fn push(&mut self, src: u64, dst: u64, len: u64) {
        self.src.push(src);
        self.dst.push(dst);
        self.len.push(len);
    }

    /// `n` parts of `len` bytes, one behind the other on both sides, that start again at the front
    /// when `room` bytes are used up.
    pub fn tiled(n: u64, len: u64, (src, dst, room): (u64, u64, u64)) -> Self {
        let mut parts = Self::default();
        let slots = (room / len).max(1);
        for i in 0..n {
            let at = (i % slots) * len;
            parts.push(src + at, dst + at, len);
        }
        parts
    }

    pub(crate) fn command(&self, op: &str, dir: Direction, target: &str) -> Value {
        json!({
            "op": op, "dir": dir.word(), "target": target,
            "src": self.src, "dst": self.dst, "len": self.len,
        })
    }
}

impl Node {
    /// Sets bytes of the buffer.
    #[track_caller]
    pub fn fill(&mut self, off: u64, len: u64, byte: u8) {
        self.ask(&json!({ "op": "fill", "off": off, "len": len, "byte": byte })).ok();
    }

    /// Writes the pattern with this seed over bytes of the buffer.
    #[track_caller]
    pub fn pattern(&mut self, off: u64, len: u64, seed: u64) {
        let command = json!({ "op": "pattern", "off": off, "len": len, "seed": seed });
        self.ask_within(&command, bulk(len)).ok();
    }

    /// Asserts that these bytes of the buffer are the pattern with this seed.
    #[track_caller]
    pub fn verify(&mut self, off: u64, len: u64, seed: u64) {
        let command = json!({ "op": "verify", "off": off, "len": len, "seed": seed });
        let found = self.ask_within(&command, bulk(len)).ok();
        let (bad, first) = (found.number("bad"), found.value("first"));
        assert_eq!(bad, 0, "{bad} of {len} bytes at {off} are wrong, the first at {first}");
    }

    /// Whether these bytes of the buffer are the pattern with this seed.
    #[track_caller]
    pub fn matches(&mut self, off: u64, len: u64, seed: u64) -> bool {
        let command = json!({ "op": "verify", "off": off, "len": len, "seed": seed });
        self.ask(&command).ok().number("bad") == 0
    }

    /// Asserts that all these bytes of the buffer have one value.
    #[track_caller]
    pub fn verify_filled(&mut self, off: u64, len: u64, byte: u8) {
        let n = self.count(off, len, byte);
        assert_eq!(n, len, "{} of {len} bytes at {off} are not {byte:#04x}", len - n);
    }

    /// How many of these bytes of the buffer have this value.
    #[track_caller]
    pub fn count(&mut self, off: u64, len: u64, byte: u8) -> u64 {
        let command = json!({ "op": "count", "off": off, "len": len, "byte": byte });
        self.ask(&command).ok().number("n")
    }

    /// The CRC-32 of bytes of the buffer.
    #[track_caller]
    pub fn crc(&mut self, off: u64, len: u64) -> u64 {
        self.ask(&json!({ "op": "crc", "off": off, "len": len })).ok().number("crc")
    }

    /// Maps more memory, zeroed and not registered.
    #[track_caller]
    pub fn alloc(&mut self, len: u64) -> u64 {
        self.ask(&json!({ "op": "alloc", "len": len })).ok().number("addr")
    }

    /// Gives memory back to the system, registered or not.
    #[track_caller]
    pub fn unmap(&mut self, addr: u64, len: u64) {
        self.ask(&json!({ "op": "unmap", "addr": addr, "len": len })).ok();
    }

    /// Registers memory.
    #[track_caller]
    pub fn reg(&mut self, addr: u64, len: u64) -> Answer {
        self.ask(&json!({ "op": "reg", "addr": addr, "len": len }))
    }

    /// Unregisters memory.
    #[track_caller]
    pub fn unreg(&mut self, addr: u64) -> Answer {
        self.ask(&json!({ "op": "unreg", "addr": addr }))
    }

    /// One transfer, waited for.
    #[track_caller]
    pub fn transfer(&mut self, dir: Direction, target: &str, ends: (u64, u64), len: u64) -> Answer {
        let (src, dst) = ends;
        let command =
            json!({ "op": dir.word(), "target": target, "src": src, "dst": dst, "len": len });
        self.ask_within(&command, bulk(len))
    }

    /// One write, waited for; `src` is ours, `dst` the target's.
    #[track_caller]
    pub fn write(&mut self, target: &str, src: u64, dst: u64, len: u64) -> Answer {
        self.transfer(Direction::Write, target, (src, dst), len)
    }

    /// One read, waited for; `src` is ours, `dst` the target's, as in the peer's interface.
    #[track_caller]
    pub fn read(&mut self, target: &str, src: u64, dst: u64, len: u64) -> Answer {
        self.transfer(Direction::Read, target, (src, dst), len)
    }

    /// A batch, waited for.
    #[track_caller]
    pub fn batch(&mut self, dir: Direction, target: &str, parts: &Parts) -> Answer {
        self.ask_within(&parts.command("batch", dir, target), Duration::from_secs(120))
    }

    /// A batch, not waited for; gives its id.
    #[track_caller]
    pub fn submit(&mut self, dir: Direction, target: &str, parts: &Parts) -> u64 {
        self.ask(&parts.command("submit", dir, target)).ok().number("id")
    }

    /// Waits for a batch that was submitted.
    #[track_caller]
    pub fn wait(&mut self, id: u64) -> Answer {
        self.ask_within(&json!({ "op": "wait", "id": id }), Duration::from_secs(120))
    }

    /// One write, not waited for; gives its id.
    #[track_caller]
    pub fn submit_one(&mut self, target: &str, src: u64, dst: u64, len: u64) -> u64 {
        let command =
            json!({ "op": "submit_one", "target": target, "src": src, "dst": dst, "len": len });
        self.ask(&command).ok().number("id")
    }

    /// The state of such a write: 0 running, 1 done, below 0 failed.
    #[track_caller]
    pub fn check(&mut self, id: u64) -> i64 {
        let answer = self.ask(&json!({ "op": "check", "id": id })).ok();
        answer.value("st").as_i64().unwrap_or(i64::MIN)
    }

    /// A write of `len` bytes with a notification.
    #[track_caller]
    pub fn notify(
        &mut self,
        target: &str,
        (src, dst, len): (u64, u64, u64),
        (name, msg): (&str, &str),
    ) -> Answer {
        self.ask(&json!({
            "op": "notify", "target": target, "src": src, "dst": dst, "len": len,
            "name": name, "msg": msg,
        }))
    }

    /// The notifications that have come since the last call: name and message.
    #[track_caller]
    pub fn notifies(&mut self) -> Vec<(String, String)> {
        let answer = self.ask(&json!({ "op": "notifies" })).ok();
        serde_json::from_value(answer.value("n").clone())
            .unwrap_or_else(|cause| panic!("{answer:?}: {cause}"))
    }

    /// Asks whether a peer lives.
    #[track_caller]
    pub fn probe(&mut self, target: &str) -> Answer {
        self.ask(&json!({ "op": "probe", "target": target }))
    }

    /// Asserts that it still answers.
    #[track_caller]
    pub fn ping(&mut self) {
        self.ask(&json!({ "op": "ping" })).ok();
    }
}

/// How long a command on `len` bytes may take: the slowest machine that we run on moves 100 MB/s.
fn bulk(len: u64) -> Duration {
    Duration::from_secs(60 + len / 100_000_000)
}
