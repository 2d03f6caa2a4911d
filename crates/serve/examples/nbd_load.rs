//! A load from the command line, for benchmarks beside `fio`:
//! `nbd_load unix:PATH|tcp:HOST:PORT EXPORT [depth=128] [size=4096] [seconds=5] [read=100] [span=BYTES]
//! [pattern=random|sequential] [seed=1] [interval=MS]`. Prints one line, and before it, if asked, one for each interval.
//! Writes store random bytes, as those of `fio` do: what storage can compress or leave out would be no test of it.

use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{ByteRange, Env, Executor, ExecutorOptions, HostEnv};
use hotset_serve::load::{Client, Endpoint, Limit, Pattern, Progress, RandomBytes, Workload};

/// The command line.
struct Arguments {
    endpoint: Endpoint,
    export: String,
    depth: usize,
    request_bytes: u32,
    seconds: u64,
    read_percent: u8,
    /// The whole export, if not said.
    span_bytes: Option<u64>,
    pattern: Pattern,
    seed: u64,
    /// 0: no lines for intervals.
    interval_ms: u64,
}

fn main() -> ExitCode {
    let outcome = arguments().and_then(|arguments| {
        let executor = Executor::new(ExecutorOptions::default()).map_err(|error| error.to_string())?;
        executor.run(|env| async move { load(&env, &arguments).await.map_err(|error| error.to_string()) })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("nbd_load: {message}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut words = std::env::args().skip(1);
    let usage = "usage: nbd_load unix:PATH|tcp:HOST:PORT EXPORT [KEY=VALUE]...";
    let endpoint = words.next().ok_or(usage)?.parse()?;
    let mut arguments = Arguments {
        endpoint,
        export: words.next().ok_or(usage)?,
        depth: 128,
        request_bytes: 4096,
        seconds: 5,
        read_percent: 100,
        span_bytes: None,
        pattern: Pattern::Random,
        seed: 1,
        interval_ms: 0,
    };
    for word in words {
        let (key, value) = word.split_once('=').ok_or(usage)?;
        let number = || value.parse::<u64>().map_err(|error| format!("{word}: {error}"));
        let wrong = |error: std::num::TryFromIntError| format!("{word}: {error}");
        match key {
            "depth" => arguments.depth = usize::try_from(number()?).map_err(wrong)?,
            "size" => arguments.request_bytes = u32::try_from(number()?).map_err(wrong)?,
            "seconds" => arguments.seconds = number()?,
            "read" => arguments.read_percent = u8::try_from(number()?).map_err(wrong)?,
            "span" => arguments.span_bytes = Some(number()?),
            "seed" => arguments.seed = number()?,
            "interval" => arguments.interval_ms = number()?,
            "pattern" if value == "random" => arguments.pattern = Pattern::Random,
            "pattern" if value == "sequential" => arguments.pattern = Pattern::Sequential,
            _ => return Err(format!("{word}: {usage}")),
        }
    }
    Ok(arguments)
}

async fn load(env: &HostEnv, arguments: &Arguments) -> std::io::Result<()> {
    let mut client = Client::connect(env, &arguments.endpoint, &arguments.export).await?;
    let workload = Workload {
        read_percent: arguments.read_percent,
        request_bytes: arguments.request_bytes,
        depth: arguments.depth,
        range: ByteRange::at(0, arguments.span_bytes.unwrap_or(client.size_bytes())),
        pattern: arguments.pattern,
        limit: Limit::Duration(Duration::from_secs(arguments.seconds)),
        seed: arguments.seed,
    };
    let mut random = RandomBytes::new(arguments.seed, arguments.request_bytes);
    let progress = Rc::new(Progress::new());
    let ended = Rc::new(Cell::new(false));
    let start = env.real_now();
    if arguments.interval_ms > 0 {
        let interval = Duration::from_millis(arguments.interval_ms);
        env.spawn(print_intervals(env.clone(), interval, Rc::clone(&progress), Rc::clone(&ended)));
    }
    client.run(&workload, |_, _| {}, |_, data| random.fill(data), &progress).await?;
    ended.set(true);
    let elapsed = env.real_now().since(start);
    client.disconnect().await?;
    let total = progress.snapshot();
    let micros = |per_mille| total.latency.quantile(per_mille).as_micros();
    println!(
        "iops={} requests={} mb_per_second={} p50_us={} p99_us={} max_us={} errors={}",
        total.iops(elapsed),
        total.requests,
        u128::from(total.bytes) / elapsed.as_micros().max(1),
        micros(500),
        micros(990),
        total.latency.max().as_micros(),
        total.errors
    );
    Ok(())
}

/// Prints, until the load has ended, what was answered in each interval.
async fn print_intervals(env: HostEnv, interval: Duration, progress: Rc<Progress>, ended: Rc<Cell<bool>>) {
    let start = env.real_now();
    let (mut last, mut before) = (start, progress.snapshot());
    loop {
        env.sleep(interval).await;
        if ended.get() {
            return;
        }
        let (now, total) = (env.real_now(), progress.snapshot());
        let seen = total.since(&before);
        println!(
            "at_ms={} iops={} p99_us={}",
            now.since(start).as_millis(),
            seen.iops(now.since(last)),
            seen.latency.quantile(990).as_micros()
        );
        (last, before) = (now, total);
    }
}
