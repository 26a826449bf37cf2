//! `te segment`, `te probe`, `te notify`, `te config`, `te completions`: what they tell.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{Scratch, Served, command, te};

#[test]
fn a_segment_is_described_for_a_person_and_for_a_program() {
    let served = Served::start(&["--size", "1M"]);
    let text = te(&["segment", &served.segment]).with(0).text();
    for part in [
        format!("segment      {}\n", served.segment),
        "protocol     tcp\n".to_owned(),
        "protocol version 2\n".to_owned(),
        "engine       te, incarnation ".to_owned(),
        "1 buffer, 1 MiB in all\n".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} in\n{text}");
    }
    let json = te(&["segment", &served.segment, "--json"]).with(0).json();
    let address = u64::from_str_radix(served.address.trim_start_matches("0x"), 16).unwrap();
    assert_eq!(json["buffers"][0]["addr"], address);
    assert_eq!(json["buffers"][0]["length"], 1 << 20);
    assert_eq!(json["protocol"], "tcp");
}

#[test]
fn a_message_arrives_as_it_was_sent() {
    let mut served = Served::start(&["--size", "4K"]);
    let text = "bell \u{7} newline \n and \u{1b}[31mred";
    te(&["notify", &served.segment, "tester", text]).with(0);
    let line = served.line();
    assert_eq!(line["notify"]["name"], "tester");
    assert_eq!(line["notify"]["message"], text);
    let (status, rest) = served.end();
    assert!(status.success());
    assert_eq!(rest, "");
}

#[test]
fn a_message_cannot_garble_a_terminal() {
    let mut child = command()
        .args(["serve", "--size", "4K", "--until-eof"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let first = lines.next().unwrap().unwrap();
    let words: Vec<&str> = first.split(' ').collect();
    assert_eq!((words[0], words[2], words[4], words[5]), ("segment", "address", "length", "4096"));
    te(&["notify", words[1], "x", "a\u{1b}[31mb\nc"]).with(0);
    assert_eq!(lines.next().unwrap().unwrap(), r"notify x: a\u{1b}[31mb\nc");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_probe_tells_that_a_peer_lives() {
    let served = Served::start(&["--size", "4K"]);
    let text = te(&["probe", &served.segment]).with(0).text();
    assert!(text.starts_with(&format!("{} is alive, answered in ", served.segment)), "{text}");
    let json = te(&["probe", &served.segment, "--json"]).with(0).json();
    assert_eq!(json["alive"], true);
    assert!(json["seconds"].as_f64().unwrap() < 2.0);
}

#[test]
fn the_settings_in_force_are_told_with_their_source() {
    assert_eq!(te(&["config", "--changed"]).with(0).text(), "every setting has its default\n");
    let file = Scratch::with("te.toml", b"[tcp]\nlanes_per_peer = 2\nslice_size_bytes = 4096\n");
    let output = command()
        .args(["config", "--changed", "--config", file.path()])
        .env("MC_TCP_LANES_PER_PEER", "6")
        .env("TE_FORCE_TCP", "maybe")
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!(
            "[tcp]\nlanes_per_peer    6      MC_TCP_LANES_PER_PEER\n\
             slice_size_bytes  4 KiB  {}:3\n",
            file.path()
        )
    );
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "te: TE_FORCE_TCP=\"maybe\" is not 1, true, yes, on, 0, false, no or off; \
         using false (default)\n"
    );
}

#[test]
fn fault34_a_custom_topology_that_does_not_fit_is_told_and_the_segment_is_served() {
    // Peer fault 34: one line names the file, the NICs and what is off; the program goes on.
    let file = Scratch::with("absent-nics.json", br#"{"cpu:0":[["mlx9_8"],["mlx9_9"]]}"#);
    let output = command()
        .args(["serve", "--size", "4K", "--until-eof"])
        .env("MC_CUSTOM_TOPO_JSON", file.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.starts_with(b"segment 127.0.0.1:"), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    let wanted = format!(
        "the custom topology {} names mlx9_8, mlx9_9, which this host does not have; RDMA is off",
        file.path()
    );
    assert_eq!(told.lines().filter(|line| line.contains(&wanted)).count(), 1, "{told}");
}

#[test]
fn all_settings_are_there_as_json() {
    let json = te(&["config", "--json"]).with(0).json();
    let settings = json["settings"].as_array().unwrap();
    let find = |name: &str| settings.iter().find(|setting| setting["name"] == name).unwrap();
    let lanes = find("tcp.lanes_per_peer");
    assert_eq!(lanes["value"], "4");
    assert_eq!(lanes["source"], "default");
    assert_eq!(lanes["mooncake_variable"], "MC_TCP_LANES_PER_PEER");
    assert_eq!(find("tcp.connect_timeout_ms")["mooncake_variable"], Value::Null);
    assert!(settings.len() > 80, "{}", settings.len());
}

#[test]
fn the_reference_is_the_page_in_the_documents() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    assert_eq!(
        te(&["config", "--markdown"]).with(0).text(),
        std::fs::read_to_string(page).unwrap()
    );
}

#[test]
fn a_wrong_file_is_told_with_line_and_key() {
    let file = Scratch::with("bad.toml", b"[tcp]\n\nlanes_per_peer = 99\n");
    let begin = format!(
        "te: configuration: {}, line 3: tcp.lanes_per_peer = 99 is not a whole number from 1 to 16",
        file.path()
    );
    te(&["config", "--config", file.path()]).with(3).told(&begin);
    te(&["probe", "h:1", "--config", "/nonexistent.toml"])
        .with(3)
        .told("te: cannot read configuration /nonexistent.toml: no such file or directory");
}

#[test]
fn every_shell_has_a_completion_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = te(&["completions", shell]).with(0).text();
        assert!(script.contains("--until-eof") || script.contains("until-eof"), "{shell}");
    }
}
