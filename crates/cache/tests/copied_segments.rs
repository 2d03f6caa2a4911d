//! A segment of the write log is copied to a third SSD, while one of its copies is bad where nothing that hosts read can tell.

use hotset_block::{Buf, Device, MemoryDevice};
use hotset_cache::config::PoolKind;
use hotset_cache::{Missing, Named, Removed};

use crate::harness::{TestDevice, run};
use crate::world::{MIB, World, read, write};

const PAGES: u64 = 800;

/// By `docs/FORMAT.md`.
const SEGMENT_MAGIC: &[u8] = b"HOTSETls";
const BATCH_MAGIC: &[u8] = b"HOTSETlb";
const SUMMARY_MAGIC: &[u8] = b"HOTSETlm";

fn byte_of(page: u64) -> u8 {
    u8::try_from(page % 251).unwrap() + 1
}

/// What an SSD has of a sealed row.
struct Sealed {
    batches: Vec<u64>,
    summary: u64,
}

async fn sealed_segments(ssd: &MemoryDevice) -> Vec<Sealed> {
    let content = ssd.read(0, Buf::zeroed(usize::try_from(ssd.info().size_bytes).unwrap())).await.0;
    let (mut sealed, mut batches) = (Vec::new(), Vec::new());
    for (number, page) in (0..).zip(content.chunks_exact(4096)) {
        if page.starts_with(SEGMENT_MAGIC) {
            batches.clear();
        } else if page.starts_with(BATCH_MAGIC) {
            batches.push(number * 4096);
        } else if page.starts_with(SUMMARY_MAGIC) {
            sealed.push(Sealed { batches: std::mem::take(&mut batches), summary: number * 4096 });
        }
    }
    sealed
}

/// A bit of a page is another, and the SSD does not know.
async fn flip(ssd: &MemoryDevice, place: u64) {
    let mut page = ssd.read(place, Buf::zeroed(4096)).await.0;
    page[100] ^= 1;
    ssd.write(place, page).await.1.unwrap();
}

/// No summary can be read, and headers of batches are wrong on one of the two SSDs. `removed` is replaced by a third one; then the other
/// one is away.
async fn assert_copied_from_the_good_one(world: &World, bad: usize, removed: usize) {
    let fresh = MemoryDevice::new(32 * MIB, 4096);
    let pool = world.create(PoolKind::ReadWrite).await;
    let volume = world.attached(&pool).await;
    for page in 0..PAGES {
        write(&volume, page, byte_of(page)).await;
    }
    let mut headers = 0;
    for (index, ssd) in world.ssds.iter().enumerate() {
        for segment in sealed_segments(ssd).await {
            flip(ssd, segment.summary).await;
            if index == bad {
                flip(ssd, segment.batches[segment.batches.len() / 2]).await;
                headers += 1;
            }
        }
    }
    assert!(headers > 0, "no row is sealed");
    let third = Named { path: "ssd2".to_owned(), device: TestDevice::from(fresh.clone()) };
    pool.add_ssds(vec![third]).await.unwrap();
    let uuid = pool.status().ssds[removed].uuid;
    assert_eq!(pool.remove_ssds(&[uuid]).await.unwrap(), Removed::Done);
    assert_eq!(volume.status().dirty_bytes, PAGES * 4096, "all of it was copied");
    std::mem::forget((pool, volume));
    let (pool, volume) = world.with(&[fresh]).reopened(Missing::Leave).await;
    for page in 0..PAGES {
        assert_eq!(read(&volume, page).await, byte_of(page), "page {page}: {}", pool.status().recovery);
    }
}

// The next start found no more of the row than what lay before the first wrong header.
// proves: F2, F5
#[test]
fn a_header_that_is_wrong_on_one_copy_is_copied_from_the_other_also_without_a_summary() {
    for (bad, removed) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        run(async |env| {
            let world = World::new(env, &[32 * MIB, 32 * MIB], 64 * MIB);
            assert_copied_from_the_good_one(&world, bad, removed).await;
        });
    }
}
