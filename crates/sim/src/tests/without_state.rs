//! What an administrator asks of a pool whose state directory takes nothing, and whose SSDs are sound.

use hotset_cache::config::PoolKind;
use hotset_cache::{ErrorKind, Removed};

use crate::disk::Faults;
use crate::tests::stage::run_one;

/// Of a change from three SSDs to two, those that stay are two members of four.
// proves: F11, P4, P5
#[test]
fn an_ssd_can_be_removed_while_the_state_directory_takes_nothing() {
    for kind in [PoolKind::Read, PoolKind::ReadWrite] {
        run_one(1, kind, &["ssd0", "ssd1", "ssd2"], async |world| {
            world.write(&world.volume, 0, 1).await.unwrap();
            world.state.set_faults(Faults { write_errors: 1000, ..Faults::default() });
            let removed = world.pool.status().ssds[2].uuid;
            assert_eq!(world.pool.remove_ssds(&[removed]).await, Ok(Removed::Done));
            for page in 0..100 {
                world.write(&world.volume, page, 2).await.unwrap();
            }
            assert_eq!(world.read(&world.volume, 0).await, 2);
        });
    }
}

/// Two of three members become one of two.
// proves: F11
#[test]
fn the_last_but_one_ssd_stays_while_the_state_directory_takes_nothing() {
    run_one(1, PoolKind::Read, &["ssd0", "ssd1"], async |world| {
        world.write(&world.volume, 0, 1).await.unwrap();
        world.state.set_faults(Faults { write_errors: 1000, ..Faults::default() });
        world.volume.rename("renamed".parse().unwrap()).await.unwrap();
        let removed = world.pool.status().ssds[1].uuid;
        let error = world.pool.remove_ssds(&[removed]).await.expect_err("no majority would be left");
        assert!(error.kind == ErrorKind::Refused && error.to_string().contains("state directory"), "{error}");
        for page in 0..100 {
            world.write(&world.volume, page, 2).await.unwrap();
        }
    });
}
