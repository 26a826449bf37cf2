//! Requests from somebody who wants more than was offered.

use te_suites::pattern::Random;
use te_suites::wire::{
    DataClient, Header, STATUS_OK, STATUS_REFUSED, Verdict, descriptor_of, reset_on_close,
};
use te_suites::{Answer, Bound, Case, Direction, Node, NodeSpec, Pair, Version, need, say};

use serde_json::json;

use crate::{MIB, OURS, amount};

/// Where the kernel has put the stack and the heap of a process.
fn mapping(pid: u32, name: &str) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.ends_with(name));
    let line = line.unwrap_or_else(|| panic!("process {pid} has no {name}"));
    u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()
}

fn register(node: &mut Node, addr: u64, len: u64, remote: &str) -> Answer {
    node.ask(&json!({ "op": "reg", "addr": addr, "len": len, "remote": remote })).ok()
}

fn verdict(node: &Node, header: Header) -> Verdict {
    let mut client = DataClient::of(&descriptor_of(node)).unwrap();
    client.send(header, b"");
    client.verdict().unwrap()
}

#[test]
fn fb32_nothing_but_what_was_offered_can_be_reached() {
    // FB32: addresses that a raw client makes up; each is refused before any byte is moved or
    // allocated.
    let test = "fb32_nothing_but_what_was_offered_can_be_reached";
    need!(test, OURS.0.available());
    let mut node = NodeSpec::new(OURS.0, MIB).start();
    let (base, pid) = (node.addr(), node.pid());
    // Memory that nobody registered, and memory registered for local use only.
    let canary = node.alloc(MIB);
    let closed = node.alloc(MIB);
    for addr in [canary, closed] {
        node.ask(&json!({ "op": "fill", "addr": addr, "len": MIB, "byte": 0x55 })).ok();
    }
    register(&mut node, closed, MIB, "none");
    node.fill(0, MIB, 0x3c);
    let case = Case::start("FB32: raw requests", pid);
    let attacks = [
        ("address 0", 0, 8),
        ("the stack", mapping(pid, "[stack]"), 4096),
        ("the heap", mapping(pid, "[heap]"), 4096),
        ("the last byte and the one behind", base + MIB - 1, 2),
        ("the byte in front", base - 1, 1),
        ("the byte in front and the first", base - 1, 2),
        ("around the end of memory", 4096_u64.wrapping_neg(), 8192),
        ("2^63 bytes", base, 1 << 63),
        ("every byte", base, u64::MAX),
        ("a wrap back to the start", base, 1_u64.wrapping_neg() - base + 1),
        ("unregistered memory", canary, 64),
        ("memory for local use", closed, 64),
        ("no bytes", base, 0),
    ];
    for (what, addr, size) in attacks {
        for opcode in [0x80, 0x81] {
            let told = verdict(&node, Header::new(opcode, addr, size));
            assert_eq!(told, Verdict::Status(STATUS_REFUSED), "{what}, opcode {opcode:#x}");
        }
        for opcode in [0, 1] {
            let told = verdict(&node, Header::new(opcode, addr, size));
            assert_eq!(told, Verdict::Closed, "{what}, opcode {opcode}");
        }
    }
    node.verify_filled(0, MIB, 0x3c);
    for addr in [canary, closed] {
        let count = json!({ "op": "count", "addr": addr, "len": MIB, "byte": 0x55 });
        assert_eq!(node.ask(&count).ok().number("n"), MIB);
    }
    case.end(Bound::NOTHING);
    node.quit();
}

/// A header that is near the truth, so that every border is met often.
fn near(random: &mut Random, base: u64) -> Header {
    let edge = [base, base + MIB, 0, u64::MAX, base + MIB / 2][index(random, 5)];
    let addr = match random.below(4) {
        0 => random.word(),
        _ => edge.wrapping_add(random.below(33)).wrapping_sub(16),
    };
    let size = match random.below(4) {
        0 => random.word(),
        1 => random.below(2 * MIB),
        _ => random.below(64),
    };
    let opcode = match random.below(4) {
        0 => u8::try_from(random.below(256)).unwrap(),
        _ => [0, 1, 0x80, 0x81][index(random, 4)],
    };
    let mut padding = [0; 7];
    padding.copy_from_slice(&random.bytes(7));
    Header { size, addr, opcode, padding }
}

