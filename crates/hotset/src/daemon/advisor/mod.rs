//! The advisor of the daemon: what caches of other sizes would do for the volumes that are served, cached or not.
//!
//! The data plane keeps accesses to watched blocks in a small ring for each volume (`hotset_cache::advisor::tap`). They are taken from
//! there again and again, and go through the curves of the volume here, on a thread for what blocks. What is known is kept in the
//! history's file, so that it outlives a restart, and each hour its sums, so that a day and a week can be told from all time.

mod advice;
mod reads;
mod sums;
mod watches;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotset_api::{Advice, AdviceList, AdviceWindow, ApiError, ApiErrorKind, LiveWhatIf};
use hotset_cache::advisor::tallies::Tallies;
use hotset_cache::config::VolumeName;

use self::advice::Facts;
use self::sums::Sums;
use self::watches::{Due, Watches};
use super::blocking::blocking;
use super::history;
use crate::clock::unix_ms;
use crate::plane::Handle;

pub(crate) use self::advice::Case;
pub(crate) use self::sums::AdviceAsked;

/// How often accesses are taken, while rings have room; and when one was a quarter full. The first has to do for a burst: 32,000
/// accesses a second.
const INTERVAL: Duration = Duration::from_millis(250);
const HURRIED_INTERVAL: Duration = Duration::from_millis(50);

const DAY: u64 = 86_400;

/// Watches all volumes and answers for them.
pub(crate) struct Advisor {
    plane: Handle,
    history: history::HistoryHandle,
    watches: Arc<Mutex<Watches>>,
    /// When accesses were taken last.
    looked: Mutex<Instant>,
}

impl Advisor {
    pub(crate) fn new(plane: Handle, history: history::HistoryHandle) -> Arc<Self> {
        Arc::new(Self { plane, history, watches: Arc::default(), looked: Mutex::new(Instant::now()) })
    }

    /// Runs until the runtime ends.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut interval = INTERVAL;
        loop {
            tokio::time::sleep(interval).await;
            interval = match self.look().await {
                Ok(true) => HURRIED_INTERVAL,
                // The data plane is busy with something else, or is stopping.
                Ok(false) | Err(_) => INTERVAL,
            };
        }
    }

    /// Takes what was accessed since the last look; answers whether there was much of it.
    async fn look(&self) -> Result<bool, ApiError> {
        let (wanted, generation) = {
            let watches = self.watches();
            (Arc::new(watches.wanted()), watches.generation())
        };
        let taken = self.plane.take_accesses(wanted).await?;
        let interval = self.since_last_look();
        let fresh = self.watches().fresh(&taken);
        for name in fresh {
            // Without a history its curves begin anew.
            let known = self.history.advice_of(name.as_str()).await.unwrap_or_default();
            self.watches().restore(&name, known, generation);
        }
        let (watches, now) = (Arc::clone(&self.watches), now());
        let due = blocking(move || lock(&watches).take_in(taken, interval, now, generation)).await?;
        let is_busy = due.is_busy;
        self.keep(due, now);
        Ok(is_busy)
    }

    /// A look that was late, or that failed before, is of a longer time.
    fn since_last_look(&self) -> Duration {
        let now = Instant::now();
        let last = std::mem::replace(&mut *lock(&self.looked), now);
        now.saturating_duration_since(last)
    }

    /// But for volumes that have lost their names meanwhile. Whoever takes one away waits for the lock, and forgets in the history afterwards.
    fn keep(&self, Due { states, sums, generation, .. }: Due, now: u64) {
        let watches = self.watches();
        for (name, state) in states.into_iter().filter(|(name, _)| watches.has_its_name(name, generation)) {
            self.history.keep_advice(name.as_str(), now, state);
        }
        for (name, sums) in sums.into_iter().filter(|(name, _)| watches.has_its_name(name, generation)) {
            self.history.keep_sums(name.as_str(), now, sums);
        }
    }

    /// Keeps what is known for the next start.
    pub(crate) async fn save(&self) {
        // What came last is not worth waiting for.
        let _ = self.look().await;
        let (watches, now) = (Arc::clone(&self.watches), now());
        if let Ok(due) = blocking(move || lock(&watches).everything()).await {
            self.keep(due, now);
        }
        self.history.written().await;
    }

    /// What is known of a volume goes on under its new name.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        self.watches().rename(from, to);
    }

    /// One that is made later is another one, whatever its name.
    pub(crate) fn forget(&self, volume: &str) {
        self.watches().forget(volume);
        self.history.forget_advice(volume);
    }

    /// Of one volume.
    pub(crate) async fn advise(&self, name: &VolumeName, asked: AdviceAsked) -> Result<Advice, ApiError> {
        let facts = Facts::of_all(&self.plane).await?;
        self.advice(name, asked, &facts).await?.ok_or_else(|| not_yet(name))
    }

    /// Of all volumes of which something is known.
    pub(crate) async fn advise_all(&self, asked: AdviceAsked) -> Result<AdviceList, ApiError> {
        let facts = Facts::of_all(&self.plane).await?;
        let names = self.watches().names();
        let mut volumes = Vec::new();
        for name in names {
            volumes.extend(self.advice(&name, asked, &facts).await?);
        }
        let days = advice::days_of_all(volumes.iter().map(|advice| &advice.days));
        Ok(AdviceList { volumes, days })
    }

    async fn advice(
        &self,
        name: &VolumeName,
        asked: AdviceAsked,
        facts: &BTreeMap<VolumeName, Facts>,
    ) -> Result<Option<Advice>, ApiError> {
        let Some(facts) = facts.get(name) else { return Ok(None) };
        let Some(sums) = self.sums(name, asked.window).await? else { return Ok(None) };
        Ok(Some(advice::advice(name, &sums, facts, asked)))
    }

    /// What pools of other sizes would have done for a volume.
    pub(crate) async fn whatif(
        &self,
        name: &VolumeName,
        asked: AdviceAsked,
        cases: &[Case],
    ) -> Result<LiveWhatIf, ApiError> {
        let facts = Facts::of_all(&self.plane).await?;
        let facts = facts.get(name).ok_or_else(|| not_yet(name))?;
        let sums = self.sums(name, asked.window).await?.ok_or_else(|| not_yet(name))?;
        advice::whatif(name, &sums, facts, asked, cases)
    }

    /// What is known of a volume for a time; `None`: it is not watched yet.
    async fn sums(&self, name: &VolumeName, window: AdviceWindow) -> Result<Option<Sums>, ApiError> {
        let now = now();
        let Some(mut sums) = self.watches().sums(name, window, now) else { return Ok(None) };
        let seconds = match window {
            AdviceWindow::Day => DAY,
            AdviceWindow::Week => 7 * DAY,
            AdviceWindow::All => return Ok(Some(sums)),
        };
        let begins = now.saturating_sub(seconds);
        if sums.from < begins
            && let Some((at, bytes)) = self.history.sums_before(name.as_str(), begins).await?
            && let Ok(before) = Tallies::decode(&bytes)
        {
            sums.tallies = sums.tallies.since(&before);
            sums.from = sums.from.max(at);
        }
        Ok(Some(sums))
    }

    fn watches(&self) -> std::sync::MutexGuard<'_, Watches> {
        lock(&self.watches)
    }
}

/// A panic of somebody who had it is told elsewhere; curves are estimates.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> u64 {
    unix_ms() / 1000
}

fn not_yet(name: &VolumeName) -> ApiError {
    ApiError::new(
        ApiErrorKind::Unavailable,
        format!("volume {name}: nothing is known of it yet; it is watched while it is open, ask again in some seconds"),
    )
}
