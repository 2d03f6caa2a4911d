//! A volume joins a pool, while hosts use it; `detach.rs` is how it leaves.
//!
//! An attachment id names a volume in all that is said of its pages. A new one is durable before the first record under
//! it; a removed one before the first write that the cache does not see.

use std::cell::RefCell;
use std::rc::Rc;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::attachments::evidence::BackingEvidence;
use crate::attachments::identity::settled_pages;
use crate::config::PAGE;
use crate::error::{Error, ErrorKind};
use crate::format::catalogue::{BackingIdentity, CataloguedVolume};
use crate::log::overlay::PAGES_MAX;
use crate::members::io::add;
use crate::pool::{FenceCause, PoolInner, Reattached};
use crate::volume::locks::Held;
use crate::volume::{Attached, VolumeInner};

impl<E: Env> PoolInner<E> {
    pub(crate) async fn attach(self: &Rc<Self>, volume: &Rc<VolumeInner<E>>) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let joining = Joining { pool: self, volume };
        joining.check()?;
        let held = volume.view.in_time(volume.hold_all()).await?;
        let backing = volume.view.capture_durable_identity(volume.size_bytes.get()).await?;
        let attachment = self.attachments.next_attachment();
        let spec = volume.spec.borrow().clone();
        let entry = CataloguedVolume { attachment, spec, backing: backing.clone() };
        self.attachments.record_newcomer(&entry).await?;
        joining.put(self.ids.free_index(), attachment, &backing).await?;
        drop(held);
        Ok(())
    }

    pub(crate) async fn reattach(self: &Rc<Self>, volume: &Rc<VolumeInner<E>>) -> Result<Reattached, Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let joining = Joining { pool: self, volume };
        let name = volume.spec.borrow().name.clone();
        let known = self.attachments.named(&name)?;
        let again = volume.fenced.borrow().is_some() && !volume.detached_from(self);
        let index = self.ids.index_of(known.attachment).filter(|_| again || volume.attached().is_none());
        let index =
            index.ok_or_else(|| Error::new(ErrorKind::Refused, format!("volume {name} is attached already")))?;
        joining.check_size(volume.size_bytes.get())?;
        let held = volume.view.in_time(volume.hold_all()).await?;
        volume.view.keep_end_of(&known.backing);
        let known = match volume.view.grown(&known.backing).await? {
            Some(backing) => joining.record_growth(known, backing).await?,
            None => known,
        };
        let dirty_bytes = self.log_counts(index).dirty * PAGE;
        if let Some(reason) = self.unknown_loss(known.attachment) {
            return joining.fence(index, &known, FenceCause::UnknownLoss, reason, dirty_bytes).await;
        }
        if let Some(reason) = volume.view.in_time(volume.view.difference(&known.backing)).await? {
            if dirty_bytes > 0 {
                let reason = of_another_device(dirty_bytes, &reason);
                return joining.fence(index, &known, FenceCause::OtherBacking, reason, dirty_bytes).await;
            }
            joining.start_anew(&known, index).await?;
            drop(held);
            add(&volume.stats.cache_drops, 1);
            return Ok(Reattached::Dropped { reason });
        }
        self.attachments.forget_final_mark(&known).await?;
        joining.put(index, known.attachment, &known.backing).await?;
        drop(held);
        Ok(Reattached::Warm { bytes: self.clean.slots().used_bytes_of(index) })
    }

    /// What speaks for and against the backing device of a volume of this pool.
    pub(crate) async fn backing_evidence(
        self: &Rc<Self>,
        volume: &Rc<VolumeInner<E>>,
    ) -> Result<BackingEvidence, Error> {
        let known = Joining { pool: self, volume }.catalogued()?;
        volume.view.in_time(volume.view.evidence(&known.backing)).await?
    }

    /// Takes the backing device that a fenced volume has for the right one, whatever speaks against it: its dirty data goes there.
    /// Nothing that is cached of it is believed any more, durably, before what the device is now is on record.
    pub(crate) async fn accept_backing(self: &Rc<Self>, volume: &Rc<VolumeInner<E>>) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let joining = Joining { pool: self, volume };
        let known = joining.catalogued()?;
        let refused = |why: String| {
            let name = &volume.spec.borrow().name;
            Err(Error::new(ErrorKind::Refused, format!("volume {name}: {why}")))
        };
        let Some(index) = self.ids.index_of(known.attachment).filter(|_| volume.fenced.borrow().is_some()) else {
            return refused("it is not fenced".to_owned());
        };
        if let Some(reason) = self.unknown_loss(known.attachment) {
            return refused(reason);
        }
        let size_bytes = volume.size_bytes.get();
        if size_bytes < known.backing.size_bytes {
            let before = known.backing.size_bytes;
            return refused(format!(
                "its backing device had {before} bytes and has {size_bytes}: some of it is not there"
            ));
        }
        joining.check_size(size_bytes)?;
        let held = volume.view.in_time(volume.hold_all()).await?;
        let backing = volume.view.capture_durable_identity(size_bytes).await?;
        self.clean.invalidate_durably(index, 0..size_bytes.div_ceil(PAGE)).await?;
        let accepted = joining.record_growth(known, backing).await?;
        joining.put(index, accepted.attachment, &accepted.backing).await?;
        drop(held);
        add(&volume.stats.cache_drops, 1);
        Ok(())
    }

    /// The backing device of a volume that serves has grown. What it is now is durable before anybody can write to what was
    /// added; hosts and the cleaner are held off while it is looked at.
    pub(crate) async fn grow_volume(
        self: &Rc<Self>,
        attached: &Attached<E>,
        volume: &Rc<VolumeInner<E>>,
        size_bytes: u64,
    ) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let joining = Joining { pool: self, volume };
        let refused = |why: &str| {
            let name = &volume.spec.borrow().name;
            Err(Error::new(ErrorKind::Refused, format!("volume {name} cannot grow now: {why}")))
        };
        if volume.fenced.borrow().is_some() || self.life.is_stopping() {
            return refused("it is fenced, or its pool is being stopped");
        }
        joining.check_size(size_bytes)?;
        let _held = volume.view.in_time(volume.hold_all()).await?;
        let _not_cleaned = volume.view.in_time(volume.clean_locks.exclusive(0..PAGES_MAX)).await?;
        let known = self.attachments.at(attached.index);
        let Some(known) = known.filter(|_| !volume.detached_from(self)) else {
            return refused("its cache is being taken away");
        };
        let backing = volume.view.capture_durable_identity(size_bytes).await?;
        let grown = joining.record_growth(known, backing).await?;
        *attached.settled_pages.borrow_mut() = settled_pages(&grown.backing);
        volume.size_bytes.set(size_bytes);
        Ok(())
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
        let name = volume.spec.borrow().name.clone();
        let refuse = |message: String| Err(Error::new(ErrorKind::Refused, message));
        if self.pool.life.is_stopping() {
            return refuse(format!("pool {} is being stopped", self.pool.name));
        }
        if let Some(attached) = volume.attached() {
            return refuse(format!("volume {name} is cached by pool {} already", attached.pool.name));
        }
        self.pool.attachments.check_newcomer(&name)?;
        self.pool.shares.check_shares(&name, &volume.spec.borrow().settings)?;
        self.check_size(volume.size_bytes.get())
    }

    fn check_size(&self, size_bytes: u64) -> Result<(), Error> {
        let volume = self.volume;
        let most = u64::from(u32::MAX) * self.pool.blocks.bytes();
        if size_bytes <= most {
            return Ok(());
        }
        let name = &volume.spec.borrow().name;
        let message = format!("volume {name} is larger than {most} bytes: use a pool with larger cache blocks");
        Err(Error::new(ErrorKind::Refused, message))
    }

    /// From here on the volume's requests see the cache. What it is called is durable before: a start finds its dirty data by
    /// its name. If that fails, the pool knows it as one that is still to be attached again.
    async fn put(&self, index: VolumeIndex, attachment: u64, backing: &BackingIdentity) -> Result<(), Error> {
        let volume = self.volume;
        if self.pool.ids.of(index) != Some(attachment) {
            self.pool.ids.attach(index, attachment);
            self.pool.volumes.remove(index);
        }
        self.pool.attachments.record_spec(attachment, || volume.spec.borrow().clone()).await?;
        self.pool.ids.attach(index, attachment);
        self.pool.volumes.put(index, volume);
        self.pool.shares.apply_share(index, &volume.spec.borrow().settings);
        let settled = RefCell::new(settled_pages(backing));
        let attached =
            Attached { pool: Rc::clone(self.pool), index, settled_pages: settled, written_out: RefCell::default() };
        volume.backing.owned_by(self.pool.members.owner());
        volume.is_cut_off.set(false);
        // Whatever was in front of it before.
        volume.memory.forget_all();
        self.pool.clean.keep_in_memory(index, Rc::clone(&volume.memory));
        *volume.attached.borrow_mut() = Some(Rc::new(attached));
        volume.draining.set(false);
        *volume.fenced.borrow_mut() = None;
        Ok(())
    }

    fn catalogued(&self) -> Result<CataloguedVolume, Error> {
        let volume = self.volume;
        self.pool.attachments.named(&volume.spec.borrow().name)
    }

    /// The volume serves nothing, and nothing of its dirty data is touched.
    async fn fence(
        &self,
        index: VolumeIndex,
        known: &CataloguedVolume,
        cause: FenceCause,
        reason: String,
        dirty_bytes: u64,
    ) -> Result<Reattached, Error> {
        let volume = self.volume;
        self.put(index, known.attachment, &known.backing).await?;
        *volume.fenced.borrow_mut() = Some(reason.clone());
        Ok(Reattached::Fenced { cause, reason, dirty_bytes })
    }

    /// The volume goes on with all that is cached; what came to it at its end is on the backing device only.
    async fn record_growth(
        &self,
        known: CataloguedVolume,
        backing: BackingIdentity,
    ) -> Result<CataloguedVolume, Error> {
        let grown = CataloguedVolume { backing, ..known };
        self.pool.attachments.record_identities(&[(grown.attachment, grown.backing.clone())]).await?;
        Ok(grown)
    }

    /// Attaches a volume whose backing device is not what it was: under a new id, with nothing cached.
    async fn start_anew(&self, known: &CataloguedVolume, index: VolumeIndex) -> Result<(), Error> {
        let volume = self.volume;
        let attachment = self.pool.attachments.next_attachment();
        let backing = volume.view.capture_durable_identity(volume.size_bytes.get()).await?;
        let spec = volume.spec.borrow().clone();
        let anew = CataloguedVolume { attachment, spec, backing: backing.clone() };
        self.pool.attachments.record_anew(known.attachment, &anew).await?;
        self.pool.ids.detach(index);
        self.pool.forget_live_pages_of(index).await;
        self.pool.clean.forget_volume(index).await;
        self.put(index, attachment, &backing).await
    }
}

impl<E: Env> VolumeInner<E> {
    /// Waits for every write and discard in flight, and holds off new ones.
    pub(crate) async fn hold_all(&self) -> Held {
        self.locks.exclusive(0..PAGES_MAX).await
    }
}

fn of_another_device(dirty_bytes: u64, difference: &str) -> String {
    format!(
        "{dirty_bytes} bytes of dirty data belong to another backing device or another state of it ({difference}): \
         the volume serves nothing and nothing is lost. Put the right device back and restart; or, if this is the right one, \
         accept it; or give the dirty data up"
    )
}
