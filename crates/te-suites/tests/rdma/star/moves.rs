//! 64 MiB in odd pieces, both ways, over 1 to 4 NICs and 1 to 8 queue pairs.

use te_segment::{LocalBuffer, Opcode};
use te_suites::pattern::{self, Random};
use te_suites::{need, say};
use te_transport_rdma::RdmaConfig;

use crate::carry::{Piece, TRIES, carry};
use crate::host::{Host, PATIENCE, config};
use crate::links::nics;
use crate::watched::Watched;

const TOTAL: u64 = 64 << 20;
/// What lies around the bytes, on either side.
const MARGIN: u64 = 4096;
/// An odd length, so that no two pieces of the same length have the same bytes.
const BLOCK: usize = 1_000_003;

/// Bytes that repeat after [`BLOCK`].
fn fill(buffer: &LocalBuffer, seed: u64) {
    let block = pattern::bytes(seed, BLOCK);
    let len = buffer.region().len();
    let mut at = 0;
    while at < len {
        let n = usize::try_from(len - at).map_or(BLOCK, |left| left.min(BLOCK));
        buffer.region().write_from(at, &block[..n]).unwrap();
        at += n as u64;
    }
}

/// Where `len` bytes of both differ first.
fn difference(a: (&LocalBuffer, u64), b: (&LocalBuffer, u64), len: u64) -> Option<u64> {
    const STEP: u64 = 4 << 20;
    let (mut here, mut there) = (vec![0; 4 << 20], vec![0; 4 << 20]);
    let mut at = 0;
    while at < len {
        let n = (len - at).min(STEP);
        let part = ..usize::try_from(n).unwrap();
        a.0.region().read_into(a.1 + at, &mut here[part]).unwrap();
        b.0.region().read_into(b.1 + at, &mut there[part]).unwrap();
        if here[part] != there[part] {
            let first = here.iter().zip(&there).position(|(a, b)| a != b);
            return first.map(|first| at + first as u64);
        }
        at += n;
    }
    None
}

/// Odd pieces that cover `TOTAL` bytes, in no order.
fn pieces(op: Opcode, local: &LocalBuffer, remote: u64, random: &mut Random) -> Vec<Piece> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < TOTAL {
        let longest = if random.below(4) == 0 { 1 << 10 } else { 1 << 20 };
        let len = (1 + random.below(longest)).min(TOTAL - at);
        let local = local.region().range(MARGIN + at + 13, len).unwrap();
        pieces.push(Piece { op, local, remote: remote + at });
        at += len;
    }
    for i in (1..pieces.len()).rev() {
        let other = usize::try_from(random.below(i as u64 + 1)).unwrap();
        pieces.swap(i, other);
    }
    pieces
}

fn move_all(verbs: &Watched, n_nics: usize, n_pairs: u32) {
    move_with(verbs, (n_nics, n_pairs), RdmaConfig::default().memory.max_region);
}

/// With regions of at most so many bytes.
fn move_with(verbs: &Watched, (n_nics, n_pairs): (usize, u32), max_region: u64) {
    let configured = |first: usize| {
        let mut config = config(nics(first..first + n_nics));
        config.connection.queue_pairs = n_pairs;
        config.memory.max_region = max_region;
        config
    };
    let (a, b) = (Host::new(verbs, configured(0)), Host::new(verbs, configured(4)));
    let len = usize::try_from(TOTAL + 2 * MARGIN).unwrap();
    let (local, target) = (a.offer(len), b.offer(len));
    let mut random = Random::new(u64::from(n_pairs) * 16 + n_nics as u64);
    for (seed, op) in [(1, Opcode::Write), (2, Opcode::Read)] {
        let (from, to) = if op == Opcode::Write { (&local, &target) } else { (&target, &local) };
        fill(from, seed);
        to.region().write_from(0, &vec![0xee; len]).unwrap();
        let remote = target.region().address() + MARGIN + 4099 - 4096;
        let work = pieces(op, &local, remote, &mut random);
        let carried = carry(&a, &|| b.remote(), &work, (TRIES, PATIENCE), &mut |_| ());
        assert!(carried.failed.is_empty(), "{:?}", carried.failed);
        let (at_local, at_target) = ((&*local, MARGIN + 13), (&*target, MARGIN + 3));
        assert_eq!(difference(at_local, at_target, TOTAL), None, "{op:?} moved other bytes");
        let start = if op == Opcode::Write { at_target.1 } else { at_local.1 };
        is_untouched(to, start);
        say(&format!(
            "row {op:?} of 64 MiB over {n_nics} NICs with {n_pairs} queue pairs: {} pieces, {} slices, {:.1?}",
            work.len(),
            carried.slices,
            carried.took
        ));
    }
    a.close();
    b.close();
}

/// The bytes around what was moved are as they were.
fn is_untouched(buffer: &LocalBuffer, start: u64) {
    let end = start + TOTAL;
    for (at, len) in [(0, start), (end, buffer.region().len() - end)] {
        let mut bytes = vec![0; usize::try_from(len).unwrap()];
        buffer.region().read_into(at, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0xee), "a byte beside the range was written");
    }
}

#[test]
fn odd_pieces_over_one_nic_with_one_two_and_eight_queue_pairs() {
    // J93: write, then read, every byte compared.
    let test = "star::moves::odd_pieces_over_one_nic_with_one_two_and_eight_queue_pairs";
    let verbs = need!(test, Watched::with_devices(8));
    [1, 2, 8].into_iter().for_each(|n_pairs| move_all(&verbs, 1, n_pairs));
}

#[test]
fn odd_pieces_over_two_three_and_four_nics() {
    // J93: the same, spread over NICs.
    let test = "star::moves::odd_pieces_over_two_three_and_four_nics";
    let verbs = need!(test, Watched::with_devices(8));
    [(2, 2), (3, 4), (4, 8), (4, 1)].into_iter().for_each(|(nics, n)| move_all(&verbs, nics, n));
}

#[test]
fn j94_ranges_straddle_the_edges_of_regions() {
    // J94: regions of 3 MiB and a page, so that pieces straddle their edges on both sides.
    let test = "star::moves::j94_ranges_straddle_the_edges_of_regions";
    let verbs = need!(test, Watched::with_devices(8));
    move_with(&verbs, (2, 2), (3 << 20) + 4096);
}
