//! Engines and services where there is no IPv4.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use te_suites::{
    Kind as Engine, Netns, Node, NodeSpec, TempDir, need, peer_python, say, te_bin, wait_until,
};

use crate::service::program;

const SIZE: u64 = 1 << 20;

/// A process that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a service inside. `{folder}` in its words is where it may write.
fn start(netns: &Netns, folder: &TempDir, path: &PathBuf, words: &str) -> Running {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name()]).arg(path).current_dir(folder.path());
    let here = folder.path().display().to_string();
    command.args(words.split_whitespace().map(|word| word.replace("{folder}", &here)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

/// Both engines write to each other, notify and probe.
fn check(netns: &Netns, uri: &str) {
    let spec = |name: &str| {
        let spec = NodeSpec::new(Engine::Te, SIZE).metadata(uri).host(name);
        spec.env("MC_TCP_BIND_ADDRESS", "::1").within(netns)
    };
    // The service may still be starting.
    let first = || spec("node-a").launch().outcome().ok();
    let mut from = wait_until(Duration::from_secs(20), "an engine", first);
    let mut to = spec("node-b").start();
    let write = |from: &mut Node, to: &mut Node, seed| {
        from.pattern(0, SIZE, seed);
        from.write(to.name(), from.addr(), to.addr(), SIZE).ok();
        to.verify(0, SIZE, seed);
    };
    write(&mut from, &mut to, 1);
    write(&mut to, &mut from, 2);
    from.notify("node-b", (from.addr(), to.addr(), 64), ("six", "only")).ok();
    assert_eq!(to.notifies(), [("six".to_owned(), "only".to_owned())]);
    to.probe("node-a").ok();
    say(&format!("{uri}: works"));
    from.quit();
    to.quit();
}

const ETCD: &str = "--data-dir {folder}/data --listen-client-urls http://[::1]:2379 \
    --advertise-client-urls http://[::1]:2379 --listen-peer-urls http://[::1]:2380 \
    --initial-advertise-peer-urls http://[::1]:2380 --initial-cluster default=http://[::1]:2380";

#[test]
fn fb15_ipv6_alone_is_enough_with_every_service() {
    // FB15, store half: no IPv4 address at all; no setting but the one that names our address.
    let test = "fb15_ipv6_alone_is_enough_with_every_service";
    need!(test, Engine::Te.available());
    let peers = peer_python().ok_or_else(|| "the peer's package is not installed".to_owned());
    let peers = peers.map(|python| python.with_file_name("mooncake_http_metadata_server"));
    let etcd = if cfg!(feature = "etcd") { program("etcd") } else { Err("no etcd here".into()) };
    let ours = "metadata-server --listen [::1]:8080 --data {folder}/data";
    for (what, path, words, uri) in [
        ("etcd", etcd, ETCD, "etcd://[::1]:2379"),
        ("redis", program("redis-server"), "--bind ::1", "redis://[::1]:6379"),
        ("ours", Ok(te_bin()), ours, "http://[::1]:8080/metadata"),
        ("peer", peers, "--host ::1 --port 8080", "http://[::1]:8080/metadata"),
    ] {
        let run = || {
            let test = &format!("{test} ({what})");
            let path = need!(test, path.as_ref());
            let (netns, folder) = (need!(test, Netns::new()), TempDir::new().unwrap());
            need!(test, netns.ip(&["addr", "del", "127.0.0.1/8", "dev", "lo"]));
            let _service = start(&netns, &folder, path, words);
            check(&netns, uri);
        };
        run();
    }
}
