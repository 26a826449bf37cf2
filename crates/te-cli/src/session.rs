//! From the common options to a running engine.

use std::sync::Arc;
use std::time::Duration;

use te_engine::{
    EngineBuilder, EngineConfig, LoadOptions, ProcessEnvironment, Region, RegisterOptions,
    RemoteAccess, RemoteSegment, SegmentId, TransferEngine,
};

use crate::args::Common;
use crate::error::{CliError, Failure, chain};
use crate::logging;

/// Settings from all their sources.
pub(crate) fn load_config(common: &Common) -> Result<EngineConfig, CliError> {
    let options = LoadOptions { file: common.config.clone(), environment: &ProcessEnvironment };
    EngineConfig::load(&options).map_err(|error| CliError::config(&error))
}

/// An engine for a verb that only asks others: it exposes nothing. `limit` also bounds how long
/// a peer may take to tell about itself.
pub(crate) fn client(common: &Common, limit: Option<Duration>) -> Result<TransferEngine, CliError> {
    let config = load_config(common)?;
    let config = match limit {
        Some(limit) => config.adjust(|settings| {
            settings.peer.exchange_timeout = settings.peer.exchange_timeout.min(limit);
        }),
        None => Ok(config),
    };
    let config = config.map_err(|error| CliError::config(&error))?;
    start_with(common, config, EngineBuilder::unpublished)
}

/// As [`client`], with settings that the verb put together.
pub(crate) fn client_with(
    common: &Common,
    config: EngineConfig,
) -> Result<TransferEngine, CliError> {
    start_with(common, config, EngineBuilder::unpublished)
}

/// As [`server`] at any port, with settings that the verb put together.
pub(crate) fn server_with(
    common: &Common,
    config: EngineConfig,
    host: &str,
) -> Result<TransferEngine, CliError> {
    start_with(common, config, |builder| builder.name(host))
}

/// An engine that others reach at `host`.
pub(crate) fn server(
    common: &Common,
    host: &str,
    port: Option<u16>,
) -> Result<TransferEngine, CliError> {
    let config = load_config(common)?;
    start_with(common, config, |builder| match port {
        Some(port) => builder.name(host).port(port),
        None => builder.name(host),
    })
}

fn start_with(
    common: &Common,
    config: EngineConfig,
    finish: impl FnOnce(EngineBuilder) -> EngineBuilder,
) -> Result<TransferEngine, CliError> {
    logging::start(&config, common.verbose)?;
    let builder = TransferEngine::builder().config(config).metadata(&common.metadata);
    let builder = builder.named_by_address();
    finish(builder).build().map_err(|error| CliError::build(&error))
}

/// A segment of somebody else.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) id: SegmentId,
    pub(crate) name: String,
    pub(crate) known: Arc<RemoteSegment>,
}

/// Opens a segment; `action` begins the line of an error.
pub(crate) fn open(engine: &TransferEngine, action: &str, name: &str) -> Result<Opened, CliError> {
    let id = engine.open_segment(name).map_err(|error| CliError::open(action, name, &error))?;
    let known = engine.segment(id).ok_or_else(|| {
        CliError::new(Failure::Unreachable, action, "its description is gone").with_peer(name)
    })?;
    Ok(Opened { id, name: name.to_owned(), known })
}

/// Registers memory that only this side reads and writes: RDMA moves no other. Nobody is told of it.
pub(crate) fn keep_to_ourselves(engine: &TransferEngine, region: &Region) -> Result<(), CliError> {
    let options = RegisterOptions { remote: RemoteAccess::None, ..RegisterOptions::default() };
    engine
        .register(region, options)
        .map_err(|error| CliError::new(Failure::Local, "cannot register memory", chain(&error)))
}

/// Ends an engine within the configured time; a thread that does not end is worth a line.
pub(crate) fn close(engine: &TransferEngine) {
    let limit: Duration = engine.config().engine.shutdown_timeout;
    let report = engine.close(limit);
    if !report.joined || report.open_tasks > 0 {
        tracing::warn!(open_tasks = report.open_tasks, joined = report.joined, "closed in haste");
    }
}
