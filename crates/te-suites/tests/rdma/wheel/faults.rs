//! Links that go down and processes that restart while bytes move between the peer and us.

use std::time::Duration;

use te_suites::{Direction, need, now, retry_shim, say};
use te_transport::testing::Recorder;

use super::node::{WheelSpec, available};
use super::pair::{Caller, Ends, Pair};
use crate::carry::{TRIES, carry};
use crate::host::{Host, PATIENCE, ask_for, config};
use crate::links::{Broken, nic, nics};
use crate::watched::Watched;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 66 * MIB;
const MANY: Ends = Ends { here: 4096, there: 8192, len: 64 * MIB };
const FEW: Ends = Ends { here: 4096, there: 8192, len: 3 * MIB + 5 };

/// The peer, whose NICs give up.
fn yielding(devices: &str) -> Result<WheelSpec, String> {
    let shim =
        retry_shim().ok_or("TE_RETRY_SHIM names no file; `cargo xtask suite rdma` makes it")?;
    Ok(WheelSpec::new(devices, SIZE).env("LD_PRELOAD", &shim.display().to_string()))
}

/// A link goes down while we move 64 MiB; every request is done.
fn link_down_under_ours(test: &str, device: usize) {
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let pair = Pair::with(&verbs, 2, &need!(test, yielding("rxe2,rxe3")));
    for direction in Direction::BOTH {
        let comes = Pair::comes(Caller::We, direction);
        pair.prepare(comes, MANY, 7);
        let (mut broken, mut at) = (None, now());
        let find = || ask_for(pair.wheel.name()).unwrap_or_else(|why| panic!("{why}"));
        let pieces = pair.pieces(direction, MANY);
        let carried = carry(&pair.host, &find, &pieces, (TRIES, PATIENCE), &mut |done| {
            if done >= 4 && broken.is_none() {
                at = now();
                broken = Some(Broken::down(&nic(device)));
            }
        });
        let took = at.elapsed();
        assert!(carried.failed.is_empty(), "{direction:?}: {:?}", carried.failed);
        pair.has_arrived(comes, MANY, 7);
        broken.expect("the fault came").mend();
        say(&format!("row {direction:?}: all done {took:.1?} after rxe{device} went down"));
    }
    pair.quit();
}

#[test]
fn one_of_our_links_goes_down_while_we_call() {
    link_down_under_ours("wheel::faults::one_of_our_links_goes_down_while_we_call", 0);
}

#[test]
fn one_of_the_peers_links_goes_down_while_we_call() {
    link_down_under_ours("wheel::faults::one_of_the_peers_links_goes_down_while_we_call", 2);
}

/// A link goes down while the peer moves 64 MiB.
fn link_down_under_theirs(test: &str, device: usize) {
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let mut pair = Pair::with(&verbs, 2, &need!(test, yielding("rxe2,rxe3")));
    pair.moves(Caller::TheWheel, Direction::Write, FEW, 1);
    let comes = Pair::comes(Caller::TheWheel, Direction::Write);
    pair.prepare(comes, MANY, 7);
    let to = pair.buffer.region().address() + MANY.here;
    let command =
        pair.wheel.command(Direction::Write, pair.host.name(), (MANY.there, to), MANY.len);
    pair.wheel.send(&command);
    // Its first bytes are here: the transfer is under way.
    te_suites::wait_until(PATIENCE, "the first bytes", || {
        let mut byte = [0];
        pair.buffer.region().read_into(MANY.here + MIB, &mut byte).unwrap();
        (byte != [0xee]).then_some(())
    });
    let at = now();
    let broken = Broken::down(&nic(device));
    assert_eq!(pair.wheel.answer(), 0, "the peer's request");
    let took = at.elapsed();
    pair.has_arrived(comes, MANY, 7);
    broken.mend();
    say(&format!("row the peer was done {took:.1?} after rxe{device} went down"));
    pair.quit();
}

#[test]
fn one_of_our_links_goes_down_while_the_peer_calls() {
    link_down_under_theirs("wheel::faults::one_of_our_links_goes_down_while_the_peer_calls", 0);
}

#[test]
fn one_of_the_peers_links_goes_down_while_the_peer_calls() {
    link_down_under_theirs(
        "wheel::faults::one_of_the_peers_links_goes_down_while_the_peer_calls",
        2,
    );
}

/// Lets a port be taken again at once, which the peer does not ask for.
fn forget_closed_connections() {
    std::fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0").expect("this is a guest");
}

