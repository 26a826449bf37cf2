//! Transfers that go wrong, and what is left then.

use te_segment::{Opcode, RemoteAccess};

use super::ends::{ALL, Ends, Joined, WAY, Way, connect, is_readable, memory};
use super::{Link, Seen};
use crate::error::VerbsError;
use crate::event::DeviceEvent;
use crate::port::Mtu;
use crate::seam::{Device, MemoryAccess};
use crate::work::{Sge, WorkRequest};

pub(super) fn run(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    remote(ends, seen)?;
    local(ends, seen)?;
    rest(ends, seen)?;
    released(ends, seen)?;
    waiting(ends, seen)?;
    no_answer(ends, seen)?;
    mtu(ends, seen)?;
    reads(ends, seen)
}

const BOTH: [Opcode; 2] = [Opcode::Write, Opcode::Read];

/// Posts one request on fresh queue pairs, and tells its end and theirs.
fn one(
    ends: &Ends,
    seen: &mut Seen,
    what: &str,
    request: impl for<'a> Fn(&Joined<'_>, &'a [Sge; 1]) -> WorkRequest<'a>,
    range: Sge,
) -> Result<(), VerbsError> {
    let joined = ends.usual()?;
    let ranges = [range];
    seen.post(what, joined.near.post(&[request(&joined, &ranges)]));
    seen.line(format_args!("{what}: {}; {}", ends.near().statuses(1)?, joined.states()?));
    let told = events(&*ends.far().device)?;
    seen.line(format_args!("{what}: events at the far end {told:?}"));
    Ok(())
}

/// Events that are there, without the numbers of queue pairs.
fn events(device: &dyn Device) -> Result<Vec<&'static str>, VerbsError> {
    let mut found = Vec::new();
    while let Some(event) = device.next_event()? {
        found.push(match event {
            DeviceEvent::QueuePairFatal { .. } => "queue pair",
            DeviceEvent::PortError { .. } => "port down",
            DeviceEvent::PortActive { .. } => "port up",
            DeviceEvent::GidChange { .. } => "addresses",
            _ => "another",
        });
    }
    Ok(found)
}

fn remote(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("remote");
    let (near, far) = (ends.near(), ends.far());
    let len = super::ends::MEMORY as u64;
    let may = |remote| MemoryAccess { remote, relaxed_ordering: false };
    let sealed = memory(4096)?;
    let read_only = far.device.register(&sealed.whole(), may(RemoteAccess::Read))?;
    let hidden = memory(4096)?;
    let local_only = far.device.register(&hidden.whole(), may(RemoteAccess::None))?;
    for op in BOTH {
        let range = near.range(0, 2000);
        let name = format!("{op:?}");
        one(
            ends,
            seen,
            &format!("{name}, unknown key"),
            |j, r| WorkRequest { rkey: 0x00ff_ff00, ..j.request(1, op, r, 0) },
            range,
        )?;
        one(
            ends,
            seen,
            &format!("{name}, past the end"),
            |j, r| j.request(1, op, r, len - 1999),
            range,
        )?;
        one(
            ends,
            seen,
            &format!("{name}, before the start"),
            |j, r| WorkRequest { remote_address: far.at(0) - 1, ..j.request(1, op, r, 0) },
            range,
        )?;
        one(
            ends,
            seen,
            &format!("{name}, only to be read"),
            |j, r| WorkRequest {
                remote_address: sealed.address(),
                rkey: read_only.rkey(),
                ..j.request(1, op, r, 0)
            },
            range,
        )?;
        one(
            ends,
            seen,
            &format!("{name}, not for peers"),
            |j, r| WorkRequest {
                remote_address: hidden.address(),
                rkey: local_only.rkey(),
                ..j.request(1, op, r, 0)
            },
            range,
        )?;
        one(
            ends,
            seen,
            &format!("{name}, no bytes and no key"),
            |j, r| WorkRequest { rkey: 0x00ff_ff00, ..j.request(1, op, r, 0) },
            near.range(0, 0),
        )?;
        one(ends, seen, &format!("{name}, good"), good_of(op), range)?;
    }
    Ok(())
}

