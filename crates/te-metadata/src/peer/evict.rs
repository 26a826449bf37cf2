//! Which connection gives way at a limit, to a new one or to others' bytes.
//!
//! First the oldest that is answered and only waits for its client's end; it loses nothing. Then
//! the oldest of the others: honest exchanges are short, so under a flood of slow clients it is
//! one of those that goes.

use std::time::Instant;

use super::connection::Stage;

/// The key of the connection that gives way; `None` when there is none.
pub(super) fn choose(open: impl Iterator<Item = (usize, Stage, Instant)>) -> Option<usize> {
    open.min_by_key(|(_, stage, accepted)| (*stage != Stage::Lingering, *accepted))
        .map(|(key, _, _)| key)
}

/// The key of the connection that gives its bytes back: an unfinished question before an answer that
/// is on its way, and the one that holds most.
pub(super) fn greediest(open: impl Iterator<Item = (usize, Stage, usize)>) -> Option<usize> {
    open.max_by_key(|(_, stage, bytes)| (*stage == Stage::Reading, *bytes)).map(|(key, ..)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::deadline::now;
    use std::time::Duration;

    #[test]
    fn answered_ones_go_first_then_the_oldest() {
        let start = now();
        let at = |key, stage, ms| (key, stage, start + Duration::from_millis(ms));
        let all = [
            at(0, Stage::Reading, 1),
            at(1, Stage::Answering, 0),
            at(2, Stage::Reading, 2),
            at(3, Stage::Lingering, 9),
            at(4, Stage::Lingering, 8),
        ];
        assert_eq!(choose(all.into_iter()), Some(4));
        assert_eq!(choose(all.into_iter().take(3)), Some(1));
        assert_eq!(choose(all.into_iter().take(1)), Some(0));
        assert_eq!(choose(std::iter::empty()), None);
    }

    #[test]
    fn unfinished_questions_give_bytes_back_first_and_the_largest_of_them() {
        let all = [
            (0, Stage::Reading, 10),
            (1, Stage::Answering, 1000),
            (2, Stage::Reading, 500),
            (3, Stage::Reading, 20),
        ];
        assert_eq!(greediest(all.into_iter()), Some(2));
        assert_eq!(greediest(all.into_iter().take(2)), Some(0));
        assert_eq!(greediest(all.into_iter().skip(1).take(1)), Some(1));
        assert_eq!(greediest(std::iter::empty()), None);
    }
}
