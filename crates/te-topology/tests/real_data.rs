//! Data of real machines, read where it lies: every file loads, and who prefers whom is what
//! `nvidia-smi` printed there, or what an oracle finds by itself in the same tree.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use common::fixture::Fixture;
use common::oracle::{self, Device, Ports};
use common::{Scratch, files, matrix, preferred, real_data, skip, tags, unpack};
use te_topology::{
    CustomTopology, DeviceRef, Gid, GidEntry, GidTable, GidType, GidWish, LinkLayer, Machine,
    NicName, SysTree, choose_gid, read_machine, read_sysfs, read_tree,
};

/// A cell of the first columns: what a device is to another in nvidia-smi's matrix.
type Words = BTreeMap<(String, String), String>;

/// Reads the matrix; its header has the columns, the first cell of a row its device.
fn nvidia_smi(text: &str) -> Words {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split('\t').map(str::trim).collect();
    let mut words = Words::new();
    for line in lines.take_while(|line| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        for (column, cell) in header.iter().zip(&cells).skip(1) {
            if column.starts_with("GPU") && !column.contains(' ') || column.starts_with("NIC") {
                words.insert((cells[0].to_owned(), (*column).to_owned()), (*cell).to_owned());
            }
        }
    }
    words
}

fn device(machine: &Machine, name: &str) -> DeviceRef {
    let number: usize = name[3..].parse().unwrap();
    if name.starts_with("GPU") {
        return DeviceRef::Gpu(number);
    }
    let nic = format!("mlx5_{number}");
    DeviceRef::Nic(machine.nics().iter().position(|known| known.name.as_str() == nic).unwrap())
}

/// FB44: our description of the machine gives, cell by cell, the matrix that the machine printed,
/// and a GPU's preferred NICs are those with its best word.
fn check_against_nvidia_smi(folder: &Path, file: &str, fixture: &str) {
    let text = fs::read_to_string(folder.join("nvidia-smi-topo").join(file)).unwrap();
    let words = nvidia_smi(&text);
    let machine = Fixture::load(fixture).machine();
    let mut n_cells = 0;
    for ((row, column), word) in &words {
        // Links of GPUs are the driver's knowledge; sysfs has none of it.
        if !word.starts_with("NV") {
            let path = machine.path(device(&machine, row), device(&machine, column));
            assert_eq!(path.to_string(), *word, "{file}: {row} {column}");
            n_cells += 1;
        }
    }
    assert!(n_cells > 60, "{file}: {n_cells} cells");
    let order = ["PIX", "PXB", "PHB", "NODE", "SYS"];
    let gpus: BTreeSet<&String> =
        words.keys().map(|(row, _)| row).filter(|row| row.starts_with("GPU")).collect();
    for gpu in gpus {
        let row = words.iter().filter(|((r, c), _)| r == gpu && c.starts_with("NIC"));
        let ranked: Vec<(usize, String)> = row
            .map(|((_, nic), word)| {
                let place = order.iter().position(|known| known == word).unwrap();
                (place, format!("mlx5_{}", &nic[3..]))
            })
            .collect();
        let best = ranked.iter().map(|(place, _)| *place).min().unwrap();
        let expected: BTreeSet<String> =
            ranked.into_iter().filter(|(place, _)| *place == best).map(|(_, nic)| nic).collect();
        assert_eq!(preferred(&machine, &format!("cuda:{}", &gpu[3..])), expected, "{file}: {gpu}");
    }
}

/// FB44.
#[test]
fn fb44_nvidia_smi_matrices_are_reproduced() {
    let Some(folder) = real_data("fb44_nvidia_smi_matrices_are_reproduced") else { return };
    check_against_nvidia_smi(&folder, "h100-2numa-8nic.tsv", "hgx-h100");
    check_against_nvidia_smi(&folder, "a100-8numa-10nic.tsv", "epyc-a100-nps4");
    check_against_nvidia_smi(&folder, "h100-oddeven-12nic-partial.tsv", "h100-odd-even-12nic");
}

