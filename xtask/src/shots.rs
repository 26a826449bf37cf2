//! `shots`: renders what people look at in a browser without a screen, checks it, and writes
//! pictures to `target/shots`.
//!
//! ```text
//!   subjects (a list per kind of page) ─▶ each width and colour scheme ─▶ check.js ─▶ PNG
//!    metadata.rs, machines.rs, bench.rs    shots/tab.rs                   findings
//! ```
//!
//! A further kind of page is one more function that returns [`Subject`]s; SVG and HTML files are
//! subjects with a `file:` URL. The browser is Chromium of Debian, spoken to over a pipe.

mod base64;
mod bench;
mod browser;
mod machines;
mod metadata;
mod proof;
mod tab;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::debian;
use crate::flags::ShotsFlags;
use crate::journal::Journal;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;
use browser::Browser;

/// One page in one state.
#[derive(Debug, Clone)]
struct Subject {
    /// Begins the names of its pictures.
    name: String,
    /// What is opened.
    url: String,
    /// Everything that is loaded begins so.
    origin: String,
    /// The windows that it is looked at in.
    widths: &'static [u32],
    /// JavaScript that is true once the page shows what it is to show.
    ready: String,
    /// JavaScript that a person does first, and what is true after it.
    action: Option<(String, String)>,
    /// Texts of messages that belong to this state, like that of a refused request.
    expected: &'static [&'static str],
}

/// Window widths in pixels: a telephone, a tablet, a laptop, a large screen.
const WIDTHS: &[u32] = &[360, 768, 1280, 1920];

/// Value of `prefers-color-scheme`.
const SCHEMES: &[&str] = &["light", "dark"];

/// Renders all subjects whose name contains the filter.
pub(crate) fn run(workspace: &Workspace, flags: &ShotsFlags) -> anyhow::Result<bool> {
    let watch = Stopwatch::start();
    let mut journal = Journal::create(workspace, "shots")?;
    if let Some(by_hand) = debian::install(&mut journal, &["chromium", "fonts-dejavu-core"])? {
        ui::say(&format!("shots: skipped, there is no browser: {by_hand}"));
        return Ok(!flags.no_skip);
    }
    let folder = pictures(workspace)?;
    let (_servers, mut subjects) = metadata::subjects(workspace, &mut journal)?;
    subjects.extend(machines::subjects(workspace, &mut journal)?);
    subjects.extend(bench::subjects(workspace, &mut journal)?);
    let wanted = |subject: &&Subject| {
        flags.filter.as_ref().is_none_or(|part| subject.name.contains(part.as_str()))
    };
    let mut browser = Browser::start(&workspace.target().join("shots-profile"))?;
    let (mut n_pictures, mut findings) = (0, proof::missed(&mut browser, workspace)?);
    for subject in subjects.iter().filter(wanted) {
        for width in subject.widths {
            for scheme in SCHEMES {
                let found = tab::shoot(&mut browser, subject, (*width, scheme), &folder);
                let label = format!("{} at {width}, {scheme}", subject.name);
                let found = found.with_context(|| label.clone())?;
                journal.line(&format!("{label}: {found:?}"))?;
                findings.extend(found.into_iter().map(|what| format!("{label}: {what}")));
                n_pictures += 1;
            }
        }
    }
    findings.iter().for_each(|finding| ui::say(&format!("  {finding}")));
    let shown = folder.strip_prefix(workspace.root()).unwrap_or(&folder).display();
    let verdict = if findings.is_empty() && n_pictures > 0 { "ok" } else { "FAILED" };
    let counted = ui::count(findings.len(), "finding");
    ui::say(&format!(
        "shots: {verdict}, {n_pictures} pictures in {shown}, {counted}, {}",
        watch.text()
    ));
    Ok(findings.is_empty() && n_pictures > 0)
}

/// The folder for pictures, empty.
fn pictures(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = workspace.target().join("shots");
    let told = || format!("cannot make {}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(told)?;
    }
    std::fs::create_dir_all(&folder).with_context(told)?;
    Ok(folder)
}

/// How long a page may take to show what it is to show.
const PATIENCE: Duration = Duration::from_secs(20);
