//! Scenes and small machines for tests.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::subject::tests::Sample;

/// Two nodes with a switch on each, which a NIC and a GPU share.
pub(crate) const TWO_NODES: &str = r#"<system version="1">
  <cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:11:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1"/></nic>
      </pci>
      <pci busid="0000:12:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:22:00.0" count="18" tclass="0x030200"/></gpu>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" affinity="ffff0000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:20:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:21:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_1" dev="1" speed="400000" port="1" guid="0x2"/></nic>
      </pci>
      <pci busid="0000:22:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1"/>
      </pci>
    </pci>
  </cpu>
</system>
"#;

impl Label {
    /// What it covers.
    fn area(&self) -> Area {
        let (x, y) = self.at;
        let (long, high) = (self.face.width(&self.text), self.face.size);
        if self.upwards {
            return Area::new(x - high / 2, y - long, high, long);
        }
        let left = match self.align {
            Align::Start => x,
            Align::Middle => x - long / 2,
            Align::End => x - long,
        };
        Area::new(left, y - high / 2, long, high)
    }
}

/// The machines that the crate ships, by name.
pub(crate) fn shipped() -> Vec<(String, Sample)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    assert!(files.len() >= 6, "{files:?}");
    let read = |file: PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        (name, Sample::read(&fs::read_to_string(file).unwrap()))
    };
    files.into_iter().map(read).collect()
}

/// A machine with so many nodes, and NICs and GPUs spread over them.
pub(crate) fn of_size(nodes: usize, nics: usize, gpus: usize) -> Sample {
    let mut text = String::from("<system version=\"1\">");
    for node in 0..nodes {
        let _ = write!(text, "<cpu numaid=\"{node}\" affinity=\"{:x}\">", 1_u64 << node);
        for at in (node..nics).step_by(nodes) {
            let _ = write!(
                text,
                "<pci busid=\"{at:04x}:01:00.0\" class=\"0x020000\"><nic><net name=\"rocep{at}s0\" \
                 dev=\"{at}\" speed=\"{}\"/></nic></pci>",
                at * 1000
            );
        }
        for at in (node..gpus).step_by(nodes) {
            let _ = write!(
                text,
                "<pci busid=\"{at:04x}:02:00.0\" class=\"0x030200\" vendor=\"0x10de\" \
                 device=\"0x2330\"><gpu dev=\"{at}\"/></pci>"
            );
        }
        text.push_str("</cpu>");
    }
    text.push_str("</system>");
    Sample::read(&text)
}

/// Texts that overlap another text, or that are not within the scene or the box they are in.
pub(crate) fn faults(scene: &Scene) -> Vec<String> {
    let texts = scene.items.iter().filter_map(|item| match item {
        Item::Text(label) => Some((label.text.as_str(), label.area())),
        _ => None,
    });
    let texts: Vec<(&str, Area)> = texts.collect();
    let whole = Area::new(0, 0, scene.w, scene.h);
    let mut faults = Vec::new();
    for (at, (text, area)) in texts.iter().enumerate() {
        if !contains(whole, *area) {
            faults.push(format!("{text:?} leaves the picture"));
        }
        let over = texts[at + 1..].iter().filter(|(_, other)| overlap(*area, *other));
        faults.extend(over.map(|(other, _)| format!("{text:?} overlaps {other:?}")));
    }
    for item in &scene.items {
        if let Item::Line((x0, y0), (x1, y1), _) = item {
            let wire =
                Area::new(*x0.min(x1), *y0.min(y1), (x1 - x0).abs() + 1, (y1 - y0).abs() + 1);
            let over = texts.iter().filter(|(_, area)| overlap(*area, wire));
            faults.extend(over.map(|(text, _)| format!("a line crosses {text:?}")));
        }
        if let Item::Fill(frame, _) | Item::Frame(frame, _) = item {
            let cut =
                texts.iter().filter(|(_, area)| overlap(*frame, *area) && !contains(*frame, *area));
            faults.extend(cut.map(|(text, _)| format!("{text:?} crosses an edge")));
        }
    }
    faults
}

fn overlap(a: Area, b: Area) -> bool {
    a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
}

fn contains(outer: Area, inner: Area) -> bool {
    inner.x >= outer.x
        && inner.y >= outer.y
        && inner.x + inner.w <= outer.x + outer.w
        && inner.y + inner.h <= outer.y + outer.h
}

#[test]
fn a_scene_grows_with_what_is_put_into_it() {
    let mut scene = Scene::default();
    let mut part = Scene::of_size(10, 5);
    part.fill(Area::new(1, 1, 2, 2), Ink::Paper);
    scene.put(3, 4, part);
    assert_eq!((scene.w, scene.h), (13, 9));
    assert_eq!(scene.items, [Item::Fill(Area::new(4, 5, 2, 2), Ink::Paper)]);
}

#[test]
fn a_text_covers_what_its_alignment_says() {
    let face = Face::plain(10);
    let label = |align, upwards| Label {
        text: "abc".to_owned(),
        face,
        ink: Ink::Text,
        align,
        upwards,
        at: (100, 100),
    };
    let w = face.width("abc");
    assert_eq!(label(Align::Start, false).area(), Area::new(100, 95, w, 10));
    assert_eq!(label(Align::End, false).area(), Area::new(100 - w, 95, w, 10));
    assert_eq!(label(Align::Start, true).area(), Area::new(95, 100 - w, 10, w));
}

#[test]
fn faults_of_a_layout_are_found() {
    let mut scene = Scene::of_size(100, 20);
    scene.text((0, 10), "one", Face::plain(10), Ink::Text);
    scene.text((5, 10), "two", Face::plain(10), Ink::Text);
    scene.text((90, 10), "three", Face::plain(10), Ink::Text);
    scene.fill(Area::new(0, 0, 3, 20), Ink::Panel);
    assert_eq!(
        faults(&scene),
        ["\"one\" overlaps \"two\"", "\"three\" leaves the picture", "\"one\" crosses an edge"]
    );
}