fn local(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("local");
    let near = ends.near();
    let len = super::ends::MEMORY as u64;
    for op in BOTH {
        let unknown = Sge { lkey: 0x00ff_ff00, ..near.range(0, 2000) };
        one(ends, seen, &format!("{op:?}, unknown key"), good_of(op), unknown)?;
        let past = near.range(len - 1999, 2000);
        one(ends, seen, &format!("{op:?}, past the end"), good_of(op), past)?;
        let nearly = Sge { lkey: near.keys.lkey() ^ 1, ..near.range(0, 2000) };
        one(ends, seen, &format!("{op:?}, a key that is nearly one"), good_of(op), nearly)?;
    }
    Ok(())
}

fn good_of(op: Opcode) -> impl for<'a> Fn(&Joined<'_>, &'a [Sge; 1]) -> WorkRequest<'a> {
    move |joined, ranges| joined.request(1, op, ranges, 0)
}

/// What was posted behind the one that failed.
fn rest(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("rest");
    let joined = ends.usual()?;
    let near = ends.near();
    let ranges = [near.range(0, 100)];
    let good = |id| joined.request(id, Opcode::Write, &ranges, 0);
    let quiet = |id| WorkRequest { signaled: false, ..good(id) };
    let bad = WorkRequest { rkey: 0x00ff_ff00, ..quiet(3) };
    joined.near.post(&[good(1), quiet(2), bad, quiet(4), good(5)]).map_err(broken)?;
    seen.line(format_args!("{}; {}", near.statuses(4)?, joined.states()?));
    seen.post("post in ERR", joined.near.post(&[quiet(6), good(7)]));
    seen.line(near.statuses(2)?);
    Ok(())
}

fn broken(error: crate::error::PostError) -> VerbsError {
    super::ends::broken(&error.to_string())
}

/// Keys that were void before the request.
fn released(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("released");
    for (what, end) in [("near", ends.near()), ("far", ends.far())] {
        let region = memory(8192)?;
        let keys = end.device.register(&region.whole(), ALL)?;
        let (lkey, rkey, address) = (keys.lkey(), keys.rkey(), region.address());
        drop(keys);
        for op in BOTH {
            let joined = ends.usual()?;
            let near = ends.near().range(0, 100);
            let ranges = [if what == "near" { Sge { address, len: 100, lkey } } else { near }];
            let mut request = joined.request(1, op, &ranges, 0);
            if what == "far" {
                (request.remote_address, request.rkey) = (address, rkey);
            }
            joined.near.post(&[request]).map_err(broken)?;
            seen.line(format_args!("{op:?}, {what}: {}", ends.near().statuses(1)?));
        }
    }
    Ok(())
}

/// A peer that does not answer yet, with tries without end.
fn waiting(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("waiting");
    let way = Way { retries: 7, ..WAY };
    let near = ends.near();
    let ranges = [near.range(0, 100)];
    let joined = ends.apart()?;
    joined.far.to_init(1, 0)?;
    connect(&*joined.near, &ends.route(1, joined.far.number(), way), way)?;
    let all: Vec<_> = (0..16).map(|id| joined.request(id, Opcode::Write, &ranges, 0)).collect();
    seen.post("16 of 15", joined.near.post(&all));
    seen.line(format_args!("completions: {}", near.wait(1)?.len()));
    joined.near.to_error()?;
    let told = near.wait(15)?;
    let flushed = told.iter().filter(|one| one.status == crate::work::WorkStatus::Flushed);
    seen.line(format_args!("flushed after ERR: {} of {}", flushed.count(), told.len()));
    let joined = ends.apart()?;
    joined.far.to_init(1, 0)?;
    connect(&*joined.near, &ends.route(1, joined.far.number(), way), way)?;
    near.fill(0, 100, 3);
    joined.near.post(&[joined.request(9, Opcode::Write, &ranges, 0)]).map_err(broken)?;
    joined.far.to_ready_to_receive(&ends.route(0, joined.near.number(), way))?;
    let told = near.statuses(1)?;
    seen.line(format_args!("the peer came: {told}; bytes there: {}", ends.far().has(0, 100, 3)));
    Ok(())
}

