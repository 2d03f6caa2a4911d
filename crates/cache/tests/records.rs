//! Member records where changes are refused, or cut.

use hotset_block::{Buf, Device, MemoryDevice};
use hotset_cache::config::{PoolKind, VolumeSettings, VolumeSpec};
use hotset_cache::{ErrorKind, Health, Missing, Pool, PoolReason, Volume};

use crate::harness::{Bad, TestDevice, run};
use crate::world::{MIB, World, until};

/// The number of the newest catalogue on a member, and its area; where the catalogues begin there, and the bytes of an area.
async fn newest_catalogue(member: &MemoryDevice, (offset, area_bytes): (u64, u64)) -> (u64, u64) {
    let number = async |area: u64| {
        let (head, read) = member.read(offset + area * area_bytes, Buf::zeroed(4096)).await;
        read.unwrap();
        u64::from_le_bytes(head[32..40].try_into().unwrap())
    };
    let numbers = [number(0).await, number(1).await];
    if numbers[0] > numbers[1] { (numbers[0], 0) } else { (numbers[1], 1) }
}

// A record that was refused used up a number, and the next one was written over the newest that there was.
// proves: F7
#[test]
fn a_power_cut_in_a_change_after_a_refused_one_leaves_the_catalogue_before_both() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let open = |number: usize| {
            let (name, backing) = (format!("v{number}").parse().unwrap(), "x".repeat(4000));
            let spec = VolumeSpec { name, backing, settings: VolumeSettings::default() };
            Volume::open(env.clone(), spec, TestDevice::from(MemoryDevice::new(MIB, 512))).unwrap()
        };
        let mut attached = Vec::new();
        let refused = loop {
            let volume = open(attached.len());
            match pool.attach(&volume).await {
                Ok(_) => attached.push(volume),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
        // The next change is cut by a power failure on all members at once.
        attached[0].rename("renamed".parse().unwrap()).await.unwrap();
        std::mem::forget(pool);
        let of_state = (384 << 10, 4 << 20);
        let (_, area) = newest_catalogue(&world.state(), of_state).await;
        let of_ssd = (512 << 10, 128 << 10);
        let members = [(world.state(), of_state), (world.ssds[0].clone(), of_ssd), (world.ssds[1].clone(), of_ssd)];
        for (member, (offset, area_bytes)) in members {
            let torn = Buf::zeroed(4096);
            member.write(offset + area * area_bytes, torn).await.1.unwrap();
        }
        let pool = world.open(Missing::Refuse).await;
        assert_eq!(pool.status().volumes.len(), attached.len(), "all that were attached are there");
        assert_eq!(pool.status().volumes[0].as_str(), "v0");
    });
}

// proves: F11, F12
#[test]
fn a_state_directory_that_takes_records_again_gets_what_it_lacks_without_another_change() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::Read).await;
        let volume = world.attached(&pool).await;
        let of_state = (384 << 10, 4 << 20);
        let bytes = world.state().unplug();
        volume.rename("renamed".parse().unwrap()).await.unwrap();
        let status = pool.status();
        assert_eq!((status.health, status.reason), (Health::Degraded, Some(PoolReason::StateIsBehind)));
        world.state().plug(bytes);
        let (before, _) = newest_catalogue(&world.state(), of_state).await;
        until(&env, "the state directory has it", || pool.status().health == Health::Good).await;
        assert_eq!(newest_catalogue(&world.state(), of_state).await.0, before + 1, "the same number as on the SSDs");
        pool.close().await.unwrap();
        drop((pool, volume));
        let pool = world.open(Missing::Refuse).await;
        assert_eq!(pool.status().volumes[0].as_str(), "renamed");
    });
}

// Its votes counted although it could not be read, and a name that was answered was gone.
// proves: F7
#[test]
fn a_member_whose_records_cannot_be_read_proves_nothing() {
    run(async |env| {
        let world = World::new(env.clone(), &[16 * MIB, 16 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = world.attached(&pool).await;
        let bytes = world.state().unplug();
        volume.rename("renamed".parse().unwrap()).await.unwrap();
        std::mem::forget((pool, volume));
        world.state().plug(bytes);
        let with_unreadable = || {
            let named = world.named();
            for area in 0..2 {
                named[0].device.become_bad(Bad::FailsToReadAt((512 << 10) + area * (128 << 10)));
            }
            named
        };
        let open =
            async |ssds, missing| Pool::open(env.clone(), ssds, Some(TestDevice::from(world.state())), missing).await;
        let mut alone = with_unreadable();
        alone.truncate(1);
        let Err(error) = open(alone, Missing::Leave).await else { panic!("it has a name that was changed") };
        assert!(error.kind == ErrorKind::Gone && error.to_string().contains("member records"), "{error}");
        let pool = open(with_unreadable(), Missing::Refuse).await.expect("the other one has all");
        assert_eq!(pool.status().volumes[0].as_str(), "renamed");
    });
}
