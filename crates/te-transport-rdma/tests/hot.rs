//! Moving bytes allocates nothing and takes no lock, with one NIC and with several. Allocations are
//! those of the whole process, so this program has one test, and the least of several looks counts:
//! what a timer of another thread allocates is not on the path, which every look takes thousands of
//! times.

mod common;

use common::hot::Hot;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use te_transport_rdma::Rdma;

#[global_allocator]
static COUNTED: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const LOOKS: usize = 10;
const ROUNDS: usize = 50;

#[test]
fn planning_posting_and_completing_allocate_nothing_and_take_no_lock() {
    for nics in [1, 2, 8] {
        let mut hot = Hot::new(nics);
        let locks = Rdma::locks_taken();
        let look = || {
            let region = Region::new(COUNTED);
            (0..ROUNDS).for_each(|_| hot.round());
            let change = region.change();
            change.allocations + change.reallocations
        };
        let made = std::iter::repeat_with(look).take(LOOKS).min();
        let taken = Rdma::locks_taken() - locks;
        assert_eq!((made, taken), (Some(0), 0), "{nics} NICs: allocations, locks");
        hot.close();
    }
}
