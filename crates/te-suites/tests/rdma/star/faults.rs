//! Each fault of docs/rdma-faults.md: what is under way ends in a state and within a time of the
//! table, and traffic goes on without a restart.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::time::Duration;

use te_metadata::{ProtocolPart, Rkey};
use te_segment::{LocalBuffer, Opcode};
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
fn our_only_link_goes_down() {
    link_down("star::faults::our_only_link_goes_down", "own-link-down", 1, 0);
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
fn our_only_link_flaps() {
    // Issue 7: the published peer takes 31 s.
    flap("star::faults::our_only_link_flaps", "own-link-flaps", 0);
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
fn fault04_the_peer_unregisters_in_mid_transfer() {
    // Peer fault 4: what is given back is not written to any more.
    let test = "star::faults::fault04_the_peer_unregisters_in_mid_transfer";
    let verbs = need!(test, Watched::with_devices(8));
    Scene::new(&verbs, 1).breaks("unregistered-at-the-peer", |scene| {
        scene.b.rdma().deregister(&scene.target);
        let then = all(&scene.target);
        Box::new(move |scene| {
            assert!(all(&scene.target) == then, "memory that was given back was written to");
            scene.b.rdma().register(&scene.target).unwrap();
        })
    });
}

/// The bytes of a buffer.
fn all(buffer: &LocalBuffer) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(buffer.region().len()).unwrap()];
    buffer.region().read_into(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn fault03_what_was_called_back_is_final_and_the_buffer_is_the_callers() {
    // Peer fault 3: the peer hears nothing while a write is called back and its buffer is used again;
    // when it hears again, nothing of the new bytes comes.
    let test = "star::faults::fault03_what_was_called_back_is_final_and_the_buffer_is_the_callers";
    let verbs = need!(test, Watched::with_devices(8));
    let scene = Scene::with(&verbs, 1, |config| config.connection.retries = 7);
    let (local, peer) = (&scene.local, scene.b.remote());
    local.region().write_from(0, &vec![0x11; 4 << 20]).unwrap();
    scene.target.region().write_from(0, &vec![0; 4 << 20]).unwrap();
    let deaf = Broken::losing(&nic(0), 100);
    let slices: Vec<_> = (0..8)
        .map(|i| {
            let part = local.region().range(i << 19, 1 << 19).unwrap();
            scene.a.slice(Opcode::Write, part, &peer, scene.target.region().address() + (i << 19))
        })
        .collect();
    let mut queue: VecDeque<_> = slices.iter().cloned().collect();
    assert_eq!(scene.a.rdma().submit(&peer, &mut queue), slices.len());
    (0..20).for_each(|_| scene.a.pump());
    let begun = now();
    let tokens: Vec<_> = slices.iter().map(|slice| slice.token).collect();
    scene.a.rdma().cancel(&tokens);
    let ended = || tokens.iter().all(|token| !scene.a.ends.of(*token).is_empty());
    wait_until(PATIENCE, "all to end", || {
        scene.a.pump();
        ended().then_some(())
    });
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    for token in &tokens {
        let end = scene.a.ends.of(*token).pop().unwrap();
        let words = words(&end);
        assert!(["cancelled, settled", "cancelled, untouched"].contains(&&*words), "{end:?}");
    }
    local.region().write_from(0, &vec![0x22; 4 << 20]).unwrap();
    deaf.mend();
    // Longer than soft-RoCE waits between two tries.
    pace(Duration::from_secs(1));
    let mut bytes = vec![0; 4 << 20];
    scene.target.region().read_into(0, &mut bytes).unwrap();
    assert!(!bytes.contains(&0x22), "bytes came that were put there after the end");
    scene.goes_on("bad-key", &row("bad-key", 1));
}

#[test]
fn j96_twenty_seconds_of_links_that_come_and_go_never_stall_traffic() {
    // J96: links of both sides go down and come back for 20 s; no request fails, no pause beyond 5 s.
    let test = "star::faults::j96_twenty_seconds_of_links_that_come_and_go_never_stall_traffic";
    let verbs = need!(test, Watched::with_devices(8));
    let scene = Scene::new(&verbs, 2);
    let begun = now();
    let is_over = || begun.elapsed() > Duration::from_secs(20);
    let (mut longest, mut n_pieces) = (Duration::ZERO, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for device in [0, 4, 1, 5].into_iter().cycle() {
                if is_over() {
                    return;
                }
                let broken = Broken::down(&nic(device));
                pace(Duration::from_millis(500));
                broken.mend();
                // Both ways are whole before the next one breaks.
                pace(Duration::from_millis(1500));
            }
        });
        while !is_over() {
            let carried = scene.carry_all();
            assert!(carried.failed.is_empty(), "{:?}", carried.failed);
            longest = longest.max(carried.stall);
            n_pieces += carried.slices;
        }
    });
    assert!(longest < Duration::from_secs(5), "nothing moved for {longest:?}");
    say(&format!(
        "row links came and went for 20 s: {n_pieces} slices, longest stall {longest:.1?}"
    ));
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
fn fault13_the_peer_is_killed_and_another_takes_its_name() {
    // Peer fault 13: it neither answers nor says goodbye; its successor is found without opening anew.
    let test = "star::faults::fault13_the_peer_is_killed_and_another_takes_its_name";
    let verbs = need!(test, Watched::with_devices(8));
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
        let bytes = |buffer: &LocalBuffer| {
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
