//! What the log counts of volumes, until somebody takes it.

use std::cell::RefCell;

use crate::address::VolumeIndex;

/// What was counted of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogTally {
    /// Moved to the head.
    pub(crate) moved_bytes: u64,
    /// Back in the slots of their blocks.
    pub(crate) reinserted_bytes: u64,
    /// Copies that were bad where another one was good, or something else brought the page.
    pub(crate) read_errors_hidden: u64,
}

/// Those of all volumes, by [`VolumeIndex`].
#[derive(Default)]
pub(crate) struct LogTallies(RefCell<Vec<LogTally>>);

impl LogTallies {
    /// So much of a volume was moved to the head.
    pub(crate) fn count_moved(&self, volume: VolumeIndex, bytes: u64) {
        self.count(volume, |tally| tally.moved_bytes += bytes);
    }

    /// So much of a volume went back to the slots of its blocks.
    pub(crate) fn count_reinserted(&self, volume: VolumeIndex, bytes: u64) {
        self.count(volume, |tally| tally.reinserted_bytes += bytes);
    }

    /// A copy of what hosts read of a volume was bad, and another one was there.
    pub(crate) fn count_hidden_error(&self, volume: VolumeIndex) {
        self.count(volume, |tally| tally.read_errors_hidden += 1);
    }

    fn count(&self, volume: VolumeIndex, add: impl FnOnce(&mut LogTally)) {
        let mut tallies = self.0.borrow_mut();
        let index = usize::from(volume.0);
        if tallies.len() <= index {
            tallies.resize(index + 1, LogTally::default());
        }
        add(&mut tallies[index]);
    }

    /// What was counted of a volume since this was asked last.
    pub(crate) fn take(&self, volume: VolumeIndex) -> LogTally {
        self.0.borrow_mut().get_mut(usize::from(volume.0)).map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_of_a_volume_is_told_once() {
        let tallies = LogTallies::default();
        tallies.count_moved(VolumeIndex(2), 7);
        tallies.count_hidden_error(VolumeIndex(2));
        tallies.count_moved(VolumeIndex(2), 1);
        tallies.count_reinserted(VolumeIndex(2), 5);
        assert_eq!(tallies.take(VolumeIndex(0)), LogTally::default());
        assert_eq!(
            tallies.take(VolumeIndex(2)),
            LogTally { moved_bytes: 8, reinserted_bytes: 5, read_errors_hidden: 1 }
        );
        assert_eq!(tallies.take(VolumeIndex(2)), LogTally::default());
        assert_eq!(tallies.take(VolumeIndex(9)), LogTally::default());
    }
}