fn index(random: &mut Random, n: u64) -> usize {
    usize::try_from(random.below(n)).unwrap()
}

/// What a server must do with a header.
fn is_good(header: &Header, base: u64) -> bool {
    let end = header.addr.checked_add(header.size);
    let inside = header.addr >= base && end.is_some_and(|end| end <= base + MIB);
    inside && header.size > 0 && header.opcode & 0x7f <= 1
}

/// Sends one header and checks the whole answer; gives whether the connection is still good.
fn probe(client: &mut DataClient, header: Header, base: u64) -> bool {
    if !is_good(&header, base) {
        client.send(header, b"");
        let told = client.verdict().unwrap();
        let allowed = if header.has_status() && header.opcode & 0x7f <= 1 {
            told == Verdict::Status(STATUS_REFUSED)
        } else {
            told == Verdict::Closed || told == Verdict::Status(STATUS_REFUSED)
        };
        assert!(allowed, "{header:?}: {told:?}");
        return false;
    }
    let size = usize::try_from(header.size).unwrap();
    let body = if header.is_write() { vec![0x3c; size] } else { Vec::new() };
    client.send(header, &body);
    if header.has_status() {
        assert_eq!(client.verdict().unwrap(), Verdict::Status(STATUS_OK), "{header:?}");
    }
    if !header.is_write() {
        let bytes = client.payload(size).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0x3c), "{header:?}");
    }
    true
}

#[test]
fn fb32_any_header_gets_the_answer_that_it_deserves() {
    // FB32: headers at random, each answer compared with what the rules say.
    let test = "fb32_any_header_gets_the_answer_that_it_deserves";
    need!(test, OURS.0.available());
    let n = amount(test, 1_000_000, 20_000);
    let mut node = NodeSpec::new(OURS.0, MIB).start();
    let canary = node.alloc(MIB);
    node.ask(&json!({ "op": "fill", "addr": canary, "len": MIB, "byte": 0x55 })).ok();
    node.fill(0, MIB, 0x3c);
    let descriptor = descriptor_of(&node);
    let case = Case::start("FB32: random headers", node.pid());
    let mut random = Random::new(32);
    let mut client = None;
    let mut good = 0;
    for _ in 0..n {
        let mut connection = client.take().unwrap_or_else(|| {
            let mut fresh = DataClient::of(&descriptor).unwrap();
            reset_on_close(fresh.stream()).unwrap();
            fresh
        });
        if probe(&mut connection, near(&mut random, node.addr()), node.addr()) {
            good += 1;
            client = Some(connection);
        }
    }
    drop(client);
    say(&format!("{test}: {n} headers, {good} of them good"));
    node.verify_filled(0, MIB, 0x3c);
    let count = json!({ "op": "count", "addr": canary, "len": MIB, "byte": 0x55 });
    assert_eq!(node.ask(&count).ok().number("n"), MIB);
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn j112_memory_for_local_use_is_reached_by_no_peer() {
    // J112, FB32: registered without remote access, or for reading only; it still serves as the
    // source and destination of our own requests.
    let test = "j112_memory_for_local_use_is_reached_by_no_peer";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let (closed, readable) = (pair.target.alloc(MIB), pair.target.alloc(MIB));
    register(&mut pair.target, closed, MIB, "none");
    register(&mut pair.target, readable, MIB, "read");
    let (target, src) = (pair.target.name().to_owned(), pair.initiator.addr());
    for dir in Direction::BOTH {
        pair.initiator.transfer(dir, &target, (src, closed), 64).refused();
    }
    pair.initiator.read(&target, src, readable, 64).ok();
    pair.initiator.write(&target, src, readable, 64).refused();
    let told = verdict(&pair.target, Header::new(0x81, readable, 64));
    assert_eq!(told, Verdict::Status(STATUS_REFUSED));
    let back = pair.initiator.name().to_owned();
    let there = pair.initiator.addr();
    pair.initiator.pattern(0, MIB, 112);
    for own in [closed, readable] {
        pair.target.read(&back, own, there, MIB).ok();
        let check = json!({ "op": "verify", "addr": own, "len": MIB, "seed": 112 });
        assert_eq!(pair.target.ask(&check).ok().number("bad"), 0);
        pair.target.write(&back, own, there, MIB).ok();
    }
    pair.quit();
}
