//! What is reported: what is open, and what is not and why.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use hotset_api as api;
use hotset_api::{
    ApiError, Connect, DeviceIo, Health, Pool, PoolChange, PoolList, PoolState, Progress, Smart, Spare, Ssd, SsdHealth,
    SsdIdentity, SsdState, Stats, Status, SubjectKind, Volume, VolumeChange, VolumeCounters, VolumeList, VolumeState,
    VolumeStats, WriteLog,
};
use hotset_block::emulated::EmulatedArraySpec;
use hotset_cache::PolicySwitch;
use hotset_cache::config::{IoType, PoolKind, PoolSettings, VolumeName, VolumeSettings};
use hotset_cache::{FenceCause, PoolStatus, SpareStatus, SsdStatus, VolumeStatus, WriteLogStatus};

use super::conditions::{self, CacheFacts, PoolFacts, SsdFacts, StateAndHealth};
use super::connect::{self, nbd_uri};
use super::ssds::Drives;
use super::{moved_devices, seen};
use crate::daemon::changing::create::memory_in_use;
use crate::daemon::changing::flush::Flushes;
use crate::daemon::changing::flushed::Subject;
use crate::daemon::changing::memory_cache::MemoryCaching;
use crate::daemon::changing::operations::Operations;
use crate::daemon::clients;
use crate::daemon::counters::Counters;
use crate::daemon::history::{self, Look, Recent};
use crate::daemon::naming::{no_such_pool, no_such_volume, uuid, volume_name};
use crate::daemon::opening::converting::Converting;
use crate::daemon::opening::local_devices;
use crate::daemon::opening::locals::Local;
use crate::daemon::opening::offline::{Fenced, FoundOffline, Offline, OfflinePool, OfflineVolume, Waiting};
use crate::daemon::opening::recognise::Backings;
use crate::daemon::opening::records::Records;
use crate::daemon::scrub_records::PoolOfScrub;
use crate::daemon::state::{SsdRecord, VolumeRecord};
use crate::daemon::volume_counters::stats;
use crate::endpoint::Endpoint;
use crate::plane::{Snapshot, Timed};
use crate::words;

/// Answers what there is and how it is.
pub(crate) struct Reporting {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) backings: Arc<Backings>,
    pub(crate) flushes: Arc<Flushes>,
    pub(crate) operations: Arc<Operations>,
    pub(crate) drives: Arc<Drives>,
    pub(crate) memory: Arc<MemoryCaching>,
    pub(crate) counters: Counters,
    /// How long requests took of late.
    pub(crate) recent: Mutex<Recent>,
    /// Where hosts connect; empty until they may.
    pub(crate) nbd: OnceLock<Vec<Endpoint>>,
    pub(crate) started: Instant,
}

