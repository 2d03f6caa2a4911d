//! A read-write pool on devices in memory: write-back, cleaning, restarts, lost SSDs, through the public face.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{join, join_all};
use hotset_block::{Buf, ByteRange, Device, Env, MemoryDevice, Operation, ZeroMode};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec, WriteMode};
use hotset_cache::offline::Offline;
use hotset_cache::{
    DirtyData, Drained, Durability, FenceCause, Flushed, Health, Missing, Named, Pool, PoolReason, PoolSpec,
    Reattached, STATE_BYTES, Volume, ZeroEffort,
};

use crate::harness::{PACE, TestDevice, TestEnv, run};
use crate::world::until;

const MIB: u64 = 1 << 20;

/// Devices that outlive the pool: handles on the same memory.
struct World {
    env: TestEnv,
    ssds: Vec<MemoryDevice>,
    state: MemoryDevice,
    backing: MemoryDevice,
}

impl World {
    fn new(env: TestEnv, ssd_sizes: &[u64], backing_bytes: u64) -> Self {
        let ssds = ssd_sizes.iter().map(|size| MemoryDevice::new(*size, 4096)).collect();
        let state = MemoryDevice::new(STATE_BYTES, 512);
        Self { env, ssds, state, backing: MemoryDevice::new(backing_bytes, 512) }
    }

    fn named(&self) -> Vec<Named<TestDevice>> {
        let device = |(index, ssd): (usize, &MemoryDevice)| Named {
            path: format!("ssd{index}"),
            device: TestDevice::from(ssd.clone()),
        };
        self.ssds.iter().enumerate().map(device).collect()
    }

    /// Dirty data stays for ever, unless the pool is told otherwise.
    fn spec() -> PoolSpec {
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::ReadWrite, settings }
    }

    async fn create(&self) -> Pool<TestEnv> {
        let state = TestDevice::from(self.state.clone());
        Pool::create(self.env.clone(), Self::spec(), self.named(), state).await.unwrap()
    }

    async fn open(&self) -> Pool<TestEnv> {
        let state = Some(TestDevice::from(self.state.clone()));
        Pool::open(self.env.clone(), self.named(), state, Missing::Refuse).await.unwrap()
    }

    /// Some SSDs are gone for good.
    async fn open_without(&self) -> Pool<TestEnv> {
        let state = Some(TestDevice::from(self.state.clone()));
        Pool::open(self.env.clone(), self.named(), state, Missing::Leave).await.unwrap()
    }

    fn volume(&self) -> Volume<TestEnv> {
        let spec =
            VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings: VolumeSettings::default() };
        Volume::open(self.env.clone(), spec, TestDevice::from(self.backing.clone())).unwrap()
    }

    /// What the backing device itself holds.
    async fn on_backing(&self, page: u64) -> u8 {
        let (buf, read) = self.backing.read(page * 4096, Buf::zeroed(4096)).await;
        read.unwrap();
        buf[0]
    }
}

fn page(fill: u8) -> Buf {
    let mut buf = Buf::zeroed(4096);
    buf.fill(fill);
    buf
}

async fn write(volume: &Volume<TestEnv>, number: u64, fill: u8) {
    volume.write(number * 4096, page(fill), Durability::Volatile).await.unwrap();
}

async fn read(volume: &Volume<TestEnv>, number: u64) -> u8 {
    let buf = volume.read(ByteRange::at(number * 4096, 4096)).await.unwrap();
    assert!(buf.iter().all(|byte| *byte == buf[0]), "page {number} is torn");
    buf[0]
}

async fn attached(world: &World, pool: &Pool<TestEnv>) -> Volume<TestEnv> {
    let volume = world.volume();
    pool.attach(&volume).await.unwrap();
    volume
}

