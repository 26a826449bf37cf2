//! What the kernel says of a running process: processor time, and time in which it was not let run.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::guest::budget::Look;
use crate::ui::Stopwatch;

/// Looks at one process again and again.
#[derive(Debug)]
pub(crate) struct Looker {
    process: u32,
    watch: Stopwatch,
    /// Of each thread, how long it had waited for a processor.
    waited: BTreeMap<u32, Duration>,
    starved: Duration,
    cpu: Duration,
}

impl Looker {
    /// For a process that has just started.
    pub(crate) fn new(process: u32) -> Self {
        Self {
            process,
            watch: Stopwatch::start(),
            waited: BTreeMap::new(),
            starved: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }

    /// Looks now. A process that has ended shows what it showed last.
    pub(crate) fn look(&mut self) -> Look {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process));
        let tasks = tasks.into_iter().flatten().flatten();
        let mut longest = Duration::ZERO;
        for task in tasks.filter_map(|task| task.file_name().to_str()?.parse::<u32>().ok()) {
            let path = format!("/proc/{}/task/{task}/schedstat", self.process);
            let Some(waited) = fs::read_to_string(path).ok().and_then(|text| waited(&text)) else {
                continue;
            };
            let before = self.waited.insert(task, waited).unwrap_or_default();
            longest = longest.max(waited.saturating_sub(before));
        }
        // Threads wait side by side: the one that waited longest held the guest up so long.
        self.starved += longest;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap_or_default();
        self.cpu = self.cpu.max(processor_time(&stat).unwrap_or_default());
        Look { wall: self.watch.elapsed(), cpu: self.cpu, starved: self.starved }
    }
}

/// The second number of `schedstat`: nanoseconds on the run queue.
fn waited(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// User and system time of a `stat` line, which counts in hundredths of a second.
fn processor_time(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_kernel_are_read() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 9 1 1";
        assert_eq!(processor_time(stat), Some(Duration::from_secs(3)));
        assert_eq!(waited("100 2000000 3\n"), Some(Duration::from_millis(2)));
        assert_eq!(waited("nonsense"), None);
        assert_eq!(processor_time(""), None);
    }

    #[test]
    fn this_process_is_seen() {
        let mut looker = Looker::new(std::process::id());
        let first = looker.look();
        let second = looker.look();
        assert!(second.wall >= first.wall && second.starved >= first.starved);
        assert!(!looker.waited.is_empty());
    }
}