impl Reporting {
    pub(crate) async fn pools(&self) -> Result<PoolList, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        Ok(PoolList { pools: self.pools_of(&snapshot) })
    }

    fn pools_of(&self, snapshot: &Snapshot) -> Vec<Pool> {
        let offline = self.records.offline();
        let open = snapshot.pools.iter().map(|status| {
            let mut pool = pool(status, &offline, self.condition_of(status, &offline));
            if let Some(scrub) = &mut pool.scrub {
                scrub.whole_ended_unix_ms = self.records.scrubs.whole_ended_unix_ms(&PoolOfScrub::of(status));
            }
            pool
        });
        let away =
            offline.pools.values().map(|pool| offline_pool(pool, self.converting.is_rewritten(&pool.record.name)));
        let mut pools: Vec<_> = open.chain(away).collect();
        for pool in &mut pools {
            self.drives.describe_ssds(pool);
            // Of one that another machine has, nothing is in use here.
            let is_elsewhere = |status: &PoolStatus| status.taken_over && status.name.as_str() == pool.name;
            if !snapshot.pools.iter().any(is_elsewhere) {
                moved_devices::tell_of_ssds(pool, &offline.moved_devices);
            }
            seen::blame_ssds(pool, &offline.moved_devices);
            for raised in self.records.register.raised_of(&api::Subject::new(SubjectKind::Pool, pool.name.as_str())) {
                pool.health = pool.health.max(raised.health);
                pool.reason = conditions::joined(&pool.reason, &raised.reason);
                pool.action = conditions::joined(&pool.action, &raised.action);
            }
        }
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        pools
    }

    pub(crate) async fn pool(&self, name: &str) -> Result<Pool, ApiError> {
        let list = self.pools().await?;
        list.pools.into_iter().find(|pool| pool.name == name).ok_or_else(|| no_such_pool(name))
    }

    pub(crate) async fn volumes(&self) -> Result<VolumeList, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        Ok(VolumeList { volumes: self.volumes_of(&snapshot) })
    }

    pub(crate) async fn volume(&self, name: &str) -> Result<Volume, ApiError> {
        let list = self.volumes().await?;
        list.volumes.into_iter().find(|volume| volume.name == name).ok_or_else(|| no_such_volume(name))
    }

    fn volumes_of(&self, snapshot: &Snapshot) -> Vec<Volume> {
        let offline = self.records.offline();
        // One that is on its way back is open a moment before hosts can use it.
        let on_its_way = |status: &&VolumeStatus| offline.volumes.contains_key(status.name.as_str());
        let open = snapshot.volumes.iter().filter(|status| !on_its_way(status));
        let open = open.map(|status| self.open_volume(status, &offline));
        let away = offline.volumes.values().map(offline_volume);
        let mut volumes: Vec<_> = open.chain(away).collect();
        for pool in offline.pools.values() {
            for record in &pool.record.volumes {
                if !volumes.iter().any(|volume| volume.name == record.name) {
                    volumes.push(waiting_volume(record, &pool.record.name));
                }
            }
        }
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        for volume in &mut volumes {
            tell_use(volume, snapshot);
            self.describe_cache(volume, snapshot, &offline);
            moved_devices::tell_of_backing(volume, &offline.moved_devices);
            self.backings.tell_of_identity(volume, &offline.unexpected_backings);
            volume.clients = clients::of_volume(&volume.name, snapshot);
            volume.local = self.records.locals.of_volume(&volume.name).map(|local| local_device(&local, volume));
            volume.writes_held = self
                .records
                .holds
                .of_backing(&volume.backing)
                .map(|hold| api::WritesHeld { since_unix_ms: hold.since_unix_ms, by: hold.by });
            (volume.pool_type, volume.effective_write_mode) = writes_of(volume, snapshot, &offline);
            for raised in self.records.register.raised_of(&api::Subject::new(SubjectKind::Volume, volume.name.as_str()))
            {
                volume.health = volume.health.max(raised.health);
                volume.reason = conditions::joined(&raised.reason, &volume.reason);
                volume.action = conditions::joined(&raised.action, &volume.action);
            }
        }
        volumes
    }

    fn condition_of(&self, status: &PoolStatus, offline: &Offline) -> StateAndHealth<PoolState, Health> {
        let notes = offline.notes_of(status);
        let own_reason = words::pool_reason(status.reason.as_ref());
        let said: Vec<&str> = Some(own_reason.as_str())
            .filter(|reason| !reason.is_empty())
            .into_iter()
            .chain(notes.iter().copied())
            .collect();
        let flushed_for = self.flushes.purpose(&Subject::Pool(status.name.clone()));
        conditions::pool(PoolFacts { flushed_for, ..pool_facts(status, &said.join("; "), notes.len()) })
    }

    /// Says how the cache of a volume is, why, and what to do.
    fn describe_cache(&self, volume: &mut Volume, snapshot: &Snapshot, offline: &Offline) {
        let Some(name) = volume.pool.clone() else {
            volume.action = action_without_pool(volume);
            return;
        };
        let open = snapshot.pools.iter().find(|open| open.name.as_str() == name);
        let pool = open.map(|status| self.condition_of(status, offline));
        let is_its = |status: &&VolumeStatus| status.name.as_str() == volume.name && !status.has_own_health();
        let of_the_pool = open.is_some()
            && volume.state != VolumeState::Offline
            && snapshot.volumes.iter().any(|status| is_its(&status));
        let (own_health, said) = if of_the_pool { (Health::Good, "") } else { (volume.health, volume.reason.as_str()) };
        let subject = volume_name(&volume.name).ok().map(Subject::Volume);
        let StateAndHealth { state, health, reason, action } = conditions::cache(CacheFacts {
            volume: &volume.name,
            pool_name: &name,
            health: own_health,
            said,
            fenced: offline.fenced.get(&volume.name).map(|fenced| fenced.cause),
            has_lost: volume.lost_bytes > 0,
            offline: volume.state == VolumeState::Offline,
            flushed_for: subject.and_then(|subject| self.flushes.purpose(&subject)),
            pool: pool.as_ref(),
            write_caching_off: open.and_then(|status| status.write_log).is_some_and(|log| log.write_caching_off),
        });
        (volume.cache_state, volume.cache_health) = (Some(state), Some(health));
        (volume.reason, volume.action) = (reason, action);
    }

    fn open_volume(&self, status: &VolumeStatus, offline: &Offline) -> Volume {
        let mut volume = volume(status);
        if let Some(fenced) = offline.fenced.get(&volume.name) {
            return fenced_volume(volume, fenced);
        }
        if self.flushes.flushes_volume(&status.name) {
            volume.state = VolumeState::Flushing;
        }
        volume.nbd = self.uris(&volume.name);
        if let Some(pool) = offline.pool_of(&volume.name) {
            volume.health = volume.health.max(Health::Degraded);
            let name = &pool.record.name;
            volume.reason = match volume.reason.is_empty() {
                true => format!("served uncached: pool {name} is offline"),
                false => format!("{}; served uncached: pool {name} is offline", volume.reason),
            };
        }
        volume
    }

    pub(crate) async fn status(&self) -> Result<Status, ApiError> {
        Ok(self.status_of(&self.records.plane.snapshot().await?))
    }

    pub(crate) async fn memory_cache(&self) -> Result<api::MemoryCache, ApiError> {
        Ok(self.memory.seen_in(&self.records.plane.snapshot().await?))
    }

    /// The status, as the observer asks for it every second: what took how long since it asked last is remembered.
    pub(super) async fn observe(&self) -> Result<Status, ApiError> {
        let Look { snapshot, latencies } = self.look().await?;
        self.recent().add(latencies);
        Ok(self.status_of(&snapshot))
    }

    fn status_of(&self, snapshot: &Snapshot) -> Status {
        let pools = self.pools_of(snapshot);
        let volumes = self.volumes_of(snapshot);
        let broken = self.records.unread();
        let seen = pools.iter().flat_map(seen::of_pool).chain(volumes.iter().flat_map(seen::of_volume));
        let seen = seen.chain(seen::of_records(&broken)).chain(seen::of_not_opened(&self.not_opened(&pools)));
        let conditions = self.records.register.all(seen.collect());
        Status {
            health: conditions.iter().map(|condition| condition.health).max().unwrap_or(Health::Good),
            reasons: reasons(&pools, &volumes, &conditions),
            conditions,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            state_directory: self.records.state.path().display().to_string(),
            nbd: self.uris(""),
            memory_in_use_bytes: memory_in_use(snapshot),
            memory_limit_bytes: self.records.config.memory_limit_bytes,
            memory_cache: self.memory.seen_in(snapshot),
            threads: u16::try_from(self.records.plane.threads()).expect("there are at most 64"),
            dirty_bytes: pools.iter().filter_map(|pool| pool.write_log).map(|log| log.dirty_bytes).sum(),
            oldest_dirty_seconds: volumes.iter().filter_map(|volume| volume.oldest_dirty_seconds).max(),
            counters: self.counters.now(),
            pools,
            volumes,
            work: self.operations.works(),
            flushes: self.flushes.progress(snapshot),
        }
    }

    /// Why pools that the scan found are not opened, as long as they are not.
    fn not_opened(&self, pools: &[Pool]) -> Vec<String> {
        let mut offline = self.records.offline();
        offline.not_opened.retain(|pool, _| pools.iter().all(|known| known.uuid != uuid(*pool)));
        offline.not_opened.values().cloned().collect()
    }

    /// One look at all counters, for the history.
    pub(crate) async fn look(&self) -> Result<Look, ApiError> {
        let (snapshot, timed) = self.records.plane.look().await?;
        let counts =
            |(name, (reads, writes)): &(VolumeName, Timed)| (name.to_string(), (reads.counts(), writes.counts()));
        Ok(Look { snapshot, latencies: timed.iter().map(counts).collect() })
    }

    /// Looks every 30 s for the history, until the runtime ends.
    pub(crate) async fn sample(self: Arc<Self>, history: history::HistoryHandle) {
        let mut ticks = tokio::time::interval(history::INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Ok(look) = self.look().await else { continue };
            if !history.take(look) {
                return;
            }
        }
    }

    /// A volume after a change.
    pub(crate) async fn volume_change(&self, name: &str, changed: bool) -> Result<VolumeChange, ApiError> {
        Ok(VolumeChange { changed, volume: self.volume(name).await? })
    }

    /// A pool after a change.
    pub(crate) async fn pool_change(&self, name: &str, changed: bool) -> Result<PoolChange, ApiError> {
        Ok(PoolChange { changed, pool: self.pool(name).await? })
    }

    pub(crate) async fn stats(&self) -> Result<Stats, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let recent = self.recent();
        let counters = |volume: &VolumeStatus| VolumeCounters {
            name: volume.name.to_string(),
            pool: volume.pool.as_ref().map(ToString::to_string),
            size_bytes: volume.size_bytes,
            cache_used_bytes: volume.cache_used_bytes,
            write_cache_used_bytes: volume.write_cache_used_bytes,
            dirty_bytes: volume.dirty_bytes,
            pool_capacity_bytes: snapshot
                .pools
                .iter()
                .find(|pool| Some(&pool.name) == volume.pool.as_ref())
                .map_or(0, |pool| pool.capacity_bytes),
            recent_latency: recent.of(volume.name.as_str()),
            stats: stats(&volume.stats),
        };
        let volumes = snapshot.volumes.iter().map(counters).collect();
        Ok(Stats { at_ns: snapshot.at.0, recent_latency: recent.of_all(), volumes })
    }

    /// Hosts may connect to these from now on.
    ///
    /// # Panics
    /// If told twice.
    pub(crate) fn listens(&self, endpoints: Vec<Endpoint>) {
        self.nbd.set(endpoints).expect("the server begins to listen once");
    }

    /// Where hosts find an export; with an empty name, the server.
    fn uris(&self, export: &str) -> Vec<String> {
        let endpoints = self.nbd.get().map_or(&[][..], Vec::as_slice);
        endpoints.iter().map(|endpoint| nbd_uri(endpoint, self.records.config.tls.is_some(), export)).collect()
    }

    /// How hosts connect to a volume.
    pub(crate) async fn connect(&self, name: &str) -> Result<Connect, ApiError> {
        let volume = self.volume(name).await?.name;
        let endpoints = self.nbd.get().map_or(&[][..], Vec::as_slice);
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let addresses = connect::addresses(endpoints, self.records.config.tls.is_some(), &volume, host_name.trim());
        Ok(Connect { volume, addresses })
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reasons(pools: &[Pool], volumes: &[Volume], conditions: &[api::Condition]) -> Vec<String> {
    let of_the_daemon = conditions.iter().filter(|condition| condition.subject.kind == SubjectKind::Daemon);
    let mut reasons: Vec<String> =
        of_the_daemon.map(|condition| conditions::joined(&condition.reason, &condition.action)).collect();
    for pool in pools.iter().filter(|pool| !pool.reason.is_empty()) {
        reasons.push(format!("pool {}: {}", pool.name, pool.reason));
    }
    for pool in pools {
        reasons.extend(pool.warnings.iter().map(|warning| format!("pool {}: {warning}", pool.name)));
    }
    for volume in volumes.iter().filter(|volume| !volume.reason.is_empty()) {
        reasons.push(format!("volume {}: {}", volume.name, volume.reason));
    }
    reasons
}

fn pool(status: &PoolStatus, offline: &Offline, condition: StateAndHealth<PoolState, Health>) -> Pool {
    let mut volumes: Vec<_> = status.volumes.iter().map(ToString::to_string).collect();
    for volume in offline.volumes.values().filter(|volume| volume.pool.as_deref() == Some(status.name.as_str())) {
        if !volumes.contains(&volume.record.name) {
            volumes.push(volume.record.name.clone());
        }
    }
    let StateAndHealth { state, health, reason, action } = condition;
    Pool {
        name: status.name.to_string(),
        uuid: uuid(status.uuid),
        state,
        health,
        reason,
        action,
        policy_followed: words::policy(status.policy_followed),
        policy_switches: status.policy_switch.map_or(0, |switch| switch.number),
        policy_reason: status.policy_switch.map_or_else(String::new, switch_reason),
        capacity_bytes: status.capacity_bytes,
        capacity_min_bytes: status.capacity_min_bytes,
        ssd_written_day_bytes: status.ssd_writes.day_bytes,
        populating_stopped: status.ssd_writes.populating_stopped,
        used_bytes: status.used_bytes,
        slots: status.slots,
        slots_used: status.slots_used,
        slots_unpublished: status.slots_unpublished,
        memory_bytes: status.memory_bytes,
        epoch: status.epoch,
        recovery: status.recovery.clone(),
        write_log: status.write_log.as_ref().map(write_log),
        scrub: words::scrub(&status.scrub),
        warnings: offline.warnings.get(status.name.as_str()).cloned().unwrap_or_default(),
        ssds: status.ssds.iter().map(ssd).collect(),
        spares: status.spares.iter().map(spare).collect(),
        rebuild: status
            .rebuild
            .map(|rebuild| Progress::new(rebuild.done_bytes, rebuild.total_bytes, rebuild.bytes_per_second)),
        volumes,
        ..with_settings(status.kind, status.settings)
    }
}

fn spare(spare: &SpareStatus) -> Spare {
    Spare {
        path: spare.path.clone(),
        uuid: uuid(spare.uuid),
        size_bytes: spare.size_bytes,
        present: spare.present,
        reason: words::spare_reason(spare.reason.as_ref()),
    }
}

fn write_log(status: &WriteLogStatus) -> WriteLog {
    WriteLog {
        dirty_capacity_bytes: status.dirty_capacity_bytes,
        dirty_bytes: status.dirty_bytes,
        live_bytes: status.live_bytes,
        log_bytes: status.log_bytes,
        rows: status.rows,
        write_caching_off: status.write_caching_off,
        recovered_bytes: status.recovered_bytes,
        recovery_ms: status.recovery_milliseconds,
    }
}

/// The figures that made `auto` follow another policy.
fn switch_reason(switch: PolicySwitch) -> String {
    let PolicySwitch { from, to, accesses, from_missed, to_missed, number: _ } = switch;
    format!("of {accesses} accesses to watched blocks {from} would have missed {from_missed}, {to} {to_missed}")
}

/// A pool of which only the settings are known.
pub(crate) fn with_settings(kind: PoolKind, settings: PoolSettings) -> Pool {
    Pool {
        name: String::new(),
        uuid: String::new(),
        kind: words::pool_kind(kind),
        io_type: words::io_type(settings.io_type),
        state: PoolState::Offline,
        health: Health::Failed,
        reason: String::new(),
        action: String::new(),
        block_size_bytes: settings.block_bytes.get(),
        populate_on_read: settings.populate_on_read,
        populate_on_write: settings.populate_on_write,
        policy: words::policy(settings.policy),
        policy_followed: words::policy(settings.policy.begins_with()),
        policy_switches: 0,
        policy_reason: String::new(),
        fetch_rate: words::fetch_rate(settings.fetch_rate),
        flush_rate: words::flush_rate(settings.cleaning.flush_rate),
        dirty_watermark_percent: settings.cleaning.dirty_watermark_percent,
        dirty_age_max_seconds: settings.cleaning.dirty_age_max_seconds,
        ssd_writes_per_day_bytes: settings.ssd_writes_per_day_bytes,
        ssd_written_day_bytes: 0,
        populating_stopped: false,
        checksums: settings.checksums,
        capacity_bytes: 0,
        capacity_min_bytes: 0,
        used_bytes: 0,
        slots: 0,
        slots_used: 0,
        slots_unpublished: 0,
        memory_bytes: 0,
        epoch: 0,
        recovery: String::new(),
        write_log: None,
        scrub: None,
        warnings: Vec::new(),
        ssds: Vec::new(),
        spares: Vec::new(),
        rebuild: None,
        volumes: Vec::new(),
    }
}

/// By its status alone. `said`: what is told of it; `missed_at_start`: SSDs whose absence has been told since the start.
fn pool_facts<'a>(status: &'a PoolStatus, said: &'a str, missed_at_start: usize) -> PoolFacts<'a> {
    let gone = status.ssds.iter().filter(|ssd| !ssd.online).count();
    PoolFacts {
        name: status.name.as_str(),
        kind: words::pool_kind(status.kind),
        health: words::health(status.health),
        said,
        ssds_online: status.ssds.len() - gone,
        ssds_silent: status.ssds.iter().filter(|ssd| ssd.silent && ssd.online).count(),
        // A read-write pool is whole when all has two copies again, on however many SSDs.
        ssds_gone: match status.kind {
            PoolKind::Read => gone,
            PoolKind::ReadWrite => missed_at_start,
        },
        ssds_returnable: status.ssds.iter().filter(|ssd| is_returnable(status.kind, ssd)).count(),
        flushed_for: None,
        rebuilding: status.rebuild.is_some_and(|rebuild| rebuild.copies_lost),
        write_caching_off: status.write_log.is_some_and(|log| log.write_caching_off),
        dirty_bytes: status.write_log.map_or(0, |log| log.dirty_bytes),
        taken_over: status.taken_over,
    }
}

/// It is taken back by itself when it can be used: in a read pool not one that was there at the start and could not.
fn is_returnable(kind: PoolKind, ssd: &SsdStatus) -> bool {
    let is_wanted = match kind {
        PoolKind::Read => !ssd.missing || ssd.was_away(),
        PoolKind::ReadWrite => true,
    };
    is_wanted && !ssd.online && !ssd.has_failed_for_good()
}

fn ssd_facts(ssd: &SsdStatus) -> SsdFacts {
    SsdFacts {
        online: ssd.online,
        missing: ssd.missing,
        silent: ssd.silent,
        refuses: ssd.refuses,
        rebuilding: ssd.rebuilding,
        leaving: ssd.evacuation.is_some(),
    }
}

/// What the drive says of itself is added by `describe_ssds`, and with it the reason and the action.
fn ssd(status: &SsdStatus) -> Ssd {
    Ssd {
        path: status.path.clone(),
        uuid: uuid(status.uuid),
        size_bytes: status.size_bytes,
        disk: status.disk.clone(),
        online: status.online,
        state: conditions::ssd_state(ssd_facts(status)),
        evacuation: status.evacuation.map(|evacuation| {
            let done_bytes = evacuation.total_bytes.saturating_sub(evacuation.left_bytes);
            Progress::new(done_bytes, evacuation.total_bytes, evacuation.bytes_per_second)
        }),
        health: SsdHealth::default(),
        identity: SsdIdentity::default(),
        smart: Smart::default(),
        reason: words::ssd_reason(status.reason.as_ref()),
        action: String::new(),
        slots: status.slots,
        slots_used: status.slots_used,
        read_errors: status.read_errors,
        lost_writes: status.lost_writes,
        written_bytes: status.bytes_written,
        io: device_io(status.io),
    }
}

fn offline_pool(offline: &OfflinePool, converting: bool) -> Pool {
    let kind = offline.record.kind.engine();
    let ssds = offline.record.ssds.iter().map(|ssd| (ssd, offline_ssd(offline, ssd))).map(|(ssd, is)| Ssd {
        path: is.path,
        uuid: ssd.uuid.clone(),
        size_bytes: 0,
        disk: String::new(),
        online: false,
        evacuation: None,
        state: is.state,
        health: SsdHealth::default(),
        identity: SsdIdentity::default(),
        smart: Smart::default(),
        reason: is.reason,
        action: String::new(),
        slots: 0,
        slots_used: 0,
        read_errors: 0,
        lost_writes: false,
        written_bytes: 0,
        io: DeviceIo::default(),
    });
    let name = &offline.record.name;
    let action = match offline.waiting {
        _ if converting => format!("wait; `hotset pool delete {name}` gives the pool up"),
        _ if !offline.action.is_empty() => offline.action.clone(),
        Waiting::ForItsSsds => "bring its SSDs back; `hotset pool import --ssd PATH...` if they have moved".to_owned(),
        Waiting::ForTheAdministrator => format!(
            "repair what the reason says, then `hotset pool open {name}`; or `hotset pool import --ssd PATH...`, or `hotset \
             pool delete {name}` to give it up"
        ),
    };
    Pool {
        name: offline.record.name.clone(),
        uuid: offline.record.uuid.clone(),
        health: match offline.waiting {
            Waiting::ForItsSsds => Health::Degraded,
            Waiting::ForTheAdministrator => Health::Failed,
        },
        reason: offline.reason.clone(),
        action,
        ssds: ssds.collect(),
        volumes: offline.record.volumes.iter().map(|volume| volume.name.clone()).collect(),
        // The settings are on the SSDs; until those are read, the defaults stand for them.
        ..with_settings(kind, PoolSettings::preset(kind, IoType::Custom))
    }
}

/// What an SSD of a pool that is not open is.
struct OfflineSsd {
    path: String,
    state: SsdState,
    reason: String,
}

fn offline_ssd(pool: &OfflinePool, ssd: &SsdRecord) -> OfflineSsd {
    let recorded = ssd.path.as_str();
    let (path, state, reason) = match pool.found.get(&ssd.uuid) {
        _ if pool.record.has_failed(&ssd.uuid) => {
            (recorded, SsdState::Expelled, "it failed before its pool was closed")
        }
        None => (recorded, SsdState::Offline, "its pool is not open"),
        Some(FoundOffline::There(path)) => (path.as_str(), SsdState::Offline, "it is there; its pool is not open"),
        Some(FoundOffline::Newer) => (recorded, SsdState::Offline, "it is there; a later Hotset can read it"),
        Some(FoundOffline::Silent) => (recorded, SsdState::Silent, "it does not answer"),
        Some(FoundOffline::Away) => (recorded, SsdState::Missing, "it was not found"),
    };
    OfflineSsd { path: path.to_owned(), state, reason: reason.to_owned() }
}

fn volume(status: &VolumeStatus) -> Volume {
    Volume {
        backing_emulated: status.backing_emulated,
        state: VolumeState::Online,
        health: words::health(status.health),
        reason: words::volume_reason(status.reason.as_ref()),
        size_bytes: status.size_bytes,
        unserved_bytes: status.unserved_bytes,
        pool: status.pool.as_ref().map(ToString::to_string),
        cache_used_bytes: status.cache_used_bytes,
        write_cache_used_bytes: status.write_cache_used_bytes,
        dirty_bytes: status.dirty_bytes,
        lost_bytes: status.lost_bytes,
        oldest_dirty_seconds: status.oldest_dirty_seconds,
        backing_io: device_io(status.backing_io),
        stats: stats(&status.stats),
        ..bare_volume(status.name.to_string(), status.backing.clone(), status.settings)
    }
}

fn local_device(local: &Local, volume: &Volume) -> api::LocalDevice {
    api::LocalDevice {
        path: local_devices::path_of(&volume.name),
        device: local.device.as_ref().map(|device| device.path.display().to_string()),
        driver: local.device.as_ref().map_or("", |device| device.driver.word()).to_owned(),
        connected: volume.clients.iter().any(|client| client.protocol == api::HostProtocol::LocalDevice),
    }
}

pub(crate) fn bare_volume(name: String, backing: String, settings: VolumeSettings) -> Volume {
    Volume {
        name,
        backing,
        backing_emulated: false,
        state: VolumeState::Offline,
        health: Health::Failed,
        reason: String::new(),
        action: String::new(),
        advice: String::new(),
        cache_state: None,
        cache_health: None,
        size_bytes: 0,
        unserved_bytes: 0,
        logical_block_bytes: settings.logical_block_bytes,
        read_only: settings.read_only,
        read_cutoff_bytes: settings.read_cutoff_bytes,
        write_cutoff_bytes: settings.write_cutoff_bytes,
        write_mode: words::write_mode(settings.write_mode),
        effective_write_mode: api::WriteMode::WriteAround,
        read_cache: settings.read_cache,
        memory_cache: settings.memory_cache,
        read_ahead: settings.read_ahead,
        dirty_cap: settings.dirty_cap.map(words::share),
        cache_min: settings.cache_min.map(words::share),
        cache_max: settings.cache_max.map(words::share),
        pool: None,
        pool_type: None,
        cache_used_bytes: 0,
        write_cache_used_bytes: 0,
        dirty_bytes: 0,
        lost_bytes: 0,
        oldest_dirty_seconds: None,
        nbd: Vec::new(),
        writes_held: None,
        local: None,
        clients: Vec::new(),
        backing_io: DeviceIo::default(),
        stats: VolumeStats::default(),
    }
}

/// The type of its pool, and where its writes go because of it.
fn writes_of(volume: &Volume, snapshot: &Snapshot, offline: &Offline) -> (Option<api::PoolKind>, api::WriteMode) {
    let Some(name) = &volume.pool else { return (None, api::WriteMode::WriteAround) };
    let open = snapshot.pools.iter().find(|pool| pool.name.as_str() == name).map(|pool| pool.kind);
    let away = || offline.pools.get(name).map(|pool| pool.record.kind.engine());
    match open.or_else(away).map(words::pool_kind) {
        Some(api::PoolKind::ReadWrite) if volume.writes_held.is_none() => {
            (Some(api::PoolKind::ReadWrite), volume.write_mode)
        }
        kind @ (Some(api::PoolKind::Read | api::PoolKind::ReadWrite) | None) => (kind, api::WriteMode::WriteAround),
    }
}

/// What the volume has in a pool that is open: the same whether or not the volume is.
fn tell_use(volume: &mut Volume, snapshot: &Snapshot) {
    let of_pools = snapshot.pools.iter().flat_map(|pool| pool.volumes.iter().zip(&pool.uses));
    let Some((_, uses)) = of_pools.into_iter().find(|(name, _)| name.as_str() == volume.name) else { return };
    volume.cache_used_bytes = uses.used_bytes;
    volume.write_cache_used_bytes = uses.write_log_bytes;
    volume.dirty_bytes = uses.dirty_bytes;
    volume.lost_bytes = uses.lost_bytes;
    volume.oldest_dirty_seconds = uses.oldest_dirty_seconds;
}

/// A volume that is served uncached, or not at all.
fn action_without_pool(volume: &Volume) -> String {
    match (volume.state, volume.health) {
        (VolumeState::Offline, _) => format!(
            "make its backing device available: it is tried every 5 s; `hotset volume delete {}` gives it up",
            volume.name
        ),
        (VolumeState::Online | VolumeState::Flushing, Health::Good) => String::new(),
        (VolumeState::Online | VolumeState::Flushing, Health::Degraded | Health::Failed) => {
            format!("look after its backing device, then `hotset volume clear {}`; or bring its pool back", volume.name)
        }
    }
}

/// A volume that is open for the administrator only.
fn fenced_volume(volume: Volume, fenced: &Fenced) -> Volume {
    Volume {
        state: VolumeState::Offline,
        health: Health::Failed,
        reason: match fenced.cause {
            FenceCause::OtherBacking => format!("fenced, nothing is lost: {}", fenced.reason),
            FenceCause::UnknownLoss => format!("fenced: {}", fenced.reason),
        },
        dirty_bytes: volume.dirty_bytes.max(fenced.dirty_bytes),
        ..volume
    }
}

/// A volume that comes with its pool.
fn waiting_volume(record: &VolumeRecord, pool: &str) -> Volume {
    Volume {
        health: Health::Degraded,
        reason: format!("it waits for pool {pool}"),
        pool: Some(pool.to_owned()),
        ..recorded_volume(record)
    }
}

fn offline_volume(offline: &OfflineVolume) -> Volume {
    Volume { reason: offline.reason.clone(), pool: offline.pool.clone(), ..recorded_volume(&offline.record) }
}

fn recorded_volume(record: &VolumeRecord) -> Volume {
    Volume {
        backing_emulated: EmulatedArraySpec::is_spelled_by(&record.backing),
        ..bare_volume(record.name.clone(), record.backing.clone(), record.settings())
    }
}

fn device_io(io: hotset_cache::DeviceIo) -> DeviceIo {
    let hotset_cache::DeviceIo { reads, read_bytes, writes, written_bytes } = io;
    DeviceIo { reads, read_bytes, writes, written_bytes }
}
