//! Neighbours and wear: volumes keep what they are promised and take no more than they may; a pool stops populating when
//! its SSDs have taken what they may in a day.

use hotset_block::{ByteRange, MemoryDevice};
use hotset_cache::config::{PoolKind, PoolSettings, Share, VolumeSettings, VolumeSpec};
use hotset_cache::{ErrorKind, Missing, Pool, PoolReason, Volume};

use crate::harness::{TestDevice, TestEnv, run};
use crate::world::{self, MIB, World, until, write};

const BLOCK: u64 = 64 << 10;

fn volume(env: &TestEnv, name: &str, settings: VolumeSettings) -> Volume<TestEnv> {
    let spec = VolumeSpec { name: name.parse().unwrap(), backing: name.into(), settings };
    Volume::open(env.clone(), spec, TestDevice::from(MemoryDevice::new(64 * MIB, 512))).unwrap()
}

async fn attached(env: &TestEnv, pool: &Pool<TestEnv>, name: &str, settings: VolumeSettings) -> Volume<TestEnv> {
    let volume = volume(env, name, settings);
    pool.attach(&volume).await.unwrap();
    volume
}

async fn populate(volume: &Volume<TestEnv>, blocks: std::ops::Range<u64>) {
    for block in blocks {
        volume.populate(ByteRange::at(block * BLOCK, BLOCK)).await.unwrap();
    }
}

fn used(volume: &Volume<TestEnv>) -> u64 {
    volume.status().cache_used_bytes
}

#[test]
fn a_volume_at_its_maximum_evicts_its_own_blocks_only() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let free = attached(&env, &pool, "free", VolumeSettings::default()).await;
        let bound = VolumeSettings { cache_max: Some(Share::Percent(20)), ..VolumeSettings::default() };
        let bound = attached(&env, &pool, "bound", bound).await;
        let capacity = pool.status().capacity_bytes;
        populate(&free, 0..capacity * 60 / 100 / BLOCK).await;
        let before = used(&free);
        populate(&bound, 0..400).await;
        assert!(used(&bound) <= capacity / 5 && used(&bound) > capacity / 8, "{} of {capacity}", used(&bound));
        assert_eq!(used(&free), before, "a neighbour lost nothing");
        assert!(bound.status().stats.evicted_blocks > 300 && free.status().stats.evicted_blocks == 0);
    });
}

#[test]
fn a_smaller_maximum_takes_effect_on_what_is_there() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let disk = attached(&env, &pool, "disk", VolumeSettings::default()).await;
        populate(&disk, 0..100).await;
        assert!(used(&disk) >= 6 * MIB);
        disk.set(VolumeSettings { cache_max: Some(Share::Bytes(2 * MIB)), ..disk.settings() }).await.unwrap();
        until(&env, "the volume is below its maximum", || used(&disk) <= 2 * MIB).await;
        assert!(used(&disk) > MIB);
    });
}

#[test]
fn nobody_takes_from_a_volume_what_it_was_promised() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let kept = attached(&env, &pool, "kept", VolumeSettings::default()).await;
        let scanned = attached(&env, &pool, "scanned", VolumeSettings::default()).await;
        populate(&kept, 0..80).await;
        // Set while it has blocks, which nobody asks for any more.
        kept.set(VolumeSettings { cache_min: Some(Share::Bytes(4 * MIB)), ..kept.settings() }).await.unwrap();
        populate(&scanned, 0..900).await;
        assert!(used(&kept) >= 4 * MIB, "{}", used(&kept));
        assert!(used(&kept) < 5 * MIB, "what is above its minimum goes: {}", used(&kept));
    });
}

#[test]
fn no_more_is_promised_than_there_is_and_the_refusal_says_how_much() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let promised = VolumeSettings { cache_min: Some(Share::Percent(60)), ..VolumeSettings::default() };
        attached(&env, &pool, "first", promised).await;
        let second = volume(&env, "second", promised);
        let error = pool.attach(&second).await.expect_err("more than there is");
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.to_string().contains("can promise"), "{error}");
        let second = attached(&env, &pool, "second", VolumeSettings::default()).await;
        let error = second.set(VolumeSettings { cache_min: Some(Share::Percent(50)), ..second.settings() }).await;
        assert_eq!(error.expect_err("more than there is").kind, ErrorKind::Refused);
        assert_eq!(second.settings().cache_min, None);
        second.set(VolumeSettings { cache_min: Some(Share::Percent(25)), ..second.settings() }).await.unwrap();
        let crossed = VolumeSettings {
            cache_min: Some(Share::Percent(25)),
            cache_max: Some(Share::Percent(20)),
            ..second.settings()
        };
        assert_eq!(second.set(crossed).await.expect_err("it cannot be").kind, ErrorKind::Invalid);
    });
}

#[test]
fn shares_hold_after_a_restart() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let settings = VolumeSettings {
            cache_min: Some(Share::Bytes(3 * MIB)),
            cache_max: Some(Share::Bytes(5 * MIB)),
            dirty_cap: Some(Share::Percent(30)),
            ..VolumeSettings::default()
        };
        let backing = MemoryDevice::new(64 * MIB, 512);
        let open = |settings| {
            let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "disk".into(), settings };
            Volume::open(env.clone(), spec, TestDevice::from(backing.clone())).unwrap()
        };
        let disk = open(settings);
        pool.attach(&disk).await.unwrap();
        populate(&disk, 0..70).await;
        let before = used(&disk);
        pool.close().await.unwrap();
        let pool = world.open(Missing::Refuse).await;
        let spec = pool.unattached_volumes().remove(0);
        assert_eq!(spec.settings, settings);
        let disk = open(spec.settings);
        pool.reattach(&disk).await.unwrap();
        assert_eq!(used(&disk), before, "it starts warm");
        populate(&disk, 100..300).await;
        assert!(used(&disk) <= 5 * MIB);
        let other = attached(&env, &pool, "other", VolumeSettings::default()).await;
        populate(&other, 0..900).await;
        assert!((3 * MIB..=5 * MIB).contains(&used(&disk)), "{}", used(&disk));
    });
}

