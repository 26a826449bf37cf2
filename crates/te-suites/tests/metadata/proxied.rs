//! Proxies on the way to HTTP services: used when they are asked for, and only then.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use te_metadata::{StoreOptions, check_store};
use te_suites::{need, te_bin};

use crate::guarded::{certificates, ready, trusting};
use crate::service::{Kind, Service, open};

/// A proxy that leads every client to one server, and the first line of each.
fn proxy(server: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (server, seen) = (TcpStream::connect(&server), Arc::clone(&seen));
            // Ends with the connection; an error is the end of one.
            std::thread::spawn(move || server.and_then(|server| lead(&client, &server, &seen)));
        }
    });
    (uri, asked)
}

fn lead(client: &TcpStream, server: &TcpStream, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let line = head.lines().next().unwrap_or_default().to_owned();
    let is_tunnel = line.starts_with("CONNECT");
    seen.lock().unwrap().push(line);
    if is_tunnel {
        (&*client).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    } else {
        (&*server).write_all(head.as_bytes())?;
    }
    let (mut back, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut back, &mut to_client));
    std::io::copy(&mut reader, &mut &*server).map(drop)
}

#[test]
fn b7_a_proxy_is_used_when_it_is_asked_for() {
    // B7: the whole contract through it; towards https through a tunnel.
    let test = "b7_a_proxy_is_used_when_it_is_asked_for";
    need!(test, Kind::Ours.available());
    let plain = Service::start(Kind::Ours);
    let (http_proxy, asked) = proxy(plain.address());
    let options = StoreOptions { http_proxy: Some(http_proxy), ..StoreOptions::default() };
    check_store(&*open(&plain.uri(), &options));
    let whole = format!("GET http://{}/", plain.address());
    assert!(asked.lock().unwrap().iter().any(|line| line.starts_with(&whole)), "{asked:?}");
    let folder = need!(test, certificates());
    let more = ["--tls-cert", "{folder}/server.pem", "--tls-key", "{folder}/server.key"];
    let encrypted = Service::start_in(Kind::Ours, Arc::clone(&folder), &more);
    let (http_proxy, asked) = proxy(encrypted.address());
    let uri = format!("https://{}/metadata", encrypted.address());
    ready(&encrypted, &*open(&uri, &trusting(&folder, "ca")));
    let options = StoreOptions { http_proxy: Some(http_proxy), ..trusting(&folder, "ca") };
    check_store(&*open(&uri, &options));
    let tunnel = format!("CONNECT {} HTTP/1.1", encrypted.address());
    let asked = asked.lock().unwrap();
    assert!(!asked.is_empty() && asked.iter().all(|line| *line == tunnel), "{asked:?}");
}

#[test]
fn b7_variables_that_name_a_proxy_do_not_count() {
    // B7: where Mooncake's client fails without a word that a person would understand.
    let test = "b7_variables_that_name_a_proxy_do_not_count";
    need!(test, Kind::Ours.available());
    let service = Service::start(Kind::Ours);
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"] {
        let mut command = Command::new(te_bin());
        command.args(["meta", "put", &service.uri(), "a", "1"]);
        let status = command.env(variable, "http://127.0.0.1:1").status().unwrap();
        assert!(status.success(), "{variable}");
    }
    let mut command = Command::new(te_bin());
    command.args(["meta", "get", &service.uri(), "a"]);
    let output = command.env("TE_METADATA_HTTP_PROXY", "http://127.0.0.1:1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("through http://127.0.0.1:1 failed"), "{said}");
}
