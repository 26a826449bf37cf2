//! What starts this program once more.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A program and the words before the verb: `te` itself, or an interpreter that runs it.
#[derive(Debug, Clone, Default)]
pub struct Program(Vec<OsString>);

static INSTALLED: OnceLock<Program> = OnceLock::new();

impl Program {
    /// The file that this process was started from.
    pub fn this() -> Self {
        Self::default()
    }

    /// The first word is the file to start; none means the file of this process.
    pub fn new(words: impl IntoIterator<Item = OsString>) -> Self {
        Self(words.into_iter().collect())
    }

    /// The first one that is installed stays.
    pub(crate) fn install(self) {
        INSTALLED.get_or_init(|| self);
    }

    /// A command that starts the installed program; the verb comes next.
    pub(crate) fn command() -> io::Result<Command> {
        let words = INSTALLED.get().map_or(&[][..], |program| &program.0);
        let Some((file, words)) = words.split_first() else {
            return std::env::current_exe().map(Command::new);
        };
        let mut command = Command::new(PathBuf::from(file));
        command.args(words);
        Ok(command)
    }
}
