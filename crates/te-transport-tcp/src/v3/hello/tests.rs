//! Hello and answer, byte by byte.

use proptest::prelude::*;

use super::*;

fn hello() -> Hello {
    Hello {
        version: 3,
        offered: 1,
        required: 0,
        wanted: 256,
        from: Incarnation::from_u128(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100),
        to: Incarnation::from_u128(u128::MAX - 1),
        session: 0x1122_3344_5566_7788,
        connection: 7,
        fence: 6,
    }
}

/// The layout of docs/wire.md §5.2, written down by hand.
#[test]
fn a_hello_has_the_documented_bytes() {
    let mut bytes = vec![128, 0, 0, 0, b'T', b'E', b'3', 0xfe];
    bytes.extend([0xff; 8]);
    bytes.extend([0x80, 3, 0, 0]);
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    bytes.extend(0u8..16);
    bytes.push(0xfe);
    bytes.extend([0xff; 15]);
    bytes.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    bytes.extend([7, 0, 0, 0, 6, 0, 0, 0]);
    bytes.extend([0; 44]);
    let crc = crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    assert_eq!(hello().encode().as_slice(), bytes);
    assert_eq!(Hello::decode(hello().encode()), Ok(hello()));
}

#[test]
fn an_answer_has_the_documented_bytes() {
    let answer = Answer {
        code: AnswerCode::Busy,
        features: 1,
        credit: 0x0102_0304,
        target: Incarnation::from_u128(1 << 120),
        fenced: 9,
    };
    let mut bytes = b"TE3A\x03\x00\x04\x00\x01\x00\x00\x00\x04\x03\x02\x01".to_vec();
    bytes.extend([0; 15]);
    bytes.extend([1, 9, 0, 0, 0]);
    bytes.extend([0; 24]);
    let crc = crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    assert_eq!(answer.encode().as_slice(), bytes);
    assert_eq!(Answer::decode(answer.encode()), Ok(answer));
}

/// A server of version 1 or 2 must refuse the first 24 bytes at once: the size is larger than any
/// buffer, size and address wrap, and a read brings no body.
#[test]
fn to_an_old_server_a_hello_is_a_read_that_it_refuses() {
    let bytes = hello().encode();
    let first: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().unwrap();
    assert!(is_hello(&first));
    let header = crate::frame::Header::decode(first).unwrap();
    assert_eq!((header.version, header.op), (crate::frame::Version::V2, te_segment::Opcode::Read));
    assert!(header.size > 1 << 63);
    assert_eq!(header.address.checked_add(header.size), None);
}

#[test]
fn codes_have_their_numbers() {
    for number in 0..6 {
        let code = AnswerCode::from_number(number);
        assert!(!matches!(code, AnswerCode::Unknown(_)));
        assert_eq!(code.number(), number);
    }
    assert_eq!(AnswerCode::from_number(6), AnswerCode::Unknown(6));
    assert_eq!(AnswerCode::Unknown(700).number(), 700);
}

#[test]
fn a_hello_of_another_length_is_none() {
    let mut bytes = hello().encode();
    bytes[0] = 129;
    assert_eq!(Hello::decode(sealed(bytes)), Err(Malformed("a hello of another length")));
}

proptest! {
    #[test]
    fn one_changed_bit_is_noticed(at in 0usize..128, bit in 0u8..8) {
        let mut bytes = hello().encode();
        bytes[at] ^= 1 << bit;
        prop_assert!(Hello::decode(bytes).is_err());
        let mut bytes = [0; ANSWER_BYTES];
        bytes[at / 2] ^= 1 << bit;
        prop_assert!(Answer::decode(bytes).is_err());
    }

    #[test]
    fn any_hello_survives_the_trip(
        (version, offered, required, wanted) in any::<(u8, u32, u32, u32)>(),
        (from, to) in any::<(u128, u128)>(),
        (session, connection, fence) in any::<(u64, u32, u32)>(),
    ) {
        let (from, to) = (Incarnation::from_u128(from), Incarnation::from_u128(to));
        let hello =
            Hello { version, offered, required, wanted, from, to, session, connection, fence };
        prop_assert_eq!(Hello::decode(hello.encode()), Ok(hello));
    }

    #[test]
    fn arbitrary_bytes_are_no_hello(first in any::<[u8; 24]>()) {
        // Three out of 2^104; a header whose size and address would be served never is one.
        let header = crate::frame::Header::decode(first);
        if header.is_ok_and(|header| header.address.checked_add(header.size).is_some()) {
            prop_assert!(!is_hello(&first));
        }
    }
}
