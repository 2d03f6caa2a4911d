//! What devices are asked before anything is done with them. One that does not answer holds up neither the data plane, which
//! opens devices on its own thread, nor the other changes that wait for their turn.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use hotset_api::{ApiError, ApiErrorKind};
use hotset_block::{Access, Footprint};

use super::local_devices::local_device_under;
use super::offline::Offline;
use super::probe::{self, Candidate, Role};
use super::prober::Prober;
use super::records::Records;
use super::scan::Scanner;
use crate::daemon::state::VolumeRecord;
use crate::plane::Snapshot;

/// How long a device may take: a disk that was asleep takes ten seconds.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(15);

/// Devices that are asked at once.
pub(crate) const AT_ONCE: usize = 32;

/// What is used already, and as what.
pub(crate) type Users = Vec<(Footprint, String)>;

/// Asks devices, and looks for SSDs.
pub(crate) struct Devices {
    pub(crate) records: Arc<Records>,
    pub(crate) scanner: Scanner,
    pub(crate) prober: Prober,
}

impl Devices {
    /// Refuses a backing device that does not answer.
    pub(crate) async fn check_answers(&self, backing: &str) -> Result<(), ApiError> {
        let path = probe::backing_path(backing).to_owned();
        self.ask(&format!("backing device {backing}"), move || probe::touch(&path)).await
    }

    /// Finds out which of these volumes' backing devices do not answer: from then on each is refused at once.
    pub(super) async fn ask_backing_devices(&self, volumes: &[VolumeRecord]) {
        join_all(volumes.iter().map(|volume| self.check_answers(&volume.backing))).await;
    }

    /// What lies at paths that may become SSDs, or are said to be some.
    pub(crate) async fn candidates(&self, paths: &[String], role: Role) -> Result<Vec<Candidate>, ApiError> {
        let looks = paths.iter().map(async |path| {
            let looked_at = path.clone();
            self.ask(&format!("SSD {path}"), move || probe::candidate(&looked_at, role)).await?
        });
        join_all(looks).await.into_iter().collect()
    }

    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        device: &str,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let answer = self.prober.ask(device, PROBE_TIMEOUT, question).await;
        answer.ok_or_else(|| {
            let seconds = PROBE_TIMEOUT.as_secs();
            let message = format!("{device}: it does not answer within {seconds} s");
            ApiError::new(ApiErrorKind::Device, message).with_hint("see what the kernel says of it: `dmesg`")
        })
    }

    /// Refuses a device that is an SSD or a backing device of anything already, or that somebody else uses, by whatever name.
    pub(crate) async fn check_unused(
        &self,
        what: &str,
        spelling: &str,
        access: Access,
        snapshot: &Snapshot,
    ) -> Result<(), ApiError> {
        let (path, looked_at) = (probe::backing_path(spelling).to_owned(), spelling.to_owned());
        if let Some(footprint) = self.ask(what, move || probe::footprint(&looked_at)).await? {
            check_not_among(&self.users(snapshot).await, what, &footprint)?;
            let (locals, below) = (self.records.locals.all(), path.clone());
            if let Some(why) = self.ask(what, move || local_device_under(Path::new(&below), &locals)).await? {
                return Err(ApiError::new(ApiErrorKind::Refused, format!("{what}: {why}")));
            }
            // What cannot be looked at is for whoever opens it to say.
            let user = self.ask(what, move || hotset_block::user_of(Path::new(&path), access).ok().flatten()).await?;
            return user.map_or(Ok(()), |user| Err(in_use(what, &format!(": {user}"))));
        }
        Ok(())
    }

    /// Refuses any of several devices that are to become SSDs, as `check_unused` does.
    pub(crate) async fn check_all_unused(&self, ssds: &[Candidate], snapshot: &Snapshot) -> Result<(), ApiError> {
        for ssd in ssds {
            self.check_unused(&format!("SSD {}", ssd.path), &ssd.path, Access::Alone, snapshot).await?;
        }
        Ok(())
    }

    /// All that is used, but for what does not answer: its lock keeps others off.
    pub(crate) async fn users(&self, snapshot: &Snapshot) -> Users {
        let used = used(snapshot, &self.records.offline());
        let asked = used.into_iter().map(async |(spelling, user)| {
            let path = spelling.clone();
            let footprint =
                self.prober.ask(&format!("device {spelling}"), PROBE_TIMEOUT, move || probe::footprint(&path)).await;
            Some((footprint??, user))
        });
        let users: Vec<Option<_>> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        users.into_iter().flatten().collect()
    }
}

fn check_not_among(users: &Users, what: &str, footprint: &Footprint) -> Result<(), ApiError> {
    match users.iter().find(|(used, _)| used.overlaps(footprint)) {
        None => Ok(()),
        Some((_, user)) => Err(in_use(what, &format!(" as {user}"))),
    }
}

/// Nothing overrides it.
fn in_use(what: &str, user: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, format!("{what}: it is in use{user}"))
}

/// The spellings of all devices that are used, and as what.
fn used(snapshot: &Snapshot, offline: &Offline) -> Vec<(String, String)> {
    let mut used = Vec::new();
    for pool in &snapshot.pools {
        let ssds = pool.ssds.iter().filter(|ssd| ssd.online);
        used.extend(ssds.map(|ssd| (ssd.path.clone(), format!("an SSD of pool {}", pool.name))));
        used.extend(pool.spares.iter().map(|spare| (spare.path.clone(), format!("a spare of pool {}", pool.name))));
    }
    for volume in &snapshot.volumes {
        used.push((volume.backing.clone(), format!("the backing device of volume {}", volume.name)));
    }
    for pool in offline.pools.values() {
        let name = &pool.record.name;
        let ssds = pool.record.ssds.iter();
        used.extend(ssds.map(|ssd| (ssd.path.clone(), format!("an SSD of pool {name}, which is offline"))));
        used.extend(pool.record.volumes.iter().map(|volume| {
            (volume.backing.clone(), format!("the backing device of volume {}, whose pool is offline", volume.name))
        }));
    }
    let away = offline.volumes.values().map(|volume| &volume.record);
    for record in away.chain(offline.unopened_volumes.values()) {
        used.push((record.backing.clone(), format!("the backing device of volume {}, which is offline", record.name)));
    }
    used
}
