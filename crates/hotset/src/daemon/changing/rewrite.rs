//! The second half of a conversion: the drained pool's volumes leave it, its SSDs are made anew, and what belonged to it
//! joins again. Each step may be the last one before a crash: the next start goes on from the record.

use std::sync::Arc;

use hotset_api::{ApiError, ApiErrorKind, ConditionKind, Health, Subject, SubjectKind};
use hotset_block::{DeviceIdentity, outlives_boot};
use hotset_cache::config::{PoolName, VolumeName};
use hotset_cache::{DirtyData, Missing, PoolSpec, PoolStatus};

use super::volumes::Volumes;
use crate::daemon::blocking::blocking;
use crate::daemon::conversion::{Conversion, ConversionPhase, ConversionTarget, Converted, as_set};
use crate::daemon::naming::{uuid, volume_name};
use crate::daemon::opening::converting::{Converting, refused};
use crate::daemon::opening::guard::Guard;
use crate::daemon::opening::offline::RETRY_INTERVAL;
use crate::daemon::opening::probe::{self, Candidate, Role};
use crate::daemon::opening::records::Records;
use crate::daemon::opening::start::Opening;
use crate::plane::Snapshot;
use crate::words;

/// Makes drained pools anew.
pub(crate) struct Rewriting {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) opening: Arc<Opening>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) volumes: Arc<Volumes>,
}

impl Rewriting {
    /// Whether all is there that has to be there again afterwards.
    pub(super) fn check_convertible(&self, now: &PoolStatus, snapshot: &Snapshot) -> Result<(), ApiError> {
        let name = now.name.as_str();
        if words::health(now.health) != Health::Good {
            let why = words::pool_reason(now.reason.as_ref());
            return Err(refused(name, &format!("it is not good, and only a good pool is converted: {why}")));
        }
        let offline = self.records.offline();
        if let Some(note) = offline.notes_of(now).first() {
            return Err(refused(name, &format!("only a complete pool is converted: {note}")));
        }
        if now.ssds.iter().any(|ssd| !ssd.online || ssd.evacuation.is_some()) {
            let why = "an SSD of it is missing, failed or on its way out; wait for that, or take it out with `hotset pool \
                       remove-ssd`";
            return Err(refused(name, why));
        }
        if let Some(spare) = now.spares.iter().find(|spare| !spare.present) {
            return Err(refused(name, &format!("spare {} is not there; take it away first", spare.path)));
        }
        for volume in &now.volumes {
            let open =
                snapshot.volumes.iter().any(|open| open.name == *volume && open.pool.as_ref() == Some(&now.name));
            if !open || offline.fenced.contains_key(volume.as_str()) {
                return Err(refused(name, &format!("volume {volume} is offline, so that it cannot be flushed")));
            }
        }
        Ok(())
    }

    /// Makes a drained pool anew. The caller holds the change lock.
    pub(super) async fn convert_now(&self, name: &PoolName) -> Result<(), ApiError> {
        let begun = self.converting.conversions().get(name.as_str()).cloned();
        let begun = begun.ok_or_else(|| refused(name.as_str(), "nothing is known of its conversion"))?;
        let snapshot = self.records.plane.snapshot().await?;
        let now = snapshot
            .pools
            .iter()
            .find(|pool| pool.name == *name)
            .ok_or_else(|| self.records.not_open(name.as_str()))?;
        self.check_convertible(now, &snapshot)?;
        // Settings, SSDs and volumes may have changed while it was drained.
        let conversion = conversion_of(now, begun.target, begun.volumes).await?;
        self.converting.write_conversion(conversion.clone())?;
        tracing::info!(pool = %name, "drained; it is made anew");
        for volume in now.volumes.clone() {
            let from = name.clone();
            self.records
                .plane
                .of_pool(name)
                .call(move |plane| plane.pools().detach(from, volume, DirtyData::Clean))
                .await?;
        }
        self.records.save_volumes().await?;
        self.dissolve(now, conversion).await?;
        self.go_on(name).await
    }

    /// The pool holds nothing: from here on only the new one counts.
    async fn dissolve(&self, now: &PoolStatus, conversion: Conversion) -> Result<(), ApiError> {
        self.converting.write_conversion(Conversion { phase: ConversionPhase::Rewriting, ..conversion.clone() })?;
        self.converting.show_rewritten(&conversion, "it is being converted");
        let name = now.name.clone();
        if let Err(error) =
            self.records.plane.of_pool(&now.name).call(move |plane| plane.pools().dissolve_pool(name)).await
        {
            tracing::warn!(pool = %now.name, "{error}; it is overwritten");
        }
        self.records.state.remove_pool(&now.name).map_err(|error| self.records.state_failed(&error))?;
        self.records.forget_ssds(now.name.as_str());
        self.guard.update_udev_rules().await;
        Ok(())
    }

