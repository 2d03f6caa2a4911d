//! How much the pool writes to its SSDs: counted over a sliding day, put on record so that a restart forgets little of
//! it, and once it reaches the limit that an administrator set, nothing more is populated. Hosts' writes, cleaning and
//! copies go on.

use std::rc::Rc;

use hotset_block::Env;

use crate::pool::PoolInner;
use crate::status::SsdWritesStatus;

impl<E: Env> PoolInner<E> {
    /// Takes in what was written since it looked last.
    pub(crate) fn note_writes(&self) {
        let new = |ssd: &Rc<crate::members::ssd::Ssd<E>>| {
            let written = ssd.bytes_written.get();
            written - ssd.bytes_noted.replace(written)
        };
        let bytes: u64 = self.ssds.iter().map(new).sum();
        self.budget.borrow_mut().add(bytes, self.env.unix_seconds());
    }

    /// The SSDs have taken what they may in a day, fills that run included.
    pub(crate) fn is_worn_for_today(&self) -> bool {
        let Some(limit) = self.settings.get().ssd_writes_per_day_bytes else { return false };
        self.note_writes();
        let running = u64::try_from(self.fills.running()).expect("an address has 64 bits at most") * self.block_bytes();
        self.budget.borrow().total().saturating_add(running) >= limit
    }

    /// Puts on record what was written, when enough was.
    pub(crate) fn watch_writes(self: &Rc<Self>) {
        let Some(limit) = self.settings.get().ssd_writes_per_day_bytes else { return };
        self.note_writes();
        let due = self.budget.borrow().is_due(limit) && !self.life.is_stopping() && self.offline.is_none();
        if due && !self.recording_writes.replace(true) {
            let pool = Rc::clone(self);
            self.env.spawn(async move {
                // If that fails the next look tries again; until then a crash would forget it.
                let _ = pool.change_members(&|_| {}).await;
                pool.recording_writes.set(false);
            });
        }
    }

    pub(crate) fn ssd_writes(&self) -> SsdWritesStatus {
        self.note_writes();
        let day_bytes = self.budget.borrow().total();
        SsdWritesStatus { day_bytes, populating_stopped: self.is_worn_for_today() }
    }
}
