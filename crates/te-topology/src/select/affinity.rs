//! Rules that pair our NICs with a peer's: `local=peer1,peer2;local2=…`.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{NicName, ParseNicNameError};

/// Which of a peer's NICs go with which of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerAffinity {
    rules: BTreeMap<NicName, Vec<NicName>>,
}

impl PeerAffinity {
    /// Reads the rules; spaces do not count. Bad rules are left out and returned as errors, the
    /// good ones hold. Of two rules for one NIC the last counts.
    pub fn parse(text: &str) -> (Self, Vec<AffinityRuleError>) {
        let mut rules = BTreeMap::new();
        let mut errors = Vec::new();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            match parse_rule(rule) {
                Ok((local, peers)) => {
                    rules.insert(local, peers);
                }
                Err(error) => errors.push(error),
            }
        }
        (Self { rules }, errors)
    }

    /// The peer's NICs that go with ours, in the order of the rule.
    pub fn peers(&self, local: &NicName) -> &[NicName] {
        self.rules.get(local).map(Vec::as_slice).unwrap_or_default()
    }
}

/// A rule that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AffinityRuleError {
    /// There is no `=` in it, or no peer after it.
    #[error("rule \"{rule}\" is not of the form local=peer1,peer2")]
    Form {
        /// The rule, cut to 80 characters.
        rule: String,
    },
    /// A name in it is none.
    #[error("a name in rule \"{rule}\" is none")]
    Name {
        /// The rule, cut to 80 characters.
        rule: String,
        /// Why.
        #[source]
        reason: ParseNicNameError,
    },
}

fn parse_rule(rule: &str) -> Result<(NicName, Vec<NicName>), AffinityRuleError> {
    let shortened = || rule.chars().take(80).collect();
    let name = |text: &str| {
        NicName::parse(text.trim())
            .map_err(|reason| AffinityRuleError::Name { rule: shortened(), reason })
    };
    let form = || AffinityRuleError::Form { rule: shortened() };
    let (local, peers) = rule.split_once('=').ok_or_else(form)?;
    let peers = peers.split(',').filter(|peer| !peer.trim().is_empty());
    let peers: Vec<NicName> = peers.map(name).collect::<Result<_, _>>()?;
    if peers.is_empty() {
        return Err(form());
    }
    Ok((name(local)?, peers))
}
