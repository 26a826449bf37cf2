//! Debian packages: which are missing, and installing them where that is allowed.

use std::process::Command;
use std::time::Duration;

use crate::journal::Journal;
use crate::run;
use crate::ui;

/// Installs those of `packages` that are missing. Returns what a person must type where we are
/// not root or the installation failed.
pub(crate) fn install(journal: &mut Journal, packages: &[&str]) -> anyhow::Result<Option<String>> {
    let missing: Vec<&str> = packages.iter().copied().filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let by_hand = format!("sudo apt-get install -y {}", missing.join(" "));
    if !is_root() {
        return Ok(Some(by_hand));
    }
    ui::say(&format!("  installing {}", missing.join(" ")));
    // The lists may be old or absent; if they cannot be had, the installation says what is wrong.
    run::quietly(apt_get(&["update", "-q"]), journal, LIMIT)?;
    let mut arguments = vec!["install", "-y", "-q", "--no-install-recommends"];
    arguments.extend(&missing);
    let ended = run::quietly(apt_get(&arguments), journal, LIMIT)?;
    Ok((!ended.is_good()).then_some(by_hand))
}

/// Whether all of `packages` are installed.
pub(crate) fn are_installed(packages: &[&str]) -> bool {
    packages.iter().all(|name| is_installed(name))
}

/// Stops units that an installation may have started. On a machine without systemd there are none.
pub(crate) fn stop_units(journal: &mut Journal, units: &[&str]) -> anyhow::Result<()> {
    if !std::path::Path::new("/run/systemd/system").exists() || !is_root() {
        return Ok(());
    }
    let mut command = Command::new("systemctl");
    command.args(["disable", "--now"]).args(units);
    // One that was not started is not stopped; that is as good.
    run::quietly(command, journal, LIMIT)?;
    Ok(())
}

const LIMIT: Duration = Duration::from_secs(600);

fn apt_get(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // Another apt may be at work; without this it would be an error at once.
    command.args(["-o", "DPkg::Lock::Timeout=300"]);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_installed(name: &str) -> bool {
    let mut command = Command::new("dpkg-query");
    let output = command.args(["--show", "--showformat", "${db:Status-Status}", name]).output();
    output.is_ok_and(|output| output.stdout == b"installed")
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
