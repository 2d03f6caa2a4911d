//! The packages in an empty Debian that systemd starts: installed, upgraded under load, refused, removed and purged.

use std::fs;
use std::path::Path;
use std::process::Command;

use hotset_e2e::files::{MIB, Site, build_folder};
use hotset_e2e::tools::{skip, succeed, text};

use crate::guest_machine::USUAL_PROCESSOR;
use crate::packages::{VERSION, knows_less, package, repacked};

/// The folder of the machine's parts, in the repository.
pub(crate) const LAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab");

/// Disks besides that of the system, by their serial numbers.
const DISKS: [&str; 3] = ["ssd0", "ssd1", "backing"];

/// Seconds of a boot, with all that is done in it, where every instruction is emulated.
const LIMIT_S: &str = "1200";

// proves: O1, F8, P16
#[test]
fn a_person_installs_mounts_upgrades_under_load_and_purges_on_an_empty_debian() {
    if std::env::var_os("HOTSET_PACKAGES").is_none() {
        skip(
            "HOTSET_PACKAGES=1 runs the packages in a Debian of their own, which takes some minutes, root, and mmdebstrap",
        );
        return;
    }
    let site = Site::new();
    let (newer, older) = (repacked(&site, "99.0", |_| {}), repacked(&site, "0.0.9", knows_less));
    let lab = build_folder().join("lab-packages");
    let mut build = Command::new("sh");
    let script = site.path("install.sh");
    fs::write(&script, installation()).expect("a file can be written");
    build.arg(format!("{LAB}/packages-build.sh")).arg(&lab).args([package(), &newer, &older, &script]);
    let path = std::env::var("PATH").unwrap_or_default();
    let built = build.env("PATH", format!("{path}:/usr/sbin:/sbin")).output().expect("sh can be started");
    assert!(built.status.success(), "{}", text(&built));
    for disk in DISKS {
        site.blank(disk, 128 * MIB);
    }
    let first = boot(&site, &lab, &DISKS);
    for part in ["guest: upgraded under load", "Nothing was replaced", "guest: restarting"] {
        assert!(first.contains(part) && !first.contains("FAILED"), "{part}: {first}");
    }
    let second = boot(&site, &lab, &DISKS);
    let parts = [
        "guest: mounted at the start",
        "guest: a removal was refused",
        "guest: installed again",
        "not touched",
        "guest: done",
    ];
    for part in parts {
        assert!(second.contains(part) && !second.contains("FAILED"), "{part}: {second}");
    }
    println!("{first}\n{second}");
    succeed("rm", &[lab.join("root.img")]);
}

/// What `docs/INSTALL.md` says to do, with the devices of this machine, and a package that lies elsewhere. There is no network to bring others.
fn installation() -> String {
    let page = fs::read_to_string(format!("{LAB}/../../docs/INSTALL.md")).expect("the page is there");
    let (_, commands) = page.split_once("```sh\n").expect("it has commands");
    let (commands, _) = commands.split_once("```").expect("they end");
    let mut commands = commands.to_owned();
    for (there, here) in [
        (format!("./hotset_{VERSION}_amd64.deb smartmontools"), "/packages/hotset.deb"),
        ("/dev/disk/by-id/ssd-A".to_owned(), "/dev/disk/by-id/virtio-ssd0"),
        ("/dev/disk/by-id/ssd-B".to_owned(), "/dev/disk/by-id/virtio-ssd1"),
        ("/dev/md0".to_owned(), "/dev/disk/by-id/virtio-backing"),
    ] {
        assert_eq!(commands.matches(&there).count(), 1, "{there} in {commands}");
        commands = commands.replace(&there, here);
    }
    commands
}

/// Runs the machine, a Debian of its own with these disks, until it switches itself off; returns what it printed on its console.
pub(crate) fn boot(site: &Site, lab: &Path, disks: &[&str]) -> String {
    let file = |path: &Path| path.display().to_string();
    let mut qemu = Command::new("timeout");
    qemu.args([
        LIMIT_S,
        "qemu-system-x86_64",
        "-accel",
        "tcg,thread=single",
        "-cpu",
        USUAL_PROCESSOR,
        "-smp",
        "2",
        "-m",
        "1024",
    ]);
    qemu.args([
        "-nographic",
        "-no-reboot",
        "-monitor",
        "none",
        "-serial",
        "stdio",
        "-nic",
        "user,model=virtio-net-pci",
    ]);
    qemu.args(["-kernel", &file(&lab.join("vmlinuz")), "-initrd", &file(&lab.join("initrd.gz"))]);
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init phase=packages"]);
    let disks = [("root", lab.join("root.img"))].into_iter().chain(disks.iter().map(|&name| (name, site.path(name))));
    for (name, path) in disks {
        qemu.args(["-drive", &format!("file={},format=raw,if=none,cache=unsafe,id={name}", path.display())]);
        qemu.args(["-device", &format!("virtio-blk-pci,drive={name},serial={name}")]);
    }
    text(&qemu.output().expect("QEMU can be started"))
}
