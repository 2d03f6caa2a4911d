//! Which pages have a live copy in the write log, dirty or clean: where it lies, and its checksum.
//!
//! A sorted map in little memory: 16 bytes a page, in leaves of up to 128 pages that grow a few pages at a time.
//! Sorted, because a read asks for a range, and cleaning goes in the order of addresses.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::address::{VolumeIndex, vec_bytes};
use crate::config::limits;
use crate::format::losses;

/// Pages of a leaf; it is split in two when it is full.
const LEAF_PAGES: usize = 128;
/// A full leaf gets room for so many pages more.
const LEAF_STEP: usize = 16;
const PAGE_BITS: u32 = 46;
/// Above every page of a volume.
pub(crate) const PAGES_MAX: u64 = 1 << PAGE_BITS;
/// Pages of a volume that are gone through in one turn.
pub(crate) const SOME_PAGES: usize = 1024;
const FLAG_BITS: u32 = 8;

const DIRTY: u64 = 1;
const ZERO: u64 = 2;
const LOST: u64 = 4;
const UNAVAILABLE: u64 = 8;
// A key is a volume, a page and flags; a place is a row and a position in it.
const _: () = assert!(limits::VOLUMES_MAX <= 1 << (u64::BITS - PAGE_BITS - FLAG_BITS));
const _: () = assert!((DIRTY | ZERO | LOST | UNAVAILABLE) >> FLAG_BITS == 0);
const _: () = assert!(PAGES_MAX == losses::PAGES_MAX);
const _: () = assert!(1 << POSITION_BITS == losses::POSITIONS_MAX);

/// Where a page lies in the log: 12 bits of the row's place in memory, 20 bits of the page's position in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u32);

const POSITION_BITS: u32 = 20;

impl Place {
    /// `row` below 4,096, `position` below 2^20.
    pub(crate) fn new(row: u32, position: u32) -> Self {
        assert!(row < 1 << 12 && position < 1 << POSITION_BITS, "row {row}, position {position} is no place");
        Self((row << POSITION_BITS) | position)
    }

    pub(crate) fn row(self) -> u32 {
        self.0 >> POSITION_BITS
    }

    pub(crate) fn position(self) -> u32 {
        self.0 & ((1 << POSITION_BITS) - 1)
    }

    /// The place of the page `offset` pages behind the one here: behind it, or (zeroes, losses) the same.
    pub(crate) fn at(self, offset: u32, spread: bool) -> Self {
        let is_in_row = !spread || offset < (1 << POSITION_BITS) - self.position();
        assert!(is_in_row, "{offset} pages behind {self:?} lies another row");
        if spread { Self(self.0 + offset) } else { self }
    }
}

/// What a page's live copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Bytes with this checksum, at its place.
    Data { checksum: u32 },
    /// Zeroes; nothing lies at its place but the batch that says so.
    Zeroes,
    /// No copy can be read, and none can come back.
    Lost,
    /// Bytes with this checksum lie at its place, and no copy of them can be had now.
    Unavailable { checksum: u32 },
}

/// A page with a live copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LivePage {
    pub(crate) volume: VolumeIndex,
    pub(crate) page: u64,
    pub(crate) place: Place,
    pub(crate) content: Content,
    pub(crate) dirty: bool,
}

impl LivePage {
    /// Nobody has it now, the backing device neither.
    pub(crate) fn is_lost(&self) -> bool {
        self.dirty && matches!(self.content, Content::Lost | Content::Unavailable { .. })
    }

    /// No copy can be had now, and it may come back, with an SSD.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self.content, Content::Unavailable { .. })
    }
}

#[derive(Clone, Copy)]
struct Item {
    /// Volume, page, flags.
    key: u64,
    place: Place,
    checksum: u32,
}

impl Item {
    fn new(live: &LivePage) -> Self {
        let (flags, checksum) = match live.content {
            Content::Data { checksum } => (0, checksum),
            Content::Zeroes => (ZERO, 0),
            Content::Lost => (LOST, 0),
            Content::Unavailable { checksum } => (UNAVAILABLE, checksum),
        };
        let dirty = if live.dirty { DIRTY } else { 0 };
        Self { key: (id(live.volume, live.page) << FLAG_BITS) | flags | dirty, place: live.place, checksum }
    }

    fn id(&self) -> u64 {
        self.key >> FLAG_BITS
    }

