//! Which connection gives way to a new one at a limit.
//!
//! First the oldest that is answered and only waits for its client's end, then the oldest whose
//! question is not whole. One that is being answered never gives way.

use std::time::Instant;

use super::connection::Stage;

/// The key of the connection that gives way.
pub(super) fn choose(open: impl Iterator<Item = (usize, Stage, Instant)>) -> Option<usize> {
    open.filter(|(_, stage, _)| *stage != Stage::Answering)
        .min_by_key(|(_, stage, accepted)| (*stage, *accepted))
        .map(|(key, _, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::deadline::now;
    use std::time::Duration;

    #[test]
    fn answered_ones_go_first_then_the_oldest_question() {
        let start = now();
        let at = |key, stage, ms| (key, stage, start + Duration::from_millis(ms));
        let all = [
            at(0, Stage::Answering, 0),
            at(1, Stage::Reading, 1),
            at(2, Stage::Reading, 2),
            at(3, Stage::Lingering, 9),
            at(4, Stage::Lingering, 8),
        ];
        assert_eq!(choose(all.into_iter()), Some(4));
        assert_eq!(choose(all.into_iter().take(3)), Some(1));
        assert_eq!(choose(all.into_iter().take(1)), None);
        assert_eq!(choose(std::iter::empty()), None);
    }
}