#[test]
fn a_volume_has_no_more_dirty_than_its_cap_and_its_neighbour_has_room() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let capped = VolumeSettings { dirty_cap: Some(Share::Percent(25)), ..VolumeSettings::default() };
        let capped = attached(&env, &pool, "capped", capped).await;
        let other = attached(&env, &pool, "other", VolumeSettings::default()).await;
        let most = pool.status().write_log.unwrap().dirty_capacity_bytes;
        let mut highest = 0;
        for number in 0..most / 4096 {
            write(&capped, number * 3, u8::try_from(number % 200).unwrap()).await;
            highest = highest.max(capped.status().dirty_bytes);
        }
        assert!((most / 16..=most / 4).contains(&highest), "{highest} of {most}");
        for number in 0..most / 4096 {
            assert_eq!(world::read(&capped, number * 3).await, u8::try_from(number % 200).unwrap());
        }
        for number in 0..most / 4096 / 3 {
            write(&other, number, 1).await;
        }
        assert_eq!(other.status().stats.write_hits, most / 4096 / 3, "the neighbour's writes are cached");
    });
}

#[test]
fn a_volume_has_no_more_dirty_than_its_cap_where_all_that_it_writes_has_to_go_to_the_log() {
    const CAP: u64 = MIB;
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let capped = VolumeSettings { dirty_cap: Some(Share::Bytes(CAP)), ..VolumeSettings::default() };
        let disk = attached(&env, &pool, "disk", capped).await;
        let written = async |pages: std::ops::Range<u64>| {
            for number in pages {
                write(&disk, number * 3, 1).await;
                assert!(disk.status().dirty_bytes <= CAP, "{} bytes", disk.status().dirty_bytes);
            }
        };
        // What was cleaned still lies in the log, until its row is freed: a newer version cannot go past that.
        for part in 0..4 {
            written(part * 160..(part + 1) * 160).await;
            assert_eq!(disk.status().dirty_bytes, 160 * 4096);
            pool.drain(&disk.name()).await.unwrap();
            pool.cancel_drain(&disk.name());
        }
        written(0..640).await;
        pool.close().await.unwrap();
    });
}

#[test]
fn populating_stops_when_the_ssds_took_what_they_may_in_a_day_also_after_a_restart() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let disk = attached(&env, &pool, "disk", VolumeSettings::default()).await;
        let settings = PoolSettings { ssd_writes_per_day_bytes: Some(12 * MIB), ..pool.status().settings };
        pool.set(settings).await.unwrap();
        populate(&disk, 0..300).await;
        let status = pool.status();
        let worn = PoolReason::WornForToday { day_bytes: status.ssd_writes.day_bytes, limit_bytes: 12 * MIB };
        assert!(status.ssd_writes.populating_stopped && status.reason == Some(worn), "{status:?}");
        assert!((11 * MIB..=13 * MIB).contains(&status.ssd_writes.day_bytes), "{:?}", status.ssd_writes);
        let populated = disk.status().stats.populated_bytes;
        assert!(populated > 4 * MIB && populated < 12 * MIB, "{populated}");
        assert_eq!(world::read(&disk, 4000).await, 0, "hosts are served");
        pool.close().await.unwrap();
        let pool = world.open(Missing::Refuse).await;
        assert!(pool.status().ssd_writes.populating_stopped, "{:?}", pool.status().ssd_writes);
        let settings = PoolSettings { ssd_writes_per_day_bytes: None, ..pool.status().settings };
        pool.set(settings).await.unwrap();
        let status = pool.status();
        assert!(!status.ssd_writes.populating_stopped && status.reason.is_none());
    });
}

// proves: P12
#[test]
fn a_pool_that_populates_no_more_today_takes_writes_cleans_them_and_copies_what_lost_an_ssd() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB, 32 * MIB], 8 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let disk = attached(&env, &pool, "disk", VolumeSettings::default()).await;
        let settings = PoolSettings { ssd_writes_per_day_bytes: Some(MIB), ..pool.status().settings };
        pool.set(settings).await.unwrap();
        for number in 0..500 {
            write(&disk, number, 7).await;
        }
        assert!(pool.status().ssd_writes.populating_stopped, "{:?}", pool.status().ssd_writes);
        for number in 500..600 {
            write(&disk, number, 7).await;
        }
        assert_eq!(disk.status().stats.write_hits, 600, "writes are cached");
        let populated = disk.status().stats.populated_bytes;
        populate(&disk, 100..200).await;
        assert_eq!(disk.status().stats.populated_bytes, populated, "nothing is populated");
        world.ssds[0].vanish();
        write(&disk, 600, 7).await;
        let healed = || pool.status().rebuild.is_none() && !pool.status().ssds[0].online;
        until(&env, "all of it has two copies again", healed).await;
        assert_eq!(disk.status().dirty_bytes, 601 * 4096);
        pool.drain(&disk.name()).await.unwrap();
        assert_eq!((disk.status().dirty_bytes, disk.status().stats.cleaned_bytes), (0, 601 * 4096));
        for number in 0..601 {
            assert_eq!(world::read(&disk, number).await, 7);
        }
        pool.close().await.unwrap();
    });
}
