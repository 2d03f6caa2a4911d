//! What is known of SSDs outlives the daemon: the same facts give the same health before a restart and after it.

use hotset_block::ByteRange;
use hotset_cache::config::{PoolKind, limits};
use hotset_cache::{
    Health, Missing, Named, NotUsed, Pool, PoolLimit, PoolReason, PoolStatus, ScrubState, SsdDoubt, SsdReason,
};

use crate::harness::{TestDevice, run};
use crate::world::{MIB, World, read, until, write};

/// Health, why, and what is said of each SSD: the facts that a restart must not change.
fn facts(status: &PoolStatus) -> (Health, Vec<(String, bool, bool, u64)>) {
    let mut ssds: Vec<_> =
        status.ssds.iter().map(|ssd| (ssd.path.clone(), ssd.online, ssd.failed, ssd.read_errors)).collect();
    ssds.sort();
    (status.health, ssds)
}

fn named(world: &World, ssds: impl IntoIterator<Item = usize>) -> Vec<Named<TestDevice>> {
    let all = world.named();
    let wanted: Vec<usize> = ssds.into_iter().collect();
    all.into_iter().enumerate().filter(|(index, _)| wanted.contains(index)).map(|(_, named)| named).collect()
}

// proves: F2, P10
#[test]
fn an_ssd_that_failed_is_not_forgotten_when_everything_has_two_copies_again_nor_by_a_restart() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = world.attached(&pool).await;
        world.ssds[0].vanish();
        for page in 0..50 {
            write(&volume, page, 3).await;
        }
        let healed = || pool.status().rebuild.is_none() && !pool.status().ssds[0].online;
        until(&env, "all of it has two copies again", healed).await;
        let before = pool.status();
        let missed = PoolReason::Missed { paths: vec!["ssd0".to_owned()] };
        assert!(before.health == Health::Degraded && before.reason == Some(missed), "{:?}", before.reason);
        let failed = before.ssds[0].uuid;
        let open = async || {
            let state = Some(TestDevice::from(world.state()));
            Pool::open(env.clone(), named(&world, [1, 2]), state, Missing::Leave).await.unwrap()
        };
        // After a kill, and after a clean stop.
        std::mem::forget((pool, volume));
        let pool = open().await;
        assert_eq!(facts(&pool.status()), facts(&before), "{:?}", pool.status().reason);
        let told = why_not_used(&pool.status(), failed);
        let Some(SsdReason::OutOfUse { why }) = &before.ssds[0].reason else { panic!("{:?}", before.ssds[0].reason) };
        assert_eq!(told, NotUsed::FailedBefore { how: why.to_string() }, "what it failed of is on record");
        pool.close().await.unwrap();
        drop(pool);
        let pool = open().await;
        assert_eq!(facts(&pool.status()), facts(&before), "{:?}", pool.status().reason);
        assert_eq!(why_not_used(&pool.status(), failed), told, "and stays what it is, however often that is read");
        pool.remove_ssds(&[failed]).await.unwrap();
        assert_eq!((pool.status().health, pool.status().ssds.len()), (Health::Good, 2), "{:?}", pool.status().reason);
        pool.close().await.unwrap();
        drop(pool);
        let pool = open().await;
        assert_eq!((pool.status().health, pool.status().ssds.len()), (Health::Good, 2), "{:?}", pool.status().reason);
    });
}

#[test]
fn an_ssd_that_is_back_where_the_pool_has_no_place_for_it_is_left_out_by_a_start_and_told_of() {
    run(async |env| {
        let world = World::new(env.clone(), &[8 * MIB; limits::SSDS_MAX + 1], 64 * MIB);
        let (newcomer, ssds) = world.ssds.split_last().expect("there are some");
        let pool = world.with(ssds).create(PoolKind::Read).await;
        let left = pool.status().ssds[0].uuid;
        pool.close().await.unwrap();
        let pool = world.with(&ssds[1..]).open(Missing::Leave).await;
        let device = TestDevice::from(newcomer.clone());
        pool.add_ssds(vec![Named { path: "new".into(), device }]).await.unwrap();
        pool.close().await.unwrap();
        for missing in [Missing::Leave, Missing::Refuse] {
            let pool = world.open(missing).await;
            let online = pool.status().ssds.iter().filter(|ssd| ssd.online).count();
            assert_eq!(online, limits::SSDS_MAX);
            assert_eq!(why_not_used(&pool.status(), left), NotUsed::NoRoom { limit: PoolLimit::Ssds });
            pool.close().await.unwrap();
        }
    });
}

