//! Fills that ride on misses: a miss that makes its block hot reads the whole block, once.

use std::time::Duration;

use futures_util::future::{join, join_all};
use hotset_block::{ByteRange, Env};
use hotset_cache::config::{IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Durability, Pool, Volume};

use crate::harness::{Bad, TestDevice, TestEnv, run};
use crate::world::{MIB, World, until};

const BLOCK: u64 = 64 << 10;

/// A pool whose blocks are hot at their first read, and a volume on this device.
async fn cached(env: &TestEnv, backing: &TestDevice) -> (World, Pool<TestEnv>, Volume<TestEnv>) {
    let world = World::new(env.clone(), &[16 * MIB], MIB);
    let pool = world.create(PoolKind::Read).await;
    let settings = PoolSettings { populate_on_read: 1, ..pool.status().settings };
    pool.set(settings).await.unwrap();
    let spec = VolumeSpec { name: "v".parse().unwrap(), backing: "memory".into(), settings: VolumeSettings::default() };
    let volume = Volume::open(env.clone(), spec, backing.clone()).unwrap();
    pool.attach(&volume).await.unwrap();
    (world, pool, volume)
}

async fn read(volume: &Volume<TestEnv>, offset: u64, bytes: u64) -> Vec<u8> {
    volume.read(ByteRange::at(offset, bytes)).await.unwrap().to_vec()
}

/// Bytes that tell where they are.
async fn labelled(bytes: u64) -> (TestDevice, Vec<u8>) {
    let content: Vec<u8> = (0..bytes).map(|at| u8::try_from((at / 512) % 251).unwrap()).collect();
    (TestDevice::holding(&content).await, content)
}

// proves: D2
#[test]
fn one_read_of_the_backing_device_answers_the_host_and_fills_the_block() {
    run(async |env| {
        let (backing, content) = labelled(4 * MIB).await;
        let (_world, pool, volume) = cached(&env, &backing).await;
        backing.take_reads();
        assert_eq!(read(&volume, 3 * 4096 + 512, 1024).await, content[3 * 4096 + 512..3 * 4096 + 512 + 1024]);
        until(&env, "the block is in the cache", || volume.status().cache_used_bytes == BLOCK).await;
        assert_eq!(read(&volume, 0, BLOCK).await, content[..65536]);
        assert_eq!(backing.take_reads(), 1);
        assert_eq!((volume.status().stats.read_hits, volume.status().stats.populated_bytes), (1, BLOCK));
        // A request across two blocks brings both.
        assert_eq!(read(&volume, 2 * BLOCK - 4096, 8192).await, content[131_072 - 4096..131_072 + 4096]);
        until(&env, "both blocks are in the cache", || volume.status().cache_used_bytes == 3 * BLOCK).await;
        assert_eq!(read(&volume, BLOCK, 2 * BLOCK).await, content[65536..3 * 65536]);
        assert_eq!(backing.take_reads(), 1);
        pool.close().await.unwrap();
    });
}

// proves: D2
#[test]
fn misses_of_a_block_that_another_one_reads_wait_for_it() {
    run(async |env| {
        let (backing, content) = labelled(4 * MIB).await;
        let (_world, pool, volume) = cached(&env, &backing.clone().unhurried()).await;
        backing.take_reads();
        let reads = (0..16).map(|page| read(&volume, page * 4096, 4096));
        let pages = join_all(reads).await;
        assert_eq!(pages.concat(), content[..65536]);
        assert_eq!(backing.take_reads(), 1);
        pool.close().await.unwrap();
    });
}

// proves: D2
#[test]
fn a_bad_place_that_the_host_did_not_ask_for_costs_it_nothing_and_later_misses_nothing_at_all() {
    run(async |env| {
        for bad in [Bad::FailsAt(0), Bad::HangsAt(0)] {
            let env = env.clone().with_short_sleeps();
            let (backing, content) = labelled(4 * MIB).await;
            let (_world, _pool, volume) = cached(&env, &backing).await;
            // The block is read from its beginning on.
            backing.become_bad(bad);
            assert_eq!(read(&volume, 8192, 4096).await, content[8192..8192 + 4096]);
            backing.take_reads();
            assert_eq!(read(&volume, 12288, 4096).await, content[12288..12288 + 4096]);
            assert_eq!(volume.status().stats.read_hits, 0);
            if bad == Bad::FailsAt(0) {
                assert_eq!(volume.status().cache_used_bytes, 0);
            }
        }
    });
}

// proves: D5
#[test]
fn a_write_while_a_miss_reads_its_block_is_not_hidden_by_what_was_read() {
    run(async |env| {
        let (backing, content) = labelled(4 * MIB).await;
        let (_world, pool, volume) = cached(&env, &backing.clone().unhurried()).await;
        let new = || {
            let mut page = hotset_block::Buf::zeroed(4096);
            page.fill(255);
            page
        };
        let (before, written) = join(read(&volume, 0, 4096), volume.write(4096, new(), Durability::Volatile)).await;
        written.unwrap();
        assert_eq!(before, content[..4096]);
        env.sleep(Duration::from_millis(20)).await;
        assert_eq!(read(&volume, 4096, 4096).await, new()[..]);
        assert_eq!(read(&volume, 8192, 4096).await, content[8192..12288]);
        pool.close().await.unwrap();
    });
}

// proves: D9
#[test]
fn the_fetch_rate_does_not_govern_what_misses_carry() {
    run(async |env| {
        let (backing, _) = labelled(4 * MIB).await;
        let (_world, pool, volume) = cached(&env, &backing.clone().unhurried()).await;
        let settings = PoolSettings { fetch_rate: hotset_cache::config::FetchRate::Low, ..pool.status().settings };
        pool.set(settings).await.unwrap();
        backing.take_reads();
        join_all((0..32).map(|block| read(&volume, block * BLOCK, 4096))).await;
        until(&env, "all blocks are in the cache", || volume.status().cache_used_bytes == 32 * BLOCK).await;
        assert_eq!(backing.take_reads(), 32);
        let unused = PoolSettings::preset(PoolKind::Read, IoType::Custom);
        assert_ne!(unused.fetch_rate, settings.fetch_rate, "low is not the default");
        pool.close().await.unwrap();
    });
}
