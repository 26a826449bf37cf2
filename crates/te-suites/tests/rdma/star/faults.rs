//! Each fault of docs/rdma-faults.md: what is under way ends in a state and within a time of the
//! table, and traffic goes on without a restart.

use std::sync::Barrier;
use std::time::Duration;

use te_metadata::{ProtocolPart, Rkey};
use te_segment::Opcode;
use te_suites::{need, now, pace, say, wait_until};
use te_transport::Transport;

use super::scene::{Heal, Scene};
use crate::carry::{Piece, TRIES, carry};
use crate::host::{PATIENCE, segment_of};
use crate::links::{Broken, nic};
use crate::table::{row, words};
use crate::watched::Watched;

fn nothing<'a>() -> Heal<'a> {
    Box::new(|_| ())
}

/// A link of one of the devices goes down and stays so until what was under way has ended.
fn link_down(test: &str, fault: &str, n_nics: usize, device: usize) {
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, n_nics).breaks(fault, |_| {
        let broken = Broken::down(&nic(device));
        Box::new(|_| broken.mend())
    });
}

#[test]
fn fault03_our_only_link_goes_down() {
    // Peer fault 3.
    link_down("star::faults::fault03_our_only_link_goes_down", "own-link-down", 1, 0);
}

#[test]
fn j96_one_of_our_two_links_goes_down_and_no_request_fails() {
    // J96: another NIC is used.
    let test = "star::faults::j96_one_of_our_two_links_goes_down_and_no_request_fails";
    link_down(test, "own-link-down", 2, 0);
}

#[test]
fn the_only_link_of_the_peer_goes_down() {
    link_down("star::faults::the_only_link_of_the_peer_goes_down", "peer-link-down", 1, 4);
}

#[test]
fn j96_one_of_the_two_links_of_the_peer_goes_down_and_no_request_fails() {
    // J96: another NIC of the peer is used.
    let test = "star::faults::j96_one_of_the_two_links_of_the_peer_goes_down_and_no_request_fails";
    link_down(test, "peer-link-down", 2, 4);
}

/// The link is away for 0.3 s.
fn flap(test: &str, fault: &str, device: usize) {
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, 1).breaks(fault, |_| {
        let broken = Broken::down(&nic(device));
        pace(Duration::from_millis(300));
        broken.mend();
        nothing()
    });
}

#[test]
fn fault03_our_only_link_flaps() {
    // Peer fault 3: the published peer takes 31 s.
    flap("star::faults::fault03_our_only_link_flaps", "own-link-flaps", 0);
}

#[test]
fn the_only_link_of_the_peer_flaps() {
    flap("star::faults::the_only_link_of_the_peer_flaps", "peer-link-flaps", 4);
}

#[test]
fn our_queue_pairs_fail() {
    let test = "star::faults::our_queue_pairs_fail";
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, 1).breaks("own-queue-pairs-fail", |scene| {
        scene.a.verbs.fail_all();
        nothing()
    });
}

#[test]
fn the_queue_pairs_of_the_peer_fail() {
    let test = "star::faults::the_queue_pairs_of_the_peer_fail";
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, 1).breaks("peer-queue-pairs-fail", |scene| {
        scene.b.verbs.fail_all();
        nothing()
    });
}

fn destroyed(test: &str, n_nics: usize) {
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, n_nics).breaks("peer-queue-pairs-destroyed", |scene| {
        scene.b.verbs.forget_all();
        nothing()
    });
}

#[test]
fn the_queue_pairs_of_the_peer_are_destroyed() {
    destroyed("star::faults::the_queue_pairs_of_the_peer_are_destroyed", 1);
}

#[test]
fn the_queue_pairs_of_the_peer_are_destroyed_and_no_request_fails_with_two_nics() {
    let test = "star::faults::the_queue_pairs_of_the_peer_are_destroyed_and_no_request_fails_with_two_nics";
    destroyed(test, 2);
}

/// Everything that one of our devices sends is lost; its port stays active.
fn loss(test: &str, n_nics: usize) {
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, n_nics).breaks("loss-100-for-10-s", |_| {
        let (broken, begun) = (Broken::losing(&nic(0), 100), now());
        Box::new(move |_| {
            pace(Duration::from_secs(10).saturating_sub(begun.elapsed()));
            broken.mend();
        })
    });
}

#[test]
fn all_packets_of_the_only_nic_are_lost_for_ten_seconds() {
    loss("star::faults::all_packets_of_the_only_nic_are_lost_for_ten_seconds", 1);
}

#[test]
fn all_packets_of_one_of_two_nics_are_lost_and_no_request_fails() {
    loss("star::faults::all_packets_of_one_of_two_nics_are_lost_and_no_request_fails", 2);
}

