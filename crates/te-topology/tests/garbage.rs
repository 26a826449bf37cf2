//! Every parser against nonsense: no panic, no endless work, no fact that was not there.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use common::fixture::Fixture;
use common::matrix;
use proptest::prelude::*;
use te_topology::{
    Affinity, CustomTopology, NicName, RankedTopology, SysTree, read_lstopo_xml, read_machine,
    read_nccl_xml, read_tree,
};

const LSTOPO: &str = r#"<topology version="3.0"><object type="Machine" cpuset="0x3" nodeset="0x3">
<object type="NUMANode" os_index="0" cpuset="0x1" nodeset="0x1" local_memory="5"/>
<object type="Package" nodeset="0x1"><object type="Bridge" bridge_pci="0000:[00-01]">
<object type="PCIDev" gp_index="7" pci_busid="0000:01:00.0" pci_type="0302 [10de:1db8] [0:0] a1 00">
<object type="OSDev" gp_index="8" name="cuda0" osdev_type="12"/></object>
<object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0207 [15b3:1013] [0:0] a1 00">
<object type="OSDev" name="mlx5_0" osdev_type="48"><info name="Port1State" value="4"/></object>
</object></object></object></object>
<distances2 name="NUMALatency"><indexes>0 1 </indexes><u64values>10 20 20 10 </u64values></distances2>
<distances2hetero name="NVLinkBandwidth"><indexes>OSDev:8 </indexes><u64values>0 </u64values>
</distances2hetero></topology>"#;

const NCCL: &str = r#"<system version="1"><cpu numaid="0" affinity="0000ffff">
<pci busid="0000:01:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:02:00.0" class="0x030200" vendor="0x10de" device="0x1"><gpu dev="0">
<nvlink target="0000:03:00.0" count="12" tclass="0x068000"/></gpu></pci>
<pci busid="0000:04:00.0" class="0x020700"><nic><net name="mlx5_0" speed="400000" port="1"/></nic>
</pci></pci></cpu></system>"#;

fn use_all(text: &str) {
    if let Ok(machine) = read_machine(text) {
        let affinity = Affinity::of(&machine);
        let _ = RankedTopology::of(&machine, &affinity).to_string();
        let _ = matrix(&machine).to_string();
        for a in 0..machine.gpus().len() {
            for b in 0..machine.nics().len() {
                let _ =
                    machine.path(te_topology::DeviceRef::Gpu(a), te_topology::DeviceRef::Nic(b));
            }
        }
        serde_json::to_string(&machine).unwrap();
    }
}

