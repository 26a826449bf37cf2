//! Rows as a picture: throughput and latency by block size.

use std::path::Path;

use te_draw::{Axis, Chart, Panel, Series};

use super::args::{Bench, Operation};
use super::row::{Row, counted};
use crate::error::CliError;

/// Writes the picture.
pub(super) fn write(path: &Path, args: &Bench, rows: &[Row]) -> Result<(), CliError> {
    let svg = chart(args, rows).svg();
    std::fs::write(path, svg).map_err(|cause| CliError::file("cannot write", path, &cause))
}

fn chart(args: &Bench, rows: &[Row]) -> Chart {
    let line = |op: Operation, name: &str, value: &dyn Fn(&Row) -> f64| {
        let own = rows.iter().filter(|row| row.cell.op == op);
        let points = own.map(|row| (float(row.cell.block), value(row))).collect();
        let mark = usize::from(name == P99) * 2;
        Series::new(format!("{}{name}", op.word()), points).with_look(colour(op), mark + colour(op))
    };
    let ops = args.op.both();
    let rates = ops.iter().map(|op| line(*op, "", &Row::rate));
    let times = ops.iter().flat_map(|op| {
        [line(*op, " p50", &|row| row.quantile(0.5)), line(*op, P99, &|row| row.quantile(0.99))]
    });
    let block = || Axis::bytes("block");
    let rate = Panel::new("Throughput", block(), Axis::log("GB/s"), rates.collect());
    let time = Panel::new("Latency of a batch", block(), Axis::log("µs"), times.collect());
    let title = format!(
        "te bench: {} in a batch, {}",
        counted(args.batch.into(), "request"),
        counted(args.threads.into(), "thread")
    );
    let note = format!(
        "transport {}, {} memory; complete means that the bytes are in place",
        args.transport.word(),
        args.memory().word()
    );
    Chart::new(title, note, vec![rate, time])
}

const P99: &str = " p99";

fn colour(op: Operation) -> usize {
    usize::from(op == Operation::Read)
}

#[expect(clippy::cast_precision_loss, reason = "drawn at whole pixels")]
fn float(number: u64) -> f64 {
    number as f64
}