    fn live(&self) -> LivePage {
        let content = if self.key & ZERO != 0 {
            Content::Zeroes
        } else if self.key & LOST != 0 {
            Content::Lost
        } else if self.key & UNAVAILABLE != 0 {
            Content::Unavailable { checksum: self.checksum }
        } else {
            Content::Data { checksum: self.checksum }
        };
        let volume = u16::try_from(self.id() >> PAGE_BITS).expect("a volume has 10 bits");
        let page = self.id() & ((1 << PAGE_BITS) - 1);
        LivePage { volume: VolumeIndex(volume), page, place: self.place, content, dirty: self.key & DIRTY != 0 }
    }
}

fn id(volume: VolumeIndex, page: u64) -> u64 {
    assert!(page < 1 << PAGE_BITS && volume.0 < 1 << 10, "page {page} of volume {} has no place", volume.0);
    (u64::from(volume.0) << PAGE_BITS) | page
}

/// Pages of a volume in the overlay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OverlayCounts {
    pub(crate) live: u64,
    pub(crate) dirty: u64,
    /// Dirty, and nobody has it now.
    pub(crate) lost: u64,
    /// Live, and its bytes lie in the log: not zeroes, not what nobody has now.
    pub(crate) stored: u64,
}

impl OverlayCounts {
    /// Dirty pages that can be written to the backing device.
    pub(crate) fn cleanable(&self) -> u64 {
        self.dirty - self.lost
    }
}

#[derive(Default)]
pub(crate) struct Overlay {
    /// By the id of the first page.
    leaves: BTreeMap<u64, Vec<Item>>,
    /// Pages that all leaves have room for: kept, so that the status, asked for every second, need not walk them.
    room: usize,
    volumes: Vec<OverlayCounts>,
    total: OverlayCounts,
}

impl Overlay {
    pub(crate) fn total(&self) -> OverlayCounts {
        self.total
    }

    pub(crate) fn counts(&self, volume: VolumeIndex) -> OverlayCounts {
        self.volumes.get(usize::from(volume.0)).copied().unwrap_or_default()
    }

    /// The first page from `pages.start` on that has a live copy.
    pub(crate) fn first_in(&self, volume: VolumeIndex, pages: &Range<u64>) -> Option<LivePage> {
        if self.counts(volume).live == 0 {
            return None;
        }
        let (start, end) = (id(volume, pages.start), id(volume, 0) + pages.end);
        if let Some((first, leaf)) = self.leaves.range(..=start).next_back()
            && let Some(item) = leaf.get(position(*first, leaf, start))
        {
            return (item.id() < end).then(|| item.live());
        }
        let (first, leaf) = self.leaves.range(start..).next()?;
        (*first < end).then(|| leaf[0].live())
    }

    pub(crate) fn get(&self, volume: VolumeIndex, page: u64) -> Option<LivePage> {
        self.first_in(volume, &(page..page + 1))
    }

    /// Every page of the range that has a live copy, in order.
    pub(crate) fn range(&self, volume: VolumeIndex, pages: Range<u64>) -> impl Iterator<Item = LivePage> {
        let (start, end) = (id(volume, pages.start), id(volume, 0) + pages.end);
        let is_empty = self.counts(volume).live == 0;
        let around_start = if is_empty { None } else { self.leaves.range(..=start).next_back() };
        let first: &[Item] = around_start.map_or(&[], |(first, leaf)| &leaf[position(*first, leaf, start)..]);
        // Most ranges end where they begin: another walk through the tree is left out.
        let ends_here = is_empty || first.last().is_some_and(|item| item.id() + 1 >= end);
        let others = (!ends_here).then(|| self.leaves.range(start + 1..end.max(start + 1)));
        let others = others.into_iter().flatten().flat_map(|(_, leaf)| leaf);
        first.iter().chain(others).take_while(move |item| item.id() < end).map(Item::live)
    }

    /// Sets what a page's live copy is; answers what it was before.
    pub(crate) fn set(&mut self, live: &LivePage) -> Option<LivePage> {
        let item = Item::new(live);
        let before = self.put(item);
        self.count(live.volume, before.as_ref(), Some(live));
        before
    }

