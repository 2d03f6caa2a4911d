//! `hotset demo`: the main job on an embedded default, measured through the NBD socket, every byte checked.
//!
//! It has its own data plane, without a daemon and its control API; what it makes lies in a scratch directory.

mod content;
mod load;
mod report;
mod scratch;
mod stage;

use std::cell::Cell;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hotset_api::{ApiError, ApiErrorKind};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

use self::content::Content;
use self::load::{Load, Mix};
use self::report::{Figures, Report, ratio};
use self::stage::{Stage, StageSizes};
use crate::args::{DemoArguments, Output};
use crate::client::print;
use crate::size::{grouped, human};

/// What a shell reports of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// How often progress is shown and measured.
const TICK: Duration = Duration::from_millis(500);

const READS: Mix = Mix { request_bytes: 4096, read_percent: 100 };
const MIXED: Mix = Mix { request_bytes: 8192, read_percent: 67 };

pub(crate) fn run(arguments: &DemoArguments, output: Output) -> Result<ExitCode, ApiError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("runtime: {error}")))?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let ending = Cell::new(ExitCode::from(INTERRUPTED));
        // Dropping the demo cleans up.
        tokio::select! {
            done = demonstrate(arguments, output, &ending) => done,
            _ = interrupt.recv() => Ok(ending.get()),
            _ = terminate.recv() => Ok(ending.get()),
        }
    })
}

fn failed(error: std::io::Error) -> ApiError {
    ApiError::new(ApiErrorKind::Device, format!("demo: {error}"))
}

/// How the time is divided. Preparation comes on top: some seconds, as fast as the machine writes.
struct Times {
    measure: Duration,
    warm_up_limit: Duration,
    mixed_warm_up: Duration,
}

impl Times {
    fn of(seconds: u64) -> Self {
        let part = |percent: u64| Duration::from_millis(seconds * percent * 10);
        Self { measure: part(12), warm_up_limit: part(36), mixed_warm_up: part(6) }
    }
}

