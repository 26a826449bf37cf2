//! Engines on services that ask who they are, and that they check themselves.

use std::sync::Arc;
use std::time::Duration;

use te_suites::{Kind as Engine, Launched, NodeSpec, need, now, pace, say, wait_until};

use crate::engines::{exchange, named, write_late};
use crate::guarded::{certificates, encrypted_etcd, ready, run, trusting};
use crate::service::{Kind, Service, open, program};

/// The same with these variables.
fn with(spec: NodeSpec, variables: &[(&str, &str)]) -> NodeSpec {
    variables.iter().fold(spec, |spec, (key, value)| spec.env(key, value))
}

/// Two engines with these variables find each other.
fn works(uri: &str, variables: &[(&str, &str)]) {
    let start = |name: &str| with(named(uri, name), variables).launch();
    let [mut a, mut b] = [start("node-a"), start("node-b")].map(Launched::ready);
    exchange(&mut a, &mut b, 1);
    write_late(&mut a, &mut b, 5);
    assert_eq!(b.publication(), "Published");
    a.quit();
    b.quit();
}

/// An engine with these variables does not start, says these words and no secret.
#[track_caller]
fn refused(uri: &str, variables: &[(&str, &str)], words: &[&str]) {
    let begun = now();
    let outcome = with(named(uri, "node-a"), variables).launch().outcome();
    let (why, code) = outcome.expect_err("it is not let in");
    say(&format!("{uri}: {why}"));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(code, Some(3), "it ends by itself");
    for word in words {
        assert!(why.contains(word), "`{word}` is not in {why}");
    }
    for secret in ["tiger", "lion", "puma"] {
        assert!(!why.contains(secret), "a secret is told: {why}");
    }
}

/// A certificate of no days is good in the second in which it was made.
fn until_expired() {
    pace(Duration::from_millis(1100));
}

const PASSWORD: &str = "TE_METADATA_PASSWORD";
const USER: &str = "TE_METADATA_USERNAME";
const DATABASE: &str = "TE_METADATA_REDIS_DATABASE";
const TOKEN: &str = "TE_METADATA_TOKEN";
const TRUST: &str = "TE_METADATA_CA_FILE";

#[test]
fn engines_use_a_redis_with_passwords_and_databases() {
    // B6, H12, H13.
    let test = "engines_use_a_redis_with_passwords_and_databases";
    need!(test, Kind::Redis.available());
    need!(test, Engine::Te.available());
    let more = ["--requirepass", "tiger", "--user", "te", "on", ">lynx", "~*", "+@all"];
    let service = Service::start_with(Kind::Redis, &more);
    let uri = service.uri();
    let stands = || std::net::TcpStream::connect(service.address()).ok();
    wait_until(Duration::from_secs(10), "redis listens", stands);
    works(&uri, &[(PASSWORD, "tiger"), (DATABASE, "3")]);
    works(&uri, &[(USER, "te"), (PASSWORD, "lynx")]);
    works(&uri, &[("MC_REDIS_PASSWORD", "tiger"), ("MC_REDIS_DB_INDEX", "4")]);
    // Another database is another place.
    let here = with(named(&uri, "node-a"), &[(PASSWORD, "tiger"), (DATABASE, "3")]).start();
    let mut there = with(named(&uri, "node-a"), &[(PASSWORD, "tiger"), (DATABASE, "5")]).start();
    assert_eq!(there.publication(), "Published");
    there.quit();
    here.quit();
    refused(&uri, &[], &["cannot publish", &service.address()]);
    refused(&uri, &[(PASSWORD, "lion")], &["cannot publish"]);
    refused(&uri, &[(USER, "te"), (PASSWORD, "puma")], &["cannot publish"]);
    refused(&uri, &[(PASSWORD, "tiger"), (DATABASE, "200")], &["cannot publish", "DB index"]);
}

#[test]
fn engines_use_an_etcd_with_certificates_user_and_password() {
    let test = "engines_use_an_etcd_with_certificates_user_and_password";
    need!(test, Kind::Etcd.available());
    need!(test, Engine::Te.available());
    let etcdctl = need!(test, program("etcdctl"));
    let folder = need!(test, certificates());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (ca, foreign) = (at("ca.pem"), at("foreign.pem"));
    let service = encrypted_etcd(&folder, "server");
    let uri = format!("etcds://{}", service.address());
    ready(&service, &*open(&uri, &trusting(&folder, "ca")));
    for words in ["user add root:tiger", "user grant-role root root", "auth enable"] {
        let address = service.address();
        let line = format!("--endpoints https://{address} --cacert ca.pem {words}");
        run(&etcdctl, folder.path(), &line);
    }
    works(&uri, &[(TRUST, &ca), (USER, "root"), (PASSWORD, "tiger")]);
    refused(&uri, &[(TRUST, &ca)], &["cannot publish"]);
    refused(&uri, &[(TRUST, &ca), (USER, "root"), (PASSWORD, "lion")], &["cannot publish"]);
    refused(&uri, &[(TRUST, &foreign), (USER, "root"), (PASSWORD, "tiger")], &["certificate"]);
    refused(&uri, &[(USER, "root"), (PASSWORD, "tiger")], &["certificate"]);
    refused(&uri, &[(TRUST, &at("no.pem"))], &["no.pem"]);
    let service = encrypted_etcd(&folder, "expired");
    let uri = format!("etcds://{}", service.address());
    let stands = || std::net::TcpStream::connect(service.address()).ok();
    wait_until(Duration::from_secs(15), "etcd listens", stands);
    until_expired();
    refused(&uri, &[(TRUST, &ca)], &["certificate", "expired"]);
}

#[test]
fn engines_use_our_server_with_a_certificate_and_a_token() {
    let test = "engines_use_our_server_with_a_certificate_and_a_token";
    need!(test, Kind::Ours.available());
    need!(test, Engine::Te.available());
    let folder = need!(test, certificates());
    std::fs::write(folder.path().join("token"), "tiger-tiger-tiger-tiger\n").unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (ca, foreign) = (at("ca.pem"), at("foreign.pem"));
    let start = |certificate: &str| {
        let (cert, key) =
            (format!("{{folder}}/{certificate}.pem"), format!("{{folder}}/{certificate}.key"));
        let more = ["--token-file", "{folder}/token", "--tls-cert", &cert, "--tls-key", &key];
        let service = Service::start_in(Kind::Ours, Arc::clone(&folder), &more);
        let stands = || std::net::TcpStream::connect(service.address()).ok();
        wait_until(Duration::from_secs(15), "the server listens", stands);
        let uri = format!("https://{}/metadata", service.address());
        (service, uri)
    };
    let (service, uri) = start("server");
    let token = (TOKEN, "tiger-tiger-tiger-tiger");
    works(&uri, &[(TRUST, &ca), token]);
    refused(&uri, &[(TRUST, &ca)], &["cannot publish"]);
    refused(&uri, &[(TRUST, &ca), (TOKEN, "lion-lion-lion-lion-lion")], &["cannot publish"]);
    refused(&uri, &[(TRUST, &foreign), token], &["certificate"]);
    refused(&uri, &[token], &["certificate"]);
    let plain = uri.replace("https", "http");
    refused(&plain, &[token], &["cannot publish"]);
    drop(service);
    let (_service, uri) = start("expired");
    until_expired();
    refused(&uri, &[(TRUST, &ca), token], &["certificate", "expired"]);
}
