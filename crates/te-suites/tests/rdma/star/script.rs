//! One script of operations on real verbs; the fake fabric gave the same observations.

use std::process::Command;
use std::time::Duration;

use te_suites::{need, say};
use te_verbs::{Link, differences, script};

use crate::links::nic;
use crate::watched::Watched;

/// The link of the first device.
#[derive(Debug)]
struct First;

impl Link for First {
    fn set(&self, up: bool) {
        let word = if up { "up" } else { "down" };
        let status = Command::new("te-net").args([word, nic(0).as_str()]).status();
        assert!(status.is_ok_and(|status| status.success()), "te-net {word}");
    }
}

#[test]
fn the_script_gives_what_it_gives_on_the_fake_fabric() {
    let test = "star::script::the_script_gives_what_it_gives_on_the_fake_fabric";
    let verbs = need!(test, Watched::with_devices(8));
    let (first, second) = (nic(0), nic(4));
    let seen = script(&verbs, [&first, &second], Some(&First), Duration::from_secs(10));
    let seen = seen.unwrap_or_else(|error| panic!("the script needs what failed: {error}"));
    let unknown = differences(&seen);
    for (fake, real) in &unknown {
        say(&format!("fake: {fake}\nreal: {real}"));
    }
    say(&format!("row {} observations, {} unknown differences", seen.len(), unknown.len()));
    assert!(unknown.is_empty(), "{} observations differ from the fake's", unknown.len());
}
