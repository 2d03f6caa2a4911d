//! What will happen when, in order of time and then of scheduling.

use std::collections::BTreeMap;

use super::RequestId;
use crate::Instant;

/// Names a piece of work that waits for disk commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkId(pub(super) usize);

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A disk is done with one command of the work.
    CommandDone(WorkId),
    /// The disk's head is free for the next command.
    DiskFree(usize),
    /// The host gets its answer.
    Answer(RequestId),
    /// The parts of a stripe have waited for others long enough.
    Gathered(u64),
    /// The controller cache looks for what is due to go to the disks.
    Destage,
}

#[derive(Debug, Default)]
pub(super) struct Timeline {
    events: BTreeMap<(Instant, u64), Event>,
    scheduled: u64,
}

impl Timeline {
    pub(super) fn schedule(&mut self, at: Instant, event: Event) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), event);
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next event that is due at `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Event)> {
        let entry = self.events.first_entry()?;
        let at = entry.key().0;
        (at <= now).then(|| (at, entry.remove()))
    }
}
