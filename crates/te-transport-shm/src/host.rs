//! Which host, which process: what tells two processes with the same number apart.

use std::fs;
use std::io;

use rustix::process::Pid;

/// This process as others on the host may name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The kernel's random name of this boot.
    pub(crate) boot: String,
    /// The inode of the namespace that process ids count in.
    pub(crate) pid_namespace: u64,
    /// Our process id in it.
    pub(crate) pid: Pid,
    /// When this process started, in clock ticks since the boot.
    pub(crate) start: u64,
}

impl Place {
    /// Looks it up.
    pub(crate) fn here() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let link = fs::read_link("/proc/self/ns/pid")?;
        let pid_namespace = namespace_inode(&link.to_string_lossy())
            .ok_or_else(|| io::Error::other("the pid namespace has no inode"))?;
        let pid = rustix::process::getpid();
        Ok(Self { boot, pid_namespace, pid, start: start_time(pid)? })
    }
}

/// When a process started, in clock ticks since the boot.
pub(crate) fn start_time(pid: Pid) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()))?;
    start_of(&stat).ok_or_else(|| io::Error::other("the process has no start time"))
}

/// Field 22. The name before it is in brackets and may hold any character, also brackets.
fn start_of(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The number in `pid:[4026531836]`.
fn namespace_inode(link: &str) -> Option<u64> {
    link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let line = |name: &str| {
            format!("7 ({name}) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 99 1")
        };
        for name in ["te", "a b", "x) S 1 (y", ")))"] {
            assert_eq!(start_of(&line(name)), Some(4711), "{name}");
        }
        assert_eq!(start_of("7 (te) S 1 7"), None);
        assert_eq!(start_of(""), None);
    }

    #[test]
    fn a_namespace_has_an_inode() {
        assert_eq!(namespace_inode("pid:[4026531836]"), Some(4_026_531_836));
        assert_eq!(namespace_inode("net:[1]"), None);
        assert_eq!(namespace_inode("pid:[]"), None);
    }

    #[test]
    fn this_process_knows_its_place() {
        let here = Place::here().unwrap();
        assert_eq!(here, Place::here().unwrap());
        assert_eq!(here.boot.len(), 36);
        assert!(here.start > 0);
    }
}
