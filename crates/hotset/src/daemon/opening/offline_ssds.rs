//! Where the SSDs are of pools that are not open: whoever looks at such a pool sees which of them it lacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::devices::Devices;
use super::offline::{FoundOffline, RETRY_INTERVAL};
use super::records::Records;
use super::scan::Scan;
use crate::daemon::naming::uuid;
use crate::daemon::state::{PoolRecord, SsdRecord};

/// Looks for SSDs of pools that are not open.
pub(crate) struct OfflineSsds {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
}

impl OfflineSsds {
    /// Looks again and again, for as long as the daemon runs.
    pub(crate) async fn watch(self: Arc<Self>) {
        loop {
            self.look().await;
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    async fn look(&self) {
        let records: Vec<PoolRecord> = self.records.offline().pools.values().map(|pool| pool.record.clone()).collect();
        if records.is_empty() {
            return;
        }
        let known = records.iter().flat_map(|record| &record.ssds).map(|ssd| ssd.path.clone()).collect();
        let scan = self.devices.scanner.ssds(known, self.records.config.ssd_scan.clone()).await;
        let mut offline = self.records.offline();
        for record in records {
            if let Some(pool) = offline.pools.get_mut(&record.name) {
                pool.found = found(&record, &scan);
            }
        }
    }
}

fn found(record: &PoolRecord, scan: &Scan) -> BTreeMap<String, FoundOffline> {
    record.ssds.iter().map(|ssd| (ssd.uuid.clone(), found_of(record, ssd, scan))).collect()
}

fn found_of(record: &PoolRecord, ssd: &SsdRecord, scan: &Scan) -> FoundOffline {
    let is_it = |pool: u128, own: u128| uuid(pool) == record.uuid && uuid(own) == ssd.uuid;
    let known = scan.ssds.iter().find(|found| is_it(found.label.pool_uuid, found.label.ssd_uuid));
    // Of one that cannot be read, which it is may be told by its path alone.
    let is_newer =
        || scan.newer.iter().any(|found| uuid(found.newer.pool_uuid) == record.uuid && found.path == ssd.path);
    match known {
        Some(found) => FoundOffline::There(found.path.clone()),
        None if is_newer() => FoundOffline::Newer,
        None if scan.silent.contains(&ssd.path) => FoundOffline::Silent,
        None => FoundOffline::Away,
    }
}
