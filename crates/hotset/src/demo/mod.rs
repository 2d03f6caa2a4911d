//! `hotset demo`: the main job on an embedded default, measured through the NBD socket, every byte checked.
//!
//! It has its own data plane, without a daemon and its control API; what it makes lies in a scratch directory.

mod content;
mod load;
mod measure;
mod narrator;
mod report;
mod scratch;
mod stage;

use std::cell::Cell;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::config::PoolKind;
use tokio::signal::unix::{SignalKind, signal};

use self::load::LoadShape;
use self::measure::{Measured, Runner, warm_up_seconds};
use self::narrator::{Narrator, failed};
use self::report::{DemoReport, Figures, Test, ratio};
use self::stage::{DATABASE_PERCENT, Stage, StageSizes};
use crate::args::{DemoArguments, Output};
use crate::client::print;
use crate::size::human;

/// What a shell reports of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// From here on the cache counts as warm.
const WARM_HIT_RATIO: f64 = 0.998;

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

/// How the time is divided. Preparation comes on top: some seconds, as fast as the machine writes.
struct Times {
    /// Of each of the eight measurements.
    measure: Duration,
    warm_up_limit: Duration,
    /// Of each of the three hot sets of the database test.
    database_warm_up: Duration,
}

impl Times {
    fn of(seconds: u64) -> Self {
        let part = |percent: u64| Duration::from_millis(seconds * percent * 10);
        Self { measure: part(8), warm_up_limit: part(20), database_warm_up: part(8) }
    }
}

/// `ending` is what an interrupt means: while the demo is kept up, it is the way to end it.
async fn demonstrate(arguments: &DemoArguments, output: Output, ending: &Cell<ExitCode>) -> Result<ExitCode, ApiError> {
    let times = Times::of(arguments.seconds);
    let sizes = StageSizes::for_seconds(arguments.seconds)?;
    let narrator = Narrator { output, terminal: std::io::stderr().is_terminal() };
    narrator.say(&format!(
        "An emulated array of 16 disks, RAID 5, with {}, and {} SSD images of {} each",
        human(sizes.volume_bytes),
        sizes.ssds,
        human(sizes.ssd_bytes)
    ));
    let stage = Stage::build(arguments.dir.as_deref(), sizes, &narrator).await?;
    let report = measure(&stage, &times, &narrator).await?;
    let right = report.wrong_pages == 0 && report.failed_requests == 0;
    print(output, &report, DemoReport::render)?;
    let code = if right { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if arguments.serve {
        ending.set(code);
        crate::client::tell(&stage.invitation());
        std::future::pending::<()>().await;
    }
    stage.close().await?;
    Ok(code)
}

/// What the array does alone.
struct Uncached {
    reads: Measured,
    writes: Measured,
    database: Measured,
}

async fn measure(stage: &Stage, times: &Times, narrator: &Narrator) -> Result<DemoReport, ApiError> {
    let mut runner = Runner::new(stage, narrator);
    let uncached = measure_uncached(&mut runner, &stage.sizes, times).await?;
    stage.enable_cache(PoolKind::Read).await?;
    let mut tests = vec![measure_reads(&mut runner, &stage.sizes, times, &uncached.reads).await?];
    stage.delete_pool().await?;
    stage.enable_cache(PoolKind::ReadWrite).await?;
    tests.push(measure_writes(&mut runner, &stage.sizes, times, &uncached.writes).await?);
    for percent in DATABASE_PERCENT {
        tests.push(measure_database(&mut runner, &stage.sizes, times, &uncached.database, percent).await?);
    }
    runner.steady("reading everything back", LoadShape::read_all(stage.sizes.volume_bytes)).await?;
    let content = runner.content();
    Ok(DemoReport {
        backing_emulated: true,
        backing: stage.backing(),
        ssds: stage.sizes.ssds,
        read_cache_bytes: stage.sizes.read_cache_bytes,
        dirty_capacity_bytes: stage.sizes.dirty_capacity_bytes,
        clean_capacity_bytes: stage.sizes.clean_capacity_bytes,
        tests,
        checked_bytes: content.checked_bytes,
        wrong_pages: content.wrong_pages,
        failed_requests: runner.failed_requests,
    })
}

async fn measure_uncached(runner: &mut Runner<'_>, sizes: &StageSizes, times: &Times) -> Result<Uncached, ApiError> {
    let largest = sizes.database_bytes(DATABASE_PERCENT[2]);
    Ok(Uncached {
        reads: runner.steady("4 KiB reads, uncached", LoadShape::reads(sizes.read_bytes, times.measure)).await?,
        writes: runner.steady("4 KiB writes, uncached", LoadShape::writes(sizes.write_bytes, times.measure)).await?,
        database: runner.steady("8 KiB mix, uncached", LoadShape::database(largest, times.measure)).await?,
    })
}

/// REQUIREMENTS B1.
async fn measure_reads(
    runner: &mut Runner<'_>,
    sizes: &StageSizes,
    times: &Times,
    before: &Measured,
) -> Result<Figures, ApiError> {
    let job = |duration| LoadShape::reads(sizes.read_bytes, duration);
    let warming = runner.warm_up("4 KiB reads, warming up", job(times.warm_up_limit), WARM_HIT_RATIO).await?;
    let after = runner.steady("4 KiB reads, cached", job(times.measure)).await?;
    let warm_up_s = warm_up_seconds(&warming.samples, after.iops);
    Ok(figures(Test::Reads, sizes.read_bytes, before, &after, warm_up_s))
}

/// REQUIREMENTS B2.
async fn measure_writes(
    runner: &mut Runner<'_>,
    sizes: &StageSizes,
    times: &Times,
    before: &Measured,
) -> Result<Figures, ApiError> {
    let after = runner.steady("4 KiB writes, write-back", LoadShape::writes(sizes.write_bytes, times.measure)).await?;
    let warm_up_s = warm_up_seconds(&after.samples, after.iops);
    Ok(figures(Test::Writes, sizes.write_bytes, before, &after, warm_up_s))
}

/// REQUIREMENTS B3.
async fn measure_database(
    runner: &mut Runner<'_>,
    sizes: &StageSizes,
    times: &Times,
    before: &Measured,
    percent: u8,
) -> Result<Figures, ApiError> {
    let hot_bytes = sizes.database_bytes(percent);
    let (warming_up, cached) =
        (format!("8 KiB mix, {percent} %, warming up"), format!("8 KiB mix, {percent} %, cached"));
    let job = |duration| LoadShape::database(hot_bytes, duration);
    let warming = runner.warm_up(&warming_up, job(times.database_warm_up), WARM_HIT_RATIO).await?;
    let after = runner.steady(&cached, job(times.measure)).await?;
    let warm_up_s = warm_up_seconds(&warming.samples, after.iops);
    Ok(figures(Test::Database { cache_percent: percent }, hot_bytes, before, &after, warm_up_s))
}

fn figures(test: Test, hot_bytes: u64, before: &Measured, after: &Measured, warm_up_s: Option<f64>) -> Figures {
    let job = test.job();
    Figures {
        requirement: test.requirement(),
        test: test.title(),
        request_bytes: job.request_bytes,
        read_percent: job.read_percent,
        depth: load::DEPTH,
        hot_bytes,
        cache_percent: test.cache_percent(),
        iops_before: before.iops,
        iops_after: after.iops,
        improvement: ratio(after.iops, before.iops),
        warm_up_s,
        hit_ratio: after.hit_ratio,
    }
}
