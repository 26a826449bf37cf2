//! `te meta`: what stands in a metadata service.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use te_metadata::{
    Change, ChangeKind, KeyInfo, MAX_VALUE_BYTES, MetadataStore, OpenStoreError, Record,
    StoreError, StoreUri,
};

use crate::args::Common;
use crate::clock;
use crate::error::{CliError, Failure, chain};
use crate::logging;
use crate::output;
use crate::session;
use crate::stop;
use crate::units::{length, parse_seconds, printable};

#[derive(Debug, Args)]
pub(crate) struct Meta {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List keys
    #[command(after_help = LS_EXAMPLES)]
    Ls {
        #[command(flatten)]
        service: Service,
        /// Only keys that begin so
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Print the value of a key
    #[command(after_help = GET_EXAMPLES)]
    Get {
        #[command(flatten)]
        service: Service,
        /// The whole key
        key: String,
    },
    /// Set the value of a key, whoever it belongs to
    #[command(after_help = PUT_EXAMPLES)]
    Put {
        #[command(flatten)]
        service: Service,
        /// The whole key
        key: String,
        /// The value [default: standard input]
        #[arg(conflicts_with = "file")]
        value: Option<String>,
        /// Take the value from this file; - is standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Remove a key, whoever it belongs to
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        #[command(flatten)]
        service: Service,
        /// The whole key
        key: String,
    },
    /// Print every change, until Ctrl-C
    #[command(after_help = WATCH_EXAMPLES)]
    Watch {
        #[command(flatten)]
        service: Service,
        /// Only keys that begin so
        #[arg(default_value = "")]
        prefix: String,
        /// End after this many changes
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// End after this time, like 2.5
        #[arg(long = "for", value_name = "SECONDS", value_parser = parse_seconds)]
        duration: Option<Duration>,
    },
}

/// Which service.
#[derive(Debug, Args)]
struct Service {
    /// The service: http://host:port/metadata, etcd://host:port, redis://host:port
    #[arg(value_name = "URI")]
    uri: String,
}

/// How long one look at a watch takes at most, so that the end of the program is noticed.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn run(common: &Common, args: &Meta) -> Result<(), CliError> {
    match &args.action {
        Action::Ls { service, prefix } => list(common, &Client::open(common, service)?, prefix),
        Action::Get { service, key } => get(common, &Client::open(common, service)?, key),
        Action::Put { service, key, value, file } => {
            let value = match value {
                Some(text) => text.clone().into_bytes(),
                None => read_value(file.as_deref())?,
            };
            put(common, &Client::open(common, service)?, key, &value)
        }
        Action::Rm { service, key } => remove(common, &Client::open(common, service)?, key),
        Action::Watch { service, prefix, count, duration } => {
            let bounds = (count.unwrap_or(u64::MAX), *duration);
            watch(common, &Client::open(common, service)?, prefix, bounds)
        }
    }
}

/// A service and how it is called in errors.
struct Client {
    store: Arc<dyn MetadataStore>,
}

impl Client {
    fn open(common: &Common, service: &Service) -> Result<Self, CliError> {
        let config = session::load_config(common)?;
        logging::start(&config, common.verbose)?;
        let options = config.metadata.to_store_options();
        let uri = StoreUri::parse(&service.uri).map_err(OpenStoreError::from);
        let store = uri.and_then(|uri| te_metadata::open_store(&uri, &options));
        let store = store.map_err(|error| {
            let hint = format!("this program knows {}", te_metadata::available_stores());
            CliError::new(Failure::Usage, "metadata service", chain(&error)).hint(hint)
        })?;
        Ok(Self { store })
    }

    fn failed(&self, action: &str) -> impl FnOnce(StoreError) -> CliError {
        let action = action.to_owned();
        move |error| {
            let failure = match &error {
                StoreError::Unreachable { .. } => Failure::Unreachable,
                StoreError::NotSupported { .. } => Failure::Usage,
                _ => Failure::Refused,
            };
            let failed = CliError::new(failure, action, chain(&error));
            if error.is_about_trust() {
                return failed.hint("section [metadata] of `te config` has user, token and files");
            }
            failed
        }
    }
}

fn list(common: &Common, client: &Client, prefix: &str) -> Result<(), CliError> {
    let keys = client.store.list(prefix).map_err(client.failed("list keys"))?;
    if common.json {
        let keys: Vec<Value> = keys.iter().map(told).collect();
        return output::line(&format!("{:#}", Value::from(keys)));
    }
    let mut text = String::new();
    for key in &keys {
        let bytes = key.bytes.map_or_else(|| "-".to_owned(), length);
        text.push_str(&format!("{bytes:>10}  {}\n", printable(&key.key)));
    }
    output::text(&text)?;
    let noun = if keys.len() == 1 { "key" } else { "keys" };
    output::note(&format!("{} {noun} in {}", keys.len(), client.store.uri()));
    Ok(())
}

fn told(key: &KeyInfo) -> Value {
    let revision = key.revision.as_ref().map(|revision| revision.as_str());
    json!({ "key": key.key, "bytes": key.bytes, "revision": revision })
}

