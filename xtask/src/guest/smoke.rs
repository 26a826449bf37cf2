//! The suite `guest`: each machine is what it says, and each way to end is told as what it is.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::guest::budget::Limits;
use crate::guest::end::End;
use crate::guest::machine::{self, Machine};
use crate::guest::prepare::{self, Ready, Store};
use crate::guest::request::Request;
use crate::guest::session::{Report, Stream};
use crate::guest::verbs::capture_to;
use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::suites::Order;
use crate::ui::{self, Stopwatch, seconds};
use crate::workspace::Workspace;

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let store = match prepare::prepare(workspace, journal)? {
        Ready::Yes(store) => store,
        Ready::No(why) => {
            ui::say(&format!("  skipped: {why}"));
            return Ok(vec![TestResult::new("guest::(all)", Outcome::Skipped(why))]);
        }
    };
    let mut results = Vec::new();
    for case in cases() {
        let id = format!("guest::{}", case.name);
        if order.filter.as_ref().is_none_or(|text| id.contains(text)) {
            results.push(run_case(&store, journal, id, &case)?);
        }
    }
    Ok(results)
}

/// One test.
struct Case {
    name: String,
    check: Check,
}

type Check = Box<dyn Fn(&mut Scene<'_>) -> anyhow::Result<()>>;

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for machine in machine::all() {
        let name = format!("machine_{}_is_what_it_says", machine.name.replace('-', "_"));
        cases.push(Case { name, check: Box::new(move |scene| scene.is_as_promised(&machine)) });
    }
    let mut add = |name: &str, check: fn(&mut Scene<'_>) -> anyhow::Result<()>| {
        cases.push(Case { name: name.to_owned(), check: Box::new(check) });
    };
    add("a_link_goes_down_loses_and_comes_back", |scene| scene.breaks_a_link());
    add("an_exit_code_comes_back", |scene| scene.ends(&["exit", "3"], &End::Exit(3)));
    add("a_signal_is_told_as_such", |scene| scene.ends(&["signal", "ABRT"], &End::Signal(6)));
    add("exit_137_is_no_signal", |scene| scene.ends(&["exit", "137"], &End::Exit(137)));
    add("a_hanging_program_is_ended_and_its_output_kept", |scene| scene.hangs());
    add("a_spinning_program_is_ended_by_processor_time", |scene| scene.spins());
    add("a_program_that_takes_all_memory_is_killed", |scene| scene.eats());
    add("endless_output_is_cut", |scene| scene.floods());
    add("a_kernel_that_gives_up_is_told", |scene| scene.panics());
    add("a_program_that_is_not_there_is_told", |scene| scene.is_not_there());
    add("files_and_both_streams_come_back", |scene| scene.leaves_files());
    add("a_program_sees_the_whole_host_and_cannot_change_it", |scene| scene.sees_the_host());
    add("a_tree_of_a_guest_is_captured", |scene| scene.is_captured());
    cases
}

fn run_case(
    store: &Store,
    journal: &mut Journal,
    id: String,
    case: &Case,
) -> anyhow::Result<TestResult> {
    let watch = Stopwatch::start();
    let mut scene = Scene { store, printed: Vec::new(), errors: Vec::new(), told: Vec::new() };
    let checked = (case.check)(&mut scene);
    let time = watch.elapsed();
    journal.line(&format!("$ {id}"))?;
    for line in &scene.told {
        journal.line(line)?;
    }
    journal.line(&scene.text())?;
    let outcome = match checked {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    let cost = scene.told.last().map(String::as_str).unwrap_or_default();
    ui::say(&format!("  {:<8} {:>9}  {id}  ({cost})", outcome.word(), seconds(time)));
    if let Outcome::Failed(why) = &outcome {
        ui::say(&format!("\n{} {id}\n{why}\n{}\n", ui::bold("FAILED"), scene.text().trim()));
    }
    Ok(TestResult { id, outcome, time: Some(time) })
}

/// No program of these tests takes more than some seconds.
const LONGEST: Duration = Duration::from_secs(60);

/// One test while it runs: what its guests printed and cost.
struct Scene<'a> {
    store: &'a Store,
    printed: Vec<u8>,
    errors: Vec<u8>,
    told: Vec<String>,
}

