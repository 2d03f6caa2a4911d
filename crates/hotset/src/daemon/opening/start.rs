//! Opening pools at the start. What cannot be opened stops nothing else.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::config::{PoolName, VolumeSpec};
use hotset_cache::{DirtyData, Missing, PoolStatus, SsdStatus, Takeover};
use tokio::task::JoinSet;

use super::awaited::AwaitedSsds;
use super::converting::Converting;
use super::departed_ssds::failed;
use super::devices::Devices;
use super::disks::{self, SsdOnDisk};
use super::guard::Guard;
use super::offline::RETRY_INTERVAL;
use super::offline::{Closed, Note, Taken, Waiting};
use super::records::Records;
use super::scan::{FoundNewer, FoundSsd, Scan};
use super::serve::Serving;
use crate::daemon::blocking::blocking;
use crate::daemon::naming::{pool_name, uuid};
use crate::daemon::state::{LeftRecord, PoolRecord, RecordedKind, SsdRecord, VolumeRecord};
use crate::given_file;
use crate::plane::Opened;
use crate::running_time::Countdown;
use crate::words;

/// How often missing SSDs are looked for.
const SCAN_INTERVAL: Duration = Duration::from_millis(500);

/// How often a pool is tried with all of its SSDs before it is tried without those that cannot be used, and after how many more
/// tries that is done again.
const TRIES_WITH_ALL: u32 = 3;
const TRIES_BETWEEN: u32 = 60;

/// What a search for a pool's SSDs found.
#[derive(Clone)]
struct Search {
    paths: Vec<String>,
    /// Where those are not that the record names.
    away: Vec<String>,
    /// One that only a later Hotset can read: without it the pool is not what it was.
    newer: Option<ApiError>,
}

impl Search {
    /// Waiting for more brings nothing.
    fn is_over(&self) -> bool {
        self.away.is_empty() || self.newer.is_some()
    }

    /// Why a pool that could not be opened with what was found may still come.
    fn waits_for(&self) -> String {
        format!("it waits for SSD {}", self.away.join(", SSD "))
    }
}

/// Opens pools, with their volumes.
pub(crate) struct Opening {
    pub(crate) records: Arc<Records>,
    pub(crate) converting: Arc<Converting>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) serving: Arc<Serving>,
    pub(crate) awaited: Arc<AwaitedSsds>,
}

impl Opening {
    /// Lets hosts wait for the volumes that [`Manager::start`] opens.
    pub(crate) async fn expect_recorded_volumes(&self) -> Result<(), ApiError> {
        let pools = self.records.state.pools().unwrap_or_default().into_iter().flatten();
        let cached = pools.flat_map(|pool| pool.volumes);
        let uncached = self.records.state.volumes().unwrap_or_default();
        let names = cached.chain(uncached).map(|volume| volume.name).collect();
        self.records.plane.first().call(move |plane| plane.expect_exports(names)).await
    }

    /// Volumes that are not open now do not open soon: hosts that ask for them are told so.
    async fn expect_no_more(&self, volumes: &[VolumeRecord]) {
        let names = volumes.iter().map(|volume| volume.name.clone()).collect();
        if let Err(error) = self.records.plane.first().call(move |plane| plane.expect_no_more(names)).await {
            tracing::warn!("hosts may wait for volumes in vain: {error}");
        }
    }

