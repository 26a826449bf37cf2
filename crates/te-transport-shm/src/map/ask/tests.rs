//! Asking over a real pair of sockets: answers that fit are used, all else ends the asking.

use std::sync::Arc;

use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use te_segment::{Allocation, LocalSegment, Region, RegisterOptions, RemoteAccess};

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn handle(slot: u32) -> BufferHandle {
    BufferHandle { slot, generation: 1 }
}

fn buffer(shareable: bool, remote: RemoteAccess) -> Arc<LocalBuffer> {
    let kind = Allocation::new(8192);
    let kind = if shareable { kind.shareable() } else { kind };
    let options = RegisterOptions { remote, ..RegisterOptions::default() };
    LocalSegment::new().register(&Region::from(kind.allocate().unwrap()), options).unwrap()
}

/// What an owner would read.
fn heard(socket: &OwnedFd) -> Option<Ask> {
    let mut bytes = [0; Ask::LEN + 1];
    let (n, _) = rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT).ok()?;
    Ask::decode(&bytes[..n])
}

fn is_refused(found: &Found<'_>) -> bool {
    matches!(found, Found::Refused)
}

#[test]
fn a_buffer_is_asked_for_once_and_mapped_when_the_answer_is_there() {
    let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
    let lent = buffer(true, RemoteAccess::ReadWrite);
    for _ in 0..3 {
        assert!(matches!(borrower.find(&ours, handle(5)), Found::Unknown));
    }
    let ask = heard(&theirs).unwrap();
    assert_eq!((ask.buffer, heard(&theirs)), (handle(5), None));
    Reply::new(ask, Some(&lent)).send(&theirs).unwrap();
    let Found::Mapped(region, true) = borrower.find(&ours, handle(5)) else { panic!("not mapped") };
    region.write_from(8191, b"!").unwrap();
    let mut seen = [0];
    lent.region().read_into(8191, &mut seen).unwrap();
    assert_eq!(&seen, b"!");
    borrower.retain(|_| false);
    assert!(borrower.is_empty());
}

#[test]
fn private_local_and_gone_buffers_are_refused_and_not_asked_for_again() {
    let private = buffer(false, RemoteAccess::ReadWrite);
    let local = buffer(true, RemoteAccess::None);
    for known in [None, Some(&*private), Some(&*local)] {
        let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
        borrower.find(&ours, handle(1));
        Reply::new(heard(&theirs).unwrap(), known).send(&theirs).unwrap();
        assert!(is_refused(&borrower.find(&ours, handle(1))));
        assert!(is_refused(&borrower.find(&ours, handle(1))));
        assert_eq!(heard(&theirs), None);
        assert!(matches!(borrower.find(&ours, handle(2)), Found::Unknown), "others still are");
    }
}

#[test]
fn whoever_has_no_other_way_waits_for_the_answer() {
    let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
    let owner = std::thread::spawn(move || {
        let mut asked = [PollFd::from_borrowed_fd(theirs.as_fd(), PollFlags::IN)];
        rustix::event::poll(&mut asked, None).unwrap();
        let lent = buffer(true, RemoteAccess::Read);
        Reply::new(heard(&theirs).unwrap(), Some(&lent)).send(&theirs).unwrap();
        theirs
    });
    let found = borrower.wait_for(&ours, handle(1), PATIENCE);
    assert!(matches!(found, Found::Mapped(_, false)), "{found:?}");
    owner.join().unwrap();
}

#[test]
fn a_silent_peer_costs_one_wait_and_is_not_asked_again() {
    let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
    assert!(is_refused(&borrower.wait_for(&ours, handle(1), Duration::from_millis(1))));
    assert!(is_refused(&borrower.wait_for(&ours, handle(2), PATIENCE)));
    assert_eq!(heard(&theirs).map(|ask| ask.buffer), Some(handle(1)));
    assert_eq!(heard(&theirs), None);
}

#[test]
fn an_answer_that_never_comes_is_given_up() {
    let ((ours, _theirs), mut borrower) = (pair(), Borrower::default());
    let looks = (0..=MAX_LOOKS + 1).find(|_| is_refused(&borrower.find(&ours, handle(1))));
    assert!(looks.is_some());
}

