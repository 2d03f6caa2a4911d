//! What a hit costs, devices being instant, on one thread; and the memory that slots take.
//!
//! The reads are polled once and must be ready: memory devices complete at once, so what is measured is the work of the
//! cache, the device's copy of the page, and nothing of an executor. The copy and the checksum are shown by themselves.
//! Writes go to devices that keep what they get, and copy nothing. They come from tasks of an executor, whose share is shown
//! by itself.
//! Time is this thread's time on a CPU, so that other processes matter little.

#[path = "worlds/instant.rs"]
mod instant;

use std::cell::Cell;
use std::future::poll_fn;
use std::hint::black_box;
use std::mem;
use std::rc::Rc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::FutureExt as _;
use hotset_block::sync::Event;
use hotset_block::{
    Buf, BufPool, ByteRange, Device as _, Env, Executor, ExecutorOptions, HostDevice, HostEnv, Instant, MemoryDevice,
    copy_for_device,
};
use hotset_cache::advisor::sample::Rate;
use hotset_cache::advisor::tap::Wanted;
use hotset_cache::config::{BlockBytes, IoType, PolicyKind, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::state::{BlockIndex, BlockKey, Counters, Map, Policy, SlotIndex, Streams, VolumeIndex};
use hotset_cache::{DirtyData, Durability, MemoryCache, Named, Pool, PoolSpec, STATE_BYTES, Volume};

use instant::InstantDevice;

const PAGE: u64 = 4096;
const BLOCK: u64 = 64 << 10;
/// The blocks that are cached lie far apart, so that reads of them are as random as reads of a large volume.
const STRIDE: u64 = 4 << 20;
const VOLUME_BYTES: u64 = 4 << 30;
const BLOCKS: u64 = VOLUME_BYTES / STRIDE;
const SSD_BYTES: u64 = 160 << 20;
/// Accesses that a tap keeps between two times, at a rate that is not lowered.
const TAKEN_EVERY: u32 = 4096;
/// Requests between two times that somebody takes what is recorded: five times a second, of 200,000 a second.
const RECORDED_TAKEN_EVERY: u32 = 40_000;
/// Slots of 64 KiB with a header of 4 KiB in 10^9 bytes of SSD.
const SLOTS_PER_GIGABYTE: f64 = 1e9 / (68.0 * 1024.0);

/// The devices are instant; all else is this machine's.
#[derive(Clone)]
struct InstantEnv(HostEnv);

impl Env for InstantEnv {
    type Device = InstantDevice;

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn unix_seconds(&self) -> u64 {
        self.0.unix_seconds()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.0.sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(task);
    }

    fn random(&self) -> u64 {
        self.0.random()
    }

    fn buffers(&self) -> &BufPool {
        self.0.buffers()
    }
}

/// Nanoseconds that this thread has spent on a CPU.
struct CpuTime;

impl CpuTime {
    fn now() -> u64 {
        // Giving way makes the kernel bring its account up to date.
        thread::yield_now();
        let account = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with CONFIG_SCHED_INFO");
        account.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).expect("the first field is a number")
    }
}

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = Duration;

    fn start(&self) -> u64 {
        Self::now()
    }

    fn end(&self, start: u64) -> Duration {
        Duration::from_nanos(Self::now() - start)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A fixed sequence of offsets (xorshift64): the first page of each cached block. So little is read that it stays in
/// the processor's cache: the device is to be instant.
fn offsets() -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % BLOCKS * STRIDE
    }
}

fn settings(checksums: bool) -> PoolSettings {
    let mut settings = PoolSettings::preset(PoolKind::Read, IoType::Custom);
    settings.block_bytes = BlockBytes::new(BLOCK).expect("64 KiB is a block size");
    settings.checksums = checksums;
    settings
}

fn volume_spec() -> VolumeSpec {
    VolumeSpec {
        name: "bench".parse().expect("a volume name"),
        backing: "memory".to_owned(),
        settings: VolumeSettings::default(),
    }
}

/// A volume with many blocks in the cache.
async fn cached_volume(env: &HostEnv, checksums: bool) -> (Pool<HostEnv>, Volume<HostEnv>) {
    let memory = |bytes| HostDevice::Memory(MemoryDevice::new(bytes, 512));
    let name = "bench".parse().expect("a pool name");
    let spec = PoolSpec { name, kind: PoolKind::Read, settings: settings(checksums) };
    let ssd = Named { path: "memory".to_owned(), device: memory(SSD_BYTES) };
    let pool = Pool::create(env.clone(), spec, vec![ssd], memory(STATE_BYTES)).await.expect("the SSD fits");
    let volume = Volume::open(env.clone(), volume_spec(), memory(VOLUME_BYTES)).expect("the settings fit");
    pool.attach(&volume).await.expect("there is room for a volume");
    for offset in (0..BLOCKS).map(|block| block * STRIDE) {
        volume.populate(ByteRange::at(offset, BLOCK)).await.expect("the volume has this range");
    }
    assert_eq!(volume.status().cache_used_bytes, BLOCKS * BLOCK, "everything is cached");
    (pool, volume)
}

