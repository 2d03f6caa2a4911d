//! The face of the engine towards the administrator: a cache pool.

// Nouns: what is true now.
pub(crate) mod plan;
pub(crate) mod scrub_progress;
mod table_memory;

// Verbs: what happens.
pub(crate) mod accept_loss;
pub(crate) mod attach;
pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod departure;
pub(crate) mod detach;
pub(crate) mod drain;
pub(crate) mod inner;
pub(crate) mod join;
pub(crate) mod old_copy;
pub(crate) mod open;
pub(crate) mod publish;
pub(crate) mod redirect;
pub(crate) mod remove;
pub(crate) mod scrub;
mod settle;
pub(crate) mod silence;
pub(crate) mod survey;
pub(crate) mod takeover;
pub(crate) mod upgrade;

use std::rc::Rc;

use hotset_block::Env;

use crate::attachments::evidence::BackingEvidence;
use crate::config::{PoolSettings, VolumeName, VolumeSettings, VolumeSpec};
use crate::error::{Error, ErrorKind, Remedy};
use crate::log::Log;
use crate::members::label::Named;
use crate::members::newcomer::random_uuid;
use crate::members::ssd::Ssd;
use crate::pool::attach::Reattached;
use crate::pool::close::Closed;
use crate::pool::detach::DirtyData;
use crate::pool::drain::Drained;
use crate::pool::inner::PoolInner;
use crate::pool::plan::PoolSpec;
use crate::pool::remove::Removed;
use crate::pool::survey::Missing;
use crate::reasons::PoolReason;
use crate::status::{
    CacheUse, FailedSsd, PoolPlan, PoolStatus, ScrubStatus, SsdStatus, SsdWritesStatus, UnfinishedScrub, WriteLogStatus,
};
use crate::volume::fill::Filler;
use crate::volume::inner::Volume;
use crate::volume::shares::VolumeShares;

/// The SSDs that are away with the only copies of dirty data, as the pool's copy in the state directory says: while they are, the
/// pool has use for them although they left it.
pub async fn ssds_awaited<E: Env>(env: &E, state: &E::Device) -> Result<Vec<u128>, Error> {
    crate::pool::survey::ssds_awaited(env, state).await
}

/// A cache pool. A handle: cloning it is cheap.
pub struct Pool<E: Env> {
    pub(crate) inner: Rc<PoolInner<E>>,
}

impl<E: Env> Clone for Pool<E> {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

impl<E: Env> Pool<E> {
    /// What a pool of this kind over SSDs of these sizes would be; fails if they do not fit.
    pub fn plan(spec: &PoolSpec, ssd_sizes_bytes: &[u64]) -> Result<PoolPlan, Error> {
        crate::pool::plan::plan(spec, ssd_sizes_bytes)
    }

    /// Makes a pool and opens it. Whatever the SSDs held is lost: the caller checked for foreign signatures.
    pub async fn create(env: E, spec: PoolSpec, ssds: Vec<Named<E::Device>>, state: E::Device) -> Result<Self, Error> {
        Self::create_as(random_uuid(&env), env, spec, ssds, state).await
    }

    /// The same with a UUID that was chosen before, and that no pool ever had, not even one whose making was cut off.
    pub async fn create_as(
        uuid: u128,
        env: E,
        spec: PoolSpec,
        ssds: Vec<Named<E::Device>>,
        state: E::Device,
    ) -> Result<Self, Error> {
        let inner = crate::pool::create::create_as(uuid, env, spec, ssds, state).await?;
        Ok(Self { inner })
    }

