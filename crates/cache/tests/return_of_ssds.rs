//! Dirty data of which no copy can be had is unavailable, and not lost (REQUIREMENTS F5, F9): when an SSD that has a copy is
//! back, exactly what nobody wrote or accepted as lost meanwhile is there again.

use std::pin::pin;

use futures_util::future::{Either, select};
use hotset_block::{ByteRange, Env, Operation};
use hotset_cache::config::{PoolKind, limits};
use hotset_cache::{Durability, ErrorKind, Missing, Named, Pool, Remedy, Volume};

use crate::harness::{Bad, PACE, TestDevice, TestEnv, run};
use crate::world::{LOSSES_OFFSETS, MIB, World, read, until, write};

/// Nothing is cleaned by itself while a test runs.
async fn lazy(world: &World) -> (Pool<TestEnv>, Volume<TestEnv>) {
    let pool = world.create(PoolKind::ReadWrite).await;
    let mut settings = pool.status().settings;
    settings.cleaning.dirty_watermark_percent = 90;
    pool.set(settings).await.unwrap();
    let volume = world.attached(&pool).await;
    (pool, volume)
}

/// The same with 50 dirty pages.
async fn lazy_and_dirty(world: &World) -> (Pool<TestEnv>, Volume<TestEnv>) {
    let (pool, volume) = lazy(world).await;
    for page in 0..50 {
        write(&volume, page, 3).await;
    }
    (pool, volume)
}

/// They read as they were written.
async fn check_values(volume: &Volume<TestEnv>) {
    for page in 0..50 {
        assert_eq!(read(volume, page).await, 3, "page {page}");
    }
}

/// Pulls these SSDs; answers what they hold.
async fn pull(world: &World, pool: &Pool<TestEnv>, volume: &Volume<TestEnv>, ssds: &[usize]) -> Vec<(usize, Vec<u8>)> {
    let held = ssds.iter().map(|ssd| (*ssd, world.ssds[*ssd].unplug())).collect();
    // Whatever a host that flushes just now is told.
    let _ = volume.flush().await;
    let left = || pool.status().ssds.iter().filter(|ssd| !ssd.online).count() >= ssds.len();
    until(&world.env, "they have left", left).await;
    until(&world.env, "it is known what is unavailable", || volume.status().lost_bytes > 0).await;
    world.env.sleep(std::time::Duration::from_millis(50)).await;
    held
}

fn plug(world: &World, held: Vec<(usize, Vec<u8>)>) {
    held.into_iter().for_each(|(ssd, bytes)| world.ssds[ssd].plug(bytes));
}

async fn bring_back(world: &World, pool: &Pool<TestEnv>, ssd: usize) {
    let device = TestDevice::from(world.ssds[ssd].clone());
    pool.bring_back(Named { path: format!("ssd{ssd}"), device }).await.unwrap();
}

async fn is_unavailable(volume: &Volume<TestEnv>, page: u64) -> bool {
    volume.read(ByteRange::at(page * 4096, 4096)).await.is_err()
}

/// Hosts write, trim and leave what is unavailable.
async fn write_some(world: &World, volume: &Volume<TestEnv>) {
    write(volume, 7, 9).await;
    assert_eq!(world.on_backing(7).await, 9, "such a write is on the backing device when it is answered");
    volume.trim(ByteRange::at(20 * 4096, 3 * 4096), Durability::Volatile).await.unwrap();
}

async fn check_all(volume: &Volume<TestEnv>, pages: u64, fill: u8) {
    for page in 0..pages {
        let right = match page {
            7 => 9,
            20..23 => 0,
            _ => fill,
        };
        assert_eq!(read(volume, page).await, right, "page {page}");
    }
}

