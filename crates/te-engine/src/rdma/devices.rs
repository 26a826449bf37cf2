//! The devices of this host, and the transport over them.

use std::sync::Arc;

use te_metadata::PeerClient;
use te_topology::{NicFilter, NicName, NicTiers, PriorityMatrix};
use te_transport_rdma::{Rdma, RdmaConfig};
use te_verbs::{Libibverbs, Verbs};

use super::RdmaAbsence;
use crate::config::Settings;
use crate::topology::Topology;

/// What a provider of verbs lists. Nothing is opened yet.
#[derive(Debug, Clone)]
pub(crate) struct Devices {
    pub(crate) verbs: Arc<dyn Verbs>,
    pub(crate) names: Vec<NicName>,
}

impl Devices {
    /// Those of a provider that is given, else of the system's library.
    pub(crate) fn find(given: Option<Arc<dyn Verbs>>) -> Result<Self, RdmaAbsence> {
        let load = || Libibverbs::load().map(|library| Arc::new(library) as Arc<dyn Verbs>);
        let verbs = given.map_or_else(load, Ok);
        let verbs = verbs.map_err(|error| RdmaAbsence::Library(Box::new(error)))?;
        let listed = verbs.devices().map_err(|error| RdmaAbsence::Devices(Box::new(error)))?;
        let names: Vec<NicName> = listed.into_iter().map(|device| device.name).collect();
        if names.is_empty() { Err(RdmaAbsence::NoDevice) } else { Ok(Self { verbs, names }) }
    }
}

/// The transport over the devices that the topology and its filter leave. `wait_for_ports`: it may start
/// while all their ports are down.
pub(crate) fn transport(
    devices: &Devices,
    (settings, topology): (&Settings, &Topology),
    (client, wait_for_ports): (PeerClient, bool),
) -> Result<Rdma, RdmaAbsence> {
    let mut config = settings.rdma.to_rdma();
    config.in_turn = settings.topology.path_round_robin;
    config.wait_for_ports = wait_for_ports;
    config.connection.connect_limit = settings.peer.connect_timeout;
    config.connection.answer_limit = settings.peer.exchange_timeout;
    use_nics(&mut config, devices, (settings, topology))?;
    Ok(Rdma::with_handshakes(config, Arc::clone(&devices.verbs), Arc::new(client)))
}

fn use_nics(
    config: &mut RdmaConfig,
    devices: &Devices,
    (settings, topology): (&Settings, &Topology),
) -> Result<(), RdmaAbsence> {
    let fault = topology.fault_shared();
    if let Some(fault) = fault.as_ref().filter(|fault| !fault.is_missing()) {
        return Err(RdmaAbsence::Topology(Arc::clone(fault)));
    }
    if settings.topology.custom_file.is_some() && fault.is_none() {
        let matrix = topology.matrix().clone();
        if matrix.is_empty() {
            return Err(RdmaAbsence::NoNicNamed);
        }
        config.matrix = Some(matrix);
        return Ok(());
    }
    let filter = NicFilter::new(settings.topology.filters.iter().map(String::as_str), []);
    config.nics = devices.names.iter().filter(|name| filter.keeps(name)).cloned().collect();
    config.matrix = joined(topology.matrix(), &config.nics);
    Ok(())
}

/// The discovered matrix with exactly these NICs: one that was not discovered serves every location
/// as one that is far. `None` where nothing was discovered, so that all serve all.
fn joined(found: &PriorityMatrix, nics: &[NicName]) -> Option<PriorityMatrix> {
    let known = found.nics();
    let further: Vec<NicName> = nics.iter().filter(|nic| !known.contains(nic)).cloned().collect();
    let only = |list: &[NicName]| list.iter().filter(|nic| nics.contains(nic)).cloned().collect();
    let mut matrix = PriorityMatrix::new();
    for (location, tiers) in found.rows() {
        let preferred = only(&tiers.preferred);
        let mut available: Vec<NicName> = only(&tiers.available);
        available.extend(further.iter().cloned());
        if let Err(error) = matrix.insert(location, NicTiers { preferred, available }) {
            tracing::warn!(%error, "every NIC serves every memory: a matrix cannot say more");
            return None;
        }
    }
    (!matrix.is_empty()).then_some(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<NicName> {
        list.iter().map(|name| NicName::parse(name).unwrap()).collect()
    }

    #[test]
    fn the_matrix_has_exactly_the_nics_that_are_used() {
        let found = PriorityMatrix::parse(r#"{"cpu:0":[["a","b"],["c"]],"cpu:1":[["c"],["a"]]}"#);
        let joined = |nics: &[&str]| joined(found.as_ref().unwrap(), &names(nics));
        let text = |nics: &[&str]| joined(nics).unwrap().to_string();
        assert_eq!(text(&["a", "b", "c"]), r#"{"cpu:0":[["a","b"],["c"]],"cpu:1":[["c"],["a"]]}"#);
        assert_eq!(text(&["a", "x"]), r#"{"cpu:0":[["a"],["x"]],"cpu:1":[[],["a","x"]]}"#);
        assert_eq!(joined(&[]), None);
        assert_eq!(super::joined(&PriorityMatrix::new(), &names(&["x"])), None);
    }
}
