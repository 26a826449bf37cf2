//! One guest: its qemu, what it says, and its end.
//!
//! Guest and host speak through one end of a socket pair that qemu holds as its standard input, so
//! that there is no path to clash on and nothing is left behind. One thread reads frames; the
//! caller's thread acts on them and watches the limits. When this process dies, the socket closes
//! and the guest switches itself off; qemu is told to die with its parent besides.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::guest::budget::{Budget, Limits, Phase};
use crate::guest::end::{End, last_words};
use crate::guest::files::Returned;
use crate::guest::init::PORT;
use crate::guest::look::Looker;
use crate::guest::wire::Frame;
use crate::ui::Stopwatch;

/// What qemu is started with.
#[derive(Debug)]
pub(crate) struct Boot {
    /// The kernel.
    pub(crate) kernel: PathBuf,
    /// The first file system.
    pub(crate) files: PathBuf,
    /// Options for the machine.
    pub(crate) machine: Vec<String>,
    /// Options for the processor: emulated or not.
    pub(crate) processor: Vec<String>,
    /// Whether the guest may read the host's files.
    pub(crate) whole_host: bool,
    /// Whether the kernel says all that it does.
    pub(crate) is_verbose: bool,
    /// A folder for this run alone, for the console and for what qemu says.
    pub(crate) folder: PathBuf,
    /// Where files that come back are put, if they are wanted.
    pub(crate) out: Option<PathBuf>,
    /// What it may use.
    pub(crate) limits: Limits,
}

/// Which stream of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How a run went.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// How it ended.
    pub(crate) end: End,
    /// Time by the clock.
    pub(crate) wall: Duration,
    /// Time by the clock until the program began; all of it if it never did.
    pub(crate) boot: Duration,
    /// Processor time of the whole guest, so far as was seen: up to 0.1 s less than it was.
    pub(crate) cpu: Duration,
    /// Whether the guest's first process was heard.
    pub(crate) is_up: bool,
    /// How many files came back.
    pub(crate) n_files: usize,
    /// What the kernel printed.
    pub(crate) console: String,
}

impl Boot {
    /// Runs the guest to its end; `take` gets what the program prints.
    pub(crate) fn run(&self, take: &mut dyn FnMut(Stream, &[u8])) -> anyhow::Result<Report> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
        let mut child = self.command(theirs)?.spawn().context("cannot start qemu")?;
        let port = ours.try_clone().context("cannot share a socket")?;
        let mut session = Session {
            frames: read_frames(ours),
            port,
            looker: Looker::new(child.id()),
            budget: Budget::new(self.limits.clone()),
            returned: self.out.as_deref().map(Returned::new),
            said: None,
            limit: None,
            boot: None,
            is_up: false,
            take,
        };
        let followed = session.follow(&mut child);
        // A guest that has said all needs no time to die; one that has not gets none.
        let _ = child.kill();
        let status = child.wait().context("cannot wait for qemu")?;
        followed?;
        let console = self.text_of(CONSOLE);
        let end = session.end(&console, || format!("qemu: {status}; {}", self.text_of(COMPLAINTS)));
        let look = session.budget.last();
        let is_up = session.is_up;
        let n_files = session.returned.map_or(Ok(0), Returned::finish)?;
        let boot = session.boot.unwrap_or(look.wall);
        Ok(Report { end, wall: look.wall, boot, cpu: look.cpu, is_up, n_files, console })
    }

    fn command(&self, theirs: UnixStream) -> anyhow::Result<Command> {
        let mut command = base_command();
        command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        command.args(&self.processor).args(&self.machine);
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.files);
        command.arg("-append").arg(self.kernel_words());
        command.arg("-chardev").arg(format!("file,id=console,path={}", self.path_of(CONSOLE)?));
        command.args(["-serial", "chardev:console", "-chardev", "socket,id=port,fd=0"]);
        command.args(["-device", "virtio-serial-pci,bus=pcie.0,romfile="]);
        command.arg("-device").arg(format!("virtserialport,chardev=port,name={PORT}"));
        if self.whole_host {
            let share =
                "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap";
            command.args(["-virtfs", share]);
        }
        let complaints = File::create(self.path_of(COMPLAINTS)?).context("cannot write a log")?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(complaints);
        Ok(command)
    }

    fn kernel_words(&self) -> String {
        let quiet = if self.is_verbose { "" } else { " quiet loglevel=3" };
        // Without the last three an emulated machine spends seconds on trust in its own clock and
        // on tests of ciphers.
        format!(
            "console=ttyS0 panic=-1 nokaslr mitigations=off no_timer_check tsc=reliable \
             cryptomgr.notests{quiet}"
        )
    }

    /// A path for an option of qemu, in which a comma would begin another option.
    fn path_of(&self, name: &str) -> anyhow::Result<String> {
        let path = self.folder.join(name).display().to_string();
        Ok(path.replace(',', ",,"))
    }

    fn text_of(&self, name: &str) -> String {
        let bytes = fs::read(self.folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "").trim().to_owned()
    }
}

/// The name of the file with what the kernel prints.
const CONSOLE: &str = "console.txt";

/// The name of the file with what qemu prints.
const COMPLAINTS: &str = "qemu.txt";

/// The emulator.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// How often a silent guest is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long a guest whose limit was reached may take to hand back what there is.
const LAST_CHANCE: Duration = Duration::from_secs(20);

