//! Statistics over time: sampled every 30 s, kept in SQLite for a year, on a thread of its own.
//!
//! The data plane is asked for its counters as by any other client; it never waits for this. When the file cannot be
//! written, serving goes on without a history.

mod bucket;
mod recent;
mod sampler;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind, ConditionKind, History, HistoryAverages, HistoryPoint, Subject, SubjectKind};
use tokio::sync::oneshot;

use self::bucket::Bucket;
use self::sampler::Sampler;
use self::store::{FILE_NAME, LEVELS, Level, Row, Store};
use super::register::ConditionRegister;
use crate::clock::unix_ms;

pub(crate) use recent::Recent;
pub(crate) use sampler::Look;

/// How often a sample is taken: the step of the finest level.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);

/// Samples between two rounds of forgetting: an hour.
const SAMPLES_PER_ROUND: u32 = 120;

/// Samples that wait at most: an hour's.
const LOOKS_WAITING_MAX: usize = 120;

/// How old the newest sample may be to be the current value.
const CURRENT_SECONDS: u64 = 120;

const DAY: u64 = 86_400;

/// What is asked of the history; see [`History`].
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) subject: Subject,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) points: u64,
}

enum HistoryJob {
    Look { at: u64, look: Box<Look> },
    CacheEnabled { volume: String, at: u64 },
    Begins { subject: Subject },
    Renamed { from: String, to: String },
    KeepAdvice { volume: String, at: u64, state: Vec<u8> },
    KeepSums { volume: String, at: u64, sums: Vec<u8> },
    ForgetAdvice { volume: String },
    AdviceOf { volume: String, reply: oneshot::Sender<Option<Vec<u8>>> },
    SumsBefore { volume: String, at: u64, reply: oneshot::Sender<Option<(u64, Vec<u8>)>> },
    Written { reply: oneshot::Sender<()> },
    Answer { question: Question, now: u64, reply: oneshot::Sender<Result<History, String>> },
}

/// Reaches the history's thread. A handle: cloning it is cheap; when the last one goes, the thread ends.
#[derive(Clone)]
pub(crate) struct HistoryHandle {
    jobs: Sender<HistoryJob>,
    /// That wait to be kept.
    looks: Arc<AtomicUsize>,
}

impl HistoryHandle {
    /// Starts the thread. What is wrong with the file is a condition.
    pub(crate) fn start(directory: &Path, register: ConditionRegister) -> std::io::Result<Self> {
        let (jobs, inbox) = channel();
        let looks = Arc::new(AtomicUsize::new(0));
        let (directory, waiting) = (directory.to_owned(), Arc::clone(&looks));
        let thread = std::thread::Builder::new().name("history".to_owned());
        thread.spawn(move || run(&directory, &inbox, &waiting, register))?;
        Ok(Self { jobs, looks })
    }

    pub(crate) async fn answer(&self, question: Question) -> Result<History, ApiError> {
        let answer = self.ask(|reply| HistoryJob::Answer { question, now: now(), reply }).await?;
        answer.map_err(|message| ApiError::new(ApiErrorKind::Unavailable, message))
    }

    /// A volume's warm-up begins.
    pub(crate) fn note_cache_enabled(&self, volume: &str) {
        // Without a history there is nothing to note it in.
        let _ = self.jobs.send(HistoryJob::CacheEnabled { volume: volume.to_owned(), at: now() });
    }

    /// Something new has this name: statistics of another one that had it are not its own.
    pub(crate) fn note_new(&self, kind: SubjectKind, name: &str) {
        let _ = self.jobs.send(HistoryJob::Begins { subject: Subject::new(kind, name) });
    }

    /// A volume's statistics go on under its new name.
    pub(crate) fn note_renamed(&self, from: &str, to: &str) {
        let _ = self.jobs.send(HistoryJob::Renamed { from: from.to_owned(), to: to.to_owned() });
    }

    /// What the advisor knows of a volume is kept for the next start.
    pub(crate) fn keep_advice(&self, volume: &str, at: u64, state: Vec<u8>) {
        // Without a history there is nothing to keep it in, here and below.
        let _ = self.jobs.send(HistoryJob::KeepAdvice { volume: volume.to_owned(), at, state });
    }

    /// What the advisor has summed up of a volume until now, to tell later what came after.
    pub(crate) fn keep_sums(&self, volume: &str, at: u64, sums: Vec<u8>) {
        let _ = self.jobs.send(HistoryJob::KeepSums { volume: volume.to_owned(), at, sums });
    }

