//! `te topo`: this machine or another, as text, data and pictures.

#[cfg(feature = "rdma")]
mod rdma;
#[cfg(not(feature = "rdma"))]
#[path = "topo/unbuilt.rs"]
mod rdma;
mod source;
mod wrap;

use std::path::Path;

use serde_json::{Map, Value, json};
use te_draw::{Subject, TreeStyle};
use te_topology::{Affinity, DeviceRef, Machine, Reach, SysTree};

use crate::args::{Common, Topo, TopoAction};
use crate::error::{CliError, Failure, chain};
use crate::output;
use crate::session;

use rdma::Rdma;

/// Columns where there is no terminal.
const DEFAULT_COLUMNS: u16 = 80;

pub(crate) fn run(common: &Common, args: &Topo) -> Result<(), CliError> {
    if let Some(TopoAction::Capture { file }) = &args.action {
        return capture(common, file);
    }
    if common.json && (args.dot || args.classic_json) {
        let cause = "--json, --classic-json and --dot are three forms of one output";
        return Err(CliError::new(Failure::Usage, "topo", cause).hint("choose one"));
    }
    let (machine, title) = source::read(args.from.as_deref())?;
    let affinity = Affinity::of(&machine);
    let draw = |draw: &dyn Fn(Subject<'_>) -> String| {
        Subject::new(&machine, &affinity, &title).map(draw).map_err(|error| {
            CliError::new(Failure::Other, "topo", error).hint("--json shows all of it")
        })
    };
    if let Some(file) = &args.svg {
        source::write(file, &draw(&te_draw::svg)?)?;
    }
    if let Some(file) = &args.html {
        source::write(file, &draw(&te_draw::html)?)?;
    }
    if common.json {
        let mut value = as_json(&machine, &affinity)?;
        if args.from.is_none() {
            value["rdma"] = look(common)?.json();
        }
        return output::line(&format!("{value:#}"));
    }
    if args.classic_json {
        return output::line(&classic(&affinity)?);
    }
    if args.dot {
        return output::text(&draw(&te_draw::dot)?);
    }
    let written: Vec<_> = args.svg.iter().chain(&args.html).collect();
    if written.is_empty() {
        let style = style(args.width);
        output::text(&draw(&|subject| te_draw::tree(subject, &style))?)?;
        return match &args.from {
            Some(_) => Ok(()),
            None => output::text(&format!("\n{}", look(common)?.table(columns(args.width)))),
        };
    }
    let files = written.into_iter().filter(|file| *file != Path::new("-"));
    files.into_iter().try_for_each(|file| output::line(&format!("wrote {}", file.display())))
}

fn classic(affinity: &Affinity) -> Result<String, CliError> {
    let failed = |error| CliError::new(Failure::Other, "cannot make a matrix", chain(&error));
    affinity.matrix(Reach::All).map(|matrix| matrix.to_string()).map_err(failed)
}

fn capture(common: &Common, file: &Path) -> Result<(), CliError> {
    let text = SysTree::on_disk(Path::new("/")).capture();
    source::write(file, &text)?;
    if file == Path::new("-") {
        return Ok(());
    }
    let lines = text.lines().count();
    if common.json {
        return output::json(&json!({ "file": file, "lines": lines }));
    }
    output::line(&format!("wrote {}: {lines} lines, for `te topo --from`", file.display()))
}

/// The RDMA devices of this machine, with the eyes of its settings.
fn look(common: &Common) -> Result<Rdma, CliError> {
    Ok(Rdma::look(&session::load_config(common)?))
}

fn columns(width: Option<u16>) -> usize {
    let terminal = console::Term::stdout();
    let columns = terminal.size_checked().map_or(DEFAULT_COLUMNS, |(_, columns)| columns);
    usize::from(width.unwrap_or(columns))
}

fn style(width: Option<u16>) -> TreeStyle {
    let columns = columns(width);
    if output::is_terminal() && console::colors_enabled() {
        TreeStyle::coloured(columns)
    } else {
        TreeStyle::plain(columns)
    }
}

/// The shape is described in `docs/topo.md`.
fn as_json(machine: &Machine, affinity: &Affinity) -> Result<Value, CliError> {
    let failed = |error| CliError::new(Failure::Other, "cannot make JSON", chain(&error));
    Ok(json!({
        "machine": serde_json::to_value(machine).map_err(failed)?,
        "affinity": serde_json::to_value(affinity.rows()).map_err(failed)?,
        "paths": paths(machine),
    }))
}

/// What lies between each GPU and each other device.
fn paths(machine: &Machine) -> Value {
    let gpus = || (0..machine.gpus().len()).map(DeviceRef::Gpu);
    let nics = (0..machine.nics().len()).map(DeviceRef::Nic);
    let all: Vec<DeviceRef> = nics.chain(gpus()).collect();
    let row = |from: DeviceRef| -> Map<String, Value> {
        let others = all.iter().filter(|to| **to != from);
        others.map(|to| (name(machine, *to), machine.path(from, *to).to_string().into())).collect()
    };
    Value::Object(gpus().map(|gpu| (name(machine, gpu), Value::Object(row(gpu)))).collect())
}

fn name(machine: &Machine, device: DeviceRef) -> String {
    match device {
        DeviceRef::Nic(at) => machine.nics()[at].name.to_string(),
        DeviceRef::Gpu(at) => machine.gpus()[at].location().to_string(),
    }
}
