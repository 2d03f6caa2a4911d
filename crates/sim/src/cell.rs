//! One cell of a volume: every write that its next read, or a crash, may bring to light.
//!
//! The order of two writes is known if one had ended before the other began, or if a read returned one of them when the
//! other had ended. From that follow both questions: what a read may return (nothing that an acknowledged or observed
//! write replaced before the read began), and what a power cut may bring back (nothing that a durable write replaced).

use crate::content::Content;

/// A moment in the order of the model's events.
pub(crate) type Tick = u64;

/// A write to a cell.
#[derive(Clone, Debug)]
pub(crate) struct CellWrite {
    pub(crate) version: u64,
    pub(crate) content: Content,
    /// Whatever ended before this moment came before this write in the cell.
    after: Tick,
    start: Tick,
    /// When it was answered, failed, or died with the daemon.
    ended: Option<Tick>,
    /// When the host learnt that it happened: by the answer, or by reading it after a crash.
    acknowledged: Option<Tick>,
    pub(crate) durable: bool,
    /// Reads that begin later cannot return it.
    dead_at: Option<Tick>,
}

impl CellWrite {
    /// What was there before the first host came.
    pub(crate) fn initial(content: Content) -> Self {
        let version = match content {
            Content::Write(version) => version,
            Content::Zeroes | Content::Foreign => 0,
        };
        Self {
            version,
            content,
            after: 0,
            start: 0,
            ended: Some(0),
            acknowledged: Some(0),
            durable: true,
            dead_at: None,
        }
    }

    pub(crate) fn begun(version: u64, content: Content, now: Tick) -> Self {
        Self {
            version,
            content,
            after: now,
            start: now,
            ended: None,
            acknowledged: None,
            durable: false,
            dead_at: None,
        }
    }

    pub(crate) fn is_of_host(&self) -> bool {
        self.start > 0
    }

    fn precedes(&self, later: &Self) -> bool {
        self.version != later.version && self.ended.is_some_and(|ended| ended < later.after)
    }

    fn is_visible_since(&self, begin: Tick) -> bool {
        self.dead_at.is_none_or(|dead_at| dead_at > begin)
    }
}

/// See the file's summary.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) entries: Vec<CellWrite>,
}

impl Cell {
    pub(crate) fn begin(&mut self, entry: CellWrite) {
        self.entries.push(entry);
    }

    /// A write was answered: it happened, and whatever it replaced is gone for reads that begin from now on.
    pub(crate) fn acknowledge(&mut self, version: u64, now: Tick, durable: bool) {
        if let Some(at) = self.position(version) {
            let entry = &mut self.entries[at];
            entry.ended = Some(now);
            entry.acknowledged = Some(now);
            entry.durable |= durable;
            self.bury_predecessors_of(at, now);
        }
    }

    /// A write ended without an answer that one could rely on: it may have happened, or not.
    pub(crate) fn end_unknown(&mut self, version: u64, now: Tick) {
        if let Some(at) = self.position(version) {
            self.entries[at].ended = Some(now);
        }
    }

    /// A flush that began at `begin` succeeded. Whether the write is durable now.
    pub(crate) fn flushed(&mut self, version: u64, begin: Tick) -> bool {
        let Some(at) = self.position(version) else { return true };
        let entry = &mut self.entries[at];
        entry.durable |= entry.acknowledged.is_some_and(|acknowledged| acknowledged < begin);
        entry.durable
    }