fn hits(criterion: &mut Criterion<CpuTime>) {
    for (name, checksums) in [("hit_4k_with_checksums", true), ("hit_4k_without_checksums", false)] {
        let executor = Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring");
        executor.run(async |env| {
            let (pool, volume) = cached_volume(&env, checksums).await;
            let mut next = offsets();
            criterion.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let read = volume.read(ByteRange::at(next(), PAGE)).now_or_never();
                    read.expect("a hit in memory is ready at once").expect("memory does not fail")
                });
            });
            let stats = volume.status().stats;
            assert_eq!(stats.reads, stats.read_hits, "only hits were measured");
            pool.close().await.expect("memory does not fail");
        });
    }
}

/// The same while the advisor watches every block, taking what was kept as often as a daemon does at that rate; while requests are
/// recorded; and what memory answers.
fn watched_and_in_memory(criterion: &mut Criterion<CpuTime>) {
    let executor = Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring");
    executor.run(async |env| {
        let (pool, volume) = cached_volume(&env, true).await;
        let wanted = Wanted { block_bytes: settings(true).block_bytes, rate: Some(Rate::ALL) };
        let (mut next, mut hits) = (offsets(), 0_u32);
        criterion.bench_function("hit_4k_watched", |bencher| {
            bencher.iter(|| {
                hits += 1;
                if hits.is_multiple_of(TAKEN_EVERY) {
                    black_box(volume.take_accesses(wanted));
                }
                let read = volume.read(ByteRange::at(next(), PAGE)).now_or_never();
                read.expect("a hit in memory is ready at once").expect("memory does not fail")
            });
        });
        pool.close().await.expect("memory does not fail");

        let (pool, volume) = cached_volume(&env, true).await;
        let recording = volume.begin_recording().expect("nobody records it");
        let (mut next, mut hits) = (offsets(), 0_u32);
        criterion.bench_function("hit_4k_recorded", |bencher| {
            bencher.iter(|| {
                hits += 1;
                if hits.is_multiple_of(RECORDED_TAKEN_EVERY) {
                    black_box(volume.take_recorded(recording, u64::from(hits)));
                }
                let read = volume.read(ByteRange::at(next(), PAGE)).now_or_never();
                read.expect("a hit in memory is ready at once").expect("memory does not fail")
            });
        });
        assert!(
            volume.take_recorded(recording, u64::MAX).is_some_and(|recorded| recorded.dropped == 0),
            "all of them were recorded"
        );
        pool.close().await.expect("memory does not fail");

        let backing = HostDevice::Memory(MemoryDevice::new(VOLUME_BYTES, 512));
        let volume = Volume::open_in(env.clone(), volume_spec(), backing, &MemoryCache::new(2 * BLOCKS * PAGE));
        let volume = volume.expect("the settings fit");
        for offset in (0..3 * BLOCKS).map(|read| read % BLOCKS * STRIDE) {
            volume.read(ByteRange::at(offset, PAGE)).await.expect("memory does not fail");
        }
        let mut next = offsets();
        let before = volume.status().stats;
        criterion.bench_function("hit_4k_in_memory", |bencher| {
            bencher.iter(|| {
                let read = volume.read(ByteRange::at(next(), PAGE)).now_or_never();
                read.expect("memory answers at once").expect("memory does not fail")
            });
        });
        let stats = volume.status().stats;
        assert_eq!(stats.reads - before.reads, stats.memory_hits - before.memory_hits, "only hits were measured");
    });
}

/// What a stream costs that passes the cache, and the same reads of a volume without one. The stream goes round in so
/// little memory that the device's copy takes the same time in both.
fn streams(criterion: &mut Criterion<CpuTime>) {
    const READ: u64 = 1 << 20;
    for (name, is_cached) in [("stream_1m_past_the_cache", true), ("stream_1m_without_cache", false)] {
        let executor = Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring");
        executor.run(async |env| {
            let (pool, volume) = cached_volume(&env, true).await;
            let settings = VolumeSettings { read_cutoff_bytes: Some(PAGE), ..volume.settings() };
            volume.set(settings).await.expect("a cut-off may be that small");
            if !is_cached {
                pool.detach(&volume.name(), DirtyData::Clean).await.expect("it is attached");
            }
            let mut offsets = (0..16).map(|step| step * READ).cycle();
            criterion.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let offset = offsets.next().expect("it goes round");
                    let read = volume.read(ByteRange::at(offset, READ)).now_or_never();
                    read.expect("memory is ready at once").expect("memory does not fail")
                });
            });
            let stats = volume.status().stats;
            // None at all, if a filter leaves this out.
            assert_eq!(stats.bypassed_reads > 0, is_cached && stats.reads > 0, "what is measured passes the cache");
            assert_eq!(stats.read_hits, 0, "nothing of it is answered by the cache");
            pool.close().await.expect("memory does not fail");
        });
    }
}

