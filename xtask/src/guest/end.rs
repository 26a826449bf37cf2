//! How a run in a guest ended.

/// How a run in a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The program exited with this code.
    Exit(i32),
    /// This signal ended the program.
    Signal(i32),
    /// The program could not be started, for this reason.
    NotStarted(String),
    /// A limit was reached; the text says which.
    Limit(String),
    /// The guest's kernel gave up, with these words.
    Panic(String),
    /// The guest ended or fell silent without a word on the program.
    Lost(String),
}

/// The exit code of a run that a limit ended, as `timeout` has it.
pub(crate) const LIMIT_CODE: u8 = 124;

/// The exit code of a run whose guest did not say how the program ended.
pub(crate) const LOST_CODE: u8 = 125;

/// The exit code of a run that could not be: no qemu, no kernel.
pub(crate) const SKIPPED_CODE: u8 = 77;

impl End {
    /// The exit code that stands for it. That of a signal is 128 more than its number, as in a
    /// shell.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Exit(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            Self::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
            Self::Limit(_) => LIMIT_CODE,
            Self::NotStarted(_) | Self::Panic(_) | Self::Lost(_) => LOST_CODE,
        }
    }

    /// In words.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Exit(code) => format!("exit code {code}"),
            Self::Signal(number) => format!("ended by signal {number}"),
            Self::NotStarted(why) => format!("the program did not start: {why}"),
            Self::Limit(which) => format!("ended at its limit: {which}"),
            Self::Panic(words) => format!("the kernel of the guest gave up: {words}"),
            Self::Lost(how) => format!("the guest was lost: {how}"),
        }
    }

    /// Whether it is the program's own end, of which its output says the rest.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Exit(_))
    }
}

/// What the kernel said last that explains why a guest is gone: the line with which it gives up,
/// or with which it ends a program for want of memory.
pub(crate) fn last_words(console: &str) -> Option<String> {
    let lines = || console.lines().rev().map(without_time);
    let of = |mark: &str| lines().find(|line| line.contains(mark)).map(str::to_owned);
    of("Kernel panic").or_else(|| of("Out of memory")).or_else(|| of("BUG: "))
}

/// A line of the kernel without the time that stands before it.
fn without_time(line: &str) -> &str {
    let rest = line.strip_prefix('[').and_then(|line| line.split_once("] "));
    rest.map_or(line, |(_, rest)| rest).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_tell_ends_apart() {
        assert_eq!(End::Exit(3).code(), 3);
        assert_eq!(End::Exit(-1).code(), 255);
        assert_eq!(End::Signal(9).code(), 137);
        assert_eq!(End::Limit(String::new()).code(), LIMIT_CODE);
        assert_eq!(End::Panic(String::new()).code(), LOST_CODE);
    }

    #[test]
    fn the_reason_of_a_panic_is_found_among_other_lines() {
        let console = "[    1.0] BUG: something\n[    5.274] Kernel panic - not syncing: sysrq\n\
                       [    5.3] Rebooting in 1 seconds..\n";
        assert_eq!(last_words(console).as_deref(), Some("Kernel panic - not syncing: sysrq"));
        assert_eq!(last_words("all is well\n"), None);
    }
}
