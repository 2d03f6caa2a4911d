//! The memory cache in front of volumes with and without a pool, through the public face.

use std::time::Duration;

use hotset_block::{Buf, ByteRange, Env, ZeroMode};
use hotset_cache::config::{PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{DirtyData, Durability, MemoryCache, Volume, VolumeStats, ZeroEffort};

use crate::harness::{TestDevice, TestEnv, run};
use crate::world::{MIB, World, until};

const PAGE: u64 = 4096;

fn page(fill: u8) -> Buf {
    let mut buf = Buf::zeroed(4096);
    buf.fill(fill);
    buf
}

fn volume(world: &World, memory: &MemoryCache) -> Volume<TestEnv> {
    let settings = VolumeSettings { read_cutoff_bytes: None, ..VolumeSettings::default() };
    let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings };
    Volume::open_in(world.env.clone(), spec, TestDevice::from(world.backing()), memory).unwrap()
}

async fn write(volume: &Volume<TestEnv>, number: u64, fill: u8) {
    volume.write(number * PAGE, page(fill), Durability::Volatile).await.unwrap();
}

/// What all bytes of a page are.
async fn read(volume: &Volume<TestEnv>, number: u64) -> u8 {
    let buf = volume.read(ByteRange::at(number * PAGE, PAGE)).await.unwrap();
    assert!(buf.iter().all(|byte| *byte == buf[0]), "page {number}");
    buf[0]
}

/// The page is in memory afterwards.
async fn warm(volume: &Volume<TestEnv>, number: u64) {
    for _ in 0..4 {
        read(volume, number).await;
    }
}

fn memory_hits(volume: &Volume<TestEnv>) -> u64 {
    let VolumeStats { memory_hits, read_hits, reads, .. } = volume.status().stats;
    assert!(memory_hits <= read_hits && read_hits <= reads, "a hit in memory is a hit");
    memory_hits
}

/// Without a pool, and attached to one of each kind.
fn in_front_of_each_kind(test: impl AsyncFn(&World, &Volume<TestEnv>)) {
    in_front_of_each_kind_with(MIB, test);
}

fn in_front_of_each_kind_with(memory_bytes: u64, test: impl AsyncFn(&World, &Volume<TestEnv>)) {
    for kind in [None, Some(PoolKind::Read), Some(PoolKind::ReadWrite)] {
        run(async |env| {
            let world = World::new(env, &[32 * MIB, 32 * MIB], 32 * MIB);
            let volume = volume(&world, &MemoryCache::new(memory_bytes));
            let pool = match kind {
                Some(kind) => Some(world.create(kind).await),
                None => None,
            };
            if let Some(pool) = &pool {
                pool.attach(&volume).await.unwrap();
            }
            test(&world, &volume).await;
            if let Some(pool) = pool {
                pool.close().await.unwrap();
            }
        });
    }
}

// proves: M1, M3, M5
#[test]
fn the_third_read_of_a_page_is_a_hit_in_memory_and_whatever_changes_the_page_is_seen() {
    in_front_of_each_kind(async |_, volume| {
        write(volume, 5, 1).await;
        warm(volume, 5).await;
        let before = memory_hits(volume);
        assert!(before >= 2, "the first two reads went below, {before} of four did not");
        assert_eq!((read(volume, 5).await, memory_hits(volume)), (1, before + 1));

        write(volume, 5, 2).await;
        assert_eq!((read(volume, 5).await, memory_hits(volume)), (2, before + 1), "it was read below");

        warm(volume, 5).await;
        let effort = (ZeroMode::MayPunch, ZeroEffort::Any);
        volume.write_zeroes(ByteRange::at(4 * PAGE, 3 * PAGE), effort.0, effort.1, Durability::Volatile).await.unwrap();
        assert_eq!(read(volume, 5).await, 0);

        write(volume, 5, 3).await;
        warm(volume, 5).await;
        volume.trim(ByteRange::at(0, 16 * MIB), Durability::Volatile).await.unwrap();
        assert_eq!(read(volume, 5).await, 0);

        warm(volume, 5).await;
        let part = page(9).narrow(0, 512);
        volume.write(5 * PAGE + 1024, part, Durability::Volatile).await.unwrap();
        let buf = volume.read(ByteRange::at(5 * PAGE, PAGE)).await.unwrap();
        assert_eq!((buf[1023], buf[1024], buf[1535], buf[1536]), (0, 9, 9, 0));
    });
}

#[test]
fn what_is_read_in_memory_again_and_again_comes_to_the_ssds_too() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 32 * MIB);
        let volume = volume(&world, &MemoryCache::new(4 * MIB));
        let pool = world.create(PoolKind::Read).await;
        pool.set(PoolSettings { populate_on_read: 4, ..pool.status().settings }).await.unwrap();
        pool.attach(&volume).await.unwrap();
        warm(&volume, 5).await;
        assert_eq!(pool.status().slots_used, 0, "two reads of four missed");
        for _ in 0..2 * 16 {
            read(&volume, 5).await;
        }
        until(&env, "the block is on an SSD", || pool.status().slots_used == 1).await;

        // Not what is to stay away from the SSDs.
        volume.set(VolumeSettings { read_cache: false, ..volume.settings() }).await.unwrap();
        warm(&volume, 4000).await;
        for _ in 0..8 * 16 {
            read(&volume, 4000).await;
        }
        assert!(memory_hits(&volume) > 9 * 16);
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(pool.status().slots_used, 1);
        pool.close().await.unwrap();
    });
}

