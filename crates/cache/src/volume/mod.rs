//! The face of the engine towards hosts: a volume and the requests it takes, but for reads (`volume/read.rs`) and writes
//! (`volume/write.rs`).

// Nouns: what is true now.
pub(crate) mod by_pages;
pub(crate) mod cleaning;
pub(crate) mod destination;
pub(crate) mod effort;
pub(crate) mod failures;
pub(crate) mod held_pages;
pub(crate) mod latency;
pub(crate) mod life;
pub(crate) mod line;
pub(crate) mod locks;
pub(crate) mod missed;
pub(crate) mod pieces;
mod read_balance;
pub(crate) mod recorder;
pub(crate) mod requests;
pub(crate) mod seeks;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod streams;
pub(crate) mod turn_shares;
pub(crate) mod turns;

// Verbs: what happens.
mod allocation;
pub(crate) mod around;
pub(crate) mod backing;
mod carried;
pub(crate) mod cleaner;
pub(crate) mod clear;
pub(crate) mod explain;
pub(crate) mod fill;
pub(crate) mod flush_now;
mod grow;
mod health;
pub(crate) mod identity;
pub(crate) mod in_log;
pub(crate) mod inner;
mod missed_read;
pub(crate) mod place;
mod plan;
pub(crate) mod read;
mod read_ahead;
pub(crate) mod relocate;
pub(crate) mod replace_lost;
pub(crate) mod route;
pub(crate) mod shares;
mod stream_read;
pub(crate) mod view;
pub(crate) mod write;
pub(crate) mod zero;

use hotset_block::{ByteRange, Discard, Env, Extent, ZeroMode};

use crate::address::{BlockKey, pages_of};
use crate::advisor::miniature::Setup;
use crate::advisor::tap::{Taken, Wanted};
use crate::config::{PoolKind, VolumeName, VolumeSettings, VolumeSpec, limits};
use crate::error::{Error, ErrorKind};
use crate::members::io::add;
use crate::memory_cache::MemoryCache;
use crate::reasons::VolumeReason;
use crate::status::{ErrorAnswer, Health, VolumeStatus};
use crate::volume::backing::Backing;
use crate::volume::clear::{Cleared, Clearing};
use crate::volume::explain::Explanation;
use crate::volume::failures::Failure;
use crate::volume::fill::Filler;
use crate::volume::inner::{Volume, VolumeInner};
use crate::volume::latency::LatencyCounters;
use crate::volume::life::VolumeChange;
use crate::volume::recorder::Recorded;
use crate::volume::requests::{Durability, ZeroEffort};
use crate::volume::shares::VolumeShares;
use crate::volume::stats::Stats;

impl<E: Env> Volume<E> {
    /// A volume over `backing`, cached by nothing, not even in memory. Fails if the settings do not fit the device.
    pub fn open(env: E, spec: VolumeSpec, backing: E::Device) -> Result<Self, Error> {
        Self::open_in(env, spec, backing, &MemoryCache::new(0))
    }

