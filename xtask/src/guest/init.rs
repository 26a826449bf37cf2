//! The first process of the guest: it mounts, loads modules, makes links, runs the program and tells
//! the host how that ended.
//!
//! It is this very program, started by the kernel as `/init`. Threads: the main one goes through the
//! stages and waits for the program; two carry its output; one sends a beat every second; one reads
//! what the host says. All write frames to one port, one whole frame at a time.
//!
//! I1  When the host closes the port, the guest switches itself off: nobody is left to hear it.
//! I2  Nothing that a program leaves running holds up its result: all other processes are killed
//!     once it has ended.
#![expect(clippy::print_stderr, reason = "standard error is the console, and this is all it has")]

use std::convert::Infallible;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::guest::job::{JOB_PATH, Job, OUT};
use crate::guest::wire::{CHUNK, Frame};
use crate::ui::Stopwatch;

/// The name of the port between guest and host.
pub(crate) const PORT: &str = "te";

/// Lists of module files in the order in which they are loaded, one list for each group.
pub(crate) const MODULE_LISTS: &str = "/etc/te/modules";

/// What is loaded before the host can be spoken to.
pub(crate) const FIRST_MODULES: &str = "first";

/// Whether this process is the first of a guest.
pub(crate) fn is_first_process() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == "/init")
}

/// Does the guest's work, then switches it off.
pub(crate) fn main() {
    let Err(error) = work();
    eprintln!("te-guest: {error:#}");
    let _ = busybox(&["poweroff", "-f"]);
    // A first process that ends is a panic of the kernel; the host takes that as it is.
}

fn work() -> anyhow::Result<Infallible> {
    busybox(&["sh", "-c", MOUNTS])?;
    load(FIRST_MODULES)?;
    let port = Port::open()?;
    port.send(&Frame::Up);
    port.beat();
    let end = match prepared(&port) {
        Ok(job) => run(&port, &job),
        Err(error) => Frame::NotStarted(format!("{error:#}")),
    };
    port.send(&end);
    port.send(&Frame::Done);
    // What was sent may still lie in the port's queue, and would be lost with this machine: the host
    // ends it when it has all. I1 holds meanwhile.
    loop {
        pause(Duration::from_secs(1));
    }
}

