//! The disks of this machine, and for each whether it can be an SSD or a backing device, and if not, why.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use hotset_api::{ApiError, ApiErrorKind, Disk, DiskKind, DiskList};
use hotset_block::Access;
use hotset_cache::config::limits;

use super::ssds::Drives;
use crate::clock::unix_ms;
use crate::daemon::blocking::blocking;
use crate::daemon::opening::devices::{AT_ONCE, Devices, Users};
use crate::daemon::opening::probe::{self, Role, durable_path};
use crate::daemon::opening::records::Records;
use crate::daemon::smart::{first_text, text, transport};
use crate::size::human;

/// Files listed of one directory at most.
const FILES_MAX: usize = 500;

/// Where files are made by the kernel: reading one may do something.
const NOT_LISTED: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Lists the disks of this machine.
pub(crate) struct Disks {
    pub(crate) records: Arc<Records>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) drives: Arc<Drives>,
}

impl Disks {
    /// Block devices, or the image files of a directory.
    pub(crate) async fn disks(&self, directory: Option<String>) -> Result<DiskList, ApiError> {
        let snapshot = self.records.plane.snapshot().await?;
        let disks = match directory {
            Some(directory) => {
                let what = format!("directory {directory}");
                self.devices.ask(&what, move || image_files(Path::new(&directory))).await??
            }
            None => blocking(|| block_devices(Path::new("/sys/class/block"))).await?,
        };
        let users = Arc::new(self.devices.users(&snapshot).await);
        let judged = disks.into_iter().map(async |disk| {
            let (mut judged, users, what) = (disk.clone(), Arc::clone(&users), format!("disk {}", disk.path));
            let answer = self.devices.ask(&what, move || {
                judge(&mut judged, &users);
                judged
            });
            answer.await.unwrap_or_else(|error| {
                let mut disk = disk;
                refuse(&mut disk, &error.message);
                disk
            })
        });
        let mut disks: Vec<Disk> = stream::iter(judged).buffered(AT_ONCE).collect().await;
        for disk in disks.iter_mut().filter(|disk| disk.not_as_ssd.is_empty()) {
            disk.smart = self.drives.known_ssds().of_found(&disk.path, unix_ms());
        }
        Ok(DiskList { disks })
    }
}

/// Fills in what it carries and why it cannot be used.
fn judge(disk: &mut Disk, users: &Users) {
    if !disk.not_as_ssd.is_empty() && !disk.not_as_backing.is_empty() {
        return;
    }
    if let Some(footprint) = probe::footprint(&disk.path)
        && let Some((_, user)) = users.iter().find(|(used, _)| used.overlaps(&footprint))
    {
        refuse(disk, &format!("it is in use as {user}"));
        return;
    }
    if let Ok(Some(user)) = hotset_block::user_of(Path::new(&disk.path), Access::Alone) {
        refuse(disk, &format!("it is in use: {user}"));
        return;
    }
    match probe::candidate(&disk.path, Role::NewSsd) {
        Ok(candidate) => {
            disk.needs_force = candidate.signature.is_some();
            disk.signature = candidate.signature.unwrap_or_default();
        }
        Err(error) => or_else(&mut disk.not_as_ssd, || error.message),
    }
    if disk.size_bytes < limits::SSD_BYTES_MIN {
        let (has, least) = (human(disk.size_bytes), human(limits::SSD_BYTES_MIN));
        or_else(&mut disk.not_as_ssd, || format!("it has {has}; an SSD has at least {least}"));
    }
    if let Err(error) = probe::check_backing(&disk.path) {
        or_else(&mut disk.not_as_backing, || error.message);
    }
}

/// The first reason stays.
fn or_else(reason: &mut String, other: impl FnOnce() -> String) {
    if reason.is_empty() {
        *reason = other();
    }
}

fn refuse(disk: &mut Disk, reason: &str) {
    or_else(&mut disk.not_as_ssd, || reason.to_owned());
    or_else(&mut disk.not_as_backing, || reason.to_owned());
}