// proves: D6, P11
#[test]
fn a_write_is_answered_from_the_ssds_and_reaches_the_backing_device_later() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 48 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        write(&volume, 7, 1).await;
        write(&volume, 7, 2).await;
        volume.write(7 * 4096 + 512, page(9).narrow(0, 1024), Durability::Durable).await.unwrap();
        assert_eq!(world.on_backing(7).await, 0, "it is dirty");
        let status = volume.status();
        assert_eq!((status.dirty_bytes, status.stats.write_hits, status.oldest_dirty_seconds), (4096, 3, Some(0)));
        let bytes = volume.read(ByteRange::at(6 * 4096, 3 * 4096)).await.unwrap();
        assert_eq!((bytes[4095], bytes[4096], bytes[4096 + 512], bytes[4096 + 1536], bytes[8192]), (0, 2, 9, 2, 0));
        pool.drain(&volume.name()).await.unwrap();
        assert_eq!(world.on_backing(7).await, 2);
        let status = volume.status();
        assert_eq!((status.dirty_bytes, status.stats.cleaned_bytes), (0, 4096), "overwritten data is written once");
        pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
        assert_eq!(volume.read(ByteRange::at(7 * 4096 + 512, 512)).await.unwrap()[0], 9);
        pool.close().await.unwrap();
    });
}

// proves: D8, D14, F7
#[test]
fn dirty_data_survives_a_clean_restart_and_a_kill_and_stays_dirty() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        for number in 0..300 {
            write(&volume, number, u8::try_from(number % 200).unwrap() + 1).await;
        }
        pool.close().await.unwrap();
        for round in 0..3_u8 {
            let pool = world.open().await;
            let volume = world.volume();
            let Reattached::Warm { .. } = pool.reattach(&volume).await.unwrap() else { panic!("not warm") };
            for number in 0..300 {
                let expected = if number < u64::from(round) { 250 } else { u8::try_from(number % 200).unwrap() + 1 };
                assert_eq!(read(&volume, number).await, expected, "round {round}, page {number}");
            }
            assert_eq!(volume.status().dirty_bytes, 300 * 4096);
            write(&volume, u64::from(round), 250).await;
            // The daemon dies here: nothing of the pool runs on, its devices keep what they have.
            std::mem::forget((pool, volume));
        }
    });
}

// proves: D12
#[test]
fn a_set_that_is_written_over_and_over_never_fills_the_log() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        let capacity = pool.status().write_log.unwrap().dirty_capacity_bytes;
        let set = capacity / 4096 * 9 / 10;
        let mut seed = 7_u64;
        let mut expected = vec![0_u8; usize::try_from(set).unwrap()];
        for _ in 0..set * 8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (seed >> 33) % set;
            let fill = u8::try_from(seed >> 56).unwrap();
            expected[usize::try_from(number).unwrap()] = fill;
            write(&volume, number, fill).await;
        }
        for (number, fill) in (0..).zip(&expected) {
            assert_eq!(read(&volume, number).await, *fill, "page {number}");
        }
        assert!(volume.status().stats.moved_bytes > 0, "rows were freed");
        pool.close().await.unwrap();
        let pool = world.open().await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        for (number, fill) in (0..).zip(&expected) {
            assert_eq!(read(&volume, number).await, *fill, "page {number} after a restart: {}", pool.status().recovery);
        }
        pool.delete(DirtyData::Clean).await.unwrap();
        for (number, fill) in (0..).zip(&expected) {
            assert_eq!(world.on_backing(number).await, *fill, "page {number} on the backing device");
        }
    });
}

// proves: D13
#[test]
fn zeroes_and_trims_reach_what_is_dirty() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        for number in 10..20 {
            write(&volume, number, 5).await;
        }
        let zeroed = ByteRange { start: 8 * 4096, end: 15 * 4096 + 512 };
        volume.write_zeroes(zeroed, ZeroMode::MayPunch, ZeroEffort::Any, Durability::Durable).await.unwrap();
        volume.trim(ByteRange::at(17 * 4096, 2 * 4096), Durability::Volatile).await.unwrap();
        let check = async |volume: &Volume<TestEnv>| {
            let bytes = volume.read(ByteRange::at(0, 32 * 4096)).await.unwrap();
            for (number, page) in bytes.chunks_exact(4096).enumerate() {
                let expected = match number {
                    16 | 19 => [5, 5],
                    15 => [0, 5],
                    _ => [0, 0],
                };
                assert_eq!([page[0], page[4095]], expected, "page {number}");
            }
        };
        check(&volume).await;
        pool.close().await.unwrap();
        let pool = world.open().await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        check(&volume).await;
        pool.drain(&volume.name()).await.unwrap();
        check(&volume).await;
        pool.close().await.unwrap();
        assert_eq!((world.on_backing(14).await, world.on_backing(16).await, world.on_backing(17).await), (0, 5, 0));
    });
}