impl Scene<'_> {
    fn text(&self) -> String {
        let all = [self.printed.as_slice(), &self.errors].concat();
        String::from_utf8_lossy(&all[..all.len().min(20_000)]).into_owned()
    }

    /// A request for the probe on a machine.
    fn probe(&self, machine: Machine, words: &[&str]) -> Request {
        let first = [self.store.init.display().to_string(), "guest".to_owned(), "probe".to_owned()];
        let words = words.iter().map(|word| (*word).to_owned());
        Request::new(machine, first.into_iter().chain(words).collect())
    }

    fn run(&mut self, request: &Request) -> anyhow::Result<Report> {
        let mut request = request.clone();
        request.limits.time = request.limits.time.min(LONGEST);
        let (printed, errors) = (&mut self.printed, &mut self.errors);
        let report = request.run(self.store, &mut |stream, bytes| match stream {
            Stream::Out => printed.extend_from_slice(bytes),
            Stream::Err => errors.extend_from_slice(bytes),
        })?;
        self.told.push(cost(&report));
        if !report.console.is_empty() {
            self.told.insert(0, report.console.clone());
        }
        Ok(report)
    }

    /// Runs a shell script; it must end well.
    fn script(&mut self, machine: &Machine, script: &str) -> anyhow::Result<()> {
        let command = ["sh", "-e", "-c", script].map(str::to_owned).to_vec();
        let report = self.run(&Request::new(machine.clone(), command))?;
        ensure!(report.end == End::Exit(0), "{}", report.end.text());
        Ok(())
    }

    fn ends(&mut self, words: &[&str], expected: &End) -> anyhow::Result<()> {
        let report = self.run(&self.probe(Machine::named("pair")?, words))?;
        ensure!(report.end == *expected, "{}, not {}", report.end.text(), expected.text());
        Ok(())
    }

    /// What it looks like from within, and that bytes move from its last device to its first. They
    /// are moved by a stock program with this machine's RDMA libraries.
    fn is_as_promised(&mut self, machine: &Machine) -> anyhow::Result<()> {
        let last = machine.n_devices().saturating_sub(1);
        // Two pairs are two networks.
        let first = if matches!(machine.links, machine::Links::Pairs(_)) { last - 1 } else { 0 };
        let script = format!("/init guest probe look\n first=rxe{first}; last=rxe{last}{PING}");
        self.script(machine, &script)?;
        let printed = String::from_utf8_lossy(&self.printed).into_owned();
        has_devices(&printed, machine)?;
        has_nodes(&printed, machine)?;
        let n_displays = printed.lines().filter(|line| line.starts_with("display ")).count();
        let wanted = machine.cards.iter().filter(|c| matches!(c, machine::Card::NicAndGpu(_)));
        ensure!(n_displays == wanted.count(), "{n_displays} displays");
        ensure!(printed.contains("bytes in"), "it did not say what it moved");
        let sent = printed.lines().find_map(|line| line.strip_prefix("over the link "));
        let sent: u64 = sent.context("nothing was counted")?.parse().context("no number")?;
        ensure!(sent > 100 * 4096, "{sent} bytes went over the link");
        Ok(())
    }

    fn breaks_a_link(&mut self) -> anyhow::Result<()> {
        self.script(&Machine::named("quad")?, BREAK)?;
        let printed = String::from_utf8_lossy(&self.printed).into_owned();
        for line in ["down: 1", "other pair: 4", "lossy: qdisc netem", "mended: 4", "bytes in"] {
            ensure!(printed.contains(line), "`{line}` is missing");
        }
        Ok(())
    }

    fn hangs(&mut self) -> anyhow::Result<()> {
        let mut request = self.probe(Machine::named("pair")?, &["hang"]);
        request.limits.time = Duration::from_secs(3);
        let out = self.scratch("hang")?;
        request.out = Some(out.clone());
        let report = self.run(&request)?;
        ensure!(report.end == End::Limit("3 s".to_owned()), "{}", report.end.text());
        ensure!(self.printed == b"the program hangs\n", "its output is lost");
        let left = fs::read_to_string(out.join("before")).context("its file is lost")?;
        ensure!(left == "it hung", "its file is spoilt: {left}");
        fs::remove_dir_all(out).context("cannot clean up")
    }

    /// The guest is small, so that this takes little. Its kernel kills the program and lives on.
    fn eats(&mut self) -> anyhow::Result<()> {
        let mut request = self.probe(Machine::named("pair")?, &["eat"]);
        request.memory_mib = 256;
        let report = self.run(&request)?;
        ensure!(report.end == End::Signal(9), "{}", report.end.text());
        Ok(())
    }

    fn spins(&mut self) -> anyhow::Result<()> {
        let mut request = self.probe(Machine::named("pair")?, &["spin"]);
        request.limits = Limits { cpu: Duration::from_secs(10), ..Limits::default() };
        let report = self.run(&request)?;
        let is_so = matches!(&report.end, End::Limit(which) if which.contains("processor time"));
        ensure!(is_so, "{}", report.end.text());
        Ok(())
    }

    fn floods(&mut self) -> anyhow::Result<()> {
        let mut request = self.probe(Machine::named("pair")?, &["flood"]);
        request.limits.output = 1 << 20;
        let report = self.run(&request)?;
        let is_so = matches!(&report.end, End::Limit(which) if which.contains("output"));
        ensure!(is_so, "{}", report.end.text());
        ensure!(self.printed.len() <= 1 << 20, "{} bytes were kept", self.printed.len());
        self.printed.truncate(80);
        Ok(())
    }

    fn panics(&mut self) -> anyhow::Result<()> {
        let report = self.run(&self.probe(Machine::named("pair")?, &["panic"]))?;
        let is_so = matches!(&report.end, End::Panic(words) if words.contains("sysrq"));
        ensure!(is_so, "{}", report.end.text());
        ensure!(report.end.code() == 125, "{}", report.end.code());
        Ok(())
    }

    fn is_not_there(&mut self) -> anyhow::Result<()> {
        let request = Request::new(Machine::named("pair")?, vec!["no-such-tool".to_owned()]);
        let report = self.run(&request)?;
        ensure!(report.end == End::Exit(127), "{}", report.end.text());
        ensure!(self.text().contains("no-such-tool"), "it is not named");
        Ok(())
    }

    fn leaves_files(&mut self) -> anyhow::Result<()> {
        let out = self.scratch("leave")?;
        let mut request = self.probe(Machine::named("pair")?, &["leave", "hello"]);
        request.out = Some(out.clone());
        let report = self.run(&request)?;
        ensure!(report.end == End::Exit(0) && report.n_files == 3, "{}", report.end.text());
        ensure!(self.errors == b"left on purpose\n", "standard error is lost");
        let text = fs::read_to_string(out.join("folder/link")).context("there is no link")?;
        ensure!(text == "hello" && out.join("folder/empty").is_dir(), "files differ: {text}");
        let large = fs::read(out.join("large")).context("there is no large file")?;
        ensure!(large == vec![0x5a; 3 << 20], "{} bytes of the large file", large.len());
        fs::remove_dir_all(out).context("cannot clean up")
    }

    /// This very source file is read, and a file beside it is written, which stays in the guest.
    fn sees_the_host(&mut self) -> anyhow::Result<()> {
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/guest");
        let script =
            "cat smoke.rs; echo x >written-by-a-guest; cat written-by-a-guest; te-net list";
        let mut request = Request::new(
            Machine::named("pair")?,
            ["/bin/sh", "-e", "-c", script].map(str::to_owned).to_vec(),
        );
        request.whole_host = true;
        request.folder = source.clone();
        let report = self.run(&request)?;
        ensure!(report.end == End::Exit(0), "{}", report.end.text());
        let mut expected = fs::read(source.join("smoke.rs")).context("cannot read this file")?;
        expected.extend(b"x\nrxe0 veth0 192.168.77.1\nrxe1 veth1 192.168.77.2\n");
        ensure!(self.printed == expected, "it printed something else");
        ensure!(!source.join("written-by-a-guest").exists(), "the guest wrote to the host");
        self.printed.clear();
        Ok(())
    }

    fn is_captured(&mut self) -> anyhow::Result<()> {
        let folder = self.scratch("capture")?;
        fs::create_dir_all(&folder).context("cannot make a folder")?;
        let file = folder.join("numa2.tar");
        let report = capture_to(self.store, &Machine::named("numa2")?, 1024, &file)?;
        self.told.push(cost(&report));
        ensure!(report.end == End::Exit(0), "{}", report.end.text());
        let mut tar = std::process::Command::new("tar");
        let status = tar.arg("-xf").arg(&file).arg("-C").arg(&folder).status();
        ensure!(status.context("cannot start tar")?.success(), "the tar file is not one");
        let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap_or_default();
        ensure!(read("sys/devices/system/node/node0/distance") == "10 21\n", "no distances");
        ensure!(read("sys/class/infiniband/rxe3/ports/1/state") == "4: ACTIVE\n", "no devices");
        for (index, node) in ["0\n", "0\n", "1\n", "1\n"].iter().enumerate() {
            let device = format!("sys/class/infiniband/rxe{index}");
            let netdev = read(&format!("{device}/ports/1/gid_attrs/ndevs/0"));
            let pci = format!("sys/class/net/{}/device/../numa_node", netdev.trim());
            ensure!(read(&pci) == *node, "rxe{index} is not on node {node}");
        }
        fs::remove_dir_all(folder).context("cannot clean up")
    }

    fn scratch(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.store.folder.join("runs").join(format!("suite-{name}"));
        let _ = fs::remove_dir_all(&folder);
        let parent = folder.parent().context("a path below a folder has a parent")?;
        fs::create_dir_all(parent).context("cannot make a folder")?;
        Ok(folder)
    }
}