fn get(common: &Common, client: &Client, key: &str) -> Result<(), CliError> {
    let found = client.store.get(key).map_err(client.failed("get a key"))?;
    let Some(Record { value, revision }) = found else { return Err(absent(client, "get", key)) };
    let text = String::from_utf8_lossy(&value);
    if common.json {
        let value = serde_json::from_slice(&value).unwrap_or_else(|_| Value::from(text));
        return output::json(&json!({ "key": key, "revision": revision.as_str(), "value": value }));
    }
    // For a person JSON is set out; a program gets the bytes as they are.
    match serde_json::from_slice::<Value>(&value) {
        Ok(value) if output::is_terminal() => output::line(&format!("{value:#}")),
        _ if output::is_terminal() => output::line(&printable(&text)),
        _ => output::bytes(&value),
    }
}

fn absent(client: &Client, action: &str, key: &str) -> CliError {
    CliError::new(Failure::Unreachable, format!("{action} {key}"), "there is no such key")
        .with_peer(client.store.uri())
}

fn put(common: &Common, client: &Client, key: &str, value: &[u8]) -> Result<(), CliError> {
    client.store.put(key, value).map_err(client.failed("put a key"))?;
    done(common, "put", key, value.len())
}

fn remove(common: &Common, client: &Client, key: &str) -> Result<(), CliError> {
    let found = client.store.revision(key).map_err(client.failed("look for a key"))?;
    if found.is_none() {
        return Err(absent(client, "remove", key));
    }
    client.store.remove(key).map_err(client.failed("remove a key"))?;
    done(common, "removed", key, 0)
}

fn done(common: &Common, what: &str, key: &str, bytes: usize) -> Result<(), CliError> {
    if common.json {
        return output::json(&json!({ "done": what, "key": key, "bytes": bytes }));
    }
    output::note(&format!("{what} {}", printable(key)));
    Ok(())
}

fn read_value(file: Option<&Path>) -> Result<Vec<u8>, CliError> {
    let limit = u64::try_from(MAX_VALUE_BYTES).unwrap_or(u64::MAX);
    let path = file.filter(|path| *path != Path::new("-"));
    let shown = path.unwrap_or_else(|| Path::new("standard input"));
    let failed = |cause: io::Error| CliError::file("cannot read", shown, &cause);
    let mut value = Vec::new();
    let source: Box<dyn Read> = match path {
        Some(path) => Box::new(std::fs::File::open(path).map_err(failed)?),
        None => Box::new(io::stdin()),
    };
    source.take(limit + 1).read_to_end(&mut value).map_err(failed)?;
    if value.len() > MAX_VALUE_BYTES {
        let most = format!("a value has at most {}", length(limit));
        return Err(CliError::new(Failure::Usage, "put a key", most));
    }
    Ok(value)
}

fn watch(
    common: &Common,
    client: &Client,
    prefix: &str,
    (mut left, duration): (u64, Option<Duration>),
) -> Result<(), CliError> {
    let stop = stop::watch(false)?;
    let mut watch = client.store.watch(prefix).map_err(client.failed("watch keys"))?;
    if !common.json {
        output::note(&format!("watching {}; Ctrl-C ends", client.store.uri()));
    }
    let begun = clock::Watch::start();
    while left > 0 && stop.try_recv().is_err() {
        let rest = duration.map(|duration| duration.saturating_sub(begun.elapsed()));
        if rest == Some(Duration::ZERO) {
            return Ok(());
        }
        let seen = watch.wait(rest.map_or(LOOK, |rest| rest.min(LOOK)));
        let seen = seen.map_err(client.failed("watch keys"))?;
        if seen.is_reset {
            output::note("changes were missed: list the keys anew");
        }
        for change in seen.changes.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            tell(common, change)?;
            left -= 1;
        }
    }
    Ok(())
}

fn tell(common: &Common, change: &Change) -> Result<(), CliError> {
    let word = match change.kind {
        ChangeKind::Put => "put",
        ChangeKind::Removed => "removed",
    };
    if common.json {
        return output::json(&json!({ "change": word, "key": change.key }));
    }
    output::line(&format!("{word:<8} {}", printable(&change.key)))
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  te meta ls http://127.0.0.1:8080/metadata
  te meta get etcd://10.0.0.1:2379,10.0.0.2:2379 mooncake/ram/node1
  te meta watch redis://10.0.0.1:6379 mooncake/

User, password, token, certificates and time limits are settings: `te config` lists [metadata].
Services differ: Mooncake's HTTP servers cannot list or watch.";

const LS_EXAMPLES: &str = "\
Examples:
  te meta ls http://127.0.0.1:8080/metadata
  te meta ls etcd://127.0.0.1:2379 mooncake/ram/ --json | jq -r .[].key";

const GET_EXAMPLES: &str = "\
Examples:
  te meta get http://127.0.0.1:8080/metadata mooncake/ram/node1
  te meta get http://127.0.0.1:8080/metadata mooncake/ram/node1 | jq .buffers";

const PUT_EXAMPLES: &str = "\
Examples:
  te meta put redis://127.0.0.1:6379 my/key '{\"a\":1}'
  te meta put http://127.0.0.1:8080/metadata my/key --file value.json";

const RM_EXAMPLES: &str = "\
Examples:
  te meta rm http://127.0.0.1:8080/metadata mooncake/rpc_meta/node1

The record of a living engine comes back within seconds.";

const WATCH_EXAMPLES: &str = "\
Examples:
  te meta watch http://127.0.0.1:8080/metadata mooncake/ram/
  te meta watch etcd://127.0.0.1:2379 --json --count 1 --for 60";
