//! Handshakes of NICs made by hand against our engine: what is answered, what is left behind.

use std::time::Duration;

use serde_json::{Value, json};
use te_segment::Opcode;
use te_suites::wire::{Frame, HandshakeAnswer, HandshakeClient};
use te_suites::{need, now, say, wait_until};
use te_transport_rdma::RdmaConfig;

use crate::host::{Host, PATIENCE, config};
use crate::links::nics;
use crate::watched::Watched;

/// The device that asks, and one that nobody has.
const GID: &str = "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01";
const NOBODY: &str = "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:63";

/// A host with the device `rxe4`, and whoever asks it.
struct Asked {
    host: Host,
    client: HandshakeClient,
}

impl Asked {
    fn new(verbs: &Watched) -> Self {
        Self::with(verbs, |_| ())
    }

    fn with(verbs: &Watched, change: impl FnOnce(&mut RdmaConfig)) -> Self {
        let mut config = config(nics(4..5));
        config.connection.ready_ack_limit = Duration::from_secs(2);
        change(&mut config);
        let host = Host::new(verbs, config);
        let client = HandshakeClient::new("127.0.0.1", host.port());
        Self { host, client }
    }

    /// A good question from a NIC of that name.
    fn question(&self, from: &str, numbers: &[u32]) -> Value {
        json!({
            "local_gid": GID, "local_lid": 0, "local_nic_path": from, "payload": "",
            "peer_nic_path": format!("{}@rxe4", self.host.name()), "qp_num": numbers,
            "ready_ack": false, "reply_msg": "",
        })
    }

    fn ask(&self, question: &Value) -> HandshakeAnswer {
        self.client.ask(&Frame::typed(0, question.to_string().as_bytes())).expect("it answers")
    }

    /// The answer, which has the type byte.
    fn answer(&self, question: &Value) -> Value {
        let answer = self.ask(question);
        assert!(matches!(answer, HandshakeAnswer::Framed(0, _)), "{answer:?}");
        answer.json()
    }

    #[track_caller]
    fn refuses(&self, what: &str, question: &Value) -> String {
        let answer = self.answer(question);
        let reason = answer["reply_msg"].as_str().unwrap_or_default();
        assert!(!reason.is_empty(), "{what}: {answer}");
        reason.to_owned()
    }

    /// Queue pairs go back to `n`.
    #[track_caller]
    fn falls_to(&self, n: usize, what: &str) {
        wait_until(Duration::from_secs(30), what, || (self.host.verbs.count() == n).then_some(()));
    }

    /// A peer that behaves is served.
    fn still_serves(&self) {
        let question = self.question("127.0.0.1:9@rxe0", &[500_001, 500_002]);
        let answer = self.answer(&question);
        assert_eq!(answer["reply_msg"], "", "{answer}");
        assert_eq!(answer["qp_num"].as_array().map(Vec::len), Some(2));
        let mut ack = question;
        ack["ready_ack"] = true.into();
        assert_eq!(self.answer(&ack)["reply_msg"], "");
    }
}

fn with(question: &Value, key: &str, value: Value) -> Value {
    let mut changed = question.clone();
    changed[key] = value;
    changed
}

#[test]
fn a_good_question_gets_a_mirrored_answer_and_the_same_one_again() {
    // E32, issue 7, type 0: type byte, mirrored paths, same numbers, new numbers, acks.
    let test = "star::questions::a_good_question_gets_a_mirrored_answer_and_the_same_one_again";
    let asked = Asked::new(&need!(test, Watched::with_devices(8)));
    let question = asked.question("127.0.0.1:7@rxe0", &[300, 301]);
    let answer = asked.answer(&question);
    assert_eq!(answer["local_nic_path"], question["peer_nic_path"]);
    assert_eq!(answer["peer_nic_path"], question["local_nic_path"]);
    assert_eq!((&answer["ready_ack"], &answer["reply_msg"]), (&json!(false), &json!("")));
    assert_eq!(asked.host.verbs.count(), 2);
    assert_eq!(asked.answer(&question), answer, "the same numbers again");
    assert_eq!(asked.host.verbs.count(), 2);
    let renewed = with(&question, "qp_num", json!([400, 401]));
    assert_ne!(asked.answer(&renewed)["qp_num"], answer["qp_num"]);
    asked.falls_to(2, "the old queue pairs to go");
    let ack = |question: &Value| with(question, "ready_ack", true.into());
    asked.refuses("an ack with old numbers", &ack(&question));
    let empty = asked.answer(&ack(&renewed));
    assert_eq!((&empty["reply_msg"], &empty["qp_num"]), (&json!(""), &json!([])), "{empty}");
    assert_eq!(asked.answer(&ack(&renewed))["reply_msg"], "", "it may be repeated");
    let stranger = asked.question("127.0.0.1:8@rxe0", &[9, 10]);
    asked.refuses("an ack from nowhere", &ack(&stranger));
    assert_eq!(asked.host.verbs.count(), 2, "and it leaves nothing");
}

