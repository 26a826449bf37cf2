//! `te meta` against each service.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use te_metadata::StoreOptions;
use te_suites::{need, te_bin};

use crate::service::{Kind, Service};

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(te_bin());
    command.arg("meta").args(words).stdin(Stdio::null());
    command
}

/// Runs the program, asserts its exit code and gives what it printed.
#[track_caller]
fn meta(words: &[&str], code: i32) -> (String, String) {
    let Output { status, stdout, stderr } = command(words).output().unwrap();
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(status.code(), Some(code), "{words:?}: {out}{err}");
    (out, err)
}

fn check_keys(uri: &str) {
    let key = "mooncake/ram/v/1";
    meta(&["put", uri, key, "{\"x\":1}"], 0);
    meta(&["put", uri, key, "{\"x\":\"zwei\"}"], 0);
    assert_eq!(meta(&["get", uri, key], 0).0, "{\"x\":\"zwei\"}");
    let rpc = "mooncake/rpc_meta/v";
    meta(&["put", uri, rpc, "{\"rpc_port\":1}"], 0);
    meta(&["put", uri, rpc, "{\"rpc_port\":2}"], 0);
    assert_eq!(meta(&["get", uri, rpc], 0).0, "{\"rpc_port\":2}", "put over, whoever put it");
    meta(&["rm", uri, rpc], 0);
    let (_, said) = meta(&["get", uri, rpc], 4);
    assert!(said.contains("there is no such key"), "{said}");
    meta(&["rm", uri, rpc], 4);
}

fn check_list(uri: &str) {
    meta(&["put", uri, "mooncake/ram/v/2", "2"], 0);
    let (listed, _) = meta(&["ls", uri, "mooncake/ram/v/", "--json"], 0);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let keys: Vec<_> = listed.as_array().unwrap().iter().map(|key| &key["key"]).collect();
    assert_eq!(keys, ["mooncake/ram/v/1", "mooncake/ram/v/2"]);
}

fn check_watch(uri: &str) {
    let mut watching = command(&["watch", uri, "mooncake/ram/w/", "--count", "2", "--for", "30"]);
    watching.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    // It says that it watches once the service has taken the question.
    let mut said = BufReader::new(watching.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    meta(&["put", uri, "mooncake/ram/w/x", "1"], 0);
    meta(&["rm", uri, "mooncake/ram/w/x"], 0);
    let seen = watching.wait_with_output().unwrap();
    assert!(seen.status.success(), "{:?}: {said:?}", seen.status);
    let told = String::from_utf8(seen.stdout).unwrap();
    assert_eq!(told, "put      mooncake/ram/w/x\nremoved  mooncake/ram/w/x\n", "{uri}");
}

/// What a service cannot is said by name.
fn check_refused(uri: &str, verb: &str, what: &str) {
    let (_, said) = meta(&[verb, uri], 2);
    assert!(said.contains(uri) && said.contains(what), "{said}");
}

#[test]
fn the_verbs_of_te_meta_work_on_each_service() {
    // Mooncake's servers can neither list nor watch, redis cannot watch: that is said by name.
    let test = "the_verbs_of_te_meta_work_on_each_service";
    for kind in Kind::ALL {
        let run = || {
            need!(&format!("{test} ({kind:?})"), kind.available());
            need!(&format!("{test} ({kind:?})"), Kind::Ours.available());
            let service = Service::start(kind);
            let uri = service.uri();
            let can = service.store(&StoreOptions::default()).capabilities().unwrap();
            check_keys(&uri);
            if can.list {
                check_list(&uri)
            } else {
                check_refused(&uri, "ls", "list keys")
            }
            if can.watch {
                check_watch(&uri)
            } else {
                check_refused(&uri, "watch", "watch keys")
            }
            assert_eq!(can.list, !matches!(kind, Kind::PeerHttp | Kind::PeerMaster));
            assert_eq!(can.watch, matches!(kind, Kind::Etcd | Kind::Ours));
        };
        run();
    }
}
