//! The write path by itself, in virtual time: what a write costs the processor, and how fast streams are.
//!
//! `cargo run --release --package hotset-cache --example write_path -- streams` prints the rates of streams of writes in
//! every mode over an emulated array, beside the same array without a cache.
//! `… -- cost 100000` writes so many pages at random, mirrored, to instant devices: to be counted, for instance, by
//! `valgrind --tool=callgrind`, whose figures do not depend on what else the machine does.
//! `… -- mix 60` prints, second by second, what a database's mix does with a hot set that is larger than the cache.

#[path = "../../benches/worlds/instant.rs"]
mod instant;
mod mix;
#[path = "../../benches/worlds/virtual_time.rs"]
mod virtual_time;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env as _;
use hotset_block::emulated::Preset;
use hotset_block::sync::Event;
use hotset_cache::config::{IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec, WriteMode};
use hotset_cache::{DirtyData, Durability, Named, Pool, PoolSpec, STATE_BYTES, Volume};

use virtual_time::{AnyDevice, Random, Virtual};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const WRITERS: u64 = 128;
/// Pages that are written at random lie so far apart.
const STRIDE: u64 = MIB;
const STREAM_DEPTH: u64 = 16;
const VOLUME_BYTES: u64 = 1 << 30;
const SSD_BYTES: u64 = 1 << 30;
/// What an SSD writes and reads in a second.
const SSD_RATE: u64 = 2_000_000_000;
const STREAM_TIME: Duration = Duration::from_secs(8);

async fn mirrored_pool(env: &Virtual, ssds: [AnyDevice; 2]) -> Pool<Virtual> {
    let settings = PoolSettings::preset(PoolKind::ReadWrite, IoType::Custom);
    let spec = PoolSpec { name: "pool".parse().expect("a pool name"), kind: PoolKind::ReadWrite, settings };
    let named = ssds.map(|device| Named { path: "memory".to_owned(), device });
    Pool::create(env.clone(), spec, named.into(), AnyDevice::instant(STATE_BYTES)).await.expect("the SSDs fit")
}

fn volume_over(env: &Virtual, device: AnyDevice, write_mode: WriteMode) -> Volume<Virtual> {
    let settings = VolumeSettings { write_mode, ..VolumeSettings::default() };
    let spec = VolumeSpec { name: "volume".parse().expect("a volume name"), backing: "backing".to_owned(), settings };
    Volume::open(env.clone(), spec, device).expect("the settings fit")
}

/// Writers at once, each with one write in flight; where the next write goes, and when they are to end.
struct Load {
    volume: Volume<Virtual>,
    bytes: u64,
    /// Writes begin at multiples of this.
    stride: u64,
    random: Random,
    /// Of a stream: where it is. `None`: writes go anywhere.
    position: Cell<Option<u64>>,
    left: Cell<u64>,
    done: Cell<u64>,
    running: Cell<u64>,
    ended: Event,
}

impl Load {
    fn new(volume: &Volume<Virtual>, bytes: u64, stride: u64, position: Option<u64>, left: u64) -> Rc<Self> {
        Rc::new(Self {
            volume: volume.clone(),
            bytes,
            stride,
            random: Random::new(1),
            position: Cell::new(position),
            left: Cell::new(left),
            done: Cell::new(0),
            running: Cell::new(0),
            ended: Event::new(),
        })
    }

    fn next_offset(&self) -> u64 {
        let size = self.volume.size_bytes();
        if let Some(position) = self.position.get() {
            self.position.set(Some((position + self.bytes) % size));
            return position;
        }
        self.random.draw() % (size / self.stride) * self.stride
    }

    async fn write(&self, env: Virtual) {
        let length = usize::try_from(self.bytes).expect("a write fits in memory");
        while self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            let buf = env.buffers().take(length);
            self.volume.write(self.next_offset(), buf, Durability::Volatile).await.expect("memory does not fail");
            self.done.set(self.done.get() + 1);
        }
        self.running.set(self.running.get() - 1);
        self.ended.wake_all();
    }

    fn spawn(self: &Rc<Self>, env: &Virtual, writers: u64) {
        self.running.set(writers);
        for _ in 0..writers {
            let (load, env) = (Rc::clone(self), env.clone());
            env.clone().spawn(async move { load.write(env).await });
        }
    }

    async fn end(&self) {
        while self.running.get() > 0 {
            self.ended.wait().await;
        }
    }
}

/// A set far below the dirty capacity, so that neither cleaning nor pacing is counted.
fn cost(writes: u64) {
    let env = Virtual::new();
    env.clone().run(async move {
        let pool = mirrored_pool(&env, [(); 2].map(|()| AnyDevice::instant(160 * MIB))).await;
        let volume = volume_over(&env, AnyDevice::instant(4096 * STRIDE), WriteMode::WriteBack);
        pool.attach(&volume).await.expect("there is room for a volume");
        let load = Load::new(&volume, PAGE, STRIDE, None, writes);
        load.spawn(&env, WRITERS);
        load.end().await;
        let stats = volume.status().stats;
        println!(
            "{} writes, {} of them cached, {} pages moved",
            stats.writes,
            stats.write_hits,
            stats.moved_bytes / PAGE
        );
        pool.delete(DirtyData::Discard).await.expect("memory does not fail");
    });
}

/// Megabytes per second of a stream of 1 MiB writes, in each quarter of the time.
fn stream(mode: Option<WriteMode>) -> Vec<f64> {
    let env = Virtual::new();
    env.clone().run(async move {
        let pool = mirrored_pool(&env, [(); 2].map(|()| AnyDevice::rated(&env, SSD_BYTES, SSD_RATE))).await;
        let array = AnyDevice::array(&env, &Preset::B9.parameters(VOLUME_BYTES));
        let volume = volume_over(&env, array, mode.unwrap_or(WriteMode::WriteAround));
        if mode.is_some() {
            pool.attach(&volume).await.expect("there is room for a volume");
        }
        let load = Load::new(&volume, MIB, MIB, Some(0), u64::MAX);
        load.spawn(&env, STREAM_DEPTH);
        let mut rates = Vec::new();
        for _ in 0..8 {
            let before = load.done.get();
            env.sleep(STREAM_TIME / 8).await;
            let count =
                u32::try_from(load.done.get() - before).expect("fewer than 2^32 writes are done in a few seconds");
            rates.push(f64::from(count) * 1.048_576 / (STREAM_TIME / 8).as_secs_f64());
        }
        load.left.set(0);
        load.end().await;
        let stats = volume.status().stats;
        println!(
            "    {} writes past the cache, {} cached; {} MiB cleaned, {} MiB moved",
            stats.bypassed_writes,
            stats.write_hits,
            stats.cleaned_bytes / MIB,
            stats.moved_bytes / MIB
        );
        rates
    })
}

fn streams() {
    let mean = |rates: &[f64]| {
        rates.iter().sum::<f64>() / f64::from(u32::try_from(rates.len()).expect("they are counted in 32 bits"))
    };
    let without = stream(None);
    println!("{:<20} {:>6.0} MB/s: {:.0?}", "without cache", mean(&without), without);
    for (mode, word) in WriteMode::ALL {
        let rates = stream(Some(*mode));
        let ratio = mean(&rates) / mean(&without);
        println!("{word:<20} {:>6.0} MB/s, {ratio:.2} x: {:.0?}", mean(&rates), rates);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cost", writes] => cost(writes.parse().expect("a number of writes")),
        ["mix", seconds] => mix::mix(seconds.parse().expect("a number of seconds")),
        ["streams"] | [] => streams(),
        _ => println!("write_path [streams | cost WRITES | mix SECONDS]"),
    }
}
