//! Frames against bytes that a real Mooncake peer sent.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().collect();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn check_header(captured: &str, header: Header) {
    let bytes: [u8; HEADER_BYTES] = hex(captured)[..HEADER_BYTES].try_into().unwrap();
    assert_eq!(Header::decode(bytes), Ok(header));
    assert_eq!(header.encode(), bytes);
}

fn header(version: Version, op: Opcode, address: u64, size: u64) -> Header {
    Header { version, op, address, size }
}

/// F3: headers recorded from wheel 0.3.13.post1.
#[test]
fn captured_headers_are_read_and_written_byte_for_byte() {
    let at = 0x7fd7_3479_e010;
    check_header(
        "200000000000000010e07934d77f00000100000000000000",
        header(Version::V1, Opcode::Write, at, 32),
    );
    check_header(
        "200000000000000010e07934d77f00000000000000000000",
        header(Version::V1, Opcode::Read, at, 32),
    );
    check_header(
        "200000000000000010d019c4807f00008100000000000000",
        header(Version::V2, Opcode::Write, 0x7f80_c419_d010, 32),
    );
    check_header(
        "200000000000000010d019c4808000008000000000000000",
        header(Version::V2, Opcode::Read, 0x8080_c419_d010, 32),
    );
    check_header(
        "400d03000000000010d019c4807f00008100000000000000",
        header(Version::V2, Opcode::Write, 0x7f80_c419_d010, 200_000),
    );
}

/// F5: status frames recorded from the same wheel.
#[test]
fn captured_status_frames_are_read_and_written_byte_for_byte() {
    for (captured, status) in
        [("000000005654434d", Status::Ok), ("010000005654434d", Status::REFUSED)]
    {
        let bytes: [u8; STATUS_BYTES] = hex(captured).try_into().unwrap();
        assert_eq!(Status::decode(bytes), Ok(status));
        assert_eq!(status.encode(), bytes);
    }
}

#[test]
fn padding_is_ignored_when_received_and_zero_when_sent() {
    let plain = header(Version::V2, Opcode::Write, 1, 2);
    let mut bytes = plain.encode();
    assert_eq!(bytes[17..], [0; 7]);
    bytes[17..].fill(0xa5);
    assert_eq!(Header::decode(bytes), Ok(plain));
}

/// Peer fault 33.
#[test]
fn fault33_every_other_opcode_is_unknown() {
    for opcode in 0..=u8::MAX {
        let mut bytes = [0; HEADER_BYTES];
        bytes[16] = opcode;
        let known = [0, 1, 0x80, 0x81].contains(&opcode);
        assert_eq!(Header::decode(bytes).is_ok(), known, "opcode {opcode:#x}");
    }
}

/// F13: a v1 peer answers with payload where a status is due.
#[test]
fn other_magic_is_no_status_and_any_other_code_is_a_refusal() {
    assert_eq!(Status::decode([0; 8]), Err(NoStatus));
    assert_eq!(Status::decode(*b"payload."), Err(NoStatus));
    let mut seven = Status::Ok.encode();
    seven[0] = 7;
    assert_eq!(Status::decode(seven), Ok(Status::Refused(7)));
}
