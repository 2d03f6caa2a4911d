//! The face of the engine towards the administrator: a cache pool.

// Nouns: what is true now.
pub(crate) mod scrub_progress;

// Verbs: what happens.
pub(crate) mod accept_loss;
pub(crate) mod attach;
pub(crate) mod close;

pub(crate) mod create;
pub(crate) mod departure;
pub(crate) mod detach;
pub(crate) mod health;
pub(crate) mod join;
pub(crate) mod old_copy;
pub(crate) mod open;
pub(crate) mod publish;
pub(crate) mod redirect;
pub(crate) mod remove;
pub(crate) mod scrub;
pub(crate) mod shares;
pub(crate) mod silence;
pub(crate) mod survey;
pub(crate) mod takeover;
pub(crate) mod upgrade;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hotset_block::Env;
use hotset_block::sync::Semaphore;

use crate::address::{Blocks, VolumeIndex};
use crate::attachment_ids::AttachmentIds;
use crate::attachments::Attachments;
use crate::attachments::evidence::BackingEvidence;
use crate::clean::Clean;
use crate::clean::links::SLOTS_MAX;
use crate::config::{PoolKind, PoolName, PoolSettings, VolumeName, VolumeSpec, limits};
use crate::error::{Error, ErrorKind, Remedy};
use crate::format::layout::{Layout, segment_bytes_for};
use crate::log::Log;
use crate::log::capacity::{LogSize, ROWS_MIN, capacity};
use crate::log::overlay::Counts;
use crate::members::Members;
use crate::members::label::Named;
use crate::members::pool_life::PoolLife;
use crate::members::ssd::Ssd;
use crate::memory::MemoryTerms;
use crate::pool::health::PoolHealth;
use crate::pool::join::Joiner;
use crate::pool::publish::Publisher;
use crate::pool::remove::Removed;
use crate::pool::scrub::Scrubber;
use crate::pool::shares::Shares;
use crate::pool::silence::SsdWatch;
use crate::status::{
    CacheUse, FailedSsd, PoolPlan, PoolStatus, ScrubStatus, SsdStatus, SsdWritesStatus, WriteLogStatus,
};
use crate::volume::Volume;
use crate::volume::attached_volumes::AttachedVolumes;
use crate::volume::cleaner::Drained;
use crate::volume::fill::Filler;

/// What a new pool is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    pub name: PoolName,
    pub kind: PoolKind,
    pub settings: PoolSettings,
}

/// How an open treats SSDs of the pool that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Refuse, naming them; the caller waits and tries again.
    Refuse,
    /// Go on without them: they leave the pool, and what they hold is never believed again. Dirty data is not given up.
    Leave,
    /// As [`Self::Leave`], and give up the dirty data of which no copy is left, and the proof that what is left is the newest.
    AcceptLoss,
}

/// The SSDs that are away with the only copies of dirty data, as the pool's copy in the state directory says: while they are, the
/// pool has use for them although they left it.
pub async fn ssds_awaited<E: Env>(env: &E, state: &E::Device) -> Result<Vec<u128>, Error> {
    crate::pool::survey::ssds_awaited(env, state).await
}

/// A cache pool. A handle: cloning it is cheap.
pub struct Pool<E: Env> {
    pub(crate) inner: Rc<PoolInner<E>>,
}

/// A pool is a frame over its rooms, `members`, `clean`, `log` and `attachments`, and over parts that see to one thing each.
pub(crate) struct PoolInner<E: Env> {
    pub(crate) env: E,
    pub(crate) uuid: u128,
    pub(crate) name: PoolName,
    pub(crate) kind: PoolKind,
    pub(crate) settings: Rc<Cell<PoolSettings>>,
    pub(crate) blocks: Blocks,
    pub(crate) members: Rc<Members<E>>,
    pub(crate) clean: Rc<Clean<E>>,
    pub(crate) attachments: Rc<Attachments<E>>,
    pub(crate) ids: Rc<AttachmentIds>,
    pub(crate) volumes: Rc<AttachedVolumes<E>>,
    /// One removal of SSDs at a time.
    removal_lock: Semaphore,
    removal_cancelled: Cell<bool>,
    /// One attach, detach or setting at a time.
    pub(crate) admin_lock: Rc<Semaphore>,
    pub(crate) life: Rc<PoolLife>,
    recovery: RefCell<String>,
    /// The write log of a read-write pool.
    pub(crate) log: Option<Rc<Log<E>>>,
    pub(crate) filler: Rc<Filler<E>>,
    publisher: Rc<Publisher<E>>,
    pub(crate) shares: Rc<Shares<E>>,
    scrubber: Rc<Scrubber<E>>,
    joiner: Rc<Joiner<E>>,
    watch: Rc<SsdWatch<E>>,
    pub(crate) health: PoolHealth<E>,
}