/// Writers at once: what a client at that depth has in flight.
const WRITERS: u64 = 128;

/// Writes of one iteration: making a pool takes longer than a few.
const WRITES: u64 = 1000 * WRITERS;

/// The devices keep the batches that they get, of which one class of buffers may have a quarter of this: the daemon's come
/// from registered memory, too.
const KEPT_BYTES: usize = 1 << 30;

fn writing_executor() -> Executor {
    let options = ExecutorOptions { registered_bytes: KEPT_BYTES, ..ExecutorOptions::default() };
    Executor::new(options).expect("the kernel has io_uring")
}

/// The time on a CPU that `count` write-back writes take, `WRITERS` at a time, to pages in random order.
fn write_back(count: u64) -> Duration {
    writing_executor().run(async |env| {
        let env = InstantEnv(env);
        let device = |bytes| InstantDevice::new(bytes, 4096);
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        settings.block_bytes = BlockBytes::new(BLOCK).expect("64 KiB is a block size");
        let spec = PoolSpec { name: "bench".parse().expect("a pool name"), kind: PoolKind::ReadWrite, settings };
        let ssds = [1, 2].map(|number| Named { path: format!("memory{number}"), device: device(SSD_BYTES) });
        let pool = Pool::create(env.clone(), spec, ssds.into(), device(STATE_BYTES)).await.expect("the SSDs fit");
        let spec = VolumeSpec {
            name: "bench".parse().expect("a volume name"),
            backing: "memory".to_owned(),
            settings: VolumeSettings::default(),
        };
        let volume = Volume::open(env.clone(), spec, device(VOLUME_BYTES)).expect("the settings fit");
        pool.attach(&volume).await.expect("there is room for a volume");
        let written = volume.clone();
        let write = async move |offset, page| {
            written.write(offset, page, Durability::Volatile).await.expect("memory does not fail");
        };
        // Once round the log, so that rows are moved and freed as they always will be.
        run_writers(&env, 400 * WRITERS, write.clone()).await;
        let took = run_writers(&env, count, write).await;
        let status = volume.status();
        assert_eq!(status.stats.write_hits, (400 + count.div_ceil(WRITERS)) * WRITERS);
        assert_eq!(status.lost_bytes, 0, "what was moved could be read");
        pool.delete(DirtyData::Discard).await.expect("memory does not fail");
        took
    })
}

/// Memory that the kernel has given already: its first touch is not what is measured.
fn touched_memory() -> HostDevice {
    let device = MemoryDevice::new(SSD_BYTES, 4096);
    let bytes = usize::try_from(SSD_BYTES).expect("what lies in memory has an address");
    let (_, written) = device.write(0, Buf::zeroed(bytes)).now_or_never().expect("memory is ready at once");
    written.expect("memory does not fail");
    HostDevice::Memory(device)
}

/// The time on a CPU that the writers themselves take: their buffers, and a task each that waits once for every page.
fn writers_alone(count: u64) -> Duration {
    writing_executor().run(async |env| {
        run_writers(&env, count, async |offset, page| {
            black_box((offset, page));
            wait_once().await;
        })
        .await
    })
}

