//! Whose backing device is whose, of volumes that no pool has dirty data of: paths that were swapped, or lead to something else, are
//! found out before hosts see what is there.
//!
//! A backing device of another volume, or on another file system or disk than before, is refused. A file that took the place of the
//! one that was there, on the same file system, is served (somebody restored it), and that is a condition. Either way the
//! administrator can say that it is the right one. Of a read-write pool the pool itself knows more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotset_api::{ApiError, ApiErrorKind, BackingEvidence, ConditionKind, Subject, SubjectKind, Volume, VolumeState};
use hotset_block::{Likeness, likeness};
use hotset_cache::config::VolumeName;

use super::devices::Devices;
use super::offline::UnexpectedBacking;
use super::probe::{self, BackingFound};
use super::records::Records;
use crate::daemon::state::BackingRecord;

fn record_of(volume: &str, backing: &str, found: BackingFound) -> BackingRecord {
    let BackingFound { id, size_bytes, better_path } = found;
    BackingRecord { volume: volume.to_owned(), backing: backing.to_owned(), id, size_bytes, better_path }
}

/// What a device is to a volume.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    /// Another file in the place of the one that was there.
    Replaced,
    Wrong(String),
}

fn judge(before: &BackingRecord, found: &BackingRecord, others: &[BackingRecord]) -> Verdict {
    match likeness(&before.id, &found.id) {
        Likeness::Same => return Verdict::Right,
        Likeness::Unknown => return judge_without_name(before, found),
        Likeness::Other => {}
    }
    let is_its = |other: &&BackingRecord| other.volume != found.volume && other.id == found.id;
    if let Some(other) = others.iter().find(is_its) {
        return Verdict::Wrong(format!("it is the backing device of volume {}, so paths were swapped", other.volume));
    }
    match (file_system_of(&before.id), file_system_of(&found.id)) {
        (Some(before), Some(now)) if before == now => Verdict::Replaced,
        (Some(_), Some(_)) => Verdict::Wrong("it lies on another file system than the one it had".to_owned()),
        (Some(_) | None, Some(_) | None) => Verdict::Wrong("it is another device than the one it had".to_owned()),
    }
}

/// Where the names say nothing: what it lacks may say that it is another one.
fn judge_without_name(before: &BackingRecord, found: &BackingRecord) -> Verdict {
    if found.size_bytes < before.size_bytes {
        let sizes = format!("it has {} bytes, and that had {}", found.size_bytes, before.size_bytes);
        return Verdict::Wrong(sizes);
    }
    let is_letter = |id: &str| id.starts_with("name:");
    if is_letter(&found.id) && !is_letter(&before.id) {
        return Verdict::Wrong(format!("that was called {}, and this has no name that is its own", before.id));
    }
    Verdict::Right
}

/// Of a file's identity.
fn file_system_of(id: &str) -> Option<&str> {
    id.strip_prefix("file:")?.split(':').next()
}

/// Whose backing device is whose.
pub(crate) struct Backings {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) known: Mutex<Vec<BackingRecord>>,
}

impl Backings {
    /// Refuses a backing device that is another one than the volume had, and records what it has.
    pub(crate) async fn recognise(&self, volume: &VolumeName, backing: &str) -> Result<(), ApiError> {
        self.recognise_as(volume, backing, None).await
    }

