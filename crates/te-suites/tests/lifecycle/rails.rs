//! Hosts with two NICs each: both carry their share, and one that goes costs no request.

use std::time::Duration;

use te_suites::{
    Direction, Heartbeat, Kind, Netns, Node, NodeSpec, Parts, need, now, say, wait_until,
};

use crate::MIB;

const SIZE: u64 = 64 * MIB;
const DEVICES: [&str; 2] = ["te0", "te1"];
/// What each line carries, so that 64 MiB take a while: 50 MB a second.
const MBITS: u64 = 400;

/// Two hosts and two lines between them.
struct Hosts {
    left: Netns,
    right: Netns,
}

impl Hosts {
    fn new(mbits: [u64; 2]) -> Result<Self, String> {
        let (left, right) = (Netns::new()?, Netns::new()?);
        for (n, (device, mbits)) in DEVICES.iter().zip(mbits).enumerate() {
            let (from, to) = (format!("10.8{n}.0.1/24"), format!("10.8{n}.0.2/24"));
            left.join_by(device, &from, (&right, &to))?;
            left.shape(device, mbits)?;
            right.shape(device, mbits)?;
        }
        Ok(Self { left, right })
    }

    /// One of ours on each host, with these weights of the NICs.
    fn pair(&self, weights: [u64; 2]) -> (Node, Node) {
        let node = |netns: &Netns, end: u64| {
            let list = [0, 1].map(|n: usize| format!("10.8{n}.0.{end}*{}", weights[n]));
            NodeSpec::new(Kind::Te, SIZE)
                .within(netns)
                .host(&format!("10.80.0.{end}"))
                .env("TE_TCP_ADDRESSES", &list.join(","))
                .start()
        };
        (node(&self.left, 1), node(&self.right, 2))
    }

    /// Bytes that went over each line towards the end that takes them.
    fn carried(&self, dir: Direction) -> [u64; 2] {
        let from = if dir == Direction::Write { &self.left } else { &self.right };
        DEVICES.map(|device| from.sent(device).unwrap())
    }

    /// Takes a line away in one of two ways, or gives it back.
    fn cut(&self, line: usize, how: Cut, away: bool) {
        let device = DEVICES[line];
        match how {
            Cut::Down => {
                let state = if away { "down" } else { "up" };
                self.left.ip(&["link", "set", device, state]).unwrap();
            }
            Cut::Swallowed => {
                for (netns, end) in [(&self.left, 2), (&self.right, 1)] {
                    let other = format!("10.8{line}.0.{end}");
                    if away {
                        let nobody = ["lladdr", "02:00:00:00:00:99", "dev", device];
                        let args =
                            [&["neigh", "replace", &other], &nobody[..], &["nud", "permanent"]];
                        netns.ip(&args.concat()).unwrap();
                    } else {
                        netns.ip(&["neigh", "del", &other, "dev", device]).unwrap();
                    }
                }
            }
        }
    }
}

/// How a line goes.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// Its device is down.
    Down,
    /// It takes what is sent and delivers nothing.
    Swallowed,
}

/// What each line carried since `before`, as parts of all in percent.
fn shares(before: [u64; 2], after: [u64; 2]) -> [u64; 2] {
    let moved = [after[0] - before[0], after[1] - before[1]];
    moved.map(|bytes| bytes * 100 / (moved[0] + moved[1]).max(1))
}

/// Puts fresh bytes where a transfer takes them from.
fn prepare(from: &mut Node, to: &mut Node, dir: Direction, seed: u64) {
    match dir {
        Direction::Write => from.pattern(0, SIZE, seed),
        Direction::Read => to.pattern(0, SIZE, seed),
    }
}

fn compare(from: &mut Node, to: &mut Node, dir: Direction, seed: u64) {
    match dir {
        Direction::Write => to.verify(0, SIZE, seed),
        Direction::Read => from.verify(0, SIZE, seed),
    }
}