// proves: D7
#[test]
fn write_through_and_around_leave_nothing_dirty_and_modes_change_online() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        write(&volume, 1, 1).await;
        for (mode, number) in [(WriteMode::WriteThrough, 2), (WriteMode::WriteAround, 3)] {
            volume.set(VolumeSettings { write_mode: mode, ..volume.settings() }).await.unwrap();
            write(&volume, number, 4).await;
            assert_eq!(world.on_backing(number).await, 4, "{mode}");
            write(&volume, 1, 6).await;
            assert_eq!(world.on_backing(1).await, 6, "{mode}: what is dirty is written through");
            assert_eq!((read(&volume, 1).await, read(&volume, number).await), (6, 4));
        }
        until(&env, "nothing is dirty", || volume.status().dirty_bytes == 0).await;
        pool.close().await.unwrap();
    });
}

/// A volume that hosts write through, all of whose writes go into the log too, and its backing device: others go on while that works, the
/// cleaner too.
async fn written_through(world: &World, pool: &Pool<TestEnv>) -> (TestDevice, Volume<TestEnv>) {
    pool.set(PoolSettings { populate_on_write: 1, ..pool.status().settings }).await.unwrap();
    let settings =
        VolumeSettings { write_mode: WriteMode::WriteThrough, write_cutoff_bytes: None, ..VolumeSettings::default() };
    let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings };
    let backing = TestDevice::from(world.backing.clone()).unhurried();
    let volume = Volume::open(world.env.clone(), spec, backing.clone()).unwrap();
    pool.attach(&volume).await.unwrap();
    (backing, volume)
}

#[test]
fn what_is_written_through_is_flushed_now_and_then() {
    const WRITERS: u64 = 8;
    const WRITES: u64 = 250;
    run(async |env| {
        let env = env.at_pace(PACE);
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let (backing, volume) = written_through(&world, &pool).await;
        write(&volume, 0, 3).await;
        until(&env, "nothing is dirty", || volume.status().dirty_bytes == 0).await;
        let (writes, flushes, began) = (volume.status().backing_io.writes, backing.flushes(), env.now());
        join_all((0..WRITERS).map(async |writer| {
            for number in 0..WRITES {
                write(&volume, writer * WRITES + number, 4).await;
                env.sleep(Duration::from_millis(50)).await;
            }
        }))
        .await;
        assert!(volume.status().cache_used_bytes > 0, "it went into the log, too");
        until(&env, "nothing is dirty", || volume.status().dirty_bytes == 0).await;
        let writes = volume.status().backing_io.writes - writes;
        assert!(
            writes <= WRITERS * WRITES * 101 / 100,
            "{writes}: each is written once, but for what is just being written"
        );
        let (flushes, seconds) = (backing.flushes() - flushes, env.now().since(began).as_secs());

        // Not one for each write; a machine that stands still for a moment makes a few more.
        assert!(flushes <= 2 * seconds, "{flushes} flushes in {seconds} s");
        assert_eq!((world.on_backing(0).await, world.on_backing(WRITERS * WRITES - 1).await), (4, 4));
        pool.close().await.unwrap();
    });
}

// Hosts had written more pages out than were dirty, for they wrote some again, and one that had failed was not missed.
// proves: D7
#[test]
fn what_could_not_be_written_through_is_cleaned_beside_hosts_that_write_again_and_again() {
    const FAILED: u64 = 1000;
    run(async |env| {
        let env = env.at_pace(PACE);
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let (backing, volume) = written_through(&world, &pool).await;
        let (pause, stop) = (Cell::new(false), Cell::new(false));
        let hosts = join_all((0..8).map(async |page| {
            while !stop.get() {
                if !pause.get() {
                    write(&volume, page, 4).await;
                }
                env.sleep(Duration::from_millis(20)).await;
            }
        }));
        let fail_one = async {
            env.sleep(Duration::from_millis(2500)).await;
            pause.set(true);
            env.sleep(Duration::from_millis(100)).await;
            backing.hold_next(Operation::Write);
            backing.release();
            volume.write(FAILED * 4096, page(7), Durability::Volatile).await.unwrap_err();
            pause.set(false);
            let began = env.now();
            while world.on_backing(FAILED).await != 7 && env.now().since(began) < Duration::from_hours(1) {
                env.sleep(Duration::from_secs(1)).await;
            }
            stop.set(true);
        };
        join(hosts, fail_one).await;
        assert_eq!(world.on_backing(FAILED).await, 7);
        pool.close().await.unwrap();
    });
}

