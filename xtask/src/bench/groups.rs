//! What is compared with what.
//!
//! I1  The samples of a group are taken one after the other, so that what is compared is near in time.
//! I2  Labels are unique within a group; verdicts find samples by them.

use super::contender::{Contender, Op, Who, Work};

/// Samples that are compared.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// For a person who chooses.
    pub(crate) about: &'static str,
    pub(crate) contenders: Vec<Contender>,
}

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

const TCP: &str = "--transport tcp";
const SHM: &str = "--transport shm";

/// Every group.
pub(crate) fn all() -> Vec<Group> {
    let mut groups = tcp();
    groups.extend(batches());
    groups.extend(interoperation());
    groups.extend(same_host());
    groups.extend(costs());
    groups
}

fn group(name: &'static str, about: &'static str, contenders: Vec<Contender>) -> Group {
    Group { name, about, contenders }
}

/// Pairs of ours and Mooncake's, both directions.
fn with_mooncake(block: u64, batch: u32) -> Vec<Contender> {
    let pair = |op| {
        let work = Work { op, block, batch };
        [Contender::new("te", Who::Te(TCP), work), Contender::new("mooncake", Who::Mooncake, work)]
    };
    Op::BOTH.into_iter().flat_map(pair).collect()
}

fn tcp() -> Vec<Group> {
    let write = |block, batch| Work { op: Op::Write, block, batch };
    let mut large = with_mooncake(M, 8);
    large.push(Contender::new("iperf3", Who::Iperf(1), write(M, 1)));
    let mut one_core = with_mooncake(M, 8);
    one_core.push(Contender::new("iperf3", Who::Iperf(1), write(M, 1)));
    let one_core = one_core.into_iter().map(Contender::on_one_core).collect();
    let low = Op::BOTH.into_iter().flat_map(|op| {
        let work = Work { op, block: M, batch: 8 };
        let low = Who::Te("--transport tcp --low-cpu");
        [Contender::new("te", low, work), Contender::new("mooncake", Who::Mooncake, work)]
    });
    vec![
        group("tcp-1m", "TCP, 1 MiB × 8, beside Mooncake and iperf3", large),
        group("tcp-64m", "TCP, 64 MiB × 1, beside Mooncake", with_mooncake(64 * M, 1)),
        group("tcp-64k", "TCP, 64 KiB × 128, beside Mooncake", with_mooncake(64 * K, 128)),
        group("tcp-4k", "TCP, 4 KiB × 128, beside Mooncake", with_mooncake(4 * K, 128)),
        group("lanes", "TCP, 64 MiB × 8 over 1, 2 and 4 connections, beside iperf3", lanes()),
        group("latency", "TCP, one 4 KiB after the other", latency()),
        group("latency-parked", "the same with a pause in which both sides fall asleep", parked()),
        group("one-core", "TCP, 1 MiB × 8, both ends on one core", one_core),
        group("low-cpu", "TCP, 1 MiB × 8, in the mode that spares the processor", low.collect()),
        group("against", "both ends on one core, beside another revision", against()),
    ]
}

/// FB11: what more connections bring.
fn lanes() -> Vec<Contender> {
    let write = |block, batch| Work { op: Op::Write, block, batch };
    let ours = [
        ("te 1 lane", TCP),
        ("te 2 lanes", "--transport tcp --set tcp.lanes_per_rail=2"),
        ("te 4 lanes", "--transport tcp --set tcp.lanes_per_rail=4"),
    ];
    let ours = ours.map(|(name, options)| Contender::new(name, Who::Te(options), write(64 * M, 8)));
    let theirs = [("iperf3", 1), ("iperf3 four streams", 4)];
    let theirs = theirs.map(|(name, n)| Contender::new(name, Who::Iperf(n), write(M, 1)));
    ours.into_iter().chain(theirs).collect()
}

fn latency() -> Vec<Contender> {
    let pair = |op| {
        let work = Work { op, block: 4 * K, batch: 1 };
        let mooncake = Who::MooncakeLatency { pause_us: 0 };
        [Contender::new("te", Who::Te(TCP), work), Contender::new("mooncake", mooncake, work)]
    };
    Op::BOTH.into_iter().flat_map(pair).collect()
}

/// Ours rests between requests. Mooncake, which sleeps anyhow, is judged without a rest: with one it
/// takes up to forty times as long, and nobody should win by that.
fn parked() -> Vec<Contender> {
    let three = |op| {
        let work = Work { op, block: 4 * K, batch: 1 };
        [
            Contender::new("te", Who::Te("--transport tcp --pause 0.002"), work),
            Contender::new("mooncake", Who::MooncakeLatency { pause_us: 0 }, work),
            Contender::new("mooncake rested", Who::MooncakeLatency { pause_us: 2000 }, work),
        ]
    };
    Op::BOTH.into_iter().flat_map(three).collect()
}

