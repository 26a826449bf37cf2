//! `te notify` and `te probe`: one question, one answer.

use serde_json::json;
use te_engine::EngineError;

use crate::args::{self, Common};
use crate::error::{CliError, Failure, chain};
use crate::output;
use crate::session;
use crate::units;

pub(crate) fn notify(common: &Common, args: &args::Notify) -> Result<(), CliError> {
    let engine = session::client(common, None)?;
    let message = te_engine::Notify { name: args.name.clone(), msg: args.message.clone() };
    engine
        .notify(&args.segment, &message)
        .map_err(|error| failed("notify", &args.segment, &error))?;
    session::close(&engine);
    if common.json {
        return output::json(&json!({ "segment": args.segment, "delivered": true }));
    }
    output::line(&format!("{} took the message", args.segment))
}

pub(crate) fn probe(common: &Common, args: &args::Probe) -> Result<(), CliError> {
    let engine = session::client(common, None)?;
    let time = engine
        .probe(&args.segment, args.timeout)
        .map_err(|error| failed("probe", &args.segment, &error))?;
    session::close(&engine);
    if common.json {
        let seconds = time.as_secs_f64();
        return output::json(
            &json!({ "segment": args.segment, "alive": true, "seconds": seconds }),
        );
    }
    output::line(&format!("{} is alive, answered in {}", args.segment, units::shown_time(time)))
}

fn failed(action: &str, name: &str, error: &EngineError) -> CliError {
    match error {
        EngineError::Open(error) => CliError::open(action, name, error),
        EngineError::Peer(error) => CliError::peer(action, name, error),
        other => CliError::new(Failure::Other, action, chain(other)).with_peer(name),
    }
}