#[test]
fn hostile_questions_cost_neither_the_process_nor_a_queue_pair() {
    // Issue 7, hostile type 0; §3.6 of the peer: five of these abort it.
    let test = "star::questions::hostile_questions_cost_neither_the_process_nor_a_queue_pair";
    let asked = Asked::new(&need!(test, Watched::with_devices(8)));
    let good = asked.question("127.0.0.1:7@rxe0", &[300, 301]);
    let before = asked.host.descriptor();
    let wrong = [
        ("qp_num", json!(["x", "y"])),
        ("qp_num", json!([-1, -2])),
        ("qp_num", json!([1_u64 << 24, 1])),
        ("qp_num", json!([1_u64 << 32, 1])),
        ("qp_num", json!({})),
        ("qp_num", json!("17")),
        ("peer_nic_path", json!({})),
        ("local_nic_path", json!([])),
        ("local_gid", json!({})),
        ("reply_msg", json!([])),
        ("payload", json!(7)),
    ];
    for (key, value) in wrong {
        let question = with(&good, key, value);
        match asked.ask(&question) {
            HandshakeAnswer::Closed(_) => {}
            answer => assert_ne!(answer.json()["reply_msg"], "", "{question}"),
        }
    }
    asked.refuses("no queue pairs", &with(&good, "qp_num", json!([])));
    asked.refuses("nothing at all", &json!({}));
    asked.refuses("an unknown NIC", &with(&good, "peer_nic_path", json!("127.0.0.1:1@rxe9")));
    asked.refuses("another server", &with(&good, "peer_nic_path", json!("127.0.0.1:1@rxe4")));
    asked.refuses("no NIC", &with(&good, "peer_nic_path", json!("rxe4")));
    for frame in
        [Frame::untyped(b"{}"), Frame::untyped(b""), Frame::typed(0, b"{"), Frame::raw(b"")]
    {
        let _ = asked.client.ask_and_end(&frame);
    }
    asked.falls_to(0, "all queue pairs to go");
    let mut after = asked.host.descriptor();
    after.timestamp.clone_from(&before.timestamp);
    assert_eq!(after, before);
    asked.still_serves();
}

#[test]
fn fb48_a_foreign_gid_never_changes_ours() {
    // E14, FB48, issue 7, foreign GID; defect 3 of the peer: a zero GID makes it take another of its own.
    let test = "star::questions::fb48_a_foreign_gid_never_changes_ours";
    let asked = Asked::new(&need!(test, Watched::with_devices(8)));
    let good = asked.question("127.0.0.1:7@rxe0", &[300, 301]);
    let before = asked.host.descriptor();
    let own = asked.answer(&good)["local_gid"].clone();
    let zero = vec!["00"; 16].join(":");
    let wrong = ["", "hello", &vec!["00"; 15].join(":"), &vec!["00"; 17].join(":"), &zero, NOBODY]
        .map(str::to_owned)
        .into_iter()
        .chain(["fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01".to_owned()]);
    for (i, gid) in wrong.enumerate() {
        let from = format!("127.0.0.1:7@rxe{}", 10 + i);
        let question = with(&asked.question(&from, &[700, 701]), "local_gid", gid.as_str().into());
        let begun = now();
        let reason = asked.refuses(&gid, &question);
        say(&format!("row \"{gid}\": {reason} ({:.1?})", begun.elapsed()));
        assert_eq!(asked.answer(&good)["local_gid"], own, "after {gid}");
    }
    let mut after = asked.host.descriptor();
    after.timestamp.clone_from(&before.timestamp);
    assert_eq!(after, before);
    asked.still_serves();
}

