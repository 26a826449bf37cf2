//! Commands that only ours knows: deadlines, cancel, quarantine, and the ways in which an engine
//! ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::calls::{Direction, Parts};
use crate::node::{Answer, Node};

/// What a caller may ask for beside the bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// A time limit of the requests' own.
    pub timeout: Option<Duration>,
    /// The end-to-end check.
    pub checked: bool,
}

impl Wish {
    /// Only a time limit.
    pub fn within(timeout: Duration) -> Self {
        Self { timeout: Some(timeout), checked: false }
    }

    /// Only the end-to-end check.
    pub fn checked() -> Self {
        Self { timeout: None, checked: true }
    }

    fn add_to(self, mut command: Value) -> Value {
        if let Some(timeout) = self.timeout {
            command["timeout_ms"] = millis(timeout);
        }
        command["checked"] = self.checked.into();
        command
    }
}

fn millis(time: Duration) -> Value {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}

/// How long the node may take beyond a limit that it was given.
const GRACE: Duration = Duration::from_secs(60);

impl Node {
    /// One transfer with wishes, waited for; `ends` are our address and the target's.
    #[track_caller]
    pub fn transfer_wishing(
        &mut self,
        (dir, target): (Direction, &str),
        (src, dst): (u64, u64),
        len: u64,
        wish: Wish,
    ) -> Answer {
        let command =
            json!({ "op": dir.word(), "target": target, "src": src, "dst": dst, "len": len });
        self.ask_within(&wish.add_to(command), Duration::from_secs(120))
    }

    /// A batch with wishes, not waited for; gives its id.
    #[track_caller]
    pub fn submit_wishing(
        &mut self,
        (dir, target): (Direction, &str),
        parts: &Parts,
        wish: Wish,
    ) -> u64 {
        let command = wish.add_to(parts.command("submit", dir, target));
        self.ask(&command).ok().number("id")
    }

    /// Waits for a batch at most this long; a batch that is not final then goes on.
    #[track_caller]
    pub fn wait_within(&mut self, id: u64, limit: Duration) -> Answer {
        let command = json!({ "op": "wait", "id": id, "timeout_ms": millis(limit) });
        self.ask_within(&command, limit + GRACE)
    }

    /// The state of one request of a batch: `state`, `bytes`, `remote`, `quarantined`, `error`.
    #[track_caller]
    pub fn task(&mut self, id: u64, index: usize) -> Answer {
        self.ask(&json!({ "op": "status", "id": id, "index": index }))
    }

    /// Calls a batch back.
    #[track_caller]
    pub fn cancel(&mut self, id: u64) -> Answer {
        self.ask(&json!({ "op": "cancel", "id": id }))
    }

    /// Brings the deadline of a batch forward.
    #[track_caller]
    pub fn limit(&mut self, id: u64, timeout: Duration) -> Answer {
        self.ask(&json!({ "op": "limit", "id": id, "timeout_ms": millis(timeout) }))
    }

    /// Frees a batch.
    #[track_caller]
    pub fn free(&mut self, id: u64) -> Answer {
        self.ask(&json!({ "op": "free", "id": id }))
    }

    /// Bytes of tasks that ended while a transport still holds them.
    #[track_caller]
    pub fn quarantined(&mut self) -> u64 {
        self.ask(&json!({ "op": "quarantined" })).ok().number("bytes")
    }

    /// Waits until there are none; says whether that was reached.
    #[track_caller]
    pub fn is_quiescent(&mut self, limit: Duration) -> bool {
        let command = json!({ "op": "quiescent", "timeout_ms": millis(limit) });
        self.ask_within(&command, limit + GRACE).ok().value("is") == true
    }

    /// Keeps a copy of bytes of the buffer.
    #[track_caller]
    pub fn keep(&mut self, off: u64, len: u64) {
        self.ask(&json!({ "op": "keep", "off": off, "len": len })).ok();
    }

