//! What may be wrong with a ranked topology that has the right shape.

use std::collections::HashSet;

use super::{MAX_RANKED, RankedMemory, RankedTopology};
use crate::{MAX_LOCATION_BYTES, MAX_NICS_PER_LIST, NicName};

/// All faults, in the order of the text.
pub(super) fn faults(topology: &RankedTopology) -> Vec<String> {
    let mut faults = Vec::new();
    for (what, count) in [("nics", topology.nics.len()), ("mems", topology.mems.len())] {
        if count > MAX_RANKED {
            faults.push(format!("{count} {what}, at most {MAX_RANKED} are allowed"));
            return faults;
        }
    }
    let mut seen = HashSet::new();
    for (at, nic) in topology.nics.iter().enumerate() {
        if let Err(reason) = NicName::parse(&nic.name) {
            faults.push(format!("NIC {at}: {reason}"));
        } else if !seen.insert(nic.name.as_str()) {
            faults.push(format!("NIC {at}: the name \"{}\" stands twice", nic.name));
        }
        if nic.kind > 3 {
            faults.push(format!("NIC {at}: type {} is not known", nic.kind));
        }
    }
    let mut seen = HashSet::new();
    for memory in &topology.mems {
        let name: String = memory.name.chars().take(80).collect();
        let mut say = |text: String| faults.push(format!("memory \"{name}\": {text}"));
        if !seen.insert(memory.name.as_str()) {
            say("the name stands twice".to_owned());
        }
        if memory.name.is_empty() || memory.name.len() > MAX_LOCATION_BYTES {
            say(format!("a name has 1 to {MAX_LOCATION_BYTES} bytes"));
        }
        if memory.kind > 4 {
            say(format!("type {} is not known", memory.kind));
        }
        check_ranks(memory, topology.nics.len(), say);
    }
    faults.truncate(MAX_RANKED);
    faults
}

fn check_ranks(memory: &RankedMemory, n_nics: usize, mut say: impl FnMut(String)) {
    let ranks = &memory.device_list;
    let lists = [("rank0", &ranks.rank0), ("rank1", &ranks.rank1), ("rank2", &ranks.rank2)];
    let mut seen = HashSet::new();
    for (rank, list) in lists {
        if list.len() > MAX_NICS_PER_LIST {
            say(format!("{rank} has {} NICs, at most {MAX_NICS_PER_LIST} are allowed", list.len()));
            continue;
        }
        for number in list {
            if *number as usize >= n_nics {
                say(format!("{rank} names NIC {number}, there are {n_nics}"));
            } else if !seen.insert(number) {
                say(format!("{rank} names NIC {number} again"));
            }
        }
    }
}
