//! The face of the engine towards hosts: a volume and the requests it takes.
//!
//! Every request is checked here, then goes to its flow: `volume/read.rs`, `volume/write.rs`, `volume/zero.rs`.

// Nouns: what is true now.
pub(crate) mod held_pages;
pub(crate) mod latency;
pub(crate) mod locks;
pub(crate) mod missed;
pub(crate) mod pieces;
pub(crate) mod recorder;
pub(crate) mod streams;
pub(crate) mod turns;

// Verbs: what happens.
mod allocation;
pub(crate) mod attached_volumes;
pub(crate) mod backing;
mod carried;
pub(crate) mod cleaner;
pub(crate) mod clear;
pub(crate) mod explain;
pub(crate) mod fill;
pub(crate) mod flush_now;
pub(crate) mod identity;
pub(crate) mod in_log;
mod missed_read;
pub(crate) mod read;
mod read_ahead;
pub(crate) mod relocate;
pub(crate) mod replace_lost;
pub(crate) mod route;
pub(crate) mod view;
pub(crate) mod write;
pub(crate) mod zero;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hotset_block::{Buf, ByteRange, Discard, Env, Extent, ExtentKind, Instant, PAGE_BYTES, ZeroMode};

use crate::address::{BlockKey, VolumeIndex, pages_of};
use crate::advisor::access::Direction;
use crate::advisor::miniature::Setup;
use crate::advisor::tap::{Taken, Tap, Wanted};
use crate::config::{PAGE, PoolKind, VolumeName, VolumeSettings, VolumeSpec, limits};
use crate::error::{Error, ErrorKind};
use crate::log::read_log::LogRun;
use crate::members::flusher::Mark;
use crate::members::io::add;
use crate::memory_cache::{MemoryCache, VolumePages};
use crate::pool::PoolInner;
use crate::status::{ErrorAnswer, Health, VolumeStats, VolumeStatus};
use crate::volume::backing::{Backing, Failures};
use crate::volume::clear::{Cleared, Clearing};
use crate::volume::explain::Explanation;
use crate::volume::in_log::LoggedVolume;
use crate::volume::latency::{Latencies, LatencyCounters};
use crate::volume::locks::RangeLocks;
use crate::volume::missed::LastMisses;
use crate::volume::read::Destination;
use crate::volume::recorder::{Recorded, Recorder};
use crate::volume::streams::Streams;
use crate::volume::view::BackingView;

/// When a write may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is visible; a later flush makes it durable.
    Volatile,
    /// When it is durable (FUA).
    Durable,
}

/// How long zeroing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroEffort {
    /// As long as writing the zeroes takes.
    Any,
    /// Fail with `Unsupported` at once if it is not faster than writing (NBD's `FAST_ZERO`).
    FastOnly,
}

/// A block device that a host sees. A handle: cloning it is cheap. Each client has its own: it is told once
/// of what may be lost of what was written.
pub struct Volume<E: Env> {
    pub(crate) inner: Rc<VolumeInner<E>>,
    /// Who uses this handle was told, by a flush, that what was written up to here may not be there.
    told: Cell<Mark>,
}

pub(crate) struct VolumeInner<E: Env> {
    pub(crate) env: E,
    pub(crate) spec: Rc<RefCell<VolumeSpec>>,
    /// Whole logical blocks. It may grow.
    pub(crate) size_bytes: Rc<Cell<u64>>,
    pub(crate) backing: Rc<Backing<E>>,
    pub(crate) view: BackingView<E>,
    pub(crate) locks: RangeLocks,
    /// Its pages in the memory cache of its thread.
    pub(crate) memory: Rc<VolumePages>,
    pub(crate) attached: RefCell<Option<Rc<Attached<E>>>>,
    /// Its pool has stopped: what that holds of it may be newer than what the backing device does.
    pub(crate) is_cut_off: Cell<bool>,
    pub(crate) read_streams: RefCell<Streams>,
    pub(crate) write_streams: RefCell<Streams>,
    pub(crate) recorder: Recorder,
    pub(crate) tap: Tap,
    pub(crate) stats: Stats,
    pub(crate) last_misses: LastMisses,
    pub(crate) stopped: Cell<bool>,
    /// Its cache is being flushed, so that it can be taken away: new writes go past it.
    pub(crate) draining: Cell<bool>,
    /// An administrator wants nothing new to stay dirty, for a while.
    pub(crate) writes_held: Cell<bool>,
    /// What is dirty now is being flushed; whether that was cancelled.
    pub(crate) flushing_now: RefCell<Option<Rc<Cell<bool>>>>,
    /// Passes over what is dirty that flushes make, beside the task that cleans.
    pub(crate) passes: Cell<u32>,
    /// It has dirty data of another backing device: it serves nothing. The reason, and what to do.
    pub(crate) fenced: RefCell<Option<String>>,
    pub(crate) last_flush: Cell<Option<Instant>>,
    /// Parts of what takes long that are done: pieces of zeroes and trims, blocks brought in, extents cleaned.
    pub(crate) steps: Cell<u64>,
    /// The requests so far, and since when there were no more of them.
    pub(crate) idle_since: Cell<(u64, Instant)>,
    /// A task cleans it.
    pub(crate) cleaning: Cell<bool>,
    /// Pages on their way to the backing device from the log.
    pub(crate) clean_locks: RangeLocks,
    /// Where the next pass of the cleaner begins.
    pub(crate) sweep: Cell<u64>,
    /// Decides which writes go past a dirty cap that is nearly reached.
    pub(crate) pace: Cell<u64>,
    pub(crate) clean_error: RefCell<Option<String>>,
}

