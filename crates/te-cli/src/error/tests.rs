//! The line of an error, and its number.

use std::io;
use std::path::Path;
use std::time::Duration;

use te_engine::{
    ConfigError, FaultClass, HostPort, Opcode, OpenError, PeerError, Phase, RemoteSide,
    ResolveError, SegmentId, SegmentName, SliceFault, TaskFault, TaskState, TransferStatus,
};
use te_metadata::PeerPhase;

use super::{CliError, Failure, system_text};

fn check(error: &CliError, failure: Failure, line: &str) {
    assert_eq!(error.to_string(), line);
    assert_eq!(error.0.failure, failure, "{line}");
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(111)
}

fn peer() -> HostPort {
    HostPort::parse("10.0.0.2:15001").unwrap()
}

#[test]
fn a_peer_that_does_not_listen() {
    let source = PeerError::Io {
        peer: peer(),
        address: "10.0.0.2:15001".parse().unwrap(),
        phase: PeerPhase::Connect,
        source: refused(),
    };
    let name = SegmentName::parse("10.0.0.2:15001").unwrap();
    let cause = Box::new(ResolveError::Peer { name, source });
    let error = OpenError::Resolve { name: "10.0.0.2:15001".into(), cause };
    check(
        &CliError::open("write to", "10.0.0.2:15001", &error),
        Failure::Unreachable,
        "write to 10.0.0.2:15001: connect failed: connection refused; \
         is it running there? `te serve` prints its name when it starts",
    );
}

#[test]
fn a_peer_that_does_not_answer() {
    let error = PeerError::TimedOut {
        peer: peer(),
        phase: PeerPhase::Receive,
        after: Duration::from_secs(2),
    };
    check(
        &CliError::peer("probe", "10.0.0.2:15001", &error),
        Failure::TimedOut,
        "probe 10.0.0.2:15001: receive failed: no answer within 2.00 s; \
         it may be stopped or behind a firewall",
    );
}

#[test]
fn a_name_that_is_none() {
    let error = OpenError::Name { name: String::new(), reason: "it is empty".into() };
    check(
        &CliError::open("describe", "x", &error),
        Failure::Usage,
        "describe x: it is empty; a segment's name is host:port, as `te serve` prints it",
    );
}

fn status(state: TaskState, class: FaultClass, phase: Phase, remote: RemoteSide) -> TransferStatus {
    let fault = SliceFault::new(class, phase, "the peer closed the connection")
        .at("10.0.0.2:16000".parse().unwrap())
        .with_os_error(&io::Error::from_raw_os_error(104));
    let target = SegmentId::LOCAL;
    let peer = "10.0.0.2:15001".into();
    let op = Opcode::Write;
    let fault = TaskFault { index: 0, op, peer, target, attempts: 3, quarantined: false, fault };
    TransferStatus {
        state,
        bytes: 0,
        remote,
        quarantined: false,
        transport: Some("tcp"),
        fault: Some(fault),
    }
}

#[test]
fn a_task_that_failed_tells_phase_attempts_and_doubt() {
    let failed = |class, phase, remote| {
        CliError::task(
            "write to",
            "10.0.0.2:15001",
            &status(TaskState::Failed, class, phase, remote),
        )
    };
    check(
        &failed(FaultClass::Peer, Phase::Payload, RemoteSide::InDoubt),
        Failure::Other,
        "write to 10.0.0.2:15001: payload failed: the peer closed the connection (connection reset \
         by peer), at 10.0.0.2:16000, after 3 attempts (the peer's memory may have changed); \
         `te probe 10.0.0.2:15001` asks whether it still lives",
    );
    let unreachable = failed(FaultClass::Peer, Phase::Connect, RemoteSide::Untouched);
    assert_eq!(unreachable.0.failure, Failure::Unreachable);
    let refused = failed(FaultClass::Refused, Phase::Status, RemoteSide::Settled);
    assert_eq!(refused.0.failure, Failure::Refused);
    assert!(refused.to_string().ends_with("`te segment 10.0.0.2:15001` shows what it exposes"));
    let local = failed(FaultClass::Local, Phase::Payload, RemoteSide::Untouched);
    assert_eq!(local.0.failure, Failure::Local);
}

#[test]
fn a_task_whose_time_ran_out() {
    let status =
        status(TaskState::Timeout, FaultClass::Cancelled, Phase::Status, RemoteSide::InDoubt);
    check(
        &CliError::task("read from", "p", &status).after("2 MiB"),
        Failure::TimedOut,
        "read from p: status failed: the time ran out (the peer's memory may have changed), \
         after 2 MiB were done; `te probe p` asks whether it lives; --timeout gives more",
    );
}

#[test]
fn files_and_settings() {
    let missing = io::Error::from_raw_os_error(2);
    check(
        &CliError::file("cannot read", Path::new("x.bin"), &missing),
        Failure::Local,
        "cannot read x.bin: no such file or directory",
    );
    let error = ConfigError::Unreadable { path: "te.toml".into(), cause: missing };
    check(
        &CliError::config(&error),
        Failure::Config,
        "cannot read configuration te.toml: no such file or directory",
    );
}

#[test]
fn a_reader_that_is_gone_has_a_number_and_no_line() {
    let error = CliError::output(&io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(error.0.failure, Failure::BrokenPipe);
    assert_eq!(error.0.failure as u8, 141);
}

#[test]
fn what_the_system_says_is_put_in_our_case() {
    assert_eq!(system_text(&refused()), "connection refused");
    assert_eq!(system_text(&io::Error::other("CPU is gone")), "CPU is gone");
    assert_eq!(system_text(&io::Error::other("")), "");
}