    /// A volume over `backing`, not cached but in `memory`, which is its thread's. Fails if the settings do not fit the device.
    pub fn open_in(env: E, spec: VolumeSpec, backing: E::Device, memory: &MemoryCache) -> Result<Self, Error> {
        spec.settings.check()?;
        let backing = Backing::new(env.clone(), spec.backing.clone(), backing);
        let info = backing.info;
        if !matches!(spec.settings.logical_block_bytes, 512 | 4096) {
            let message = format!("logical block of {} bytes: it is 512 or 4096", spec.settings.logical_block_bytes);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if !matches!(info.logical_block_bytes, 512 | 4096) {
            let message =
                format!("{} has blocks of {} bytes: 512 and 4096 are known", spec.backing, info.logical_block_bytes);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let unit = u64::from(spec.settings.logical_block_bytes);
        let size_bytes = info.size_bytes / unit * unit;
        if size_bytes == 0 {
            let message = format!("backing device {} has no room for a single block of {unit} bytes", spec.backing);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Self::of(VolumeInner::over(env, spec, backing, size_bytes, Stats::default(), memory)))
    }

    pub fn size_bytes(&self) -> u64 {
        self.inner.size_bytes.get()
    }

    pub fn name(&self) -> VolumeName {
        self.inner.spec.borrow().name.clone()
    }

    pub fn settings(&self) -> VolumeSettings {
        self.inner.spec.borrow().settings
    }

    /// Whether hosts may write: neither the settings nor the backing device forbid it.
    pub fn is_read_only(&self) -> bool {
        self.settings().read_only || self.inner.backing.info.read_only
    }

    /// The transfer that the backing device likes best, in bytes; 0 if it does not say.
    pub fn optimal_io_bytes(&self) -> u32 {
        self.inner.backing.info.optimal_io_bytes
    }

    /// Begins to record what hosts read and write; answers the recording's id, of 53 bits, so that any program can hold it. `None`: somebody records
    /// already.
    pub fn begin_recording(&self) -> Option<u64> {
        let id = self.inner.env.random() >> 11;
        self.inner.recorder.begin(self.inner.env.now(), id).then_some(id)
    }

    /// What was recorded since the portion before this one; the same again, if it is asked for again. Portions have numbers that follow each other.
    /// `None`: there is no recording of this id, or nobody has asked for ten seconds.
    pub fn take_recorded(&self, id: u64, portion: u64) -> Option<Recorded> {
        self.inner.recorder.take(self.inner.env.now(), id, portion)
    }

    /// Ends the recording of this id, if it is there.
    pub fn end_recording(&self, id: u64) {
        self.inner.recorder.end(id);
    }

    /// Where the page is now in which this byte lies, and what keeps it out of the cache. Fails if it lies outside the volume.
    pub fn explain(&self, offset: u64) -> Result<Explanation, Error> {
        if offset >= self.size_bytes() {
            return Err(self.inner.outside(offset, 1));
        }
        Ok(self.inner.explain(offset))
    }

    /// Which of its pool's settings decide what is cached; `None`: it has no pool.
    pub fn pool_setup(&self) -> Option<Setup> {
        let attached = self.inner.attached()?;
        let settings = attached.pool.settings.get();
        Some(Setup {
            kind: if attached.pool.log.is_some() { PoolKind::ReadWrite } else { PoolKind::Read },
            block_bytes: settings.block_bytes,
            // What `auto` gains by following another one is not in the curves.
            policy: settings.policy.begins_with(),
            populate_on_read: settings.populate_on_read,
            populate_on_write: settings.populate_on_write,
        })
    }

    /// Accesses of hosts since the last time, for curves of what a cache would do; from now on those that are wanted.
    pub fn take_accesses(&self, wanted: Wanted) -> Taken {
        self.inner.tap.take(wanted)
    }

    /// Changes while something goes on that takes long: zeroes, trims, filling on request, cleaning. Hosts that wait for it
    /// are not told that it failed.
    pub fn steps(&self) -> u64 {
        self.inner.steps.get()
    }

    /// A host was answered with an error, by whatever layer: serving it counts, and nobody else.
    pub fn count_error_answer(&self, answer: ErrorAnswer) {
        let stats = &self.inner.stats;
        match answer {
            ErrorAnswer::Failed => add(&stats.errors, 1),
            ErrorAnswer::TimedOut => {
                add(&stats.errors, 1);
                add(&stats.timed_out, 1);
                let backing = &self.inner.backing.name;
                let message =
                    format!("a request was not answered in time: backing device {backing}, or an SSD, does not answer");
                self.note_failure(&Error::new(ErrorKind::Gone, message));
            }
            ErrorAnswer::Invalid => add(&stats.invalid, 1),
        }
    }

    /// Why a host was answered with an error, by the layer that does.
    pub fn note_failure(&self, error: &Error) {
        self.inner.host_failures.note(error);
    }

    /// Why hosts were answered with errors since this was asked last.
    pub fn take_failures(&self) -> Vec<Failure> {
        self.inner.host_failures.take()
    }

    /// Whether TRIM changes anything here (the backing device's discard reads back zero).
    pub fn trims(&self) -> bool {
        self.inner.backing.info.discard == Discard::Zeroes
    }

    /// Makes every write durable that was answered before this call, on any connection.
    pub async fn flush(&self) -> Result<(), Error> {
        let volume = &self.inner;
        add(&volume.stats.flushes, 1);
        if self.is_read_only() {
            return Ok(());
        }
        volume.last_flush.set(Some(volume.env.now()));
        let (failures, told) = (volume.backing.failures(), self.told.get());
        let flushed = volume.flush_all().await.and_then(|()| volume.check_durable(Durability::Durable, failures));
        let untold = volume.backing.check_told(told);
        if untold.is_err() || (flushed.is_err() && volume.backing.latched().is_some()) {
            self.told.set(volume.backing.report());
        }
        flushed.and(untold)
    }

    /// Gives a range back to the backing device, where its discard reads back zero; else changes nothing.
    pub async fn trim(&self, range: ByteRange, durability: Durability) -> Result<(), Error> {
        let volume = &self.inner;
        volume.check(range, u64::MAX)?;
        volume.check_writable()?;
        if range.is_empty() {
            return Ok(());
        }
        let failures = volume.backing.failures();
        let result = volume.trim_range(range, durability).await;
        result.and_then(|()| volume.check_durable(durability, failures))
    }

    /// Makes a range read as zeroes.
    pub async fn write_zeroes(
        &self,
        range: ByteRange,
        mode: ZeroMode,
        effort: ZeroEffort,
        durability: Durability,
    ) -> Result<(), Error> {
        let volume = &self.inner;
        volume.check(range, u64::MAX)?;
        volume.check_writable()?;
        if range.is_empty() {
            return Ok(());
        }
        let failures = volume.backing.failures();
        let result = volume.zero_range(range, mode, effort, durability).await;
        result.and_then(|()| volume.check_durable(durability, failures))
    }

    /// Brings the blocks of `range` into the cache, as far as there is room (NBD's `CACHE`).
    pub async fn populate(&self, range: ByteRange) -> Result<(), Error> {
        let volume = &self.inner;
        volume.check(range, limits::REQUEST_BYTES_MAX)?;
        let Some(attached) = volume.attached() else { return Ok(()) };
        let pages = pages_of(range);
        for (block, _) in attached.pool.blocks.of(pages) {
            Filler::of(&attached.pool).populate_block(BlockKey { volume: attached.index, block }).await;
            add(&volume.steps, 1);
        }
        Ok(())
    }

    /// Which parts of `range` are allocated, at most `extents_max`; may end before the range does, never empty for a
    /// range that is not. What has its newest version in the write log is data, whatever the backing device says; and all is data
    /// if that says nothing in time.
    pub async fn block_status(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, Error> {
        let volume = &self.inner;
        volume.check(range, u64::MAX)?;
        Ok(volume.allocation(range, extents_max).await)
    }

    pub fn status(&self) -> VolumeStatus {
        let volume = &self.inner;
        let spec = volume.spec.borrow();
        let attached = volume.attached();
        let own = volume.own_health(attached.as_deref());
        let of_the_pool = || match attached.as_ref().map(|attached| attached.pool.health()) {
            Some((health, reason)) => (health, reason.map(VolumeReason::OfPool)),
            None => (Health::Good, None),
        };
        let (health, reason) = own.map_or_else(of_the_pool, |(health, reason)| (health, Some(reason)));
        let uses = attached.as_ref().map(|attached| attached.pool.use_of(attached.index)).unwrap_or_default();
        VolumeStatus {
            name: spec.name.clone(),
            backing: spec.backing.clone(),
            settings: spec.settings,
            size_bytes: volume.size_bytes.get(),
            unserved_bytes: volume.backing.unserved_bytes(volume.size_bytes.get()),
            pool: attached.as_ref().map(|attached| attached.pool.name.clone()),
            health,
            reason,
            cache_used_bytes: uses.used_bytes,
            write_cache_used_bytes: uses.write_log_bytes,
            dirty_bytes: uses.dirty_bytes,
            lost_bytes: uses.lost_bytes,
            oldest_dirty_seconds: uses.oldest_dirty_seconds,
            draining: volume.life.is_draining(),
            writes_held: volume.life.holds_writes(),
            backing_emulated: volume.backing.info.emulated,
            backing_io: volume.backing.io.snapshot(),
            stats: volume.counted(),
        }
    }

    /// How long reads and writes of hosts took since the volume was opened, of those that were timed: counters to be read
    /// on another thread, at any time.
    pub fn latencies(&self) -> (LatencyCounters, LatencyCounters) {
        let stats = &self.inner.stats;
        (stats.read_latency.counters(), stats.write_latency.counters())
    }

    /// Changes the settings that can change while hosts use the volume (cut-offs, write mode, read caching, memory cache, shares);
    /// refuses the others, and shares that the pool has no room for.
    pub async fn set(&self, settings: VolumeSettings) -> Result<(), Error> {
        let volume = &self.inner;
        self.check(settings)?;
        let attached = volume.attached();
        if let Some(attached) = &attached {
            attached.pool.attachments.record_settings(attached.index, settings).await?;
        }
        volume.spec.borrow_mut().settings = settings;
        volume.memory.switch(settings.memory_cache, settings.read_ahead);
        if let Some(attached) = attached {
            VolumeShares::of(&attached.pool).apply_share(attached.index, &settings);
            attached.pool.wake_cleaner();
        }
        Ok(())
    }

    /// Whether it can have these settings now; changes nothing.
    ///
    /// # Errors
    /// What [`Volume::set`] would refuse.
    pub fn check(&self, settings: VolumeSettings) -> Result<(), Error> {
        let now = self.settings();
        if (settings.logical_block_bytes, settings.read_only) != (now.logical_block_bytes, now.read_only) {
            let message = "the logical block and read-only cannot change while the volume exists: delete and create it";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        settings.check()?;
        match self.inner.attached() {
            Some(attached) => VolumeShares::of(&attached.pool).check_shares(&self.name(), &settings),
            None => Ok(()),
        }
    }

    /// Gives the volume another name, in its pool too: durable when this answers. The caller sees to it that no other volume
    /// has that name, and to where hosts find it.
    pub async fn rename(&self, name: VolumeName) -> Result<(), Error> {
        if let Some(attached) = self.inner.attached() {
            attached.pool.attachments.record_name(attached.index, &name).await?;
        }
        self.inner.spec.borrow_mut().name = name;
        Ok(())
    }

    /// Checks the backing device and opens it again, if a flush of it failed, it was away or takes no writes. `open` opens it
    /// after it was closed, and may block briefly. Refused, with nothing changed, while it does not answer or the volume
    /// is fenced; if it cannot be opened, or is not as it was, reads of it fail until this succeeds.
    pub async fn clear(&self, open: impl AsyncFnOnce() -> Result<E::Device, Error>) -> Result<Cleared, Error> {
        Clearing::of(&self.inner).run(open).await
    }

    /// The backing device was closed and could not be opened again: [`Volume::clear`] is to be tried again.
    pub fn is_closed(&self) -> bool {
        self.inner.backing.is_closed()
    }

    /// Refuses all further requests; those in flight go on.
    pub fn stop(&self) {
        self.inner.life.change(VolumeChange::Stopped);
    }
}