/// Regular files that could be images, not those of subdirectories, and no links: who may write to the directory must
/// not lead us elsewhere.
fn image_files(directory: &Path) -> Result<Vec<Disk>, ApiError> {
    let failed = |error: std::io::Error| {
        ApiError::new(ApiErrorKind::Invalid, format!("directory {}: {error}", directory.display()))
    };
    if !directory.is_absolute() {
        let message = format!("directory {}: name it from the root", directory.display());
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    let real = fs::canonicalize(directory).map_err(failed)?;
    if NOT_LISTED.iter().any(|pseudo| real.starts_with(pseudo)) {
        let message = format!("directory {}: there are no image files", directory.display());
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&real).map_err(failed)?.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let (Ok(path), Ok(name)) = (entry.path().into_os_string().into_string(), entry.file_name().into_string())
        else {
            continue;
        };
        if metadata.is_file() && metadata.len() >= 512 {
            files.push(Disk { size_bytes: metadata.len(), ..bare(path, name, DiskKind::ImageFile) });
        }
        if files.len() == FILES_MAX {
            break;
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn bare(path: String, name: String, kind: DiskKind) -> Disk {
    Disk {
        path,
        name,
        kind,
        size_bytes: 0,
        manufacturer: String::new(),
        model: String::new(),
        serial: String::new(),
        transport: String::new(),
        rotational: None,
        signature: String::new(),
        not_as_ssd: String::new(),
        needs_force: false,
        not_as_backing: String::new(),
        smart: None,
    }
}

/// What sysfs lists, without what has no medium, and without RAM disks and optical drives.
fn block_devices(sysfs: &Path) -> Vec<Disk> {
    let Ok(entries) = fs::read_dir(sysfs) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let used = UsedByTheSystem::read();
    let listed = names.iter().filter(|name| !["ram", "zram", "sr", "fd"].iter().any(|kind| is_named(name, kind)));
    let disks = listed.filter_map(|name| block_device(&sysfs.join(name), name, &used));
    disks.filter(|disk| disk.size_bytes > 0).collect()
}

/// Whether a name is `kind` and a number.
fn is_named(name: &str, kind: &str) -> bool {
    name.strip_prefix(kind).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn block_device(link: &Path, name: &str, used: &UsedByTheSystem) -> Option<Disk> {
    let directory = fs::canonicalize(link).ok()?;
    let partition = directory.join("partition").exists();
    let whole = if partition { directory.parent()?.to_owned() } else { directory.clone() };
    let sectors: u64 = text(&directory.join("size")).parse().ok()?;
    let mut disk = Disk {
        // The unit of sysfs, whatever the device's own sector is.
        size_bytes: sectors.checked_mul(512)?,
        // A number is of the bus, and says nothing to people.
        manufacturer: Some(text(&whole.join("device/vendor")))
            .filter(|vendor| !vendor.starts_with("0x"))
            .unwrap_or_default(),
        model: first_text(&whole, &["device/model", "dm/name", "md/level"]),
        serial: first_text(&whole, &["device/serial", "serial", "device/wwid", "wwid"]),
        transport: transport(&whole, name),
        rotational: match text(&whole.join("queue/rotational")).as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        },
        ..bare(durable_path(name), name.to_owned(), DiskKind::BlockDevice)
    };
    if let Some(reason) = used.reason(&directory) {
        refuse(&mut disk, &reason);
    }
    if text(&directory.join("ro")) == "1" {
        or_else(&mut disk.not_as_ssd, || "it is write-protected".to_owned());
    }
    Some(disk)
}

/// What the system itself does with block devices: mounts and swap.
struct UsedByTheSystem {
    mounted: Vec<(String, String)>,
    swap: Vec<String>,
}

impl UsedByTheSystem {
    fn read() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        // proc_pid_mountinfo(5): the third word is major:minor, the fifth the mount point.
        let mounted = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.nth(2)?.to_owned(), words.nth(1)?.to_owned()))
        });
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let swap = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
        Self { mounted: mounted.collect(), swap: swap.collect() }
    }

    /// Of a device, or of one of its partitions.
    fn reason(&self, directory: &Path) -> Option<String> {
        if let Some(reason) = self.own_reason(directory) {
            return Some(format!("it is {reason}"));
        }
        let partitions =
            fs::read_dir(directory).ok()?.flatten().filter(|entry| entry.path().join("partition").exists());
        let mut partitions: Vec<PathBuf> = partitions.map(|entry| entry.path()).collect();
        partitions.sort();
        let used = partitions.iter().find_map(|partition| Some((partition, self.own_reason(partition)?)));
        used.map(|(partition, reason)| format!("its partition {} is {reason}", file_name(partition)))
    }

    fn own_reason(&self, directory: &Path) -> Option<String> {
        let number = text(&directory.join("dev"));
        if let Some((_, place)) = self.mounted.iter().find(|(device, _)| *device == number) {
            return Some(format!("mounted at {place}"));
        }
        let name = file_name(directory);
        if self.swap.iter().any(|swap| *swap == format!("/dev/{name}")) {
            return Some("used for swap".to_owned());
        }
        let mut holders = fs::read_dir(directory.join("holders")).ok()?.flatten();
        holders.next().map(|holder| format!("a part of {}", holder.file_name().to_string_lossy()))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up `/sys/class/block`: a disk with a partition that is mounted, and an empty drive.
    fn sysfs() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("devices/ata1/sda");
        for (file, content) in [
            ("size", "2048\n"),
            ("dev", "8:0\n"),
            ("device/model", "Fast SSD  \n"),
            ("device/vendor", "ATA\n"),
            ("queue/rotational", "0\n"),
            ("sda1/size", "1024\n"),
            ("sda1/dev", "8:1\n"),
            ("sda1/partition", "1\n"),
        ] {
            let path = disk.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let class = root.path().join("class");
        fs::create_dir(&class).unwrap();
        for (name, target) in [("sda", "../devices/ata1/sda"), ("sda1", "../devices/ata1/sda/sda1")] {
            std::os::unix::fs::symlink(target, class.join(name)).unwrap();
        }
        root
    }

    #[test]
    fn a_disk_is_described_and_one_in_use_says_by_whom() {
        let root = sysfs();
        let used = UsedByTheSystem { mounted: vec![("8:1".into(), "/home".into())], swap: Vec::new() };
        let disk = block_device(&root.path().join("class/sda"), "sda", &used).unwrap();
        assert_eq!((disk.model.as_str(), disk.manufacturer.as_str()), ("Fast SSD", "ATA"));
        assert_eq!((disk.size_bytes, disk.transport.as_str(), disk.rotational), (1 << 20, "sata", Some(false)));
        assert_eq!(disk.not_as_ssd, "its partition sda1 is mounted at /home");
        let partition = block_device(&root.path().join("class/sda1"), "sda1", &used).unwrap();
        assert_eq!(partition.not_as_backing, "it is mounted at /home");
        assert_eq!(partition.model, "Fast SSD", "of its disk");
        assert_eq!(block_devices(&root.path().join("class")).len(), 2);
    }

    #[test]
    fn only_plain_files_of_a_real_directory_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("b.img"), vec![0; 4096]).unwrap();
        fs::write(directory.path().join("a.img"), vec![0; 512]).unwrap();
        fs::write(directory.path().join("note"), b"too small").unwrap();
        std::os::unix::fs::symlink("b.img", directory.path().join("link.img")).unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        let names: Vec<_> = image_files(directory.path()).unwrap().into_iter().map(|disk| disk.name).collect();
        assert_eq!(names, ["a.img", "b.img"]);
        for wrong in ["relative", "/nowhere", "/proc", "/sys/class", "/dev/disk", "/etc/../proc/self"] {
            assert_eq!(image_files(Path::new(wrong)).unwrap_err().kind, ApiErrorKind::Invalid, "{wrong}");
        }
    }
}
