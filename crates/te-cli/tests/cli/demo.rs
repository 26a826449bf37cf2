//! `te demo`

use crate::program::{command, te};

#[test]
fn the_demo_moves_checks_and_tells() {
    let text = te(&["demo", "--size", "300000001"]).with(0).text();
    for part in [
        "te demo: 286.1 MiB each way between two processes",
        "\n  write",
        "the other process\n",
        "\n  read",
        "this process\n",
        "\nThe bytes went by `",
        "was compared with its pattern",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

#[test]
fn a_demo_of_nothing_is_refused() {
    te(&["demo", "--size", "0"]).with(2).told("te: demo: there is nothing to move");
}

#[test]
fn the_second_process_notices_a_wrong_byte() {
    // The counter-proof of the demo: what was filled with one pattern is not taken for another.
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;

    let mut child = command()
        .args(["demo-target", "1M"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = answers.next().unwrap().unwrap();
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let segment = first["segment"].as_str().unwrap().to_owned();
    let mut input = child.stdin.take().unwrap();
    let mut ask = |question: &str| {
        writeln!(input, "{question}").unwrap();
        answers.next().unwrap().unwrap()
    };
    assert_eq!(ask("fill 7 1048576"), "ok");
    assert_eq!(ask("check 7 1048576"), "equal");
    assert_eq!(ask("check 8 1048576"), "differs 0");
    crate::program::te_with_input(&["write", &segment, "--offset", "1000001"], b"?").with(0);
    assert_eq!(ask("check 7 1000001"), "equal");
    assert_eq!(ask("check 7 1048576"), "differs 1000001");
    drop(input);
    assert!(child.wait().unwrap().success());
}
