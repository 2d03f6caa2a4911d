//! Images of pools as older versions left them: every later version opens them and believes what they hold.
//!
//! `golden/vN/` was written by the first version of format N, and is never written again: one pool that was stopped
//! cleanly, one whose daemon was killed. Beside each image stands what must be found in it. The backing device is not
//! kept; its content follows from its place. Pools with a write log: `golden_log.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotset_block::{Buf, ByteRange, Env};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Durability, ErrorKind, Missing, Named, Pool, PoolSpec, Reattached, STATE_BYTES, Volume};

use crate::harness::{TestDevice, TestEnv, run};
use crate::kept::{BLOCK, PAGE, VOLUME_BYTES, backing, fill_page};
use crate::packed;

/// What must be found in an image.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    pool: String,
    volume: String,
    warm_bytes: u64,
    written: BTreeSet<u64>,
}

impl Expected {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let value = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key));
            found.unwrap_or_else(|| panic!("{}: no {key}", path.display())).trim().to_owned()
        };
        Self {
            pool: value("pool:"),
            volume: value("volume:"),
            warm_bytes: value("warm bytes:").parse().unwrap(),
            written: value("pages written by hosts:").split(' ').map(|page| page.parse().unwrap()).collect(),
        }
    }

    fn text(&self) -> String {
        let written: Vec<String> = self.written.iter().map(u64::to_string).collect();
        let (pool, volume, warm) = (&self.pool, &self.volume, self.warm_bytes);
        format!("pool: {pool}\nvolume: {volume}\nwarm bytes: {warm}\npages written by hosts: {}\n", written.join(" "))
    }
}

/// A pool's only SSD and its member file.
struct Image {
    ssd: Vec<u8>,
    state: Vec<u8>,
}

impl Image {
    async fn of(ssd: &TestDevice, state: &TestDevice) -> Self {
        Self { ssd: ssd.content().await, state: state.content().await }
    }

    fn read(directory: &Path) -> Self {
        let read = |name: &str| packed::read(&directory.join(name));
        Self { ssd: read("ssd.zst"), state: read("state.zst") }
    }

    fn write(&self, directory: &Path) {
        fs::create_dir_all(directory).unwrap();
        for (name, bytes) in [("ssd.zst", &self.ssd), ("state.zst", &self.state)] {
            packed::write(&directory.join(name), bytes);
        }
    }

    async fn open(&self, env: &TestEnv) -> Pool<TestEnv> {
        let ssd = Named { path: "ssd".to_owned(), device: TestDevice::holding(&self.ssd).await };
        Pool::open(env.clone(), vec![ssd], Some(TestDevice::holding(&self.state).await), Missing::Refuse).await.unwrap()
    }
}

/// `read_cutoff_bytes: Some(0)`: every read that misses goes past the cache, so that looking changes nothing.
fn volume(env: &TestEnv, name: &str, backing: &TestDevice) -> Volume<TestEnv> {
    let settings = VolumeSettings { read_cutoff_bytes: Some(0), ..VolumeSettings::default() };
    let spec = VolumeSpec { name: name.parse().unwrap(), backing: "golden".into(), settings };
    Volume::open(env.clone(), spec, backing.clone()).unwrap()
}

/// Opens the image and reads the whole volume: what it should hold, and as much from the cache as should be warm.
async fn check(env: &TestEnv, image: &Image, expected: &Expected) {
    let pool = image.open(env).await;
    assert_eq!(pool.status().name.as_str(), expected.pool);
    let names: Vec<_> = pool.unattached_volumes().into_iter().map(|spec| spec.name.to_string()).collect();
    assert_eq!(names, std::slice::from_ref(&expected.volume), "the volume that was detached is gone");
    let backing = backing(&expected.written).await;
    let volume = volume(env, &expected.volume, &backing);
    let warm = pool.reattach(&volume).await.unwrap();
    assert_eq!(warm, Reattached::Warm { bytes: expected.warm_bytes }, "{}", pool.status().recovery);
    backing.take_reads();
    let mut right = vec![0; usize::try_from(PAGE).unwrap()];
    for page in 0..VOLUME_BYTES / PAGE {
        fill_page(&mut right, page, expected.written.contains(&page));
        assert_eq!(volume.read(ByteRange::at(page * PAGE, PAGE)).await.unwrap()[..], right[..], "page {page}");
    }
    let stats = volume.status().stats;
    assert_eq!(stats.read_hits * PAGE, expected.warm_bytes);
    assert_eq!((stats.read_errors_hidden, backing.take_reads()), (0, stats.reads - stats.read_hits));
    pool.close().await.unwrap();
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden")
}

