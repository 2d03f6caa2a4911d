//! Why reads were not answered from the cache, and where a page is now.

use hotset_block::{ByteRange, MemoryDevice};
use hotset_cache::config::{PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Durability, FillState, Missed, Pool, Volume, VolumeStats};

use crate::harness::{TestDevice, TestEnv, run};
use crate::world::{MIB, World, until};

const BLOCK: u64 = 64 << 10;

fn volume(env: &TestEnv, settings: VolumeSettings) -> Volume<TestEnv> {
    let spec = VolumeSpec { name: "v".parse().unwrap(), backing: "memory".into(), settings };
    Volume::open(env.clone(), spec, TestDevice::from(MemoryDevice::new(64 * MIB, 512))).unwrap()
}

async fn cached(env: &TestEnv, settings: VolumeSettings) -> (World, Pool<TestEnv>, Volume<TestEnv>) {
    let world = World::new(env.clone(), &[16 * MIB], 8 * MIB);
    let pool = world.create(PoolKind::Read).await;
    let volume = volume(env, settings);
    pool.attach(&volume).await.unwrap();
    (world, pool, volume)
}

async fn read(volume: &Volume<TestEnv>, block: u64) {
    volume.read(ByteRange::at(block * BLOCK, 4096)).await.unwrap();
}

fn stats(volume: &Volume<TestEnv>) -> VolumeStats {
    let stats = volume.status().stats;
    assert_eq!(stats.reads, stats.read_hits + stats.missed(), "{stats:?}");
    stats
}

// proves: A6
#[test]
fn each_read_has_hit_or_has_one_reason_why_it_did_not() {
    run(async |env| {
        let (_world, pool, volume) = cached(&env, VolumeSettings::default()).await;
        read(&volume, 1).await;
        assert_eq!(stats(&volume).missed_first_touch, 1);
        let known = volume.explain(BLOCK + 5000).unwrap();
        assert_eq!((known.page_bytes, known.last_missed), (BLOCK + 4096, Some(Missed::FirstTouch)));
        let in_pool = known.in_pool.unwrap();
        assert_eq!((in_pool.block, in_pool.reads_counted, in_pool.populate_on_read), (1, 1, 2));
        assert_eq!((in_pool.in_slot, in_pool.in_log, in_pool.fill), (None, None, FillState::None));
        let untouched = volume.explain(9 * BLOCK).unwrap();
        assert_eq!((untouched.last_missed, untouched.would_miss), (None, Some(Missed::FirstTouch)));
        assert_eq!(known.would_miss, Some(Missed::BelowThreshold), "it would be the second read, which makes it hot");
        read(&volume, 1).await;
        assert_eq!(stats(&volume).missed_below_threshold, 1, "this read has made it hot");
        until(&env, "the block is in the cache", || volume.status().cache_used_bytes == BLOCK).await;
        read(&volume, 1).await;
        assert_eq!(stats(&volume).read_hits, 1);
        let known = volume.explain(BLOCK).unwrap();
        assert_eq!(known.would_miss, None);
        let slot = known.in_pool.unwrap().in_slot.unwrap();
        assert!(slot.has_page && !slot.ssd.is_empty(), "{slot:?}");
        let page = hotset_block::Buf::zeroed(4096);
        volume.write(BLOCK, page, Durability::Volatile).await.unwrap();
        read(&volume, 1).await;
        assert_eq!(stats(&volume).missed_overwritten, 1);
        let known = volume.explain(BLOCK).unwrap();
        assert_eq!(known.would_miss, Some(Missed::Overwritten));
        assert!(!known.in_pool.unwrap().in_slot.unwrap().has_page);
        pool.set(PoolSettings { ssd_writes_per_day_bytes: Some(1 << 20), ..pool.status().settings }).await.unwrap();
        for block in 10..60 {
            volume.populate(ByteRange::at(block * BLOCK, BLOCK)).await.unwrap();
        }
        for _ in 0..3 {
            read(&volume, 100).await;
        }
        let counted = stats(&volume);
        assert_eq!((counted.missed_first_touch, counted.missed_wear_limit), (2, 2));
        let known = volume.explain(100 * BLOCK).unwrap();
        assert_eq!(
            (known.would_miss, known.in_pool.unwrap().hindrance),
            (Some(Missed::WearLimit), Some(Missed::WearLimit))
        );
        volume.set(VolumeSettings { read_cache: false, ..volume.settings() }).await.unwrap();
        read(&volume, 200).await;
        assert_eq!(
            (stats(&volume).missed_off, volume.explain(200 * BLOCK).unwrap().would_miss),
            (1, Some(Missed::Off))
        );
        assert!(volume.explain(u64::MAX).is_err());
    });
}

// proves: A6
#[test]
fn streams_and_volumes_without_a_cache_are_reasons_too() {
    run(async |env| {
        let settings = VolumeSettings { read_cutoff_bytes: Some(MIB), ..VolumeSettings::default() };
        let (_world, _pool, volume) = cached(&env, settings).await;
        for part in 0..32 {
            volume.read(ByteRange::at(part * 128 * 1024, 128 * 1024)).await.unwrap();
        }
        let counted = stats(&volume);
        assert!((20..32).contains(&counted.missed_stream), "{counted:?}");
        volume.populate(ByteRange::at(0, 4 * MIB)).await.unwrap();
        for part in 0..32 {
            volume.read(ByteRange::at(part * 128 * 1024, 128 * 1024)).await.unwrap();
        }
        let hits = stats(&volume).read_hits - counted.read_hits;
        assert_eq!(hits, 32, "two slots together have all of each");
        let alone = self::volume(&env, VolumeSettings::default());
        read(&alone, 1).await;
        assert_eq!(stats(&alone).missed_off, 1);
        assert_eq!(alone.explain(BLOCK).unwrap().in_pool, None);
    });
}

// proves: A6
#[test]
fn what_was_evicted_is_told_from_what_was_never_there() {
    run(async |env| {
        let (_world, pool, volume) = cached(&env, VolumeSettings::default()).await;
        let slots = pool.status().capacity_bytes / BLOCK;
        for block in 0..slots * 3 / 2 {
            volume.populate(ByteRange::at(block * BLOCK, BLOCK)).await.unwrap();
        }
        let evicted = (0..slots).find(|block| volume.explain(block * BLOCK).unwrap().in_pool.unwrap().was_evicted);
        read(&volume, evicted.expect("more was populated than there is room for")).await;
        assert_eq!(stats(&volume).missed_evicted, 1);
    });
}

// proves: A6
#[test]
fn a_page_in_the_write_log_is_explained_with_its_row_and_ssds() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = volume(&env, VolumeSettings::default());
        pool.attach(&volume).await.unwrap();
        volume.write(BLOCK, hotset_block::Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        let copy = volume.explain(BLOCK).unwrap().in_pool.unwrap().in_log.expect("it was appended");
        assert!(copy.dirty && !copy.unavailable && copy.ssds.len() == 2, "{copy:?}");
        read(&volume, 1).await;
        assert_eq!(stats(&volume).read_hits, 1);
    });
}
