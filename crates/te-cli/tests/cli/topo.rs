//! `te topo`: what it shows of this machine and of others, and in which forms.

use std::path::PathBuf;

use crate::program::{Scratch, te, te_with_input};

/// A machine that te-draw ships.
fn machine(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../te-draw/tests/machines");
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn this_machine_has_a_tree() {
    let text = te(&["topo"]).with(0).text();
    assert!(text.starts_with("this machine: "), "{text}");
    assert!(text.contains("\nNUMA node "), "{text}");
    assert!(!text.contains('\u{1b}'), "colours are for terminals: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// The library of this machine, whatever it has: devices, findings, or why there are none.
#[test]
fn this_machine_tells_of_rdma_and_another_does_not() {
    let text = te(&["topo"]).with(0).text();
    assert!(text.contains("\nRDMA devices, as ") || text.contains("\nRDMA: "), "{text}");
    let rdma = te(&["topo", "--json"]).with(0).json()["rdma"].clone();
    let devices = rdma["devices"].as_array().unwrap();
    let is_told = rdma["absence"].is_string() || !rdma["findings"].as_array().unwrap().is_empty();
    assert!(is_told || !devices.is_empty(), "{rdma}");
    for device in devices {
        assert!(text.contains(device["name"].as_str().unwrap()), "{text}");
    }
    let other = ["topo", "--from", &machine("hgx-h100.xml"), "--json"];
    assert!(te(&other).with(0).json().get("rdma").is_none());
}

#[test]
fn the_form_of_a_file_is_recognised() {
    let first = |name: &str| {
        let text = te(&["topo", "--from", &machine(name), "--width", "120"]).with(0).text();
        text.lines().next().unwrap().to_owned()
    };
    assert_eq!(first("hgx-h100.xml"), "hgx-h100.xml: 2 NUMA nodes, 8 NICs, 8 GPUs, from NCCL XML");
    assert_eq!(
        first("mixed-a100.xml"),
        "mixed-a100.xml: 2 NUMA nodes, 5 NICs, 3 GPUs, from lstopo XML"
    );
    assert_eq!(
        first("soft-roce-two-nodes.txt"),
        "soft-roce-two-nodes.txt: 2 NUMA nodes, 4 NICs, 0 GPUs, from sysfs"
    );
}

#[test]
fn a_tree_shows_devices_where_they_are_and_who_prefers_whom() {
    let text = te(&["topo", "--from", &machine("mixed-a100.xml"), "--width", "100"]).with(0).text();
    for part in [
        "NUMA node 0  CPUs 0-15 (16), 502.9 GiB\n\
         └─ host bridge 0000:[00-0f] #1\n",
        "   │  ├─ mlx5_0  speed unknown, 2 ports, 1 active, ibs1, PCIe 31.5 GB/s, 0000:01:00.0\n",
        "   └─ mlx5_2  no active port, ens3f0np0, PCIe 7.8 GB/s, 0000:0e:00.0\n",
        "no NUMA node known\n└─ mlx4_0  speed unknown, 0000:c1:00.0\n",
        "  cuda:1  PIX mlx5_1 | PXB mlx5_0 | SYS mlx5_3 | SYS mlx4_0\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

#[test]
fn a_capture_is_the_same_machine() {
    let file = Scratch::new("capture.txt");
    let told = te(&["topo", "capture", file.path()]).with(0).text();
    assert!(told.starts_with(&format!("wrote {}: ", file.path())), "{told}");
    let here = te(&["topo", "--json"]).with(0).json();
    let again = te(&["topo", "--json", "--from", file.path()]).with(0).json();
    assert_eq!(again["machine"], here["machine"]);
    assert_eq!(again["affinity"], here["affinity"]);
    let piped = te_with_input(&["topo", "--json", "--from", "-"], &file.bytes()).with(0).json();
    assert_eq!(piped["machine"], here["machine"]);
    let json = te(&["topo", "capture", file.path(), "--json"]).with(0).json();
    assert_eq!(json["file"], file.path());
    assert!(te(&["topo", "capture", "-"]).with(0).text().starts_with("# "));
}

#[test]
fn a_folder_with_a_copy_of_sys_is_a_machine() {
    let folder = std::env::temp_dir().join(format!("te-cli-{}-sysfs", std::process::id()));
    for (file, text) in [
        ("sys/devices/system/node/node0/cpulist", "0-3\n"),
        ("sys/devices/system/node/node2/cpulist", "4-5\n"),
    ] {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let text = te(&["topo", "--from", folder.to_str().unwrap()]).with(0).text();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(text.contains("2 NUMA nodes, 0 NICs, 0 GPUs, from sysfs"), "{text}");
    assert!(text.contains("\nNUMA node 2  CPUs 4-5 (2)\n"), "{text}");
}

#[test]
fn json_has_the_machine_the_affinity_and_the_paths() {
    let json = te(&["topo", "--json", "--from", &machine("hgx-h100.xml")]).with(0).json();
    assert_eq!(json["machine"]["nics"][5]["name"], "mlx5_5");
    assert_eq!(json["machine"]["nodes"][1]["cpus"], "32-63");
    assert_eq!(json["affinity"][0]["location"], "cpu:0");
    assert_eq!(json["affinity"][2]["groups"][0]["class"], "PIX");
    assert_eq!(json["affinity"][2]["groups"][0]["nics"][0], "mlx5_0");
    assert_eq!(json["paths"]["cuda:7"]["mlx5_7"], "PIX");
    assert_eq!(json["paths"]["cuda:7"]["cuda:0"], "NV18");
}

#[test]
fn the_classic_matrix_has_two_tiers_for_each_memory() {
    let json = te(&["topo", "--classic-json", "--from", &machine("mixed-a100.xml")]).with(0).json();
    assert_eq!(json["cuda:0"], serde_json::json!([["mlx5_0"], ["mlx5_1", "mlx5_3", "mlx4_0"]]));
    assert_eq!(json.as_object().unwrap().len(), 5);
}

#[test]
fn pictures_are_written_and_always_the_same() {
    let (svg, html) = (Scratch::new("topo.svg"), Scratch::new("topo.html"));
    let from = machine("eight-nodes.xml");
    let words = ["topo", "--from", &from, "--svg", svg.path(), "--html", html.path()];
    let told = te(&words).with(0).text();
    assert_eq!(told, format!("wrote {}\nwrote {}\n", svg.path(), html.path()));
    let first = (svg.bytes(), html.bytes());
    assert!(first.0.starts_with(b"<svg ") && first.1.starts_with(b"<!DOCTYPE html>"));
    te(&words).with(0);
    assert_eq!((svg.bytes(), html.bytes()), first);
    let streamed = te(&["topo", "--from", &from, "--svg", "-"]).with(0);
    assert_eq!(streamed.out, first.0);
}

#[test]
fn a_graph_is_printed_for_graphviz() {
    let text = te(&["topo", "--dot", "--from", &machine("odd-names.xml")]).with(0).text();
    assert!(text.starts_with("graph machine {\n") && text.ends_with("}\n"), "{text}");
    assert!(text.contains(r#"[label="\\N{x} \\l \\\"] }\n"#), "{text}");
}

#[test]
fn what_is_no_machine_is_told_in_one_line() {
    te(&["topo", "--from", "/nonexistent.xml"])
        .with(7)
        .told("te: cannot read /nonexistent.xml: no such file or directory");
    let file = Scratch::with("no-machine.txt", b"hello\nworld\n");
    te(&["topo", "--from", file.path()])
        .with(7)
        .told(&format!("te: cannot read {}: the text is neither XML nor a capture", file.path()));
    let file = Scratch::with("html.xml", b"<html></html>");
    te(&["topo", "--from", file.path()]).with(7).told(&format!("te: cannot read {}", file.path()));
    let file = Scratch::with("binary", b"\xff\xfe\x00");
    te(&["topo", "--from", file.path()]).with(7).told(&format!("te: cannot read {}", file.path()));
    te(&["topo", "--from", env!("CARGO_MANIFEST_DIR")]).with(7).told("te: cannot read ");
    te(&["topo", "--svg", "/nonexistent/x.svg"])
        .with(7)
        .told("te: cannot write /nonexistent/x.svg");
    te(&["topo", "--json", "--dot"]).with(2).told("te: topo: --json, --classic-json and --dot");
}
