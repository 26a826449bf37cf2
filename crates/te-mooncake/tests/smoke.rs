//! The peer's binding's calls, between engines of one process over TCP.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::multiple_unsafe_ops_per_block,
    reason = "the peer's names take memory by address; tests fail by panicking"
)]

use std::time::Duration;

use te_mooncake::{
    BatchId, BufferEntry, EngineError, MemoryPool, NotifyMsg, Opcode, TransferEngine,
    TransferEngineOptions, TransferRequest, TransferStatusCode, WILDCARD_LOCATION, last_failure,
};

const CHUNK: usize = 4096;
const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

fn engine() -> TransferEngine {
    TransferEngine::initialize("127.0.0.1:12345", "P2PHANDSHAKE", "tcp", "").unwrap()
}

fn filled(byte: u8) -> MemoryPool {
    let mut pool = MemoryPool::new(2 * CHUNK);
    pool.as_mut_slice()[..CHUNK].fill(byte);
    pool
}

/// The second half of a pool, as a peer's address.
fn second(pool: &MemoryPool) -> u64 {
    pool.offset(CHUNK).expose_provenance() as u64
}

#[test]
fn j77_a_write_and_a_read_within_one_engine() {
    // J77, A136: 4 KiB there and back over the engine's own name.
    let (engine, mut pool) = (engine(), filled(0xa5));
    let segment = engine.open_segment(&engine.local_ip_and_port().unwrap()).unwrap();
    let write = TransferRequest::write(pool.as_void_ptr(), segment, second(&pool), CHUNK as u64);
    let read = TransferRequest::read(pool.as_void_ptr(), segment, second(&pool), CHUNK as u64);
    // SAFETY: no slice of the pool lives during the calls.
    unsafe {
        engine.register_local_memory(pool.as_void_ptr(), pool.len(), WILDCARD_LOCATION).unwrap();
        engine.submit_and_wait(&[write], LIMIT).unwrap();
    }
    assert!(pool.as_slice().iter().all(|byte| *byte == 0xa5));
    pool.as_mut_slice()[..CHUNK].fill(0);
    // SAFETY: as above.
    unsafe {
        engine.submit_and_wait(&[read], LIMIT).unwrap();
        engine.submit_and_wait(&[], LIMIT).unwrap();
        engine.unregister_local_memory(pool.as_void_ptr()).unwrap();
    }
    assert!(pool.as_slice()[..CHUNK].iter().all(|byte| *byte == 0xa5));
}

#[test]
fn a134_a137_calls_by_host_and_by_batch() {
    // A134, A135, A137, A138.
    let (a, b) = (engine(), engine());
    let (ours, theirs) = (filled(7), filled(0));
    let host = b.local_ip_and_port().unwrap();
    let far = theirs.as_ptr().expose_provenance() as u64;
    // SAFETY: the pools are only looked at after the calls.
    unsafe {
        b.register_memory(theirs.as_void_ptr(), theirs.len()).unwrap();
        a.transfer_sync_write(&host, ours.as_void_ptr(), far, CHUNK as u64).unwrap();
        let (locals, remotes) = ([ours.as_void_ptr()], [far + CHUNK as u64]);
        a.batch_transfer_sync(&host, &locals, &remotes, &[CHUNK as u64], Opcode::Write).unwrap();
        let unequal = a.batch_transfer_sync_read(&host, &locals, &remotes, &[]);
        assert!(matches!(unequal, Err(EngineError::InvalidArgument(_))), "{unequal:?}");
        a.batch_transfer_sync_write(&host, &[], &[], &[]).unwrap();
        let batch = a.transfer_submit_write(&host, ours.as_void_ptr(), far, 8).unwrap();
        a.wait_all(batch, 1, None).unwrap();
        assert_eq!(a.transfer_check_status(batch).unwrap(), TransferStatusCode::Completed);
        a.free_batch_id(batch).unwrap();
        let segment = a.open_segment_cached(&host).unwrap();
        let batch = a.allocate_batch_id(1).unwrap();
        let request = TransferRequest::write(ours.as_void_ptr(), segment, far, 8);
        let note = NotifyMsg::new("who", "what");
        a.submit_transfer_with_notify(batch, &[request], &note).unwrap();
        a.wait_all(batch, 1, LIMIT).unwrap();
        a.send_notify(u64::try_from(segment).unwrap(), &NotifyMsg::new("x", "y")).unwrap();
        assert_eq!(b.take_notifies().unwrap(), [note, NotifyMsg::new("x", "y")]);
    }
    assert!(theirs.as_slice().iter().all(|byte| *byte == 7));
    a.sync_segment_cache().unwrap();
    assert!(a.nic_load_stats().unwrap().is_empty());
    assert!(a.show_links(true).unwrap().starts_with('{'));
}

