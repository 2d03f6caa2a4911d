//! What the data plane does with pools.

use std::path::PathBuf;
use std::rc::Rc;

use futures_util::future::{join_all, try_join_all};
use hotset_block::{ByteRange, Device, HostDevice, HostEnv};
use hotset_cache::config::{PoolName, PoolSettings, VolumeName, VolumeSettings, VolumeSpec};
use hotset_cache::{
    BackingEvidence, DirtyData, Drained, Error, FailedSsd, Missing, Named, Pool, PoolSpec, PoolStatus, Reattached,
    Removed, Takeover, dismiss_owner, may_have_owner, random_uuid,
};

use super::device;
use super::open::{Plane, name_taken};

/// A pool that was opened, and the volumes that its catalogue names.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) status: PoolStatus,
    pub(crate) volumes: Vec<VolumeSpec>,
}

/// The pools of a thread of the data plane, for those who change them.
pub(crate) struct PlanePools {
    plane: Rc<Plane>,
}

impl Plane {
    pub(crate) fn pools(self: Rc<Self>) -> PlanePools {
        PlanePools { plane: self }
    }
}

impl PlanePools {
    /// A UUID for a pool that is to be made.
    pub(crate) fn new_uuid(&self) -> u128 {
        random_uuid(&self.plane.env)
    }

    /// Makes a pool on SSDs that may be overwritten.
    pub(crate) async fn create_pool(
        self,
        spec: PoolSpec,
        ssds: Vec<String>,
        state: PathBuf,
    ) -> Result<PoolStatus, Error> {
        let uuid = self.new_uuid();
        self.create_pool_as(uuid, spec, ssds, state).await
    }

    /// The same, of a UUID that no pool ever had.
    pub(crate) async fn create_pool_as(
        self,
        uuid: u128,
        spec: PoolSpec,
        ssds: Vec<String>,
        state: PathBuf,
    ) -> Result<PoolStatus, Error> {
        let name = spec.name.clone();
        if self.plane.place.places.of_pool(&name).is_some() {
            return Err(name_taken(&name));
        }
        let ssds = self.open_ssds(&ssds).await?;
        let state = device::open_member(&self.plane.env, &state).await?;
        let pool = Pool::create_as(uuid, self.env_of(&name), spec, ssds, state).await?;
        let status = pool.status();
        self.plane.keep_pool(name, pool)?;
        Ok(status)
    }

    /// Opens a pool, which should be called `name`; its volumes are not opened yet.
    pub(crate) async fn open_pool(
        self,
        name: PoolName,
        ssds: Vec<String>,
        state: PathBuf,
        missing: Missing,
    ) -> Result<Opened, Error> {
        let ssds = self.open_ssds(&ssds).await?;
        let state = device::open_member(&self.plane.env, &state).await?;
        let pool = Pool::open(self.env_of(&name), ssds, Some(state), missing).await?;
        let opened = Opened { status: pool.status(), volumes: pool.unattached_volumes() };
        let name = opened.status.name.clone();
        if let Err(error) = self.plane.keep_pool(name, pool.clone()) {
            pool.close().await?;
            return Err(error);
        }
        Ok(opened)
    }

    /// Looks whether another machine uses these SSDs, before they are opened. Those that cannot be opened now say nothing.
    pub(crate) async fn dismiss_owner(self, ssds: Vec<String>, takeover: Takeover) -> Result<(), Error> {
        let looked_at = ssds.iter().map(async |path| {
            let device = device::open_to_look(&self.plane.env, path).await.ok()?;
            Some(Named { path: path.clone(), device })
        });
        let looked_at: Vec<_> = join_all(looked_at).await.into_iter().flatten().collect();
        if !may_have_owner(&self.plane.env, &looked_at).await {
            return Ok(());
        }
        drop(looked_at);
        let opened = join_all(ssds.iter().map(|path| device::open_ssd(&self.plane.env, path))).await;
        let ssds: Vec<_> = opened.into_iter().flatten().collect();
        dismiss_owner(&self.plane.env, &ssds, takeover).await
    }

