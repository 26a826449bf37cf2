//! The counter-proof: a page with one fault of each kind, all of which must be found.

use anyhow::Context as _;

use super::Subject;
use super::browser::Browser;
use super::tab;
use crate::workspace::Workspace;

/// Faults with what their finding begins with.
const FAULTS: &[(&str, &str)] = &[
    ("<p>under</p><p style='margin-top:-2.1em'>over</p>", "text over"),
    ("<table><tr><td>a</td><td id=hole></td></tr></table>", "empty: td#hole"),
    ("<p style='font-size:0'>nothing</p>", "text without size"),
    ("<p style='position:absolute;left:1270px;width:300px'>far away</p>", "text leaves the window"),
    ("<p style='width:2000px'>wide</p>", "the page is "),
    (
        "<p style='overflow:hidden;width:3em;white-space:nowrap'>cut in the middle</p>",
        "text is cut off",
    ),
    ("<p style='color:#bbb;background:#fff'>pale</p>", "contrast of"),
    ("<script>console.error('oh')</script>", "console:"),
    ("<script>throw new Error('oh')</script>", "exception:"),
    ("<img src='http://127.0.0.1:9/x.png' alt=''>", "request to http://127.0.0.1:9/x.png"),
];

/// What the checks did not find, and what they found on a page without a fault.
pub(super) fn missed(browser: &mut Browser, workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let mut missed = Vec::new();
    for (fault, begin) in FAULTS {
        let found = look(browser, workspace, fault)?;
        if !found.iter().any(|what| what.starts_with(begin)) {
            missed.push(format!("the checks do not find {fault}, only {found:?}"));
        }
    }
    let found = look(browser, workspace, "")?;
    missed.extend(found.into_iter().map(|what| format!("a good page: {what}")));
    Ok(missed)
}

fn look(browser: &mut Browser, workspace: &Workspace, fault: &str) -> anyhow::Result<Vec<String>> {
    let path = workspace.output("shots-proof/page.html")?;
    let folder = path.parent().context("a path below target has a parent")?;
    let html = format!("<!doctype html><html lang=en><title>proof</title><h1>Proof</h1>{fault}");
    std::fs::write(&path, html).with_context(|| format!("cannot write {}", path.display()))?;
    let url = format!("file://{}", path.display());
    let subject = Subject {
        name: "proof".to_owned(),
        origin: url.clone(),
        url,
        widths: &[1280],
        ready: "document.readyState === 'complete'".to_owned(),
        action: None,
        expected: &[],
    };
    tab::shoot(browser, &subject, (1280, "light"), folder)
}
