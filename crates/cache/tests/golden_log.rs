//! Images of read-write pools as older versions left them, with dirty data: every later version opens them, serves what they
//! hold and brings it to the backing device. As `golden.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hotset_block::{Buf, ByteRange, ZeroMode};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{
    DirtyData, Drained, Durability, Missing, Named, Pool, PoolSpec, Reattached, STATE_BYTES, Volume, ZeroEffort,
};

use crate::harness::{TestDevice, TestEnv, run};
use crate::kept::{BLOCK, PAGE, VOLUME_BYTES, backing, fill_page};
use crate::packed;

/// What hosts wrote and zeroed; nothing of it is on the backing device.
#[derive(Clone, Default)]
pub(crate) struct Dirty {
    written: BTreeSet<u64>,
    zeroed: BTreeSet<u64>,
}

impl Dirty {
    fn text(&self) -> String {
        let list = |pages: &BTreeSet<u64>| pages.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        format!("written: {}\nzeroed: {}\n", list(&self.written), list(&self.zeroed))
    }

    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let list = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().map(|page| page.parse().unwrap()).collect()
        };
        Self { written: list("written:"), zeroed: list("zeroed:") }
    }

    fn page(&self, page: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(PAGE).unwrap()];
        if !self.zeroed.contains(&page) {
            fill_page(&mut bytes, page, self.written.contains(&page));
        }
        bytes
    }
}

/// The SSDs and the member file, in this order.
pub(crate) struct Image(pub(crate) Vec<Vec<u8>>);

const NAMES: [&str; 3] = ["ssd0.zst", "ssd1.zst", "state.zst"];

impl Image {
    pub(crate) async fn of(devices: &[TestDevice; 3]) -> Self {
        let mut image = Vec::new();
        for device in devices {
            image.push(device.content().await);
        }
        Self(image)
    }

    pub(crate) fn read(directory: &Path) -> Self {
        Self(NAMES.iter().map(|name| packed::read(&directory.join(name))).collect())
    }

    fn write(&self, directory: &Path) {
        fs::create_dir_all(directory).unwrap();
        for (name, bytes) in NAMES.iter().zip(&self.0) {
            packed::write(&directory.join(name), bytes);
        }
    }

    pub(crate) async fn devices(&self) -> [TestDevice; 3] {
        [
            TestDevice::holding(&self.0[0]).await,
            TestDevice::holding(&self.0[1]).await,
            TestDevice::holding(&self.0[2]).await,
        ]
    }
}

pub(crate) fn named(devices: &[TestDevice; 3]) -> Vec<Named<TestDevice>> {
    let ssds = devices[..2].iter().enumerate();
    ssds.map(|(index, device)| Named { path: format!("ssd{index}"), device: device.clone() }).collect()
}

fn volume(env: &TestEnv, backing: &TestDevice) -> Volume<TestEnv> {
    let settings = VolumeSettings::default();
    let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "golden".into(), settings };
    Volume::open(env.clone(), spec, backing.clone()).unwrap()
}

/// Opens the image, from both SSDs or (`without`) from one of them: everything is there, and reaches the backing device.
pub(crate) async fn check(env: &TestEnv, image: &Image, dirty: &Dirty, without: Option<usize>) {
    let devices = image.devices().await;
    let mut ssds = named(&devices);
    if let Some(index) = without {
        ssds.remove(index);
    }
    let pool = Pool::open(env.clone(), ssds, Some(devices[2].clone()), Missing::Leave).await.unwrap();
    let backing = backing(&BTreeSet::new()).await;
    let volume = volume(env, &backing);
    let Reattached::Warm { .. } = pool.reattach(&volume).await.unwrap() else { panic!("not warm") };
    if without.is_none() {
        let pages = u64::try_from(dirty.written.len() + dirty.zeroed.len()).unwrap();
        assert_eq!(volume.status().dirty_bytes, pages * PAGE, "{}", pool.status().recovery);
    }
    let read = async |page| volume.read(ByteRange::at(page * PAGE, PAGE)).await.unwrap();
    for page in 0..VOLUME_BYTES / PAGE {
        assert_eq!(read(page).await[..], dirty.page(page)[..], "page {page}, without {without:?}");
    }
    assert_eq!(pool.drain(&volume.name()).await.unwrap(), Drained::Clean);
    pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    for page in 0..VOLUME_BYTES / PAGE {
        assert_eq!(read(page).await[..], dirty.page(page)[..], "page {page} on the backing device");
    }
    pool.close().await.unwrap();
}