/// A folder that a file was packed into stays as it is: all of it lies in memory anyway.
const MOUNTS: &str = "set -e; b=/bin/busybox
    $b mount -t proc proc /proc; $b mount -t sysfs sys /sys; $b mount -t devtmpfs dev /dev
    $b mkdir -p /dev/shm /dev/pts
    for d in /tmp /dev/shm /run /out; do
        [ -n \"$($b ls -A $d)\" ] || $b mount -t tmpfs tmpfs $d
    done
    $b mount -t devpts devpts /dev/pts";

/// Loads modules and makes links. The job may ask for the host's files.
fn prepared(port: &Port) -> anyhow::Result<Job> {
    let text = fs::read_to_string(JOB_PATH).context("the guest was given no job")?;
    let job = Job::of_text(&text)?;
    port.stage("loading modules");
    job.modules.iter().try_for_each(|group| load(group))?;
    busybox(&["ip", "link", "set", "lo", "up"])?;
    if !job.links.is_empty() {
        port.stage("making links");
        let mut words = vec!["sh", "/usr/bin/te-net"];
        words.extend(job.links.iter().map(String::as_str));
        busybox(&words)?;
    }
    if job.whole_host {
        port.stage("mounting the host");
        busybox(&["sh", "-c", WHOLE_HOST])?;
    }
    Ok(job)
}

/// The host's files below, a file system in memory above: what is written stays in the guest.
const WHOLE_HOST: &str = "set -e; b=/bin/busybox
    $b mkdir -p /run/host /run/above /host
    $b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /run/host
    $b mount -t tmpfs -o size=75% above /run/above; $b mkdir /run/above/u /run/above/w
    $b mount -t overlay -o lowerdir=/run/host,upperdir=/run/above/u,workdir=/run/above/w over /host
    for d in dev proc sys; do $b mount --rbind /$d /host/$d; done
    $b mkdir -p /host/out; $b mount --bind /out /host/out
    $b mkdir -p /host/run; $b mount --bind /run /host/run
    $b cp /usr/bin/te-net /host/usr/bin/te-net
    for t in ip tc rdma; do [ -e /host/usr/bin/$t ] || $b ln -s /usr/sbin/$t /host/usr/bin/$t; done";

/// Loads a group of modules. One that is there already is no fault.
fn load(group: &str) -> anyhow::Result<()> {
    let list = format!("{MODULE_LISTS}/{group}");
    let told = || format!("there is no group of modules `{group}`");
    let files = fs::read_to_string(&list).with_context(told)?;
    let loaded = fs::read_to_string("/proc/modules").unwrap_or_default();
    let is_loaded = |file: &str| {
        let name =
            Path::new(file).file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
        loaded.lines().any(|line| line.split(' ').next() == Some(name.as_str()))
    };
    files.lines().filter(|file| !is_loaded(file)).try_for_each(|file| busybox(&["insmod", file]))
}

/// Runs an applet of busybox, or a script by it; what it says is part of the error.
fn busybox(words: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("/bin/busybox");
    // A pipe that is closed at once: before devices are mounted there is no null device.
    let output = command.args(words).stdin(Stdio::piped()).output();
    let output = output.context("cannot start busybox")?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    bail!("`{}` failed: {said}", words.iter().take(3).copied().collect::<Vec<_>>().join(" "))
}

/// The port to the host.
#[derive(Clone)]
struct Port {
    to: Arc<Mutex<File>>,
}

impl Port {
    /// Waits for the port, which appears a moment after its driver is loaded.
    fn open() -> anyhow::Result<Self> {
        let watch = Stopwatch::start();
        let path = loop {
            match find_port() {
                Some(path) => break path,
                None if watch.elapsed() > PORT_LIMIT => bail!("there is no port named {PORT}"),
                None => pause(Duration::from_millis(10)),
            }
        };
        let told = || format!("cannot open {}", path.display());
        let file = OpenOptions::new().read(true).write(true).open(&path).with_context(told)?;
        let mut from = file.try_clone().with_context(told)?;
        std::thread::spawn(move || obey(&mut from));
        Ok(Self { to: Arc::new(Mutex::new(file)) })
    }

    /// Sends a frame.
    fn send(&self, frame: &Frame) {
        self.send_all(std::slice::from_ref(frame));
    }

    /// Sends frames by one call, since each costs a way out of the emulated machine. A host that is
    /// gone cannot be told so.
    fn send_all(&self, frames: &[Frame]) {
        let mut bytes = Vec::new();
        let written = frames.iter().try_for_each(|frame| frame.write(&mut bytes));
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = written.and_then(|()| Ok(to.write_all(&bytes)?)) {
            eprintln!("te-guest: {error:#}");
        }
    }

    fn stage(&self, name: &str) {
        self.send(&Frame::Stage(name.to_owned()));
    }

    /// Sends a beat every second from now on.
    fn beat(&self) {
        let port = self.clone();
        let watch = Stopwatch::start();
        std::thread::spawn(move || {
            loop {
                let uptime = u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX);
                port.send(&Frame::Beat(uptime));
                pause(Duration::from_secs(1));
            }
        });
    }
}

const PORT_LIMIT: Duration = Duration::from_secs(30);

fn find_port() -> Option<PathBuf> {
    let entries = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let mut ours = entries.filter(|entry| {
        fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == PORT)
    });
    let path = Path::new("/dev").join(ours.next()?.file_name());
    path.exists().then_some(path)
}

/// Set when the host asked for an end, so that the end is told as such.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Does what the host says, for as long as it is there.
fn obey(from: &mut File) {
    loop {
        match Frame::read(from) {
            Ok(Some(Frame::Stop)) => {
                // Relaxed: nothing else is read because of it.
                STOPPED.store(true, Ordering::Relaxed);
                kill_all();
            }
            Ok(Some(_)) => {}
            // I1
            Ok(None) | Err(_) => {
                let _ = busybox(&["poweroff", "-f"]);
                return;
            }
        }
    }
}

