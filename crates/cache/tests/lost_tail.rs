//! An SSD that loses what it had flushed last: the end of its slot index reads as zeroes, or as what was there before, when
//! the daemon has died. Another member knows how far it had come.

use std::time::Duration;

use hotset_block::{Buf, Device, Env, MemoryDevice};
use hotset_cache::config::PoolKind;
use hotset_cache::{ErrorKind, Health, Missing, Pool, PoolReason, SsdDoubt, SsdReason, Volume};

use crate::harness::{Bad, TestDevice, TestEnv, run};
use crate::world::{MIB, World, read, until, write};

/// Of a sector of a slot index, by `docs/FORMAT.md`: its magic, and that it is of the journal.
const INDEX_MAGIC: &[u8] = b"HSix";
const JOURNAL_PLACE: &[u8] = &[1, 0];
/// Where the areas of the witness record lie among the records.
const WITNESS_AREAS: [u64; 2] = [52 << 10, 116 << 10];
/// Pages of a block.
const BLOCK: u64 = 16;
const BLOCKS: u64 = 8;

async fn content(ssd: &MemoryDevice) -> Buf {
    let bytes = usize::try_from(ssd.info().size_bytes).unwrap();
    ssd.read(0, Buf::zeroed(bytes)).await.0
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Where the newest sector of the SSD's journal lies, and which it is.
async fn last_sector(ssd: &MemoryDevice) -> Option<(u64, u64)> {
    let content = content(ssd).await;
    let sectors = (0..).zip(content.chunks_exact(4096));
    let journal = sectors.filter(|(_, page)| page.starts_with(INDEX_MAGIC) && &page[8..10] == JOURNAL_PLACE);
    journal.map(|(place, page)| (number(&page[20..28]), place)).max()
}

/// A pool that was opened again, and believes the first pages of the volume.
async fn warm(env: &TestEnv, ssds: usize) -> (World, Pool<TestEnv>, Volume<TestEnv>) {
    let world = World::new(env.clone(), &vec![16 * MIB; ssds], 64 * MIB);
    let pool = world.create(PoolKind::Read).await;
    let mut settings = pool.status().settings;
    settings.populate_on_read = 1;
    pool.set(settings).await.unwrap();
    let volume = world.attached(&pool).await;
    for block in 0..BLOCKS {
        read(&volume, block * BLOCK).await;
    }
    until(env, "every block is cached", || pool.status().slots_used == BLOCKS).await;
    pool.close().await.unwrap();
    drop((pool, volume));
    let (pool, volume) = world.reopened(Missing::Refuse).await;
    assert_eq!((pool.status().slots_used, pool.status().health), (BLOCKS, Health::Good));
    (world, pool, volume)
}

/// The witness records in the state directory, by `docs/FORMAT.md`.
async fn witness_of_state(world: &World) -> Vec<u8> {
    let mut both = Vec::new();
    for area in WITNESS_AREAS {
        both.extend_from_slice(&world.state().read(area, Buf::zeroed(12 << 10)).await.0);
    }
    both
}

/// What an SSD finds in place of the last sector of its journal.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Zeroes,
    OldContent,
}

/// A cached page is written around, the daemon dies, and the SSD that has it loses the sector that says so. Answers which.
async fn write_and_lose(world: &World, pool: Pool<TestEnv>, volume: Volume<TestEnv>, lost: Lost) -> usize {
    let mut before = Vec::new();
    for ssd in &world.ssds {
        before.push((last_sector(ssd).await, content(ssd).await));
    }
    let told = witness_of_state(world).await;
    write(&volume, 0, 9).await;
    if world.ssds.len() == 1 {
        // The state directory is told, but not waited for.
        while witness_of_state(world).await == told {
            world.env.sleep(Duration::from_millis(1)).await;
        }
    }
    std::mem::forget((pool, volume));
    for (index, (ssd, (sector, old))) in world.ssds.iter().zip(before).enumerate() {
        let last = last_sector(ssd).await;
        if last == sector {
            continue;
        }
        let place = last.unwrap().1 * 4096;
        let mut page = Buf::zeroed(4096);
        if matches!(lost, Lost::OldContent) {
            let start = usize::try_from(place).unwrap();
            page.copy_from_slice(&old[start..start + 4096]);
        }
        ssd.write(place, page).await.1.unwrap();
        return index;
    }
    panic!("no journal took the drop");
}

