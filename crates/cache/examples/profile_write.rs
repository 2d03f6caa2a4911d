use hotset_block::sync::Event;
use hotset_block::{Env as _, Executor, ExecutorOptions, HostDevice, HostEnv, MemoryDevice};
use hotset_cache::config::*;
use hotset_cache::*;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
const PAGE: u64 = 4096;
const BLOCK: u64 = 64 << 10;
const SSD_BYTES: u64 = 160 << 20;
fn now() -> u64 {
    std::thread::yield_now();
    std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse().unwrap()
}
/// Writers at once: what a client at that depth has in flight.
const WRITERS: u64 = 128;

/// Writes of one iteration: making a pool takes longer than a few.
const WRITES: u64 = 100 * WRITERS;

/// The time on a CPU that `count` times [`WRITES`] write-back writes take, `WRITERS` at a time, to pages in random order.
fn write_back(count: u64) -> Duration {
    let count = count * WRITES;
    let executor = Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring");
    executor.run(async |env| {
        let memory = |bytes| HostDevice::Memory(MemoryDevice::new(bytes, 4096));
        let mut settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
        settings.block_bytes = BlockBytes::new(BLOCK).expect("64 KiB is a block size");
        let spec = PoolSpec { name: "bench".parse().expect("a pool name"), kind: PoolKind::ReadWrite, settings };
        let ssds = [1, 2].map(|number| Named { path: format!("memory{number}"), device: memory(SSD_BYTES) });
        let pool = Pool::create(env.clone(), spec, ssds.into(), memory(STATE_BYTES)).await.expect("the SSDs fit");
        let spec = VolumeSpec {
            name: "bench".parse().expect("a volume name"),
            backing: "memory".to_owned(),
            settings: VolumeSettings::default(),
        };
        let volume = Volume::open(env.clone(), spec, memory(WRITTEN_BYTES)).expect("the settings fit");
        pool.attach(&volume).await.expect("there is room for a volume");
        write(&env, &volume, 80 * WRITERS).await;
        let before = now();
        write(&env, &volume, count).await;
        let took = Duration::from_nanos(now() - before);
        assert_eq!(volume.status().stats.write_hits, (80 + count.div_ceil(WRITERS)) * WRITERS);
        pool.delete(hotset_cache::DirtyData::Discard).await.expect("memory does not fail");
        took
    })
}

/// A set that stays far below the dirty capacity, so that neither cleaning nor pacing is measured.
const WRITTEN_BYTES: u64 = 16 << 20;

async fn write(env: &HostEnv, volume: &Volume<HostEnv>, count: u64) {
    let left = Rc::new(Cell::new(WRITERS));
    let done = Rc::new(Event::new());
    for writer in 0..WRITERS {
        let (env, volume) = (env.clone(), volume.clone());
        let (left, done) = (Rc::clone(&left), Rc::clone(&done));
        env.clone().spawn(async move {
            let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(writer + 1);
            for _ in 0..count.div_ceil(WRITERS) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let offset = state % (WRITTEN_BYTES / PAGE) * PAGE;
                let page = env.buffers().take(4096);
                volume.write(offset, page, Durability::Volatile).await.expect("memory does not fail");
            }
            left.set(left.get() - 1);
            done.wake_all();
        });
    }
    while left.get() > 0 {
        done.wait().await;
    }
}

fn main() {
    let n: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let d = write_back(n);
    println!("{} ns per write", d.as_nanos() as u64 / (n * WRITES));
}
