//! Commands that keep threads busy: many callers at once, buffers that come and go, and rounds of
//! writes whose end is told over a second channel.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use te_engine::{LocalRange, Opcode, RegisterOptions, TransferEngine, TransferRequest};

use crate::chain;
use crate::commands::{Node, Refusal, word};

/// A stamp stands at the start of each of these many bytes.
const STAMP_EVERY: usize = 512;

/// How long one write of a storm or a round may take.
const LIMIT: Duration = Duration::from_secs(60);

impl Node {
    /// `threads` callers, each with `rounds` writes one after the other.
    pub(crate) fn storm(&self, c: &Value) -> Result<Value, Refusal> {
        let request = self.request(Opcode::Write, c)?;
        let (threads, rounds) = (word(c, "threads")?, word(c, "rounds")?);
        let engine = &*self.engine;
        let mut failures: Vec<String> = Vec::new();
        std::thread::scope(|scope| {
            let callers: Vec<_> = (0..threads)
                .map(|_| scope.spawn(|| write_often(engine, &request, rounds)))
                .collect();
            for caller in callers {
                failures.extend(caller.join().unwrap_or_else(|_| vec!["a caller panicked".into()]));
            }
        });
        let mut answer = json!({ "failed": failures.len(), "done": threads * rounds });
        if let Some(first) = failures.first() {
            answer["error"] = json!(first);
            answer["rc"] = json!(-1);
        }
        Ok(answer)
    }

    /// Writes `n` times, each time with the number of the round stamped all over, and tells the
    /// checker at `side` as soon as a write is reported complete.
    pub(crate) fn rounds(&self, c: &Value) -> Result<Value, Refusal> {
        let request = self.request(Opcode::Write, c)?;
        let side = u16::try_from(word(c, "side")?).map_err(|error| (-1, error.to_string()))?;
        let mut side = TcpStream::connect(("127.0.0.1", side)).map_err(system)?;
        side.set_nodelay(true).map_err(system)?;
        let mut bytes = vec![0; usize::try_from(request.local.len()).unwrap_or(usize::MAX)];
        for round in 1..=word(c, "n")? {
            stamp(&mut bytes, round);
            write_into(&request.local, &bytes)?;
            let moved = self.engine.transfer(std::slice::from_ref(&request), LIMIT);
            moved.map_err(|error| (-1, format!("round {round}: {}", chain(&error))))?;
            side.write_all(&round.to_le_bytes()).map_err(system)?;
            let mut seen = [0];
            side.read_exact(&mut seen).map_err(system)?;
        }
        Ok(json!({}))
    }

    /// Begins to check rounds of another node: gives the port on which it is told.
    pub(crate) fn check_rounds(&mut self, c: &Value) -> Result<Value, Refusal> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(system)?;
        let port = listener.local_addr().map_err(system)?.port();
        let (range, n) = (self.local(c)?, word(c, "n")?);
        let thread = std::thread::spawn(move || check_all(&listener, &range, n));
        self.check = Some(RoundCheck(thread));
        Ok(json!({ "port": port }))
    }

    /// How many rounds were checked, and how many were torn.
    pub(crate) fn check_result(&mut self) -> Result<Value, Refusal> {
        let check = self.check.take().ok_or_else(|| (-1, "nothing is checked".to_owned()))?;
        let result = check.0.join().map_err(|_| (-1, "the checker panicked".to_owned()))?;
        result.map(|torn| json!({ "torn": torn })).map_err(system)
    }

    /// Begins to register and unregister small buffers, in `threads` threads.
    pub(crate) fn start_churn(&mut self, c: &Value) -> Result<Value, Refusal> {
        let (threads, n) = (word(c, "threads")?, word(c, "buffers")?);
        let len = word(c, "len")?;
        let region = self.memory.map(threads * n * len).map_err(|why| (-1, why))?;
        let addr = region.address();
        let mut buffers = Vec::new();
        for i in 0..threads * n {
            buffers.push(self.memory.region(addr + i * len, len).map_err(|why| (-1, why))?);
        }
        self.churn = Some(Churn::start(&self.engine, &buffers, usize::try_from(n).unwrap_or(1)));
        Ok(json!({ "addr": addr }))
    }

    /// Ends that, and tells how often it registered.
    pub(crate) fn stop_churn(&mut self) -> Result<Value, Refusal> {
        let churn = self.churn.take().ok_or_else(|| (-1, "nothing churns".to_owned()))?;
        Ok(json!({ "registered": churn.registered.load(Ordering::Relaxed) }))
    }
}

