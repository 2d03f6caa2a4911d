//! Questions to devices that may not answer: each on a thread of its own, for which nobody waits longer than he wants to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::running_time::timeout;

/// A handle: cloning it is cheap.
#[derive(Clone, Default)]
pub(crate) struct Prober {
    /// Those from which an answer has not come back: they are not asked again before it does.
    silent: Arc<Mutex<BTreeSet<String>>>,
}

impl Prober {
    /// What `question` finds out about `device`, as people know it; `None`: that takes longer than `limit`, or an earlier
    /// question still does.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        device: &str,
        limit: Duration,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.silent().contains(device) {
            return None;
        }
        let came_back = Arc::new(AtomicBool::new(false));
        let (prober, asked, tell) = (self.clone(), device.to_owned(), Arc::clone(&came_back));
        let answer = spawn_blocking(move || {
            let answer = question();
            let mut silent = prober.silent();
            silent.remove(&asked);
            tell.store(true, Ordering::Relaxed);
            answer
        });
        if let Ok(answer) = timeout(limit, answer).await {
            return answer.ok();
        }
        let mut silent = self.silent();
        if !came_back.load(Ordering::Relaxed) {
            tracing::error!("{device} does not answer");
            silent.insert(device.to_owned());
        }
        None
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn silent(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn who_does_not_answer_is_asked_again_only_when_he_has() {
        let prober = Prober::default();
        let (release, wait) = mpsc::channel::<()>();
        let short = Duration::from_millis(10);
        let hung = prober.ask("disk a", short, move || wait.recv().is_ok());
        assert_eq!(hung.await, None);
        let asked = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&asked);
        assert_eq!(prober.ask("disk a", short, move || tell.store(true, Ordering::Relaxed)).await, None);
        assert!(!asked.load(Ordering::Relaxed), "a second thread would wait beside the first");
        assert_eq!(prober.ask("disk b", Duration::from_secs(60), || 7).await, Some(7));
        drop(release);
        while prober.ask("disk a", Duration::from_secs(60), || ()).await.is_none() {
            tokio::time::sleep(short).await;
        }
    }
}
