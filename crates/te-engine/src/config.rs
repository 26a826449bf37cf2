//! One configuration value, put together at the edge and immutable after.
//!
//! ```text
//! defaults  <  TOML file  <  MC_* variables  <  TE_* variables  <  the program (adjust)
//! ```
//!
//! A variable with a bad value never stops an engine: what the weaker layers say stays in force
//! and a [`ConfigWarning`] names the variable, its value and what is used instead. A bad file or a
//! bad call is an error, because somebody wrote it for this engine.
//!
//! I1  Every value of an [`EngineConfig`] is in the range that the table of variables names.
//! I2  The environment is read here only, and only while a configuration is loaded.
//! I3  Nothing here ends the process.

mod document;
mod draft;
mod effective;
mod environment;
mod error;
mod file;
mod form;
mod kind;
mod layer;
mod metadata;
mod rdma;
mod rules;
mod settings;
#[cfg(feature = "tcp")]
mod tcp;
mod variables;
#[cfg(feature = "rdma")]
mod verbs;

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::path::PathBuf;

pub use document::configuration_reference;
pub use effective::{EffectiveValue, Source};
pub use environment::{Environment, ProcessEnvironment};
pub use error::{ConfigError, ConfigWarning, SettingProblem};
pub use rdma::{
    EfaNicSelection, EndpointStore, ParallelRegistration, PathMtu, RdmaSettings, UnknownNumber,
};
pub use settings::{
    EngineSettings, LogLevel, LogSettings, MetadataSettings, PeerSettings, Settings, TcpSettings,
    TopologySettings,
};

use draft::{Draft, Sources};
use layer::Layer;

/// A checked configuration that knows where each value comes from.
///
/// It reads like [`Settings`]; [`EngineConfig::adjust`] makes a changed copy.
///
/// ```
/// use te_engine::EngineConfig;
///
/// let config = EngineConfig::default().adjust(|settings| settings.tcp.lanes_per_peer = 8)?;
/// assert_eq!(config.tcp.lanes_per_peer, 8);
/// assert!(config.adjust(|settings| settings.tcp.lanes_per_peer = 99).is_err());
/// # Ok::<(), te_engine::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineConfig {
    settings: Settings,
    sources: Sources,
    warnings: Vec<ConfigWarning>,
}

/// Where [`EngineConfig::load`] looks.
#[derive(Debug)]
pub struct LoadOptions<'a> {
    /// A TOML file. None: the one that the variable `TE_CONFIG` names, if it is set.
    pub file: Option<PathBuf>,
    /// Usually [`ProcessEnvironment`].
    pub environment: &'a dyn Environment,
}

impl EngineConfig {
    /// Puts a configuration together from a file and the environment.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use te_engine::{EngineConfig, LoadOptions};
    ///
    /// let environment = BTreeMap::from([("MC_TCP_LANES_PER_PEER", "lots")]);
    /// let config = EngineConfig::load(&LoadOptions { file: None, environment: &environment })?;
    /// assert_eq!(config.tcp.lanes_per_peer, 4);
    /// assert_eq!(config.warnings()[0].variable(), "MC_TCP_LANES_PER_PEER");
    /// # Ok::<(), te_engine::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has settings that do not exist or are out of
    /// range. Variables never fail, see [`EngineConfig::warnings`].
    pub fn load(options: &LoadOptions<'_>) -> Result<Self, ConfigError> {
        let mut draft = Draft::new().map_err(one_problem)?;
        if let Some(path) = options.file.clone().or_else(|| named_file(options.environment)) {
            file::read_into(&mut draft, &path)?;
        }
        layer::apply(&mut draft, options.environment, Layer::Mooncake);
        layer::apply(&mut draft, options.environment, Layer::Own);
        draft.finish().map_err(one_problem)
    }

    /// [`EngineConfig::load`] with the environment of this process.
    ///
    /// # Errors
    /// As for [`EngineConfig::load`].
    pub fn from_process() -> Result<Self, ConfigError> {
        Self::load(&LoadOptions { file: None, environment: &ProcessEnvironment })
    }

    /// A copy with changes that a program makes; they win over all other sources.
    ///
    /// # Errors
    /// Every setting that would be out of range, all at once.
    pub fn adjust(&self, change: impl FnOnce(&mut Settings)) -> Result<Self, ConfigError> {
        let mut adjusted = self.clone();
        change(&mut adjusted.settings);
        let problems = adjusted.mark_changes(&self.settings).map_err(one_problem)?;
        match problems {
            problems if problems.is_empty() => Ok(adjusted),
            problems => Err(ConfigError::Settings { problems }),
        }
    }

    /// What was set in the environment and not taken as it stands.
    pub fn warnings(&self) -> &[ConfigWarning] {
        &self.warnings
    }

    /// Every value that is in force, with its source, in the order of the sections.
    pub fn effective(&self) -> Vec<EffectiveValue> {
        effective::values(&self.settings, &self.sources)
    }

    /// Gives changed values their source and checks them.
    fn mark_changes(&mut self, before: &Settings) -> Result<Vec<SettingProblem>, SettingProblem> {
        let (old, new) = (draft::tree_of(before)?, draft::tree_of(&self.settings)?);
        let mut problems = Vec::new();
        for row in variables::variables() {
            let (old, new) = (draft::value_in(&old, row), draft::value_in(&new, row));
            if old == new {
                continue;
            }
            self.sources.insert(row.field, Source::Program);
            if new.is_some_and(|value| !row.kind.accepts(value)) {
                let reason =
                    format!("= {} is not {}", draft::shown(row, new), row.kind.toml_form());
                problems.push(SettingProblem { place: None, key: row.field.to_owned(), reason });
            }
        }
        let draft = Draft::of(new, self.sources.clone());
        problems.extend(rules::broken(&draft).into_iter().map(rules::Broken::into_problem));
        Ok(problems)
    }
}

impl Deref for EngineConfig {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

fn named_file(environment: &dyn Environment) -> Option<PathBuf> {
    environment.value("TE_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn one_problem(problem: SettingProblem) -> ConfigError {
    ConfigError::Settings { problems: vec![problem] }
}