#[test]
fn a_peer_that_left_refuses() {
    let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
    borrower.find(&ours, handle(1));
    drop(theirs);
    assert!(is_refused(&borrower.find(&ours, handle(1))));
    assert!(is_refused(&borrower.wait_for(&ours, handle(2), PATIENCE)));
}

#[test]
fn answers_that_were_not_asked_for_or_are_none_end_the_asking() {
    let lent = buffer(true, RemoteAccess::ReadWrite);
    let good = |slot| Reply::new(Ask { buffer: handle(slot) }, Some(&lent));
    let bytes_of = |reply: &Reply| reply.lent.encode();
    let say = |to: &OwnedFd, bytes: &[u8]| {
        rustix::net::send(to, bytes, SendFlags::empty()).unwrap();
    };
    let wrong: [&dyn Fn(&OwnedFd); 5] = [
        &|to| good(99).send(to).unwrap(),
        &|to| say(to, b"nonsense"),
        &|to| say(to, &[0; 4096]),
        // The promised file is missing.
        &|to| say(to, &bytes_of(&good(1))),
        // A file that nobody spoke of.
        &|to| {
            let lent = Lent { buffer: handle(1), terms: None };
            Reply { lent, file: good(1).file }.send(to).unwrap();
        },
    ];
    for send in wrong {
        let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
        borrower.find(&ours, handle(1));
        send(&theirs);
        assert!(is_refused(&borrower.find(&ours, handle(1))));
        good(2).send(&theirs).unwrap();
        assert!(is_refused(&borrower.find(&ours, handle(2))));
    }
}

#[test]
fn a_loan_that_cannot_be_used_is_refused_and_others_go_on() {
    let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
    let lent = buffer(true, RemoteAccess::ReadWrite);
    borrower.find(&ours, handle(1));
    borrower.find(&ours, handle(2));
    let mut reply = Reply::new(heard(&theirs).unwrap(), Some(&lent));
    reply.lent.terms = Some(Terms { offset: u64::MAX, len: 2, writable: true });
    reply.send(&theirs).unwrap();
    Reply::new(heard(&theirs).unwrap(), Some(&lent)).send(&theirs).unwrap();
    assert!(is_refused(&borrower.find(&ours, handle(1))));
    assert!(matches!(borrower.find(&ours, handle(2)), Found::Mapped(..)));
}

#[test]
fn open_questions_are_bounded() {
    let ((ours, theirs), mut borrower) = (pair(), Borrower::default());
    for slot in 0..100 {
        assert!(matches!(borrower.find(&ours, handle(slot)), Found::Unknown));
    }
    assert_eq!(std::iter::from_fn(|| heard(&theirs)).count(), MAX_OPEN);
}

#[test]
fn the_bytes_are_those_that_docs_wire_md_draws() {
    let buffer = BufferHandle { slot: 0x0403_0201, generation: 0x0807_0605 };
    assert_eq!(Ask { buffer }.encode(), *b"te-ask\0\x01\x01\x02\x03\x04\x05\x06\x07\x08");
    let terms = Some(Terms { offset: 0x1000, len: 0x20, writable: true });
    let bytes = Lent { buffer, terms }.encode();
    assert_eq!(bytes[..16], *b"te-lent\x01\x01\x02\x03\x04\x05\x06\x07\x08");
    assert_eq!((bytes[16], bytes[25], bytes[32]), (2, 0x10, 0x20));
}

proptest! {
    #[test]
    fn messages_survive_and_nothing_else_is_one(
        slot: u32, generation: u32, offset: u64, len: u64, writable: bool, noise: Vec<u8>,
    ) {
        let buffer = BufferHandle { slot, generation };
        prop_assert_eq!(Ask::decode(&Ask { buffer }.encode()), Some(Ask { buffer }));
        for terms in [None, Some(Terms { offset, len, writable })] {
            let lent = Lent { buffer, terms };
            prop_assert_eq!(Lent::decode(&lent.encode()), Some(lent));
        }
        prop_assert_eq!((Ask::decode(&noise), Lent::decode(&noise)), (None, None));
    }
}
