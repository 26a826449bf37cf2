//! `cargo deny`, where it is installed or may be.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::journal::Journal;
use crate::run;
use crate::ui;
use crate::workspace::Workspace;

/// Runs the checks that need no network. Good where it is not installed: the check of our own has
/// looked at the same rules.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    may_install: bool,
) -> anyhow::Result<bool> {
    if !is_installed() && may_install {
        ui::say("  compiling cargo-deny, which takes long");
        let mut install = workspace.cargo("install");
        install.args(["cargo-deny", "--locked"]);
        run::quietly(install, journal, Duration::from_secs(3600))?;
    }
    if !is_installed() {
        ui::say("  not installed; `cargo install cargo-deny --locked`, or `ci --full`, brings it");
        return Ok(true);
    }
    let mut check = workspace.cargo("deny");
    check.args(["--offline", "check", "licenses", "bans", "sources"]);
    let good = run::quietly(check, journal, Duration::from_secs(300))?.is_good();
    if !good {
        ui::say(&journal.tail(60)?);
    }
    Ok(good)
}

fn is_installed() -> bool {
    let mut command = Command::new("cargo-deny");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
