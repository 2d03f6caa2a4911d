//! Where a host's write goes in a read-write pool (rule `one-dirty-rule`): into the write log, around the cache, or
//! nowhere until there is room.

use std::ops::Range;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::config::{PAGE, WriteMode};
use crate::log::Log;
use crate::log::pace::Pace;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::VolumeInner;
use crate::volume::requests::Durability;

/// Short writes of a volume that flushed so lately are cached at once, whatever the threshold.
const LATELY: std::time::Duration = std::time::Duration::from_secs(60);
const SHORT_WRITE_BYTES: u64 = 64 << 10;
/// A volume to which no stream is written for this time is ready for the next one.
const BURSTS_APART: std::time::Duration = std::time::Duration::from_secs(1);

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Append(AfterAppend),
    Around,
    /// Its pages have live copies, lost or zeroes, and there is no SSD to append it to: to the backing device, durably.
    WithoutSsds,
    /// Its pages are unavailable: to the backing device, durably, and off the list of what is unavailable.
    Replace,
    /// Some of its pages are unavailable: what lies before this one and the rest go their own ways.
    Split(u64),
    /// It has to be appended, and there is no room now.
    Wait,
}

/// What follows an append before the host is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterAppend {
    Answer,
    /// It is flushed and written to the backing device.
    WriteOut,
}

/// What speaks for caching a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteHints {
    /// It belongs to a long stream.
    pub(crate) streaming: bool,
    /// It is FUA, or short and of a volume that flushed lately.
    pub(crate) at_once: bool,
}

impl<'v, E: Env> LoggedVolume<'v, E> {
    /// Decides where a host's write goes. In the turn in which the append is queued or the pages are dropped.
    pub(crate) fn route(self, pages: &Range<u64>, hints: WriteHints) -> Route {
        if let Some(route) = route_of_unavailable(self.log, self.index(), pages) {
            return route;
        }
        let count = pages.end - pages.start;
        if let Some(then) = self.fast_append(count, hints) {
            return Route::Append(then);
        }
        let live = self.log.any_live(self.index(), pages);
        if live {
            if self.log.appends().is_without_ssds() {
                return Route::WithoutSsds;
            }
            if !self.has_room_for_live(count) {
                return Route::Wait;
            }
            return Route::Append(self.after_append(count));
        }
        if !self.log.mirrorer().may_cache_writes()
            || self.volume.life.keeps_nothing_dirty()
            || !self.wants_cached(pages, hints)
        {
            return Route::Around;
        }
        if !self.log.has_room(count)
            || self.all_dirty().sends_around(count)
            || self.dirty_beside_cap().is_some_and(|dirty| dirty.sends_around(count))
            || self.is_over_its_share()
        {
            self.log.signals().mover_wanted.wake_all();
            self.log.signals().cleaner_wanted.wake_all();
            return Route::Around;
        }
        Route::Append(AfterAppend::when_kept(self.keeps_dirty()))
    }

    /// So many pages that have a live copy can be appended now.
    pub(super) fn has_room_for_live(self, pages: u64) -> bool {
        self.log.has_room(pages) && self.pool().members.online_ssds().next().is_some()
    }

    /// What follows a write that is appended whether or not its pages have a live copy: most are, and the overlay need not
    /// be asked.
    fn fast_append(self, pages: u64, hints: WriteHints) -> Option<AfterAppend> {
        let then = match self.volume.spec.borrow().settings.write_mode {
            WriteMode::WriteAround => return None,
            WriteMode::WriteThrough => AfterAppend::WriteOut,
            WriteMode::InstantWriteBack | WriteMode::WriteBack => AfterAppend::Answer,
        };
        let counts = self.pool().settings.get().populate_on_write > 1 && !hints.at_once;
        let is_held_up = self.volume.life.keeps_nothing_dirty() || takes_nothing(self.volume);
        let is_appended = !hints.streaming
            && !counts
            && !is_held_up
            && self.log.mirrorer().may_cache_writes()
            && self.log.has_room(pages)
            && !self.all_dirty().is_near_with(pages)
            && self.dirty_beside_cap().is_none_or(|dirty| !dirty.is_near_with(pages));
        is_appended.then_some(then)
    }

