//! kill -9 in the midst of puts: everything that was acknowledged is there afterwards.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use common::{Client, Folder, server, wait_until};

/// Names the data file to a process that is this test program a second time.
const DATA: &str = "TE_TEST_CRASH_DATA";

/// What was acknowledged of a key: its last value, or its removal.
type Acknowledged = BTreeMap<String, Option<u64>>;

#[test]
#[expect(clippy::disallowed_methods, reason = "the other process is told its file this way")]
fn the_other_process_serves_until_it_is_killed() {
    // Run as one of all tests it serves a moment on a file of its own.
    let folder = Folder::new("child");
    let Some(path) = std::env::var_os(DATA) else {
        let server = server(|config| config.data = Some(folder.file()));
        assert_eq!(Client::to(server.address()).put("k", &[], "v").status, 200);
        return;
    };
    let server = server(|config| config.data = Some(path.into()));
    println!("\nlistens at {}", server.address());
    // Its standard input is open as long as its parent lives.
    let _ = std::io::stdin().lock().lines().count();
}

fn start(path: &Path) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process_serves_until_it_is_killed", "--nocapture"])
        .env(DATA, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| Some(line.unwrap().strip_prefix("listens at ")?.parse()));
    (child, address.unwrap().unwrap())
}

/// Puts and removes until the server is gone; what was acknowledged, and the last revision.
fn write(address: SocketAddr, who: usize, round: u64, n: &AtomicUsize) -> (Acknowledged, u64) {
    let (mut done, mut revision) = (Acknowledged::new(), 0);
    let mut client = Client::to(address);
    for i in 0.. {
        let key = format!("w{who}-k{}", i % 50);
        let value = round * 1_000_000 + i;
        let is_delete = i % 7 == 3;
        let (method, body) =
            if is_delete { ("DELETE", String::new()) } else { ("PUT", value.to_string()) };
        let target = format!("/metadata?key={key}");
        let Ok(answer) = client.try_ask(method, &target, &[], body.as_bytes()) else { break };
        assert!([200, 404].contains(&answer.status), "{answer:?}");
        if !is_delete {
            revision = answer.revision();
        }
        done.insert(key, (!is_delete).then_some(value));
        n.fetch_add(1, Relaxed);
    }
    (done, revision)
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = Folder::new("crash");
    let mut known = Acknowledged::new();
    let mut last_revision = 0;
    for round in 1..=5 {
        let (mut child, address) = start(&folder.file());
        let n = Arc::new(AtomicUsize::new(0));
        let results = Arc::new(Mutex::new(Vec::new()));
        let writers: Vec<_> = (0..4)
            .map(|who| {
                let (n, results) = (Arc::clone(&n), Arc::clone(&results));
                thread::spawn(move || {
                    let made = write(address, who, round, &n);
                    results.lock().unwrap().push(made);
                })
            })
            .collect();
        wait_until("they write", || n.load(Relaxed) > 100 * usize::try_from(round).unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        for (done, revision) in results.lock().unwrap().drain(..) {
            known.extend(done);
            last_revision = last_revision.max(revision);
        }
        look(&folder.file(), &known, last_revision);
    }
}

/// Each key is as it was acknowledged, or as the one request that nobody answered left it.
fn look(path: &Path, known: &Acknowledged, last_revision: u64) {
    let server = server(|config| config.data = Some(path.to_owned()));
    let mut client = Client::to(server.address());
    let revision = client.get("/v1/keys").json()["revision"].as_u64().unwrap();
    assert!(revision >= last_revision);
    let mut n_differing = BTreeMap::new();
    for (key, value) in known {
        let found = client.value(key).map(|text| text.parse::<u64>().unwrap());
        if found != *value {
            // Only the request that was under way may have been done without an answer.
            let is_later = found.is_none_or(|found| Some(found) > *value);
            assert!(is_later, "{key}: {found:?} in the place of {value:?}");
            *n_differing.entry(key.split('-').next().unwrap()).or_insert(0) += 1;
        }
    }
    assert!(n_differing.values().all(|n| *n <= 1), "{n_differing:?}");
    server.shutdown();
}