    /// The first and the last position at which the bytes that were kept are others now.
    #[track_caller]
    pub fn changed(&mut self) -> Option<(u64, u64)> {
        let found = self.ask(&json!({ "op": "changed" })).ok();
        Some((found.value("first").as_u64()?, found.value("last").as_u64()?))
    }

    /// A counter of the engine.
    #[track_caller]
    pub fn stat(&mut self, name: &str) -> u64 {
        self.ask(&json!({ "op": "stats" })).ok().number(name)
    }

    /// Sets the rights on pages that `alloc` mapped: `none`, `read` or `all`.
    #[track_caller]
    pub fn protect(&mut self, addr: u64, len: u64, access: &str) {
        let command = json!({ "op": "protect", "addr": addr, "len": len, "access": access });
        self.ask(&command).ok();
    }

    /// Opens all these names at the same moment: `failed`, `slowest_ms`, `error`.
    #[track_caller]
    pub fn open_at_once(&mut self, targets: &[&str]) -> Answer {
        self.ask(&json!({ "op": "open", "targets": targets }))
    }

    /// Probes all these names at the same moment: `ms` has the time of each, `failed` the number
    /// that did not answer.
    #[track_caller]
    pub fn probe_at_once(&mut self, targets: &[&str]) -> Answer {
        self.ask(&json!({ "op": "probes", "targets": targets }))
    }

    /// Sends `n` notifications that follow no transfer; `taken` says how many were taken.
    #[track_caller]
    pub fn tell(&mut self, target: &str, (name, msg): (&str, &str), n: u64) -> Answer {
        self.ask(&json!({ "op": "tell", "target": target, "name": name, "msg": msg, "n": n }))
    }

    /// How what it publishes stands, in the engine's word; nothing where there is nothing.
    #[track_caller]
    pub fn publication(&mut self) -> String {
        let answer = self.ask(&json!({ "op": "publication" })).ok();
        answer.value("is").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until everything that was registered is published; says whether it is.
    #[track_caller]
    pub fn is_published(&mut self, limit: Duration) -> bool {
        let command = json!({ "op": "published", "timeout_ms": millis(limit) });
        self.ask_within(&command, limit + GRACE).ok().value("done") == true
    }

    /// Maps and registers `n` buffers of `len` bytes, at every second multiple of `len` from the
    /// address that it gives; in one call, or one by one.
    #[track_caller]
    pub fn reg_many(&mut self, (n, len): (u64, u64), one_by_one: bool) -> u64 {
        let command = json!({ "op": "reg_many", "n": n, "len": len, "one_by_one": one_by_one });
        self.ask_within(&command, Duration::from_secs(180)).ok().number("addr")
    }

    /// What is known of a segment without asking anybody anew: `buffers`, and whether one `has`
    /// that address.
    #[track_caller]
    pub fn known(&mut self, target: &str, addr: u64) -> Answer {
        self.ask(&json!({ "op": "known", "target": target, "addr": addr }))
    }

    /// Asks for the descriptors of all open segments anew: `updated`, `unchanged`, `failed`.
    #[track_caller]
    pub fn sync(&mut self) -> Answer {
        self.ask(&json!({ "op": "sync" })).ok()
    }

    /// Closes the engine and keeps the process: `open_tasks`, `joined`, `kept`.
    #[track_caller]
    pub fn close(&mut self, limit: Duration) -> Answer {
        let command = json!({ "op": "close", "timeout_ms": millis(limit) });
        self.ask_within(&command, limit + GRACE)
    }

    /// Ends the node by `how`: `quit` closes the engine first, `drop` lets it go out of scope,
    /// `exit` leaves the process under its feet, `panic` unwinds through it. Gives the exit code,
    /// or `None` where it did not end within `limit`.
    pub fn end(mut self, how: &str, limit: Duration) -> Option<i32> {
        let command = match how {
            "quit" => json!({ "op": "quit" }),
            how => json!({ "op": "end", "how": how }),
        };
        self.send(&command);
        self.child().wait(limit)?.code()
    }
}
