//! The last copy of dirty data is lost while the pool runs (REQUIREMENTS F5): exactly that answers errors, also after a
//! restart, until it is written again or accepted as lost.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join, join_all, join3, select};
use hotset_block::{Buf, ByteRange, Device, Env, MemoryDevice, ZeroMode};
use hotset_cache::config::{PoolKind, VolumeSettings, VolumeSpec};
use hotset_cache::{
    DirtyData, Durability, ErrorKind, FenceCause, Health, Missing, Named, Pool, Reattached, Volume, ZeroEffort,
};

use crate::harness::{Bad, PACE, TestDevice, TestEnv, run};
use crate::world::{MIB, World, read, records_end, until, write};

/// Nothing is cleaned by itself while a test runs.
async fn lazy(world: &World) -> Pool<TestEnv> {
    let pool = world.create(PoolKind::ReadWrite).await;
    let mut settings = pool.status().settings;
    settings.cleaning.dirty_watermark_percent = 90;
    pool.set(settings).await.unwrap();
    pool
}

async fn is_lost(volume: &Volume<TestEnv>, page: u64) -> bool {
    volume.read(ByteRange::at(page * 4096, 4096)).await.is_err()
}

async fn lost_pages(volume: &Volume<TestEnv>, pages: u64) -> BTreeSet<u64> {
    let mut lost = BTreeSet::new();
    for page in 0..pages {
        if is_lost(volume, page).await {
            lost.insert(page);
        }
    }
    lost
}

// proves: F5
#[test]
fn without_any_ssd_what_was_dirty_answers_errors_until_it_is_written_again_or_accepted() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let pool = lazy(&world).await;
        let volume = world.attached(&pool).await;
        for page in 0..50 {
            write(&volume, page, 3).await;
        }
        world.ssds.iter().for_each(|ssd| ssd.vanish());
        // Whatever a host that flushes just now is told: from then on only what is lost fails.
        let _ = volume.flush().await;
        until(&env, "it is known what is lost", || volume.status().lost_bytes == 50 * 4096).await;
        assert_eq!(volume.status().health, Health::Degraded);
        assert_eq!(lost_pages(&volume, 60).await, (0..50).collect());
        let several = volume.read(ByteRange::at(0, 10 * 4096)).await.unwrap_err();
        assert_eq!(several.kind, ErrorKind::Media, "{several}");
        write(&volume, 100, 4).await;
        volume.flush().await.unwrap();
        assert_eq!((read(&volume, 100).await, world.on_backing(100).await), (4, 4), "others are served and written");
        write(&volume, 7, 9).await;
        assert_eq!((read(&volume, 7).await, world.on_backing(7).await), (9, 9), "what is written again is there");
        let part = volume.write(8 * 4096, Buf::zeroed(512), Durability::Volatile).await;
        assert!(part.is_err() && is_lost(&volume, 8).await, "a part of a lost page makes no page");
        zero_lost_pages(&world, &volume).await;
        // The daemon dies, and starts again without any SSD.
        std::mem::forget((pool, volume));
        world.ssds.clear();
        let (pool, volume) = world.reopened(Missing::Leave).await;
        let again = |page: &u64| *page == 7 || (20..25).contains(page) || (30..32).contains(page);
        let expected: BTreeSet<u64> = (0..50).filter(|page| !again(page)).collect();
        assert_eq!(lost_pages(&volume, 60).await, expected, "{}", pool.status().recovery);
        assert_eq!((read(&volume, 7).await, read(&volume, 22).await, read(&volume, 100).await), (9, 0, 4));
        assert!(pool.detach(&volume.name(), DirtyData::Clean).await.is_err(), "nobody accepts it by the way");
        assert_eq!(pool.accept_loss().await.unwrap(), 42 * 4096);
        assert_eq!((lost_pages(&volume, 60).await, volume.status().lost_bytes), (BTreeSet::new(), 0));
        pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    });
}

