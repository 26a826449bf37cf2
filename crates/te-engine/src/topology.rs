//! Which NICs of this machine may serve which memory.
//!
//! ```text
//!   custom file, every NIC of it here ──▶ its matrix
//!   custom file, absent or empty ───────▶ a warning, then as without one
//!   custom file, wrong or of NICs that are not here ─▶ a warning, rows without NICs: RDMA is off
//!   no custom file ─▶ filters ─▶ what is discovered, when it is first asked for
//! ```
//!
//! I1  A topology that cannot be used ends no engine: what needs no NIC works on (peer fault 34).
//! I2  The machine is looked at once.

use std::error::Error as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use te_topology::{
    Affinity, CustomTopology, CustomTopologyError, Machine, NicFilter, NicName, PriorityMatrix,
    Reach, read_sysfs,
};

use crate::config::TopologySettings;

/// What an engine knows of its machine.
#[derive(Debug)]
pub(crate) struct Topology {
    matrix: OnceLock<PriorityMatrix>,
    filter: NicFilter,
    fault: Option<Arc<CustomTopologyError>>,
}

impl Topology {
    /// Reads the custom file, if there is one. Without one nothing is looked at yet. `listed` are
    /// NICs that a verbs library has, whether `/sys` shows them or not.
    pub(crate) fn new(settings: &TopologySettings, listed: &[NicName]) -> Self {
        let filter = NicFilter::new(settings.filters.iter().map(String::as_str), []);
        let mut topology = Self { matrix: OnceLock::new(), filter, fault: None };
        if let Some(file) = &settings.custom_file {
            topology.take(file, read_sysfs(Path::new("/")), listed);
        }
        topology
    }

    /// The matrix; discovered now where that was not done yet.
    pub(crate) fn matrix(&self) -> &PriorityMatrix {
        self.matrix.get_or_init(|| {
            let machine = read_sysfs(Path::new("/"));
            for name in self.filter.absent(&machine) {
                tracing::warn!(nic = name, "topology.filters names a NIC that is not here");
            }
            matrix_of(&machine.with_nics(|nic| self.filter.keeps(&nic.name)))
        })
    }

    /// Why the custom file is not used.
    pub(crate) fn fault(&self) -> Option<&CustomTopologyError> {
        self.fault.as_deref()
    }

    /// The same, for whoever keeps it.
    #[cfg(feature = "rdma")]
    pub(crate) fn fault_shared(&self) -> Option<Arc<CustomTopologyError>> {
        self.fault.clone()
    }

    fn take(&mut self, file: &Path, machine: Machine, listed: &[NicName]) {
        let custom = CustomTopology::read(file).and_then(|custom| {
            match custom.check(&machine, file) {
                Err(CustomTopologyError::AbsentNics { file, mut nics }) => {
                    nics.retain(|nic| listed.iter().all(|name| name.as_str() != nic));
                    if !nics.is_empty() {
                        return Err(CustomTopologyError::AbsentNics { file, nics });
                    }
                }
                checked => checked?,
            }
            Ok(custom)
        });
        let matrix = custom.and_then(|custom| {
            custom
                .matrix()
                .map_err(|source| CustomTopologyError::Matrix { file: file.to_owned(), source })
        });
        let fault = match matrix {
            Ok(matrix) => {
                self.matrix = OnceLock::from(matrix);
                return;
            }
            Err(fault) => fault,
        };
        let instead = if fault.is_missing() {
            "the NICs of this host are used as they are found"
        } else {
            self.matrix = OnceLock::from(matrix_of(&machine.with_nics(|_| false)));
            "RDMA is off"
        };
        let cause = fault.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        tracing::warn!("{fault}{cause}; {instead}");
        self.fault = Some(Arc::new(fault));
    }
}

fn matrix_of(machine: &Machine) -> PriorityMatrix {
    Affinity::of(machine).matrix(Reach::All).unwrap_or_else(|error| {
        tracing::warn!(%error, "no NIC is used: the machine has more than a matrix can say");
        PriorityMatrix::new()
    })
}