// proves: F2
#[test]
fn an_ssd_is_lost_and_nothing_with_it() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        for number in 0..100 {
            write(&volume, number, 3).await;
        }
        world.ssds[0].vanish();
        for number in 50..150 {
            write(&volume, number, 4).await;
        }
        volume.flush().await.unwrap();
        for number in 0..150 {
            assert_eq!(read(&volume, number).await, if number < 50 { 3 } else { 4 }, "page {number}");
        }
        assert_eq!(pool.status().health, Health::Degraded);
        until(&env, "it is flushed", || volume.status().dirty_bytes == 0).await;
        assert_eq!((world.on_backing(0).await, world.on_backing(149).await), (3, 4));
        pool.close().await.unwrap();
    });
}

// proves: F2
#[test]
fn with_one_ssd_left_what_is_cached_is_served_and_nothing_new_is_cached() {
    const BLOCK: u64 = 64 << 10;
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        volume.populate(ByteRange::at(0, 40 * BLOCK)).await.unwrap();
        assert_eq!(volume.status().cache_used_bytes, 40 * BLOCK);
        world.ssds[0].vanish();
        write(&volume, 15_000, 1).await;
        assert_eq!(pool.status().health, Health::Degraded);
        let before = volume.status();
        assert!(before.cache_used_bytes > 10 * BLOCK, "{} bytes are on the SSD that is left", before.cache_used_bytes);
        for number in (0..640).chain([15_000]) {
            assert_eq!(read(&volume, number).await, u8::from(number == 15_000));
        }
        let hits = volume.status().stats.read_hits - before.stats.read_hits;
        assert_eq!(hits * 4096, before.cache_used_bytes, "what it has is served from it");
        volume.populate(ByteRange::at(100 * BLOCK, 40 * BLOCK)).await.unwrap();
        for number in 15_100..15_200 {
            write(&volume, number, 2).await;
            assert_eq!(world.on_backing(number).await, 2);
        }
        let after = volume.status();
        assert_eq!(after.stats.populated_bytes, before.stats.populated_bytes, "nothing is populated");
        assert_eq!(after.stats.write_hits, before.stats.write_hits, "no write is cached");
        pool.close().await.unwrap();
    });
}

// proves: F6
#[test]
fn while_its_backing_device_is_gone_a_volume_serves_what_is_cached_and_keeps_what_is_dirty() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        volume.populate(ByteRange::at(0, MIB)).await.unwrap();
        for number in 1000..1100 {
            write(&volume, number, 5).await;
        }
        world.backing.vanish();
        for number in 0..256 {
            assert_eq!(read(&volume, number).await, 0, "page {number} is cached");
        }
        for number in 1000..1100 {
            assert_eq!(read(&volume, number).await, 5, "page {number} is dirty");
        }
        assert!(volume.read(ByteRange::at(5000 * 4096, 4096)).await.is_err(), "nobody has this page");
        assert_eq!(volume.status().dirty_bytes, 100 * 4096);
        pool.detach(&volume.name(), DirtyData::Discard).await.unwrap();
        pool.close().await.unwrap();
    });
}

