//! Transfers that go well.

use te_segment::Opcode;

use super::Seen;
use super::ends::{Ends, WAY, Way, connect};
use crate::error::VerbsError;
use crate::work::{Payload, Sge, WorkRequest};

pub(super) fn run(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    sizes(ends, seen)?;
    inline(ends, seen)?;
    ranges(ends, seen)?;
    unsignaled(ends, seen)?;
    order(ends, seen)?;
    to_itself(ends, seen)?;
    again(ends, seen)?;
    armed(ends, seen)
}

fn sizes(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("sizes");
    let joined = ends.usual()?;
    let (near, far) = (ends.near(), ends.far());
    for len in [0u32, 1, 7, 1023, 1024, 1025, 4096, 65537, 1 << 20] {
        let bytes = usize::try_from(len).expect("fits");
        near.fill(3, bytes, bytes);
        far.fill(0, bytes + 20, 99);
        let ranges = [near.range(3, len)];
        joined.near.post(&[joined.request(1, Opcode::Write, &ranges, 5)]).map_err(posted)?;
        let told = near.statuses(1)?;
        let around = far.bytes(0, 5);
        let fine = far.has(5, bytes, bytes) && around == far_before(ends);
        seen.line(format_args!("write {len}: {told}; bytes there: {fine}"));
        far.fill(5, bytes, bytes + 1);
        joined.near.post(&[joined.request(2, Opcode::Read, &ranges, 5)]).map_err(posted)?;
        let told = near.statuses(1)?;
        let fine = near.has(3, bytes, bytes + 1);
        seen.line(format_args!("read {len}: {told}; bytes there: {fine}"));
    }
    Ok(())
}

/// The five bytes before the target, as they were filled.
fn far_before(ends: &Ends) -> Vec<u8> {
    let far = ends.far();
    let found = far.bytes(0, 5);
    if far.has(0, 5, 99) { found } else { Vec::new() }
}

fn posted(error: crate::error::PostError) -> VerbsError {
    super::ends::broken(&error.to_string())
}

fn inline(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("inline");
    let joined = ends.usual()?;
    let far = ends.far();
    let request = |id, op, bytes| WorkRequest {
        payload: Payload::Inline(bytes),
        ..joined.request(id, op, &[], 0)
    };
    far.fill(0, 128, 1);
    joined.near.post(&[request(1, Opcode::Write, &[7; 64])]).map_err(posted)?;
    let told = ends.near().statuses(1)?;
    let fine = far.bytes(0, 64) == [7; 64] && far.bytes(64, 64) == pattern_rest(ends);
    seen.line(format_args!("64 bytes: {told}; bytes there: {fine}"));
    seen.post("65 bytes", joined.near.post(&[request(2, Opcode::Write, &[7; 65])]));
    Ok(())
}

/// What follows the 64 bytes, as it was filled.
fn pattern_rest(ends: &Ends) -> Vec<u8> {
    let far = ends.far();
    let found = far.bytes(64, 64);
    far.fill(0, 128, 1);
    if far.bytes(64, 64) == found { found } else { Vec::new() }
}

fn ranges(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("ranges");
    let joined = ends.usual()?;
    let (near, far) = (ends.near(), ends.far());
    near.fill(0, 8192, 4);
    let four = [near.range(0, 100), near.range(100, 1), near.range(101, 3000), near.range(3101, 7)];
    joined.near.post(&[joined.request(1, Opcode::Write, &four, 9)]).map_err(posted)?;
    let told = near.statuses(1)?;
    seen.line(format_args!("write of 4: {told}; bytes there: {}", far.has(9, 3108, 4)));
    far.fill(9, 3108, 5);
    joined.near.post(&[joined.request(2, Opcode::Read, &four, 9)]).map_err(posted)?;
    let told = near.statuses(1)?;
    seen.line(format_args!("read of 4: {told}; bytes there: {}", near.has(0, 3108, 5)));
    let five = [near.range(0, 1); 5];
    seen.post("5", joined.near.post(&[joined.request(3, Opcode::Write, &five, 0)]));
    Ok(())
}

