//! A volume joins a pool, while hosts use it; `detach.rs` is how it leaves.
//!
//! An attachment id names a volume in all that is said of its pages. A new one is durable before the first record under
//! it; a removed one before the first write that the cache does not see.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::attachments::evidence::BackingEvidence;
use crate::attachments::identity::judged_pages;
use crate::config::{PAGE, VolumeName, VolumeSettings};
use crate::error::{Error, ErrorKind};
use crate::format::catalogue::{BackingIdentity, CataloguedVolume};
use crate::pool::inner::PoolInner;
use crate::reasons::VolumeFence;
use crate::volume::inner::VolumeInner;
use crate::volume::life::VolumeChange;
use crate::volume::place::Attached;
use crate::volume::shares::VolumeShares;

/// What [`crate::Pool::reattach`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reattached {
    /// The cached pages are good.
    Warm { bytes: u64 },
    /// The cached pages were dropped, and why.
    Dropped { reason: String },
    /// The volume serves nothing. The reason says what to do. The volume is attached; every request fails until it is
    /// reattached when the cause is gone, or detached with [`crate::DirtyData::Discard`].
    Fenced { cause: FenceCause, reason: VolumeFence, dirty_bytes: u64 },
}

/// Why a volume is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceCause {
    /// There is dirty data, and the backing device is not the one that it belongs to. Nothing is lost.
    OtherBacking,
    /// Dirty data was lost with SSDs, and with the state directory the record of what it was: until
    /// [`crate::Pool::accept_loss`] any page may be older than what hosts wrote last.
    UnknownLoss,
}

impl<E: Env> PoolInner<E> {
    pub(crate) async fn attach(self: &Rc<Self>, volume: &Rc<VolumeInner<E>>) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let joining = Joining { pool: self, volume };
        joining.check()?;
        let held = volume.view.in_time(volume.hold_all()).await?;
        let backing = volume.view.capture_durable_identity(volume.size_bytes()).await?;
        let attachment = self.attachments.next_attachment();
        let spec = volume.spec().clone();
        let entry = CataloguedVolume { attachment, spec, backing: backing.clone() };
        self.attachments.record_newcomer(&entry).await?;
        joining.put(self.ids.free_index(), attachment, &backing).await?;
        drop(held);
        Ok(())
    }

    pub(crate) async fn reattach(self: &Rc<Self>, volume: &Rc<VolumeInner<E>>) -> Result<Reattached, Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let joining = Joining { pool: self, volume };
        let name = volume.name();
        let known = self.attachments.named(&name)?;
        let again = volume.life.is_fenced() && !volume.detached_from(&self.rooms);
        let index = self.ids.index_of(known.attachment).filter(|_| again || volume.attached().is_none());
        let index =
            index.ok_or_else(|| Error::new(ErrorKind::Refused, format!("volume {name} is attached already")))?;
        volume.check_fits(self, volume.size_bytes())?;
        let held = volume.view.in_time(volume.hold_all()).await?;
        volume.view.keep_end_of(&known.backing);
        let known = match volume.view.grown(&known.backing).await? {
            Some(backing) => self.attachments.record_growth(known, backing).await?,
            None => known,
        };
        let dirty_bytes = self.log_counts(index).dirty * PAGE;
        if let Some(reason) = self.unknown_loss(known.attachment) {
            return joining.fence(index, &known, FenceCause::UnknownLoss, reason, dirty_bytes).await;
        }
        if let Some(reason) = volume.view.in_time(volume.view.difference(&known.backing)).await? {
            if dirty_bytes > 0 {
                let reason = VolumeFence::OtherBacking { dirty_bytes, difference: reason };
                return joining.fence(index, &known, FenceCause::OtherBacking, reason, dirty_bytes).await;
            }
            joining.start_anew(&known, index).await?;
            drop(held);
            volume.stats.count_cache_drop();
            return Ok(Reattached::Dropped { reason });
        }
        self.attachments.forget_final_mark(&known).await?;
        joining.put(index, known.attachment, &known.backing).await?;
        drop(held);
        Ok(Reattached::Warm { bytes: self.clean.slots().used_bytes_of(index) })
    }

    /// See [`crate::Pool::check_volumes`].
    pub(crate) fn check_volumes(
        &self,
        leave: &[VolumeName],
        stay: &[(VolumeName, VolumeSettings)],
    ) -> Result<(), Error> {
        let is_known = |name: &VolumeName| self.attachments.named(name).is_ok();
        let newcomers = stay.iter().filter(|(name, _)| !is_known(name)).count();
        self.attachments.check_room(newcomers, leave.iter().filter(|name| is_known(name)).count())?;
        VolumeShares::of(&self.rooms).check_promises(leave, stay)
    }

    pub(crate) fn clean_backing(&self, name: &VolumeName) -> Result<Option<(String, u64)>, Error> {
        let known = self.attachments.named(name)?;
        let dirty = self.ids.index_of(known.attachment).map_or(0, |index| self.log_counts(index).dirty);
        Ok((dirty == 0).then_some((known.backing.device.id, known.backing.size_bytes)))
    }

    /// What speaks for and against the backing device of a volume of this pool.
    pub(crate) async fn backing_evidence(
        self: &Rc<Self>,
        volume: &Rc<VolumeInner<E>>,
    ) -> Result<BackingEvidence, Error> {
        let known = Joining { pool: self, volume }.catalogued()?;
        volume.view.in_time(volume.view.evidence(&known.backing)).await?
    }

    /// Takes the backing device that a fenced volume has for the right one, whatever speaks against it: all that the write log has goes there,
    /// also what was written to the former one. Nothing else that is cached of it is believed any more, durably, before what the device is now
    /// is on record.
    pub(crate) async fn accept_backing(self: &Rc<Self>, volume: &Rc<VolumeInner<E>>) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let joining = Joining { pool: self, volume };
        let known = joining.catalogued()?;
        let refused = |why: String| {
            let name = &volume.spec().name;
            Err(Error::new(ErrorKind::Refused, format!("volume {name}: {why}")))
        };
        let Some(index) = self.ids.index_of(known.attachment).filter(|_| volume.life.is_fenced()) else {
            return refused("it is not fenced".to_owned());
        };
        if let Some(reason) = self.unknown_loss(known.attachment) {
            return refused(reason.to_string());
        }
        let size_bytes = volume.size_bytes();
        if size_bytes < known.backing.size_bytes {
            let before = known.backing.size_bytes;
            return refused(format!(
                "its backing device had {before} bytes and has {size_bytes}: some of it is not there"
            ));
        }
        volume.check_fits(self, size_bytes)?;
        let held = volume.view.in_time(volume.hold_all()).await?;
        let backing = volume.view.capture_durable_identity(size_bytes).await?;
        self.clean.invalidate_durably(index, 0..size_bytes.div_ceil(PAGE)).await?;
        self.make_all_dirty(index).await;
        let accepted = self.attachments.record_growth(known, backing).await?;
        joining.put(index, accepted.attachment, &accepted.backing).await?;
        drop(held);
        volume.stats.count_cache_drop();
        Ok(())
    }

    async fn make_all_dirty(&self, index: VolumeIndex) {
        let Some(log) = &self.log else { return };
        let mut from = 0;
        while let Some(next) = log.make_some_dirty(index, from) {
            from = next;
            self.env.sleep(Duration::ZERO).await;
        }
    }
}

