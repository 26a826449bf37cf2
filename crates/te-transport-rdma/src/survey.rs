//! What the RDMA devices of this host are like, and what is wrong with them.
//!
//! Each device is opened for a moment; nothing is changed, and nothing moves.

mod compare;
mod finding;
mod memlock;

use std::sync::Arc;

use te_topology::{
    GidChoice, GidClass, GidEntry, GidTable, GidType, NicName, choose_gid, rank_gids,
};
use te_verbs::{Device, DeviceAttributes, LinkLayer, PortAttributes, PortState, Verbs, VerbsError};

pub use self::compare::{GidFamily, Mismatch, compare};
use self::finding::LEAST_MTU;
pub use self::finding::{Finding, Severity};
use crate::config::RdmaConfig;
use crate::nic::gid_table;

/// All devices of this host.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// In the order in which the library lists them.
    pub devices: Vec<DeviceSurvey>,
    /// What is wrong; empty where all is well.
    pub findings: Vec<Finding>,
}

/// One device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceSurvey {
    /// Its name.
    pub name: NicName,
    /// Whether the settings let it be used.
    pub is_allowed: bool,
    /// Its limits; `None` where it could not be opened, which a finding tells.
    pub attributes: Option<DeviceAttributes>,
    /// Its ports, from number 1.
    pub ports: Vec<PortSurvey>,
}

/// One port.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSurvey {
    /// Its number, from 1.
    pub number: u8,
    /// What it says of itself.
    pub attributes: PortAttributes,
    /// Its GID table without empty rows, by index.
    pub gids: Vec<GidRow>,
    /// The GID that is used, with the reason. `None` on a port that the settings do not choose, and
    /// where there is none, which a finding tells.
    pub chosen: Option<GidChoice>,
}

/// A row of a GID table.
#[derive(Debug, Clone, PartialEq)]
pub struct GidRow {
    /// What is in it.
    pub entry: GidEntry,
    /// How good it is; the best class is chosen, of equal ones the lowest index.
    pub class: GidClass,
}

/// Looks at all devices, with the eyes of these settings.
///
/// # Errors
/// The devices could not be listed. What is wrong with one of them is a finding.
pub fn survey(verbs: &dyn Verbs, config: &RdmaConfig) -> Result<Survey, VerbsError> {
    let mut surveyor = Surveyor { config, findings: Vec::new() };
    let listed: Vec<NicName> = verbs.devices()?.into_iter().map(|device| device.name).collect();
    surveyor.names(&listed);
    let devices = listed.into_iter().map(|name| surveyor.device(verbs, name)).collect();
    surveyor.findings.extend(memlock::check());
    Ok(Survey { devices, findings: surveyor.findings })
}

struct Surveyor<'a> {
    config: &'a RdmaConfig,
    findings: Vec<Finding>,
}

impl Surveyor<'_> {
    /// The names that are asked for, against those that are there.
    fn names(&mut self, listed: &[NicName]) {
        if listed.is_empty() {
            return self.findings.push(Finding::NoDevice);
        }
        for nic in self.asked().into_iter().filter(|nic| !listed.contains(nic)) {
            self.findings.push(Finding::UnknownNic { nic, here: listed.to_vec() });
        }
    }

    /// Those of the settings; empty where all may be used.
    fn asked(&self) -> Vec<NicName> {
        if !self.config.nics.is_empty() {
            return self.config.nics.clone();
        }
        self.config.matrix.iter().flat_map(|matrix| matrix.nics()).cloned().collect()
    }

    fn device(&mut self, verbs: &dyn Verbs, name: NicName) -> DeviceSurvey {
        let asked = self.asked();
        let is_allowed = asked.is_empty() || asked.contains(&name);
        let device = match verbs.open(&name) {
            Ok(device) => device,
            Err(cause) => {
                self.findings.push(Finding::CannotOpen { nic: name.clone(), cause });
                return DeviceSurvey { name, is_allowed, attributes: None, ports: Vec::new() };
            }
        };
        let attributes = *device.attributes();
        if attributes.completion_vectors == 0 {
            self.findings.push(Finding::NoCompletionVector { nic: name.clone() });
        }
        let wanted = self.config.device.port;
        if wanted == 0 || wanted > attributes.ports {
            let (nic, ports) = (name.clone(), attributes.ports);
            self.findings.push(Finding::NoSuchPort { nic, port: wanted, ports });
        }
        let ports = (1..=attributes.ports).filter_map(|number| self.port(&device, number));
        let ports = ports.collect();
        DeviceSurvey { name, is_allowed, attributes: Some(attributes), ports }
    }

    fn port(&mut self, device: &Arc<dyn Device>, number: u8) -> Option<PortSurvey> {
        let read = || {
            let port = device.port(number)?;
            Ok((port, gid_table(&**device, number, &port)?))
        };
        let (attributes, table) = match read() {
            Ok(read) => read,
            Err(cause) => {
                let nic = device.name().clone();
                self.findings.push(Finding::CannotRead { nic, port: number, cause });
                return None;
            }
        };
        let ranked = rank_gids(is_infiniband(&attributes), &table);
        let row = |entry: &GidEntry| {
            let choice = ranked.iter().find(|choice| choice.index == entry.index)?;
            Some(GidRow { entry: entry.clone(), class: choice.class })
        };
        let gids = table.entries.iter().filter_map(row).collect();
        let chosen = (number == self.config.device.port)
            .then(|| self.chosen(device.name(), &attributes, &table))
            .flatten();
        Some(PortSurvey { number, attributes, gids, chosen })
    }

    /// What is wrong with the port that the settings choose, and its GID.
    fn chosen(
        &mut self,
        nic: &NicName,
        port: &PortAttributes,
        table: &GidTable,
    ) -> Option<GidChoice> {
        let settings = &self.config.device;
        let nic = nic.clone();
        if port.state != PortState::Active {
            let (nic, port, state) = (nic.clone(), settings.port, port.state);
            self.findings.push(Finding::PortDown { nic, port, state });
        }
        let mtu = port.active_mtu.min(settings.mtu);
        if mtu < LEAST_MTU {
            let (nic, active) = (nic.clone(), port.active_mtu);
            self.findings.push(Finding::SmallMtu { nic, mtu, active });
        }
        if settings.pkey_index >= port.pkey_rows {
            let (index, rows) = (settings.pkey_index, port.pkey_rows);
            self.findings.push(Finding::NoSuchPkey { nic: nic.clone(), index, rows });
        }
        let choice = match choose_gid(&nic, is_infiniband(port), table, &settings.gid) {
            Ok(choice) => choice,
            Err(cause) => {
                self.findings.push(Finding::NoGid { nic, cause });
                return None;
            }
        };
        let entry = table.entries.iter().find(|entry| entry.index == choice.index);
        let is_old = entry.is_some_and(|entry| entry.kind != GidType::RoceV2);
        if !is_infiniband(port) && (is_old || choice.gid.is_link_local()) {
            self.findings.push(Finding::PoorGid { nic, choice: choice.clone() });
        }
        Some(choice)
    }
}

fn is_infiniband(port: &PortAttributes) -> bool {
    port.link_layer == LinkLayer::InfiniBand
}

#[cfg(test)]
mod tests;
