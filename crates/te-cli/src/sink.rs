//! Where read bytes go.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use te_engine::Region;

use crate::checksum::Crc32;
use crate::error::{CliError, Failure};
use crate::output;
use crate::pattern::{Pattern, first_difference};
use crate::source::BLOCK;

/// Takes bytes in order and sums them up.
pub(crate) struct Sink {
    kind: Kind,
    position: u64,
    pub(crate) sum: Crc32,
    scratch: Vec<u8>,
}

enum Kind {
    File(File, String),
    Output(io::Stdout),
    /// Compares; holds what the bytes should be.
    Pattern(Pattern, Vec<u8>),
    Nothing,
}

impl Sink {
    pub(crate) fn file(path: &Path) -> Result<Self, CliError> {
        let file =
            File::create(path).map_err(|cause| CliError::file("cannot write", path, &cause))?;
        Ok(Self::new(Kind::File(file, path.display().to_string())))
    }

    /// Refuses a terminal: raw bytes would garble it.
    pub(crate) fn standard_output() -> Result<Self, CliError> {
        if output::is_terminal() {
            let cause = "standard output is a terminal, and the bytes may be anything";
            return Err(CliError::new(Failure::Usage, "read", cause)
                .hint("use --file FILE, --discard, or a pipe"));
        }
        Ok(Self::new(Kind::Output(io::stdout())))
    }

    pub(crate) fn pattern(pattern: Pattern) -> Self {
        Self::new(Kind::Pattern(pattern, vec![0; BLOCK]))
    }

    pub(crate) fn nothing() -> Self {
        Self::new(Kind::Nothing)
    }

    fn new(kind: Kind) -> Self {
        Self { kind, position: 0, sum: Crc32::default(), scratch: vec![0; BLOCK] }
    }

    /// Whether results must not go to standard output.
    pub(crate) fn uses_output(&self) -> bool {
        matches!(self.kind, Kind::Output(_))
    }

    /// Takes a part of a region.
    pub(crate) fn take(
        &mut self,
        region: &Region,
        offset: u64,
        length: u64,
    ) -> Result<(), CliError> {
        let mut taken = 0;
        while taken < length {
            let n = usize::try_from(length - taken).map_or(BLOCK, |left| left.min(BLOCK));
            region.read_into(offset + taken, &mut self.scratch[..n]).map_err(|error| {
                CliError::new(Failure::Local, "cannot read local memory", error)
            })?;
            self.sum.update(&self.scratch[..n]);
            self.give(n)?;
            self.position += n as u64;
            taken += n as u64;
        }
        Ok(())
    }

    /// Makes sure that everything arrived.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        match &mut self.kind {
            Kind::Output(out) => out.flush().map_err(|cause| CliError::output(&cause)),
            _ => Ok(()),
        }
    }

    fn give(&mut self, n: usize) -> Result<(), CliError> {
        let block = &self.scratch[..n];
        match &mut self.kind {
            Kind::Nothing => Ok(()),
            Kind::Output(out) => out.write_all(block).map_err(|cause| CliError::output(&cause)),
            Kind::File(file, name) => file
                .write_all(block)
                .map_err(|cause| CliError::file("cannot write", Path::new(name), &cause)),
            Kind::Pattern(pattern, expected) => {
                pattern.fill(self.position, &mut expected[..n]);
                match first_difference(block, &expected[..n]) {
                    None => Ok(()),
                    Some(at) => Err(differs(self.position + at as u64)),
                }
            }
        }
    }
}

/// Bytes that are not what they should be.
pub(crate) fn differs(position: u64) -> CliError {
    let cause = format!("byte {position} is not what the pattern has there");
    CliError::new(Failure::Differs, "compare", cause)
        .hint("was it written with this seed, from this place on?")
}
