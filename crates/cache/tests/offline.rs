//! What `hotset recover` finds on a pool's SSDs and writes to the backing devices, on damaged and on forged content.

use hotset_block::{Buf, Device, HostDevice, HostEnv, MemoryDevice};
use hotset_cache::config::PoolKind;
use hotset_cache::offline::Offline;
use hotset_cache::{Durability, Missing, Volume};

use crate::world::{MIB, World, run};

const PAGE: u64 = 4096;

/// Pages in one piece, so that they lie together in the log; each is filled with its number and one more.
async fn write_run(volume: &Volume<HostEnv>, count: u8) {
    let mut pages = Buf::zeroed(usize::from(count) * 4096);
    for (page, fill) in pages.chunks_exact_mut(4096).zip(1..) {
        page.fill(fill);
    }
    volume.write(0, pages, Durability::Durable).await.unwrap();
}

/// The pool's daemon dies with `count` dirty pages, in a row that is sealed: a start has brought it to an end.
async fn killed_with_dirty_pages(env: &HostEnv, count: u8) -> World {
    let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
    let pool = world.create(PoolKind::ReadWrite).await;
    let volume = world.attached(&pool).await;
    write_run(&volume, count).await;
    pool.close().await.unwrap();
    std::mem::forget(world.open(Missing::Refuse).await);
    world
}

async fn content(device: &MemoryDevice) -> Vec<u8> {
    let bytes = usize::try_from(device.info().size_bytes).unwrap();
    device.read(0, Buf::zeroed(bytes)).await.0.to_vec()
}

/// Damages the page that is filled so.
async fn damage(ssd: &MemoryDevice, fill: u8) {
    let bytes = content(ssd).await;
    let page = bytes.chunks_exact(4096).position(|page| page.iter().all(|byte| *byte == fill)).unwrap();
    let mut bad = Buf::zeroed(4096);
    bad.fill(0xEE);
    ssd.write(u64::try_from(page).unwrap() * PAGE, bad).await.1.unwrap();
}

// proves: F7
#[test]
fn a_page_without_a_good_copy_costs_itself_alone_when_dirty_data_is_written_without_a_daemon() {
    run(async |env| {
        let world = killed_with_dirty_pages(&env, 100).await;
        damage(&world.ssds[0], 40).await;
        damage(&world.ssds[1], 40).await;
        let offline = Offline::open(env.clone(), world.named()).await.unwrap();
        let verified = offline.verify(|_| {}).await;
        assert_eq!((verified.good_bytes, verified.lost_bytes), (99 * PAGE, PAGE), "{verified:?}");
        let name = "disk".parse().unwrap();
        let backing = HostDevice::Memory(world.backing());
        let applied = offline.apply(&name, backing, false, |_| {}).await.unwrap();
        assert_eq!((applied.written_bytes, applied.lost_bytes), (99 * PAGE, PAGE));
        for page in 0..100 {
            let expected = if page == 39 { 0 } else { u8::try_from(page).unwrap() + 1 };
            assert_eq!(world.on_backing(page).await, expected, "page {page}");
        }
    });
}

#[test]
fn pages_that_are_bad_on_different_ssds_are_good_on_the_other_ones() {
    run(async |env| {
        let world = killed_with_dirty_pages(&env, 100).await;
        damage(&world.ssds[0], 3).await;
        damage(&world.ssds[1], 7).await;
        let offline = Offline::open(env.clone(), world.named()).await.unwrap();
        let verified = offline.verify(|_| {}).await;
        assert_eq!((verified.good_bytes, verified.one_copy_bytes, verified.lost_bytes), (100 * PAGE, 2 * PAGE, 0));
    });
}
