//! What the demo plays on: an emulated array, SSD images, a data plane, and a volume on a unix socket.

use std::num::NonZero;
use std::path::Path;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_block::{ExecutorOptions, Machine};
use hotset_cache::config::{
    FetchRate, IoType, PoolKind, PoolName, PoolSettings, VolumeName, VolumeSettings, VolumeSpec,
};
use hotset_cache::{DirtyData, PoolSpec, STATE_BYTES, VolumeStats};
use hotset_serve::ServerSettings;

use super::content::Content;
use super::load::LoadTarget;
use super::narrator::{Narrator, failed};
use super::report::ratio;
use super::scratch::Scratch;
use crate::client::fill_bar;
use crate::endpoint::Endpoint;
use crate::plane::{Handle, plan};
use crate::words;

/// Hot data of the database test, as in the vendor's, in percent of the clean data that fits beside a full write log.
pub(super) const DATABASE_PERCENT: [u8; 3] = [60, 90, 120];

/// Each of the SSDs of a demo of a minute: warm in some seconds at the pace of such an array.
const SSD_BYTES_PER_MINUTE: u64 = 640 << 20;
const SSD_BYTES_MIN: u64 = 128 << 20;
const SSD_BYTES_MAX: u64 = 4 << 30;
const SSDS: usize = 2;

/// Sizes are multiples of this.
const SIZE_UNIT: u64 = 64 << 20;

/// Hot sets are multiples of this.
const HOT_UNIT: u64 = 1 << 20;

/// What of a read pool is hot in the read test: it leaves slots for blocks in the making.
const READ_PERCENT: u64 = 80;

/// What of the dirty capacity the write test writes, again and again.
const WRITE_PERCENT: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageSizes {
    pub(super) volume_bytes: u64,
    pub(super) ssds: usize,
    pub(super) ssd_bytes: u64,
    /// What the read pool can hold, and what of the volume is hot in the read test.
    pub(super) read_cache_bytes: u64,
    pub(super) read_bytes: u64,
    /// What may be dirty at once in the read-write pool, what clean data it can hold beside a full log, and what of the
    /// volume is hot in the write test.
    pub(super) dirty_capacity_bytes: u64,
    pub(super) clean_capacity_bytes: u64,
    pub(super) write_bytes: u64,
}

impl StageSizes {
    pub(super) fn for_seconds(seconds: u64) -> Result<Self, ApiError> {
        let wanted = (SSD_BYTES_PER_MINUTE / 60 * seconds).next_multiple_of(SIZE_UNIT);
        let ssd_bytes = wanted.clamp(SSD_BYTES_MIN, SSD_BYTES_MAX);
        let plan = |kind| plan(&pool_spec(kind), &[ssd_bytes; SSDS]).map_err(|error| words::error(&error));
        let (read, read_write) = (plan(PoolKind::Read)?, plan(PoolKind::ReadWrite)?);
        let mut sizes = Self {
            volume_bytes: 0,
            ssds: SSDS,
            ssd_bytes,
            read_cache_bytes: read.capacity_bytes,
            read_bytes: share(read.capacity_bytes, READ_PERCENT),
            dirty_capacity_bytes: read_write.dirty_capacity_bytes,
            clean_capacity_bytes: read_write.capacity_min_bytes,
            write_bytes: share(read_write.dirty_capacity_bytes, WRITE_PERCENT),
        };
        let hot = [sizes.read_bytes, sizes.write_bytes, sizes.database_bytes(DATABASE_PERCENT[2])];
        sizes.volume_bytes = hot.into_iter().fold(0, u64::max).next_multiple_of(SIZE_UNIT);
        Ok(sizes)
    }

    /// What of the volume is hot in the database test.
    pub(super) fn database_bytes(&self, percent: u8) -> u64 {
        share(self.clean_capacity_bytes, u64::from(percent))
    }

    fn needed_bytes(&self) -> u64 {
        let ssds = self.ssd_bytes * u64::try_from(self.ssds).expect("an address has 64 bits at most");
        self.volume_bytes + ssds + 2 * STATE_BYTES
    }
}