/// Zeroes are a write: of whole pages they mend what is lost. Trim too, where it reads back as zeroes.
async fn zero_lost_pages(world: &World, volume: &Volume<TestEnv>) {
    let zero = async |page: u64, count: u64, effort: ZeroEffort| {
        let range = ByteRange::at(page * 4096, count * 4096);
        volume.write_zeroes(range, ZeroMode::MayPunch, effort, Durability::Volatile).await
    };
    let fast = zero(20, 5, ZeroEffort::FastOnly).await.unwrap_err();
    assert!(fast.kind == ErrorKind::Unsupported && is_lost(volume, 20).await, "{fast}");
    zero(20, 5, ZeroEffort::Any).await.unwrap();
    volume.trim(ByteRange::at(30 * 4096, 2 * 4096), Durability::Volatile).await.unwrap();
    for page in [20, 24, 30, 31] {
        assert_eq!((read(volume, page).await, world.on_backing(page).await), (0, 0), "page {page}");
    }
    let part = ByteRange::at(40 * 4096, 512);
    let part = volume.write_zeroes(part, ZeroMode::MayPunch, ZeroEffort::Any, Durability::Volatile).await;
    assert!(part.is_err() && is_lost(volume, 40).await, "a part of a lost page makes no page");
    assert_eq!(volume.status().lost_bytes, 42 * 4096);
}

// proves: F5, D13
#[test]
fn a_lost_page_in_which_its_volume_ends_is_mended_by_a_write_of_all_that_there_is_of_it() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 8 * MIB + 1536);
        let pool = lazy(&world).await;
        let volume = world.attached(&pool).await;
        let end = ByteRange::at(8 * MIB, 1536);
        let fill = |value: u8| {
            let mut buf = Buf::zeroed(1536);
            buf.fill(value);
            buf
        };
        volume.write(end.start, fill(1), Durability::Volatile).await.unwrap();
        world.ssds.iter().for_each(|ssd| ssd.vanish());
        let _ = volume.flush().await;
        until(&env, "it is known what is lost", || volume.status().lost_bytes > 0).await;
        let part = volume.write(end.start, Buf::zeroed(512), Durability::Volatile).await;
        assert!(part.is_err() && volume.read(end).await.is_err(), "a part of a lost page makes no page");
        volume.write(end.start, fill(2), Durability::Volatile).await.unwrap();
        assert_eq!((&volume.read(end).await.unwrap()[..], volume.status().lost_bytes), (&[2; 1536][..], 0));
    });
}

// proves: F5
#[test]
fn with_ssds_left_exactly_what_lay_on_the_lost_pair_fails_and_nothing_older_shows() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[16 * MIB, 16 * MIB, 16 * MIB], 64 * MIB);
        let pool = lazy(&world).await;
        let volume = world.attached(&pool).await;
        // Some versions of each page, over rows on all pairs.
        let pages = 400;
        for fill in 1..=4 {
            for page in 0..pages {
                write(&volume, page, fill).await;
            }
        }
        world.ssds[0].vanish();
        world.ssds[1].vanish();
        let _ = volume.flush().await;
        until(&env, "two SSDs have left", || pool.status().ssds.iter().filter(|ssd| ssd.online).count() == 1).await;
        // A flush waits until they have left, with everything that is lost on record.
        let _ = volume.flush().await;
        let lost = lost_pages(&volume, pages).await;
        let some = !lost.is_empty() && lost.len() < 400;
        assert!(some, "{} of {pages} pages are lost", lost.len());
        for page in (0..pages).filter(|page| !lost.contains(page)) {
            assert_eq!(read(&volume, page).await, 4, "page {page}");
        }
        assert_eq!(volume.status().lost_bytes, u64::try_from(lost.len()).unwrap() * 4096);
        let again = *lost.first().unwrap();
        write(&volume, again, 8).await;
        volume.flush().await.unwrap();
        assert_eq!(read(&volume, again).await, 8);
        std::mem::forget((pool, volume));
        world.ssds.drain(..2);
        let (pool, volume) = world.reopened(Missing::Leave).await;
        let mut expected = lost.clone();
        expected.remove(&again);
        assert_eq!(lost_pages(&volume, pages).await, expected, "{}", pool.status().recovery);
        for page in (0..pages).filter(|page| !expected.contains(page)) {
            let right = if page == again { 8 } else { 4 };
            assert_eq!(read(&volume, page).await, right, "page {page}");
        }
        pool.accept_loss().await.unwrap();
        assert_eq!(volume.status().lost_bytes, 0);
        pool.close().await.unwrap();
    });
}

