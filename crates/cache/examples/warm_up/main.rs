//! How a cold cache warms up, and what hosts keep meanwhile, in virtual time.
//!
//! `cargo run --release --package hotset-cache --example warm_up -- SEED` prints the time until 90 % of the final rate with
//! blocks of 4 MiB over the array of requirement B1, in times of what streaming the volume takes.
//! `… -- filling` prints what hosts keep at each fetch rate while blocks enter a small cache.
//! `… -- set` prints how a small set of data warms up at the default fetch rate over four disks, or `… -- set 64 32` of blocks of
//! 64 KiB and 32 hosts alone.
//! `make bench` measures the same on a real clock. It takes some gigabytes of memory.

#[path = "../../benches/worlds/instant.rs"]
mod instant;
mod set;
#[path = "../../benches/worlds/virtual_time.rs"]
mod virtual_time;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::emulated::Preset;
use hotset_block::{ByteRange, Env as _};
use hotset_cache::config::{BlockBytes, FetchRate, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Named, Pool, PoolSpec, STATE_BYTES, Volume};

use virtual_time::{AnyDevice, Random, Virtual};

const PAGE: u64 = 4096;
const GIB: u64 = 1 << 30;
const HOSTS: u64 = 128;
const STREAM_DEPTH: u64 = 32;
const STREAM_BYTES: u64 = 1 << 20;
/// What an SSD writes and reads in a second.
const SSD_RATE: u64 = 2_000_000_000;
/// What a host does between two requests: with all of them, a network that carries 100,000 requests a second.
const HOST_TIME: Duration = Duration::from_micros(1280);
const INTERVAL: Duration = Duration::from_millis(20);
const INTERVALS: usize = 230;
/// Of these last intervals, the final rate is the median.
const FINAL_INTERVALS: usize = 20;
/// Under load before it is measured.
const STEADY_AFTER: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(4);
const WARM_UP_BYTES: u64 = 4 * GIB;
const FILLING_BYTES: u64 = 8 * GIB;
const FILLING_SSD_BYTES: u64 = 256 << 20;

/// Hosts with one read in flight each.
struct Hosts {
    env: Virtual,
    volume: Volume<Virtual>,
    bytes: u64,
    /// Where the next read of a stream is. `None`: reads go anywhere.
    position: Cell<Option<u64>>,
    random: Random,
    done: Cell<u64>,
    stop: Cell<bool>,
}

impl Hosts {
    /// Reads of 4 KiB anywhere.
    fn random(env: &Virtual, volume: &Volume<Virtual>, seed: u64) -> Rc<Self> {
        Self::start(env, volume, HOSTS, PAGE, None, seed)
    }

    fn stream(env: &Virtual, volume: &Volume<Virtual>) -> Rc<Self> {
        Self::start(env, volume, STREAM_DEPTH, STREAM_BYTES, Some(0), 1)
    }

    fn start(
        env: &Virtual,
        volume: &Volume<Virtual>,
        count: u64,
        bytes: u64,
        position: Option<u64>,
        seed: u64,
    ) -> Rc<Self> {
        let hosts = Rc::new(Self {
            env: env.clone(),
            volume: volume.clone(),
            bytes,
            position: Cell::new(position),
            random: Random::new(seed),
            done: Cell::new(0),
            stop: Cell::new(false),
        });
        for _ in 0..count {
            env.spawn(Rc::clone(&hosts).read());
        }
        hosts
    }

    fn next_offset(&self) -> u64 {
        let size = self.volume.size_bytes();
        if let Some(position) = self.position.get() {
            self.position.set(Some((position + self.bytes) % size));
            return position;
        }
        (self.random.draw() >> 8) % (size / self.bytes) * self.bytes
    }

    async fn read(self: Rc<Self>) {
        while !self.stop.get() {
            let offset = self.next_offset();
            self.volume.read(ByteRange::at(offset, self.bytes)).await.expect("memory does not fail");
            self.done.set(self.done.get() + 1);
            if self.position.get().is_none() {
                self.env.sleep(HOST_TIME).await;
            }
        }
    }

    /// Requests per second over some time from now on.
    async fn rate(&self, time: Duration) -> f64 {
        let before = self.done.get();
        self.env.sleep(time).await;
        float(self.done.get() - before) / time.as_secs_f64()
    }
}

#[allow(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures for people")]
fn float(value: u64) -> f64 {
    value as f64
}

