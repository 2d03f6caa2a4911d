//! One load after the other, each watched while it runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotset_api::ApiError;

use super::content::Content;
use super::load::{Load, LoadShape};
use super::narrator::{Narrator, failed};
use super::stage::Stage;
use crate::size::grouped;

/// How often progress is shown and measured.
const TICK: Duration = Duration::from_millis(500);

/// IOPS some time after a load began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Duration,
    pub(super) iops: u64,
}

/// What was measured of a load.
pub(super) struct Measured {
    pub(super) iops: u64,
    /// Hits per read of the cache, if there was one.
    pub(super) hit_ratio: f64,
    pub(super) failed_requests: u64,
    pub(super) samples: Vec<Sample>,
}

/// Runs loads on a stage, and keeps what the volume must contain.
pub(super) struct Runner<'a> {
    stage: &'a Stage,
    narrator: &'a Narrator,
    content: Option<Content>,
    pub(super) failed_requests: u64,
}

impl<'a> Runner<'a> {
    pub(super) fn new(stage: &'a Stage, narrator: &'a Narrator) -> Self {
        let content = Some(Content::new(stage.sizes.volume_bytes));
        Self { stage, narrator, content, failed_requests: 0 }
    }

    pub(super) fn content(&self) -> &Content {
        self.content.as_ref().expect("it is away only while a load runs")
    }

    /// One load to its end.
    pub(super) async fn steady(&mut self, what: &str, job: LoadShape) -> Result<Measured, ApiError> {
        self.run(what, job, f64::INFINITY).await
    }

    /// One load to its end, or until the cache answers this part of the reads.
    pub(super) async fn warm_up(&mut self, what: &str, job: LoadShape, hit_ratio: f64) -> Result<Measured, ApiError> {
        self.run(what, job, hit_ratio).await
    }

    async fn run(&mut self, what: &str, job: LoadShape, enough_hits: f64) -> Result<Measured, ApiError> {
        let content = self.content.take().expect("loads run one after the other");
        let load = Load::start(&self.stage.target, job, content).map_err(failed)?;
        let (progress, enough) = (Arc::clone(&load.progress), Arc::clone(&load.enough));
        let before = self.stage.counters().await?;
        let started = Instant::now();
        let ticks = self.narrator.ticks(what, job.duration.unwrap_or_default());
        let mut samples = Vec::new();
        let watched = async {
            let (mut then, mut requests_then) = (before, 0);
            loop {
                tokio::time::sleep(TICK).await;
                let (now, requests) = (self.stage.counters().await?, progress.requests());
                let (iops, hits) = (per_tick(requests - requests_then), now.hit_ratio_since(&then));
                ticks.tick(started.elapsed(), &format!("{} IOPS, {:.1} % hits", grouped(iops), hits * 100.0));
                samples.push(Sample { at: started.elapsed(), iops });
                (then, requests_then) = (now, requests);
                if hits > enough_hits {
                    enough.store(true, std::sync::atomic::Ordering::Relaxed);
                    return std::future::pending::<Result<Content, ApiError>>().await;
                }
            }
        };
        let content = tokio::select! {
            content = load.ended() => content.map_err(failed)?,
            error = watched => error?,
        };
        let (snapshot, elapsed) = (progress.snapshot(), started.elapsed());
        let measured = Measured {
            iops: snapshot.iops(elapsed),
            hit_ratio: self.stage.counters().await?.hit_ratio_since(&before),
            failed_requests: snapshot.errors,
            samples,
        };
        let seconds = elapsed.as_secs_f64();
        ticks.finish(&format!("{} IOPS, {:.1} s", grouped(measured.iops), seconds));
        self.failed_requests += measured.failed_requests;
        self.content = Some(content);
        Ok(measured)
    }
}

/// When 90 % of the final IOPS were first reached; the end of the samples, if they were not.
pub(super) fn warm_up_seconds(samples: &[Sample], final_iops: u64) -> Option<f64> {
    let reached = samples.iter().find(|sample| sample.iops >= final_iops / 10 * 9);
    reached.or(samples.last()).map(|sample| sample.at.as_secs_f64())
}

fn per_tick(requests: u64) -> u64 {
    requests * 1000 / u64::try_from(TICK.as_millis()).expect("a tick is no longer than 2^64 milliseconds")
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