/// Of this version of the format.
pub(crate) fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/v{version}-log"))
}

// proves: D14, F7
#[test]
fn every_write_log_that_an_older_version_left_is_found_whole_from_either_ssd() {
    run(async |env| {
        for (version, left) in [(1, "clean"), (1, "killed"), (2, "clean"), (2, "killed")] {
            let directory = golden(version).join(left);
            let (image, dirty) = (Image::read(&directory), Dirty::read(&directory.join("expected.txt")));
            for without in [None, Some(0), Some(1)] {
                check(&env, &image, &dirty, without).await;
            }
        }
    });
}

/// As in `golden.rs`: `cargo test -p hotset-cache-tests -- golden_log:: --ignored`.
#[test]
#[ignore = "writes files that are never written again; see its comment"]
fn write_the_images_of_this_format() {
    run(async |env| {
        let directory = golden(2);
        assert!(!directory.exists(), "{} was written already", directory.display());
        let devices = [TestDevice::kept(8 << 20), TestDevice::kept(10 << 20), TestDevice::kept(STATE_BYTES)];
        let backing = backing(&BTreeSet::new()).await;
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Database);
        settings.block_bytes = BlockBytes::new(BLOCK).unwrap();
        settings.cleaning.dirty_watermark_percent = 90;
        let spec = PoolSpec { name: "golden<2>".parse().unwrap(), kind: PoolKind::ReadWrite, settings };
        let pool = Pool::create(env.clone(), spec, named(&devices), devices[2].clone()).await.unwrap();
        let disk = volume(&env, &backing);
        pool.attach(&disk).await.unwrap();
        let mut dirty = Dirty::default();
        // Over and over, so that rows are moved and freed.
        for round in 0..12 {
            for page in (0..300).step_by(3) {
                write(&disk, (page * 5 + round) % 300, &mut dirty).await;
            }
        }
        zero(&disk, 100..130, &mut dirty).await;
        assert_eq!(disk.status().stats.cleaned_bytes, 0, "nothing of it is on the backing device");
        let killed = Image::of(&devices).await;
        check(&env, &killed, &dirty, None).await;
        killed.write(&directory.join("killed"));
        fs::write(directory.join("killed/expected.txt"), dirty.text()).unwrap();
        write(&disk, 110, &mut dirty).await;
        pool.close().await.unwrap();
        let clean = Image::of(&devices).await;
        check(&env, &clean, &dirty, None).await;
        clean.write(&directory.join("clean"));
        fs::write(directory.join("clean/expected.txt"), dirty.text()).unwrap();
    });
}

async fn write(disk: &Volume<TestEnv>, page: u64, dirty: &mut Dirty) {
    let mut buf = Buf::zeroed(usize::try_from(PAGE).unwrap());
    fill_page(&mut buf, page, true);
    disk.write(page * PAGE, buf, Durability::Volatile).await.unwrap();
    dirty.zeroed.remove(&page);
    dirty.written.insert(page);
}

/// Pages that were written before: others would be zeroed on the backing device.
async fn zero(disk: &Volume<TestEnv>, pages: std::ops::Range<u64>, dirty: &mut Dirty) {
    for page in pages.filter(|page| dirty.written.contains(page)).collect::<Vec<_>>() {
        let range = ByteRange::at(page * PAGE, PAGE);
        disk.write_zeroes(range, ZeroMode::MayPunch, ZeroEffort::Any, Durability::Volatile).await.unwrap();
        dirty.written.remove(&page);
        dirty.zeroed.insert(page);
    }
}