/// A volume that comes to a pool, or is known to it.
struct Joining<'p, E: Env> {
    pool: &'p Rc<PoolInner<E>>,
    volume: &'p Rc<VolumeInner<E>>,
}

impl<E: Env> Joining<'_, E> {
    fn check(&self) -> Result<(), Error> {
        let volume = self.volume;
        let name = volume.name();
        let refuse = |message: String| Err(Error::new(ErrorKind::Refused, message));
        if self.pool.life.is_stopping() {
            return refuse(format!("pool {} is being stopped", self.pool.name));
        }
        if let Some(attached) = volume.attached() {
            return refuse(format!("volume {name} is cached by pool {} already", attached.pool.name));
        }
        self.pool.attachments.check_newcomer(&name)?;
        VolumeShares::of(&self.pool.rooms).check_shares(&name, &volume.spec().settings)?;
        volume.check_fits(self.pool, volume.size_bytes())
    }

    /// From here on the volume's requests see the cache. What it is called is durable before: a start finds its dirty data by
    /// its name. If that fails, the pool knows it as one that is still to be attached again.
    async fn put(&self, index: VolumeIndex, attachment: u64, backing: &BackingIdentity) -> Result<(), Error> {
        let volume = self.volume;
        if self.pool.ids.of(index) != Some(attachment) {
            self.pool.ids.attach(index, attachment);
            self.pool.volumes.remove(index);
        }
        self.pool.attachments.record_spec(attachment, || volume.spec().clone()).await?;
        self.pool.ids.attach(index, attachment);
        self.pool.volumes.put(index, volume);
        VolumeShares::of(&self.pool.rooms).apply_share(index, &volume.spec().settings);
        volume.backing.owned_by(self.pool.members.owner());
        self.pool.clean.in_memory().keep(index, Rc::clone(&volume.memory));
        volume.attach(Attached::new(&self.pool.rooms, index, judged_pages(backing)));
        Ok(())
    }

    fn catalogued(&self) -> Result<CataloguedVolume, Error> {
        let volume = self.volume;
        self.pool.attachments.named(&volume.spec().name)
    }

    /// The volume serves nothing, and nothing of its dirty data is touched.
    async fn fence(
        &self,
        index: VolumeIndex,
        known: &CataloguedVolume,
        cause: FenceCause,
        reason: VolumeFence,
        dirty_bytes: u64,
    ) -> Result<Reattached, Error> {
        let volume = self.volume;
        self.put(index, known.attachment, &known.backing).await?;
        volume.life.change(VolumeChange::Refused(reason.clone()));
        Ok(Reattached::Fenced { cause, reason, dirty_bytes })
    }

    /// Attaches a volume whose backing device is not what it was: under a new id, with nothing cached.
    async fn start_anew(&self, known: &CataloguedVolume, index: VolumeIndex) -> Result<(), Error> {
        let volume = self.volume;
        let attachment = self.pool.attachments.next_attachment();
        let backing = volume.view.capture_durable_identity(volume.size_bytes()).await?;
        let spec = volume.spec().clone();
        let anew = CataloguedVolume { attachment, spec, backing: backing.clone() };
        self.pool.attachments.record_anew(known.attachment, &anew).await?;
        self.pool.ids.detach(index);
        self.pool.forget_live_pages_of(index).await;
        self.pool.clean.forget_volume(index).await;
        self.put(index, attachment, &backing).await
    }
}