    pub(crate) fn forget_advice(&self, volume: &str) {
        let _ = self.jobs.send(HistoryJob::ForgetAdvice { volume: volume.to_owned() });
    }

    /// What was kept last by [`Self::keep_advice`].
    pub(crate) async fn advice_of(&self, volume: &str) -> Result<Option<Vec<u8>>, ApiError> {
        self.ask(|reply| HistoryJob::AdviceOf { volume: volume.to_owned(), reply }).await
    }

    /// What was kept last by [`Self::keep_sums`] at this time or before, and when.
    pub(crate) async fn sums_before(&self, volume: &str, at: u64) -> Result<Option<(u64, Vec<u8>)>, ApiError> {
        self.ask(|reply| HistoryJob::SumsBefore { volume: volume.to_owned(), at, reply }).await
    }

    /// Completes when everything that was to be kept until now is, or cannot be.
    pub(crate) async fn written(&self) {
        let _ = self.ask(|reply| HistoryJob::Written { reply }).await;
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> HistoryJob) -> Result<T, ApiError> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(job(reply)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    /// A look at all counters. False: nobody is there to take it. While many wait for a disk that hangs, it is let go.
    pub(crate) fn take(&self, look: Look) -> bool {
        if self.looks.fetch_add(1, Ordering::Relaxed) >= LOOKS_WAITING_MAX {
            self.looks.fetch_sub(1, Ordering::Relaxed);
            return true;
        }
        self.jobs.send(HistoryJob::Look { at: now(), look: Box::new(look) }).is_ok()
    }
}

fn gone() -> ApiError {
    ApiError::new(ApiErrorKind::Unavailable, "the history's thread has ended; the log says why")
}

fn now() -> u64 {
    unix_ms() / 1000
}

/// The thread: does one job after the other until nobody can send any more.
fn run(directory: &Path, inbox: &Receiver<HistoryJob>, looks: &AtomicUsize, register: ConditionRegister) {
    let mut keeper = Keeper::new(directory, register);
    for job in inbox {
        match job {
            HistoryJob::Look { at, look } => {
                looks.fetch_sub(1, Ordering::Relaxed);
                keeper.take(at, *look);
            }
            HistoryJob::CacheEnabled { volume, at } => keeper.note_cache_enabled(&volume, at),
            HistoryJob::Begins { subject } => keeper.keep(|store| store.begin(&subject)),
            HistoryJob::Renamed { from, to } => keeper.rename(&from, &to),
            HistoryJob::KeepAdvice { volume, at, state } => keeper.keep(|store| store.keep_advice(&volume, at, &state)),
            HistoryJob::KeepSums { volume, at, sums } => keeper.keep(|store| store.keep_sums(&volume, at, &sums)),
            HistoryJob::ForgetAdvice { volume } => keeper.keep(|store| store.forget_advice(&volume)),
            // Who asked may be gone: then nobody wants the answer, here and below.
            HistoryJob::AdviceOf { volume, reply } => drop(reply.send(keeper.find(|store| store.advice_of(&volume)))),
            HistoryJob::SumsBefore { volume, at, reply } => {
                let _ = reply.send(keeper.find(|store| store.sums_before(&volume, at)));
            }
            HistoryJob::Written { reply } => drop(reply.send(())),
            HistoryJob::Answer { question, now, reply } => {
                // Who asked may be gone: then nobody wants the answer.
                let _ = reply.send(keeper.answer(&question, now));
            }
        }
    }
}

struct Keeper<'a> {
    directory: &'a Path,
    store: Result<Store, String>,
    sampler: Sampler,
    until_forgetting: u32,
    register: ConditionRegister,
}

impl<'a> Keeper<'a> {
    fn new(directory: &'a Path, register: ConditionRegister) -> Self {
        let store = open(directory, &register);
        Self { directory, store, sampler: Sampler::default(), until_forgetting: 0, register }
    }

    fn take(&mut self, at: u64, look: Look) {
        let samples = self.sampler.sample(look);
        if self.store.is_err() {
            self.store = open(self.directory, &self.register);
        }
        let Ok(store) = &mut self.store else { return };
        let mut done = store.append(at, &samples);
        if done.is_ok() && self.until_forgetting == 0 {
            self.until_forgetting = SAMPLES_PER_ROUND;
            done = store.forget(at);
        }
        self.until_forgetting = self.until_forgetting.saturating_sub(1);
        self.tell(done);
    }