/// Peers that never answer, with bounded tries.
fn no_answer(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("no answer");
    let near = ends.near();
    let ranges = [near.range(0, 100)];
    for op in BOTH {
        let joined = ends.usual()?;
        joined.far.to_error()?;
        let post = |joined: &Joined<'_>| {
            let request = |id| joined.request(id, op, &ranges, 0);
            joined.near.post(&[request(1), request(2)]).map_err(broken)
        };
        post(&joined)?;
        seen.line(format_args!("{op:?}, peer in ERR: {}", near.statuses(2)?));
        let joined = ends.connected(WAY, Way { first_packet: 1000, ..WAY })?;
        post(&joined)?;
        seen.line(format_args!("{op:?}, other packet numbers: {}", near.statuses(2)?));
        let (joined, other) = (ends.usual()?, ends.usual()?);
        // The peer believes to be connected with somebody else.
        joined.far.to_reset()?;
        connect(&*joined.far, &ends.route(0, other.near.number(), WAY), WAY)?;
        near.fill(0, 100, 21);
        ends.far().fill(0, 100, 22);
        post(&joined)?;
        let told = near.statuses(2)?;
        let arrived = ends.far().has(0, 100, 21);
        seen.line(format_args!("{op:?}, answers go elsewhere: {told}; bytes there: {arrived}"));
        let joined = ends.usual()?;
        let Joined { near: pair, far, .. } = joined;
        drop(far);
        let request = |id| WorkRequest {
            id,
            op,
            payload: crate::work::Payload::Ranges(&ranges),
            remote_address: ends.far().at(0),
            rkey: ends.far().keys.rkey(),
            signaled: true,
        };
        pair.post(&[request(1), request(2)]).map_err(broken)?;
        seen.line(format_args!("{op:?}, peer destroyed: {}", near.statuses(2)?));
    }
    Ok(())
}

fn mtu(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("MTU");
    let (small, large) = (WAY, Way { mtu: Mtu::B2048, ..WAY });
    for (what, near, far) in [("1024 to 2048", small, large), ("2048 to 1024", large, small)] {
        for op in BOTH {
            for len in [1000, 2000, 5000] {
                let joined = ends.connected(near, far)?;
                let ranges = [ends.near().range(0, len)];
                joined.near.post(&[joined.request(1, op, &ranges, 0)]).map_err(broken)?;
                seen.line(format_args!("{what}, {op:?} {len}: {}", ends.near().statuses(1)?));
            }
        }
    }
    Ok(())
}

/// READs where the peer, or we, allow none.
fn reads(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("READs");
    let ranges = [ends.near().range(0, 100)];
    let joined = ends.connected(WAY, Way { reads: 0, ..WAY })?;
    joined.near.post(&[joined.request(1, Opcode::Read, &ranges, 0)]).map_err(broken)?;
    seen.line(format_args!("none at the far end: {}", ends.near().statuses(1)?));
    let joined = ends.connected(WAY, Way { reads: 2, ..WAY })?;
    let many: Vec<_> = (0..15).map(|id| joined.request(id, Opcode::Read, &ranges, 0)).collect();
    joined.near.post(&many).map_err(broken)?;
    let told = ends.near().wait(15)?;
    let fine = told.iter().all(|one| one.status == crate::work::WorkStatus::Success);
    seen.line(format_args!("more than the far end keeps: {} ended, all well: {fine}", told.len()));
    Ok(())
}

/// The near end's link goes down and comes back.
pub(super) fn link_down(ends: &Ends, link: &dyn Link, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("link");
    let device = &*ends.near().device;
    while device.next_event()?.is_some() {}
    let joined = ends.connected(Way { retries: 6, ..WAY }, WAY)?;
    let ranges = [ends.near().range(0, 100)];
    link.set(false);
    let told = is_readable(device.event_fd(), ends.near().quiet)?;
    seen.line(format_args!("told: {told}, {:?}", events(device)?.first()));
    seen.line(format_args!("port: {:?}", device.port(1)?.state));
    for (n, op) in BOTH.into_iter().enumerate() {
        joined.near.post(&[joined.request(n as u64, op, &ranges, 0)]).map_err(broken)?;
        seen.line(format_args!("{op:?}: {}", ends.near().statuses(1)?));
    }
    link.set(true);
    let told = is_readable(device.event_fd(), ends.near().quiet)?;
    seen.line(format_args!("told: {told}, {:?}", events(device)?.first()));
    seen.line(format_args!("port: {:?}", device.port(1)?.state));
    seen.line(joined.states()?);
    let joined = ends.usual()?;
    joined.near.post(&[joined.request(9, Opcode::Write, &ranges, 0)]).map_err(broken)?;
    seen.line(format_args!("afterwards: {}", ends.near().statuses(1)?));
    Ok(())
}
