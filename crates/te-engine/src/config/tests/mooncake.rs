//! The rules that Mooncake's own tests state for its variables.

use std::time::Duration;

use super::super::kind::Kind;
use super::super::rdma::{EfaNicSelection, EndpointStore, ParallelRegistration, PathMtu};
use super::super::settings::LogLevel;
use super::super::variables::{Variable, variable, variables};
use super::{EngineConfig, Source, effective, load};

/// Each text gives the value; a refused one is written as `None` and keeps the default with a
/// warning.
fn check<T: PartialEq + std::fmt::Debug>(
    name: &str,
    value_of: impl Fn(&EngineConfig) -> T,
    cases: &[(&str, Option<T>)],
) {
    let default = value_of(&EngineConfig::default());
    assert_eq!(value_of(&load(&[(name, "")])), default, "{name} empty");
    for (text, expected) in cases {
        let config = load(&[(name, text)]);
        let expected_value = expected.as_ref().unwrap_or(&default);
        assert_eq!(&value_of(&config), expected_value, "{name}={text:?}");
        let n_warnings = usize::from(expected.is_none());
        assert_eq!(config.warnings().len(), n_warnings, "{name}={text:?}: {:?}", config.warnings());
    }
}

#[test]
fn j3_numbers_are_whole_texts_of_digits_in_range() {
    check(
        "MC_HANDSHAKE_PORT",
        |config| config.peer.handshake_port,
        &[
            ("70000", None),
            ("65535", Some(65535)),
            ("1", Some(1)),
            ("0", None),
            ("12 ", None),
            ("+12", None),
            ("12x", None),
            ("0012", Some(12)),
        ],
    );
}

#[test]
fn j9_the_handshake_limit_is_inside_1_to_128_mib_and_never_changes() {
    let mib = 1 << 20;
    check(
        "MC_HANDSHAKE_MAX_LENGTH",
        |config| config.peer.max_frame_bytes,
        &[
            ("1048575", None),
            ("1048576", Some(mib)),
            ("134217728", Some(128 * mib)),
            ("134217729", None),
            ("1M", None),
        ],
    );
    let config = load(&[("MC_HANDSHAKE_MAX_LENGTH", "2097152")]);
    let first = config.peer.max_frame_bytes;
    assert!((0..3).all(|_| config.clone().peer.max_frame_bytes == first));
}

#[test]
fn j11_both_boundaries_of_every_number_are_taken_and_nothing_beyond() {
    for row in variables().filter(|row| !row.field.starts_with("peer.port_m")) {
        let Kind::Integer(integer) = row.kind else { continue };
        // Three have a second bound in another setting: see the tests of the rules.
        let (min, max) = match row.field {
            "rdma.fragment_ratio" => (integer.min, 65535),
            "tcp.min_piece_bytes" => (integer.min, 64 << 20),
            "tcp.max_piece_bytes" => (1 << 20, integer.max),
            _ => (integer.min, integer.max),
        };
        let name = row.own_name();
        for number in [min, max] {
            let config = load(&[(&name, &number.to_string())]);
            assert_eq!(config.warnings(), [], "{name}={number}");
            let shown = effective(&config, row.field).0;
            assert_eq!(shown.split(' ').next(), Some(number.to_string().as_str()), "{name}");
        }
        for text in beyond(integer.min, integer.max, integer.zero.is_some()) {
            let config = load(&[(&name, &text)]);
            assert_eq!(config.warnings().len(), 1, "{name}={text}");
            if !integer.raise {
                assert_eq!(effective(&config, row.field), default_of(row), "{name}={text}");
            }
        }
    }
}

fn beyond(min: i64, max: i64, takes_zero: bool) -> Vec<String> {
    let below = i128::from(min) - 1;
    let mut texts = vec![(i128::from(max) + 1).to_string(), "-5".to_owned(), "text".to_owned()];
    if !(below == 0 && takes_zero) {
        texts.push(below.to_string());
    }
    texts
}

fn default_of(row: &Variable) -> (String, Source) {
    effective(&EngineConfig::default(), row.field)
}

