//! Settings that the command line asks for, over those of file and environment.

use std::collections::BTreeMap;
use std::ffi::OsString;

use te_engine::{EngineConfig, Environment, LoadOptions, ProcessEnvironment, TransferEngine};

use super::args::{Bench, Way};
use crate::args::Common;
use crate::error::{CliError, Failure};
use crate::session;

/// Variables by name, for both sides.
pub(super) type Settings = BTreeMap<String, String>;

/// Everything that the options ask for, by variable.
pub(super) fn all(args: &Bench) -> Result<Settings, CliError> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    let spin = if args.low_cpu { Some(0) } else { args.spin }.map(|spin| spin.to_string());
    for name in ["tcp.spin_us", "rdma.spin_us"] {
        wanted.extend(spin.iter().map(|spin| (name, spin.as_str())));
    }
    if args.transport != Way::Auto {
        wanted.push(("engine.transports", args.transport.word()));
    }
    wanted.extend(args.set.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    wanted.into_iter().map(|(name, value)| Ok((variable(name)?, value.to_owned()))).collect()
}

/// The configuration of this side. A value that would not be taken is refused.
pub(super) fn config(common: &Common, settings: &Settings) -> Result<EngineConfig, CliError> {
    let environment = Overlay(settings);
    let options = LoadOptions { file: common.config.clone(), environment: &environment };
    let config = EngineConfig::load(&options).map_err(|error| CliError::config(&error))?;
    let asked = config.warnings().iter().find(|warning| settings.contains_key(warning.variable()));
    match asked {
        Some(warning) => Err(CliError::new(Failure::Usage, "bench", warning)),
        None => Ok(config),
    }
}

/// The engine of this side.
pub(super) fn engine(
    common: &Common,
    args: &Bench,
    config: EngineConfig,
) -> Result<TransferEngine, CliError> {
    if args.is_local() {
        return session::server_with(common, config, "127.0.0.1");
    }
    session::client_with(common, config)
}

/// The variable of a setting.
fn variable(name: &str) -> Result<String, CliError> {
    let known = EngineConfig::default().effective();
    match known.into_iter().find(|value| value.name == name) {
        Some(value) => Ok(value.variable),
        None => {
            let cause = format!("there is no setting {name}");
            Err(CliError::new(Failure::Usage, "bench", cause).hint("`te config` lists them"))
        }
    }
}

/// The environment with our settings on top.
#[derive(Debug)]
struct Overlay<'a>(&'a Settings);

impl Environment for Overlay<'_> {
    fn value(&self, name: &str) -> Option<OsString> {
        let own = self.0.get(name).map(OsString::from);
        own.or_else(|| ProcessEnvironment.value(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_by_its_name() {
        assert_eq!(variable("tcp.protocol_version").unwrap(), "TE_TCP_PROTO");
        assert!(variable("tcp.nothing").unwrap_err().to_string().contains("no setting"));
    }

    #[test]
    fn our_settings_win_over_the_environment() {
        let settings = Settings::from([("TE_TCP_PROTO".to_owned(), "2".to_owned())]);
        let environment = Overlay(&settings);
        let options = LoadOptions { file: None, environment: &environment };
        assert_eq!(EngineConfig::load(&options).unwrap().tcp.protocol_version, 2);
    }
}
