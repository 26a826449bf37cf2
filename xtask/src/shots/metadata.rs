//! The status page of `te metadata-server`, in every state that a person meets.

mod sample;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Subject, WIDTHS};
use crate::artifacts;
use crate::journal::Journal;
use crate::workspace::Workspace;

/// Servers that are needed while pictures are taken, and the pages to take.
pub(super) fn subjects(
    workspace: &Workspace,
    journal: &mut Journal,
) -> anyhow::Result<(Vec<Server>, Vec<Subject>)> {
    artifacts::build_programs(workspace, journal, &["--package", "te-cli", "--bins"])?;
    let start = |words: &[&str]| Server::start(workspace, words);
    let token = workspace.output("shots-token")?;
    std::fs::write(&token, TOKEN).context("cannot write a token")?;
    let token = token.display().to_string();
    let open = [start(&[])?, start(&[])?, start(&[])?, start(&[])?];
    let (locked, gone) = (start(&["--token-file", &token])?, start(&[])?);
    let [empty, few, many, hostile] = &open;
    sample::few(few)?;
    sample::many(many)?;
    sample::hostile(hostile)?;
    sample::few(&gone)?;
    let search = |text: &str| {
        format!(
            "{{ const box = document.getElementById('search'); box.value = '{text}'; \
             box.dispatchEvent(new Event('input')); }}"
        )
    };
    let subjects = vec![
        empty.page("empty", READY),
        few.page("few", READY),
        many.page("many", READY),
        hostile.page("hostile", READY),
        Subject {
            action: Some((search("node-004"), "document.querySelectorAll('#segments tbody tr').length === 10".to_owned())),
            ..many.page("search", READY)
        },
        Subject {
            action: Some((search("<nothing>"), "!document.getElementById('segments-empty').hidden".to_owned())),
            ..few.page("search-none", READY)
        },
        Subject {
            action: Some(("document.querySelectorAll('#segments th button')[3].click(); document.querySelectorAll('#segments th button')[3].click()".to_owned(), "document.querySelector('#segments th[aria-sort=descending]')".to_owned())),
            ..few.page("sorted", READY)
        },
        Subject { expected: REFUSED, ..locked.page("locked", "document.documentElement.dataset.state === 'locked'") },
        Subject {
            expected: REFUSED,
            action: Some((format!("document.getElementById('token').value = '{TOKEN}'; document.querySelector('form button').click()"), READY.to_owned())),
            ..locked.page("unlocked", "document.documentElement.dataset.state === 'locked'")
        },
        Subject {
            expected: REFUSED,
            action: Some(("document.getElementById('token').value = 'wrong'; document.querySelector('form button').click()".to_owned(), "document.getElementById('lock-text').className === 'bad'".to_owned())),
            ..locked.page("wrong-token", "document.documentElement.dataset.state === 'locked'")
        },
        Subject {
            // What a page sees whose server is gone: its requests fail.
            expected: &["net::ERR", "503"],
            action: Some(("window.fetch = () => Promise.reject(new Error('connection refused')); ask()".to_owned(), "document.documentElement.dataset.state === 'error'".to_owned())),
            ..gone.page("gone", READY)
        },
    ];
    let mut servers = Vec::from(open);
    servers.extend([locked, gone]);
    Ok((servers, subjects))
}

const READY: &str = "document.documentElement.dataset.state === 'ready'";

/// A page that asks without a token is refused once, and the browser notes it.
const REFUSED: &[&str] = &["401"];

const TOKEN: &str = "a-token-for-pictures";

/// A running `te metadata-server`; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(workspace: &Workspace, words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(workspace.target().join("debug/te"));
        command.args(["metadata-server", "--listen", "127.0.0.1:0", "--json", "--until-eof"]);
        let piped = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().context("cannot start te metadata-server")?;
        let mut line = String::new();
        let out = child.stdout.take().context("its output is a pipe")?;
        BufReader::new(out).read_line(&mut line).context("it says nothing")?;
        let told: Value = serde_json::from_str(&line).context("it says something else")?;
        let address = told["address"].as_str().context("it names no address")?.to_owned();
        Ok(Self { child, address })
    }

    fn page(&self, name: &str, ready: &str) -> Subject {
        let origin = format!("http://{}/", self.address);
        Subject {
            name: format!("metadata-{name}"),
            url: origin.clone(),
            origin,
            widths: WIDTHS,
            ready: ready.to_owned(),
            action: None,
            expected: &[],
        }
    }

    /// Puts a key, as its owner where one is named.
    fn put(&self, key: &str, owner: Option<(&str, u64)>, value: &str) -> anyhow::Result<()> {
        let lease = owner.map_or_else(String::new, |(owner, ttl_ms)| {
            format!("te-owner: {owner}\r\nte-ttl-ms: {ttl_ms}\r\n")
        });
        let request = format!(
            "PUT /metadata?key={} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{lease}\
             Content-Length: {}\r\n\r\n{value}",
            encoded(key),
            self.address,
            value.len()
        );
        let mut stream = TcpStream::connect(&self.address).context("the server is gone")?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "{key:?} is refused: {answer}");
        Ok(())
    }

    /// Puts a segment and where its engine is reached, as engines do.
    fn segment(
        &self,
        name: &str,
        protocol: &Value,
        buffers: &[u64],
        owner: Option<(&str, u64)>,
    ) -> anyhow::Result<()> {
        let buffers: Vec<Value> = buffers
            .iter()
            .enumerate()
            .map(|(i, length)| json!({ "addr": 0x7f00_0000_0000_u64 + ((i as u64) << 34), "length": length, "name": "cpu:0" }))
            .collect();
        let value = json!({ "buffers": buffers, "name": name, "protocol": protocol });
        self.put(&format!("mooncake/ram/{name}"), owner, &value.to_string())?;
        let host = name.split(':').next().unwrap_or(name);
        let rpc = json!({ "ip_or_host_name": host, "rpc_port": 15428 });
        self.put(&format!("mooncake/rpc_meta/{name}"), owner, &rpc.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(key: &str) -> String {
    key.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
