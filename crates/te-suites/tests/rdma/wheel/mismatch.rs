//! What the two sides do not tell each other and must have alike: the path MTU and the class of a GID.

use te_segment::Opcode;
use te_suites::wire::{Relay, RelayAnswer};
use te_suites::{Direction, need, now, pattern, say, wait_until};
use te_topology::GidWish;
use te_transport::{Completion, FaultClass};
use te_transport_rdma::{Mismatch, RdmaConfig, compare};
use te_verbs::Mtu;

use super::node::{Wheel, WheelSpec, available};
use crate::host::{Host, PATIENCE, ask_for, config};
use crate::links::nics;
use crate::watched::Watched;

const SIZE: u64 = 1 << 20;
/// Longer than a packet of either side.
const LEN: u64 = 65_536;

/// One slice of ours, how it ended, and our bytes then.
fn run(host: &Host, wheel: &Wheel, name: &str, op: Opcode) -> (Completion, Vec<u8>) {
    let mut bytes = vec![0; usize::try_from(LEN).unwrap()];
    wheel.put(0, &pattern::bytes(5, bytes.len()));
    let buffer = host.offer(bytes.len());
    let peer = ask_for(name).unwrap_or_else(|why| panic!("no descriptor: {why}"));
    let end = host.run(&host.slice(op, buffer.region().whole(), &peer, wheel.address()));
    buffer.region().read_into(0, &mut bytes).unwrap();
    (end, bytes)
}

/// The peer fails within its own limits, and lives.
fn the_peer_fails(wheel: &mut Wheel, host: &Host, what: &str) {
    let buffer = host.offer(usize::try_from(LEN).unwrap());
    let (to, begun) = (buffer.region().address(), now());
    let rc = wheel.transfer(Direction::Write, host.name(), (0, to), LEN);
    say(&format!("row {what}, the peer's write: return code {rc} after {:.1?}", begun.elapsed()));
    assert_ne!(rc, 0, "{what}");
    wheel.lives();
}

fn spec() -> WheelSpec {
    WheelSpec::new("rxe2", SIZE).env("MC_TRANSFER_TIMEOUT", "10")
}

#[test]
fn a_peer_with_another_path_mtu_fails_in_time_and_the_fault_names_the_mtu() {
    // Issue 7, not exchanged: each side takes the least of its port's MTU and its setting. A write is
    // refused by the peer's NIC, a read may wait for packets that never come.
    let test =
        "wheel::mismatch::a_peer_with_another_path_mtu_fails_in_time_and_the_fault_names_the_mtu";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    // With 6 retries our NIC gives up, with 7 only our own patience does.
    let cases = [(Mtu::B4096, "1024", 6), (Mtu::B1024, "4096", 6), (Mtu::B4096, "1024", 7)];
    for (ours, theirs, retries) in cases {
        let mut config = config(nics(0..1));
        config.device.mtu = ours;
        config.connection.retries = retries;
        let host = Host::new(&verbs, config);
        let mut wheel = spec().env("MC_MTU", theirs).start();
        let what = format!("MTU {ours} here, {theirs} there, {retries} retries");
        for op in [Opcode::Write, Opcode::Read] {
            let begun = now();
            let (end, brought) = run(&host, &wheel, wheel.name(), op);
            let took = begun.elapsed();
            assert!(took.as_secs() < 20, "{took:?}");
            let Err(fault) = end.result else {
                // This NIC takes longer packets than it asked for; what counts is that all are here.
                assert_eq!(op, Opcode::Read, "{what}: packets of one side are none of the other");
                assert!(brought == pattern::bytes(5, brought.len()), "{what}: other bytes");
                say(&format!(
                    "row {what}, our {op:?}: done, with the right bytes, after {took:.1?}"
                ));
                continue;
            };
            say(&format!("row {what}, our {op:?}: {fault}, {:?}, after {took:.1?}", end.remote));
            assert_eq!(fault.class, FaultClass::Rail, "{fault}");
            assert!(fault.to_string().contains("path MTU of the two sides may differ"), "{fault}");
        }
        the_peer_fails(&mut wheel, &host, &what);
        wheel.child().kill();
        host.close();
    }
}

/// Takes the GID at this index and no other.
fn with_gid(index: u16) -> RdmaConfig {
    let mut config = config(nics(0..1));
    config.device.gid = GidWish { index: Some(index), ..GidWish::default() };
    config
}

#[test]
fn a_peer_with_a_gid_of_another_class_is_a_named_finding_and_asked_a_few_times() {
    // E57, issue 7, not exchanged, and refusal: the peer refuses our question after it made queue pairs. Our
    // tries are bounded, have pauses between them, and leave nothing behind.
    let test = "wheel::mismatch::a_peer_with_a_gid_of_another_class_is_a_named_finding_and_asked_a_few_times";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let config = with_gid(1);
    let (attempts, pause) = (config.connection.attempts as usize, config.connection.first_backoff);
    let host = Host::new(&verbs, config);
    let wheel = spec().env("MC_GID_INDEX", "0").start();
    let peer = ask_for(wheel.name()).unwrap();
    let found = compare(&host.descriptor(), peer.descriptor());
    say(&format!("row the descriptors tell: {}", found[0]));
    assert!(matches!(found[..], [Mismatch::GidClass { .. }]), "{found:?}");
    let relay = Relay::start(wheel.port(), |_| (), |_, _, a| RelayAnswer::Json(a)).unwrap();
    for op in [Opcode::Write, Opcode::Read] {
        let (before, begun) = (relay.questions().len(), now());
        let (end, _) = run(&host, &wheel, relay.name(), op);
        let (took, asked) = (begun.elapsed(), relay.questions().len() - before);
        let fault = end.result.expect_err("there is no way between the two");
        say(&format!(
            "row GID 1 here, 0 there, our {op:?}: {fault} ({asked} questions, {took:.1?})"
        ));
        assert!(fault.to_string().contains("GIDs are of different classes"), "{fault}");
        assert!((1..=attempts).contains(&asked), "{asked} questions");
        // The pauses double.
        assert!(took >= pause * ((1 << (asked - 1)) - 1), "{asked} questions in {took:?}");
        wait_until(PATIENCE, "queue pairs", || (host.verbs.count() == 0).then_some(()));
    }
    wheel.quit();
    host.close();
}

#[test]
fn a_peer_that_comes_from_a_gid_of_another_class_leaves_no_queue_pair() {
    // E57, issue 7, refusal: it comes about 17 times, each time with fresh queue pairs.
    let test =
        "wheel::mismatch::a_peer_that_comes_from_a_gid_of_another_class_leaves_no_queue_pair";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let host = Host::new(&verbs, with_gid(1));
    let mut wheel = spec().env("MC_GID_INDEX", "0").start();
    for _ in 0..2 {
        the_peer_fails(&mut wheel, &host, "GID 1 here, 0 there");
        say(&format!("row {} questions so far", host.questions().len()));
        wait_until(PATIENCE, "queue pairs", || (host.verbs.count() == 0).then_some(()));
    }
    assert!(host.questions().len() > 2, "it came {} times", host.questions().len());
    let same = WheelSpec::new("rxe3", SIZE).start();
    let (end, _) = run(&host, &same, same.name(), Opcode::Write);
    assert_eq!(end.result, Ok(()), "afterwards a peer with a GID like ours");
    same.quit();
    wheel.quit();
    host.close();
}