    fn put(&mut self, item: Item) -> Option<LivePage> {
        let below = self.leaves.range_mut(..=item.id()).next_back();
        let Some((first, leaf)) = below else {
            // Lower than all: it becomes the first of the lowest leaf.
            if let Some(mut entry) = self.leaves.first_entry()
                && entry.get().len() < LEAF_PAGES
            {
                let mut leaf = std::mem::take(entry.get_mut());
                entry.remove();
                self.room += grow(&mut leaf);
                leaf.insert(0, item);
                self.leaves.insert(item.id(), leaf);
            } else {
                let leaf = vec![item];
                self.room += leaf.capacity();
                self.leaves.insert(item.id(), leaf);
            }
            return None;
        };
        let index = position(*first, leaf, item.id());
        if let Some(there) = leaf.get_mut(index)
            && there.id() == item.id()
        {
            return Some(std::mem::replace(there, item).live());
        }
        self.room += grow(leaf);
        leaf.insert(index, item);
        if leaf.len() >= LEAF_PAGES {
            let upper = leaf.split_off(LEAF_PAGES / 2);
            self.room += upper.capacity();
            self.room -= shrink(leaf, LEAF_PAGES / 2 + LEAF_STEP);
            self.leaves.insert(upper[0].id(), upper);
        }
        None
    }

    /// Forgets a page, if its live copy is still the one at `place`.
    pub(crate) fn remove_at(&mut self, volume: VolumeIndex, page: u64, place: Place) -> Option<LivePage> {
        let wanted = id(volume, page);
        let (first, leaf) = self.leaves.range_mut(..=wanted).next_back()?;
        let first = *first;
        let index = position(first, leaf, wanted);
        let found = leaf.get(index).filter(|item| item.id() == wanted && item.place == place)?.live();
        leaf.remove(index);
        if leaf.capacity() > leaf.len() + 2 * LEAF_STEP {
            let keep = leaf.len() + LEAF_STEP;
            self.room -= shrink(leaf, keep);
        }
        let new_first = leaf.first().map(Item::id);
        if new_first != Some(first) {
            let leaf = self.leaves.remove(&first).expect("it was just there");
            match new_first {
                Some(new_first) => drop(self.leaves.insert(new_first, leaf)),
                None => self.room -= leaf.capacity(),
            }
        }
        self.count(volume, Some(&found), None);
        Some(found)
    }

    /// What lies at `place` is on the backing device: the page is clean, if its live copy is still that one. True: it
    /// was dirty and is clean now.
    pub(crate) fn set_clean_at(&mut self, volume: VolumeIndex, page: u64, place: Place) -> bool {
        let wanted = id(volume, page);
        let Some((first, leaf)) = self.leaves.range_mut(..=wanted).next_back() else { return false };
        let index = position(*first, leaf, wanted);
        let Some(item) = leaf.get_mut(index).filter(|item| item.id() == wanted && item.place == place) else {
            return false;
        };
        // What is lost meanwhile stays lost.
        if item.key & DIRTY == 0 || item.key & (LOST | UNAVAILABLE) != 0 {
            return false;
        }
        item.key &= !DIRTY;
        let of_volume = &mut self.volumes[usize::from(volume.0)].dirty;
        assert!(
            *of_volume > 0 && self.total.dirty > 0,
            "a dirty page of volume {} is cleaned, and none counts",
            volume.0
        );
        *of_volume -= 1;
        self.total.dirty -= 1;
        true
    }

    /// Forgets a volume; answers the pages that it had, a bounded number of them: call until none is left.
    pub(crate) fn take_some_of(&mut self, volume: VolumeIndex) -> Vec<LivePage> {
        let some: Vec<LivePage> = self.range(volume, 0..PAGES_MAX).take(SOME_PAGES).collect();
        for live in &some {
            let removed = self.remove_at(volume, live.page, live.place);
            assert_eq!(removed, Some(*live), "what was found of a volume is not what is forgotten");
        }
        some
    }

