//! What libraries log goes to standard error, or to a file where the configuration names a folder.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Mutex;

use te_engine::{EngineConfig, LogLevel};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::error::CliError;

/// Starts logging. Without -v only warnings are seen, unless the configuration asks for more.
pub(crate) fn start(config: &EngineConfig, verbose: u8) -> Result<(), CliError> {
    let level = level(config, verbose);
    match &config.log.directory {
        Some(directory) => to_file(directory, level),
        None => {
            tracing_subscriber::fmt()
                .with_env_filter(seen(level, verbose))
                .with_ansi(io::stderr().is_terminal())
                .with_target(false)
                .with_writer(io::stderr)
                .init();
            Ok(())
        }
    }
}

/// Requests that failed are told by the verb itself, in one line; the engine's own summary of them
/// is seen with -v.
fn seen(level: LevelFilter, verbose: u8) -> EnvFilter {
    let own = if verbose == 0 { ",te_engine::requests=off" } else { "" };
    EnvFilter::new(format!("{level}{own}"))
}

fn to_file(directory: &Path, level: LevelFilter) -> Result<(), CliError> {
    let path = directory.join(format!("te.{}.log", std::process::id()));
    let file = fs::create_dir_all(directory)
        .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
        .map_err(|cause| CliError::file("cannot log to", &path, &cause))?;
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(Mutex::new(file))
        .init();
    Ok(())
}

fn level(config: &EngineConfig, verbose: u8) -> LevelFilter {
    let asked = config
        .effective()
        .iter()
        .any(|value| value.name == "log.level" && value.source != te_engine::Source::Default);
    match (verbose, config.log.level) {
        (0, LogLevel::Trace) => LevelFilter::TRACE,
        (0, LogLevel::Info) if asked => LevelFilter::INFO,
        (0, LogLevel::Error) => LevelFilter::ERROR,
        (0, _) => LevelFilter::WARN,
        (1, _) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}
