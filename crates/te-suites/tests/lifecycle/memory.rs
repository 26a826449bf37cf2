//! Registered memory that is taken back, or goes away, while bytes move.

use std::time::Duration;

use te_suites::{
    Bound, Case, Direction, Heartbeat, Kind, Node, NodeSpec, Parts, Wish, available_memory, need,
    now, pace, say, wait_until,
};

use crate::{MIB, ours};

/// What one request of a batch moves.
const EACH: u64 = 16 * MIB;

/// How many of them.
const MANY: u64 = 32;

/// All of them together.
const LONG: u64 = MANY * EACH;

/// What an owner puts in its memory once it has it back.
const MINE: u8 = 0x77;

/// An initiator that speaks this version at most, and a target with [`LONG`] bytes of its own,
/// registered, at the address that is returned.
fn nodes(version: &str) -> Result<(Node, Node, u64), String> {
    Kind::Te.available()?;
    available_memory(3 * LONG)?;
    let from = NodeSpec::new(Kind::Te, LONG).env("MC_TCP_PROTO", version).start();
    let mut to = ours(MIB);
    let buffer = to.alloc(LONG);
    to.reg(buffer, LONG).ok();
    Ok((from, to, buffer))
}

fn tiled(from: &Node, dst: u64) -> Parts {
    Parts::tiled(MANY, EACH, (from.addr(), dst, LONG))
}

#[test]
fn fault04_j113_what_was_taken_back_is_not_touched_any_more() {
    // Peer fault 4, J113: the target unregisters the buffer in the middle of 512 MiB, in every
    // version of the protocol and both directions. Afterwards the memory is its own.
    let test = "fault04_j113_what_was_taken_back_is_not_touched_any_more";
    for version in ["3", "2", "1"] {
        let (mut from, mut to, buffer) = need!(test, nodes(version));
        from.fill(0, LONG, 0xa5);
        let case = Case::start(&format!("fault 4: version {version}"), to.pid());
        let heartbeat = Heartbeat::start();
        for dir in Direction::BOTH {
            let id = from.submit(dir, to.name(), &tiled(&from, buffer));
            pace(Duration::from_millis(50));
            let answer = to.unreg(buffer).ok();
            heartbeat.assert_within("unregistering", answer.took(), Duration::from_secs(1));
            to.fill(to.off(buffer), LONG, MINE);
            let ended = from.wait(id);
            assert!(ended.number("failed") > 0, "unregistered too late: {ended:?}");
            to.verify_filled(to.off(buffer), LONG, MINE);
            say(&format!(
                "{test}: version {version} {}: {:?}, {} of {MANY} completed; {}",
                dir.word(),
                answer.took(),
                ended.number("completed"),
                ended.refused()
            ));
            let refused = from.transfer(dir, to.name(), (from.addr(), buffer), 4096);
            assert!(!refused.refused().is_empty());
            to.reg(buffer, LONG).ok();
            from.transfer(dir, to.name(), (from.addr(), buffer), 4096).ok();
        }
        case.end(Bound::NOTHING.with_rss_mib(LONG / MIB + 16));
        from.quit();
        to.quit();
    }
}

#[test]
fn fault04_j113_the_published_peer_writes_into_memory_that_is_taken_back() {
    // Peer fault 4, J113: the published package writes 512 MiB, in one request and in many, and the
    // buffer is unregistered in the middle. No byte changes after that has returned, and the peer is
    // told of the failure.
    let test = "fault04_j113_the_published_peer_writes_into_memory_that_is_taken_back";
    need!(test, Kind::Te.available());
    need!(test, Kind::Peer.available());
    need!(test, available_memory(3 * LONG));
    let mut to = ours(MIB);
    let buffer = to.alloc(LONG);
    let at = to.off(buffer);
    let case = Case::start("fault 4: the published peer", to.pid());
    let heartbeat = Heartbeat::start();
    for n in [1, MANY] {
        let mut from = NodeSpec::new(Kind::Peer, LONG).start();
        from.fill(0, LONG, 0xa5);
        to.fill(at, LONG, 0);
        to.reg(buffer, LONG).ok();
        let parts = Parts::tiled(n, LONG / n, (from.addr(), buffer, LONG));
        let id = from.submit(Direction::Write, to.name(), &parts);
        // In the middle is where the first bytes have come and the last have not.
        wait_until(Duration::from_secs(20), "the first bytes", || {
            (to.count(at, MIB, 0xa5) > 0).then_some(())
        });
        let answer = to.unreg(buffer).ok();
        heartbeat.assert_within("unregistering", answer.took(), Duration::from_secs(1));
        let arrived = to.count(at, LONG, 0xa5);
        assert!(arrived < LONG, "unregistered too late");
        to.fill(at, LONG, MINE);
        let ended = from.wait(id);
        assert!(!ended.is_ok(), "the peer was told that all is well: {ended:?}");
        to.verify_filled(at, LONG, MINE);
        say(&format!(
            "{test}: {n} requests: {} MiB had come, unregistered in {:?}, the peer says {ended:?}",
            arrived / MIB,
            answer.took()
        ));
        assert!(!from.write(to.name(), from.addr(), buffer, 4096).is_ok());
        to.verify_filled(at, LONG, MINE);
        from.quit();
    }
    case.end(Bound::NOTHING.with_rss_mib(LONG / MIB + 16));
    to.quit();
}

