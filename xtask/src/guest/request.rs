//! One run as it is asked for, and as it is done.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, bail, ensure};

use crate::guest::budget::Limits;
use crate::guest::image::Payload;
use crate::guest::job::{Job, OUT};
use crate::guest::libraries::{self, Files};
use crate::guest::machine::Machine;
use crate::guest::prepare::{Store, note};
use crate::guest::session::{Boot, Report, Stream};

/// A program to run in a guest.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// On which machine.
    pub(crate) machine: Machine,
    /// With how much memory, in MiB.
    pub(crate) memory_mib: u32,
    /// The program and its arguments. One with a `/` is a file of this machine and is packed.
    pub(crate) command: Vec<String>,
    /// More files and folders of this machine, by their paths in the guest.
    pub(crate) files: Files,
    /// Its variables, beside the usual ones.
    pub(crate) env: Vec<(String, String)>,
    /// The folder that it starts in.
    pub(crate) folder: PathBuf,
    /// Where to put files that it leaves.
    pub(crate) out: Option<PathBuf>,
    /// Whether it sees all files of this machine.
    pub(crate) whole_host: bool,
    /// Whether the processor is the machine's own.
    pub(crate) accel: Accel,
    /// What it may use.
    pub(crate) limits: Limits,
    /// Whether the kernel says all that it does.
    pub(crate) is_verbose: bool,
}

/// How the guest's processor is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accel {
    /// By the processor itself where it can and a guest comes up so, else in software.
    Auto,
    /// In software: slow, and possible everywhere.
    Tcg,
    /// By the processor itself.
    Kvm,
}

impl Accel {
    /// What a flag says.
    pub(crate) fn of(word: &str) -> anyhow::Result<Self> {
        match word {
            "tcg" => Ok(Self::Tcg),
            "kvm" => Ok(Self::Kvm),
            "auto" => Ok(Self::Auto),
            _ => bail!("`{word}` is none of auto, tcg, kvm"),
        }
    }

    /// The ways to try, one after the other.
    fn ways(self) -> &'static [Self] {
        match self {
            Self::Auto if can_kvm() => &[Self::Kvm, Self::Tcg],
            Self::Auto | Self::Tcg => &[Self::Tcg],
            Self::Kvm => &[Self::Kvm],
        }
    }

    fn options(self) -> Vec<String> {
        let words: &[&str] = match self {
            // Random numbers from the processor: without them, the first program that asks for
            // some waits.
            Self::Auto | Self::Tcg => {
                &["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "qemu64,+rdrand"]
            }
            Self::Kvm => &["-accel", "kvm", "-cpu", "host"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// A device file alone says little: inside some virtual machines it is there, and guests hang.
fn can_kvm() -> bool {
    let device = fs::File::options().read(true).write(true).open("/dev/kvm");
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut words = about.split_whitespace();
    device.is_ok() && words.any(|word| word == "vmx" || word == "svm")
}

impl Request {
    /// A program on a machine, with the usual limits.
    pub(crate) fn new(machine: Machine, command: Vec<String>) -> Self {
        Self {
            machine,
            memory_mib: 1024,
            command,
            files: Files::new(),
            env: Vec::new(),
            folder: PathBuf::from("/"),
            out: None,
            whole_host: false,
            accel: Accel::Auto,
            limits: Limits::default(),
            is_verbose: false,
        }
    }

    /// Boots a guest, runs the program and waits for its end.
    pub(crate) fn run(
        &self,
        store: &Store,
        take: &mut dyn FnMut(Stream, &[u8]),
    ) -> anyhow::Result<Report> {
        let n_nodes = u32::try_from(self.machine.nodes.len()).unwrap_or(u32::MAX).max(1);
        ensure!(
            self.memory_mib / n_nodes >= LEAST_MIB,
            "each node of a guest needs {LEAST_MIB} MiB"
        );
        let folder = Scratch::new(&store.folder)?;
        let files = folder.0.join("files.cpio");
        store.base.write_run(&files, &self.payload(store)?)?;
        let mut boot = Boot {
            kernel: store.kernel.image(),
            files,
            machine: self.machine.options(self.memory_mib),
            processor: Vec::new(),
            whole_host: self.whole_host,
            is_verbose: self.is_verbose,
            folder: folder.0.clone(),
            out: self.out.clone(),
            limits: self.limits.clone(),
        };
        let ways = self.accel.ways();
        for (index, way) in ways.iter().enumerate() {
            boot.processor = way.options();
            let report = boot.run(take)?;
            if report.is_up || index + 1 == ways.len() {
                return Ok(report);
            }
            note(&format!("no guest with {way:?}: {}", report.end.text()));
        }
        bail!("there is no way to have a processor")
    }

    fn payload(&self, store: &Store) -> anyhow::Result<Payload> {
        let mut command = self.command.clone();
        let mut files = self.files.clone();
        let program = command.first_mut().context("no program is named")?;
        if program.contains('/') {
            let file = Path::new(program.as_str());
            ensure!(file.is_file(), "{program} is no file");
            let path = libraries::guest_path(file)?;
            *program = if self.whole_host {
                path
            } else if file == store.init {
                // It is in every guest.
                "/init".to_owned()
            } else {
                files.insert(path.clone(), file.to_owned());
                path
            };
        }
        let folder = self.folder.to_str().context("the folder's name is not UTF-8")?.to_owned();
        let mut modules = vec!["core".to_owned()];
        modules.extend(self.machine.module_groups().into_iter().map(str::to_owned));
        modules.extend(self.whole_host.then(|| "host".to_owned()));
        let job = Job {
            command,
            env: self.variables(),
            folder,
            whole_host: self.whole_host,
            modules,
            links: self.machine.link_words(),
            brings: self.out.is_some(),
        };
        Ok(Payload { init: store.init.clone(), job, files })
    }

    /// Usual variables first, so that a request may set them otherwise.
    fn variables(&self) -> Vec<(String, String)> {
        let usual = [
            ("PATH", "/usr/bin:/usr/sbin:/usr/local/bin"),
            ("HOME", "/tmp"),
            ("TMPDIR", "/tmp"),
            ("LC_ALL", "C.UTF-8"),
            ("TE_OUT", OUT),
            ("TE_GUEST", self.machine.name),
        ];
        let usual = usual.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        usual.chain(self.env.iter().cloned()).collect()
    }
}

/// Less does not hold the kernel, its file system and this program.
const LEAST_MIB: u32 = 128;

/// A folder for one run, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: &Path) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only that no number comes twice matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join("runs").join(format!("{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
