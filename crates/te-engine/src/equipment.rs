//! What an engine has of its machine: transports in order of preference, the topology, and why RDMA
//! is not among the transports.
//!
//! I1  A transport that was demanded is there and started, or the engine is not built.
//! I2  RDMA that nobody demanded and that cannot be used is left out, and the reason is kept.

use std::sync::Arc;

use te_transport::{Transport, TransportContext};

use crate::classic::MAX_TRANSPORTS;
use crate::config::Settings;
use crate::error::BuildError;
use crate::rdma::RdmaAbsence;
use crate::topology::Topology;
use crate::transports::Wish;

/// The name of the transport that may be left out.
const RDMA: &str = "rdma";

/// See the module.
#[derive(Debug)]
pub(crate) struct Equipment {
    pub(crate) transports: Vec<Arc<dyn Transport>>,
    pub(crate) topology: Topology,
    /// `None` where RDMA is among the transports.
    pub(crate) absence: Option<RdmaAbsence>,
}

/// What a builder knows of it.
pub(crate) struct Plan<'a> {
    pub(crate) settings: &'a Settings,
    /// Transports of the program's own; those that are compiled in are not used then.
    pub(crate) given: &'a [Arc<dyn Transport>],
    /// Names that the program chose.
    pub(crate) only: &'a [String],
    #[cfg(feature = "tcp")]
    pub(crate) ports: te_metadata::PortRange,
    /// Carries handshakes between NICs.
    #[cfg(feature = "rdma")]
    pub(crate) client: te_metadata::PeerClient,
    /// In place of the system's verbs library.
    #[cfg(feature = "rdma")]
    pub(crate) verbs: Option<Arc<dyn te_verbs::Verbs>>,
}

/// What is known of RDMA before anything is opened.
#[cfg(feature = "rdma")]
type Found = crate::rdma::Devices;
#[cfg(not(feature = "rdma"))]
type Found = std::convert::Infallible;

impl Equipment {
    /// Makes the transports; none is started yet.
    pub(crate) fn gather(plan: &Plan<'_>) -> Result<Self, BuildError> {
        let wish = Wish::new(plan.only, &plan.settings.engine);
        let found = plan.rdma_devices(&wish);
        let topology = plan.topology(found.as_ref().ok());
        let found = plan.checked(&wish, &topology, found)?;
        let rdma = found.and_then(|devices| plan.rdma(&devices, &topology));
        let (mut there, mut absence) = (plan.given.to_vec(), None);
        if plan.given.is_empty() {
            let (rdma, why) = match rdma {
                Ok(rdma) => (vec![rdma], None),
                Err(why) => (Vec::new(), Some(why)),
            };
            there = [same_host(), rdma, plan.tcp()].concat();
            absence = why;
        } else if of_name(&there, RDMA).is_none() {
            absence = Some(RdmaAbsence::NotWanted { by: "the program" });
        }
        if plan.given.is_empty()
            && wish.demands(RDMA)
            && let Some(cause) = absence
        {
            return Err(BuildError::NoRdma { by: wish.by(), cause });
        }
        let transports = wish.choose(&there)?;
        match transports.len() {
            0 => Err(BuildError::NoTransport),
            given if given > MAX_TRANSPORTS => {
                Err(BuildError::TooManyTransports { given, max: MAX_TRANSPORTS })
            }
            _ => Ok(Self { transports, topology, absence }),
        }
    }

    /// Starts all transports, each with a context of its own. Where one that was demanded does not
    /// start, those that did end with the error.
    pub(crate) fn start(
        &mut self,
        plan: &Plan<'_>,
        context: &TransportContext,
    ) -> Result<(), BuildError> {
        let is_optional = |transport: &Arc<dyn Transport>| {
            let name = transport.capabilities().name;
            name == RDMA && plan.given.is_empty() && !plan.wish_demands(name)
        };
        let mut started: Vec<Arc<dyn Transport>> = Vec::new();
        for transport in std::mem::take(&mut self.transports) {
            match transport.start(context.clone()) {
                Ok(()) => started.push(transport),
                Err(error) if is_optional(&transport) => {
                    tracing::warn!("RDMA is off: {}", crate::peers::chain(&error));
                    self.absence = Some(RdmaAbsence::NotStarted(error));
                }
                Err(error) => {
                    let deadline = context.clock.now() + plan.settings.engine.shutdown_timeout;
                    for transport in started {
                        transport.close(deadline);
                    }
                    return Err(error.into());
                }
            }
        }
        self.transports = started;
        Ok(())
    }
}

fn of_name<'a>(there: &'a [Arc<dyn Transport>], name: &str) -> Option<&'a Arc<dyn Transport>> {
    there.iter().find(|transport| transport.capabilities().name == name)
}

