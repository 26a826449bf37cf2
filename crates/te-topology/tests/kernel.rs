//! What this machine itself says: places of memory, its own sysfs, its own addresses.

mod common;

use std::path::Path;

use common::{matrix, skip};
use te_topology::{
    AddressWish, KernelPages, MemoryLocation, PageNodes, Placement, PriorityMatrix, SysTree,
    choose_address, read_sysfs,
};

/// J30: memory that was never touched is one `*` entry; after touching, it is on nodes.
#[test]
fn j30_the_kernel_answers_for_this_process() {
    let page = KernelPages.page_size();
    let length = 8 << 20;
    let mut memory: Vec<u8> = Vec::with_capacity(length + page);
    let address = memory.as_ptr().addr().next_multiple_of(page);
    let places = |offset: usize, length: usize| {
        let placement = Placement::of(address + offset, length, &mut KernelPages)?;
        let runs = placement.runs.iter().map(|run| (run.offset, run.length, run.node));
        Ok::<_, te_topology::PlacementError>((runs.collect::<Vec<_>>(), placement.largest()))
    };
    let before = match places(0, length) {
        Ok((runs, _)) => runs,
        Err(error) => {
            return skip(
                "j30_the_kernel_answers_for_this_process",
                &format!("cannot be had here: {error}"),
            );
        }
    };
    assert_eq!(before, [(0, length, None)]);
    memory.spare_capacity_mut().iter_mut().step_by(64).for_each(|byte| {
        byte.write(1);
    });
    let (after, largest) = places(3, length - 5).unwrap();
    assert_eq!(after.iter().map(|run| run.1).sum::<usize>(), length - 5);
    assert!(after.iter().all(|run| run.2.is_some()), "{after:?}");
    assert!(matches!(largest, MemoryLocation::Cpu(_)));
    // An address where nothing is mapped is answered, not touched.
    let nowhere = Placement::of(page, page * 2, &mut KernelPages).unwrap();
    assert_eq!(nowhere.first(), MemoryLocation::Any);
}

/// J23 on this machine, whatever it is.
#[test]
fn j23_this_machine_is_read() {
    let machine = read_sysfs(Path::new("/"));
    assert!(!machine.nodes().is_empty());
    let text = matrix(&machine).to_string();
    assert_eq!(PriorityMatrix::parse(&text).unwrap().to_string(), text);
}

/// J10: many threads ask for the first time at once; all get an answer, and the same one.
#[test]
fn j10_threads_that_ask_at_once_get_one_answer() {
    let start = std::sync::Barrier::new(32);
    let memory = vec![1_u8; 1 << 20];
    let (address, length) = (memory.as_ptr().addr(), memory.len());
    let ask = || {
        start.wait();
        let nodes = read_sysfs(Path::new("/")).nodes().len();
        let place = Placement::of(address, length, &mut KernelPages).map(|p| p.largest());
        (nodes, place.map_err(|error| error.to_string()))
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..32).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

/// FB16 on this machine: what is chosen is an address of the interface that is named.
#[test]
fn fb16_this_machine_has_an_address() {
    let interfaces = SysTree::on_disk(Path::new("/")).host_interfaces();
    match choose_address(&interfaces, &AddressWish::default()) {
        Ok(choice) => {
            let owner = interfaces.iter().find(|i| Some(&i.name) == choice.interface.as_ref());
            assert!(owner.unwrap().addresses.contains(&choice.advertise));
            let bound = std::net::TcpListener::bind((choice.advertise, 0));
            assert!(bound.is_ok(), "{choice:?} {bound:?}");
        }
        Err(error) => {
            skip("fb16_this_machine_has_an_address", &format!("cannot be had here: {error}"))
        }
    }
}