/// A second volume, over a backing device of its own.
fn neighbour(env: &TestEnv, backing: &MemoryDevice) -> Volume<TestEnv> {
    let settings = VolumeSettings::default();
    let spec = VolumeSpec { name: "neighbour".parse().unwrap(), backing: "other".into(), settings };
    Volume::open(env.clone(), spec, TestDevice::from(backing.clone())).unwrap()
}

/// One life of a daemon, which dies at its end: whatever it had at work is gone.
fn life(world: &mut World, work: impl AsyncFnOnce(&mut World)) {
    run(async |env| {
        world.env = env;
        work(world).await;
    });
}

// proves: F5
#[test]
fn a_volume_of_which_nobody_knows_what_was_lost_is_fenced_until_that_is_accepted_and_its_neighbours_are_served() {
    let unborn = TestEnv::unborn();
    let mut world = World::new(unborn, &[16 * MIB; 4], 64 * MIB);
    let backing = MemoryDevice::new(64 * MIB, 512);
    life(&mut world, async |world| {
        let pool = lazy(world).await;
        let (volume, other) = (world.attached(&pool).await, neighbour(&world.env, &backing));
        pool.attach(&other).await.unwrap();
        for page in 0..400 {
            write(&volume, page, 4).await;
        }
        world.ssds[0].vanish();
        world.ssds[1].vanish();
        let _ = volume.flush().await;
        let two_left = || pool.status().ssds.iter().filter(|ssd| ssd.online).count() == 2;
        until(&world.env, "two SSDs have left", two_left).await;
        until(&world.env, "something is lost", || volume.status().lost_bytes > 0).await;
        write(&other, 5, 7).await;
        other.flush().await.unwrap();
        world.ssds.drain(..2);
        world.forget_losses().await;
    });
    // However often it starts: that something is missing is not forgotten.
    for _ in 0..2 {
        life(&mut world, async |world| {
            let pool = world.open(Missing::Leave).await;
            let (volume, other) = (world.volume(), neighbour(&world.env, &backing));
            let Reattached::Fenced { cause: FenceCause::UnknownLoss, reason, .. } =
                pool.reattach(&volume).await.unwrap()
            else {
                panic!("not fenced: {}", pool.status().recovery)
            };
            assert!(reason.to_string().contains("accept the loss"), "{reason}");
            assert!(is_lost(&volume, 500).await, "all of it may be older");
            assert!(pool.detach(&volume.name(), DirtyData::Clean).await.is_err(), "nobody accepts it by the way");
            assert!(matches!(pool.reattach(&other).await.unwrap(), Reattached::Warm { .. }));
            assert_eq!(read(&other, 5).await, 7);
            write(&other, 5, 7).await;
        });
    }
    life(&mut world, async |world| {
        let (pool, volume) = world.reopened(Missing::Leave).await;
        pool.accept_loss().await.unwrap();
        assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }));
        assert_eq!(lost_pages(&volume, 400).await, BTreeSet::new());
        write(&volume, 3, 9).await;
        volume.flush().await.unwrap();
    });
    life(&mut world, async |world| {
        let pool = world.open(Missing::Refuse).await;
        let volume = world.volume();
        assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }), "accepted is accepted");
        assert_eq!(read(&volume, 3).await, 9);
    });
}

// proves: F5, F7
#[test]
fn where_a_part_of_the_write_log_is_discarded_at_a_start_no_slot_is_believed() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[16 * MIB; 4], 64 * MIB);
        let pool = lazy(&world).await;
        let volume = world.attached(&pool).await;
        volume.populate(ByteRange::at(0, 4 * MIB)).await.unwrap();
        until(&env, "all of it is cached", || volume.status().cache_used_bytes == 4 * MIB).await;
        pool.close().await.unwrap();
        let (pool, volume) = world.reopened(Missing::Refuse).await;
        assert!(volume.status().cache_used_bytes == 4 * MIB, "{}", pool.status().recovery);
        // From here on the slots hold what the log has superseded, and the log alone says so.
        for page in 0..400 {
            write(&volume, page, 4).await;
        }
        pool.drain(&volume.name()).await.unwrap();
        std::mem::forget((pool, volume));
        world.ssds.drain(..2);
        let (pool, volume) = world.reopened(Missing::AcceptLoss).await;
        for page in 0..400 {
            assert_eq!(read(&volume, page).await, world.on_backing(page).await, "page {page} is older than it was");
        }
        let recovery = pool.status().recovery;
        assert!(recovery.contains("what superseded some of its content was lost"), "{recovery}");
    });
}