/// Requests that write byte `n` of the near memory to byte `n` of the far, the last one signaled.
fn chain<'a>(
    joined: &super::ends::Joined<'_>,
    ranges: &'a [[Sge; 1]],
    all: bool,
) -> Vec<WorkRequest<'a>> {
    let last = ranges.len() - 1;
    let request = |(n, range): (usize, &'a [Sge; 1])| WorkRequest {
        signaled: all || n == last,
        ..joined.request(n as u64, Opcode::Write, range, n as u64)
    };
    ranges.iter().enumerate().map(request).collect()
}

fn unsignaled(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("unsignaled");
    let joined = ends.usual()?;
    let (near, far) = (ends.near(), ends.far());
    let ranges: Vec<_> = (0..15).map(|n| [near.range(n, 1)]).collect();
    // Often enough to need every place again.
    for round in 0..4 {
        near.fill(0, 15, round);
        joined.near.post(&chain(&joined, &ranges, false)).map_err(posted)?;
        let told = near.statuses(1)?;
        seen.line(format_args!("round {round}: {told}; bytes there: {}", far.has(0, 15, round)));
    }
    Ok(())
}

fn order(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("order");
    let joined = ends.usual()?;
    let ranges: Vec<_> = (0..15).map(|n| [ends.near().range(n, 1)]).collect();
    joined.near.post(&chain(&joined, &ranges, true)).map_err(posted)?;
    let told = ends.near().wait(15)?;
    let ids: Vec<_> = told.iter().map(|one| one.id).collect();
    seen.line(format_args!("{ids:?}"));
    seen.line(format_args!("own number in each: {}", {
        told.iter().all(|one| one.queue_pair == joined.near.number())
    }));
    Ok(())
}

fn to_itself(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("to itself");
    let near = ends.near();
    let pair = near.pair()?;
    let mut route = ends.route(0, pair.number(), WAY);
    route.gid_index = near.gid_index;
    connect(&*pair, &route, WAY)?;
    near.fill(0, 100, 8);
    let ranges = [near.range(0, 100)];
    let request = WorkRequest {
        id: 1,
        op: Opcode::Write,
        payload: Payload::Ranges(&ranges),
        remote_address: near.at(5000),
        rkey: near.keys.rkey(),
        signaled: true,
    };
    pair.post(&[request]).map_err(posted)?;
    let told = near.statuses(1)?;
    seen.line(format_args!("write: {told}; bytes there: {}", near.has(5000, 100, 8)));
    Ok(())
}

/// A queue pair may be connected again after RESET.
fn again(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("again");
    let joined = ends.usual()?;
    let near = ends.near();
    let ranges = [near.range(0, 3000)];
    for round in 0..2 {
        let way = Way { first_packet: 77 + round, ..WAY };
        joined.near.to_reset()?;
        joined.far.to_reset()?;
        connect(&*joined.near, &ends.route(1, joined.far.number(), way), way)?;
        connect(&*joined.far, &ends.route(0, joined.near.number(), way), way)?;
        joined.near.post(&[joined.request(1, Opcode::Write, &ranges, 0)]).map_err(posted)?;
        seen.line(format_args!("write: {}", near.statuses(1)?));
    }
    Ok(())
}

fn armed(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("armed");
    let joined = ends.usual()?;
    let near = ends.near();
    near.queue.acknowledge()?;
    let ranges = [near.range(0, 8)];
    let write = || joined.near.post(&[joined.request(1, Opcode::Write, &ranges, 0)]);
    near.queue.arm()?;
    write().map_err(posted)?;
    seen.line(format_args!("readable after a completion: {}", near.is_ready()?));
    near.queue.acknowledge()?;
    seen.line(format_args!("readable after acknowledging: {}", near.is_ready_now()?));
    near.queue.arm()?;
    seen.line(format_args!("readable for one that was there: {}", near.is_ready_now()?));
    write().map_err(posted)?;
    seen.line(format_args!("readable for the next: {}", near.is_ready()?));
    near.queue.acknowledge()?;
    seen.line(format_args!("both are there: {}", near.statuses(2)?));
    Ok(())
}
