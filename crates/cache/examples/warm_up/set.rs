//! A set of data that hosts read at random, over four disks, at the default fetch rate and threshold 1: when the cache
//! answers, and what hosts have meanwhile. Also of a set four times as large as the cache, where that has no end.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::emulated::{Level, Parameters, Preset};
use hotset_block::{ByteRange, Env as _};
use hotset_cache::Volume;
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};

use crate::virtual_time::{AnyDevice, Random, Virtual};
use crate::{PAGE, float, median, pool};

const MIB: u64 = 1 << 20;
/// What a request costs the one processor of the hosts.
const HOST_TIME: Duration = Duration::from_micros(200);
const VOLUME_BYTES: u64 = 1056 * MIB;
const SET_START: u64 = 64 * MIB;
const SET_BYTES: u64 = 128 * MIB;
const INTERVAL: Duration = Duration::from_millis(100);
const INTERVALS: usize = 150;
/// What is looked at as one where hosts are not to have less than without the cache.
const TOGETHER: usize = 5;

/// Hosts with one read in flight each.
struct Hosts {
    env: Virtual,
    volume: Volume<Virtual>,
    set_bytes: u64,
    random: Random,
    done: Cell<u64>,
    /// When their processor has done what it has.
    busy_until: Cell<u64>,
}

impl Hosts {
    fn start(env: &Virtual, volume: &Volume<Virtual>, set_bytes: u64, depth: u64) -> Rc<Self> {
        let (env, volume) = (env.clone(), volume.clone());
        let (random, done, busy_until) = (Random::new(1), Cell::new(0), Cell::new(0));
        let hosts = Rc::new(Self { env: env.clone(), volume, set_bytes, random, done, busy_until });
        for _ in 0..depth {
            env.spawn(Rc::clone(&hosts).read());
        }
        hosts
    }

    async fn read(self: Rc<Self>) {
        loop {
            let page = (self.random.draw() >> 8) % (self.set_bytes / PAGE);
            let range = ByteRange::at(SET_START + page * PAGE, PAGE);
            self.volume.read(range).await.expect("memory does not fail");
            let now = self.env.now();
            self.busy_until.set(self.busy_until.get().max(now.0) + u64::from(HOST_TIME.subsec_nanos()));
            self.env.sleep(Duration::from_nanos(self.busy_until.get() - now.0)).await;
            self.done.set(self.done.get() + 1);
        }
    }

    /// Requests per second in so many intervals from now on.
    async fn rates(&self, intervals: usize) -> Vec<f64> {
        let mut rates = Vec::new();
        for _ in 0..intervals {
            let before = self.done.get();
            self.env.sleep(INTERVAL).await;
            rates.push(float(self.done.get() - before) / INTERVAL.as_secs_f64());
        }
        rates
    }
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / float(u64::try_from(rates.len()).expect("an address has 64 bits at most"))
}

/// The smallest mean of some intervals on end.
fn lowest(rates: &[f64]) -> f64 {
    rates.windows(TOGETHER).map(mean).fold(f64::INFINITY, f64::min)
}

fn four_disks() -> Parameters {
    Parameters {
        disks: 4,
        level: Level::Raid5,
        span_bytes: VOLUME_BYTES,
        seek_min_us: 1000,
        seek_max_us: 8000,
        rate: 150_000_000,
        ..Preset::B1.parameters(VOLUME_BYTES)
    }
}

/// What hosts have without the cache, and then with it.
fn rates(block_bytes: u64, ssd_bytes: u64, set_bytes: u64, depth: u64) -> (f64, Vec<f64>) {
    let env = Virtual::new();
    env.clone().run(async move {
        let block_bytes = BlockBytes::new(block_bytes).expect("a power of two below the largest");
        let preset = PoolSettings::preset(PoolKind::Read, IoType::Custom);
        let settings = PoolSettings { block_bytes, populate_on_read: 1, ..preset };
        let pool = pool(&env, ssd_bytes, settings).await;
        let (name, settings) = ("volume".parse().expect("a volume name"), VolumeSettings::default());
        let spec = VolumeSpec { name, backing: "backing".to_owned(), settings };
        let array = AnyDevice::array(&env, &four_disks());
        let volume = Volume::open(env.clone(), spec, array).expect("the settings fit");
        let hosts = Hosts::start(&env, &volume, set_bytes, depth);
        let alone = mean(&hosts.rates(INTERVALS).await[TOGETHER..]);
        pool.attach(&volume).await.expect("there is room for a volume");
        (alone, hosts.rates(INTERVALS).await)
    })
}

pub(crate) fn warm_up(block_kib: u64, depth: u64) {
    let (alone, rates) = rates(block_kib << 10, 704 * MIB, SET_BYTES, depth);
    let last = median(&rates[INTERVALS / 2..]);
    let cold = rates.iter().take_while(|rate| **rate < 0.9 * last).count();
    let seconds = INTERVAL.as_secs_f64() * float(u64::try_from(cold + 1).expect("an address has 64 bits at most"));
    println!(
        "{block_kib} KiB, depth {depth}: {seconds:.1} s to 90 % of {last:.0} IOPS; uncached {alone:.0}, lowest half second {:.2} of that",
        lowest(&rates[..=cold.max(TOGETHER)]) / alone
    );
}

fn larger_than_the_cache(block_kib: u64, depth: u64) {
    let (alone, rates) = rates(block_kib << 10, SET_BYTES, 4 * SET_BYTES, depth);
    println!(
        "{block_kib} KiB, depth {depth}, a set four times the cache: {:.2} of uncached ({alone:.0} IOPS), lowest half second {:.2}",
        mean(&rates) / alone,
        lowest(&rates) / alone
    );
}

pub(crate) fn print_all() {
    for depth in [1, 8, 32, 128] {
        [64, 128, 256, 1024, 4096].into_iter().for_each(|block_kib| warm_up(block_kib, depth));
        [64, 128, 256, 1024, 4096].into_iter().for_each(|block_kib| larger_than_the_cache(block_kib, depth));
    }
}
