//! A process without free file descriptors. One test only, because the limit is the process's.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure time and end at the first surprise"
)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Desk, PATIENCE, frame, pause};
use te_metadata::{BoundPeerServer, ListenAddress, PeerLimits, PeerService, PortChoice};

/// K15: when accepting fails for want of descriptors, the oldest silent client gives way, the loop
/// does not spin, and a client behind sixty silent ones is answered.
#[test]
fn k15_running_out_of_descriptors_neither_spins_nor_stops_the_server() {
    let lo = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
    let bound = BoundPeerServer::bind(&lo, PortChoice::Exact(0), PeerLimits::default()).unwrap();
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, bound.port())).unwrap();
    let silent: Vec<TcpStream> = (0..60).map(|_| connect()).collect();
    let mut asking = connect();
    asking.set_read_timeout(Some(PATIENCE)).unwrap();
    asking.write_all(&frame(3, b"{}")).unwrap();

    // Opened now: later there is no descriptor to open it with.
    let stat = File::open("/proc/self/stat").unwrap();
    let spare = 12;
    if !limit_descriptors(open_descriptors() + spare) {
        println!("SKIP k15_running_out_of_descriptors: the program prlimit is not there");
        return;
    }
    let (start, cpu) = (Instant::now(), cpu_ticks(&stat));
    let server = bound.start(Arc::new(Desk::default()) as Arc<dyn PeerService>).unwrap();
    let mut answer = Vec::new();
    asking.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, frame(3, b"{\"status\":\"success\"}\n"));
    let stats = server.stats();
    assert!(stats.refused > 0, "{stats:?}");

    // A hundred ticks are a second on Linux.
    let busy = Duration::from_millis((cpu_ticks(&stat) - cpu) * 10);
    let elapsed = start.elapsed();
    println!("answered after {elapsed:?}, {busy:?} of CPU, {stats:?}");
    assert!(busy < elapsed / 2 + Duration::from_millis(100), "{busy:?} of {elapsed:?}");
    drop(silent);
    let end = Instant::now() + PATIENCE;
    while server.stats().open > 0 {
        assert!(Instant::now() < end, "{:?}", server.stats());
        pause(Duration::from_millis(2));
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn limit_descriptors(soft: usize) -> bool {
    let pid = std::process::id().to_string();
    let limit = format!("--nofile={soft}:");
    Command::new("prlimit").args(["--pid", &pid, &limit]).status().is_ok_and(|s| s.success())
}

/// User and system time of this process in clock ticks.
fn cpu_ticks(stat: &File) -> u64 {
    let mut bytes = [0; 4096];
    let n_bytes = stat.read_at(&mut bytes, 0).unwrap();
    let text = String::from_utf8_lossy(&bytes[..n_bytes]);
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}