    /// What has to be appended does not stay dirty where the volume has all that it may have.
    fn after_append(self, pages: u64) -> AfterAppend {
        AfterAppend::when_kept(self.keeps_dirty() && !self.is_over_dirty_cap(pages))
    }

    /// With so many dirty pages more the volume would have more than its cap; of one whose backing device takes nothing
    /// there is no choice.
    pub(crate) fn is_over_dirty_cap(self, pages: u64) -> bool {
        !takes_nothing(self.volume) && self.dirty_beside_cap().is_some_and(|dirty| dirty.is_over_with(pages))
    }

    /// The volumes whose backing devices take nothing hold at most half of what may be dirty, together (rule `reserves`).
    fn is_over_its_share(self) -> bool {
        let is_stuck = |index| match self.pool().volumes.get(index) {
            Some((volume, _)) => takes_nothing(&volume) || volume.life.is_fenced(),
            None => true,
        };
        let dirty = |index| if is_stuck(index) { self.log.counts(index).cleanable() } else { 0 };
        takes_nothing(self.volume) && self.pool().ids.indexes().map(dirty).sum::<u64>() >= self.log.dirty_max() / 2
    }

    /// What is dirty in the pool, or will be.
    pub(crate) fn all_dirty(self) -> Dirty<'v> {
        let max_pages = self.log.dirty_max();
        let watermark = self.watermark(max_pages);
        Dirty { pages: self.log.dirty_pages(), watermark, max_pages, pace: self.log.pace() }
    }

    /// What is dirty of a volume that has a cap.
    pub(crate) fn dirty_beside_cap(self) -> Option<Dirty<'v>> {
        let cap = self.volume.spec.borrow().settings.dirty_cap?;
        let pages = self.log.dirty_pages_of(self.index());
        let max_pages = (cap.of(self.log.dirty_max() * PAGE) / PAGE).max(1);
        let watermark = self.watermark(max_pages);
        Some(Dirty { pages, watermark, max_pages, pace: &self.volume.pace })
    }

    /// What is appended may stay dirty after the answer.
    pub(crate) fn keeps_dirty(self) -> bool {
        let mode = self.volume.spec.borrow().settings.write_mode;
        let cached = matches!(mode, WriteMode::WriteBack | WriteMode::InstantWriteBack);
        cached && self.log.mirrorer().may_cache_writes() && !self.volume.life.keeps_nothing_dirty()
    }

    fn wants_cached(self, pages: &Range<u64>, hints: WriteHints) -> bool {
        match self.volume.spec.borrow().settings.write_mode {
            WriteMode::WriteAround => false,
            WriteMode::InstantWriteBack => !hints.streaming || self.caches_streams(),
            WriteMode::WriteBack | WriteMode::WriteThrough => {
                !hints.streaming && (hints.at_once || self.count_to_cache(pages))
            }
        }
    }

    /// Whether the log takes a stream, which is a burst up to the watermark: what goes beyond it goes around to its end. If the log took
    /// more whenever something was cleaned, the backing device would get both the stream and what is cleaned.
    fn caches_streams(self) -> bool {
        let now = self.volume.env.now();
        let goes_on = self.volume.stream_went_around.get().is_some_and(|last| now.since(last) < BURSTS_APART);
        let caches = !goes_on && self.log.total().cleanable() < self.watermark(self.log.dirty_max());
        if !caches {
            self.volume.stream_went_around.set(Some(now));
        }
        caches
    }

    /// Counts a write that may go past the cache; whether its blocks reached the threshold.
    fn count_to_cache(self, pages: &Range<u64>) -> bool {
        let threshold = self.pool().settings.get().populate_on_write;
        if threshold <= 1 {
            return true;
        }
        self.pool().clean.count_to_cache(self.index(), pages.clone(), threshold)
    }

    /// Pages from which on cleaning goes on beside hosts, where so many may be dirty.
    fn watermark(self, max_pages: u64) -> u64 {
        max_pages * u64::from(self.pool().settings.get().cleaning.dirty_watermark_percent) / 100
    }
}

/// Dirty pages of a pool or of a volume, and how many there may be.
pub(crate) struct Dirty<'a> {
    pages: u64,
    /// From so many on, cleaning goes on beside hosts.
    watermark: u64,
    max_pages: u64,
    /// Decides which writes go around near the maximum.
    pace: &'a Pace,
}

