//! Processor time of a process, from /proc: user and system, all its threads.

use std::fs;
use std::time::Duration;

/// What the living threads of a process have used so far; none where /proc does not tell.
///
/// The scheduler's own account has nanoseconds. The times in `stat` have hundredths of a second,
/// too coarse for transfers that take a tenth of one.
pub(crate) fn used(pid: u32) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // A thread that ends meanwhile has no account any more.
        if let Ok(account) = fs::read_to_string(thread.path().join("schedstat")) {
            sum += parse(&account)?;
        }
    }
    (sum > Duration::ZERO).then_some(sum)
}

/// The first number is the time on a processor in nanoseconds.
fn parse(account: &str) -> Option<Duration> {
    account.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_counts() {
        assert_eq!(parse("1500000 20 3\n"), Some(Duration::from_micros(1500)));
        assert_eq!(parse("x 20 3\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_process_that_works_uses_time() {
        let before = used(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while used(std::process::id()).unwrap() <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }

    #[test]
    fn a_process_that_is_not_there_tells_nothing() {
        assert_eq!(used(u32::MAX), None);
    }
}