    /// A panic in what it spawns says for which pool it was at work.
    fn env_of(&self, pool: &PoolName) -> HostEnv {
        self.plane.env.at_work_for(&format!("pool {pool}"))
    }

    async fn open_ssds(&self, paths: &[String]) -> Result<Vec<Named<HostDevice>>, Error> {
        try_join_all(paths.iter().map(|path| device::open_ssd(&self.plane.env, path))).await
    }

    /// Each SSD's path, and the disk that it fails with; of SSDs that no pool uses.
    pub(crate) async fn disks_of(self, ssds: Vec<String>) -> Result<Vec<(String, String)>, Error> {
        let looked_at = ssds.into_iter().map(async |path| {
            let device = device::open_to_look(&self.plane.env, &path).await?;
            Ok((path, disk_of(&device)))
        });
        try_join_all(looked_at).await
    }

    pub(crate) async fn set_pool(self, name: PoolName, settings: PoolSettings) -> Result<PoolStatus, Error> {
        let pool = self.plane.pool(&name)?;
        pool.set(settings).await?;
        Ok(pool.status())
    }

    /// Takes the cache from all volumes of the pool, then makes the SSDs forget it.
    pub(crate) async fn delete_pool(self, name: PoolName, dirty: DirtyData) -> Result<(), Error> {
        self.plane.pool(&name)?.delete(dirty).await?;
        self.plane.forget_pool(&name);
        Ok(())
    }

    /// The same of a pool that is made anew whatever comes: it is closed even if an SSD would not forget it.
    pub(crate) async fn dissolve_pool(self, name: PoolName) -> Result<(), Error> {
        let dissolved = self.plane.pool(&name)?.delete(DirtyData::Clean).await;
        self.plane.forget_pool(&name);
        dissolved
    }

    /// Tells a pool of SSDs that failed in earlier runs; answers its status with them.
    pub(crate) async fn remember_failed(self, name: PoolName, ssds: Vec<FailedSsd>) -> Result<PoolStatus, Error> {
        let pool = self.plane.pool(&name)?;
        pool.remember_failed(&ssds);
        Ok(pool.status())
    }

    pub(crate) async fn add_ssds(self, name: PoolName, ssds: Vec<String>) -> Result<(), Error> {
        let ssds = self.open_ssds(&ssds).await?;
        self.plane.pool(&name)?.add_ssds(ssds).await.map(|_| ())
    }

    /// The SSDs that are to be taken back when they are there, by pool.
    pub(crate) async fn ssds_returning(self) -> Result<Vec<(PoolName, Vec<(u128, String)>)>, Error> {
        let pools = self.plane.pools.borrow();
        let awaited = pools.iter().map(|(name, pool)| (name.clone(), pool.ssds_returning()));
        Ok(awaited.filter(|(_, ssds)| !ssds.is_empty()).collect())
    }

    /// The SSDs that a pool which is not open is to take back, as its copy in the state directory says.
    pub(crate) async fn ssds_awaited_by(self, state: PathBuf) -> Result<Vec<u128>, Error> {
        let state = device::open_member_to_look(&self.plane.env, &state).await?;
        hotset_cache::ssds_awaited(&self.plane.env, &state).await
    }

    /// One of them is there again.
    pub(crate) async fn bring_back(self, name: PoolName, path: String) -> Result<(), Error> {
        let pool = self.plane.pool(&name)?;
        pool.bring_back(device::open_ssd(&self.plane.env, &path).await?).await
    }

    /// Empties SSDs and makes them nobody's, for as long as that takes.
    pub(crate) async fn remove_ssds(self, name: PoolName, uuids: Vec<u128>) -> Result<Removed, Error> {
        self.plane.pool(&name)?.remove_ssds(&uuids).await
    }

