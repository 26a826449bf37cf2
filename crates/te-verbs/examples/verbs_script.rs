//! Runs the script of `te_verbs::script` on two devices of this machine, prints what was seen, and
//! says where the fake fabric differs.
//!
//! ```text
//! verbs_script DEVICE DEVICE [DOWN UP]
//! ```
//!
//! `DOWN` and `UP` are commands for the shell that take the first device's link away and give it
//! back; without them those scenes are left out. Exits with 1 where there is nothing to run on or
//! something differs that is not known to.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of a terminal")]

use std::process::{Command, ExitCode};
use std::time::Duration;

use te_topology::NicName;
use te_verbs::{Libibverbs, Link, differences, script};

/// An emulated machine that others hold up answers within this.
const QUIET: Duration = Duration::from_secs(10);

struct Shell {
    down: String,
    up: String,
}

impl Link for Shell {
    fn set(&self, up: bool) {
        let command = if up { &self.up } else { &self.down };
        let status = Command::new("sh").args(["-c", command]).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("`{command}` failed");
        }
    }
}

fn run(arguments: &[String]) -> Result<Vec<String>, String> {
    let [first, second, rest @ ..] = arguments else {
        return Err("usage: verbs_script DEVICE DEVICE [DOWN UP]".into());
    };
    let name = |text: &String| NicName::parse(text).map_err(|error| error.to_string());
    let names = [name(first)?, name(second)?];
    let link = match rest {
        [down, up] => Some(Shell { down: down.clone(), up: up.clone() }),
        _ => None,
    };
    let verbs = Libibverbs::load().map_err(|error| error.to_string())?;
    let link = link.as_ref().map(|link| -> &dyn Link { link });
    script(&verbs, [&names[0], &names[1]], link, QUIET).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            let found = differences(&lines);
            found.iter().for_each(|(fake, real)| eprintln!("fake: {fake}\nreal: {real}"));
            println!("{} lines, {} unexpected differences", lines.len(), found.len());
            if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
