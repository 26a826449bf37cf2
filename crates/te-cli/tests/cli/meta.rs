//! `te meta` against a server of ours, and what it says where there is none.

use std::io::{BufRead as _, BufReader};

use crate::metadata_server::Started;
use crate::program::{command, te, te_with_input};

#[test]
fn keys_are_put_listed_read_and_removed() {
    let server = Started::new(&[]);
    let url = server.url();
    let meta = |words: &[&str]| te(&[&["meta"], words].concat());
    meta(&["put", &url, "a/1", "{\"x\":1}"]).with(0);
    te_with_input(&["meta", "put", &url, "a/2"], b"plain\ntext").with(0);
    meta(&["put", &url, "b", "3"]).with(0);
    let listed = meta(&["ls", &url, "a/", "--json"]).with(0).json();
    assert_eq!((&listed[0]["key"], &listed[1]["key"]), (&"a/1".into(), &"a/2".into()));
    assert_eq!((&listed[1]["bytes"], listed.as_array().unwrap().len()), (&10.into(), 2));
    assert_eq!(meta(&["ls", &url]).with(0).text().lines().count(), 3);
    assert_eq!(meta(&["get", &url, "a/2"]).with(0).out, b"plain\ntext");
    assert_eq!(meta(&["get", &url, "a/1", "--json"]).with(0).json()["value"]["x"], 1);
    meta(&["rm", &url, "b"]).with(0);
    meta(&["rm", &url, "b"]).with(4).told("te: remove b http://");
    meta(&["get", &url, "b"]).with(4).told("te: get b http://");
}

#[test]
fn changes_are_told_as_they_come() {
    let server = Started::new(&[]);
    let url = server.url();
    let mut command = command();
    command.args(["meta", "watch", &url, "w/", "--count", "2", "--for", "60"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut watch = command.spawn().unwrap();
    // It says that it watches when the service has answered.
    let mut said = BufReader::new(watch.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    te(&["meta", "put", &url, "other", "1"]).with(0);
    te(&["meta", "put", &url, "w/x", "1"]).with(0);
    te(&["meta", "rm", &url, "w/x"]).with(0);
    let output = watch.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "put      w/x\nremoved  w/x\n");
}

#[test]
fn b2_what_is_no_service_is_named() {
    // B2, FB24: a scheme that nobody knows is answered with those that there are.
    te(&["meta", "ls", "foo://x"]).with(2).told("te: metadata service: there is no metadata store");
    let gone = te(&["meta", "get", "http://127.0.0.1:1/metadata", "k"]).with(4);
    assert!(gone.err.contains("connecting to 127.0.0.1:1 failed"), "{}", gone.err);
    te(&["meta", "ls", "P2PHANDSHAKE"]).with(2).told("te: metadata service: P2PHANDSHAKE is no");
}
