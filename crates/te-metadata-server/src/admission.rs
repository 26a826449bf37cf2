//! How many connections there may be, all together and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::rate::holder;

/// Counts connections.
#[derive(Debug)]
pub(crate) struct Admission {
    max: usize,
    max_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    n: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One connection's place; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    address: IpAddr,
}

impl Admission {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Arc<Self> {
        Arc::new(Self { max, max_per_address, open: Mutex::default() })
    }

    /// A place for a connection from `address`, if there is one.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = holder(address);
        let mut open = self.open.lock();
        let n_here = open.by_address.get(&address).copied().unwrap_or(0);
        if open.n >= self.max || n_here >= self.max_per_address {
            return None;
        }
        open.n += 1;
        open.by_address.insert(address, n_here + 1);
        Some(Place { admission: Arc::clone(self), address })
    }

    pub(crate) fn n_open(&self) -> usize {
        self.open.lock().n
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.admission.open.lock();
        open.n -= 1;
        if let Some(n) = open.by_address.get_mut(&self.address) {
            *n -= 1;
            if *n == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_come_back() {
        let (a, b, c) = ("10.0.0.1", "10.0.0.2", "10.0.0.3");
        let admission = Admission::new(3, 2);
        let enter = |address: &str| admission.enter(address.parse().unwrap());
        let first = enter(a).unwrap();
        let _second = enter(a).unwrap();
        assert!(enter(a).is_none(), "two of one address");
        let _third = enter(b).unwrap();
        assert!(enter(c).is_none(), "three in all");
        drop(first);
        assert!(enter(a).is_some());
        assert_eq!(admission.n_open(), 2);
        assert_eq!(admission.open.lock().by_address.len(), 2);
    }
}
