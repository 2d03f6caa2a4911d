//! What is known of a path before it is used: what it is, whether it holds something, and whose it is.
//!
//! Blocking: called on the control plane's blocking threads only.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use hotset_api::{ApiError, ApiErrorKind};
use hotset_block::emulated::{EmulatedArraySpec, split_spelling};
use hotset_block::{DeviceIdentity, Footprint};
use hotset_cache::{LABEL_BYTES, Newer, SsdLabel, Unusable, inspect};

use crate::image;

/// Tells a device from another, whatever path leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeviceKey {
    Block { device: u64 },
    File { device: u64, inode: u64 },
}

/// A path that may become an SSD.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) path: String,
    pub(crate) footprint: Footprint,
    pub(crate) size_bytes: u64,
    /// An image file that was never written in full.
    pub(crate) sparse: bool,
    /// Of ours.
    pub(crate) label: Option<SsdLabel>,
    /// Of anybody's, ours too: what would be lost.
    pub(crate) signature: Option<String>,
}

/// Looks at a path that is to become an SSD, or is one of a pool.
pub(crate) fn candidate(path: &str, role: Role) -> Result<Candidate, ApiError> {
    let metadata = metadata(path, role)?;
    let footprint = footprint(path).unwrap_or_default();
    let (size_bytes, label) = look(path)?;
    let signature = match ours(&label) {
        Some(ours) => Some(ours),
        None => foreign_signature(path)?,
    };
    let (sparse, label) = (image::is_sparse(&metadata), label.ok().flatten());
    Ok(Candidate { path: path.to_owned(), footprint, size_bytes, sparse, label, signature })
}

/// What an SSD of ours says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Known(SsdLabel),
    /// It says that a later Hotset can read it.
    Newer(Newer),
}

/// Whose SSD is at `path`, if it can be read and carries our superblock.
pub(crate) fn label(path: &str) -> Option<Label> {
    let (_, label) = look(path).ok()?;
    match label {
        Ok(label) => label.map(Label::Known),
        Err(Unusable::Newer(newer)) => Some(Label::Newer(newer)),
        Err(Unusable::Corrupt(_)) => None,
    }
}

/// What carries a superblock of ours, for people. `None`: it carries none.
fn ours(label: &Result<Option<SsdLabel>, Unusable>) -> Option<String> {
    match label {
        Ok(label) => label.as_ref().map(|label| format!("an SSD of the Hotset pool {}", label.pool_name)),
        Err(Unusable::Newer(newer)) => Some(format!("an SSD of a later Hotset ({newer})")),
        Err(Unusable::Corrupt(why)) => Some(format!("a Hotset SSD that cannot be read ({why})")),
    }
}

/// What the device at `path` says that it is, whatever it holds.
pub(crate) fn identity(path: &str) -> Result<DeviceIdentity, ApiError> {
    let identity = hotset_block::identify(Path::new(backing_path(path)));
    identity.map_err(|error| ApiError::new(ApiErrorKind::Device, format!("SSD {path}: {error}")))
}

/// What a backing device is, whatever it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackingFound {
    pub(crate) id: String,
    pub(crate) size_bytes: u64,
    /// A name that stays when disks are added, where the given one may become another disk's.
    pub(crate) better_path: Option<String>,
}

/// `None`: it cannot be looked at, which is for whoever opens it to say.
pub(super) fn backing_found(spelling: &str) -> Option<BackingFound> {
    let path = Path::new(backing_path(spelling));
    let id = hotset_block::identify(path).ok()?.id;
    // Nobody may ever write to a pipe.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let size_bytes = file.and_then(|mut file| file.seek(SeekFrom::End(0))).ok()?;
    Some(BackingFound { id, size_bytes, better_path: better_path(path) })
}

/// Of a block device that is named as the kernel does.
fn better_path(path: &Path) -> Option<String> {
    let kind = std::fs::symlink_metadata(path).ok()?.file_type();
    if path.parent() != Some(Path::new("/dev")) || !kind.is_block_device() {
        return None;
    }
    let better = durable_path(&path.file_name()?.to_string_lossy());
    (Path::new(&better) != path).then_some(better)
}

/// The device behind a backing device's spelling, if there is one that can be told from others.
pub(super) fn backing_key(spelling: &str) -> Option<DeviceKey> {
    std::fs::metadata(backing_path(spelling)).ok().as_ref().and_then(key_of)
}

/// The storage that the spelling of a device stands for, if it is there.
pub(crate) fn footprint(spelling: &str) -> Option<Footprint> {
    Footprint::of(Path::new(backing_path(spelling))).ok()
}

/// The path within the spelling of a device.
pub(super) fn backing_path(spelling: &str) -> &str {
    let Some((_, keys)) = split_spelling(spelling) else { return spelling };
    keys.split(',').find_map(|part| part.strip_prefix("file=")).unwrap_or("")
}

