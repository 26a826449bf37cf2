//! Batches that wait, and whose turn it is. Where only one waits, as is usual, nothing is looked up
//! and nothing allocated.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::queue::Item;
use crate::batch::Batch;
use crate::id::BatchId;
use crate::task::Piece;

/// What a batch is granted each time its turn comes, bytes.
const GRANT: i64 = 64 << 10;

/// What waits of one batch, as one step.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    /// Tasks to be cut, in order.
    Fresh(Range<u32>),
    /// A piece to be tried again.
    Again(u32, Piece),
}

impl Entry {
    /// The task that comes next, and its piece where it was cut before.
    pub(super) fn first(&self) -> Option<(usize, Option<Piece>)> {
        match self {
            Self::Fresh(tasks) if tasks.is_empty() => None,
            Self::Fresh(tasks) => Some((tasks.start as usize, None)),
            Self::Again(task, piece) => Some((*task as usize, Some(*piece))),
        }
    }

    fn tasks(&self) -> Range<u32> {
        match self {
            Self::Fresh(tasks) => tasks.clone(),
            Self::Again(task, _) => *task..*task + 1,
        }
    }
}

/// Entries in order; the first one is kept apart, so that a single one allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Entries {
    front: Option<Entry>,
    rest: VecDeque<Entry>,
}

impl Entries {
    pub(super) fn front_mut(&mut self) -> Option<&mut Entry> {
        self.front.as_mut()
    }

    pub(super) fn pop_front(&mut self) {
        self.front = self.rest.pop_front();
    }

    fn push_front(&mut self, entry: Entry) {
        if let Some(second) = self.front.replace(entry) {
            self.rest.push_front(second);
        }
    }

    fn push_back(&mut self, entry: Entry) {
        match (&mut self.front, self.rest.back_mut(), &entry) {
            (None, ..) => self.front = Some(entry),
            // Tasks that follow those that wait are one step with them.
            (Some(Entry::Fresh(last)), None, Entry::Fresh(next))
            | (_, Some(Entry::Fresh(last)), Entry::Fresh(next))
                if last.end == next.start =>
            {
                last.end = next.end;
            }
            _ => self.rest.push_back(entry),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// Keeps the entries that have a task for which `is_open`.
    fn retain(&mut self, is_open: impl Fn(usize) -> bool) {
        let keeps = |entry: &Entry| entry.tasks().any(|task| is_open(task as usize));
        self.rest.retain(&keeps);
        if !self.front.as_ref().is_some_and(keeps) {
            self.pop_front();
        }
    }

    /// Every task and piece, each for itself.
    fn singly(self) -> impl Iterator<Item = (usize, Option<Piece>)> {
        self.front.into_iter().chain(self.rest).flat_map(|entry| {
            let piece = if let Entry::Again(_, piece) = entry { Some(piece) } else { None };
            entry.tasks().map(move |task| (task as usize, piece))
        })
    }
}

/// Entries of one batch.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) batch: Arc<Batch>,
    pub(super) entries: Entries,
    pub(super) credit: Credit,
}

/// Bytes that a batch may still give in its turn; what it gave beyond is a debt for the next ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Credit(i64);

impl Credit {
    /// Gave so many bytes; where nobody else waits it is granted anew.
    pub(super) fn spend(&mut self, bytes: u64, is_alone: bool) {
        let left = self.0 - i64::try_from(bytes).unwrap_or(i64::MAX);
        self.0 = if is_alone { GRANT } else { left };
    }

    pub(super) fn is_spent(self) -> bool {
        self.0 <= 0
    }
}

impl Turn {
    fn new(batch: &Arc<Batch>) -> Self {
        Self { batch: Arc::clone(batch), entries: Entries::default(), credit: Credit(GRANT) }
    }