fn against() -> Vec<Contender> {
    let sizes = [("1 MiB", M, 8), ("4 KiB", 4 * K, 128)];
    let works = sizes
        .into_iter()
        .flat_map(|(name, block, batch)| Op::BOTH.map(|op| (name, Work { op, block, batch })));
    let pair = |(size, work): (&str, Work)| {
        [
            Contender::new(&format!("now {size}"), Who::Te(TCP), work).on_one_core(),
            Contender::new(&format!("before {size}"), Who::TeBefore(TCP), work).on_one_core(),
        ]
    };
    works.flat_map(pair).collect()
}

/// Blocks of eight, as NIXL's and libfabric's own benches have them.
fn batches() -> Vec<Group> {
    let sizes = [
        ("batch-4k", "TCP, 4 KiB × 8, beside NIXL and libfabric", 4 * K),
        ("batch-64k", "TCP, 64 KiB × 8, beside NIXL and libfabric", 64 * K),
        ("batch-1m", "TCP, 1 MiB × 8, beside NIXL and libfabric", M),
        ("batch-64m", "TCP, 64 MiB × 8, beside NIXL and libfabric", 64 * M),
    ];
    let three = |block, op| {
        let work = Work { op, block, batch: 8 };
        [
            Contender::new("te", Who::Te(TCP), work),
            Contender::new("nixl", Who::Nixl("tcp"), work),
            Contender::new("libfabric", Who::Libfabric, work),
        ]
    };
    let both = |block| Op::BOTH.into_iter().flat_map(|op| three(block, op)).collect();
    sizes.map(|(name, about, block)| group(name, about, both(block))).into()
}

fn interoperation() -> Vec<Group> {
    let three = |op| {
        let work = Work { op, block: M, batch: 8 };
        [
            Contender::new("te to mooncake", Who::TeToMooncake, work),
            Contender::new("mooncake to te", Who::MooncakeToTe, work),
            Contender::new("mooncake", Who::Mooncake, work),
        ]
    };
    let all = Op::BOTH.into_iter().flat_map(three).collect();
    vec![group("v2", "TCP version 2 with Mooncake, 1 MiB × 8", all)]
}

fn same_host() -> Vec<Group> {
    let three = |block, batch| {
        let of = move |op| {
            let work = Work { op, block, batch };
            [
                Contender::new("te", Who::Te(SHM), work),
                Contender::new("process_vm", Who::ProcessVm, work),
                Contender::new("nixl", Who::Nixl("sm,cma"), work),
                Contender::new("te huge pages", Who::Te("--transport shm --huge-pages"), work),
            ]
        };
        Op::BOTH.into_iter().flat_map(of).collect()
    };
    let write = |batch| Work { op: Op::Write, block: M, batch };
    let engine = Who::Te("--transport shm --engine-memory");
    let cold = Who::Te("--transport shm --engine-memory --footprint 64M");
    vec![
        group("shm-64k", "one host, 64 KiB × 8, private memory", three(64 * K, 8)),
        group("shm-1m", "one host, 1 MiB × 8, private memory", three(M, 8)),
        group("shm-4k", "one host, 4 KiB × 128, private memory", three(4 * K, 128)),
        group("shm-latency", "one host, one 4 KiB after the other", three(4 * K, 1)),
        group(
            "shm-engine",
            "one host, 1 MiB × 8, memory of the engine, beside memcpy into a shared mapping",
            vec![
                Contender::new("te", engine, write(8)),
                Contender::new("memcpy", Who::Memcpy, write(8)),
                Contender::new("te cold", cold, write(8)),
            ],
        ),
    ]
}

fn costs() -> Vec<Group> {
    let with = |name: &str, options, op| {
        Contender::new(name, Who::Te(options), Work { op, block: M, batch: 8 })
    };
    let sums = Op::BOTH.into_iter().flat_map(|op| {
        [
            with("plain", "--transport tcp --engine-memory", op),
            with("checked", "--transport tcp --engine-memory --checked", op),
            with("plain private", TCP, op),
            with("checked private", "--transport tcp --checked", op),
        ]
    });
    let nothing = Work { op: Op::Write, block: 4 * K, batch: 1 };
    let idle = Contender::new("te", Who::Idle, nothing);
    vec![
        group("crc", "TCP, 1 MiB × 8, with and without sums of the bytes", sums.collect()),
        group("idle", "an engine with 100 open peers and nothing to do", vec![idle]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_labels_are_unique() {
        let groups = all();
        let names: BTreeSet<_> = groups.iter().map(|group| group.name).collect();
        assert_eq!(names.len(), groups.len());
        for group in &groups {
            let labels: BTreeSet<_> = group.contenders.iter().map(|one| &one.label).collect();
            assert_eq!(labels.len(), group.contenders.len(), "{}", group.name);
        }
    }
}
