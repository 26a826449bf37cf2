//! What address peers are told, on a host with interfaces that lead nowhere.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use te_suites::{LineChild, Netns, need, te_bin};

const SOON: Duration = Duration::from_secs(20);

/// A host with `docker0` and `flannel.1` before the interface that leads to its neighbour and has the
/// default route, and a metadata service on it.
struct Hosts {
    host: Netns,
    neighbour: Netns,
    te: PathBuf,
    url: String,
    _server: LineChild,
}

impl Hosts {
    fn new() -> Result<Self, String> {
        let te = te_bin();
        let (host, neighbour) = (Netns::new()?, Netns::new()?);
        // What an interface is shows in its name too, and not every kernel has tunnels.
        for (name, address) in [("docker0", "172.17.0.1/16"), ("flannel.1", "10.244.0.1/24")] {
            host.ip(&["link", "add", name, "type", "bridge"])
                .map_err(|cause| format!("cannot be had here: {cause}"))?;
            host.ip(&["addr", "add", address, "dev", name])?;
            host.ip(&["link", "set", name, "up"])?;
        }
        host.join("10.9.0.2/24", &neighbour, "10.9.0.3/24")?;
        host.ip(&["route", "add", "default", "via", "10.9.0.3"])?;
        let mut command = host.command(&te);
        command.args(["metadata-server", "--listen", "10.9.0.2:0", "--json", "--until-eof"]);
        let mut server = LineChild::start("te metadata-server", command);
        let told = server.receive(SOON)?;
        let url = format!("http://{}/metadata", told["address"].as_str().unwrap());
        Ok(Self { host, neighbour, te, url, _server: server })
    }

    /// An engine that is told to be on this host, and the name of its segment.
    fn serve(&self, host: &str, setting: Option<&str>) -> (LineChild, String) {
        let mut command = self.host.command(&self.te);
        command.args(["serve", "--metadata", &self.url, "--host", host, "--size", "65536"]);
        command.args(["--json", "--until-eof"]);
        command.envs(setting.map(|address| ("MC_TCP_BIND_ADDRESS", address)));
        let mut engine = LineChild::start("te serve", command);
        let segment = engine.receive(SOON).unwrap()["segment"].as_str().unwrap().to_owned();
        (engine, segment)
    }

    /// Where the service says that an engine answers.
    fn told(&self, name: &str) -> (String, u64) {
        let key = format!("mooncake/rpc_meta/{name}");
        let mut command = self.host.command(&self.te);
        let text = succeeds(command.args(["meta", "get", &self.url, &key]));
        let value: Value = serde_json::from_str(&text).unwrap();
        let address = value["ip_or_host_name"].as_str().unwrap();
        (address.to_owned(), value["rpc_port"].as_u64().unwrap())
    }

    /// Reads all of a segment from the neighbour.
    fn read(&self, name: &str) {
        let mut command = self.neighbour.command(&self.te);
        succeeds(command.args(["read", "--metadata", &self.url, name, "--discard"]));
    }
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fb16_an_engine_tells_the_address_of_the_default_route() {
    // FB16: not that of docker0, which is the first interface that is up, nor of the overlay; and a
    // name that is no address is not looked up.
    let test = "fb16_an_engine_tells_the_address_of_the_default_route";
    let hosts = need!(test, Hosts::new());
    let (_engine, segment) = hosts.serve("prefill-0", None);
    assert_eq!(hosts.told(&segment).0, "10.9.0.2");
    hosts.read(&segment);
}

#[test]
fn fb16_an_engine_tells_the_address_that_it_was_named_with() {
    // FB16: an address for a name is taken, whatever interface has it.
    let test = "fb16_an_engine_tells_the_address_that_it_was_named_with";
    let hosts = need!(test, Hosts::new());
    let (_engine, segment) = hosts.serve("172.17.0.1:12345", None);
    assert_eq!(hosts.told(&segment).0, "172.17.0.1");
}

#[test]
fn fb16_what_is_told_and_what_is_listened_on_are_two_things() {
    // FB16: an address that this host does not have, as behind a translator, is told; the engine
    // listens everywhere, and once something leads there the neighbour reaches it.
    let test = "fb16_what_is_told_and_what_is_listened_on_are_two_things";
    let hosts = need!(test, Hosts::new());
    let (_engine, segment) = hosts.serve("10.9.0.2", Some("10.9.0.77"));
    let (address, port) = hosts.told(&segment);
    assert_eq!(address, "10.9.0.77", "the setting wins over the name");
    for (from, to) in [(&hosts.host, "127.0.0.1"), (&hosts.neighbour, "10.9.0.2")] {
        succeeds(from.command(&hosts.te).args(["probe", &format!("{to}:{port}")]));
    }
    hosts.host.ip(&["addr", "add", "10.9.0.77/24", "dev", "te0"]).unwrap();
    hosts.read(&segment);
}
