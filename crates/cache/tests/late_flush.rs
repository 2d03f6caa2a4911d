//! A backing device whose flush or write ends badly: after everybody stopped waiting for it, or when the pool stops.

use std::time::Duration;

use hotset_block::sync::Promise;
use hotset_block::{Buf, ByteRange, Device, Env, Operation};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec, WriteMode};
use hotset_cache::{
    Cleared, Durability, ErrorKind, Health, MemoryCache, Missing, Named, Pool, PoolSpec, STATE_BYTES, Volume,
};

use crate::harness::{TestDevice, TestEnv, run};

async fn pool(env: &TestEnv, kind: PoolKind) -> Pool<TestEnv> {
    pool_on(
        env,
        kind,
        &[TestDevice::with_cache(16 << 20), TestDevice::with_cache(16 << 20)],
        &TestDevice::with_cache(STATE_BYTES),
    )
    .await
}

fn named(ssds: &[TestDevice]) -> Vec<Named<TestDevice>> {
    let named = |(number, device): (usize, &TestDevice)| Named { path: format!("ssd{number}"), device: device.clone() };
    ssds.iter().enumerate().map(named).collect()
}

async fn pool_on(env: &TestEnv, kind: PoolKind, ssds: &[TestDevice], state: &TestDevice) -> Pool<TestEnv> {
    let mut settings = PoolSettings::preset(kind, IoType::Custom);
    settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
    let spec = PoolSpec { name: "tank".parse().unwrap(), kind, settings };
    Pool::create(env.clone(), spec, named(ssds), state.clone()).await.unwrap()
}

/// A pool with a volume, and that one's backing device.
async fn attached(env: &TestEnv, kind: PoolKind) -> (Pool<TestEnv>, TestDevice, Volume<TestEnv>) {
    let (pool, backing) = (pool(env, kind).await, TestDevice::with_cache(16 << 20));
    let volume = volume(env, "disk", &backing);
    pool.attach(&volume).await.unwrap();
    (pool, backing, volume)
}

fn filled(bytes: usize, fill: u8) -> Buf {
    let mut buf = Buf::zeroed(bytes);
    buf.fill(fill);
    buf
}

fn volume(env: &TestEnv, name: &str, backing: &TestDevice) -> Volume<TestEnv> {
    let spec = VolumeSpec { name: name.parse().unwrap(), backing: name.into(), settings: VolumeSettings::default() };
    Volume::open(env.clone(), spec, backing.clone()).unwrap()
}

// proves: F6
#[test]
fn a_clean_stop_names_the_volume_whose_backing_device_failed_its_flush_and_no_other() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let pool = pool(&env, PoolKind::Read).await;
        let (sound, broken) = (TestDevice::with_cache(16 << 20), TestDevice::with_cache(16 << 20));
        let volumes = [volume(&env, "sound", &sound), volume(&env, "broken", &broken)];
        for volume in &volumes {
            pool.attach(volume).await.unwrap();
            volume.write(1 << 20, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        }
        broken.release();
        broken.hold_next(Operation::Flush);
        let not_durable = pool.close().await.unwrap().not_durable;
        let [(name, error)] = &not_durable[..] else { panic!("{not_durable:?}") };
        assert_eq!((name.as_str(), error.kind), ("broken", ErrorKind::Media), "{error}");
    });
}

// proves: F6
#[test]
fn a_clean_stop_names_the_volume_whose_dirty_data_is_still_on_its_way() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let pool = pool(&env, PoolKind::ReadWrite).await;
        let (sound, hung) = (TestDevice::with_cache(16 << 20), TestDevice::with_cache(16 << 20));
        hung.hold_next(Operation::Write);
        let volumes = [volume(&env, "sound", &sound), volume(&env, "hung", &hung)];
        for volume in &volumes {
            pool.attach(volume).await.unwrap();
            volume.write(1 << 20, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        }
        hung.until_held().await;
        assert_eq!(volumes[1].status().dirty_bytes, 4096, "it is being cleaned");
        let not_durable = pool.close().await.unwrap().not_durable;
        let [(name, error)] = &not_durable[..] else { panic!("{not_durable:?}") };
        assert_eq!((name.as_str(), error.kind), ("hung", ErrorKind::Media), "{error}");
        hung.release();
    });
}

