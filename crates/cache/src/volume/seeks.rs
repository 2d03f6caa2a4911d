//! Whether a backing device has to seek. A disk loses much of its time between requests that lie apart, and reads a long stretch
//! many times faster; another device serves both beside each other.

use std::cell::Cell;
use std::time::Duration;

/// What hardly any read takes less of where there are disks, and most take less of where there are none, also beside fills: half a turn of
/// a disk of 7,200 rpm is 4 ms.
const SEEK_MIN: Duration = Duration::from_millis(3);
/// The newest read counts for one in so many.
const READS: u32 = 64;
/// All of them.
const ALL: u32 = 1 << 16;
/// From such a share of slow reads on a device has seeks; from there on down it has none.
const FROM: u32 = ALL / 2;
const BELOW: u32 = ALL / 8;

/// What was seen of one device's reads: none is a device without seeks.
#[derive(Default)]
pub(crate) struct Seeks {
    /// The share of the last reads of hosts that took as long as a seek, of [`ALL`].
    slow: Cell<u32>,
    has_seeks: Cell<bool>,
}

impl Seeks {
    pub(crate) fn host_read_took(&self, took: Duration) {
        let before = self.slow.get();
        let newest = if took >= SEEK_MIN { ALL } else { 0 };
        let after = before - before / READS + newest / READS;
        self.slow.set(after);
        let limit = if self.has_seeks.get() { BELOW } else { FROM };
        self.has_seeks.set(after >= limit);
    }

    pub(crate) fn has_seeks(&self) -> bool {
        self.has_seeks.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reads: impl IntoIterator<Item = u64>) -> Seeks {
        let seeks = Seeks::default();
        reads.into_iter().for_each(|milliseconds| seeks.host_read_took(Duration::from_millis(milliseconds)));
        seeks
    }

    #[test]
    fn a_disk_has_seeks_after_some_reads_and_an_ssd_has_none() {
        assert!(!after([]).has_seeks());
        assert!(!after([12; 10]).has_seeks(), "a pause is not a disk");
        assert!(after([12; 64]).has_seeks());
        assert!(!after([1; 10_000]).has_seeks());
        assert!(
            after((0..1000).map(|read| if read % 3 == 0 { 0 } else { 9 })).has_seeks(),
            "a third lies in the disks' memory"
        );
        assert!(!after((0..1000).map(|read| if read % 3 == 0 { 9 } else { 0 })).has_seeks());
    }

    #[test]
    fn a_device_that_was_slow_for_a_while_has_no_seeks_any_more() {
        let seeks = after([12; 10_000]);
        (0..100).for_each(|_| seeks.host_read_took(Duration::from_millis(1)));
        assert!(seeks.has_seeks(), "of four reads one was slow");
        (0..100).for_each(|_| seeks.host_read_took(Duration::from_millis(1)));
        assert!(!seeks.has_seeks());
    }
}