#[cfg(feature = "shm")]
fn same_host() -> Vec<Arc<dyn Transport>> {
    use te_transport_shm::{LocalTransport, ShmConfig, ShmTransport};
    let config = ShmConfig::default();
    vec![Arc::new(LocalTransport::new(config.clone())), Arc::new(ShmTransport::new(config))]
}

#[cfg(not(feature = "shm"))]
fn same_host() -> Vec<Arc<dyn Transport>> {
    Vec::new()
}

impl Plan<'_> {
    fn wish_demands(&self, name: &str) -> bool {
        Wish::new(self.only, &self.settings.engine).demands(name)
    }

    /// Why RDMA is not even looked for.
    fn unwanted(&self, wish: &Wish<'_>) -> Option<RdmaAbsence> {
        match (self.given.is_empty(), wish.allows(RDMA)) {
            (true, true) => None,
            (false, _) => Some(RdmaAbsence::NotWanted { by: "the program" }),
            (true, false) => Some(RdmaAbsence::NotWanted { by: wish.by() }),
        }
    }

    #[cfg(feature = "rdma")]
    fn rdma_devices(&self, wish: &Wish<'_>) -> Result<Found, RdmaAbsence> {
        self.unwanted(wish).map_or_else(|| Found::find(self.verbs.clone()), Err)
    }

    #[cfg(not(feature = "rdma"))]
    fn rdma_devices(&self, wish: &Wish<'_>) -> Result<Found, RdmaAbsence> {
        Err(self.unwanted(wish).unwrap_or(RdmaAbsence::NotBuilt))
    }

    #[cfg(feature = "rdma")]
    fn topology(&self, found: Option<&Found>) -> Topology {
        let listed = found.map_or(&[][..], |devices| &devices.names);
        Topology::new(&self.settings.topology, listed)
    }

    #[cfg(not(feature = "rdma"))]
    fn topology(&self, _found: Option<&Found>) -> Topology {
        Topology::new(&self.settings.topology, &[])
    }

    #[cfg(feature = "rdma")]
    fn rdma(
        &self,
        devices: &Found,
        topology: &Topology,
    ) -> Result<Arc<dyn Transport>, RdmaAbsence> {
        let from = (self.settings, topology);
        // Who demands RDMA learns at once that it is not there.
        let wait_for_ports = !self.wish_demands(RDMA);
        let rdma = crate::rdma::transport(devices, from, (self.client.clone(), wait_for_ports))?;
        Ok(Arc::new(rdma))
    }

    #[cfg(not(feature = "rdma"))]
    fn rdma(
        &self,
        devices: &Found,
        _topology: &Topology,
    ) -> Result<Arc<dyn Transport>, RdmaAbsence> {
        match *devices {}
    }

    /// A NIC that is named and not here is an error, wherever RDMA is not switched off and no custom
    /// topology counts instead.
    #[cfg(feature = "rdma")]
    fn checked(
        &self,
        wish: &Wish<'_>,
        topology: &Topology,
        found: Result<Found, RdmaAbsence>,
    ) -> Result<Result<Found, RdmaAbsence>, BuildError> {
        let settings = &self.settings.topology;
        let is_missing = topology.fault().is_some_and(te_topology::CustomTopologyError::is_missing);
        if self.unwanted(wish).is_some() || (settings.custom_file.is_some() && !is_missing) {
            return Ok(found);
        }
        let devices = found.as_ref().map_or(&[][..], |devices| &devices.names);
        let here: Vec<&str> = devices.iter().map(te_topology::NicName::as_str).collect();
        let named = settings.filters.iter().map(|name| name.trim());
        let absent: Vec<&str> =
            named.filter(|name| !name.is_empty() && !here.contains(name)).collect();
        if absent.is_empty() {
            return Ok(found);
        }
        let listed = if here.is_empty() { "none".to_owned() } else { here.join(", ") };
        Err(BuildError::NoSuchNic { nics: absent.join(", "), here: listed, cause: found.err() })
    }

    #[cfg(not(feature = "rdma"))]
    fn checked(
        &self,
        _wish: &Wish<'_>,
        _topology: &Topology,
        found: Result<Found, RdmaAbsence>,
    ) -> Result<Result<Found, RdmaAbsence>, BuildError> {
        Ok(found)
    }

    #[cfg(feature = "tcp")]
    fn tcp(&self) -> Vec<Arc<dyn Transport>> {
        let mut config = self.settings.tcp.to_tcp();
        config.port = te_metadata::PortChoice::Range(self.ports);
        vec![Arc::new(te_transport_tcp::TcpTransport::new(config))]
    }

    #[cfg(not(feature = "tcp"))]
    fn tcp(&self) -> Vec<Arc<dyn Transport>> {
        Vec::new()
    }
}
