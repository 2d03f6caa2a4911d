//! What the demo plays on: an emulated array, SSD images, a data plane, and a volume on a unix socket.

use std::path::Path;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::config::{
    BlockBytes, FetchRate, IoType, PoolKind, PoolName, PoolSettings, VolumeName, VolumeSettings, VolumeSpec,
};
use hotset_cache::{PoolSpec, STATE_BYTES, VolumeStats};
use hotset_serve::nbd::ServerSettings;

use super::content::Content;
use super::load::Target;
use super::report::ratio;
use super::scratch::Scratch;
use super::{Narrator, failed};
use crate::client::fill_bar;
use crate::endpoint::Endpoint;
use crate::plane::Handle;

/// Hot data of a demo of a minute: warm in some seconds at the pace of such an array.
const HOT_BYTES_PER_MINUTE: u64 = 1 << 30;
const HOT_BYTES_MIN: u64 = 128 << 20;
const HOT_BYTES_MAX: u64 = 8 << 30;

/// Sizes are multiples of this.
const SIZE_UNIT: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StageSizes {
    /// The volume: all of it is hot.
    pub(super) hot_bytes: u64,
    pub(super) ssds: usize,
    pub(super) ssd_bytes: u64,
}

impl StageSizes {
    pub(super) fn for_seconds(seconds: u64) -> Self {
        let wanted = (HOT_BYTES_PER_MINUTE / 60 * seconds).next_multiple_of(SIZE_UNIT);
        let hot_bytes = wanted.clamp(HOT_BYTES_MIN, HOT_BYTES_MAX);
        // A quarter more than the hot data, for what the pool itself needs and for slots in the making.
        Self { hot_bytes, ssds: 2, ssd_bytes: (hot_bytes / 8 * 5).next_multiple_of(SIZE_UNIT) + SIZE_UNIT }
    }

    fn needed_bytes(&self) -> u64 {
        self.hot_bytes + 2 * self.ssd_bytes + STATE_BYTES
    }
}

pub(super) struct Stage {
    pub(super) sizes: StageSizes,
    pub(super) target: Target,
    plane: Handle,
    endpoint: Endpoint,
    // Last, so that it is removed when nothing else is left.
    scratch: Scratch,
}

/// A volume's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters(VolumeStats);

impl Counters {
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
        let files =
            Files { array: scratch.file("array"), ssds: ssd_paths(&scratch, sizes), state: scratch.file("state") };
        let written = tokio::task::spawn_blocking(move || files.write(sizes)).await;
        written.map_err(|error| ApiError::new(ApiErrorKind::Internal, error.to_string()))?.map_err(failed)?;
        let (plane, _thread) = Handle::start(ServerSettings::default()).map_err(failed)?;
        let target = Target {
            endpoint: endpoint.to_string().parse().map_err(|error| ApiError::new(ApiErrorKind::Internal, error))?,
            export: volume_name().to_string(),
            size_bytes: sizes.hot_bytes,
        };
        let stage = Self { sizes, target, plane, endpoint, scratch };
        stage.raise().await?;
        Ok(stage)
    }

    async fn raise(&self) -> Result<(), ApiError> {
        let spec = VolumeSpec { name: volume_name(), backing: self.backing(), settings: VolumeSettings::default() };
        self.plane.call(move |plane| plane.open_volume(spec)).await?;
        let ssds = ssd_paths(&self.scratch, self.sizes).iter().map(|path| path.display().to_string()).collect();
        let state = self.scratch.file("state");
        self.plane.call(move |plane| plane.create_pool(pool_spec(), ssds, state)).await?;
        self.plane.call(|plane| plane.export(volume_name())).await?;
        let endpoint = self.endpoint.clone();
        self.plane.call(move |plane| plane.listen(vec![endpoint], None)).await?;
        Ok(())
    }

    /// The array's spelling: the vendor's array of requirement B1, scaled to the hot data.
    pub(super) fn backing(&self) -> String {
        let file = self.scratch.file("array");
        format!("emulated:preset=b1,disks=16,level=raid5,size={},file={}", self.sizes.hot_bytes, file.display())
    }

    pub(super) async fn enable_cache(&self) -> Result<(), ApiError> {
        self.plane.call(|plane| plane.attach(pool_spec().name, volume_name())).await
    }

    pub(super) async fn counters(&self) -> Result<Counters, ApiError> {
        let snapshot = self.plane.snapshot().await?;
        let volume = snapshot.volumes.iter().find(|volume| volume.name == volume_name());
        let volume = volume.ok_or_else(|| ApiError::new(ApiErrorKind::Internal, "the demo's volume is gone"))?;
        Ok(Counters(volume.stats))
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
        let report = self.plane.call(|plane| plane.stop()).await?;
        match report.problems.first() {
            None => Ok(()),
            Some(problem) => Err(ApiError::new(ApiErrorKind::Device, problem.clone())),
        }
    }
}

fn ssd_paths(scratch: &Scratch, sizes: StageSizes) -> Vec<std::path::PathBuf> {
    (0..sizes.ssds).map(|number| scratch.file(&format!("ssd{number}"))).collect()
}

fn volume_name() -> VolumeName {
    "demo".parse().expect("the name follows the rule")
}

fn pool_spec() -> PoolSpec {
    let settings = PoolSettings {
        block_bytes: BlockBytes::new(1 << 20).expect("1 MiB is a power of two in range"),
        populate_on_read: 1,
        populate_on_write: 0,
        fetch_rate: FetchRate::High,
        ..PoolSettings::preset(PoolKind::Read, IoType::Custom)
    };
    PoolSpec { name: "demo".parse::<PoolName>().expect("the name follows the rule"), kind: PoolKind::Read, settings }
}

/// The files that are written before anything is opened.
struct Files {
    array: std::path::PathBuf,
    ssds: Vec<std::path::PathBuf>,
    state: std::path::PathBuf,
}

impl Files {
    fn write(&self, sizes: StageSizes) -> std::io::Result<()> {
        let bar = fill_bar(sizes.needed_bytes(), "Writing");
        Content::write_first(&self.array, sizes.hot_bytes, &mut |done| bar.set_position(done))?;
        let mut before = sizes.hot_bytes;
        for ssd in &self.ssds {
            hotset_block::create_image(ssd, sizes.ssd_bytes, &mut |done| bar.set_position(before + done))?;
            before += sizes.ssd_bytes;
        }
        hotset_block::create_image(&self.state, STATE_BYTES, &mut |_| ())?;
        bar.finish_and_clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_has_room_for_all_hot_data_at_every_length() {
        for seconds in [10, 12, 60, 600, 3600] {
            let sizes = StageSizes::for_seconds(seconds);
            assert!(2 * sizes.ssd_bytes >= sizes.hot_bytes / 4 * 5, "{sizes:?}");
            assert!((HOT_BYTES_MIN..=HOT_BYTES_MAX).contains(&sizes.hot_bytes), "{sizes:?}");
        }
        assert_eq!(StageSizes::for_seconds(60).hot_bytes, 1 << 30);
    }
}
