//! Whether a volume serves, and its writes may stay dirty: what an administrator, its pool and its stop say of that.

use std::cell::{Cell, RefCell};

/// See the file's summary.
#[derive(Default)]
pub(crate) struct VolumeLife {
    /// It takes no more requests.
    stopped: Cell<bool>,
    /// Its pool has stopped: what that holds of it may be newer than what the backing device does.
    cut_off: Cell<bool>,
    /// Its cache is being flushed, so that it can be taken away: new writes go past it.
    draining: Cell<bool>,
    /// An administrator wants nothing new to stay dirty, for a while.
    writes_held: Cell<bool>,
    /// It has dirty data of another backing device: it serves nothing. The reason, and what to do.
    fenced: RefCell<Option<String>>,
}

impl VolumeLife {
    /// A pool has it from here on: nothing of what was said of it where it was before holds.
    pub(super) fn joined(&self) {
        self.cut_off.set(false);
        self.draining.set(false);
        self.unfence();
    }

    /// No pool has it from here on. It serves nothing for a while if there is a reason.
    pub(super) fn left(&self, fenced: Option<String>) {
        self.draining.set(false);
        *self.fenced.borrow_mut() = fenced;
    }

    pub(super) fn pool_has_stopped(&self) {
        self.cut_off.set(true);
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.get()
    }

    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// It serves nothing from here on, whatever the reason was before.
    pub(crate) fn fence(&self, reason: String) {
        *self.fenced.borrow_mut() = Some(reason);
    }

    /// It serves nothing from here on, for this reason if there is none yet.
    pub(crate) fn fence_first(&self, reason: &str) {
        self.fenced.borrow_mut().get_or_insert_with(|| reason.to_owned());
    }

    pub(crate) fn unfence(&self) {
        *self.fenced.borrow_mut() = None;
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.borrow().is_some()
    }

    /// Why it serves nothing.
    pub(crate) fn fence_reason(&self) -> Option<String> {
        self.fenced.borrow().clone()
    }

    pub(crate) fn begin_drain(&self) {
        self.draining.set(true);
    }

    pub(crate) fn end_drain(&self) {
        self.draining.set(false);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Stays so when the volume leaves its pool or joins one.
    pub(super) fn hold_writes(&self, held: bool) {
        self.writes_held.set(held);
    }

    pub(crate) fn holds_writes(&self) -> bool {
        self.writes_held.get()
    }

    /// Its cache is to be taken away, or an administrator wants the backing device to have everything.
    pub(crate) fn keeps_nothing_dirty(&self) -> bool {
        self.draining.get() || self.writes_held.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_of_a_volume_where_it_was_does_not_hold_in_the_next_pool_but_what_an_administrator_wants_does() {
        let life = VolumeLife::default();
        life.fence("another device".to_owned());
        life.fence_first("another machine");
        assert_eq!(life.fence_reason().as_deref(), Some("another device"));
        life.begin_drain();
        life.hold_writes(true);
        life.pool_has_stopped();
        life.joined();
        assert!(!life.is_fenced() && !life.is_draining() && !life.is_cut_off());
        assert!(life.holds_writes() && life.keeps_nothing_dirty());
        life.hold_writes(false);
        assert!(!life.keeps_nothing_dirty());
        life.begin_drain();
        assert!(life.keeps_nothing_dirty());
        life.left(Some("it was left behind".to_owned()));
        assert!(life.is_fenced() && !life.keeps_nothing_dirty());
        life.fence("and so".to_owned());
        life.joined();
        life.fence_first("another machine");
        assert_eq!(life.fence_reason().as_deref(), Some("another machine"));
    }

    #[test]
    fn a_volume_that_is_stopped_stays_so() {
        let life = VolumeLife::default();
        life.stop();
        life.left(None);
        life.joined();
        assert!(life.is_stopped());
    }
}
