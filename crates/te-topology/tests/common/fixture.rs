//! Machines in a small text form, and the sysfs trees that are built of them.
//!
//! ```text
//! node 0 cpus=0-7 memory=64 distances=10,21
//! root pci0000:00 node=0                    a host bridge; its node is that of all below it
//!   0000:00:01.0 bridge                     indented by two: what is below
//!     0000:01:00.0 nic mlx5_0 rate=400 layer=InfiniBand state=ACTIVE net=ib0
//!     0000:02:00.0 gpu 10de:2330
//! net docker0 bridge                        an interface without hardware: bridge, bond, vlan, veth
//! soft rxe0 on=eth0                         RDMA in software
//! file sys/some/path = text                 any other file
//! link sys/some/path -> target
//! without sys/some/path                     takes a file or folder away again
//! expect cpu:0 = mlx5_0 | mlx5_1            preferred and available NICs, in order
//! expect-preferred cuda:0 = mlx5_0          preferred NICs only
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use te_topology::{CpuSet, Machine, SysTree, read_tree};

/// A machine's tree and what the matrix of it shall be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fixture {
    pub(crate) name: String,
    entries: BTreeMap<String, Entry>,
    /// Location, preferred NICs, and available ones if the fixture says them.
    pub(crate) expected: Vec<(String, Vec<String>, Option<Vec<String>>)>,
}

#[derive(Debug, Clone)]
enum Entry {
    Text(String),
    Link(String),
    Bytes(Vec<u8>),
}

