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
use crate::udev::{self, Guarded, Others};

/// How long udev may take to know a device.
const UDEV_LIMIT: Duration = Duration::from_secs(30);

/// Devices that udev does not know yet. Of network disks and the like it never knows anything that tells one from another.
struct Lacking {
    devices: Vec<Guarded>,
    since: Instant,
    is_told: bool,
}

impl Lacking {
    fn new(devices: Vec<Guarded>, now: Instant) -> Self {
        Self { devices, since: now, is_told: false }
    }

    /// These are what udev does not know now. Answers whether to say so: it has had enough time.
    fn note(&mut self, devices: Vec<Guarded>, now: Instant) -> bool {
        if self.devices != devices {
            *self = Self::new(devices, now);
        }
        let is_late = self.is_tried_again() && now.duration_since(self.since) >= UDEV_LIMIT;
        self.is_told |= is_late;
        is_late
    }

    fn is_tried_again(&self) -> bool {
        !self.devices.is_empty() && !self.is_told
    }
}

/// Writes the udev rules' file.
pub(crate) struct Guard {
    records: Arc<Records>,
    lacking: Mutex<Lacking>,
}

impl Guard {
    pub(crate) fn new(records: Arc<Records>) -> Self {
        Self { records, lacking: Mutex::new(Lacking::new(Vec::new(), Instant::now())) }
    }

    /// If a rule is missing in the file: trying again may help.
    pub(crate) fn is_incomplete(&self) -> bool {
        let failed = || !self.records.register.subjects_of(ConditionKind::Guard).is_empty();
        self.lacking().is_tried_again() || failed()
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
        // Volumes of a pool whose record cannot be read are nobody's known here, and their newest data is where it was.
        let others = if self.records.offline().unread_pools.is_empty() { Others::Dropped } else { Others::Kept };
        let shown = path.display().to_string();
        let guarded: Vec<Guarded> = guarded.into_iter().collect();
        let written = match blocking(move || udev::guard(&path, guarded, others)).await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let written = written.map(|lacking| self.note_lacking(lacking)).map_err(|error| {
            format!("udev rules {shown}: {error}; block devices with dirty data are not guarded over a restart")
        });
        self.records.register.follow(ConditionKind::Guard, &written);
    }

    fn lacking(&self) -> MutexGuard<'_, Lacking> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_lacking(&self, devices: Vec<Guarded>) {
        let mut lacking = self.lacking();
        if lacking.note(devices, Instant::now()) {
            for Guarded { volume, backing } in &lacking.devices {
                tracing::warn!(
                    "volume {volume}: udev knows nothing that tells {backing} from other devices: with dirty data on SSDs, it is not \
                     guarded over a restart"
                );
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F8
    #[test]
    fn a_device_that_udev_does_not_know_is_tried_again_for_half_a_minute_and_told_once() {
        let device = |volume: &str| Guarded { volume: volume.to_owned(), backing: "/dev/nbd0".to_owned() };
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut lacking = Lacking::new(Vec::new(), start);
        assert!(!lacking.note(Vec::new(), after(60)) && !lacking.is_tried_again());
        assert!(!lacking.note(vec![device("v")], after(61)) && lacking.is_tried_again());
        assert!(!lacking.note(vec![device("v")], after(90)) && lacking.is_tried_again());
        assert!(lacking.note(vec![device("v")], after(91)) && !lacking.is_tried_again());
        assert!(!lacking.note(vec![device("v")], after(94)));
        // Another one has its own time.
        assert!(!lacking.note(vec![device("v"), device("w")], after(95)) && lacking.is_tried_again());
        assert!(!lacking.note(Vec::new(), after(200)) && !lacking.is_tried_again());
    }
}
