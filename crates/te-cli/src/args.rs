//! The command line: verbs, options, help.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::units::{parse_address, parse_length, parse_seconds};
use crate::verbs::{bench, meta, metadata_server};

/// Read and write pieces of other processes' memory.
#[derive(Debug, Parser)]
#[command(name = "te", version, after_help = MAIN_HINT, after_long_help = MAIN_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options that every verb takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Take settings from this TOML file
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub(crate) config: Option<PathBuf>,
    /// Where names lead: P2PHANDSHAKE asks the peer, else a metadata service's URI
    #[arg(long, global = true, value_name = "WHERE", default_value = "P2PHANDSHAKE")]
    #[arg(help_heading = "Common options")]
    pub(crate) metadata: String,
    /// Print results as JSON
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// Log more to standard error; twice for every detail
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Common options")]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Expose a buffer that others can read and write
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Write a file, standard input or a pattern into a segment
    #[command(after_help = WRITE_EXAMPLES)]
    Write(Write),
    /// Read from a segment into a file or standard output
    #[command(after_help = READ_EXAMPLES)]
    Read(Read),
    /// Send a short message to a segment's owner
    #[command(after_help = NOTIFY_EXAMPLES)]
    Notify(Notify),
    /// Ask whether a segment's owner is alive
    #[command(after_help = PROBE_EXAMPLES)]
    Probe(Probe),
    /// Show what a segment says about itself
    #[command(after_help = SEGMENT_EXAMPLES)]
    Segment(Segment),
    /// Look at what stands in a metadata service, or change it
    #[command(after_help = meta::EXAMPLES)]
    Meta(meta::Meta),
    /// Run a metadata server, where engines publish what they expose
    #[command(after_help = metadata_server::EXAMPLES)]
    MetadataServer(Box<metadata_server::MetadataServer>),
    /// Show every setting that is in force, and who set it
    #[command(after_help = CONFIG_EXAMPLES)]
    Config(Config),
    /// Show this machine: NUMA nodes, NICs, GPUs, and who is near to whom
    #[command(after_help = TOPO_EXAMPLES)]
    Topo(Topo),
    /// Move data between two processes, check it, show how fast it was
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(Demo),
    /// Measure how fast bytes move, to a second process or to any segment
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::Bench>),
    /// The second process of `te bench`
    #[command(hide = true)]
    BenchTarget(bench::BenchTarget),
    /// What an engine costs that has many peers and nothing to do
    #[command(hide = true)]
    BenchIdle(bench::Idle),
    /// The second process of `te bench-idle`
    #[command(hide = true)]
    BenchPeers(bench::Peers),
    /// Draw a report of `cargo xtask bench`
    #[command(hide = true)]
    BenchPage(bench::Page),
    /// The second process of `te demo`
    #[command(hide = true)]
    DemoTarget(DemoTarget),
    /// Print the completion script of a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Bytes to expose [default: the file's length, else 1G]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub(crate) size: Option<u64>,
    /// Fill the buffer from this file first
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The address of this machine that others shall use
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// Take exactly this port [default: a free one]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Let others read the buffer, not write it
    #[arg(long)]
    pub(crate) read_only: bool,
    /// End when standard input ends
    #[arg(long)]
    pub(crate) until_eof: bool,
}

/// Which part of a segment.
#[derive(Debug, Args)]
pub(crate) struct Part {
    /// The segment's name, as `te serve` prints it: host:port
    pub(crate) segment: String,
    /// Start this far into the segment's list of buffers
    #[arg(long, value_name = "LENGTH", value_parser = parse_length, default_value = "0")]
    pub(crate) offset: u64,
    /// Start at this address in its owner instead, like 0x7f0012340000
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, conflicts_with = "offset")]
    pub(crate) address: Option<u64>,
}

/// How bytes are moved.
#[derive(Debug, Args)]
pub(crate) struct Moving {
    /// Bytes per request
    #[arg(long, value_name = "LENGTH", value_parser = parse_chunk, default_value = "32M")]
    pub(crate) chunk: u64,
    /// Limit of each request, like 2.5 [default: as configured]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// Sum the bytes at the source and compare at the destination
    #[arg(long)]
    pub(crate) checked: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Write {
    #[command(flatten)]
    pub(crate) part: Part,
    /// Write this file [default: -, standard input]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Write bytes made from this number; read --pattern checks them
    #[arg(long, value_name = "SEED", conflicts_with = "file")]
    pub(crate) pattern: Option<u64>,
    /// How many bytes [default: all input; the rest of the segment]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub(crate) length: Option<u64>,
    /// Read everything back afterwards and compare
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) moving: Moving,
}

#[derive(Debug, Args)]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) part: Part,
    /// Write to this file [default: -, standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Keep nothing; compare with what write --pattern SEED wrote
    #[arg(long, value_name = "SEED", conflicts_with = "file")]
    pub(crate) pattern: Option<u64>,
    /// Keep nothing; only count and sum up
    #[arg(long, conflicts_with_all = ["file", "pattern"])]
    pub(crate) discard: bool,
    /// How many bytes [default: the rest of the segment or buffer]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length)]
    pub(crate) length: Option<u64>,
    #[command(flatten)]
    pub(crate) moving: Moving,
}