// proves: F5, F9
#[test]
fn what_is_unavailable_is_there_again_at_a_start_with_its_ssds() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let (pool, volume) = lazy_and_dirty(&world).await;
        let held = pull(&world, &pool, &volume, &[0, 1]).await;
        assert_eq!(volume.status().lost_bytes, 50 * 4096);
        write_some(&world, &volume).await;
        std::mem::forget((pool, volume));
        // Without them, once more.
        let (pool, volume) = world.with(&[]).reopened(Missing::Leave).await;
        assert_eq!(volume.status().lost_bytes, 46 * 4096, "{}", pool.status().recovery);
        assert!(is_unavailable(&volume, 8).await);
        write(&volume, 8, 3).await;
        std::mem::forget((pool, volume));
        plug(&world, held);
        let (pool, volume) = world.reopened(Missing::Leave).await;
        assert_eq!(volume.status().lost_bytes, 0, "{}", pool.status().recovery);
        assert_eq!(volume.status().dirty_bytes, 45 * 4096, "dirty as before");
        check_all(&volume, 50, 3).await;
        pool.drain(&volume.name()).await.unwrap();
        for page in [0, 49] {
            assert_eq!(world.on_backing(page).await, 3);
        }
        let online = pool.status().ssds.iter().filter(|ssd| ssd.online).count();
        assert_eq!((online, pool.status().ssds.len()), (2, 2));
        pool.close().await.unwrap();
        let (_pool, volume) = world.reopened(Missing::Refuse).await;
        check_all(&volume, 50, 3).await;
    });
}

// proves: F5, F9
#[test]
fn what_is_unavailable_is_there_again_in_the_running_daemon_when_one_of_its_ssds_is_back() {
    for first in [0, 1] {
        run(async |env| {
            let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
            let (pool, volume) = lazy(&world).await;
            for page in 0..50 {
                write(&volume, page, 3).await;
            }
            volume.flush().await.unwrap();
            let held = pull(&world, &pool, &volume, &[0, 1]).await;
            write_some(&world, &volume).await;
            assert_eq!(pool.ssds_returning().len(), 2);
            plug(&world, held);
            bring_back(&world, &pool, first).await;
            assert_eq!(volume.status().lost_bytes, 0);
            check_all(&volume, 50, 3).await;
            bring_back(&world, &pool, 1 - first).await;
            pool.drain(&volume.name()).await.unwrap();
            check_all(&volume, 50, 3).await;
            assert_eq!(world.on_backing(30).await, 3);
            assert!(pool.ssds_returning().is_empty());
            pool.cancel_drain(&volume.name());
            write(&volume, 30, 4).await;
            pool.close().await.unwrap();
            let (_pool, volume) = world.reopened(Missing::Refuse).await;
            assert_eq!(read(&volume, 30).await, 4);
        });
    }
}

// proves: F5, F11
#[test]
fn an_ssd_comes_back_while_a_write_hangs_on_the_backing_device_and_what_that_writes_is_newer() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let backing = TestDevice::from(world.backing());
        let volume = world.volume_on(backing.clone());
        pool.attach(&volume).await.unwrap();
        for page in 0..20 {
            write(&volume, page, 3).await;
        }
        let held = pull(&world, &pool, &volume, &[0, 1]).await;
        backing.become_bad(Bad::HangsToWrite);
        let hangs = write(&volume, 7, 9);
        let meanwhile = async {
            env.sleep(std::time::Duration::from_millis(50)).await;
            plug(&world, held);
            bring_back(&world, &pool, 0).await;
            bring_back(&world, &pool, 1).await;
            assert_eq!((read(&volume, 6).await, read(&volume, 8).await), (3, 3));
            backing.recover();
        };
        futures_util::future::join(hangs, meanwhile).await;
        for page in 0..20 {
            assert_eq!(read(&volume, page).await, if page == 7 { 9 } else { 3 }, "page {page}");
        }
        until(&env, "all is there", || volume.status().lost_bytes == 0).await;
        pool.drain(&volume.name()).await.unwrap();
        assert_eq!((world.on_backing(7).await, world.on_backing(8).await), (9, 3));
    });
}

