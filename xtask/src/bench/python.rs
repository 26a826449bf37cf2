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
use crate::ui;
use crate::wheel;
use crate::workspace::Workspace;

/// Its name, as a group.
pub(super) const NAME: &str = "python";

const PACKAGES: &[&str] = &["numpy==2.4.6"];

/// How often both are run; the fastest run of each figure counts.
const TURNS: usize = 5;

const LIMIT: Duration = Duration::from_secs(120);

/// The transports, as the example names what it took, and the variable's value that leads there.
const WAYS: &[(&str, &str)] = &[("shm", "local,shm,tcp"), ("tcp", "tcp")];

/// Microseconds by what they are of.
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
    let mut found = Found::new();
    for _ in 0..TURNS {
        measure(journal, Command::new(&rust), &mut found)?;
        for (way, transports) in WAYS {
            let mut of_python = Command::new(&python);
            of_python.arg("-B").arg(&script).arg(way).env("TE_TRANSPORTS", transports);
            measure(journal, of_python, &mut found)?;
        }
    }
    let judged = WAYS.iter().map(|(way, _)| judged(way, &found));
    Ok(judged.collect::<anyhow::Result<Vec<_>>>()?.concat())
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

/// Runs a program; of each figure the smallest is kept.
fn measure(journal: &mut Journal, command: Command, found: &mut Found) -> anyhow::Result<()> {
    let ended = run::stream(command, journal, LIMIT, |line| {
        for (name, value) in read(line) {
            let known = found.entry(name).or_insert(value);
            *known = known.min(value);
        }
    })?;
    ensure!(ended.is_good(), "a program failed ({}); see {}", ended.text(), journal.shown());
    Ok(())
}

/// The figures of a line `TRANSPORT: WHAT: NAME 1.5 µs, NAME 2.5 µs`, by `TRANSPORT WHAT NAME`.
fn read(line: &str) -> Vec<(String, f64)> {
    let Some((what, figures)) = line.rsplit_once(": ") else { return Vec::new() };
    let what = what.replace(':', "");
    let figure = |text: &str| {
        let number = text.trim().strip_suffix(" µs")?;
        let (name, number) = number.rsplit_once(' ').unwrap_or(("", number));
        Some((format!("{what} {name}").trim().to_owned(), number.parse().ok()?))
    };
    figures.split(',').filter_map(figure).collect()
}

fn judged(way: &str, found: &Found) -> anyhow::Result<Vec<Micro>> {
    let of = |name: &str| {
        let name = format!("{way} {name}");
        found.get(&name).copied().with_context(|| format!("no figure `{name}`"))
    };
    let rust = of("write of 4 KiB engine")?;
    let (codes, native) = (of("write of 4 KiB codes")?, of("write of 4 KiB native")?);
    let figure = |name: &str, value: f64, unit: &str, limit| {
        Micro::new(&format!("{way}: {name}"), value, unit, limit)
    };
    let (submitted, descriptors) =
        (of("10000 requests submitted")?, of("10000 descriptors submitted")?);
    Ok(vec![
        figure("a sync write of 4 KiB from Rust", rust, "µs", None),
        figure("from Python by code, more than from Rust", codes - rust, "µs", Some(2.0)),
        figure("from Python natively, more than from Rust", native - rust, "µs", Some(2.0)),
        figure("10 000 requests submitted from Rust", submitted / 1e3, "ms", None),
        figure("10 000 descriptors in arrays from Python", descriptors / 1e3, "ms", Some(3.0)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_figures_are_read() {
        let two = read("tcp: write of 4 KiB: engine 17.02 µs, here 17.17 µs");
        assert_eq!(two[1], ("tcp write of 4 KiB here".to_owned(), 17.17));
        let one = read("shm: 10000 requests submitted: 942.69 µs");
        assert_eq!(one, [("shm 10000 requests submitted".to_owned(), 942.69)]);
        assert_eq!(read("a line of something else"), []);
    }
}
