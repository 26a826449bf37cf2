//! https: a client that trusts the authority is served, others are not.
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]
#![cfg(feature = "tls")]

mod common;

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use common::{Client, wait_until};
use te_metadata_server::{Server, ServerConfig, StartError, TlsFiles};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn files(certificates: &str, key: &str) -> TlsFiles {
    TlsFiles { certificates: fixture(certificates), key: fixture(key) }
}

fn start(files: TlsFiles) -> Result<Server, StartError> {
    let mut config = ServerConfig::new("127.0.0.1:0".parse().unwrap());
    config.tls = Some(files);
    config.limits.tls_timeout = Duration::from_millis(300);
    Server::start(config)
}

fn connect(server: &Server, trusts: bool) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    if trusts {
        roots.add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    Client(BufReader::new(StreamOwned::new(session, stream)))
}

#[test]
fn everything_goes_over_tls() {
    let server = start(files("server.pem", "server.key")).unwrap();
    assert_eq!(server.scheme(), "https");
    let mut client = connect(&server, true);
    let large = "x".repeat(5 << 20);
    assert_eq!(client.put("k", &[], &large).status, 200);
    assert_eq!(client.value("k").unwrap(), large);
    assert_eq!(client.get("/v1/status").json()["server"]["tls"], true);
}

#[test]
fn who_trusts_another_authority_speaks_no_tls_or_nothing_is_cut_off() {
    let server = start(files("server.pem", "server.key")).unwrap();
    assert!(connect(&server, false).try_ask("GET", "/health", &[], b"").is_err());
    let mut plain = TcpStream::connect(server.address()).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "plain http is no TLS");
    let mut silent = TcpStream::connect(server.address()).unwrap();
    silent.write_all(b"\x16").unwrap();
    let mut client = connect(&server, true);
    wait_until("all three are gone", || {
        client.get("/metrics").text().contains("te_metadata_broken_off_total 3\n")
    });
}

#[test]
fn files_that_cannot_be_used_are_named() {
    for (bad, named) in [
        (files("nothing.pem", "server.key"), "nothing.pem"),
        (files("README.md", "server.key"), "README.md"),
        (files("server.pem", "nothing.key"), "nothing.key"),
        (files("server.pem", "ca.pem"), "ca.pem"),
        (files("ca.pem", "server.key"), "server.key"),
    ] {
        let error = start(bad).map(|_| ()).unwrap_err();
        assert!(matches!(error, StartError::Tls { .. }), "{error:?}");
        assert!(error.to_string().contains(named), "{error}");
        assert!(std::error::Error::source(&error).is_some());
    }
}