#[test]
fn j12_partition_key_service_level_class_port_and_queues() {
    check(
        "MC_PKEY_INDEX",
        |config| config.rdma.pkey_index,
        &[("0", Some(0)), ("65535", Some(65535)), ("65536", None), ("-1", None), ("one", None)],
    );
    check(
        "MC_IB_SL",
        |config| config.rdma.service_level,
        &[("0", Some(Some(0))), ("15", Some(Some(15))), ("16", None), ("-1", None)],
    );
    check(
        "MC_IB_TC",
        |config| config.rdma.traffic_class,
        &[("0", Some(Some(0))), ("255", Some(Some(255))), ("256", None), ("-1", None)],
    );
    check(
        "MC_IB_PORT",
        |config| config.rdma.port,
        &[
            ("1", Some(1)),
            ("255", Some(255)),
            ("0", None),
            ("256", None),
            ("-1", None),
            ("text", None),
        ],
    );
    check(
        "MC_NUM_CQ_PER_CTX",
        |config| config.rdma.completion_queues,
        &[("1", Some(1)), ("4", Some(4)), ("0", None), ("-3", None)],
    );
}

#[test]
fn j12_max_wr_is_marked_as_set_only_by_a_valid_value() {
    let source = |text| effective(&load(&[("MC_MAX_WR", text)]), "rdma.max_wr").1;
    assert_eq!(source("512"), Source::Environment { variable: "MC_MAX_WR".to_owned() });
    // The default's own number is a choice too when somebody wrote it.
    assert_eq!(source("256"), Source::Environment { variable: "MC_MAX_WR".to_owned() });
    for bad in ["", "0", "-1", "65536", "many"] {
        assert_eq!(source(bad), Source::Default, "{bad:?}");
    }
}

#[test]
fn j13_gid_retries() {
    assert_eq!(EngineConfig::default().rdma.auto_gid_max_retries, 2);
    check(
        "MC_AUTO_GID_MAX_RETRIES",
        |config| config.rdma.auto_gid_max_retries,
        &[("0", Some(0)), ("16", Some(16)), ("99", None)],
    );
}

#[test]
fn j14_a_refresh_interval_of_0_is_off() {
    check(
        "MC_TE_METADATA_REFRESH_INTERVAL_SECONDS",
        |config| config.metadata.refresh_interval,
        &[
            ("0", Some(None)),
            ("7", Some(Some(Duration::from_secs(7)))),
            ("-1", None),
            ("soon", None),
        ],
    );
}

#[test]
fn j15_the_connect_pause_takes_no_unit() {
    check(
        "MC_CONN_PAUSE_TTL_MS",
        |config| config.rdma.connect_pause,
        &[
            ("0", Some(None)),
            ("600000", Some(Some(Duration::from_secs(600)))),
            ("600001", None),
            ("100ms", None),
        ],
    );
}

#[test]
fn j16_concurrent_registrations_and_the_choice_of_efa_nics() {
    check(
        "MC_MAX_CONCURRENT_REG_MR",
        |config| config.rdma.max_concurrent_registrations,
        &[("0", Some(0)), ("4294967295", Some(u32::MAX)), ("4294967296", None), ("-1", None)],
    );
    check(
        "MC_EFA_NIC_SELECTION",
        |config| config.rdma.efa_nic_selection,
        &[
            ("local", Some(EfaNicSelection::Local)),
            ("LOCAL", Some(EfaNicSelection::Local)),
            ("All", Some(EfaNicSelection::All)),
            ("some", None),
        ],
    );
}

#[test]
fn j17_a_slice_size_is_never_0_and_never_negative() {
    check(
        "MC_SLICE_SIZE",
        |config| config.rdma.slice_size_bytes,
        &[("0", None), ("-1", None), ("1", Some(1)), ("131072", Some(131_072))],
    );
    let config = load(&[("MC_SLICE_SIZE", "-1")]);
    assert_eq!(
        config.warnings()[0].to_string(),
        "MC_SLICE_SIZE=\"-1\" is not a whole number from 1 to 2147483648; using 65536 (default)"
    );
}

