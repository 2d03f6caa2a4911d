//! Requests that are held somewhere while others go on: what was answered is so, and what is newer stays.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Buf, ByteRange, Device, Env, MemoryDevice, Operation};
use hotset_cache::config::{PoolKind, VolumeSettings, VolumeSpec};
use hotset_cache::{DirtyData, Durability, Error, ErrorKind, Pool, Volume};

use crate::harness::{Bad, TestDevice, TestEnv, run};
use crate::world::{MIB, World, read, until, write};

const PAGES: u64 = 256;

/// What a request came to that runs beside the test.
type Outcome = Rc<Cell<Option<Result<(), Error>>>>;

fn beside(env: &TestEnv, request: impl Future<Output = Result<(), Error>> + 'static) -> Outcome {
    let outcome = Outcome::default();
    let told = Rc::clone(&outcome);
    env.spawn(async move { told.set(Some(request.await)) });
    outcome
}

fn has_ended(outcome: &Outcome) -> bool {
    let told = outcome.take();
    let ended = told.is_some();
    outcome.set(told);
    ended
}

fn store(env: &TestEnv, volume: &Volume<TestEnv>, page: u64, pages: u64, fill: u8, durability: Durability) -> Outcome {
    let volume = volume.clone();
    beside(env, async move {
        let mut buf = Buf::zeroed(usize::try_from(pages * 4096).unwrap());
        buf.fill(fill);
        volume.write(page * 4096, buf, durability).await
    })
}

// Whoever waits for room may be told meanwhile that the write failed: what is written there afterwards is newer.
// proves: D3
#[test]
fn what_is_written_behind_a_write_that_waits_for_room_stays_when_there_is_room() {
    // So much is left of the last row: there is room for one page where there is none for many.
    (0..6).for_each(what_is_written_behind_a_write_that_waits_stays);
}

fn what_is_written_behind_a_write_that_waits_stays(rows: u64) {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let named = world.named();
        let ssds = [0, 1].map(|ssd| named[ssd].device.clone());
        let pool = world.create_on(PoolKind::ReadWrite, named).await;
        let volume = world.attached(&pool).await;
        volume.set(VolumeSettings { write_cutoff_bytes: None, ..volume.settings() }).await.unwrap();
        // The oldest row cannot be freed before this page is moved, and nothing is moved.
        write(&volume, 0, 1).await;
        ssds.iter().for_each(|ssd| ssd.become_bad(Bad::HangsToRead));
        for _ in 0..rows {
            let row = store(&env, &volume, PAGES, 40, 2, Durability::Volatile);
            until(&env, "it is stored", || has_ended(&row)).await;
        }
        let large = || store(&env, &volume, PAGES, PAGES, 2, Durability::Volatile);
        let waits = loop {
            let large = large();
            for _ in 0..30 {
                env.sleep(Duration::from_millis(1)).await;
            }
            if !has_ended(&large) {
                break large;
            }
        };
        let small = store(&env, &volume, PAGES, 1, 9, Durability::Volatile);
        env.sleep(Duration::from_millis(50)).await;
        ssds.iter().for_each(TestDevice::recover);
        until(&env, "both are stored", || has_ended(&waits) && has_ended(&small)).await;
        assert_eq!((waits.take(), small.take()), (Some(Ok(())), Some(Ok(()))));
        assert_eq!((read(&volume, PAGES).await, read(&volume, PAGES + 1).await), (9, 2));
    });
}

/// Where the SSD has the page that is full of this byte.
async fn place_of(ssd: &MemoryDevice, fill: u8) -> u64 {
    let content = ssd.read(0, Buf::zeroed(usize::try_from(ssd.info().size_bytes).unwrap())).await.0;
    let mut pages = (0..).zip(content.chunks_exact(4096));
    pages.find(|(_, page)| page.iter().all(|byte| *byte == fill)).unwrap().0 * 4096
}

/// A write of many pages that waits: there is no more room.
async fn fill_the_log(env: &TestEnv, volume: &Volume<TestEnv>, page: u64) -> Outcome {
    for _ in 0..1000 {
        let written = store(env, volume, page, PAGES, 2, Durability::Volatile);
        for _ in 0..100 {
            if has_ended(&written) {
                break;
            }
            env.sleep(Duration::from_millis(1)).await;
        }
        if !has_ended(&written) {
            return written;
        }
    }
    panic!("there is always room");
}