#[test]
fn parts_of_pages_and_several_pages_are_hits_in_memory_too() {
    in_front_of_each_kind(async |world, volume| {
        for number in 10..14 {
            write(volume, number, u8::try_from(number).unwrap()).await;
        }
        let part = ByteRange::at(11 * PAGE + 512, 1024);
        for _ in 0..4 {
            assert_eq!(volume.read(part).await.unwrap()[..], page(11)[..1024]);
        }
        assert!(memory_hits(volume) >= 2, "the whole page came in");
        let several = ByteRange::at(10 * PAGE, 4 * PAGE);
        for _ in 0..3 {
            let buf = volume.read(several).await.unwrap();
            assert_eq!((buf[0], buf[4096], buf[4 * 4096 - 1]), (10, 11, 13));
        }
        let before = memory_hits(volume);
        let mut buf = volume.read_into(several.start, world.env.buffers().take(4 * 4096)).await.unwrap();
        assert_eq!((buf[0], buf[3 * 4096], memory_hits(volume)), (10, 13, before + 1));
        buf.fill(0);
        assert_eq!(read(volume, 10).await, 10, "a buffer that was handed in is its owner's");
    });
}

// proves: M3
#[test]
fn a_stream_leaves_memory_alone() {
    run(async |env| {
        let world = World::new(env, &[], 32 * MIB);
        let memory = MemoryCache::new(4 * MIB);
        let volume = volume(&world, &memory);
        let settings = VolumeSettings { read_cutoff_bytes: Some(64 << 10), read_ahead: false, ..volume.settings() };
        volume.set(settings).await.unwrap();
        for _ in 0..3 {
            for number in 0..400 {
                read(&volume, number).await;
            }
        }
        let used = memory.status().used_bytes;
        assert!(used <= 32 * PAGE, "{used} bytes: what came before each stream was one");
    });
}

/// Reads a mebibyte in requests of `request` bytes; all of each is `fill`.
async fn stream(volume: &Volume<TestEnv>, mebibyte: u64, request: u64, fill: u8) {
    for part in 0..MIB / request {
        let buf = volume.read(ByteRange::at(mebibyte * MIB + part * request, request)).await.unwrap();
        assert!(buf.iter().all(|byte| *byte == fill), "mebibyte {mebibyte}, request {part}");
    }
}

fn ahead(volume: &Volume<TestEnv>) -> u64 {
    volume.status().stats.read_ahead_hits
}

async fn fill_volume(volume: &Volume<TestEnv>, mebibytes: u64) {
    for mebibyte in 0..mebibytes {
        let mut buf = Buf::zeroed(usize::try_from(MIB).unwrap());
        buf.fill(u8::try_from(mebibyte + 1).unwrap());
        volume.write(mebibyte * MIB, buf, Durability::Volatile).await.unwrap();
    }
}

// proves: M1, M3
#[test]
fn a_stream_that_bypasses_the_cache_is_read_ahead_and_sees_what_changes() {
    in_front_of_each_kind_with(64 * MIB, async |_, volume| {
        volume.set(VolumeSettings { read_cutoff_bytes: Some(MIB), ..volume.settings() }).await.unwrap();
        fill_volume(volume, 32).await;
        for mebibyte in 8..16 {
            stream(volume, mebibyte, 64 << 10, u8::try_from(mebibyte + 1).unwrap()).await;
        }
        let hits = ahead(volume);
        assert!(hits > 80, "{hits} of 128 requests, of which 16 were no stream yet");
        // What is ahead of the stream by now changes.
        write(volume, 16 * 256 + 3, 77).await;
        let buf = volume.read(ByteRange::at(16 * MIB, 64 << 10)).await.unwrap();
        assert_eq!([2, 3, 4].map(|page| buf[page * 4096]), [17, 77, 17]);
        volume.trim(ByteRange::at(17 * MIB, MIB), Durability::Volatile).await.unwrap();
        let rest = volume.read(ByteRange::at(16 * MIB + (64 << 10), MIB - (64 << 10))).await.unwrap();
        assert!(rest.iter().all(|byte| *byte == 17));
        stream(volume, 17, MIB, 0).await;
        for mebibyte in 18..31 {
            stream(volume, mebibyte, MIB, u8::try_from(mebibyte + 1).unwrap()).await;
        }
        assert!(ahead(volume) >= hits + 10, "long requests, too, and to the end");
        // Requests that end within a page.
        let part = (512 << 10) + 512;
        for request in 0..24 {
            let buf = volume.read(ByteRange::at(request * part, part)).await.unwrap();
            let expected = |at: u64| u8::try_from(at / MIB + 1).unwrap();
            assert_eq!([buf[0], buf[buf.len() - 1]], [expected(request * part), expected((request + 1) * part - 1)]);
        }

        volume.set(VolumeSettings { read_ahead: false, ..volume.settings() }).await.unwrap();
        let hits = ahead(volume);
        for mebibyte in 20..30 {
            stream(volume, mebibyte, MIB, u8::try_from(mebibyte + 1).unwrap()).await;
        }
        assert_eq!(ahead(volume), hits);
    });
}