impl Fixture {
    /// Reads `tests/fixtures/<name>.machine`.
    pub(crate) fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let text = fs::read_to_string(folder.join(format!("{name}.machine"))).unwrap();
        Self { name: name.to_owned(), ..Self::parse(&text) }
    }

    /// All fixtures of the folder.
    pub(crate) fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let names = super::files(&folder, ".machine");
        names.iter().map(|path| Self::load(path.file_stem().unwrap().to_str().unwrap())).collect()
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut fixture = Self::default();
        // The folder of each level of indentation, with the node of all below it.
        let mut open: Vec<(String, Option<String>)> = Vec::new();
        for line in text.lines() {
            let line = line.split_once(" # ").map_or(line, |(front, _)| front).trim_end();
            let body = line.trim_start();
            if body.is_empty() || body.starts_with('#') {
                continue;
            }
            open.truncate((line.len() - body.len()) / 2);
            let words: Vec<&str> = body.split_whitespace().collect();
            match words[0] {
                "node" => fixture.node(&words),
                "root" => {
                    let node = value(&words, "node").map(str::to_owned);
                    open.push((format!("sys/devices/{}", words[1]), node));
                }
                "net" => fixture.virtual_net(&words),
                "soft" => fixture.soft_nic(&words),
                "file" => {
                    let (path, text) = body[5..].split_once(" = ").unwrap();
                    fixture.text(path, text);
                }
                "link" => {
                    let (path, target) = body[5..].split_once(" -> ").unwrap();
                    fixture.link(path, target);
                }
                "without" => {
                    let below = format!("{}/", words[1]);
                    let gone = |path: &String| path == words[1] || path.starts_with(&below);
                    fixture.entries.retain(|path, _| !gone(path));
                }
                "expect" | "expect-preferred" => fixture.expect(body),
                _ => {
                    let (above, node) = open.last().cloned().unwrap();
                    let node = value(&words, "node").map(str::to_owned).or(node);
                    let path = format!("{above}/{}", words[0]);
                    fixture.pci(&path, node.as_deref(), &words);
                    open.push((path, node));
                }
            }
        }
        fixture
    }

    /// The text of a capture of this machine.
    pub(crate) fn capture(&self) -> String {
        let line = |(path, entry): (&String, &Entry)| match entry {
            Entry::Bytes(_) => String::new(),
            Entry::Text(text) => format!("{path}\t{text}\n"),
            Entry::Link(target) => format!("{path}\t->\t{target}\n"),
        };
        self.entries.iter().map(line).collect()
    }

    pub(crate) fn tree(&self) -> SysTree {
        SysTree::from_capture(&self.capture()).unwrap()
    }

    pub(crate) fn machine(&self) -> Machine {
        read_tree(&self.tree())
    }

    /// The same with the files that lstopo needs besides.
    pub(crate) fn for_lstopo(self) -> Self {
        self.with_cpus().with_pci_details()
    }

    /// Local CPUs of PCI devices, and the registers of bridges that name the buses below.
    fn with_pci_details(mut self) -> Self {
        for (path, entry) in self.entries.clone() {
            let (Some(folder), Entry::Text(class)) = (path.strip_suffix("/class"), entry) else {
                continue;
            };
            if let Some(Entry::Text(node)) = self.entries.get(&format!("{folder}/numa_node")) {
                let cpumap = format!("sys/devices/system/node/node{node}/cpumap");
                if let Some(Entry::Text(mask)) = self.entries.get(&cpumap).cloned() {
                    self.text(&format!("{folder}/local_cpus"), mask);
                }
            }
            let mut config = vec![0; 64];
            let class = u32::from_str_radix(&class[2..], 16).unwrap().to_le_bytes();
            config[9..12].copy_from_slice(&class[..3]);
            if let Some((first, last)) = self.buses_below(folder) {
                config[0x0e] = 1;
                config[0x18..0x1b].copy_from_slice(&[bus(folder), first, last]);
            }
            self.entries.insert(format!("{folder}/config"), Entry::Bytes(config));
        }
        self
    }

    fn buses_below(&self, folder: &str) -> Option<(u8, u8)> {
        let below = format!("{folder}/0");
        let devices = self.entries.keys().filter(|path| path.starts_with(&below));
        let devices = devices.filter_map(|path| path.strip_suffix("/class"));
        let buses: Vec<u8> = devices.map(bus).collect();
        Some((*buses.iter().min()?, *buses.iter().max()?))
    }

    /// CPUs one by one, and masks of those of nodes.
    fn with_cpus(mut self) -> Self {
        for (path, entry) in self.entries.clone() {
            let Entry::Text(list) = entry else { continue };
            let node = path.strip_suffix("/cpulist");
            if node.is_none() && path != "sys/devices/system/cpu/online" {
                continue;
            }
            let set = CpuSet::parse_list(&list).unwrap();
            let cpus: Vec<u32> = (0..1024).filter(|cpu| set.contains(*cpu)).collect();
            if let Some(folder) = node {
                self.text(&format!("{folder}/cpumap"), mask(&cpus));
            }
            for cpu in cpus {
                let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
                let own = mask(&[cpu]);
                self.text(&format!("{folder}/thread_siblings"), own.clone());
                self.text(&format!("{folder}/core_siblings"), own);
                self.text(&format!("{folder}/core_id"), cpu.to_string());
                self.text(&format!("{folder}/physical_package_id"), cpu.to_string());
            }
        }
        self
    }

    /// Builds the tree below a folder.
    pub(crate) fn write(&self, root: &Path) {
        for (path, entry) in &self.entries {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match entry {
                Entry::Text(text) => fs::write(path, format!("{}\n", plain(text))).unwrap(),
                Entry::Link(target) => symlink(target, path).unwrap(),
                Entry::Bytes(bytes) => fs::write(path, bytes).unwrap(),
            }
        }
    }

    fn text(&mut self, path: &str, text: impl Into<String>) {
        self.entries.insert(path.to_owned(), Entry::Text(text.into()));
    }

    fn link(&mut self, path: &str, target: impl Into<String>) {
        self.entries.insert(path.to_owned(), Entry::Link(target.into()));
    }

    /// A link from the list of a class or bus to a device.
    fn list(&mut self, list: &str, name: &str, target: &str) {
        let up = "../".repeat(list.split('/').count() - 1);
        let target = target.strip_prefix("sys/").unwrap();
        self.link(&format!("{list}/{name}"), format!("{up}{target}"));
    }

    fn node(&mut self, words: &[&str]) {
        let folder = format!("sys/devices/system/node/node{}", words[1]);
        self.text(&format!("{folder}/cpulist"), value(words, "cpus").unwrap_or_default());
        if let Some(gigabytes) = value(words, "memory") {
            let kilobytes = gigabytes.parse::<u64>().unwrap() << 20;
            let line = format!("Node {} MemTotal:       {kilobytes} kB", words[1]);
            self.text(&format!("{folder}/meminfo"), line);
        }
        if let Some(distances) = value(words, "distances") {
            self.text(&format!("{folder}/distance"), distances.replace(',', " "));
        }
    }

    fn pci(&mut self, path: &str, node: Option<&str>, words: &[&str]) {
        let address = words[0];
        let (class, id) = match words[1] {
            "bridge" => ("0x060400", "8086:347a"),
            "gpu" => ("0x030200", words[2]),
            "accelerator" => ("0x120000", words[2]),
            "vga" => ("0x030000", words[2]),
            "nic" if value(words, "layer") == Some("InfiniBand") => ("0x020700", "15b3:1021"),
            _ => ("0x020000", "15b3:101d"),
        };
        let (vendor, device) = id.split_once(':').unwrap();
        self.text(&format!("{path}/class"), value(words, "class").unwrap_or(class));
        self.text(&format!("{path}/vendor"), format!("0x{vendor}"));
        self.text(&format!("{path}/device"), format!("0x{device}"));
        self.text(&format!("{path}/numa_node"), node.unwrap_or("-1"));
        if let Some(cpus) = value(words, "local_cpus") {
            self.text(&format!("{path}/local_cpulist"), cpus);
        }
        if let Some(physical) = value(words, "vf-of") {
            self.link(&format!("{path}/physfn"), format!("../{physical}"));
        }
        self.text(&format!("{path}/current_link_speed"), "32.0 GT/s PCIe");
        self.text(&format!("{path}/current_link_width"), "16");
        self.list("sys/bus/pci/devices", address, path);
        if words[1] == "nic" {
            self.nic(&format!("{path}/infiniband/{}", words[2]), words);
            self.link(&format!("{path}/infiniband/{}/device", words[2]), "../..");
        }
        let net = if words[1] == "net" { words.get(2).copied() } else { value(words, "net") };
        if let Some(net) = net {
            self.net(&format!("{path}/net/{net}"), words);
            self.link(&format!("{path}/net/{net}/device"), "../..");
        }
    }

    fn nic(&mut self, path: &str, words: &[&str]) {
        let port = format!("{path}/ports/1");
        let state = value(words, "state").unwrap_or("ACTIVE");
        let number = if state == "ACTIVE" { 4 } else { 1 };
        self.text(&format!("{port}/state"), format!("{number}: {state}"));
        let layer = value(words, "layer").unwrap_or("Ethernet");
        self.text(&format!("{port}/link_layer"), layer);
        if let Some(rate) = value(words, "rate") {
            self.text(&format!("{port}/rate"), format!("{rate} Gb/sec (4X NDR)"));
        }
        if let Some(bond) = value(words, "bond") {
            self.text(&format!("{port}/gid_attrs/ndevs/0"), bond);
        }
        self.list("sys/class/infiniband", path.rsplit('/').next().unwrap(), path);
    }

    fn net(&mut self, path: &str, words: &[&str]) {
        let name = path.rsplit('/').next().unwrap();
        let index = self.entries.keys().filter(|path| path.ends_with("/ifindex")).count() + 1;
        self.text(&format!("{path}/ifindex"), index.to_string());
        self.text(&format!("{path}/operstate"), value(words, "operstate").unwrap_or("up"));
        self.text(&format!("{path}/flags"), value(words, "flags").unwrap_or("0x1003"));
        self.text(&format!("{path}/type"), if name == "lo" { "772" } else { "1" });
        self.list("sys/class/net", name, path);
    }

    fn virtual_net(&mut self, words: &[&str]) {
        let path = format!("sys/devices/virtual/net/{}", words[1]);
        self.net(&path, words);
        match words.get(2).copied() {
            Some("bridge") => self.text(&format!("{path}/bridge/bridge_id"), "8000.0"),
            Some("bond") => self.text(&format!("{path}/bonding/mode"), "802.3ad 4"),
            Some(kind @ ("vlan" | "vxlan")) => {
                self.text(&format!("{path}/uevent"), format!("DEVTYPE={kind}"));
            }
            _ => {}
        }
        for lower in value(words, "lower").into_iter().flat_map(|list| list.split(',')) {
            self.link(&format!("{path}/lower_{lower}"), format!("/sys/class/net/{lower}"));
        }
    }

    fn soft_nic(&mut self, words: &[&str]) {
        let path = format!("sys/devices/virtual/infiniband/{}", words[1]);
        self.nic(&path, words);
        if let Some(on) = value(words, "on") {
            self.text(&format!("{path}/ports/1/gid_attrs/ndevs/0"), on);
        }
    }

    fn expect(&mut self, body: &str) {
        let (front, lists) = body.split_once('=').unwrap();
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let (preferred, available) = match lists.split_once('|') {
            Some((preferred, available)) => (preferred, Some(list(available))),
            None => (lists, None),
        };
        let location = front.split_whitespace().nth(1).unwrap().to_owned();
        self.expected.push((location, list(preferred), available));
    }
}

fn value<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The bus in the address at the end of a path.
fn bus(path: &str) -> u8 {
    let address = path.rsplit('/').next().unwrap();
    u8::from_str_radix(address.split(':').nth(1).unwrap(), 16).unwrap()
}

/// A mask of 32-bit words, the highest first.
fn mask(cpus: &[u32]) -> String {
    let mut words = [0_u32; 32];
    cpus.iter().for_each(|cpu| words[(cpu / 32) as usize] |= 1 << (cpu % 32));
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

/// What a text of a capture stands for.
fn plain(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t")
}