/// GPUs, NICs and nodes as they stand in NCCL's XML.
fn nccl_devices(text: &str) -> (Vec<Device>, Vec<Device>, Vec<u32>) {
    let tags = tags::scan(text);
    let names: BTreeSet<&str> = tags.iter().map(|tag| tag.name.as_str()).collect();
    let (has_gpus, has_nics) = (names.contains("gpu"), names.contains("net"));
    let (mut gpus, mut nics, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
    for (position, tag) in tags.iter().enumerate() {
        let cpu = tag.around.iter().copied().find(|at| tags[*at].name == "cpu");
        let node = cpu.and_then(|cpu| tags[cpu].get("numaid").parse().ok());
        let is_leaf = !tags.iter().any(|t| t.name == "pci" && t.around.contains(&position));
        let around: Vec<usize> = tag
            .around
            .iter()
            .copied()
            .filter(|at| matches!(tags[*at].name.as_str(), "cpu" | "pci"))
            .collect();
        let chain = |around: &[usize]| around.iter().map(usize::to_string).collect::<Vec<_>>();
        let named = |name: &str, chain, speed| Device { name: name.to_owned(), chain, node, speed };
        match tag.name.as_str() {
            "cpu" => nodes.push(tag.get("numaid").parse().unwrap()),
            "gpu" => {
                let above = chain(&around[..around.len() - 1]);
                gpus.push(named(tag.get("dev"), above, 0));
            }
            "net" if around.len() > 1 => {
                let above = chain(&around[..around.len() - 1]);
                nics.push(named(tag.get("name"), above, tag.get("speed").parse().unwrap()));
            }
            "pci" if is_leaf && !has_gpus && tag.get("class").starts_with("0x0302") => {
                gpus.push(named(tag.get("busid"), chain(&around), 0));
            }
            "pci" if is_leaf && !has_nics && tag.get("class").starts_with("0x02") => {
                nics.push(named(tag.get("busid"), chain(&around), 0));
            }
            _ => {}
        }
    }
    // Without a driver's number, GPUs are counted by their addresses.
    if !has_gpus {
        gpus.sort_by(|a, b| a.name.cmp(&b.name));
        gpus.iter_mut().enumerate().for_each(|(at, gpu)| gpu.name = at.to_string());
    }
    (gpus, nics, nodes)
}

/// FB44: for each of the machines in NCCL's XML, preferred NICs are those that the oracle finds.
#[test]
fn fb44_nccl_machines_agree_with_the_oracle() {
    let Some(folder) = real_data("fb44_nccl_machines_agree_with_the_oracle") else { return };
    let all = files(&folder.join("nccl-topo-xml"), ".xml");
    assert_eq!(all.len(), 15);
    let (mut n_gpus, mut n_nics) = (0, 0);
    for file in all {
        let text = fs::read_to_string(&file).unwrap();
        let machine = read_machine(&text).unwrap();
        let (mut gpus, nics, nodes) = nccl_devices(&text);
        assert_eq!(machine.gpus().len(), gpus.len(), "{}", file.display());
        let prefix = machine.gpus().first().map(|gpu| gpu.location().to_string());
        let prefix = prefix.and_then(|name| Some(name.split_once(':')?.0.to_owned()));
        gpus.iter_mut().for_each(|gpu| {
            gpu.name = format!("{}:{}", prefix.as_deref().unwrap_or_default(), gpu.name);
        });
        assert_eq!(machine.nics().len(), nics.len(), "{}", file.display());
        let distance = |a, b| if a == b { 10 } else { 20 };
        let expected = oracle::preferred(&gpus, &nics, &nodes, &distance, Ports::Whole);
        assert_eq!(oracle::of_product(&machine), expected, "{}", file.display());
        for (at, gpu) in machine.gpus().iter().enumerate() {
            let of_oracle = gpus.iter().find(|g| g.name == gpu.location().to_string()).unwrap();
            for nic in &nics {
                let place = machine.nics().iter().position(|n| n.name.as_str() == nic.name);
                let path = machine.path(DeviceRef::Gpu(at), DeviceRef::Nic(place.unwrap()));
                let word = oracle::word(of_oracle, nic, Ports::Whole);
                assert_eq!(
                    path.to_string(),
                    word,
                    "{}: {} {}",
                    file.display(),
                    gpu.index,
                    nic.name
                );
            }
        }
        (n_gpus, n_nics) = (n_gpus + gpus.len(), n_nics + nics.len());
    }
    assert_eq!((n_gpus, n_nics), (116, 54));
}

/// What NCCL's XML says of links between GPUs.
#[test]
fn links_of_gpus_are_read() {
    let Some(folder) = real_data("links_of_gpus_are_read") else { return };
    let read = |file: &str| read_machine(&fs::read_to_string(folder.join(file)).unwrap()).unwrap();
    let word =
        |machine: &Machine, a, b| machine.path(DeviceRef::Gpu(a), DeviceRef::Gpu(b)).to_string();
    let amd = read("nccl-topo-xml/rccl_topo_8p_940.xml");
    assert_eq!((amd.gpu_links().len(), word(&amd, 0, 7).as_str()), (28, "XGMI"));
    let dgx2 = read("hwloc-xml/nvidiaDGX2.xml");
    assert_eq!((dgx2.gpu_links().len(), word(&dgx2, 0, 15).as_str()), (120, "NV6"));
    assert!(dgx2.gpu_links().iter().all(|link| link.switched));
}

/// GPUs, NICs and nodes as they stand in lstopo's XML.
fn lstopo_devices(text: &str) -> (Vec<Device>, Vec<Device>, Vec<u32>) {
    let tags = tags::scan(text);
    let is = |at: usize, kind: &str| tags[at].get("type") == kind;
    let mask = |text: &str| -> BTreeSet<u32> {
        let words = text.rsplit(',').map(|word| word.trim_start_matches("0x"));
        let bits = words.map(|word| u32::from_str_radix(word, 16).unwrap_or(0)).zip(0_u32..);
        bits.flat_map(|(b, w)| (0..32).filter(move |n| b >> n & 1 == 1).map(move |n| w * 32 + n))
            .collect()
    };
    let objects = || (0..tags.len()).filter(|at| tags[*at].name == "object");
    let nodes: Vec<u32> = objects()
        .filter(|at| is(*at, "NUMANode"))
        .map(|at| tags[at].get("os_index").parse().unwrap())
        .collect();
    let (mut gpus, mut nics) = (Vec::new(), Vec::new());
    for at in objects() {
        let tag = &tags[at];
        let chain: Vec<String> =
            tag.around.iter().filter(|a| is(**a, "Bridge")).map(usize::to_string).collect();
        let with_nodes = tag.around.iter().rev().find(|a| !tags[**a].get("nodeset").is_empty());
        let near = with_nodes.map(|a| mask(tags[*a].get("nodeset"))).unwrap_or_default();
        let node = if near.len() == 1 { near.first().copied() } else { None };
        let device =
            |name: &str| Device { name: name.to_owned(), chain: chain.clone(), node, speed: 0 };
        let class = tag.get("pci_type");
        let vendor = class.get(6..10).unwrap_or_default();
        let shows = class.starts_with("0300") || class.starts_with("0302");
        // Rage XL and ES1000: the console of a server.
        let console = ["1002:4752", "1002:515e"].contains(&class.get(6..15).unwrap_or_default());
        if is(at, "PCIDev") && shows && matches!(vendor, "10de" | "1002") && !console {
            gpus.push(device(tag.get("pci_busid")));
        }
        let bits: u32 = tag.get("osdev_type").parse().unwrap_or(0);
        if is(at, "OSDev") && bits & 32 != 0 {
            nics.push(device(tag.get("name")));
        }
    }
    (gpus, nics, nodes)
}

/// FB44: for each machine in lstopo's XML, preferred NICs are those that the oracle finds.
#[test]
fn fb44_lstopo_machines_agree_with_the_oracle() {
    let Some(folder) = real_data("fb44_lstopo_machines_agree_with_the_oracle") else { return };
    let all = files(&folder.join("hwloc-xml"), ".xml");
    assert_eq!(all.len(), 8);
    for file in all {
        let text = fs::read_to_string(&file).unwrap();
        let machine = read_machine(&text).unwrap();
        let (mut gpus, nics, nodes) = lstopo_devices(&text);
        let several = "40intel64-2g2n4c+pcilocality.xml";
        if file.ends_with(several) {
            // Its only NIC is near two nodes of four, which the oracle has no word for.
            let near = &machine.nic("qib0").unwrap().near.nodes;
            assert_eq!(near.iter().map(|n| n.number()).collect::<Vec<_>>(), [1, 3]);
            continue;
        }
        for gpu in &mut gpus {
            let at = machine.pci_at(gpu.name.parse().unwrap());
            let found = machine.gpus().iter().find(|known| known.pci == at).unwrap();
            gpu.name = found.location().to_string();
        }
        assert_eq!(machine.gpus().len(), gpus.len(), "{}", file.display());
        let distance =
            |a, b| machine.distance(te_topology::NumaNode::new(a), te_topology::NumaNode::new(b));
        let expected = oracle::preferred(&gpus, &nics, &nodes, &distance, Ports::All);
        assert_eq!(oracle::of_product(&machine), expected, "{}", file.display());
        let older = common::as_version_2(&text);
        assert_eq!(read_machine(&older).unwrap(), machine, "{}", file.display());
    }
}

/// Most files are about single CPUs, which nothing here asks for.
const WITHOUT: [&str; 2] = ["--exclude=*/system/cpu/cpu[0-9]*", "--exclude=*/sys/kernel"];

/// FB45: captured trees load; what is near is what their own files say.
#[test]
fn fb45_captured_sysfs_trees_load() {
    let test = "fb45_captured_sysfs_trees_load";
    let Some(folder) = real_data(test) else { return };
    let all = files(&folder.join("hwloc-sysfs"), ".tar.bz2");
    assert_eq!(all.len(), 5);
    let mut found = BTreeMap::new();
    for archive in all {
        let scratch = Scratch::new();
        if let Err(reason) = unpack(&archive, &scratch.0, &WITHOUT) {
            return skip(test, &reason);
        }
        let top = files(&scratch.0, "").pop().unwrap();
        let machine = read_sysfs(&top);
        let again = read_tree(&SysTree::from_capture(&SysTree::on_disk(&top).capture()).unwrap());
        assert_eq!(again, machine, "{}", archive.display());
        for nic in machine.nics().iter().filter(|nic| nic.pci.is_some()) {
            assert_eq!(nic.near.node().map(|node| node.number()), node_by_hand(&top, &nic.name));
        }
        for (location, tiers) in matrix(&machine).rows() {
            let usable = machine.nics().iter().filter(|nic| nic.is_usable()).count();
            assert_eq!(tiers.preferred.len(), usable, "one NIC or none: {location}");
        }
        let name = archive.file_name().unwrap().to_str().unwrap().to_owned();
        let nics: Vec<String> = machine.nics().iter().map(|nic| nic.name.to_string()).collect();
        found.insert(name, (machine.nodes().len(), nics.join(" ")));
    }
    let expected = [
        ("2pa-pcidomain32bits.tar.bz2", 1, ""),
        ("32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2", 2, "mlx4_0 scif0"),
        ("40intel64-2g2n4c+pcilocality.tar.bz2", 4, "qib0"),
        ("fakepcilocalities.tar.bz2", 4, "qib0"),
        ("nvidia-dgx-gb10.tar.bz2", 1, ""),
    ];
    let expected = expected.map(|(name, nodes, nics)| (name.to_owned(), (nodes, nics.to_owned())));
    assert_eq!(found, BTreeMap::from(expected));
}

/// The node that the files of a NIC's PCI device say, read without the product.
fn node_by_hand(root: &Path, nic: &NicName) -> Option<u32> {
    let list = root.join("sys/class/infiniband");
    let nic = list.join(fs::read_link(list.join(nic.as_str())).unwrap());
    let device = fs::canonicalize(nic).unwrap().parent().unwrap().parent().unwrap().to_owned();
    fs::read_to_string(device.join("numa_node")).unwrap().trim().parse().ok()
}

/// FB44: eight ports of 400G and a bond of another network: the eight are preferred.
#[test]
fn fb44_h100_infiniband_values() {
    let Some(folder) = real_data("fb44_h100_infiniband_values") else { return };
    let read = |file: &str| {
        let text = fs::read_to_string(folder.join("sysfs-infiniband").join(file)).unwrap();
        read_tree(&SysTree::from_capture(&text).unwrap())
    };
    let machine = read("gpud_h100_class_infiniband.tsv");
    assert_eq!(machine.nics().len(), 9);
    let fast = machine.nics().iter().filter(|nic| nic.rate_mbps() == Some(400_000));
    let fast: BTreeSet<String> = fast.map(|nic| nic.name.to_string()).collect();
    assert_eq!(fast.len(), 8);
    assert_eq!(preferred(&machine, "cpu:0"), fast);
    let bond = machine.nic("mlx5_bond_0").unwrap();
    assert_eq!(bond.link_layer(), Some(LinkLayer::Ethernet));

    let older = read("procfs_class_infiniband.tsv");
    let rates: Vec<Option<u64>> = older.nics().iter().map(|nic| nic.rate_mbps()).collect();
    assert_eq!(rates, [Some(100_000), Some(40_000), Some(25_000)]);
    assert_eq!(older.nic("mlx4_0").unwrap().ports.len(), 2);
}

/// FB44: the same of an A100 host, whose values were printed by `ibstat` and `ibstatus`.
#[test]
fn fb44_a100_infiniband_values() {
    let Some(folder) = real_data("fb44_a100_infiniband_values") else { return };
    let folder = folder.join("sysfs-infiniband");
    let (mut capture, mut nic) = (String::new(), String::new());
    for line in fs::read_to_string(folder.join("ibstat.a100.9ca.txt")).unwrap().lines() {
        let port = format!("sys/class/infiniband/{nic}/ports/1");
        match line.trim().split_once([' ', ':']) {
            Some(("CA", name)) if name.starts_with('\'') => {
                name.trim_matches('\'').clone_into(&mut nic)
            }
            Some(("State", state)) if state.trim() == "Active" => {
                capture += &format!("{port}/state\t4: ACTIVE\n");
            }
            Some(("Rate", rate)) => {
                capture += &format!("{port}/rate\t{} Gb/sec (x)\n", rate.trim())
            }
            Some(("Link", layer)) => {
                let layer = layer.split_once(": ").unwrap().1;
                capture += &format!("{port}/link_layer\t{layer}\n");
            }
            _ => {}
        }
    }
    let machine = read_tree(&SysTree::from_capture(&capture).unwrap());
    assert_eq!(machine.nics().len(), 9);
    assert!(machine.nics().iter().all(|nic| nic.rate_mbps() == Some(200_000)), "{capture}");
    let status = fs::read_to_string(folder.join("ibstatus.a100.9dev.txt")).unwrap();
    assert_eq!(status.matches("Infiniband device").count(), 9);
    assert_eq!(status.matches("4: ACTIVE").count(), 9);
}

/// FB48: the GIDs that reporters said were right are chosen.
#[test]
fn fb48_reported_gid_tables() {
    let Some(folder) = real_data("fb48_reported_gid_tables") else { return };
    let text = fs::read_to_string(folder.join("gid-tables/gid-tables.tsv")).unwrap();
    let mut cases: BTreeMap<String, (NicName, GidTable, u16)> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [case, nic, _port, index, gid, kind, interface, expected, ..] = cells.as_slice() else {
            panic!("{line}");
        };
        let nic: NicName = nic.parse().unwrap();
        let case = cases.entry((*case).to_owned()).or_insert_with(|| (nic, GidTable::default(), 0));
        let index = index.parse().unwrap();
        let interface = Some((*interface).to_owned()).filter(|name| !name.is_empty());
        let (gid, kind) = (Gid::parse(gid).unwrap(), GidType::parse(kind));
        case.1.entries.push(GidEntry { index, gid, kind, interface });
        if *expected == "yes" {
            case.2 = index;
        }
    }
    assert_eq!(cases.len(), 3);
    for (name, (nic, table, expected)) in cases {
        let choice = choose_gid(&nic, false, &table, &GidWish::default()).unwrap();
        assert_eq!(choice.index, expected, "{name}: {}", choice.class);
    }
}

/// A file of measured pairs of NICs is no topology, and is refused by name.
#[test]
fn measured_pairs_are_no_topology() {
    let Some(folder) = real_data("measured_pairs_are_no_topology") else { return };
    let error = CustomTopology::read(&folder.join("mooncake/cluster-topology.json")).unwrap_err();
    assert!(error.to_string().contains("cluster-topology.json"), "{error}");
}
