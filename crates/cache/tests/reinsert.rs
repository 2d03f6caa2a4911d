//! Clean pages go back to the slot of their block when the log forgets them.

use hotset_block::ByteRange;
use hotset_cache::config::PoolKind;
use hotset_cache::{Flushed, Missing, Pool, SlotCopy, Volume};

use crate::harness::{TestEnv, run};
use crate::world::{MIB, World, read, until, write};

const BLOCK_PAGES: u64 = 16;
/// Pages that are written to have rows freed, until then.
const OTHERS: u64 = 200_000;

fn slot_of(volume: &Volume<TestEnv>, page: u64) -> SlotCopy {
    volume.explain(page * 4096).unwrap().in_pool.unwrap().in_slot.expect("its block is in a slot")
}

/// A volume whose first block is in a published slot.
async fn with_a_slot(env: &TestEnv, world: &World) -> (Pool<TestEnv>, Volume<TestEnv>) {
    let pool = world.create(PoolKind::ReadWrite).await;
    let volume = world.attached(&pool).await;
    volume.populate(ByteRange::at(0, BLOCK_PAGES * 4096)).await.unwrap();
    until(env, "the slot is published", || pool.status().slots_unpublished == 0).await;
    (pool, volume)
}

/// Writes other pages, and has them cleaned, until the log has forgotten what it had of this one: that is in its slot then.
async fn until_back(volume: &Volume<TestEnv>, page: u64) {
    for other in 0..OTHERS {
        write(volume, 1000 + other % 4000, 1).await;
        if other % 64 == 63 {
            assert_eq!(volume.flush_now().await.unwrap(), Flushed::Durable);
            if slot_of(volume, page).has_page {
                return;
            }
        }
    }
    panic!("page {page} does not come back: {:?}", volume.explain(page * 4096));
}

// proves: D6
#[test]
fn what_was_overwritten_is_a_hit_again_when_the_log_has_forgotten_it() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let (pool, volume) = with_a_slot(&env, &world).await;
        for fill in [7, 8] {
            write(&volume, 3, fill).await;
            assert!(!slot_of(&volume, 3).has_page, "the slot has what was written before");
            until_back(&volume, 3).await;
            let before = volume.status().stats;
            assert_eq!((read(&volume, 3).await, read(&volume, 4).await), (fill, 0));
            let after = volume.status().stats;
            assert_eq!(after.read_hits - before.read_hits, 2);
        }
        pool.close().await.unwrap();
    });
}

// proves: D8, F7
#[test]
fn what_came_back_is_not_believed_after_a_restart_and_the_rest_of_its_block_is() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let (pool, volume) = with_a_slot(&env, &world).await;
        write(&volume, 3, 7).await;
        until_back(&volume, 3).await;
        for is_stopped in [false, true] {
            if is_stopped {
                pool.close().await.unwrap();
            }
            let world = world.copied();
            let (pool, volume) = world.reopened(Missing::Refuse).await;
            assert_eq!((slot_of(&volume, 3).has_page, slot_of(&volume, 4).has_page), (false, true), "{is_stopped}");
            assert_eq!((read(&volume, 3).await, read(&volume, 4).await), (7, 0));
            assert_eq!(pool.status().ssds.iter().map(|ssd| ssd.read_errors).sum::<u64>(), 0);
        }
    });
}

#[test]
fn a_scrub_finds_nothing_wrong_with_what_came_back() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let (pool, volume) = with_a_slot(&env, &world).await;
        write(&volume, 3, 7).await;
        until_back(&volume, 3).await;
        pool.scrub().await.unwrap();
        assert!(slot_of(&volume, 3).has_page);
        assert_eq!(read(&volume, 3).await, 7);
        assert_eq!(pool.status().ssds.iter().map(|ssd| ssd.read_errors).sum::<u64>(), 0);
        pool.close().await.unwrap();
    });
}
