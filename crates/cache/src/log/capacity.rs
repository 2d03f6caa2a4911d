//! How long the log can be, with the SSDs that there are: rows that there is room for, that can be opened, and that are reserved.

use std::cell::Cell;

use crate::config::limits;
use crate::format::log::summary_pages;

/// What a row record says of rows, whatever the pool: its header and its two lists of attachments have their own room.
const RECORD_BYTES: u64 = crate::format::layout::ROWS_AREA_BYTES - 4096 - LISTS_BYTES;
const LISTS_BYTES: u64 = 2 * (2 + 8 * 1024);
const _: () = assert!(limits::VOLUMES_MAX == 1024);
// Those of the first version had no stream: as many as fitted then fit with two bytes more each.
const _: () = assert!(2 * (RECORD_BYTES / (27 + 42)) + 64 < 4096);
/// Rows that a pool must have room for, to be of use.
pub(crate) const ROWS_MIN: usize = 6;
/// Rows that hosts' appends leave over: one to move the oldest row into, one on its way to be free.
pub(crate) const ROWS_RESERVED: usize = 2;
const _: () = assert!(ROWS_RESERVED < ROWS_MIN);
/// Of a log that is full, so many quarters are dirty.
const DIRTY_QUARTERS: u64 = 3;

/// How large a write log can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogSize {
    pub(crate) rows: usize,
    /// Of data, in all rows together.
    pub(crate) pages: u64,
    /// Of all SSDs together, both copies.
    pub(crate) segments: usize,
}

impl LogSize {
    /// Pages of data that a row holds, about.
    pub(crate) fn row_pages(&self) -> u64 {
        self.pages / u64::try_from(self.rows.max(1)).expect("at most 4096")
    }

    /// Pages of data beside the rows in which moves go on.
    pub(crate) fn pages_beside_moves(&self) -> u64 {
        let rows_of_moves = u64::try_from(2 * ROWS_RESERVED).expect("an address has 64 bits at most");
        self.pages.saturating_sub(rows_of_moves * self.row_pages())
    }

    /// Pages that hosts may have dirty at once (rule `reserves`): three quarters of what the log holds beside the rows in which moves go on,
    /// as long as those are few in the whole, else half. See `docs/decisions/0019-dirty-capacity.md`.
    pub(crate) fn dirty_pages(&self) -> u64 {
        (self.pages_beside_moves() * DIRTY_QUARTERS / 4).max(self.pages / 2)
    }
}

/// How large the log can be when the SSDs give so many segments each: every row takes one segment from each SSD of as
/// many disjoint pairs as there are, those with the most left first.
pub(crate) fn capacity(segments: Vec<usize>, segment_pages: u32) -> LogSize {
    capacity_beside(segments, segment_pages, &[])
}

/// The same beside rows that there are, of so many pairs each.
fn capacity_beside(mut segments: Vec<usize>, segment_pages: u32, rows: &[usize]) -> LogSize {
    let single = segments.len() == 1;
    let mut size = LogSize::default();
    let recorded = |pairs: usize| 29 + 42 * u64::try_from(pairs).expect("an address has 64 bits at most");
    let mut record_bytes = 64 + rows.iter().map(|pairs| recorded(*pairs)).sum::<u64>();
    let data_pages = u64::from(segment_pages.saturating_sub(summary_pages(segment_pages) + 1));
    loop {
        segments.sort_unstable_by(|a, b| b.cmp(a));
        let there = segments.iter().filter(|left| **left > 0).count();
        let pairs = if single { there } else { (there / 2).min(32) };
        record_bytes += recorded(pairs);
        if pairs == 0 || rows.len() + size.rows >= 4000 || record_bytes > RECORD_BYTES {
            return size;
        }
        let taken = if single { 1 } else { 2 * pairs };
        for left in segments.iter_mut().take(taken) {
            assert!(*left > 0, "a row of {pairs} pairs takes a segment of an SSD that has none left");
            *left -= 1;
        }
        size.rows += 1;
        size.pages += data_pages * u64::try_from(pairs).expect("an address has 64 bits at most");
        size.segments += taken;
    }
}

/// See the file's summary.
pub(crate) struct Capacity {
    /// What the pool's SSDs have room for when there are no rows.
    size: Cell<LogSize>,
    /// Pages of data beside moves, up to which the log is long for its own sake.
    usual_pages: Cell<u64>,
    /// Pages of data that a row holds, about, and pages that may be dirty: asked for at every write.
    row_pages: Cell<u64>,
    dirty_pages: Cell<u64>,
    /// Rows that can be opened beside those that there are. Rows of before an SSD came or left do not take what those of
    /// today take: only segments tell.
    openable: Cell<usize>,
    /// Rows that hosts leave over (rule `reserves`): they hold what one row may hold that is to be moved.
    reserved: Cell<usize>,
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            size: Cell::default(),
            usual_pages: Cell::new(0),
            row_pages: Cell::new(0),
            dirty_pages: Cell::new(0),
            openable: Cell::new(0),
            reserved: Cell::new(ROWS_RESERVED),
        }
    }
}

impl Capacity {
    /// The SSDs have room for so much, and leave it so much without need.
    pub(crate) fn measured(&self, size: LogSize, usual: LogSize) {
        assert!(size.rows <= size.segments, "{} rows would have {} segments", size.rows, size.segments);
        self.size.set(size);
        self.usual_pages.set(usual.pages_beside_moves());
        self.row_pages.set(size.row_pages());
        self.dirty_pages.set(size.dirty_pages());
    }