// proves: D11, F6
#[test]
fn a_flush_that_fails_after_the_publisher_gave_it_up_is_not_forgotten() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let (_pool, backing, volume) = attached(&env, PoolKind::Read).await;
        volume.write(1 << 20, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        backing.hold_next(Operation::Flush);
        volume.populate(ByteRange::at(0, 4096)).await.unwrap();
        backing.until_held().await;
        // Several times as long as the publisher waits for a flush.
        env.sleep(Duration::from_secs(40)).await;
        backing.release();
        let error = volume.flush().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Media, "{error}");
        assert_eq!(volume.status().health, Health::Failed);
        assert!(volume.write(0, Buf::zeroed(4096), Durability::Volatile).await.is_err(), "it is latched");
    });
}

// proves: D11, F6
#[test]
fn a_flush_that_fails_after_an_administrator_gave_it_up_is_not_forgotten() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let pool = pool(&env, PoolKind::Read).await;
        let backing = TestDevice::with_cache(16 << 20);
        let volume = volume(&env, "disk", &backing);
        volume.write(1 << 20, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        backing.hold_next(Operation::Flush);
        let error = pool.attach(&volume).await.unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
        backing.release();
        let error = volume.flush().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Media, "{error}");
        assert_eq!(volume.status().health, Health::Failed);
    });
}

// proves: F6
#[test]
fn a_backing_device_of_which_a_flush_failed_is_opened_again_and_each_host_is_told_once() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let (_pool, backing, volume) = attached(&env, PoolKind::Read).await;
        assert_eq!(volume.clear(async || unreachable!()).await.unwrap(), Cleared::NotNeeded);
        let other = volume.clone();
        volume.write(1 << 20, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        backing.release();
        backing.hold_next(Operation::Flush);
        volume.flush().await.unwrap_err();
        let status = volume.status();
        assert!(status.health == Health::Failed && status.has_own_health(), "{:?}", status.reason);
        assert_eq!(volume.clear(async || Ok(backing.clone())).await.unwrap(), Cleared::Opened { doubtful: true });
        assert_eq!(volume.status().health, Health::Good);
        volume.flush().await.unwrap();
        let untold = other.flush().await.unwrap_err();
        assert!(untold.to_string().contains("may not be there"), "{untold}");
        other.flush().await.unwrap();
        volume.clone().flush().await.unwrap();
        volume.write(0, Buf::zeroed(4096), Durability::Durable).await.unwrap();
    });
}

// proves: F6
#[test]
fn a_volume_that_changes_its_thread_takes_its_counts_and_what_hosts_are_still_to_be_told_with_it() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let backing = TestDevice::with_cache(16 << 20);
        let volume = volume(&env, "disk", &backing);
        let untold = volume.clone();
        volume.write(1 << 20, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        backing.release();
        backing.hold_next(Operation::Flush);
        volume.flush().await.unwrap_err();
        let refused = volume.relocate().await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Refused, "a device that failed stays where it is: {refused}");
        volume.clear(async || Ok(backing.clone())).await.unwrap();
        volume.write(0, Buf::zeroed(4096), Durability::Volatile).await.unwrap();
        backing.release();
        backing.hold_next(Operation::Flush);
        volume.relocate().await.unwrap_err();
        volume.clear(async || Ok(backing.clone())).await.unwrap();
        assert!(untold.owes_warning(), "it was told of nothing");
        volume.flush().await.unwrap_err();
        assert!(!volume.owes_warning());
        let relocated = volume.relocate().await.unwrap();
        let moved = Volume::arrive(env.clone(), relocated, backing.clone(), &MemoryCache::new(0)).unwrap();
        assert_eq!(moved.status().stats.writes, 2);
        let of_untold = moved.clone();
        of_untold.owe_warning();
        moved.flush().await.unwrap();
        of_untold.flush().await.unwrap_err();
        of_untold.flush().await.unwrap();
        assert!(!moved.owes_warning() && !moved.clone().owes_warning());
    });
}

// proves: F6, D11
#[test]
fn what_was_cleaned_since_the_last_good_flush_is_written_again_after_a_failed_one() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let (_pool, backing, volume) = attached(&env, PoolKind::ReadWrite).await;
        let mut page = Buf::zeroed(4096);
        page.fill(7);
        backing.release();
        backing.hold_next(Operation::Flush);
        volume.write(1 << 20, page, Durability::Durable).await.unwrap();
        while volume.status().health != Health::Failed {
            env.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(volume.status().dirty_bytes, 4096, "no flush vouches for it");
        // What the device had in its cache is gone.
        backing.write(1 << 20, Buf::zeroed(4096)).await.1.unwrap();
        assert_eq!(volume.clear(async || Ok(backing.clone())).await.unwrap(), Cleared::Opened { doubtful: false });
        while volume.status().dirty_bytes > 0 {
            env.sleep(Duration::from_secs(1)).await;
        }
        let (held, read) = backing.read(1 << 20, Buf::zeroed(4096)).await;
        read.unwrap();
        assert!(held.iter().all(|byte| *byte == 7), "it is written again");
        volume.flush().await.unwrap();
    });
}

