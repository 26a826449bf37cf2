//! Crates depend only downwards.

use crate::tidy::Finding;
use crate::workspace::Package;

/// The crates, lowest first. Crates of one line do not see each other: a transport knows no other
/// transport.
const LAYERS: &[&[&str]] = &[
    &["te-sync"],
    &["te-topology"],
    &["te-metadata", "te-metadata-server"],
    &["te-segment"],
    &["te-transport", "te-verbs"],
    &["te-transport-rdma", "te-transport-shm", "te-transport-tcp"],
    &["te-draw"],
    &["te-engine"],
    &["te-compat"],
    &["te-cli"],
    &["te-capi"],
    &["te-mooncake", "te-python"],
    &["te-suites"],
];

/// Looks at every dependency of one crate of ours on another, also for tests and builds.
pub(crate) fn check<'a>(packages: impl Iterator<Item = Package<'a>>) -> Vec<Finding> {
    packages.flat_map(|package| check_package(package.name(), &inner_edges(package))).collect()
}

fn check_package(name: &str, edges: &[&str]) -> Vec<Finding> {
    let path = if name == "xtask" { "xtask".to_owned() } else { format!("crates/{name}") };
    let finding = |what: String| Finding::new(&format!("{path}/Cargo.toml"), 0, what);
    if name == "xtask" {
        let told = |edge: &&str| finding(format!("xtask must not depend on {edge}"));
        return edges.iter().map(told).collect();
    }
    let Some(own) = layer(name) else {
        return vec![finding(format!("{name} has no place in xtask/src/tidy/layers.rs"))];
    };
    let bad = edges.iter().filter(|edge| **edge != name && layer(edge).is_none_or(|e| e >= own));
    bad.map(|edge| finding(format!("{name} must not depend on {edge}, which is not below it")))
        .collect()
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Dependencies with a path are ours.
fn inner_edges(package: Package<'_>) -> Vec<&str> {
    let all = package.raw()["dependencies"].as_array().into_iter().flatten();
    let inner = all.filter(|dependency| dependency["path"].is_string());
    inner.filter_map(|dependency| dependency["name"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_is_allowed_and_up_or_sideways_is_not() {
        assert_eq!(check_package("te-engine", &["te-topology", "te-transport-tcp"]), []);
        assert_eq!(check_package("te-segment", &["te-transport"]).len(), 1);
        assert_eq!(check_package("te-segment", &["te-segment"]), []);
    }

    #[test]
    fn xtask_depends_on_nothing_of_ours_and_strangers_are_told() {
        assert_eq!(check_package("xtask", &["te-topology"]).len(), 1);
        assert_eq!(check_package("te-new", &[])[0].path, "crates/te-new/Cargo.toml");
        assert_eq!(check_package("te-cli", &["te-new"]).len(), 1);
    }
}
