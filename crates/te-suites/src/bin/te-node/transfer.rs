//! Commands that move bytes: one request or a batch, waited for or not.

use std::time::Duration;

use serde_json::{Value, json};
use te_engine::{
    BatchId, EngineError, Notify, NotifyOutcome, Opcode, RemoteSide, TaskState, TransferRequest,
    TransferStatus,
};

use crate::commands::{Node, Refusal, refusal, text, word};

/// How long the node waits for a batch: beyond every limit of the engine, so that it is the engine
/// that ends each task.
const PATIENCE: Duration = Duration::from_secs(110);

/// Batches with at most this many requests are answered with the state of each.
const LISTED: usize = 4096;

impl Node {
    /// `write` and `read`.
    pub(crate) fn single(&self, c: &Value) -> Result<Value, Refusal> {
        let op = if c["op"] == "write" { Opcode::Write } else { Opcode::Read };
        let request = self.request(op, c)?;
        let batch = self.begin(&[request], None)?;
        self.end(batch)
    }

    /// A batch that is waited for.
    pub(crate) fn batch(&self, c: &Value) -> Result<Value, Refusal> {
        let requests = self.requests(c)?;
        let batch = self.begin(&requests, None)?;
        self.end(batch)
    }

    /// A batch that is not waited for.
    pub(crate) fn submit(&self, c: &Value) -> Result<Value, Refusal> {
        let requests = self.requests(c)?;
        Ok(json!({ "id": self.begin(&requests, None)?.as_u64() }))
    }

    /// The end of such a batch.
    pub(crate) fn wait(&self, c: &Value) -> Result<Value, Refusal> {
        self.end(BatchId::from_u64(word(c, "id")?))
    }

    /// Calls such a batch back.
    pub(crate) fn cancel(&self, c: &Value) -> Result<Value, Refusal> {
        let done = self.engine.cancel(BatchId::from_u64(word(c, "id")?));
        done.map(|()| json!({})).map_err(|error| refusal(error.into()))
    }

    /// One write that is asked after by `check`.
    pub(crate) fn submit_one(&mut self, c: &Value) -> Result<Value, Refusal> {
        let request = self.request(Opcode::Write, c)?;
        let batch = self.begin(&[request], None)?;
        self.singles.insert(batch.as_u64(), batch);
        Ok(json!({ "id": batch.as_u64() }))
    }

    /// 0 running, 1 done, -1 failed, -2 out of time; an id that ended is forgotten.
    pub(crate) fn check(&mut self, c: &Value) -> Result<Value, Refusal> {
        let id = word(c, "id")?;
        let Some(batch) = self.singles.get(&id).copied() else {
            return Err((-1, format!("no write {id}")));
        };
        let status = self.engine.status(batch, 0).map_err(|error| refusal(error.into()))?;
        if status.state.is_final() {
            self.singles.remove(&id);
            self.free(batch)?;
        }
        let number = match status.state {
            TaskState::Waiting | TaskState::Pending => 0,
            TaskState::Completed => 1,
            TaskState::Timeout => -2,
            _ => -1,
        };
        Ok(json!({ "st": number }))
    }

    /// A write with a notification.
    pub(crate) fn notify(&self, c: &Value) -> Result<Value, Refusal> {
        let request = self.request(Opcode::Write, c)?;
        let notify = Notify { name: text(c, "name")?.to_owned(), msg: text(c, "msg")?.to_owned() };
        let batch = self.begin(&[request], Some(notify))?;
        self.end(batch)
    }

    /// The one request in `src`, `dst`, `len`.
    pub(crate) fn request(&self, op: Opcode, c: &Value) -> Result<TransferRequest, Refusal> {
        let target = self.engine.open_segment(text(c, "target")?);
        let target = target.map_err(|error| refusal(error.into()))?;
        let local = self.memory.range(word(c, "src")?, word(c, "len")?);
        let local = local.map_err(|why| (-1, why))?;
        Ok(TransferRequest { op, local, target, offset: word(c, "dst")?, timeout: None })
    }

    /// The requests in the lists `src`, `dst`, `len`.
    fn requests(&self, c: &Value) -> Result<Vec<TransferRequest>, Refusal> {
        let op = if c["dir"] == "write" { Opcode::Write } else { Opcode::Read };
        let target = self.engine.open_segment(text(c, "target")?);
        let target = target.map_err(|error| refusal(error.into()))?;
        let [src, dst, len] = ["src", "dst", "len"].map(|key| numbers(&c[key]));
        let parts = src.iter().zip(&dst).zip(&len);
        parts
            .map(|((&src, &offset), &len)| {
                let local = self.memory.range(src, len).map_err(|why| (-1, why))?;
                Ok(TransferRequest { op, local, target, offset, timeout: None })
            })
            .collect()
    }

    fn begin(
        &self,
        requests: &[TransferRequest],
        notify: Option<Notify>,
    ) -> Result<BatchId, Refusal> {
        let engine = &self.engine;
        let batch = engine.allocate_batch(requests.len()).map_err(|error| refusal(error.into()))?;
        let submitted = match notify {
            Some(notify) => engine.submit_with_notify(batch, requests, notify),
            None => engine.submit(batch, requests),
        };
        if let Err(error) = submitted {
            self.free(batch)?;
            return Err(refusal(error.into()));
        }
        Ok(batch)
    }

    fn free(&self, batch: BatchId) -> Result<(), Refusal> {
        self.engine.free_batch(batch).map_err(|error| refusal(error.into()))
    }

    /// Waits for a batch, tells what became of it, and frees it.
    fn end(&self, batch: BatchId) -> Result<Value, Refusal> {
        let status = self.engine.wait(batch, PATIENCE).map_err(|error| refusal(error.into()))?;
        let tasks = self.tasks(batch, status.total)?;
        self.free(batch)?;
        let fault = tasks.iter().find_map(|task| task.fault.as_ref());
        let notify = notify_failure(&status.notify);
        let good = status.failed == 0 && notify.is_none();
        let mut answer = json!({
            "rc": if good { 0 } else { -1 },
            "completed": status.completed,
            "failed": status.failed,
            "bytes": status.bytes,
            "remote": remote(&tasks),
        });
        if let Some(why) = fault.map(ToString::to_string).or(notify) {
            answer["error"] = json!(why);
        }
        if tasks.len() <= LISTED {
            answer["states"] = tasks.iter().map(|task| state(task.state)).collect();
        }
        Ok(answer)
    }

    fn tasks(&self, batch: BatchId, n: usize) -> Result<Vec<TransferStatus>, Refusal> {
        let status = |index| self.engine.status(batch, index);
        let tasks = (0..n).map(status).collect::<Result<_, _>>();
        tasks.map_err(|error| refusal(EngineError::from(error)))
    }
}

fn notify_failure(outcome: &NotifyOutcome) -> Option<String> {
    match outcome {
        NotifyOutcome::Failed(why) => Some(format!("the notification failed: {why}")),
        _ => None,
    }
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// The least certain of all.
fn remote(tasks: &[TransferStatus]) -> &'static str {
    match tasks.iter().map(|task| task.remote).max() {
        Some(RemoteSide::InDoubt) => "in doubt",
        Some(RemoteSide::Settled) => "settled",
        _ => "untouched",
    }
}

fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Waiting => "waiting",
        TaskState::Pending => "pending",
        TaskState::Invalid => "invalid",
        TaskState::Canceled => "canceled",
        TaskState::Completed => "completed",
        TaskState::Timeout => "timeout",
        TaskState::Failed => "failed",
    }
}
