//! Descriptors: captured bytes, refusals, limits.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const TCP: &[u8] = include_bytes!("../../tests/fixtures/descriptor-tcp-p2p.json");
const TCP_EMPTY: &[u8] = include_bytes!("../../tests/fixtures/descriptor-tcp-empty.json");
const TCP_SLASH: &[u8] = include_bytes!("../../tests/fixtures/descriptor-tcp-slash.json");
const ONE_NIC: &[u8] = include_bytes!("../../tests/fixtures/descriptor-rdma-one-nic.json");
const TWO_NICS: &[u8] = include_bytes!("../../tests/fixtures/descriptor-rdma-two-nics.json");

fn decode(value: Value) -> Result<SegmentDescriptor, DecodeError> {
    SegmentDescriptor::decode(value.to_string().as_bytes())
}

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Changes the two-NIC descriptor and says which field the refusal names.
fn refused(change: impl FnOnce(&mut Value)) -> (String, String) {
    let mut value = value(TWO_NICS);
    change(&mut value);
    let error = decode(value).unwrap_err();
    (error.path().unwrap_or_default().to_owned(), error.to_string())
}

/// B20 to B24: captured descriptors are read and written byte by byte.
#[test]
fn captured_descriptors_round_trip_byte_by_byte() {
    for bytes in [TCP, TCP_EMPTY, TCP_SLASH, ONE_NIC, TWO_NICS] {
        let descriptor = SegmentDescriptor::decode(bytes).unwrap();
        assert_eq!(descriptor.encode(), bytes, "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_captured_tcp_descriptor_says_what_it_says() {
    let descriptor = SegmentDescriptor::decode(TCP).unwrap();
    assert_eq!((descriptor.name.as_str(), descriptor.protocol_name()), ("127.0.0.1:16034", "tcp"));
    let endpoint = TcpEndpoint {
        data_host: Some("127.0.0.1".into()),
        data_port: Some(15323),
        proto_version: 2,
    };
    assert_eq!(descriptor.tcp, endpoint);
    assert_eq!(descriptor.rdma_server_name.as_deref(), Some(""));
    assert_eq!(descriptor.buffers().len(), 1);
    assert_eq!(descriptor.buffers()[0].addr, 140605688238096);
    let built = SegmentDescriptor {
        timestamp: descriptor.timestamp.clone(),
        ..SegmentDescriptor::tcp("127.0.0.1:16034", endpoint, descriptor.buffers().to_vec())
    };
    assert_eq!(built.encode(), TCP);
}

#[test]
fn a_captured_rdma_descriptor_says_what_it_says() {
    let descriptor = SegmentDescriptor::decode(TWO_NICS).unwrap();
    let ProtocolPart::Rdma { devices, buffers, priority_matrix } = &descriptor.part else {
        panic!("{descriptor:?}")
    };
    assert_eq!(devices[1].name.as_str(), "rxe1");
    assert_eq!(devices[1].gid, "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:02");
    assert_eq!(buffers[0].rkeys, [Rkey::new(948), Rkey::new(872)]);
    assert_eq!(buffers[0].name, "*");
    assert_eq!(priority_matrix.as_ref().unwrap().nics().len(), 2);
    assert_eq!((descriptor.tcp.data_port, descriptor.tcp.proto_version), (None, 1));
    assert_eq!(format!("{:?}", Rkey::new(0x1f00_1234)), "rkey(0x1f..)");
}

/// The least that a peer publishes is enough; unknown keys are ignored at every level.
#[test]
fn least_descriptors_are_read_and_unknown_keys_ignored() {
    let least = decode(json!({"protocol": "tcp", "tcp_data_port": 5, "future": [1, {"a": 2}]}));
    let least = least.unwrap();
    assert_eq!((least.tcp.data_port, least.tcp.proto_version), (Some(5), 1));
    assert!(least.buffers().is_empty());
    let extra = decode(json!({
        "protocol": "tcp", "tcp_proto_version": 3, "te": null,
        "buffers": [{"name": "n", "addr": u64::MAX, "length": 1, "x": 1, "rkey": "ignored on tcp"}],
    }));
    assert_eq!(extra.unwrap().buffers()[0].addr, u64::MAX);
}

/// B29: descriptors written by the NVMe-oF scripts.
#[test]
fn b29_nvmeof_descriptors_are_read() {
    let text = json!({
        "server_name": "s", "protocol": "nvmeof",
        "buffers": [{"file_path": "/mnt/a", "length": 5, "local_path_map": {"t": "/dev/b"}}],
    });
    let descriptor = decode(text.clone()).unwrap();
    let ProtocolPart::NvmeOf { server_name, files } = &descriptor.part else { panic!() };
    assert_eq!((server_name.as_str(), files[0].length), ("s", 5));
    assert_eq!(files[0].local_paths["t"], "/dev/b");
    assert_eq!(value(&descriptor.encode()), text);
    assert!(descriptor.buffers().is_empty());
}

/// B30, B25 to B28: protocols that we do not speak are named, and no other error hides it.
#[test]
fn other_protocols_are_not_supported_by_name() {
    let named = |protocol: Value| {
        let error = decode(json!({"protocol": protocol, "buffers": 7})).unwrap_err();
        assert!(error.is_not_supported(), "{error}");
        error.to_string()
    };
    for protocol in ["nvlink", "cxl", "ub", "nccl", "ascend", "barex", "efa", "", "rdma,tcp"] {
        assert_eq!(named(json!(protocol)), format!("protocol {protocol} is not supported"));
    }
    assert_eq!(named(json!(["tcp", "rdma"])), "protocol [tcp,rdma] is not supported");
    assert_eq!(named(json!([1])), "protocol [] is not supported");
    assert!(named(json!("x".repeat(900))).len() < 120);
}

/// J36: a buffer that peers may not touch has no remote key and stays in the descriptor.
#[test]
fn j36_a_local_only_buffer_survives_encode_and_decode() {
    let mut text = value(TWO_NICS);
    text["buffers"][0]["rkey"] = json!([]);
    let descriptor = decode(text.clone()).unwrap();
    assert!(descriptor.buffers()[0].rkeys.is_empty());
    assert_eq!(descriptor.buffers()[0].lkeys, [948, 872]);
    assert_eq!(value(&descriptor.encode()), text);
    assert_eq!(SegmentDescriptor::decode(&descriptor.encode()).unwrap(), descriptor);
}

/// J37: one key per device is accepted, every other number is refused.
#[test]
fn j37_key_counts_must_match_the_devices() {
    let four: Vec<Value> =
        (0..4).map(|n| json!({"name": format!("n{n}"), "gid": "00", "lid": 0})).collect();
    let with = |rkeys: usize, lkeys: usize| {
        let (rkey, lkey) = (vec![7; rkeys], vec![7; lkeys]);
        let buffer = json!({"name": "*", "addr": 1, "length": 1, "rkey": rkey, "lkey": lkey});
        decode(json!({"protocol": "rdma", "name": "n", "devices": four, "buffers": [buffer]}))
    };
    assert!(with(4, 4).is_ok());
    for (rkeys, lkeys, path) in [
        (1, 1, "buffers[0].rkey"),
        (3, 4, "buffers[0].rkey"),
        (5, 5, "buffers[0].rkey"),
        (4, 3, "buffers[0].lkey"),
        (4, 0, "buffers[0].lkey"),
    ] {
        let error = with(rkeys, lkeys).unwrap_err();
        assert_eq!(error.path(), Some(path));
        assert!(error.to_string().ends_with("expected 4"), "{error}");
    }
}

/// B31, K2, peer fault 2: each wrong field refuses the whole descriptor and is named.
#[test]
fn b31_wrong_fields_are_named() {
    let path = |change: fn(&mut Value)| refused(change).0;
    assert_eq!(path(|d| d["devices"][1]["name"] = json!("")), "devices[1].name");
    assert_eq!(path(|d| d["devices"][1]["gid"] = json!("")), "devices[1].gid");
    assert_eq!(path(|d| d["devices"][0]["gid"] = json!(null)), "devices[0].gid");
    assert_eq!(path(|d| d["devices"][0]["name"] = json!("a\u{1}")), "devices[0].name");
    assert_eq!(path(|d| d["devices"][0]["lid"] = json!(65536)), "devices[0].lid");
    assert_eq!(path(|d| d["devices"][0] = json!([])), "devices[0]");
    assert_eq!(path(|d| d["devices"] = json!({})), "devices");
    assert_eq!(path(|d| d["buffers"][0]["name"] = json!("")), "buffers[0].name");
    assert_eq!(path(|d| d["buffers"][0]["addr"] = json!(0)), "buffers[0].addr");
    assert_eq!(path(|d| d["buffers"][0]["addr"] = json!(-1)), "buffers[0].addr");
    assert_eq!(path(|d| d["buffers"][0]["addr"] = json!("1")), "buffers[0].addr");
    assert_eq!(path(|d| d["buffers"][0]["addr"] = json!(1.5)), "buffers[0].addr");
    assert_eq!(path(|d| d["buffers"][0]["length"] = json!(0)), "buffers[0].length");
    assert_eq!(path(|d| d["buffers"][0]["rkey"] = json!("948")), "buffers[0].rkey");
    assert_eq!(path(|d| d["buffers"][0]["rkey"][1] = json!(-1)), "buffers[0].rkey[1]");
    assert_eq!(path(|d| d["buffers"][0]["lkey"][1] = json!(1u64 << 32)), "buffers[0].lkey[1]");
    assert_eq!(path(|d| d["buffers"][0] = json!(5)), "buffers[0]");
    assert_eq!(path(|d| d["buffers"] = json!({})), "buffers");
    assert_eq!(path(|d| d["priority_matrix"]["cpu:0"] = json!([[]])), "priority_matrix");
    assert_eq!(path(|d| d["tcp_data_port"] = json!(65536)), "tcp_data_port");
    assert_eq!(path(|d| d["tcp_proto_version"] = json!(-1)), "tcp_proto_version");
    assert_eq!(path(|d| d["name"] = json!({})), "name");
    assert_eq!(path(|d| d["timestamp"] = json!(1)), "timestamp");
    assert_eq!(path(|d| d["protocol"] = json!(1)), "protocol");
    assert_eq!(path(|d| d["protocol"] = json!(null)), "protocol");
    assert_eq!(path(|d| *d = json!([1])), "");
    assert_eq!(path(|d| *d = json!(null)), "");
    let (_, text) = refused(|d| d["buffers"][0]["addr"] = json!("1"));
    assert_eq!(text, "buffers[0].addr is a string, expected a whole number");
    let (_, text) = refused(|d| *d = json!([1]));
    assert_eq!(text, "the root is an array, expected an object");
}

/// K40: sizes and nesting are bounded before they cost anything.
#[test]
fn k40_limits_hold() {
    let (_, text) = refused(|d| d["name"] = json!("x".repeat(2000)));
    assert!(text.contains("2000 bytes"), "{text}");
    let devices = vec![json!({"name": "n", "gid": "g"}); MAX_DEVICES + 1];
    let (path, text) = refused(|d| d["devices"] = json!(devices));
    assert_eq!((path.as_str(), text.contains("1025 entries")), ("devices", true));
    let deep = format!("{{\"protocol\":{}", "[".repeat(100_000));
    assert!(matches!(SegmentDescriptor::decode(deep.as_bytes()), Err(DecodeError::Json(_))));
    let huge = vec![b' '; MAX_DESCRIPTOR_BYTES + 1];
    assert!(matches!(SegmentDescriptor::decode(&huge), Err(DecodeError::TooLarge { .. })));
}

/// B33: a refresh keeps the old snapshot when only the time or the TCP version changed.
#[test]
fn b33_equality_for_the_cache() {
    let old = SegmentDescriptor::decode(TCP).unwrap();
    let changed = |change: fn(&mut SegmentDescriptor)| {
        let mut new = old.clone();
        change(&mut new);
        old.same_for_cache(&new)
    };
    assert!(changed(|d| d.timestamp.clear()));
    assert!(changed(|d| d.tcp.proto_version = 1));
    assert!(!changed(|d| d.tcp.data_port = None));
    assert!(!changed(|d| d.tcp.data_host = None));
    assert!(!changed(|d| d.name.push('x')));
    assert!(!changed(|d| d.part = ProtocolPart::Tcp { buffers: vec![] }));
    assert!(!changed(|d| d.te = Some(TeObject::new(Incarnation::from_u128(1)))));
}

/// The object `te` stands between the captured keys and changes none of them.
#[test]
fn the_te_object_leaves_the_other_bytes_unchanged() {
    let mut te = TeObject::new(Incarnation::from_u128(0xab));
    te.transports.insert("tcp".into(), json!({"port": 7}));
    te.extensions.insert("pages".into(), json!(true));
    let mut descriptor = SegmentDescriptor::decode(TCP).unwrap();
    descriptor.te = Some(te);
    let text = String::from_utf8(descriptor.encode()).unwrap();
    let object = concat!(
        r#""te":{"extensions":{"pages":true},"#,
        r#""incarnation":"000000000000000000000000000000ab","#,
        r#""transports":{"tcp":{"port":7}},"version":1},"#
    );
    assert_eq!(text.replace(object, "").as_bytes(), TCP);
    assert!(text.contains(&format!("\"tcp_proto_version\":2,{object}\"timestamp\"")), "{text}");
    assert_eq!(SegmentDescriptor::decode(text.as_bytes()).unwrap(), descriptor);
}

/// K16: a buffer's handle travels in a key of its own and changes no other byte.
#[test]
fn k16_a_buffer_handle_survives_and_a_malformed_one_is_named() {
    let buffer = |te: Value| {
        let buffer = json!({"addr": 4096, "length": 1, "name": "x", "te": te});
        decode(json!({"protocol": "tcp", "buffers": [buffer]}))
    };
    let plain = buffer(Value::Null).unwrap();
    assert_eq!(plain.buffers()[0].te, None);
    let named = buffer(json!({"slot": 7, "generation": 4_294_967_295_u32, "more": 1})).unwrap();
    assert_eq!(named.buffers()[0].te, Some(BufferHandle { slot: 7, generation: u32::MAX }));
    let text = String::from_utf8(named.encode()).unwrap();
    let object = r#","te":{"generation":4294967295,"slot":7}"#;
    assert_eq!(text.replace(object, "").as_bytes(), plain.encode());
    assert_eq!(SegmentDescriptor::decode(text.as_bytes()).unwrap(), named);
    let refused = |te| buffer(te).unwrap_err().path().unwrap().to_owned();
    assert_eq!(refused(json!(5)), "buffers[0].te");
    assert_eq!(refused(json!({"slot": 1})), "buffers[0].te.generation");
    assert_eq!(refused(json!({"slot": -1, "generation": 1})), "buffers[0].te.slot");
    assert_eq!(refused(json!({"slot": 1, "generation": 1_u64 << 32})), "buffers[0].te.generation");
}

#[test]
fn a_malformed_te_object_is_named() {
    let refused = |te: Value| {
        let error = decode(json!({"protocol": "tcp", "te": te})).unwrap_err();
        error.path().unwrap().to_owned()
    };
    let good = "0".repeat(32);
    assert_eq!(refused(json!(5)), "te");
    assert_eq!(refused(json!({"version": 1})), "te.incarnation");
    assert_eq!(refused(json!({"version": 1, "incarnation": "xyz"})), "te.incarnation");
    assert_eq!(refused(json!({"version": "1", "incarnation": good})), "te.version");
    let transports = json!({"version": 1, "incarnation": good, "transports": []});
    assert_eq!(refused(transports), "te.transports");
    let future = json!({"version": 9, "incarnation": good, "more": [1]});
    assert_eq!(decode(json!({"protocol": "tcp", "te": future})).unwrap().te.unwrap().version, 9);
}

#[test]
fn incarnations_are_random_and_print_as_32_hex_digits() {
    let (one, two) = (Incarnation::random(), Incarnation::random());
    assert_ne!(one, two);
    assert_eq!(one.to_string().len(), 32);
    assert_eq!(one.to_string().parse(), Ok(one));
    assert!("+0000000000000000000000000000000".parse::<Incarnation>().is_err());
    assert!("0".parse::<Incarnation>().is_err());
    assert!(!format!("{one:?}").contains(&one.to_string()));
}

/// A value of any shape, close enough to a descriptor to get past the first checks.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z:*0-9]{0,6}".prop_map(Value::from),
        prop_oneof![Just("tcp"), Just("rdma"), Just("nvmeof")].prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("buffers"),
        Just("devices"),
        Just("protocol"),
        Just("name"),
        Just("addr"),
        Just("length"),
        Just("rkey"),
        Just("lkey"),
        Just("gid"),
        Just("lid"),
        Just("te"),
        Just("priority_matrix"),
        Just("tcp_data_port"),
        Just("local_path_map"),
        Just("file_path"),
        Just("server_name"),
    ];
    leaf.prop_recursive(5, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    // Seeds of failures are printed; a counter-proof shall not write files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = SegmentDescriptor::decode(&bytes);
    }

    #[test]
    fn arbitrary_json_never_panics_and_what_is_read_is_stable(
        mut json in any_json(),
        protocol in prop_oneof![Just("tcp"), Just("rdma"), Just("nvmeof")],
    ) {
        if let Some(object) = json.as_object_mut() {
            object.insert("protocol".into(), protocol.into());
        }
        if let Ok(descriptor) = SegmentDescriptor::decode_value(&json) {
            let again = SegmentDescriptor::decode(&descriptor.encode()).unwrap();
            prop_assert_eq!(again, descriptor);
        }
    }

    #[test]
    fn a_captured_descriptor_with_one_byte_changed_never_panics(
        at in 0..TWO_NICS.len(), byte in any::<u8>(),
    ) {
        let mut bytes = TWO_NICS.to_vec();
        bytes[at] = byte;
        let _ = SegmentDescriptor::decode(&bytes);
    }
}
