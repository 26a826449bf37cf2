//! `te serve`, `te segment`, `te write` and `te read` through each service.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use te_suites::{LineChild, need, te_bin};

use crate::engines::on_each;
use crate::service::Kind;

/// What a verb prints, with the service before its own words.
#[track_caller]
fn te(uri: &str, words: &[&str], code: i32) -> (String, String) {
    let mut command = Command::new(te_bin());
    command.args(["--metadata", uri]).args(words).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert_eq!(status.code(), Some(code), "{words:?}: {out}{err}");
    (out, err)
}

fn serve(uri: &str) -> (LineChild, Value) {
    let mut command = Command::new(te_bin());
    let words = ["--metadata", uri, "--json", "serve", "--until-eof", "--size", "2M"];
    command.args(words);
    let mut served = LineChild::start("te serve", command);
    let told = served.receive(std::time::Duration::from_secs(20)).unwrap();
    (served, told)
}

#[test]
fn the_verbs_of_te_work_through_each_service() {
    // Two that serve on one host have names of their own; those that only ask have none.
    let test = "the_verbs_of_te_work_through_each_service";
    need!(test, te_bin().exists().then_some(()).ok_or("te is not built"));
    on_each(test, &Kind::ALL, |service| {
        let uri = service.uri();
        let (mut one, told) = serve(&uri);
        let (mut two, other) = serve(&uri);
        let name = told["segment"].as_str().unwrap();
        assert_ne!(name, other["segment"].as_str().unwrap());
        te(&uri, &["write", name, "--pattern", "7", "--verify"], 0);
        te(&uri, &["read", name, "--pattern", "7"], 0);
        assert!(te(&uri, &["segment", name], 0).0.contains(name));
        te(&uri, &["probe", name], 0);
        let (_, why) = te(&uri, &["segment", "nobody"], 4);
        assert!(why.contains("nobody"), "{why}");
        for child in [&mut one, &mut two] {
            child.hang_up();
            let ended = child.wait(std::time::Duration::from_secs(10)).unwrap();
            assert!(ended.success(), "{}", child.errors());
        }
        let (_, why) = te(&uri, &["segment", name], 4);
        assert!(why.contains("not known"), "it has left: {why}");
    });
}
