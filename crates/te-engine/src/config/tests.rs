//! Configuration: the peers' rules for each variable, sources, files, and the table itself.

mod file;
mod matrix;
mod mooncake;
mod table;

use std::collections::BTreeMap;

use super::{EngineConfig, LoadOptions, Source};

/// A configuration from these variables alone.
pub(super) fn load(variables: &[(&str, &str)]) -> EngineConfig {
    let environment: BTreeMap<&str, &str> = variables.iter().copied().collect();
    EngineConfig::load(&LoadOptions { file: None, environment: &environment }).unwrap()
}

/// The value of a field as `te config` shows it, and its source.
fn effective(config: &EngineConfig, field: &str) -> (String, Source) {
    let value = config.effective().into_iter().find(|value| value.name == field).unwrap();
    (value.value, value.source)
}

#[test]
fn a_stronger_source_wins_and_is_remembered() {
    let file = file::write("order", "[tcp]\nlanes_per_peer = 2\n\nslice_size_bytes = 4096\n");
    let path = file.path();
    let environment =
        BTreeMap::from([("MC_TCP_LANES_PER_PEER", "3"), ("TE_TCP_LANES_PER_PEER", "5")]);
    let load = |environment: &BTreeMap<&str, &str>| {
        EngineConfig::load(&LoadOptions { file: Some(path.clone()), environment }).unwrap()
    };
    let lanes = |config: &EngineConfig| effective(config, "tcp.lanes_per_peer");
    let by = |variable: &str| Source::Environment { variable: variable.to_owned() };

    let config = load(&BTreeMap::new());
    assert_eq!(lanes(&config), ("2".to_owned(), Source::File { path: path.clone(), line: 2 }));
    assert_eq!(
        effective(&config, "tcp.slice_size_bytes").1.to_string(),
        format!("{}:4", path.display())
    );
    assert_eq!(effective(&config, "tcp.status_timeout_seconds").1, Source::Default);

    let config = load(&BTreeMap::from([("MC_TCP_LANES_PER_PEER", "3")]));
    assert_eq!(lanes(&config), ("3".to_owned(), by("MC_TCP_LANES_PER_PEER")));

    let config = load(&environment);
    assert_eq!(lanes(&config), ("5".to_owned(), by("TE_TCP_LANES_PER_PEER")));
    assert_eq!(config.tcp.lanes_per_peer, 5);

    let config = config.adjust(|settings| settings.tcp.lanes_per_peer = 7).unwrap();
    assert_eq!(lanes(&config), ("7".to_owned(), Source::Program));
    assert_eq!(config.tcp.slice_size_bytes, 4096, "what was not adjusted keeps its value");
}

#[test]
fn a_bad_variable_leaves_the_weaker_source_in_force_and_says_so() {
    let file = file::write("kept", "[tcp]\nlanes_per_peer = 2\n");
    let path = file.path();
    let environment = BTreeMap::from([("MC_TCP_LANES_PER_PEER", "17")]);
    let options = LoadOptions { file: Some(path.clone()), environment: &environment };
    let config = EngineConfig::load(&options).unwrap();
    assert_eq!(config.tcp.lanes_per_peer, 2);
    assert_eq!(
        config.warnings()[0].to_string(),
        format!(
            "MC_TCP_LANES_PER_PEER=\"17\" is not a whole number from 1 to 16; using 2 ({}:2)",
            path.display()
        )
    );
}

#[test]
fn te_config_names_a_file() {
    let file = file::write("named", "[engine]\nretry_count = 3\n");
    let path = file.path();
    let environment = BTreeMap::from([("TE_CONFIG", path.as_os_str())]);
    let config =
        EngineConfig::load(&LoadOptions { file: None, environment: &environment }).unwrap();
    assert_eq!(config.engine.retry_count, 3);
}

#[test]
fn our_flag_variables_take_words_and_undo_an_inherited_flag() {
    let config = load(&[("MC_FORCE_TCP", "1"), ("TE_FORCE_TCP", "off")]);
    assert!(!config.engine.force_tcp);
    assert!(config.warnings().is_empty());
    let config = load(&[("TE_METACACHE", "off")]);
    assert!(!config.metadata.cache);
}

