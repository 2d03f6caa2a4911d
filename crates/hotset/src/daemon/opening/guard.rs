//! Keeps the system off backing devices whose volumes may be newer than they are: the udev rules' file.
//!
//! A volume is guarded from before it joins a read-write pool until it has left it, and over restarts; a clean stop of a
//! pool without dirty data lifts the guard until the next start.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotset_api::ConditionKind;
use hotset_cache::config::{PoolKind, PoolName};

use super::offline::Offline;
use super::records::Records;
use crate::daemon::blocking::blocking;
use crate::daemon::state::RecordedKind;
use crate::plane::Snapshot;
use crate::udev::{self, Guarded};

/// How long udev may take to know a device, before that is told.
const UDEV_LIMIT: Duration = Duration::from_secs(30);

/// Writes the udev rules' file.
pub(crate) struct Guard {
    records: Arc<Records>,
    /// Since when udev does not know some of the devices.
    lacking_since: Mutex<Option<Instant>>,
}

impl Guard {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        Self { records, lacking_since: Mutex::new(None) }
    }

    /// If a rule is missing in the file: trying again may help.
    pub(crate) fn is_incomplete(&self) -> bool {
        let failed = || !self.records.register.subjects_of(ConditionKind::Guard).is_empty();
        self.lacking_since().is_some() || failed()
    }

    /// Makes the rules say what is so now. Best effort: what failed is a condition, and is tried again.
    pub(crate) async fn update_udev_rules(&self) {
        self.write_udev_rules(None, &[]).await;
    }

    /// Makes the rules say what will be so in a moment, too: a volume joins a read-write pool.
    pub(crate) async fn guard(&self, volume: &str, backing: &str) {
        let joining = Guarded { volume: volume.to_owned(), backing: backing.to_owned() };
        self.write_udev_rules(Some(joining), &[]).await;
    }

    /// After a clean stop: what these pools hold is on the backing devices too.
    pub(crate) async fn lift_guards(&self, before: &Snapshot, clean: &[PoolName]) {
        let guarded = guarded(before, &self.records.offline(), clean);
        self.write_rules_for(guarded).await;
    }

    async fn write_udev_rules(&self, joining: Option<Guarded>, clean: &[PoolName]) {
        let Ok(snapshot) = self.records.plane.snapshot().await else { return };
        let mut guarded = guarded(&snapshot, &self.records.offline(), clean);
        guarded.extend(joining);
        self.write_rules_for(guarded).await;
    }

    async fn write_rules_for(&self, guarded: BTreeSet<Guarded>) {
        let Some(path) = self.records.config.udev_rules.clone() else { return };
        let shown = path.display().to_string();
        let guarded: Vec<Guarded> = guarded.into_iter().collect();
        let written = match blocking(move || udev::guard(&path, guarded)).await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let written = written.and_then(|lacking| self.lacks(&lacking)).map_err(|error| {
            format!("udev rules {shown}: {error}; block devices with dirty data are not guarded over a restart")
        });
        self.records.register.follow(ConditionKind::Guard, &written);
    }

    fn lacking_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.lacking_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that udev does not know these devices.
    ///
    /// # Errors
    /// When it has had enough time.
    fn lacks(&self, lacking: &[Guarded]) -> Result<(), String> {
        let mut since = self.lacking_since();
        let Some(one) = lacking.first() else {
            *since = None;
            return Ok(());
        };
        if since.get_or_insert_with(Instant::now).elapsed() < UDEV_LIMIT {
            return Ok(());
        }
        Err(format!("udev knows nothing that tells {} (volume {}) from other devices", one.backing, one.volume))
    }
}

/// Volumes of read-write pools, open or not, except of `clean` ones.
fn guarded(snapshot: &Snapshot, offline: &Offline, clean: &[PoolName]) -> BTreeSet<Guarded> {
    let pools = snapshot.pools.iter().filter(|pool| match pool.kind {
        PoolKind::Read => false,
        PoolKind::ReadWrite => !clean.contains(&pool.name),
    });
    let open: BTreeSet<&str> = pools.map(|pool| pool.name.as_str()).collect();
    let away = offline.pools.values().filter(|pool| match pool.record.kind {
        RecordedKind::Read => false,
        RecordedKind::ReadWrite => true,
    });
    let mut all = BTreeSet::new();
    for volume in &snapshot.volumes {
        if volume.pool.as_ref().is_some_and(|pool| open.contains(pool.as_str())) {
            all.insert(Guarded { volume: volume.name.to_string(), backing: volume.backing.clone() });
        }
    }
    let waiting = away.flat_map(|pool| &pool.record.volumes);
    let missing =
        offline.volumes.values().filter(|volume| volume.pool.as_deref().is_some_and(|pool| open.contains(pool)));
    for record in waiting.chain(missing.map(|volume| &volume.record)) {
        all.insert(Guarded { volume: record.name.clone(), backing: record.backing.clone() });
    }
    all
}