    /// Carries a conversion on from where its record says that it is.
    pub(super) async fn go_on(&self, name: &PoolName) -> Result<(), ApiError> {
        let recorded = self.converting.conversions().get(name.as_str()).cloned();
        let Some(mut conversion) = recorded else { return Ok(()) };
        if conversion.phase == ConversionPhase::Rewriting {
            if let Err(error) = self.make_anew(name, &conversion).await {
                let reason = format!(
                    "its conversion cannot go on: {error}; it is tried every {} s; `hotset pool delete {name}` gives the pool \
                     up; its volumes are served uncached",
                    RETRY_INTERVAL.as_secs()
                );
                self.converting.show_rewritten(&conversion, &reason);
                return Err(error);
            }
            conversion.phase = ConversionPhase::Joining;
            self.converting.write_conversion(conversion.clone())?;
        }
        if self.records.is_open(name).await {
            self.join_again(name, conversion).await
        } else {
            let waits = self.records.offline().pools.contains_key(name.as_str());
            if waits { Ok(()) } else { self.converting.forget_conversion(name.as_str()) }
        }
    }

    /// The new pool, empty. If a crash came between its making and the record of that, it is there already.
    async fn make_anew(&self, name: &PoolName, conversion: &Conversion) -> Result<(), ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let is_it = |pool: &PoolStatus| pool.name == *name && ConversionTarget::of(pool) == conversion.target;
        if snapshot.pools.iter().any(is_it) {
            // By the try before, of which the record could not be written.
            self.records.offline().pools.remove(name.as_str());
            return self.records.save_pool(name).await;
        }
        let (of, mut conversion) = (conversion.clone(), conversion.clone());
        let candidates = blocking(move || own_ssds(&of)).await??;
        let paths: Vec<String> = candidates.iter().map(|candidate| candidate.path.clone()).collect();
        if is_made(&conversion, &candidates)
            && let Ok(opened) = self.opening.open(name, paths.clone(), Missing::Refuse).await
        {
            self.opening.open_volumes_of(name, opened).await;
            return Ok(());
        }
        let settings = conversion.new_settings().map_err(|error| words::error(&error))?;
        let kind = words::engine_pool_kind(conversion.target.kind);
        let spec = PoolSpec { name: name.clone(), kind, settings };
        self.records.state.reset_member(name).map_err(|error| self.records.state_failed(&error))?;
        let member = self.records.state.member(name);
        let (thread, opening) = self.records.plane.for_pool();
        let new = thread.call(async |plane| Ok(plane.pools().new_uuid())).await?;
        // On record before any SSD has it: what a crash leaves is known by it.
        conversion.new_uuids = new_uuids(&conversion, &candidates, uuid(new));
        self.converting.write_conversion(conversion)?;
        let status = thread.call(move |plane| plane.pools().create_pool_as(new, spec, paths, member)).await?;
        drop(opening);
        self.records.offline().pools.remove(name.as_str());
        self.opening.note_shared_disks(&status).await?;
        self.records.save_pool(name).await?;
        tracing::info!(pool = %name, "made anew");
        Ok(())
    }

    /// Volumes whose backing device is away come later, with the next try.
    async fn join_again(&self, name: &PoolName, mut conversion: Conversion) -> Result<(), ApiError> {
        let mut waiting = Vec::new();
        for volume in std::mem::take(&mut conversion.volumes) {
            if self.records.offline().volumes.contains_key(&volume) {
                waiting.push(volume);
            } else if let Err(error) = self.join(name, &volume_name(&volume)?).await {
                tracing::warn!(pool = %name, volume, "it is served uncached, because it cannot join again: {error}");
                waiting.push(volume);
            }
        }
        self.take_spares(name, &conversion.spares).await;
        self.records.save_joined(name).await?;
        self.guard.update_udev_rules().await;
        if waiting.is_empty() {
            tracing::info!(pool = %name, "all of its volumes have joined");
            return self.converting.forget_conversion(name.as_str());
        }
        self.converting.write_conversion(Conversion { volumes: waiting, spares: Vec::new(), ..conversion })
    }

    /// A volume that is open and uncached is cached by the pool; any other one has gone its own way.
    async fn join(&self, pool: &PoolName, name: &VolumeName) -> Result<(), ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        if !snapshot.volumes.iter().any(|volume| volume.name == *name && volume.pool.is_none()) {
            return Ok(());
        }
        self.volumes.attach(pool, name).await?;
        self.records.save_joined(pool).await
    }

    /// A pool is whole without its spares.
    async fn take_spares(&self, name: &PoolName, spares: &[Converted]) {
        let wanted = spares.to_vec();
        let found = blocking(move || wanted.iter().filter_map(|spare| own(spare, None).ok()).collect::<Vec<_>>()).await;
        let missing = spares.len() - found.as_ref().map_or(0, Vec::len);
        if missing > 0 {
            self.spare_is_left(name, &format!("{missing} of its spares are not there, and were not taken again"));
        }
        let paths: Vec<String> = found.unwrap_or_default().into_iter().map(|spare| spare.path).collect();
        for path in paths {
            let (of, one) = (name.clone(), vec![path.clone()]);
            if let Err(error) =
                self.records.plane.of_pool(&of.clone()).call(move |plane| plane.pools().add_spares(of, one)).await
            {
                self.spare_is_left(name, &format!("{path} was not taken again: {error}"));
            }
        }
    }

    fn spare_is_left(&self, pool: &PoolName, reason: &str) {
        self.records.register.raise_for(ConditionKind::Spare, Subject::new(SubjectKind::Pool, pool.as_str()), reason);
    }
}

