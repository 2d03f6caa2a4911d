//! A scrub finds what rotted before a host needs it, and mends it while there is another copy.

use futures_util::future::join;
use hotset_block::ByteRange;
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings};
use hotset_cache::{DirtyData, ErrorKind, Missing, Named, Pool, PoolSpec, STATE_BYTES, ScrubState};

use crate::harness::{TestDevice, run};
use crate::world::{MIB, World, read, until, write};

const BLOCK: u64 = 64 << 10;

fn byte_of(number: u64) -> u8 {
    u8::try_from(number % 251).unwrap() + 1
}

// proves: D15
#[test]
fn rotten_slots_leave_the_cache_and_are_filled_again() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let volume = world.attached(&pool).await;
        for number in 0..400 {
            write(&volume, number, byte_of(number)).await;
        }
        volume.populate(ByteRange::at(0, 25 * BLOCK)).await.unwrap();
        let sound = pool.scrub().await.unwrap();
        assert_eq!((sound.state, sound.bad_pages, sound.checked_bytes), (ScrubState::Finished, 0, 25 * BLOCK));
        assert_eq!(sound.total_bytes, 25 * BLOCK);
        world.rot(0).await;
        let found = pool.scrub().await.unwrap();
        assert!(found.bad_pages > 0 && found.dropped_pages == found.bad_pages, "{found:?}");
        assert_eq!((found.lost_pages, pool.status().scrub), (0, found));
        until(&env, "what left the cache is back", || volume.status().cache_used_bytes == 25 * BLOCK).await;
        assert_eq!(pool.scrub().await.unwrap().bad_pages, 0);
        let errors = volume.status().stats.read_errors_hidden;
        for number in 0..400 {
            assert_eq!(read(&volume, number).await, byte_of(number));
        }
        assert_eq!(volume.status().stats.read_errors_hidden, errors, "no host met what was bad");
        pool.close().await.unwrap();
    });
}

// proves: D15, F5
#[test]
fn a_rotten_copy_of_dirty_data_is_written_again_from_the_other_and_the_loss_of_both_is_counted() {
    run(async |env| {
        let world = World::new(env, &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = world.attached(&pool).await;
        for number in 0..300 {
            write(&volume, number * 3, byte_of(number)).await;
        }
        world.rot(0).await;
        let found = pool.scrub().await.unwrap();
        assert_eq!((found.bad_pages, found.repaired_pages, found.lost_pages), (300, 300, 0), "{found:?}");
        world.rot(1).await;
        for number in 0..300 {
            assert_eq!(read(&volume, number * 3).await, byte_of(number), "the first copy is good again");
        }
        world.rot(0).await;
        world.rot(1).await;
        let found = pool.scrub().await.unwrap();
        assert_eq!((found.bad_pages, found.repaired_pages, found.lost_pages), (600, 0, 300), "{found:?}");
        assert!(volume.read(ByteRange::at(0, 4096)).await.is_err());
        pool.detach(&volume.name(), DirtyData::Discard).await.unwrap();
        pool.close().await.unwrap();
    });
}

// proves: D15
#[test]
fn a_scrub_can_be_cancelled_and_there_is_one_at_a_time() {
    run(async |env| {
        let world = World::new(env.clone(), &[], 64 * MIB);
        let mut settings = PoolSettings::preset(PoolKind::Read, IoType::Custom);
        settings.block_bytes = BlockBytes::new(BLOCK).unwrap();
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::Read, settings };
        let ssd = Named { path: "ssd".to_owned(), device: TestDevice::new(32 * MIB).unhurried() };
        let pool = Pool::create(env, spec, vec![ssd], TestDevice::new(STATE_BYTES)).await.unwrap();
        let volume = world.attached(&pool).await;
        volume.populate(ByteRange::at(0, 100 * BLOCK)).await.unwrap();
        // Polled in this order in one turn, in which the SSD answers nothing.
        let (cancelled, ()) = join(pool.scrub(), async {
            assert_eq!(pool.status().scrub.state, ScrubState::Running);
            assert!(pool.scrub().await.unwrap_err().to_string().contains("a scrub is running"));
            pool.cancel_scrub();
        })
        .await;
        assert_eq!(cancelled.unwrap().state, ScrubState::Cancelled);
        assert_eq!(pool.status().scrub.state, ScrubState::Cancelled);
        assert!(pool.status().scrub.checked_bytes < 100 * BLOCK);
        pool.close().await.unwrap();
    });
}

// proves: D15
#[test]
fn a_scrub_that_the_end_of_the_pool_cuts_off_goes_on_after_the_next_start_and_checks_nothing_twice() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let volume = world.attached(&pool).await;
        volume.populate(ByteRange::at(0, 100 * BLOCK)).await.unwrap();
        let whole = pool.scrub().await.unwrap();
        let half_way = || pool.status().scrub.checked_bytes >= 50 * BLOCK;
        let (cut_off, unfinished) = join(pool.scrub(), async {
            until(&env, "half of it is checked", half_way).await;
            let unfinished = pool.status().scrub_unfinished.unwrap();
            pool.close().await.unwrap();
            unfinished
        })
        .await;
        assert_eq!(cut_off.unwrap_err().kind, ErrorKind::Stopping);
        let checked_bytes = unfinished.found.checked_bytes;
        assert!((49 * BLOCK..100 * BLOCK).contains(&checked_bytes) && unfinished.slots_checked >= 49, "{unfinished:?}");
        drop((pool, volume));

        let pool = world.open(Missing::Refuse).await;
        assert_eq!(pool.status().scrub, whole, "what was cut off has not ended");
        let resumed = pool.resume_scrub(unfinished).await.unwrap();
        assert_eq!((resumed.state, resumed.checked_bytes), (ScrubState::Finished, 100 * BLOCK), "each slot once");
        let outdated = hotset_cache::UnfinishedScrub { epoch: unfinished.epoch + 1, ..unfinished };
        assert_eq!(pool.resume_scrub(outdated).await.unwrap().checked_bytes, 100 * BLOCK, "from the beginning");
        pool.close().await.unwrap();
    });
}
