//! States of queue pairs, and what is refused in which.

use std::net::Ipv4Addr;

use te_segment::Opcode;
use te_topology::Gid;

use super::Seen;
use super::ends::{CAPACITY, Ends, WAY, ready};
use crate::error::VerbsError;
use crate::queue_pair::{QueuePairCapacity, Route};
use crate::seam::QueuePair;

pub(super) fn run(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    port(ends, seen)?;
    limits(ends, seen);
    ladder(ends, seen)?;
    routes(ends, seen)?;
    back(ends, seen)
}

fn port(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("port");
    let port = ends.near().device.port(1)?;
    seen.line(format_args!("{:?}, {:?}", port.state, port.link_layer));
    seen.line(format_args!("LID {}, {} rows of keys", port.lid, port.pkey_rows));
    seen.call("one that is not there", ends.near().device.port(2));
    seen.call("GIDs of one that is not there", ends.near().device.gids(2).map(|rows| rows.len()));
    Ok(())
}

fn limits(ends: &Ends, seen: &mut Seen) {
    seen.scene("limits");
    let near = ends.near();
    let limits = *near.device.attributes();
    seen.call("a queue of 0", near.device.completion_queue(0));
    seen.call("a queue that is too long", near.device.completion_queue(limits.max_cqe + 1));
    let mut with = |what, capacity| seen.call(what, near.device.queue_pair(&near.queue, capacity));
    let send_requests = limits.max_qp_wr + 1;
    with("too many requests", QueuePairCapacity { send_requests, ..CAPACITY });
    with("too many ranges", QueuePairCapacity { ranges: limits.max_sge + 1, ..CAPACITY });
    with("too much inline", QueuePairCapacity { inline_bytes: 1 << 20, ..CAPACITY });
    let foreign = near.device.queue_pair(&ends.far().queue, CAPACITY);
    seen.call("a queue of another device", foreign);
}

fn try_post(seen: &mut Seen, ends: &Ends, pair: &dyn QueuePair, state: &str) {
    let ranges = [ends.near().range(0, 8)];
    let request = crate::work::WorkRequest {
        id: 1,
        op: Opcode::Write,
        payload: crate::work::Payload::Ranges(&ranges),
        remote_address: ends.far().at(0),
        rkey: ends.far().keys.rkey(),
        signaled: true,
    };
    seen.post(format_args!("post in {state}"), pair.post(&[request]));
}

fn ladder(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("states");
    let joined = ends.apart()?;
    let (pair, route) = (&*joined.near, ends.route(1, joined.far.number(), WAY));
    seen.line(format_args!("new: {:?}", pair.state()?));
    try_post(seen, ends, pair, "RESET");
    seen.call("RESET to RTR", pair.to_ready_to_receive(&route));
    seen.call("RESET to RTS", pair.to_ready_to_send(&ready(WAY)));
    seen.call("INIT on a port that is not there", pair.to_init(2, 0));
    seen.call("INIT with a partition key that is not there", pair.to_init(1, 99));
    seen.call("RESET to INIT", pair.to_init(1, 0));
    seen.line(format_args!("then: {:?}", pair.state()?));
    try_post(seen, ends, pair, "INIT");
    seen.call("INIT to RTS", pair.to_ready_to_send(&ready(WAY)));
    seen.call("INIT to RTR", pair.to_ready_to_receive(&route));
    seen.line(format_args!("then: {:?}", pair.state()?));
    try_post(seen, ends, pair, "RTR");
    seen.call("RTR to RTR", pair.to_ready_to_receive(&route));
    seen.call("RTR to RTS", pair.to_ready_to_send(&ready(WAY)));
    seen.line(format_args!("then: {:?}", pair.state()?));
    Ok(())
}

fn routes(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("routes");
    let joined = ends.apart()?;
    let pair = &*joined.near;
    pair.to_init(1, 0)?;
    let good = ends.route(1, joined.far.number(), WAY);
    let mut with = |what, route: Route| {
        seen.call(what, pair.to_ready_to_receive(&route));
    };
    with("an address of zero", Route { gid: Gid::new([0; 16]), ..good });
    with("a source row that is not there", Route { gid_index: 200, ..good });
    let nobody = Gid::new(Ipv4Addr::new(203, 0, 113, 7).to_ipv6_mapped().octets());
    let local = Gid::new([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 9, 9, 9, 0xff, 0xfe, 9, 9, 9]);
    with("a link-local address from an IPv4 one", Route { gid: local, ..good });
    with("an address without a route", Route { gid: nobody, ..good });
    with("a port that is not there", Route { port: 2, ..good });
    with("the good one", good);
    let other = ends.near().pair()?;
    other.to_init(1, 0)?;
    let route = Route { reads: 255, ..good };
    seen.call("too many READs", other.to_ready_to_receive(&route));
    Ok(())
}

fn back(ends: &Ends, seen: &mut Seen) -> Result<(), VerbsError> {
    seen.scene("back");
    let joined = ends.usual()?;
    let pair = &*joined.near;
    seen.call("RTS to ERR", pair.to_error());
    seen.line(format_args!("then: {:?}", pair.state()?));
    seen.call("ERR to ERR", pair.to_error());
    seen.call("ERR to INIT", pair.to_init(1, 0));
    seen.call("ERR to RESET", pair.to_reset());
    seen.line(format_args!("then: {:?}", pair.state()?));
    seen.call("RESET to ERR", pair.to_error());
    seen.call("RESET to RESET", pair.to_reset());
    seen.call("RESET to INIT", pair.to_init(1, 0));
    seen.call("INIT to ERR", pair.to_error());
    Ok(())
}