/// `ending` is what an interrupt means: while the demo is kept up, it is the way to end it.
async fn demonstrate(arguments: &DemoArguments, output: Output, ending: &Cell<ExitCode>) -> Result<ExitCode, ApiError> {
    let times = Times::of(arguments.seconds);
    let sizes = StageSizes::for_seconds(arguments.seconds);
    let narrator = Narrator { output, terminal: std::io::stderr().is_terminal() };
    narrator.say(&format!(
        "An emulated array of 16 disks, RAID 5, with {} of hot data, and {} SSD images of {} each",
        human(sizes.hot_bytes),
        sizes.ssds,
        human(sizes.ssd_bytes)
    ));
    let stage = Stage::build(arguments.dir.as_deref(), sizes, &narrator).await?;
    let report = measure(&stage, &times, &narrator).await?;
    let right = report.wrong_pages == 0 && report.failed_requests == 0;
    print(output, &report, Report::render)?;
    let code = if right { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if arguments.serve {
        ending.set(code);
        eprint!("{}", stage.invitation());
        std::future::pending::<()>().await;
    }
    stage.close().await?;
    Ok(code)
}

/// What was measured of a load.
struct Measured {
    iops: u64,
    failed_requests: u64,
}

async fn measure(stage: &Stage, times: &Times, narrator: &Narrator) -> Result<Report, ApiError> {
    let content = Content::new(stage.sizes.hot_bytes);
    let (reads_before, content) =
        steady(stage, READS, times.measure, content, narrator, "4 KiB reads, uncached").await?;
    let (mixed_before, content) = steady(stage, MIXED, times.measure, content, narrator, "8 KiB mix, uncached").await?;
    stage.enable_cache().await?;
    let (samples, content) = warm_up(stage, times.warm_up_limit, content, narrator).await?;
    let before = stage.counters().await?;
    let (reads_after, content) = steady(stage, READS, times.measure, content, narrator, "4 KiB reads, cached").await?;
    let read_hits = stage.counters().await?.hit_ratio_since(&before);
    let (settling, content) =
        steady(stage, MIXED, times.mixed_warm_up, content, narrator, "8 KiB mix, settling").await?;
    let before = stage.counters().await?;
    let (mixed_after, content) = steady(stage, MIXED, times.measure, content, narrator, "8 KiB mix, cached").await?;
    let mixed_hits = stage.counters().await?.hit_ratio_since(&before);
    let measured = [&reads_before, &mixed_before, &reads_after, &settling, &mixed_after];
    Ok(Report {
        backing_emulated: true,
        backing: stage.backing(),
        hot_bytes: stage.sizes.hot_bytes,
        ssds: stage.sizes.ssds,
        tests: vec![
            Figures {
                warm_up_s: warm_up_seconds(&samples, reads_after.iops),
                hit_ratio: read_hits,
                ..figures("4 KiB random read", READS, &reads_before, &reads_after)
            },
            Figures { hit_ratio: mixed_hits, ..figures("8 KiB random, 67 % read", MIXED, &mixed_before, &mixed_after) },
        ],
        checked_bytes: content.checked_bytes,
        wrong_pages: content.wrong_pages,
        failed_requests: measured.iter().map(|measured| measured.failed_requests).sum(),
    })
}

fn figures(test: &'static str, mix: Mix, before: &Measured, after: &Measured) -> Figures {
    Figures {
        test,
        request_bytes: mix.request_bytes,
        read_percent: mix.read_percent,
        depth: 128,
        iops_before: before.iops,
        iops_after: after.iops,
        improvement: ratio(after.iops, before.iops),
        warm_up_s: None,
        hit_ratio: 0.0,
    }
}

/// One load of fixed length, with a bar.
async fn steady(
    stage: &Stage,
    mix: Mix,
    duration: Duration,
    content: Content,
    narrator: &Narrator,
    what: &'static str,
) -> Result<(Measured, Content), ApiError> {
    let load = Load::start(&stage.target, mix, duration, content).map_err(failed)?;
    let progress = std::sync::Arc::clone(&load.progress);
    let started = Instant::now();
    let ticks = narrator.ticks(what, duration);
    let watched = async {
        let mut before = 0;
        loop {
            tokio::time::sleep(TICK).await;
            let requests = progress.requests();
            ticks.tick(started.elapsed(), &format!("{} IOPS", grouped(per_tick(requests - before))));
            before = requests;
        }
    };
    let content = tokio::select! {
        content = load.ended() => content.map_err(failed)?,
        () = watched => unreachable!("watching never ends by itself"),
    };
    let snapshot = progress.snapshot();
    let iops = snapshot.iops(started.elapsed());
    ticks.finish(&format!("{} IOPS", grouped(iops)));
    Ok((Measured { iops, failed_requests: snapshot.errors }, content))
}

/// IOPS some time after the cache was enabled.
struct Sample {
    at: Duration,
    iops: u64,
}

/// Reads until the cache answers nearly all, or the limit is over.
async fn warm_up(
    stage: &Stage,
    limit: Duration,
    content: Content,
    narrator: &Narrator,
) -> Result<(Vec<Sample>, Content), ApiError> {
    let load = Load::start(&stage.target, READS, limit, content).map_err(failed)?;
    let started = Instant::now();
    let ticks = narrator.ticks("4 KiB reads, warming up", limit);
    let mut samples = Vec::new();
    let (mut before, mut requests_before) = (stage.counters().await?, 0);
    let mut hits = 0.0;
    while started.elapsed() < limit {
        tokio::time::sleep(TICK).await;
        let (now, requests) = (stage.counters().await?, load.progress.requests());
        hits = now.hit_ratio_since(&before);
        let iops = per_tick(requests - requests_before);
        ticks.tick(started.elapsed(), &format!("{} IOPS, {:.1} % hits", grouped(iops), hits * 100.0));
        samples.push(Sample { at: started.elapsed(), iops });
        (before, requests_before) = (now, requests);
        if hits > WARM_HIT_RATIO {
            break;
        }
    }
    ticks.finish(&format!("{:.1} % hits after {:.1} s", hits * 100.0, started.elapsed().as_secs_f64()));
    Ok((samples, load.finish().await.map_err(failed)?))
}

/// From here on the cache counts as warm.
const WARM_HIT_RATIO: f64 = 0.998;

/// When 90 % of the final IOPS were first reached; the end of the warm-up, if they were not.
fn warm_up_seconds(samples: &[Sample], final_iops: u64) -> Option<f64> {
    let reached = samples.iter().find(|sample| sample.iops >= final_iops / 10 * 9);
    reached.or(samples.last()).map(|sample| sample.at.as_secs_f64())
}

fn per_tick(requests: u64) -> u64 {
    requests * 1000 / u64::try_from(TICK.as_millis()).expect("a tick is short")
}

/// Tells what is going on: bars on a terminal, lines elsewhere. Results go to standard output, this does not.
pub(super) struct Narrator {
    output: Output,
    terminal: bool,
}

impl Narrator {
    fn say(&self, line: &str) {
        match self.output {
            Output::Text => eprintln!("{line}"),
            Output::Json => {}
        }
    }

    fn ticks(&self, what: &'static str, duration: Duration) -> Ticks {
        let drawn = self.terminal && self.output == Output::Text;
        let bar = if drawn { bar(what, duration) } else { ProgressBar::hidden() };
        Ticks { bar, lines: !drawn && self.output == Output::Text, what }
    }
}

fn bar(what: &'static str, duration: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:26} [{bar:30}] {msg}").expect("the template is valid");
    ProgressBar::new(millis(duration)).with_style(style).with_prefix(what)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The progress of one load.
struct Ticks {
    bar: ProgressBar,
    lines: bool,
    what: &'static str,
}

impl Ticks {
    fn tick(&self, elapsed: Duration, message: &str) {
        self.bar.set_position(millis(elapsed));
        self.bar.set_message(message.to_owned());
    }

    fn finish(&self, message: &str) {
        self.bar.finish_with_message(message.to_owned());
        if self.lines {
            eprintln!("{:26} {message}", self.what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_ends_when_nine_tenths_of_the_final_iops_are_reached() {
        let sample = |seconds, iops| Sample { at: Duration::from_secs(seconds), iops };
        let samples = [sample(1, 5000), sample(2, 60_000), sample(3, 95_000), sample(4, 99_000)];
        assert_eq!(warm_up_seconds(&samples, 100_000), Some(3.0));
        assert_eq!(warm_up_seconds(&samples, 200_000), Some(4.0));
        assert_eq!(warm_up_seconds(&[], 100), None);
    }
}