/// Kills every process but this one.
fn kill_all() {
    let _ = busybox(&["sh", "-c", "kill -KILL -1"]);
}

/// Runs the program and hands back its files; returns how it ended.
fn run(port: &Port, job: &Job) -> Frame {
    let mut child = match start(job) {
        Ok(child) => child,
        Err(error) => return Frame::NotStarted(format!("{error:#}")),
    };
    port.send(&Frame::Started);
    let carriers = [
        child.stdout.take().map(|from| carry(port, from, Frame::Stdout)),
        child.stderr.take().map(|from| carry(port, from, Frame::Stderr)),
    ];
    let status = child.wait();
    // I2: also the pipes of a program's children end here.
    kill_all();
    for carrier in carriers.into_iter().flatten() {
        let _ = carrier.join();
    }
    let end = match status {
        Ok(status) => end_of(status),
        Err(error) => return Frame::NotStarted(format!("it cannot be waited for: {error}")),
    };
    if job.brings {
        bring(port, Path::new(OUT), "");
    }
    end
}

fn end_of(status: ExitStatus) -> Frame {
    match (status.code(), status.signal()) {
        _ if STOPPED.load(Ordering::Relaxed) => Frame::NotStarted("the host stopped it".to_owned()),
        (Some(code), _) => Frame::Exit(code),
        (None, signal) => Frame::Signal(signal.unwrap_or(0)),
    }
}

/// Starts the program through a shell, which raises its limits and then is replaced by it.
fn start(job: &Job) -> anyhow::Result<Child> {
    let (program, _) = job.command.split_first().context("there is no program")?;
    let mut command = Command::new("/bin/busybox");
    if job.whole_host {
        command.args(["chroot", "/host", "/bin/sh", "-c", START, "sh", &job.folder]);
    } else {
        let is_path = program.contains('/');
        if is_path && !Path::new(program).exists() {
            bail!("{program} is not in the guest");
        }
        command.args(["sh", "-c", START, "sh", &job.folder]);
    }
    command.args(&job.command).env_clear().envs(job.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().with_context(|| format!("cannot start {program}"))
}

const START: &str = "ulimit -n 65536; ulimit -l unlimited; ulimit -c 0
    cd \"$1\" || exit 126; shift; exec \"$@\"";

/// Carries one output stream to the host.
fn carry(
    port: &Port,
    mut from: impl Read + Send + 'static,
    frame: fn(Vec<u8>) -> Frame,
) -> JoinHandle<()> {
    let port = port.clone();
    std::thread::spawn(move || {
        let mut bytes = vec![0; CHUNK];
        while let Ok(n) = from.read(&mut bytes) {
            if n == 0 {
                return;
            }
            port.send(&frame(bytes[..n].to_vec()));
        }
    })
}

/// Sends a folder: folders, links and plain files, in the order of their names.
fn bring(port: &Port, folder: &Path, prefix: &str) {
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        // A name that is not UTF-8 comes back changed rather than not at all.
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let Ok(about) = entry.path().symlink_metadata() else { continue };
        if about.is_dir() {
            port.send(&Frame::Folder(path.clone()));
            bring(port, &entry.path(), &format!("{path}/"));
        } else if about.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            port.send(&Frame::Link(path, target.to_string_lossy().into_owned()));
        } else if about.is_file() {
            bring_file(port, &entry.path(), Frame::File(about.permissions().mode() & 0o777, path));
        }
    }
}

fn bring_file(port: &Port, path: &Path, head: Frame) {
    let Ok(mut file) = File::open(path) else { return };
    let mut bytes = vec![0; CHUNK];
    let mut frames = vec![head];
    while let Ok(n) = file.read(&mut bytes) {
        if n == 0 {
            break;
        }
        frames.push(Frame::Bytes(bytes[..n].to_vec()));
        port.send_all(&frames);
        frames.clear();
    }
    port.send_all(&frames);
}

/// Waits on a channel that nobody sends on.
fn pause(time: Duration) {
    let (_keep, silent) = mpsc::channel::<()>();
    let _ = silent.recv_timeout(time);
}