// proves: D14, D15
#[test]
fn every_image_that_an_older_version_left_opens_warm_and_right() {
    run(async |env| {
        for version in ["v1", "v2"] {
            for left in ["clean", "killed"] {
                let directory = golden().join(version).join(left);
                let expected = Expected::read(&directory.join("expected.txt"));
                check(&env, &Image::read(&directory), &expected).await;
            }
        }
    });
}

/// Makes the superblock or member record at a place one of the next version, with the right checksum.
fn raise_version(bytes: &mut [u8], at: usize) {
    let copy = &mut bytes[at..at + 4096];
    assert!(copy.starts_with(b"HOTSET") && copy[8] == 2, "nothing lies at {at}");
    copy[8] = 3;
    // A superblock's checksum covers what is behind it.
    if copy.starts_with(b"HOTSETmr") {
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &copy[..48]);
        copy[48..52].copy_from_slice(&u32::try_from(checksum).unwrap().to_le_bytes());
    }
}

// proves: P16
#[test]
fn whatever_copy_is_of_a_newer_version_the_pool_is_refused_by_name_and_nothing_is_written() {
    const KIB: usize = 1 << 10;
    run(async |env| {
        for (what, on_ssd, in_state) in [
            ("both superblocks", &[0, 64 * KIB][..], &[][..]),
            ("the first superblock", &[0], &[]),
            ("the second superblock", &[64 * KIB], &[]),
            ("one members record", &[128 * KIB], &[]),
            ("the other members record", &[192 * KIB], &[]),
            ("a catalogue", &[512 * KIB], &[]),
            ("one members record in the state directory", &[], &[0]),
            ("the other one there", &[], &[64 * KIB]),
        ] {
            let mut image = Image::read(&golden().join("v2/clean"));
            on_ssd.iter().for_each(|at| raise_version(&mut image.ssd, *at));
            in_state.iter().for_each(|at| raise_version(&mut image.state, *at));
            let (ssd, state) = (TestDevice::holding(&image.ssd).await, TestDevice::holding(&image.state).await);
            for missing in [Missing::Refuse, Missing::Leave, Missing::AcceptLoss] {
                let named = Named { path: "ssd".to_owned(), device: ssd.clone() };
                let opened = Pool::open(env.clone(), vec![named], Some(state.clone()), missing).await;
                let error = opened.err().unwrap_or_else(|| panic!("{what}: opened with {missing:?}"));
                assert_eq!(error.kind, ErrorKind::NewerFormat(3), "{what}: {error}");
                assert!(error.to_string().contains("knows format version 3"), "{what}: {error}");
            }
            let written = ssd.content().await != image.ssd || state.content().await != image.state;
            assert!(!written, "{what}: something was written");
        }
    });
}

/// Writes the images of the present format. To be run once for each new version of the format, into a new directory, before its
/// first release; never over a directory that was committed: `cargo test -p hotset-cache-tests -- golden:: --ignored`.
#[test]
#[ignore = "writes files that are never written again; see its comment"]
fn write_the_images_of_this_format() {
    run(async |env| {
        let directory = golden().join("v2");
        assert!(!directory.exists(), "{} was written already", directory.display());
        let (ssd, state) = (TestDevice::kept(8 << 20), TestDevice::kept(STATE_BYTES));
        let mut written = BTreeSet::new();
        let backing = backing(&written).await;
        let clean = generate_clean(&env, &ssd, &state, &backing, &mut written).await;
        save(&env, &clean, &written, &directory.join("clean")).await;
        let killed = generate_killed(&env, &ssd, &state, &backing, &mut written).await;
        save(&env, &killed, &written, &directory.join("killed")).await;
    });
}