/// What the parts of a pool work on.
struct Shared<E: Env> {
    env: E,
    uuid: u128,
    name: PoolName,
    kind: PoolKind,
    settings: Rc<Cell<PoolSettings>>,
    blocks: Blocks,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    attachments: Rc<Attachments<E>>,
    ids: Rc<AttachmentIds>,
    log: Option<Rc<Log<E>>>,
    volumes: Rc<AttachedVolumes<E>>,
    admin_lock: Rc<Semaphore>,
}

impl<E: Env> Clone for Pool<E> {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

impl<E: Env> Pool<E> {
    /// What a pool of this kind over SSDs of these sizes would be; fails if they do not fit.
    pub fn plan(spec: &PoolSpec, ssd_sizes_bytes: &[u64]) -> Result<PoolPlan, Error> {
        spec.settings.check(spec.kind)?;
        if spec.kind == PoolKind::ReadWrite && ssd_sizes_bytes.len() < 2 {
            let message =
                format!("pool {}: a read-write pool needs at least two SSDs, for two copies of dirty data", spec.name);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let smallest = ssd_sizes_bytes.iter().min().ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("pool {}: a pool needs at least one SSD", spec.name))
        })?;
        if ssd_sizes_bytes.len() > limits::SSDS_MAX {
            let message = format!("pool {}: a pool has at most {} SSDs", spec.name, limits::SSDS_MAX);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let block_bytes = spec.settings.block_bytes;
        let segment_bytes = segment_bytes_for(block_bytes, *smallest);
        let layouts = ssd_sizes_bytes.iter().map(|size| Layout::new(*size, 4096, block_bytes, segment_bytes));
        let layouts = layouts.collect::<Result<Vec<_>, _>>()?;
        let capacity = |layout: &Layout| u64::from(layout.slot_count()) * block_bytes.get();
        let slots: u64 = layouts.iter().map(|layout| u64::from(layout.slot_count())).sum();
        if slots > u64::from(SLOTS_MAX) {
            let message = format!(
                "pool {}: {slots} cache blocks are more than the {SLOTS_MAX} that a pool can hold: use larger blocks",
                spec.name
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let log = match spec.kind {
            PoolKind::Read => LogSize::default(),
            PoolKind::ReadWrite => log_size_for(&spec.name, &layouts)?,
        };
        let per_segment = layouts.first().map_or(0, Layout::slots_per_segment) * block_bytes.get();
        let without = |segments: usize| {
            let of_log = u64::try_from(segments).expect("segments are counted in 32 bits") * per_segment;
            layouts.iter().map(capacity).sum::<u64>().saturating_sub(of_log)
        };
        let dirty_pages = log.pages / 2;
        let memory = MemoryTerms::new(slots, block_bytes.pages(), spec.settings.checksums, dirty_pages);
        Ok(PoolPlan {
            capacity_bytes: without(0),
            capacity_min_bytes: without(log.segments),
            slots,
            segment_bytes,
            memory,
            memory_bytes: memory.bytes(),
            policy: spec.settings.policy,
            ssd_capacity_bytes: layouts.iter().map(capacity).collect(),
            dirty_capacity_bytes: dirty_pages * crate::config::PAGE,
        })
    }

    /// Makes a pool and opens it. Whatever the SSDs held is lost: the caller checked for foreign signatures.
    pub async fn create(env: E, spec: PoolSpec, ssds: Vec<Named<E::Device>>, state: E::Device) -> Result<Self, Error> {
        crate::pool::create::create(env, spec, ssds, state).await
    }

    /// Opens a pool from its SSDs and its copy in the state directory. With `state: None` (or one that knows nothing)
    /// a read pool opens cold.
    pub async fn open(
        env: E,
        ssds: Vec<Named<E::Device>>,
        state: Option<E::Device>,
        missing: Missing,
    ) -> Result<Self, Error> {
        crate::pool::open::open(env, ssds, state, missing).await
    }

    /// The volumes that the catalogue names and that no `reattach` or `detach` has dealt with yet.
    pub fn unattached_volumes(&self) -> Vec<VolumeSpec> {
        let index_of = |attachment| self.inner.ids.index_of(attachment);
        let waiting = |attachment| index_of(attachment).is_some_and(|index| !self.inner.volumes.has(index));
        let catalogue = self.inner.attachments.catalogue();
        let unattached = catalogue.volumes.iter().filter(|volume| waiting(volume.attachment));
        unattached.map(|volume| volume.spec.clone()).collect()
    }

    /// Puts the cache in front of a volume that serves uncached, while it serves (enable-cache).
    pub async fn attach(&self, volume: &Volume<E>) -> Result<(), Error> {
        self.inner.attach(&volume.inner).await
    }

    /// Puts the cache in front of a volume that the catalogue names. If its backing device is another one, or was
    /// changed behind our back, its cached pages are dropped first; the answer says so.
    pub async fn reattach(&self, volume: &Volume<E>) -> Result<Reattached, Error> {
        self.inner.reattach(&volume.inner).await
    }

    /// What speaks for and against the backing device of a volume being the one on record.
    ///
    /// # Errors
    /// If the pool does not cache the volume, or the device does not answer.
    pub async fn backing_evidence(&self, volume: &Volume<E>) -> Result<BackingEvidence, Error> {
        self.inner.backing_evidence(&volume.inner).await
    }

    /// Takes the backing device of a volume that is fenced with [`FenceCause::OtherBacking`] for the right one: what is dirty goes
    /// there, what is clean is dropped.
    ///
    /// # Errors
    /// `Refused` if the volume is not fenced, or its device is smaller than it was.
    pub async fn accept_backing(&self, volume: &Volume<E>) -> Result<(), Error> {
        self.inner.accept_backing(&volume.inner).await
    }

    /// Takes the cache away from a volume, while it serves (disable-cache). Also for a name of `unattached_volumes`.
    /// Dirty data is cleaned first, or refused to be lost, as `dirty` says; see [`Pool::drain`] for progress.
    pub async fn detach(&self, name: &VolumeName, dirty: DirtyData) -> Result<(), Error> {
        self.inner.detach(name, dirty).await
    }

    /// Cleans the dirty data of a volume, while new writes go past the cache; may take long. `VolumeStatus::dirty_bytes`
    /// shows how much is left. The volume stays as it is then, with new writes going past the cache, until
    /// [`Pool::cancel_drain`] or `detach`.
    pub async fn drain(&self, name: &VolumeName) -> Result<Drained, Error> {
        self.inner.drain(name).await
    }

    /// Ends a drain: the volume caches writes again.
    pub fn cancel_drain(&self, name: &VolumeName) {
        self.inner.cancel_drain(name);
    }

    /// Changes the settings that can change online; refuses the others.
    pub async fn set(&self, settings: PoolSettings) -> Result<(), Error> {
        let pool = &self.inner;
        settings.check(pool.kind)?;
        let now = pool.settings.get();
        if (settings.block_bytes, settings.checksums) != (now.block_bytes, now.checksums) {
            let message = format!(
                "pool {}: the cache block and checksums cannot change online; a conversion changes them in place",
                pool.name
            );
            return Err(Error::new(ErrorKind::Refused, message).with_remedy(Remedy::Convert(pool.name.clone())));
        }
        pool.members.change_record(&|members| members.settings = settings).await?;
        pool.settings.set(settings);
        pool.clean.set_policy(settings.policy);
        Ok(())
    }

    /// Takes SSDs into the pool while it serves; answers their identities. Whatever they held is lost: the caller checked for
    /// foreign signatures. One that was in the pool before and left it is taken in like a new one; refused while it may
    /// have the only other copy of dirty data. All of them join, or none.
    pub async fn add_ssds(&self, ssds: Vec<Named<E::Device>>) -> Result<Vec<u128>, Error> {
        let added = self.inner.joiner.add_ssds(ssds).await;
        self.inner.members.witness_keeper().watch();
        added
    }

    /// Takes SSDs out of the pool while it serves: what is dirty there is copied to others, what is cached there is
    /// dropped, then they are nobody's. Refused if two copies of dirty data, or anything at all, would not fit any more.
    /// `SsdStatus::evacuation` shows how far it is. An SSD that failed or is missing is forgotten.
    pub async fn remove_ssds(&self, uuids: &[u128]) -> Result<Removed, Error> {
        let removed = self.inner.remove_ssds(uuids).await;
        // Else a start would name those again that were gone.
        self.inner.members.witness_keeper().watch();
        removed
    }

    /// Tells the pool of SSDs that failed in earlier runs and that nobody has replaced: the status names them, and spares take
    /// over for them. They are not used: whoever wants that adds them.
    pub fn remember_failed(&self, ssds: &[FailedSsd]) {
        self.inner.members.remember_failed(ssds);
    }

    /// Ends a removal that is under way: the SSDs stay. Too late once a members record without them is written.
    pub fn cancel_removal(&self) {
        self.inner.cancel_removal();
    }

    /// Takes SSDs as spares: the first one that fits takes over by itself when an SSD is lost.
    pub async fn add_spares(&self, ssds: Vec<Named<E::Device>>) -> Result<Vec<u128>, Error> {
        self.inner.joiner.add_spares(ssds).await
    }

    /// Spares are nobody's any more.
    pub async fn remove_spares(&self, uuids: &[u128]) -> Result<(), Error> {
        self.inner.joiner.remove_spares(uuids).await
    }

    pub fn status(&self) -> PoolStatus {
        self.inner.status()
    }

    /// The dirty data of which no copy is left, of each volume that has some: its first extents, so many at most.
    pub fn lost_extents(&self, extents_max: usize) -> Vec<(VolumeName, Vec<hotset_block::ByteRange>)> {
        self.inner.lost_extents(extents_max)
    }

    /// Gives up the dirty data of which no copy is left ([`VolumeStatus::lost_bytes`]): from then on it is what the backing
    /// devices hold. Answers the bytes; of volumes whose backing device is not there nothing is given up. Volumes that are
    /// fenced with [`FenceCause::UnknownLoss`] are to be reattached then.
    ///
    /// [`VolumeStatus::lost_bytes`]: crate::VolumeStatus::lost_bytes
    pub async fn accept_loss(&self) -> Result<u64, Error> {
        self.inner.accept_loss().await
    }

    /// The SSDs that left and are to be taken back as soon as they are there: those that went with the only copies of dirty data,
    /// and those that did not answer. UUID, and the path at which each was last.
    pub fn ssds_returning(&self) -> Vec<(u128, String)> {
        self.inner.joiner.ssds_returning()
    }

    /// An SSD of [`Pool::ssds_returning`] is there again, opened anew: it joins the pool, and what is unavailable and lies on it
    /// is dirty as before. One that takes no writes is only read. Refused if it is another one.
    pub async fn bring_back(&self, ssd: Named<E::Device>) -> Result<(), Error> {
        self.inner.joiner.bring_back(ssd).await
    }

    /// Reads and checks everything that the SSDs hold, at the fetch rate, and mends what is bad. Takes long: the status
    /// shows how far it is. Refused while another one runs.
    pub async fn scrub(&self) -> Result<ScrubStatus, Error> {
        self.inner.scrubber.scrub().await
    }

    /// Ends a scrub that runs.
    pub fn cancel_scrub(&self) {
        self.inner.scrubber.progress().cancel();
    }

    /// Detaches all volumes and makes the SSDs forget the pool. Dirty data: as in [`Pool::detach`].
    pub async fn delete(&self, dirty: DirtyData) -> Result<(), Error> {
        self.inner.delete(dirty).await
    }

    /// Stops cleanly: flushes, publishes what is visible, the clean mark last. Volumes serve no more. A backing device
    /// that does not flush does not hold up the others: the answer names it.
    pub async fn close(&self) -> Result<Closed, Error> {
        self.inner.close().await
    }
}

/// How [`Pool::close`] left the volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Volumes whose backing device was not left clean, and why: it failed a flush, or did not answer. No mark of this
    /// stop is recorded for it, so the next start treats it as after a crash.
    pub not_durable: Vec<(VolumeName, Error)>,
}

/// What [`Pool::reattach`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reattached {
    /// The cached pages are good.
    Warm { bytes: u64 },
    /// The cached pages were dropped, and why.
    Dropped { reason: String },
    /// The volume serves nothing. The reason says what to do. The volume is attached; every request fails until it is
    /// reattached when the cause is gone, or detached with [`DirtyData::Discard`].
    Fenced { cause: FenceCause, reason: String, dirty_bytes: u64 },
}