#[test]
fn j18_log_levels_by_name() {
    check(
        "MC_LOG_LEVEL",
        |config| config.log.level,
        &[
            ("TRACE", Some(LogLevel::Trace)),
            ("INFO", Some(LogLevel::Info)),
            ("WARNING", Some(LogLevel::Warning)),
            ("ERROR", Some(LogLevel::Error)),
            ("VERBOSE", None),
        ],
    );
}

#[test]
fn j19_endpoint_store_by_exact_name() {
    assert_eq!(EngineConfig::default().rdma.endpoint_store, EndpointStore::Sieve);
    check(
        "MC_ENDPOINT_STORE_TYPE",
        |config| config.rdma.endpoint_store,
        &[
            ("FIFO", Some(EndpointStore::Fifo)),
            ("SIEVE", Some(EndpointStore::Sieve)),
            ("fifo", None),
            ("LRU", None),
        ],
    );
}

#[test]
fn j20_any_value_of_the_flag_turns_the_cache_off() {
    assert!(EngineConfig::default().metadata.cache);
    for value in ["1", "0", "", "no"] {
        let config = load(&[("MC_DISABLE_METACACHE", value)]);
        assert!(!config.metadata.cache, "{value:?}");
        assert!(config.warnings().is_empty());
    }
}

#[test]
fn j21_the_port_range_is_taken_whole_or_not_at_all() {
    let range = |min: &str, max: &str| {
        let config = load(&[("MC_MIN_RPC_PORT", min), ("MC_MAX_RPC_PORT", max)]);
        let warned = !config.warnings().is_empty();
        (config.peer.port_min, config.peer.port_max, warned)
    };
    let default = (15000, 17000, true);
    assert_eq!(range("", ""), (15000, 17000, false));
    assert_eq!(range("61000", "65535"), (61000, 65535, false));
    assert_eq!(range("1024", "32767"), (1024, 32767, false));
    assert_eq!(range("20000", "20000"), (20000, 20000, false));
    assert_eq!(range("17000", "16000"), default, "upside down");
    assert_eq!(range("80", "16000"), default, "well known");
    assert_eq!(range("20000", "40000"), default, "reaches into outgoing ports");
    assert_eq!(range("32768", "32768"), default, "lies in outgoing ports");
    assert_eq!(range("20000", "61000"), default, "spans the outgoing ports");
    assert_eq!(range("60999", "65535"), default, "begins in outgoing ports");
    assert_eq!(range("16000", "65536"), default, "no port");
    assert_eq!(range("61000", ""), default, "alone above the default's other end");
    assert_eq!(range("abc", "16000"), default, "not a number");
}

#[test]
fn j21_the_misspelt_names_are_read_too() {
    let config = load(&[("MC_MIN_PRC_PORT", "20000"), ("MC_MAX_PRC_PORT", "20010")]);
    assert_eq!((config.peer.port_min, config.peer.port_max), (20000, 20010));
    assert_eq!(config.warnings().len(), 2, "each names the right spelling");
    assert!(config.warnings()[0].to_string().contains("an old name of MC_MIN_RPC_PORT"));
}

#[test]
fn j22_path_mtus_are_those_that_verbs_knows() {
    let by_bytes = [(512, 2), (1024, 3), (2048, 4), (4096, 5)];
    for (bytes, verbs) in by_bytes {
        let mtu = load(&[("MC_MTU", &bytes.to_string())]).rdma.mtu_bytes;
        assert_eq!((mtu.bytes(), mtu.verbs()), (bytes, verbs));
    }
    check("MC_MTU", |config| config.rdma.mtu_bytes, &[("1500", None), ("256", None)]);
    assert_eq!(EngineConfig::default().rdma.mtu_bytes, PathMtu::Mtu4096);
}

