//! A small HTTP server for tests: a table with the manners of one of the real servers.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Lease;
use crate::store::{Change, ChangeKind, Claim, MemoryStore, MetadataStore as _, Renewal};

/// Whose manners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manners {
    /// Our own server's.
    Ours,
    /// Mooncake's aiohttp server's.
    Peer,
    /// Ours, for those who know a token.
    Guarded(&'static str),
    /// The peer's, and each connection is closed after its first answer without a word.
    Hasty,
}

pub(super) struct TestServer {
    listener: Arc<TcpListener>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl TestServer {
    pub(super) fn start(manners: Manners) -> Self {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let (ours, ended) = (Arc::clone(&listener), Arc::clone(&stop));
        let table = MemoryStore::new();
        let accepting = std::thread::spawn(move || {
            while let Ok((client, _)) = ours.accept() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let table = table.clone();
                std::thread::spawn(move || serve(&client, manners, &table));
            }
        });
        Self { listener, stop, accepting: Some(accepting) }
    }

    pub(super) fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.listener.local_addr().unwrap());
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

struct Question {
    method: String,
    path: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

struct Reply(u16, Option<String>, Vec<u8>);

fn serve(client: &TcpStream, manners: Manners, table: &MemoryStore) {
    let mut reader = BufReader::new(client);
    while let Some(question) = read(&mut reader) {
        let is_ours = matches!(manners, Manners::Ours | Manners::Guarded(_));
        let reply = match manners {
            Manners::Guarded(token)
                if question.headers.get("authorization") != Some(&format!("Bearer {token}")) =>
            {
                Reply(401, None, b"no".to_vec())
            }
            _ if is_ours => ours(&question, table),
            _ => peer(&question, table),
        };
        let mut head = format!("HTTP/1.1 {} X\r\ncontent-length: {}\r\n", reply.0, reply.2.len());
        if is_ours {
            head += "te-metadata-server: 1\r\n";
        }
        if let Some(etag) = reply.1 {
            head += &format!("etag: \"{etag}\"\r\n");
        }
        let mut writer = client;
        let written = writer.write_all(format!("{head}\r\n").as_bytes());
        if written.and_then(|()| writer.write_all(&reply.2)).is_err() || manners == Manners::Hasty {
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Question> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, text)| (name.to_owned(), decoded(text))).collect();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Question { method, path: path.to_owned(), query, headers, body })
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().unwrap(), rest.next().unwrap()];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

fn peer(question: &Question, table: &MemoryStore) -> Reply {
    let Some(key) = question.query.get("key").filter(|_| question.path == "/metadata") else {
        return Reply(404, None, b"not found".to_vec());
    };
    let stands = table.get(key).unwrap();
    match (question.method.as_str(), stands) {
        ("GET", Some(record)) => Reply(200, None, record.value),
        ("GET" | "DELETE", None) => Reply(404, None, b"metadata not found".to_vec()),
        ("PUT", Some(_)) if key.contains("rpc_meta") => {
            Reply(400, None, b"Duplicate rpc_meta key not allowed".to_vec())
        }
        ("PUT", _) => {
            table.put(key, &question.body).unwrap();
            Reply(200, None, b"metadata updated".to_vec())
        }
        ("DELETE", Some(_)) => {
            table.remove(key).unwrap();
            Reply(200, None, b"metadata deleted".to_vec())
        }
        _ => Reply(405, None, Vec::new()),
    }
}

fn ours(question: &Question, table: &MemoryStore) -> Reply {
    match (question.path.as_str(), question.query.get("key")) {
        ("/v1/renew", _) => renew(question, table),
        ("/v1/keys", _) => keys(question, table),
        ("/v1/watch", _) => watch(question, table),
        ("/metadata", Some(key)) if question.method == "PUT" => put(question, key, table),
        ("/metadata", Some(key)) => get_or_delete(question, key, table),
        _ => Reply(404, None, Vec::new()),
    }
}

