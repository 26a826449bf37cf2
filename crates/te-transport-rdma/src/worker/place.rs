//! Where the worker of a NIC runs: on the CPUs of the node that the NIC is on (E8). Elsewhere each look
//! at its completions would go from node to node.
//!
//! I1  Nothing is bound where the machine has one node, or the node of the NIC is not known.
//! I2  A thread is bound to CPUs only that it had before.

use std::fs;
use std::path::Path;

use rustix::thread::{CpuSet as Mask, sched_getaffinity, sched_setaffinity};
use te_topology::{CpuSet, NicName};

/// Where the kernel says it.
const SYS: &str = "/sys";

/// Binds the calling thread to the CPUs near a NIC.
pub(crate) fn bind_near(nic: &NicName) {
    let Some(near) = cpus_near(Path::new(SYS), nic) else { return };
    let bound = sched_getaffinity(None).and_then(|had| match both(&had, &near) {
        Some(mask) => sched_setaffinity(None, &mask),
        None => Ok(()),
    });
    if let Err(error) = bound {
        tracing::debug!(nic = nic.as_str(), %error, "the worker of a NIC runs anywhere");
    }
}

/// The CPUs of the node that a NIC is on; `None` where it makes no difference or is not known.
fn cpus_near(sys: &Path, nic: &NicName) -> Option<CpuSet> {
    let read = |path: String| fs::read_to_string(sys.join(path)).ok();
    let nodes = CpuSet::parse_list(read("devices/system/node/online".to_owned())?.trim())?;
    if nodes.len() < 2 {
        return None;
    }
    let node = read(format!("class/infiniband/{nic}/device/numa_node"))?;
    // -1 where the firmware does not say it.
    let node: u32 = node.trim().parse().ok()?;
    let cpus = CpuSet::parse_list(read(format!("devices/system/node/node{node}/cpulist"))?.trim())?;
    (!cpus.is_empty()).then_some(cpus)
}

/// Those of `had` that are near; `None` where there are none.
fn both(had: &Mask, near: &CpuSet) -> Option<Mask> {
    let mut mask = Mask::new();
    let is_wanted = |cpu: &usize| {
        had.is_set(*cpu) && u32::try_from(*cpu).is_ok_and(|number| near.contains(number))
    };
    (0..Mask::MAX_CPU).filter(is_wanted).for_each(|cpu| mask.set(cpu));
    (mask.count() > 0).then_some(mask)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A machine in files, until dropped.
    struct Files(PathBuf);

    impl Files {
        fn new(nodes: &str, of_nic: &str) -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("te-place-{}-{number}", std::process::id());
            let sys = std::env::temp_dir().join(name);
            let write = |path: &str, text: &str| {
                let path = sys.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            write("devices/system/node/online", nodes);
            write("devices/system/node/node1/cpulist", "4-7\n");
            write("class/infiniband/mlx5_0/device/numa_node", of_nic);
            Self(sys)
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// E8: near CPUs where the machine has several nodes and says on which the NIC is.
    #[test]
    fn e8_a_worker_runs_near_its_nic_where_that_is_known() {
        let near = |nodes: &str, of_nic: &str, nic: &str| {
            cpus_near(&Files::new(nodes, of_nic).0, &NicName::parse(nic).unwrap())
        };
        assert_eq!(near("0-1\n", "1\n", "mlx5_0"), CpuSet::parse_list("4-7"));
        assert_eq!(near("0\n", "0\n", "mlx5_0"), None);
        assert_eq!(near("0-1\n", "-1\n", "mlx5_0"), None);
        assert_eq!(near("0-1\n", "3\n", "mlx5_0"), None, "a node without a list");
        assert_eq!(near("0-1\n", "1\n", "rxe0"), None, "software has no node");
    }

    #[test]
    fn e8_only_cpus_that_the_thread_had_are_taken() {
        let mut had = Mask::new();
        [1, 5, 6].into_iter().for_each(|cpu| had.set(cpu));
        let near = |list: &str| both(&had, &CpuSet::parse_list(list).unwrap());
        let mask = near("4-7").unwrap();
        assert_eq!((mask.count(), mask.is_set(5), mask.is_set(6)), (2, true, true));
        assert!(near("8-11").is_none());
    }
}
