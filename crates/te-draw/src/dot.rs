//! A machine for Graphviz.

use std::fmt::Write;

use te_topology::{DeviceRef, PathClass};

use crate::board::key;
use crate::ink::Ink;
use crate::outline::{Branch, Bridge, Outline, Place};
use crate::subject::Subject;
use crate::words;

/// The machine as a graph in Graphviz' language: NUMA nodes as clusters, bridges and devices in
/// them, dashed lines from GPUs to the NICs that they use first.
pub fn dot(subject: Subject<'_>) -> String {
    let mut graph = Graph { subject, text: String::new(), n_bridges: 0 };
    let title = quoted(&[subject.title(), words::summary(subject.machine())]);
    let _ = write!(
        graph.text,
        "graph machine {{\n  label={title}; labelloc=t; ranksep=0.4;\n  \
         graph [fontname=\"sans-serif\"]; node [fontname=\"sans-serif\", fontsize=10, shape=box, \
         style=filled]; edge [fontname=\"sans-serif\", fontsize=9];\n"
    );
    for (at, place) in Outline::of(subject.machine()).places.iter().enumerate() {
        graph.place(at, place);
    }
    graph.distances();
    graph.gpu_links();
    graph.preferences();
    graph.text.push_str("}\n");
    graph.text
}

struct Graph<'a> {
    subject: Subject<'a>,
    text: String,
    n_bridges: usize,
}

