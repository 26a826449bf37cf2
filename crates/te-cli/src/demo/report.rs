//! What the demo tells a person.

use std::time::Duration;

use te_engine::Opcode;

use super::child::Child;
use crate::error::CliError;
use crate::output;
use crate::units::{length, shown_rate, shown_time};

/// One direction.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) op: Opcode,
    pub(super) bytes: u64,
    pub(super) rounds: u64,
    pub(super) time: Duration,
    /// Processor time of this process and of the other; none where the system does not tell.
    cpu: Option<(Duration, Duration)>,
}

impl Leg {
    pub(super) fn new(op: Opcode) -> Self {
        let cpu = Some((Duration::ZERO, Duration::ZERO));
        Self { op, bytes: 0, rounds: 0, time: Duration::ZERO, cpu }
    }

    /// Adds the processor time of one round.
    pub(super) fn charge(&mut self, here: Option<Duration>, there: Option<Duration>) {
        self.cpu = match (self.cpu, here, there) {
            (Some(sum), Some(here), Some(there)) => Some((sum.0 + here, sum.1 + there)),
            _ => None,
        };
    }
}

pub(super) fn introduce(size: u64, child: &Child) -> Result<(), CliError> {
    output::line(&format!(
        "te demo: {} each way between two processes of this machine\n\n  \
         process {}  moves and compares\n  \
         process {}  exposes segment {}\n\n\
         {}",
        length(size),
        std::process::id(),
        child.pid(),
        child.segment(),
        head(),
    ))
}

/// One line of the table.
pub(super) fn leg(leg: &Leg) -> Result<(), CliError> {
    output::line(&row(leg))
}

/// `transport` is what moved the bytes.
pub(super) fn conclude(transport: &str) -> Result<(), CliError> {
    output::line(&format!(
        "\nThe bytes went by `{transport}`. Each was compared with its pattern by the side that received it.\n\
         GB are 10^9 bytes; CPU s/GB is user and system time of all threads while bytes moved."
    ))
}

fn head() -> String {
    columns(["", "moved", "time", "rate", "CPU s/GB here", "CPU s/GB there", "compared by"])
}

fn row(leg: &Leg) -> String {
    let (word, by) = match leg.op {
        Opcode::Write => ("write", "the other process"),
        Opcode::Read => ("read", "this process"),
    };
    columns([
        word,
        &length(leg.bytes),
        &shown_time(leg.time),
        &shown_rate(leg.bytes, leg.time),
        &per_gigabyte(leg, |cpu| cpu.0),
        &per_gigabyte(leg, |cpu| cpu.1),
        by,
    ])
}

fn columns([word, moved, time, rate, here, there, by]: [&str; 7]) -> String {
    format!("  {word:<5} {moved:>9} {time:>9} {rate:>11}  {here:>13}  {there:>14}  {by}")
}

#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
fn per_gigabyte(leg: &Leg, side: fn((Duration, Duration)) -> Duration) -> String {
    match leg.cpu {
        Some(cpu) => format!("{:.2}", side(cpu).as_secs_f64() / (leg.bytes as f64 / 1e9)),
        None => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_lines_up_with_the_head() {
        let mut leg = Leg::new(Opcode::Write);
        leg.bytes = 1 << 30;
        leg.time = Duration::from_millis(520);
        leg.charge(Some(Duration::from_millis(660)), Some(Duration::from_millis(400)));
        assert_eq!(
            row(&leg),
            "  write     1 GiB    0.52 s   2.06 GB/s           0.61            0.37  the other process"
        );
        assert_eq!(head().find("compared").unwrap(), row(&leg).find("the other").unwrap());
        leg.charge(None, Some(Duration::ZERO));
        assert!(row(&leg).contains(" ? "));
    }
}
