//! `te serve`

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use serde_json::json;
use te_engine::{Region, RegisterOptions, RemoteAccess, TransferEngine};

use crate::args::{Common, Serve};
use crate::error::{CliError, Failure, chain};
use crate::output;
use crate::session;
use crate::source::Source;
use crate::stop;
use crate::units;

/// How often messages of others are looked for.
const LOOK: Duration = Duration::from_millis(100);

const DEFAULT_SIZE: u64 = 1 << 30;

pub(crate) fn run(common: &Common, args: &Serve) -> Result<(), CliError> {
    let stop = stop::watch(args.until_eof)?;
    let engine = session::server(common, &args.host, args.port)?;
    let region = buffer(&engine, args)?;
    let remote = if args.read_only { RemoteAccess::Read } else { RemoteAccess::ReadWrite };
    engine
        .register(&region, RegisterOptions { remote, ..RegisterOptions::default() })
        .map_err(|error| CliError::new(Failure::Local, "cannot register memory", chain(&error)))?;
    announce(common, args, &engine, &region)?;
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK) {
        show_messages(common, &engine)?;
    }
    show_messages(common, &engine)?;
    session::close(&engine);
    Ok(())
}

fn buffer(engine: &TransferEngine, args: &Serve) -> Result<Region, CliError> {
    let Some(path) = &args.file else {
        return allocate(engine, args.size.unwrap_or(DEFAULT_SIZE));
    };
    let (mut source, length) = Source::file(path)?;
    let Some(size) = args.size.or(length) else {
        return Err(CliError::new(Failure::Usage, "serve", "the file tells no length")
            .hint("say how much with --size"));
    };
    let region = allocate(engine, size)?;
    source.fill(&region, 0, size)?;
    if !source.is_at_end()? {
        return Err(too_long(path, size));
    }
    Ok(region)
}

fn allocate(engine: &TransferEngine, size: u64) -> Result<Region, CliError> {
    if size == 0 {
        return Err(CliError::new(Failure::Usage, "serve", "there is nothing to expose")
            .hint("give a --size above 0, or a --file that is not empty"));
    }
    engine.allocate(size).map_err(|error| CliError::memory(size, &error))
}

fn too_long(path: &Path, size: u64) -> CliError {
    let cause = format!("{} is longer than {}", path.display(), units::length(size));
    CliError::new(Failure::Usage, "serve", cause).hint("give a larger --size, or none")
}

fn announce(
    common: &Common,
    args: &Serve,
    engine: &TransferEngine,
    region: &Region,
) -> Result<(), CliError> {
    let (name, address, length) = (engine.local_name(), region.address(), region.len());
    if common.json {
        return output::json(&json!({
            "segment": name.as_str(),
            "address": format!("{address:#x}"),
            "length": length,
            "read_only": args.read_only,
            "pid": std::process::id(),
        }));
    }
    let access = if args.read_only { ", read only" } else { "" };
    output::line(&format!(
        "segment {name} address {address:#x} length {length} ({}{access})",
        units::length(length)
    ))?;
    if output::is_terminal() {
        output::note(&format!("  from another terminal: te read {name} --discard"));
        output::note("  Ctrl-C ends it");
    }
    Ok(())
}

fn show_messages(common: &Common, engine: &TransferEngine) -> Result<(), CliError> {
    for notify in engine.take_notifies() {
        if common.json {
            output::json(&json!({ "notify": { "name": notify.name, "message": notify.msg } }))?;
        } else {
            let (name, message) = (units::printable(&notify.name), units::printable(&notify.msg));
            output::line(&format!("notify {name}: {message}"))?;
        }
    }
    Ok(())
}