/// `percent` of `bytes`, rounded down to whole units, but not to nothing.
fn share(bytes: u64, percent: u64) -> u64 {
    (bytes / 100 * percent / HOT_UNIT * HOT_UNIT).max(HOT_UNIT)
}

pub(super) struct Stage {
    pub(super) sizes: StageSizes,
    pub(super) target: LoadTarget,
    plane: Handle,
    endpoint: Endpoint,
    // Last, so that it is removed when nothing else is left.
    scratch: Scratch,
}

/// A volume's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageCounters(VolumeStats);

impl StageCounters {
    pub(super) fn hit_ratio_since(&self, before: &Self) -> f64 {
        ratio(self.0.read_hits - before.0.read_hits, self.0.reads - before.0.reads)
    }
}

impl Stage {
    /// Makes everything, and the volume without its cache.
    pub(super) async fn build(dir: Option<&Path>, sizes: StageSizes, narrator: &Narrator) -> Result<Self, ApiError> {
        let scratch = Scratch::make(dir, sizes.needed_bytes())?;
        let endpoint: Endpoint = format!("unix:{}", scratch.file("nbd.sock").display())
            .parse()
            .map_err(|message| ApiError::new(ApiErrorKind::Invalid, format!("{message} with --dir")))?;
        narrator.say("Writing the array's content and the SSD images");
        let states = KINDS.map(|kind| state_path(&scratch, kind));
        let files = Files { array: scratch.file("array"), ssds: ssd_paths(&scratch, sizes), states };
        let written = tokio::task::spawn_blocking(move || files.write(sizes)).await;
        written.map_err(|error| ApiError::new(ApiErrorKind::Internal, error.to_string()))?.map_err(failed)?;
        let (server, buffers) = (ServerSettings::default(), ExecutorOptions::default());
        let started = Handle::start(NonZero::<usize>::MIN, server, buffers, &Machine::only());
        let (plane, _thread) = started.map_err(failed)?;
        let target = LoadTarget {
            endpoint: endpoint.to_string().parse().map_err(|error| ApiError::new(ApiErrorKind::Internal, error))?,
            export: volume_name().to_string(),
        };
        let stage = Self { sizes, target, plane, endpoint, scratch };
        stage.raise().await?;
        Ok(stage)
    }

    async fn raise(&self) -> Result<(), ApiError> {
        let spec = VolumeSpec { name: volume_name(), backing: self.backing(), settings: VolumeSettings::default() };
        self.plane.first().call(move |plane| plane.open_volume(spec)).await?;
        self.plane.first().call(|plane| plane.export(volume_name())).await?;
        let endpoint = self.endpoint.clone();
        self.plane.first().call(move |plane| plane.listen(vec![endpoint.into()], None)).await?;
        Ok(())
    }

    /// The array's spelling: the vendor's array of requirement B1, scaled to the volume.
    pub(super) fn backing(&self) -> String {
        let file = self.scratch.file("array");
        format!("emulated:preset=b1,disks=16,level=raid5,size={},file={}", self.sizes.volume_bytes, file.display())
    }

    /// Makes a pool of all SSDs and puts it in front of the volume.
    pub(super) async fn enable_cache(&self, kind: PoolKind) -> Result<(), ApiError> {
        let ssds = ssd_paths(&self.scratch, self.sizes).iter().map(|path| path.display().to_string()).collect();
        let state = state_path(&self.scratch, kind);
        self.plane.first().call(move |plane| plane.pools().create_pool(pool_spec(kind), ssds, state)).await?;
        self.plane.first().call(|plane| plane.pools().attach(pool_name(), volume_name())).await
    }

    /// The volume serves on, and the SSDs are free.
    pub(super) async fn delete_pool(&self) -> Result<(), ApiError> {
        self.plane.first().call(|plane| plane.pools().delete_pool(pool_name(), DirtyData::Clean)).await
    }

    pub(super) async fn counters(&self) -> Result<StageCounters, ApiError> {
        let snapshot = self.plane.snapshot().await?;
        let volume = snapshot.volumes.iter().find(|volume| volume.name == volume_name());
        let volume = volume.ok_or_else(|| ApiError::new(ApiErrorKind::Internal, "the demo's volume is gone"))?;
        Ok(StageCounters(volume.stats))
    }

