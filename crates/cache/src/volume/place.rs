//! A volume's place in a pool, and what it has of the pool there: the rooms below, by their handles.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hotset_block::Env;
use hotset_block::sync::Semaphore;

use crate::address::{Blocks, VolumeIndex};
use crate::attachment_ids::AttachmentIds;
use crate::attachments::Attachments;
use crate::clean::Clean;
use crate::config::{PAGE, PoolKind, PoolName};
use crate::log::Log;
use crate::log::overlay::{OverlayCounts, Place};
use crate::log::run::LogRun;
use crate::members::Members;
use crate::members::flusher::{Flusher, Mark};
use crate::members::io::add;
use crate::members::pool_life::PoolLife;
use crate::reasons::VolumeFence;
use crate::status::CacheUse;
use crate::volume::by_pages::ByPages;
use crate::volume::inner::VolumeInner;
use crate::volume::settings::SettingsNow;

/// Runs that were written out and wait for a flush at most; the cleaner writes those again that are more.
const WRITTEN_OUT_MAX: usize = 4096;
/// From so many on the flush is not waited for.
const WRITTEN_OUT_MANY: usize = WRITTEN_OUT_MAX / 2;

/// A volume's place in a pool.
pub(crate) struct Attached<E: Env> {
    pub(crate) pool: Rc<PoolRooms<E>>,
    pub(crate) index: VolumeIndex,
    /// Pages whose fingerprint is settled: the first write to one is recorded before it is done.
    pub(super) judged_pages: RefCell<Vec<u64>>,
    /// What was written to the backing device beside the cleaner: clean as soon as that was flushed.
    pub(super) written_out: RefCell<ByPages<(Mark, LogRun)>>,
    /// Pages that hosts' own writes take there now.
    writing_out: Cell<u64>,
}

/// See [`Attached::writes_out`].
pub(super) struct WritingOut<'a> {
    counter: &'a Cell<u64>,
    pages: u64,
}

impl Drop for WritingOut<'_> {
    fn drop(&mut self) {
        let before = self.counter.get();
        assert!(before >= self.pages, "{} pages are written out, and {before} were on their way", self.pages);
        self.counter.set(before - self.pages);
    }
}

impl<E: Env> Attached<E> {
    pub(crate) fn new(pool: &Rc<PoolRooms<E>>, index: VolumeIndex, judged_pages: Vec<u64>) -> Self {
        let judged_pages = RefCell::new(judged_pages);
        let (written_out, writing_out) = (RefCell::default(), Cell::new(0));
        Self { pool: Rc::clone(pool), index, judged_pages, written_out, writing_out }
    }

    /// Hands on each run that was written out, is durable on the backing device, and may still be dirty.
    pub(crate) fn written_out_durably(&self, flusher: &Flusher, each: impl Fn(&LogRun)) {
        self.written_out.borrow().values().filter(|(mark, _)| flusher.covers(*mark)).for_each(|(_, run)| each(run));
    }

    /// The cleaner writes again what is too much to remember.
    pub(super) fn remember_written_out(&self, runs: impl Iterator<Item = (Mark, LogRun)>) {
        let mut written_out = self.written_out.borrow_mut();
        let room = WRITTEN_OUT_MAX.saturating_sub(written_out.len());
        runs.take(room).for_each(|(mark, run)| written_out.add(run.pages.clone(), (mark, run)));
        let has_many = written_out.len() >= WRITTEN_OUT_MANY;
        drop(written_out);
        if has_many {
            self.pool.wake_cleaner();
        }
    }

    /// Something waits for a flush.
    pub(crate) fn has_written_out(&self) -> bool {
        !self.written_out.borrow().is_empty()
    }

    /// So much waits for a flush that it is not to become more.
    pub(super) fn has_written_out_much(&self) -> bool {
        self.written_out.borrow().len() >= WRITTEN_OUT_MANY
    }

    /// Pages that hosts' own writes took to the backing device since its last flush, or are taking there.
    pub(super) fn pages_written_out(&self) -> u64 {
        let written: u64 = self.written_out.borrow().values().map(|(_, run)| run.pages.end - run.pages.start).sum();
        written + self.writing_out.get()
    }