#[test]
fn volumes_whose_backing_devices_are_gone_hold_half_of_what_may_be_dirty_together() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let mut settings = pool.status().settings;
        settings.cleaning.dirty_watermark_percent = 1;
        pool.set(settings).await.unwrap();
        let gone = [MemoryDevice::new(64 * MIB, 512), MemoryDevice::new(64 * MIB, 512)];
        let mut volumes = Vec::new();
        for (name, backing) in ["one", "two"].into_iter().zip(&gone) {
            let settings = VolumeSettings::default();
            let spec = VolumeSpec { name: name.parse().unwrap(), backing: name.into(), settings };
            let volume = Volume::open(env.clone(), spec, TestDevice::from(backing.clone())).unwrap();
            pool.attach(&volume).await.unwrap();
            volumes.push(volume);
        }
        let sound = attached(&world, &pool).await;
        gone.iter().for_each(MemoryDevice::vanish);
        let most = pool.status().write_log.unwrap().dirty_capacity_bytes / 4096;
        for volume in &volumes {
            for number in 0..most / 16 {
                write(volume, number, 1).await;
            }
        }
        until(&env, "it is known that nothing can be cleaned", || {
            volumes.iter().all(|volume| volume.status().health == Health::Degraded)
        })
        .await;
        let dirty = || volumes.iter().map(|volume| volume.status().dirty_bytes / 4096).sum::<u64>();
        for number in 0..most {
            for volume in &volumes {
                // What is not cached goes to a device that is not there; one page behind the other would be a stream.
                let _ = volume.write(2 * number * 4096, page(2), Durability::Volatile).await;
            }
        }
        assert!((most / 2..=most / 2 + 1).contains(&dirty()), "{} of {most} pages", dirty());
        let hits = sound.status().stats.write_hits;
        for number in 0..most / 16 {
            write(&sound, number, 3).await;
        }
        assert_eq!(sound.status().stats.write_hits, hits + most / 16, "the other volume's writes are cached");
        for volume in &volumes {
            pool.detach(&volume.name(), DirtyData::Discard).await.unwrap();
        }
        pool.close().await.unwrap();
    });
}

/// Cleaning begins beside hosts that never rest, whatever of these two settings asks for it.
async fn is_cleaned_beside_hosts(env: TestEnv, dirty_watermark_percent: u8, dirty_age_max_seconds: u32) {
    let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
    let pool = world.create().await;
    let mut settings = pool.status().settings;
    settings.cleaning.dirty_watermark_percent = dirty_watermark_percent;
    settings.cleaning.dirty_age_max_seconds = dirty_age_max_seconds;
    pool.set(settings).await.unwrap();
    let volume = attached(&world, &pool).await;
    for number in 0..400 {
        write(&volume, number * 2, 1).await;
    }
    for _ in 0..10_000 {
        write(&volume, 1001, 1).await;
        if volume.status().stats.cleaned_bytes > 0 {
            return pool.delete(DirtyData::Discard).await.map(drop).unwrap();
        }
        env.sleep(Duration::from_millis(1)).await;
    }
    panic!("nothing is cleaned with a watermark of {dirty_watermark_percent} % and {dirty_age_max_seconds} s");
}

// proves: D8
#[test]
fn much_or_old_dirty_data_is_cleaned_although_hosts_never_rest() {
    run(async |env| {
        is_cleaned_beside_hosts(env.clone(), 5, 3600).await;
        is_cleaned_beside_hosts(env, 90, 1).await;
    });
}

// proves: F2
#[test]
fn what_lost_a_copy_gets_another_one_while_writes_stay_cached() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        for number in 0..600 {
            write(&volume, number, 3).await;
        }
        world.ssds[0].vanish();
        for number in 500..700 {
            write(&volume, number, 4).await;
        }
        let healed = || pool.status().rebuild.is_none() && !pool.status().ssds[0].online;
        until(&env, "all of it has two copies again", healed).await;
        let status = pool.status();
        let missed = PoolReason::Missed { paths: vec!["ssd0".to_owned()] };
        assert_eq!((status.health, status.reason), (Health::Degraded, Some(missed)));
        write(&volume, 700, 5).await;
        assert_eq!(volume.status().dirty_bytes, 701 * 4096, "nothing was flushed: the pool stayed in write-back");
        assert!(!pool.status().write_log.unwrap().write_caching_off);
        world.ssds[1].vanish();
        for number in 0..701 {
            let expected = if number < 500 { 3 } else { 4 + u8::from(number == 700) };
            assert_eq!(read(&volume, number).await, expected, "page {number}");
        }
        until(&env, "it is flushed, for one SSD is left", || volume.status().dirty_bytes == 0).await;
        assert_eq!(pool.status().health, Health::Degraded);
        pool.close().await.unwrap();
    });
}