// proves: F5
#[test]
fn what_is_set_aside_holds_up_no_append_and_no_freeing_and_older_rows_do_not_show_through() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB; 4], 64 * MIB);
        let (pool, volume) = lazy(&world).await;
        let pages = 400;
        for fill in 1..=4 {
            for page in 0..pages {
                write(&volume, page, fill).await;
            }
        }
        let held = pull(&world, &pool, &volume, &[0, 1]).await;
        let mut lost = Vec::new();
        for page in 0..pages {
            match is_unavailable(&volume, page).await {
                true => lost.push(page),
                false => assert_eq!(read(&volume, page).await, 4, "page {page}"),
            }
        }
        assert!(!lost.is_empty() && lost.len() < 400, "{} of {pages} are unavailable", lost.len());
        // Some are written again, a stretch with others between them at once.
        let again = lost[0];
        write(&volume, again, 8).await;
        let mut buf = hotset_block::Buf::zeroed(40 * 4096);
        buf.fill(6);
        let stretch = lost[1] / 40 * 40..lost[1] / 40 * 40 + 40;
        volume.write(stretch.start * 4096, buf, Durability::Volatile).await.unwrap();
        let right = |page: u64| {
            if stretch.contains(&page) {
                6
            } else if page == again {
                8
            } else {
                4
            }
        };
        // Many times what the log holds.
        for round in 0..40 {
            for page in 1000..1400 {
                write(&volume, page, round).await;
            }
        }
        let left: Vec<u64> = lost.iter().copied().filter(|page| right(*page) == 4).collect();
        assert_eq!(volume.status().lost_bytes, u64::try_from(left.len()).unwrap() * 4096);
        std::mem::forget((pool, volume));
        // Without those SSDs, and then with them.
        let (pool, volume) = world.with(&world.ssds[2..]).reopened(Missing::Leave).await;
        for page in 0..pages {
            match left.contains(&page) {
                true => assert!(is_unavailable(&volume, page).await, "page {page}"),
                false => assert_eq!(read(&volume, page).await, right(page), "page {page}"),
            }
        }
        std::mem::forget((pool, volume));
        plug(&world, held);
        let (pool, volume) = world.reopened(Missing::Leave).await;
        assert_eq!(volume.status().lost_bytes, 0, "{}", pool.status().recovery);
        for page in 0..pages {
            assert_eq!(read(&volume, page).await, right(page), "page {page}");
        }
        pool.drain(&volume.name()).await.unwrap();
        for page in 0..pages {
            assert_eq!(world.on_backing(page).await, right(page), "page {page}");
        }
    });
}

// proves: F5
#[test]
fn what_was_accepted_as_lost_does_not_come_back() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let (pool, volume) = lazy_and_dirty(&world).await;
        let held = pull(&world, &pool, &volume, &[0, 1]).await;
        assert_eq!(pool.accept_loss().await.unwrap(), 50 * 4096);
        assert_eq!((read(&volume, 5).await, volume.status().lost_bytes), (0, 0));
        write(&volume, 6, 7).await;
        volume.flush().await.unwrap();
        plug(&world, held);
        let device = TestDevice::from(world.ssds[0].clone());
        assert!(pool.bring_back(Named { path: "ssd0".into(), device }).await.is_err(), "it has nothing that is wanted");
        std::mem::forget((pool, volume));
        let (_pool, volume) = world.reopened(Missing::Leave).await;
        assert_eq!((read(&volume, 5).await, read(&volume, 6).await), (0, 7));
    });
}

// proves: F5
#[test]
fn an_ssd_that_was_used_for_something_else_or_lost_what_it_had_brings_nothing_back() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let (pool, volume) = lazy_and_dirty(&world).await;
        let held = pull(&world, &pool, &volume, &[0, 1]).await;
        plug(&world, held);
        world.rot(0).await;
        bring_back(&world, &pool, 0).await;
        assert!(is_unavailable(&volume, 5).await);
        assert_eq!(volume.status().lost_bytes, 50 * 4096);
        bring_back(&world, &pool, 1).await;
        check_page(&volume).await;
    });
}

async fn check_page(volume: &Volume<TestEnv>) {
    assert_eq!((read(volume, 5).await, volume.status().lost_bytes), (3, 0));
}

/// Of SSDs as small as these.
const SEGMENT_BYTES: u64 = 51 * 4096;

/// Where segments of the log begin in the content of an SSD.
fn log_segments(content: &[u8]) -> Vec<u64> {
    let pages = (0..).step_by(4096).zip(content.chunks(4096));
    pages.filter(|(_, page)| page.starts_with(b"HOTSETls")).map(|(offset, _)| offset).collect()
}

// proves: F5
#[test]
fn what_cannot_be_looked_at_when_its_ssd_is_back_is_used_for_nothing_else() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB; 3], 64 * MIB);
        let (pool, volume) = lazy_and_dirty(&world).await;
        volume.flush().await.unwrap();
        let mut held = pull(&world, &pool, &volume, &[0, 1]).await;
        let (_, content) = held.remove(0);
        let segments = log_segments(&content);
        world.ssds[0].plug(content);
        let device = TestDevice::from(world.ssds[0].clone());
        segments.into_iter().for_each(|segment| device.become_bad(Bad::FailsToReadAt(segment)));
        pool.bring_back(Named { path: "ssd0".into(), device }).await.unwrap();
        assert_eq!(volume.status().lost_bytes, 0, "each page is compared with what is listed");
        // Much is cached, wherever there is room.
        for first in [4, 36] {
            volume.populate(ByteRange::at(first * MIB, 28 * MIB)).await.unwrap();
        }
        std::mem::forget((pool, volume));
        let (pool, volume) = world.with(&[world.ssds[0].clone(), world.ssds[2].clone()]).reopened(Missing::Leave).await;
        assert_eq!(volume.status().lost_bytes, 0, "{}", pool.status().recovery);
        check_values(&volume).await;
    });
}