    /// What came of a write.
    fn tell(&mut self, done: rusqlite::Result<()>) {
        let told = done
            .as_ref()
            .map_err(|error| format!("{}: {error}; statistics are not kept", self.directory.join(FILE_NAME).display()));
        self.register.follow(ConditionKind::Statistics, &told);
        look_for_set_aside(self.directory, &self.register);
        // A file that turned bad is set aside by opening it again; a full disk passes.
        let code = done.err().and_then(|error| error.sqlite_error_code());
        if matches!(code, Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase)) {
            self.store = open(self.directory, &self.register);
        }
    }

    /// What the advisor wants to be kept. Without a file it is not.
    fn keep(&mut self, write: impl FnOnce(&mut Store) -> rusqlite::Result<()>) {
        if let Ok(store) = &mut self.store {
            let done = write(store);
            self.tell(done);
        }
    }

    /// What cannot be read is as if it were not there.
    fn find<T>(&self, read: impl FnOnce(&Store) -> rusqlite::Result<Option<T>>) -> Option<T> {
        let found = read(self.store.as_ref().ok()?);
        found
            .inspect_err(|error| tracing::warn!("{FILE_NAME}: {error}; what the advisor knew is not read"))
            .ok()
            .flatten()
    }

    fn note_cache_enabled(&mut self, volume: &str, at: u64) {
        if let Ok(store) = &self.store {
            let done = store.note_cache_enabled(volume, at);
            self.tell(done);
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.sampler.rename(from, to);
        if let Ok(store) = &mut self.store {
            let done = store.rename_volume(from, to);
            self.tell(done);
        }
    }

    fn answer(&self, question: &Question, now: u64) -> Result<History, String> {
        let store = self.store.as_ref().map_err(|error| format!("there is no history: {error}"))?;
        answer(store, question, now).map_err(|error| format!("the history cannot be read: {error}"))
    }
}

fn open(directory: &Path, register: &ConditionRegister) -> Result<Store, String> {
    let opened = Store::open(directory);
    look_for_set_aside(directory, register);
    match opened {
        Ok((store, None)) => Ok(store),
        Ok((store, Some(message))) => {
            tracing::warn!("{message}; a new history begins");
            Ok(store)
        }
        Err(message) => {
            register.raise(ConditionKind::Statistics, format!("{message}; statistics are not kept"));
            Err(message)
        }
    }
}

/// Statistics that were set aside are told as long as the file is there.
fn look_for_set_aside(directory: &Path, register: &ConditionRegister) {
    match store::set_aside_files(directory).first() {
        Some(aside) => register.raise(
            ConditionKind::StatisticsSetAside,
            format!("statistics of before could not be read, and are in {}; new ones are kept", aside.display()),
        ),
        None => register.clear(ConditionKind::StatisticsSetAside),
    }
}

fn answer(store: &Store, question: &Question, now: u64) -> rusqlite::Result<History> {
    let Question { subject, from, to, points } = question;
    let level = level_for(*from, *to, *points, now);
    let step = step_for(level, *from, *to, *points);
    // The interval that is not over yet, too.
    let rows = store.rows(level, subject, *from, to.div_ceil(level.step_seconds) * level.step_seconds)?;
    // A clock that was set back has left some that lie ahead.
    let end = |level: Level| now.div_ceil(level.step_seconds) * level.step_seconds;
    let newest = store.rows(LEVELS[0], subject, now.saturating_sub(CURRENT_SECONDS), end(LEVELS[0]))?;
    let current = newest.iter().rev().find(|(_, bucket)| bucket.covered_ms > 0).or(newest.last());
    let average = |level: Level, days: u64| -> rusqlite::Result<Option<HistoryPoint>> {
        let rows = store.rows(level, subject, now.saturating_sub(days * DAY), end(level))?;
        let mut sum = Bucket::default();
        for (_, bucket) in &rows {
            sum.add(bucket);
        }
        Ok((sum.samples > 0).then(|| sum.point(now, subject.kind)))
    };
    Ok(History {
        subject: subject.clone(),
        from_unix_seconds: *from,
        to_unix_seconds: *to,
        step_seconds: step,
        points: merged(rows, step, subject.kind),
        current: current.map(|(at, bucket)| bucket.point(*at, subject.kind)),
        averages: HistoryAverages {
            day: average(LEVELS[0], 1)?,
            week: average(LEVELS[1], 7)?,
            month: average(LEVELS[1], 30)?,
        },
        cache_enabled_unix_seconds: store.cache_enabled(subject)?,
    })
}

