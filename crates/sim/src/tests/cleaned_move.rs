//! Pages are cleaned while they are on their way to the head of the log, the row where they were is freed, and then a host
//! writes past the cache. After a crash nothing older shows, though the head of the log has it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::device::SimDevice;
use crate::executor::SimEnv;
use hotset_block::{Buf, Env};
use hotset_cache::config::{PoolKind, VolumeSettings, WriteMode};
use hotset_cache::planted::{Planted, plant};
use hotset_cache::{Drained, Durability, Missing, Pool, Reattached, Volume};

use crate::tests::stage::{PAGE, World, named, open, run_one};

const SEEDS: u64 = 100;
/// Pages that are moved and cleaned at the same time.
const PAGES: u64 = 192;
/// Writes of the other volume between two of them.
const APART: u64 = 20;

fn moved_bytes(volume: &Volume<SimEnv>) -> u64 {
    volume.status().stats.moved_bytes
}

/// The other volume is written to until some pages have been moved; what is moved next is on its way then.
async fn write_until_moved(world: &World) {
    let stop = Rc::new(Cell::new(false));
    let (env, volume, stopped) = (world.env.clone(), world.sound.clone(), Rc::clone(&stop));
    world.env.spawn(async move {
        for page in (0..PAGES).cycle().take_while(|_| !stopped.get()) {
            let page_of_it: Buf = env.buffers().take_zeroed(4096);
            volume.write(page * PAGE, page_of_it, Durability::Volatile).await.unwrap();
        }
    });
    let before = moved_bytes(&world.volume);
    while moved_bytes(&world.volume) == before {
        world.env.sleep(Duration::from_micros(20)).await;
    }
    stop.set(true);
}

async fn clean_what_is_on_its_way(world: World) {
    for page in 0..PAGES {
        world.write(&world.volume, page, 1).await.unwrap();
        for other in 0..APART {
            world.write(&world.sound, other, 1).await.unwrap();
        }
    }
    write_until_moved(&world).await;
    assert_eq!(world.pool.drain(&world.volume.name()).await.unwrap(), Drained::Clean);
    // Their row is freed.
    world.env.sleep(Duration::from_secs(1)).await;
    let settings = VolumeSettings { write_mode: WriteMode::WriteAround, ..world.volume.settings() };
    world.volume.set(settings).await.unwrap();
    for page in 0..PAGES {
        world.write(&world.volume, page, 2).await.unwrap();
    }
    world.volume.flush().await.unwrap();

    let World { env, ssds, state, pool, backing, .. } = world;
    pool.abandon();
    ssds.iter().chain([&state, &backing]).for_each(|disk| disk.kill());
    let state = SimDevice::open(&state);
    let pool = Pool::open(env.clone(), named(&ssds), Some(state), Missing::Refuse).await.unwrap();
    let volume = open(&env, &backing);
    assert!(matches!(pool.reattach(&volume).await.unwrap(), Reattached::Warm { .. }));
    for page in 0..PAGES {
        let read = volume.read(hotset_block::ByteRange::at(page * PAGE, PAGE)).await.unwrap();
        assert_eq!(read[0], 2, "page {page}");
    }
}

fn run() {
    for seed in 0..SEEDS {
        run_one(seed, PoolKind::ReadWrite, &["one", "two"], clean_what_is_on_its_way);
    }
}

// proves: D7, D11
#[test]
fn what_is_cleaned_on_its_way_to_the_head_of_the_log_does_not_come_back() {
    run();
}

// Random worlds need more luck for it than there are seeds (seeds.rs).
#[test]
fn a_page_that_is_cleaned_on_its_way_and_forgotten_is_found() {
    plant(Some(Planted::CleanedMoveForgotten));
    let found = std::panic::catch_unwind(run).is_err();
    plant(None);
    assert!(found, "it was not found");
}