    /// Counts the rows that can be opened beside `rows`, of so many pairs each, where the SSDs have so many segments left.
    pub(crate) fn count_openable(&self, left: Vec<usize>, segment_pages: u32, rows: &[usize]) {
        // Of the next row: small SSDs may have nothing left.
        let pairs = (left.iter().filter(|left| **left > 0).count() / 2).clamp(1, 32);
        let widest = rows.iter().copied().max().unwrap_or(pairs);
        self.reserved.set(ROWS_RESERVED * widest.div_ceil(pairs));
        self.openable.set(capacity_beside(left, segment_pages, rows).rows);
    }

    pub(crate) fn size(&self) -> LogSize {
        self.size.get()
    }

    /// Pages of data up to which the log may be long with so many dirty pages: beyond what is usual it has only what it needs for those to be
    /// three quarters of it. What is clean loses no more to it than that.
    pub(crate) fn pages_for(&self, dirty_pages: u64) -> u64 {
        let needed = dirty_pages.saturating_mul(4).div_ceil(DIRTY_QUARTERS);
        self.usual_pages.get().max(needed).min(self.size.get().pages_beside_moves())
    }

    pub(crate) fn openable(&self) -> usize {
        self.openable.get()
    }

    pub(crate) fn reserved(&self) -> usize {
        self.reserved.get()
    }

    /// Pages of data that a row holds, about.
    pub(crate) fn row_pages(&self) -> u64 {
        self.row_pages.get()
    }

    /// See [`LogSize::dirty_pages`].
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.dirty_pages.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn none_of_a_larger_ssd_is_lost_as_long_as_others_mirror_it() {
        let data = u64::from(100 - summary_pages(100) - 1);
        let size = |rows, pages, segments| LogSize { rows, pages, segments };
        assert_eq!(capacity(vec![10, 10], 100), size(10, 10 * data, 20));
        assert_eq!(capacity(vec![10, 5, 5], 100), size(10, 10 * data, 20));
        assert_eq!(capacity(vec![10, 10, 10, 10], 100), size(10, 20 * data, 40));
        assert_eq!(capacity(vec![10, 10, 10], 100), size(15, 15 * data, 30));
        assert_eq!(capacity(vec![9], 100), size(9, 9 * data, 9));
        assert_eq!(capacity(vec![], 100), size(0, 0, 0));
    }

    #[test]
    fn what_may_be_dirty_leaves_room_for_moves_however_few_rows_there_are() {
        let dirty_rows = |rows: u16| {
            LogSize { rows: rows.into(), pages: 1000 * u64::from(rows), segments: 2 * usize::from(rows) }.dirty_pages()
        };
        assert_eq!([6, 12, 16, 24].map(dirty_rows), [3000, 6000, 9000, 15000]);
        assert_eq!(dirty_rows(1000), 747_000);
        assert_eq!(LogSize::default().dirty_pages(), 0);
    }

    #[test]
    fn as_many_rows_are_reserved_as_hold_what_the_widest_one_does() {
        let capacity = Capacity::default();
        let counted = |left: Vec<usize>, rows: &[usize]| {
            capacity.count_openable(left, 100, rows);
            (capacity.openable(), capacity.reserved())
        };
        assert_eq!(counted(vec![10, 10], &[1, 1]), (10, ROWS_RESERVED));
        assert_eq!(counted(vec![10; 4], &[]), (10, ROWS_RESERVED));
        // Of before two SSDs left.
        assert_eq!(counted(vec![5, 5], &[2, 2]), (5, 2 * ROWS_RESERVED));
        assert_eq!(counted(vec![5, 0, 0, 0], &[2]), (0, 2 * ROWS_RESERVED));
    }

    #[test]
    fn the_log_is_longer_than_usual_only_as_long_as_what_is_dirty_needs_it() {
        let size =
            |rows: u16| LogSize { rows: rows.into(), pages: 1000 * u64::from(rows), segments: 2 * usize::from(rows) };
        let capacity = Capacity::default();
        capacity.measured(size(70), size(60));
        assert_eq!([0, 30_000, 42_000].map(|dirty| capacity.pages_for(dirty)), [56_000; 3]);
        assert_eq!([45_000, 49_500, u64::MAX].map(|dirty| capacity.pages_for(dirty)), [60_000, 66_000, 66_000]);
        assert_eq!(capacity.dirty_pages(), 49_500);
    }

    #[test]
    fn where_records_end_before_the_ssds_a_longer_log_may_hold_less_and_no_log_is_longer_than_that() {
        let of = |small: usize, large: usize| capacity([vec![small; 62], vec![large; 2]].concat(), 100);
        let (usual, size) = (of(80, 480), of(93, 560));
        assert!(usual.pages > size.pages, "narrow rows fill what a wide one has no room in");
        let capacity = Capacity::default();
        capacity.measured(size, usual);
        assert_eq!(capacity.pages_for(0), size.pages_beside_moves());
    }

    #[test]
    fn no_row_is_without_segments() {
        let size = LogSize { rows: 2, pages: 10, segments: 1 };
        assert_refused("2 rows would have 1 segments", || Capacity::default().measured(size, LogSize::default()));
    }
}