    /// A read that began at `begin` returned `content`. `None` if that was not possible; else the write that the host
    /// has thereby learnt of, if it did not know it before.
    pub(crate) fn observe(&mut self, content: Content, begin: Tick, now: Tick, power_cut: Tick) -> Option<Option<u64>> {
        let possible = |entry: &CellWrite| entry.content == content && entry.is_visible_since(begin);
        let candidates = self.entries.iter().filter(|entry| possible(entry)).count();
        if candidates > 1 {
            for entry in self.entries.iter_mut().filter(|entry| !possible(entry)) {
                if entry.ended.is_some_and(|ended| ended < begin) {
                    entry.dead_at.get_or_insert(now);
                }
            }
            return Some(None);
        }
        let at = self.entries.iter().position(possible)?;
        let entry = &mut self.entries[at];
        entry.after = entry.after.max(begin);
        // A power cut makes durable what it leaves.
        entry.durable |= entry.start < power_cut;
        let learnt = entry.acknowledged.is_none() && entry.ended.is_some();
        if learnt {
            entry.acknowledged = Some(now);
        }
        let version = entry.version;
        self.bury_predecessors_of(at, now);
        Some(learnt.then_some(version))
    }

    /// The daemon died, and nothing else.
    pub(crate) fn kill(&mut self, now: Tick) {
        for entry in &mut self.entries {
            entry.ended.get_or_insert(now);
            entry.dead_at = None;
        }
        for at in 0..self.entries.len() {
            if self.entries[at].acknowledged.is_some() {
                self.bury_predecessors_of(at, now);
            }
        }
    }

    /// The power failed: what was not durable may have happened, or not.
    pub(crate) fn cut_power(&mut self, now: Tick) {
        for entry in &mut self.entries {
            entry.ended.get_or_insert(now);
        }
        self.forget_unflushed();
    }

    /// What was not durable may have happened, or not; what is under way still is.
    pub(crate) fn forget_unflushed(&mut self) {
        for entry in &mut self.entries {
            entry.dead_at = None;
            if !entry.durable {
                entry.acknowledged = None;
            }
        }
        self.drop_replaced(|_| true);
    }

    /// Forgets what neither a read (none of those that run began before `oldest_read`) nor a power cut can show.
    pub(crate) fn prune(&mut self, oldest_read: Tick) {
        if self.entries.len() > 2 {
            self.drop_replaced(|entry| !entry.is_visible_since(oldest_read));
        }
    }

    /// Whether a read that began now could return it.
    pub(crate) fn may_hold(&self, content: Content) -> bool {
        self.entries.iter().any(|entry| entry.content == content && entry.dead_at.is_none())
    }

    /// Whether that may have been read at some time since `begin`.
    pub(crate) fn may_have_held(&self, content: Content, begin: Tick) -> bool {
        self.entries.iter().any(|entry| entry.content == content && entry.is_visible_since(begin))
    }

    /// Whether it is what some write made of it that may still show.
    pub(crate) fn has_held(&self, content: Content) -> bool {
        self.entries.iter().any(|entry| entry.content == content)
    }

    /// A host knows that this write happened here, and nothing was lost since that might have been it.
    pub(crate) fn is_acknowledged(&self, version: u64) -> bool {
        self.position(version).is_some_and(|at| self.entries[at].acknowledged.is_some())
    }

    /// What a read that began at `begin` may return, for people.
    pub(crate) fn legal_since(&self, begin: Tick) -> String {
        let legal = self.entries.iter().filter(|entry| entry.is_visible_since(begin));
        let words: Vec<_> = legal.map(|entry| format!("{:?} of write {}", entry.content, entry.version)).collect();
        words.join(", ")
    }

    fn position(&self, version: u64) -> Option<usize> {
        self.entries.iter().position(|entry| entry.version == version)
    }

    fn bury_predecessors_of(&mut self, at: usize, now: Tick) {
        let newer = self.entries[at].clone();
        for entry in self.entries.iter_mut().filter(|entry| entry.precedes(&newer)) {
            entry.dead_at.get_or_insert(now);
        }
    }

    fn drop_replaced(&mut self, may_drop: impl Fn(&CellWrite) -> bool) {
        let durable: Vec<_> = self.entries.iter().filter(|entry| entry.durable).cloned().collect();
        let replaced = |entry: &CellWrite| durable.iter().any(|newer| entry.precedes(newer) && !newer.precedes(entry));
        self.entries.retain(|entry| !(replaced(entry) && may_drop(entry)));
    }
}