fn cost(report: &Report) -> String {
    let [boot, wall, cpu] = [report.boot, report.wall, report.cpu].map(seconds);
    format!("booted in {boot}, {wall} in all, {cpu} of processor time")
}

/// Each RDMA device stands on the node that the machine promises, and is up.
fn has_devices(printed: &str, machine: &Machine) -> anyhow::Result<()> {
    let devices: Vec<&str> = printed.lines().filter(|l| l.starts_with("device ")).collect();
    ensure!(devices.len() == machine.n_devices(), "{} devices", devices.len());
    for (index, (line, node)) in devices.iter().zip(machine.device_nodes()).enumerate() {
        let node = node.map_or_else(|| "none".to_owned(), |node| node.to_string());
        let parts = [format!("device rxe{index} "), format!(" node {node} "), "4: ACTIVE".into()];
        ensure!(parts.iter().all(|part| line.contains(part.as_str())), "{line}; not node {node}");
    }
    Ok(())
}

/// Each node has its processors.
fn has_nodes(printed: &str, machine: &Machine) -> anyhow::Result<()> {
    let nodes: Vec<&str> = printed.lines().filter(|line| line.starts_with("node ")).collect();
    ensure!(nodes.len() == machine.nodes.len().max(1), "{} nodes", nodes.len());
    let mut first = 0;
    for (line, node) in nodes.iter().zip(&machine.nodes) {
        let cpus = match node.n_cpus {
            0 => "cpus  ".to_owned(),
            n => format!("cpus {first}-{} ", first + n - 1),
        };
        ensure!(line.contains(&cpus) && line.contains("10"), "{line}; not {cpus}");
        first += node.n_cpus;
    }
    Ok(())
}

