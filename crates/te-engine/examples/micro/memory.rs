//! What things take: an engine, an open peer, a registered buffer, a request in flight; and what an
//! engine with many open peers costs while it does nothing.
//!
//! Memory of one thing is what the allocator was asked for and did not get back, divided by how many
//! there are. Of a process it is what the kernel says is resident.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use te_engine::{Region, RegisterOptions, TransferEngine, TransferRequest};
use te_metadata::{AddressFamily, Directory, PeerClient, PeerLimits};

use crate::figures::{Figures, allocated, kept};
use crate::requests::Bench;
use crate::tables::regions;

const PEERS: usize = 100;
const LIMIT: Duration = Duration::from_secs(60);

fn status(key: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Resident memory of this process, KiB.
fn resident() -> f64 {
    status("VmRSS:")
}

/// Processor time of this process, seconds.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let ticks = rest.split_whitespace().skip(11).take(2);
    ticks.map(|field| field.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn an_engine() -> TransferEngine {
    TransferEngine::builder().name("127.0.0.1").build().unwrap()
}

/// An engine that does nothing. To be asked first, before anything else has grown.
pub(crate) fn idle(figures: &mut Figures) {
    if !figures.wants("memory: an idle engine") {
        return;
    }
    let (stats, engine) = allocated(an_engine);
    figures.print(
        "memory: an idle engine, resident",
        resident() / 1024.0,
        "MiB",
        Some(20e6 / 1048576.0),
    );
    figures.print("memory: an idle engine, allocated", kept(&stats) / 1024.0, "KiB", None);
    drop(engine);
}

/// A registered buffer and a request in flight, without the credit that a transport gives it.
pub(crate) fn things(figures: &mut Figures) {
    if figures.wants("memory: a registered buffer") {
        buffers(figures);
    }
    if figures.wants("memory: a request in flight") {
        requests(figures);
    }
}

fn buffers(figures: &Figures) {
    const N: usize = 100_000;
    let engine = an_engine();
    let regions = regions(N as u64);
    let wanted: Vec<_> = regions.iter().map(|r| (r.clone(), RegisterOptions::default())).collect();
    let (stats, ()) = allocated(|| engine.register_batch(&wanted).unwrap());
    let registered = kept(&stats) / N as f64;
    figures.print("memory: a registered buffer, unasked for", registered, "B", Some(256.0));
    let client = PeerClient::new(PeerLimits::default(), AddressFamily::Any);
    let directory = Directory::p2p(client);
    let ask = || drop(directory.fetch(engine.local_name(), b"{}").unwrap());
    let (stats, ()) = allocated(ask);
    let told = registered + kept(&stats) / N as f64;
    figures.print("memory: a registered buffer, once a peer asked", told, "B", Some(256.0));
    let (stats, region) = allocated(|| regions[0].subregion(0, 8).unwrap());
    figures.print("memory: its region, which is the caller's", kept(&stats), "B", None);
    drop((engine, region));
}

fn requests(figures: &Figures) {
    const N: u64 = 100_000;
    for each in [1, 128, N] {
        let bench = Bench::new(1, 10);
        bench.null.holds.store(true, Ordering::Relaxed);
        bench.null.reserve(usize::try_from(N).unwrap());
        let requests = bench.requests(each);
        let (stats, batches) = allocated(|| {
            let mut batches = Vec::new();
            for _ in 0..N / each {
                let batch = bench.engine.allocate_batch(requests.len()).unwrap();
                bench.engine.submit(batch, &requests).unwrap();
                batches.push(batch);
            }
            batches
        });
        let name = format!("memory: a request in flight, {each} a batch");
        let limit = (each > 1).then_some(256.0);
        figures.print(&name, kept(&stats) / N as f64, "B", limit);
        bench.null.release();
        for batch in batches {
            bench.engine.wait(batch, LIMIT).unwrap();
            bench.engine.free_batch(batch).unwrap();
        }
    }
}

/// Peers that are open and were used, over TCP; then an engine that has them and does nothing.
pub(crate) fn peers(figures: &mut Figures) {
    if !figures.wants("memory: an open peer") && !figures.wants("idle") {
        return;
    }
    let (mut child, names) = peers_of_a_child();
    let engine = an_engine();
    let region = engine.allocate(4096).unwrap();
    engine.register(&region, RegisterOptions::default()).unwrap();
    touch(&engine, &region, &names[..1]);
    let before = resident();
    let (stats, ()) = allocated(|| touch(&engine, &region, &names[1..]));
    let grown = (resident() - before) / (names.len() - 1) as f64;
    let each = kept(&stats) / 1024.0 / (names.len() - 1) as f64;
    figures.print("memory: an open peer, resident", grown, "KiB", Some(64.0));
    figures.print("memory: an open peer, allocated", each, "KiB", None);
    idling(figures, names.len());
    drop(engine);
    drop(child.stdin.take());
    child.wait().unwrap();
}

fn idling(figures: &Figures, peers: usize) {
    std::thread::sleep(Duration::from_secs(1));
    let (before, begun) = (spent(), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let percent = 100.0 * (spent() - before) / begun.elapsed().as_secs_f64();
    figures.print(
        &format!("idle: an engine with {peers} open peers"),
        percent,
        "% core",
        Some(0.5),
    );
}

/// Opens peers and writes 4 KiB to each.
fn touch(engine: &TransferEngine, region: &Region, names: &[(String, u64)]) {
    for (name, address) in names {
        let target = engine.open_segment(name).unwrap();
        let write = TransferRequest::write(region.whole(), target, *address);
        assert_eq!(engine.transfer(&[write], LIMIT).unwrap(), 4096);
    }
}

/// A child process with many engines: their names, and where a buffer of each is.
fn peers_of_a_child() -> (Child, Vec<(String, u64)>) {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--serve", &PEERS.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(PEERS);
    let parse = |line: std::io::Result<String>| {
        let line = line.unwrap();
        let (name, address) = line.split_once(' ').unwrap();
        (name.to_owned(), address.parse().unwrap())
    };
    (child, lines.map(parse).collect())
}

/// The child: engines with a buffer each, until its input ends.
pub(crate) fn serve(words: &[String]) {
    let n: usize = words[0].parse().unwrap();
    let peer = |_| {
        let engine = an_engine();
        let region = engine.allocate(4096).unwrap();
        engine.register(&region, RegisterOptions::default()).unwrap();
        println!("{} {}", engine.local_name().as_str(), region.address());
        engine
    };
    let engines: Vec<_> = (0..n).map(peer).collect();
    std::io::stdin().lines().for_each(drop);
    drop(engines);
}
