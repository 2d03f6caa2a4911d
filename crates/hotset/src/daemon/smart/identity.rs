//! What sysfs says of the disk that carries an SSD: of a block device the disk under it, of an image file the one under its
//! file system.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hotset_api::SsdIdentity;

/// Devices stacked on one another that are followed down to a disk (LVM on md on …).
const STACK_MAX: usize = 8;

/// A disk, as sysfs knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DiskBelow {
    /// Its device node, for smartctl.
    pub(super) node: PathBuf,
    pub(super) identity: SsdIdentity,
}

/// Of a path of a block device or an image file; `None` if no single disk is under it. Blocking.
pub(super) fn disk_below(path: &Path) -> Option<DiskBelow> {
    let metadata = fs::metadata(path).ok()?;
    let device = match metadata.file_type().is_block_device() {
        true => metadata.rdev(),
        false => metadata.dev(),
    };
    let (major, minor) = (libc::major(device), libc::minor(device));
    let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    describe(&bottom_of(directory)?, Path::new("/sys/bus/pci/slots"))
}

fn describe(disk: &Path, pci_slots: &Path) -> Option<DiskBelow> {
    let name = disk.file_name()?.to_str()?;
    // A slash in a device's name is an exclamation mark in sysfs.
    let node = PathBuf::from("/dev").join(name.replace('!', "/"));
    let (enclosure, slot) = bay(disk, pci_slots).unwrap_or_default();
    let identity = SsdIdentity {
        // A number is of the bus, "ATA" is of the translation; both say nothing to people.
        manufacturer: Some(text(&disk.join("device/vendor")))
            .filter(|vendor| !vendor.starts_with("0x") && vendor != "ATA")
            .unwrap_or_default(),
        model: text(&disk.join("device/model")),
        serial: first_text(disk, &["device/serial", "serial"]),
        firmware: first_text(disk, &["device/firmware_rev", "device/rev"]),
        transport: transport(disk, name),
        link_speed: link_speed(disk),
        enclosure,
        slot,
    };
    Some(DiskBelow { node, identity })
}

/// The disk at the bottom of a stack in which each device has one device under it; `None` if there are several.
fn bottom_of(directory: PathBuf) -> Option<PathBuf> {
    let mut device = disk_of(directory);
    for _ in 0..STACK_MAX {
        let entries = fs::read_dir(device.join("slaves"));
        let below: Vec<PathBuf> = entries
            .map(|entries| entries.flatten().filter_map(|entry| fs::canonicalize(entry.path()).ok()).collect())
            .unwrap_or_default();
        match below.as_slice() {
            [] => return Some(device),
            [only] => device = disk_of(only.clone()),
            [_, _, ..] => return None,
        }
    }
    None
}

/// The whole disk of a partition; the device itself if it is no partition.
fn disk_of(directory: PathBuf) -> PathBuf {
    match directory.parent() {
        Some(parent) if directory.join("partition").exists() => parent.to_owned(),
        Some(_) | None => directory,
    }
}

/// How a disk is connected, from its place among the devices.
pub(in crate::daemon) fn transport(directory: &Path, name: &str) -> String {
    let place = directory.to_string_lossy();
    let marks = [("/usb", "usb"), ("/virtio", "virtio"), ("/end_device-", "sas"), ("/ata", "sata"), ("/nvme", "nvme")];
    let from_place = marks.iter().find(|(mark, _)| place.contains(mark)).map(|(_, transport)| *transport);
    let from_name = [("dm-", "device-mapper"), ("md", "md"), ("loop", "loop"), ("nbd", "nbd")];
    let named = from_name.iter().find(|(kind, _)| name.starts_with(kind)).map(|(_, transport)| *transport);
    named.or(from_place).unwrap_or("").to_owned()
}

/// As it was negotiated: of the PCIe link of an NVMe drive, or of the ATA link of a SATA drive.
fn link_speed(disk: &Path) -> String {
    let controller = disk.join("device/device");
    let (speed, width) = (text(&controller.join("current_link_speed")), text(&controller.join("current_link_width")));
    if !speed.is_empty() && !width.is_empty() {
        return format!("{speed} x{width}");
    }
    let place = fs::canonicalize(disk.join("device")).unwrap_or_default();
    let port = place.ancestors().find(|directory| {
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.strip_prefix("ata").is_some_and(|number| number.parse::<u32>().is_ok())
    });
    let links = port.map(fs::read_dir).and_then(Result::ok).into_iter().flatten().flatten().map(|entry| entry.path());
    let speeds = links.map(|link| {
        let name = link.file_name().map(PathBuf::from).unwrap_or_default();
        text(&link.join("ata_link").join(name).join("sata_spd"))
    });
    speeds.into_iter().find(|speed| speed.ends_with("bps")).unwrap_or_default()
}

/// The enclosure and the slot: of SES enclosures by the link that the kernel makes, of NVMe drives by their PCIe slot.
fn bay(disk: &Path, pci_slots: &Path) -> Option<(String, String)> {
    let links = fs::read_dir(disk.join("device")).ok()?.flatten();
    let in_enclosure = links
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("enclosure_device:")));
    let Some(link) = in_enclosure else {
        return pci_slot(disk, pci_slots).map(|slot| (String::new(), slot));
    };
    let bay = fs::canonicalize(link).ok()?;
    let enclosure = bay.parent()?;
    let called = format!("{} {}", text(&enclosure.join("device/vendor")), text(&enclosure.join("device/model")));
    let called = Some(called.trim().to_owned()).filter(|called| !called.is_empty());
    let slot = Some(text(&bay.join("slot"))).filter(|slot| !slot.is_empty());
    Some((called.unwrap_or_else(|| file_name(enclosure)), slot.unwrap_or_else(|| file_name(&bay))))
}