/// A pool with so many SSDs and 50 dirty pages, of which the first two are pulled. The first is plugged in again, and answers reads of
/// what it has in its log, and of the headers there, with errors.
async fn with_failing_ssd(env: TestEnv, ssds: usize) -> (World, TestDevice, Pool<TestEnv>, Volume<TestEnv>) {
    let world = World::new(env, &vec![16 * MIB; ssds], 64 * MIB);
    let (pool, volume) = lazy_and_dirty(&world).await;
    volume.flush().await.unwrap();
    let mut held = pull(&world, &pool, &volume, &[0, 1]).await;
    let (_, content) = held.remove(0);
    let device = TestDevice::from(world.ssds[0].clone());
    for segment in log_segments(&content) {
        let pages = (segment..segment + SEGMENT_BYTES).step_by(4096);
        pages.for_each(|page| device.become_bad(Bad::FailsToReadAt(page)));
    }
    world.ssds[0].plug(content);
    (world, device, pool, volume)
}

async fn check_well(volume: &Volume<TestEnv>) {
    check_values(volume).await;
    assert_eq!(volume.status().lost_bytes, 0);
}

// proves: F5
#[test]
fn what_an_ssd_that_is_back_answers_with_errors_for_a_moment_is_there_afterwards_and_is_not_accepted_as_lost() {
    run(async |env| {
        let (_world, device, pool, volume) = with_failing_ssd(env, 2).await;
        pool.bring_back(Named { path: "ssd0".into(), device: device.clone() }).await.unwrap();
        assert!(is_unavailable(&volume, 5).await);
        assert_eq!((volume.status().lost_bytes, pool.accept_loss().await.unwrap()), (0, 0), "it may be read later");
        device.recover();
        check_well(&volume).await;
    });
}

// proves: F5
#[test]
fn what_an_ssd_answers_with_errors_at_a_start_that_accepts_losses_is_there_afterwards() {
    run(async |env| {
        let (world, device, pool, volume) = with_failing_ssd(env, 2).await;
        std::mem::forget((pool, volume));
        let ssds = vec![Named { path: "ssd0".into(), device: device.clone() }];
        let state = Some(TestDevice::from(world.state()));
        let pool = Pool::open(world.env.clone(), ssds, state, Missing::AcceptLoss).await.unwrap();
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        device.recover();
        check_well(&volume).await;
    });
}

// proves: F5, D8
#[test]
fn an_ssd_that_does_not_bring_what_it_alone_has_is_not_removed_and_what_it_brings_later_is_there_again() {
    run(async |env| {
        let (_world, device, pool, volume) = with_failing_ssd(env.clone().at_pace(PACE), 4).await;
        let uuid = pool.status().ssds[0].uuid;
        let unavailable = volume.status().lost_bytes;
        pool.bring_back(Named { path: "ssd0".into(), device: device.clone() }).await.unwrap();
        assert_eq!(volume.status().lost_bytes, 0);
        // It may bring it yet; then it has failed for too long.
        for _ in 0..2 {
            let refused = pool.remove_ssds(&[uuid]).await.unwrap_err();
            assert!(refused.to_string().contains("cannot be read now"), "{refused}");
            assert_eq!(refused.remedy(), Some(&Remedy::AcceptLoss("tank".parse().unwrap())));
            assert_eq!(volume.status().lost_bytes, unavailable);
        }
        device.recover();
        until(&env, "it is looked at again", || volume.status().lost_bytes == 0).await;
        pool.remove_ssds(&[uuid]).await.unwrap();
        check_well(&volume).await;
    });
}