    fn into_items(self) -> impl Iterator<Item = Item> {
        let batch = self.batch;
        let item = move |(task, piece)| Item { batch: Arc::clone(&batch), task, piece };
        self.entries.singly().map(item)
    }
}

/// The batches that wait. Each is in one place: it has its turn, or it is in the line and the map.
#[derive(Debug, Default)]
pub(super) struct Turns {
    current: Option<Turn>,
    order: VecDeque<BatchId>,
    by_batch: HashMap<BatchId, Turn>,
}

impl Turns {
    /// Appends tasks of a batch, which joins the end of the line where it has none yet.
    pub(super) fn push_back(&mut self, batch: &Arc<Batch>, tasks: Range<u32>) {
        self.of(batch).push_back(Entry::Fresh(tasks));
    }

    /// Puts an item before the others of its batch.
    pub(super) fn push_front(&mut self, item: &Item) {
        let task = u32::try_from(item.task).expect("a batch has fewer than 2^32 tasks");
        let entry = match item.piece {
            Some(piece) => Entry::Again(task, piece),
            None => Entry::Fresh(task..task + 1),
        };
        self.of(&item.batch).push_front(entry);
    }

    fn of(&mut self, batch: &Arc<Batch>) -> &mut Entries {
        let is_next = self.current.is_none() && self.order.is_empty();
        if is_next || self.current.as_ref().is_some_and(|turn| Arc::ptr_eq(&turn.batch, batch)) {
            return &mut self.current.get_or_insert_with(|| Turn::new(batch)).entries;
        }
        let order = &mut self.order;
        let turn = self.by_batch.entry(batch.id()).or_insert_with(|| {
            order.push_back(batch.id());
            Turn::new(batch)
        });
        &mut turn.entries
    }

    /// The batch whose turn it is, and whether it is the only one that waits. One that has used its
    /// credit up while others wait goes to the end of the line.
    pub(super) fn current(&mut self) -> Option<(&mut Turn, bool)> {
        let is_alone = self.order.is_empty();
        let is_on = |turn: &Turn| !turn.credit.is_spent() || is_alone;
        if self.current.as_ref().is_some_and(is_on) {
            return Some((self.current.as_mut()?, is_alone));
        }
        loop {
            let turn = match self.current.take() {
                Some(turn) => turn,
                None => {
                    let id = self.order.pop_front()?;
                    self.by_batch.remove(&id)?
                }
            };
            if !turn.credit.is_spent() || self.order.is_empty() {
                let is_alone = self.order.is_empty();
                return Some((self.current.insert(turn), is_alone));
            }
            self.put_last(Turn { credit: Credit(turn.credit.0 + GRANT), ..turn });
        }
    }

    /// Takes the batch whose turn it is out, if it has nothing more.
    pub(super) fn end_empty(&mut self) {
        self.current.take_if(|turn| turn.entries.is_empty());
    }

    fn put_last(&mut self, turn: Turn) {
        let id = turn.batch.id();
        if te_metadata::sabotage::is_off("turns") {
            self.order.push_front(id);
        } else {
            self.order.push_back(id);
        }
        self.by_batch.insert(id, turn);
    }

    /// Takes everything out.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Item> {
        self.order.clear();
        let waiting = std::mem::take(&mut self.by_batch).into_values();
        self.current.take().into_iter().chain(waiting).flat_map(Turn::into_items)
    }

    /// Forgets entries of a batch all of whose tasks are ending or final. A batch without entries is
    /// taken out when its turn comes.
    pub(super) fn purge(&mut self, batch: &Arc<Batch>) {
        let current = self.current.as_mut().filter(|turn| Arc::ptr_eq(&turn.batch, batch));
        let turn = current.or_else(|| self.by_batch.get_mut(&batch.id()));
        let Some(turn) = turn else { return };
        let inner = batch.lock();
        turn.entries.retain(|task| inner.tasks[task].open_work().is_some());
    }

    /// The first entry of each batch, in the order of their turns.
    pub(super) fn firsts(&self) -> impl Iterator<Item = (&Arc<Batch>, usize)> {
        let line = self.order.iter().filter_map(|id| self.by_batch.get(id));
        let turns = self.current.iter().chain(line);
        turns.filter_map(|turn| Some((&turn.batch, turn.entries.front.as_ref()?.first()?.0)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.order.is_empty()
    }

    /// How many batches wait.
    pub(super) fn len(&self) -> usize {
        self.order.len() + usize::from(self.current.is_some())
    }
}
