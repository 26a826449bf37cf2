//! `te read`

use std::path::Path;

use super::summary::Summary;
use crate::args::{Common, Read};
use crate::error::{CliError, Failure};
use crate::mover::Mover;
use crate::output;
use crate::pattern::Pattern;
use crate::place::Place;
use crate::progress::Progress;
use crate::session;
use crate::sink::Sink;

const ACTION: &str = "read from";

pub(crate) fn run(common: &Common, args: &Read) -> Result<(), CliError> {
    let to_output = !args.discard && args.pattern.is_none() && !has_file(args);
    let mut early = if to_output { Some(Sink::standard_output()?) } else { None };
    let engine = session::client(common, args.moving.timeout)?;
    let opened = session::open(&engine, ACTION, &args.part.segment)?;
    let place = Place::find(ACTION, &args.part, &opened)?;
    let length = length(args, &place)?;
    let place = place.first(length, ACTION, &opened)?;
    // A file is made only when there is something to put into it.
    let mut sink = match early.take() {
        Some(sink) => sink,
        None => sink(args)?,
    };
    let address = place.address();
    let mover = Mover::new(&engine, &opened, ACTION, &args.moving, Some(length))?;
    let moved = mover.read(place, &mut sink, &Progress::new("reading", Some(length)))?;
    let summary = Summary {
        verb: "read",
        preposition: "from",
        segment: &args.part.segment,
        address,
        moved,
        checked: args.pattern.map(|_| "equal to the pattern"),
    };
    session::close(&engine);
    let text = if common.json { summary.json().to_string() } else { summary.line() };
    if sink.uses_output() {
        output::note(&text);
        return Ok(());
    }
    output::line(&text)
}

fn has_file(args: &Read) -> bool {
    args.file.as_deref().is_some_and(|path| path != Path::new("-"))
}

fn sink(args: &Read) -> Result<Sink, CliError> {
    match (&args.pattern, &args.file) {
        (Some(seed), _) => Ok(Sink::pattern(Pattern::new(*seed))),
        (None, Some(path)) => Sink::file(path),
        (None, None) => Ok(Sink::nothing()),
    }
}

fn length(args: &Read, place: &Place) -> Result<u64, CliError> {
    match (args.length, place.is_bounded()) {
        (Some(length), _) => Ok(length),
        (None, true) => Ok(place.length()),
        (None, false) => {
            let cause = "the address is in no buffer that the segment tells of";
            Err(CliError::new(Failure::Usage, ACTION, cause)
                .with_peer(&args.part.segment)
                .hint("say how much with --length"))
        }
    }
}
