//! Which transports an engine uses, and in which order of preference.
//!
//! Who names them gets these and no others, or an error: a choice is never replaced by what would be
//! chosen without it.

use std::sync::Arc;

use te_transport::Transport;

use crate::config::EngineSettings;
use crate::error::BuildError;

/// Of what is `there`, in order of preference, what shall be used: `only` what the program names,
/// else what the settings name, else what they force, else all.
pub(crate) fn choose(
    there: &[Arc<dyn Transport>],
    only: &[String],
    settings: &EngineSettings,
) -> Result<Vec<Arc<dyn Transport>>, BuildError> {
    let named = if only.is_empty() { &settings.transports } else { only };
    let mut names: Vec<&str> = named.iter().map(String::as_str).collect();
    if names.is_empty() && settings.force_tcp {
        names.push("tcp");
    }
    if names.is_empty() && settings.force_hca {
        names.push("rdma");
        if of_name(there, "rdma").next().is_none() {
            return Err(BuildError::NoRdma);
        }
    }
    if names.is_empty() {
        return Ok(there.to_vec());
    }
    let mut chosen: Vec<Arc<dyn Transport>> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let mut found = of_name(there, name).peekable();
        if found.peek().is_none() {
            let available = there.iter().map(|transport| transport.capabilities().name);
            let available = available.collect::<Vec<_>>().join(", ");
            return Err(BuildError::NoSuchTransport { name: (*name).to_owned(), available });
        }
        if !names[..place].contains(name) {
            chosen.extend(found.cloned());
        }
    }
    Ok(chosen)
}

fn of_name<'a>(
    there: &'a [Arc<dyn Transport>],
    name: &'a str,
) -> impl Iterator<Item = &'a Arc<dyn Transport>> {
    there.iter().filter(move |transport| transport.capabilities().name == name)
}
