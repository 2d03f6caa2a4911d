//! What stands on a volume, as `docs/stacks` says that it is set up.

use std::fs;

use hotset_e2e::files::build_folder;
use hotset_e2e::tools::{skip, succeed};

use crate::guest_packages::LAB;
use crate::page::{assert_printed, run_apart, steps};

/// Whether this machine can do what the page says; else says so loudly.
fn can_be_done(page: &str, needs: &str, is_there: bool) -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let is_able = is_root && fs::exists("/dev/fuse").unwrap_or(false);
    if !is_able {
        skip("the pages of docs/stacks need root, loop devices and /dev/fuse");
    } else if !is_there {
        skip(&format!("docs/stacks/{page} needs {needs}"));
    }
    is_able && is_there
}

/// Does what a page says, in a folder that is as `begins` leaves it.
fn works_as_written(page: &str, begins: &str) {
    let path = format!("{}/../../docs/stacks/{page}", env!("CARGO_MANIFEST_DIR"));
    let steps = steps(&fs::read_to_string(path).expect("the page is there"));
    assert!(steps.len() >= 5, "it has steps");
    assert_printed(&steps, &run_apart(begins, &steps));
}

// proves: F7, S1, D11
#[test]
fn a_samba_share_on_a_volume_keeps_its_files_and_who_may_read_them() {
    if can_be_done("samba.md", "samba", fs::exists("/usr/sbin/smbd").unwrap_or(false)) {
        works_as_written("samba.md", "");
    }
}

// proves: F7, S1, D6, D11
#[test]
fn a_database_on_a_volume_fails_no_transaction_when_the_daemon_is_killed() {
    let is_there = fs::exists("/usr/lib/postgresql").unwrap_or(false);
    if can_be_done("postgresql.md", "the package postgresql", is_there) {
        works_as_written("postgresql.md", "");
    }
}

// proves: F7, S1, P16
#[test]
fn a_machine_of_libvirt_waits_for_the_next_daemon_and_sees_its_disk_grow() {
    let is_there = fs::exists("/usr/sbin/libvirtd").unwrap_or(false);
    if can_be_done("libvirt.md", "the packages libvirt-daemon and libvirt-clients", is_there) {
        let machine = build_folder().join("lab-libvirt");
        succeed("sh", &[format!("{LAB}/build.sh"), machine.display().to_string()]);
        works_as_written("libvirt.md", &format!("ln -s {} machine\n", machine.display()));
    }
}
