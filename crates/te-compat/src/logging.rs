//! The log of surfaces whose programs have none of their own: C and Python.
//!
//! I1  A line is one write to the system, without a lock: a forked child, which has not the thread that
//!     held one, can log (FB52).

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;

use te_engine::{EngineConfig, LogLevel};
use tracing::level_filters::LevelFilter;

/// Sends what the engine logs to standard error, or to a file in the folder that the configuration
/// names, unless the program has a subscriber already. Only the first call of a process counts. Without
/// a level in the configuration only warnings are written.
pub fn start_logging(config: &EngineConfig) {
    let level = level(config);
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(false).with_ansi(false);
    // A line that cannot be written would be told to standard error, under its lock.
    let log = log.log_internal_errors(false);
    let file = config.log.directory.as_ref().and_then(|directory| {
        let path = directory.join(format!("te.{}.log", std::process::id()));
        fs::create_dir_all(directory).ok()?;
        OpenOptions::new().create(true).append(true).open(path).ok()
    });
    // A program that has a subscriber keeps it.
    let _ = match file {
        Some(file) => log.with_writer(Arc::new(file)).try_init(),
        None => log.with_writer(|| Stderr).try_init(),
    };
}

/// Standard error without the lock that the standard library has for it.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(io::stderr(), line)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn level(config: &EngineConfig) -> LevelFilter {
    let is_asked = config
        .effective()
        .iter()
        .any(|value| value.name == "log.level" && value.source != te_engine::Source::Default);
    match config.log.level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Info if is_asked => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    }
}
