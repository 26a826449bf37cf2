//! `te demo-target`: exposes a buffer; fills and compares it as standard input says, a command a
//! line, and ends with it.

use std::io::{self, BufRead};

use serde_json::json;
use te_engine::{Region, RegisterOptions};

use super::{difference, fill};
use crate::args::{Common, DemoTarget};
use crate::error::{CliError, Failure, chain, system_text};
use crate::output;
use crate::session;

pub(crate) fn run(common: &Common, args: &DemoTarget) -> Result<(), CliError> {
    let engine = session::server(common, "127.0.0.1", None)?;
    let region = engine.allocate(args.size).map_err(|error| CliError::memory(args.size, &error))?;
    engine
        .register(&region, RegisterOptions::default())
        .map_err(|error| CliError::new(Failure::Local, "cannot register memory", chain(&error)))?;
    output::json(&json!({
        "segment": engine.local_name().as_str(),
        "address": region.address(),
    }))?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|cause| broken(system_text(&cause)))?;
        output::line(&obey(&region, &line)?)?;
    }
    session::close(&engine);
    Ok(())
}

fn obey(region: &Region, line: &str) -> Result<String, CliError> {
    let words: Vec<&str> = line.split(' ').collect();
    let numbers: Vec<u64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
    match (words[0], numbers.as_slice()) {
        ("fill", [seed, length]) => {
            fill(region, *seed, *length)?;
            Ok("ok".to_owned())
        }
        ("check", [seed, length]) => Ok(match difference(region, *seed, *length)? {
            None => "equal".to_owned(),
            Some(position) => format!("differs {position}"),
        }),
        _ => Err(broken(format!("unknown command {line:?}"))),
    }
}

fn broken(cause: impl std::fmt::Display) -> CliError {
    CliError::new(Failure::Other, "demo-target", cause)
}