/// Why a volume is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceCause {
    /// There is dirty data, and the backing device is not the one that it belongs to. Nothing is lost.
    OtherBacking,
    /// Dirty data was lost with SSDs, and with the state directory the record of what it was: until
    /// [`Pool::accept_loss`] any page may be older than what hosts wrote last.
    UnknownLoss,
}

/// What becomes of dirty data that stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyData {
    /// It is cleaned; what cannot be cleaned is an error that names the bytes, and nothing is changed.
    Clean,
    /// It is lost.
    Discard,
}

/// How large the write log of a pool of SSDs with these layouts can be.
fn log_size_for(name: &PoolName, layouts: &[Layout]) -> Result<LogSize, Error> {
    let segment_pages = layouts.first().map_or(1, |layout| layout.segment_bytes / crate::config::PAGE);
    let segment_pages = u32::try_from(segment_pages).expect("a segment is small");
    let segments = layouts.iter().map(|layout| layout.segments().log_max()).collect();
    let size = capacity(segments, segment_pages);
    if size.rows < ROWS_MIN {
        let message = format!("pool {name}: its SSDs are too small, or too different in size, for a write log");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(size)
}

impl<E: Env> PoolInner<E> {
    /// What a volume has of the pool, open or not.
    pub(crate) fn use_of(&self, index: VolumeIndex) -> CacheUse {
        let counts = self.log_counts(index);
        let since = self.log.as_ref().and_then(|log| log.dirty_since(index));
        CacheUse {
            used_bytes: self.clean.slots().used_bytes_of(index) + counts.stored * crate::config::PAGE,
            write_log_bytes: counts.stored * crate::config::PAGE,
            dirty_bytes: counts.dirty * crate::config::PAGE,
            lost_bytes: counts.lost * crate::config::PAGE,
            oldest_dirty_seconds: since.map(|since| self.env.real_now().since(since).as_secs()),
        }
    }

    /// Pages of a volume in the write log.
    pub(crate) fn log_counts(&self, index: VolumeIndex) -> Counts {
        self.log.as_ref().map_or_else(Counts::default, |log| log.counts(index))
    }

    fn log_status(&self, log: &Log<E>, uses: &[CacheUse]) -> WriteLogStatus {
        let rows = log.rows_live();
        let segments: usize = rows.iter().map(|row| 2 * row.segments.len()).sum();
        let segment_bytes = u64::from(log.segments().segment_pages()) * crate::config::PAGE;
        let (recovered_bytes, recovery_milliseconds) = log.recovery();
        WriteLogStatus {
            dirty_capacity_bytes: log.dirty_max() * crate::config::PAGE,
            dirty_bytes: uses.iter().map(|volume| volume.dirty_bytes).sum(),
            live_bytes: uses.iter().map(|volume| volume.write_log_bytes).sum(),
            log_bytes: u64::try_from(segments).expect("an address has 64 bits at most") * segment_bytes,
            rows: u64::try_from(rows.len()).expect("an address has 64 bits at most"),
            write_caching_off: !log.mirrorer().may_cache_writes(),
            recovered_bytes,
            recovery_milliseconds,
        }
    }

    fn status(&self) -> PoolStatus {
        let day_bytes = self.members.written_today();
        let ssd_writes = SsdWritesStatus { day_bytes, populating_stopped: self.filler.is_worn_for_today() };
        let (health, mut reason) = self.health.health();
        if let Some(limit) = self.settings.get().ssd_writes_per_day_bytes
            && ssd_writes.populating_stopped
            && reason.is_empty()
        {
            reason = format!(
                "nothing new is populated: {} bytes were written to its SSDs within 24 hours, and ssd-writes-per-day is \
                 {limit} bytes; wait, or raise it",
                ssd_writes.day_bytes
            );
        }
        let online_slots: u64 = self.members.online_ssds().map(|ssd| u64::from(ssd.layout.slot_count())).sum();
        let catalogue = self.attachments.catalogue();
        let volumes = catalogue.volumes.iter().map(|volume| volume.spec.name.clone()).collect();
        let uses = catalogue.volumes.iter().map(|volume| self.ids.index_of(volume.attachment));
        let uses: Vec<CacheUse> =
            uses.map(|index| index.map_or_else(CacheUse::default, |index| self.use_of(index))).collect();
        let shown = self.members.ssds().filter(|ssd| !ssd.life().is_replaced());
        let ssds = shown.map(|ssd| self.ssd_status(ssd)).chain(self.members.absent().iter().cloned()).collect();
        let (policy_followed, policy_switch) = self.clean.slots().followed();
        PoolStatus {
            name: self.name.clone(),
            uuid: self.uuid,
            kind: self.kind,
            settings: self.settings.get(),
            policy_followed,
            policy_switch,
            health,
            reason,
            taken_over: self.members.owner().is_taken(),
            epoch: self.members.record().epoch,
            capacity_bytes: online_slots * self.blocks.bytes(),
            capacity_min_bytes: self.shares.clean_slots_min() * self.blocks.bytes(),
            used_bytes: uses.iter().map(|volume| volume.used_bytes).sum(),
            slots: online_slots,
            slots_used: u64::from(self.clean.slots().slots_used()),
            memory_bytes: self.clean.memory_bytes() + self.log.as_ref().map_or(0, |log| log.overlay().memory_bytes()),
            recovery: self.recovery.borrow().clone(),
            rebuild: self.log.as_ref().and_then(|log| log.mirrorer().rebuild_status()),
            write_log: self.log.as_ref().map(|log| self.log_status(log, &uses)),
            scrub: self.scrubber.progress().status(),
            ssd_writes,
            ssds,
            spares: self.members.spares().statuses(),
            volumes,
            uses,
        }
    }

    fn ssd_status(&self, ssd: &Ssd<E>) -> SsdStatus {
        SsdStatus {
            path: ssd.path.clone(),
            uuid: ssd.uuid,
            size_bytes: ssd.layout.ssd_bytes,
            // Nothing is wrong with those of a pool that somebody else has.
            online: ssd.is_online() || self.members.owner().is_taken(),
            missing: false,
            failed: !ssd.is_online() && !self.members.owner().is_taken(),
            disk: ssd.disk.clone(),
            silent: ssd.life().is_suspect() || ssd.life().is_silent(),
            refuses: ssd.refusal(),
            rebuilding: ssd.life().is_rebuilding(),
            evacuation: self.evacuation_of(ssd),
            reason: self.watch.reason_of(ssd),
            slots: u64::from(ssd.layout.slot_count()),
            slots_used: u64::from(self.clean.ssds().slots_used_on(ssd.index)),
            read_errors: ssd.read_errors_ever(),
            lost_writes: ssd.lost_writes(),
            bytes_written: ssd.bytes_written.get(),
            io: ssd.io.snapshot(),
        }
    }
}
