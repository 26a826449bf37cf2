//! Where written bytes come from.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use te_engine::Region;

use crate::checksum::Crc32;
use crate::error::{CliError, Failure};
use crate::output;
use crate::pattern::Pattern;

/// Bytes in order, and the sum of those that were taken.
pub(crate) struct Source {
    kind: Kind,
    /// In the words of an error.
    name: String,
    position: u64,
    pub(crate) sum: Crc32,
    scratch: Vec<u8>,
}

enum Kind {
    Reader(Box<dyn Read>),
    Pattern(Pattern),
}

/// Bytes that are copied at once: small enough to stay in the cache between reading, summing up
/// and copying.
pub(crate) const BLOCK: usize = 256 << 10;

impl Source {
    /// The length is known for regular files only.
    pub(crate) fn file(path: &Path) -> Result<(Self, Option<u64>), CliError> {
        let failed = |cause| CliError::file("cannot read", path, &cause);
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(CliError::new(
                Failure::Local,
                format!("cannot read {}", path.display()),
                "it is a directory",
            ));
        }
        let length = metadata.is_file().then_some(metadata.len());
        Ok((Self::new(Kind::Reader(Box::new(file)), path.display().to_string()), length))
    }

    pub(crate) fn standard_input() -> Self {
        if io::stdin().is_terminal() {
            output::note("te: reading from the terminal; end with Ctrl-D");
        }
        Self::new(Kind::Reader(Box::new(io::stdin())), "standard input".to_owned())
    }

    pub(crate) fn pattern(pattern: Pattern) -> Self {
        Self::new(Kind::Pattern(pattern), "the pattern".to_owned())
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn new(kind: Kind, name: String) -> Self {
        Self { kind, name, position: 0, sum: Crc32::default(), scratch: vec![0; BLOCK] }
    }

    /// Puts up to `length` bytes into a region; fewer only where the source ends.
    pub(crate) fn fill(
        &mut self,
        region: &Region,
        offset: u64,
        length: u64,
    ) -> Result<u64, CliError> {
        let mut filled = 0;
        while filled < length {
            let wanted = usize::try_from(length - filled).map_or(BLOCK, |left| left.min(BLOCK));
            let n = self.next(wanted)?;
            if n == 0 {
                break;
            }
            let block = &self.scratch[..n];
            self.sum.update(block);
            region.write_from(offset + filled, block).map_err(|error| {
                CliError::new(Failure::Local, "cannot fill local memory", error)
            })?;
            filled += n as u64;
        }
        Ok(filled)
    }

    /// Whether nothing follows; takes a byte to find out.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, CliError> {
        Ok(self.next(1)? == 0)
    }

    fn next(&mut self, wanted: usize) -> Result<usize, CliError> {
        let block = &mut self.scratch[..wanted];
        let n = match &mut self.kind {
            Kind::Pattern(pattern) => {
                pattern.fill(self.position, block);
                wanted
            }
            Kind::Reader(reader) => read_some(reader, block)
                .map_err(|cause| CliError::file("cannot read", Path::new(&self.name), &cause))?,
        };
        self.position += n as u64;
        Ok(n)
    }
}

/// One read that an interrupting signal does not end.
fn read_some(reader: &mut dyn Read, block: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
