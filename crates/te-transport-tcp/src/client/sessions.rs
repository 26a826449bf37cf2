//! What lanes of version 3 were called, also after their peer was forgotten.
//!
//! A write that ended in doubt may still lie in front of the peer. The next connection fences it
//! only if it belongs to the same session, however long after it comes.
//!
//! I1  A destination that had a connection gets its numbers back, unless `MOST` others came since.

use std::collections::{HashMap, VecDeque};

use crate::client::speak::Numbers;
use crate::inbox::Destination;

/// Destinations that are remembered; some 100 bytes each.
const MOST: usize = 16_384;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    numbers: HashMap<Destination, Vec<Numbers>>,
    /// In the order in which they were kept; each is in the map.
    order: VecDeque<Destination>,
}

impl Sessions {
    /// The numbers of a destination's lanes, as they were or new.
    pub(super) fn take(&mut self, to: &Destination, lanes: usize) -> Vec<Numbers> {
        match self.numbers.remove(to) {
            Some(mut kept) => {
                self.order.retain(|known| known != to);
                // What a peer says of its addresses may have changed.
                kept.extend((kept.len()..lanes).map(|_| Numbers::new()));
                kept
            }
            None => (0..lanes).map(|_| Numbers::new()).collect(),
        }
    }

    /// Keeps the numbers of a destination that is forgotten, if it had a connection.
    pub(super) fn keep(&mut self, to: Destination, numbers: Vec<Numbers>) {
        if numbers.iter().all(Numbers::is_unused) {
            return;
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        self.order.push_back(to.clone());
        self.numbers.insert(to, numbers);
    }
}

#[cfg(test)]
mod tests {
    use te_metadata::{HostPort, Incarnation};

    use super::*;

    fn destination(number: u128) -> Destination {
        let address = HostPort::parse("127.0.0.1:1").unwrap();
        Destination { address, v3: Some(Incarnation::from_u128(number)) }
    }

    #[test]
    fn a_destination_gets_its_session_back_and_the_oldest_makes_room() {
        let mut sessions = Sessions::default();
        let mut used = sessions.take(&destination(0), 1);
        used[0].next();
        let session = used[0].session();
        sessions.keep(destination(0), used);
        let again = sessions.take(&destination(0), 1);
        assert_eq!((again[0].session(), again[0].is_unused()), (session, false));
        sessions.keep(destination(1), sessions_unused());
        assert!(sessions.numbers.is_empty(), "a lane that never connected has nothing to fence");
        sessions.keep(destination(0), again);
        for number in 1..=MOST as u128 {
            let mut numbers = sessions.take(&destination(number), 1);
            numbers[0].next();
            sessions.keep(destination(number), numbers);
        }
        assert_eq!((sessions.numbers.len(), sessions.order.len()), (MOST, MOST));
        assert_ne!(sessions.take(&destination(0), 1)[0].session(), session);
    }

    fn sessions_unused() -> Vec<Numbers> {
        vec![Numbers::new()]
    }
}
