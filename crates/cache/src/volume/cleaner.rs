//! Dirty data goes to its backing device (rules `write-ahead`, `clean-one-at-a-time`): in the order of addresses, in
//! merged runs that keep to the device's optimal transfer; flushed in the log before, flushed on the device after; then
//! the pages are clean, if they are still the newest.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use hotset_block::{Buf, Env, ZeroMode};

use crate::address::VolumeIndex;
use crate::config::{PAGE, WriteMode};
use crate::error::{Error, ErrorKind};
use crate::log::Log;
use crate::log::overlay::{Content, LivePage, PAGES_MAX};
use crate::log::read_log::Unread;
use crate::log::run::LogRun;
use crate::members::flusher::Mark;
use crate::members::io::add;
use crate::volume::destination::joined;
use crate::volume::effort::Effort;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::VolumeInner;
use crate::volume::locks::Held;
use crate::volume::place::Attached;
use crate::volume::requests::ZeroEffort;

/// Pages that one pass cleans at most, between two flushes of the backing device.
const PASS_PAGES: u64 = 4096;
/// One write to the backing device, about.
const EXTENT_BYTES: u64 = 1 << 20;
/// How long a volume has no requests until it counts as idle.
const IDLE: Duration = Duration::from_secs(2);
/// How long what hosts' own writes took to the backing device waits for a flush: each holds up the writes beside it.
const WRITTEN_OUT_INTERVAL: Duration = Duration::from_secs(1);
/// What is dirty for so long beside hosts that write through, none of them took to the backing device.
const LEFT_BEHIND: Duration = Duration::from_secs(10);
/// Pause after a pass that failed.
const RETRY: Duration = Duration::from_secs(1);
/// How often a write-through looks where its pages are: they are moved once while an SSD leaves.
const WRITE_OUT_TRIES: u32 = 8;

/// A stretch of a volume that is written to the backing device in one piece, and what the log has of it.
struct DirtyExtent {
    range: Range<u64>,
    runs: Vec<LogRun>,
    /// Nobody else writes these pages to the backing device.
    held: Option<Rc<Held>>,
}

/// What became of extents that were to be written.
#[derive(Default)]
struct WrittenExtents {
    /// The backing device took them.
    extents: Vec<DirtyExtent>,
    /// Something was moved or overwritten meanwhile: it is elsewhere now.
    moved: bool,
    /// Why it could not be written.
    failed: Option<Error>,
}

impl WrittenExtents {
    fn and(mut self, other: Self) -> Self {
        self.extents.extend(other.extents);
        self.moved |= other.moved;
        self.failed = other.failed.or(self.failed);
        self
    }
}