/// Refuses a backing device that is not there, or cannot store bytes. `None`: it is emulated, and made when it is opened.
pub(crate) fn check_is_storage(spelling: &str) -> Result<Option<Metadata>, ApiError> {
    let path = backing_path(spelling);
    if EmulatedArraySpec::is_spelled_by(spelling) && Path::new(path).try_exists().is_ok_and(|there| !there) {
        return Ok(None);
    }
    metadata(path, Role::BackingDevice).map(Some)
}

/// Refuses a backing device that is one of our SSDs: its content is cache, not data.
pub(crate) fn check_backing(spelling: &str) -> Result<(), ApiError> {
    let path = backing_path(spelling);
    let Some(metadata) = check_is_storage(spelling)? else { return Ok(()) };
    if metadata.is_file() && metadata.len() == 0 {
        return Err(ApiError::new(ApiErrorKind::Invalid, format!("backing device {path}: it is empty")));
    }
    let (_, label) = look(path)?;
    let Some(whose) = ours(&label) else { return Ok(()) };
    Err(ApiError::new(
        ApiErrorKind::Refused,
        format!("backing device {path}: it is {whose}; delete that pool first, or clear it with `wipefs -a`"),
    ))
}

/// Reads a little of a device, past the page cache where that is possible: returns when it has answered, whatever it says.
pub(crate) fn touch(path: &str) {
    // What is wrong with it is for whoever opens it to say.
    let _ = read_a_little(Path::new(path));
}

/// As [`touch`], and says what came of it.
pub(super) fn read_a_little(path: &Path) -> std::io::Result<()> {
    const PAGE: usize = 4096;
    let open = |flags| File::options().read(true).custom_flags(libc::O_NONBLOCK | flags).open(path);
    let file = open(libc::O_DIRECT).or_else(|_| open(0))?;
    let mut room = vec![0; 2 * PAGE];
    let start = room.as_ptr().align_offset(PAGE);
    let page = room.get_mut(start..start + PAGE).ok_or(ErrorKind::OutOfMemory)?;
    file.read_at(page, 0).map(drop)
}

/// What a path is named for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is to become an SSD.
    NewSsd,
    /// It is said to be an SSD of a pool: what it holds is wanted.
    SsdOfPool,
    BackingDevice,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::NewSsd | Self::SsdOfPool => "SSD",
            Self::BackingDevice => "backing device",
        }
    }
}

fn metadata(path: &str, role: Role) -> Result<Metadata, ApiError> {
    let what = role.word();
    hotset_block::check_is_storage(Path::new(backing_path(path))).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            let message = format!("{what} {path}: {error}{}", hint_at_absent(path, role));
            return ApiError::new(ApiErrorKind::NotFound, message);
        }
        let is_no_storage = error.kind() == ErrorKind::Unsupported;
        let kind = if is_no_storage { ApiErrorKind::Invalid } else { ApiErrorKind::Device };
        ApiError::new(kind, format!("{what} {path}: {error}"))
    })
}

/// Files are not made in /dev.
fn hint_at_absent(path: &str, role: Role) -> String {
    if Path::new(path).starts_with("/dev") {
        return "; `lsblk` lists the devices that are there".to_owned();
    }
    match role {
        Role::NewSsd => format!("; make an image file with `hotset image create {path} SIZE`"),
        // A new file would lie over what is only not mounted.
        Role::SsdOfPool => "; see whether its file system is mounted, or name the place where it is now".to_owned(),
        Role::BackingDevice => String::new(),
    }
}

fn key_of(metadata: &Metadata) -> Option<DeviceKey> {
    let kind = metadata.file_type();
    if kind.is_block_device() {
        return Some(DeviceKey::Block { device: metadata.rdev() });
    }
    kind.is_file().then(|| DeviceKey::File { device: metadata.dev(), inode: metadata.ino() })
}

/// What this process has open.
pub(super) fn open_devices() -> std::io::Result<BTreeSet<DeviceKey>> {
    let mut open = BTreeSet::new();
    for descriptor in std::fs::read_dir("/proc/self/fd")? {
        // One that was closed meanwhile is not open.
        let Ok(metadata) = std::fs::metadata(descriptor?.path()) else { continue };
        open.extend(key_of(&metadata));
    }
    Ok(open)
}

/// Size and label.
fn look(path: &str) -> Result<(u64, Result<Option<SsdLabel>, Unusable>), ApiError> {
    let context = |error: std::io::Error| ApiError::new(ApiErrorKind::Device, format!("{path}: {error}"));
    // Nobody may ever write to a pipe.
    let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(backing_path(path));
    let mut file = open.map_err(context)?;
    let size_bytes = file.seek(SeekFrom::End(0)).map_err(context)?;
    file.rewind().map_err(context)?;
    let mut start = Vec::with_capacity(LABEL_BYTES);
    let limit = u64::try_from(LABEL_BYTES).expect("an address has 64 bits at most");
    file.take(limit).read_to_end(&mut start).map_err(context)?;
    start.resize(LABEL_BYTES, 0);
    Ok((size_bytes, inspect(&start)))
}

