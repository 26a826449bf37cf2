//! What was asked for is what one gets, or an error that names it.

use te_topology::PageNodes;

use super::*;
use crate::Region;

fn region(kind: Allocation) -> Region {
    Region::from(kind.allocate().unwrap())
}

/// The node of each page that is there, as the kernel says.
fn pages_of(region: &Region) -> Vec<Option<NumaNode>> {
    let (first, len) = (region.address(), region.len());
    let pages = (first..first + len).step_by(page_size());
    let pages: Vec<_> = pages.map(|at| usize::try_from(at).unwrap()).collect();
    let mut nodes = Vec::new();
    te_topology::KernelPages.nodes(&pages, &mut nodes).unwrap();
    nodes
}

#[test]
fn every_kind_is_zero_writable_and_aligned() {
    for len in [1, 4095, 4096, 5000, 3 << 20] {
        for pages in [Pages::Usual, Pages::Transparent] {
            for populated in [false, true] {
                for shareable in [false, true] {
                    let mut kind = Allocation::new(len).pages(pages);
                    kind = if populated { kind.populated() } else { kind };
                    kind = if shareable { kind.shareable() } else { kind };
                    let region = region(kind);
                    assert_eq!((region.len(), region.address() % 4096), (len as u64, 0));
                    let mut bytes = vec![1; len];
                    region.read_into(0, &mut bytes).unwrap();
                    assert!(bytes.iter().all(|byte| *byte == 0));
                    region.write_from(len as u64 - 1, &[9]).unwrap();
                    assert_eq!(region.shared().is_some(), shareable);
                }
            }
        }
    }
}

#[test]
fn pages_are_taken_when_asked_for_and_not_before() {
    let lazy = region(Allocation::new(1 << 20));
    assert!(pages_of(&lazy).iter().all(Option::is_none));
    for shareable in [false, true] {
        let mut kind = Allocation::new(1 << 20).populated();
        kind = if shareable { kind.shareable() } else { kind };
        assert!(pages_of(&region(kind)).iter().all(Option::is_some), "shareable {shareable}");
    }
}

#[test]
fn transparent_memory_starts_where_a_huge_page_can() {
    for shareable in [false, true] {
        let mut kind = Allocation::new((4 << 20) + 1).pages(Pages::Transparent);
        kind = if shareable { kind.shareable() } else { kind };
        assert_eq!(region(kind).address() % (2 << 20), 0);
    }
}

#[test]
fn lengths_that_are_no_memory_are_refused() {
    for len in [0, (1 << 40) + 1, usize::MAX] {
        let refused = Allocation::new(len).allocate();
        assert!(matches!(refused, Err(AllocationError::Length(_))), "{len}");
    }
}

#[test]
fn a_node_that_is_not_there_is_named() {
    for node in [1023, 1024, u32::MAX] {
        let refused = Allocation::new(4096).on_node(NumaNode::new(node)).allocate();
        let Err(AllocationError::Node { node: named, .. }) = refused else {
            panic!("node {node} gave {refused:?}");
        };
        assert_eq!(named.number(), node);
    }
}

#[test]
fn a_node_that_is_there_holds_the_pages() {
    let node = NumaNode::new(0);
    for shareable in [false, true] {
        let mut kind = Allocation::new(64 << 10).on_node(node).populated();
        kind = if shareable { kind.shareable() } else { kind };
        let buffer = match kind.allocate() {
            Ok(buffer) => buffer,
            Err(AllocationError::Node { cause, .. }) if is_forbidden(&cause) => return,
            Err(other) => panic!("{other}"),
        };
        assert!(pages_of(&Region::from(buffer)).iter().all(|found| *found == Some(node)));
    }
}

/// A container may forbid placing; then there is nothing to see.
fn is_forbidden(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

#[test]
fn pages_that_were_set_apart_come_or_are_named_as_missing() {
    // A whole TiB of them is on no machine that runs this.
    let refused = Allocation::new(1 << 40).pages(Pages::Huge2M).allocate();
    let Err(AllocationError::NoHugePages { len, page, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((len, page), (1 << 40, 2 << 20));
    match Allocation::new(4096).pages(Pages::Huge2M).allocate() {
        Ok(buffer) => assert_eq!(Region::from(buffer).address() % (2 << 20), 0),
        Err(error) => assert!(matches!(error, AllocationError::NoHugePages { .. }), "{error}"),
    }
    let both = Allocation::new(4096).pages(Pages::Huge2M).shareable().allocate();
    assert!(matches!(both, Err(AllocationError::HugeShareable)));
}
