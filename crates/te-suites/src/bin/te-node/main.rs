//! A process of our engine, driven over standard input and output, one JSON object a line.
//!
//! usage: te-node [--host H] [--size BYTES] [--port P] [--file PATH] [--at ADDRESS]
//!                [--margin BYTES] [--metadata URI] [--more ENGINES] [--courier PATH]
//!
//! The first line out names the segment, the buffer and the port, or the error that kept the
//! engine from starting. Each command `{"op": ...}` gets one line back; the commands are those of
//! `peer_node.py`, and some more. `rc` is 0 for success, else the peers' number for the error,
//! whose text is in `error`. The engine is configured by the environment, as any program's is, and
//! what it logs goes to the error stream. With `--file` the buffer is a mapping of that file, which
//! others can look at while the process is stopped, and after it is dead.
//!
//! One thread reads commands and runs them one after the other; `stress.rs`, `load.rs`,
//! `registering.rs` and `chaos.rs` start more.

mod arguments;
mod chaos;
mod commands;
mod courier;
mod fork;
mod life;
mod load;
mod memory;
mod publication;
mod registering;
mod stress;
mod transfer;

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};
use te_engine::{EngineConfig, RegisterOptions, TransferEngine, Transport};

use crate::arguments::Arguments;
use crate::commands::Node;
use crate::courier::Courier;
use crate::memory::Memory;

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("--carry", files)) =
        words.split_first().map(|(first, rest)| (first.as_str(), rest))
    {
        return courier::carry(files);
    }
    let arguments = match Arguments::parse(words.into_iter()) {
        Ok(arguments) => arguments,
        Err(why) => return refuse(&why),
    };
    let (node, hello) = match start(&arguments) {
        Ok(started) => started,
        Err(why) => return refuse(&why),
    };
    answer(&hello);
    serve(node)
}

fn refuse(why: &str) -> ExitCode {
    answer(&json!({ "error": why }));
    ExitCode::from(3)
}

fn start(arguments: &Arguments) -> Result<(Node, Value), String> {
    let config = EngineConfig::from_process().map_err(|error| chain(&error))?;
    let build = |name: &str| {
        TransferEngine::builder().config(config.clone()).name(name).metadata(&arguments.metadata)
    };
    let mut builder = build(&arguments.host);
    if let Some(port) = arguments.port {
        builder = builder.port(port);
    }
    let courier = arguments.file.as_deref().zip(arguments.courier.as_deref());
    let courier = courier.map(|(ours, theirs)| Arc::new(Courier::new(ours, theirs)));
    if let Some(courier) = &courier {
        let name = courier.capabilities().name;
        builder = builder.transport(Arc::clone(courier) as Arc<dyn Transport>).only([name]);
    }
    let engine = Arc::new(builder.build().map_err(|error| chain(&error))?);
    let more = (1..=arguments.more).map(|n| build(&format!("{}-{n}", arguments.host)).build());
    let more = more.collect::<Result<Vec<_>, _>>().map_err(|error| chain(&error))?;
    let mut memory = Memory::default();
    let mut addr = 0;
    if arguments.size > 0 {
        let region = match (&arguments.file, arguments.at) {
            (Some(path), at) => memory.map_file(path, at.unwrap_or(0), arguments.size)?,
            (None, Some(at)) => memory.map_at(at, arguments.size)?,
            (None, None) => engine.allocate(arguments.size).map_err(|error| chain(&error))?,
        };
        let open = region.subregion(arguments.margin, arguments.size - 2 * arguments.margin);
        let open = open.map_err(|error| chain(&error))?;
        engine.register(&open, RegisterOptions::default()).map_err(|error| chain(&error))?;
        addr = region.address();
        let _ = courier.as_ref().map(|courier| courier.base.set(addr));
        memory.add(region);
    }
    let hello = json!({
        "name": engine.local_name().as_str(), "addr": addr, "size": arguments.size,
        "pid": std::process::id(), "rpc_port": engine.rpc_port(),
        "courier": courier.and_then(|courier| courier.pid.get().copied()),
    });
    let mut node = Node::new(engine, memory, addr);
    node.more = more;
    Ok((node, hello))
}

/// Runs commands until `quit` or the end of the input, and closes the engine in an orderly way.
fn serve(mut node: Node) -> ExitCode {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let reply = match serde_json::from_str::<Value>(&line) {
            Ok(command) if command["op"] == "quit" => break,
            Ok(command) if command["op"] == "end" => {
                return life::end(node, command["how"].as_str().unwrap_or_default());
            }
            Ok(command) => node.run(&command),
            Err(error) => json!({ "rc": -1, "error": format!("no JSON: {error}") }),
        };
        answer(&reply);
    }
    let begun = te_suites::now();
    let report = node.close(life::CLOSE);
    let mut last = life::told(report);
    last["rc"] = json!(0);
    last["s"] = json!(begun.elapsed().as_secs_f64());
    answer(&last);
    if report.joined && report.open_tasks == 0 { ExitCode::SUCCESS } else { ExitCode::from(4) }
}

/// Writes one line to whoever drives us.
pub(crate) fn answer(reply: &Value) {
    let mut out = std::io::stdout().lock();
    // Nobody is left to tell when the other end of the pipe is closed.
    let _ = writeln!(out, "{reply}").and_then(|()| out.flush());
}

/// An error with its causes, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
