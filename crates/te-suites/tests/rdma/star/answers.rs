//! Answers made by hand to handshakes of our engine: named faults, and both processes live.

use serde_json::{Value, json};
use te_segment::Opcode;
use te_suites::wire::{Relay, RelayAnswer};
use te_suites::{need, now, say, wait_until};
use te_transport::{FaultClass, RemoteSide};

use crate::host::{Host, PATIENCE, ask_for, config};
use crate::links::nics;
use crate::watched::Watched;

/// What is made of an answer.
type Twist = fn(usize, &Value, Value) -> RelayAnswer;

fn set(mut answer: Value, key: &str, value: Value) -> RelayAnswer {
    answer[key] = value;
    RelayAnswer::Json(answer)
}

/// Answers that are none.
const WRONG: &[(&str, Twist)] = &[
    ("queue pairs of text", |_, _, a| set(a, "qp_num", json!(["x", "y"]))),
    ("negative queue pairs", |_, _, a| set(a, "qp_num", json!([-1, -2]))),
    ("queue pairs of 2^24", |_, _, a| set(a, "qp_num", json!([1_u64 << 24, 1]))),
    ("queue pairs of 2^32", |_, _, a| set(a, "qp_num", json!([1_u64 << 32, 1]))),
    ("an object for a path", |_, _, a| set(a, "local_nic_path", json!({}))),
    ("a list for the reason", |_, _, a| set(a, "reply_msg", json!([]))),
    ("no queue pairs", |_, _, a| set(a, "qp_num", json!([]))),
    ("another path", |_, _, a| set(a, "local_nic_path", json!("z@rxe4"))),
    ("a GID that is none", |_, _, a| set(a, "local_gid", json!("hello"))),
    ("a refusal", |_, _, a| set(a, "reply_msg", json!("not today"))),
    ("an empty object", |_, _, _| RelayAnswer::Json(json!({}))),
    ("no JSON", |_, _, _| RelayAnswer::Raw(0, b"hello".to_vec())),
    ("another type", |_, _, a| RelayAnswer::Raw(1, a.to_string().into_bytes())),
    ("no type byte", |_, _, a| RelayAnswer::Untyped(a.to_string().into_bytes())),
    ("closed", |_, _, _| RelayAnswer::Closed),
    ("a refused ack", |_, q, a| match q["ready_ack"].as_bool() {
        Some(true) => set(a, "reply_msg", json!("stale")),
        _ => RelayAnswer::Json(a),
    }),
];

#[test]
fn answers_that_are_none_are_named_faults_and_leave_no_queue_pair() {
    // Issue 7, hostile type 0 answers and refusals; §3.5: one of these aborts the peer.
    let test = "star::answers::answers_that_are_none_are_named_faults_and_leave_no_queue_pair";
    let verbs = need!(test, Watched::with_devices(8));
    let (a, b) = (Host::new(&verbs, config(nics(0..1))), Host::new(&verbs, config(nics(4..5))));
    let (local, target) = (a.offer(4096), b.offer(4096));
    for (what, twist) in WRONG {
        let relay = Relay::start(b.port(), |_| (), *twist).unwrap();
        let peer = ask_for(relay.name()).unwrap();
        let address = target.region().address();
        let begun = now();
        let end = a.run(&a.slice(Opcode::Write, local.region().whole(), &peer, address));
        let fault = end.result.expect_err(what);
        let asked = relay.questions().len();
        say(&format!("row {what}: {fault} ({asked} questions, {:.1?})", begun.elapsed()));
        // Who closes without a word may be gone.
        let class = if *what == "closed" { FaultClass::Peer } else { FaultClass::Rail };
        assert_eq!((fault.class, end.remote), (class, RemoteSide::Untouched), "{what}");
        assert!((1..=8).contains(&asked), "{what}: {asked} questions");
        wait_until(PATIENCE, what, || (a.verbs.count() == 0).then_some(()));
    }
    let end = a.run(&a.slice(
        Opcode::Write,
        local.region().whole(),
        &b.remote(),
        target.region().address(),
    ));
    assert_eq!(end.result, Ok(()));
}