/// Fills, evictions, drops of pages, a volume that came and went, then a clean stop.
async fn generate_clean(
    env: &TestEnv,
    ssd: &TestDevice,
    state: &TestDevice,
    backing: &TestDevice,
    written: &mut BTreeSet<u64>,
) -> Image {
    let mut settings = PoolSettings::preset(PoolKind::Read, IoType::FileSystem);
    settings.block_bytes = BlockBytes::new(BLOCK).unwrap();
    let spec = PoolSpec { name: "golden<1>".parse().unwrap(), kind: PoolKind::Read, settings };
    let named = vec![Named { path: "ssd".to_owned(), device: ssd.clone() }];
    let pool = Pool::create(env.clone(), spec, named, state.clone()).await.unwrap();
    let (gone, disk) = (volume(env, "gone", &TestDevice::kept(VOLUME_BYTES)), volume(env, "disk", backing));
    pool.attach(&gone).await.unwrap();
    pool.attach(&disk).await.unwrap();
    gone.populate(ByteRange::at(0, 10 * BLOCK)).await.unwrap();
    for block in 0..150 {
        disk.populate(ByteRange::at(block * BLOCK, BLOCK)).await.unwrap();
    }
    until_published(env, &pool).await;
    for page in (0..2400).step_by(7) {
        write(&disk, page, written).await;
    }
    pool.detach(&gone.name(), hotset_cache::DirtyData::Clean).await.unwrap();
    pool.close().await.unwrap();
    Image::of(ssd, state).await
}

async fn until_published(env: &TestEnv, pool: &Pool<TestEnv>) {
    while pool.status().slots_unpublished > 0 {
        env.sleep(Duration::from_millis(1)).await;
    }
}

/// A second session, which ends in its middle.
async fn generate_killed(
    env: &TestEnv,
    ssd: &TestDevice,
    state: &TestDevice,
    backing: &TestDevice,
    written: &mut BTreeSet<u64>,
) -> Image {
    let named = vec![Named { path: "ssd".to_owned(), device: ssd.clone() }];
    let pool = Pool::open(env.clone(), named, Some(state.clone()), Missing::Refuse).await.unwrap();
    let disk = volume(env, "disk", backing);
    pool.reattach(&disk).await.unwrap();
    disk.populate(ByteRange::at(140 * BLOCK, 40 * BLOCK)).await.unwrap();
    until_published(env, &pool).await;
    for page in (0..2800).step_by(11) {
        write(&disk, page, written).await;
    }
    disk.populate(ByteRange::at(200 * BLOCK, 5 * BLOCK)).await.unwrap();
    Image::of(ssd, state).await
}

async fn write(disk: &Volume<TestEnv>, page: u64, written: &mut BTreeSet<u64>) {
    let mut buf = Buf::zeroed(usize::try_from(PAGE).unwrap());
    fill_page(&mut buf, page, true);
    disk.write(page * PAGE, buf, Durability::Volatile).await.unwrap();
    written.insert(page);
}

/// Writes an image and what is in it, after a look that it is right.
async fn save(env: &TestEnv, image: &Image, written: &BTreeSet<u64>, directory: &Path) {
    let look = image.open(env).await;
    let disk = volume(env, "disk", &backing(written).await);
    let Reattached::Warm { bytes: warm_bytes } = look.reattach(&disk).await.unwrap() else { panic!("cold") };
    let expected = Expected { pool: "golden<1>".into(), volume: "disk".into(), warm_bytes, written: written.clone() };
    check(env, image, &expected).await;
    image.write(directory);
    fs::write(directory.join("expected.txt"), expected.text()).unwrap();
}
