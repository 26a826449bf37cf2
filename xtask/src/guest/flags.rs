//! What can be said to `cargo xtask guest`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Flags of `guest`.
#[derive(Debug, Args)]
pub(crate) struct GuestFlags {
    /// What to do
    #[command(subcommand)]
    pub(crate) verb: GuestVerb,
}

/// What can be done with a guest.
#[derive(Debug, Subcommand)]
pub(crate) enum GuestVerb {
    /// Run a program in a guest; exit as it does
    Run(RunFlags),
    /// Write the sysfs tree of a guest to a tar file
    Capture(CaptureFlags),
    /// Fetch and build what guests need
    Prepare,
    /// List the machines that a guest can be
    Machines,
    /// Print the variable that makes cargo run tests in a guest
    Runner(MachineFlags),
    /// What tests of the guest run in it
    #[command(hide = true)]
    Probe(ProbeFlags),
}

/// Which machine.
#[derive(Debug, Clone, Args)]
pub(crate) struct MachineFlags {
    /// The machine; `guest machines` lists them
    #[arg(long, value_name = "NAME", default_value = "pair")]
    pub(crate) machine: String,
    /// Instead of a named machine one with so many RDMA devices
    #[arg(long, value_name = "N", conflicts_with = "machine")]
    pub(crate) nics: Option<u32>,
    /// Instead of a named machine one with so many NUMA nodes, the devices spread over them
    #[arg(long, value_name = "N", conflicts_with = "machine")]
    pub(crate) nodes: Option<u32>,
    /// Memory of the guest
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub(crate) memory: u32,
}

/// Flags of `guest run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
    /// Longest time for the program, less what this machine did not let it run
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) timeout: u64,
    /// Most processor time for the whole guest
    #[arg(long, value_name = "SECONDS", default_value_t = 1200)]
    pub(crate) cpu: u64,
    /// Most output of the program
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    pub(crate) output: u64,
    /// Put a file or folder into the guest, at the same path or at another
    #[arg(long, value_name = "PATH[=GUEST PATH]")]
    pub(crate) file: Vec<String>,
    /// Set a variable for the program, or hand on one of this machine
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
    /// Where to put the files that the program leaves in /out
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Let the program see all files of this machine; what it writes stays in the guest
    #[arg(long)]
    pub(crate) whole_host: bool,
    /// How the processor is had; `auto` takes kvm where the processor can, and otherwise emulates
    #[arg(long, value_name = "auto|tcg|kvm", default_value = "auto")]
    pub(crate) accel: String,
    /// Print what the kernel says, and what the run cost
    #[arg(long)]
    pub(crate) verbose: bool,
    /// The program and its arguments; a name without `/` is a tool of the guest
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<String>,
}

/// Flags of `guest capture`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CaptureFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
    /// The tar file
    pub(crate) file: PathBuf,
}

/// Flags of `guest probe`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProbeFlags {
    /// What to do
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}
