//! Which transports an engine uses, and in which order of preference.
//!
//! Who names them gets these and no others, or an error: a choice is never replaced by what would be
//! chosen without it.

use std::sync::Arc;

use te_transport::Transport;

use crate::config::EngineSettings;
use crate::error::BuildError;

/// The names that shall be used, in order of preference, and what says so.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    /// Empty where nothing was said: all that there are then.
    names: Vec<&'a str>,
    by: &'static str,
}

impl<'a> Wish<'a> {
    /// `only` what the program names, else what the settings name, else what they force.
    pub(crate) fn new(only: &'a [String], settings: &'a EngineSettings) -> Self {
        let of = |names: &'a [String], by| {
            let names = names.iter().map(String::as_str).collect();
            Self { names, by }
        };
        if !only.is_empty() {
            return of(only, "the program");
        }
        if !settings.transports.is_empty() {
            return of(&settings.transports, "engine.transports");
        }
        match (settings.force_tcp, settings.force_hca) {
            (true, _) => Self { names: vec!["tcp"], by: "engine.force_tcp (MC_FORCE_TCP)" },
            (false, true) => Self { names: vec!["rdma"], by: "engine.force_hca (MC_FORCE_HCA)" },
            (false, false) => Self { names: Vec::new(), by: "nobody" },
        }
    }

    /// What says so.
    pub(crate) fn by(&self) -> &'static str {
        self.by
    }

    /// Whether a transport shall be used if it is there.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.names.is_empty() || self.demands(name)
    }

    /// Whether a transport must be there.
    pub(crate) fn demands(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// Of what is `there`, in order of preference, what shall be used.
    pub(crate) fn choose(
        &self,
        there: &[Arc<dyn Transport>],
    ) -> Result<Vec<Arc<dyn Transport>>, BuildError> {
        if self.names.is_empty() {
            return Ok(there.to_vec());
        }
        let mut chosen: Vec<Arc<dyn Transport>> = Vec::new();
        for (place, name) in self.names.iter().enumerate() {
            let mut found = of_name(there, name).peekable();
            if found.peek().is_none() {
                let available = there.iter().map(|transport| transport.capabilities().name);
                let available = available.collect::<Vec<_>>().join(", ");
                return Err(BuildError::NoSuchTransport { name: (*name).to_owned(), available });
            }
            if !self.names[..place].contains(name) {
                chosen.extend(found.cloned());
            }
        }
        Ok(chosen)
    }
}

fn of_name<'a>(
    there: &'a [Arc<dyn Transport>],
    name: &'a str,
) -> impl Iterator<Item = &'a Arc<dyn Transport>> {
    there.iter().filter(move |transport| transport.capabilities().name == name)
}