#[test]
fn what_was_meant_for_an_earlier_registration_is_refused() {
    // Architecture §3.4: the same addresses are registered again in the middle of a batch. What is
    // reported completed is as it was asked for, and nothing is written that is not reported.
    let test = "what_was_meant_for_an_earlier_registration_is_refused";
    let (mut from, mut to, buffer) = need!(test, nodes("3"));
    let at = to.off(buffer);
    from.fill(0, LONG, 0xa5);
    for round in 0..10 {
        to.fill(at, LONG, 0);
        let id = from.submit(Direction::Write, to.name(), &tiled(&from, buffer));
        pace(Duration::from_millis(5 * round));
        to.unreg(buffer).ok();
        to.fill(at, LONG, MINE);
        to.reg(buffer, LONG).ok();
        let ended = from.wait(id);
        // What completed did so before it was taken back: its bytes are the owner's now.
        let foreign = LONG - to.count(at, LONG, MINE);
        assert_eq!(foreign, 0, "bytes of an earlier registration's requests: {ended:?}");
        assert_eq!(ended.number("completed") + ended.number("failed"), MANY);
        // A caller that does not know may be refused once.
        let again = from.write(to.name(), from.addr(), buffer, 4096);
        if !again.is_ok() {
            from.write(to.name(), from.addr(), buffer, 4096).ok();
        }
        to.verify_filled(at, 4096, 0xa5);
    }
    from.quit();
    to.quit();
}

#[test]
fn the_callers_own_memory_is_waited_for_or_busy() {
    // J117, architecture §3.4: unregistering in the middle of one's own transfer waits for it; where
    // that cannot end it answers Busy in its time, takes no new work, and works later.
    let test = "the_callers_own_memory_is_waited_for_or_busy";
    need!(test, available_memory(3 * LONG));
    need!(test, Kind::Te.available());
    let spec = NodeSpec::new(Kind::Te, MIB).env("TE_ENGINE_UNREGISTER_TIMEOUT_MS", "1000");
    let (mut from, mut to) = (spec.start(), ours(LONG));
    let source = from.alloc(LONG);
    let case = Case::start("the caller's own memory", from.pid());
    let heartbeat = Heartbeat::start();
    for dir in Direction::BOTH {
        from.reg(source, LONG).ok();
        let parts = Parts::tiled(MANY, EACH, (source, to.addr(), LONG));
        // A transfer that ends: waited for.
        let id = from.submit(dir, to.name(), &parts);
        let unregistered = from.unreg(source);
        let ended = from.wait(id).ok();
        say(&format!("{test}: waited {:?} for {:?}", unregistered.took(), ended.took()));
        if !unregistered.is_ok() {
            // It took longer than unregistering waits, as on a busy machine.
            assert_eq!(unregistered.rc(), -4, "{unregistered:?}");
            from.unreg(source).ok();
        }
        from.reg(source, LONG).ok();
        // One that stands still: Busy.
        let id = from.submit(dir, to.name(), &parts);
        to.child().stop();
        let busy = from.unreg(source);
        assert_eq!(busy.rc(), -4, "{busy:?}");
        assert!(busy.took() >= Duration::from_millis(950), "{busy:?}");
        heartbeat.assert_within("Busy", busy.took(), Duration::from_millis(1300));
        let refused = from.transfer(dir, to.name(), (source, to.addr()), 4096);
        assert!(refused.refused().contains("unregistered"), "{refused:?}");
        to.child().resume();
        from.wait(id).ok();
        from.unreg(source).ok();
        assert_eq!(from.unreg(source).rc(), -3);
    }
    case.end(Bound::NOTHING.with_rss_mib(LONG / MIB + 16));
    from.quit();
    to.quit();
}

