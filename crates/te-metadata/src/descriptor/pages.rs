//! Descriptors too long for one key or one frame: a main part and chunks of its buffer list.
//!
//! ```text
//!   main  { buffers: [first …], te: { incarnation, extensions: { buffer_chunks:
//!             { total: 100000, chunks: [ { digest: "9c…", count: 8123 }, … ] } } } }
//!   chunk { buffers: [next …], first: 8071, te_incarnation: "…" }
//! ```
//!
//! The main part is a whole descriptor by itself, of the buffers that fit; a Mooncake peer sees no
//! more. A chunk is named by a digest of its bytes, so that what a reader puts together is what the
//! owner took apart: a chunk of another version has another name.
//!
//! I1  Main part and chunks each have at most the limit that was asked for.
//! I2  A list that grows at its end leaves all chunks but the last as they are.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};

use super::codec::{self, MAX_BUFFERS};
use super::encode::Buffers;
use super::{
    BufferDescriptor, DecodeError, Incarnation, ParseIncarnationError, ProtocolPart,
    SegmentDescriptor,
};
use crate::json::{self, Node};
use crate::{MIN_FRAME_LIMIT, ShapeError};

/// Most bytes of a part: it fits a peer's frame of 1 MiB, and what the peer's HTTP server takes.
pub const PAGE_BYTES: usize = 1_000_000;
/// Least limit for a part.
pub const MIN_PAGE_BYTES: usize = 64 << 10;

const _: () = assert!(PAGE_BYTES < MIN_FRAME_LIMIT, "a part and its type byte fit a frame");

/// Where the list of chunks stands among the extensions.
const EXTENSION: &str = "buffer_chunks";
/// Most chunks of a descriptor.
const MAX_CHUNKS: usize = 1 << 12;
/// Bytes of one chunk in the list: `{"count":1048576,"digest":"0123456789abcdef"},`, rounded up.
const LISTED: usize = 56;
/// Bytes around the buffers of a chunk, rounded up.
const AROUND: usize = 160;

/// The name of a chunk: a digest of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkDigest(u64);

impl ChunkDigest {
    fn of(bytes: &[u8]) -> Self {
        Self(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes))
    }
}

impl fmt::Display for ChunkDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for ChunkDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk({self})")
    }
}

impl FromStr for ChunkDigest {
    type Err = ParseIncarnationError;

    /// Reads exactly 16 lower-case hex digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let number = u64::from_str_radix(text, 16).ok();
        let is_ours = text.len() == 16 && text.bytes().all(is_digit);
        number.filter(|_| is_ours).map(Self).ok_or(ParseIncarnationError)
    }
}

impl ChunkDigest {
    /// What a peer of our kind is sent as its question for a chunk.
    pub fn question(self) -> Vec<u8> {
        format!("{{\"te_chunk\":\"{self}\"}}").into_bytes()
    }

    /// The chunk that a question is for; `None` when it is not for a chunk, as every question of
    /// a Mooncake peer.
    pub fn asked_for(question: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(question.get(..64.min(question.len()))?).ok()?;
        // A line, as each question is.
        text.trim_end().strip_prefix("{\"te_chunk\":\"")?.strip_suffix("\"}")?.parse().ok()
    }
}

/// A descriptor taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagedDescriptor {
    /// The main part; all there is when everything fits.
    pub main: Vec<u8>,
    /// The chunks, in the order of their buffers.
    pub chunks: Vec<DescriptorChunk>,
    /// How many buffers are in the main part.
    pub n_main_buffers: usize,
}

/// A chunk as it is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescriptorChunk {
    /// Its name.
    pub digest: ChunkDigest,
    /// Its text.
    pub body: Vec<u8>,
}

/// The chunks that belong to a main part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkList {
    /// How many buffers main part and chunks have together.
    pub total: usize,
    /// The chunks, in the order of their buffers.
    pub chunks: Vec<ChunkRef>,
}

/// A chunk that a main part names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRef {
    /// Its name.
    pub digest: ChunkDigest,
    /// How many buffers it has.
    pub count: usize,
}

#[derive(Serialize)]
struct ChunkText<'a> {
    buffers: Buffers<'a>,
    first: usize,
    te_incarnation: Incarnation,
}

impl SegmentDescriptor {
    /// Takes the descriptor apart into parts of at most `limit` bytes, at least
    /// [`MIN_PAGE_BYTES`]. One that fits, or that has no `te` object to name chunks in, is one
    /// part.
    pub fn paginate(&self, limit: usize) -> PagedDescriptor {
        let limit = limit.max(MIN_PAGE_BYTES);
        let whole = self.encode();
        let n_buffers = self.buffers().len();
        match &self.te {
            Some(te) if whole.len() > limit && n_buffers > 1 => {
                self.apart(te.incarnation, whole.len(), limit)
            }
            _ => PagedDescriptor { main: whole, chunks: Vec::new(), n_main_buffers: n_buffers },
        }
    }