/// A conversion at its beginning; of the pool as it is now, and of volumes that have left it already.
pub(super) async fn conversion_of(
    now: &PoolStatus,
    target: ConversionTarget,
    left: Vec<String>,
) -> Result<Conversion, ApiError> {
    let settings = target.settings(now.settings).map_err(|error| words::error(&error))?;
    let ssds = now.ssds.iter().map(|ssd| ssd.path.clone()).collect();
    let spares = now.spares.iter().map(|spare| spare.path.clone()).collect();
    let (ssds, spares) = blocking(move || Ok::<_, ApiError>((identified(ssds)?, identified(spares)?))).await??;
    let mut volumes: Vec<String> = now.volumes.iter().map(ToString::to_string).collect();
    volumes.extend(left.into_iter().filter(|name| !now.volumes.iter().any(|volume| volume.as_str() == name)));
    Ok(Conversion {
        pool: now.name.to_string(),
        phase: ConversionPhase::Draining,
        target,
        uuid: uuid(now.uuid),
        new_uuids: Vec::new(),
        io_type: words::io_type(settings.io_type),
        settings: as_set(&settings),
        ssds,
        spares,
        volumes,
    })
}

/// Blocking.
fn identified(paths: Vec<String>) -> Result<Vec<Converted>, ApiError> {
    let one = |path: String| {
        let DeviceIdentity { id: identity, boot, .. } = probe::identity(&path)?;
        Ok(Converted { path, identity, boot: uuid(boot) })
    };
    paths.into_iter().map(one).collect()
}

/// The SSDs of a conversion, if all are there. Blocking.
fn own_ssds(conversion: &Conversion) -> Result<Vec<Candidate>, ApiError> {
    conversion.ssds.iter().map(|ssd| own(ssd, Some(conversion))).collect()
}

/// An SSD that may be overwritten: it is the very device that was the pool's, and holds nothing or what is the pool's.
fn own(ssd: &Converted, of: Option<&Conversion>) -> Result<Candidate, ApiError> {
    let path = &ssd.path;
    let (now, candidate) = (probe::identity(path)?, probe::candidate(path, Role::SsdOfPool)?);
    let label = candidate.label.as_ref();
    let is_pools = label.zip(of).is_some_and(|(label, of)| of.is_of_it(&uuid(label.pool_uuid)));
    check_is_same(ssd, &now, is_pools)?;
    check_is_ours(&candidate, is_pools)?;
    Ok(candidate)
}

