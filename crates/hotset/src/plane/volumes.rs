//! What the data plane does with volumes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::{Env as _, HostDevice, HostEnv};
use hotset_cache::advisor::miniature::Setup;
use hotset_cache::advisor::tap::{Taken, Wanted};
use hotset_cache::config::{IoType, PoolKind, PoolSettings, VolumeName, VolumeSettings, VolumeSpec};
use hotset_cache::{Cleared, Error, ErrorKind, Explanation, Flushed, Recorded, Volume, VolumeStatus};

use super::device;
use super::open::Plane;
use super::stop::HOSTS_LIMIT;

/// How long the last flush of a volume that is closed may take.
const FLUSH_LIMIT: Duration = Duration::from_secs(30);

/// What was accessed of a volume.
#[derive(Debug)]
pub(crate) struct TakenOfVolume {
    pub(crate) name: VolumeName,
    pub(crate) size_bytes: u64,
    /// Of its pool; `None`: it is not cached.
    pub(crate) setup: Option<Setup>,
    pub(crate) taken: Taken,
}

/// The pool that an uncached volume is advised as if it had it: one with default settings.
pub(crate) fn uncached_setup() -> Setup {
    let kind = PoolKind::ReadWrite;
    let settings = PoolSettings::preset(kind, IoType::Database);
    Setup {
        kind,
        block_bytes: settings.block_bytes,
        policy: settings.policy,
        populate_on_read: settings.populate_on_read,
        populate_on_write: settings.populate_on_write,
    }
}

impl Plane {
    /// Opens a new volume whose logical block is what the backing device has, unless somebody chose it.
    pub(crate) async fn open_new_volume(
        self: Rc<Self>,
        mut spec: VolumeSpec,
        logical_block_bytes: Option<u32>,
    ) -> Result<VolumeStatus, Error> {
        let backing = device::open_backing(&self.env, &spec).await?;
        let block_bytes = logical_block_bytes.unwrap_or_else(|| device::block_of(&backing));
        device::check_whole(&backing, &spec.backing, block_bytes)?;
        spec.settings.logical_block_bytes = block_bytes;
        self.install(spec, backing)
    }

    /// Opens a volume over its backing device; hosts do not see it before [`Plane::export`].
    pub(crate) async fn open_volume(self: Rc<Self>, spec: VolumeSpec) -> Result<VolumeStatus, Error> {
        let backing = device::open_backing(&self.env, &spec).await?;
        self.install(spec, backing)
    }

    fn install(&self, spec: VolumeSpec, backing: HostDevice) -> Result<VolumeStatus, Error> {
        let name = spec.name.clone();
        self.check_volume_name(&name)?;
        let volume = Volume::open_in(self.env.at_work_for(&format!("volume {name}")), spec, backing, &self.memory)?;
        let status = volume.status();
        self.keep_volume(name, volume);
        Ok(status)
    }

    fn check_volume_name(&self, name: &VolumeName) -> Result<(), Error> {
        if self.place.places.of_volume(name).is_some() {
            return Err(Error::new(ErrorKind::Refused, format!("volume {name}: a volume of this name exists already")));
        }
        Ok(())
    }

    /// Lets hosts use a volume.
    pub(crate) async fn export(self: Rc<Self>, name: VolumeName) -> Result<(), Error> {
        self.exports.add(self.volume(&name)?)
    }

    /// Hides a volume from hosts; it stays open.
    pub(crate) async fn hide(self: Rc<Self>, name: VolumeName) -> Result<(), Error> {
        self.exports.remove(name.as_str(), HOSTS_LIMIT).await;
        Ok(())
    }

    /// Takes a volume from hosts, makes what they wrote durable, and closes it.
    pub(crate) async fn remove_volume(self: Rc<Self>, name: VolumeName) -> Result<(), Error> {
        let volume = self.volume(&name)?;
        self.exports.remove(name.as_str(), HOSTS_LIMIT).await;
        let (flush, limit) = (pin!(volume.flush()), pin!(self.env.sleep(FLUSH_LIMIT)));
        let flushed = select(flush, limit).await;
        self.forget_volume(&name);
        match flushed {
            Either::Left((flushed, _)) => flushed,
            Either::Right(_) => {
                let message = format!(
                    "volume {name}: its backing device did not flush within {} s; the volume is closed, but what hosts wrote \
                     last may not be durable",
                    FLUSH_LIMIT.as_secs()
                );
                Err(Error::new(ErrorKind::Media, message))
            }
        }
    }

    /// Durable in the volume's pool first; then hosts find it by the new name.
    pub(crate) async fn rename_volume(self: Rc<Self>, from: VolumeName, to: VolumeName) -> Result<(), Error> {
        let volume = self.volume(&from)?;
        self.check_volume_name(&to)?;
        volume.rename(to.clone()).await?;
        self.forget_volume(&from);
        self.keep_volume(to, volume.clone());
        self.exports.rename(from.as_str(), volume)
    }

