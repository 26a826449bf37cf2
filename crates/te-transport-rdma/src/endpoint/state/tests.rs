//! The transition table, and the rules of the ready-ack.
#![expect(clippy::disallowed_methods, reason = "any instant will do")]

use std::fmt::Write as _;
use std::time::Duration;

use super::*;

fn numbers(list: &[u32]) -> Vec<QpNumber> {
    list.iter().map(|number| QpNumber::new(*number).unwrap()).collect()
}

/// The process that the peer is.
const KNOWN: Option<Incarnation> = Some(Incarnation::from_u128(1));
const ANOTHER: Option<Incarnation> = Some(Incarnation::from_u128(2));

fn all(until: Instant) -> [(&'static str, State); 6] {
    let (peer, process) = (numbers(&[1, 2]), KNOWN);
    [
        ("Idle", State::Idle),
        ("Offered", State::Offered),
        ("Moving", State::Moving { peer: peer.clone(), process }),
        ("Waiting", State::Waiting { peer: peer.clone(), process, until }),
        ("Ready", State::Ready { peer, process, until }),
        ("Gone", State::Gone),
    ]
}

fn name(state: &State) -> &'static str {
    match state {
        State::Idle => "Idle",
        State::Offered => "Offered",
        State::Moving { .. } => "Moving",
        State::Waiting { .. } => "Waiting",
        State::Ready { .. } => "Ready",
        State::Gone => "Gone",
    }
}

/// The whole table: each state, each event, with the same numbers and with others.
#[test]
fn the_transition_table() {
    let now = Instant::now();
    let until = now + Duration::from_secs(10);
    let (same, other) = (numbers(&[1, 2]), numbers(&[8, 9]));
    let mut table = String::new();
    for (from, state) in all(until) {
        let start = || Endpoint { state: state.clone(), n_queue_pairs: 2 };
        let mut row = |event: &str, run: &dyn Fn(&mut Endpoint) -> String| {
            let mut endpoint = start();
            let said = run(&mut endpoint);
            writeln!(table, "{from} {event} {said} -> {}", name(&endpoint.state)).unwrap();
        };
        row("request same", &|e| format!("{:?}", e.on_request(now, &same, KNOWN)));
        row("request silent", &|e| format!("{:?}", e.on_request(now, &same, None)));
        row("request late", &|e| format!("{:?}", e.on_request(until, &same, KNOWN)));
        row("request another", &|e| format!("{:?}", e.on_request(now, &same, ANOTHER)));
        row("request other", &|e| format!("{:?}", e.on_request(now, &other, KNOWN)));
        row("answer same", &|e| format!("{:?}", e.on_answer(&same, KNOWN)));
        row("answer another", &|e| format!("{:?}", e.on_answer(&same, ANOTHER)));
        row("answer other", &|e| format!("{:?}", e.on_answer(&other, KNOWN)));
        row("ack same", &|e| format!("{:?}", e.acked(&same)));
        row("ack other", &|e| format!("{:?}", e.acked(&other)));
    }
    assert_eq!(table, include_str!("table.txt"));
}

/// J86.
#[test]
fn j86_waiting_for_the_ack_is_connected_and_not_sendable() {
    let now = Instant::now();
    let until = now + Duration::from_secs(10);
    let mut endpoint = Endpoint::new(2);
    assert!(!endpoint.is_connected() && !endpoint.is_overdue(until));
    assert_eq!(endpoint.on_request(now, &numbers(&[1, 2]), None), OnRequest::Move);
    endpoint.moved(until, true);
    assert!(endpoint.is_connected() && !endpoint.is_sendable());
    assert_eq!(endpoint.acked(&numbers(&[2, 1])), Err(AckRefused::OtherQueuePairs));
    assert!(!endpoint.is_sendable());
    assert!(!endpoint.is_overdue(now) && endpoint.is_overdue(until));
    assert_eq!(endpoint.acked(&numbers(&[1, 2])), Ok(true));
    assert!(endpoint.is_sendable() && !endpoint.is_overdue(until), "only waiting has an end");
    assert_eq!(endpoint.acked(&numbers(&[1, 2])), Ok(false), "it may be repeated");
}

#[test]
fn who_has_another_number_of_queue_pairs_is_no_simultaneous_open() {
    let mut endpoint = Endpoint::new(2);
    endpoint.offer();
    let asked = endpoint.on_request(Instant::now(), &numbers(&[1, 2, 3]), None);
    assert_eq!(asked, OnRequest::Replace);
}