    fn count(&mut self, volume: VolumeIndex, before: Option<&LivePage>, after: Option<&LivePage>) {
        let is_stored = |live: &LivePage| matches!(live.content, Content::Data { .. });
        let counts_as = |live: &LivePage| (live.dirty, live.is_lost(), is_stored(live));
        if before.map(counts_as) == after.map(counts_as) {
            return;
        }
        let place = usize::from(volume.0);
        if self.volumes.len() <= place {
            self.volumes.resize(place + 1, OverlayCounts::default());
        }
        for counts in [&mut self.volumes[place], &mut self.total] {
            counts.live = counts.live + u64::from(after.is_some()) - u64::from(before.is_some());
            counts.dirty = counts.dirty + u64::from(after.is_some_and(|live| live.dirty))
                - u64::from(before.is_some_and(|live| live.dirty));
            counts.lost = counts.lost + u64::from(after.is_some_and(LivePage::is_lost))
                - u64::from(before.is_some_and(LivePage::is_lost));
            counts.stored =
                counts.stored + u64::from(after.is_some_and(is_stored)) - u64::from(before.is_some_and(is_stored));
            let OverlayCounts { live, dirty, lost, stored } = *counts;
            let adds_up = lost <= dirty && dirty <= live && stored <= live - lost;
            assert!(adds_up, "{live} pages live in the log, {dirty} dirty, {lost} of them lost, and {stored} stored");
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        debug_assert_eq!(self.room, self.leaves.values().map(Vec::capacity).sum::<usize>());
        let leaves = u64::try_from(self.room * size_of::<Item>()).expect("leaves fit in memory");
        // A node of the tree is two thirds full on average: 8 bytes of key, 24 of leaf.
        let tree = u64::try_from(self.leaves.len()).expect("leaves fit in memory") * 48;
        leaves + tree + vec_bytes(&self.volumes)
    }
}

/// Where in a leaf, whose first page is `first`, a page lies or would lie.
///
/// It is not further behind the first than its number says, and just there in a leaf without gaps, of which hot sets have
/// many. Else a page lies about where its number does between the first and the last one's, for writes are mostly spread
/// evenly over so small a part of a volume; from there on the steps double (interpolation, then galloping search: Bentley and
/// Yao, An almost optimal algorithm for unbounded searching, 1976). Each look at another line of memory costs more than all
/// that is computed.
fn position(first: u64, leaf: &[Item], wanted: u64) -> usize {
    let Some(furthest) = leaf.len().checked_sub(1) else { return 0 };
    assert!(first <= wanted, "page {wanted:#x} is looked for in a leaf that begins behind it, at {first:#x}");
    let distance = wanted - first;
    let bound = usize::try_from(distance).expect("an id fits the address space").min(leaf.len());
    if leaf.get(bound).is_some_and(|item| item.id() == wanted) {
        return bound;
    }
    let last = leaf[furthest].id();
    if last < wanted {
        return leaf.len();
    }
    // An id has 56 bits, the number of a page in its leaf 7; the last id is above the first, rounded down is not behind it.
    let share = distance * u64::try_from(furthest).expect("an address has 64 bits at most") / (last - first);
    let guess = usize::try_from(share).expect("not behind the last page");
    let is_before = |place: usize| leaf[place].id() < wanted;
    let (mut low, mut high, mut step) = (0, bound, 1);
    if is_before(guess) {
        low = guess + 1;
        while low + step < high {
            if is_before(low + step) {
                low += step + 1;
                step *= 2;
            } else {
                high = low + step;
            }
        }
    } else {
        high = guess;
        while low + step < high {
            if is_before(high - step) {
                low = high - step + 1;
            } else {
                high -= step;
                step *= 2;
            }
        }
    }
    low + leaf[low..high].partition_point(|item| item.id() < wanted)
}

/// Makes room for one page more; answers for how many there is.
fn grow(leaf: &mut Vec<Item>) -> usize {
    let before = leaf.capacity();
    if leaf.len() == before {
        leaf.reserve_exact(LEAF_STEP);
    }
    leaf.capacity() - before
}

/// Gives room back, down to `keep` pages; answers how much that was.
fn shrink(leaf: &mut Vec<Item>, keep: usize) -> usize {
    let before = leaf.capacity();
    leaf.shrink_to(keep);
    before - leaf.capacity()
}

/// Bytes of memory for each of many pages that lie nowhere near each other, stated to administrators.
#[allow(clippy::as_conversions, reason = "small numbers")]
pub(crate) fn bytes_per_page() -> f64 {
    let per_leaf = LEAF_PAGES * 11 / 16;
    let leaf = (per_leaf + LEAF_STEP / 2) * size_of::<Item>() + 48;
    leaf as f64 / per_leaf as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::refused::assert_refused;

    fn live(volume: u16, page: u64, place: u32, dirty: bool) -> LivePage {
        let content = match place % 7 {
            0 => Content::Zeroes,
            1 => Content::Lost,
            2 => Content::Unavailable { checksum: place },
            _ => Content::Data { checksum: place },
        };
        LivePage { volume: VolumeIndex(volume), page, place: Place(place), content, dirty }
    }

    proptest! {
        #[test]
        fn the_overlay_equals_a_sorted_map(
            steps in prop::collection::vec((0_u8..6, 0_u16..2, 0_u64..400, 0_u32..1000, any::<bool>()), 1..900),
            spread in 0_usize..4,
        ) {
            let mut overlay = Overlay::default();
            let mut model: BTreeMap<(u16, u64), LivePage> = BTreeMap::new();
            // Close together, evenly apart, ever further apart, and close together at two ends of a large volume.
            let spread = [|page| page, |page| page * 1000, |page: u64| page.pow(4), |page| page + page / 50 % 2 * (PAGES_MAX / 2)]
                [spread];
            for (action, volume, page, place, dirty) in steps {
                let page = spread(page);
                match action {
                    0..4 => {
                        let value = live(volume, page, place, dirty);
                        prop_assert_eq!(overlay.set(&value), model.insert((volume, page), value));
                    }
                    4 => {
                        if let Some(value) = model.get_mut(&(volume, page)) {
                            prop_assert!(!overlay.set_clean_at(value.volume, page, Place(value.place.0 + 1)));
                            let cleaned = value.dirty && !value.is_lost();
                            prop_assert_eq!(overlay.set_clean_at(value.volume, page, value.place), cleaned);
                            value.dirty &= !cleaned;
                        }
                    }
                    _ => {
                        let there = model.remove(&(volume, page));
                        let at_place = there.map_or(Place(place), |value| value.place);
                        prop_assert_eq!(overlay.remove_at(VolumeIndex(volume), page, at_place), there);
                    }
                }
                let range = page..page + u64::from(place % 50);
                let expected: Vec<LivePage> =
                    model.range((volume, range.start)..(volume, range.end)).map(|(_, value)| *value).collect();
                let found: Vec<LivePage> = overlay.range(VolumeIndex(volume), range.clone()).collect();
                prop_assert_eq!(overlay.first_in(VolumeIndex(volume), &range), expected.first().copied());
                prop_assert_eq!(found, expected);
                let dirty = model.values().filter(|value| value.dirty).count();
                let lost = model.values().filter(|value| value.is_lost()).count();
                let stored = model.values().filter(|value| matches!(value.content, Content::Data { .. })).count();
                let [live, dirty, lost, stored] =
                    [model.len(), dirty, lost, stored].map(|count| count.try_into().unwrap());
                let counts = OverlayCounts { live, dirty, lost, stored };
                prop_assert_eq!(overlay.total(), counts);
                let walked: usize = overlay.leaves.values().map(Vec::capacity).sum();
                prop_assert_eq!(overlay.room, walked, "room that is counted, and that there is");
            }
        }
    }

    #[test]
    fn leaves_stay_small_whatever_the_order_of_pages() {
        let mut overlay = Overlay::default();
        let last = u64::try_from(LEAF_PAGES).unwrap();
        for page in (0..=last).rev().chain(last..20 * last) {
            overlay.set(&live(0, page, 5, true));
            assert!(overlay.leaves.values().all(|leaf| leaf.len() <= LEAF_PAGES), "page {page}");
        }
    }

    // proves: P14
    #[test]
    #[allow(clippy::as_conversions, reason = "a test of rounding size")]
    fn a_gibibyte_of_scattered_dirty_pages_takes_less_than_eight_megabytes() {
        let mut overlay = Overlay::default();
        let pages: u64 = (1 << 30) / 4096;
        for step in 0..pages {
            overlay.set(&live(1, step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20, 5, true));
        }
        let per_gibibyte = overlay.memory_bytes() as f64 / overlay.total().live as f64 * pages as f64;
        assert!(per_gibibyte < 8e6, "{per_gibibyte}");
        let stated = bytes_per_page() * pages as f64;
        assert!((stated / per_gibibyte - 1.0).abs() < 0.1, "{stated} {per_gibibyte}");
    }

    #[test]
    #[should_panic(expected = "page 70368744177664 of volume 1 has no place")]
    fn a_page_beyond_all_volumes_is_not_taken_for_one_of_the_next_volume() {
        Overlay::default().set(&live(1, PAGES_MAX, 3, true));
    }

    #[test]
    #[should_panic(expected = "a dirty page of volume 1 is cleaned, and none counts")]
    fn what_is_cleaned_was_counted_as_dirty() {
        let mut overlay = Overlay::default();
        let page = live(1, 7, 3, true);
        overlay.set(&page);
        overlay.total.dirty = 0;
        overlay.set_clean_at(page.volume, page.page, page.place);
    }

    #[test]
    fn no_place_is_one_of_the_next_row_and_no_page_lies_before_its_leaf() {
        let last = Place::new(3, (1 << POSITION_BITS) - 1);
        assert_eq!(last.at(7, false), last, "zeroes all lie at one place");
        assert_refused("lies another row", || last.at(1, true));
        assert_refused("is looked for in a leaf that begins behind it", || {
            position(8, &[Item::new(&live(0, 8, 1, true))], 7);
        });
        let mut overlay = Overlay::default();
        overlay.set(&live(0, 8, 1, true));
        overlay.total.lost = 2;
        assert_refused("0 dirty, 1 of them lost", || overlay.set(&live(0, 8, 1, false)));
    }
}