fn why_not_used(status: &PoolStatus, uuid: u128) -> NotUsed {
    let ssd = status.ssds.iter().find(|ssd| ssd.uuid == uuid).expect("the pool knows it");
    match &ssd.reason {
        Some(SsdReason::NotUsed { why }) => why.clone(),
        other => panic!("{other:?}"),
    }
}

// proves: F1, P10
#[test]
fn an_ssd_that_failed_in_the_moment_before_a_kill_is_known_at_the_next_start() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let volume = world.attached(&pool).await;
        world.ssds[0].vanish();
        for block in 0..50 {
            volume.populate(ByteRange::at(block * (64 << 10), 4096)).await.unwrap();
        }
        until(&env, "it has failed", || !pool.status().ssds[0].online).await;
        let before = pool.status();
        std::mem::forget((pool, volume));
        let state = Some(TestDevice::from(world.state()));
        let pool = Pool::open(env.clone(), named(&world, [1]), state, Missing::Leave).await.unwrap();
        assert_eq!(facts(&pool.status()), facts(&before), "{:?}", pool.status().reason);
    });
}

// proves: F1, P10
#[test]
fn an_ssd_with_a_hundred_bad_reads_is_to_be_replaced_also_after_a_restart() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let volume = world.attached(&pool).await;
        volume.populate(hotset_block::ByteRange::at(0, 200 * 65536)).await.unwrap();
        pool.close().await.unwrap();
        drop((pool, volume));
        let (pool, volume) = world.reopened(Missing::Refuse).await;
        assert_eq!(pool.status().health, Health::Good);
        world.rot(0).await;
        for block in 0..150 {
            read(&volume, block * 16).await;
        }
        let before = pool.status();
        let errors = before.ssds[0].read_errors;
        let doubts = PoolReason::Doubts(vec![("ssd0".to_owned(), SsdDoubt::Misread { reads: errors })]);
        let told = before.reason == Some(doubts);
        assert!(errors >= 100 && before.health == Health::Degraded && told, "{errors}: {:?}", before.reason);
        pool.close().await.unwrap();
        drop((pool, volume));
        let after = world.open(Missing::Refuse).await.status();
        assert_eq!(facts(&after), facts(&before), "{:?}", after.reason);
    });
}

// proves: D15
#[test]
fn what_a_scrub_found_is_known_after_a_restart() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = world.attached(&pool).await;
        for page in 0..20 {
            write(&volume, page, 3).await;
        }
        world.rot(0).await;
        let found = pool.scrub().await.unwrap();
        assert!(found.state == ScrubState::Finished && found.repaired_pages > 0, "{found:?}");
        std::mem::forget((pool, volume));
        assert_eq!(world.open(Missing::Refuse).await.status().scrub, found);
    });
}

// proves: P10
#[test]
fn a_change_that_was_answered_with_an_error_is_not_so_at_the_next_start() {
    run(async |env| {
        let world = World::new(env, &[32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let volume = world.attached(&pool).await;
        let state = world.state().unplug();
        // One of two members takes it, which is no majority.
        let refused = volume.rename("other".parse().unwrap()).await.unwrap_err();
        assert!(refused.to_string().contains("1 of 2"), "{refused}");
        std::mem::forget((pool, volume));
        world.state().plug(state);
        let (pool, volume) = world.reopened(Missing::Refuse).await;
        assert_eq!(pool.status().volumes, [volume.name()]);
    });
}