    /// So many pages are on their way to the backing device until this is dropped.
    pub(super) fn writes_out(&self, pages: u64) -> WritingOut<'_> {
        self.writing_out.set(self.writing_out.get() + pages);
        WritingOut { counter: &self.writing_out, pages }
    }

    /// The backing device has what the log has of the page in this place.
    pub(super) fn wrote_out(&self, page: u64, place: Place) -> bool {
        self.written_out.borrow().of_page(page).any(|(_, run)| run.place_of(page) == Some(place))
    }
}

/// The rooms of a pool and what they have in common: what its volumes and the parts of the frame work on.
pub(crate) struct PoolRooms<E: Env> {
    pub(crate) env: E,
    pub(crate) uuid: u128,
    pub(crate) name: PoolName,
    pub(crate) kind: PoolKind,
    pub(crate) settings: Rc<SettingsNow>,
    pub(crate) blocks: Blocks,
    pub(crate) life: Rc<PoolLife>,
    pub(crate) members: Rc<Members<E>>,
    pub(crate) clean: Rc<Clean<E>>,
    pub(crate) attachments: Rc<Attachments<E>>,
    pub(crate) ids: Rc<AttachmentIds>,
    /// The write log of a read-write pool.
    pub(crate) log: Option<Rc<Log<E>>>,
    pub(crate) volumes: Rc<AttachedVolumes<E>>,
    /// One attach, detach or setting at a time.
    pub(crate) admin_lock: Rc<Semaphore>,
}

impl<E: Env> PoolRooms<E> {
    /// What a volume has of the pool, open or not.
    pub(crate) fn use_of(&self, index: VolumeIndex) -> CacheUse {
        let counts = self.log_counts(index);
        let since = self.log.as_ref().and_then(|log| log.dirty_since(index));
        CacheUse {
            used_bytes: self.clean.slots().used_bytes_of(index) + counts.stored * PAGE,
            write_log_bytes: counts.stored * PAGE,
            dirty_bytes: counts.dirty * PAGE,
            lost_bytes: counts.lost * PAGE,
            oldest_dirty_seconds: since.map(|since| self.env.real_now().since(since).as_secs()),
        }
    }

    /// Pages of a volume in the write log.
    pub(crate) fn log_counts(&self, index: VolumeIndex) -> OverlayCounts {
        self.log.as_ref().map_or_else(OverlayCounts::default, |log| log.counts(index))
    }

    /// Why a volume is not to be served although its backing device is the right one: it lost nobody knows what.
    pub(crate) fn unknown_loss(&self, attachment: u64) -> Option<VolumeFence> {
        self.log.as_ref().and_then(|log| log.data_loss().unknown_loss(attachment))
    }

    pub(crate) fn wake_cleaner(&self) {
        if let Some(log) = &self.log {
            log.signals().cleaner_wanted.wake_all();
        }
    }
}

/// The volumes of a pool that are there, by index: one that the catalogue names comes when it is attached again after a start.
pub(crate) struct AttachedVolumes<E: Env> {
    ids: Rc<AttachmentIds>,
    there: RefCell<BTreeMap<VolumeIndex, Rc<VolumeInner<E>>>>,
}

impl<E: Env> AttachedVolumes<E> {
    /// None is there yet.
    pub(crate) fn new(ids: Rc<AttachmentIds>) -> Self {
        Self { ids, there: RefCell::default() }
    }

    /// The volume at this index, and its attachment id.
    pub(crate) fn get(&self, index: VolumeIndex) -> Option<(Rc<VolumeInner<E>>, u64)> {
        let volume = Rc::clone(self.there.borrow().get(&index)?);
        Some((volume, self.ids.of(index)?))
    }

    pub(crate) fn all(&self) -> Vec<(VolumeIndex, Rc<VolumeInner<E>>)> {
        self.there.borrow().iter().map(|(index, volume)| (*index, Rc::clone(volume))).collect()
    }

    pub(crate) fn has(&self, index: VolumeIndex) -> bool {
        self.there.borrow().contains_key(&index)
    }

    pub(crate) fn put(&self, index: VolumeIndex, volume: &Rc<VolumeInner<E>>) {
        self.there.borrow_mut().insert(index, Rc::clone(volume));
    }

    pub(crate) fn remove(&self, index: VolumeIndex) {
        self.there.borrow_mut().remove(&index);
    }

    pub(crate) fn count_evictions(&self, index: VolumeIndex, count: u32) {
        if let Some((volume, _)) = self.get(index) {
            add(&volume.stats.evicted_blocks, u64::from(count));
        }
    }

    pub(crate) fn clear(&self) {
        self.there.borrow_mut().clear();
    }
}