    /// As `recognise`; where nothing is on record here, `on_ssds` counts, which a pool knows of it: what it was called, and its size in
    /// bytes.
    pub(super) async fn recognise_as(
        &self,
        volume: &VolumeName,
        backing: &str,
        on_ssds: Option<(String, u64)>,
    ) -> Result<(), ApiError> {
        let Some(found) = self.backing_found(volume.as_str(), backing).await? else { return Ok(()) };
        let others = self.backings().clone();
        let is_of_volume = |known: &&BackingRecord| known.volume == found.volume && known.backing == found.backing;
        let on_record = others.iter().find(is_of_volume).cloned();
        let is_on_record = on_record.is_some();
        let on_ssds = || on_ssds.map(|(id, size_bytes)| BackingRecord { id, size_bytes, ..found.clone() });
        let Some(before) = on_record.or_else(on_ssds) else {
            self.record_backing(found);
            return Ok(());
        };
        let reason = match judge(&before, &found, &others) {
            Verdict::Right => {
                self.record_backing(found);
                return Ok(());
            }
            Verdict::Replaced => {
                if !is_on_record {
                    // Until the other one is accepted: the pool knows that one from now on.
                    self.record_backing(before.clone());
                }
                let reason = format!("{backing} is another file than the one that this volume had");
                self.records.register.raise_for(
                    ConditionKind::OtherBacking,
                    subject_of(volume.as_str()),
                    reason.clone(),
                );
                self.records
                    .offline()
                    .unexpected_backings
                    .insert(volume.to_string(), UnexpectedBacking { before, found, reason });
                return Ok(());
            }
            Verdict::Wrong(why) => format!("backing device {backing} is not the one that volume {volume} had: {why}"),
        };
        self.records
            .offline()
            .unexpected_backings
            .insert(volume.to_string(), UnexpectedBacking { before, found, reason: reason.clone() });
        Err(ApiError::new(
            ApiErrorKind::Refused,
            format!("{reason}. Put the right one there; if this is it, `hotset volume accept-backing {volume}`"),
        ))
    }

    /// The volume has the right backing device, whatever was recorded before. One that does not answer is not recorded.
    pub(crate) async fn note_backing(&self, volume: &str, backing: &str) {
        if let Ok(Some(found)) = self.backing_found(volume, backing).await {
            self.record_backing(found);
        }
    }

    async fn backing_found(&self, volume: &str, backing: &str) -> Result<Option<BackingRecord>, ApiError> {
        let spelling = backing.to_owned();
        let found =
            self.devices.ask(&format!("backing device {backing}"), move || probe::backing_found(&spelling)).await?;
        Ok(found.map(|found| record_of(volume, backing, found)))
    }

    fn record_backing(&self, found: BackingRecord) {
        self.forgive(&found.volume);
        let changed = {
            let mut known = self.backings();
            let changed = !known.contains(&found);
            known.retain(|known| known.volume != found.volume);
            known.push(found);
            changed
        };
        if changed {
            self.save_backings();
        }
    }

    /// Nothing is held against a volume's backing device any more.
    fn forgive(&self, volume: &str) {
        if self.records.offline().unexpected_backings.remove(volume).is_some() {
            self.records.register.clear_for(ConditionKind::OtherBacking, subject_of(volume));
        }
    }

    /// The volume is gone.
    pub(crate) fn forget_backing(&self, volume: &str) {
        self.forgive(volume);
        self.backings().retain(|known| known.volume != volume);
        self.save_backings();
    }

    /// What is known of a volume goes with its name.
    pub(crate) fn rename_backing(&self, from: &str, to: &str) {
        for known in self.backings().iter_mut().filter(|known| known.volume == from) {
            to.clone_into(&mut known.volume);
        }
        let unexpected = self.records.offline().unexpected_backings.get(from).cloned();
        if let Some(unexpected) = unexpected {
            self.forgive(from);
            self.records.register.raise_for(ConditionKind::OtherBacking, subject_of(to), unexpected.reason.clone());
            self.records.offline().unexpected_backings.insert(to.to_owned(), unexpected);
        }
        self.save_backings();
    }