/// What libblkid finds: a file system, a partition table, RAID, LVM and many more. `None` if it finds nothing.
fn foreign_signature(path: &str) -> Result<Option<String>, ApiError> {
    let unusable = |why: String| {
        ApiError::new(ApiErrorKind::Unsupported, format!("SSD {path}: blkid cannot look for signatures on it: {why}"))
    };
    let output = Command::new("blkid").args(["-p", "-o", "export", backing_path(path)]).env("PATH", TOOLS).output();
    let output = output.map_err(|error| unusable(format!("{error}; install util-linux")))?;
    // blkid(8): 2 is nothing found, 8 is ambivalent (several signatures).
    match output.status.code() {
        Some(0) => Ok(Some(described(&String::from_utf8_lossy(&output.stdout)))),
        Some(2) => Ok(None),
        Some(8) => Ok(Some("several signatures (`wipefs` lists them)".to_owned())),
        Some(_) | None => Err(unusable(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Where system tools are, also for a user whose PATH has no sbin.
const TOOLS: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// blkid's `KEY=VALUE` lines as a phrase.
fn described(export: &str) -> String {
    let value = |key: &str| {
        let mut lines = export.lines();
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    };
    let what = match (value("TYPE"), value("PTTYPE")) {
        (Some(kind), _) => kind,
        (None, Some(table)) => format!("a partition table ({table})"),
        (None, None) => "an unknown signature".to_owned(),
    };
    let name = value("LABEL").or_else(|| value("UUID"));
    name.map_or(what.clone(), |name| format!("{what} {name:?}"))
}

/// A name that stays when disks are added: one of udev's links, else the kernel's.
pub(crate) fn durable_path(name: &str) -> String {
    let device = PathBuf::from("/dev").join(name);
    let mut links: Vec<PathBuf> = fs::read_dir("/dev/disk/by-id")
        .map_or_else(|_| Vec::new(), |entries| entries.flatten().map(|entry| entry.path()).collect());
    links.retain(|link| fs::canonicalize(link).is_ok_and(|target| target == device));
    // Those that say the model and the serial number first, the bare numbers last.
    links.sort_by_key(|link| {
        let id = link.file_name().map(|id| id.to_string_lossy().into_owned()).unwrap_or_default();
        (
            ["wwn-", "nvme-eui.", "nvme-nvme.", "lvm-pv", "dm-uuid", "md-uuid"].iter().any(|bare| id.starts_with(bare)),
            id,
        )
    });
    links.first().unwrap_or(&device).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_described_by_kind_and_name() {
        assert_eq!(described("DEVNAME=/x\nLABEL=home\nTYPE=ext4\n"), "ext4 \"home\"");
        assert_eq!(described("PTTYPE=gpt\n"), "a partition table (gpt)");
        assert_eq!(described("USAGE=raid\n"), "an unknown signature");
    }

    #[test]
    fn a_foreign_signature_is_found_and_an_empty_image_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let path = path.to_str().unwrap();
        hotset_block::create_image(Path::new(path), 9 << 20, &mut |_| ()).unwrap();
        assert_eq!(foreign_signature(path).unwrap(), None);
        // An MBR: its magic, and one entry of type Linux.
        let mut sector = [0; 512];
        sector[446 + 4] = 0x83;
        sector[446 + 8] = 1;
        sector[446 + 12] = 64;
        sector[510..].copy_from_slice(&[0x55, 0xAA]);
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &sector, 0).unwrap();
        assert_eq!(foreign_signature(path).unwrap().as_deref(), Some("a partition table (dos)"));
    }

    #[test]
    fn a_missing_ssd_is_told_how_to_be_made() {
        let error = candidate("/nowhere/ssd.img", Role::SsdOfPool).unwrap_err();
        assert!(error.message.contains("mounted") && !error.message.contains("image create"), "{}", error.message);
        let error = candidate("/nowhere/ssd.img", Role::NewSsd).unwrap_err();
        assert_eq!(error.kind, ApiErrorKind::NotFound);
        assert!(error.message.contains("hotset image create /nowhere/ssd.img SIZE"), "{}", error.message);
        let error = candidate("/dev/nvme99n1", Role::NewSsd).unwrap_err();
        assert!(error.message.contains("lsblk") && !error.message.contains("image"), "{}", error.message);
    }

    // proves: F10
    #[test]
    fn what_is_no_storage_is_neither_an_ssd_nor_a_backing_device() {
        for path in ["/sys/kernel/uevent_seqnum", "/proc/version", "/dev/zero", "/dev", "/proc/self/mem"] {
            assert_eq!(candidate(path, Role::NewSsd).unwrap_err().kind, ApiErrorKind::Invalid, "{path}");
            for spelling in [path.to_owned(), format!("emulated:disks=4,file={path},size=1G")] {
                assert_eq!(check_backing(&spelling).unwrap_err().kind, ApiErrorKind::Invalid, "{spelling}");
            }
        }
    }

    #[test]
    fn the_same_file_has_the_same_key_by_every_path() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&file, b"x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let spelled = format!("emulated:disks=4,file={},size=1G", file.display());
        let key = backing_key(file.to_str().unwrap());
        assert!(key.is_some());
        assert_eq!(key, backing_key(link.to_str().unwrap()));
        assert_eq!(key, backing_key(&spelled));
    }
}
