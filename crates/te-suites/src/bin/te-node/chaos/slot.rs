//! A piece of a target's memory that one caller alone writes: what it may hold, and what it holds.
//!
//! Every write puts a pattern with a seed of its own at the start of the slot. A write that
//! completed is *sure*: its words are there. One that ended otherwise, with the remote side not
//! untouched, may have left each of its words or not. A word is *explained* by the newest write
//! that covers it and has such a word, if no sure one lies above that.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

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
    /// Whether it held zeros at the start; else it may hold anything that was never written over.
    known: bool,
}

/// How many bytes are compared at once before single words are looked at.
const BLOCK: usize = 4096;

impl Slot {
    pub(crate) fn new(file: Arc<File>, at: u64, len: u64, known: bool) -> Self {
        Self { file, at, len, layers: Vec::new(), settled: None, known }
    }

    /// What is there now.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, self.at).map_err(|cause| cause.to_string())?;
        Ok(bytes)
    }

    /// A write that may have left words.
    pub(crate) fn wrote(&mut self, seed: u64, len: u64, sure: bool) {
        if sure {
            self.layers.retain(|layer| layer.len > len);
        }
        self.layers.push(Layer { seed, len, sure });
        self.settled = None;
    }

    /// From here on nothing changes.
    pub(crate) fn settle(&mut self, bytes: Vec<u8>) {
        self.settled = Some(bytes);
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
        Err(format!("byte {first} of the slot changed after it was settled"))
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
        for layer in self.layers.iter().rev().filter(|layer| 8 * j < layer.len) {
            if pattern::word(layer.seed, j) == word {
                return Ok(());
            }
            if layer.sure {
                return Err(format!("word {j} is {word:#x}, not that of write {:#x}", layer.seed));
            }
        }
        if word == 0 || !self.known {
            return Ok(());
        }
        Err(format!("word {j} is {word:#x}, which nobody wrote"))
    }
}
