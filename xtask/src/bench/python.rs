//! What Python adds to a call: the same work from Rust and from Python, in turns.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::micro::Micro;
use crate::artifacts;
use crate::journal::Journal;
use crate::run;
use crate::runner::forget_settings;
use crate::ui;
use crate::wheel;
use crate::workspace::Workspace;

/// Its name, as a group.
pub(super) const NAME: &str = "python";

const PACKAGES: &[&str] = &["numpy==2.4.6"];

/// How often both are run; the fastest run of each figure counts.
const TURNS: usize = 5;

const LIMIT: Duration = Duration::from_secs(120);

/// What the transport is, and the variable that chooses it.
const WAYS: &[(&str, Option<(&str, &str)>)] =
    &[("one process", None), ("TCP", Some(("MC_FORCE_TCP", "1")))];

/// Figures by what printed them.
type Found = BTreeMap<String, f64>;

/// Builds both for speed and runs them in turns. Where Python is missing there are none.
pub(super) fn figures(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<Vec<Micro>> {
    ui::say("  what Python adds to a call");
    let python = match installed(workspace, journal)? {
        Ok(python) => python,
        Err(missing) => {
            ui::say(&format!("  absent: {missing}"));
            return Ok(Vec::new());
        }
    };
    let example = ["--release", "--package", "te-compat", "--example", "overhead"];
    artifacts::build_programs(workspace, journal, &example)?;
    let rust = workspace.target().join("release/examples/overhead");
    let script = workspace.path("crates/te-python/benches/overhead.py");
    let mut figures = Vec::new();
    for (way, variable) in WAYS {
        let mut found = Found::new();
        for _ in 0..TURNS {
            let mut of_python = Command::new(&python);
            of_python.arg("-B").arg(&script);
            for mut command in [Command::new(&rust), of_python] {
                forget_settings(&mut command);
                command.envs(*variable);
                measure(journal, command, &mut found)?;
            }
        }
        figures.extend(judged(way, &found)?);
    }
    Ok(figures)
}

/// An environment with te_engine as it is built for speed.
fn installed(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<wheel::Made> {
    if let Err(missing) = wheel::install_dev(workspace, journal)? {
        return Ok(Err(missing));
    }
    let python = match wheel::environment(workspace, journal, "venv-bench", PACKAGES)? {
        Ok(python) => python,
        missing => return Ok(missing),
    };
    let wheels = wheel::wheels_in(&workspace.target().join("wheels-dev"))?;
    wheel::install(journal, &python, &wheels)?;
    artifacts::build_programs(workspace, journal, &["--release", "--package", "te-python"])?;
    let library = workspace.target().join("release/lib_native.so");
    std::fs::copy(library, extension(&python)?).context("cannot install what was built")?;
    Ok(Ok(python))
}

/// Where an environment keeps the extension module.
fn extension(python: &Path) -> anyhow::Result<PathBuf> {
    let code = "import te_engine._native as module; print(module.__file__)";
    let told = Command::new(python).args(["-c", code]).output().context("cannot run Python")?;
    Ok(PathBuf::from(String::from_utf8(told.stdout)?.trim()))
}

/// Runs a program; of each figure, `WORDS… NANOSECONDS`, the smallest is kept.
fn measure(journal: &mut Journal, command: Command, found: &mut Found) -> anyhow::Result<()> {
    let ended = run::stream(command, journal, LIMIT, |line| {
        let Some((name, value)) = line.rsplit_once(' ') else { return };
        if let Ok(value) = value.parse::<f64>() {
            let known = found.entry(name.to_owned()).or_insert(value);
            *known = known.min(value);
        }
    })?;
    ensure!(ended.is_good(), "a program failed ({}); see {}", ended.text(), journal.shown());
    Ok(())
}

fn judged(way: &str, found: &Found) -> anyhow::Result<Vec<Micro>> {
    let of = |name: &str| found.get(name).copied().with_context(|| format!("no figure `{name}`"));
    let (rust, codes, native) =
        (of("rust one")?, of("python codes one")?, of("python native one")?);
    let (micro, milli) = (1e3, 1e6);
    let figure = |name: &str, value: f64, unit: &str, limit| {
        Micro::new(&format!("{name}, {way}"), value, unit, limit)
    };
    Ok(vec![
        figure("a sync write of 4 KiB from Rust", rust / micro, "µs", None),
        figure("the same from Python, by code", codes / micro, "µs", None),
        figure("… more than from Rust", (codes - rust) / micro, "µs", Some(2.0)),
        figure("the same from Python, native", native / micro, "µs", None),
        figure("… native, more than from Rust", (native - rust) / micro, "µs", Some(2.0)),
        figure("10 000 requests submitted from Rust", of("rust submit10000")? / milli, "ms", None),
        figure(
            "10 000 descriptors in arrays submitted from Python",
            of("python native submit10000")? / milli,
            "ms",
            Some(3.0),
        ),
    ])
}
