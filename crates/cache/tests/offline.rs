//! What `hotset recover` finds on a pool's SSDs and writes to the backing devices, on damaged and on forged content.

use hotset_block::{Buf, ByteRange, Device, MemoryDevice, ZeroMode};
use hotset_cache::config::PoolKind;
use hotset_cache::offline::{Given, Offline, state_of_pool};
use hotset_cache::{Durability, Error, ErrorKind, Missing, Named, STATE_BYTES, Volume, ZeroEffort};

use crate::harness::{TestDevice, TestEnv, run};
use crate::world::{MIB, World, write};

const PAGE: u64 = 4096;

/// Pages in one piece, so that they lie together in the log; each is filled with its number and one more.
async fn write_run(volume: &Volume<TestEnv>, count: u8) {
    let mut pages = Buf::zeroed(usize::from(count) * 4096);
    for (page, fill) in pages.chunks_exact_mut(4096).zip(1..) {
        page.fill(fill);
    }
    volume.write(0, pages, Durability::Durable).await.unwrap();
}

/// The pool's daemon dies with `count` dirty pages, in a row that is sealed: a start has brought it to an end.
async fn killed_with_dirty_pages(env: &TestEnv, count: u8) -> World {
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
        let backing = TestDevice::from(world.backing());
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

// proves: F8
#[test]
fn dirty_data_is_not_written_over_what_was_changed_without_the_pool_unless_told_to() {
    run(async |env| {
        let world = killed_with_dirty_pages(&env, 100).await;
        let (name, backing) = ("disk".parse().unwrap(), || TestDevice::from(world.backing()));
        let put = async |page: u64| {
            let mut bytes = Buf::zeroed(4096);
            bytes.fill(0x77);
            world.backing().write(page * PAGE, bytes).await.1.unwrap();
        };
        // What is dirty itself may be there already: an earlier call may have come so far.
        put(0).await;
        let offline = Offline::open(env.clone(), world.named()).await.unwrap();
        let applied = offline.apply(&name, backing(), false, |_| {}).await.unwrap();
        assert_eq!(applied.written_bytes, 100 * PAGE);
        put(5).await;
        put(64 * MIB / PAGE - 1).await;
        let refused = offline.apply(&name, backing(), false, |_| {}).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Refused);
        assert!(refused.to_string().contains("at byte 67104768 what the pool saw"), "{refused}");
        assert_eq!(world.on_backing(5).await, 0x77, "nothing was written");
        let applied = offline.apply(&name, backing(), true, |_| {}).await.unwrap();
        assert_eq!((applied.written_bytes, world.on_backing(5).await), (100 * PAGE, 6));
    });
}

/// CRC-32C, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0x82F6_3B78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)))
}

/// Alters what the summary of a segment says of its batches, on both SSDs, and signs it again.
async fn forge_summary(world: &World, alter: impl Fn(&mut [u8])) {
    for ssd in &world.ssds {
        let bytes = content(ssd).await;
        let number = bytes.chunks_exact(4096).position(|page| page.starts_with(b"HOTSETlm")).unwrap();
        let mut page = Buf::zeroed(4096);
        page.copy_from_slice(&bytes[number * 4096..][..4096]);
        alter(&mut page[64..]);
        let signed = checksum(&page[16..]);
        page[8..12].copy_from_slice(&signed.to_le_bytes());
        ssd.write(u64::try_from(number).unwrap() * PAGE, page).await.1.unwrap();
    }
}

/// What of a batch in a summary stands before its entries.
const BATCH: usize = 20;

/// Dirty extents, and what is written of them.
async fn recovered(world: &World) -> (Vec<(u64, u64)>, u64) {
    let offline = Offline::open(world.env.clone(), world.named()).await.unwrap();
    let verified = offline.verify(|_| {}).await;
    let name = "disk".parse().unwrap();
    let applied = offline.apply(&name, TestDevice::from(world.backing()), false, |_| {}).await.unwrap();
    assert_eq!(verified.dirty_bytes, applied.written_bytes + applied.lost_bytes);
    (offline.report().volumes[0].dirty_extents.clone(), applied.written_bytes)
}

