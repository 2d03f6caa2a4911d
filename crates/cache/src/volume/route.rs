//! Where a host's write goes in a read-write pool (rule `one-dirty-rule`): into the write log, around the cache, or
//! nowhere until there is room.

use std::cell::Cell;
use std::ops::Range;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::config::{PAGE, WriteMode};
use crate::log::Log;
use crate::pool::PoolInner;
use crate::volume::{Attached, Durability, VolumeInner};

/// Short writes of a volume that flushed so lately are cached at once, whatever the threshold.
const LATELY: std::time::Duration = std::time::Duration::from_secs(60);
const SHORT_WRITE_BYTES: u64 = 64 << 10;

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

impl<E: Env> PoolInner<E> {
    /// Decides where a host's write goes. In the turn in which the append is queued or the pages are dropped.
    pub(crate) fn route(
        &self,
        log: &Log<E>,
        volume: &VolumeInner<E>,
        attached: &Attached<E>,
        pages: &Range<u64>,
        hints: WriteHints,
    ) -> Route {
        if let Some(route) = route_of_unavailable(log, attached.index, pages) {
            return route;
        }
        let count = pages.end - pages.start;
        if let Some(then) = self.fast_append(log, volume, attached.index, count, hints) {
            return Route::Append(then);
        }
        let live = log.any_live(attached.index, pages);
        if live {
            if log.appends().is_without_ssds() {
                return Route::WithoutSsds;
            }
            if !log.has_room(count) || self.members.online_ssds().next().is_none() {
                return Route::Wait;
            }
            return Route::Append(self.after_append(log, volume, attached.index, count));
        }
        if !log.mirrorer().may_cache_writes()
            || volume.draining.get()
            || !self.wants_cached(log, volume, attached, pages, hints)
        {
            return Route::Around;
        }
        if !log.has_room(count)
            || is_paced_around(&self.all_dirty(log), count)
            || self.dirty_of(log, volume, attached.index).is_some_and(|dirty| is_paced_around(&dirty, count))
            || self.is_over_its_share(log, volume)
        {
            log.signals().mover_wanted.wake_all();
            log.signals().cleaner_wanted.wake_all();
            return Route::Around;
        }
        Route::Append(AfterAppend::when_kept(self.keeps_dirty(log, volume)))
    }

    /// What follows a write that is appended whether or not its pages have a live copy: most are, and the overlay need not
    /// be asked.
    fn fast_append(
        &self,
        log: &Log<E>,
        volume: &VolumeInner<E>,
        index: VolumeIndex,
        pages: u64,
        hints: WriteHints,
    ) -> Option<AfterAppend> {
        let then = match volume.spec.borrow().settings.write_mode {
            WriteMode::WriteAround => return None,
            WriteMode::WriteThrough => AfterAppend::WriteOut,
            WriteMode::InstantWriteBack | WriteMode::WriteBack => AfterAppend::Answer,
        };
        let counts = self.settings.get().populate_on_write > 1 && !hints.at_once;
        let is_held_up = volume.draining.get() || takes_nothing(volume);
        let is_appended = !hints.streaming
            && !counts
            && !is_held_up
            && log.mirrorer().may_cache_writes()
            && log.has_room(pages)
            && !self.all_dirty(log).is_near_with(pages)
            && self.dirty_of(log, volume, index).is_none_or(|dirty| !dirty.is_near_with(pages));
        is_appended.then_some(then)
    }

    /// What has to be appended does not stay dirty where the volume has all that it may have.
    fn after_append(&self, log: &Log<E>, volume: &VolumeInner<E>, index: VolumeIndex, pages: u64) -> AfterAppend {
        AfterAppend::when_kept(self.keeps_dirty(log, volume) && !self.is_over_dirty_cap(log, volume, index, pages))
    }

    /// With so many dirty pages more the volume would have more than its cap; of one whose backing device takes nothing
    /// there is no choice.
    pub(crate) fn is_over_dirty_cap(
        &self,
        log: &Log<E>,
        volume: &VolumeInner<E>,
        index: VolumeIndex,
        pages: u64,
    ) -> bool {
        !takes_nothing(volume)
            && self.dirty_of(log, volume, index).is_some_and(|dirty| dirty.pages + pages > dirty.max_pages)
    }

    /// The volumes whose backing devices take nothing hold at most half of what may be dirty, together (rule `reserves`).
    fn is_over_its_share(&self, log: &Log<E>, volume: &VolumeInner<E>) -> bool {
        let is_stuck = |index| match self.attached_volume(index) {
            Some((volume, _)) => takes_nothing(&volume) || volume.fenced.borrow().is_some(),
            None => true,
        };
        let dirty = |index| if is_stuck(index) { log.counts(index).cleanable() } else { 0 };
        takes_nothing(volume) && self.ids.indexes().map(dirty).sum::<u64>() >= log.dirty_max() / 2
    }