/// What it holds is nothing, or of the pool before or the one that this becomes.
fn check_is_ours(candidate: &Candidate, is_pools: bool) -> Result<(), ApiError> {
    match &candidate.signature {
        Some(signature) if !is_pools => {
            let message = format!("SSD {}: it carries {signature}; it is not overwritten", candidate.path);
            Err(ApiError::new(ApiErrorKind::Refused, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// What is at the path now is the device that was there, not one that only has its name; a superblock of the pool before, or of the one that
/// this becomes, proves it, too.
fn check_is_same(ssd: &Converted, now: &DeviceIdentity, is_pools: bool) -> Result<(), ApiError> {
    let path = &ssd.path;
    if now.id != ssd.identity {
        let message = format!("SSD {path}: another device is in its place; bring the right one back");
        return Err(ApiError::new(ApiErrorKind::Refused, message));
    }
    if is_pools || outlives_boot(&now.id) || uuid(now.boot) == ssd.boot {
        return Ok(());
    }
    let message = format!(
        "SSD {path}: the machine was started anew since, and nothing but that name, which may be another device's now, tells which device it is; \
         it is not overwritten; delete the pool, look at the device, and make the pool anew"
    );
    Err(ApiError::new(ApiErrorKind::Refused, message))
}

/// Whether all SSDs are of one pool, and that is the one that this becomes.
fn is_made(conversion: &Conversion, candidates: &[Candidate]) -> bool {
    let mut uuids = candidates.iter().map(pool_uuid);
    let Some(Some(first)) = uuids.next() else { return false };
    conversion.new_uuids.contains(&first) && uuids.all(|other| other.as_ref() == Some(&first))
}

fn pool_uuid(candidate: &Candidate) -> Option<String> {
    candidate.label.as_ref().map(|label| uuid(label.pool_uuid))
}

/// Those of the pool that this becomes which an SSD has, and `new`.
fn new_uuids(conversion: &Conversion, candidates: &[Candidate], new: String) -> Vec<String> {
    let found: Vec<String> = candidates.iter().filter_map(pool_uuid).collect();
    let left = conversion.new_uuids.iter().filter(|uuid| found.contains(uuid)).cloned();
    left.chain([new]).collect()
}

#[cfg(test)]
mod tests {
    use hotset_block::Footprint;
    use hotset_cache::SsdLabel;
    use hotset_cache::config::{IoType, PoolKind, PoolSettings};

    use super::*;

    fn conversion(uuid_before: u128, new_uuids: &[u128]) -> Conversion {
        let preset = PoolSettings::preset(PoolKind::Read, IoType::Custom);
        Conversion {
            pool: "tank".to_owned(),
            phase: ConversionPhase::Rewriting,
            target: ConversionTarget {
                kind: words::pool_kind(PoolKind::Read),
                block_size_bytes: 65_536,
                checksums: true,
            },
            uuid: uuid(uuid_before),
            new_uuids: new_uuids.iter().map(|new| uuid(*new)).collect(),
            io_type: words::io_type(preset.io_type),
            settings: as_set(&preset),
            ssds: Vec::new(),
            spares: Vec::new(),
            volumes: Vec::new(),
        }
    }

    /// An SSD of a pool `tank`.
    fn ssd_of(pool_uuid: u128) -> Candidate {
        let (pool_name, kind) = ("tank".parse().unwrap(), PoolKind::Read);
        Candidate {
            path: "/dev/sdb".to_owned(),
            footprint: Footprint::default(),
            size_bytes: 1 << 30,
            sparse: false,
            label: Some(SsdLabel { pool_name, pool_uuid, ssd_uuid: 7, kind, spare: false }),
            signature: Some("an SSD of pool tank".to_owned()),
        }
    }

    // An SSD of another machine's pool of the same name was overwritten.
    #[test]
    fn what_is_overwritten_is_of_the_pool_before_or_of_the_one_that_was_begun_and_of_no_other_of_that_name() {
        let of = conversion(1, &[2, 3]);
        let is_ours = |pool: u128| check_is_ours(&ssd_of(pool), of.is_of_it(&uuid(pool))).is_ok();
        assert_eq!([1, 2, 3, 4].map(is_ours), [true, true, true, false]);
        let bare = Candidate { label: None, signature: None, ..ssd_of(4) };
        assert!(check_is_ours(&bare, false).is_ok());
    }

    #[test]
    fn a_pool_that_is_there_is_taken_for_the_new_one_if_that_was_begun() {
        let of = conversion(1, &[2, 3]);
        let made = |pools: &[u128]| is_made(&of, &pools.iter().map(|pool| ssd_of(*pool)).collect::<Vec<_>>());
        assert!(made(&[2, 2]) && made(&[3]));
        assert!(!made(&[2, 3]) && !made(&[1, 1]) && !made(&[4, 4]) && !made(&[]));
    }

    #[test]
    fn of_the_tries_before_those_are_remembered_that_an_ssd_shows() {
        let of = conversion(1, &[2, 3]);
        assert_eq!(new_uuids(&of, &[ssd_of(1), ssd_of(3)], uuid(9)), [uuid(3), uuid(9)]);
    }

    fn is_same(recorded: (&str, u128), now: (&str, u128), is_pools: bool) -> bool {
        let ssd = Converted { path: "/dev/sdb".to_owned(), identity: recorded.0.to_owned(), boot: uuid(recorded.1) };
        let now = DeviceIdentity { id: now.0.to_owned(), boot: now.1, ..DeviceIdentity::default() };
        check_is_same(&ssd, &now, is_pools).is_ok()
    }

    // What had the name of an SSD after the next boot was overwritten.
    #[test]
    fn an_ssd_without_a_serial_number_is_not_known_by_its_name_in_another_boot() {
        assert!(is_same(("name:sdb", 1), ("name:sdb", 1), false));
        assert!(!is_same(("name:sdb", 1), ("name:sdb", 2), false));
        assert!(is_same(("name:sdb", 1), ("name:sdb", 2), true), "it has the superblock of the pool before");
        assert!(is_same(("serial:S1", 1), ("serial:S1", 2), false));
        assert!(!is_same(("serial:S1", 1), ("serial:S2", 1), true));
    }
}
