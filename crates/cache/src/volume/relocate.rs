//! A volume without a cache goes to another thread: its device is closed on one and opened on the other, for what is under way
//! on a device stays on the thread that began it.
//!
//! Everything that was acknowledged before is durable before the device is closed, so that a flush after the move covers it
//! (rule `flush-covers-all`). What is counted goes on.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::{DeviceInfo, Env};

use crate::config::VolumeSpec;
use crate::error::{Error, ErrorKind};
use crate::members::flusher::Mark;
use crate::memory_cache::MemoryCache;
use crate::reasons::BackingStop;
use crate::status::{DeviceIo, VolumeStats};
use crate::volume::backing::{Backing, Doubt};
use crate::volume::inner::{Volume, VolumeInner};
use crate::volume::latency::LatencyCounters;
use crate::volume::stats::Stats;

/// How often it is asked whether the reads in flight have ended.
const LOOK: Duration = Duration::from_millis(20);

/// A volume on its way, without its device.
#[derive(Debug)]
pub struct Relocated {
    spec: VolumeSpec,
    size_bytes: u64,
    id: String,
    info: DeviceInfo,
    stats: VolumeStats,
    latencies: (LatencyCounters, LatencyCounters),
    backing_io: DeviceIo,
    doubt: Doubt,
    writes_held: bool,
}

impl Relocated {
    /// As it is called, and set.
    pub fn spec(&self) -> &VolumeSpec {
        &self.spec
    }
}

impl<E: Env> Volume<E> {
    /// Makes durable what hosts have written, closes the backing device, and answers what goes on elsewhere. Whoever serves the
    /// volume sees to it that hosts ask for nothing from now on.
    ///
    /// # Errors
    /// It has a cache, or is fenced; its device failed, does not flush or does not answer: then nothing has changed.
    pub async fn relocate(&self) -> Result<Relocated, Error> {
        self.inner.relocate().await
    }

    /// Makes durable what hosts have written so far, so that [`Volume::relocate`] has little to do.
    ///
    /// # Errors
    /// As [`Volume::relocate`].
    pub async fn flush_to_relocate(&self) -> Result<(), Error> {
        self.inner.check_relocates()?;
        if self.inner.backing.info.read_only { Ok(()) } else { self.inner.view.flush_in_time().await }
    }

    /// It did not work out: opens the device of this volume again. If that fails, too, [`Volume::clear`] is to be tried later.
    pub async fn stay(&self, open: impl AsyncFnOnce() -> Result<E::Device, Error>) -> Result<(), Error> {
        let backing = &self.inner.backing;
        backing.end_reopening(BackingStop::Closed { backing: backing.name.clone() });
        self.clear(open).await.map(|_| ())
    }

    /// The volume in its new place, over its device.
    ///
    /// # Errors
    /// The device is not as it was.
    pub fn arrive(env: E, relocated: Relocated, device: E::Device, memory: &MemoryCache) -> Result<Self, Error> {
        let backing = Backing::new(env.clone(), relocated.spec.backing.clone(), device);
        let size_bytes = backing.info.size_bytes;
        let alike = DeviceInfo { size_bytes, ..relocated.info } == backing.info && relocated.id == backing.id;
        if !alike || size_bytes < relocated.size_bytes {
            let message = format!("backing device {} is not as it was", backing.name);
            return Err(Error::new(ErrorKind::Refused, message));
        }
        backing.io.resume(relocated.backing_io);
        backing.doubt(relocated.doubt);
        let stats = Stats::resumed(relocated.stats, relocated.latencies);
        let volume = Self::of(VolumeInner::over(env, relocated.spec, backing, relocated.size_bytes, stats, memory));
        if relocated.writes_held {
            volume.hold_writes();
        }
        Ok(volume)
    }

    /// Who uses this handle is not told yet that what was written may not be there.
    pub fn owes_warning(&self) -> bool {
        self.inner.backing.check_told(self.told.get()).is_err()
    }

    /// That goes for this handle, too.
    pub fn owe_warning(&self) {
        self.told.set(Mark::default());
    }
}

impl<E: Env> VolumeInner<E> {
    async fn relocate(self: &Rc<Self>) -> Result<Relocated, Error> {
        self.check_relocates()?;
        let _held = self.view.in_time(self.hold_all()).await?;
        self.check_relocates()?;
        if !self.backing.info.read_only {
            self.view.flush_in_time().await?;
        }
        self.view
            .in_time(async {
                while !self.backing.is_unused() {
                    self.env.sleep(LOOK).await;
                }
            })
            .await?;
        self.check_relocates()?;
        self.backing.begin_reopening(BackingStop::Moving { backing: self.backing.name.clone() });
        self.backing.close();
        Ok(Relocated {
            spec: self.spec.borrow().clone(),
            size_bytes: self.size_bytes.get(),
            id: self.backing.id.clone(),
            info: self.backing.info,
            stats: self.counted(),
            latencies: (self.stats.read_latency.counters(), self.stats.write_latency.counters()),
            backing_io: self.backing.io.snapshot(),
            doubt: self.backing.doubted(),
            writes_held: self.life.holds_writes(),
        })
    }

    fn check_relocates(&self) -> Result<(), Error> {
        self.check_not_fenced().map_err(|error| Error::new(ErrorKind::Refused, error.to_string()))?;
        let refused = |why: String| {
            let name = &self.spec.borrow().name;
            Err(Error::new(ErrorKind::Refused, format!("volume {name} cannot change its thread now: {why}")))
        };
        if self.attached().is_some() || self.life.is_stopped() {
            return refused("its cache is being changed, or it is being stopped".to_owned());
        }
        self.backing.latched().map_or(Ok(()), |stop| refused(stop.to_string()))
    }
}