// The daemon ended: what was read was to be appended for a volume that has no attachment any more.
// proves: F6, D12
#[test]
fn what_is_just_being_moved_when_its_volume_is_detached_by_force_goes_nowhere_and_others_write_on() {
    const MOVED: u8 = 0xA7;
    run(async |env| {
        // Whoever detaches waits for the volume's requests, for ten seconds.
        let world = World::new(env.clone().with_short_sleeps(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let named = world.named();
        let ssds = [0, 1].map(|ssd| named[ssd].device.clone());
        let pool = world.create_on(PoolKind::ReadWrite, named).await;
        let sound = world.attached(&pool).await;
        sound.set(VolumeSettings { write_cutoff_bytes: None, ..sound.settings() }).await.unwrap();
        let backing = TestDevice::new(64 * MIB);
        let settings = VolumeSettings::default();
        let spec = VolumeSpec { name: "moved".parse().unwrap(), backing: "memory".into(), settings };
        let moved = Volume::open(world.env.clone(), spec, backing.clone()).unwrap();
        pool.attach(&moved).await.unwrap();
        write(&moved, 0, MOVED).await;
        for (ssd, content) in ssds.iter().zip(&world.ssds) {
            ssd.become_bad(Bad::HangsAt(place_of(content, MOVED).await));
        }
        // A part of a page waits for the rest of it: as long as that lasts, the volume's index is not given away.
        backing.become_bad(Bad::HangsToRead);
        let writer = moved.clone();
        let part = beside(&env, async move { writer.write(100 * 4096, Buf::zeroed(512), Durability::Volatile).await });
        // The page is to be moved before there is room.
        let waits = fill_the_log(&env, &sound, PAGES).await;
        pool.detach(&moved.name(), DirtyData::Discard).await.unwrap();
        ssds.iter().for_each(TestDevice::recover);
        until(&env, "there is room", || has_ended(&waits)).await;
        assert_eq!(waits.take(), Some(Ok(())));
        for round in 0..100 {
            let written = store(&env, &sound, PAGES, PAGES, round, Durability::Volatile);
            until(&env, "it is stored", || has_ended(&written)).await;
            assert_eq!((written.take(), read(&sound, PAGES).await), (Some(Ok(())), round));
        }
        assert!(!has_ended(&part), "it is being detached all the while");
        backing.recover();
        until(&env, "the part is told", || has_ended(&part)).await;
        assert_eq!(part.take().unwrap().unwrap_err().kind, ErrorKind::Gone);
    });
}

/// A pool with so much dirty data that the SSDs that it has left hold no more; it cannot be cleaned, for the backing device's next flush
/// is held back. Answers how many pages that are.
async fn overfull(world: &World, backing: &TestDevice, volume: &Volume<TestEnv>) -> (Pool<TestEnv>, u64) {
    let pool = world.create(PoolKind::ReadWrite).await;
    let mut settings = pool.status().settings;
    settings.cleaning.dirty_watermark_percent = 90;
    pool.set(settings).await.unwrap();
    pool.attach(volume).await.unwrap();
    volume.set(VolumeSettings { write_cutoff_bytes: None, ..volume.settings() }).await.unwrap();
    let pages = pool.status().write_log.unwrap().dirty_capacity_bytes / 4096 * 9 / 10 / PAGES * PAGES;
    for page in (0..pages).step_by(usize::try_from(PAGES).unwrap()) {
        let written = store(&world.env, volume, page, PAGES, 1, Durability::Volatile);
        until(&world.env, "it is stored", || has_ended(&written)).await;
    }
    assert_eq!(volume.status().dirty_bytes, pages * 4096);
    backing.hold_next(Operation::Flush);
    world.ssds[0].vanish();
    write(volume, 0, 1).await;
    until(&world.env, "it has left", || !pool.status().ssds[0].online).await;
    (pool, pages)
}

// It waited for ever, with all the pages that it was to trim.
// proves: D12, D13
#[test]
fn a_trim_that_waits_for_room_holds_no_page_and_hears_that_there_will_be_none() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB; 3], 64 * MIB);
        let backing = TestDevice::with_cache(64 * MIB);
        let volume = world.volume_on(backing.clone());
        let (_pool, pages) = overfull(&world, &backing, &volume).await;
        let waits = fill_the_log(&env, &volume, 0).await;
        backing.until_held().await;
        // A few pages that have live copies, and all those behind them that have none.
        let trimmed = ByteRange { start: (pages - 4) * 4096, end: 64 * MIB };
        let trims = volume.clone();
        let trim = beside(&env, async move { trims.trim(trimmed, Durability::Volatile).await });
        env.sleep(Duration::from_millis(50)).await;
        assert!(!has_ended(&waits) && !has_ended(&trim), "there is no room");
        backing.release();
        until(&env, "they are told", || has_ended(&waits) && has_ended(&trim)).await;
        for told in [waits, trim] {
            assert_eq!(told.take().unwrap().unwrap_err().kind, ErrorKind::Media);
        }
        let behind = store(&env, &volume, pages + PAGES, 1, 3, Durability::Volatile);
        until(&env, "nobody holds its page", || has_ended(&behind)).await;
    });
}
