//! What goes wrong is one line with peer, phase and cause, in bounded time, and never a panic.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::{Served, command, te, te_with_input};

/// Runs something that must end soon.
fn within<T>(limit: Duration, work: impl FnOnce() -> T) -> T {
    let begun = now();
    let result = work();
    assert!(begun.elapsed() < limit, "took {:?}", begun.elapsed());
    result
}

#[expect(clippy::disallowed_methods, reason = "a test of real time")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn nobody_listens() {
    // A port that no engine takes, and no other test.
    let name = "127.0.0.1:1";
    for words in [
        &["write", name, "--pattern", "1", "--length", "1K"][..],
        &["read", name, "--discard"],
        &["segment", name],
        &["probe", name],
        &["notify", name, "a", "b"],
    ] {
        let ended = within(Duration::from_secs(5), || te(words)).with(4);
        assert!(ended.err.contains(&format!("{name}: connect failed: connection refused; ")));
        ended.told("te: ");
    }
}

#[test]
fn what_listens_is_no_engine() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let ended = within(Duration::from_secs(12), || te(&["segment", &name])).with(1);
    server.join().unwrap();
    ended.told(&format!("te: describe {name}: "));
}

#[test]
fn a_stopped_peer_costs_the_time_that_was_given() {
    let served = Served::start(&["--size", "4K"]);
    served.signal("STOP");
    let ended =
        within(Duration::from_secs(5), || te(&["probe", &served.segment, "--timeout", "0.5"]));
    ended.with(8).told(&format!("te: probe {}: receive failed: no answer within", served.segment));
    let ended = within(Duration::from_secs(5), || {
        te(&["read", &served.segment, "--discard", "--timeout", "1"])
    });
    ended.with(8).told(&format!("te: read from {}: ", served.segment));
    served.signal("CONT");
    te(&["probe", &served.segment]).with(0);
}

#[test]
fn a_peer_that_dies_in_the_middle_is_told() {
    let served = Served::start(&["--size", "64M"]);
    let name = served.segment.clone();
    let mut child = command()
        .args(["write", &name, "--chunk", "64K"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // Far more than pipe and window hold: a good part is written when the pipe takes the last of it.
    input.write_all(&vec![7; 8 << 20]).unwrap();
    served.end_by("KILL");
    let feeder = std::thread::spawn(move || {
        // Ends with an error when the program has given up.
        let block = vec![7; 64 << 10];
        while input.write_all(&block).is_ok() {}
    });
    let output = within(Duration::from_secs(20), || child.wait_with_output().unwrap());
    feeder.join().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 4)), "{text}");
    assert!(text.starts_with(&format!("te: write to {name}: ")), "{text}");
    assert!(text.contains(" were done; "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_name_that_is_none_is_a_wrong_command_line() {
    te(&["segment", ""]).with(2).told("te: describe : ");
    te(&["probe", "[::1"]).with(2).told("te: probe [::1: ");
    te(&["probe", "x", "--metadata", "carrier-pigeon://loft"])
        .with(2)
        .told("te: cannot start the engine: unknown metadata scheme in \"carrier-pigeon://loft\"");
}

#[test]
fn local_troubles_are_told_before_anybody_is_asked() {
    te(&["write", "127.0.0.1:1", "--file", "/nonexistent"])
        .with(7)
        .told("te: cannot read /nonexistent: no such file or directory");
    te(&["write", "127.0.0.1:1", "--file", "/"])
        .with(7)
        .told("te: cannot read /: it is a directory");
    te(&["serve", "--size", "0"]).with(2).told("te: serve: there is nothing to expose");
    te(&["serve", "--size", "900T"]).with(7).told("te: cannot allocate 900 TiB: ");
}

#[test]
fn a_taken_port_is_told() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    te(&["serve", "--size", "4K", "--port", &port]).with(7).told("te: cannot start the engine: ");
}

#[test]
fn a_signal_ends_serving_cleanly() {
    for signal in ["INT", "TERM"] {
        let served = Served::start(&["--size", "4K"]);
        let (status, rest) = within(Duration::from_secs(6), || served.end_by(signal));
        assert_eq!(status.code(), Some(0), "{signal}");
        assert_eq!(rest, "");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_reason_to_panic() {
    let served = Served::start(&["--size", "16M"]);
    for words in [
        &["config", "--markdown"][..],
        &["read", &served.segment],
        &["completions", "bash"],
        &["segment", &served.segment],
    ] {
        // Nobody can ever read: the first write already fails.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command().args(words).stdout(writer).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(141), "{words:?}: {text}");
        assert_eq!(text, "", "{words:?}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    let served = Served::start(&["--size", "1M"]);
    te(&["read", &served.segment, "--file", "/dev/full"])
        .with(7)
        .told("te: cannot write /dev/full: no space left on device");
    te(&["read", &served.segment, "--file", "/nonexistent/x"])
        .with(7)
        .told("te: cannot write /nonexistent/x: no such file or directory");
    te_with_input(&["write", &served.segment], b"still works").with(0);
}