    /// See [`hotset_cache::Pool::check_volumes`].
    pub(crate) async fn check_volumes(
        self,
        name: PoolName,
        leave: Vec<VolumeName>,
        stay: Vec<(VolumeName, VolumeSettings)>,
    ) -> Result<(), Error> {
        self.plane.pool(&name)?.check_volumes(&leave, &stay)
    }

    pub(crate) async fn cancel_removal(self, name: PoolName) -> Result<(), Error> {
        self.plane.pool(&name)?.cancel_removal();
        Ok(())
    }

    pub(crate) async fn add_spares(self, name: PoolName, ssds: Vec<String>) -> Result<(), Error> {
        let ssds = self.open_ssds(&ssds).await?;
        self.plane.pool(&name)?.add_spares(ssds).await.map(|_| ())
    }

    pub(crate) async fn remove_spares(self, name: PoolName, uuids: Vec<u128>) -> Result<(), Error> {
        self.plane.pool(&name)?.remove_spares(&uuids).await
    }

    /// What is lost of each volume of the pool.
    pub(crate) async fn losses(
        self,
        name: PoolName,
        extents_max: usize,
    ) -> Result<Vec<(VolumeName, Vec<ByteRange>)>, Error> {
        Ok(self.plane.pool(&name)?.lost_extents(extents_max))
    }

    /// Accepts that loss; answers the bytes.
    pub(crate) async fn accept_loss(self, name: PoolName) -> Result<u64, Error> {
        self.plane.pool(&name)?.accept_loss().await
    }

    pub(crate) async fn attach(self, pool: PoolName, volume: VolumeName) -> Result<(), Error> {
        self.plane.pool(&pool)?.attach(&self.plane.volume(&volume)?).await
    }

    pub(crate) async fn reattach(self, pool: PoolName, volume: VolumeName) -> Result<Reattached, Error> {
        self.plane.pool(&pool)?.reattach(&self.plane.volume(&volume)?).await
    }

    pub(crate) async fn backing_evidence(self, pool: PoolName, volume: VolumeName) -> Result<BackingEvidence, Error> {
        self.plane.pool(&pool)?.backing_evidence(&self.plane.volume(&volume)?).await
    }

    /// See [`Pool::clean_backing`].
    pub(crate) async fn clean_backing(
        self,
        pool: PoolName,
        volume: VolumeName,
    ) -> Result<Option<(String, u64)>, Error> {
        self.plane.pool(&pool)?.clean_backing(&volume)
    }

    /// Takes the backing device of a fenced volume for the right one.
    pub(crate) async fn accept_backing(self, pool: PoolName, volume: VolumeName) -> Result<(), Error> {
        self.plane.pool(&pool)?.accept_backing(&self.plane.volume(&volume)?).await
    }

    pub(crate) async fn detach(self, pool: PoolName, volume: VolumeName, dirty: DirtyData) -> Result<(), Error> {
        self.plane.pool(&pool)?.detach(&volume, dirty).await
    }

    /// Writes a volume's dirty data to its backing device, for as long as that takes.
    pub(crate) async fn drain(self, pool: PoolName, volume: VolumeName) -> Result<Drained, Error> {
        self.plane.pool(&pool)?.drain(&volume).await
    }

    pub(crate) async fn cancel_drain(self, pool: PoolName, volume: VolumeName) -> Result<(), Error> {
        self.plane.pool(&pool)?.cancel_drain(&volume);
        Ok(())
    }
}

/// The physical device under a device; empty if it does not say.
fn disk_of(device: &HostDevice) -> String {
    device.identity().map(|identity| identity.parent).unwrap_or_default()
}

/// What a pool over SSDs of these sizes would be like.
pub(crate) fn plan(spec: &PoolSpec, ssd_sizes_bytes: &[u64]) -> Result<hotset_cache::PoolPlan, Error> {
    Pool::<HostEnv>::plan(spec, ssd_sizes_bytes)
}
