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
use crate::volume::cleaner::Effort;
use crate::volume::in_log::LoggedVolume;
use crate::volume::{Attached, VolumeInner};

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

impl<E: Env> VolumeInner<E> {
    /// See [`crate::Volume::clear`].
    pub(crate) async fn clear(
        self: &Rc<Self>,
        open: impl AsyncFnOnce() -> Result<E::Device, Error>,
    ) -> Result<Cleared, Error> {
        let attached = self.attached();
        let _one_at_a_time = match &attached {
            Some(attached) => Some(attached.pool.admin_lock.acquire(1).await),
            None => None,
        };
        self.check_clear(attached.as_ref())?;
        if self.is_sound().await {
            return Ok(Cleared::NotNeeded);
        }
        let held = self.in_time(self.hold_all()).await?;
        let not_cleaned = self.in_time(self.clean_locks.exclusive(0..PAGES_MAX)).await?;
        let not_published = match &attached {
            Some(attached) => Some(self.in_time(attached.pool.clean.unpublished().hold()).await?),
            None => None,
        };
        // A pool that it joined meanwhile has looked at the device, and not at what is written here.
        self.check_clear(attached.as_ref())?;
        let before = self.backing.latched();
        self.backing.begin_reopening(format!("backing device {} is being opened again", self.backing.name));
        if let Err(error) = self.reopen(attached.as_deref(), open).await {
            let kept = before.filter(|_| !self.backing.is_closed());
            self.backing.end_reopening(kept.unwrap_or_else(|| error.to_string()));
            return Err(error);
        }
        let doubtful = self.backing.unlatch();
        *self.clean_error.borrow_mut() = None;
        drop((held, not_cleaned, not_published));
        if let Some(attached) = &attached {
            self.write_some_again(attached).await?;
        }
        Ok(Cleared::Opened { doubtful })
    }

    fn check_clear(&self, attached: Option<&Rc<Attached<E>>>) -> Result<(), Error> {
        let now = self.attached();
        let same = attached.map(Rc::as_ptr) == now.as_ref().map(Rc::as_ptr);
        let name = &self.spec.borrow().name;
        if !same || self.stopped.get() || now.is_some_and(|now| now.pool.life.is_stopping()) {
            let message = format!("volume {name}: its cache is being changed, or it is being stopped: try again");
            return Err(Error::new(ErrorKind::Refused, message));
        }
        self.check_not_fenced().map_err(|error| Error::new(ErrorKind::Refused, error.to_string()))
    }

    /// The device takes what it is given: it flushes, and is read.
    async fn is_sound(self: &Rc<Self>) -> bool {
        if self.backing.latched().is_some() || self.clean_error.borrow().is_some() {
            return false;
        }
        let flushed = self.backing.info.read_only || self.flush_in_time().await.is_ok();
        let size_bytes = self.size_bytes.get();
        flushed && matches!(self.in_time(self.fingerprint(0, size_bytes)).await, Ok(Some(_)))
    }

    /// Closes the device, opens it again, and judges what is there. The caller holds off everything but reads, which wait.
    async fn reopen(
        self: &Rc<Self>,
        attached: Option<&Attached<E>>,
        open: impl AsyncFnOnce() -> Result<E::Device, Error>,
    ) -> Result<(), Error> {
        self.in_time(async {
            while !self.backing.is_unused() {
                self.env.sleep(LOOK).await;
            }
        })
        .await?;
        if let Some(attached) = attached {
            attached.written_out.borrow_mut().clear();
            attached.pool.clean.forget_unpublished_of(attached.index);
        }
        self.backing.close();
        self.backing.put(open().await?);
        // What was written last may not be there.
        self.memory.forget_all();
        let judged = self.judge(attached).await;
        if judged.is_err() {
            // Nobody reads from it, for it may be another one.
            self.backing.close();
        }
        judged
    }

    async fn judge(self: &Rc<Self>, attached: Option<&Attached<E>>) -> Result<(), Error> {
        let device = self.backing.device()?;
        let (info, before) = (device.info(), self.backing.info);
        if info.size_bytes < self.size_bytes.get() {
            return Err(self.not_as_it_was(&format!("it has {} bytes", info.size_bytes)));
        }
        if (DeviceInfo { size_bytes: before.size_bytes, ..info }) != before {
            return Err(self.not_as_it_was("its block size, or what it can do, is another one"));
        }
        let known = attached.and_then(|attached| attached.pool.attachments.at(attached.index));
        if let Some(known) = known {
            if let Some(difference) = self.in_time(self.difference(&known.backing)).await? {
                return Err(self.not_as_it_was(&difference));
            }
        } else if let Ok(identity) = device.identity()
            && identity.id != self.backing.id
        {
            return Err(self.not_as_it_was(&format!("it was {:?} and is {:?}", self.backing.id, identity.id)));
        }
        if info.read_only { Ok(()) } else { self.in_time(self.backing.flush_to_judge()).await? }
    }

    fn not_as_it_was(&self, difference: &str) -> Error {
        let message = format!("backing device {} is not as it was: {difference}", self.backing.name);
        Error::new(ErrorKind::Refused, message)
    }

    /// Writes some of what is dirty, to see that the device takes it; the cleaner goes on with the rest. Who gives up the wait
    /// does not give up the writes.
    async fn write_some_again(self: &Rc<Self>, attached: &Rc<Attached<E>>) -> Result<(), Error> {
        let Some(log) = attached.pool.log.clone() else { return Ok(()) };
        if log.counts(attached.index).dirty == 0 || self.cleaning.replace(true) {
            return Ok(());
        }
        let (volume, attached) = (Rc::clone(self), Rc::clone(attached));
        let (promise, written) = Promise::new();
        self.env.spawn(async move {
            let logged = LoggedVolume { volume: &volume, attached: &attached, log: &log };
            let passed = logged.clean_pass(Effort::Full).await;
            volume.cleaning.set(false);
            log.signals().room.wake_all();
            log.signals().cleaner_wanted.wake_all();
            promise.set(passed.map(|_| ()));
        });
        self.in_time(written).await?.unwrap_or(Ok(()))
    }
}
