//! Which physical disks the SSDs of a read-write pool are on: two copies on one disk are lost with it.

use std::collections::BTreeMap;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::PoolStatus;
use hotset_cache::config::PoolKind;

use super::probe::{self, DeviceKey};

/// An SSD and the disk that it fails with.
#[derive(Clone, Debug)]
pub(crate) struct SsdOnDisk {
    path: String,
    /// The device's own word for it; empty if it has none.
    disk: String,
    key: Option<DeviceKey>,
}

impl SsdOnDisk {
    /// Of paths and disks. Blocking.
    pub(crate) fn all(ssds: Vec<(String, String)>) -> Vec<Self> {
        let with_key = |(path, disk): (String, String)| Self { key: probe::backing_key(&path), path, disk };
        ssds.into_iter().map(with_key).collect()
    }

    /// What the disk is called here; files of one file system are on one disk. `None` if nothing is known.
    fn name(&self) -> Option<String> {
        if !self.disk.is_empty() {
            return Some(self.disk.clone());
        }
        match self.key? {
            DeviceKey::File { device, .. } => Some(format!("file system {device}")),
            DeviceKey::Block { .. } => None,
        }
    }

    fn is_block_device(&self) -> bool {
        match self.key {
            Some(DeviceKey::Block { .. }) => true,
            Some(DeviceKey::File { .. }) | None => false,
        }
    }
}

/// The SSDs that a pool uses, with their disks: none that left it, and no spare.
pub(crate) fn in_use(pool: &PoolStatus) -> Vec<(String, String)> {
    pool.ssds.iter().filter(|ssd| ssd.online).map(|ssd| (ssd.path.clone(), ssd.disk.clone())).collect()
}

/// One line for each disk that several SSDs of a read-write pool share.
pub(crate) fn warnings(kind: PoolKind, ssds: &[SsdOnDisk]) -> Vec<String> {
    shared(kind, ssds).iter().map(|(disk, shared)| warning(disk, shared)).collect()
}

/// Refuses block devices that share a disk, unless that is allowed.
pub(crate) fn check(kind: PoolKind, ssds: &[SsdOnDisk], allowed: bool) -> Result<(), ApiError> {
    let refused = shared(kind, ssds).into_iter().find(|(_, shared)| shared.iter().any(|ssd| ssd.is_block_device()));
    match refused {
        Some((disk, shared)) if !allowed => Err(ApiError::new(
            ApiErrorKind::Refused,
            format!("{}; take SSDs on different disks, or use --allow-same-disk", warning(&disk, &shared)),
        )),
        Some(_) | None => Ok(()),
    }
}

fn shared(kind: PoolKind, ssds: &[SsdOnDisk]) -> BTreeMap<String, Vec<&SsdOnDisk>> {
    match kind {
        // Single copies are lost with any disk, and cost nothing but warmth.
        PoolKind::Read => return BTreeMap::new(),
        PoolKind::ReadWrite => {}
    }
    let mut disks: BTreeMap<String, Vec<&SsdOnDisk>> = BTreeMap::new();
    for ssd in ssds {
        if let Some(disk) = ssd.name() {
            disks.entry(disk).or_default().push(ssd);
        }
    }
    disks.retain(|_, shared| shared.len() > 1);
    disks
}

fn warning(disk: &str, shared: &[&SsdOnDisk]) -> String {
    let paths: Vec<&str> = shared.iter().map(|ssd| ssd.path.as_str()).collect();
    format!(
        "SSDs {} are on one physical disk ({disk}): when it fails, both copies of dirty data can be lost",
        paths.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(path: &str, disk: &str) -> SsdOnDisk {
        let key = Some(DeviceKey::File { device: 1, inode: 1 });
        SsdOnDisk { path: path.to_owned(), disk: disk.to_owned(), key }
    }

    fn block_on(path: &str, disk: &str, device: u64) -> SsdOnDisk {
        SsdOnDisk { key: Some(DeviceKey::Block { device }), ..on(path, disk) }
    }

    // proves: P1
    #[test]
    fn block_devices_on_one_disk_are_refused_unless_that_is_allowed() {
        let partitions = [block_on("/dev/sda1", "wwid:1", 1), block_on("/dev/sda2", "wwid:1", 2)];
        let error = check(PoolKind::ReadWrite, &partitions, false).unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::Refused);
        assert!(error.message.contains("/dev/sda1 and /dev/sda2"), "{error}");
        assert!(error.message.contains("--allow-same-disk"), "{error}");
        assert!(check(PoolKind::ReadWrite, &partitions, true).is_ok());
        assert_eq!(warnings(PoolKind::ReadWrite, &partitions).len(), 1, "the warning stays");
        assert!(check(PoolKind::Read, &partitions, false).is_ok(), "single copies are only a cache");
        let disks = [block_on("/dev/sda", "wwid:1", 1), block_on("/dev/sdb", "wwid:2", 2)];
        assert!(check(PoolKind::ReadWrite, &disks, false).is_ok());
        let unknown = [block_on("/dev/x", "", 1), block_on("/dev/y", "", 2)];
        assert!(check(PoolKind::ReadWrite, &unknown, false).is_ok(), "devices that say nothing are taken for two");
    }

    // proves: P1
    #[test]
    fn images_on_one_disk_are_warned_of_and_a_read_pool_does_not_mind() {
        let ssds = [on("/a", "wwid:1"), on("/b", "wwid:2"), on("/c", "wwid:1")];
        let found = warnings(PoolKind::ReadWrite, &ssds);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("/a and /c are on one physical disk (wwid:1)"), "{}", found[0]);
        assert!(warnings(PoolKind::Read, &ssds).is_empty());
        assert!(warnings(PoolKind::ReadWrite, &ssds[..2]).is_empty());
        assert!(check(PoolKind::ReadWrite, &ssds, false).is_ok(), "they are no block devices");
    }

    // proves: P1
    #[test]
    fn files_of_a_file_system_without_a_disk_share_what_is_under_it() {
        let directory = tempfile::tempdir().unwrap();
        let ssds = ["a", "b"].map(|name| {
            let path = directory.path().join(name);
            std::fs::write(&path, b"x").unwrap();
            (path.display().to_string(), String::new())
        });
        assert!(warnings(PoolKind::ReadWrite, &SsdOnDisk::all(ssds.to_vec()))[0].contains("file system"));
        let gone = ["/nowhere/a", "/nowhere/b"].map(|path| (path.to_owned(), String::new()));
        assert!(warnings(PoolKind::ReadWrite, &SsdOnDisk::all(gone.to_vec())).is_empty());
    }
}
