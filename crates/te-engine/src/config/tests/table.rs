//! The table of variables against the settings, and the page made from it.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::variables::{UNSUPPORTED, variables};
use super::super::{Settings, configuration_reference};

/// Every key of the TOML form, those whose default is "not there" included.
fn fields() -> BTreeSet<String> {
    let mut settings = Settings::default();
    settings.peer.advertise_address = "127.0.0.1".parse().ok();
    settings.metadata.username = Some("me".into());
    settings.metadata.password = Some(te_metadata::Secret::new("secret"));
    settings.metadata.token = Some(te_metadata::Secret::new("secret"));
    settings.metadata.http_proxy = Some("http://h:1".into());
    settings.metadata.ca_file = Some("/".into());
    settings.metadata.certificate_file = Some("/".into());
    settings.metadata.key_file = Some("/".into());
    settings.topology.custom_file = Some("/".into());
    settings.log.directory = Some("/".into());
    settings.rdma.gid_index = Some(0);
    settings.rdma.traffic_class = Some(0);
    settings.rdma.service_level = Some(0);
    settings.rdma.bind_address = "127.0.0.1".parse().ok();
    let tree = toml::Table::try_from(settings).unwrap();
    tree.iter()
        .flat_map(|(section, keys)| {
            keys.as_table().unwrap().keys().map(move |key| format!("{section}.{key}"))
        })
        .collect()
}

#[test]
fn i1_every_field_has_one_row_and_every_row_a_field() {
    let rows: Vec<String> = variables().map(|row| row.field.to_owned()).collect();
    let unique: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), unique.len());
    assert_eq!(unique, fields());
}

#[test]
fn i2_no_name_stands_twice() {
    let mut seen = BTreeSet::new();
    for row in variables() {
        let names = row.mooncake.iter().map(ToString::to_string);
        let others = row.aliases.iter().map(|alias| alias.name().to_owned());
        for name in names.chain(others).chain([row.own_name()]) {
            assert!(seen.insert(name.clone()), "{name}");
        }
    }
    assert!(UNSUPPORTED.iter().all(|(name, _)| seen.insert((*name).to_owned())));
    assert!(seen.insert("TE_CONFIG".to_owned()));
}

#[test]
fn every_default_is_in_range() {
    let tree = toml::Table::try_from(Settings::default()).unwrap();
    for row in variables() {
        let (section, key) = row.path();
        if let Some(value) = tree[section].get(key) {
            assert!(row.kind.accepts(value), "{} = {value}", row.field);
        }
    }
}

#[test]
fn the_reference_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert!(
        page == configuration_reference(),
        "docs/configuration.md is not what `te config --markdown` prints"
    );
}