fn condition_holds(question: &Question, stands: Option<&str>) -> bool {
    let header = |name: &str| question.headers.get(name).map(|text| text.trim_matches('"'));
    header("if-match").is_none_or(|wanted| stands == Some(wanted))
        && (header("if-none-match").is_none() || stands.is_none())
}

fn get_or_delete(question: &Question, key: &str, table: &MemoryStore) -> Reply {
    let Some(record) = table.get(key).unwrap() else { return Reply(404, None, Vec::new()) };
    if question.method == "GET" {
        return Reply(200, Some(record.revision.to_string()), record.value);
    }
    if !condition_holds(question, Some(record.revision.as_str())) {
        return Reply(412, None, Vec::new());
    }
    table.remove(key).unwrap();
    Reply(200, None, Vec::new())
}

fn lease(owner: &str, ttl_ms: u64) -> Lease {
    Lease { owner: owner.parse().unwrap(), ttl: Duration::from_millis(ttl_ms) }
}

fn put(question: &Question, key: &str, table: &MemoryStore) -> Reply {
    let stands = table.get(key).unwrap();
    if !condition_holds(question, stands.as_ref().map(|record| record.revision.as_str())) {
        return Reply(412, None, Vec::new());
    }
    let Some(owner) = question.headers.get("te-owner") else {
        table.put(key, &question.body).unwrap();
        let record = table.get(key).unwrap().unwrap();
        return Reply(200, Some(record.revision.to_string()), Vec::new());
    };
    let lease = lease(owner, question.headers["te-ttl-ms"].parse().unwrap());
    match table.claim(key, &question.body, &lease, None).unwrap() {
        Claim::Held(revision) => Reply(200, Some(revision.to_string()), Vec::new()),
        Claim::Taken(_) => Reply(409, None, b"{}".to_vec()),
    }
}

fn renew(question: &Question, table: &MemoryStore) -> Reply {
    let wish: Value = serde_json::from_slice(&question.body).unwrap();
    let lease = lease(wish["owner"].as_str().unwrap(), wish["ttl_ms"].as_u64().unwrap());
    match table.renew(&lease).unwrap() {
        Renewal::Kept => Reply(200, None, b"{\"keys\":1}".to_vec()),
        Renewal::Lost => Reply(404, None, Vec::new()),
    }
}

fn keys(question: &Question, table: &MemoryStore) -> Reply {
    let text = |name: &str| question.query.get(name).cloned().unwrap_or_default();
    let limit = text("limit").parse::<usize>().unwrap();
    let revision = table.present();
    let mut found = table.list(&text("prefix")).unwrap();
    found.retain(|info| info.key > text("after"));
    // Small pages, so that there is more than one.
    let more = found.len() > limit.min(5);
    found.truncate(limit.min(5));
    let lines = found.iter().map(|info| {
        let revision: u64 = info.revision.as_ref().unwrap().as_str().parse().unwrap();
        json!({"key": info.key, "revision": revision, "owner": null, "expires_ms": null,
            "bytes": info.bytes})
    });
    let page = json!({"revision": revision, "keys": lines.collect::<Vec<_>>(), "more": more});
    Reply(200, None, page.to_string().into_bytes())
}

fn watch(question: &Question, table: &MemoryStore) -> Reply {
    let number = |name: &str| question.query[name].parse::<u64>().unwrap();
    let since = number("since");
    let wait = Duration::from_millis(number("wait_ms"));
    let (seen, until) = table.changes_since(&question.query["prefix"], since, wait);
    let line = |change: &Change| {
        let kind = if change.kind == ChangeKind::Put { "put" } else { "delete" };
        json!({"kind": kind, "key": change.key, "revision": since + 1})
    };
    let events: Vec<Value> = seen.changes.iter().map(line).collect();
    let page = json!({"revision": until, "events": events, "reset": seen.is_reset});
    Reply(200, None, page.to_string().into_bytes())
}
