//! Network namespaces of our own, so that ports, addresses and kernel settings can be cut without
//! touching the machine's.
//!
//! Names carry the process id and a serial number; a namespace is deleted when its value is
//! dropped. A namespace starts with nothing but a loopback device that is down.

use std::path::Path;
use std::process::{Command, Output};

use crate::place::serial;

/// One namespace.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes one with its loopback device up.
    ///
    /// # Errors
    /// A sentence that says what is missing on this machine; it is the reason for a skip.
    pub fn new() -> Result<Self, String> {
        let name = format!("te{}n{}", std::process::id(), serial());
        run("ip", &["netns", "add", &name]).map_err(|cause| {
            format!("network namespaces need root and iproute2 (apt-get install iproute2): {cause}")
        })?;
        let netns = Self { name };
        netns.ip(&["link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip ARGS` inside.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn ip(&self, args: &[&str]) -> Result<(), String> {
        run("ip", &[&["-n", &self.name], args].concat())
    }

    /// Sets a kernel setting inside, by its path below `/proc/sys`.
    ///
    /// # Errors
    /// What the system says.
    pub fn set(&self, path: &str, value: &str) -> Result<(), String> {
        let script = format!("printf '%s' '{value}' > /proc/sys/{path}");
        run("ip", &["netns", "exec", &self.name, "sh", "-c", &script])
    }

    /// Joins two namespaces by a pair of virtual Ethernet devices named `te0`, with these
    /// addresses (`10.1.0.1/24`, `fd00::1/64`).
    ///
    /// # Errors
    /// What `ip` says.
    pub fn join(&self, address: &str, other: &Self, other_address: &str) -> Result<(), String> {
        self.join_by("te0", address, (other, other_address))
    }

    /// As [`Netns::join`], by devices of this name: one of several wires.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn join_by(
        &self,
        device: &str,
        address: &str,
        (other, other_address): (&Self, &str),
    ) -> Result<(), String> {
        let peer = ["peer", "name", device, "netns", &other.name];
        self.ip(&[&["link", "add", device, "type", "veth"], &peer[..]].concat())?;
        for (end, address) in [(self, address), (other, other_address)] {
            // Duplicate address detection would hold an IPv6 address back for a second.
            let nodad: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
            end.ip(&[&["addr", "add", address, "dev", device], nodad].concat())?;
            end.ip(&["link", "set", device, "up"])?;
        }
        Ok(())
    }

    /// Lets a device send no more than so many Mbit/s.
    ///
    /// # Errors
    /// A sentence that says what is missing on this machine; it is the reason for a skip.
    pub fn shape(&self, device: &str, mbits: u64) -> Result<(), String> {
        let rate = format!("{mbits}mbit");
        let line = ["root", "tbf", "rate", &rate, "burst", "256kb", "latency", "50ms"];
        run("tc", &[&["-n", &self.name, "qdisc", "add", "dev", device], &line[..]].concat())
            .map_err(|cause| format!("slow lines need the kernel's tbf and iproute2's tc: {cause}"))
    }

    /// Bytes that a device has sent.
    ///
    /// # Errors
    /// What the system says.
    pub fn sent(&self, device: &str) -> Result<u64, String> {
        let path = format!("/sys/class/net/{device}/statistics/tx_bytes");
        let output = self.command(Path::new("cat")).arg(&path).output();
        let output = output.map_err(|cause| format!("cannot read {path}: {cause}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().map_err(|_| format!("{path} says {text:?}"))
    }

    /// A command that runs `program` inside; its arguments are still to be given.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// The words that run a program inside when they are put in front of it.
    pub(crate) fn prefix(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.name].map(str::to_owned).to_vec()
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // It lives on only while a process is inside, and those are killed by their own owners.
        let _ = run("ip", &["netns", "del", &self.name]);
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let shown = || format!("{program} {}", args.join(" "));
    let output = Command::new(program).args(args).output();
    let Output { status, stderr, .. } =
        output.map_err(|cause| format!("cannot run `{}`: {cause}", shown()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}`: {}", shown(), String::from_utf8_lossy(&stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_namespaces_reach_each_other_and_go_away() {
        let test = "netns::two_namespaces_reach_each_other_and_go_away";
        let (left, right) = (crate::need!(test, Netns::new()), crate::need!(test, Netns::new()));
        left.join("10.77.0.1/24", &right, "10.77.0.2/24").unwrap();
        left.set("net/ipv4/ip_local_port_range", "40000 40063").unwrap();
        let name = left.name().to_owned();
        drop((left, right));
        assert!(!Path::new("/var/run/netns").join(name).exists());
    }
}
