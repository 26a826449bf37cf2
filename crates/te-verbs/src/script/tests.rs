//! The script on the fake.

use std::net::Ipv4Addr;

use super::*;
use crate::fake::{Fake, FakeDevice, FakeNic};

struct FakeLink(FakeNic, FakeNic);

impl Link for FakeLink {
    fn set(&self, up: bool) {
        for nic in [&self.0, &self.1] {
            if up { nic.port_up(1) } else { nic.port_down(1) }
        }
    }
}

/// What the script sees on the fake is what is written down; a guest shows how much of it real
/// verbs have in common with it.
#[test]
fn the_fake_is_seen_as_written_down() {
    let fake = Fake::new(1);
    let names = ["rxe0", "rxe1"].map(|name| NicName::parse(name).unwrap());
    let add = |name: &NicName, last| {
        fake.add("a", FakeDevice::new(name.clone(), Ipv4Addr::new(192, 168, 77, last)))
    };
    let link = FakeLink(add(&names[0], 1), add(&names[1], 2));
    let seen =
        script(&*fake.host("a"), [&names[0], &names[1]], Some(&link), Duration::from_millis(1))
            .unwrap();
    let wanted: Vec<_> = include_str!("golden.txt").lines().collect();
    assert_eq!(seen, wanted, "seen:\n{}", seen.join("\n"));
    assert_eq!(fake.queue_pairs(), 0);
    assert_eq!(differences(&seen), []);
}

#[test]
fn a_difference_is_told_unless_it_is_known() {
    let mut lines: Vec<_> = include_str!("golden.txt").lines().map(str::to_owned).collect();
    for line in &mut lines {
        if let Some((_, real)) = SOFT_ROCE.iter().find(|(fake, _)| fake == line) {
            *line = (*real).to_owned();
        }
    }
    assert_eq!(differences(&lines), []);
    let unlinked: Vec<_> = lines.iter().filter(|line| !line.starts_with(LINK)).cloned().collect();
    assert!(unlinked.len() < lines.len());
    assert_eq!(differences(&unlinked), []);
    lines[0] = "devices: none".into();
    lines.pop();
    let found = differences(&lines);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], ("devices: both listed: true".into(), "devices: none".into()));
    assert_eq!(found[1].1, "-");
}
