//! `te metadata-server`: its one line, its end, and what keeps it from starting.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::program::{Scratch, command, te};

/// A running server; it is killed with its test.
pub(crate) struct Started {
    child: Child,
    line: Value,
}

impl Started {
    pub(crate) fn new(words: &[&str]) -> Self {
        let mut command = command();
        command.args(["metadata-server", "--json", "--listen", "127.0.0.1:0"]).args(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
        Self { child, line }
    }

    /// Where its metadata is.
    pub(crate) fn url(&self) -> String {
        self.line["url"].as_str().unwrap().to_owned()
    }

    /// The first line and the body of an answer.
    fn ask(&self, method: &str, target: &str, extra: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.line["address"].as_str().unwrap()).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{extra}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    fn end_by(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_tells_its_port_serves_and_ends_by_a_signal() {
    for signal in ["TERM", "INT"] {
        let server = Started::new(&[]);
        assert!(server.line["url"].as_str().unwrap().ends_with("/metadata"));
        assert!(!server.line["address"].as_str().unwrap().ends_with(":0"));
        let put = server.ask("PUT", "/metadata?key=k", "", "v");
        assert_eq!(put, ("HTTP/1.1 200 OK".to_owned(), "metadata updated".to_owned()));
        assert_eq!(server.ask("GET", "/metadata?key=k", "", "").1, "v");
        assert_eq!(server.end_by(signal), Some(0), "{signal}");
    }
}

#[test]
fn what_it_was_told_survives_its_end_and_its_death() {
    let data = Scratch::new("metadata.redb");
    for (signal, code, value) in [("TERM", Some(0), "one"), ("KILL", None, "two")] {
        let server = Started::new(&["--data", data.path()]);
        server.ask("PUT", "/metadata?key=k", "", value);
        assert_eq!(server.end_by(signal), code);
        let again = Started::new(&["--data", data.path()]);
        assert_eq!(again.ask("GET", "/metadata?key=k", "", "").1, value);
    }
}

#[test]
fn a_token_is_asked_for() {
    let file = Scratch::with("token", b"a-token-of-some-length\n");
    let server = Started::new(&["--token-file", file.path()]);
    assert_eq!(server.line["token"], true);
    assert_eq!(server.ask("GET", "/v1/keys", "", "").0, "HTTP/1.1 401 Unauthorized");
    let shown = "Authorization: Bearer a-token-of-some-length\r\n";
    assert_eq!(server.ask("GET", "/v1/keys", shown, "").0, "HTTP/1.1 200 OK");
}

#[test]
fn what_keeps_it_from_starting_is_one_line() {
    let data = Scratch::new("taken.redb");
    let server = Started::new(&["--data", data.path()]);
    let address = server.line["address"].as_str().unwrap();
    let begin = "te: cannot start the metadata server: ";
    let free = ["metadata-server", "--listen", "127.0.0.1:0"];
    let with = |words: &[&str]| te(&[&free[..], words].concat());
    te(&["metadata-server", "--listen", address])
        .with(7)
        .told(&format!("{begin}cannot listen at {address}: "));
    let twice = with(&["--data", data.path()]).with(7);
    assert!(twice.err.contains("another server uses it"), "{}", twice.err);
    let text = Scratch::with("text", &b"not a data base\n".repeat(1000));
    let foreign = with(&["--data", text.path()]).with(7);
    assert!(foreign.err.contains("not a data file of this program"), "{}", foreign.err);
    let short = Scratch::with("short", b"x");
    with(&["--token-file", short.path()]).with(2).told("te: the token in ");
    with(&["--token-file", "/nonexistent/t"]).with(7).told("te: cannot read the token ");
    with(&["--max-keys", "0"]).with(2).told(&format!("{begin}the limit max_keys: "));
    let tls = with(&["--tls-cert", short.path(), "--tls-key", short.path()]).with(7);
    assert!(tls.err.contains("there is no certificate in it"), "{}", tls.err);
    te(&["metadata-server", "--listen", "nowhere"]).with(2).told("te: cannot listen at nowhere: ");
}
