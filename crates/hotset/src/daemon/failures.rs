//! Which pool the daemon was at work for when it ended without a stop. A pool that ends it again and again is fenced: it
//! is not opened any more, so that the others are served, until an administrator says so.
//!
//! The rule. Each of these is one failure of a pool:
//! - the daemon ended, in whatever way, while it opened that pool. An opening that comes to its end, well or not, takes
//!   back the earlier failures of this kind, and so does a clean stop: a machine that is switched off, or a daemon that is
//!   killed now and then, fences nothing;
//! - the data plane panicked in work of that pool, or of one of its volumes.
//!
//! Three of them within five minutes fence the pool. A failure has the time of the start that found it, or of the panic.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use hotset_api::ConditionKind;
use serde::{Deserialize, Serialize};

use super::register::ConditionRegister;
use super::state::{PoolRecord, StateDirectory};
use crate::clock::unix_ms;
use crate::{running_time, state_file};

/// So many failures …
const FAILURES_MAX: usize = 3;

/// A pool is fenced that has failed so often within this time.
const WINDOW_MS: u64 = 5 * 60 * 1000;

/// Where a panic says for whom it was at work; the next start takes it in.
const PANIC_FILE: &str = "panic";

/// How long a panic may take to leave its name.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The pool that is being opened.
    opening: Option<String>,
    failures: Vec<OpenFailure>,
    /// By pool: when it was fenced, and why.
    fenced: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenFailure {
    pool: String,
    at_unix_ms: u64,
    kind: OpenFailureKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OpenFailureKind {
    Opening,
    Panic,
}

/// See the file's summary.
pub(crate) struct Failures {
    record: Mutex<Record>,
    register: ConditionRegister,
    /// The daemon stops: what is begun from now on is not begun in earnest.
    ended: AtomicBool,
}

impl Failures {
    /// Takes in how the last run ended. Blocking.
    pub(super) fn load(state: &StateDirectory, register: ConditionRegister) -> Self {
        let mut record: Record = state.failures();
        let before = record.clone();
        let panicked = take_panic(state.path());
        record.take_in(panicked.as_deref(), &state.pools().unwrap_or_default(), unix_ms());
        for (pool, why) in &record.fenced {
            tracing::error!(pool, "fenced: {why}");
        }
        let failures = Self { record: Mutex::new(record), register, ended: AtomicBool::new(false) };
        if *failures.record() != before {
            failures.save(state, &failures.record());
        }
        failures
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a pool is not opened, if it is fenced.
    pub(super) fn fence(&self, pool: &str) -> Option<String> {
        self.record().fenced.get(pool).cloned()
    }

    /// The pool is opened now: one at a time.
    pub(super) fn begin_opening(&self, state: &StateDirectory, pool: &str) {
        let mut record = self.record();
        if !self.ended.load(Ordering::Relaxed) {
            record.opening = Some(pool.to_owned());
            self.save(state, &record);
        }
    }

    /// It is open, or an ordinary error kept it from that.
    pub(super) fn end_opening(&self, state: &StateDirectory, pool: &str) {
        let mut record = self.record();
        record.opening = None;
        record.failures.retain(|failure| failure.pool != pool || failure.kind != OpenFailureKind::Opening);
        self.save(state, &record);
    }

    /// A clean stop, also in the middle of an opening, is no failure.
    pub(super) fn end_cleanly(&self, state: &StateDirectory) {
        let mut record = self.record();
        self.ended.store(true, Ordering::Relaxed);
        if record.opening.take().is_some() {
            self.save(state, &record);
        }
    }

    /// The pool may be opened again, as if nothing had been. True if it was fenced.
    pub(super) fn lift(&self, state: &StateDirectory, pool: &str) -> bool {
        let mut record = self.record();
        let fenced = record.fenced.remove(pool).is_some();
        record.failures.retain(|failure| failure.pool != pool);
        if fenced {
            self.save(state, &record);
        }
        fenced
    }

    /// Writes again what could not be written.
    pub(super) fn save_again(&self, state: &StateDirectory) {
        self.save(state, &self.record());
    }

    /// Without the record a crash is one that nobody counted: no reason not to serve.
    fn save(&self, state: &StateDirectory, record: &Record) {
        let written = state
            .write_failures(record)
            .map_err(|error| format!("{}: {error}; how runs of the daemon end is not counted", state.path().display()));
        self.register.follow(ConditionKind::Failures, &written);
    }
}

impl Record {
    /// Counts how the last run ended, and fences whom that concerns. `panicked` names a pool or a volume.
    fn take_in(&mut self, panicked: Option<&str>, pools: &[Result<PoolRecord, String>], now_unix_ms: u64) {
        let mut failed = |pool: String, kind| self.failures.push(OpenFailure { pool, at_unix_ms: now_unix_ms, kind });
        let opening = self.opening.take();
        match panicked.and_then(|subject| pool_of(subject, pools)) {
            // It is the same failure, and its kind is known better.
            Some(pool) => failed(pool, OpenFailureKind::Panic),
            None => opening.into_iter().for_each(|pool| failed(pool, OpenFailureKind::Opening)),
        }
        self.failures.retain(|failure| now_unix_ms.abs_diff(failure.at_unix_ms) <= WINDOW_MS);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.failures.iter().for_each(|failure| *counts.entry(&failure.pool).or_default() += 1);
        let fenced: Vec<String> =
            counts.into_iter().filter(|(_, count)| *count >= FAILURES_MAX).map(|(pool, _)| pool.to_owned()).collect();
        for pool in fenced {
            let why = format!(
                "the daemon ended {FAILURES_MAX} times within {} minutes while it opened this pool or worked for it",
                WINDOW_MS / 60_000
            );
            self.fenced.entry(pool).or_insert(why);
        }
    }
}

/// The pool that `subject` names (`pool NAME`), or whose volume it names (`volume NAME`).
fn pool_of(subject: &str, pools: &[Result<PoolRecord, String>]) -> Option<String> {
    if let Some(pool) = subject.strip_prefix("pool ") {
        return Some(pool.to_owned());
    }
    let volume = subject.strip_prefix("volume ")?;
    let mut known = pools.iter().flatten();
    let pool = known.find(|pool| pool.volumes.iter().any(|record| record.name == volume))?;
    Some(pool.name.clone())
}

/// What the last run wrote when it panicked, once.
fn take_panic(state: &Path) -> Option<String> {
    let path = state.join(PANIC_FILE);
    let subject = state_file::read(&path).ok()??;
    fs::remove_file(&path).ok();
    Some(String::from_utf8_lossy(&subject).trim_end().to_owned())
}

/// From now on a panic in work for a pool or a volume leaves that name in the state directory.
pub(super) fn remember_panics(state: &Path) {
    let path: PathBuf = state.join(PANIC_FILE);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if let Some(subject) = hotset_block::at_work_for() {
            leave_in_time(path.clone(), subject);
        }
    }));
}