async fn pool(env: &Virtual, ssd_bytes: u64, settings: PoolSettings) -> Pool<Virtual> {
    let spec = PoolSpec { name: "pool".parse().expect("a pool name"), kind: PoolKind::Read, settings };
    let ssd = AnyDevice::rated(env, ssd_bytes, SSD_RATE);
    let ssds = vec![Named { path: "memory".to_owned(), device: ssd }];
    Pool::create(env.clone(), spec, ssds, AnyDevice::instant(STATE_BYTES)).await.expect("the SSD fits")
}

fn volume(env: &Virtual, bytes: u64) -> Volume<Virtual> {
    let settings = VolumeSettings::default();
    let spec = VolumeSpec { name: "volume".parse().expect("a volume name"), backing: "backing".to_owned(), settings };
    Volume::open(env.clone(), spec, AnyDevice::array(env, &Preset::B1.parameters(bytes))).expect("the settings fit")
}

fn settings(rate: FetchRate) -> PoolSettings {
    PoolSettings {
        fetch_rate: rate,
        populate_on_read: 1,
        checksums: false,
        ..PoolSettings::preset(PoolKind::Read, IoType::Custom)
    }
}

/// The middle one of some figures.
fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

async fn streaming_rate(env: &Virtual, volume: &Volume<Virtual>) -> f64 {
    let stream = Hosts::stream(env, volume);
    env.sleep(STEADY_AFTER).await;
    let rate = stream.rate(MEASURED).await;
    stream.stop.set(true);
    env.sleep(STEADY_AFTER).await;
    rate * float(STREAM_BYTES)
}

fn warm_up(seed: u64) {
    let env = Virtual::new();
    env.clone().run(async move {
        let block_bytes = BlockBytes::new(4 << 20).expect("a power of two below the largest");
        let settings = PoolSettings { block_bytes, ..settings(FetchRate::High) };
        let pool = pool(&env, WARM_UP_BYTES / 4 * 5, settings).await;
        let volume = volume(&env, WARM_UP_BYTES);
        let bytes_per_second = streaming_rate(&env, &volume).await;
        let streaming_seconds = float(WARM_UP_BYTES) / bytes_per_second;
        pool.attach(&volume).await.expect("there is room for a volume");
        let hosts = Hosts::random(&env, &volume, seed);
        let mut rates = Vec::new();
        for _ in 0..INTERVALS {
            rates.push(hosts.rate(INTERVAL).await);
        }
        hosts.stop.set(true);
        let last = median(&rates[rates.len() - FINAL_INTERVALS..]);
        let cold = rates.iter().take_while(|rate| **rate < 0.9 * last).count();
        let seconds = INTERVAL.as_secs_f64() * float(u64::try_from(cold + 1).expect("an address has 64 bits at most"));
        println!(
            "warm-up: {seconds:.2} s to 90 % of {last:.0} IOPS; streaming at {:.0} MB/s takes {streaming_seconds:.2} s: {:.2} x",
            bytes_per_second / 1e6,
            seconds / streaming_seconds
        );
    });
}

fn filling(rate: FetchRate) {
    let env = Virtual::new();
    env.clone().run(async move {
        let pool = pool(&env, FILLING_SSD_BYTES, settings(rate)).await;
        let volume = volume(&env, FILLING_BYTES);
        let hosts = Hosts::random(&env, &volume, 1);
        env.sleep(STEADY_AFTER).await;
        let alone = hosts.rate(MEASURED).await;
        pool.attach(&volume).await.expect("there is room for a volume");
        env.sleep(STEADY_AFTER).await;
        let before = volume.status().stats;
        let kept = hosts.rate(MEASURED).await;
        let after = volume.status().stats;
        hosts.stop.set(true);
        println!(
            "filling, {rate:?}: {kept:.0} IOPS of {alone:.0}: {:.2}; hit ratio {:.3}; {:.0} MB/s enter the cache",
            kept / alone,
            float(after.read_hits - before.read_hits) / float(after.reads - before.reads),
            float(after.populated_bytes - before.populated_bytes) / 1e6 / MEASURED.as_secs_f64()
        );
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => warm_up(1),
        ["filling"] => [FetchRate::Low, FetchRate::Medium, FetchRate::High].into_iter().for_each(filling),
        ["set"] => set::print_all(),
        ["set", block_kib, depth] => {
            set::warm_up(block_kib.parse().expect("a number"), depth.parse().expect("a number"));
        }
        [seed] => warm_up(seed.parse().expect("a number")),
        _ => println!("warm_up [SEED | filling | set [BLOCK_KIB DEPTH]]"),
    }
}