/// A volume's place in a pool.
pub(crate) struct Attached<E: Env> {
    pub(crate) pool: Rc<PoolInner<E>>,
    pub(crate) index: VolumeIndex,
    /// Pages whose fingerprint is settled: the first write to one is recorded before it is done.
    pub(crate) settled_pages: RefCell<Vec<u64>>,
    /// What was written to the backing device beside the cleaner: clean as soon as that was flushed.
    pub(crate) written_out: RefCell<Vec<(Mark, LogRun)>>,
}

macro_rules! counters {
    ($([$(
        $(#[$api:meta])* $name:ident, $metric:literal, $help:literal, history($($kept:tt)*);
    )*])*) => {
        /// The counters behind [`VolumeStats`].
        #[derive(Default)]
        pub(crate) struct Stats {
            $($(pub(crate) $name: Cell<u64>,)*)*
            read_latency: Latencies,
            write_latency: Latencies,
        }

        impl Stats {
            /// Goes on counting from there.
            fn resumed(stats: VolumeStats, (reads, writes): (LatencyCounters, LatencyCounters)) -> Self {
                Self {
                    $($($name: Cell::new(stats.$name),)*)*
                    read_latency: reads.into(),
                    write_latency: writes.into(),
                }
            }

            fn snapshot(&self) -> VolumeStats {
                VolumeStats { $($($name: self.$name.get(),)*)* }
            }
        }
    };
}
hotset_counters::volume_counters!(counters);

impl<E: Env> Clone for Volume<E> {
    fn clone(&self) -> Self {
        Self::of(Rc::clone(&self.inner))
    }
}

/// Requests: every range must lie inside the volume; at most `limits::REQUEST_BYTES_MAX` for reads, writes and populate, any
/// length for trim and write-zeroes. It may be any bytes: who serves the volume sees to it that those who know its logical block
/// keep to that. A part of a page is read, modified and written under the page's lock. A request's future is driven to its end: who no longer wants the answer lets it go on in a task of its own (rule `late-io`).
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
        Ok(Self::over(env, spec, backing, size_bytes, Stats::default(), memory))
    }

    fn over(
        env: E,
        spec: VolumeSpec,
        backing: Backing<E>,
        size_bytes: u64,
        stats: Stats,
        memory: &MemoryCache,
    ) -> Self {
        let memory = memory.pages_of_volume();
        memory.switch(spec.settings.memory_cache, spec.settings.read_ahead);
        let (spec, backing) = (Rc::new(RefCell::new(spec)), Rc::new(backing));
        let size_bytes = Rc::new(Cell::new(size_bytes));
        let view = BackingView::new(env.clone(), Rc::clone(&spec), Rc::clone(&backing), Rc::clone(&size_bytes));
        let inner = VolumeInner {
            env,
            spec,
            size_bytes,
            backing,
            view,
            locks: RangeLocks::default(),
            memory: Rc::new(memory),
            attached: RefCell::new(None),
            is_cut_off: Cell::new(false),
            read_streams: RefCell::new(Streams::new()),
            write_streams: RefCell::new(Streams::new()),
            recorder: Recorder::default(),
            tap: Tap::default(),
            stats,
            last_misses: LastMisses::default(),
            stopped: Cell::new(false),
            draining: Cell::new(false),
            writes_held: Cell::new(false),
            flushing_now: RefCell::default(),
            passes: Cell::new(0),
            fenced: RefCell::default(),
            last_flush: Cell::new(None),
            steps: Cell::new(0),
            idle_since: Cell::default(),
            cleaning: Cell::new(false),
            clean_locks: RangeLocks::default(),
            sweep: Cell::new(0),
            pace: Cell::new(0),
            clean_error: RefCell::default(),
        };
        Self::of(Rc::new(inner))
    }

    pub(crate) fn of(inner: Rc<VolumeInner<E>>) -> Self {
        let told = Cell::new(inner.backing.reported());
        Self { inner, told }
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

    /// Begins to record what hosts read and write; false: somebody does so already.
    pub fn begin_recording(&self) -> bool {
        self.inner.recorder.begin(self.inner.env.now())
    }

    /// What was recorded since the last time; `None`: nothing is recorded, or nobody has asked for ten seconds.
    pub fn take_recorded(&self) -> Option<Recorded> {
        self.inner.recorder.take(self.inner.env.now())
    }

    pub fn end_recording(&self) {
        self.inner.recorder.end();
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
            }
            ErrorAnswer::Invalid => add(&stats.invalid, 1),
        }
    }

    /// Whether TRIM changes anything here (the backing device's discard reads back zero).
    pub fn trims(&self) -> bool {
        self.inner.backing.info.discard == Discard::Zeroes
    }

    /// The newest bytes of `range`, in a buffer of the engine's: for whoever has no memory of its own for them, this copies
    /// nothing, whatever the range.
    pub async fn read(&self, range: ByteRange) -> Result<Buf, Error> {
        self.read_to(range, Destination::Own).await
    }

    /// Reads the newest bytes from `offset` on into `buf`, as many as it holds, and answers it. Nothing is copied if the range is
    /// whole pages and `buf` lies at a page in memory; else the bytes are read elsewhere and copied once.
    ///
    /// The answer is another buffer if a device failed to fill `buf` and the bytes had to come from a second one. The failed one
    /// keeps `buf`, and may write to it, until the kernel gives it back (rule `late-io`): so it does after an error.
    pub async fn read_into(&self, offset: u64, mut buf: Buf) -> Result<Buf, Error> {
        let volume = &self.inner;
        let length = u64::try_from(buf.len()).expect("a length fits in 64 bits");
        let end = offset.checked_add(length).ok_or_else(|| volume.outside(offset, length))?;
        let range = ByteRange { start: offset, end };
        let whole_pages = offset.is_multiple_of(PAGE) && end.is_multiple_of(PAGE);
        if whole_pages && buf.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return self.read_to(range, Destination::Given(buf)).await;
        }
        buf.copy_from_slice(&self.read_to(range, Destination::Own).await?);
        Ok(buf)
    }

    async fn read_to(&self, range: ByteRange, destination: Destination) -> Result<Buf, Error> {
        let volume = &self.inner;
        volume.check(range, limits::REQUEST_BYTES_MAX)?;
        if range.is_empty() {
            return Ok(volume.env.buffers().take(0));
        }
        volume.recorder.note(range, Direction::Read, || volume.env.now());
        let began = volume.stats.read_latency.begin(|| volume.env.real_now());
        let result = volume.read_range(range, destination).await;
        volume.stats.read_latency.end(began, || volume.env.real_now());
        // Here, in the turn in which a hit is counted: hits per read never exceed one, whenever somebody looks.
        add(&volume.stats.reads, 1);
        add(&volume.stats.read_bytes, range.length());
        result
    }

    /// Stores `buf` at `offset`. The buffer comes back to its pool when the last device is done with it.
    pub async fn write(&self, offset: u64, buf: Buf, durability: Durability) -> Result<(), Error> {
        let volume = &self.inner;
        let length = u64::try_from(buf.len()).expect("a length fits in 64 bits");
        let end = offset.checked_add(length).ok_or_else(|| volume.outside(offset, length))?;
        let range = ByteRange { start: offset, end };
        volume.check(range, limits::REQUEST_BYTES_MAX)?;
        volume.check_writable()?;
        if buf.is_empty() {
            return Ok(());
        }
        volume.recorder.note(range, Direction::Write, || volume.env.now());
        let began = volume.stats.write_latency.begin(|| volume.env.real_now());
        let failures = volume.backing.failures();
        let result = volume.write_range(offset, buf, durability).await;
        let result = result.and_then(|()| volume.check_durable(durability, failures));
        volume.stats.write_latency.end(began, || volume.env.real_now());
        result
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
            attached.pool.filler.populate_block(BlockKey { volume: attached.index, block }).await;
            add(&volume.steps, 1);
        }
        Ok(())
    }

    /// Which parts of `range` are allocated, at most `extents_max`; may end before the range does, never empty for a
    /// range that is not. What has its newest
    /// version in the write log is data, whatever the backing device says.
    pub fn block_status(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, Error> {
        let volume = &self.inner;
        volume.check(range, u64::MAX)?;
        let data = vec![Extent { length: range.length(), kind: ExtentKind::Data }];
        let extents = match volume.backing.allocation(range, extents_max) {
            Some(extents) if !extents.is_empty() => extents,
            Some(_) | None => return Ok(data),
        };
        let attached = volume.attached();
        let logged = attached.as_deref().and_then(|attached| LoggedVolume::of(volume, attached));
        Ok(match logged {
            Some(logged) => logged.with_live_pages(range, extents, extents_max),
            None => extents,
        })
    }

    pub fn status(&self) -> VolumeStatus {
        let volume = &self.inner;
        let spec = volume.spec.borrow();
        let attached = volume.attached();
        let own = volume.own_health(attached.as_deref());
        let of_the_pool =
            || attached.as_ref().map_or((Health::Good, String::new()), |attached| attached.pool.health.health());
        let (own_health, (health, reason)) = (own.is_some(), own.unwrap_or_else(of_the_pool));
        let uses = attached.as_ref().map(|attached| attached.pool.use_of(attached.index)).unwrap_or_default();
        VolumeStatus {
            name: spec.name.clone(),
            backing: spec.backing.clone(),
            settings: spec.settings,
            size_bytes: volume.size_bytes.get(),
            unserved_bytes: volume.backing.unserved_bytes(volume.size_bytes.get()),
            pool: attached.as_ref().map(|attached| attached.pool.name.clone()),
            health,
            own_health,
            reason,
            cache_used_bytes: uses.used_bytes,
            write_cache_used_bytes: uses.write_log_bytes,
            dirty_bytes: uses.dirty_bytes,
            lost_bytes: uses.lost_bytes,
            oldest_dirty_seconds: uses.oldest_dirty_seconds,
            draining: volume.draining.get(),
            writes_held: volume.writes_held.get(),
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
        let now = self.settings();
        if (settings.logical_block_bytes, settings.read_only) != (now.logical_block_bytes, now.read_only) {
            let message = "the logical block and read-only cannot change while the volume exists: delete and create it";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        settings.check()?;
        let attached = volume.attached();
        if let Some(attached) = &attached {
            attached.pool.shares.check_shares(&self.name(), &settings)?;
            attached.pool.attachments.record_settings(attached.index, settings).await?;
        }
        volume.spec.borrow_mut().settings = settings;
        volume.memory.switch(settings.memory_cache, settings.read_ahead);
        if let Some(attached) = attached {
            attached.pool.shares.apply_share(attached.index, &settings);
            attached.pool.wake_cleaner();
        }
        Ok(())
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

    /// Takes in what was added to the backing device since it was opened, with all that is cached and dirty kept: durable in
    /// the volume's pool when this answers. Answers the size, which may be as before. The caller tells hosts.
    pub async fn grow(&self) -> Result<u64, Error> {
        let volume = &self.inner;
        let (now, size_bytes) = (volume.size_bytes.get(), volume.view.size_of_backing()?);
        if size_bytes <= now {
            return Ok(now);
        }
        if !now.is_multiple_of(PAGE) {
            let message = format!(
                "volume {}: its backing device grew to {size_bytes} bytes, but {now} bytes are no whole number of pages of \
                 {PAGE} bytes: its last page cannot be told from a changed one; take it out of its pool and open it anew",
                self.name()
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        if volume.attached().is_none() {
            // A pool that it joins holds it, and is about to record the size that it had.
            let _held = volume.view.in_time(volume.hold_all()).await?;
            if volume.attached().is_none() {
                volume.size_bytes.set(size_bytes.max(volume.size_bytes.get()));
                return Ok(volume.size_bytes.get());
            }
        }
        if let Some(attached) = volume.attached() {
            attached.pool.grow_volume(&attached, volume, size_bytes).await?;
        }
        Ok(volume.size_bytes.get())
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

    /// Whether [`Volume::grow`] has something to do.
    pub fn can_grow(&self) -> bool {
        self.inner.view.size_of_backing().is_ok_and(|size_bytes| size_bytes > self.inner.size_bytes.get())
    }

    /// Refuses all further requests; those in flight go on.
    pub fn stop(&self) {
        self.inner.stopped.set(true);
    }
}

impl<E: Env> VolumeInner<E> {
    pub(crate) fn attached(&self) -> Option<Rc<Attached<E>>> {
        self.attached.borrow().clone()
    }

    /// It is cached by nobody from here on.
    pub(crate) fn detach(&self) {
        self.count_of_log();
        *self.attached.borrow_mut() = None;
        self.memory.forget_all();
    }

    /// What was counted of it, by whomever.
    fn counted(&self) -> VolumeStats {
        self.count_of_log();
        self.stats.snapshot()
    }

    /// What the log counted of it is counted with the rest.
    fn count_of_log(&self) {
        let Some(attached) = self.attached() else { return };
        let Some(log) = &attached.pool.log else { return };
        let tally = log.take_tally(attached.index);
        add(&self.stats.moved_bytes, tally.moved_bytes);
        add(&self.stats.read_errors_hidden, tally.read_errors_hidden);
    }

    /// Where it is cached, for a request that may have waited. Refused when its pool has stopped meanwhile: what came too late to
    /// be drained neither reads what is old on the backing device, nor writes there beneath dirty data.
    pub(crate) fn place(&self) -> Result<Option<Rc<Attached<E>>>, Error> {
        let attached = self.attached();
        let has_stopped = attached.as_ref().is_some_and(|attached| attached.pool.life.has_stopped());
        if has_stopped || self.is_cut_off.get() {
            return Err(self.stopping());
        }
        Ok(attached)
    }

    /// What a request is told that comes too late.
    pub(crate) fn stopping(&self) -> Error {
        Error::new(ErrorKind::Stopping, format!("volume {} is being stopped", self.spec.borrow().name))
    }

    /// A fenced volume serves nothing.
    pub(crate) fn check_not_fenced(&self) -> Result<(), Error> {
        match &*self.fenced.borrow() {
            Some(reason) => Err(Error::new(ErrorKind::Gone, reason.clone())),
            None => Ok(()),
        }
    }

    fn outside(&self, offset: u64, length: u64) -> Error {
        let name = &self.spec.borrow().name;
        let size = self.size_bytes.get();
        let message = format!("volume {name}: {length} bytes at {offset} reach past its end at {size}");
        Error::new(ErrorKind::OutOfRange, message)
    }

    fn check(&self, range: ByteRange, length_max: u64) -> Result<(), Error> {
        if self.stopped.get() {
            return Err(self.stopping());
        }
        self.check_not_fenced()?;
        if range.end > self.size_bytes.get() {
            return Err(self.outside(range.start, range.length()));
        }
        if range.length() > length_max {
            let message = format!("a request of {} bytes at {} is too long", range.length(), range.start);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<(), Error> {
        if self.spec.borrow().settings.read_only || self.backing.info.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, format!("volume {} is read-only", self.spec.borrow().name)));
        }
        Ok(())
    }

    /// Refuses to say that something is durable which was written before a flush failed, and flushed after.
    fn check_durable(&self, durability: Durability, failures: Failures) -> Result<(), Error> {
        match durability {
            Durability::Durable => self.backing.check_failures(failures),
            Durability::Volatile => Ok(()),
        }
    }

    /// What is wrong with the volume itself, whatever its pool is like.
    fn own_health(&self, attached: Option<&Attached<E>>) -> Option<(Health, String)> {
        if let Some(reason) = self.backing.latched() {
            return Some((Health::Failed, reason));
        }
        if let Some(reason) = &*self.fenced.borrow() {
            return Some((Health::Failed, reason.clone()));
        }
        let lost = attached.map_or(0, |attached| attached.pool.log_counts(attached.index).lost * PAGE);
        if let Some(attached) = attached.filter(|_| lost > 0) {
            let why = attached.pool.log.as_ref().map(|log| log.data_loss().why_lost(Some(attached.index)));
            let reason = format!(
                "{lost} bytes that hosts wrote are unavailable, and reads of them fail: {}; everything else is served",
                why.unwrap_or_default()
            );
            return Some((Health::Degraded, reason));
        }
        if let Some(reason) = &*self.clean_error.borrow() {
            let reason = format!("its dirty data cannot be written to the backing device, and is kept: {reason}");
            return Some((Health::Degraded, reason));
        }
        if let Some((what, silence)) = self.backing.hangs_for() {
            let reason =
                format!("backing device {} has answered no {what} for {} s", self.backing.name, silence.as_secs());
            return Some((Health::Degraded, reason));
        }
        None
    }
}
