//! The end-to-end check: a bit that turns over on its way is found.

use te_suites::wire::{Fault, Front};
use te_suites::{Direction, Kind, Node, NodeSpec, Wish, need, say};

use crate::{MIB, ours};

/// What one request moves.
const LEN: u64 = MIB;

/// Where the peer sums nothing, what was written is read back; a read has nothing to compare with.
const READ_BACK: (&[Direction], &str) = (&[Direction::Write], "read back");

/// 100 requests of which each has bits turned over on its way, and 20 that have not.
/// The errors say `names`.
fn all_are_found(
    test: &str,
    (mut from, mut to): (Node, Node),
    (dirs, names): (&[Direction], &str),
) {
    let front = Front::start(&to, Fault::None).unwrap();
    from.pattern(0, LEN, 8);
    let mut found = 0;
    for i in 0..100_u64 {
        let dir = dirs[usize::try_from(i).unwrap() % dirs.len()];
        front.proxy().set(match dir {
            Direction::Write => Fault::FlipRequestBits,
            Direction::Read => Fault::FlipAnswerBits,
        });
        let before = front.proxy().faults();
        let ends = (from.addr() + MIB, to.addr());
        let ends = if dir == Direction::Write { (from.addr(), to.addr()) } else { ends };
        let answer = from.transfer_wishing((dir, front.name()), ends, LEN, Wish::checked());
        assert!(front.proxy().faults() > before, "round {i}: no bit was turned over");
        let error = answer.refused();
        assert!(error.contains("the bytes") && error.contains(names), "round {i}: {error}");
        found += 1;
        if i == 0 {
            say(&format!("{test}: {error}"));
        }
        if i % 5 == 0 {
            front.proxy().set(Fault::None);
            let wish = Wish::checked();
            let write = (Direction::Write, front.name());
            from.transfer_wishing(write, (from.addr(), to.addr()), LEN, wish).ok();
            to.verify(0, LEN, 8);
            let read = (Direction::Read, front.name());
            from.transfer_wishing(read, (from.addr() + MIB, to.addr()), LEN, wish).ok();
            from.verify(MIB, LEN, 8);
        }
    }
    say(&format!("{test}: {found} of 100 found, {} bits turned over", front.proxy().faults()));
    from.quit();
    to.quit();
}

#[test]
fn a_flipped_bit_fails_a_checked_request_100_of_100() {
    // Issue, item 8: CRC32C from source to destination, writes and reads.
    let test = "a_flipped_bit_fails_a_checked_request_100_of_100";
    need!(test, Kind::Te.available());
    all_are_found(test, (ours(2 * MIB), ours(MIB)), (&Direction::BOTH, "checksum"));
}

#[test]
fn a_flipped_bit_fails_a_checked_write_that_is_read_back_100_of_100() {
    // Issue, item 8: towards what Mooncake speaks, what was written is read back.
    let test = "a_flipped_bit_fails_a_checked_write_that_is_read_back_100_of_100";
    need!(test, Kind::Te.available());
    let from = NodeSpec::new(Kind::Te, 2 * MIB).env("MC_TCP_PROTO", "2").start();
    all_are_found(test, (from, ours(MIB)), READ_BACK);
}

#[test]
fn a_flipped_bit_on_the_way_to_the_published_peer_is_found_too() {
    // Issue, item 8: the same with the real peer as the target.
    let test = "a_flipped_bit_on_the_way_to_the_published_peer_is_found_too";
    need!(test, Kind::Te.available());
    need!(test, Kind::Peer.available());
    let to = NodeSpec::new(Kind::Peer, MIB).start();
    all_are_found(test, (ours(2 * MIB), to), READ_BACK);
}

#[test]
fn an_unchecked_request_does_not_notice() {
    // The counterpart: without the check the same bits arrive, reported as completed, so that it is
    // the check that finds them.
    let test = "an_unchecked_request_does_not_notice";
    need!(test, Kind::Te.available());
    let (mut from, mut to) = (ours(2 * MIB), ours(MIB));
    let front = Front::start(&to, Fault::FlipRequestBits).unwrap();
    from.pattern(0, LEN, 8);
    from.write(front.name(), from.addr(), to.addr(), LEN).ok();
    assert!(!to.matches(0, LEN, 8), "no bit was turned over");
    from.quit();
    to.quit();
}