/// Ready when it is asked again, which is at once.
async fn wait_once() {
    let mut asked = false;
    poll_fn(|context| {
        if mem::replace(&mut asked, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Has `count` pages written by `WRITERS` tasks at once. The time on a CPU that it takes.
async fn run_writers(env: &impl Env, count: u64, write: impl AsyncFn(u64, Buf) + Clone + 'static) -> Duration {
    let left = Rc::new(Cell::new(WRITERS));
    let done = Rc::new(Event::new());
    let before = CpuTime::now();
    for writer in 0..WRITERS {
        let (buffers, write) = (env.buffers().clone(), write.clone());
        let (left, done) = (Rc::clone(&left), Rc::clone(&done));
        env.spawn(async move {
            let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(writer + 1);
            for _ in 0..count.div_ceil(WRITERS) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // So few pages that neither cleaning nor pacing is measured, as far apart as those of a large volume.
                let offset = state % BLOCKS * STRIDE + state / BLOCKS % 4 * BLOCK;
                write(offset, buffers.take(4096)).await;
            }
            left.set(left.get() - 1);
            done.wake_all();
        });
    }
    while left.get() > 0 {
        done.wait().await;
    }
    Duration::from_nanos(CpuTime::now() - before)
}

fn writes(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("writes");
    group.sample_size(20).measurement_time(Duration::from_secs(8));
    group.bench_function("write_back_4k", |bencher| bencher.iter_custom(|count| write_back(count * WRITES)));
    group.bench_function("part_writers_alone", |bencher| bencher.iter_custom(|count| writers_alone(count * WRITES)));
    group.finish();
    let executor = writing_executor();
    let buffers = executor.env().buffers().clone();
    let page = vec![7_u8; 4096];
    // As many as the log of the pool above holds.
    let bytes = usize::try_from(BATCH_BYTES).expect("what lies in memory has an address");
    let mut batches: Vec<Buf> = (0..SSD_BYTES / BATCH_BYTES / 2).map(|_| buffers.take(bytes)).collect();
    let mut next = 0;
    criterion.bench_function("part_copy_into_a_batch", |bencher| {
        bencher.iter(|| {
            next = (next + 1) % batches.len();
            copy_for_device(batches[next].chunks_exact_mut(4096).map(|place| (place, &page[..])));
        });
    });
}

/// The data of a batch, of [`WRITERS`] writes.
const BATCH_BYTES: u64 = WRITERS * PAGE;

/// The parts of a hit that are not the engine's decisions.
fn parts(criterion: &mut Criterion<CpuTime>) {
    let buffers = BufPool::new();
    // As many pages as hits read, as far apart as slots are: from the cache of the processor that has them then.
    let device = touched_memory();
    let mut next = offsets();
    let mut at = || next() / STRIDE * (BLOCK + PAGE);
    criterion.bench_function("part_device_copies_4k", |bencher| {
        bencher.iter(|| device.read(at(), buffers.take(4096)).now_or_never().expect("memory is ready at once").0);
    });
    let page = vec![7_u8; 4096];
    criterion.bench_function("part_checksum_4k", |bencher| {
        bencher.iter(|| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, black_box(&page)));
    });
    let (mut map, mut policy) = full_tables(1_000_000, PolicyKind::S3Fifo, false);
    criterion.bench_function("part_find_and_touch_in_a_million", |bencher| {
        bencher.iter(|| {
            let block = u32::try_from(next() / STRIDE * 976).expect("below a million");
            let slot = map.find(key(block)).expect("it was inserted");
            policy.touched(&mut map, slot);
            map.valid_run(slot, 3, 1)
        });
    });
    let mut streams = Streams::new();
    criterion.bench_function("part_streams_of_random_reads", |bencher| {
        bencher.iter(|| streams.record(ByteRange::at(next(), PAGE)));
    });
}

fn key(block: u32) -> BlockKey {
    BlockKey { volume: VolumeIndex(0), block: BlockIndex(block) }
}

fn full_tables(slots: u32, kind: PolicyKind, checksums: bool) -> (Map, Policy) {
    let mut map = Map::new(16, checksums);
    map.add_slots(slots);
    let mut policy = Policy::new(kind, slots);
    for block in 0..slots {
        map.insert(SlotIndex(block), key(block), 1);
        map.set_valid(SlotIndex(block), 0..16);
        map.set_checksums(SlotIndex(block), 0, &[block; 16]);
        policy.inserted(&mut map, SlotIndex(block));
    }
    (map, policy)
}

/// Bytes that this process has in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("statm has the resident pages") * PAGE
}

#[allow(clippy::as_conversions, reason = "figures for people")]
fn memory(_: &mut Criterion<CpuTime>) {
    const SLOTS: u32 = 1_000_000;
    for (name, checksums, limit) in [("on", true, 1.5), ("off", false, 0.46)] {
        let before = resident_bytes();
        let (map, policy) = full_tables(SLOTS, PolicyKind::S3Fifo, checksums);
        let mut counters = Counters::new(SLOTS, 16);
        for block in 0..SLOTS {
            counters.count_read(key(SLOTS + block));
        }
        let counted = map.memory_bytes() + policy.memory_bytes() + counters.memory_bytes();
        let grown = resident_bytes().saturating_sub(before);
        let per_gigabyte = |bytes: u64| bytes as f64 / f64::from(SLOTS) * SLOTS_PER_GIGABYTE / 1e6;
        println!(
            "memory per GB of 64 KiB slots, checksums {name}: {:.3} MB counted, {:.3} MB resident (limit {limit} MB)",
            per_gigabyte(counted),
            per_gigabyte(grown),
        );
        assert!(per_gigabyte(counted) <= limit, "the tables take more than promised");
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime).sample_size(20)
        .warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(1));
    targets = memory, parts, hits, watched_and_in_memory, streams, writes
}
criterion_main!(benches);