// proves: F5
#[test]
fn an_ssd_with_a_part_of_what_is_written_just_now_is_taken_back_when_it_is_known_what_that_is_worth() {
    run(async |env| {
        let world = World::new(env.clone().at_pace(10), &[16 * MIB, 16 * MIB], 64 * MIB);
        let named = world.named();
        let [first, second] = [0, 1].map(|ssd| named[ssd].device.clone());
        let pool = world.create_on(PoolKind::ReadWrite, named).await;
        // Nothing is cleaned, however much a single SSD is in need of that.
        let backing = TestDevice::from(world.backing());
        backing.become_bad(Bad::HangsToWrite);
        let volume = world.volume_on(backing);
        pool.attach(&volume).await.unwrap();
        for page in 0..3 {
            write(&volume, page, 3).await;
        }
        volume.flush().await.unwrap();
        // The first falls silent with a record, and the second one with what it gets next of the row: its summary, at the latest.
        let free = rest_of_row(&second).await;
        free.for_each(|page| second.become_bad(Bad::HangsAt(page)));
        first.become_bad(Bad::HangsToWrite);
        pool.set(pool.status().settings).await.unwrap();
        until(&env, "it has left", || pool.ssds_returning().len() == 1).await;
        let again = || Named { path: "ssd0".into(), device: TestDevice::from(world.ssds[0].clone()) };
        let refused = pool.bring_back(again()).await.unwrap_err();
        assert!(refused.to_string().contains("written just now"), "{refused}");

        world.ssds[1].vanish();
        let _ = volume.flush().await;
        until(&env, "it is known what is unavailable", || volume.status().lost_bytes > 0).await;
        until(&env, "both are wanted", || pool.ssds_returning().len() == 2).await;
        pool.bring_back(again()).await.unwrap();
        assert_eq!(volume.status().lost_bytes, 0);
        for page in 0..3 {
            assert_eq!(read(&volume, page).await, 3, "page {page}");
        }
    });
}

/// The pages of an SSD that the only row that has batches can still use.
async fn rest_of_row(ssd: &TestDevice) -> impl Iterator<Item = u64> {
    let content = ssd.content().await;
    let is_free = |offset: &u64| content[usize::try_from(*offset).unwrap()..][..4096].iter().all(|byte| *byte == 0);
    let rows = log_segments(&content).into_iter().map(|start| (start, (start..).step_by(4096).find(is_free).unwrap()));
    let (start, end) = rows.max_by_key(|(start, end)| end - start).unwrap();
    (end..start + SEGMENT_BYTES).step_by(4096)
}

/// A read-write pool on SSDs that can fall silent, in a world where time is short.
async fn quick(env: &TestEnv, ssds: usize) -> (World, Vec<TestDevice>, Pool<TestEnv>, Volume<TestEnv>) {
    let world = World::new(env.clone().at_pace(PACE), &vec![16 * MIB; ssds], 64 * MIB);
    let named = world.named();
    let devices = named.iter().map(|named| named.device.clone()).collect();
    let pool = world.create_on(PoolKind::ReadWrite, named).await;
    let mut settings = pool.status().settings;
    settings.cleaning.dirty_watermark_percent = 90;
    pool.set(settings).await.unwrap();
    let volume = world.attached(&pool).await;
    (world, devices, pool, volume)
}

/// An SSD does not answer; returns when it has left, and may come back.
async fn fall_silent(world: &World, ssd: &TestDevice, pool: &Pool<TestEnv>, volume: &Volume<TestEnv>) {
    let before = pool.ssds_returning().len();
    ssd.become_bad(Bad::HangsToWrite);
    // Some of them go elsewhere.
    for page in 0..64 {
        write(volume, page, 1).await;
    }
    volume.flush().await.unwrap();
    until(&world.env, "it may come back", || pool.ssds_returning().len() > before).await;
}

// proves: F5, D8
#[test]
fn an_ssd_that_comes_back_while_its_removal_is_under_way_stays_and_the_removal_is_refused() {
    run(async |env| {
        let (world, devices, pool, volume) = quick(&env, 4).await;
        let uuids: Vec<u128> = pool.status().ssds.iter().map(|ssd| ssd.uuid).collect();
        fall_silent(&world, &devices[3], &pool, &volume).await;
        for page in 0..200 {
            write(&volume, page, 2).await;
        }
        let leaving = [uuids[0], uuids[3]];
        let both = futures_util::future::join(pool.remove_ssds(&leaving), bring_back(&world, &pool, 3));
        let error = both.await.0.unwrap_err();
        assert!(error.to_string().contains("ssd3 came back"), "{error}");
        assert_eq!(pool.status().ssds.iter().filter(|ssd| ssd.online).count(), 4);
        // What waits for an SSD that cannot leave would wait for ever.
        for page in 0..200 {
            write(&volume, page, 3).await;
        }
        volume.flush().await.unwrap();
        pool.remove_ssds(&leaving).await.unwrap();
        assert_eq!((read(&volume, 9).await, pool.status().ssds.len()), (3, 2));
        pool.close().await.unwrap();
    });
}