// proves: F6, F8
#[test]
fn a_backing_device_that_is_not_as_it_was_stays_closed_until_the_right_one_is_back() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let (_pool, backing, volume) = attached(&env, PoolKind::Read).await;
        backing.release();
        backing.hold_next(Operation::Flush);
        volume.write(1 << 20, Buf::zeroed(4096), Durability::Durable).await.unwrap_err();
        let other = TestDevice::with_cache(16 << 20);
        let mut page = Buf::zeroed(4096);
        page.fill(1);
        other.write(0, page).await.1.unwrap();
        let refused = volume.clear(async || Ok(other)).await.unwrap_err();
        assert!(refused.to_string().contains("not as it was"), "{refused}");
        assert!(volume.is_closed());
        volume.read(ByteRange::at(0, 4096)).await.unwrap_err();
        assert_eq!(volume.clear(async || Ok(backing.clone())).await.unwrap(), Cleared::Opened { doubtful: true });
        assert!(!volume.is_closed());
        volume.read(ByteRange::at(0, 4096)).await.unwrap();
    });
}

// proves: D11, F1
#[test]
fn a_flush_of_an_ssd_that_fails_after_a_stop_ended_publishing_is_not_forgotten() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let (ssds, state) =
            ([TestDevice::with_cache(16 << 20), TestDevice::with_cache(16 << 20)], TestDevice::with_cache(STATE_BYTES));
        let pool = pool_on(&env, PoolKind::Read, &ssds, &state).await;
        let volume = volume(&env, "disk", &TestDevice::with_cache(16 << 20));
        pool.attach(&volume).await.unwrap();
        volume.populate(ByteRange::at(0, 4096)).await.unwrap();
        let used = pool.status().ssds.iter().position(|ssd| ssd.slots_used > 0).unwrap();
        ssds[used].hold_next(Operation::Flush);
        let (promise, closed) = Promise::new();
        let closing = pool.clone();
        env.spawn(async move { promise.set(closing.close().await.is_ok()) });
        ssds[used].until_held().await;
        // Several times as long as a stop waits for it.
        env.sleep(Duration::from_secs(40)).await;
        ssds[used].release();
        closed.await;
        let again = Pool::open(env.clone(), named(&ssds), Some(state), Missing::Refuse).await.unwrap();
        let recovery = again.status().recovery;
        assert!(recovery.contains(&format!("ssd{used} starts empty")), "it may lack what was published: {recovery}");
    });
}

// proves: D3, F6
#[test]
fn what_waited_until_its_pool_had_stopped_is_refused_and_writes_nothing_beneath_dirty_data() {
    run(async |env| {
        let env = env.with_short_sleeps();
        let (pool, backing, volume) = attached(&env, PoolKind::ReadWrite).await;
        // Two pages are dirty; a write past the cache that begins on the page before them hangs.
        volume.write(4096, filled(8192, 1), Durability::Volatile).await.unwrap();
        volume.set(VolumeSettings { write_mode: WriteMode::WriteAround, ..volume.settings() }).await.unwrap();
        backing.hold_next(Operation::Write);
        let (hangs, waits) = (volume.clone(), volume.clone());
        let (promise, hung) = Promise::new();
        env.spawn(async move { promise.set(hangs.write(0, filled(4096, 2), Durability::Volatile).await) });
        backing.until_held().await;
        let (promise, waited) = Promise::new();
        env.spawn(async move { promise.set(waits.write(0, filled(3 * 4096, 3), Durability::Volatile).await) });
        // It comes to where it waits for the first one.
        env.sleep(Duration::from_secs(5)).await;
        assert_eq!(pool.close().await.unwrap().not_durable.len(), 1, "the write that hangs");
        backing.release();
        assert!(hung.await.unwrap().is_err());
        assert_eq!(waited.await.unwrap().unwrap_err().kind, ErrorKind::Stopping);
        let bytes = backing.content().await;
        assert!(bytes[4096..3 * 4096].iter().all(|byte| *byte != 3), "the pool still says that it has what is newest");
    });
}
