//! A volume leaves a pool, while hosts use it.
//!
//! That it left is durable before the first write that the cache does not see. What the pool has of it is forgotten after that,
//! by a task of its own, for it waits for requests and fills that are under way: for a backing device that may never answer.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;
use hotset_block::sync::Promise;

use crate::address::VolumeIndex;
use crate::config::{PAGE, VolumeName, limits};
use crate::error::{Error, ErrorKind};
use crate::log::overlay::PAGES_MAX;
use crate::pool::drain::Drained;
use crate::pool::inner::PoolInner;
use crate::reasons::VolumeFence;
use crate::time_limit::within;
use crate::volume::inner::VolumeInner;
use crate::volume::life::VolumeChange;
use crate::volume::locks::Held;

/// What becomes of dirty data that stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyData {
    /// It is cleaned; what cannot be cleaned is an error that names the bytes, and nothing is changed.
    Clean,
    /// It is lost.
    Discard,
}

impl<E: Env> PoolInner<E> {
    pub(crate) async fn detach(self: &Rc<Self>, name: &VolumeName, dirty: DirtyData) -> Result<(), Error> {
        // It may get another name meanwhile.
        let volume = self.volume_named(name);
        let detached = self.detach_drained(name, dirty).await;
        if let (Err(_), Some(volume)) = (&detached, volume) {
            self.end_drain(&volume);
        }
        detached
    }

    async fn detach_drained(self: &Rc<Self>, name: &VolumeName, dirty: DirtyData) -> Result<(), Error> {
        let cleans = dirty == DirtyData::Clean;
        if cleans {
            self.drain_in_time(name).await?;
        }
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let index = self.attachments.index_named(name)?;
        let attachment = self.ids.of(index).expect("it has an index");
        let volume = self.volumes.get(index).map(|(volume, _)| volume);
        let held = match &volume {
            Some(volume) => match volume.view.in_time(volume.hold_all()).await {
                Ok(held) => Some(held),
                // What was sent to the device is discarded with the rest.
                Err(_) if dirty == DirtyData::Discard => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        // Nobody overwrites anything any more.
        while cleans && self.drain_in_time(name).await? != Drained::Clean {}
        self.attachments.record_departure(attachment).await?;
        if let Some(volume) = &volume {
            let left_behind =
                || VolumeChange::LeftBehind(VolumeFence::LeftBehind { backing: volume.backing.name.clone() });
            volume.take_leave(if held.is_some() { VolumeChange::Left } else { left_behind() });
        }
        self.volumes.remove(index);
        self.ids.detach(index);
        self.clean.in_memory().forget(index);
        let answers = volume.is_none() || held.is_some();
        let (forgotten, is_forgotten) = Promise::new();
        let pool = Rc::clone(self);
        self.env.spawn(async move {
            pool.forget_volume(index, volume, held).await;
            forgotten.set(());
        });
        if answers {
            within(&self.env, limits::BACKING_TIMEOUT, is_forgotten).await;
        }
        Ok(())
    }

    /// Drains a volume as far as hosts let it, unless its backing device takes nothing.
    async fn drain_in_time(self: &Rc<Self>, name: &VolumeName) -> Result<Drained, Error> {
        let refused = |what: String| Err(Error::new(ErrorKind::Refused, format!("volume {name}: {what}")));
        let index = self.attachments.index_named(name)?;
        let mut left = self.log_counts(index).dirty;
        let mut drain = pin!(self.drain(name));
        loop {
            match within(&self.env, limits::BACKING_TIMEOUT, drain.as_mut()).await {
                Some(Ok(drained @ (Drained::Clean | Drained::Overwritten))) => return Ok(drained),
                Some(Ok(Drained::Cancelled)) => return refused("flushing its cache was cancelled".to_owned()),
                Some(Err(error)) => return Err(error),
                None => {}
            }
            let before = std::mem::replace(&mut left, self.log_counts(index).dirty);
            let stalls = self.volumes.get(index).is_none_or(|(volume, _)| volume.cleaning_stalls());
            if stalls && left >= before {
                let bytes = left * PAGE;
                let seconds = limits::BACKING_TIMEOUT.as_secs();
                return refused(format!(
                    "{bytes} bytes of dirty data are not on its backing device, which took none of them for {seconds} s: \
                     repair it, or discard the data by force"
                ));
            }
        }
    }

    /// Forgets what the pool has of a volume whose id is dead, and then its index.
    async fn forget_volume(
        self: &Rc<Self>,
        index: VolumeIndex,
        volume: Option<Rc<VolumeInner<E>>>,
        held: Option<Held>,
    ) {
        // Before a wait for a backing device that may never answer: other volumes need the rows that these pages are in.
        self.forget_live_pages_of(index).await;
        if let Some(volume) = volume {
            let waits = held.is_none();
            let held = match held {
                Some(held) => held,
                None => volume.hold_all().await,
            };
            // What is on its way to the backing device from the log ends before a host writes there.
            drop(volume.clean_locks.exclusive(0..PAGES_MAX).await);
            if waits {
                volume.life.change(VolumeChange::CaughtUp);
            }
            drop(held);
        }
        self.clean.forget_volume(index).await;
        self.clean.share_of(index).forget();
        if let Some(log) = &self.log {
            // Nobody is told of it any more.
            log.take_tally(index);
        }
        self.ids.release(index);
    }

    /// Forgets what the log has of an attachment whose id is dead.
    pub(super) async fn forget_live_pages_of(self: &Rc<Self>, index: VolumeIndex) {
        let Some(log) = &self.log else { return };
        while log.forget_some_of(index) {
            self.env.sleep(Duration::ZERO).await;
        }
        log.signals().room.wake_all();
        log.signals().mover_wanted.wake_all();
    }
}