// proves: F2, F7
#[test]
fn copies_made_anew_are_found_after_a_restart_and_made_after_one() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[32 * MIB, 32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        for number in 0..600 {
            write(&volume, number, 3).await;
        }
        pool.close().await.unwrap();
        drop((pool, volume));
        // One is missing at the start: what it had is copied then. The next one is missing at the next start.
        for lost in 0..2 {
            world.ssds.remove(0);
            let pool = world.open_without().await;
            let volume = world.volume();
            pool.reattach(&volume).await.unwrap();
            if lost == 0 {
                until(&env, "all of it has two copies again", || pool.status().rebuild.is_none()).await;
            }
            for number in 0..600 {
                assert_eq!(read(&volume, number).await, 3, "page {number}");
            }
            pool.close().await.unwrap();
        }
    });
}

// proves: F8
#[test]
fn dirty_data_of_another_backing_device_is_fenced_and_kept() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        write(&volume, 100, 3).await;
        pool.close().await.unwrap();
        let right = std::mem::replace(&mut world.backing, MemoryDevice::new(64 * MIB, 512));
        let pool = world.open().await;
        let wrong = world.volume();
        let Reattached::Fenced { cause: FenceCause::OtherBacking, reason, dirty_bytes } =
            pool.reattach(&wrong).await.unwrap()
        else {
            panic!("not fenced")
        };
        assert!(dirty_bytes == 4096 && reason.to_string().contains("another backing device"), "{reason}");
        assert!(wrong.read(ByteRange::at(0, 512)).await.is_err());
        assert!(pool.detach(&wrong.name(), DirtyData::Clean).await.is_err());
        pool.close().await.unwrap();
        assert_eq!(world.on_backing(100).await, 0);
        world.backing = right;
        let pool = world.open().await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        assert_eq!(read(&volume, 100).await, 3);
        pool.close().await.unwrap();
    });
}

// proves: F8
#[test]
fn a_fenced_device_that_is_accepted_gets_what_the_log_has_and_nothing_else_is_believed() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        write(&volume, 200, 7).await;
        assert_eq!(volume.flush_now().await.unwrap(), Flushed::Durable);
        write(&volume, 100, 3).await;
        assert!(pool.accept_backing(&volume).await.is_err(), "it is not fenced");
        pool.close().await.unwrap();
        world.backing = MemoryDevice::new(64 * MIB, 512);
        let pool = world.open().await;
        let volume = world.volume();
        assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Fenced { .. }));
        let evidence = pool.backing_evidence(&volume).await.unwrap();
        assert!(evidence.against().is_some() && evidence.likeness == hotset_block::Likeness::Other, "{evidence:?}");
        pool.accept_backing(&volume).await.unwrap();
        assert_eq!((read(&volume, 100).await, read(&volume, 200).await), (3, 7));
        assert_eq!(pool.drain(&volume.name()).await.unwrap(), Drained::Clean);
        // What the log goes on to answer must not change when it forgets it.
        assert_eq!((world.on_backing(100).await, world.on_backing(200).await), (3, 7));
        pool.close().await.unwrap();
        let pool = world.open().await;
        let volume = world.volume();
        assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }), "it is on record");
        pool.close().await.unwrap();
    });
}

// proves: F2, O3
#[test]
fn what_was_flushed_for_an_administrator_is_not_written_again_after_a_kill() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        write(&volume, 100, 3).await;
        assert_eq!(volume.flush_now().await.unwrap(), Flushed::Durable);
        // The daemon dies here, and somebody uses the backing device.
        std::mem::forget((pool, volume));
        TestDevice::from(world.backing.clone()).write(100 * 4096, page(9)).await.1.unwrap();
        let pool = world.open().await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        assert_eq!(volume.status().dirty_bytes, 0);
        assert_eq!(world.on_backing(100).await, 9);
        pool.close().await.unwrap();
    });
}