#[test]
fn what_nobody_asks_for_of_what_was_read_ahead_goes() {
    run(async |env| {
        let env = env.at_pace(5);
        let world = World::new(env.clone(), &[], 32 * MIB);
        let memory = MemoryCache::new(64 * MIB);
        let volume = volume(&world, &memory);
        volume.set(VolumeSettings { read_cutoff_bytes: Some(MIB), ..volume.settings() }).await.unwrap();
        for mebibyte in 0..3 {
            stream(&volume, mebibyte, MIB, 0).await;
        }
        assert!(memory.status().used_bytes > MIB);
        // Pages that were read twice may stay.
        until(&env, "they go", || memory.status().used_bytes < MIB).await;
        drop(volume);
    });
}

// proves: M1
#[test]
fn its_size_and_which_volumes_it_serves_change_while_hosts_read() {
    run(async |env| {
        let world = World::new(env.clone(), &[], 32 * MIB);
        let memory = MemoryCache::new(2 * MIB);
        let volume = volume(&world, &memory);
        for number in (0..200).map(|number| number * 3) {
            write(&volume, number, 1).await;
            warm(&volume, number).await;
        }
        let full = memory.status();
        assert!(full.used_bytes > 200 * PAGE && full.used_bytes <= full.size_bytes, "{full:?}");

        memory.allow(&env, MIB / 4).await;
        let less = memory.status();
        assert_eq!(less.size_bytes, 2 * MIB);
        assert!(less.allowed_bytes <= MIB / 4 && less.allowed_bytes > MIB / 4 - 2 * PAGE, "whole pages: {less:?}");
        assert!(less.used_bytes <= less.allowed_bytes && less.used_bytes > 0, "{less:?}");

        memory.resize(&env, MIB / 8).await;
        let small = memory.status();
        assert_eq!((small.size_bytes, small.allowed_bytes), (MIB / 8, MIB / 8));
        assert!(small.used_bytes <= MIB / 8 && small.used_bytes > 0, "{small:?}");

        volume.set(VolumeSettings { memory_cache: false, ..volume.settings() }).await.unwrap();
        assert_eq!(memory.status().used_bytes, 0);
        let before = memory_hits(&volume);
        warm(&volume, 3).await;
        assert_eq!(memory_hits(&volume), before);

        volume.set(VolumeSettings { memory_cache: true, ..volume.settings() }).await.unwrap();
        warm(&volume, 3).await;
        assert!(memory_hits(&volume) > before);
        memory.resize(&env, 0).await;
        assert_eq!((memory.status().used_bytes, read(&volume, 3).await), (0, 1));
        drop(volume);
    });
}

// proves: M2
#[test]
fn what_was_discarded_with_a_volumes_cache_is_not_in_memory_any_more() {
    run(async |env| {
        let world = World::new(env, &[32 * MIB, 32 * MIB], 32 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let memory = MemoryCache::new(MIB);
        let volume = volume(&world, &memory);
        write(&volume, 5, 1).await;
        pool.attach(&volume).await.unwrap();
        write(&volume, 5, 2).await;
        warm(&volume, 5).await;
        assert_eq!((read(&volume, 5).await, volume.status().dirty_bytes), (2, PAGE));
        pool.detach(&volume.name(), DirtyData::Discard).await.unwrap();
        assert_eq!(read(&volume, 5).await, 1, "what the backing device holds");
        write(&volume, 5, 3).await;
        warm(&volume, 5).await;
        pool.attach(&volume).await.unwrap();
        assert_eq!(read(&volume, 5).await, 3);
        pool.close().await.unwrap();
    });
}

// proves: M1
#[test]
fn what_is_hot_in_memory_stays_on_the_ssds() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let memory = MemoryCache::new(MIB);
        let volume = volume(&world, &memory);
        pool.attach(&volume).await.unwrap();
        volume.populate(ByteRange::at(0, PAGE)).await.unwrap();
        warm(&volume, 0).await;
        // Blocks that go through the pool, several times its size; between any two, hits in memory.
        for block in 1..900 {
            for _ in 0..4 {
                read(&volume, 0).await;
            }
            volume.populate(ByteRange::at(block * 65_536, PAGE)).await.unwrap();
        }
        memory.resize(&env, 0).await;
        let before = volume.status().stats.read_hits;
        read(&volume, 0).await;
        assert_eq!(volume.status().stats.read_hits, before + 1, "the SSD has it");
        pool.close().await.unwrap();
    });
}
