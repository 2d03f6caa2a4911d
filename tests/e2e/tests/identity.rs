//! One storage has many names, and is used once. With loop devices and QEMU; says so loudly where they are not there.

use std::path::Path;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::{self, MIB};
use hotset_e2e::tools::{self, run, skip, succeed};

/// A loop device that goes away with the value.
struct LoopDevice(String);

impl LoopDevice {
    fn over(path: &Path) -> Option<Self> {
        let output = run("losetup", &["--find", "--show", &path.display().to_string()]);
        if !output.status.success() {
            skip("a loop device cannot be made here (needs root and losetup)");
            return None;
        }
        let device = Self(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        // Whoever had it before may have left it read-only.
        succeed("blockdev", &["--setrw", &device.0]);
        Some(device)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        succeed("losetup", &["--detach", &self.0]);
    }
}

// proves: F8, F10
#[test]
fn what_the_daemon_uses_is_refused_under_every_name_and_force_does_not_help() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[16, 16], "");
    let backing = daemon.make_volume(4096, "p");
    let (ssd, free) = (daemon.site.path("ssd0"), daemon.site.blank("free", 16 * MIB));
    let Some(over_ssd) = LoopDevice::over(&ssd) else { return };
    let Some(over_backing) = LoopDevice::over(&backing) else { return };
    let create = "pool create q --type read --io-type custom --force --ssd";
    for (path, user) in [(&over_ssd.0, "an SSD of pool p"), (&over_backing.0, "the backing device of volume v")] {
        daemon.refuse(&format!("{create} {path}"), 1, user);
        daemon.refuse(&format!("pool add-ssd p --force --ssd {path}"), 1, user);
        daemon.refuse(&format!("volume create w --backing {path}"), 1, user);
        daemon.refuse(&format!("volume create w --read-only --backing {path}"), 1, user);
    }
    daemon.refuse(&format!("{create} {}", backing.display()), 1, "the backing device of volume v");
    let Some(over_free) = LoopDevice::over(&free) else { return };
    daemon.refuse(&format!("{create} {} {}", over_free.0, free.display()), 1, "the same device");
    daemon.refuse(&format!("{create} {}", free.display()), 1, "losetup -d");
    daemon.ok(&format!("{create} {}", over_free.0));
    daemon.refuse(&format!("volume create w --backing {}", free.display()), 1, "an SSD of pool q");
    daemon.ok("pool delete q");
    daemon.assert_volume_pages(4096);
}

// proves: F10
#[test]
fn what_qemu_has_open_is_refused_by_name_and_qemu_refuses_what_is_ours() {
    let daemon = Daemon::start();
    let backing = daemon.make_volume(256, "");
    let output = run("qemu-io", &["-f", "raw", "-c", "read 0 4k", &backing.display().to_string()]);
    assert!(!output.status.success() && tools::text(&output).contains("lock"), "{}", tools::text(&output));
    let other = daemon.site.blank("other", 16 * MIB);
    let mut server =
        tools::command("qemu-nbd", &["-f", "raw", "-t", "-k", &daemon.site.socket("qemu").display().to_string()]);
    let mut server = server.arg(&other).spawn().expect("qemu-nbd is there");
    tools::eventually("qemu-nbd serves", std::time::Duration::from_secs(20), || daemon.site.socket("qemu").exists());
    daemon.refuse(&format!("volume create w --backing {}", other.display()), 1, "qemu-nbd (process");
    daemon.refuse(
        &format!("pool create q --type read --io-type custom --force --ssd {}", other.display()),
        1,
        "qemu-nbd (process",
    );
    // The program that bounds its life hands this on.
    succeed("kill", &["-TERM", &server.id().to_string()]);
    server.wait().expect("it is ours");
    daemon.ok(&format!("volume create w --backing {}", other.display()));
    files::assert_file_pages(&backing, 0);
}

// proves: F10
#[test]
fn what_stores_nothing_is_taken_for_nothing() {
    let daemon = Daemon::start();
    daemon.make_pool(&[16], "");
    for path in ["/sys/kernel/uevent_seqnum", "/proc/version", "/proc/kcore", "/dev/zero", "/dev/null", "/dev", "/"] {
        for spelling in [path.to_owned(), format!("emulated:disks=4,size=1G,file={path}")] {
            daemon.refuse(&format!("volume create w --backing {spelling}"), 1, "");
        }
        daemon.refuse(&format!("volume create w --read-only --backing {path}"), 1, "");
        daemon.refuse(&format!("pool create q --type read --io-type custom --force --ssd {path}"), 1, "");
        daemon.refuse(&format!("pool add-ssd p --force --ssd {path}"), 1, "");
        daemon.refuse(&format!("pool import --ssd {path}"), 1, "");
    }
    daemon.refuse("image create /dev/hotset-image 16M", 1, "memory");
    daemon.refuse("pool create q --type read --io-type custom --ssd /dev/no-such-disk", 1, "lsblk");
}

// proves: P9
#[test]
fn a_spare_that_is_smaller_than_every_ssd_is_refused() {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 32], "");
    let (small, fits) = (daemon.site.blank("small", 16 * MIB), daemon.site.blank("fits", 32 * MIB));
    daemon.refuse(&format!("pool add-spare p --ssd {}", small.display()), 1, "it can take the place of none");
    daemon.ok(&format!("pool add-spare p --ssd {}", fits.display()));
}
