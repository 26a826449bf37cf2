//! Peers that lie: in the descriptor, on the socket, in the memory that they pass. Whatever they do,
//! they are not reached, in time and with a reason, and nothing here ends.
//!
//! The messages and the layouts are written out by hand, as `docs/wire.md` draws them.
#![allow(clippy::disallowed_methods, reason = "tests are drivers")]
#![allow(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

mod common;

use std::collections::VecDeque;
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Engine, as_peer, descriptor};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use serde_json::Value;
use te_metadata::{BufferDescriptor, BufferHandle, Incarnation};
use te_segment::{
    AlignedBuffer, Opcode, Region, RegisterOptions, RemoteRange, RemoteSegment, Slice, SliceToken,
};
use te_transport::testing::Recorder;
use te_transport::{FaultClass, Transport as _};
use te_transport_shm::{Obstacle, ShmConfig, ShmOffer, ShmTransport};

const TABLE_BYTES: usize = (1 << 20) * 8 + 4096;
const HOLDS_BYTES: usize = 4096;
const LIAR: Incarnation = Incarnation::from_u128(0xbad);
const QUICK: Duration = Duration::from_millis(300);

fn engine() -> Engine<ShmTransport> {
    let config = ShmConfig { probe_timeout: QUICK, ..ShmConfig::default() };
    Engine::start(ShmTransport::new(config), Incarnation::random(), Recorder::new())
}

/// A peer of this incarnation with one buffer, whose descriptor says this.
fn peer(
    incarnation: Incarnation,
    part: Option<Value>,
    buffer: BufferDescriptor,
) -> Arc<RemoteSegment> {
    let mut described = descriptor(&engine());
    described.te.as_mut().unwrap().incarnation = incarnation;
    described.te.as_mut().unwrap().transports.extend(part.map(|part| ("shm".to_owned(), part)));
    described.part = te_metadata::ProtocolPart::Tcp { buffers: vec![buffer] };
    as_peer(described)
}

fn buffer(addr: u64) -> BufferDescriptor {
    let te = Some(BufferHandle { generation: 1, slot: 0 });
    BufferDescriptor { name: "x".into(), addr, length: 1 << 20, te, ..BufferDescriptor::default() }
}

/// Why a peer with this descriptor is not reached.
#[track_caller]
fn obstacle(own: &Engine<ShmTransport>, incarnation: Incarnation, part: Option<Value>) -> Obstacle {
    let begun = Instant::now();
    let peer = peer(incarnation, part, buffer(4096));
    let why = own.transport.obstacle(&peer).expect("it is not reached");
    assert!(!own.transport.reaches(&peer));
    assert!(begun.elapsed() < Duration::from_secs(5), "{why}");
    why
}