    /// Best effort: it is tried again, and told until then.
    pub(super) fn save_backings(&self) {
        let known = self.backings().clone();
        let written = self.records.state.write_backings(&known);
        let told = written.map_err(|error| format!("which backing device is whose is not kept: {error}"));
        self.records.register.follow(ConditionKind::Backings, &told);
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn backings(&self) -> MutexGuard<'_, Vec<BackingRecord>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The administrator says that the backing device of a volume is the right one. False: nothing is held against it here.
    pub(crate) async fn accept_unexpected(&self, name: &str) -> Result<bool, ApiError> {
        let unexpected = self.records.offline().unexpected_backings.get(name).cloned();
        let Some(UnexpectedBacking { found, reason, .. }) = unexpected else { return Ok(false) };
        let Some(now) = self.backing_found(name, &found.backing).await? else { return Ok(false) };
        self.record_backing(now);
        tracing::warn!(volume = name, against = reason, "its backing device is accepted as the right one");
        Ok(true)
    }

    /// What speaks against the backing device of a volume that has no dirty data.
    pub(crate) fn unexpected_evidence(&self, name: &str) -> Option<BackingEvidence> {
        let UnexpectedBacking { before, found, reason } = self.records.offline().unexpected_backings.get(name)?.clone();
        Some(BackingEvidence {
            fenced: true,
            dirty_bytes: 0,
            size_bytes_before: before.size_bytes,
            size_bytes: found.size_bytes,
            identity_before: before.id,
            identity: found.id,
            same_identity: Some(false),
            fingerprints_matching: 0,
            fingerprints_telling: 0,
            fingerprints_changed: Vec::new(),
            fingerprints_unsettled: 0,
            written: None,
            against: reason,
            needs_force: false,
        })
    }

    /// Says of a volume what speaks against its backing device, and what would be a better name for it.
    pub(crate) fn tell_of_identity(
        &self,
        volume: &mut Volume,
        unexpected_backings: &BTreeMap<String, UnexpectedBacking>,
    ) {
        let known = self.backings().iter().find(|known| known.volume == volume.name).cloned();
        let better = known.filter(|known| known.backing == volume.backing).and_then(|known| known.better_path);
        if let Some(better) = better {
            let backing = &volume.backing;
            volume.advice =
                format!("{backing} may be another disk after a restart of the machine: name it by {better}");
        }
        if volume.state == VolumeState::Offline && unexpected_backings.contains_key(&volume.name) {
            volume.action =
                format!("put the right device there; if this is it, `hotset volume accept-backing {}`", volume.name);
        }
    }
}

fn subject_of(volume: &str) -> Subject {
    Subject::new(SubjectKind::Volume, volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(volume: &str, id: &str) -> BackingRecord {
        let backing = format!("/images/{volume}");
        BackingRecord { volume: volume.to_owned(), backing, id: id.to_owned(), size_bytes: 4096, better_path: None }
    }

    // proves: F8
    #[test]
    fn a_device_of_another_volume_disk_or_file_system_is_wrong_and_a_file_that_was_replaced_is_told_of() {
        let known = [record("v", "file:uuid-1:5:1"), record("w", "file:uuid-1:6:1"), record("x", "wwid:naa.1")];
        let verdict = |id: &str| judge(&known[0], &record("v", id), &known);
        assert_eq!(verdict("file:uuid-1:5:1"), Verdict::Right);
        assert_eq!(verdict("file:uuid-1:7:1"), Verdict::Replaced);
        for (id, why) in [("file:uuid-1:6:1", "of volume w"), ("file:uuid-2:5:1", "another file system")] {
            assert!(matches!(verdict(id), Verdict::Wrong(said) if said.contains(why)), "{id}");
        }
        let of_disk = |id: &str| judge(&known[2], &record("x", id), &known);
        assert!(matches!(of_disk("wwid:naa.2"), Verdict::Wrong(_)));
        let without_name =
            Verdict::Wrong("that was called wwid:naa.1, and this has no name that is its own".to_owned());
        assert_eq!(of_disk("name:vdb"), without_name);
    }

    // proves: F8
    #[test]
    fn of_devices_without_names_a_smaller_one_is_wrong() {
        let before = record("v", "name:vdb");
        let of_size = |size_bytes: u64| judge(&before, &BackingRecord { size_bytes, ..record("v", "name:vdc") }, &[]);
        assert_eq!([4096, 8192].map(of_size), [Verdict::Right, Verdict::Right]);
        assert_eq!(of_size(4095), Verdict::Wrong("it has 4095 bytes, and that had 4096".to_owned()));
    }
}