#[test]
fn a_summary_whose_batches_lie_nowhere_is_not_believed() {
    run(async |env| {
        for first_page in [0, 200, 1 << 19, 1 << 20, u32::MAX - 40, u32::MAX] {
            let world = killed_with_dirty_pages(&env, 100).await;
            forge_summary(&world, |batches| batches[4..8].copy_from_slice(&first_page.to_le_bytes())).await;
            // The batches themselves say where they are.
            assert_eq!(recovered(&world).await, (vec![(0, 100 * PAGE)], 100 * PAGE), "at {first_page}");
        }
    });
}

#[test]
fn pages_behind_the_end_of_their_volume_are_passed_over() {
    run(async |env| {
        let end = 64 * MIB / PAGE;
        for (page, left) in [(end - 1, 1), (end, 0), (1 << 40, 0), ((1 << 46) - 100, 0)] {
            let world = killed_with_dirty_pages(&env, 40).await;
            let at = BATCH + 9;
            forge_summary(&world, |batches| batches[at..at + 8].copy_from_slice(&page.to_le_bytes())).await;
            let extents = if left > 0 { vec![(page * PAGE, left * PAGE)] } else { Vec::new() };
            assert_eq!(recovered(&world).await, (extents, left * PAGE), "at page {page}");
            // A daemon's start reads the same log.
            let pool = world.open(Missing::Refuse).await;
            assert_eq!(pool.status().write_log.unwrap().dirty_bytes, left * PAGE);
            pool.close().await.unwrap();
        }
    });
}

#[test]
fn zeroes_of_more_pages_than_their_volume_has_are_cut_at_its_end() {
    run(async |env| {
        for count in [1_u32 << 20, u32::MAX] {
            let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
            let pool = world.create(PoolKind::ReadWrite).await;
            let volume = world.attached(&pool).await;
            write_run(&volume, 10).await;
            let range = ByteRange::at(9 * PAGE, PAGE);
            volume.write_zeroes(range, ZeroMode::MayPunch, ZeroEffort::Any, Durability::Durable).await.unwrap();
            pool.close().await.unwrap();
            std::mem::forget((pool, volume));
            std::mem::forget(world.open(Missing::Refuse).await);
            forge_summary(&world, |batches| {
                let length = usize::try_from(u32::from_le_bytes(batches[16..20].try_into().unwrap())).unwrap();
                let zeroes = BATCH + length + BATCH;
                assert_eq!(batches[zeroes], 2, "the second batch is of zeroes");
                batches[zeroes + 25..zeroes + 29].copy_from_slice(&count.to_le_bytes());
            })
            .await;
            assert_eq!(recovered(&world).await, (vec![(0, 64 * MIB)], 64 * MIB));
            assert_eq!((world.on_backing(8).await, world.on_backing(9).await), (9, 0));
        }
    });
}

/// Devices that hold what these hold now.
async fn copies_of(world: &World) -> Vec<Named<TestDevice>> {
    let mut copies = Vec::new();
    for named in world.named() {
        let bytes = named.device.read(0, Buf::zeroed(usize::try_from(named.device.info().size_bytes).unwrap())).await.0;
        let copy = MemoryDevice::new(named.device.info().size_bytes, 4096);
        copy.write(0, bytes).await.1.unwrap();
        copies.push(Named { path: named.path, device: TestDevice::from(copy) });
    }
    copies
}