#[test]
fn rights_taken_off_memory_fail_its_requests_only() {
    // Architecture §3.4: mprotect under a running transfer, on either side; EFAULT, never a signal,
    // and when the rights are back so is the work.
    let test = "rights_taken_off_memory_fail_its_requests_only";
    let (mut from, mut to, buffer) = need!(test, nodes("3"));
    let source = from.alloc(LONG);
    from.reg(source, LONG).ok();
    let cases =
        [Case::start("rights taken: from", from.pid()), Case::start("rights taken: to", to.pid())];
    let parts = Parts::tiled(MANY, EACH, (source, buffer, LONG));
    let heartbeat = Heartbeat::start();
    let mut hit = 0;
    for (local, access) in [(true, "none"), (false, "none"), (true, "read"), (false, "read")] {
        for dir in Direction::BOTH {
            let wish = Wish::within(Duration::from_secs(10));
            let begun = now();
            let id = from.submit_wishing((dir, to.name()), &parts, wish);
            pace(Duration::from_millis(20));
            let (owner, start) = if local { (&mut from, source) } else { (&mut to, buffer) };
            owner.protect(start + LONG / 2, LONG / 2, access);
            let ended = from.wait(id);
            let failed = ended.number("failed");
            assert_eq!(ended.number("completed") + failed, MANY, "{ended:?}");
            let what = format!("{} with {access} rights, local {local}", dir.word());
            heartbeat.assert_within(&what, begun.elapsed(), Duration::from_secs(5));
            hit += u64::from(failed > 0);
            if failed > 0 && access == "none" {
                let error = ended.refused();
                assert!(error.contains("ad address") || error.contains("memory"), "{error}");
            }
            let (owner, start) = if local { (&mut from, source) } else { (&mut to, buffer) };
            owner.protect(start + LONG / 2, LONG / 2, "all");
            from.batch(dir, to.name(), &parts).ok();
        }
    }
    say(&format!("{test}: 8 takings, {hit} hit a running transfer"));
    assert!(hit > 1, "the rights always went too late");
    cases.into_iter().for_each(|case| case.end(Bound::NOTHING.with_rss_mib(LONG / MIB + 16)));
    from.quit();
    to.quit();
}

#[test]
fn fb26_a_peer_that_registers_elsewhere_or_leaves_is_found_out() {
    // FB26 (P2P half): the known buffer is gone and another is there; a request for the new one
    // works without opening again. A peer that left is not served from memory for ever.
    let test = "fb26_a_peer_that_registers_elsewhere_or_leaves_is_found_out";
    need!(test, Kind::Te.available());
    let (mut from, mut to) = (ours(MIB), ours(MIB));
    let heartbeat = Heartbeat::start();
    let mut old = to.alloc(MIB);
    to.reg(old, MIB).ok();
    for round in 0..20 {
        from.pattern(0, MIB, round);
        from.write(to.name(), from.addr(), old, MIB).ok();
        to.unreg(old).ok();
        let new = to.alloc(MIB);
        to.reg(new, MIB).ok();
        let answer = from.write(to.name(), from.addr(), new, MIB).ok();
        heartbeat.assert_within("a refresh", answer.took(), Duration::from_millis(500));
        to.verify(to.off(new), MIB, round);
        from.write(to.name(), from.addr(), old, 4096).refused();
        old = new;
    }
    let name = to.name().to_owned();
    to.child().kill();
    let gone = from.write(&name, from.addr(), old, 4096);
    gone.refused();
    heartbeat.assert_within("a peer that left", gone.took(), Duration::from_secs(2));
    from.ask(&serde_json::json!({ "op": "forget", "target": name })).ok();
    let opened = from.open_at_once(&[&name]);
    assert_eq!(opened.number("failed"), 1, "{opened:?}");
    let error = opened.value("error").as_str().unwrap();
    assert!(error.contains(&name) && error.contains("connect"), "{error}");
    from.quit();
}

#[test]
fn j117_a_caller_can_wait_until_its_memory_is_its_own() {
    // J117: after any end of a call there is a way to know that nothing touches the buffer.
    let test = "j117_a_caller_can_wait_until_its_memory_is_its_own";
    let (mut from, mut to, buffer) = need!(test, nodes("3"));
    let at = to.off(buffer);
    let heartbeat = Heartbeat::start();
    for round in 0..10 {
        let dir = Direction::BOTH[usize::try_from(round % 2).unwrap()];
        let wish = Wish::within(Duration::from_millis(1 + 7 * round));
        let id = from.submit_wishing((dir, to.name()), &tiled(&from, buffer), wish);
        let begun = now();
        let ended = from.wait(id);
        assert_eq!(ended.number("completed") + ended.number("failed"), MANY, "{ended:?}");
        assert!(from.is_quiescent(Duration::from_secs(5)));
        heartbeat.assert_within("the end and quiet", begun.elapsed(), Duration::from_secs(2));
        from.fill(0, LONG, MINE);
        pace(Duration::from_millis(20));
        from.verify_filled(0, LONG, MINE);
        to.fill(at, MIB, 0);
    }
    from.quit();
    to.quit();
}