#[derive(Debug, Args)]
pub(crate) struct Notify {
    /// The segment's name
    pub(crate) segment: String,
    /// Who says it; nothing vouches for it
    pub(crate) name: String,
    /// What
    pub(crate) message: String,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// The segment's name
    pub(crate) segment: String,
    /// How long to wait for the answer, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "2")]
    pub(crate) timeout: std::time::Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Segment {
    /// The segment's name
    pub(crate) segment: String,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Only settings that differ from their default
    #[arg(long)]
    pub(crate) changed: bool,
    /// Also variables and meanings
    #[arg(long)]
    pub(crate) long: bool,
    /// Print the reference of all settings, docs/configuration.md
    #[arg(long, conflicts_with_all = ["changed", "long"])]
    pub(crate) markdown: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Topo {
    #[command(subcommand)]
    pub(crate) action: Option<TopoAction>,
    /// Another machine: lstopo or NCCL XML, a capture, a folder with sys
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Print the matrix that Mooncake uses, as for MC_CUSTOM_TOPO_JSON
    #[arg(long, conflicts_with = "dot")]
    pub(crate) classic_json: bool,
    /// Print a graph for Graphviz
    #[arg(long)]
    pub(crate) dot: bool,
    /// Draw a picture into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Draw a page for a browser into this file; it needs no other
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Columns of the tree [default: the terminal's, else 80]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..))]
    pub(crate) width: Option<u16>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopoAction {
    /// Write what `te topo` reads of this machine, for --from elsewhere
    Capture {
        /// The file; - is standard output
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Bytes to move each way
    #[arg(long, value_name = "LENGTH", value_parser = parse_length, default_value = "1G")]
    pub(crate) size: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DemoTarget {
    #[arg(value_parser = parse_length)]
    pub(crate) size: u64,
}

fn parse_chunk(text: &str) -> Result<u64, String> {
    match parse_length(text)? {
        length if (4096..=1 << 30).contains(&length) => Ok(length),
        _ => Err("a chunk has 4K to 1G".to_owned()),
    }
}

const MAIN_HINT: &str = "Try `te demo`, or `te help VERB` for examples.";

const MAIN_HELP: &str = "\
Start here:
  te demo                                two processes, 1 GiB each way, checked
  te serve --size 1G                     expose a buffer; prints its name, say 127.0.0.1:15501
  te write 127.0.0.1:15501 --file x.bin  write into it from another terminal
  te read 127.0.0.1:15501 --length 1M    read from it

Lengths are whole numbers with K, M, G or T for powers of 1024. Settings come from defaults, a TOML
file, MC_* variables, TE_* variables and options, the later ones winning; `te config` shows them.

Exit codes:
  0    done
  1    the transfer failed, or something else did
  2    the command line is wrong
  3    the configuration is wrong
  4    the peer cannot be reached, or does not know the segment
  5    the peer refused: the range is not exposed, or not for this
  6    the bytes are not what they should be
  7    a local file, memory or port is the problem
  8    the time ran out
  141  whoever read our output went away

An error is one line on standard error: what failed, with whom, why, and what to try.";

const SERVE_EXAMPLES: &str = "\
Examples:
  te serve --size 4G                           4 GiB of zeros, until Ctrl-C
  te serve --file model.bin --read-only        a file's content, for reading only
  te serve --host 10.0.0.2 --port 15001        for other machines, always as 10.0.0.2:15001
  te serve --json --until-eof                  for programs: JSON, ends with standard input

Anybody who can connect to this machine can read and write the buffer while it is served.";

const WRITE_EXAMPLES: &str = "\
Examples:
  te write 127.0.0.1:15501 --file x.bin                 a file to the start of the segment
  tar c dir | te write 127.0.0.1:15501 --offset 1M      standard input
  te write 127.0.0.1:15501 --pattern 7 --length 64M --verify
  te write 127.0.0.1:15501 --address 0x7f0012340000 --file x.bin";

const READ_EXAMPLES: &str = "\
Examples:
  te read 127.0.0.1:15501 --length 1M --file x.bin      the first MiB into a file
  te read 127.0.0.1:15501 --length 4K | xxd | head      to standard output
  te read 127.0.0.1:15501 --pattern 7 --length 64M      compare with `te write --pattern 7`
  te read 127.0.0.1:15501 --discard                     how fast is it?";

const NOTIFY_EXAMPLES: &str = "\
Examples:
  te notify 127.0.0.1:15501 loader 'block 17 is ready'

`te serve` prints what it is told.";

const PROBE_EXAMPLES: &str = "\
Examples:
  te probe 127.0.0.1:15501
  te probe 127.0.0.1:15501 --timeout 0.5 || echo gone";

const SEGMENT_EXAMPLES: &str = "\
Examples:
  te segment 127.0.0.1:15501
  te segment 127.0.0.1:15501 --json | jq .buffers";

const CONFIG_EXAMPLES: &str = "\
Examples:
  te config --changed                    what is not as it comes
  MC_TCP_LANES_PER_PEER=8 te config --long
  te config --config te.toml --json";

const TOPO_EXAMPLES: &str = "\
Examples:
  te topo                                this machine as a tree
  te topo --html topo.html               as a page for a browser
  te topo --dot | dot -Tsvg > topo.svg   with Graphviz
  te topo capture node7.txt              on one machine
  te topo --from node7.txt               on another

A capture holds no host name, no hardware address and no GID. --from - reads standard input.";

const DEMO_EXAMPLES: &str = "\
Examples:
  te demo
  te demo --size 4G
  MC_TCP_LANES_PER_PEER=1 te demo";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  te completions bash > ~/.local/share/bash-completion/completions/te
  te completions fish > ~/.config/fish/completions/te.fish";

#[cfg(test)]
mod tests;