/// Both copies of pages that hold nothing but `fill` get other bytes.
fn rot_pages(world: &World, fill: u8) {
    for ssd in &world.ssds {
        let mut content = ssd.unplug();
        let pages = content.chunks_mut(4096).filter(|page| page.iter().all(|byte| *byte == fill));
        pages.for_each(|page| page[0] = !fill);
        ssd.plug(content);
    }
}

// proves: F5, D8
#[test]
fn accepting_a_loss_holds_up_nobody_while_the_write_log_has_no_room_for_it() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let named = world.named();
        let ssds = [0, 1].map(|ssd| named[ssd].device.clone());
        let pool = world.create_on(PoolKind::ReadWrite, named).await;
        let volume = world.attached(&pool).await;
        let mut pages = Buf::zeroed(20 * 4096);
        pages.fill(3);
        volume.write(0, pages, Durability::Volatile).await.unwrap();
        rot_pages(&world, 3);
        let name = volume.name();
        let read_badly = async {
            until(&env, "it is known what is lost", || volume.status().lost_bytes == 20 * 4096).await;
            pool.cancel_drain(&name);
        };
        let _ = join(pool.drain(&name), read_badly).await;

        ssds.iter().for_each(|ssd| ssd.become_bad(Bad::HangsToWrite));
        let writes = join_all((0..4000).map(|number| write(&volume, 100 + number * 3, 4)));
        let meanwhile = async {
            env.sleep(Duration::from_millis(50)).await;
            let other = pin!(pool.remove_spares(&[7]));
            let limit = pin!(env.sleep(Duration::from_secs(3)));
            let is_answered = matches!(select(other, limit).await, Either::Left(_));
            ssds.iter().for_each(TestDevice::recover);
            assert!(is_answered, "another change of the pool waits");
        };
        let (_, accepted, ()) = join3(writes, pool.accept_loss(), meanwhile).await;
        assert_eq!(accepted.unwrap(), 20 * 4096);
        assert_eq!((lost_pages(&volume, 20).await, volume.status().lost_bytes), (BTreeSet::new(), 0));
    });
}

/// The power fails, and of what hosts wrote last and did not flush one SSD has all, the other one nothing.
async fn with_one_copy_of_the_newest(env: &TestEnv) -> World {
    let mut world = World::new(env.clone(), &[16 * MIB, 16 * MIB], MIB);
    let pool = lazy(&world).await;
    let volume = world.attached(&pool).await;
    for page in 0..20 {
        write(&volume, page, 1).await;
    }
    volume.flush().await.unwrap();
    let flushed = world.copied().ssds.remove(1);
    for page in 0..5 {
        write(&volume, page, 2).await;
    }
    std::mem::forget((pool, volume));
    world = world.moved();
    world.ssds[1] = flushed;
    world
}

/// Opens the pool with a first SSD that is gone when it was read so often, and once more where that was too soon for this start.
async fn open_while_an_ssd_vanishes(world: &World, reads: u64) -> Pool<TestEnv> {
    let mut ssds = world.named();
    ssds[0].device = TestDevice::from(world.ssds[0].clone()).vanishes_after(reads);
    let state = || Some(TestDevice::from(world.state()));
    match Pool::open(world.env.clone(), ssds, state(), Missing::Refuse).await {
        Ok(pool) => pool,
        Err(_) => {
            let left = vec![world.named().remove(1)];
            Pool::open(world.env.clone(), left, state(), Missing::Leave).await.unwrap()
        }
    }
}

// proves: F5
#[test]
fn an_ssd_that_is_gone_at_any_moment_of_a_start_takes_with_it_at_most_what_it_alone_had() {
    run(async |env| {
        let (mut brought, mut reads) = (0, 0);
        loop {
            let world = with_one_copy_of_the_newest(&env).await;
            let pool = open_while_an_ssd_vanishes(&world, reads).await;
            let stays = pool.status().ssds.iter().filter(|ssd| ssd.online).count() == 2;
            let volume = world.volume();
            pool.reattach(&volume).await.unwrap();
            for page in 0..20 {
                let lost = volume.read(ByteRange::at(page * 4096, 4096)).await.err();
                assert!(lost.is_none(), "page {page}, of an SSD that is gone after {reads} reads: {lost:?}");
                let found = read(&volume, page).await;
                assert!(found == 1 || (found == 2 && page < 5), "page {page} holds {found}");
                brought += u64::from(found == 2 && !stays);
            }
            pool.close().await.unwrap();
            if stays {
                break;
            }
            reads += 1;
        }
        assert!(brought > 0, "what it alone had was brought to the other one at least once");
    });
}

