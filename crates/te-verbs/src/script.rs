//! One script of operations for every provider, and what was seen.
//!
//! It runs on two devices that reach each other, and gives a line for each observation. Numbers that
//! differ from run to run are left out, so that the lines of two providers can be compared.

mod ends;
mod faults;
mod moves;
mod states;

use std::fmt;
use std::time::Duration;

use te_topology::NicName;

use self::ends::Ends;
use crate::error::{PostError, VerbsError};
use crate::seam::{Device, Verbs};

/// Takes the link between two devices away, and gives it back.
pub trait Link {
    /// The first device's link goes down, or comes up.
    fn set(&self, up: bool);
}

/// What a script saw: one line for each observation, `scene: what`.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    scene: &'static str,
    lines: Vec<String>,
}

impl Seen {
    fn scene(&mut self, name: &'static str) {
        self.scene = name;
    }

    fn line(&mut self, what: impl fmt::Display) {
        self.lines.push(format!("{}: {what}", self.scene));
    }

    /// The result of a call.
    fn call<T>(&mut self, what: impl fmt::Display, result: Result<T, VerbsError>) -> Option<T> {
        match result {
            Ok(value) => {
                self.line(format_args!("{what}: ok"));
                Some(value)
            }
            Err(error) => {
                let errno = error.errno.map_or("?", errno_name);
                self.line(format_args!("{what}: {errno}"));
                None
            }
        }
    }

    fn post(&mut self, what: impl fmt::Display, result: Result<(), PostError>) {
        match result {
            Ok(()) => self.line(format_args!("{what}: posted")),
            Err(PostError { posted, errno }) => {
                self.line(format_args!("{what}: {posted} posted, then {}", errno_name(errno)));
            }
        }
    }
}

/// The names of the error numbers that verbs give.
fn errno_name(errno: i32) -> &'static str {
    match errno {
        libc::EINVAL => "EINVAL",
        libc::ENOMEM => "ENOMEM",
        libc::ENODEV => "ENODEV",
        libc::EIO => "EIO",
        libc::EFAULT => "EFAULT",
        libc::EAGAIN => "EAGAIN",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EPERM => "EPERM",
        libc::ENODATA => "ENODATA",
        libc::ENOENT => "ENOENT",
        _ => "another",
    }
}

/// Runs the script between two devices of a provider, the scenes with a link going down only where
/// there is one to take away. Where nothing is heard for `quiet`, nothing is expected any more.
///
/// # Errors
/// Something failed that the script needs and does not test.
pub fn script(
    verbs: &dyn Verbs,
    names: [&NicName; 2],
    link: Option<&dyn Link>,
    quiet: Duration,
) -> Result<Vec<String>, VerbsError> {
    let mut seen = Seen::default();
    seen.scene("devices");
    let known = verbs.devices()?;
    let are_there = names.iter().all(|name| known.iter().any(|device| device.name == **name));
    seen.line(format_args!("both listed: {are_there}"));
    let nobody = NicName::parse("nobody0").expect("a good name");
    seen.call("open one that is not there", verbs.open(&nobody));
    let ends = Ends::open(verbs, names, quiet)?;
    states::run(&ends, &mut seen)?;
    moves::run(&ends, &mut seen)?;
    faults::run(&ends, &mut seen)?;
    if let Some(link) = link {
        faults::link_down(&ends, link, &mut seen)?;
    }
    Ok(seen.lines)
}

/// What the fake answers, and what soft-RoCE (Linux 6.1) answers instead. The fake is stricter there,
/// as hardware is.
const SOFT_ROCE: &[(&str, &str)] = &[
    (
        "states: INIT with a partition key that is not there: EINVAL",
        "states: INIT with a partition key that is not there: ok",
    ),
    ("routes: too many READs: EINVAL", "routes: too many READs: ok"),
    // It names no request where the queue pair is in the wrong state, so that all count as posted.
    (
        "states: post in RESET: 0 posted, then EINVAL",
        "states: post in RESET: 1 posted, then EINVAL",
    ),
    ("states: post in INIT: 0 posted, then EINVAL", "states: post in INIT: 1 posted, then EINVAL"),
    ("states: post in RTR: 0 posted, then EINVAL", "states: post in RTR: 1 posted, then EINVAL"),
];

/// Lines of a run on real verbs that differ from those on the fake and are not known to: both, the
/// fake's first; `-` where one has no more. Without a link to take away, its scenes are not missed.
pub fn differences(seen: &[String]) -> Vec<(String, String)> {
    let has_link = seen.iter().any(|line| line.starts_with(LINK));
    let all = include_str!("script/golden.txt").lines();
    let fake: Vec<&str> = all.filter(|line| has_link || !line.starts_with(LINK)).collect();
    let both = (0..fake.len().max(seen.len()))
        .map(|at| (fake.get(at).copied().unwrap_or("-"), seen.get(at).map_or("-", String::as_str)));
    let unknown = both.filter(|pair| pair.0 != pair.1 && !SOFT_ROCE.contains(pair));
    unknown.map(|(fake, real)| (fake.to_owned(), real.to_owned())).collect()
}

/// How the lines of the scenes with a link begin.
const LINK: &str = "link: ";

#[cfg(test)]
mod tests;