// proves: F8
#[test]
fn what_somebody_writes_after_a_kill_where_a_host_had_written_before_is_known() {
    for is_written in [false, true] {
        run(async move |env| {
            let env = env.with_short_sleeps();
            let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
            let pool = world.create().await;
            let volume = attached(&world, &pool).await;
            // As a file system does in its first page when it is mounted.
            write(&volume, 0, 3).await;
            assert_eq!(volume.flush_now().await.unwrap(), Flushed::Durable);
            while pool.backing_evidence(&volume).await.unwrap().unsettled > 0 {
                env.sleep(Duration::from_secs(10)).await;
            }
            std::mem::forget((pool, volume));
            if is_written {
                TestDevice::from(world.backing.clone()).write(0, page(9)).await.1.unwrap();
            }
            let pool = world.open().await;
            let found = pool.reattach(&world.volume()).await.unwrap();
            assert_eq!(matches!(found, Reattached::Dropped { .. }), is_written, "{found:?}");
            pool.close().await.unwrap();
        });
    }
}

// proves: F8
#[test]
fn ssds_on_devices_of_larger_blocks_are_refused_by_name_and_keep_what_they_have() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        world.ssds = world.ssds.iter().map(|_| MemoryDevice::new(32 * MIB, 512)).collect();
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        write(&volume, 100, 3).await;
        std::mem::forget((pool, volume));
        let mut larger = Vec::new();
        for ssd in &world.ssds {
            let content = TestDevice::from(ssd.clone()).content().await;
            larger.push(MemoryDevice::holding(content, 4096));
        }
        let right = std::mem::replace(&mut world.ssds, larger);
        for missing in [Missing::Refuse, Missing::Leave] {
            let state = Some(TestDevice::from(world.state.clone()));
            let refused = Pool::open(env.clone(), world.named(), state, missing).await.map(drop).unwrap_err();
            assert!(refused.to_string().contains("was laid out for blocks of 512 bytes"), "{refused}");
        }
        world.ssds = right;
        let pool = world.open().await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        assert_eq!(read(&volume, 100).await, 3);
        pool.close().await.unwrap();
    });
}

#[test]
fn dirty_data_is_found_checked_and_written_without_a_daemon() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        for number in [3, 4, 5, 900] {
            write(&volume, number, 8).await;
        }
        let name = volume.name();
        // The daemon dies here, and one of the SSDs with it.
        std::mem::forget((pool, volume));
        let ssds: Vec<_> = world.named().into_iter().take(1).collect();
        let offline = Offline::open(env.clone(), ssds).await.unwrap();
        let report = offline.report();
        assert_eq!(report.volumes[0].dirty_extents, [(3 * 4096, 3 * 4096), (900 * 4096, 4096)]);
        assert!(report.doubts[0].contains("1 of 2 SSDs"), "{:?}", report.doubts);
        let verified = offline.verify(|_| {}).await;
        assert_eq!((verified.good_bytes, verified.one_copy_bytes, verified.lost_bytes), (4 * 4096, 4 * 4096, 0));
        let other = TestDevice::from(MemoryDevice::new(64 * MIB, 512));
        assert!(offline.apply(&name, other, false, |_| {}).await.is_err(), "another device");
        let right = TestDevice::from(world.backing.clone());
        let applied = offline.apply(&name, right, false, |_| {}).await.unwrap();
        assert_eq!((applied.written_bytes, applied.lost_bytes), (4 * 4096, 0));
        assert_eq!((world.on_backing(5).await, world.on_backing(900).await, world.on_backing(6).await), (8, 8, 0));
    });
}