// proves: F4, F7
#[test]
fn of_dirty_data_that_the_pool_went_on_without_the_state_directory_knows_what_is_old() {
    run(async |env| {
        let world = World::new(env.clone(), &[32 * MIB, 32 * MIB], 64 * MIB);
        let pool = world.create(PoolKind::ReadWrite).await;
        let volume = world.attached(&pool).await;
        write_run(&volume, 3).await;
        let before = copies_of(&world).await;
        // Both SSDs fail, before anything is cleaned; what hosts write then is on the backing device.
        world.ssds[0].vanish();
        world.ssds[1].vanish();
        write(&volume, 3, 9).await;
        write(&volume, 1, 9).await;
        assert_eq!(world.on_backing(1).await, 9);
        std::mem::forget((pool, volume));
        // They are readable again, as they were.
        let again = || -> Vec<Named<TestDevice>> {
            before.iter().map(|ssd| Named { path: ssd.path.clone(), device: ssd.device.clone() }).collect()
        };
        let alone = Offline::open(env.clone(), again()).await.unwrap();
        assert_eq!(alone.report().volumes[0].dirty_bytes, 3 * PAGE, "they know no better");
        assert!(!alone.report().state_read);
        let other = TestDevice::from(MemoryDevice::new(STATE_BYTES, 512));
        let ssds = again();
        let state = state_of_pool(&env, &ssds, vec![other.clone(), TestDevice::from(world.state())]).await;
        assert!(state.is_some() && state_of_pool(&env, &ssds, vec![other]).await.is_none());
        let offline = Offline::open(env.clone(), Given { ssds, unopened: Vec::new(), state }).await.unwrap();
        assert!(offline.report().ssds.iter().all(|ssd| !ssd.member && ssd.awaited), "{:?}", offline.report());
        let verified = offline.verify(|_| {}).await;
        assert_eq!((verified.unavailable_bytes, verified.found_bytes, verified.lost_bytes), (2 * PAGE, 2 * PAGE, 0));
        let backing = TestDevice::from(world.backing());
        let applied = offline.apply(&"disk".parse().unwrap(), backing, false, |_| {}).await.unwrap();
        assert_eq!((applied.written_bytes, world.on_backing(1).await), (2 * PAGE, 9), "what hosts wrote since stays");
        assert_eq!((world.on_backing(0).await, world.on_backing(2).await), (1, 3));
    });
}

// proves: F7
#[test]
fn an_ssd_that_cannot_be_read_is_told_with_its_reason_beside_what_the_others_hold() {
    run(async |env| {
        let world = killed_with_dirty_pages(&env, 10).await;
        world.ssds[0].vanish();
        let unopened = vec![("ssd7".to_owned(), Error::new(ErrorKind::Gone, "no such file"))];
        let given = Given { ssds: world.named(), unopened, state: Some(TestDevice::from(world.state())) };
        let offline = Offline::open(env.clone(), given).await.unwrap();
        let report = offline.report();
        let ssds: Vec<_> =
            report.ssds.iter().map(|ssd| (ssd.path.as_str(), ssd.present, ssd.unreadable.is_some())).collect();
        assert_eq!(ssds, [("ssd1", true, false), ("ssd0", false, true), ("ssd7", false, true)], "{report:?}");
        assert_eq!((report.volumes[0].dirty_bytes, report.doubts.len()), (10 * PAGE, 0), "{:?}", report.doubts);
        assert!(report.problems.iter().any(|problem| problem.contains("ssd7 cannot be read: no such file")));
        world.ssds[1].vanish();
        let error = Offline::<TestEnv>::open(env.clone(), world.named()).await.err().unwrap();
        assert!(error.to_string().contains("ssd0") && error.to_string().contains("ssd1"), "{error}");
    });
}

// proves: F4
#[test]
fn a_row_of_which_no_copy_is_here_may_have_been_newer_than_what_is() {
    run(async |env| {
        let world = killed_with_dirty_pages(&env, 10).await;
        // The second SSD goes on alone, and takes newer data.
        let first = copies_of(&world).await.into_iter().take(1);
        let first: Vec<Named<TestDevice>> = first.collect();
        world.ssds[0].vanish();
        let (pool, volume) = world.reopened(Missing::Leave).await;
        write(&volume, 3, 99).await;
        std::mem::forget((pool, volume));
        let state = Some(TestDevice::from(world.state()));
        let offline = Offline::open(env.clone(), Given { ssds: first, unopened: Vec::new(), state }).await.unwrap();
        let report = offline.report();
        assert!(report.doubts.iter().any(|doubt| doubt.contains("no copy of row")), "{report:?}");
        assert!(report.doubts.iter().all(|doubt| report.problems.contains(doubt)));
    });
}