impl<E: Env> LoggedVolume<'_, E> {
    /// Whether the volume is to be cleaned now, and how.
    fn effort(self) -> Option<Effort> {
        let Self { volume, log, .. } = self;
        let idle = volume.cleaning.is_idle_for(IDLE, volume.stats.data_requests(), volume.env.now());
        if log.counts(self.index()).dirty == 0 || volume.backing.latched().is_some() || volume.life.is_fenced() {
            return None;
        }
        // An SSD left, and what is left has no room to move anything.
        let out_of_rows = log.is_out_of_rows();
        if volume.life.keeps_nothing_dirty() || !log.mirrorer().may_cache_writes() || idle || out_of_rows {
            return Some(Effort::Full);
        }
        match volume.spec.borrow().settings.write_mode {
            WriteMode::WriteThrough | WriteMode::WriteAround if self.is_all_written_out() => {
                let is_due = self.attached.has_written_out_much()
                    || self.all_dirty().pressure().is_some()
                    || volume.cleaning.is_flush_due(WRITTEN_OUT_INTERVAL, volume.env.now());
                return is_due.then_some(Effort::Full);
            }
            WriteMode::WriteThrough | WriteMode::WriteAround => return Some(Effort::Full),
            WriteMode::WriteBack | WriteMode::InstantWriteBack => {}
        }
        let cleaning = self.pool().settings.get().cleaning;
        let old = self.has_been_dirty_for(Duration::from_secs(u64::from(cleaning.dirty_age_max_seconds)));
        let by_volume = self.dirty_beside_cap().and_then(|dirty| dirty.pressure());
        let pressure = self.all_dirty().pressure().max(by_volume).or(old.then_some(0));
        pressure.map(|pressure_percent| Effort::Beside { rate: cleaning.flush_rate, pressure_percent })
    }

    /// Whatever is dirty, a host's own write took to the backing device, or is taking there: it only has to be flushed. It is counted,
    /// and what hosts write again and again counts each time: so nothing may have been dirty for long, either.
    fn is_all_written_out(self) -> bool {
        self.log.counts(self.index()).dirty <= self.attached.pages_written_out()
            && !self.has_been_dirty_for(LEFT_BEHIND)
    }

    fn has_been_dirty_for(self, time: Duration) -> bool {
        let since = self.log.cleanable_since(self.index());
        since.is_some_and(|since| self.pool().env.real_now().since(since) >= time)
    }

    /// Cleans something by the task that does so; false if there is nothing more to clean now.
    async fn clean_some(self, effort: Effort) -> Result<bool, Error> {
        // What is only on its way there is waited for as the page of any other writer.
        if self.is_all_written_out() && self.attached.has_written_out() {
            self.volume.cleaning.begin_to_flush(self.volume.env.now());
            return self.clean_written_out().await.map(|()| false);
        }
        self.clean_pass(effort).await
    }

    /// Cleans some pages from where the last pass ended; false if there was nothing to clean.
    pub(crate) async fn clean_pass(self, effort: Effort) -> Result<bool, Error> {
        let Self { volume, .. } = self;
        self.clean_written_out().await?;
        let from = volume.cleaning.sweep();
        let mut ranges = self.dirty_ranges(from..PAGES_MAX);
        if ranges.is_empty() && from > 0 {
            ranges = self.dirty_ranges(0..PAGES_MAX);
        }
        let Some(last) = ranges.last() else { return Ok(false) };
        volume.cleaning.sweep_from(last.end);
        self.clean_ranges(ranges, effort).await?;
        Ok(true)
    }

    /// Writes what is dirty of these ranges to the backing device, and flushes it; answers what of them was written, which is clean if
    /// it is still the newest.
    pub(super) async fn clean_ranges(self, ranges: Vec<Range<u64>>, effort: Effort) -> Result<Vec<Range<u64>>, Error> {
        let Self { volume, log, .. } = self;
        let mut extents = Vec::new();
        for range in ranges {
            // Nobody is waited for while others may wait for what is held: the rest has its turn in the next sweep.
            let held = match volume.clean_locks.try_exclusive(&range) {
                Some(held) => Rc::new(held),
                None if extents.is_empty() => Rc::new(volume.clean_locks.exclusive(range.clone()).await),
                None => continue,
            };
            let is_to_be_written =
                |live: &LivePage| live.dirty && !live.is_lost() && !self.attached.wrote_out(live.page, live.place);
            let runs = log.runs(self.index(), range.clone(), is_to_be_written);
            // However long the device takes: rows are freed meanwhile, for other volumes need the room.
            runs.iter().for_each(LogRun::release);
            // What was overwritten or cleaned while this waited is not written.
            extents.extend(split_at_gaps(&range, runs, &held));
        }
        let failures = volume.backing.failures();
        // What was moved or overwritten has its turn again.
        let WrittenExtents { extents, failed, .. } = self.write_extents(extents, effort).await?;
        if let Some(error) = failed.filter(|_| extents.is_empty()) {
            return Err(error);
        }
        volume.backing.flush().await?;
        volume.backing.check_failures(failures)?;
        let ranges = extents.iter().map(|extent| extent.range.clone()).collect();
        let runs: Vec<LogRun> = extents.into_iter().flat_map(|extent| extent.runs).collect();
        self.mark_clean(&runs);
        Ok(ranges)
    }

    /// What hosts' own writes took to the backing device is not written again, only flushed.
    pub(super) async fn clean_written_out(self) -> Result<(), Error> {
        let Self { volume, attached, .. } = self;
        if !self.is_in_place() || !attached.has_written_out() {
            return Ok(());
        }
        volume.backing.flush().await?;
        let flusher = &volume.backing.flusher;
        let is_flushed = |(mark, _): &(Mark, LogRun)| flusher.covers(*mark);
        let flushed = attached.written_out.borrow_mut().take(is_flushed);
        let runs: Vec<LogRun> = flushed.into_iter().map(|(_, run)| run).collect();
        self.mark_clean(&runs);
        Ok(())
    }

    /// The first pages that are dirty of `pages`, in merged ranges within the device's optimal transfers.
    pub(super) fn dirty_ranges(self, pages: Range<u64>) -> Vec<Range<u64>> {
        let Self { volume, log, .. } = self;
        let unit = extent_pages(volume.backing.info.optimal_io_bytes);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut count = 0;
        let overlay = log.overlay();
        for live in overlay.range(self.index(), pages) {
            if !live.dirty || live.is_lost() {
                continue;
            }
            match ranges.last_mut() {
                Some(range) if range.end == live.page && live.page % unit != 0 => range.end += 1,
                _ => {
                    // A pass ends between two extents, so that no stripe is cut for it.
                    if count >= PASS_PAGES {
                        break;
                    }
                    ranges.push(live.page..live.page + 1);
                }
            }
            count += 1;
        }
        ranges
    }

    /// Writes the extents to the backing device.
    async fn write_extents(self, extents: Vec<DirtyExtent>, effort: Effort) -> Result<WrittenExtents, Error> {
        let Self { volume, log, .. } = self;
        log.rows().flush().await?;
        if !self.is_in_place() {
            return Err(Error::new(ErrorKind::Stopping, "the volume is detached"));
        }
        for extent in &extents {
            volume.mark_unsettled(self.attached, volume.bytes_of_pages(&extent.range)).await?;
        }
        let writes = extents.into_iter().map(|extent| self.write_extent(extent, effort));
        let written = stream::iter(writes).buffer_unordered(effort.at_once());
        Ok(written.fold(WrittenExtents::default(), async |all, extent| all.and(extent)).await)
    }

    /// What of a run no copy brings is lost from now on: it answers errors until it is written again, or an SSD with a copy is
    /// back, and holds up nothing else. The mover makes that durable, or the list (`log/data_loss/set_aside.rs`). `Ok`: nothing is lost, it is only elsewhere by now.
    /// What an SSD may bring the next time is not lost yet.
    async fn lose_unreadable(self, run: &LogRun) -> Result<(), Error> {
        let Self { log, .. } = self;
        if let Some(error) = self.pool().life.fence() {
            // Nobody knows what SSDs hold that are not asked any more.
            return Err(error.clone());
        }
        let mut unread_bytes = 0;
        for page in run.pages.clone() {
            for single in log.runs(run.first.volume, page..page + 1, |live| live.dirty) {
                let Err(unread) = log.reader().read_or_expire(&single).await else { continue };
                let now = log.live(run.first.volume, page);
                if self.is_written_out(&single) {
                    // A host's own write took it there meanwhile, and was answered.
                    continue;
                }
                if now == Some(single.first) {
                    if unread == Unread::Lost {
                        log.data_loss().lose_page(&single.first);
                    }
                    unread_bytes += PAGE;
                } else if now.is_some_and(|live| live.is_lost()) {
                    // Both SSDs left meanwhile.
                    unread_bytes += PAGE;
                }
            }
        }
        if unread_bytes == 0 { Ok(()) } else { Err(unreadable(unread_bytes)) }
    }

    /// The backing device has what the log has of a single page.
    fn is_written_out(self, single: &LogRun) -> bool {
        let Some((volume, _)) = self.pool().volumes.get(single.first.volume) else { return false };
        let attached = volume.attached();
        attached.is_some_and(|attached| attached.wrote_out(single.first.page, single.first.place))
    }

    /// Writes what can be read of the extent.
    async fn write_extent(self, extent: DirtyExtent, effort: Effort) -> WrittenExtents {
        let mut written = WrittenExtents::default();
        if !extent.runs.iter().all(|run| self.log.hold_again(run)) {
            written.moved = true;
            return written;
        }
        let parts = match extent.runs.iter().all(|run| run.first.content == Content::Zeroes) {
            true => vec![(extent, None)],
            false => self.read_extent(extent, &mut written).await,
        };
        parts.iter().flat_map(|(part, _)| &part.runs).for_each(LogRun::release);
        for (mut part, data) in parts {
            match self.write_part(&part.range, data, effort).await {
                Ok(()) => {
                    // Whoever writes here next need not wait for the rest of the pass.
                    part.held = None;
                    written.extents.push(part);
                }
                Err(error) => written.failed = Some(error),
            }
        }
        written
    }

    /// The parts of an extent that can be read, without gaps. All that cannot be read is asked for, so that it is waited for at the
    /// same time.
    async fn read_extent(self, extent: DirtyExtent, written: &mut WrittenExtents) -> Vec<(DirtyExtent, Option<Buf>)> {
        let DirtyExtent { range, runs, held } = extent;
        let buffers = self.pool().env.buffers();
        let length = usize::try_from(pages_bytes(&range)).expect("an address has 64 bits at most");
        let mut rest = Some(buffers.take(length));
        let mut parts: Vec<(DirtyExtent, Option<Buf>)> = Vec::new();
        for run in runs {
            let (part, next) = rest.take().expect("the runs fill the extent").split_at(run.bytes());
            rest = Some(next);
            let Some(data) = self.log.reader().read_run(&run, part).await else {
                match self.lose_unreadable(&run).await {
                    Ok(()) => written.moved = true,
                    Err(error) => written.failed = Some(error),
                }
                continue;
            };
            let part = match parts.pop_if(|(part, _)| part.range.end == run.pages.start) {
                Some((mut part, before)) => {
                    part.range.end = run.pages.end;
                    part.runs.push(run);
                    // A read may bring another buffer than the one that it was given.
                    (part, before.map(|before| joined(buffers, before, data)))
                }
                None => (DirtyExtent { range: run.pages.clone(), runs: vec![run], held: held.clone() }, Some(data)),
            };
            parts.push(part);
        }
        let left = rest.map_or(0, |rest| rest.len());
        assert_eq!(left, 0, "pages {range:?} are cleaned, and {left} bytes of them are of no run");
        parts
    }

    /// `None`: zeroes.
    async fn write_part(self, pages: &Range<u64>, data: Option<Buf>, effort: Effort) -> Result<(), Error> {
        let Self { volume, .. } = self;
        let range = volume.bytes_of_pages(pages);
        let Some(data) = data else {
            return volume.zero_blocks(range, ZeroMode::MayPunch, ZeroEffort::Any).await;
        };
        let length = usize::try_from(range.length()).expect("an address has 64 bits at most");
        volume.backing.write_for_cleaning(range.start, data.narrow(0, length), effort).await
    }

    /// These pages are on the backing device, durably: they are clean if they are still the newest.
    fn mark_clean(self, written: &[LogRun]) {
        let Self { volume, log, .. } = self;
        let cleaned: u64 =
            written.iter().filter(|run| log.has_row_of(run)).map(|run| log.mark_clean(self.index(), run)).sum();
        add(&volume.stats.cleaned_bytes, cleaned * PAGE);
        add(&volume.steps, 1);
        volume.cleaning.forget_error();
        log.pages_were_cleaned();
    }

    /// Writes what is dirty of these pages to the backing device, for a write that is to be there when it is answered.
    pub(crate) async fn write_out(self, pages: &Range<u64>) -> Result<(), Error> {
        let Self { volume, attached, log } = self;
        let _counted = attached.writes_out(pages.end - pages.start);
        let held = Rc::new(volume.clean_locks.exclusive(pages.clone()).await);
        for _ in 0..WRITE_OUT_TRIES {
            let runs = log.runs(self.index(), pages.clone(), |live| live.dirty);
            let lost = runs.iter().filter(|run| run.first.is_lost()).map(|run| pages_bytes(&run.pages)).sum();
            if lost > 0 {
                return Err(unreadable(lost));
            }
            let extents = split_at_gaps(pages, runs, &held);
            let written = self.write_extents(extents, Effort::Full).await?;
            if let Some(error) = written.failed {
                return Err(error);
            }
            let runs: Vec<LogRun> = written.extents.into_iter().flat_map(|extent| extent.runs).collect();
            let ssds_leave = runs.iter().any(|run| !log.is_on_ssds(run));
            let mark = volume.backing.flusher.mark();
            attached.remember_written_out(runs.into_iter().map(|run| (mark, run)));
            if ssds_leave {
                // Their departure may have flushed the backing device already, and is about to call lost what that flush did not cover.
                self.clean_written_out().await?;
            }
            if !written.moved && !is_lost(log, self.index(), pages) {
                return Ok(());
            }
        }
        let message = format!("the SSDs answered a read of dirty data with errors, {WRITE_OUT_TRIES} times");
        Err(Error::new(ErrorKind::Media, message))
    }

    /// Why what is dirty cannot be cleaned.
    pub(crate) fn cannot_clean(self) -> Option<Error> {
        let Self { volume, log, .. } = self;
        let dirty = log.counts(self.index()).dirty * PAGE;
        let name = &volume.spec.borrow().name;
        let why = if let Some(fence) = volume.life.fence() {
            fence.to_string()
        } else if let Some(stop) = volume.backing.latched() {
            stop.to_string()
        } else if let Some(error) = self.pool().life.fence() {
            error.to_string()
        } else if volume.backing.info.read_only {
            "its backing device is read-only".to_owned()
        } else if !volume.cleaning.has_cleaner() && self.dirty_ranges(0..PAGES_MAX).is_empty() {
            log.data_loss().why_lost(Some(self.index())).to_string()
        } else {
            return None;
        };
        let message =
            format!("volume {name}: {dirty} bytes of dirty data cannot be written to its backing device: {why}");
        Some(Error::new(ErrorKind::Refused, message))
    }
}