    /// Opens a pool from its SSDs and its copy in the state directory. With `state: None` (or one that knows nothing)
    /// a read pool opens cold.
    pub async fn open(
        env: E,
        ssds: Vec<Named<E::Device>>,
        state: Option<E::Device>,
        missing: Missing,
    ) -> Result<Self, Error> {
        let inner = crate::pool::open::open(env, ssds, state, missing).await?;
        Ok(Self { inner })
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

    /// What the pool has on record of a volume's backing device, whether or not the volume is attached: what it was called, and its size in
    /// bytes. `None` where the pool has newer data: then [`Self::reattach`] fences the volume if it is another one.
    ///
    /// # Errors
    /// `Refused` if the pool does not know the volume.
    pub fn clean_backing(&self, name: &VolumeName) -> Result<Option<(String, u64)>, Error> {
        self.inner.clean_backing(name)
    }

    /// What speaks for and against the backing device of a volume being the one on record.
    ///
    /// # Errors
    /// If the pool does not cache the volume, or the device does not answer.
    pub async fn backing_evidence(&self, volume: &Volume<E>) -> Result<BackingEvidence, Error> {
        self.inner.backing_evidence(&volume.inner).await
    }

    /// Takes the backing device of a volume that is fenced with [`crate::FenceCause::OtherBacking`] for the right one: what is dirty goes
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
        pool.settings.take_effect(settings);
        pool.clean.set(&settings);
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

    /// Whether the pool could have these volumes: `stay` in it with these settings, newcomers among them, once `leave` have left.
    ///
    /// # Errors
    /// `Refused`: a newcomer has a name that the pool knows or there is no place for one more, or the pool cannot keep what it would promise
    /// to them all.
    pub fn check_volumes(&self, leave: &[VolumeName], stay: &[(VolumeName, VolumeSettings)]) -> Result<(), Error> {
        self.inner.check_volumes(leave, stay)
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

    /// Discards the dirty data of which no copy is left ([`VolumeStatus::lost_bytes`]): from then on it is what the backing
    /// devices hold. Answers the bytes; of volumes whose backing device is not there nothing is accepted. Volumes that are
    /// fenced with [`crate::FenceCause::UnknownLoss`] are to be reattached then.
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
    /// shows how far it is. Refused while another one runs. One that is cut off because the pool is closed is an error, and
    /// did not end: the status before shows from where another one can go on.
    pub async fn scrub(&self) -> Result<ScrubStatus, Error> {
        self.inner.scrubber.scrub().await
    }

    /// The same from where an earlier one was; from the beginning, if that says nothing any more.
    pub async fn resume_scrub(&self, unfinished: UnfinishedScrub) -> Result<ScrubStatus, Error> {
        self.inner.scrubber.resume(unfinished).await
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

impl<E: Env> PoolInner<E> {
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
        let ssd_writes = SsdWritesStatus { day_bytes, populating_stopped: Filler::of(&self.rooms).is_worn_for_today() };
        let (health, mut reason) = self.rooms.health();
        if let Some(limit) = self.settings.get().ssd_writes_per_day_bytes
            && ssd_writes.populating_stopped
            && reason.is_none()
        {
            reason = Some(PoolReason::WornForToday { day_bytes, limit_bytes: limit });
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
            capacity_min_bytes: VolumeShares::of(&self.rooms).clean_slots_min() * self.blocks.bytes(),
            used_bytes: uses.iter().map(|volume| volume.used_bytes).sum(),
            slots: online_slots,
            slots_used: u64::from(self.clean.slots().slots_used()),
            slots_unpublished: u64::try_from(self.clean.slots_unpublished()).expect("slots are counted with 32 bits"),
            memory_bytes: self.clean.memory_bytes() + self.log.as_ref().map_or(0, |log| log.overlay().memory_bytes()),
            recovery: self.recovery.borrow().clone(),
            rebuild: self.log.as_ref().and_then(|log| log.mirrorer().rebuild_status()),
            write_log: self.log.as_ref().map(|log| self.log_status(log, &uses)),
            scrub: self.scrubber.progress().status(),
            scrub_unfinished: self.scrubber.progress().unfinished(),
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
            bytes_written: ssd.bytes_written(),
            io: ssd.io.snapshot(),
        }
    }
}
