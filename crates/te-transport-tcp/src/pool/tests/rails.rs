//! Lanes over several rails, moved by hand.

use super::*;

const MIB: u64 = 1 << 20;

/// Two rails of equal weight and a reserve, with two lanes each: 0 and 2 on the first rail, 1 and 3
/// on the second.
fn rails(lanes: usize) -> Bench {
    let config = TcpConfig { max_queued_bytes_per_peer: 16 * MIB, ..TcpConfig::default() };
    Bench { pool: Pool::over(&[1, 1, 0], lanes, true, &config), ..bench(1) }
}

fn one_rail(lanes: usize) -> Bench {
    let config = TcpConfig { max_queued_bytes_per_peer: 16 * MIB, ..TcpConfig::default() };
    Bench { pool: Pool::over(&[1], lanes, true, &config), ..bench(1) }
}

impl Bench {
    fn push_bytes(&mut self, n: usize, len: u64) {
        self.region = Region::from(AlignedBuffer::zeroed(usize::try_from(len).unwrap()).unwrap());
        for _ in 0..n {
            let mut job = self.job();
            job.slice.remote = RemoteRange::new(1, len).unwrap();
            self.pool.push(job);
        }
    }

    /// Opens a lane as an attempt that succeeds at once.
    fn greet(&mut self, lane: usize) {
        self.pool.on_greeted(lane, 256);
    }

    /// What goes where until the pool wants nothing, lanes opened on the way: the lane of each job.
    fn deal(&mut self) -> Vec<usize> {
        let mut lanes = Vec::new();
        while let Some(order) = self.pool.poll(self.now) {
            match order {
                Order::Connect(lane) => self.greet(lane),
                Order::Start(lane, _) => {
                    self.pool.on_used(lane);
                    lanes.push(lane);
                }
                Order::Fail(..) => panic!("nothing fails here"),
            }
        }
        lanes
    }

    fn fail_by_rail(&mut self, lane: usize) -> bool {
        let paused = self.pool.on_rail_fault(self.now, lane);
        self.fail(lane);
        paused
    }

    /// A lane's connection goes, with all that was on it.
    fn lose(&mut self, lane: usize) {
        let fault = SliceFault::new(FaultClass::Rail, Phase::Payload, "lost");
        self.pool.on_rail_fault(self.now, lane);
        self.pool.on_greeted_lost(self.now, lane, fault);
    }
}

fn count(lanes: &[usize], lane: usize) -> usize {
    lanes.iter().filter(|on| **on == lane).count()
}

/// Small slices are packed on one connection, however many there are.
#[test]
fn small_slices_keep_to_the_first_lane() {
    let mut b = one_rail(2);
    b.push_bytes(256, 4096);
    assert_eq!(b.deal(), [0; 256]);
    b.push_bytes(100, 4096);
    b.expect(&[]);
}

/// A second lane is opened when the first has its share of the bytes under way, and not before.
#[test]
fn large_slices_open_another_lane_and_no_lane_has_more_than_its_window() {
    let mut b = one_rail(2);
    b.push_bytes(8, MIB);
    assert_eq!(b.deal(), [0; 8], "8 MiB fit");
    b.push_bytes(20, MIB);
    let lanes = b.deal();
    assert_eq!(lanes, [1; 8], "half of 16 MiB each, the rest waits");
    b.push_bytes(1, 64 * MIB);
    b.expect(&[]);
    let mut b = one_rail(2);
    b.push_bytes(1, 64 * MIB);
    assert_eq!(b.deal(), [0], "one slice may be larger");
}

/// With a mebibyte under way every rail is opened, and they share what follows.
#[test]
fn every_rail_is_opened_for_large_transfers_only() {
    let mut b = rails(4);
    b.push_bytes(16, 4096);
    assert_eq!(b.deal(), [0; 16]);
    // What waits when the second rail is wanted goes at once, by the first.
    b.push_bytes(4, 256 << 10);
    assert_eq!(b.deal(), [0; 4]);
    b.push_bytes(16, 256 << 10);
    let lanes = b.deal();
    assert_eq!(count(&lanes, 0) + count(&lanes, 1), 16, "{lanes:?}");
    assert!(count(&lanes, 1) >= 8, "{lanes:?}");
}

/// A rail that cannot be reached pauses, and its lane stays closed until the pause is over; jobs
/// go by the other, and one of them probes the rail then.
#[test]
fn a_paused_rail_is_left_alone_and_probed_when_its_time_has_come() {
    let mut b = rails(2);
    b.push_bytes(4, MIB);
    b.expect(&[Connect(0)]);
    b.greet(0);
    let mut orders = Vec::new();
    while let Some(order) = b.poll() {
        orders.push(order);
    }
    assert_eq!(orders.last(), Some(&Connect(1)), "{orders:?}");
    assert!(b.fail_by_rail(1));
    b.later(MAX_PAUSE);
    b.expect(&[]);
    let pause = TcpConfig::default().first_rail_pause;
    assert_eq!(b.pool.deadline(), Some(b.now - MAX_PAUSE + pause));
    b.later(pause - MAX_PAUSE);
    b.expect(&[Connect(1)]);
    b.greet(1);
    b.push_bytes(4, MIB);
    let lanes = b.deal();
    assert_eq!(count(&lanes, 1), 1, "one slice probes: {lanes:?}");
    assert!(b.pool.on_proven(b.now, 1), "its answer opens the rail");
    b.push_bytes(4, MIB);
    assert!(count(&b.deal(), 1) >= 2);
}

/// A lane whose connection was lost owes a fence. It goes over another rail while its own pauses,
/// carries nothing else there, and is at home again later.
#[test]
fn a_fence_goes_over_another_rail() {
    let mut b = rails(2);
    for _ in 0..2 {
        b.push_bytes(4, MIB);
        b.deal();
    }
    b.pool.want_fence(1, true);
    b.lose(1);
    b.expect(&[Connect(1)]);
    assert_eq!(b.pool.rail_of(1), b.pool.rail_of(0));
    b.greet(1);
    b.pool.want_fence(1, false);
    b.push_bytes(4, MIB);
    assert_eq!(count(&b.deal(), 1), 0);
    b.later(TcpConfig::default().first_rail_pause);
    b.expect(&[Connect(1)]);
    assert_ne!(b.pool.rail_of(1), b.pool.rail_of(0), "its own rail is probed");
}

/// Where every rail pauses the reserve is tried, and what waits fails only after that.
#[test]
fn a_reserve_is_the_last_thing_that_is_tried() {
    let mut b = rails(2);
    b.push_bytes(1, 4096);
    b.expect(&[Connect(0)]);
    b.fail_by_rail(0);
    b.expect(&[Connect(1)]);
    b.fail_by_rail(1);
    b.later(MAX_PAUSE);
    b.expect(&[Connect(0)]);
    assert_eq!(b.pool.rail_of(0).as_usize(), 2);
    b.fail_by_rail(0);
    b.expect(&[Fail(vec![0])]);
}
