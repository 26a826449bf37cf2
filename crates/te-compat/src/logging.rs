//! The log of surfaces whose programs have none of their own: C and Python.

use std::fs::{self, OpenOptions};
use std::io;
use std::sync::Mutex;

use te_engine::{EngineConfig, LogLevel};
use tracing::level_filters::LevelFilter;

/// Sends what the engine logs to standard error, or to a file in the folder that the configuration
/// names, unless the program has a subscriber already. Only the first call of a process counts. Without
/// a level in the configuration only warnings are written.
pub fn start_logging(config: &EngineConfig) {
    let level = level(config);
    let log = tracing_subscriber::fmt().with_max_level(level).with_target(false).with_ansi(false);
    let file = config.log.directory.as_ref().and_then(|directory| {
        let path = directory.join(format!("te.{}.log", std::process::id()));
        fs::create_dir_all(directory).ok()?;
        OpenOptions::new().create(true).append(true).open(path).ok()
    });
    // A program that has a subscriber keeps it.
    let _ = match file {
        Some(file) => log.with_writer(Mutex::new(file)).try_init(),
        None => log.with_writer(io::stderr).try_init(),
    };
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
