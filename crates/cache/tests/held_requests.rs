//! Requests that are held somewhere while others go on: what was answered is so, and what is newer stays.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Buf, Env};
use hotset_cache::config::{PoolKind, VolumeSettings};
use hotset_cache::{Durability, Error, Volume};

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
