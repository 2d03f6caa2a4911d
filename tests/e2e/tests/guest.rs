//! The kernel's own NBD client, in a virtual machine with an unmodified Debian kernel, and ext4 on the volume.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use hotset_e2e::daemon::{Daemon, free_port};
use hotset_e2e::files::{MIB, build_folder};
use hotset_e2e::tools::{command, succeed, text};

use crate::guest_machine::{USUAL_PROCESSOR, assert_done};

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

    let said = boot(&machine, port, "all", 512);
    assert_done(&said);
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

// proves: S1, D6, D11, F7
#[test]
fn files_that_the_guest_synced_survive_the_death_of_a_write_back_cache() {
    let machine = build_folder().join("lab-write-back");
    succeed("sh", &[format!("{LAB}/build.sh"), machine.display().to_string()]);
    let port = free_port();
    let mut daemon = Daemon::start_with(&format!("--nbd tcp:127.0.0.1:{port} --missing-wait 1"));
    daemon.make_read_write_pool(&[64, 64], "");
    let backing = daemon.site.blank("backing", 96 * MIB);
    daemon.ok(&format!("volume create v --backing {} --pool p --block 4096", backing.display()));

    let mut guest = machine_command(&machine, port, "write", 160).stdout(Stdio::piped()).spawn().expect("QEMU starts");
    let mut said = String::new();
    let lines = BufReader::new(guest.stdout.take().expect("its console is piped")).lines();
    for line in lines.map_while(Result::ok) {
        let at_work = line.contains("guest: at work");
        said += &format!("{line}\n");
        if at_work {
            break;
        }
        assert!(!line.contains("FAILED"), "{said}");
    }
    assert!(said.contains("guest: at work"), "{said}");
    daemon.kill();
    // Its time limit is the process that was started; it passes the signal on to the machine.
    succeed("kill", &["-TERM", &guest.id().to_string()]);
    guest.wait().expect("the machine is ours");
    daemon.launch();

    let left = boot(&machine, port, "check", 160);
    assert_done(&left);
    let sums = guest_sums(&left);
    let safe: Vec<&str> = said.lines().filter_map(|line| line.split("guest: safe ").nth(1)).collect();
    assert!(safe.len() >= 12, "{said}");
    for line in safe {
        let (sum, path) = line.trim().split_once("  /mnt/").expect("a sum and a path");
        assert_eq!(sums.get(path).map(String::as_str), Some(sum), "{path} was safe");
    }
    assert_eq!(daemon.stat("v", "errors"), 0);
}

// proves: F7, S1, P16
#[test]
fn the_guest_kernel_waits_for_the_next_daemon_and_sees_no_error() {
    let machine = build_folder().join("lab-reconnect");
    succeed("sh", &[format!("{LAB}/build.sh"), machine.display().to_string(), "qemu-nbd".to_owned()]);
    let port = free_port();
    let mut daemon = Daemon::prepare(&format!("--nbd tcp:127.0.0.1:{port} --missing-wait 1"));
    daemon.keep_sockets(Some(port));
    daemon.launch();
    daemon.make_read_write_pool(&[64, 64], "");
    let backing = daemon.site.blank("backing", 64 * MIB);
    daemon.ok(&format!("volume create v --backing {} --pool p --block 4096", backing.display()));

    let mut command = machine_command(&machine, port, "reconnect", 256);
    let mut guest = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("QEMU starts");
    let mut lines = BufReader::new(guest.stdout.take().expect("its console is piped")).lines();
    let mut said = String::new();
    let mut wait_for = |word: &str| {
        for line in lines.by_ref().map_while(Result::ok) {
            said += &format!("{line}\n");
            assert!(!line.contains("FAILED"), "{said}");
            if line.contains(word) {
                return;
            }
        }
        panic!("no {word:?} in {said}");
    };
    for kill in [false, true] {
        (0..3).for_each(|_| wait_for("guest: round"));
        if kill {
            daemon.kill();
        } else {
            assert!(daemon.stop().success());
        }
        daemon.launch();
    }
    (0..5).for_each(|_| wait_for("guest: round"));
    writeln!(guest.stdin.take().expect("its console is piped"), "enough").expect("it listens");
    wait_for("guest: done");
    guest.wait().expect("the machine is ours");
    assert_eq!(daemon.stat("v", "errors"), 0);
}

fn machine_command(machine: &Path, port: u16, phase: &str, memory_mib: u32) -> Command {
    let append =
        format!("console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init nbd_port={port} nbd_export=v phase={phase}");
    let programs = if phase == "reconnect" { "initrd-reconnect" } else { "initrd.gz" };
    let (kernel, initrd) =
        (machine.join("vmlinuz").display().to_string(), machine.join(programs).display().to_string());
    let fixed = format!(
        "-accel tcg,thread=single -cpu {USUAL_PROCESSOR} -smp 2 -m {memory_mib} -nographic -no-reboot -monitor none -serial stdio \
        -nic user,model=virtio-net-pci"
    );
    let mut arguments: Vec<&str> = fixed.split_whitespace().collect();
    arguments.extend(["-kernel", &kernel, "-initrd", &initrd, "-append", &append]);
    command("qemu-system-x86_64", &arguments)
}

/// Runs the machine to its end; returns what it printed on its console.
fn boot(machine: &Path, port: u16, phase: &str, memory_mib: u32) -> String {
    text(&machine_command(machine, port, phase, memory_mib).output().expect("QEMU can be started"))
}

/// File and checksum, as the guest printed them.
fn guest_sums(said: &str) -> BTreeMap<String, String> {
    let lines = said.lines().filter_map(|line| line.split("guest: sum ").nth(1));
    let pairs = lines.filter_map(|line| line.trim().split_once("  ./"));
    pairs.map(|(sum, file)| (file.to_owned(), sum.to_owned())).collect()
}
