//! A volume: what is true of it now, and the handle by which it is used. What happens to it is in the files beside.

use std::cell::{Cell, Ref, RefCell};
use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::Semaphore;
use hotset_block::{ByteRange, Env, Instant};

use crate::address::VolumeIndex;
use crate::advisor::tap::Tap;
use crate::config::{PAGE, VolumeName, VolumeSpec};
use crate::error::{Error, ErrorKind};
use crate::log::overlay::PAGES_MAX;
use crate::log::pace::Pace;
use crate::members::flusher::Mark;
use crate::members::io::add;
use crate::memory_cache::{MemoryCache, VolumePages};
use crate::status::VolumeStats;
use crate::volume::backing::{Backing, Failures};
use crate::volume::cleaning::VolumeCleaning;
use crate::volume::failures::HostFailures;
use crate::volume::life::{VolumeChange, VolumeLife};
use crate::volume::line::Line;
use crate::volume::locks::{Held, RangeLocks};
use crate::volume::missed::LastMisses;
use crate::volume::place::{Attached, PoolRooms};
use crate::volume::read_balance::ReadBalance;
use crate::volume::recorder::Recorder;
use crate::volume::requests::Durability;
use crate::volume::stats::Stats;
use crate::volume::streams::Streams;
use crate::volume::view::BackingView;

/// Buffers of zeroes, of `limits::ZERO_CHUNK_BYTES` each, that a volume writes at once at most.
const ZERO_CHUNKS_AT_ONCE: u64 = 4;

/// A block device that a host sees. A handle: cloning it is cheap. Each client has its own: it is told once
/// of what may be lost of what was written.
///
/// Requests: every range must lie inside the volume; at most `limits::REQUEST_BYTES_MAX` for reads, writes and populate, any
/// length for trim and write-zeroes. It may be any bytes: who serves the volume sees to it that those who know its logical block
/// keep to that. A part of a page is read, modified and written under the page's lock. A request's future is driven to its end: who no longer wants the answer lets it go on in a task of its own (rule `late-io`).
pub struct Volume<E: Env> {
    pub(crate) inner: Rc<VolumeInner<E>>,
    /// Who uses this handle was told, by a flush, that what was written up to here may not be there.
    pub(super) told: Cell<Mark>,
}

pub(crate) struct VolumeInner<E: Env> {
    pub(crate) env: E,
    pub(super) spec: Rc<RefCell<VolumeSpec>>,
    /// Whole logical blocks. It may grow.
    pub(super) size_bytes: Rc<Cell<u64>>,
    pub(crate) backing: Rc<Backing<E>>,
    pub(crate) view: BackingView<E>,
    pub(crate) locks: RangeLocks,
    /// Requests that wait for room, and those behind them.
    pub(crate) line: Line,
    /// Its pages in the memory cache of its thread.
    pub(crate) memory: Rc<VolumePages>,
    pub(super) attached: RefCell<Option<Rc<Attached<E>>>>,
    pub(super) read_streams: RefCell<Streams>,
    pub(super) write_streams: RefCell<Streams>,
    pub(super) read_balance: ReadBalance,
    /// When a stream last went around the log, although the volume has instant write-back.
    pub(super) stream_went_around: Cell<Option<Instant>>,
    pub(crate) recorder: Recorder,
    pub(crate) tap: Tap,
    pub(crate) stats: Stats,
    pub(crate) host_failures: HostFailures,
    pub(crate) last_misses: LastMisses,
    pub(crate) life: VolumeLife,
    pub(crate) cleaning: VolumeCleaning,
    pub(super) last_flush: Cell<Option<Instant>>,
    /// Parts of what takes long that are done: pieces of zeroes and trims, blocks brought in, extents cleaned.
    pub(super) steps: Cell<u64>,
    /// Pages on their way to the backing device from the log.
    pub(crate) clean_locks: RangeLocks,
    /// Decides which writes go past a dirty cap that is nearly reached.
    pub(super) pace: Pace,
    /// Buffers of zeroes that are being written.
    pub(super) zeroing: Semaphore,
}

impl<E: Env> Clone for Volume<E> {
    fn clone(&self) -> Self {
        Self::of(Rc::clone(&self.inner))
    }
}

impl<E: Env> Volume<E> {
    pub(crate) fn of(inner: Rc<VolumeInner<E>>) -> Self {
        let told = Cell::new(inner.backing.reported());
        Self { inner, told }
    }
}

impl<E: Env> VolumeInner<E> {
    /// A volume of its own, in no pool.
    pub(super) fn over(
        env: E,
        spec: VolumeSpec,
        backing: Backing<E>,
        size_bytes: u64,
        stats: Stats,
        memory: &MemoryCache,
    ) -> Rc<Self> {
        let memory = memory.pages_of_volume();
        memory.switch(spec.settings.memory_cache, spec.settings.read_ahead);
        let (spec, backing) = (Rc::new(RefCell::new(spec)), Rc::new(backing));
        let size_bytes = Rc::new(Cell::new(size_bytes));
        let view = BackingView::new(env.clone(), Rc::clone(&spec), Rc::clone(&backing), Rc::clone(&size_bytes));
        let inner = Self {
            env,
            spec,
            size_bytes,
            backing,
            view,
            locks: RangeLocks::default(),
            line: Line::default(),
            memory: Rc::new(memory),
            attached: RefCell::new(None),
            read_streams: RefCell::new(Streams::new()),
            write_streams: RefCell::new(Streams::new()),
            read_balance: ReadBalance::default(),
            stream_went_around: Cell::new(None),
            recorder: Recorder::default(),
            tap: Tap::default(),
            host_failures: HostFailures::default(),
            stats,
            last_misses: LastMisses::default(),
            life: VolumeLife::default(),
            cleaning: VolumeCleaning::default(),
            last_flush: Cell::new(None),
            steps: Cell::new(0),
            clean_locks: RangeLocks::default(),
            pace: Pace::default(),
            zeroing: Semaphore::new(ZERO_CHUNKS_AT_ONCE),
        };
        Rc::new(inner)
    }

