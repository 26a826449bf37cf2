//! `te write`

use std::path::Path;

use te_engine::TransferEngine;

use super::summary::Summary;
use crate::args::{Common, Write};
use crate::error::{CliError, Failure};
use crate::mover::{Moved, Mover};
use crate::output;
use crate::pattern::Pattern;
use crate::place::Place;
use crate::progress::Progress;
use crate::session::{self, Opened};
use crate::sink::Sink;
use crate::source::Source;
use crate::units;

const ACTION: &str = "write to";

pub(crate) fn run(common: &Common, args: &Write) -> Result<(), CliError> {
    // A missing file is told before anybody is connected to.
    let (mut source, file_length) = source(args)?;
    let engine = session::client(common, args.moving.timeout)?;
    let opened = session::open(&engine, ACTION, &args.part.segment)?;
    let mut place = Place::find(ACTION, &args.part, &opened)?;
    let length = length(args, file_length, &place)?;
    if let Some(length) = length {
        place = place.first(length, ACTION, &opened)?;
    }
    let mover = Mover::new(&engine, &opened, ACTION, &args.moving, length)?;
    let moved = mover.write(place.clone(), &mut source, &Progress::new("writing", length))?;
    complete(&mut source, length, &place, moved, &opened)?;
    let written = place.clone().first(moved.bytes, ACTION, &opened)?;
    if args.verify && moved.bytes > 0 {
        read_back(&engine, &opened, args, written, moved)?;
    }
    let summary = Summary {
        verb: "wrote",
        preposition: "to",
        segment: &args.part.segment,
        address: place.address(),
        moved,
        checked: args.verify.then_some("read back and equal"),
    };
    session::close(&engine);
    if common.json { output::json(&summary.json()) } else { output::line(&summary.line()) }
}

fn source(args: &Write) -> Result<(Source, Option<u64>), CliError> {
    match (&args.pattern, &args.file) {
        (Some(seed), _) => Ok((Source::pattern(Pattern::new(*seed)), None)),
        (None, Some(path)) if path != Path::new("-") => Source::file(path),
        _ => Ok((Source::standard_input(), None)),
    }
}

/// How much is to be written, where that is known before.
fn length(args: &Write, file: Option<u64>, place: &Place) -> Result<Option<u64>, CliError> {
    if let Some(length) = args.length.or(file) {
        return Ok(Some(length));
    }
    match (args.pattern, place.is_bounded()) {
        (Some(_), true) => Ok(Some(place.length())),
        (Some(_), false) => {
            let cause = "the address is in no buffer that the segment tells of";
            Err(CliError::new(Failure::Usage, ACTION, cause)
                .with_peer(&args.part.segment)
                .hint("say how much with --length"))
        }
        (None, _) => Ok(None),
    }
}

/// The source must have had as much as was asked for, and the place room for all of it.
fn complete(
    source: &mut Source,
    length: Option<u64>,
    place: &Place,
    moved: Moved,
    opened: &Opened,
) -> Result<(), CliError> {
    if let Some(length) = length {
        if moved.bytes < length {
            let cause = format!(
                "{} ended after {} of {}",
                source.name(),
                units::length(moved.bytes),
                units::length(length)
            );
            return Err(CliError::new(Failure::Local, ACTION, cause).with_peer(&opened.name));
        }
    } else if moved.bytes == place.length() && !source.is_at_end()? {
        let cause = format!(
            "{} has more than the {} from there to the end, which are written",
            source.name(),
            units::length(moved.bytes)
        );
        return Err(CliError::new(Failure::Refused, ACTION, cause)
            .with_peer(&opened.name)
            .hint(format!("`te segment {}` shows what it exposes", opened.name)));
    }
    Ok(())
}

fn read_back(
    engine: &TransferEngine,
    opened: &Opened,
    args: &Write,
    place: Place,
    written: Moved,
) -> Result<(), CliError> {
    let mover = Mover::new(engine, opened, "read back from", &args.moving, Some(written.bytes))?;
    let mut sink = match args.pattern {
        Some(seed) => Sink::pattern(Pattern::new(seed)),
        None => Sink::nothing(),
    };
    let progress = Progress::new("verifying", Some(written.bytes));
    let seen = mover.read(place, &mut sink, &progress)?;
    if seen.sum == written.sum {
        return Ok(());
    }
    let cause = format!("crc32 {:08x} was written, {:08x} came back", written.sum, seen.sum);
    Err(CliError::new(Failure::Differs, "read back from", cause)
        .with_peer(&opened.name)
        .hint("somebody else may be writing there"))
}
