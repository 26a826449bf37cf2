//! Copies through mapped memory: between engines of one process with every other way switched off,
//! and between two processes of which neither may touch the other.
#![allow(clippy::disallowed_methods, reason = "tests are drivers")]
#![allow(clippy::print_stdout, reason = "a test's child speaks through its output")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Engine, as_peer, descriptor, remote};
use te_metadata::{Incarnation, SegmentDescriptor};
use te_segment::{
    AlignedBuffer, Allocation, Opcode, Region, RegisterOptions, RemoteAccess, RemoteRange,
    RemoteSegment, Slice, SliceToken, VanishingMemory,
};
use te_transport::testing::Recorder;
use te_transport::{Completion, FaultClass, RemoteSide, Transport};
use te_transport_shm::{Obstacle, ShmConfig, ShmTransport};

const PATIENCE: Duration = Duration::from_secs(30);
const LEN: u64 = 9 << 20;

/// An engine and what it was told.
struct Node {
    engine: Engine<ShmTransport>,
    recorder: Arc<Recorder>,
}

impl Node {
    fn start(kernel: bool) -> Self {
        let recorder = Recorder::new();
        let config = ShmConfig { kernel, ..ShmConfig::default() };
        let transport = ShmTransport::new(config);
        let engine = Engine::start(transport, Incarnation::random(), recorder.clone());
        Self { engine, recorder }
    }

    fn offer(&self, region: &Region, remote: RemoteAccess) {
        let options = RegisterOptions { remote, ..RegisterOptions::default() };
        let buffer = self.engine.segment.register(region, options).unwrap();
        self.engine.transport.register(&buffer).unwrap();
    }

    fn withdraw(&self, region: &Region) {
        let retiring = self.engine.segment.retire(region.address()).unwrap().unwrap();
        self.engine.transport.deregister(retiring.buffer());
        retiring.finish(PATIENCE).unwrap();
    }

    /// Moves the whole of `local` to or from the start of the peer's buffer.
    fn copy(&self, op: Opcode, local: &Region, peer: &Arc<RemoteSegment>) -> Completion {
        let before = self.recorder.count();
        let token = SliceToken::new(u32::try_from(before).unwrap(), 1);
        let address = peer.descriptor().buffers()[0].addr;
        let remote = RemoteRange::new(address, local.len()).unwrap();
        let (local, peer) = (local.whole(), Arc::clone(peer));
        let slice =
            Slice { token, op, local, remote, peer: Arc::clone(&peer), attempt: 0, checked: false };
        let mut source = VecDeque::from([slice]);
        assert_eq!(self.engine.transport.submit(&peer, &mut source), 1);
        assert!(self.recorder.wait_for(before + 1, PATIENCE), "no completion");
        self.recorder.completions().pop().unwrap()
    }
}

fn shareable(len: u64) -> Region {
    let len = usize::try_from(len).unwrap();
    Region::from(Allocation::new(len).shareable().allocate().unwrap())
}

fn pattern(len: u64, seed: u64) -> Vec<u8> {
    (0..len)
        .map(|i| i.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[1])
        .collect()
}

fn bytes_of(region: &Region, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    region.read_into(0, &mut bytes).unwrap();
    bytes
}

/// Writes and reads back, from memory of this kind.
fn check_both_ways(
    initiator: &Node,
    peer: &Arc<RemoteSegment>,
    local: &Region,
    there: Option<&Region>,
) {
    let bytes = pattern(local.len(), local.address());
    local.write_from(0, &bytes).unwrap();
    let end = initiator.copy(Opcode::Write, local, peer);
    assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
    if let Some(there) = there {
        assert!(bytes_of(there, local.len()) == bytes, "{} bytes written", local.len());
    }
    local.write_from(0, &vec![0; bytes.len()]).unwrap();
    let end = initiator.copy(Opcode::Read, local, peer);
    assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
    assert!(bytes_of(local, local.len()) == bytes, "{} bytes read", local.len());
}

#[test]
fn bytes_go_both_ways_by_mapping_alone_whoever_owns_the_local_memory() {
    let (initiator, target) = (Node::start(false), Node::start(false));
    let offered = shareable(LEN);
    target.offer(&offered, RemoteAccess::ReadWrite);
    let peer = remote(&target.engine);
    for len in [1, 4095, 4096, 65_537, 1 << 20, LEN] {
        let size = usize::try_from(len).unwrap();
        let private = Region::from(AlignedBuffer::zeroed(size).unwrap());
        let callers = VanishingMemory::new(AlignedBuffer::zeroed(size).unwrap());
        for local in [&shareable(len), &private, callers.region()] {
            check_both_ways(&initiator, &peer, local, Some(&offered));
        }
    }
}