// proves: F1, F9
#[test]
fn a_start_asks_ssds_again_that_answer_with_errors_for_a_moment() {
    run(async |env| {
        let env = env.at_pace(PACE);
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let pool = lazy(&world).await;
        let volume = world.attached(&pool).await;
        for page in 0..50 {
            write(&volume, page, 3).await;
        }
        std::mem::forget((pool, volume));
        let world = world.moved();
        let ssds = world.named();
        for ssd in &ssds {
            ssd.device.become_bad(Bad::FailsToReadFrom(records_end(16 * MIB)));
        }
        let devices: Vec<TestDevice> = ssds.iter().map(|ssd| ssd.device.clone()).collect();
        let opening = Pool::open(env.clone(), ssds, Some(TestDevice::from(world.state())), Missing::Leave);
        let recovering = async {
            env.sleep(Duration::from_secs(3)).await;
            devices.iter().for_each(TestDevice::recover);
        };
        let (pool, ()) = join(opening, recovering).await;
        let (pool, volume) = (pool.unwrap(), world.volume());
        pool.reattach(&volume).await.unwrap();
        for page in 0..50 {
            assert_eq!(read(&volume, page).await, 3, "page {page} was answered, and is gone");
        }
    });
}

/// A pool with something dirty that has no room to put on record what it loses.
async fn unlisted(world: &mut World, pages: u64) -> (Pool<TestEnv>, Volume<TestEnv>) {
    world.create(PoolKind::ReadWrite).await.close().await.unwrap();
    world.shorten_state();
    let pool = world.open(Missing::Refuse).await;
    // Nothing is cleaned, however much a single SSD is in need of that.
    let backing = TestDevice::from(world.backing());
    backing.become_bad(Bad::HangsToWrite);
    let volume = world.volume_on(backing);
    pool.attach(&volume).await.unwrap();
    for page in 0..pages {
        write(&volume, page, 3).await;
    }
    (pool, volume)
}

// proves: F5
#[test]
fn an_ssd_that_joins_puts_nothing_on_record_of_a_pool_that_was_fenced_meanwhile() {
    run(async |env| {
        let mut world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let (pool, volume) = unlisted(&mut world, 50).await;
        let spare = TestDevice::new(16 * MIB);
        pool.add_spares(vec![Named { path: "spare".to_owned(), device: spare.clone() }]).await.unwrap();
        spare.become_bad(Bad::HangsToWrite);
        world.ssds[0].vanish();
        let _ = volume.flush().await;
        spare.until_held().await;
        let held = world.ssds[1].unplug();
        assert!(is_lost(&volume, 5).await);
        assert!(volume.flush().await.is_err(), "what only that SSD has cannot be put on record");
        spare.recover();
        until(&env, "the spare has joined, or cannot", || pool.status().spares.iter().all(|it| it.reason.is_some()))
            .await;
        // The daemon dies, and the SSD is well.
        std::mem::forget((pool, volume));
        world.ssds = vec![MemoryDevice::holding(held, 4096)];
        let (pool, volume) = world.reopened(Missing::Leave).await;
        for page in 0..50 {
            assert_eq!(read(&volume, page).await, 3, "page {page}: {}", pool.status().recovery);
        }
    });
}

// proves: F4, F5
#[test]
fn a_fenced_pool_can_be_deleted() {
    run(async |env| {
        let mut world = World::new(env.at_pace(PACE), &[16 * MIB; 3], 64 * MIB);
        let (pool, volume) = unlisted(&mut world, 400).await;
        world.ssds[..2].iter().for_each(MemoryDevice::vanish);
        // Each is asked for something.
        let _ = pool.set(pool.status().settings).await;
        assert!(volume.flush().await.is_err(), "what only they have cannot be put on record");
        pool.delete(DirtyData::Discard).await.unwrap();
        let (superblock, read) = world.ssds[2].read(0, Buf::zeroed(4096)).await;
        read.unwrap();
        assert!(superblock.iter().all(|byte| *byte == 0), "it is of no pool any more");
    });
}
