//! What the devices of this host are like, without an engine.

use te_topology::{CustomTopology, NicName};
use te_transport_rdma::{Survey, survey};
use te_verbs::{Libibverbs, Verbs};

use super::RdmaAbsence;
use crate::config::Settings;

/// Looks at the RDMA devices of this host with the eyes of these settings: what each is like, which GID
/// would be used and why, and what is wrong. Opens each for a moment; nothing is changed.
///
/// # Errors
/// The verbs library cannot be used, or cannot list devices.
pub fn survey_rdma(settings: &Settings) -> Result<Survey, RdmaAbsence> {
    let library = Libibverbs::load().map_err(|error| RdmaAbsence::Library(Box::new(error)))?;
    look(&library, settings)
}

fn look(verbs: &dyn Verbs, settings: &Settings) -> Result<Survey, RdmaAbsence> {
    let mut config = settings.rdma.to_rdma();
    let named = settings.topology.filters.iter().map(|name| name.trim());
    config.nics = named.filter_map(|name| NicName::parse(name).ok()).collect();
    let custom = settings.topology.custom_file.as_deref();
    let custom = custom.and_then(|file| CustomTopology::read(file).ok()?.matrix().ok());
    if custom.is_some() {
        config.nics.clear();
        config.matrix = custom;
    }
    survey(verbs, &config).map_err(|error| RdmaAbsence::Devices(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use te_transport_rdma::Finding;

    use super::*;

    /// Whatever this machine has, looking at it ends with a survey or a reason.
    #[test]
    fn this_machine_is_looked_at() {
        let mut settings = Settings::default();
        settings.topology.filters = vec!["no_such_nic".to_owned()];
        match survey_rdma(&settings) {
            Err(absence) => assert!(matches!(absence, RdmaAbsence::Library(_)), "{absence}"),
            Ok(Survey { devices, findings }) if devices.is_empty() => {
                assert!(findings.contains(&Finding::NoDevice));
            }
            Ok(Survey { findings, .. }) => {
                let is_unknown = |finding: &Finding| matches!(finding, Finding::UnknownNic { .. });
                assert!(findings.iter().any(is_unknown), "{findings:?}");
            }
        }
    }
}