/// A state directory that does not answer does not hold up the end. Nobody is left to tell.
fn leave_in_time(path: PathBuf, subject: String) {
    let (done, left) = mpsc::channel();
    let leaves = move || {
        let _ = done.send(leave(&path, &subject));
    };
    if std::thread::Builder::new().spawn(leaves).is_ok() {
        let _ = running_time::receive(&left, LEAVE_LIMIT);
    }
}

/// The first one counts: others follow from it.
fn leave(path: &Path, subject: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(subject.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::state::VolumeRecord;
    use hotset_cache::config::{VolumeSettings, VolumeSpec};

    const MINUTE_MS: u64 = 60_000;

    /// A start after a run that ended while it opened `pool`.
    fn failed_opening(record: &mut Record, pool: &str, now_unix_ms: u64) {
        record.opening = Some(pool.to_owned());
        record.take_in(None, &[], now_unix_ms);
    }

    #[test]
    fn three_openings_that_end_the_daemon_within_five_minutes_fence_that_pool_alone() {
        let mut record = Record::default();
        failed_opening(&mut record, "bad", MINUTE_MS);
        failed_opening(&mut record, "good", 2 * MINUTE_MS);
        failed_opening(&mut record, "bad", 3 * MINUTE_MS);
        assert_eq!(record.fenced.len(), 0);
        failed_opening(&mut record, "bad", 6 * MINUTE_MS);
        assert_eq!(record.fenced.keys().collect::<Vec<_>>(), ["bad"]);
        record.take_in(None, &[], 1000 * MINUTE_MS);
        assert!(record.fenced.contains_key("bad"), "time alone lifts no fence");
    }

    #[test]
    fn failures_that_are_further_apart_fence_nothing() {
        let mut record = Record::default();
        for start in [1, 4, 7, 10, 13] {
            failed_opening(&mut record, "slow", start * MINUTE_MS);
        }
        assert_eq!(record.fenced.len(), 0);
    }

    #[test]
    fn an_opening_that_ends_takes_back_what_was_counted_and_panics_stay() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(directory.path()).unwrap();
        let fenced = |subject: Option<&str>| {
            if let Some(subject) = subject {
                fs::write(directory.path().join(PANIC_FILE), subject).unwrap();
            }
            Failures::load(&state, ConditionRegister::default()).fence("p").is_some()
        };
        for _ in 0..5 {
            assert!(!fenced(None));
            let failures = Failures::load(&state, ConditionRegister::default());
            failures.begin_opening(&state, "p");
            failures.end_opening(&state, "p");
        }
        assert!(!fenced(Some("pool p")) && !fenced(Some("pool p")));
        let failures = Failures::load(&state, ConditionRegister::default());
        failures.begin_opening(&state, "p");
        failures.end_opening(&state, "p");
        assert!(fenced(Some("pool p")), "three panics");
        assert!(Failures::load(&state, ConditionRegister::default()).lift(&state, "p"));
        assert!(!fenced(None), "it starts anew");
        Failures::load(&state, ConditionRegister::default()).begin_opening(&state, "p");
        Failures::load(&state, ConditionRegister::default()).begin_opening(&state, "p");
        Failures::load(&state, ConditionRegister::default()).begin_opening(&state, "p");
        assert!(fenced(None), "three openings without an end");
    }

    #[test]
    fn a_panic_in_work_for_a_volume_is_a_failure_of_its_pool() {
        let spec =
            VolumeSpec { name: "v".parse().unwrap(), backing: "/dev/x".into(), settings: VolumeSettings::default() };
        let pool = PoolRecord { name: "p".into(), volumes: vec![VolumeRecord::of(&spec)], ..PoolRecord::default() };
        let pools = [Err("broken".to_owned()), Ok(pool)];
        assert_eq!(pool_of("volume v", &pools).as_deref(), Some("p"));
        assert_eq!(pool_of("volume uncached", &pools), None);
        assert_eq!(pool_of("pool q", &pools).as_deref(), Some("q"));
        assert_eq!(pool_of("noise", &pools), None);
    }

    #[test]
    fn a_panic_leaves_the_name_of_whom_it_worked_for() {
        use hotset_block::{Env, Executor, ExecutorOptions};
        let directory = tempfile::tempdir().unwrap();
        remember_panics(directory.path());
        let worker = std::thread::spawn(|| {
            let executor = Executor::new(ExecutorOptions::default()).unwrap();
            executor.run(async |env| {
                let (of_pool, plain) = (env.at_work_for("pool p"), env.clone());
                // A task of the pool begins another one, which fails.
                of_pool.clone().spawn(async move { of_pool.spawn(async { panic!("on purpose") }) });
                plain.sleep(std::time::Duration::from_secs(5)).await;
            });
        });
        assert!(worker.join().is_err());
        assert_eq!(take_panic(directory.path()).as_deref(), Some("pool p"));
        assert_eq!(take_panic(directory.path()), None);
    }
}