fn write_often(engine: &TransferEngine, request: &TransferRequest, rounds: u64) -> Vec<String> {
    let write = |_| engine.transfer(std::slice::from_ref(request), LIMIT).err();
    (0..rounds).filter_map(write).map(|error| chain(&error)).collect()
}

fn stamp(bytes: &mut [u8], round: u64) {
    for block in bytes.chunks_exact_mut(STAMP_EVERY) {
        block[..8].copy_from_slice(&round.to_le_bytes());
    }
}

fn write_into(range: &LocalRange, bytes: &[u8]) -> Result<(), Refusal> {
    let offset = range.address() - range.region().address();
    range.region().write_from(offset, bytes).map_err(|error| (-1, chain(&error)))
}

/// A thread that checks rounds.
#[derive(Debug)]
pub(crate) struct RoundCheck(JoinHandle<std::io::Result<u64>>);

/// Looks at the whole range each time that it is told of a round; gives the number of torn ones.
fn check_all(listener: &TcpListener, range: &LocalRange, n: u64) -> std::io::Result<u64> {
    let (mut side, _) = listener.accept()?;
    side.set_nodelay(true)?;
    let mut torn = 0;
    let mut bytes = vec![0; usize::try_from(range.len()).unwrap_or(usize::MAX)];
    let offset = range.address() - range.region().address();
    for _ in 0..n {
        let mut round = [0; 8];
        side.read_exact(&mut round)?;
        // The end first: it is what arrives last.
        let half = bytes.len() / 2;
        let (front, back) = bytes.split_at_mut(half);
        let middle = offset + front.len() as u64;
        let copied = range.region().read_into(middle, back);
        copied
            .and_then(|()| range.region().read_into(offset, front))
            .map_err(std::io::Error::other)?;
        torn += u64::from(!is_whole(&bytes, round));
        side.write_all(&[1])?;
    }
    Ok(torn)
}

fn is_whole(bytes: &[u8], round: [u8; 8]) -> bool {
    bytes.chunks_exact(STAMP_EVERY).all(|block| block[..8] == round)
}

/// Threads that register and unregister.
#[derive(Debug)]
pub(crate) struct Churn {
    stop: Arc<AtomicBool>,
    registered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Churn {
    /// One thread for each `n` buffers.
    fn start(engine: &Arc<TransferEngine>, buffers: &[te_engine::Region], n: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let registered = Arc::new(AtomicU64::new(0));
        let threads = buffers.chunks(n).map(|own| {
            let (engine, own) = (Arc::clone(engine), own.to_vec());
            let (stop, registered) = (Arc::clone(&stop), Arc::clone(&registered));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    come_and_go(&engine, &own, &registered);
                }
            })
        });
        Self { threads: threads.collect(), stop, registered }
    }
}

fn come_and_go(engine: &TransferEngine, own: &[te_engine::Region], registered: &AtomicU64) {
    for region in own {
        if engine.register(region, RegisterOptions::default()).is_ok() {
            registered.fetch_add(1, Ordering::Relaxed);
        }
    }
    for region in own {
        // A failure shows in the descriptor, which the suite reads all the time.
        let _ = engine.unregister(region.address());
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked registered too little, which the suite sees.
            let _ = thread.join();
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn system(error: std::io::Error) -> Refusal {
    (-1, error.to_string())
}