/// Starts qemu so that it dies with us, however we die.
fn base_command() -> Command {
    const GUARD: &str = "/usr/bin/setpriv";
    if !Path::new(GUARD).exists() {
        return Command::new(QEMU);
    }
    let mut command = Command::new(GUARD);
    command.args(["--pdeathsig", "KILL", QEMU]);
    command
}

fn read_frames(mut from: UnixStream) -> Receiver<anyhow::Result<Frame>> {
    // Bounded: a guest that prints faster than we take it waits.
    let (sender, receiver) = mpsc::sync_channel(64);
    std::thread::spawn(move || {
        loop {
            let frame = Frame::read(&mut from).transpose();
            let is_last = !matches!(frame, Some(Ok(_)));
            let closed = frame.is_none_or(|frame| sender.send(frame).is_err());
            if closed || is_last {
                return;
            }
        }
    });
    receiver
}

struct Session<'a> {
    frames: Receiver<anyhow::Result<Frame>>,
    port: UnixStream,
    looker: Looker,
    budget: Budget,
    returned: Option<Returned>,
    /// What the guest said of the program's end.
    said: Option<End>,
    /// The limit that was reached.
    limit: Option<String>,
    boot: Option<Duration>,
    is_up: bool,
    take: &'a mut dyn FnMut(Stream, &[u8]),
}

impl Session<'_> {
    /// Acts on frames until the guest has said all, is gone, or has used what it may.
    fn follow(&mut self, child: &mut Child) -> anyhow::Result<()> {
        let mut stopping: Option<Duration> = None;
        let mut last_look = Stopwatch::start();
        loop {
            match self.frames.recv_timeout(LOOK) {
                Ok(frame) => {
                    self.budget.heard();
                    if self.on_frame(frame.context("the guest speaks nonsense")?)? {
                        self.look();
                        return Ok(());
                    }
                    // A look costs more than a frame does.
                    if self.limit.is_none() && last_look.elapsed() < LOOK {
                        continue;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return self.await_end(child),
                Err(RecvTimeoutError::Timeout) => {}
            }
            last_look = Stopwatch::start();
            self.look();
            match (stopping, &self.limit) {
                (None, Some(_)) => {
                    stopping = Some(self.budget.last().wall);
                    // One that is stuck does not hear it, and is killed a little later.
                    let _ = Frame::Stop.write(&mut self.port);
                }
                (Some(since), _) if self.budget.last().wall > since + LAST_CHANCE => return Ok(()),
                _ => {}
            }
        }
    }

    /// Whether the guest has said all.
    fn on_frame(&mut self, frame: Frame) -> anyhow::Result<bool> {
        match frame {
            Frame::Up => {
                self.is_up = true;
                self.budget.enter(Phase::Preparing);
            }
            Frame::Started => {
                self.boot = Some(self.looker.look().wall);
                self.budget.enter(Phase::Running);
            }
            Frame::Stdout(bytes) => self.output(Stream::Out, &bytes),
            Frame::Stderr(bytes) => self.output(Stream::Err, &bytes),
            Frame::Exit(code) => self.ended(End::Exit(code)),
            Frame::Signal(number) => self.ended(End::Signal(number)),
            Frame::NotStarted(why) => self.ended(End::NotStarted(why)),
            Frame::Done => return Ok(true),
            Frame::Beat(_) | Frame::Stage(_) => {}
            Frame::Stop => bail!("the guest says what only the host may say"),
            file => self.file(file)?,
        }
        Ok(false)
    }

    fn ended(&mut self, end: End) {
        self.said = Some(end);
        self.budget.enter(Phase::Closing);
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if self.budget.has_room_for_output(bytes.len()) {
            (self.take)(stream, bytes);
        } else {
            self.limit.get_or_insert_with(|| "its output is too long".to_owned());
        }
    }

    fn file(&mut self, frame: Frame) -> anyhow::Result<()> {
        let Some(returned) = &mut self.returned else { return Ok(()) };
        match frame {
            Frame::Folder(path) => returned.folder(&path),
            Frame::Link(path, target) => returned.link(&path, target),
            Frame::File(mode, path) => returned.file(mode, &path),
            Frame::Bytes(bytes) if self.budget.has_room_for_files(bytes.len()) => {
                returned.bytes(&bytes)
            }
            _ => {
                self.limit.get_or_insert_with(|| "the files that it left are too large".to_owned());
                Ok(())
            }
        }
    }

    fn look(&mut self) {
        let reached = self.budget.look(self.looker.look());
        self.limit = self.limit.take().or(reached);
    }

    /// The port is closed: qemu ends at once or is stuck.
    fn await_end(&mut self, child: &mut Child) -> anyhow::Result<()> {
        while child.try_wait().context("cannot wait for qemu")?.is_none() {
            self.look();
            if self.limit.is_some() {
                return Ok(());
            }
            let (_keep, silent) = mpsc::channel::<()>();
            let _ = silent.recv_timeout(LOOK);
        }
        Ok(())
    }

    fn end(&mut self, console: &str, qemu: impl FnOnce() -> String) -> End {
        let words = last_words(console);
        match (self.limit.take(), self.said.take(), words) {
            (Some(limit), _, _) => End::Limit(limit),
            (None, Some(End::NotStarted(why)), Some(words)) => {
                End::NotStarted(format!("{why} ({words})"))
            }
            (None, Some(said), _) => said,
            (None, None, Some(words)) => End::Panic(words),
            (None, None, None) => {
                let last = console.lines().next_back().unwrap_or("it printed nothing");
                End::Lost(format!("{last} ({})", qemu().trim_end_matches([';', ' '])))
            }
        }
    }
}

#[cfg(test)]
mod tests;
