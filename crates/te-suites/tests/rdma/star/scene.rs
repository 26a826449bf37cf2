//! Two hosts under load, and what is to be seen when something breaks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::{LocalBuffer, Opcode, RemoteSegment};
use te_suites::{now, pattern, say};
use te_transport::testing::Recorder;
use te_transport_rdma::RdmaConfig;

use crate::carry::{Carried, Piece, TRIES, carry};
use crate::host::{Host, PATIENCE, config};
use crate::links::nics;
use crate::table::{Row, row, words};
use crate::watched::Watched;

/// Bytes under way.
const TOTAL: u64 = 48 << 20;
const PIECE: u64 = 256 << 10;
/// So many pieces end well before the fault.
const BEFORE: usize = 8;

/// See the module.
pub(crate) struct Scene {
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) local: Arc<LocalBuffer>,
    pub(crate) target: Arc<LocalBuffer>,
    n_nics: usize,
}

/// What makes the way whole again, if anything has to.
pub(crate) type Heal<'a> = Box<dyn FnOnce(&mut Scene) + 'a>;

impl Scene {
    /// Hosts with so many NICs each, connected.
    pub(crate) fn new(verbs: &Watched, n_nics: usize) -> Self {
        Self::with(verbs, n_nics, |_| ())
    }

    pub(crate) fn with(verbs: &Watched, n_nics: usize, change: impl Fn(&mut RdmaConfig)) -> Self {
        let configured = |first: usize| {
            let mut config = config(nics(first..first + n_nics));
            change(&mut config);
            config
        };
        let (a, b) = (Host::new(verbs, configured(0)), Host::new(verbs, configured(4)));
        let len = usize::try_from(TOTAL).unwrap();
        let (local, target) = (a.offer(len), b.offer(len));
        let scene = Self { a, b, local, target, n_nics };
        let first = scene.pieces();
        let carried = scene.carry(&first[..8 * n_nics], TRIES, &mut |_| ());
        assert!(carried.failed.is_empty(), "before any fault: {:?}", carried.failed);
        scene
    }

    /// Writes and reads in turn, each with a place of its own.
    fn pieces(&self) -> Vec<Piece> {
        let base = self.target.region().address();
        let piece = |i: u64| Piece {
            op: if i.is_multiple_of(2) { Opcode::Write } else { Opcode::Read },
            local: self.local.region().range(i * PIECE, PIECE).unwrap(),
            remote: base + i * PIECE,
        };
        (0..TOTAL / PIECE).map(piece).collect()
    }

    fn carry(&self, pieces: &[Piece], tries: u16, watch: &mut dyn FnMut(usize)) -> Carried {
        carry(&self.a, &|| self.b.remote(), pieces, (tries, PATIENCE), watch)
    }

    /// Everything once, as an engine moves it; the bytes of each piece are compared.
    #[track_caller]
    pub(crate) fn carry_all(&self) -> Carried {
        self.fill(9);
        let pieces = self.pieces();
        let carried = self.carry(&pieces, TRIES, &mut |_| ());
        for piece in &pieces {
            let failed = carried.failed.iter().any(|(failed, _)| failed.remote == piece.remote);
            assert!(failed || self.has_moved(piece, 9), "done, and the bytes are not there");
        }
        carried
    }

    /// Different bytes on both sides; the same for the same seed.
    fn fill(&self, seed: u64) {
        for (buffer, seed) in [(&self.local, seed), (&self.target, seed + 1)] {
            let block = pattern::bytes(seed, usize::try_from(PIECE).unwrap());
            for i in 0..TOTAL / PIECE {
                buffer.region().write_from(i * PIECE, &block).unwrap();
            }
        }
    }

    /// Whether the bytes of a piece are where they should be after [`Scene::fill`].
    fn has_moved(&self, piece: &Piece, seed: u64) -> bool {
        let offset = piece.local.offset();
        let (buffer, seed) = match piece.op {
            Opcode::Write => (&self.target, seed),
            Opcode::Read => (&self.local, seed + 1),
        };
        let mut bytes = vec![0; usize::try_from(PIECE).unwrap()];
        buffer.region().read_into(offset, &mut bytes).unwrap();
        bytes == pattern::bytes(seed, bytes.len())
    }

    /// Breaks something while bytes move, and compares what becomes of them with the table.
    #[track_caller]
    pub(crate) fn breaks<'a>(mut self, fault: &str, inject: impl FnOnce(&Self) -> Heal<'a>) {
        let row = row(fault, self.n_nics);
        self.fill(3);
        let pieces = self.pieces();
        let tries = if self.n_nics > 1 || row.ends.iter().eq(["done"]) { TRIES } else { 1 };
        let (mut inject, mut heal, mut at) = (Some(inject), None, now());
        let carried = self.carry(&pieces, tries, &mut |done| {
            if done >= BEFORE
                && let Some(inject) = inject.take()
            {
                at = now();
                heal = Some(inject(&self));
            }
        });
        let took = at.elapsed();
        self.is_in(fault, &row, &carried, took);
        for piece in &pieces {
            let failed = carried.failed.iter().any(|(failed, _)| failed.remote == piece.remote);
            assert!(
                failed || self.has_moved(piece, 3),
                "{fault}: done, and the bytes are not there"
            );
        }
        heal.expect("the fault came")(&mut self);
        let whole = if row.stays_whole { at } else { now() };
        let back = self.is_back(fault, &row, whole);
        say(&format!(
            "row {fault}, {} NICs: {} of {} pieces failed, last end after {took:.1?}, longest stall \
             {:.1?}, back after {back:.1?}",
            self.n_nics,
            carried.failed.len(),
            pieces.len(),
            carried.stall,
        ));
        self.a.close();
        self.b.close();
    }

    #[track_caller]
    fn is_in(&self, fault: &str, row: &Row, carried: &Carried, took: Duration) {
        for (_, end) in &carried.failed {
            let words = words(end);
            assert!(row.ends.contains(&words), "{fault}: `{words}` is not in the table: {end:?}");
        }
        assert!(took <= row.within, "{fault}: the last end came after {took:?}");
        if self.n_nics > 1 {
            assert!(carried.stall <= row.after, "{fault}: nothing moved for {:?}", carried.stall);
        }
    }

    /// After a fault that was made by hand.
    #[track_caller]
    pub(crate) fn goes_on(&self, fault: &str, row: &Row) {
        self.is_back(fault, row, now());
    }

    /// Another process with the name and the port of the peer, which is gone.
    pub(crate) fn replace_the_peer(&mut self, verbs: &Watched) {
        let config = config(nics(4..4 + self.n_nics));
        self.b = Host::at(verbs, config, self.b.port(), Recorder::new());
        self.target = self.b.offer(usize::try_from(TOTAL).unwrap());
    }

    /// Traffic goes on; how long that took.
    #[track_caller]
    fn is_back(&self, fault: &str, row: &Row, since: Instant) -> Duration {
        self.fill(5);
        let piece = &self.pieces()[0];
        let mut tries = 0;
        loop {
            let peer: Arc<RemoteSegment> = self.b.remote();
            let mut slice = self.a.slice(piece.op, piece.local.clone(), &peer, piece.remote);
            slice.attempt = tries;
            let end = self.a.run(&slice);
            let back = since.elapsed();
            if end.result.is_ok() {
                assert!(self.has_moved(piece, 5), "{fault}: done, and the bytes are not there");
                assert!(back <= row.after || row.stays_whole, "{fault}: back after {back:?}");
                return back;
            }
            assert!(back <= row.after + row.within, "{fault}: not back in {back:?}: {end:?}");
            tries += 1;
            self.a.pump();
        }
    }
}
