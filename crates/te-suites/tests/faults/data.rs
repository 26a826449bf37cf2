//! The data port under fire.

use te_suites::pattern::Random;
use te_suites::wire::{
    DataClient, Header, STATUS_OK, STATUS_REFUSED, Verdict, descriptor_of, reset_on_close,
};
use te_suites::{Bound, Case, Node, need, say};

use crate::{MIB, serves, target};

const BOTH_READS: [u8; 2] = [0, 0x80];

fn connect(node: &Node) -> DataClient {
    DataClient::of(&descriptor_of(node)).unwrap()
}

#[test]
fn fault23_raw_requests_outside_are_refused_in_both_framings() {
    // Peer fault 23, J50: what no engine would send; every refusal is told where the framing can,
    // and by closing where it cannot.
    let test = "fault23_raw_requests_outside_are_refused_in_both_framings";
    let mut node = need!(test, target());
    node.fill(0, MIB, 0x3c);
    let base = node.addr();
    let case = Case::start("fault 23: raw requests", node.pid());
    let outside = [
        ("far away", base + (1 << 40), 16),
        ("no bytes", base, 0),
        ("wraps", 8_u64.wrapping_neg(), 16),
        ("address 0", 0, 16),
        ("one byte too long", base + 1, MIB),
        ("half the address space", base, 1 << 63),
        ("everything", 0, u64::MAX),
    ];
    for (what, addr, size) in outside {
        for opcode in [0x80, 0x81] {
            let mut client = connect(&node);
            client.send(Header::new(opcode, addr, size), b"");
            let verdict = client.verdict().unwrap();
            assert_eq!(verdict, Verdict::Status(STATUS_REFUSED), "{what}, opcode {opcode:#x}");
        }
        for opcode in [0, 1] {
            let mut client = connect(&node);
            client.send(Header::new(opcode, addr, size), b"");
            assert_eq!(client.verdict().unwrap(), Verdict::Closed, "{what}, opcode {opcode}");
        }
    }
    node.verify_filled(0, MIB, 0x3c);
    serves(&mut node);
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn fault33_unknown_opcodes_are_refused() {
    // Peer fault 33: nothing but 0, 1, 0x80 and 0x81 is served, and memory stays as it was.
    let mut node = need!("fault33_unknown_opcodes_are_refused", target());
    node.fill(0, MIB, 0x3c);
    let case = Case::start("fault 33: unknown opcodes", node.pid());
    for opcode in (0..=255_u8).filter(|opcode| opcode & 0x7f > 1) {
        let mut client = connect(&node);
        client.send(Header::new(opcode, node.addr(), 16), &[0xaa; 16]);
        let came = client.until_closed().unwrap();
        let told = te_suites::wire::status_frame(STATUS_REFUSED);
        assert!(came.is_empty() || came == told, "opcode {opcode:#x}: {came:02x?}");
    }
    node.verify_filled(0, MIB, 0x3c);
    serves(&mut node);
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn the_padding_of_a_header_means_nothing() {
    // F-rows: bytes 17 to 23 are whatever the sender's memory held.
    let mut node = need!("the_padding_of_a_header_means_nothing", target());
    node.pattern(0, 4096, 3);
    for opcode in BOTH_READS {
        let mut client = connect(&node);
        let header = Header { padding: [0xff; 7], ..Header::new(opcode, node.addr(), 100) };
        client.send(header, b"");
        if header.has_status() {
            assert_eq!(client.verdict().unwrap(), Verdict::Status(STATUS_OK));
        }
        assert_eq!(client.payload(100).unwrap(), te_suites::pattern::bytes(3, 100));
    }
    node.quit();
}

#[test]
fn fault30_garbage_on_the_data_port_ends_nothing() {
    // Peer fault 30: random bytes, HTTP, TLS; closed, and nothing kept.
    let mut node = need!("fault30_garbage_on_the_data_port_ends_nothing", target());
    node.fill(0, MIB, 0x3c);
    let case = Case::start("fault 30: garbage, data port", node.pid());
    let mut random = Random::new(33);
    let mut messages = vec![
        b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".to_vec(),
        [&[0x16, 3, 1, 2, 0, 1][..], &[0x5a; 512]].concat(),
        vec![0; 4096],
        vec![0xff; 4096],
    ];
    messages.extend((0..200).map(|_| {
        let len = usize::try_from(random.below(100) + 24).unwrap();
        random.bytes(len)
    }));
    for message in &messages {
        let mut client = connect(&node);
        let _ = std::io::Write::write_all(client.stream(), message);
        // Fails where the other end has closed and reset already, which is what is asked for.
        let _ = client.stream().shutdown(std::net::Shutdown::Write);
        client.until_closed().unwrap();
    }
    node.verify_filled(0, MIB, 0x3c);
    serves(&mut node);
    say(&format!("fault 30: {} messages on the data port", messages.len()));
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn fault31_clients_that_reset_in_the_middle_end_nothing() {
    // Peer fault 31: 200 requests whose sender resets before the answer, or inside the body.
    let mut node = need!("fault31_clients_that_reset_in_the_middle_end_nothing", target());
    serves(&mut node);
    let case = Case::start("fault 31: resets, data port", node.pid());
    let (base, descriptor) = (node.addr(), descriptor_of(&node));
    for i in 0..200_u32 {
        let mut client = DataClient::of(&descriptor).unwrap();
        reset_on_close(client.stream()).unwrap();
        match i % 4 {
            0 => client.send(Header::new(0x80, base, MIB), b""),
            1 => client.send(Header::new(0x81, base, MIB), &[7; 1000]),
            2 => client.send(Header::new(0, base, MIB), b""),
            _ => drop(std::io::Write::write_all(client.stream(), &[0x40; 11])),
        }
    }
    serves(&mut node);
    case.end(Bound::NOTHING);
    node.quit();
}