#[test]
fn a139_what_goes_wrong_has_the_peers_names() {
    // A131, A133, A135, A139: and the last failure knows more.
    let (a, b) = (engine(), engine());
    let (pool, host) = (filled(1), b.local_ip_and_port().unwrap());
    let code = |result: Result<(), EngineError>| match result {
        Err(EngineError::OperationFailed(code)) => code,
        other => panic!("{other:?}"),
    };
    // SAFETY: the pool is not looked at.
    unsafe {
        assert_eq!(code(a.unregister_memory(pool.as_void_ptr())), -3);
        a.register_local_memory_ex(pool.as_void_ptr(), pool.len(), "cpu:0", false).unwrap();
        let inside = BufferEntry::new(pool.as_void_ptr(), 8);
        assert_eq!(code(a.register_local_memory_batch(&[inside], "*")), -7);
        a.register_local_memory_batch(&[], "*").unwrap();
        a.unregister_local_memory_batch(&[]).unwrap();
        let failed = a.transfer_sync_write(&host, pool.as_void_ptr(), 64, 8);
        assert!(matches!(failed, Err(EngineError::TransferFailed)), "{failed:?}");
        assert_eq!(last_failure().unwrap().facts().peer.as_deref(), Some(host.as_str()));
        assert_eq!(code(a.transfer_sync_read("127.0.0.1:1", pool.as_void_ptr(), 64, 8)), -1);
        let request = TransferRequest::write(pool.as_void_ptr(), 99, 64, 8);
        assert_eq!(code(a.submit_and_wait(&[request], LIMIT)), 1);
        a.unregister_local_memory_batch(&[pool.as_void_ptr()]).unwrap();
    }
    let nul = a.open_segment("a\0b");
    assert!(matches!(nul, Err(EngineError::InvalidString(_))), "{nul:?}");
    assert_eq!(code(a.free_batch_id(BatchId(77))), 1);
    let made = TransferEngine::create(TransferEngineOptions::new("gopher://x", "127.0.0.1"));
    assert!(matches!(made, Err(EngineError::NullHandle)), "{made:?}");
    let efa = TransferEngine::initialize("127.0.0.1", "P2PHANDSHAKE", "efa", "").map(drop);
    assert_eq!(code(efa), -1);
}

#[test]
fn a136_what_was_called_back_says_that_its_memory_is_free() {
    // A136: the time is over at once; the call returns when nothing moves any more, and says so.
    const LARGE: usize = 64 << 20;
    let (a, b) = (engine(), engine());
    let (ours, theirs) = (MemoryPool::new(LARGE), MemoryPool::new(LARGE));
    let far = theirs.as_ptr().expose_provenance() as u64;
    // SAFETY: no slice of the pools lives.
    unsafe {
        a.register_local_memory(ours.as_void_ptr(), LARGE, WILDCARD_LOCATION).unwrap();
        b.register_local_memory(theirs.as_void_ptr(), LARGE, WILDCARD_LOCATION).unwrap();
        let segment = a.open_segment(&b.local_ip_and_port().unwrap()).unwrap();
        let read = TransferRequest::read(ours.as_void_ptr(), segment, far, LARGE as u64);
        let ended = a.submit_and_wait(&[read], Some(Duration::ZERO));
        assert!(matches!(ended, Err(EngineError::Timeout)), "{ended:?}");
        let failure = last_failure().unwrap();
        assert_eq!(failure.facts().local.name(), "free", "{failure}");
        a.unregister_local_memory(ours.as_void_ptr()).unwrap();
    }
}
