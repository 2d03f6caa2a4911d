//! Dirty data goes to the backing devices: the task that sees to it that volumes are cleaned, and a volume that is to have nothing
//! dirty any more, because its cache is to be taken away. `volume/cleaner.rs` is how a volume is cleaned.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::config::{PAGE, VolumeName};
use crate::error::{Error, ErrorKind};
use crate::log::Log;
use crate::pool::inner::PoolInner;
use crate::time_limit::within;
use crate::volume::cleaner::clean_if_due;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::VolumeInner;
use crate::volume::life::VolumeChange;

/// How often the task looks by itself, and a drain whether it gets on.
const INTERVAL: Duration = Duration::from_millis(500);

/// A drain tries for so long to leave less dirty than it did before.
const STEADY: Duration = Duration::from_secs(5);

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing is dirty.
    Clean,
    /// Hosts overwrite what is dirty as fast as it is cleaned. Only holding them up ends that, as `detach` does for a moment.
    Overwritten,
    /// `cancel_drain` was called.
    Cancelled,
}

impl<E: Env> PoolInner<E> {
    /// The task that starts cleaning where it is due. Each volume is cleaned by a task of its own, so that a backing
    /// device that hangs holds up its own volume only.
    pub(crate) async fn run_cleaner(self: Rc<Self>, log: Rc<Log<E>>) {
        while !self.life.is_ending_log() {
            let wanted = log.signals().cleaner_wanted.wait();
            for (index, volume) in self.volumes.all() {
                let Some(attached) = volume.attached_at(&self.rooms, index) else { continue };
                clean_if_due(volume, attached);
            }
            within(&self.env, INTERVAL, wanted).await;
        }
    }

    /// See [`crate::Pool::drain`].
    pub(crate) async fn drain(self: &Rc<Self>, name: &VolumeName) -> Result<Drained, Error> {
        let Some(log) = &self.log else { return Ok(Drained::Clean) };
        let index = self.attachments.index_named(name)?;
        if let Some(reason) = self.ids.of(index).and_then(|attachment| self.unknown_loss(attachment)) {
            return Err(Error::new(ErrorKind::Refused, format!("volume {name}: {reason}")));
        }
        let Some((volume, _)) = self.volumes.get(index) else {
            return self.refuse_dirty(log, index, name).map(|()| Drained::Clean);
        };
        volume.life.change(VolumeChange::DrainBegan);
        let cleaned = || volume.stats.cleaned_bytes();
        let mut least = (u64::MAX, self.env.now(), cleaned());
        loop {
            let changed = log.signals().room.wait();
            if volume.life.is_drain_cancelled() {
                return Ok(Drained::Cancelled);
            }
            let dirty = log.counts(index).dirty;
            let Some(attached) = volume.attached_at(&self.rooms, index).filter(|_| dirty > 0) else {
                return Ok(Drained::Clean);
            };
            let (before, since, cleaned_then) = least;
            if dirty < before {
                least = (dirty, self.env.now(), cleaned());
            } else if self.env.now().since(since) >= STEADY && cleaned() - cleaned_then >= before * PAGE {
                return Ok(Drained::Overwritten);
            }
            if let Some(error) = LoggedVolume::of(&volume, &attached).and_then(LoggedVolume::cannot_clean) {
                volume.life.change(VolumeChange::DrainEnded);
                return Err(error);
            }
            log.signals().cleaner_wanted.wake_all();
            within(&self.env, INTERVAL, changed).await;
        }
    }

    /// Refuses, with the bytes, if a volume that is not attached has dirty data.
    pub(crate) fn refuse_dirty(&self, log: &Log<E>, index: VolumeIndex, name: &VolumeName) -> Result<(), Error> {
        let dirty = log.counts(index).dirty * PAGE;
        if dirty == 0 {
            return Ok(());
        }
        let message = format!(
            "volume {name}: {dirty} bytes of dirty data are not on its backing device, which is not there: bring it back, \
             or discard the data by force"
        );
        Err(Error::new(ErrorKind::Refused, message))
    }

    pub(crate) fn cancel_drain(&self, name: &VolumeName) {
        if let Some(volume) = self.volume_named(name) {
            self.end_drain(&volume);
        }
    }

    /// If it is attached.
    pub(crate) fn volume_named(&self, name: &VolumeName) -> Option<Rc<VolumeInner<E>>> {
        let index = self.attachments.index_named(name).ok()?;
        self.volumes.get(index).map(|(volume, _)| volume)
    }

    pub(crate) fn end_drain(&self, volume: &VolumeInner<E>) {
        volume.life.change(VolumeChange::DrainEnded);
        if let Some(log) = &self.log {
            log.signals().room.wake_all();
        }
    }
}