#[test]
fn k29_every_switch_has_one_reading() {
    let pool = |text| load(&[("MC_TCP_ENABLE_CONNECTION_POOL", text)]).tcp.connection_pool;
    assert!(["1", "true", "YES", "on", "abc"].into_iter().all(pool), "what is no word keeps on");
    assert!(!["0", "false", "No"].into_iter().any(pool));
    let turns = |text| load(&[("MC_PATH_ROUNDROBIN", text)]).topology.path_round_robin;
    assert!(["1", "true"].into_iter().all(turns));
    assert!(!["0", "2", ""].into_iter().any(turns));
}

#[test]
fn k30_the_fragment_limit_follows_the_slice_size() {
    assert_eq!(EngineConfig::default().rdma.fragment_limit(), 16384);
    assert_eq!(load(&[("MC_SLICE_SIZE", "1048576")]).rdma.fragment_limit(), 262_144);
    let config = load(&[("MC_SLICE_SIZE", "1000"), ("MC_FRAGMENT_RATIO", "999")]);
    assert_eq!(config.rdma.fragment_limit(), 1);
    let config = load(&[("MC_SLICE_SIZE", "1000"), ("MC_FRAGMENT_RATIO", "1000")]);
    assert_eq!(config.rdma.fragment_limit(), 250, "an invalid ratio is 4");
    assert_eq!(config.warnings().len(), 1);
}

#[test]
fn the_limit_of_a_sync_call_is_lifted_to_5_seconds() {
    let limit = |text| load(&[("MC_TRANSFER_TIMEOUT", text)]).engine.transfer_timeout;
    assert_eq!(limit("5"), Duration::from_secs(5));
    assert_eq!(limit("1"), Duration::from_secs(5));
    assert_eq!(limit("x"), Duration::from_secs(30));
    assert_eq!(
        load(&[("MC_TRANSFER_TIMEOUT", "1")]).warnings()[0].to_string(),
        "MC_TRANSFER_TIMEOUT=\"1\" is below the minimum; using 5 (MC_TRANSFER_TIMEOUT)"
    );
}

#[test]
fn the_other_values_of_the_peers_are_taken() {
    check(
        "MC_TCP_PROTO",
        |config| config.tcp.protocol_version,
        &[("1", Some(1)), ("2", Some(2)), ("3", Some(3)), ("4", None), ("01", None)],
    );
    check(
        "MC_ENABLE_PARALLEL_REG_MR",
        |config| config.rdma.parallel_registration,
        &[
            ("-1", Some(ParallelRegistration::Auto)),
            ("0", Some(ParallelRegistration::Off)),
            ("1", Some(ParallelRegistration::On)),
            ("2", None),
        ],
    );
    check(
        "MC_MLX5_QP_UDP_SPORTS",
        |config| config.rdma.udp_source_ports.clone(),
        &[("1,65535, 7", Some(vec![1, 65535, 7])), ("1,65536", None), ("1,,2", None)],
    );
    check(
        "MC_TE_FILTERS",
        |config| config.topology.filters.clone(),
        &[("mlx5_0, mlx5_1", Some(vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()])), (",", None)],
    );
    check(
        "MC_TCP_BIND_ADDRESS",
        |config| config.peer.advertise_address.map(|address| address.to_string()),
        &[
            ("127.0.0.1", Some(Some("127.0.0.1".to_owned()))),
            ("::1", Some(Some("::1".to_owned()))),
            ("[::1]", None),
            ("localhost", None),
        ],
    );
    check(
        "MC_SLICE_TIMEOUT",
        |config| config.engine.slice_timeout,
        &[("1", Some(Some(Duration::from_secs(1)))), ("65536", None), ("-1", None)],
    );
}

#[test]
fn every_variable_of_the_table_is_found_by_its_field() {
    assert_eq!(variable("tcp.lanes_per_peer").unwrap().own_name(), "TE_TCP_LANES_PER_PEER");
    assert_eq!(variable("topology.filters").unwrap().own_name(), "TE_FILTERS");
    assert_eq!(
        variable("engine.request_timeout_ms").unwrap().own_name(),
        "TE_ENGINE_REQUEST_TIMEOUT_MS"
    );
    assert!(variable("tcp.nothing").is_none());
}
