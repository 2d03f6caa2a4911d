//! Prints what the presets of the emulated array give, beside the figures that the vendors published for theirs.
//!
//! Measured in real time through the device, on sparse files in the temporary directory:
//! `cargo run --release --package hotset-block --example emulated_presets [SECONDS]` (2 if not given, per figure).

use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use hotset_block::emulated::{EmulatedArray, EmulatedArraySpec, Parameters, Preset};
use hotset_block::{Device, Env, Executor, ExecutorOptions, FileOptions, HostDevice, HostEnv, Instant};

const SIZE_BYTES: u64 = 1 << 30;
const PAGE_BYTES: u64 = 4096;

/// Streams have few requests at a time, each of several whole stripes.
const STREAM_DEPTH: u64 = 8;

/// Streams go round and round here, so that the store is in memory and the array's own speed shows.
const STREAM_BYTES: u64 = 128 << 20;

/// Before measuring: the write caches of the disks fill.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
enum Pattern {
    RandomRead { depth: u64 },
    RandomWrite { depth: u64 },
    StreamingRead,
    StreamingWrite,
}

struct Figure {
    preset: Preset,
    pattern: Pattern,
    /// Requests per second, or MB/s for a stream. `None`: not published.
    vendor: Option<f64>,
}

const fn figure(preset: Preset, pattern: Pattern, vendor: Option<f64>) -> Figure {
    Figure { preset, pattern, vendor }
}

/// The figures of one round are measured at the same time: arrays that wait do not disturb each other.
const ROUNDS: [&[Figure]; 6] = [
    &[
        figure(Preset::B1, Pattern::RandomRead { depth: 128 }, Some(4512.0)),
        figure(Preset::B6, Pattern::RandomRead { depth: 32 }, Some(1016.0)),
        figure(Preset::B9, Pattern::RandomRead { depth: 24 }, Some(1100.0)),
    ],
    &[
        figure(Preset::B1, Pattern::RandomWrite { depth: 128 }, Some(1660.0)),
        figure(Preset::B6, Pattern::RandomWrite { depth: 32 }, Some(562.0)),
        figure(Preset::B9, Pattern::RandomWrite { depth: 24 }, Some(300.0)),
    ],
    &[figure(Preset::B1, Pattern::StreamingRead, None)],
    &[figure(Preset::B6, Pattern::StreamingRead, None)],
    &[figure(Preset::B9, Pattern::StreamingRead, Some(900.0))],
    &[figure(Preset::B9, Pattern::StreamingWrite, Some(900.0))],
];

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(2), |text| text.parse::<u32>())?;
    let directory = tempfile::tempdir()?;
    println!("emulated arrays, measured in real time for {seconds} s each; volumes of {} MiB", SIZE_BYTES >> 20);
    println!("{:<46} {:>8} {:>9} {:>6}", "figure", "vendor", "emulated", "ratio");
    for round in ROUNDS {
        let executor = Executor::new(ExecutorOptions::default())?;
        let measured = executor.run(async |env| {
            try_join_all(round.iter().map(|figure| measure(&env, directory.path(), figure, seconds))).await
        })?;
        for (figure, measured) in round.iter().zip(measured) {
            print(figure, measured);
        }
    }
    Ok(())
}

fn print(figure: &Figure, measured: f64) {
    let name = figure.preset.name();
    let what = match figure.pattern {
        Pattern::RandomRead { depth } => format!("{name}: 4 KiB random reads, depth {depth}, per second"),
        Pattern::RandomWrite { depth } => format!("{name}: 4 KiB random writes, depth {depth}, per second"),
        Pattern::StreamingRead => format!("{name}: streaming reads, MB/s"),
        Pattern::StreamingWrite => format!("{name}: streaming writes, MB/s"),
    };
    let vendor = figure.vendor.map_or("-".to_owned(), |vendor| format!("{vendor:.0}"));
    let ratio = figure.vendor.map_or("-".to_owned(), |vendor| format!("{:.2}", measured / vendor));
    println!("{what:<46} {vendor:>8} {measured:>9.0} {ratio:>6}");
}

async fn measure(env: &HostEnv, directory: &Path, figure: &Figure, seconds: u32) -> Result<f64, Box<dyn Error>> {
    let parameters = figure.preset.parameters(SIZE_BYTES);
    let file = directory.join(figure.preset.name());
    let spec = EmulatedArraySpec { parameters: parameters.clone(), file };
    let device = HostDevice::Emulated(EmulatedArray::open(env, &spec, FileOptions::default()).await?);
    let began = env.now().plus(WARM_UP);
    let ends = began.plus(Duration::from_secs(u64::from(seconds)));
    let load = Load { env, device: &device, requests: Requests::new(figure.pattern, &parameters), began, ends };
    let count: u32 = join_all((0..load.requests.depth).map(|_| load.run())).await.into_iter().sum();
    let per_second = f64::from(count) / f64::from(seconds);
    Ok(match figure.pattern {
        Pattern::RandomRead { .. } | Pattern::RandomWrite { .. } => per_second,
        Pattern::StreamingRead | Pattern::StreamingWrite => {
            per_second * f64::from(u32::try_from(load.requests.length)?) / 1e6
        }
    })
}

struct Load<'a> {
    env: &'a HostEnv,
    device: &'a HostDevice,
    requests: Requests,
    began: Instant,
    ends: Instant,
}

impl Load<'_> {
    /// Sends one request after the other; how many were answered in the measured time.
    async fn run(&self) -> u32 {
        let mut count = 0;
        let length = usize::try_from(self.requests.length).expect("a request fits the memory");
        while self.env.now() < self.ends {
            let buf = self.env.buffers().take(length);
            let offset = self.requests.next_offset(self.env);
            let (_, result) = match self.requests.pattern {
                Pattern::RandomRead { .. } | Pattern::StreamingRead => self.device.read(offset, buf).await,
                Pattern::RandomWrite { .. } | Pattern::StreamingWrite => self.device.write(offset, buf).await,
            };
            result.expect("the store has room and works");
            count += u32::from((self.began..self.ends).contains(&self.env.now()));
        }
        count
    }
}

struct Requests {
    pattern: Pattern,
    depth: u64,
    length: u64,
    size_bytes: u64,
    position: Cell<u64>,
}

impl Requests {
    fn new(pattern: Pattern, parameters: &Parameters) -> Self {
        let (depth, length) = match pattern {
            Pattern::RandomRead { depth } | Pattern::RandomWrite { depth } => (depth, PAGE_BYTES),
            Pattern::StreamingRead | Pattern::StreamingWrite => (STREAM_DEPTH, 4 * parameters.stripe_bytes()),
        };
        let extent_bytes = match pattern {
            Pattern::RandomRead { .. } | Pattern::RandomWrite { .. } => parameters.size_bytes,
            Pattern::StreamingRead | Pattern::StreamingWrite => STREAM_BYTES,
        };
        let size_bytes = extent_bytes / length * length;
        Self { pattern, depth, length, size_bytes, position: Cell::new(0) }
    }

    fn next_offset(&self, env: &HostEnv) -> u64 {
        match self.pattern {
            Pattern::RandomRead { .. } | Pattern::RandomWrite { .. } => {
                env.random() % (self.size_bytes / self.length) * self.length
            }
            Pattern::StreamingRead | Pattern::StreamingWrite => {
                let position = self.position.get();
                self.position.set((position + self.length) % self.size_bytes);
                position
            }
        }
    }
}
