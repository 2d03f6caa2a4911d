//! Images of pools that have what came after the first images: a spare, shares of volumes, a limit on the day's writes; and
//! one that lost all its SSDs while dirty data was on them. Every later version opens them. As `golden.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use hotset_block::{Buf, ByteRange};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, Share, VolumeSettings, VolumeSpec};
use hotset_cache::{DirtyData, Durability, Missing, Named, Pool, PoolSpec, Reattached, STATE_BYTES, Volume};

use crate::harness::{TestDevice, TestEnv, run};
use crate::kept::{BLOCK, PAGE, backing, fill_page};
use crate::packed;

/// Pages that hosts wrote; nothing of them is on the backing device.
const WRITTEN: std::ops::Range<u64> = 10..90;
const LIMIT_BYTES: u64 = 5 << 30;

fn settings() -> VolumeSettings {
    VolumeSettings {
        dirty_cap: Some(Share::Percent(70)),
        cache_min: Some(Share::Bytes(1 << 20)),
        cache_max: Some(Share::Percent(90)),
        ..VolumeSettings::default()
    }
}

fn named(devices: &[TestDevice]) -> Vec<Named<TestDevice>> {
    let numbered = devices.iter().enumerate();
    numbered.map(|(index, device)| Named { path: format!("ssd{index}"), device: device.clone() }).collect()
}

fn volume(env: &TestEnv, backing: &TestDevice) -> Volume<TestEnv> {
    let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "golden".into(), settings: settings() };
    Volume::open(env.clone(), spec, backing.clone()).unwrap()
}

fn page(number: u64, written: bool) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(PAGE).unwrap()];
    fill_page(&mut bytes, number, written);
    bytes
}

/// Of this version of the format.
fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/v{version}-live"))
}

async fn read_images(version: u32, directory: &str, names: &[&str]) -> Vec<TestDevice> {
    let mut devices = Vec::new();
    for name in names {
        let bytes = packed::read(&golden(version).join(directory).join(format!("{name}.zst")));
        devices.push(TestDevice::holding(&bytes).await);
    }
    devices
}

async fn write_images(directory: &str, devices: &[(&str, &TestDevice)]) {
    fs::create_dir_all(golden(2).join(directory)).unwrap();
    for (name, device) in devices {
        packed::write(&golden(2).join(directory).join(format!("{name}.zst")), &device.content().await);
    }
}

// proves: P16
#[test]
fn a_pool_with_a_spare_shares_and_a_limit_opens_and_has_them() {
    run(async |env| {
        for (version, left) in [(1, "clean"), (1, "killed"), (2, "clean"), (2, "killed")] {
            let mut devices = read_images(version, left, &["ssd0", "ssd1", "spare", "state"]).await;
            let state = devices.pop().unwrap();
            let pool = Pool::open(env.clone(), named(&devices), Some(state), Missing::Refuse).await.unwrap();
            let status = pool.status();
            assert_eq!((status.ssds.len(), status.spares.len()), (2, 1), "{left}: {status:?}");
            assert!(status.spares[0].present && status.spares[0].reason.is_none());
            assert_eq!(status.settings.ssd_writes_per_day_bytes, Some(LIMIT_BYTES));
            assert_eq!(pool.unattached_volumes()[0].settings, settings());
            let volume = volume(&env, &backing(&BTreeSet::new()).await);
            let Reattached::Warm { .. } = pool.reattach(&volume).await.unwrap() else { panic!("{left}: not warm") };
            for number in 0..100 {
                let bytes = volume.read(ByteRange::at(number * PAGE, PAGE)).await.unwrap();
                assert_eq!(bytes[..], page(number, WRITTEN.contains(&number))[..], "{left}: page {number}");
            }
            pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
            pool.close().await.unwrap();
        }
    });
}

// proves: F5, P16
#[test]
fn what_was_lost_with_all_ssds_is_still_lost_and_nothing_else() {
    run(async |env| {
        for version in [1, 2] {
            let state = read_images(version, "lost", &["state"]).await.pop().unwrap();
            let pool = Pool::open(env.clone(), Vec::new(), Some(state), Missing::Leave).await.unwrap();
            let volume = volume(&env, &backing(&BTreeSet::new()).await);
            pool.reattach(&volume).await.unwrap();
            for number in 0..100 {
                let read = volume.read(ByteRange::at(number * PAGE, PAGE)).await;
                assert_eq!(read.is_err(), WRITTEN.contains(&number), "page {number}");
                assert!(read.is_err() || read.unwrap()[..] == page(number, false)[..]);
            }
            assert_eq!(volume.status().lost_bytes, (WRITTEN.end - WRITTEN.start) * PAGE);
        }
    });
}

/// Writes the images; to be run once, before the first release of what they hold; never over a directory that was
/// committed: `cargo test -p hotset-cache-tests -- golden_live:: --ignored`.
#[test]
#[ignore = "writes files that are never written again; see its comment"]
fn write_the_images() {
    run(async |env| {
        assert!(!golden(2).exists(), "{} was written already", golden(2).display());
        let devices = [TestDevice::kept(8 << 20), TestDevice::kept(9 << 20)];
        let (spare, state) = (TestDevice::kept(8 << 20), TestDevice::kept(STATE_BYTES));
        let mut pool_settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        pool_settings.block_bytes = BlockBytes::new(BLOCK).unwrap();
        pool_settings.ssd_writes_per_day_bytes = Some(LIMIT_BYTES);
        let spec =
            PoolSpec { name: "golden-live".parse().unwrap(), kind: PoolKind::ReadWrite, settings: pool_settings };
        let pool = Pool::create(env.clone(), spec, named(&devices), state.clone()).await.unwrap();
        pool.add_spares(vec![Named { path: "spare".into(), device: spare.clone() }]).await.unwrap();
        let disk = volume(&env, &backing(&BTreeSet::new()).await);
        pool.attach(&disk).await.unwrap();
        for number in WRITTEN {
            let mut buf = Buf::zeroed(usize::try_from(PAGE).unwrap());
            fill_page(&mut buf, number, true);
            disk.write(number * PAGE, buf, Durability::Durable).await.unwrap();
        }
        assert_eq!(disk.status().stats.cleaned_bytes, 0, "nothing of it is on the backing device");
        let all = [("ssd0", &devices[0]), ("ssd1", &devices[1]), ("spare", &spare), ("state", &state)];
        write_images("killed", &all).await;
        pool.close().await.unwrap();
        write_images("clean", &all).await;
        // In another life all SSDs vanish, and no spare is there.
        let pool = Pool::open(env.clone(), named(&devices), Some(state.clone()), Missing::Leave).await.unwrap();
        let disk = volume(&env, &backing(&BTreeSet::new()).await);
        pool.reattach(&disk).await.unwrap();
        devices.iter().for_each(TestDevice::vanish);
        let _ = disk.flush().await;
        while disk.status().lost_bytes == 0 || pool.status().ssds.iter().any(|ssd| ssd.online) {
            hotset_block::Env::sleep(&env, std::time::Duration::from_millis(1)).await;
        }
        write_images("lost", &[("state", &state)]).await;
    });
}
