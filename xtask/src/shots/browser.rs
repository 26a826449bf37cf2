//! A browser without a screen, and the DevTools protocol with it.
//!
//! Messages are JSON with a zero byte behind each. The browser reads them from descriptor 3 and
//! writes to 4; a shell connects these to the pipes of its standard input and output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::ui::Stopwatch;

/// A running browser; dropping it ends it.
#[derive(Debug)]
pub(super) struct Browser {
    child: Child,
    to: ChildStdin,
    messages: Receiver<Value>,
    next_id: u64,
    /// Events that came while an answer was waited for.
    events: Vec<Value>,
}

impl Browser {
    /// Starts it with a profile of its own.
    pub(super) fn start(profile: &Path) -> anyhow::Result<Self> {
        if profile.exists() {
            std::fs::remove_dir_all(profile).context("cannot clear the browser's profile")?;
        }
        let mut command = Command::new("sh");
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]);
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.display()));
        // Where everybody is root, as in a container, there is no sandbox to be had.
        command.args(is_root().then_some("--no-sandbox")).arg("about:blank");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the browser")?;
        let to = child.stdin.take().context("the browser's input is a pipe")?;
        let from = child.stdout.take().context("the browser's output is a pipe")?;
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut text = Vec::new();
            while matches!(from.read_until(0, &mut text), Ok(n) if n > 0) {
                let message = serde_json::from_slice(text.strip_suffix(&[0]).unwrap_or(&text));
                if message.is_ok_and(|message| sender.send(message).is_err()) {
                    return;
                }
                text.clear();
            }
        });
        Ok(Self { child, to, messages, next_id: 1, events: Vec::new() })
    }

    /// Calls a method, in a tab if there is one, and waits for its result.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> anyhow::Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = serde_json::to_vec(&message)?;
        bytes.push(0);
        self.to.write_all(&bytes).context("the browser is gone")?;
        let watch = Stopwatch::start();
        loop {
            let left = ANSWER.saturating_sub(watch.elapsed());
            match self.messages.recv_timeout(left) {
                Ok(mut answer) if answer["id"] == id => {
                    if answer["error"].is_object() {
                        bail!("{method}: {}", answer["error"]["message"]);
                    }
                    return Ok(answer["result"].take());
                }
                Ok(event) => self.events.push(event),
                Err(RecvTimeoutError::Timeout) => bail!("{method}: the browser does not answer"),
                Err(RecvTimeoutError::Disconnected) => bail!("{method}: the browser is gone"),
            }
        }
    }

    /// Listens for a moment, then gives everything that has happened in a tab since the last time.
    pub(super) fn events(&mut self, session: &str, moment: Duration) -> Vec<Value> {
        let watch = Stopwatch::start();
        while let Ok(event) = self.messages.recv_timeout(moment.saturating_sub(watch.elapsed())) {
            self.events.push(event);
        }
        let all = std::mem::take(&mut self.events);
        all.into_iter().filter(|event| event["sessionId"] == session).collect()
    }

    /// Puts events back that nobody has looked at yet.
    pub(super) fn keep(&mut self, events: Vec<Value>) {
        self.events.splice(0..0, events);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Nothing that talks to anybody, and fonts that look the same everywhere.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// How long one method may take; the first one waits for the whole browser.
const ANSWER: Duration = Duration::from_secs(60);