#[test]
fn fb11_two_nics_carry_their_shares_by_weight() {
    // FB11: one transfer is striped over several connections, here over two NICs of each host, and
    // its bytes are the same. Equal lines carry equal parts, a line of three times the weight three
    // times as much.
    let test = "fb11_two_nics_carry_their_shares_by_weight";
    need!(test, Kind::Te.available());
    for (mbits, weights, first) in
        [([MBITS; 2], [1, 1], 50), ([MBITS * 3 / 2, MBITS / 2], [3, 1], 75)]
    {
        let hosts = need!(test, Hosts::new(mbits));
        let (mut from, mut to) = hosts.pair(weights);
        for (dir, seed) in Direction::BOTH.into_iter().zip(1..) {
            prepare(&mut from, &mut to, dir, seed);
            let before = hosts.carried(dir);
            let ends = (from.addr(), to.addr());
            let took = from.transfer(dir, to.name(), ends, SIZE).ok().took();
            compare(&mut from, &mut to, dir, seed);
            let shares = shares(before, hosts.carried(dir));
            say(&format!("{test}: {} {weights:?}: {shares:?} % in {took:?}", dir.word()));
            assert!(shares[0].abs_diff(first) <= 12, "{shares:?} %, not {first} %");
        }
        from.quit();
        to.quit();
    }
}

/// Cuts a line in the middle of a transfer, then gives it back.
fn lose(test: &str, hosts: &Hosts, (from, to): (&mut Node, &mut Node), (line, how): (usize, Cut)) {
    let heartbeat = Heartbeat::start();
    for (dir, seed) in Direction::BOTH.into_iter().zip(10..) {
        prepare(from, to, dir, seed);
        let before = hosts.carried(dir);
        let id =
            from.submit(dir, to.name(), &Parts::tiled(8, SIZE / 8, (from.addr(), to.addr(), SIZE)));
        wait_until(Duration::from_secs(20), "bytes on both lines", || {
            let carried = hosts.carried(dir);
            (0..2).all(|n| carried[n] > before[n] + 2 * MIB).then_some(())
        });
        hosts.cut(line, how, true);
        let begun = now();
        let answer = from.wait(id);
        say(&format!("{test}: {how:?} {line} {}: {:?}: {answer:?}", dir.word(), begun.elapsed()));
        assert_eq!(answer.number("failed"), 0, "{answer:?}");
        heartbeat.assert_within(
            "a transfer that lost a line",
            begun.elapsed(),
            Duration::from_secs(8),
        );
        compare(from, to, dir, seed);
        // The line is away: what comes next does without it, at once.
        prepare(from, to, dir, seed + 2);
        let begun = now();
        from.transfer(dir, to.name(), (from.addr(), to.addr()), SIZE).ok();
        compare(from, to, dir, seed + 2);
        heartbeat.assert_within(
            "a transfer over one line",
            begun.elapsed(),
            Duration::from_secs(8),
        );
        hosts.cut(line, how, false);
        let begun = now();
        wait_until(Duration::from_secs(30), "the line carries bytes again", || {
            let before = hosts.carried(dir)[line];
            prepare(from, to, dir, seed + 4);
            from.transfer(dir, to.name(), (from.addr(), to.addr()), SIZE).ok();
            compare(from, to, dir, seed + 4);
            (hosts.carried(dir)[line] > before + SIZE / 8).then_some(())
        });
        say(&format!("{test}: {how:?} {line} {}: back after {:?}", dir.word(), begun.elapsed()));
    }
}

#[test]
fn a_nic_that_goes_costs_no_request_and_is_used_again_when_it_is_back() {
    // Issue row "several local addresses": a line is taken away in the middle of a transfer. What was
    // on it is settled by a fence over the other line and goes again there; every byte arrives, and
    // the line is used again once it is back.
    let test = "a_nic_that_goes_costs_no_request_and_is_used_again_when_it_is_back";
    need!(test, Kind::Te.available());
    let hosts = need!(test, Hosts::new([MBITS; 2]));
    let (mut from, mut to) = hosts.pair([1, 1]);
    for cut in [(1, Cut::Swallowed), (1, Cut::Down), (0, Cut::Swallowed)] {
        lose(test, &hosts, (&mut from, &mut to), cut);
    }
    from.quit();
    to.quit();
}