#[test]
fn a_buffer_to_be_read_is_read_and_not_written() {
    let (initiator, target) = (Node::start(false), Node::start(false));
    let offered = shareable(1 << 20);
    offered.write_from(0, &pattern(1 << 20, 5)).unwrap();
    target.offer(&offered, RemoteAccess::Read);
    let peer = remote(&target.engine);
    let local = shareable(1 << 20);
    assert_eq!(initiator.copy(Opcode::Read, &local, &peer).result, Ok(()));
    assert!(bytes_of(&local, 1 << 20) == pattern(1 << 20, 5));
    local.write_from(0, &[0; 100]).unwrap();
    let end = initiator.copy(Opcode::Write, &local, &peer);
    assert_eq!(end.result.unwrap_err().class, FaultClass::Refused);
    assert_eq!(end.remote, RemoteSide::Untouched);
    assert!(bytes_of(&offered, 1 << 20) == pattern(1 << 20, 5));
}

#[test]
fn a_peer_with_private_memory_is_left_to_others_where_only_mapping_is_permitted() {
    let (initiator, target) = (Node::start(false), Node::start(false));
    let (shared, private) = (shareable(4096), Region::from(AlignedBuffer::zeroed(4096).unwrap()));
    target.offer(&shared, RemoteAccess::ReadWrite);
    assert!(initiator.engine.transport.reaches(&remote(&target.engine)));
    target.offer(&private, RemoteAccess::ReadWrite);
    let obstacle = initiator.engine.transport.obstacle(&remote(&target.engine));
    assert!(matches!(obstacle, Some(Obstacle::NotPermitted)), "{obstacle:?}");
    target.withdraw(&private);
    assert!(initiator.engine.transport.reaches(&remote(&target.engine)));
}

#[test]
fn memory_that_its_owner_took_back_is_let_go_of() {
    let (initiator, target) = (Node::start(true), Node::start(true));
    let (offered, local) = (shareable(1 << 20), shareable(1 << 20));
    let inode = rustix::fs::fstat(offered.shared().unwrap().file()).unwrap().st_ino;
    let mappings = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_of = |line: &&str| line.split_whitespace().nth(4) == Some(&inode.to_string());
        maps.lines().filter(is_of).count()
    };
    target.offer(&offered, RemoteAccess::ReadWrite);
    let peer = remote(&target.engine);
    until("it is mapped", || {
        check_both_ways(&initiator, &peer, &local, Some(&offered));
        mappings() == 2
    });
    target.withdraw(&offered);
    drop(offered);
    until("it is let go of", || mappings() == 0);
    let end = initiator.copy(Opcode::Write, &local, &peer);
    assert_eq!(end.result.unwrap_err().class, FaultClass::Refused);
}

fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The user and group that own nothing.
const NOBODY: u32 = 65_534;
const ROLE: &str = "TE_TEST_ROLE";
const TOLD: &str = "TE_TEST_TOLD";
const MARK: &str = "descriptor: ";

/// Two processes of another user than root, of which the kernel lets neither read the other: it does
/// not where a program's file may not be read. Only the memory that is lent leads from one to the
/// other.
#[test]
fn processes_that_may_not_touch_each_other_copy_through_mapped_memory() {
    if let Some(role) = std::env::var_os(ROLE) {
        return if role == "owner" { own() } else { initiate() };
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start processes of another user");
        return;
    }
    let directory = std::env::temp_dir().join(format!("te-mapping-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let program = directory.join("unreadable");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o111)).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let start = |role: &str, told: &str| {
        let name = "processes_that_may_not_touch_each_other_copy_through_mapped_memory";
        let mut command = Command::new(&program);
        command.args(["--exact", name, "--nocapture"]).env(ROLE, role).env(TOLD, told);
        command
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(NOBODY)
            .gid(NOBODY);
        command.spawn().unwrap()
    };
    let mut owner = start("owner", "");
    let mut said = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    let descriptor = said.find_map(|line| Some(line.strip_prefix(MARK)?.to_owned())).unwrap();
    let initiator = start("initiator", &descriptor).wait_with_output().unwrap();
    // The end of its input tells it to go.
    drop(owner.stdin.take());
    let rest: Vec<_> = said.collect();
    let owner = owner.wait().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let told = String::from_utf8_lossy(&initiator.stdout).into_owned();
    assert!(initiator.status.success() && owner.success(), "{told}{rest:?}");
    assert!(told.contains("reached by mapping"), "{told}");
}

fn own() {
    let node = Node::start(true);
    let offered = shareable(LEN);
    node.offer(&offered, RemoteAccess::ReadWrite);
    let mut descriptor = descriptor(&node.engine);
    node.engine.transport.describe(&mut descriptor);
    println!("\n{MARK}{}", String::from_utf8(descriptor.encode()).unwrap());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    // What the initiator wrote last is here.
    assert!(bytes_of(&offered, 16) != [0; 16]);
}

fn initiate() {
    let text = std::env::var(TOLD).unwrap();
    let peer = as_peer(SegmentDescriptor::decode(text.as_bytes()).unwrap());
    let kernel_alone = ShmConfig { mapped: false, ..ShmConfig::default() };
    let lonely =
        Engine::start(ShmTransport::new(kernel_alone), Incarnation::random(), Recorder::new());
    let obstacle = lonely.transport.obstacle(&peer);
    assert!(matches!(obstacle, Some(Obstacle::NotPermitted)), "{obstacle:?}");
    let node = Node::start(true);
    for len in [1, 4096, 1 << 20, LEN] {
        check_both_ways(&node, &peer, &shareable(len), None);
    }
    println!("reached by mapping");
}