#[test]
fn a_descriptor_that_does_not_fit_is_no_peer_and_the_reason_is_named() {
    let own = engine();
    let other = engine();
    let good = other.transport.offer().unwrap();
    let mut n = 100;
    let mut ask = |part: Option<Value>| {
        n += 1;
        obstacle(&own, Incarnation::from_u128(n), part)
    };
    let with = |change: &dyn Fn(&mut ShmOffer)| {
        let mut offer = good.clone();
        change(&mut offer);
        Some(offer.encode())
    };
    assert!(matches!(ask(None), Obstacle::NotOffered));
    assert!(matches!(ask(Some(Value::Null)), Obstacle::Offer(_)));
    assert!(matches!(ask(with(&|o| o.boot.push('x'))), Obstacle::OtherHost));
    assert!(matches!(ask(with(&|o| o.pid_namespace += 1)), Obstacle::OtherNamespace));
    assert!(matches!(ask(with(&|o| o.socket.push('x'))), Obstacle::Gone { .. }));
    // A process id that was given to another process: it started at another time.
    let start = ask(with(&|o| o.start -= 1));
    assert!(matches!(start, Obstacle::OtherProcess { what: "start time" }), "{start}");
    let mut child = std::process::Command::new("sleep");
    child.arg("10").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    // Where both started in one tick of the clock, the socket tells them apart.
    let recycled = ask(with(&|o| o.pid = pid));
    assert!(matches!(recycled, Obstacle::OtherProcess { .. }), "{recycled}");
    // Also one that tells its true start time does not own the socket.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse();
    let socket = ask(with(&|o| (o.pid, o.start) = (pid, *start.as_ref().unwrap())));
    assert!(matches!(socket, Obstacle::OtherProcess { what: "owner of the socket" }), "{socket}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(ask(with(&|o| o.pid = pid)), Obstacle::Gone { .. }), "it is dead");
    // The right process, asked as if it were another one, as after a restart.
    let run = ask(Some(good.encode()));
    assert!(matches!(run, Obstacle::OtherProcess { what: "incarnation" }), "{run}");
    let myself = obstacle(&own, own.incarnation, own.transport.offer().map(|o| o.encode()));
    assert!(matches!(myself, Obstacle::ThisEngine), "{myself}");
    assert!(own.transport.obstacle(&common::remote(&other)).is_none(), "the truth is believed");
}

/// A socket that plays the owner, once.
struct Liar {
    offer: ShmOffer,
    listener: OwnedFd,
}

impl Liar {
    fn new(name: &str) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let listener = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        let socket = format!("te-test-{name}-{}", Incarnation::random());
        let address = SocketAddrUnix::new_abstract_name(socket.as_bytes()).unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 4).unwrap();
        let offer = ShmOffer { socket, ..engine().transport.offer().unwrap() };
        Self { offer, listener }
    }

    /// Waits for one hello.
    fn accept(&self) -> (OwnedFd, [u8; 56]) {
        let socket = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC).unwrap();
        let mut hello = [0; 56];
        assert_eq!(rustix::net::recv(&socket, &mut hello, RecvFlags::empty()).unwrap().0, 56);
        (socket, hello)
    }
}

fn welcome(code: u64, incarnation: Incarnation, proof: u64) -> Vec<u8> {
    let mut bytes = b"te-shm\0\x01".to_vec();
    bytes.extend(code.to_le_bytes());
    bytes.extend(incarnation.as_u128().to_le_bytes());
    bytes.extend(proof.to_le_bytes());
    bytes
}

fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
        .unwrap();
}

