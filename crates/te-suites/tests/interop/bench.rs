//! The peer's own benchmark program, as initiator against us and as target of ours.

use std::process::Command;
use std::time::Duration;

use te_suites::wire::descriptor;
use te_suites::{Direction, Kind, LineChild, NodeSpec, need, peer_bench, say, wait_until};

const MIB: u64 = 1 << 20;

fn bench(mode: &str, buffer: u64, more: &[&str]) -> Result<LineChild, String> {
    let program = peer_bench().ok_or("TE_PEER_PYTHON names no Python with the peer's benchmark")?;
    let mut command = Command::new(program);
    command.args([
        &format!("--mode={mode}"),
        "--metadata_server=P2PHANDSHAKE",
        "--local_server_name=127.0.0.1",
        "--protocol=tcp",
        "--logtostderr",
        &format!("--buffer_size={buffer}"),
    ]);
    command.args(more).env("MC_FORCE_TCP", "1");
    Ok(LineChild::start("transfer_engine_bench", command))
}

/// Runs the benchmark as initiator; gives the line with its result.
fn initiator(target: &str, buffer: u64, more: &[&str]) -> Result<String, String> {
    let segment = format!("--segment_id={target}");
    let fixed = [segment.as_str(), "--duration=2", "--threads=2", "--batch_size=16"];
    let mut child = bench("initiator", buffer, &[&fixed, more].concat())?;
    let status = child.wait(Duration::from_secs(60));
    let errors = child.errors();
    let ended = status.and_then(|status| status.code());
    assert_eq!(ended, Some(0), "the benchmark ended with {status:?}\n{errors}");
    let result = errors.lines().find(|line| line.contains("Test completed"));
    Ok(result.unwrap_or_else(|| panic!("no result in\n{errors}")).trim().to_owned())
}

#[test]
fn its_benchmark_writes_into_our_memory() {
    // J118: transfer_engine_bench as initiator; its source is memory of zeros.
    let test = "its_benchmark_writes_into_our_memory";
    need!(test, Kind::Te.available());
    need!(test, peer_bench().ok_or("TE_PEER_PYTHON names no Python with the peer's benchmark"));
    let buffer = 16 * MIB;
    for block in ["4096", "65536"] {
        let mut ours = NodeSpec::new(Kind::Te, buffer + MIB).start();
        ours.fill(0, buffer + MIB, 0xee);
        let block = format!("--block_size={block}");
        let result = need!(test, initiator(ours.name(), buffer, &["--operation=write", &block]));
        say(&format!("{test}: {block}: {result}"));
        let zeros = ours.count(0, buffer, 0);
        let kept = ours.count(0, buffer, 0xee);
        assert!(zeros > 0, "nothing was written");
        assert_eq!(zeros + kept, buffer, "bytes that nobody wrote");
        ours.verify_filled(buffer, MIB, 0xee);
        ours.quit();
    }
}

#[test]
fn its_benchmark_reads_our_memory() {
    // J118: transfer_engine_bench as initiator, reading.
    let test = "its_benchmark_reads_our_memory";
    need!(test, Kind::Te.available());
    need!(test, peer_bench().ok_or("TE_PEER_PYTHON names no Python with the peer's benchmark"));
    let buffer = 16 * MIB;
    let mut ours = NodeSpec::new(Kind::Te, buffer).start();
    ours.pattern(0, buffer, 4);
    let more = ["--operation=read", "--block_size=65536"];
    let result = need!(test, initiator(ours.name(), buffer, &more));
    say(&format!("{test}: {result}"));
    ours.verify(0, buffer, 4);
    ours.quit();
}

#[test]
fn we_write_and_read_the_memory_of_its_benchmark() {
    // J118: transfer_engine_bench as target.
    let test = "we_write_and_read_the_memory_of_its_benchmark";
    need!(test, Kind::Te.available());
    let target = need!(test, bench("target", 64 * MIB, &[]));
    let port = wait_until(Duration::from_secs(30), "the name of the target", || {
        let errors = target.errors();
        errors.lines().find_map(listening).and_then(|port| port.parse::<u16>().ok())
    });
    let there = wait_until(Duration::from_secs(30), "the buffer of the target", || {
        descriptor("127.0.0.1", port)["buffers"][0]["addr"].as_u64()
    });
    let name = format!("127.0.0.1:{port}");
    let mut ours = NodeSpec::new(Kind::Te, 16 * MIB).start();
    let here = ours.addr();
    for (seed, len) in (1..).zip([1, 4097, MIB + 1, 8 * MIB - 1]) {
        ours.pattern(0, len, seed);
        ours.write(&name, here, there + 4093, len).ok();
        ours.fill(0, 16 * MIB, 0xee);
        ours.transfer(Direction::Read, &name, (here + 3, there + 4093), len).ok();
        ours.verify(3, len, seed);
        ours.verify_filled(0, 3, 0xee);
        ours.verify_filled(3 + len, 64, 0xee);
    }
    say(&format!("{test}: 4 lengths written and read back"));
    ours.quit();
}

/// The port in the line with which the benchmark says where it listens.
fn listening(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("listening on 127.0.0.1:")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()
}