// proves: F5, F7
#[test]
fn what_an_ssd_has_cached_since_it_came_back_is_there_after_a_clean_restart() {
    run(async |env| {
        let (world, devices, pool, volume) = quick(&env, 2).await;
        volume.populate(ByteRange::at(8 * MIB, 4 * MIB)).await.unwrap();
        fall_silent(&world, &devices[1], &pool, &volume).await;
        bring_back(&world, &pool, 1).await;
        pool.drain(&volume.name()).await.unwrap();
        pool.cancel_drain(&volume.name());
        volume.populate(ByteRange::at(0, 8 * MIB)).await.unwrap();
        pool.close().await.unwrap();
        let (pool, volume) = world.reopened(Missing::Refuse).await;
        let recovery = pool.status().recovery.to_string();
        assert!(!recovery.contains("starts empty"), "{recovery}");
        assert!(volume.status().cache_used_bytes >= 8 * MIB, "{recovery}");
    });
}

// proves: F5
#[test]
fn one_ssd_that_comes_back_takes_the_place_of_no_other_that_is_away() {
    run(async |env| {
        let (world, devices, pool, volume) = quick(&env, 4).await;
        fall_silent(&world, &devices[3], &pool, &volume).await;
        fall_silent(&world, &devices[2], &pool, &volume).await;
        // It has another name than before.
        let device = TestDevice::from(world.ssds[3].clone());
        pool.bring_back(Named { path: "sdx".into(), device }).await.unwrap();
        assert_eq!(pool.ssds_returning().len(), 1, "the other one may come back, too");
        bring_back(&world, &pool, 2).await;
        assert_eq!(pool.status().ssds.iter().filter(|ssd| ssd.online).count(), 4);
    });
}

// proves: F5, F9
#[test]
fn a_list_of_losses_that_cannot_be_read_for_a_moment_is_not_taken_for_none() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let (pool, volume) = lazy_and_dirty(&world).await;
        let held = pull(&world, &pool, &volume, &[0, 1]).await;
        std::mem::forget((pool, volume));
        let open = async |world: &World, missing: Missing| {
            let state = TestDevice::from(world.state());
            LOSSES_OFFSETS.into_iter().for_each(|offset| state.become_bad(Bad::FailsToReadAt(offset)));
            Pool::open(world.env.clone(), Vec::new(), Some(state), missing).await
        };
        let refused = open(&world, Missing::Leave).await.err().expect("it does not know what it lost");
        assert_eq!(refused.kind, ErrorKind::Media, "{refused}");
        assert!(open(&world.with(&[]).copied(), Missing::AcceptLoss).await.is_ok(), "somebody may go on without it");
        plug(&world, held);
        let (pool, volume) = world.reopened(Missing::Leave).await;
        assert_eq!(volume.status().lost_bytes, 0, "{}", pool.status().recovery);
        check_values(&volume).await;
    });
}

// proves: F5, F11
#[test]
fn an_ssd_that_is_back_and_falls_silent_before_it_is_known_what_it_has_holds_up_no_change() {
    run(async |env| {
        let (world, _, pool, volume) = quick(&env, 2).await;
        for page in 0..50 {
            write(&volume, page, 3).await;
        }
        volume.flush().await.unwrap();
        let held = pull(&world, &pool, &volume, &[0, 1]).await;
        let segments = log_segments(&held[0].1);
        plug(&world, held);
        let device = TestDevice::from(world.ssds[0].clone());
        // It takes no writes, and then it is not read either.
        device.hold_next(Operation::Write);
        device.release();
        segments.into_iter().for_each(|segment| device.become_bad(Bad::HangsAt(segment)));
        let back = pin!(pool.bring_back(Named { path: "ssd0".into(), device }));
        let Either::Left((back, _)) = select(back, pin!(world.env.sleep(20 * limits::SSD_TIMEOUT))).await else {
            panic!("it is waited for")
        };
        let error = back.unwrap_err();
        assert!(error.to_string().contains("did not answer"), "{error}");
        pool.add_ssds(vec![Named { path: "new".into(), device: TestDevice::new(16 * MIB) }]).await.unwrap();
        bring_back(&world, &pool, 0).await;
        check_values(&volume).await;
        pool.close().await.unwrap();
    });
}