#[test]
fn a_connection_with_nobody_behind_it_ends_by_itself_and_a_quiet_one_stays() {
    // Defect of the peer: connections of processes that died stay.
    let test =
        "star::questions::a_connection_with_nobody_behind_it_ends_by_itself_and_a_quiet_one_stays";
    let verbs = need!(test, Watched::with_devices(8));
    let asked = Asked::with(&verbs, |config| {
        config.connection.idle_probe = Some(Duration::from_millis(100));
        config.work.patience = Duration::from_secs(2);
    });
    let quiet = Host::new(&verbs.fresh(), config(nics(5..6)));
    let (local, target) = (quiet.offer(64), asked.host.offer(64));
    let write = || {
        let slice = quiet.slice(
            Opcode::Write,
            local.region().whole(),
            &asked.host.remote(),
            target.region().address(),
        );
        assert_eq!(quiet.run(&slice).result, Ok(()));
    };
    write();
    let numbers = || asked.host.verbs.living().iter().map(|pair| pair.number()).collect::<Vec<_>>();
    let before = numbers();
    asked.still_serves();
    assert_eq!(asked.host.verbs.count(), 4);
    let begun = now();
    asked.falls_to(2, "what nobody is behind to go");
    say(&format!("gone {:.1?} later, after as long the quiet one is there", begun.elapsed()));
    assert_eq!(numbers(), before);
    write();
    assert_eq!(numbers(), before);
    asked.still_serves();
}

#[test]
fn five_addresses_that_nobody_has_keep_no_probe_waiting() {
    // Issue 7, foreign GID; defect 4 of the peer: each of them blocks its handshake thread for 1 s.
    let test = "star::questions::five_addresses_that_nobody_has_keep_no_probe_waiting";
    let asked = Asked::new(&need!(test, Watched::with_devices(8)));
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..5)
            .map(|i| {
                let asked = &asked;
                scope.spawn(move || {
                    let from = format!("127.0.0.1:7@rxe{}", 20 + i);
                    let question = asked.question(&from, &[800 + i, 900 + i]);
                    asked.refuses("nobody", &with(&question, "local_gid", NOBODY.into()));
                })
            })
            .collect();
        wait_until(PATIENCE, "the kernel to look for an address", || {
            (asked.host.verbs.count() > 0).then_some(())
        });
        let begun = now();
        let probe = asked.client.ask(&Frame::typed(1, b"{}")).expect("it answers");
        assert_eq!(probe.json()["protocol"], "rdma");
        let took = begun.elapsed();
        assert!(slow.iter().any(|asking| !asking.is_finished()), "nobody was waiting any more");
        say(&format!("row a descriptor behind five slow handshakes came in {took:.1?}"));
    });
    asked.still_serves();
}

#[test]
fn three_hundred_half_open_connections_go_by_themselves() {
    // E31, issue 7, half-open; defect 5 of the peer: they stay for ever.
    let test = "star::questions::three_hundred_half_open_connections_go_by_themselves";
    let asked = Asked::new(&need!(test, Watched::with_devices(8)));
    let mut most = 0;
    for i in 0..300_u32 {
        let from = format!("127.0.0.1:7@rxe{i}");
        let answer = asked.answer(&asked.question(&from, &[1000 + 2 * i, 1001 + 2 * i]));
        assert_eq!(answer["reply_msg"], "", "{answer}");
        most = most.max(asked.host.verbs.count());
    }
    // 64 of one peer, and those that are just being ended.
    assert!(most <= 2 * 80, "{most} queue pairs of one peer");
    let begun = now();
    asked.falls_to(0, "all of them to go");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(6), "the limit is 2 s, and it took {took:?}");
    say(&format!(
        "row 300 half-open connections: at most {most} queue pairs, gone {took:.1?} later"
    ));
    asked.still_serves();
}