fn memory(len: usize, words: &[(usize, u64)], seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("te-test", flags).unwrap();
    rustix::fs::ftruncate(&fd, len as u64).unwrap();
    for (index, word) in words {
        rustix::io::pwrite(&fd, &word.to_le_bytes(), *index as u64 * 8).unwrap();
    }
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

const SEALED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// The guard table as `docs/wire.md` draws it, with one open buffer in slot 0.
fn good_table() -> OwnedFd {
    table_under(SEALED)
}

/// The same words under any seals.
fn table_under(seals: SealFlags) -> OwnedFd {
    let magic = u64::from_le_bytes(*b"te-guard");
    let (low, high) = (0xbad, 0);
    let words = [(0, magic), (1, 1 << 20), (2, low), (3, high), (4, 1), (8, (1 << 32) | 7)];
    memory(TABLE_BYTES, &words, seals)
}

fn good_holds() -> OwnedFd {
    memory(HOLDS_BYTES, &[(0, u64::from_le_bytes(*b"te-holds"))], SEALED)
}

/// What the initiator wants to find, in our memory.
fn proof_of(hello: &[u8; 56]) -> Box<[u8; 32]> {
    let mut proof = Box::new([0; 32]);
    proof[..16].copy_from_slice(&hello[40..]);
    proof[16..].copy_from_slice(&LIAR.as_u128().to_le_bytes());
    proof
}

/// Why a peer that answers so is not reached.
#[track_caller]
fn answered(name: &str, answer: impl FnOnce(&OwnedFd, &[u8; 56]) + Send) -> Obstacle {
    let (own, liar) = (engine(), Liar::new(name));
    thread::scope(|scope| {
        let asked = scope.spawn(|| obstacle(&own, LIAR, Some(liar.offer.encode())));
        let (socket, hello) = liar.accept();
        answer(&socket, &hello);
        let why = asked.join().unwrap();
        drop(socket);
        why
    })
}

#[test]
fn answers_that_are_none_are_told_from_one_another() {
    let silent = answered("silent", |_, _| {});
    assert!(matches!(silent, Obstacle::Silent { waited } if waited == QUICK), "{silent}");
    assert!(!silent.lasts());
    for bytes in [&b"x"[..], b"te-shm\0\x02", &[0; 40], &[7; 400]] {
        let why = answered("nonsense", |socket, _| send(socket, bytes, &[]));
        assert!(matches!(why, Obstacle::Answer), "{bytes:?}: {why}");
    }
    let unknown = answered("code", |s, _| send(s, &welcome(9, LIAR, 0), &[]));
    assert!(matches!(unknown, Obstacle::Answer), "{unknown}");
    let full = answered("full", |s, _| send(s, &welcome(2, LIAR, 0), &[]));
    assert!(matches!(full, Obstacle::Full) && !full.lasts(), "{full}");
    let other = answered("other", |s, _| send(s, &welcome(1, LIAR, 0), &[]));
    assert!(matches!(other, Obstacle::OtherProcess { what: "incarnation" }), "{other}");
    let (table, holds) = (good_table(), good_holds());
    let both = [table.as_fd(), holds.as_fd()];
    for fds in [&both[..0], &both[..1], &[both[0], both[1], both[0]]] {
        let why = answered("descriptors", |s, _| send(s, &welcome(0, LIAR, 0), fds));
        assert!(matches!(why, Obstacle::Answer), "{} descriptors: {why}", fds.len());
    }
    let stranger = Incarnation::from_u128(1);
    let why = answered("stranger", |s, _| send(s, &welcome(0, stranger, 0), &both));
    assert!(matches!(why, Obstacle::OtherProcess { what: "incarnation" }), "{why}");
}

#[test]
fn memory_that_could_fail_under_us_is_not_mapped() {
    let (table, holds) = (good_table(), good_holds());
    let magic = (0, u64::from_le_bytes(*b"te-guard"));
    let (pipe, _end) = std::io::pipe().unwrap();
    let pipe = OwnedFd::from(pipe);
    let mut file = tempfile();
    file.write_all(&vec![0; TABLE_BYTES]).unwrap();
    let file = OwnedFd::from(file);
    let bad = [
        ("unsealed", table_under(SealFlags::SEAL), good_holds()),
        ("may shrink", table_under(SealFlags::GROW), good_holds()),
        ("too short", memory(4096, &[magic], SEALED), good_holds()),
        ("too long", memory(TABLE_BYTES + 4096, &[magic], SEALED), good_holds()),
        ("empty", memory(TABLE_BYTES, &[], SEALED), good_holds()),
        ("another size", memory(TABLE_BYTES, &[magic, (1, u64::MAX)], SEALED), good_holds()),
        ("a pipe", pipe, good_holds()),
        ("a file", file, good_holds()),
        ("holds of no kind", good_table(), memory(HOLDS_BYTES, &[], SEALED)),
        ("holds that may shrink", good_table(), memory(HOLDS_BYTES, &[], SealFlags::GROW)),
        ("holds and table swapped", holds, table),
    ];
    for (what, table, holds) in &bad {
        let fds = [table.as_fd(), holds.as_fd()];
        let why = answered("memory", |s, _| send(s, &welcome(0, LIAR, 0), &fds));
        assert!(matches!(why, Obstacle::Memory(_)), "{what}: {why}");
    }
}

fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("te-shm-test-{}", Incarnation::random()));
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path);
    std::fs::remove_file(path).unwrap();
    file.unwrap()
}

