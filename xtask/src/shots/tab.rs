//! One subject at one width in one colour scheme: open, wait, check, take the picture.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::browser::Browser;
use super::{PATIENCE, Subject, base64};
use crate::ui::Stopwatch;

/// Takes one picture, and says what is not as it should be.
pub(super) fn shoot(
    browser: &mut Browser,
    subject: &Subject,
    (width, scheme): (u32, &str),
    folder: &Path,
) -> anyhow::Result<Vec<String>> {
    let target = browser.call(None, "Target.createTarget", json!({ "url": "about:blank" }))?;
    let id = target["targetId"].clone();
    let attach = json!({ "targetId": id, "flatten": true });
    let attached = browser.call(None, "Target.attachToTarget", attach)?;
    let session = attached["sessionId"].as_str().context("a tab has a session")?.to_owned();
    let mut tab = Tab { browser, session, subject };
    tab.prepare(width, scheme)?;
    let mut findings: Vec<String> = tab.visit()?.into_iter().collect();
    findings.extend(tab.look()?);
    let picture = tab.picture(width)?;
    let path = folder.join(format!("{}-{width}-{scheme}.png", subject.name));
    std::fs::write(&path, picture).with_context(|| format!("cannot write {}", path.display()))?;
    findings.extend(tab.incidents());
    browser.call(None, "Target.closeTarget", json!({ "targetId": id }))?;
    Ok(findings)
}

struct Tab<'a> {
    browser: &'a mut Browser,
    session: String,
    subject: &'a Subject,
}

impl Tab<'_> {
    fn call(&mut self, method: &str, parameters: Value) -> anyhow::Result<Value> {
        self.browser.call(Some(&self.session), method, parameters)
    }

    fn prepare(&mut self, width: u32, scheme: &str) -> anyhow::Result<()> {
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }))?;
        Ok(())
    }

    /// Opens the page and does what a person does; says so if it never gets ready.
    fn visit(&mut self) -> anyhow::Result<Option<String>> {
        let subject = self.subject;
        let gone = self.call("Page.navigate", json!({ "url": subject.url }))?;
        if let Some(error) = gone["errorText"].as_str() {
            bail!("{}: {error}", subject.url);
        }
        if let Some(late) = self.wait_for(&subject.ready)? {
            return Ok(Some(late));
        }
        let Some((action, after)) = &subject.action else { return Ok(None) };
        self.evaluate(action)?;
        self.wait_for(after)
    }

    fn wait_for(&mut self, condition: &str) -> anyhow::Result<Option<String>> {
        let watch = Stopwatch::start();
        // Before the document exists a condition on it throws.
        let question = format!(
            "(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()"
        );
        while self.evaluate(&question)? != json!(true) {
            if watch.elapsed() > PATIENCE {
                return Ok(Some(format!("never became ready: {condition}")));
            }
            // Listening is also waiting.
            let events = self.browser.events(&self.session, LOOK);
            self.browser.keep(events);
        }
        Ok(None)
    }

    fn evaluate(&mut self, expression: &str) -> anyhow::Result<Value> {
        let question = json!({ "expression": expression, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", question)?;
        if answer["exceptionDetails"].is_object() {
            bail!("{}", answer["exceptionDetails"]["exception"]["description"]);
        }
        Ok(answer["result"]["value"].take())
    }

    /// What the page looks like to the script.
    fn look(&mut self) -> anyhow::Result<Vec<String>> {
        let found = self.evaluate(CHECK)?;
        let list = found.as_array().context("the check returns a list")?;
        Ok(list.iter().map(|what| what.as_str().unwrap_or_default().to_owned()).collect())
    }

    /// The whole page as PNG, or its beginning where it is very long.
    fn picture(&mut self, width: u32) -> anyhow::Result<Vec<u8>> {
        let size = self.call("Page.getLayoutMetrics", json!({}))?;
        let height = size["cssContentSize"]["height"].as_f64().unwrap_or(900.0);
        let height = height.clamp(300.0, TALLEST);
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let order = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let answer = self.call("Page.captureScreenshot", order)?;
        let text = answer["data"].as_str().context("a picture is text")?;
        base64::decode(text).context("a picture is base64")
    }

    /// Errors and requests that happened meanwhile.
    fn incidents(&mut self) -> Vec<String> {
        let events = self.browser.events(&self.session, Duration::from_millis(20));
        let told = events.iter().filter_map(|event| incident(event, &self.subject.origin));
        let expected = self.subject.expected;
        told.filter(|what| !expected.iter().any(|part| what.contains(part))).collect()
    }
}

/// What one event tells, if it is nothing good.
fn incident(event: &Value, origin: &str) -> Option<String> {
    let facts = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => {
            let details = &facts["exceptionDetails"];
            Some(format!("exception: {} {}", details["text"], details["exception"]["description"]))
        }
        "Runtime.consoleAPICalled"
            if ["error", "warning", "assert"].iter().any(|kind| facts["type"] == *kind) =>
        {
            Some(format!("console: {}", facts["args"]))
        }
        "Log.entryAdded" if ["error", "warning"].iter().any(|l| facts["entry"]["level"] == *l) => {
            Some(format!("log: {}", facts["entry"]["text"]))
        }
        "Network.requestWillBeSent" => {
            let url = facts["request"]["url"].as_str().unwrap_or_default();
            let is_own = url.starts_with(origin) || url.starts_with("data:");
            (!is_own).then(|| format!("request to {url}"))
        }
        _ => None,
    }
}

const CHECK: &str = include_str!("check.js");

/// How often a page is asked whether it is ready.
const LOOK: Duration = Duration::from_millis(30);

/// Pixels; a list of a thousand looks alike further down.
const TALLEST: f64 = 2400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(event: Value, expected: Option<&str>) {
        let told = incident(&event, "http://127.0.0.1:1/");
        assert_eq!(told.as_deref(), expected);
    }

    #[test]
    fn only_the_pages_own_requests_are_good() {
        let request = |url| json!({ "method": "Network.requestWillBeSent", "params": { "request": { "url": url } } });
        check(request("http://127.0.0.1:1/v1/status"), None);
        check(request("data:,"), None);
        check(request("http://127.0.0.1:12/x"), Some("request to http://127.0.0.1:12/x"));
        check(request("https://fonts.example/a"), Some("request to https://fonts.example/a"));
    }

    #[test]
    fn errors_are_told_and_words_are_not() {
        let log = |level| json!({ "method": "Log.entryAdded", "params": { "entry": { "level": level, "text": "t" } } });
        check(log("error"), Some("log: \"t\""));
        check(log("info"), None);
        let console = |kind| json!({ "method": "Runtime.consoleAPICalled", "params": { "type": kind, "args": [] } });
        check(console("error"), Some("console: []"));
        check(console("log"), None);
        check(json!({ "method": "Page.loadEventFired" }), None);
    }
}