async fn assert_told_and_not_believed(env: &TestEnv, ssds: usize, lost: Lost) {
    let (world, pool, volume) = warm(env, ssds).await;
    let loser = write_and_lose(&world, pool, volume, lost).await;
    let (pool, volume) = world.reopened(Missing::Refuse).await;
    let status = pool.status();
    assert_eq!(read(&volume, 0).await, 9, "{lost:?}: {}", status.recovery);
    assert!(status.recovery.contains("lost the end of its slot index"), "{}", status.recovery);
    let doubts = PoolReason::Doubts(vec![(format!("ssd{loser}"), SsdDoubt::LostWrites)]);
    assert_eq!((status.health, status.reason), (Health::Degraded, Some(doubts)));
    let of_ssd = &status.ssds[loser];
    assert!(of_ssd.lost_writes && of_ssd.reason == Some(SsdReason::Doubt(SsdDoubt::LostWrites)), "{of_ssd:?}");
    if ssds > 1 {
        assert!(status.slots_used > 0, "what the other SSD holds is believed");
    }
    // It stays on record, after a clean stop and after a kill.
    pool.close().await.unwrap();
    drop((pool, volume));
    let pool = world.open(Missing::Refuse).await;
    assert!(pool.status().health == Health::Degraded && pool.status().ssds[loser].lost_writes, "{:?}", pool.status());
    std::mem::forget(pool);
    let pool = world.open(Missing::Refuse).await;
    assert!(pool.status().health == Health::Degraded && pool.status().ssds[loser].lost_writes, "{:?}", pool.status());
}

// proves: F7
#[test]
fn an_ssd_that_lost_the_end_of_its_slot_index_is_not_believed_where_another_ssd_knows() {
    run(async |env| {
        for lost in [Lost::Zeroes, Lost::OldContent] {
            assert_told_and_not_believed(&env, 2, lost).await;
        }
    });
}

// proves: F7
#[test]
fn an_ssd_that_lost_the_end_of_its_slot_index_is_not_believed_where_the_state_directory_knows() {
    run(async |env| {
        for lost in [Lost::Zeroes, Lost::OldContent] {
            assert_told_and_not_believed(&env, 1, lost).await;
        }
    });
}

// Only the member whose record cannot be read may know what another one lost.
// proves: F7
#[test]
fn where_the_record_of_what_another_ssd_lost_cannot_be_read_nothing_is_believed() {
    run(async |env| {
        let (world, pool, volume) = warm(&env, 2).await;
        let loser = write_and_lose(&world, pool, volume, Lost::Zeroes).await;
        let with_unreadable = || {
            let named = world.named();
            for area in WITNESS_AREAS {
                named[1 - loser].device.become_bad(Bad::FailsToReadAt((128 << 10) + area));
            }
            named
        };
        let open = async |missing| {
            Pool::open(env.clone(), with_unreadable(), Some(TestDevice::from(world.state())), missing).await
        };
        let Err(error) = open(Missing::Refuse).await else { panic!("another time it may be read") };
        let named = error.to_string().contains(&format!("SSD ssd{}: how far the other SSDs had come", 1 - loser));
        assert!(error.kind == ErrorKind::Media && named, "{error}");
        let pool = open(Missing::Leave).await.expect("it need not be warm");
        let volume = world.volume();
        pool.reattach(&volume).await.unwrap();
        let status = pool.status();
        assert_eq!((read(&volume, 0).await, status.slots_used), (9, 0), "{}", status.recovery);
        assert!(status.recovery.contains("cannot be read on another member"), "{}", status.recovery);
        pool.close().await.unwrap();
    });
}

// proves: F7
#[test]
fn what_an_ssd_lost_is_noticed_again_wherever_the_start_that_noticed_it_was_killed() {
    run(async |env| {
        let (world, pool, volume) = warm(&env, 2).await;
        write_and_lose(&world, pool, volume, Lost::Zeroes).await;
        for turns in 0.. {
            let killed = world.copied();
            let ended = killed.die_while_opening(turns).await;
            let next = killed.moved();
            let (pool, volume) = next.reopened(Missing::Refuse).await;
            assert_eq!(read(&volume, 0).await, 9, "killed after {turns} turns: {}", pool.status().recovery);
            std::mem::forget((pool, volume));
            // Whom nobody stopped keeps handles on the devices, but no memory.
            drop(next.moved());
            if ended {
                assert!(turns > 20, "{turns} turns are no start");
                break;
            }
        }
    });
}