/// Cleans a volume for as long as that is due, by a task of its own, unless one does.
pub(crate) fn clean_if_due<E: Env>(volume: Rc<VolumeInner<E>>, attached: Rc<Attached<E>>) {
    let is_due = LoggedVolume::of(&volume, &attached).is_some_and(|logged| logged.effort().is_some());
    if is_due && volume.cleaning.begin() {
        volume.env.clone().spawn(clean_volume(volume, attached));
    }
}

async fn clean_volume<E: Env>(volume: Rc<VolumeInner<E>>, attached: Rc<Attached<E>>) {
    let Some(logged) = LoggedVolume::of(&volume, &attached) else { return };
    while let Some(effort) = logged.effort() {
        if logged.pool().life.is_ending_log() || !logged.is_in_place() {
            break;
        }
        match logged.clean_some(effort).await {
            Ok(true) => {}
            Ok(false) => break,
            // It was taken from the pool meanwhile.
            Err(_) if !logged.is_in_place() => break,
            Err(error) => {
                volume.cleaning.failed(error);
                logged.pool().env.sleep(RETRY).await;
                break;
            }
        }
    }
    volume.cleaning.end();
    logged.log.signals().room.wake_all();
}

/// Both SSDs left with something of these pages: that is on record, and a host that wrote it is told so.
fn is_lost<E: Env>(log: &Log<E>, volume: VolumeIndex, pages: &Range<u64>) -> bool {
    log.overlay().range(volume, pages.clone()).any(|live| live.is_lost())
}