#[test]
fn fault13_j95_we_reach_a_peer_that_was_restarted_at_its_port() {
    // J95, peer fault 13: the peer comes back under its name with other queue pairs, keys and addresses.
    let test = "wheel::faults::fault13_j95_we_reach_a_peer_that_was_restarted_at_its_port";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    forget_closed_connections();
    let mut pair = Pair::new(&verbs, 1, SIZE);
    pair.moves(Caller::We, Direction::Write, FEW, 1);
    let port = pair.wheel.port();
    let before = pair.wheel.name().to_owned();
    pair.wheel.child().kill();
    pair.wheel = WheelSpec::new("rxe2", SIZE).port(port).start();
    assert_eq!(pair.wheel.name(), before, "the same name and port");
    let at = now();
    pair.moves(Caller::We, Direction::Write, FEW, 2);
    say(&format!("row our first write to the restarted peer was done after {:.1?}", at.elapsed()));
    pair.moves(Caller::We, Direction::Read, FEW, 3);
    pair.moves(Caller::TheWheel, Direction::Write, FEW, 4);
    pair.quit();
}

/// Our host comes back under its name, with other memory; the return code of the peer's next write.
fn write_to_our_successor(pair: Pair, verbs: &Watched) -> (Pair, i64) {
    let Pair { host, wheel, buffer } = pair;
    let port = host.port();
    host.close();
    drop(buffer);
    let host = Host::at(verbs, config(nics(0..1)), port, Recorder::new());
    let buffer = host.offer(usize::try_from(SIZE).unwrap());
    let mut pair = Pair { host, wheel, buffer };
    pair.prepare(true, FEW, 2);
    let to = pair.buffer.region().address() + FEW.here;
    let name = pair.host.name().to_owned();
    let rc = pair.wheel.transfer(Direction::Write, &name, (FEW.there, to), FEW.len);
    (pair, rc)
}

#[test]
fn fault13_j95_a_peer_whose_nics_give_up_reaches_us_after_our_restart() {
    // J95, peer fault 13: with 6 retries; our port is free at once.
    let test = "wheel::faults::fault13_j95_a_peer_whose_nics_give_up_reaches_us_after_our_restart";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let mut pair = Pair::with(&verbs, 1, &need!(test, yielding("rxe2")));
    pair.moves(Caller::TheWheel, Direction::Write, FEW, 1);
    let (pair, rc) = write_to_our_successor(pair, &verbs);
    assert_eq!(rc, 0);
    pair.has_arrived(true, FEW, 2);
    pair.quit();
}

#[test]
fn a_peer_whose_nics_never_give_up_does_not_reach_us_after_our_restart() {
    // Issue 7: the peer's failure is the expected result; an engine of ours has a deadline of its own.
    let test = "wheel::faults::a_peer_whose_nics_never_give_up_does_not_reach_us_after_our_restart";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let spec = WheelSpec::new("rxe2", SIZE).env("MC_TRANSFER_TIMEOUT", "10");
    let mut pair = Pair::with(&verbs, 1, &spec);
    pair.moves(Caller::TheWheel, Direction::Write, FEW, 1);
    let (mut pair, rc) = write_to_our_successor(pair, &verbs);
    say(&format!("row the peer's return code with 7 retries is {rc}"));
    assert_ne!(rc, 0);
    pair.wheel.lives();
    pair.wheel.child().kill();
    pair.host.close();
}

#[test]
fn our_only_link_flaps_and_we_reach_the_peer_when_it_is_back() {
    // E55, issue 7: ours is back within 2 s of the port; the peer's own NIC sees nothing of it.
    let test = "wheel::faults::our_only_link_flaps_and_we_reach_the_peer_when_it_is_back";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let mut pair = Pair::new(&verbs, 1, SIZE);
    pair.moves(Caller::We, Direction::Write, FEW, 1);
    let broken = Broken::down(&nic(0));
    te_suites::pace(Duration::from_millis(300));
    broken.mend();
    let active = now();
    pair.prepare(false, FEW, 2);
    let pieces = pair.pieces(Direction::Write, FEW);
    let find = || ask_for(pair.wheel.name()).unwrap_or_else(|why| panic!("{why}"));
    loop {
        let carried = carry(&pair.host, &find, &pieces[..1], (1, PATIENCE), &mut |_| ());
        if carried.failed.is_empty() {
            break;
        }
        let gone = active.elapsed();
        assert!(gone < Duration::from_secs(2), "not back after {gone:?}: {:?}", carried.failed);
    }
    say(&format!("row back {:.1?} after the port was active", active.elapsed()));
    pair.we_move(Direction::Write, FEW);
    pair.has_arrived(false, FEW, 2);
    pair.quit();
}
