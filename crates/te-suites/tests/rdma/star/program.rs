//! The program `te` on a machine with RDMA devices.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use te_suites::{need, say, te_bin};

use crate::links::{Broken, nic};
use crate::watched::Watched;

/// Whether it can run here.
fn available() -> Result<(), String> {
    Watched::with_devices(8)?;
    let te: PathBuf = te_bin();
    te.exists().then_some(()).ok_or_else(|| "te is not built (cargo build -p te-cli)".to_owned())
}

/// What it prints, where it succeeds.
#[track_caller]
fn te(words: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(te_bin()).args(words).output().expect("te can be started");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "te {words:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

#[test]
fn te_bench_moves_verified_bytes_over_rdma_between_two_processes() {
    // Issue 7, part 5: both ways, each size of the sweep verified before it is measured.
    let test = "star::program::te_bench_moves_verified_bytes_over_rdma_between_two_processes";
    need!(test, available());
    let words = "bench --transport rdma --verify --json --block 1,4097,1M --batch 4 --duration 0.3";
    let mut words: Vec<&str> = words.split(' ').collect();
    words.extend(["--set", "rdma.retries=6"]);
    let text = te(&words);
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
    let seen: Vec<_> = rows.iter().map(|row| (row["operation"].as_str(), &row["block"])).collect();
    assert_eq!(rows.len(), 6, "{seen:?}");
    for row in &rows {
        assert_eq!(row["transport"], "rdma", "{row}");
        assert_eq!(row["verified"], true, "{row}");
        assert!(row["bytes"].as_u64() >= row["block"].as_u64(), "{row}");
        let (operation, block) = (&row["operation"], &row["block"]);
        say(&format!("row {operation} of {block}: {} MB/s", megabytes(row)));
    }
}

fn megabytes(row: &Value) -> f64 {
    (row["gigabytes_per_second"].as_f64().unwrap_or_default() * 1e4).round() / 10.0
}

#[test]
fn te_topo_shows_devices_ports_and_gid_tables() {
    // Issue 7, part 5: as text and as JSON, which say the same of every device.
    let test = "star::program::te_topo_shows_devices_ports_and_gid_tables";
    need!(test, available());
    let shown: Value = serde_json::from_str(&te(&["topo", "--json"])).expect("it is JSON");
    let rdma = &shown["rdma"];
    assert_eq!(
        (&rdma["absence"], rdma["findings"].as_array().map(Vec::len)),
        (&Value::Null, Some(0))
    );
    let devices = rdma["devices"].as_array().expect("a list");
    let text = te(&["topo", "--width", "100"]);
    let (_, lines) = text.split_once("RDMA devices").expect("a part of its own");
    lines.lines().take(14).for_each(|line| say(&format!("row {line}")));
    assert_eq!(devices.len(), 8, "{rdma}");
    for (i, device) in devices.iter().enumerate() {
        let name = format!("rxe{i}");
        assert_eq!((&device["name"], &device["allowed"]), (&name.as_str().into(), &true.into()));
        assert!(device["limits"]["max_qp"].as_u64() > Some(100), "{device}");
        let ports = device["ports"].as_array().expect("a list");
        let [port] = &ports[..] else { panic!("{} ports", ports.len()) };
        let seen = (port["number"].as_u64(), port["state"].as_str(), port["active_mtu"].as_u64());
        assert_eq!(seen, (Some(1), Some("active"), Some(4096)));
        assert_eq!(port["link_layer"], "Ethernet");
        let gids = port["gids"].as_array().expect("a list");
        assert!(gids.len() >= 2, "{port}");
        assert!(gids.iter().all(|row| row["interface"].is_string() && row["class"].is_string()));
        let chosen = &port["chosen"];
        let row = gids.iter().find(|row| row["index"] == chosen["index"]).expect("it is a row");
        assert_eq!((&row["gid"], &row["kind"]), (&chosen["gid"], &"roce-v2".into()), "{row}");
        let address = chosen["gid"].as_str().expect("a text");
        assert!(address.contains(":ffff:"), "an IPv4 address is used: {address}");
        assert!(
            lines.contains(&format!("  {name}\n    port 1  active, Ethernet, MTU 4096")),
            "{lines}"
        );
    }
    assert!(lines.contains("RoCE v2") && lines.contains("is used: "), "{lines}");
}

#[test]
fn te_topo_says_which_port_is_down_and_what_to_do() {
    // Issue 7, part 5: what is found is typed, has a device, and advice.
    let test = "star::program::te_topo_says_which_port_is_down_and_what_to_do";
    need!(test, available());
    let broken = Broken::down(&nic(1));
    let shown: Value = serde_json::from_str(&te(&["topo", "--json"])).expect("it is JSON");
    let text = te(&["topo", "--width", "100"]);
    broken.mend();
    let found = shown["rdma"]["findings"].as_array().expect("a list");
    let [finding] = &found[..] else { panic!("{} findings: {found:?}", found.len()) };
    assert_eq!((&finding["nic"], &finding["severity"]), (&"rxe1".into(), &"nic".into()));
    assert_eq!(shown["rdma"]["devices"][1]["ports"][0]["state"], "down");
    let (what, advice) = (finding["text"].as_str().unwrap(), finding["advice"].as_str().unwrap());
    assert!(what.starts_with("port 1 of rxe1 is not active but down"), "{what}");
    let (_, lines) = text.split_once("RDMA devices").expect("a part of its own");
    assert!(lines.contains("GID 1 is used once the port is active: "), "{lines}");
    lines
        .lines()
        .filter(|line| line.contains("rxe1") || line.contains("once"))
        .for_each(|line| say(&format!("row {line}")));
    assert!(text.contains(&format!("  ! {what}; {advice}\n")), "{text}");
}
