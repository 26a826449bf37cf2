//! Commands that move bytes: one request or a batch, waited for or not.
//!
//! Every request takes `timeout_ms` and `checked` from the command that it comes in.

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
        self.end(batch, PATIENCE)
    }

    /// A batch that is waited for.
    pub(crate) fn batch(&self, c: &Value) -> Result<Value, Refusal> {
        let requests = self.requests(c)?;
        let batch = self.begin(&requests, None)?;
        self.end(batch, PATIENCE)
    }

    /// A batch that is not waited for.
    pub(crate) fn submit(&self, c: &Value) -> Result<Value, Refusal> {
        let requests = self.requests(c)?;
        Ok(json!({ "id": self.begin(&requests, None)?.as_u64() }))
    }

    /// The end of such a batch, which is freed then; after `timeout_ms` it goes on.
    pub(crate) fn wait(&self, c: &Value) -> Result<Value, Refusal> {
        let patience = millis(c, "timeout_ms").unwrap_or(PATIENCE);
        self.end(BatchId::from_u64(word(c, "id")?), patience)
    }

    /// The state of one request of such a batch.
    pub(crate) fn status(&self, c: &Value) -> Result<Value, Refusal> {
        let index = usize::try_from(c["index"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
        let status = self.engine.status(BatchId::from_u64(word(c, "id")?), index);
        let task = status.map_err(|error| refusal(error.into()))?;
        let mut answer = json!({
            "state": state(task.state), "bytes": task.bytes, "remote": side(task.remote),
            "quarantined": task.quarantined,
        });
        if let Some(fault) = &task.fault {
            answer["error"] = json!(fault.to_string());
        }
        Ok(answer)
    }

    /// Calls such a batch back, or its request `index`.
    pub(crate) fn cancel(&self, c: &Value) -> Result<Value, Refusal> {
        let batch = BatchId::from_u64(word(c, "id")?);
        let done = match c["index"].as_u64().and_then(|index| usize::try_from(index).ok()) {
            Some(index) => self.engine.cancel_task(batch, index),
            None => self.engine.cancel(batch),
        };
        done.map(|()| json!({})).map_err(|error| refusal(error.into()))
    }

    /// Brings the deadline of such a batch forward.
    pub(crate) fn limit(&self, c: &Value) -> Result<Value, Refusal> {
        let timeout = Duration::from_millis(word(c, "timeout_ms")?);
        let done = self.engine.limit_batch(BatchId::from_u64(word(c, "id")?), timeout);
        done.map(|()| json!({})).map_err(|error| refusal(error.into()))
    }

    /// Frees such a batch.
    pub(crate) fn free_batch(&self, c: &Value) -> Result<Value, Refusal> {
        self.free(BatchId::from_u64(word(c, "id")?)).map(|()| json!({}))
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

    /// A write with a notification; not waited for with `wait` false.
    pub(crate) fn notify(&self, c: &Value) -> Result<Value, Refusal> {
        let request = self.request(Opcode::Write, c)?;
        let notify = Notify { name: text(c, "name")?.to_owned(), msg: text(c, "msg")?.to_owned() };
        let batch = self.begin(&[request], Some(notify))?;
        if c["wait"] == false {
            return Ok(json!({ "id": batch.as_u64() }));
        }
        self.end(batch, PATIENCE)
    }

    /// The one request in `src`, `dst`, `len`.
    pub(crate) fn request(&self, op: Opcode, c: &Value) -> Result<TransferRequest, Refusal> {
        let target = self.engine.open_segment(text(c, "target")?);
        let target = target.map_err(|error| refusal(error.into()))?;
        let local = self.memory.range(word(c, "src")?, word(c, "len")?);
        let local = local.map_err(|why| (-1, why))?;
        let request = TransferRequest::write(local, target, word(c, "dst")?);
        Ok(TransferRequest { op, ..with_options(request, c) })
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
                let request = TransferRequest::write(local, target, offset);
                Ok(TransferRequest { op, ..with_options(request, c) })
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
    fn end(&self, batch: BatchId, patience: Duration) -> Result<Value, Refusal> {
        let status = self.engine.wait(batch, patience).map_err(|error| refusal(error.into()))?;
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
            "quarantined": tasks.iter().filter(|task| task.quarantined).count(),
        });
        if let Some(why) = fault.map(ToString::to_string).or(notify) {
            answer["error"] = json!(why);
        }
        if tasks.len() <= LISTED {
            answer["states"] = tasks.iter().map(|task| state(task.state)).collect();
            answer["remotes"] = tasks.iter().map(|task| side(task.remote)).collect();
        }
        Ok(answer)
    }

    fn tasks(&self, batch: BatchId, n: usize) -> Result<Vec<TransferStatus>, Refusal> {
        let status = |index| self.engine.status(batch, index);
        let tasks = (0..n).map(status).collect::<Result<_, _>>();
        tasks.map_err(|error| refusal(EngineError::from(error)))
    }
}

/// What a command says of all its requests.
fn with_options(mut request: TransferRequest, c: &Value) -> TransferRequest {
    request.timeout = millis(c, "timeout_ms");
    request.checked = c["checked"] == true;
    request
}

/// A number of milliseconds, where the command has it.
pub(crate) fn millis(c: &Value, key: &str) -> Option<Duration> {
    c[key].as_u64().map(Duration::from_millis)
}

fn notify_failure(outcome: &NotifyOutcome) -> Option<String> {
    outcome.cause().map(|why| format!("the notification failed: {why}"))
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

/// The least certain of all.
fn remote(tasks: &[TransferStatus]) -> &'static str {
    side(tasks.iter().map(|task| task.remote).max().unwrap_or(RemoteSide::Untouched))
}

/// The word for what is known of the remote side.
pub(crate) fn side(remote: RemoteSide) -> &'static str {
    match remote {
        RemoteSide::Untouched => "untouched",
        RemoteSide::Settled => "settled",
        RemoteSide::InDoubt => "in doubt",
    }
}

/// The word for a state.
pub(crate) fn state(state: TaskState) -> &'static str {
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
