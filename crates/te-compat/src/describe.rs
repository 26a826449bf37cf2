//! What an engine tells of its machine: NICs and their order (A34, A46, A49, A164).

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;
use te_topology::{Affinity, NicFilter, PriorityMatrix, Reach, read_sysfs};

use crate::code::Code;
use crate::engine::Engine;
use crate::failure::{Failure, chain};

/// The load of a NIC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicLoad {
    /// Its name, at most 63 bytes.
    pub name: String,
    /// Bytes that are queued for it.
    pub queued_bytes: u64,
}

/// The NICs of this machine, as JSON: for each location the preferred ones and the others. `devices`
/// are the only ones to look at, commas between; none for all.
///
/// # Errors
/// [`Code::DeviceNotFound`] for a machine that has more than a matrix can say.
pub fn local_topology(devices: Option<&str>) -> Result<String, Failure> {
    let names = devices.unwrap_or_default().split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let filter = NicFilter::new(names, []);
    let machine = read_sysfs(Path::new("/")).with_nics(|nic| filter.keeps(&nic.name));
    let matrix = Affinity::of(&machine).matrix(Reach::All);
    matrix
        .map(|matrix| matrix.to_value().to_string())
        .map_err(|error| Failure::new(Code::DeviceNotFound, "topology", chain(&error)))
}

impl Engine {
    /// The NICs that this engine may use, as [`local_topology`] writes them (A46).
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn topology(&self) -> Result<String, Failure> {
        Ok(self.inner()?.topology().to_value().to_string())
    }

    /// How many NICs the topology has (A45).
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn nic_count(&self) -> Result<usize, Failure> {
        Ok(self.inner()?.topology().nics().len())
    }

    /// The load of each NIC. As with the peer's classic engine the list is empty (A34).
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn nic_load(&self) -> Result<Vec<NicLoad>, Failure> {
        self.inner().map(|_| Vec::new())
    }

    /// The local NICs and the topology, as text for people or as JSON (I30, I31).
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn links(&self, as_json: bool) -> Result<String, Failure> {
        let matrix = self.inner()?.topology();
        Ok(if as_json { links_json(&matrix) } else { links_text(&matrix) })
    }
}

fn links_json(matrix: &PriorityMatrix) -> String {
    let nic = |name: &te_topology::NicName| json!({"device": name.as_str(), "source": "topology"});
    let nics: Vec<_> = matrix.nics().into_iter().map(nic).collect();
    json!({"local_nics": nics, "topology": matrix.to_value()}).to_string()
}

fn links_text(matrix: &PriorityMatrix) -> String {
    let mut text = String::from("Local NICs\n");
    let nics = matrix.nics();
    if nics.is_empty() {
        text.push_str("  no RDMA device\n");
    }
    for nic in nics {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {} (topology only)", nic.as_str());
    }
    for (location, tiers) in matrix.rows().filter(|_| !matrix.is_empty()) {
        let names = |list: &[te_topology::NicName]| {
            list.iter().map(te_topology::NicName::as_str).collect::<Vec<_>>().join(", ")
        };
        let (preferred, available) = (names(&tiers.preferred), names(&tiers.available));
        let _ = writeln!(text, "{location}: preferred [{preferred}], available [{available}]");
    }
    text
}