/// A server waits until it listens; then the client begins.
const PING: &str = "
    netdev=$(te-net list | tail -1 | cut -d' ' -f2)
    before=$(cat /sys/class/net/$netdev/statistics/tx_bytes)
    ibv_rc_pingpong -d $first -g 1 -n 100 -s 4096 >/tmp/server 2>&1 &
    # 4955 is its port, 18515; 0A is listening.
    until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 50000; done
    ibv_rc_pingpong -d $last -g 1 -n 100 -s 4096 127.0.0.1
    wait
    after=$(cat /sys/class/net/$netdev/statistics/tx_bytes)
    echo over the link $((after - before))
";

/// States are those of the port: 1 is down, 4 is active.
const BREAK: &str = "
    state() { cut -d: -f1 /sys/class/infiniband/$1/ports/1/state; }
    until_state() { until [ $(state $1) = $2 ]; do usleep 50000; done; }
    te-net down rxe1
    until_state rxe0 1; echo down: $(state rxe0)
    echo other pair: $(state rxe2)
    te-net up rxe1
    until_state rxe0 4; echo mended: $(state rxe0)
    te-net loss rxe0 100
    echo lossy: $(/usr/bin/tc qdisc show dev veth0)
    te-net loss rxe0 0
    ibv_rc_pingpong -d rxe0 -g 1 -n 10 >/tmp/server 2>&1 &
    until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do usleep 50000; done
    ibv_rc_pingpong -d rxe1 -g 1 -n 10 127.0.0.1
    wait
";