    pub(crate) fn attached(&self) -> Option<Rc<Attached<E>>> {
        self.attached.borrow().clone()
    }

    // ---- what the frame says of it

    /// As it is called and set.
    pub(crate) fn spec(&self) -> Ref<'_, VolumeSpec> {
        self.spec.borrow()
    }

    pub(crate) fn name(&self) -> VolumeName {
        self.spec.borrow().name.clone()
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.get()
    }

    /// It is cached from here on. Nothing of what was said of it where it was before holds.
    pub(crate) fn attach(&self, attached: Attached<E>) {
        self.life.change(VolumeChange::Joined);
        // Whatever was in front of it before.
        self.memory.forget_all();
        *self.attached.borrow_mut() = Some(Rc::new(attached));
    }

    /// Its cache is taken away: what the pool could not clean is not the volume's trouble any more.
    pub(crate) fn take_leave(&self, how: VolumeChange) {
        self.detach();
        self.cleaning.forget_error();
        self.life.change(how);
    }

    /// Its pool has stopped.
    pub(crate) fn cut_off(&self) {
        self.life.change(VolumeChange::PoolStopped);
        self.detach();
    }

    /// Its backing device takes nothing of what is dirty now.
    pub(crate) fn cleaning_stalls(&self) -> bool {
        self.backing.hangs_for().is_some() || self.cleaning.has_failed()
    }

    // ---- where it is

    /// It is cached by nobody from here on.
    fn detach(&self) {
        self.count_of_log();
        *self.attached.borrow_mut() = None;
        self.memory.forget_all();
    }

    /// What was counted of it, by whomever.
    pub(super) fn counted(&self) -> VolumeStats {
        self.count_of_log();
        self.stats.snapshot()
    }

    /// What the log counted of it is counted with the rest.
    fn count_of_log(&self) {
        let Some(attached) = self.attached() else { return };
        let Some(log) = &attached.pool.log else { return };
        let tally = log.take_tally(attached.index);
        add(&self.stats.moved_bytes, tally.moved_bytes);
        add(&self.stats.reinserted_bytes, tally.reinserted_bytes);
        add(&self.stats.read_errors_hidden, tally.read_errors_hidden);
    }

    /// Where it is cached, for a request that may have waited. Refused when its pool has stopped meanwhile: what came too late to
    /// be drained neither reads what is old on the backing device, nor writes there beneath dirty data. Refused, too, of a volume that was
    /// fenced meanwhile: what is in flight there from before is not to land over it.
    pub(crate) fn place(&self) -> Result<Option<Rc<Attached<E>>>, Error> {
        self.check_not_fenced()?;
        let attached = self.attached();
        let has_stopped = attached.as_ref().is_some_and(|attached| attached.pool.life.has_stopped());
        if has_stopped || self.life.is_cut_off() {
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
        if !self.life.is_fenced() {
            return Ok(());
        }
        let why = self.life.fence().map(|fence| fence.to_string()).unwrap_or_default();
        Err(Error::new(ErrorKind::Gone, why))
    }

    /// The bytes of these pages that lie inside the volume.
    pub(crate) fn bytes_of_pages(&self, pages: &Range<u64>) -> ByteRange {
        ByteRange { start: pages.start * PAGE, end: (pages.end * PAGE).min(self.size_bytes.get()) }
    }

    pub(super) fn outside(&self, offset: u64, length: u64) -> Error {
        let name = &self.spec.borrow().name;
        let size = self.size_bytes.get();
        let message = format!("volume {name}: {length} bytes at {offset} reach past its end at {size}");
        Error::new(ErrorKind::OutOfRange, message)
    }

    pub(super) fn check(&self, range: ByteRange, length_max: u64) -> Result<(), Error> {
        if self.life.is_stopped() {
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

    pub(super) fn check_writable(&self) -> Result<(), Error> {
        if self.spec.borrow().settings.read_only || self.backing.info.read_only {
            return Err(Error::new(ErrorKind::ReadOnly, format!("volume {} is read-only", self.spec.borrow().name)));
        }
        Ok(())
    }

    /// Refuses to say that something is durable which was written before a flush failed, and flushed after.
    pub(super) fn check_durable(&self, durability: Durability, failures: Failures) -> Result<(), Error> {
        match durability {
            Durability::Durable => self.backing.check_failures(failures),
            Durability::Volatile => Ok(()),
        }
    }

    /// If it is in this place of this pool.
    pub(crate) fn attached_at(&self, pool: &Rc<PoolRooms<E>>, index: VolumeIndex) -> Option<Rc<Attached<E>>> {
        self.attached().filter(|attached| Rc::ptr_eq(&attached.pool, pool) && attached.index == index)
    }

    pub(crate) fn detached_from(&self, pool: &Rc<PoolRooms<E>>) -> bool {
        self.attached().is_none_or(|attached| !Rc::ptr_eq(&attached.pool, pool))
    }

    /// Waits for every write and discard in flight, and holds off new ones.
    pub(crate) async fn hold_all(&self) -> Held {
        self.locks.exclusive(0..PAGES_MAX).await
    }
}