// proves: F4, F5
#[test]
fn what_no_copy_is_left_of_is_accepted_as_lost_only_by_word() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        write(&volume, 3, 1).await;
        pool.close().await.unwrap();
        let open = async |which: usize, missing| {
            let ssds = world.named().into_iter().skip(which).take(1).collect();
            Pool::open(env.clone(), ssds, Some(TestDevice::from(world.state.clone())), missing).await
        };
        // The second one alone takes a newer version, and is lost.
        let pool = open(1, Missing::Leave).await.unwrap();
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        assert_eq!(read(&volume, 3).await, 1);
        write(&volume, 3, 2).await;
        std::mem::forget((pool, volume));
        let Err(error) = open(0, Missing::Leave).await else { panic!("it must not open") };
        assert!(error.to_string().contains("ssd1"), "{error}");
        // By word it opens, without what was lost; and never shows what the first one holds, which is older.
        let pool = open(0, Missing::AcceptLoss).await.unwrap();
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        assert_eq!(read(&volume, 3).await, world.on_backing(3).await, "{}", pool.status().recovery);
        assert_eq!(volume.status().dirty_bytes, 0);
        write(&volume, 3, 5).await;
        assert_eq!((read(&volume, 3).await, world.on_backing(3).await), (5, 5));
        pool.close().await.unwrap();
    });
}

// proves: D8
#[test]
fn a_pool_that_was_accepted_without_its_newest_members_supersedes_them_when_they_come_back() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[16 * MIB, 16 * MIB, 16 * MIB], 64 * MIB);
        let pool = world.create().await;
        attached(&world, &pool).await;
        pool.close().await.unwrap();
        // One SSD after the other leaves; much is recorded without them.
        let all = world.ssds.clone();
        for staying in [&all[1..], &all[2..]] {
            world.ssds = staying.to_vec();
            let pool = world.open_without().await;
            for _ in 0..20 {
                pool.set(pool.status().settings).await.unwrap();
            }
            let volume = world.volume();
            pool.reattach(&volume).await.unwrap();
            volume.set(VolumeSettings { read_cutoff_bytes: Some(MIB), ..volume.settings() }).await.unwrap();
            pool.close().await.unwrap();
        }
        // The last one and the state directory are gone; those that left are accepted as the pool.
        world.ssds = all[..2].to_vec();
        world.state = MemoryDevice::new(STATE_BYTES, 512);
        let accept = async |world: &World| {
            let state = Some(TestDevice::from(world.state.clone()));
            Pool::open(env.clone(), world.named(), state, Missing::AcceptLoss).await.unwrap()
        };
        let pool = accept(&world).await;
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        for number in 0..20 {
            write(&volume, number, 7).await;
        }
        volume.flush().await.unwrap();
        let dirty = volume.status().dirty_bytes;
        assert!(dirty > 0 && world.on_backing(3).await == 0, "it is only on the SSDs: {dirty}");
        // The daemon dies, and finds all of them.
        std::mem::forget((pool, volume));
        world.ssds = all;
        let pool = world.open_without().await;
        let volume = world.volume();
        assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }));
        assert_eq!((volume.status().dirty_bytes, read(&volume, 3).await), (dirty, 7), "{:?}", pool.status());
    });
}

// proves: D7
#[test]
fn a_stream_that_has_gone_around_instant_write_back_does_so_to_its_end() {
    const REQUEST: u64 = MIB;
    run(async |env| {
        let world = World::new(env.clone(), &[64 * MIB, 64 * MIB], 512 * MIB);
        let pool = world.create().await;
        let volume = attached(&world, &pool).await;
        let settings = VolumeSettings {
            write_mode: WriteMode::InstantWriteBack,
            write_cutoff_bytes: Some(REQUEST),
            ..volume.settings()
        };
        volume.set(settings).await.unwrap();
        let number = Cell::new(0);
        let goes_around = async || {
            let before = volume.status().stats.bypassed_writes;
            let range = ByteRange::at(number.replace(number.get() + 1) * REQUEST, REQUEST);
            volume.write(range.start, Buf::zeroed(1 << 20), Durability::Volatile).await.unwrap();
            volume.status().stats.bypassed_writes > before
        };
        while !goes_around().await {}
        assert!(volume.status().dirty_bytes >= 4 * REQUEST, "the log took it up to the watermark");
        let began = env.now();
        assert_eq!(pool.drain(&volume.name()).await.unwrap(), Drained::Clean);
        pool.cancel_drain(&volume.name());
        let again = goes_around().await;
        assert!(
            again || env.now().since(began) >= Duration::from_secs(1),
            "there is room, and it still is the same stream"
        );
        env.sleep(Duration::from_millis(1100)).await;
        assert!(!goes_around().await, "the next one");
        pool.close().await.unwrap();
    });
}