#[test]
fn an_old_name_is_taken_with_a_warning_and_the_right_name_wins() {
    let config = load(&[("MC_TCP_MAX_CONNECTIONS_PER_PEER", "6")]);
    assert_eq!(config.tcp.lanes_per_peer, 6);
    assert_eq!(
        config.warnings()[0].to_string(),
        "MC_TCP_MAX_CONNECTIONS_PER_PEER=\"6\" is an old name of MC_TCP_LANES_PER_PEER; \
         using 6 (MC_TCP_MAX_CONNECTIONS_PER_PEER)"
    );
    let config = load(&[("MC_TCP_MAX_CONNECTIONS_PER_PEER", "6"), ("MC_TCP_LANES_PER_PEER", "8")]);
    assert_eq!(config.tcp.lanes_per_peer, 8);
    assert!(config.warnings().is_empty());
    assert_eq!(load(&[("NCCL_IB_GID_INDEX", "3")]).rdma.gid_index, Some(3));
}

#[test]
fn a_variable_for_what_this_build_lacks_is_answered_without_its_value() {
    let config = load(&[("MC_FORCE_MUSA", "hunter2"), ("MC_USE_TENT", "1")]);
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "MC_USE_TENT is set, and the tent engine is not part of this build; it has no effect",
            "MC_FORCE_MUSA is set, and transports between GPUs are not part of this build; \
             it has no effect",
        ]
    );
}

/// B6: Mooncake's variables of redis, and a password that is never shown.
#[test]
fn b6_a_password_is_taken_and_never_shown() {
    let vars =
        [("MC_REDIS_USERNAME", "me"), ("MC_REDIS_PASSWORD", "hunter2"), ("MC_REDIS_DB_INDEX", "7")];
    let config = load(&vars);
    let options = config.metadata.to_store_options();
    let password = options.credentials.password.as_ref().map(te_metadata::Secret::reveal);
    assert_eq!((password, options.redis_database), (Some("hunter2"), 7));
    let all = format!("{config:?} {:?} {options:?}", config.effective());
    assert!(!all.contains("hunter2"));
    let shown = config.effective().into_iter().find(|value| value.name == "metadata.password");
    assert_eq!(shown.unwrap().value, "(hidden)");
    let config = load(&[("MC_REDIS_PASSWORD", "hun\nter2"), ("MC_REDIS_DB_INDEX", "256")]);
    assert_eq!((config.metadata.password.as_ref(), config.metadata.redis_database), (None, 0));
    assert!(config.warnings().iter().all(|warning| !warning.to_string().contains("ter2")));
    assert_eq!(config.warnings().len(), 2);
}

#[test]
fn a_long_or_odd_value_is_escaped_and_cut_in_its_warning() {
    let long = "x\n".repeat(5000);
    let config = load(&[("MC_TCP_SLICE_SIZE", long.as_str()), ("MC_METADATA_CLUSTER_ID", &long)]);
    assert_eq!(config.warnings().len(), 2);
    assert_eq!(config.metadata.cluster_id, "");
    for warning in config.warnings() {
        assert!(warning.to_string().len() < 300);
        assert!(!warning.to_string().contains('\n'));
    }
}

#[cfg(unix)]
#[test]
fn a_value_that_is_not_utf_8_is_refused() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let environment = BTreeMap::from([("MC_LOG_DIR", OsString::from_vec(vec![b'/', 0xff]))]);
    let config =
        EngineConfig::load(&LoadOptions { file: None, environment: &environment }).unwrap();
    assert_eq!(config.log.directory, None);
    assert_eq!(config.warnings()[0].variable(), "MC_LOG_DIR");
    assert_eq!(config.warnings()[0].kept(), "using standard error (default)");
}

#[test]
fn adjust_names_every_setting_that_is_out_of_range() {
    let error = EngineConfig::default()
        .adjust(|settings| {
            settings.tcp.lanes_per_peer = 0;
            settings.peer.port_max = 14000;
            settings.engine.max_bytes = u64::MAX >> 1;
        })
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("tcp.lanes_per_peer = 0 is not a whole number from 1 to 16"), "{text}");
    assert!(text.contains("peer.port_min = 15000 is above peer.port_max = 14000"), "{text}");
    assert!(text.contains("engine.max_bytes = "), "{text}");
}

#[test]
fn adjust_keeps_a_time_finer_than_its_unit() {
    use std::time::Duration;

    let quarter = Duration::from_millis(250);
    let config =
        EngineConfig::default().adjust(|settings| settings.peer.connect_timeout = quarter).unwrap();
    assert_eq!(config.peer.connect_timeout, quarter);
    assert_eq!(effective(&config, "peer.connect_timeout_seconds").0, "1", "shown rounded up");
}

#[test]
fn a_number_too_large_for_the_file_form_is_an_error_not_a_panic() {
    let error = EngineConfig::default()
        .adjust(|settings| settings.engine.max_bytes = u64::MAX)
        .unwrap_err();
    assert!(error.to_string().starts_with("settings "), "{error}");
}