    fn apart(&self, incarnation: Incarnation, whole: usize, limit: usize) -> PagedDescriptor {
        let keys = matches!(self.part, ProtocolPart::Rdma { .. });
        let lengths: Vec<usize> =
            self.buffers().iter().map(|buffer| length(buffer, keys)).collect();
        let around = whole - lengths.iter().sum::<usize>();
        // Chunks are at least half full, but for one buffer that fills one alone.
        let listed = LISTED * (2 * whole / limit + 4) + EXTENSION.len() + 64;
        let n_main = fitting(&lengths, limit.saturating_sub(around + listed));
        let mut chunks = Vec::new();
        let mut first = n_main;
        while first < lengths.len() {
            let count = fitting(&lengths[first..], limit - AROUND).max(1);
            let list = &self.buffers()[first..first + count];
            let buffers = Buffers { list, keys };
            let body = json::to_bytes(&ChunkText { buffers, first, te_incarnation: incarnation });
            chunks.push((count, DescriptorChunk { digest: ChunkDigest::of(&body), body }));
            first += count;
        }
        let main = self.main(n_main, &chunks).encode();
        let chunks = chunks.into_iter().map(|(_, chunk)| chunk).collect();
        PagedDescriptor { main, chunks, n_main_buffers: n_main }
    }

    /// The main part with the first `n_main` buffers.
    fn main(&self, n_main: usize, chunks: &[(usize, DescriptorChunk)]) -> Self {
        let line = |(count, chunk): &(usize, DescriptorChunk)| json!({ "count": count, "digest": chunk.digest.to_string() });
        let list: Vec<Value> = chunks.iter().map(line).collect();
        let first = self.buffers()[..n_main].to_vec();
        let part = match &self.part {
            ProtocolPart::Rdma { devices, priority_matrix, .. } => ProtocolPart::Rdma {
                devices: devices.clone(),
                buffers: first,
                priority_matrix: priority_matrix.clone(),
            },
            _ => ProtocolPart::Tcp { buffers: first },
        };
        let te = self.te.clone().map(|mut te| {
            let chunks = json!({ "chunks": list, "total": self.buffers().len() });
            te.extensions.insert(EXTENSION.to_owned(), chunks);
            te
        });
        Self {
            name: self.name.clone(),
            part,
            tcp: self.tcp.clone(),
            rdma_server_name: self.rdma_server_name.clone(),
            timestamp: self.timestamp.clone(),
            te,
        }
    }

    /// The chunks that this main part lacks; `None` when it is whole.
    ///
    /// # Errors
    /// A list that is malformed, or promises more than [`MAX_BUFFERS`].
    pub fn missing_chunks(&self) -> Result<Option<ChunkList>, DecodeError> {
        let Some(value) = self.te.as_ref().and_then(|te| te.extensions.get(EXTENSION)) else {
            return Ok(None);
        };
        let root = Node::root(value);
        let bound = MAX_BUFFERS as u64;
        let mut chunks = Vec::new();
        for node in root.required("chunks")?.elements(MAX_CHUNKS)? {
            let digest = node.required("digest")?;
            let bad = |_| ShapeError::BadText {
                path: digest.path(),
                reason: "a digest is 16 hex digits".to_owned(),
            };
            let count = node.required("count")?.number(bound)?;
            chunks.push(ChunkRef { digest: digest.text(16)?.parse().map_err(bad)?, count });
        }
        let total: usize = root.required("total")?.number(bound)?;
        let sum = chunks.iter().fold(self.buffers().len(), |sum, it| sum.saturating_add(it.count));
        if sum != total {
            let (path, value) = ("total".to_owned(), total.to_string());
            return Err(ShapeError::OutOfRange { path, value, max: sum as u64 }.into());
        }
        Ok(Some(ChunkList { total, chunks }))
    }

    /// Adds the buffers of the next chunk.
    ///
    /// # Errors
    /// [`DecodeError::Chunk`] when the bytes are not those that the main part names; else what is
    /// wrong with them.
    pub fn add_chunk(&mut self, wanted: &ChunkRef, body: &[u8]) -> Result<(), DecodeError> {
        let chunk = wanted.digest.to_string();
        if ChunkDigest::of(body) != wanted.digest {
            return Err(DecodeError::Chunk { chunk, reason: "its bytes have another digest" });
        }
        let value: Value = serde_json::from_slice(body).map_err(DecodeError::Json)?;
        let root = Node::root(&value);
        let owner = codec::incarnation(&root.required("te_incarnation")?)?;
        let first: usize = root.required("first")?.number(MAX_BUFFERS as u64)?;
        if self.te.as_ref().map(|te| te.incarnation) != Some(owner) {
            return Err(DecodeError::Chunk { chunk, reason: "it is another owner's" });
        }
        let (devices, list) = match &mut self.part {
            ProtocolPart::Tcp { buffers } => (None, buffers),
            ProtocolPart::Rdma { devices, buffers, .. } => (Some(devices.len()), buffers),
            ProtocolPart::NvmeOf { .. } => {
                return Err(DecodeError::Chunk { chunk, reason: "files have no chunks" });
            }
        };
        let mut more = codec::buffers(&root, devices)?;
        if first != list.len() || more.len() != wanted.count {
            return Err(DecodeError::Chunk { chunk, reason: "it has other buffers" });
        }
        list.append(&mut more);
        Ok(())
    }

    /// Forgets that there were chunks, once all are added: what is put together is a descriptor
    /// like any other.
    pub fn seal(&mut self) {
        if let Some(te) = &mut self.te {
            te.extensions.remove(EXTENSION);
        }
    }
}

/// Bytes of a buffer in a list, its comma included.
fn length(buffer: &BufferDescriptor, keys: bool) -> usize {
    let list = Buffers { list: std::slice::from_ref(buffer), keys };
    // One bracket stands for the comma.
    json::to_bytes(&list).len() - 1
}

/// How many of the first lengths fit into `room`.
fn fitting(lengths: &[usize], room: usize) -> usize {
    let mut sum = 0;
    lengths
        .iter()
        .take_while(|length| {
            sum += **length;
            sum <= room
        })
        .count()
}

#[cfg(test)]
mod tests;
