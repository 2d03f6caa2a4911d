//! Disks of this machine that may become SSDs of a pool, or backing devices.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Smart;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    BlockDevice,
    ImageFile,
}

/// A block device or an image file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// What to name in a request: the most durable path there is.
    pub path: String,
    /// The kernel's name, as `nvme0n1`; of an image file its file name.
    pub name: String,
    pub kind: DiskKind,
    pub size_bytes: u64,
    /// Empty where the kernel does not know it; so are the next three.
    pub manufacturer: String,
    pub model: String,
    pub serial: String,
    /// `nvme`, `sata`, `sas`, `usb`, `virtio`, …
    pub transport: String,
    /// Whether it turns; null for files and where the kernel does not know.
    pub rotational: Option<bool>,
    /// What it carries and would be lost: a file system, a partition table, a pool's label. Empty if nothing was found.
    pub signature: String,
    /// Why it cannot be an SSD of a pool now. Empty if it can.
    pub not_as_ssd: String,
    /// It can be an SSD only by `force`, because it carries something.
    pub needs_force: bool,
    /// Why it cannot be the backing device of a volume now. Empty if it can.
    pub not_as_backing: String,
    /// What it says of itself, of an image file the disk below it; null for what cannot be an SSD, and until it was asked,
    /// which the first look brings about.
    #[serde(default)]
    pub smart: Option<Smart>,
}

/// `GET /api/v1/disks`: the block devices; with `?directory=PATH` the image files in that directory instead, for the role
/// *admin* only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskList {
    pub disks: Vec<Disk>,
}
