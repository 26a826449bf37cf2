//! Addresses and names: the tables of FB15, J3 to J8, A90 and A91.

use proptest::prelude::*;

use super::*;

/// What a text is read as: host and port, or what the error says.
fn check(text: &str, expected: Result<(&str, Option<u16>), &str>) {
    match (HostPort::parse(text), expected) {
        (Ok(found), Ok((host, port))) => {
            assert_eq!((found.host(), found.port()), (host, port), "{text}");
            assert_eq!(found.has_explicit_port(), port.is_some(), "{text}");
            assert_eq!(HostPort::parse(&found.to_string()), Ok(found), "{text}");
        }
        (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{text}: {error}"),
        (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
    }
}

/// FB15: the whole table of inputs, each read as a pair or refused by name.
#[test]
fn fb15_address_table() {
    check("1.2.3.4", Ok(("1.2.3.4", None)));
    check("1.2.3.4:5", Ok(("1.2.3.4", Some(5))));
    check("[::1]", Ok(("::1", None)));
    check("[::1]:5", Ok(("::1", Some(5))));
    check("::1", Ok(("::1", None)));
    check("fe80::1%lo", Ok(("fe80::1%lo", None)));
    check("host", Ok(("host", None)));
    check("host:5", Ok(("host", Some(5))));
    check("host:", Err("\"\" is no port"));
    check("host:99999", Err("\"99999\" is no port"));
    check("", Err("no host"));
}

/// J3, J5, J7: the remaining forms; a port is digits only and 1 to 65535.
#[test]
fn j05_host_and_port_matrix() {
    check("[fe80::1%lo]:5", Ok(("fe80::1%lo", Some(5))));
    check("[fe80::1%lo]", Ok(("fe80::1%lo", None)));
    check("fe80::1%lo:5", Ok(("fe80::1%lo", Some(5))));
    check("2001:db8::8:800:200c:417a", Ok(("2001:db8::8:800:200c:417a", None)));
    check("::ffff:1.2.3.4", Ok(("::ffff:1.2.3.4", None)));
    check("node-1.example_x:65535", Ok(("node-1.example_x", Some(65535))));
    check("host:70000", Err("no port"));
    check("host:0", Err("no port"));
    check("host:+5", Err("no port"));
    check("host:-5", Err("no port"));
    check("host: 5", Err("no port"));
    check("host:5a", Err("no port"));
    check(":5", Err("no host"));
    check("[]:5", Err("no host"));
    check("[::1", Err("brackets"));
    check("[::1]5", Err("brackets"));
    check("[host]:5", Err("no host name"));
    check("[1.2.3.4]:5", Err("no host name"));
    check("a:b:5", Err("no host name"));
    check("[[::1]]:5", Err("brackets"));
    check("ho st:5", Err("no host name"));
    check("rack1/node:5", Err("no host name"));
    check("fe80::1%", Err("no"));
    check("host%lo", Err("no host name"));
    check(&"x".repeat(254), Err("no host name"));
}

/// J4, A90: a missing or illegal port falls back to the default with the host kept.
#[test]
fn j04_lenient_reading_keeps_the_host() {
    for (text, host, port, warns) in [
        ("host", "host", 12001, false),
        ("host:5", "host", 5, false),
        ("::1", "::1", 12001, false),
        ("host:111111", "host", 12001, true),
        ("host:", "host", 12001, true),
        ("host:abc", "host", 12001, true),
        ("[::1]:111111", "::1", 12001, true),
        ("1.2.3.4:0", "1.2.3.4", 12001, true),
        ("", "", 12001, true),
        ("[::1", "::1", 12001, true),
    ] {
        let (address, warning) = HostPort::parse_lenient(text, DEFAULT_PEER_PORT);
        assert_eq!((address.host(), address.port()), (host, Some(port)), "{text}");
        assert_eq!(warning.is_some(), warns, "{text}");
    }
}

/// J6: IPv6 hosts are bracketed when a port follows and never twice.
#[test]
fn j06_printing_brackets_once() {
    let print = |host, port| HostPort::new(host, port).unwrap().to_string();
    assert_eq!(print("::1", Some(5)), "[::1]:5");
    assert_eq!(print("[::1]", Some(5)), "[::1]:5");
    assert_eq!(print("[::1]", None), "::1");
    assert_eq!(print("fe80::1%lo", Some(5)), "[fe80::1%lo]:5");
    assert_eq!(print("1.2.3.4", Some(5)), "1.2.3.4:5");
    assert_eq!(print("host", None), "host");
    assert!(HostPort::new("1:2:3", None).is_err());
    assert!(HostPort::new("host", Some(0)).is_err());
    let socket: std::net::SocketAddr = "[::1]:7".parse().unwrap();
    assert_eq!(HostPort::from(socket).to_string(), "[::1]:7");
}

/// A91: same host is a question of text without case, brackets and port.
#[test]
fn a91_same_host_ignores_case_brackets_and_port() {
    let host = |text| HostPort::parse(text).unwrap();
    assert!(host("Node-A:1").is_same_host(&host("node-a")));
    assert!(host("[::1]:1").is_same_host(&host("::1")));
    assert!(host("FE80::A%lo").is_same_host(&host("[fe80::a%lo]:9")));
    assert!(!host("node-a:1").is_same_host(&host("node-b:1")));
    assert_eq!(host("a:1").with_port(2), host("a:2"));
    assert_eq!(host("a").port_or(7), 7);
}

#[test]
fn literals_resolve_without_a_resolver_and_families_filter() {
    let v6 = HostPort::parse("[::1]:7").unwrap();
    assert_eq!(v6.resolve(1, AddressFamily::Any).unwrap(), ["[::1]:7".parse().unwrap()]);
    assert!(v6.resolve(1, AddressFamily::V4).unwrap_err().to_string().contains("IPv4"));
    let v4 = HostPort::parse("127.0.0.1").unwrap();
    assert_eq!(v4.resolve(9, AddressFamily::V4).unwrap(), ["127.0.0.1:9".parse().unwrap()]);
    let name = HostPort::parse("localhost").unwrap();
    assert!(name.resolve(9, AddressFamily::Any).unwrap().iter().all(|a| a.ip().is_loopback()));
    let scoped = HostPort::parse("[fe80::1%lo]:7").unwrap();
    let found = scoped.resolve(1, AddressFamily::V6).unwrap();
    assert!(matches!(found[0], std::net::SocketAddr::V6(v6) if v6.scope_id() != 0), "{found:?}");
}

/// J8: the port of an accelerator.
#[test]
fn j08_port_with_device_suffix() {
    let read = |text| parse_device_port(text).map(|found| (found.port, found.device));
    assert_eq!(read("9000:npu_2"), Ok((9000, Some(2))));
    assert_eq!(read("9000"), Ok((9000, None)));
    assert_eq!(read("9000:2"), Ok((9000, None)));
    assert_eq!(read("9000:gpu_2"), Ok((9000, None)));
    assert_eq!(read("9000:npu_x"), Ok((9000, Some(0))));
    assert!(read("x:npu_2").is_err());
    assert!(read("70000:npu_2").is_err());
}

/// J31 (name part), A19: leading slashes go, the rest stays.
#[test]
fn j31_segment_names() {
    let parse = SegmentName::parse;
    assert_eq!(parse("/node-a").unwrap().as_str(), "node-a");
    assert_eq!(parse("nvmeof/vol0").unwrap().as_str(), "nvmeof/vol0");
    assert_eq!(parse("127.0.0.1:12").unwrap().host_port().unwrap().port(), Some(12));
    assert_eq!(parse(""), Err(ParseNameError::Empty));
    assert_eq!(parse("/"), Err(ParseNameError::Empty));
    assert_eq!(parse("a\nb"), Err(ParseNameError::ControlCharacter { position: 1 }));
    assert_eq!(parse(&"x".repeat(1025)), Err(ParseNameError::TooLong { bytes: 1025 }));
    assert!(parse(&"x".repeat(1024)).is_ok());
    assert!(parse("rack1/node").unwrap().host_port().is_err());
}

proptest! {
    // Seeds of failures are printed; a counter-proof shall not write files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_never_panics_and_printing_is_stable(text in "[\\[\\]:%.0-9a-f ]{0,20}") {
        if let Ok(address) = HostPort::parse(&text) {
            prop_assert_eq!(HostPort::parse(&address.to_string()).unwrap(), address);
        }
        let _ = HostPort::parse_lenient(&text, 1);
        let _ = parse_device_port(&text);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _ = HostPort::parse(&text);
        let _ = HostPort::parse_lenient(&text, 1);
        let _ = SegmentName::parse(&text);
    }
}
