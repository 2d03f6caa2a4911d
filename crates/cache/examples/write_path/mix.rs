//! Requirement B3 in virtual time: 8 KiB, two thirds reads, over an emulated array, with a hot set that is larger than
//! the cache.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env as _;
use hotset_block::emulated::Preset;
use hotset_cache::config::{FetchRate, IoType, PoolKind, PoolSettings, WriteMode};
use hotset_cache::{Durability, Named, Pool, PoolSpec, STATE_BYTES, Volume};

use super::virtual_time::{AnyDevice, Random, Virtual};
use super::{MIB, SSD_RATE, volume_over};

const VOLUME_BYTES: u64 = 2 << 30;
const SSD_BYTES: u64 = 512 << 20;
const REQUEST_BYTES: u64 = 8192;
const CLIENTS: u64 = 128;
const SECOND: Duration = Duration::from_secs(1);

struct Mix {
    volume: Volume<Virtual>,
    read_percent: u64,
    span: Cell<u64>,
    random: Random,
    done: Cell<u64>,
    stop: Cell<bool>,
}

impl Mix {
    fn next(&self) -> u64 {
        self.random.draw() >> 8
    }

    async fn run(self: Rc<Self>, env: Virtual) {
        while !self.stop.get() {
            let offset = self.next() % (self.span.get() / REQUEST_BYTES) * REQUEST_BYTES;
            if self.next() % 100 < self.read_percent {
                let range = hotset_block::ByteRange { start: offset, end: offset + REQUEST_BYTES };
                self.volume.read(range).await.expect("memory does not fail");
            } else {
                let buf =
                    env.buffers().take(usize::try_from(REQUEST_BYTES).expect("what lies in memory has an address"));
                self.volume.write(offset, buf, Durability::Volatile).await.expect("memory does not fail");
            }
            self.done.set(self.done.get() + 1);
        }
    }

    fn spawn(volume: &Volume<Virtual>, env: &Virtual, read_percent: u64, span: u64) -> Rc<Self> {
        let mix = Rc::new(Self {
            volume: volume.clone(),
            read_percent,
            span: Cell::new(span),
            random: Random::new(1),
            done: Cell::new(0),
            stop: Cell::new(false),
        });
        for _ in 0..CLIENTS {
            env.spawn(Rc::clone(&mix).run(env.clone()));
        }
        mix
    }
}

#[allow(clippy::as_conversions, reason = "figures for people")]
fn float(value: u64) -> f64 {
    value as f64
}

pub(crate) fn mix(seconds: u64) {
    let env = Virtual::new();
    env.clone().run(async move {
        let settings =
            PoolSettings { fetch_rate: FetchRate::High, ..PoolSettings::preset(PoolKind::ReadWrite, IoType::Database) };
        let spec = PoolSpec { name: "pool".parse().expect("a pool name"), kind: PoolKind::ReadWrite, settings };
        let ssds = [(); 2].map(|()| AnyDevice::rated(&env, SSD_BYTES, SSD_RATE));
        let named = ssds.map(|device| Named { path: "memory".to_owned(), device });
        let pool =
            Pool::create(env.clone(), spec, named.into(), AnyDevice::instant(STATE_BYTES)).await.expect("the SSDs fit");
        let array = AnyDevice::array(&env, &Preset::B1.parameters(VOLUME_BYTES));
        let volume = volume_over(&env, array, WriteMode::WriteBack);
        pool.attach(&volume).await.expect("there is room for a volume");
        let clean = || pool.status().capacity_bytes;
        let mix = Mix::spawn(&volume, &env, 67, clean() * 6 / 5);
        let (mut before, mut io) = (volume.status().stats, volume.status().backing_io);
        println!("second  IOPS  hits  filled/s cleaned/s moved/s  dirty  live  slots  hot    array: reads writes");
        for second in 1..=seconds {
            env.sleep(SECOND).await;
            mix.span.set(clean() * 6 / 5);
            if second == seconds / 2 {
                pool.set(PoolSettings { fetch_rate: FetchRate::Medium, ..settings }).await.expect("settings fit");
            }
            let status = volume.status();
            let (stats, log) = (status.stats, pool.status().write_log.expect("a log"));
            let reads = stats.reads - before.reads;
            println!(
                "{second:>6} {:>5}  {:.3} {:>6} {:>8} {:>8} {:>7} {:>5} {:>6} {:>5} {:>12} {:>6}  cap {} log {}",
                stats.reads + stats.writes - before.reads - before.writes,
                float(stats.read_hits - before.read_hits) / float(reads.max(1)),
                (stats.populated_bytes - before.populated_bytes) / MIB,
                (stats.cleaned_bytes - before.cleaned_bytes) / MIB,
                (stats.moved_bytes - before.moved_bytes) / MIB,
                log.dirty_bytes / MIB,
                log.live_bytes / MIB,
                status.cache_used_bytes / MIB,
                mix.span.get() / MIB,
                status.backing_io.reads - io.reads,
                status.backing_io.writes - io.writes,
                log.dirty_capacity_bytes / MIB,
                log.log_bytes / MIB,
            );
            (before, io) = (stats, status.backing_io);
        }
        mix.stop.set(true);
    });
}
