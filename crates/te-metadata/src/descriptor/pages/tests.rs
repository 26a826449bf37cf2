//! Taking descriptors apart and together.

use proptest::prelude::*;

use super::*;
use crate::{BufferHandle, DeviceDescriptor, Rkey, TcpEndpoint, TeObject};

fn buffer(n: u32) -> BufferDescriptor {
    BufferDescriptor {
        name: "127.0.0.1:15000".into(),
        addr: 0x7f00_0000_0000 + u64::from(n) * 65_536,
        length: 65_536,
        te: Some(BufferHandle { generation: 1, slot: n }),
        ..BufferDescriptor::default()
    }
}

fn tcp(n_buffers: u32) -> SegmentDescriptor {
    let buffers = (0..n_buffers).map(buffer).collect();
    let mut descriptor = SegmentDescriptor::tcp("node-a", TcpEndpoint::default(), buffers);
    descriptor.te = Some(TeObject::new(Incarnation::from_u128(7)));
    descriptor
}

fn together(paged: &PagedDescriptor) -> Result<SegmentDescriptor, DecodeError> {
    let mut descriptor = SegmentDescriptor::decode(&paged.main)?;
    if let Some(list) = descriptor.missing_chunks()? {
        for wanted in &list.chunks {
            let chunk = paged.chunks.iter().find(|chunk| chunk.digest == wanted.digest).unwrap();
            descriptor.add_chunk(wanted, &chunk.body)?;
        }
        descriptor.seal();
    }
    Ok(descriptor)
}

#[test]
fn what_fits_is_one_part_and_byte_for_byte_the_same() {
    let descriptor = tcp(3);
    let paged = descriptor.paginate(PAGE_BYTES);
    assert_eq!((paged.main, paged.chunks.len(), paged.n_main_buffers), (descriptor.encode(), 0, 3));
    let mut bare = tcp(20_000);
    bare.te = None;
    assert_eq!(
        bare.paginate(MIN_PAGE_BYTES).chunks,
        [],
        "without a te object nothing names chunks"
    );
}

/// 100 000 buffers: every part fits a key and a frame, and a reader gets the same list.
#[test]
fn a_hundred_thousand_buffers_go_through_parts_that_fit() {
    let descriptor = tcp(100_000);
    let paged = descriptor.paginate(PAGE_BYTES);
    assert!(paged.main.len() <= PAGE_BYTES && paged.main.len() > PAGE_BYTES / 2);
    assert!(paged.chunks.iter().all(|chunk| chunk.body.len() <= PAGE_BYTES));
    assert_eq!(together(&paged).unwrap(), descriptor);
    let peer = SegmentDescriptor::decode(&paged.main).unwrap();
    assert_eq!(peer.buffers(), &descriptor.buffers()[..paged.n_main_buffers], "a peer's view");
    assert!(paged.chunks.iter().all(|chunk| {
        crate::Record { value: chunk.body.clone(), revision: crate::Revision::new("1") }
            .belongs_to(Incarnation::from_u128(7))
    }));
}

#[test]
fn a_list_that_grows_changes_the_last_chunk_only() {
    let (before, after) = (tcp(5000).paginate(MIN_PAGE_BYTES), tcp(5010).paginate(MIN_PAGE_BYTES));
    let same = before.chunks.iter().zip(&after.chunks).filter(|(a, b)| a == b).count();
    assert!(same + 1 >= before.chunks.len(), "{same} of {}", before.chunks.len());
}

#[test]
fn chunks_carry_the_keys_of_nics() {
    let nic = |name: &str| DeviceDescriptor {
        name: te_topology::NicName::parse(name).unwrap(),
        lid: 1,
        gid: "fe:80".into(),
    };
    let mut descriptor = tcp(0);
    let buffers = (0..2000).map(|n| BufferDescriptor {
        rkeys: vec![Rkey::new(n), Rkey::new(n + 1)],
        lkeys: vec![n, n],
        ..buffer(n)
    });
    descriptor.part = ProtocolPart::Rdma {
        devices: vec![nic("mlx5_0"), nic("mlx5_1")],
        buffers: buffers.collect(),
        priority_matrix: None,
    };
    let paged = descriptor.paginate(MIN_PAGE_BYTES);
    assert!(paged.chunks.len() > 2);
    assert_eq!(together(&paged).unwrap(), descriptor);
}

