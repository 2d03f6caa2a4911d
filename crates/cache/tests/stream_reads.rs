//! Streams of clean data, which slow SSDs share with the backing device.

use std::ops::Range;
use std::time::Duration;

use hotset_block::{ByteRange, MemoryDevice};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Named, Pool, PoolSpec, STATE_BYTES, Volume, VolumeStats};

use crate::harness::{Bad, TestDevice, TestEnv, run};
use crate::world::{MIB, write};

const REQUEST_BYTES: u64 = 256 << 10;
/// In the cache, of a volume that is larger.
const CACHED_REQUESTS: u64 = 32;
/// A stream is one from its third request on.
const CUTOFF_BYTES: u64 = REQUEST_BYTES * 2;
/// Longer than it takes the backing device.
const SLOW: Duration = Duration::from_millis(6);

/// A volume on a device that answers at once, the first part of which is in a pool of SSDs that are slow to read.
struct Cached {
    volume: Volume<TestEnv>,
    backing: TestDevice,
    pool: Pool<TestEnv>,
}

impl Cached {
    async fn new(env: &TestEnv) -> Self {
        let content: Vec<u8> = (0..16 * MIB / 4096).flat_map(|page| [fill_of(page); 4096]).collect();
        let backing = TestDevice::holding(&content).await;
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
        let spec = PoolSpec { name: "tank".parse().unwrap(), kind: PoolKind::ReadWrite, settings };
        let ssds = [0, 1].map(|_| TestDevice::new(48 * MIB));
        let named = ssds.iter().map(|ssd| Named { path: "memory".into(), device: ssd.clone() }).collect();
        let state = TestDevice::from(MemoryDevice::new(STATE_BYTES, 512));
        let pool = Pool::create(env.clone(), spec, named, state).await.unwrap();
        let settings = VolumeSettings { read_cutoff_bytes: Some(CUTOFF_BYTES), ..VolumeSettings::default() };
        let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "memory".into(), settings };
        let volume = Volume::open(env.clone(), spec, backing.clone()).unwrap();
        pool.attach(&volume).await.unwrap();
        for request in 0..CACHED_REQUESTS {
            volume.populate(range_of(request)).await.unwrap();
        }
        ssds.iter().for_each(|ssd| ssd.slow_down_reads(env, SLOW));
        backing.take_reads();
        Self { volume, backing, pool }
    }

    /// Reads these requests one after the other, which have to bring what was written last.
    async fn stream(&self, requests: Range<u64>, written: impl Fn(u64) -> u8) {
        for request in requests {
            let range = range_of(request);
            let buf = self.volume.read(range).await.unwrap();
            for (page, bytes) in (range.start / 4096..).zip(buf.chunks(4096)) {
                assert!(bytes.iter().all(|byte| *byte == written(page)), "page {page}");
            }
        }
    }

    fn stats(&self) -> VolumeStats {
        let stats = self.volume.status().stats;
        assert_eq!(stats.reads, stats.read_hits + stats.missed(), "{stats:?}");
        stats
    }
}

fn range_of(request: u64) -> ByteRange {
    ByteRange::at(request * REQUEST_BYTES, REQUEST_BYTES)
}

fn fill_of(page: u64) -> u8 {
    u8::try_from(page % 251).unwrap()
}

#[test]
fn the_backing_device_helps_ssds_that_hold_up_a_stream() {
    run(async |env| {
        let cached = Cached::new(&env).await;
        cached.stream(0..CACHED_REQUESTS, fill_of).await;
        let by_backing = cached.backing.take_reads();
        assert!((1..CACHED_REQUESTS).contains(&by_backing), "{by_backing}: the first ones are of no stream yet");
        assert_eq!(cached.stats().bypassed_reads, by_backing);
        cached.pool.close().await.unwrap();
    });
}

// proves: S1
#[test]
fn what_is_dirty_is_not_read_from_the_backing_device_by_a_stream_either() {
    run(async |env| {
        let cached = Cached::new(&env).await;
        let dirty = |page: u64| page % 80 == 5;
        for page in (0..CACHED_REQUESTS * REQUEST_BYTES / 4096).filter(|page| dirty(*page)) {
            write(&cached.volume, page, 255).await;
        }
        cached.stream(0..CACHED_REQUESTS, |page| if dirty(page) { 255 } else { fill_of(page) }).await;
        assert!(cached.backing.take_reads() > 0, "what has nothing dirty in it");
        cached.pool.close().await.unwrap();
    });
}

#[test]
fn a_stream_is_answered_from_the_ssds_where_the_backing_device_is_not_able_to() {
    for bad in [Bad::FailsAt, Bad::HangsAt] {
        run(async |env| {
            let cached = Cached::new(&env).await;
            let request = CACHED_REQUESTS / 2;
            cached.backing.become_bad(bad(range_of(request).start));
            cached.stream(0..CACHED_REQUESTS, fill_of).await;
            assert!(cached.backing.take_reads() > 0);
            assert_eq!(cached.volume.status().stats.errors, 0);
        });
    }
}
