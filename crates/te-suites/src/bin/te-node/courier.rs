//! A transport whose bytes are carried by another process, which a test can stop.
//!
//! The buffers of both ends are mappings of files, and the courier's child copies between the files,
//! in small steps. What the child has begun cannot be called back: while it is stopped it still
//! holds our memory, and when it goes on it still writes there.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use te_metadata::SegmentDescriptor;
use te_segment::{LocalBuffer, Opcode, RemoteSegment, Slice, SlicePolicy, SliceToken};
use te_suites::pace;
use te_transport::{
    Capabilities, CloseReport, Completion, CompletionSink, Driven, RemoteSide, SliceSource,
    StartError, Transport, TransportContext, TransportRegisterError,
};

/// Bytes of one step of the child.
const STEP: usize = 64 << 10;
/// The child's pause between two steps.
const PAUSE: Duration = Duration::from_millis(2);

/// The engine's half.
#[derive(Debug)]
pub(crate) struct Courier {
    files: [PathBuf; 2],
    /// Where our mapping begins.
    pub(crate) base: OnceLock<u64>,
    /// The child's number, once it is started.
    pub(crate) pid: OnceLock<u32>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    child: Mutex<Option<(Child, ChildStdin)>>,
    /// Slices that the child has not done; they keep their memory mapped.
    out: Mutex<HashMap<u64, Slice>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Courier {
    /// Between a mapping of `ours` and the peer's of `theirs`.
    pub(crate) fn new(ours: &Path, theirs: &Path) -> Self {
        let files = [ours.to_owned(), theirs.to_owned()];
        Self { files, base: OnceLock::new(), pid: OnceLock::new(), shared: Arc::default() }
    }

    fn send(&self, slice: Slice) -> Option<()> {
        let first = slice.peer.descriptor().buffers().first()?;
        let word = if slice.op == Opcode::Read { "read" } else { "write" };
        let ours = slice.local.address() - self.base.get()?;
        let theirs = slice.remote.address() - first.addr;
        let (token, len) = (slice.token.as_u64(), slice.len());
        lock(&self.shared.out).insert(token, slice);
        let mut child = lock(&self.shared.child);
        let (_, stdin) = child.as_mut()?;
        writeln!(stdin, "{token} {word} {ours} {theirs} {len}").ok()
    }
}

impl Transport for Courier {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "courier",
            slices: SlicePolicy { min_piece: 1 << 30, max_piece: 1 << 30, ways: 1 },
            needs_local_registration: true,
            can_cancel: false,
        }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        let failed = |cause| StartError { transport: "courier", cause };
        let program = std::env::current_exe().map_err(|error| failed(error.into()))?;
        let mut command = Command::new(program);
        command.arg("--carry").args(&self.files).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(error.into()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("no pipes".into()));
        };
        let _ = self.pid.set(child.id());
        *lock(&self.shared.child) = Some((child, stdin));
        let (shared, sink) = (Arc::clone(&self.shared), context.sink);
        let report = move || report(&shared, &*sink, BufReader::new(stdout));
        let thread = std::thread::Builder::new().name("courier".to_owned()).spawn(report);
        thread.map(drop).map_err(|error| failed(error.into()))
    }

    fn describe(&self, _descriptor: &mut SegmentDescriptor) {}

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        !peer.descriptor().buffers().is_empty()
    }

    fn register(&self, _buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        Ok(())
    }

    fn deregister(&self, _buffer: &Arc<LocalBuffer>) {}

    fn submit(&self, _peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let mut taken = 0;
        while let Some(slice) = source.next_slice() {
            taken += 1;
            let _ = self.send(slice);
        }
        taken
    }

    fn cancel(&self, _tokens: &[SliceToken]) {
        // The child cannot be told.
    }

    fn drive(&self, _until: Instant) -> Driven {
        Driven::Busy
    }

    fn close(&self, _deadline: Instant) -> CloseReport {
        // The end of its input ends the child, once it has done what it was given.
        let ended = lock(&self.shared.child).take();
        let joined = ended.is_none_or(|(mut child, stdin)| {
            drop(stdin);
            child.wait().is_ok()
        });
        CloseReport { settled: 0, joined }
    }
}

/// Tells what the child has done.
fn report(shared: &Shared, sink: &dyn CompletionSink, lines: impl BufRead) {
    for token in lines.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
        drop(lock(&shared.out).remove(&token));
        sink.complete(Completion {
            token: SliceToken::from_u64(token),
            result: Ok(()),
            remote: RemoteSide::Settled,
        });
    }
}

/// The child: carries until its input ends.
pub(crate) fn carry(files: &[String]) -> ExitCode {
    match try_carry(files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(3),
    }
}

fn try_carry(files: &[String]) -> std::io::Result<()> {
    let [ours, theirs] = files else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    let open = |path: &String| File::options().read(true).write(true).open(path);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        // Ours is made after the engine was built.
        let (ours, theirs) = (open(ours)?, open(theirs)?);
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let (Some(from), Some(to), Some(len)) = (number(2), number(3), number(4)) else { continue };
        match words[1] {
            "read" => copy((&theirs, to), (&ours, from), len)?,
            _ => copy((&ours, from), (&theirs, to), len)?,
        }
        tell(words[0]);
    }
    Ok(())
}

fn copy(from: (&File, u64), to: (&File, u64), len: u64) -> std::io::Result<()> {
    let mut block = vec![0; STEP];
    let mut done = 0;
    while done < len {
        let n = usize::try_from(len - done).unwrap_or(STEP).min(STEP);
        from.0.read_exact_at(&mut block[..n], from.1 + done)?;
        to.0.write_all_at(&block[..n], to.1 + done)?;
        done += n as u64;
        pace(PAUSE);
    }
    Ok(())
}

fn tell(token: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{token}").and_then(|()| out.flush());
}
