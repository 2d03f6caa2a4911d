//! The memory cache gives way when memory is short, and grows back: looked at every second, and told as events.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hotset_api::Severity;

use super::events::{EventLog, Happened};
use super::hook::Hook;
use super::observer;
use crate::daemon::changing::memory_cache::MemoryCaching;
use crate::daemon::pressure::{AllowanceChange, Pressure, PressureWatch};

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// See the file's summary.
pub(crate) struct MemoryPressure {
    pub(crate) memory: Arc<MemoryCaching>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) hook: Option<Hook>,
}

impl MemoryPressure {
    /// Until the runtime ends.
    pub(crate) async fn run(self) {
        if let Some(why) = self.memory.why_smaller_than_set() {
            tracing::warn!("{why}");
            let happened = Happened::to_daemon(Severity::Warning, "memory cache smaller than it was set", &why);
            observer::record(&self.events, self.hook.as_ref(), vec![happened]);
        }
        let mut watch = PressureWatch::default();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let pressure = watch.look(Path::new("/"));
            if let Some(change) = self.memory.follow(&pressure).await {
                observer::record(&self.events, self.hook.as_ref(), vec![happened(change, &pressure)]);
            }
        }
    }
}

fn happened(change: AllowanceChange, pressure: &Pressure) -> Happened {
    let (change, cause) = match (change, pressure) {
        (AllowanceChange::Cut, Pressure::Short(why)) => {
            let cause = format!("memory is short: {why}; reads that memory does not answer go to the SSDs");
            ("memory cache shrinks", cause)
        }
        (AllowanceChange::Cut, Pressure::Some | Pressure::Calm) => ("memory cache shrinks", String::new()),
        (AllowanceChange::Whole, _) => {
            ("memory cache has its size again", "memory has not been short for a while".to_owned())
        }
    };
    Happened::to_daemon(Severity::Info, change, &cause)
}