impl Graph<'_> {
    fn place(&mut self, at: usize, place: &Place) {
        let (id, label) = match place.nodes.as_slice() {
            [] => ("unknown".to_owned(), vec!["no NUMA node known".to_owned()]),
            [node] => (format!("c{node}"), self.node_label(*node)),
            several => {
                let numbers: Vec<String> = several.iter().map(ToString::to_string).collect();
                (format!("near{at}"), vec![format!("near NUMA nodes {}", numbers.join(", "))])
            }
        };
        let _ = writeln!(self.text, "  subgraph cluster_{at} {{ label=\"\"; color=\"#c8cfd7\";");
        self.vertex(&id, &label, Ink::NodeBar, Some(Ink::OnBar));
        for branch in &place.branches {
            self.branch(&id, branch);
        }
        self.text.push_str("  }\n");
    }

    fn node_label(&self, number: te_topology::NumaNode) -> Vec<String> {
        let mut label = vec![format!("NUMA node {number}")];
        if let Some(node) = self.subject.machine().node(number) {
            label.push(words::cpus(node));
            label.extend(node.memory_bytes.map(words::memory));
        }
        label
    }

    fn branch(&mut self, above: &str, branch: &Branch) {
        match branch {
            Branch::Device { device, behind } => {
                let mut label = words::details(self.subject.machine(), *device);
                label.extend(words::behind(*behind));
                label.extend(self.uses(*device));
                let ink = match device {
                    DeviceRef::Nic(_) => Ink::Nic,
                    DeviceRef::Gpu(_) => Ink::Gpu,
                };
                self.vertex(&key(*device), &label, ink, None);
                let _ = writeln!(self.text, "    {above} -- {};", key(*device));
            }
            Branch::Bridge { at, below } => {
                let id = format!("b{}", self.n_bridges);
                self.n_bridges += 1;
                let (label, ink) = self.bridge(*at);
                self.vertex(&id, &label, ink, None);
                let _ = writeln!(self.text, "    {above} -- {id};");
                for branch in below {
                    self.branch(&id, branch);
                }
            }
        }
    }

    fn uses(&self, device: DeviceRef) -> Option<String> {
        let DeviceRef::Gpu(at) = device else { return None };
        let group = self.subject.preferred(&self.subject.machine().gpus()[at].location())?;
        Some(format!("uses {} ({})", words::group(group), group.class))
    }

    fn bridge(&self, at: Bridge) -> (Vec<String>, Ink) {
        let machine = self.subject.machine();
        match at {
            Bridge::Host(index) => {
                let name = words::clean(&machine.host_bridges()[index.position()].name);
                (vec!["host bridge".to_owned(), name], Ink::Root)
            }
            Bridge::Pci(index) => {
                let device = machine.pci_device(index);
                let mut label = vec![words::bridge(device.kind).to_owned()];
                label.push(device.address.to_string());
                label.extend(words::pcie(&device.link));
                (label, Ink::Switch)
            }
        }
    }

    fn vertex(&mut self, id: &str, label: &[String], fill: Ink, text: Option<Ink>) {
        let (label, fill) = (quoted(label), fill.light());
        let font =
            text.map(|ink| format!(", fontcolor=\"#{:06x}\"", ink.light())).unwrap_or_default();
        let _ = writeln!(self.text, "    {id} [label={label}, fillcolor=\"#{fill:06x}\"{font}];");
    }

    /// What the nodes hang on, if there are several.
    fn distances(&mut self) {
        let machine = self.subject.machine();
        if machine.nodes().len() < 2 {
            return;
        }
        let label = ["between NUMA nodes".to_owned(), words::distance_range(machine)];
        self.vertex("fabric", &label, Ink::Sys, None);
        for node in machine.nodes() {
            let _ = writeln!(self.text, "  fabric -- c{};", node.number);
        }
    }

    /// Links that join every pair are one point below the GPUs: their lines would hide the rest.
    fn gpu_links(&mut self) {
        let machine = self.subject.machine();
        let (n, links) = (machine.gpus().len(), machine.gpu_links());
        let colour = Ink::Link.light();
        if n > 2 && links.len() == n * (n - 1) / 2 {
            let about = words::gpu_links(self.subject);
            let label: Vec<String> =
                about.iter().map(|(word, text)| format!("{word} {text}")).collect();
            self.vertex("links", &label, Ink::Link, Some(Ink::OnNear));
            for at in 0..n {
                let _ = writeln!(self.text, "  g{at} -- links [color=\"#{colour:06x}\"];");
            }
            return;
        }
        for link in links {
            let class = PathClass::GpuLink { kind: link.kind, count: link.count };
            let (a, b) = (link.a, link.b);
            let look = format!("color=\"#{colour:06x}\", tooltip=\"{class}\", constraint=false");
            let _ = writeln!(self.text, "  g{a} -- g{b} [{look}];");
        }
    }

    /// From each GPU to the NICs it uses first, unless these are so many that it is no choice.
    fn preferences(&mut self) {
        let machine = self.subject.machine();
        let colour = Ink::Best.light();
        for (at, gpu) in machine.gpus().iter().enumerate() {
            let Some(group) = self.subject.preferred(&gpu.location()) else { continue };
            let few = group.nics.iter().filter(|_| group.nics.len() <= 2);
            let found = few.filter_map(|name| machine.nics().iter().position(|n| n.name == *name));
            for nic in found {
                let look = format!(
                    "style=dashed, color=\"#{colour:06x}\", tooltip=\"{}\", constraint=false",
                    group.class
                );
                let _ = writeln!(self.text, "  g{at} -- n{nic} [{look}];");
            }
        }
    }
}

/// Lines as one quoted text of the language.
fn quoted(lines: &[String]) -> String {
    let escaped = |line: &String| line.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", lines.iter().map(escaped).collect::<Vec<_>>().join("\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::tests::Sample;

    #[test]
    fn texts_cannot_leave_their_quotes() {
        assert_eq!(quoted(&["a\"]; b\\".to_owned(), "c".to_owned()]), "\"a\\\"]; b\\\\\\nc\"");
    }

    #[test]
    fn nodes_devices_and_preferences_are_in_the_graph() {
        let sample = Sample::read(crate::scene::tests::TWO_NODES);
        let graph = dot(sample.subject());
        for part in [
            "graph machine {\n",
            "subgraph cluster_1",
            "label=\"NUMA node 0\\nCPUs 0-15 (16)\"",
            "c0 -- b0;",
            "b0 -- n0;",
            "g0 -- n0 [style=dashed, color=\"#d96a00\", tooltip=\"PIX\"",
            "fabric -- c1;",
            "g0 -- g1 [color=\"#5d43ad\", tooltip=\"NV18\"",
        ] {
            assert!(graph.contains(part), "{part} in\n{graph}");
        }
        assert_eq!(graph.matches('{').count(), graph.matches('}').count());
    }
}
