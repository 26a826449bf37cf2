//! A small HTTP client and a server for each test.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]
#![allow(dead_code, unreachable_pub, reason = "each test program uses its part of this file")]

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use te_metadata_server::{Limits, Server, ServerConfig};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn revision(&self) -> u64 {
        self.header("etag").trim_matches('"').parse().unwrap()
    }
}

/// One connection.
pub struct Client<S = TcpStream>(pub BufReader<S>);

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }
}

impl<S: Read + Write> Client<S> {
    pub fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_ask(method, target, headers, body).unwrap()
    }

    pub fn try_ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let stream = self.0.get_mut();
        stream.write_all(head.as_bytes())?;
        // A server that refuses a body may answer before it has read all of it.
        let _ = stream.write_all(body);
        self.answer(method)
    }

    pub fn answer(&mut self, method: &str) -> io::Result<Answer> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
        self.0.read_exact(&mut body)?;
        Ok(Answer { status, headers, body })
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, &[], b"")
    }

    pub fn put(&mut self, key: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.ask("PUT", &format!("/metadata?key={key}"), headers, body.as_bytes())
    }

    pub fn delete(&mut self, key: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("DELETE", &format!("/metadata?key={key}"), headers, b"")
    }

    pub fn value(&mut self, key: &str) -> Option<String> {
        let answer = self.get(&format!("/metadata?key={key}"));
        (answer.status == 200).then(|| answer.text().to_owned())
    }

    pub fn renew(&mut self, owner: &str, ttl_ms: u64) -> Answer {
        let body = format!("{{\"owner\":\"{owner}\",\"ttl_ms\":{ttl_ms}}}");
        self.ask("POST", "/v1/renew", &[("content-type", "application/json")], body.as_bytes())
    }
}

/// No answer takes longer on any machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server with other limits than the usual ones.
pub fn server(change: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap());
    change(&mut config);
    Server::start(config).unwrap()
}

pub fn limited(change: impl FnOnce(&mut Limits)) -> Server {
    server(|config| change(&mut config.limits))
}

/// A server, and a connection to it.
pub fn pair() -> (Server, Client) {
    let server = server(|_| ());
    let client = Client::to(server.address());
    (server, client)
}

/// Asks again and again until `is_so`.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test waits for a condition, with a deadline")]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test measures")]
pub fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let made = body();
    (made, start.elapsed())
}

/// A folder that goes away with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("te-mds-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self) -> PathBuf {
        self.0.join("data.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