fn unreadable(bytes: u64) -> Error {
    Error::new(ErrorKind::Media, format!("{bytes} bytes of dirty data cannot be read from any copy on the SSDs"))
}

/// Pages of an extent: whole optimal transfers, about a mebibyte.
fn extent_pages(optimal_io_bytes: u32) -> u64 {
    let optimal = u64::from(optimal_io_bytes);
    if optimal == 0 || optimal % PAGE != 0 {
        return EXTENT_BYTES / PAGE;
    }
    (EXTENT_BYTES / optimal).max(1) * optimal / PAGE
}

fn pages_bytes(pages: &Range<u64>) -> u64 {
    (pages.end - pages.start) * PAGE
}

/// The parts of `range` that the runs cover without a gap; they share the hold.
fn split_at_gaps(range: &Range<u64>, runs: Vec<LogRun>, held: &Rc<Held>) -> Vec<DirtyExtent> {
    let mut extents: Vec<DirtyExtent> = Vec::new();
    for run in runs {
        let is_held = range.start <= run.pages.start && run.pages.end <= range.end;
        assert!(is_held, "pages {:?} are to be cleaned, and {range:?} are held", run.pages);
        match extents.last_mut() {
            Some(extent) if extent.range.end == run.pages.start => {
                extent.range.end = run.pages.end;
                extent.runs.push(run);
            }
            _ => extents.push(DirtyExtent { range: run.pages.clone(), runs: vec![run], held: Some(Rc::clone(held)) }),
        }
    }
    extents
}