    /// Opens every recorded pool and volume, and pools whose SSDs turn up in the scan. Missing SSDs are waited for; `then` follows when
    /// everything that need not wait has been opened.
    pub(crate) async fn start(self: &Arc<Self>, then: impl Future<Output = ()>) {
        let mut pools = JoinSet::new();
        let mut waiting = JoinSet::new();
        self.converting.read_conversions();
        let records = self.read_records();
        self.records.read_unopened_volumes().await;
        // Before any host can write.
        self.guard.update_udev_rules().await;
        for record in &records {
            let (this, record) = (Arc::clone(self), record.clone());
            pools.spawn(async move {
                let volumes = record.volumes.clone();
                let waits = this.open_recorded(record).await;
                if waits.is_none() {
                    this.expect_no_more(&volumes).await;
                }
                waits
            });
        }
        while let Some(opened) = pools.join_next().await {
            if let Ok(Some(record)) = opened {
                let this = Arc::clone(self);
                waiting.spawn(async move {
                    let volumes = record.volumes.clone();
                    this.wait_for_ssds(record).await;
                    this.expect_no_more(&volumes).await;
                });
            }
        }
        self.open_unrecorded_pools(&records).await;
        self.serving.open_uncached_volumes().await;
        self.expect_no_more(&self.records.state.volumes().unwrap_or_default()).await;
        then.await;
        while waiting.join_next().await.is_some() {}
        self.guard.update_udev_rules().await;
    }

    fn read_records(&self) -> Vec<PoolRecord> {
        let read = self.records.state.pools().unwrap_or_else(|error| vec![Err(format!("state directory: {error}"))]);
        let mut records = Vec::new();
        for record in read {
            match record {
                // Its SSDs hold nothing any more, and its volumes are among the uncached ones.
                Ok(record) if self.converting.is_rewritten(&record.name) => {}
                Ok(record) => records.push(record),
                Err(message) => {
                    tracing::error!("{message}");
                    self.records.offline().unread_pools.push(message);
                }
            }
        }
        for record in &records {
            self.records.set_offline(record, "it is being opened", Waiting::ForItsSsds);
        }
        records
    }

    /// Opens a pool whose SSDs are all there; gives the record back if some are missing.
    async fn open_recorded(&self, record: PoolRecord) -> Option<PoolRecord> {
        if let Some(why) = self.records.failures.fence(&record.name) {
            let _one_at_a_time = self.records.change.lock().await;
            self.leave_closed(&record, Closed::Fenced, &fenced(&record.name, &why)).await;
            return None;
        }
        if let Some(unread) = self.converting.unread_conversion(&record.name) {
            let _one_at_a_time = self.records.change.lock().await;
            self.leave_closed(&record, Closed::ConversionUnread, &unread).await;
            return None;
        }
        self.devices.ask_backing_devices(&record.volumes).await;
        let search = self.search(&record).await;
        let attempt = self.try_complete(&record, &search).await;
        if attempt == Attempt::Decided {
            return None;
        }
        self.explain_wait(&record.name, &search, &attempt);
        Some(record)
    }

    /// What keeps a pool closed is told from the first try on, not only when the wait has ended.
    fn explain_wait(&self, name: &str, search: &Search, attempt: &Attempt) {
        let (reason, action) = match attempt {
            Attempt::Decided => return,
            Attempt::Wait => (search.waits_for(), String::new()),
            Attempt::Failed(error) => {
                (format!("{}; it is tried again by itself, with all of its SSDs", error.message), error.hint.clone())
            }
        };
        if !self.records.explain_offline(name, reason.clone(), Waiting::ForItsSsds, action) {
            return;
        }
        let seconds = self.records.config.missing_wait_s;
        match attempt {
            Attempt::Failed(_) => tracing::warn!(pool = name, seconds, "not opened yet: {reason}"),
            Attempt::Wait | Attempt::Decided => tracing::info!(pool = name, seconds, "not opened yet: {reason}"),
        }
    }

    /// Opens a pool if all of its SSDs are there.
    async fn try_complete(&self, record: &PoolRecord, search: &Search) -> Attempt {
        if search.is_over() {
            return self.try_open(&record.name, search.clone(), Missing::Refuse).await;
        }
        Attempt::Wait
    }

