//! Requests as Mooncake's calls write them (A56, A100).

use te_engine::{LocalRange, Opcode, RefusedRequest, SegmentId, TransferRequest};

use crate::engine::Engine;
use crate::failure::{Failure, chain};
use crate::regions::Finder;

/// The opcode of a read: remote to local.
pub const OPCODE_READ: i32 = 0;
/// The opcode of a write: local to remote.
pub const OPCODE_WRITE: i32 = 1;

/// One read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// [`OPCODE_READ`] or [`OPCODE_WRITE`].
    pub opcode: i32,
    /// Address of the local bytes, registered or not.
    pub source: u64,
    /// The segment, as [`Engine::open_segment`] gave it.
    pub target: i32,
    /// Where in the segment: the peer's address.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// The local and the remote side of a piece that moves to or from one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Address of the local bytes, registered or not.
    pub local: u64,
    /// The peer's address.
    pub remote: u64,
    /// Bytes.
    pub len: u64,
}

/// Reads an opcode.
///
/// # Errors
/// [`crate::Code::InvalidArgument`].
pub fn opcode(number: i32) -> Result<Opcode, Failure> {
    match number {
        OPCODE_READ => Ok(Opcode::Read),
        OPCODE_WRITE => Ok(Opcode::Write),
        other => Err(Failure::invalid("submit", format!("opcode {other} is neither 0 nor 1"))),
    }
}

/// Puts three lists of one length together.
///
/// # Errors
/// [`crate::Code::InvalidArgument`] for lists of different lengths (A158).
pub fn pieces(locals: &[u64], remotes: &[u64], lens: &[u64]) -> Result<Vec<Piece>, Failure> {
    if locals.len() != remotes.len() || locals.len() != lens.len() {
        let cause = format!(
            "{} local addresses, {} remote addresses and {} lengths",
            locals.len(),
            remotes.len(),
            lens.len()
        );
        return Err(Failure::invalid("submit", cause));
    }
    let sides = locals.iter().zip(remotes).zip(lens);
    Ok(sides
        .map(|((local, remote), len)| Piece { local: *local, remote: *remote, len: *len })
        .collect())
}

/// Requests whose local memory was looked up; what was not there is refused in its place.
pub(crate) type Prepared = Vec<Result<TransferRequest, RefusedRequest>>;

/// How many requests room is made for at once: what an iterator says of itself may be wrong.
const ROOM: usize = 1 << 14;

impl Engine {
    /// Looks up every request. One whose local memory is not there does not keep the others from
    /// being moved (peer fault 28).
    pub(crate) fn prepare(
        &self,
        requests: impl IntoIterator<Item = Request>,
    ) -> Result<Prepared, Failure> {
        let requests = requests.into_iter();
        let mut finder = self.core.regions.finder();
        let mut prepared = Prepared::with_capacity(requests.size_hint().0.min(ROOM));
        for (index, request) in requests.enumerate() {
            let op = opcode(request.opcode).map_err(|failure| failure.with_index(index))?;
            let target = segment(request.target).map_err(|failure| failure.with_index(index))?;
            let made = match finder.range(request.source, request.len) {
                Ok(local) => Ok(TransferRequest::new(op, local, target, request.offset)),
                Err(error) => {
                    let cause = local_memory(&chain(&error));
                    Err(RefusedRequest::local(op, target, cause))
                }
            };
            prepared.push(made);
        }
        Ok(prepared)
    }

    /// Looks up the pieces of one call; any that is not there is the failure of the call.
    pub(crate) fn prepare_pieces(
        &self,
        op: Opcode,
        target: SegmentId,
        pieces: &[Piece],
    ) -> Result<Vec<TransferRequest>, Failure> {
        let mut finder = self.core.regions.finder();
        let made = pieces.iter().enumerate().map(|(index, piece)| {
            let local = self.local(&mut finder, target, piece);
            let request = |local| TransferRequest::new(op, local, target, piece.remote);
            local.map(request).map_err(|failure| failure.with_index(index))
        });
        made.collect()
    }

    /// Looks up the local side of a piece.
    pub(crate) fn local(
        &self,
        finder: &mut Finder<'_>,
        target: SegmentId,
        piece: &Piece,
    ) -> Result<LocalRange, Failure> {
        let found = finder.range(piece.local, piece.len);
        found.map_err(|error| self.no_memory(target, error.into()))
    }

    fn no_memory(&self, target: SegmentId, failure: Failure) -> Failure {
        let failure = failure.edit(|facts| {
            facts.phase = "memory";
            facts.remote = Some(te_engine::RemoteSide::Untouched);
            facts.cause = local_memory(&facts.cause).into();
        });
        match self.core.engine.segment(target) {
            Some(peer) => failure.with_peer(peer.name().as_str()),
            None => failure,
        }
    }
}

fn local_memory(cause: &str) -> String {
    format!("local memory: {cause}")
}

fn segment(number: i32) -> Result<SegmentId, Failure> {
    let number = u64::try_from(number)
        .map_err(|_| Failure::invalid("submit", format!("{number} is no segment")))?;
    Ok(SegmentId::from_u64(number))
}
