//! What protects a service: users, passwords, databases, certificates.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use te_metadata::{
    Credentials, MetadataStore, Secret, StoreError, StoreOptions, TlsFiles, check_store,
};
use te_suites::{TempDir, need, say, wait_for};

use crate::service::{Kind, Service, open, program};

fn with(username: Option<&str>, password: Option<&str>) -> StoreOptions {
    let credentials = Credentials {
        username: username.map(str::to_owned),
        password: password.map(Secret::new),
        token: None,
    };
    StoreOptions { credentials, ..StoreOptions::default() }
}

#[track_caller]
fn refused(store: &dyn MetadataStore, secret: &str) {
    let error = store.get("mooncake/ram/a").unwrap_err();
    say(&format!("{}: {error}", store.uri()));
    assert!(matches!(error, StoreError::Unauthorised { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains(secret), "no secret is printed: {error:?}");
}

#[test]
fn redis_with_a_password_and_a_database() {
    // B6, H12, H13: AUTH with a password, with a user, and SELECT.
    let test = "redis_with_a_password_and_a_database";
    need!(test, Kind::Redis.available());
    let more = ["--requirepass", "tiger", "--user", "te", "on", ">lynx", "~*", "+@all"];
    let service = Service::start_with(Kind::Redis, &more);
    let options = StoreOptions { redis_database: 3, ..with(None, Some("tiger")) };
    let store = service.store(&options);
    let ready = || store.capabilities().is_ok().then_some(());
    assert!(wait_for(std::time::Duration::from_secs(10), ready).is_some(), "{}", service.says());
    check_store(&*store);
    refused(&*service.store(&StoreOptions::default()), "tiger");
    refused(&*service.store(&with(None, Some("lion"))), "lion");
    refused(&*service.store(&with(Some("te"), Some("puma"))), "puma");
    store.put("mooncake/ram/a", b"{\"db\":3}").unwrap();
    let other = service.store(&with(Some("te"), Some("lynx")));
    assert_eq!(other.get("mooncake/ram/a").unwrap(), None, "another database has other keys");
    let absent = StoreOptions { redis_database: 200, ..with(None, Some("tiger")) };
    let error = service.store(&absent).get("mooncake/ram/a").unwrap_err();
    assert!(!error.is_retryable(), "a database that is not there: {error:?}");
}

#[track_caller]
pub(crate) fn run(program: &Path, folder: &Path, text: &str) -> Output {
    let mut command = Command::new(program);
    command.current_dir(folder).env("ETCDCTL_API", "3");
    let output = command.args(text.split(' ')).output().unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// An authority, a certificate of it for 127.0.0.1, one that has expired, and a foreign authority.
pub(crate) fn certificates() -> Result<Arc<TempDir>, String> {
    let openssl = program("openssl")?;
    let folder = Arc::new(TempDir::new().map_err(|error| error.to_string())?);
    let make = |text: &str| run(&openssl, folder.path(), text);
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "foreign"] {
        make(&format!(
            "req -x509 {key} -days 30 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        ));
    }
    std::fs::write(folder.path().join("san"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    for (name, days) in [("server", 30), ("expired", 0)] {
        make(&format!("req {key} -subj /CN=te -keyout {name}.key -out {name}.csr"));
        make(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} \
             -extfile san -out {name}.pem"
        ));
    }
    Ok(folder)
}

/// An etcd that encrypts, with a certificate of that name.
pub(crate) fn encrypted_etcd(folder: &Arc<TempDir>, certificate: &str) -> Service {
    let port = te_suites::free_port("127.0.0.1").unwrap();
    let url = format!("https://127.0.0.1:{port}");
    let (cert, key) =
        (format!("{{folder}}/{certificate}.pem"), format!("{{folder}}/{certificate}.key"));
    let data = format!("{{folder}}/data-{certificate}");
    let more = [
        "--listen-client-urls",
        &url,
        "--advertise-client-urls",
        &url,
        "--cert-file",
        &cert,
        "--key-file",
        &key,
        "--data-dir",
        &data,
    ];
    Service::start_on(Kind::Etcd, Arc::clone(folder), port, &more)
}

pub(crate) fn trusting(folder: &TempDir, authority: &str) -> StoreOptions {
    let authorities = Some(folder.path().join(format!("{authority}.pem")));
    let tls = TlsFiles { authorities, ..TlsFiles::default() };
    StoreOptions { tls, ..StoreOptions::default() }
}

#[track_caller]
pub(crate) fn ready(service: &Service, store: &dyn MetadataStore) {
    let ready = || store.capabilities().is_ok().then_some(());
    let ended = wait_for(std::time::Duration::from_secs(15), ready);
    assert!(ended.is_some(), "{:?}; {}", store.capabilities(), service.says());
}

#[test]
fn etcd_with_certificates_user_and_password() {
    let test = "etcd_with_certificates_user_and_password";
    need!(test, Kind::Etcd.available());
    let etcdctl = need!(test, program("etcdctl"));
    let folder = need!(test, certificates());
    let service = encrypted_etcd(&folder, "server");
    let uri = format!("etcds://{}", service.address());
    let plain = trusting(&folder, "ca");
    ready(&service, &*open(&uri, &plain));

    let call = |text: &str| {
        let address = service.address();
        run(
            &etcdctl,
            folder.path(),
            &format!("--endpoints https://{address} --cacert ca.pem {text}"),
        )
    };
    call("user add root:tiger");
    call("user grant-role root root");
    call("auth enable");
    let credentials = with(Some("root"), Some("tiger")).credentials;
    let store = open(&uri, &StoreOptions { credentials, ..plain.clone() });
    check_store(&*store);
    refused(&*open(&uri, &plain), "tiger");
    let credentials = with(Some("root"), Some("lion")).credentials;
    refused(&*open(&uri, &StoreOptions { credentials, ..plain }), "lion");

    distrusted(&*open(&uri, &trusting(&folder, "foreign")));
    let service = encrypted_etcd(&folder, "expired");
    let uri = format!("etcds://{}", service.address());
    let distrusted_soon = || {
        let error = open(&uri, &trusting(&folder, "ca")).get("k").unwrap_err();
        matches!(error, StoreError::BadCertificate { .. }).then_some(())
    };
    wait_for(std::time::Duration::from_secs(15), distrusted_soon);
    distrusted(&*open(&uri, &trusting(&folder, "ca")));
}

#[track_caller]
fn distrusted(store: &dyn MetadataStore) {
    let error = store.get("mooncake/ram/a").unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string);
    say(&format!("{}: {error}: {source:?}", store.uri()));
    assert!(matches!(error, StoreError::BadCertificate { .. }), "{error:?}");
    assert!(error.is_about_trust() && !error.is_retryable());
}

#[test]
fn our_server_with_a_certificate_and_a_token() {
    let test = "our_server_with_a_certificate_and_a_token";
    need!(test, Kind::Ours.available());
    let folder = need!(test, certificates());
    std::fs::write(folder.path().join("token"), "tiger-tiger-tiger-tiger\n").unwrap();
    let start = |certificate: &str| {
        let (cert, key) =
            (format!("{{folder}}/{certificate}.pem"), format!("{{folder}}/{certificate}.key"));
        let more = ["--token-file", "{folder}/token", "--tls-cert", &cert, "--tls-key", &key];
        let service = Service::start_in(Kind::Ours, Arc::clone(&folder), &more);
        let uri = format!("https://{}/metadata", service.address());
        (service, uri)
    };
    let (service, uri) = start("server");
    let with_token = |token: Option<&str>, authority: &str| {
        let credentials = Credentials { token: token.map(Secret::new), ..Credentials::default() };
        open(&uri, &StoreOptions { credentials, ..trusting(&folder, authority) })
    };
    let store = with_token(Some("tiger-tiger-tiger-tiger"), "ca");
    ready(&service, &*store);
    check_store(&*store);
    refused(&*with_token(None, "ca"), "tiger");
    refused(&*with_token(Some("lion-lion-lion-lion-lion"), "ca"), "lion");
    distrusted(&*with_token(Some("tiger-tiger-tiger-tiger"), "foreign"));
    drop(service);

    let (service, uri) = start("expired");
    let store = open(&uri, &trusting(&folder, "ca"));
    let is_distrusted = || {
        let error = store.get("k").unwrap_err();
        matches!(error, StoreError::BadCertificate { .. }).then_some(())
    };
    let ended = wait_for(std::time::Duration::from_secs(15), is_distrusted);
    assert!(ended.is_some(), "{:?}; {}", store.get("k"), service.says());
    distrusted(&*store);
}