    async fn wait_for_ssds(self: &Arc<Self>, record: PoolRecord) {
        let wait = Countdown::of(Duration::from_secs(self.records.config.missing_wait_s));
        while !wait.is_over() {
            tokio::time::sleep(SCAN_INTERVAL).await;
            let search = self.search(&record).await;
            let attempt = self.try_complete(&record, &search).await;
            if attempt == Attempt::Decided {
                return;
            }
            self.explain_wait(&record.name, &search, &attempt);
            if !self.records.offline().pools.contains_key(&record.name) {
                // An administrator imported or deleted it meanwhile.
                return;
            }
        }
        let search = self.search(&record).await;
        self.try_open(&record.name, search, Missing::Leave).await;
        let this = Arc::clone(self);
        tokio::spawn(async move { this.wait_on(record).await });
    }

    /// Opens a pool whose record, or what else it takes to open it, came to light after the start.
    pub(super) async fn open_and_wait(self: Arc<Self>, record: PoolRecord) {
        if let Some(record) = self.open_recorded(record).await {
            self.wait_for_ssds(record).await;
        }
    }

    /// A pool that could not be opened is waited for until an administrator decides: only its SSDs can bring back what a
    /// read-write pool holds, and the volumes of a read pool are cached again.
    async fn wait_on(&self, record: PoolRecord) {
        let mut failed = 0_u32;
        while self.records.offline().pools.contains_key(&record.name) {
            let search = self.search(&record).await;
            if self.try_complete(&record, &search).await == Attempt::Decided {
                return;
            }
            let may_go_on = match record.kind {
                // It has nothing to lose by SSDs that stay away.
                RecordedKind::Read => true,
                // All are there, and one is an old copy or cannot be used, and not for a moment only.
                RecordedKind::ReadWrite => search.away.is_empty(),
            };
            failed = if may_go_on { failed + 1 } else { 0 };
            if failed % TRIES_BETWEEN == TRIES_WITH_ALL {
                self.try_open(&record.name, search, Missing::Leave).await;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// All SSDs are there: opens the pool with them, or, where one is an old copy or cannot be used, without that one.
    async fn try_all(&self, name: &str, search: Search) -> Attempt {
        match self.try_open(name, search.clone(), Missing::Refuse).await {
            Attempt::Wait | Attempt::Failed(_) => self.try_open(name, search, Missing::Leave).await,
            Attempt::Decided => Attempt::Decided,
        }
    }

    /// Why a pool's SSDs need a later Hotset, if they do.
    pub(crate) async fn newer_format(&self, record: &PoolRecord) -> Option<ApiError> {
        self.search(record).await.newer
    }

    async fn search(&self, record: &PoolRecord) -> Search {
        let known: Vec<String> = record.ssds.iter().chain(&record.spares).map(|ssd| ssd.path.clone()).collect();
        let patterns = self.records.config.ssd_scan.clone();
        let scan = self.devices.scanner.ssds(known, patterns).await;
        let awaited = self.awaited.awaited_by(record).await;
        let is_used = |ssd: &&FoundSsd| {
            let (pool, own) = (uuid(ssd.label.pool_uuid), uuid(ssd.label.ssd_uuid));
            pool == record.uuid && (!record.has_failed(&own) || awaited.contains(&own))
        };
        let own: Vec<&FoundSsd> = scan.ssds.iter().filter(is_used).collect();
        let there: BTreeSet<String> = own.iter().map(|ssd| uuid(ssd.label.ssd_uuid)).collect();
        let away: Vec<&SsdRecord> = record.ssds.iter().filter(|ssd| !there.contains(&ssd.uuid)).collect();
        let is_own = |ssd: &&FoundNewer| {
            uuid(ssd.newer.pool_uuid) == record.uuid || away.iter().any(|away| away.path == ssd.path)
        };
        Search {
            paths: own.iter().map(|ssd| ssd.path.clone()).collect(),
            away: away.iter().map(|ssd| ssd.path.clone()).collect(),
            newer: scan.newer.iter().find(is_own).map(newer_error),
        }
    }

    /// Opens a recorded pool, or finds that waiting does not help; then its volumes serve without it.
    async fn try_open(&self, name: &str, search: Search, missing: Missing) -> Attempt {
        // Others are not held up while marks are watched.
        let free = self.dismiss_owner(search.paths.clone(), Takeover::Own).await;
        let _one_at_a_time = self.records.change.lock().await;
        // As it is by now: volumes may have been taken from it while its SSDs were looked for.
        let Some(record) = &self.records.offline().pools.get(name).map(|pool| pool.record.clone()) else {
            return Attempt::Decided;
        };
        if let Some(error) = search.newer {
            self.leave_closed(record, Closed::NewerFormat, &error).await;
            return Attempt::Decided;
        }
        if let Err(error) = free {
            self.leave_closed(record, Closed::Owner(error.kind), &error).await;
            return Attempt::Decided;
        }
        if let Some(unread) = self.converting.unread_conversion(name) {
            self.leave_closed(record, Closed::ConversionUnread, &unread).await;
            return Attempt::Decided;
        }
        self.records.failures.begin_opening(&self.records.state, &record.name);
        let opened = match pool_name(&record.name) {
            Ok(name) => self.open_and_attach(&name, record, search.paths, missing).await,
            Err(error) => Err(error),
        };
        self.records.failures.end_opening(&self.records.state, &record.name);
        let Err(error) = opened else { return Attempt::Decided };
        if missing == Missing::Refuse && may_pass(error.kind) {
            return Attempt::Failed(error);
        }
        self.leave_closed(record, Closed::Opening(error.kind), &error).await;
        Attempt::Decided
    }

    /// The pool stays closed until somebody does something; its volumes serve without it where that is safe.
    async fn leave_closed(&self, record: &PoolRecord, why: Closed, error: &ApiError) {
        // What cannot be opened because the daemon ends is opened by the next one, with all that is in it.
        if self.records.stopping.load(Ordering::Relaxed) {
            return;
        }
        let meanwhile = match record.kind {
            RecordedKind::Read if error.kind == ApiErrorKind::OtherMachine => {
                "its volumes are not served, because the other machine may serve them"
            }
            RecordedKind::Read => "its volumes are served uncached",
            RecordedKind::ReadWrite => "its volumes are not served, because it may hold newer data than their devices",
        };
        let next = match error.hint.as_str() {
            "" => format!(
                "when that is repaired, `hotset pool open {}` tries again; or use `hotset pool import` or `hotset pool \
                 delete {}`",
                record.name, record.name
            ),
            hint => hint.to_owned(),
        };
        let reason = format!("{}; {meanwhile}; {next}", error.message);
        // It is tried again, and told once.
        if self.records.offline().closes(&record.name, why) {
            tracing::error!(pool = record.name, "cannot be opened: {error}");
        }
        self.records.explain_offline(&record.name, reason, Waiting::ForTheAdministrator, error.hint.clone());
        match record.kind {
            // Whoever has the pool serves them.
            RecordedKind::Read if error.kind == ApiErrorKind::OtherMachine => self.records.hold_back_volumes(record),
            RecordedKind::Read => self.serving.serve_without_pool(record).await,
            RecordedKind::ReadWrite => self.records.hold_back_volumes(record),
        }
    }

    /// Looks whether another machine uses SSDs that are about to be opened.
    pub(crate) async fn dismiss_owner(&self, ssds: Vec<String>, takeover: Takeover) -> Result<(), ApiError> {
        let dismissed = self.records.plane.first().call(move |plane| plane.pools().dismiss_owner(ssds, takeover)).await;
        dismissed.map_err(|error| match error.kind {
            ApiErrorKind::OtherMachine => error.with_hint(words::TAKE_OVER),
            ApiErrorKind::Invalid
            | ApiErrorKind::NotFound
            | ApiErrorKind::Refused
            | ApiErrorKind::InUse
            | ApiErrorKind::Unauthenticated
            | ApiErrorKind::Forbidden
            | ApiErrorKind::Cancelled
            | ApiErrorKind::Unsupported
            | ApiErrorKind::Device
            | ApiErrorKind::Corrupt
            | ApiErrorKind::Full
            | ApiErrorKind::Unavailable
            | ApiErrorKind::Internal => error,
        })
    }

    /// Tries to open an offline pool now, a fenced one too.
    pub(crate) async fn open_offline_pool(&self, name: &str) -> Result<bool, ApiError> {
        let found = self.records.offline().pools.get(name).map(|pool| pool.record.clone());
        let Some(record) = found else {
            return self.records.check_pool_is_known(name).await.map(|()| false);
        };
        self.records.failures.lift(&self.records.state, name);
        let search = self.search(&record).await;
        if search.is_over() {
            self.try_all(&record.name, search).await;
        } else if let Attempt::Failed(error) = self.try_open(&record.name, search.clone(), Missing::Refuse).await {
            let reason = format!("{}; {}", search.waits_for(), error.message);
            self.records.explain_offline(name, reason, Waiting::ForTheAdministrator, error.hint);
        }
        let left = self.records.offline().pools.get(name).map(|pool| pool.reason.clone());
        match left {
            None => Ok(true),
            Some(reason) => {
                Err(ApiError::new(ApiErrorKind::Refused, format!("pool {name} cannot be opened: {reason}")))
            }
        }
    }

    async fn open_and_attach(
        &self,
        name: &PoolName,
        record: &PoolRecord,
        paths: Vec<String>,
        missing: Missing,
    ) -> Result<(), ApiError> {
        if !self.records.state.has_member(name).map_err(|error| self.records.state_unusable(&error))? {
            self.records.state.reset_member(name).map_err(|error| self.records.state_unusable(&error))?;
            tracing::warn!(pool = %name, "the state directory has no copy of this pool: it opens cold");
        }
        let mut opened = self.open_with_returned(name, record, paths, missing).await?;
        // The pool is open: nothing that fails from here on makes it one that is not.
        match self.remember_failed(name, record).await {
            Ok(status) => opened.status = status,
            Err(error) => tracing::warn!(pool = %name, "which of its SSDs failed before is not shown: {error}"),
        }
        self.note_absent(record, &opened.status).await;
        self.open_volumes_of(name, opened).await;
        Ok(())
    }

    /// Opens the pool with the SSDs that had left it and are there again: the engine believes nothing of them, and takes
    /// them in as empty ones. If they cannot be used, the pool does without them, as it did before.
    async fn open_with_returned(
        &self,
        name: &PoolName,
        record: &PoolRecord,
        paths: Vec<String>,
        missing: Missing,
    ) -> Result<Opened, ApiError> {
        let returned = self.returned(record, &paths).await;
        if returned.is_empty() {
            return self.open(name, paths, missing).await;
        }
        let all = paths.iter().chain(&returned).cloned().collect();
        match self.open(name, all, missing).await {
            Ok(opened) => Ok(opened),
            Err(error) => {
                tracing::warn!(pool = %name, "not opened with SSDs that came back, {returned:?}: {error}");
                self.open(name, paths, missing).await
            }
        }
    }

    /// Where SSDs lie that were missing and had left the pool, other than at `paths`. Their superblocks prove that they are its
    /// own.
    async fn returned(&self, record: &PoolRecord, paths: &[String]) -> Vec<String> {
        let awaited = self.awaited.awaited_by(record).await;
        let is_wanted = |left: &&LeftRecord| left.failed.is_none() || awaited.contains(&left.ssd.uuid);
        let missing: Vec<&SsdRecord> = record.left.iter().filter(is_wanted).map(|left| &left.ssd).collect();
        let known = missing.iter().map(|ssd| ssd.path.clone()).collect();
        let found = self.devices.scanner.ssds(known, Vec::new()).await.ssds;
        let is_own = |ssd: &FoundSsd| {
            let (pool, own) = (uuid(ssd.label.pool_uuid), uuid(ssd.label.ssd_uuid));
            pool == record.uuid && missing.iter().any(|missing| missing.uuid == own)
        };
        found.into_iter().filter(is_own).map(|ssd| ssd.path).filter(|path| !paths.contains(path)).collect()
    }

    /// Remembers SSDs that are not in the pool any more, and tells of those that are there again.
    async fn note_absent(&self, record: &PoolRecord, status: &PoolStatus) {
        let online = |ssd: &SsdRecord| status.ssds.iter().any(|own| own.online && uuid(own.uuid) == ssd.uuid);
        let mut notes = Vec::new();
        let mut left = Vec::new();
        for ssd in record.ssds.iter().filter(|ssd| !online(ssd)) {
            let own = status.ssds.iter().find(|own| uuid(own.uuid) == ssd.uuid);
            let failed = own.filter(|own| own.has_failed_for_good());
            let why = if failed.is_some() { "failed" } else { "was missing" };
            let comes_back = failed.is_none() && own.is_some_and(SsdStatus::was_away);
            let then = match record.kind {
                RecordedKind::Read if comes_back => "it is taken back by itself, empty, when it is there",
                RecordedKind::Read | RecordedKind::ReadWrite => "it is not believed again",
            };
            let text = format!("SSD {} {why} at the start and has left the pool; {then}", ssd.path);
            notes.push(Note { ssd: ssd.uuid.clone(), text });
            let missing = || LeftRecord { ssd: ssd.clone(), failed: None, replaced: false };
            left.push(failed.map_or_else(missing, LeftRecord::of));
        }
        for LeftRecord { ssd, .. } in record.left.iter().filter(|left| online(&left.ssd)) {
            let path = &ssd.path;
            tracing::warn!(
                pool = record.name,
                "SSD {path} is there again: of what it has, what was unavailable is served again, and nothing else is believed"
            );
        }
        for gone in record.left.iter().filter(|left| !online(&left.ssd)) {
            if let Some(text) = said_of(gone).await {
                notes.push(Note { ssd: gone.ssd.uuid.clone(), text });
            }
            left.push(gone.clone());
        }
        let mut offline = self.records.offline();
        offline.departed_ssds.insert(record.name.clone(), left);
        offline.notes.insert(record.name.clone(), notes);
    }

    pub(crate) async fn open(&self, name: &PoolName, paths: Vec<String>, missing: Missing) -> Result<Opened, ApiError> {
        let member = self.records.state.member(name);
        let name = name.clone();
        let (thread, _opening) = self.records.plane.for_pool();
        thread.call(move |plane| plane.pools().open_pool(name, paths, member, missing)).await
    }

    /// Opens the volumes of a pool that was just opened, and records the pool as it is now. What fails is tried again by itself:
    /// the pool serves.
    pub(crate) async fn open_volumes_of(&self, name: &PoolName, mut opened: Opened) {
        if let Err(error) = self.note_shared_disks(&opened.status).await {
            tracing::warn!(pool = %name, "on which disks its SSDs are is not known: {error}");
        }
        self.detach_taken(name, &mut opened.volumes).await;
        let catalogued = opened.volumes.clone();
        for spec in opened.volumes {
            let volume = spec.name.clone();
            if let Err(error) = self.serving.open_and_attach(name, spec.clone()).await {
                tracing::error!(%volume, "cannot be opened: {error}");
                self.records.set_volume_offline(&spec, Some(name), &error);
            }
        }
        let record = self.records.offline().pools.remove(name.as_str()).map(|pool| pool.record);
        if let Some(record) = &record {
            // It may have been imported.
            self.records.offline().departed_ssds.entry(record.name.clone()).or_insert_with(|| record.left.clone());
        }
        for volume in record.iter().flat_map(|record| &record.volumes) {
            if let Err(error) = self.serving.serve_left_over(volume, &catalogued).await {
                tracing::warn!(pool = %name, volume = volume.name, "{error}");
            }
        }
        tracing::info!(pool = %name, recovery = opened.status.recovery, "opened");
        // A record that cannot be written is a condition, and is written when it can be.
        let _ = self.records.save_pool(name).await;
    }

    /// Discards what the pool holds of the volumes that were taken from it while it was offline: whoever took one knew that
    /// this would be lost, and hosts have written around the pool since. A start that came to an end before this was
    /// recorded leaves some that are gone already.
    async fn detach_taken(&self, name: &PoolName, volumes: &mut Vec<VolumeSpec>) {
        let record =
            self.records.offline().pools.get(name.as_str()).map(|pool| pool.record.clone()).unwrap_or_default();
        let is_taken = |volume: &mut VolumeSpec| record.is_detached(volume.name.as_str(), &volume.backing);
        for VolumeSpec { name: volume, .. } in volumes.extract_if(.., is_taken) {
            let pool = name.clone();
            let of = volume.clone();
            if let Err(error) = self
                .records
                .plane
                .of_pool(name)
                .call(move |plane| plane.pools().detach(pool, of, DirtyData::Discard))
                .await
            {
                tracing::error!(pool = %name, %volume, "was taken from it, which cannot be recorded on its SSDs: {error}");
                self.records.offline().taken.entry(name.to_string()).or_insert_with(|| Taken::of(&record));
            }
        }
    }

    /// Of an open pool, of the SSDs that it has now.
    pub(crate) async fn note_shared_disks(&self, status: &PoolStatus) -> Result<(), ApiError> {
        let (kind, name) = (status.kind, status.name.to_string());
        let on_disks = disks::in_use(status);
        let warnings = blocking(move || disks::warnings(kind, &SsdOnDisk::all(on_disks))).await?;
        self.records.offline().warnings.insert(name, warnings);
        Ok(())
    }

    /// Pools that no record names: the state directory was lost, or their SSDs came from elsewhere.
    async fn open_unrecorded_pools(&self, records: &[PoolRecord]) {
        if self.records.config.ssd_scan.is_empty() {
            return;
        }
        let patterns = self.records.config.ssd_scan.clone();
        let Scan { ssds: found, newer, silent: _ } = self.devices.scanner.ssds(Vec::new(), patterns).await;
        let known: BTreeSet<&str> = records.iter().map(|record| record.uuid.as_str()).collect();
        let unrecorded: BTreeSet<u128> =
            found.iter().map(|ssd| ssd.label.pool_uuid).filter(|pool| !known.contains(uuid(*pool).as_str())).collect();
        let is_unknown = |ssd: &&FoundNewer| {
            !known.contains(uuid(ssd.newer.pool_uuid).as_str()) && !unrecorded.contains(&ssd.newer.pool_uuid)
        };
        for ssd in newer.iter().filter(is_unknown) {
            self.note_not_opened(ssd.newer.pool_uuid, newer_error(ssd).message);
        }
        for pool in unrecorded {
            let own: Vec<_> = found.iter().filter(|ssd| ssd.label.pool_uuid == pool).collect();
            let Some(label) = own.first().map(|ssd| ssd.label.clone()) else { continue };
            let (name, kind) = (label.pool_name, RecordedKind::of(label.kind));
            let record = PoolRecord { name: name.to_string(), uuid: uuid(pool), kind, ..PoolRecord::default() };
            if self.converting.is_rewritten(name.as_str()) {
                continue;
            }
            if let Some(unread) = self.converting.unread_conversion(name.as_str()) {
                self.note_not_opened(pool, format!("pool {name}: {unread}"));
                continue;
            }
            match self.records.check_record_of(&name).and_then(|()| self.records.is_forgotten(&record.uuid)) {
                Ok(false) => {}
                Ok(true) => {
                    tracing::warn!("{}", words::forgotten_pool(&record.name));
                    continue;
                }
                Err(error) => {
                    self.note_not_opened(pool, format!("pool {name}: {error}"));
                    continue;
                }
            }
            if self.records.offline().pools.contains_key(name.as_str()) {
                self.note_not_opened(pool, format!("pool {name}: there is another one of this name"));
                continue;
            }
            self.records.set_offline(&record, "it is being opened", Waiting::ForItsSsds);
            if let Some(why) = self.records.failures.fence(&record.name) {
                let _one_at_a_time = self.records.change.lock().await;
                self.leave_closed(&record, Closed::Fenced, &fenced(&record.name, &why)).await;
                continue;
            }
            let paths: Vec<_> = own.into_iter().map(|ssd| ssd.path.clone()).collect();
            let newer = newer.iter().find(|ssd| ssd.newer.pool_uuid == pool).map(newer_error);
            self.try_all(&record.name, Search { paths, away: Vec::new(), newer }).await;
        }
    }

    /// A pool that the scan found, and that no record shows: only a condition does.
    fn note_not_opened(&self, pool_uuid: u128, why: String) {
        tracing::error!("found by the scan, and not opened: {why}");
        self.records.offline().not_opened.insert(pool_uuid, why);
    }

    /// Tells a pool that was just opened which SSDs failed before; answers its status with them.
    pub(crate) async fn remember_failed(&self, name: &PoolName, record: &PoolRecord) -> Result<PoolStatus, ApiError> {
        let failed = record.left.iter().filter(|left| !left.replaced).filter_map(failed).collect();
        let name = name.clone();
        self.records.plane.of_pool(&name.clone()).call(move |plane| plane.pools().remember_failed(name, failed)).await
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    /// The pool is open, or will not open by waiting.
    Decided,
    /// Not tried: SSDs are away.
    Wait,
    /// Tried in vain, with an error that may go away by itself.
    Failed(ApiError),
}

fn fenced(pool: &str, why: &str) -> ApiError {
    ApiError::new(ApiErrorKind::Refused, format!("pool {pool} is fenced: {why}"))
}

/// Of an SSD that had left its pool and is not in it at a start.
async fn said_of(left: &LeftRecord) -> Option<String> {
    let path = left.ssd.path.clone();
    if left.failed.is_some() {
        return (!left.replaced).then(|| format!("SSD {path} failed before this start, and is not used"));
    }
    let looked_at = path.clone();
    let is_there = blocking(move || given_file::is_there(Path::new(&looked_at))).await;
    matches!(is_there, Ok(Ok(true))).then(|| {
        format!(
            "SSD {path} is there again, but it had left the pool: nothing on it is believed, and it is not used; use it for a \
             pool with --force"
        )
    })
}

fn newer_error(ssd: &FoundNewer) -> ApiError {
    words::newer_format(&format!("SSD {}: {}", ssd.path, ssd.newer), ssd.newer.version)
}

/// Whether an error may go away when SSDs come, or when one is left out.
fn may_pass(kind: ApiErrorKind) -> bool {
    match kind {
        // An SSD that is not what it was is Corrupt: its pool does without it as without one that is missing.
        ApiErrorKind::NotFound
        | ApiErrorKind::Refused
        | ApiErrorKind::InUse
        | ApiErrorKind::Device
        | ApiErrorKind::Corrupt => true,
        ApiErrorKind::Invalid
        | ApiErrorKind::Cancelled
        | ApiErrorKind::Unsupported
        | ApiErrorKind::OtherMachine
        | ApiErrorKind::Full
        | ApiErrorKind::Unavailable
        | ApiErrorKind::Internal
        | ApiErrorKind::Unauthenticated
        | ApiErrorKind::Forbidden => false,
    }
}