#[test]
fn a_packet_of_a_hundred_is_lost_and_no_request_fails() {
    let test = "star::faults::a_packet_of_a_hundred_is_lost_and_no_request_fails";
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, 1).breaks("loss-1", |_| {
        let broken = Broken::losing(&nic(0), 1);
        Box::new(|_| broken.mend())
    });
}

#[test]
fn the_peer_unregisters_in_mid_transfer() {
    let test = "star::faults::the_peer_unregisters_in_mid_transfer";
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, 1).breaks("unregistered-at-the-peer", |scene| {
        scene.b.rdma().deregister(&scene.target);
        Box::new(|scene| scene.b.rdma().register(&scene.target).unwrap())
    });
}

#[test]
fn we_unregister_in_mid_transfer() {
    let test = "star::faults::we_unregister_in_mid_transfer";
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, 1).breaks("unregistered-here", |scene| {
        scene.a.rdma().deregister(&scene.local);
        Box::new(|scene| scene.a.rdma().register(&scene.local).unwrap())
    });
}

#[test]
fn fault04_the_peer_is_killed() {
    // Peer fault 4: it neither answers nor says goodbye. Another takes its name and port.
    let verbs = need!("star::faults::fault04_the_peer_is_killed", Watched::with_devices(8));
    let world = verbs.clone();
    Scene::new(&verbs, 1).breaks("peer-killed", move |scene| {
        scene.b.die();
        Box::new(move |scene| scene.replace_the_peer(&world))
    });
}

#[test]
fn a_bad_key_is_an_error_and_the_next_connection_works() {
    let test = "star::faults::a_bad_key_is_an_error_and_the_next_connection_works";
    let verbs = need!(test, Watched::with_devices(8));
    let row = row("bad-key", 1);
    let scene = Scene::new(&verbs, 1);
    let mut descriptor = scene.b.descriptor();
    let ProtocolPart::Rdma { buffers, .. } = &mut descriptor.part else { panic!("not RDMA") };
    let keys = buffers.iter_mut().flat_map(|buffer| &mut buffer.rkeys);
    keys.for_each(|key| *key = Rkey::new(key.value() ^ 0x55_5500));
    let wrong = segment_of(scene.b.name(), descriptor);
    for op in [Opcode::Write, Opcode::Read] {
        let local = scene.local.region().range(0, 4096).unwrap();
        let begun = now();
        let end = scene.a.run(&scene.a.slice(op, local, &wrong, scene.target.region().address()));
        let words = words(&end);
        assert!(row.ends.contains(&words), "`{words}` is not in the table: {end:?}");
        assert!(begun.elapsed() <= row.within, "{:?}", begun.elapsed());
        scene.goes_on("bad-key", &row);
    }
}

#[test]
fn both_sides_reconnect_at_once_a_hundred_times() {
    // Issue 7, J95: one connection, whoever was first, and bytes both ways.
    let test = "star::faults::both_sides_reconnect_at_once_a_hundred_times";
    let verbs = need!(test, Watched::with_devices(8));
    let row = row("both-reconnect-at-once", 1);
    let scene = Scene::new(&verbs, 1);
    let (back, home) = (scene.b.offer(4096), scene.a.offer(4096));
    let begun = now();
    for round in 0..100_u8 {
        scene.local.region().write_from(0, &[round; 4096]).unwrap();
        back.region().write_from(0, &[!round; 4096]).unwrap();
        scene.a.verbs.fail_all();
        scene.b.verbs.fail_all();
        let start = Barrier::new(2);
        let ours = Piece {
            op: Opcode::Write,
            local: scene.local.region().range(0, 4096).unwrap(),
            remote: scene.target.region().address(),
        };
        let theirs = Piece {
            op: Opcode::Write,
            local: back.region().whole(),
            remote: home.region().address(),
        };
        let (a, b) = (&scene.a, &scene.b);
        std::thread::scope(|scope| {
            for (here, there, piece) in [(a, b, ours), (b, a, theirs)] {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let find = || there.remote();
                    let limits = (TRIES, row.within);
                    let carried = carry(here, &find, &[piece], limits, &mut |_| ());
                    assert!(carried.failed.is_empty(), "round {round}: {:?}", carried.failed);
                });
            }
        });
        let bytes = |buffer: &te_segment::LocalBuffer| {
            let mut bytes = [0; 4096];
            buffer.region().read_into(0, &mut bytes).unwrap();
            bytes
        };
        assert_eq!((bytes(&scene.target), bytes(&home)), ([round; 4096], [!round; 4096]));
        wait_until(PATIENCE, "one connection", || {
            ((a.verbs.count(), b.verbs.count()) == (2, 2)).then_some(())
        });
    }
    say(&format!("row both sides reconnected 100 times in {:.1?}", begun.elapsed()));
}