    /// How to reach it by hand.
    pub(super) fn invitation(&self) -> String {
        let uri = match &self.endpoint {
            Endpoint::Unix(path) => format!("nbd+unix:///{}?socket={}", volume_name(), path.display()),
            Endpoint::Tcp(address) => format!("nbd://{address}/{}", volume_name()),
        };
        format!(
            "\nThe volume is served until Ctrl-C (or SIGTERM) ends this:\n  {uri}\nTry\n  nbdinfo '{uri}'\n  \
             fio --name=reads --ioengine=nbd --uri='{uri}' --rw=randread --bs=4k --iodepth=128 --time_based --runtime=10\n"
        )
    }

    pub(super) async fn close(self) -> Result<(), ApiError> {
        let report = self.plane.stop().await?;
        match report.problems.first() {
            None => Ok(()),
            Some(problem) => Err(ApiError::new(ApiErrorKind::Device, problem.clone())),
        }
    }
}

fn ssd_paths(scratch: &Scratch, sizes: StageSizes) -> Vec<std::path::PathBuf> {
    (0..sizes.ssds).map(|number| scratch.file(&format!("ssd{number}"))).collect()
}

const KINDS: [PoolKind; 2] = [PoolKind::Read, PoolKind::ReadWrite];

fn state_path(scratch: &Scratch, kind: PoolKind) -> std::path::PathBuf {
    scratch.file(&format!("state-{kind}"))
}

fn pool_name() -> PoolName {
    "demo".parse().expect("the name follows the rule")
}

fn volume_name() -> VolumeName {
    "demo".parse().expect("the name follows the rule")
}

/// The preset for databases; hot at the first access, and filled as fast as can be, because a demo is short.
fn pool_spec(kind: PoolKind) -> PoolSpec {
    let settings = PoolSettings {
        populate_on_read: 1,
        fetch_rate: FetchRate::High,
        ..PoolSettings::preset(kind, IoType::Database)
    };
    PoolSpec { name: pool_name(), kind, settings }
}

/// The files that are written before anything is opened.
struct Files {
    array: std::path::PathBuf,
    ssds: Vec<std::path::PathBuf>,
    states: [std::path::PathBuf; 2],
}

impl Files {
    fn write(&self, sizes: StageSizes) -> std::io::Result<()> {
        let bar = fill_bar(sizes.needed_bytes(), "Writing");
        Content::write_first(&self.array, sizes.volume_bytes, &mut |done| bar.set_position(done))?;
        let mut before = sizes.volume_bytes;
        for ssd in &self.ssds {
            hotset_block::create_image(ssd, sizes.ssd_bytes, &mut |done| bar.set_position(before + done))?;
            before += sizes.ssd_bytes;
        }
        for state in &self.states {
            hotset_block::create_image(state, STATE_BYTES, &mut |_| ())?;
        }
        bar.finish_and_clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hot_set_is_what_it_is_called_and_fits_the_volume_at_every_length() {
        for seconds in [10, 12, 60, 600, 3600] {
            let sizes = StageSizes::for_seconds(seconds).unwrap();
            assert!(sizes.read_bytes * 10 >= sizes.read_cache_bytes * 7, "{sizes:?}");
            assert!(sizes.read_bytes * 10 <= sizes.read_cache_bytes * 8, "{sizes:?}");
            assert!(sizes.write_bytes <= sizes.dirty_capacity_bytes, "{sizes:?}");
            let [fits, fits_too, overflows] = DATABASE_PERCENT.map(|percent| sizes.database_bytes(percent));
            assert!(fits < fits_too && fits_too < sizes.clean_capacity_bytes, "{sizes:?}");
            assert!(overflows > sizes.clean_capacity_bytes && overflows <= sizes.volume_bytes, "{sizes:?}");
        }
        assert_eq!(StageSizes::for_seconds(60).unwrap().ssd_bytes, SSD_BYTES_PER_MINUTE);
    }
}