impl Dirty<'_> {
    /// Dirty pages up to which nothing goes around for its pace: three quarters of the maximum, and halfway from a higher watermark to
    /// it. The cleaner, which writes in the order of addresses, is to be at work before hosts write at random.
    fn unpaced(&self) -> u64 {
        (self.max_pages * 3 / 4).max(self.watermark.midpoint(self.max_pages))
    }

    /// How far it has come from the watermark to where hosts' writes begin to go around the cache for their pace: 0 to 100
    /// percent. `None` below the watermark.
    pub(crate) fn pressure(&self) -> Option<u8> {
        let over = self.pages.checked_sub(self.watermark).filter(|over| *over > 0)?;
        let percent = over * 100 / self.unpaced().saturating_sub(self.watermark).max(1);
        Some(u8::try_from(percent.min(100)).expect("100 at most"))
    }

    fn is_over_with(&self, pages: u64) -> bool {
        self.pages + pages > self.max_pages
    }

    fn is_near_with(&self, pages: u64) -> bool {
        self.pages + pages > self.unpaced()
    }

    /// From there on a growing part of the writes goes to the backing device itself: hosts slow down to its pace evenly, without a
    /// cliff.
    fn sends_around(&self, pages: u64) -> bool {
        let slack = self.max_pages - self.unpaced();
        let over = (self.pages + pages).saturating_sub(self.unpaced());
        if over == 0 {
            return false;
        }
        over >= slack || self.pace.sends_around(over, slack)
    }
}

impl AfterAppend {
    fn when_kept(stays_dirty: bool) -> Self {
        if stays_dirty { Self::Answer } else { Self::WriteOut }
    }
}

impl<E: Env> VolumeInner<E> {
    pub(crate) fn write_hints(&self, bytes: u64, streaming: bool, durability: Durability) -> WriteHints {
        let synced = durability == Durability::Durable
            || (bytes <= SHORT_WRITE_BYTES
                && self.last_flush.get().is_some_and(|flushed| self.env.now().since(flushed) < LATELY));
        WriteHints { streaming, at_once: synced }
    }
}

/// Where a write goes that touches unavailable pages.
fn route_of_unavailable<E: Env>(log: &Log<E>, index: VolumeIndex, pages: &Range<u64>) -> Option<Route> {
    if log.counts(index).lost == 0 {
        return None;
    }
    let overlay = log.overlay();
    let is_unavailable = |page| overlay.get(index, page).is_some_and(|live| live.is_unavailable());
    let first = is_unavailable(pages.start);
    match (pages.start + 1..pages.end).find(|page| is_unavailable(*page) != first) {
        Some(page) => Some(Route::Split(page)),
        None => first.then_some(Route::Replace),
    }
}

/// Its backing device takes nothing.
fn takes_nothing<E: Env>(volume: &VolumeInner<E>) -> bool {
    volume.cleaning.has_failed() || volume.backing.takes_nothing()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirty(pace: &Pace, pages: u64, watermark: u64) -> Dirty<'_> {
        Dirty { pages, watermark, max_pages: 1000, pace }
    }

    #[test]
    fn whatever_the_watermark_the_cleaner_is_at_work_before_hosts_are_slowed_down() {
        for (watermark, unpaced) in [(10, 750), (500, 750), (600, 800), (900, 950)] {
            let pace = Pace::default();
            let now = |pages| dirty(&pace, pages, watermark);
            assert_eq!(now(watermark).pressure(), None);
            assert_eq!(now(unpaced - (unpaced - watermark) / 2).pressure(), Some(50));
            assert_eq!((now(unpaced).pressure(), now(1000).pressure()), (Some(100), Some(100)));
            assert!(!now(unpaced - 1).is_near_with(1) && now(unpaced).is_near_with(1), "{watermark}");
            assert!(!now(unpaced - 1).sends_around(1) && now(1000).sends_around(1), "{watermark}");
            let halfway = unpaced.midpoint(1000) - 1;
            let around = (0..100).filter(|_| now(halfway).sends_around(1)).count();
            assert!((49..=51).contains(&around), "{around} of 100 from {unpaced} on");
        }
    }
}