/// A text with some bytes of it replaced, left out or doubled.
fn damaged(text: &str, damage: &[(usize, u8, char)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (place, what, with) in damage {
        let at = place % chars.len();
        match what % 4 {
            0 => chars[at] = *with,
            1 => drop(chars.remove(at)),
            2 => chars.insert(at, *with),
            _ => {
                let end = (at + 40).min(chars.len());
                let part = chars[at..end].to_vec();
                chars.splice(at..at, part);
            }
        }
    }
    chars.into_iter().collect()
}

fn damage() -> impl Strategy<Value = Vec<(usize, u8, char)>> {
    let with = prop_oneof![any::<char>(), Just('"'), Just('<'), Just('9'), Just(' '), Just('\t')];
    prop::collection::vec((any::<usize>(), any::<u8>(), with), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_no_panic(text in "\\PC{0,200}|<\\PC{0,200}") {
        use_all(&text);
        let _ = read_lstopo_xml(&text);
        let _ = read_nccl_xml(&text);
        let _ = CustomTopology::parse(&text, std::path::Path::new("x"));
    }

    #[test]
    fn damaged_xml_of_lstopo_is_no_panic(damage in damage()) {
        use_all(&damaged(LSTOPO, &damage));
    }

    #[test]
    fn damaged_xml_of_nccl_is_no_panic(damage in damage()) {
        use_all(&damaged(NCCL, &damage));
    }

    #[test]
    fn damaged_captures_are_no_panic(damage in damage()) {
        let text = Fixture::load("soft-roce-two-nodes").capture();
        use_all(&damaged(&text, &damage));
    }

    #[test]
    fn any_files_of_sysfs_are_no_panic(
        texts in prop::collection::vec("\\PC{0,30}|[0-9a-f:., -]{0,30}", 12),
    ) {
        let nic = "sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0";
        let paths = [
            "sys/devices/system/node/online", "sys/devices/system/node/node0/cpulist",
            "sys/devices/system/node/node0/distance", "sys/devices/system/node/node0/meminfo",
            "sys/devices/pci0000:00/0000:00:01.0/class",
            "sys/devices/pci0000:00/0000:00:01.0/numa_node",
            "sys/devices/pci0000:00/0000:00:01.0/local_cpus",
            &format!("{nic}/ports/1/state"), &format!("{nic}/ports/1/rate"),
            &format!("{nic}/ports/1/gids/0"), &format!("{nic}/ports/1/gid_attrs/types/0"),
            "proc/net/route",
        ];
        let mut capture = String::from(
            "sys/bus/pci/devices/0000:00:01.0\t->\t../../../devices/pci0000:00/0000:00:01.0\n\
             sys/class/infiniband/mlx5_0\t->\t\
             ../../devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0\n",
        );
        for (path, text) in paths.iter().zip(&texts) {
            capture += &format!("{path}\t{}\n", text.replace(['\t', '\n', '\r'], " "));
        }
        let tree = SysTree::from_capture(&capture).unwrap();
        let machine = read_tree(&tree);
        prop_assert_eq!(machine.nics().len(), 1);
        tree.gid_table(&NicName::parse("mlx5_0").unwrap(), 1);
        tree.host_interfaces();
        let again = SysTree::from_capture(&tree.capture()).unwrap();
        prop_assert_eq!(read_tree(&again), machine);
    }

    #[test]
    fn any_network_tables_are_no_panic(text in "(\\PC{0,40}\n){0,6}|([0-9A-F]{0,33} ?){0,12}") {
        let escaped = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t");
        let mut capture = String::from("sys/class/net/eth0/ifindex\t1\n");
        for file in ["route", "ipv6_route", "fib_trie", "if_inet6"] {
            capture += &format!("proc/net/{file}\t{}\n", escaped.replace('\r', " "));
        }
        SysTree::from_capture(&capture).unwrap().host_interfaces();
    }
}

/// XML that is made to hurt: entities that grow, endless nesting, endless attributes.
#[test]
fn hostile_xml_is_refused() {
    let bomb = r#"<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
        <topology version="3.0"><object type="&b;"/></topology>"#;
    assert!(read_lstopo_xml(bomb).is_err());
    let outside = r#"<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]>
        <topology version="3.0"><object type="Machine" name="&a;"/></topology>"#;
    assert!(read_lstopo_xml(outside).is_err());
    let deep = "<object>".repeat(100_000);
    let error = read_lstopo_xml(&format!("<topology version=\"3.0\">{deep}")).unwrap_err();
    assert!(error.to_string().contains("levels"), "{error}");
    let wide: String = (0..100).map(|n| format!(" a{n}=\"1\"")).collect();
    let error = read_nccl_xml(&format!("<system{wide}/>")).unwrap_err();
    assert!(error.to_string().contains("attributes"), "{error}");
    for (text, says) in [
        ("<system>", "too early"),
        ("<html></html>", "<html>"),
        ("<topology/>", "version \"1\""),
        ("<topology version=\"9\"/>", "version \"9\""),
        ("<a", "no XML"),
        ("", "nothing"),
    ] {
        match read_machine(text) {
            Err(error) => assert!(error.to_string().contains(says), "{text}: {error}"),
            Ok(machine) => assert!(text.is_empty() && machine.nics().is_empty()),
        }
    }
}

/// Lines of a capture that lead out of it, or that are none, are named.
#[test]
fn captures_that_are_none_are_refused_by_line() {
    for text in ["../x\ty", "sys/../../x\ty", "sys", "a\t->\tb\tc", "a\tb\tc", "\ty"] {
        let error = SysTree::from_capture(&format!("# x\n{text}\n")).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{text}: {error}");
    }
}