#[test]
fn a_proof_that_is_not_there_proves_nothing() {
    let (table, holds) = (good_table(), good_holds());
    let fds = [table.as_fd(), holds.as_fd()];
    for at in [0, 8, u64::MAX - 7, 1 << 63] {
        let why = answered("proof", |s, _| send(s, &welcome(0, LIAR, at), &fds));
        assert!(matches!(why, Obstacle::Unproven), "{at:#x}: {why}");
    }
    let why = answered("another", |s, hello| {
        let mut proof = proof_of(hello);
        proof[0] ^= 1;
        send(s, &welcome(0, LIAR, Box::leak(proof).as_ptr().addr() as u64), &fds);
    });
    assert!(matches!(why, Obstacle::Unproven), "{why}");
}

#[test]
fn nobody_waits_twice_for_a_peer_that_is_silent() {
    let (own, liar) = (engine(), Liar::new("silent"));
    let silent = peer(LIAR, Some(liar.offer.encode()), buffer(4096));
    assert!(matches!(own.transport.obstacle(&silent), Some(Obstacle::Silent { .. })));
    let begun = Instant::now();
    assert!(matches!(own.transport.obstacle(&silent), Some(Obstacle::Silent { .. })));
    assert!(begun.elapsed() < QUICK / 2, "it was asked again at once");
    // Slices for it end, each once, and none of them was anywhere.
    let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
    let mut slices: VecDeque<_> =
        (0..10).map(|n| slice(n, Opcode::Write, &region, 4096, &silent)).collect();
    assert_eq!(own.transport.submit(&silent, &mut slices), 10);
    assert!(own.transport.close(Instant::now() + Duration::from_secs(10)).joined);
}

fn slice(n: u32, op: Opcode, local: &Region, remote: u64, peer: &Arc<RemoteSegment>) -> Slice {
    Slice {
        token: SliceToken::new(n, 1),
        op,
        local: local.whole(),
        remote: RemoteRange::new(remote, local.len()).unwrap(),
        peer: Arc::clone(peer),
        attempt: 0,
        checked: false,
    }
}

/// A peer that was proven and then writes whatever it likes into its table: slices end, each once,
/// with bytes or with a fault, and no value makes us do anything else.
#[test]
fn a_guard_table_that_says_anything_at_any_time_ends_nothing_but_slices() {
    const COUNT: u32 = 3000;
    let recorder = Recorder::new();
    let config = ShmConfig { max_queued_per_peer: 8192, ..ShmConfig::default() };
    let sink = Arc::clone(&recorder);
    let own = Engine::start(ShmTransport::new(config), Incarnation::random(), sink);
    let (liar, table, holds) = (Liar::new("table"), good_table(), good_holds());
    let theirs = Region::from(AlignedBuffer::zeroed(1 << 20).unwrap());
    let peer = peer(LIAR, Some(liar.offer.encode()), buffer(theirs.address()));
    let socket = thread::scope(|scope| {
        let asked = scope.spawn(|| own.transport.reaches(&peer));
        let (socket, hello) = liar.accept();
        let proof = Box::leak(proof_of(&hello));
        let at = proof.as_ptr().addr() as u64;
        send(&socket, &welcome(0, LIAR, at), &[table.as_fd(), holds.as_fd()]);
        assert!(asked.join().unwrap(), "what it says is in order");
        socket
    });
    let local = Region::from(AlignedBuffer::zeroed(4096).unwrap());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| scribble(&table, &holds, &stop));
        let op = |n: u32| if n.is_multiple_of(2) { Opcode::Read } else { Opcode::Write };
        let mut slices: VecDeque<_> =
            (0..COUNT).map(|n| slice(n, op(n), &local, theirs.address(), &peer)).collect();
        let tokens: Vec<_> = slices.iter().map(|slice| slice.token).collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        while recorder.count() < tokens.len() {
            own.transport.submit(&peer, &mut slices);
            own.transport.drive(Instant::now() + Duration::from_millis(5));
            assert!(Instant::now() < deadline, "{} of {COUNT} ended", recorder.count());
        }
        stop.store(true, Ordering::Relaxed);
        recorder.check_exactly_once(&tokens).unwrap();
    });
    let expected = [FaultClass::Refused, FaultClass::Protocol, FaultClass::Peer, FaultClass::Rail];
    for end in recorder.completions() {
        if let Err(fault) = end.result {
            assert!(expected.contains(&fault.class), "{fault}");
        }
    }
    drop(socket);
    assert!(own.transport.close(Instant::now() + Duration::from_secs(10)).joined);
}