    /// What is dirty in the pool, or will be.
    pub(crate) fn all_dirty<'a>(&self, log: &'a Log<E>) -> Dirty<'a> {
        Dirty { pages: log.dirty_pages(), max_pages: log.dirty_max(), pace: log.pace() }
    }

    /// What is dirty of a volume that has a cap.
    pub(crate) fn dirty_of<'a>(
        &self,
        log: &Log<E>,
        volume: &'a VolumeInner<E>,
        index: VolumeIndex,
    ) -> Option<Dirty<'a>> {
        let cap = volume.spec.borrow().settings.dirty_cap?;
        let pages = log.dirty_pages_of(index);
        let max_pages = (cap.of(log.dirty_max() * PAGE) / PAGE).max(1);
        Some(Dirty { pages, max_pages, pace: &volume.pace })
    }

    /// What is appended may stay dirty after the answer.
    pub(crate) fn keeps_dirty(&self, log: &Log<E>, volume: &VolumeInner<E>) -> bool {
        let mode = volume.spec.borrow().settings.write_mode;
        let cached = matches!(mode, WriteMode::WriteBack | WriteMode::InstantWriteBack);
        cached && log.mirrorer().may_cache_writes() && !volume.draining.get()
    }

    fn wants_cached(
        &self,
        log: &Log<E>,
        volume: &VolumeInner<E>,
        attached: &Attached<E>,
        pages: &Range<u64>,
        hints: WriteHints,
    ) -> bool {
        match volume.spec.borrow().settings.write_mode {
            WriteMode::WriteAround => false,
            WriteMode::InstantWriteBack => {
                !hints.streaming || log.total().cleanable() < self.watermark(log.dirty_max())
            }
            WriteMode::WriteBack | WriteMode::WriteThrough => {
                !hints.streaming && (hints.at_once || self.count_to_cache(attached, pages))
            }
        }
    }

    /// Counts a write that may go past the cache; whether its blocks reached the threshold.
    fn count_to_cache(&self, attached: &Attached<E>, pages: &Range<u64>) -> bool {
        let threshold = self.settings.get().populate_on_write;
        if threshold <= 1 {
            return true;
        }
        self.clean.count_to_cache(attached.index, pages.clone(), threshold)
    }

    /// Pages from which on cleaning goes on beside hosts, where so many may be dirty.
    fn watermark(&self, max_pages: u64) -> u64 {
        max_pages * u64::from(self.settings.get().cleaning.dirty_watermark_percent) / 100
    }

    /// How far dirty data has come from the watermark to where hosts' writes begin to go around the cache for their pace: 0
    /// to 100 percent. `None` below the watermark.
    pub(crate) fn pressure_of(&self, dirty: &Dirty<'_>) -> Option<u8> {
        let watermark = self.watermark(dirty.max_pages);
        let over = dirty.pages.checked_sub(watermark).filter(|over| *over > 0)?;
        let percent = over * 100 / dirty.unpaced().saturating_sub(watermark).max(1);
        Some(u8::try_from(percent.min(100)).expect("100 at most"))
    }

    pub(crate) fn wake_cleaner(&self) {
        if let Some(log) = &self.log {
            log.signals().cleaner_wanted.wake_all();
        }
    }
}

/// Dirty pages of a pool or of a volume, and how many there may be.
pub(crate) struct Dirty<'a> {
    pub(crate) pages: u64,
    pub(crate) max_pages: u64,
    /// Decides which writes go around near the maximum.
    pace: &'a Cell<u64>,
}

impl Dirty<'_> {
    /// Dirty pages up to which nothing goes around for its pace.
    fn unpaced(&self) -> u64 {
        self.max_pages * 3 / 4
    }

    fn is_near_with(&self, pages: u64) -> bool {
        self.pages + pages > self.unpaced()
    }
}

/// From three quarters of the maximum on, a growing part of the writes goes to the backing device itself: hosts slow
/// down to its pace evenly, without a cliff.
fn is_paced_around(dirty: &Dirty<'_>, pages: u64) -> bool {
    let slack = dirty.max_pages - dirty.unpaced();
    let over = (dirty.pages + pages).saturating_sub(dirty.unpaced());
    if over == 0 {
        return false;
    }
    if over >= slack {
        return true;
    }
    let pace = dirty.pace.get() + over;
    dirty.pace.set(pace % slack.max(1));
    pace >= slack
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
    volume.clean_error.borrow().is_some() || volume.backing.takes_nothing()
}
