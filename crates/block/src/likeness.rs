//! Whether a device is the one that was recorded, by the names that both have.
//!
//! A name may rest on a number that the kernel gives anew at every start or mount: the device number of a file system without
//! an id of its own, the letter of a disk that has neither world-wide name nor serial number. Such a name proves nothing;
//! what is on the device has to.

/// What two names say of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    Same,
    /// They cannot be compared.
    Unknown,
    Other,
}

/// Compares what is recorded of a device, maybe by an older version, with what one says of itself now.
pub fn likeness(recorded: &str, now: &str) -> Likeness {
    if recorded == now {
        return Likeness::Same;
    }
    match (file(recorded), file(now)) {
        (Some(before), Some(now)) => file_likeness(before, now),
        (Some(_), None) | (None, Some(_)) => Likeness::Other,
        (None, None) => device_likeness(recorded, now),
    }
}

/// The file system, and what tells a file from others in it.
fn file(id: &str) -> Option<(&str, &str)> {
    id.strip_prefix("file:")?.split_once(':')
}

fn file_likeness((system_before, file_before): (&str, &str), (system, file): (&str, &str)) -> Likeness {
    if system_before == system {
        return Likeness::Other;
    }
    // A file's generation makes it unmistakable: an inode's number alone may be another's on another file system.
    let same_inode = file_before == file && file.contains(':');
    match (is_number(system_before), same_inode) {
        (true, true) if system.starts_with(UUID) => Likeness::Same,
        (true, _) => Likeness::Unknown,
        (false, _) => Likeness::Other,
    }
}

/// What a file system with an id of its own begins with here.
pub(crate) const UUID: &str = "uuid-";

/// The file system was known by its device number: as such, or in the 64 bits that it gave as its id.
fn is_number(system: &str) -> bool {
    system.starts_with(NUMBER) || system.len() == 16 && system.starts_with("00000000")
}

/// What a file system without an id of its own begins with here.
pub(crate) const NUMBER: &str = "number-";

/// Of block devices: the kernel's name is no mark of a device.
fn device_likeness(recorded: &str, now: &str) -> Likeness {
    let is_kernels = |id: &str| id.starts_with("name:");
    let loop_file =
        |id: &str| id.strip_prefix("loop:").map(|file| file.split_once('@').map_or(file, |(file, _)| file).to_owned());
    let same_loop_file =
        loop_file(recorded).is_some() && loop_file(recorded) == loop_file(now) && !recorded.contains('@');
    if is_kernels(recorded) || is_kernels(now) || same_loop_file { Likeness::Unknown } else { Likeness::Other }
}

/// Whether a device that is called so in another boot is the same one. The kernel gives its names of disks out anew, and so it does with
/// the numbers of file systems that have no id of their own.
pub fn outlives_boot(id: &str) -> bool {
    let is_kernels = id.starts_with("name:") || id.starts_with("path:");
    !is_kernels && file(id).is_none_or(|(system, _)| !is_number(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F8
    #[test]
    fn a_file_that_was_known_by_a_device_number_is_known_by_its_inode_and_generation() {
        let before = "file:0000000000000703:131:1234abcd";
        assert_eq!(likeness(before, before), Likeness::Same);
        assert_eq!(likeness(before, "file:uuid-77:131:1234abcd"), Likeness::Same);
        assert_eq!(likeness(before, "file:uuid-77:132:1234abcd"), Likeness::Unknown);
        assert_eq!(likeness("file:0000000000000703:5", "file:uuid-77:5"), Likeness::Unknown, "no generation");
        assert_eq!(likeness("file:number-703:5:1", "file:number-704:5:1"), Likeness::Unknown);
    }

    // proves: F8
    #[test]
    fn files_of_file_systems_with_an_id_are_told_apart() {
        assert_eq!(likeness("file:9d8f2a6b11223344:12:1", "file:1d8f2a6b11223344:12:1"), Likeness::Other);
        assert_eq!(likeness("file:uuid-1:12:1", "file:uuid-2:12:1"), Likeness::Other);
        assert_eq!(likeness("file:uuid-1:12:1", "file:uuid-1:13:1"), Likeness::Other);
        assert_eq!(likeness("file:uuid-1:12:1", "wwid:naa.5"), Likeness::Other);
    }

    // proves: F8
    #[test]
    fn a_letter_is_no_mark_of_a_disk() {
        assert_eq!(likeness("name:vdb", "name:vdc"), Likeness::Unknown);
        assert_eq!(likeness("name:dm-3", "dm-name:data"), Likeness::Unknown);
        assert_eq!(likeness("wwid:naa.1", "wwid:naa.2"), Likeness::Other);
        assert_eq!(likeness("loop:/a", "loop:/a@512"), Likeness::Unknown);
        assert_eq!(likeness("loop:/a", "loop:/b"), Likeness::Other);
    }

    #[test]
    fn a_name_that_the_kernel_gave_out_is_no_mark_in_another_boot() {
        for id in ["wwid:naa.5000", "serial:S1", "dm:LVM-x", "md:1:2", "loop:/srv/a", "file:uuid-ab:12:00000001"] {
            assert!(outlives_boot(id), "{id}");
        }
        for id in ["name:sdb", "name:sdb-part1", "path:/dev/x", "file:number-8:12", "file:0000000000000812:12"] {
            assert!(!outlives_boot(id), "{id}");
        }
    }
}