/// Writes words that look like states, and words that do not, over slot 0, the header and the holds.
fn scribble(table: &OwnedFd, holds: &OwnedFd, stop: &AtomicBool) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    while !stop.load(Ordering::Relaxed) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let word = match random >> 61 {
            0 => random,
            1 => u64::MAX,
            2 => 0,
            _ => (1 << 32) | 7,
        };
        rustix::io::pwrite(table, &word.to_le_bytes(), 64).unwrap();
        rustix::io::pwrite(holds, &random.to_le_bytes(), (random >> 32) % 4088).unwrap();
        thread::yield_now();
    }
}

/// Initiators that say nothing, say nonsense, or want somebody else: the owner serves others
/// meanwhile, and lets go of them.
#[test]
fn callers_that_waste_our_time_are_sent_away() {
    let config = ShmConfig { greeting_timeout: QUICK, max_peers: 2, ..ShmConfig::default() };
    let owner = Engine::start(ShmTransport::new(config), Incarnation::random(), Recorder::new());
    let name = owner.transport.offer().unwrap().socket;
    let call = || {
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        socket
    };
    let hello = |to: Incarnation| {
        let mut bytes = b"te-shm\0\x01".to_vec();
        bytes.extend(to.as_u128().to_le_bytes());
        bytes.extend([1; 32]);
        bytes
    };
    let answer = |socket: &OwnedFd| {
        let mut bytes = [0; 64];
        // An end that comes as a reset is an end.
        let n = rustix::net::recv(socket, &mut bytes, RecvFlags::empty()).map_or(0, |(n, _)| n);
        bytes[..n].to_vec()
    };
    let silent: Vec<_> = (0..100).map(|_| call()).collect();
    let good = engine();
    assert!(good.transport.obstacle(&common::remote(&owner)).is_none(), "others are served");
    assert!(answer(&silent[99]).is_empty(), "it is sent away after a while");
    for bytes in [vec![1], vec![0; 56], hello(owner.incarnation)[..55].to_vec(), vec![9; 500]] {
        let socket = call();
        rustix::net::send(&socket, &bytes, SendFlags::NOSIGNAL).unwrap();
        assert!(answer(&socket).is_empty(), "nonsense is not answered");
    }
    let lost = call();
    rustix::net::send(&lost, &hello(LIAR), SendFlags::NOSIGNAL).unwrap();
    assert_eq!(answer(&lost), welcome(1, owner.incarnation, 0));
    let guest = call();
    rustix::net::send(&guest, &hello(owner.incarnation), SendFlags::NOSIGNAL).unwrap();
    assert_eq!(answer(&guest)[8..16], [0; 8]);
    let late = call();
    rustix::net::send(&late, &hello(owner.incarnation), SendFlags::NOSIGNAL).unwrap();
    assert_eq!(answer(&late), welcome(2, owner.incarnation, 0), "two are in already");
    let registered = Region::from(AlignedBuffer::zeroed(4096).unwrap());
    let kept = owner.segment.register(&registered, RegisterOptions::default()).unwrap();
    owner.transport.register(&kept).unwrap();
    assert!(owner.transport.close(Instant::now() + Duration::from_secs(10)).joined);
    assert_eq!(kept.in_flight(), 0);
}