#[test]
fn chunks_of_another_version_are_never_mixed_in() {
    let (old, new) = (tcp(2000).paginate(MIN_PAGE_BYTES), {
        let mut changed = tcp(2000);
        let ProtocolPart::Tcp { buffers } = &mut changed.part else { panic!("it is tcp") };
        buffers[1500].length = 1;
        changed.paginate(MIN_PAGE_BYTES)
    });
    let mut descriptor = SegmentDescriptor::decode(&old.main).unwrap();
    let list = descriptor.missing_chunks().unwrap().unwrap();
    let (at, wanted) =
        list.chunks.iter().enumerate().find(|(n, _)| old.chunks[*n] != new.chunks[*n]).unwrap();
    let error = descriptor.add_chunk(wanted, &new.chunks[at].body).unwrap_err();
    assert!(matches!(error, DecodeError::Chunk { .. }), "{error}");
    // Left out, its follower does not fit either.
    let skipped = list
        .chunks
        .get(1)
        .map(|wanted| descriptor.add_chunk(wanted, &old.chunks[1].body).unwrap_err().to_string());
    assert!(skipped.is_none_or(|text| text.contains("other buffers")));
    let mut other = SegmentDescriptor::decode(&old.main).unwrap();
    other.te = Some(TeObject::new(Incarnation::from_u128(8)));
    let error = other.add_chunk(&list.chunks[0], &old.chunks[0].body).unwrap_err();
    assert!(error.to_string().contains("another owner"), "{error}");
}

#[test]
fn hostile_lists_are_refused() {
    let with = |extension: Value| {
        let mut descriptor = tcp(1);
        let te = descriptor.te.as_mut().unwrap();
        te.extensions.insert(EXTENSION.to_owned(), extension);
        SegmentDescriptor::decode(&descriptor.encode()).unwrap().missing_chunks()
    };
    let digest = "0123456789abcdef";
    for (extension, says) in [
        (json!([]), "chunks"),
        (json!({"chunks": 1, "total": 1}), "chunks"),
        (json!({"chunks": [{"digest": "x", "count": 1}], "total": 2}), "chunks[0].digest"),
        (json!({"chunks": [{"digest": digest, "count": -1}], "total": 2}), "chunks[0].count"),
        (json!({"chunks": [{"digest": digest, "count": 5}], "total": 2}), "total"),
        (
            json!({"chunks": vec![json!({"digest": digest, "count": 0}); 5000], "total": 1}),
            "chunks",
        ),
        (json!({"chunks": [{"digest": digest, "count": 1_u64 << 40}], "total": 2}), "count"),
    ] {
        let error = with(extension).unwrap_err();
        assert!(error.to_string().contains(says), "{error} names {says}");
    }
    assert_eq!(with(json!({"chunks": [], "total": 1})).unwrap().unwrap().chunks, []);
}

#[test]
fn questions_for_chunks_are_told_from_a_peers() {
    let digest: ChunkDigest = "0123456789abcdef".parse().unwrap();
    assert_eq!(digest.question(), br#"{"te_chunk":"0123456789abcdef"}"#);
    assert_eq!(ChunkDigest::asked_for(&digest.question()), Some(digest));
    let peers = ["", "{}", "null", r#"{"buffers":[]}"#, r#"{"te_chunk":"0123456789ABCDEF"}"#];
    for peer in peers {
        assert_eq!(ChunkDigest::asked_for(peer.as_bytes()), None, "{peer}");
    }
    assert_eq!(ChunkDigest::asked_for(&tcp(100).encode()), None);
}

proptest! {
    #[test]
    fn any_number_of_buffers_comes_back(n in 0_u32..3000, limit in MIN_PAGE_BYTES..200_000) {
        let descriptor = tcp(n);
        let paged = descriptor.paginate(limit);
        prop_assert!(paged.main.len() <= limit);
        prop_assert!(paged.chunks.iter().all(|chunk| chunk.body.len() <= limit));
        prop_assert_eq!(together(&paged).unwrap(), descriptor);
    }
}