/// The slot whose PCI address, which has no function number, is that of the drive's controller.
fn pci_slot(disk: &Path, slots: &Path) -> Option<String> {
    let controller = file_name(&fs::canonicalize(disk.join("device/device")).ok()?);
    let (address, _function) = controller.split_once('.')?;
    let mut slots = fs::read_dir(slots).ok()?.flatten().map(|entry| entry.path());
    slots.find(|slot| text(&slot.join("address")) == address).map(|slot| file_name(&slot))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A file's text without the spaces around it; empty if it cannot be read.
pub(in crate::daemon) fn text(path: &Path) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

pub(in crate::daemon) fn first_text(directory: &Path, files: &[&str]) -> String {
    files.iter().map(|file| text(&directory.join(file))).find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A made-up `/sys` with these files.
    fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    // proves: P10
    #[test]
    fn an_nvme_drive_is_described_with_its_link_and_its_slot() {
        let controller = "pci0/0000:3b:00.0";
        let root = sysfs(&[
            (&format!("{controller}/current_link_speed"), "16.0 GT/s PCIe\n"),
            (&format!("{controller}/current_link_width"), "4\n"),
            (&format!("{controller}/nvme/nvme0/model"), "Fast NVMe   \n"),
            (&format!("{controller}/nvme/nvme0/serial"), "S1\n"),
            (&format!("{controller}/nvme/nvme0/firmware_rev"), "1.2.3 \n"),
            (&format!("{controller}/nvme/nvme0/nvme0n1/size"), "8\n"),
            ("slots/7/address", "0000:3b:00\n"),
            ("slots/8/address", "0000:3c:00\n"),
        ]);
        let nvme = root.path().join(controller).join("nvme/nvme0");
        symlink(&nvme, nvme.join("nvme0n1/device")).unwrap();
        symlink(root.path().join(controller), nvme.join("device")).unwrap();
        let disk = describe(&nvme.join("nvme0n1"), &root.path().join("slots")).unwrap();
        assert_eq!(disk.node, Path::new("/dev/nvme0n1"));
        let SsdIdentity { manufacturer, model, serial, firmware, transport, link_speed, enclosure, slot } =
            disk.identity;
        assert_eq!((model.as_str(), serial.as_str(), firmware.as_str()), ("Fast NVMe", "S1", "1.2.3"));
        assert_eq!((transport.as_str(), link_speed.as_str()), ("nvme", "16.0 GT/s PCIe x4"));
        assert_eq!((manufacturer.as_str(), enclosure.as_str(), slot.as_str()), ("", "", "7"));
    }

    // proves: P10
    #[test]
    fn a_sata_drive_in_an_enclosure_is_described_with_its_bay() {
        let root = sysfs(&[
            ("ata3/link3/ata_link/link3/sata_spd", "6.0 Gbps\n"),
            ("ata3/host2/2:0:0:0/vendor", "ATA     \n"),
            ("ata3/host2/2:0:0:0/model", "Fast SATA\n"),
            ("ata3/host2/2:0:0:0/rev", "R1\n"),
            ("ata3/host2/2:0:0:0/block/sda/size", "8\n"),
            ("enclosures/0:0:9:0/Slot 04/slot", "4\n"),
            ("enclosures/0:0:9:0/device/vendor", "ACME\n"),
            ("enclosures/0:0:9:0/device/model", "Shelf 24\n"),
        ]);
        let scsi = root.path().join("ata3/host2/2:0:0:0");
        symlink(&scsi, scsi.join("block/sda/device")).unwrap();
        symlink(root.path().join("enclosures/0:0:9:0/Slot 04"), scsi.join("enclosure_device:Slot 04")).unwrap();
        let identity = describe(&scsi.join("block/sda"), &root.path().join("none")).unwrap().identity;
        assert_eq!((identity.manufacturer.as_str(), identity.firmware.as_str()), ("", "R1"));
        assert_eq!((identity.transport.as_str(), identity.link_speed.as_str()), ("sata", "6.0 Gbps"));
        assert_eq!((identity.enclosure.as_str(), identity.slot.as_str()), ("ACME Shelf 24", "4"));
    }

    #[test]
    fn a_volume_on_one_disk_leads_to_it_and_one_on_two_disks_to_none() {
        let root = sysfs(&[("sda/sda1/partition", "1\n"), ("sdb/size", "8\n"), ("dm-0/slaves/none", "")]);
        fs::remove_file(root.path().join("dm-0/slaves/none")).unwrap();
        symlink(root.path().join("sda/sda1"), root.path().join("dm-0/slaves/sda1")).unwrap();
        let dm = root.path().join("dm-0");
        assert_eq!(bottom_of(dm.clone()), Some(root.path().join("sda").canonicalize().unwrap()));
        symlink(root.path().join("sdb"), dm.join("slaves/sdb")).unwrap();
        assert_eq!(bottom_of(dm), None);
    }

    #[test]
    fn what_has_no_disk_has_no_identity() {
        assert_eq!(disk_below(Path::new("/nowhere/ssd")), None);
        assert_eq!(disk_below(Path::new("/proc/self/stat")), None);
    }
}
