//! SSDs that hold less of the write log than they had: rows that are sealed and have no summary, whole where another row
//! says so, and old copies of an SSD in its place.

use hotset_block::{Buf, Device, MemoryDevice};
use hotset_cache::config::PoolKind;
use hotset_cache::{ErrorKind, Missing, NotUsed, Pool, SsdReason};

use crate::harness::{TestDevice, TestEnv, run};
use crate::world::{MIB, World, read, write};

/// Of a segment's summary, by `docs/FORMAT.md`.
const SUMMARY_MAGIC: &[u8] = b"HOTSETlm";

/// Of a batch.
const BATCH_MAGIC: &[u8] = b"HOTSETlb";

/// The pages that begin with these bytes, in the order of what is asked of them.
async fn pages_with<T: Ord>(ssd: &MemoryDevice, magic: &[u8], order: impl Fn(&[u8]) -> T) -> Vec<(T, u64)> {
    let bytes = usize::try_from(ssd.info().size_bytes).unwrap();
    let content = ssd.read(0, Buf::zeroed(bytes)).await.0;
    let pages = (0..).zip(content.chunks_exact(4096)).filter(|(_, page)| page.starts_with(magic));
    let mut pages: Vec<(T, u64)> = pages.map(|(place, page)| (order(page), place)).collect();
    pages.sort_unstable();
    pages
}

