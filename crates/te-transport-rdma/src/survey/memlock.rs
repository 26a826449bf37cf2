//! How much memory this process may lock.

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::Finding;

/// Systems allow 64 KiB to 8 MiB where nobody thought of it; whoever sets a limit sets more.
const LITTLE: u64 = 64 << 20;

/// What the system says.
pub(super) fn check() -> Option<Finding> {
    let limit = getrlimit(Resource::Memlock);
    // Who may lock as much as they like is asked for no limit.
    let has_right =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    judge(limit.current, limit.maximum, has_right)
}

fn judge(limit: Option<u64>, raisable_to: Option<u64>, has_right: bool) -> Option<Finding> {
    let limit = limit.filter(|limit| *limit < LITTLE && !has_right)?;
    Some(Finding::LittleMemlock { limit, raisable_to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_told_to_whoever_it_binds() {
        let low = Some(64 << 10);
        let found = Finding::LittleMemlock { limit: 64 << 10, raisable_to: None };
        assert_eq!(judge(low, None, false), Some(found));
        assert_eq!(judge(low, None, true), None, "CAP_IPC_LOCK knows no limit");
        assert_eq!(judge(None, None, false), None);
        assert_eq!(judge(Some(LITTLE), None, false), None);
        let here = check();
        assert!(here.is_none_or(|found| found.nic().is_none()));
    }
}
