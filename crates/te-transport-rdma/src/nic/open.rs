//! Opening the devices, each into its slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

use te_topology::{NicIndex, NicName};
use te_verbs::{Device, Verbs, VerbsError};
use thiserror::Error;

use super::health::{NicFault, NicHealth};
use super::limits::NicLimits;
use super::link::{self, NicLink};
use super::{Nic, NicSnapshot, NicView, Nics, Opened};
use crate::config::RdmaConfig;
use crate::published::Published;
use crate::sync::Mutex;

/// Why the NICs cannot be used. Nothing is open.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum NicsError {
    /// A NIC without completion queues or channels can tell nothing. Set at least one.
    #[error("{what} is 0, at least 1 is needed")]
    Zero {
        /// The setting.
        what: &'static str,
    },
    /// The devices could not be listed.
    #[error("the RDMA devices could not be listed")]
    List(#[source] VerbsError),
    /// There is no RDMA device.
    #[error("there is no RDMA device")]
    NoDevice,
    /// Names that were asked for, or that the topology names, are of no device. Correct them.
    #[error("there is no RDMA device {}; there is {}", names(.unknown), names(.present))]
    Unknown {
        /// Those names.
        unknown: Vec<NicName>,
        /// What there is.
        present: Vec<NicName>,
    },
    /// No NIC can be used, and none will by itself; the causes are those of each.
    #[error("no RDMA device can be used: {}", list_of(.causes))]
    AllFailed {
        /// One for each, in order.
        causes: Vec<(NicName, NicFault)>,
    },
}

fn names(names: &[NicName]) -> String {
    let names: Vec<&str> = names.iter().map(NicName::as_str).take(16).collect();
    names.join(", ")
}

fn list_of(causes: &[(NicName, NicFault)]) -> String {
    let text = |(name, fault): &(NicName, NicFault)| {
        let mut text = format!("{name}: {fault}");
        let mut source = std::error::Error::source(fault);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        text
    };
    causes.iter().take(16).map(text).collect::<Vec<_>>().join("; ")
}

impl Nics {
    /// Opens the NICs that are set. One that fails keeps its slot and is never chosen (J85); that all
    /// ports are down is no error where that is waited for.
    ///
    /// # Errors
    /// See [`NicsError`]; wrong settings are found before anything is opened (J84).
    pub(crate) fn open(
        verbs: &dyn Verbs,
        config: &RdmaConfig,
        now: Instant,
    ) -> Result<Self, NicsError> {
        check(config)?;
        let wanted = wanted(verbs, config)?;
        let mut list = Vec::with_capacity(wanted.len());
        let mut views = Vec::with_capacity(wanted.len());
        for (position, name) in wanted.into_iter().enumerate() {
            let Some(index) = NicIndex::new(position) else { break };
            let (opened, link) = open_one(verbs, &name, config);
            let health = match (&opened, &link) {
                (None, _) => NicHealth::gone(),
                (Some(_), Ok(_)) => NicHealth::active(),
                (Some(_), Err(_)) => NicHealth::inactive(now, &config.faults),
            };
            if let Err(fault) = &link {
                tracing::warn!(nic = name.as_str(), %fault, "NIC is inactive");
            }
            views.push(NicView { name: name.clone(), link, returns: 0 });
            let (failures, refuses_inline) = (AtomicU32::new(0), AtomicBool::new(false));
            let health = Mutex::new(health);
            list.push(Nic { index, name, opened, failures, refuses_inline, health });
        }
        let serves = |view: &NicView| match &view.link {
            Ok(_) => true,
            Err(fault) => config.wait_for_ports && fault.passes(),
        };
        if !views.iter().any(serves) {
            let cause = |view: NicView| Some((view.name, view.link.err()?));
            return Err(NicsError::AllFailed {
                causes: views.into_iter().filter_map(cause).collect(),
            });
        }
        let snapshot = Arc::new(Published::new(NicSnapshot::new(views)));
        let (device, faults) = (config.device.clone(), config.faults.clone());
        Ok(Self { list, snapshot, device, faults })
    }
}

fn check(config: &RdmaConfig) -> Result<(), NicsError> {
    let settings = &config.device;
    let counts = [
        ("the number of completion queues", settings.completion_queues),
        ("the number of completion channels", settings.completion_channels),
    ];
    match counts.into_iter().find(|(_, count)| *count == 0) {
        Some((what, _)) => Err(NicsError::Zero { what }),
        None => Ok(()),
    }
}

/// The names of the NICs to open, in the order of their indices.
fn wanted(verbs: &dyn Verbs, config: &RdmaConfig) -> Result<Vec<NicName>, NicsError> {
    let present = verbs.devices().map_err(NicsError::List)?;
    let present: Vec<NicName> = present.into_iter().map(|device| device.name).collect();
    if present.is_empty() {
        return Err(NicsError::NoDevice);
    }
    let in_matrix: Vec<NicName> = config.matrix.iter().flat_map(|m| m.nics()).cloned().collect();
    let asked = match (config.nics.is_empty(), in_matrix.is_empty()) {
        (false, _) => config.nics.clone(),
        (true, false) => in_matrix,
        (true, true) => present.clone(),
    };
    let mut wanted: Vec<NicName> = Vec::with_capacity(asked.len());
    for name in asked {
        if !wanted.contains(&name) {
            wanted.push(name);
        }
    }
    let is_unknown = |name: &&NicName| !present.contains(name);
    let unknown: Vec<NicName> = wanted.iter().filter(is_unknown).cloned().collect();
    if unknown.is_empty() { Ok(wanted) } else { Err(NicsError::Unknown { unknown, present }) }
}

fn open_one(
    verbs: &dyn Verbs,
    name: &NicName,
    config: &RdmaConfig,
) -> (Option<Opened>, Result<NicLink, NicFault>) {
    let device: Arc<dyn Device> = match verbs.open(name) {
        Ok(device) => device,
        Err(error) => return (None, Err(NicFault::Verbs(error))),
    };
    if device.attributes().completion_vectors == 0 {
        return (None, Err(NicFault::NoCompletionVector));
    }
    let link = link::read(&*device, name, &config.device);
    let limits = NicLimits::new(config, device.attributes());
    (Some(Opened { device, limits }), link)
}
