//! A backing device that is not trusted any more, or that was away, is checked and opened again while hosts use its
//! volume (rule `flush-covers-all`).
//!
//! What was written to it since its last flush that succeeded may not be there, whatever a later flush says. Of that, what the
//! write log has is dirty still, and is written again; what only slots have that no flush vouched for is forgotten; and
//! what hosts wrote past the cache, and were told of, they are told of again: the next flush of each of them is an error.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::sync::Promise;
use hotset_block::{Device, DeviceInfo, Env};

use crate::error::{Error, ErrorKind};
use crate::log::overlay::PAGES_MAX;
use crate::reasons::BackingStop;
use crate::volume::effort::Effort;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::VolumeInner;
use crate::volume::place::Attached;

/// How often it is asked whether the reads in flight have ended.
const LOOK: Duration = Duration::from_millis(20);

/// What became of a backing device that was to be opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// Nothing was wrong with it.
    NotNeeded,
    /// It is open again, and all that it had durably is there.
    Opened {
        /// Hosts wrote past the cache what they were told of and had not flushed: it may not be there, and the next flush of
        /// each of them is an error.
        doubtful: bool,
    },
}

/// A backing device that is being checked, and opened again.
pub(super) struct Clearing<'v, E: Env> {
    volume: &'v Rc<VolumeInner<E>>,
    /// Where the volume was when this began.
    attached: Option<Rc<Attached<E>>>,
}

impl<'v, E: Env> Clearing<'v, E> {
    pub(super) fn of(volume: &'v Rc<VolumeInner<E>>) -> Self {
        Self { volume, attached: volume.attached() }
    }

    /// See [`crate::Volume::clear`].
    pub(super) async fn run(self, open: impl AsyncFnOnce() -> Result<E::Device, Error>) -> Result<Cleared, Error> {
        let Self { volume, attached } = &self;
        let _one_at_a_time = match attached {
            Some(attached) => Some(attached.pool.admin_lock.acquire(1).await),
            None => None,
        };
        self.check()?;
        if self.is_sound().await {
            return Ok(Cleared::NotNeeded);
        }
        let held = volume.view.in_time(volume.hold_all()).await?;
        let not_cleaned = volume.view.in_time(volume.clean_locks.exclusive(0..PAGES_MAX)).await?;
        let not_published = match &attached {
            Some(attached) => Some(volume.view.in_time(attached.pool.clean.unpublished().hold()).await?),
            None => None,
        };
        // A pool that it joined meanwhile has looked at the device, and not at what is written here.
        self.check()?;
        let before = volume.backing.latched();
        volume.backing.begin_reopening(BackingStop::Reopening { backing: volume.backing.name.clone() });
        if let Err(error) = self.reopen(open).await {
            let kept = before.filter(|_| !volume.backing.is_closed());
            volume.backing.end_reopening(kept.unwrap_or_else(|| BackingStop::NotReopened(error.clone())));
            return Err(error);
        }
        let doubtful = volume.backing.unlatch();
        volume.cleaning.forget_error();
        drop((held, not_cleaned, not_published));
        if let Some(attached) = &attached {
            self.write_some_again(attached).await?;
        }
        Ok(Cleared::Opened { doubtful })
    }

    fn check(&self) -> Result<(), Error> {
        let Self { volume, attached } = self;
        let now = volume.attached();
        let same = attached.as_ref().map(Rc::as_ptr) == now.as_ref().map(Rc::as_ptr);
        let name = &volume.spec.borrow().name;
        if !same || volume.life.is_stopped() || now.is_some_and(|now| now.pool.life.is_stopping()) {
            let message = format!("volume {name}: its cache is being changed, or it is being stopped: try again");
            return Err(Error::new(ErrorKind::Refused, message));
        }
        volume.check_not_fenced().map_err(|error| Error::new(ErrorKind::Refused, error.to_string()))
    }

    /// The device takes what it is given: it flushes, and is read.
    async fn is_sound(&self) -> bool {
        let volume = self.volume;
        if volume.backing.latched().is_some() || volume.cleaning.has_failed() {
            return false;
        }
        let flushed = volume.backing.info.read_only || volume.view.flush_in_time().await.is_ok();
        let size_bytes = volume.size_bytes.get();
        flushed && matches!(volume.view.in_time(volume.view.fingerprint(0, size_bytes)).await, Ok(Some(_)))
    }

    /// Closes the device, opens it again, and judges what is there. The caller holds off everything but reads, which wait.
    async fn reopen(&self, open: impl AsyncFnOnce() -> Result<E::Device, Error>) -> Result<(), Error> {
        let Self { volume, attached } = self;
        volume
            .view
            .in_time(async {
                while !volume.backing.is_unused() {
                    volume.env.sleep(LOOK).await;
                }
            })
            .await?;
        if let Some(attached) = attached {
            attached.written_out.take();
            attached.pool.clean.forget_unpublished_of(attached.index);
        }
        volume.backing.close();
        volume.backing.put(open().await?);
        // What was written last may not be there.
        volume.memory.forget_all();
        let judged = self.judge().await;
        if judged.is_err() {
            // Nobody reads from it, for it may be another one.
            volume.backing.close();
        }
        judged
    }

    async fn judge(&self) -> Result<(), Error> {
        let Self { volume, attached } = self;
        let device = volume.backing.device()?;
        let (info, before) = (device.info(), volume.backing.info);
        if info.size_bytes < volume.size_bytes.get() {
            return Err(self.not_as_it_was(&format!("it has {} bytes", info.size_bytes)));
        }
        if (DeviceInfo { size_bytes: before.size_bytes, ..info }) != before {
            return Err(self.not_as_it_was("its block size, or what it can do, is another one"));
        }
        let known = attached.as_ref().and_then(|attached| attached.pool.attachments.at(attached.index));
        if let Some(known) = known {
            if let Some(difference) = volume.view.in_time(volume.view.difference(&known.backing)).await? {
                return Err(self.not_as_it_was(&difference));
            }
        } else if let Ok(identity) = volume.view.in_time(volume.backing.identity_now()).await?
            && identity.id != volume.backing.id
        {
            return Err(self.not_as_it_was(&format!("it was {:?} and is {:?}", volume.backing.id, identity.id)));
        }
        if info.read_only { Ok(()) } else { volume.view.in_time(volume.backing.flush_to_judge()).await? }
    }

    fn not_as_it_was(&self, difference: &str) -> Error {
        let message = format!("backing device {} is not as it was: {difference}", self.volume.backing.name);
        Error::new(ErrorKind::Refused, message)
    }

    /// Writes some of what is dirty, to see that the device takes it; the cleaner goes on with the rest. Who cancels the wait
    /// does not cancel the writes.
    async fn write_some_again(&self, attached: &Rc<Attached<E>>) -> Result<(), Error> {
        let Some(log) = attached.pool.log.clone() else { return Ok(()) };
        if log.counts(attached.index).dirty == 0 || !self.volume.cleaning.begin() {
            return Ok(());
        }
        let (volume, attached) = (Rc::clone(self.volume), Rc::clone(attached));
        let (promise, written) = Promise::new();
        self.volume.env.spawn(async move {
            let logged = LoggedVolume { volume: &volume, attached: &attached, log: &log };
            let passed = logged.clean_pass(Effort::Full).await;
            volume.cleaning.end();
            log.signals().room.wake_all();
            log.signals().cleaner_wanted.wake_all();
            promise.set(passed.map(|_| ()));
        });
        self.volume.view.in_time(written).await?.unwrap_or(Ok(()))
    }
}