#[test]
fn answers_that_others_give_work() {
    // Issue 7, type 0: no `ready_ack` means connected at once; a filled refusal tells the count.
    let test = "star::answers::answers_that_others_give_work";
    let verbs = need!(test, Watched::with_devices(8));
    let twists: [(&str, Twist); 3] = [
        ("no ready_ack", |_, _, mut a| {
            a.as_object_mut().map(|answer| answer.remove("ready_ack"));
            RelayAnswer::Json(a)
        }),
        ("another count, told by a filled refusal", |n, q, mut a| {
            if n == 0 {
                a["qp_num"] = json!([1, 2, 3]);
                a["reply_msg"] = json!("QP count mismatch in peer and local endpoints");
            }
            assert!(n == 0 || q["qp_num"].as_array().map(Vec::len) == Some(3));
            RelayAnswer::Json(a)
        }),
        ("refused once", |n, _, mut a| {
            if n == 0 {
                a["reply_msg"] = json!("a moment");
            }
            RelayAnswer::Json(a)
        }),
    ];
    for (what, twist) in twists {
        let (a, b) = (Host::new(&verbs, config(nics(0..1))), Host::new(&verbs, config(nics(4..5))));
        b.hide_what_only_ours_read();
        let (local, target) = (a.offer(4096), b.offer(4096));
        local.region().write_from(0, &[7; 4096]).unwrap();
        let relay = Relay::start(b.port(), |_| (), twist).unwrap();
        let peer = ask_for(relay.name()).unwrap();
        let address = target.region().address();
        let end = a.run(&a.slice(Opcode::Write, local.region().whole(), &peer, address));
        assert_eq!(end.result, Ok(()), "{what}");
        let mut bytes = [0; 4096];
        target.region().read_into(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 4096], "{what}");
        a.close();
        b.close();
    }
}

/// What is made of a descriptor.
type Edit = fn(&mut Value);

#[test]
fn descriptors_that_are_none_are_errors_and_those_of_others_work() {
    // Issue 7: read theirs by name; `devices` may be longer than the matrix.
    let test = "star::answers::descriptors_that_are_none_are_errors_and_those_of_others_work";
    let verbs = need!(test, Watched::with_devices(8));
    let (a, b) = (Host::new(&verbs, config(nics(0..1))), Host::new(&verbs, config(nics(4..6))));
    b.hide_what_only_ours_read();
    let (local, target) = (a.offer(4096), b.offer(4096));
    let run = |edit: Edit| {
        let relay = Relay::start(b.port(), edit, |_, _, a| RelayAnswer::Json(a)).unwrap();
        let peer = ask_for(relay.name())?;
        let address = target.region().address();
        let end = a.run(&a.slice(Opcode::Write, local.region().whole(), &peer, address));
        end.result.map_err(|fault| fault.to_string())
    };
    let good: [(&str, Edit); 4] = [
        ("only the second NIC in the matrix", |d| {
            d["priority_matrix"] = json!({ "cpu:0": [["rxe5"], []] });
        }),
        ("another location", |d| {
            d["priority_matrix"] = json!({ "cpu:7": [["rxe4", "rxe5"], []] });
        }),
        ("more keys", |d| {
            d["zz"] = json!(1);
            d["devices"][0]["zz"] = json!(1);
        }),
        ("no timestamp", |d| {
            d.as_object_mut().map(|descriptor| descriptor.remove("timestamp"));
        }),
    ];
    for (what, edit) in good {
        local.region().write_from(0, what.as_bytes()).unwrap();
        assert_eq!(run(edit), Ok(()), "{what}");
        let mut bytes = vec![0; what.len()];
        target.region().read_into(0, &mut bytes).unwrap();
        assert_eq!(bytes, what.as_bytes());
    }
    let bad: [(&str, Edit); 8] = [
        ("a list", |d| *d = json!([])),
        ("keys of text", |d| d["buffers"][0]["rkey"] = json!(["x", "y"])),
        ("no keys", |d| d["buffers"][0]["rkey"] = json!([])),
        ("a key for one NIC of two", |d| {
            d["buffers"][0]["rkey"] = json!([1]);
        }),
        ("no devices", |d| d["devices"] = json!([])),
        ("devices of text", |d| d["devices"] = json!("rxe4")),
        ("a matrix of numbers", |d| d["priority_matrix"] = json!({ "cpu:0": [1, 2] })),
        ("a wrong key", |d| d["buffers"][0]["rkey"] = json!([0x55_5555, 0x55_5555])),
    ];
    for (what, edit) in bad {
        let why = run(edit).expect_err(what);
        say(&format!("row {what}: {why}"));
    }
    assert_eq!(run(|_| ()), Ok(()), "afterwards");
}
