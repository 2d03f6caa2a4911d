//! A file is the same after its file system was mounted by another loop device: its identity rests on no device number. Needs root;
//! says so loudly where it cannot do that.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotset_block::{DeviceIdentity, Likeness, identify, likeness};

use crate::together::Alone;

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// Past the test harness, which keeps to itself what a passing test prints.
fn skipped(why: &str) {
    writeln!(std::io::stdout(), "\nSKIPPED: {why}").expect("standard output takes what tests print");
}

/// A mounted image, taken down with the value.
struct Mounted {
    device: String,
    place: PathBuf,
}

impl Mounted {
    fn new(image: &Path, place: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(image).output().ok()?;
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        if !output.status.success() {
            return None;
        }
        let mounted = Self { device, place: place.to_owned() };
        // Whoever had it before may have left it read-only.
        succeeds("blockdev", &["--setrw", &mounted.device]);
        succeeds("mount", &[&mounted.device, place.to_str().unwrap()]).then_some(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeeds("umount", &[self.place.to_str().unwrap()]);
        assert!(succeeds("losetup", &["--detach", &self.device]), "{} stays behind", self.device);
    }
}

/// Of a file, and of another one beside it, before and after; `None` if such a file system cannot be mounted here.
fn over_a_mount(kind: &str, size: &str, make: &[&str]) -> Option<[DeviceIdentity; 3]> {
    let directory = tempfile::tempdir().unwrap();
    let (image, place) = (directory.path().join("image"), directory.path().join("place"));
    std::fs::create_dir(&place).unwrap();
    let path = image.to_str().unwrap();
    assert!(succeeds("truncate", &["-s", size, path]));
    if !succeeds(&format!("mkfs.{kind}"), &[make, &[path]].concat()) {
        return None;
    }
    let (file, other) = (place.join("disk.img"), place.join("other.img"));
    let (before, of_other) = {
        let _mounted = Mounted::new(&image, &place)?;
        std::fs::write(&file, vec![1; 4096]).unwrap();
        std::fs::write(&other, vec![1; 4096]).unwrap();
        (identify(&file).unwrap(), identify(&other).unwrap())
    };
    // In the place of the first loop device there is something else now.
    let in_its_place = directory.path().join("something");
    std::fs::write(&in_its_place, vec![0; 1 << 20]).unwrap();
    let output = Command::new("losetup").args(["--find", "--show"]).arg(&in_its_place).output().unwrap();
    let taken = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let mounted = Mounted::new(&image, &place);
    let after = mounted.as_ref().map(|_| identify(&file).unwrap());
    drop(mounted);
    assert!(succeeds("losetup", &["--detach", &taken]));
    after.map(|after| [before, after, of_other])
}

// proves: F8
#[test]
fn a_file_is_the_same_by_whatever_loop_device_its_file_system_is_mounted() {
    let _alone = Alone::among_tests();
    for (kind, size, make) in
        [("xfs", "320M", &["-q"][..]), ("btrfs", "128M", &["-q"]), ("ext4", "16M", &["-q"]), ("vfat", "16M", &[])]
    {
        let Some([before, after, other]) = over_a_mount(kind, size, make) else {
            skipped(&format!("{kind} cannot be made and mounted here (needs root, its tools and the kernel's driver)"));
            continue;
        };
        assert_eq!(before.id, after.id, "{kind}");
        assert_ne!(before.id, other.id, "{kind}");
        assert_eq!(likeness(&before.id, &other.id), Likeness::Other, "{kind}");
    }
}