/// The batch in the middle of the last row that has any.
async fn erase_a_batch_of_the_last_row(ssd: &MemoryDevice) {
    let index = |page: &[u8]| u32::from_le_bytes(page[32..36].try_into().unwrap());
    let mut batches = pages_with(ssd, BATCH_MAGIC, |page| (number(&page[16..24]), index(page))).await;
    let last = batches.last().unwrap().0.0;
    batches.retain(|((row, _), _)| *row == last);
    assert!(batches.len() > 2, "the last row has several batches: {batches:?}");
    ssd.write(batches[batches.len() / 2].1 * 4096, Buf::zeroed(4096)).await.1.unwrap();
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Erases the summaries of all rows but so many of the last ones from an SSD.
async fn erase_summaries(ssd: &MemoryDevice, but_last: usize) {
    let summaries = pages_with(ssd, SUMMARY_MAGIC, |page| number(&page[16..24])).await;
    let end = summaries.len() - but_last;
    assert!(end >= 2, "there are several rows: {summaries:?}");
    for (_, place) in &summaries[..end] {
        ssd.write(place * 4096, Buf::zeroed(4096)).await.1.unwrap();
    }
}

/// A pool that was stopped three times with other dirty pages in a row of its own.
async fn stopped_three_times(env: &TestEnv) -> World {
    let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
    let mut pool = world.create(PoolKind::ReadWrite).await;
    let mut volume = world.attached(&pool).await;
    for life in 0..3 {
        for page in 0..10 {
            write(&volume, life * 10 + page, u8::try_from(life).unwrap() + 1).await;
        }
        pool.close().await.unwrap();
        (pool, volume) = world.reopened(Missing::Refuse).await;
    }
    pool.close().await.unwrap();
    world
}

// proves: F7
#[test]
fn a_row_without_its_summaries_is_found_whole_where_the_next_one_says_that_it_ended() {
    run(async |env| {
        let world = stopped_three_times(&env).await;
        for ssd in &world.ssds {
            erase_summaries(ssd, 1).await;
        }
        let (pool, volume) = world.reopened(Missing::Refuse).await;
        for page in 0..30 {
            assert_eq!(u64::from(read(&volume, page).await), page / 10 + 1, "page {page}: {}", pool.status().recovery);
        }
    });
}

// proves: F4, F7
#[test]
fn a_row_without_its_summaries_of_which_nothing_says_that_it_ended_is_not_taken_for_whole() {
    run(async |env| {
        let world = stopped_three_times(&env).await;
        for ssd in &world.ssds {
            erase_summaries(ssd, 0).await;
        }
        let state = Some(TestDevice::from(world.state()));
        let refused = Pool::open(env.clone(), world.named(), state, Missing::Leave).await.map(|_| ()).unwrap_err();
        assert!(refused.kind == ErrorKind::Corrupt && refused.to_string().contains("of an old copy"), "{refused}");
    });
}

/// Part of the newest row is lost, that is accepted, hosts write on, and the daemon dies.
async fn assert_found_after_an_accepted_loss(world: &World) {
    for ssd in &world.ssds {
        erase_summaries(ssd, 0).await;
        erase_a_batch_of_the_last_row(ssd).await;
    }
    let (pool, volume) = world.reopened(Missing::AcceptLoss).await;
    for page in 240..260 {
        write(&volume, page, 7).await;
    }
    volume.flush().await.unwrap();
    // The daemon dies.
    std::mem::forget((pool, volume));
    let (pool, volume) = world.reopened(Missing::Refuse).await;
    for page in 240..260 {
        assert_eq!(read(&volume, page).await, 7, "page {page}: {}", pool.status().recovery);
    }
}

// proves: F7
#[test]
fn what_is_written_after_a_loss_was_accepted_is_found_after_a_crash() {
    run(async |env| assert_found_after_an_accepted_loss(&stopped_three_times(&env).await).await);
}

// proves: F7
#[test]
fn what_is_written_after_a_loss_before_an_empty_row_was_accepted_is_found_after_a_crash() {
    run(async |env| {
        let world = stopped_three_times(&env).await;
        let (pool, volume) = world.reopened(Missing::Refuse).await;
        // Enough of a row that the next one is made ready.
        for page in 100..140 {
            write(&volume, page, 5).await;
            volume.flush().await.unwrap();
        }
        std::mem::forget((pool, volume));
        assert_found_after_an_accepted_loss(&world).await;
    });
}

async fn content(ssd: &MemoryDevice) -> Buf {
    let bytes = usize::try_from(ssd.info().size_bytes).unwrap();
    ssd.read(0, Buf::zeroed(bytes)).await.0
}

/// A daemon that died after it wrote pages 0 to 299, and its second SSD as it was when so many of them were written.
async fn died_with_an_old_copy(env: &TestEnv, copied_at: u64) -> (World, Buf) {
    let (world, mut old) = died_with_old_copies(env, &[(1, copied_at)]).await;
    (world, old.remove(0))
}

/// A pool that died, and these SSDs as they were when so many of them were written.
async fn died_with_old_copies(env: &TestEnv, copied: &[(usize, u64)]) -> (World, Vec<Buf>) {
    let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
    let pool = world.create(PoolKind::ReadWrite).await;
    let volume = world.attached(&pool).await;
    let mut old = Vec::new();
    for page in 0..300 {
        for (ssd, _) in copied.iter().filter(|(_, at)| *at == page) {
            old.push(content(&world.ssds[*ssd]).await);
        }
        write(&volume, page, u8::try_from(page % 250).unwrap() + 1).await;
        if page % 8 == 7 {
            volume.flush().await.unwrap();
        }
    }
    std::mem::forget((pool, volume));
    (world, old)
}

async fn assert_all_is_there(world: &World, missing: Missing) -> Pool<TestEnv> {
    let (pool, volume) = world.reopened(missing).await;
    for page in 0..300 {
        let told = pool.status().recovery;
        assert_eq!(u64::from(read(&volume, page).await), page % 250 + 1, "page {page}: {told}");
    }
    pool
}

// proves: F4
#[test]
fn an_old_copy_of_an_ssd_is_no_second_copy_of_what_came_after_it() {
    for copied_at in [0, 20, 100] {
        run(async |env| {
            let (world, old) = died_with_an_old_copy(&env, copied_at).await;
            world.ssds[1].write(0, old).await.1.unwrap();
            let state = Some(TestDevice::from(world.state()));
            let refused = Pool::open(env.clone(), world.named(), state, Missing::Refuse).await.map(|_| ()).unwrap_err();
            assert!(refused.kind == ErrorKind::Missing && refused.to_string().contains("is an old copy"), "{refused}");
            let pool = assert_all_is_there(&world, Missing::Leave).await;
            let status = pool.status();
            let told = status.ssds.iter().find(|ssd| ssd.path == "ssd1").unwrap();
            let Some(SsdReason::NotUsed { why: NotUsed::LeftOut(error) }) = &told.reason else {
                panic!("{:?}", told.reason)
            };
            assert!(error.to_string().contains("is an old copy"), "copied before page {copied_at}: {error}");
        });
    }
}

// proves: F4, F7
#[test]
fn an_old_copy_of_an_ssd_alone_is_refused_and_spoils_nothing() {
    for copied_at in [0, 20, 100] {
        run(async |env| {
            let (world, old) = died_with_an_old_copy(&env, copied_at).await;
            let newest = content(&world.ssds[1]).await;
            world.ssds[1].write(0, old).await.1.unwrap();
            for missing in [Missing::Refuse, Missing::Leave] {
                let state = Some(TestDevice::from(world.state()));
                let alone = world.named().split_off(1);
                let refused = Pool::open(env.clone(), alone, state, missing).await.map(|_| ()).unwrap_err();
                assert!(refused.kind == ErrorKind::Gone && refused.to_string().contains("is an old copy"), "{refused}");
            }
            world.ssds[1].write(0, newest).await.1.unwrap();
            assert_all_is_there(&world, Missing::Refuse).await;
        });
    }
}

// proves: F4, F7
#[test]
fn an_ssd_that_did_not_get_the_last_row_record_is_believed() {
    run(async |env| {
        let (world, _) = died_with_an_old_copy(&env, 0).await;
        // Of the two areas of its row records the newer one, which had not reached it when power failed.
        let ssd = &world.ssds[1];
        let mut newest = (0, 0);
        for area in [256 << 10, 384 << 10] {
            let head = ssd.read(area, Buf::zeroed(4096)).await.0;
            newest = newest.max((number(&head[32..40]), area));
        }
        ssd.write(newest.1, Buf::zeroed(4096)).await.1.unwrap();
        let pool = assert_all_is_there(&world, Missing::Refuse).await;
        assert!(pool.status().ssds.iter().all(|ssd| ssd.reason.is_none()), "{:?}", pool.status().ssds);
    });
}

// proves: F4, F5
#[test]
fn of_several_old_copies_the_newest_is_what_an_accepted_loss_leaves() {
    for (older, newer) in [(0, 1), (1, 0)] {
        run(async |env| {
            let (world, old) = died_with_old_copies(&env, &[(older, 20), (newer, 200)]).await;
            for (ssd, content) in [older, newer].into_iter().zip(old) {
                world.ssds[ssd].write(0, content).await.1.unwrap();
            }
            let state = Some(TestDevice::from(world.state()));
            let refused = Pool::open(env.clone(), world.named(), state, Missing::Leave).await.map(|_| ()).unwrap_err();
            assert!(refused.kind == ErrorKind::Gone && refused.to_string().contains("is an old copy"), "{refused}");
            let (pool, volume) = world.reopened(Missing::AcceptLoss).await;
            for page in 0..190 {
                assert_eq!(
                    u64::from(read(&volume, page).await),
                    page % 250 + 1,
                    "page {page}: {}",
                    pool.status().recovery
                );
            }
        });
    }
}
