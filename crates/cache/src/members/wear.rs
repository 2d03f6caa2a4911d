//! How much is written to the SSDs: counted over a sliding day, and put on record so that a restart forgets little of it.

use std::rc::Rc;

use hotset_block::Env;

use crate::members::Members;
use crate::members::ssd::Ssd;

impl<E: Env> Members<E> {
    /// Takes in what was written since it looked last.
    pub(super) fn note_writes(&self) {
        let new = |ssd: &Rc<Ssd<E>>| {
            let (written, noted) = (ssd.bytes_written.get(), ssd.bytes_noted.get());
            assert!(noted <= written, "SSD {}: {noted} bytes count as written, and {written} were", ssd.path);
            ssd.bytes_noted.set(written);
            written - noted
        };
        let bytes: u64 = self.ssds.iter().map(new).sum();
        self.budget.borrow_mut().add(bytes, self.env.unix_seconds());
    }

    /// Bytes written to all SSDs within a day.
    pub(crate) fn written_today(&self) -> u64 {
        self.note_writes();
        self.budget.borrow().total()
    }

    /// Puts on record what was written, when enough was.
    pub(crate) fn watch_writes(self: &Rc<Self>) {
        let Some(limit) = self.record.borrow().settings.ssd_writes_per_day_bytes else { return };
        self.note_writes();
        let due = self.budget.borrow().is_due(limit) && !self.life.is_stopping();
        if due && !self.recording_writes.replace(true) {
            let members = Rc::clone(self);
            self.env.spawn(async move {
                // If that fails the next look tries again; until then a crash would forget it.
                let _ = members.change_record(&|_| {}).await;
                members.recording_writes.set(false);
            });
        }
    }
}
