//! What is dirty now goes to the backing device while hosts go on; and stays so while writes are held.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join;
use hotset_block::{Env, Operation};
use hotset_cache::config::{IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{DirtyData, ErrorKind, Flushed, Named, Pool, PoolSpec, STATE_BYTES, Volume};

use crate::harness::{Bad, TestDevice, TestEnv, run};
use crate::world::{MIB, World, until, write};

// proves: O3
#[test]
fn what_is_dirty_when_a_flush_is_asked_for_is_durable_at_its_end_however_hosts_overwrite_it() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = world.attached(&pool).await;
        for number in 0..300 {
            write(&volume, number * 3, 1).await;
        }
        let (going, ended) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(false)));
        let (host, goes_on, ends) = (volume.clone(), Rc::clone(&going), Rc::clone(&ended));
        env.spawn(async move {
            let mut fill = 2;
            while goes_on.get() {
                for number in 0..20 {
                    write(&host, number * 3, fill).await;
                }
                fill = if fill == 250 { 2 } else { fill + 1 };
            }
            ends.set(true);
        });
        assert_eq!(volume.flush_now().await.unwrap(), Flushed::Durable);
        going.set(false);
        until(&env, "the host has stopped", || ended.get()).await;
        for number in 0..300 {
            let least = if number < 20 { 1..=250 } else { 1..=1 };
            let found = world.on_backing(number * 3).await;
            assert!(least.contains(&found), "page {number}: {found}");
        }
        assert!(volume.status().dirty_bytes <= 20 * 4096, "{}", volume.status().dirty_bytes);
        write(&volume, 2000, 7).await;
        assert!(volume.status().dirty_bytes > 0, "the volume caches writes as before");
        pool.close().await.unwrap();
    });
}

// proves: O3
#[test]
fn while_writes_are_held_the_backing_device_has_everything_and_other_drains_change_nothing_in_that() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = world.attached(&pool).await;
        write(&volume, 1, 1).await;
        volume.hold_writes();
        assert_eq!(volume.flush_now().await.unwrap(), Flushed::Durable);
        assert_eq!((world.on_backing(1).await, volume.status().dirty_bytes), (1, 0));
        for (number, fill) in [(1, 2), (2, 3)] {
            write(&volume, number, fill).await;
            assert_eq!(world.on_backing(number).await, fill, "page {number}");
        }
        pool.drain(&volume.name()).await.unwrap();
        pool.cancel_drain(&volume.name());
        write(&volume, 4, 4).await;
        assert_eq!(world.on_backing(4).await, 4, "a drain that ended did not end the hold");
        pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
        pool.attach(&volume).await.unwrap();
        write(&volume, 5, 5).await;
        assert_eq!(world.on_backing(5).await, 5, "nor did another place in a pool");
        volume.release_writes();
        write(&volume, 6, 6).await;
        assert_eq!((world.on_backing(6).await, volume.status().dirty_bytes), (0, 4096));
        assert_eq!(
            pool.close().await.unwrap().dirty_bytes,
            4096,
            "a stop leaves on the SSDs what was there, and says so"
        );
    });
}

/// A volume with one dirty page, whose backing device can be made to misbehave, and the first of its pool's SSDs, too.
async fn dirty_beside_ssd(env: &TestEnv) -> (Pool<TestEnv>, TestDevice, Volume<TestEnv>, TestDevice) {
    let kind = PoolKind::ReadWrite;
    let spec = PoolSpec { name: "tank".parse().unwrap(), kind, settings: PoolSettings::preset(kind, IoType::Database) };
    let ssds = ["ssd0", "ssd1"].map(|path| Named { path: path.to_owned(), device: TestDevice::new(32 * MIB) });
    let ssd = ssds[0].device.clone();
    let pool = Pool::create(env.clone(), spec, ssds.into(), TestDevice::new(STATE_BYTES)).await.unwrap();
    let backing = TestDevice::with_cache(16 * MIB);
    let spec =
        VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings: VolumeSettings::default() };
    let volume = Volume::open(env.clone(), spec, backing.clone()).unwrap();
    pool.attach(&volume).await.unwrap();
    write(&volume, 1, 1).await;
    (pool, backing, volume, ssd)
}

async fn dirty(env: &TestEnv) -> (Pool<TestEnv>, TestDevice, Volume<TestEnv>) {
    let (pool, backing, volume, _) = dirty_beside_ssd(env).await;
    (pool, backing, volume)
}

// proves: O3
#[test]
fn what_was_on_its_way_into_the_log_when_a_hold_began_is_on_the_backing_device_when_it_is_answered() {
    run(async |env| {
        let (pool, backing, volume, ssd) = dirty_beside_ssd(&env).await;
        ssd.hold_next(Operation::Write);
        let (host, answered) = (volume.clone(), Rc::new(Cell::new(false)));
        let is_answered = Rc::clone(&answered);
        env.spawn(async move {
            write(&host, 2, 2).await;
            is_answered.set(true);
        });
        ssd.until_held().await;
        volume.hold_writes();
        assert_eq!(volume.flush_now().await.unwrap(), Flushed::Durable);
        assert!(!answered.get(), "its append is held");
        ssd.release();
        until(&env, "the write is answered", || answered.get()).await;
        let content = backing.content().await;
        assert_eq!((content[4096], content[2 * 4096]), (1, 2));
        volume.release_writes();
        pool.close().await.unwrap();
    });
}

// proves: O3
#[test]
fn a_flush_that_is_cancelled_ends_although_the_device_hangs_and_is_one_at_a_time() {
    run(async |env| {
        let (_pool, backing, volume) = dirty(&env).await;
        backing.hold_next(Operation::Write);
        let cancel = async {
            backing.until_held().await;
            let again = volume.flush_now().await.unwrap_err();
            assert_eq!(again.kind, ErrorKind::Refused, "{again}");
            volume.cancel_flush_now();
        };
        let (flushed, ()) = join(volume.flush_now(), cancel).await;
        assert_eq!(flushed.unwrap(), Flushed::Cancelled);
        assert_eq!(volume.status().dirty_bytes, 4096);
        backing.release();
        env.sleep(Duration::from_millis(10)).await;
    });
}

// proves: O3
#[test]
fn a_flush_fails_where_the_device_takes_nothing_or_does_not_flush() {
    run(async |env| {
        let (_pool, backing, volume) = dirty(&env).await;
        backing.become_bad(Bad::FailsAt(4096));
        let error = volume.flush_now().await.unwrap_err();
        assert_eq!((error.kind, volume.status().dirty_bytes), (ErrorKind::Media, 4096), "{error}");
        let (_pool, backing, volume) = dirty(&env).await;
        backing.release();
        backing.hold_next(Operation::Flush);
        let error = volume.flush_now().await.unwrap_err();
        assert_eq!((error.kind, volume.status().dirty_bytes), (ErrorKind::Media, 4096), "{error}");
    });
}