    /// The volumes whose backing devices have grown.
    pub(crate) async fn can_grow(self: Rc<Self>) -> Result<Vec<VolumeName>, Error> {
        let volumes = self.volumes.borrow();
        Ok(volumes.values().filter(|volume| volume.can_grow()).map(Volume::name).collect())
    }

    /// Takes in what was added to the backing device; new connections see it. Answers whether anything was.
    pub(crate) async fn grow_volume(self: Rc<Self>, name: VolumeName) -> Result<bool, Error> {
        let volume = self.volume(&name)?;
        let before = volume.size_bytes();
        let grown = volume.grow().await? > before;
        if grown {
            self.exports.refresh(&volume);
        }
        Ok(grown)
    }

    /// Checks a volume's backing device and opens it again.
    pub(crate) async fn clear_volume(self: Rc<Self>, name: VolumeName) -> Result<Cleared, Error> {
        let volume = self.volume(&name)?;
        let spec = VolumeSpec { name, backing: volume.status().backing, settings: volume.settings() };
        volume.clear(async || device::open_backing(&self.env, &spec).await).await
    }

    /// Where the page of a volume is in which this byte lies.
    pub(crate) async fn explain(self: Rc<Self>, name: VolumeName, offset: u64) -> Result<Explanation, Error> {
        self.volume(&name)?.explain(offset)
    }

    /// Accesses of all volumes since the last time; from now on those that are wanted, and everything of volumes that nobody knows yet.
    pub(crate) async fn take_accesses(
        self: Rc<Self>,
        wanted: Arc<BTreeMap<VolumeName, Wanted>>,
    ) -> Result<Vec<TakenOfVolume>, Error> {
        let volumes = self.volumes.borrow();
        let take = |volume: &Volume<HostEnv>| {
            let (name, setup) = (volume.name(), volume.pool_setup());
            let nothing = Wanted { block_bytes: uncached_setup().block_bytes, rate: None };
            let taken = volume.take_accesses(wanted.get(&name).copied().unwrap_or(nothing));
            TakenOfVolume { name, size_bytes: volume.size_bytes(), setup, taken }
        };
        Ok(volumes.values().map(take).collect())
    }

    /// Begins to record a volume's requests; answers the recording's id.
    pub(crate) async fn begin_recording(self: Rc<Self>, name: VolumeName) -> Result<u64, Error> {
        self.volume(&name)?.begin_recording().ok_or_else(|| {
            Error::new(ErrorKind::Refused, format!("volume {name}: its requests are recorded by somebody else"))
        })
    }

    /// What was recorded of a volume since the portion before this one; `None`: nothing is recorded under this id any more.
    pub(crate) async fn take_recorded(
        self: Rc<Self>,
        name: VolumeName,
        id: u64,
        portion: u64,
    ) -> Result<Option<Recorded>, Error> {
        Ok(self.volume(&name)?.take_recorded(id, portion))
    }

    pub(crate) async fn end_recording(self: Rc<Self>, name: VolumeName, id: u64) -> Result<(), Error> {
        self.volume(&name)?.end_recording(id);
        Ok(())
    }

    /// The volumes whose backing devices were closed and could not be opened again.
    pub(crate) async fn closed(self: Rc<Self>) -> Result<Vec<VolumeName>, Error> {
        let volumes = self.volumes.borrow();
        Ok(volumes.values().filter(|volume| volume.is_closed()).map(Volume::name).collect())
    }

    /// Writes what is dirty now to the backing device, for as long as that takes.
    pub(crate) async fn flush_now(self: Rc<Self>, name: VolumeName) -> Result<Flushed, Error> {
        self.volume(&name)?.flush_now().await
    }

    pub(crate) async fn cancel_flush_now(self: Rc<Self>, name: VolumeName) -> Result<(), Error> {
        self.volume(&name)?.cancel_flush_now();
        Ok(())
    }

    /// Nothing new stays dirty from now on.
    pub(crate) async fn hold_writes(self: Rc<Self>, name: VolumeName) -> Result<(), Error> {
        self.volume(&name)?.hold_writes();
        Ok(())
    }

    pub(crate) async fn release_writes(self: Rc<Self>, name: VolumeName) -> Result<(), Error> {
        self.volume(&name)?.release_writes();
        Ok(())
    }

    pub(crate) async fn set_volume(
        self: Rc<Self>,
        name: VolumeName,
        settings: VolumeSettings,
    ) -> Result<VolumeStatus, Error> {
        let volume = self.volume(&name)?;
        volume.set(settings).await?;
        Ok(volume.status())
    }

    /// Whether it can have these settings now.
    pub(crate) async fn check_volume(self: Rc<Self>, name: VolumeName, settings: VolumeSettings) -> Result<(), Error> {
        self.volume(&name)?.check(settings)
    }
}