/// The finest level that reaches back to `from` and has no more steps than points by far.
fn level_for(from: u64, to: u64, points: u64, now: u64) -> Level {
    let reaches = |level: &Level| now.saturating_sub(from) <= level.kept_seconds;
    let fits = |level: &Level| to.saturating_sub(from) / level.step_seconds <= points.saturating_mul(10);
    let coarsest = LEVELS[LEVELS.len() - 1];
    LEVELS.into_iter().find(|level| reaches(level) && fits(level)).unwrap_or(coarsest)
}

/// A multiple of the level's step, so that there are at most `points` of them.
fn step_for(level: Level, from: u64, to: u64, points: u64) -> u64 {
    let steps = to.saturating_sub(from).div_ceil(level.step_seconds);
    level.step_seconds * steps.div_ceil(points.max(1)).max(1)
}

fn merged(rows: Vec<Row>, step: u64, kind: SubjectKind) -> Vec<HistoryPoint> {
    let mut sums: Vec<Row> = Vec::new();
    for (at, bucket) in rows {
        let end = at.div_ceil(step) * step;
        match sums.last_mut() {
            Some((last, sum)) if *last == end => sum.add(&bucket),
            Some(_) | None => sums.push((end, bucket)),
        }
    }
    sums.iter().map(|(at, sum)| sum.point(*at, kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::bucket::Field;
    use super::*;

    const NOW: u64 = 1_900_000_020;

    fn filled(directory: &Path, count: u64) -> Store {
        let mut store = Store::open(directory).unwrap().0;
        for index in 0..count {
            let mut bucket = Bucket { samples: 1, covered_ms: 30_000, ..Default::default() };
            bucket.set(Field::reads(), 60);
            bucket.set(Field::read_hits(), 45);
            bucket.set(Field::CACHE_USED_BYTES, index);
            store.append(NOW - index * 30, &[(subject(), bucket)]).unwrap();
        }
        store
    }

    fn subject() -> Subject {
        Subject::new(SubjectKind::Volume, "v")
    }

    fn ask(store: &Store, seconds: u64, points: u64) -> History {
        let question = Question { subject: subject(), from: NOW - seconds, to: NOW, points };
        answer(store, &question, NOW).unwrap()
    }

    // proves: S2, S6
    #[test]
    fn four_hours_have_a_point_for_each_sample_and_averages_are_of_all_samples() {
        let directory = tempfile::tempdir().unwrap();
        let store = filled(directory.path(), 2880);
        let history = ask(&store, 4 * 3600, 480);
        assert_eq!((history.step_seconds, history.points.len()), (30, 480));
        let point = &history.points[0];
        assert_eq!(
            (point.requests, point.hits, point.misses, point.hit_ratio),
            (Some(60), Some(45), Some(15), Some(0.75))
        );
        assert_eq!(history.current.map(|now| now.reads_per_second), Some(Some(2.0)));
        let day = history.averages.day.unwrap();
        assert_eq!((day.requests, day.hit_ratio, day.covered_seconds), (Some(60 * 2880), Some(0.75), DAY));
        assert_eq!(day.cache_used_bytes, Some(f64::from(2879) / 2.0), "the average of the samples");
        assert_eq!(history.averages.month.unwrap().requests, Some(60 * 2880));
    }

    #[test]
    fn a_long_time_has_no_more_points_than_were_asked_for_and_loses_no_request() {
        let directory = tempfile::tempdir().unwrap();
        let store = filled(directory.path(), 2880);
        for (seconds, points) in [(DAY, 100), (DAY, 7), (20 * DAY, 300), (300 * DAY, 2000), (3600, 1)] {
            let history = ask(&store, seconds, points);
            let count = u64::try_from(history.points.len()).unwrap();
            assert!((1..=points + 1).contains(&count), "{seconds} s in {points}: {count}");
            let all: u64 = history.points.iter().filter_map(|point| point.requests).sum();
            assert!(all >= 60 * 2 * (seconds.min(DAY - 3600) / 60), "{seconds} s in {points}: {all}");
        }
    }

    #[test]
    fn nothing_is_known_of_what_was_never_seen() {
        let directory = tempfile::tempdir().unwrap();
        let store = filled(directory.path(), 1);
        let question = Question { subject: Subject::new(SubjectKind::Pool, "p"), from: 0, to: NOW, points: 10 };
        let history = answer(&store, &question, NOW).unwrap();
        assert_eq!((history.points.len(), history.current, history.averages.day), (0, None, None));
    }
}
