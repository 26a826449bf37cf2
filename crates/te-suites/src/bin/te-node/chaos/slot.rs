//! A piece of a target's memory that one caller alone writes: what it may hold, and what it holds.
//!
//! Every write puts a pattern with a seed of its own at the start of the slot. A write that
//! completed is *sure*: its words are there. One that ended otherwise, with the remote side not
//! untouched, may have left each of its words or not, and the first bytes of a last one: a network
//! cuts where it likes. A word is *explained* by the newest write that covers it and has such a
//! word, or its first bytes and an older one the others, if no sure one lies above those.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use te_engine::RemoteSide;
use te_suites::pattern;

/// One write.
#[derive(Debug, Clone, Copy)]
struct Layer {
    seed: u64,
    len: u64,
    sure: bool,
}

/// The piece.
#[derive(Debug)]
pub(crate) struct Slot {
    file: Arc<File>,
    at: u64,
    len: u64,
    /// The oldest first.
    layers: Vec<Layer>,
    /// What it must hold until the next write.
    settled: Option<Vec<u8>>,
    /// Whether a write may still change it.
    doubtful: bool,
    /// Whether it held zeros at the start; else it may hold anything that was never written over.
    known: bool,
    /// The last writes, whatever became of them, for sentences.
    history: Vec<(u64, String)>,
}

/// So many of them.
const HISTORY: usize = 64;

/// How many bytes are compared at once before single words are looked at.
const BLOCK: usize = 4096;

impl Slot {
    pub(crate) fn new(file: Arc<File>, at: u64, len: u64, known: bool) -> Self {
        Self {
            file,
            at,
            len,
            layers: Vec::new(),
            settled: None,
            doubtful: false,
            known,
            history: Vec::new(),
        }
    }

    /// What is there now.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, self.at).map_err(|cause| cause.to_string())?;
        Ok(bytes)
    }

    /// Notes what became of a write.
    pub(crate) fn note(&mut self, seed: u64, what: String) {
        if self.history.len() == HISTORY {
            self.history.remove(0);
        }
        self.history.push((seed, what));
    }

    /// A write that may have left words.
    pub(crate) fn wrote(&mut self, seed: u64, len: u64, sure: bool) {
        if sure {
            self.layers.retain(|layer| layer.len > len);
        }
        self.layers.push(Layer { seed, len, sure });
        self.settled = None;
    }

    /// What it holds after a write that ended so. From here on nothing changes, unless this write
    /// is in doubt, or an earlier one is that nothing has settled since: a write that was never
    /// sent settles nothing.
    pub(crate) fn look(&mut self, bytes: Vec<u8>, remote: RemoteSide) {
        match remote {
            RemoteSide::InDoubt => self.doubtful = true,
            RemoteSide::Settled => self.doubtful = false,
            RemoteSide::Untouched => {}
        }
        self.settled = (!self.doubtful).then_some(bytes);
    }

    /// A write may change it from here on.
    pub(crate) fn unsettle(&mut self) {
        self.settled = None;
    }

    /// Whether it still holds what it must.
    pub(crate) fn is_unchanged(&self) -> Result<(), String> {
        let Some(settled) = &self.settled else { return Ok(()) };
        let bytes = self.bytes()?;
        if *settled == bytes {
            return Ok(());
        }
        let first = settled.iter().zip(&bytes).position(|(old, new)| old != new).unwrap_or(0);
        Err(format!(
            "byte {first} of the slot changed after it was settled; before: {}; now: {}",
            self.origin(settled, first / 8),
            self.origin(&bytes, first / 8)
        ))
    }

    /// Where word `j` of these bytes comes from.
    fn origin(&self, bytes: &[u8], j: usize) -> String {
        let word = bytes[8 * j..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        self.origin_of(word, j as u64)
    }

    fn origin_of(&self, word: u64, j: u64) -> String {
        let wrote = |(seed, _): &&(u64, String)| pattern::word(*seed, j) == word;
        let found = self.history.iter().rposition(|write| wrote(&write));
        match found.map(|at| (self.history.len() - at, &self.history[at].1)) {
            Some((age, what)) => format!("{word:#x} of the {age}. last write ({what})"),
            None => format!("{word:#x}"),
        }
    }

    /// Whether a read of the first bytes gave what is there.
    pub(crate) fn agrees(&self, read: &[u8]) -> Result<(), String> {
        match &self.settled {
            Some(settled) if settled[..read.len()] == *read => Ok(()),
            Some(settled) => {
                let first = settled.iter().zip(read).position(|(a, b)| a != b).unwrap_or(0);
                Err(format!("byte {first} was read wrong"))
            }
            None => self.explain(read),
        }
    }

    /// Whether every word is explained.
    pub(crate) fn explain(&self, bytes: &[u8]) -> Result<(), String> {
        let mut wanted = [0; BLOCK];
        for (index, block) in bytes.chunks(BLOCK).enumerate() {
            let from = (index * BLOCK) as u64;
            let wanted = &mut wanted[..block.len()];
            if let Some(top) = self.layers.last().filter(|top| from + BLOCK as u64 <= top.len) {
                pattern::fill(top.seed, from, wanted);
                if wanted == block {
                    continue;
                }
            }
            for (i, word) in block.chunks_exact(8).enumerate() {
                let j = from / 8 + i as u64;
                let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                self.explain_word(j, word)?;
            }
        }
        Ok(())
    }

    fn explain_word(&self, j: u64, word: u64) -> Result<(), String> {
        let bytes = word.to_le_bytes();
        let mut left = &bytes[..];
        for layer in self.layers.iter().rev().filter(|layer| 8 * j < layer.len) {
            let wanted = pattern::word(layer.seed, j).to_le_bytes();
            let wanted = &wanted[bytes.len() - left.len()..];
            let same = left.iter().zip(wanted).take_while(|(is, should)| is == should).count();
            left = &left[same..];
            if left.is_empty() {
                return Ok(());
            }
            if layer.sure {
                let origin = self.origin_of(word, j);
                return Err(format!("word {j} is {origin}, not that of write {:#x}", layer.seed));
            }
        }
        if !self.known || left.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        Err(format!("word {j} is {}, which must not be there", self.origin_of(word, j)))
    }
}
