//! The kernel's own NBD client, in a virtual machine with an unmodified Debian kernel, and ext4 on the volume.

use std::collections::BTreeMap;
use std::path::Path;

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::files::{MIB, build_folder};
use hotset_e2e::tools::{command, succeed, text};

/// The folder of the machine's parts, in the repository.
const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab");

// proves: S1, D11, D13
#[test]
fn the_guest_kernel_uses_a_cached_volume_as_a_disk_with_ext4() {
    let machine = build_folder().join("lab");
    succeed("sh", &[format!("{LAB}/build.sh"), machine.display().to_string()]);

    let port = free_port();
    let daemon = Daemon::start_with(&format!("--nbd tcp:127.0.0.1:{port} --missing-wait 1"));
    daemon.make_pool(&[24, 32], "--populate-on-read 1 --populate-on-write 1");
    let backing = daemon.site.blank("backing", 96 * MIB);
    daemon.ok(&format!("volume create v --backing {} --pool p --block 4096", backing.display()));

    let said = boot(&machine, port);
    assert!(said.contains("guest: done") && !said.contains("FAILED"), "{said}");
    assert!(daemon.stat("v", "read_hits") > 0, "the cache had a part in it");
    assert_eq!(daemon.stat("v", "errors"), 0);

    // Without us, the host finds the same file system with the same files.
    daemon.ok("volume delete v");
    succeed("e2fsck", &["-f", "-n", &backing.display().to_string()]);
    let out = daemon.site.path("out");
    std::fs::create_dir(&out).expect("a folder can be made");
    succeed("debugfs", &["-R", &format!("rdump / {}", out.display()), &backing.display().to_string()]);
    let sums = guest_sums(&said);
    assert!(sums.len() >= 36, "{} files", sums.len());
    for (file, sum) in sums {
        let path = out.join(file).display().to_string();
        assert!(succeed("md5sum", &[&path]).starts_with(&sum), "{path} is not as the guest wrote it");
    }
}

/// Runs the machine to its end; returns what it printed on its console.
fn boot(machine: &Path, port: u16) -> String {
    let append = format!("console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init nbd_port={port} nbd_export=v");
    let (kernel, initrd) =
        (machine.join("vmlinuz").display().to_string(), machine.join("initrd.gz").display().to_string());
    let fixed = "-accel tcg,thread=multi -cpu max -smp 2 -m 512 -nographic -no-reboot -monitor none -serial stdio \
        -nic user,model=virtio-net-pci";
    let mut arguments: Vec<&str> = fixed.split_whitespace().collect();
    arguments.extend(["-kernel", &kernel, "-initrd", &initrd, "-append", &append]);
    text(&command("qemu-system-x86_64", &arguments).output().expect("QEMU can be started"))
}

/// File and checksum, as the guest printed them.
fn guest_sums(said: &str) -> BTreeMap<String, String> {
    let lines = said.lines().filter_map(|line| line.split("guest: sum ").nth(1));
    let pairs = lines.filter_map(|line| line.trim().split_once("  ./"));
    pairs.map(|(sum, file)| (file.to_owned(), sum.to_owned())).collect()
}
