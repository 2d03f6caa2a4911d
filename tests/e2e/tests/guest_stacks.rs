//! Stacks that need a kernel with local devices, md, LVM, an NFS server or a SCSI target: the pages of `docs/stacks`, done as they are written in
//! a Debian of their own.

use std::fs::{self, File};
use std::process::Command;

use hotset_e2e::daemon::binary;
use hotset_e2e::files::{MIB, Site, build_folder};
use hotset_e2e::tools::{skip, succeed, text};

use crate::guest_machine::assert_done;
use crate::guest_packages::{LAB, boot};
use crate::page::{Step, assert_printed, by_step, script, steps};

/// In the order of their names, in which the machine does them.
const PAGES: [&str; 4] = ["lio", "lvm", "nfs", "raid"];
/// The machine's disks, and how large they are.
const DISKS: [(&str, u64); 9] = [
    ("ssd0", 96),
    ("ssd1", 96),
    ("disk0", 192),
    ("disk1", 192),
    ("disk2", 192),
    ("disk3", 192),
    ("lvm", 192),
    ("nfs", 128),
    ("lun", 128),
];

fn page(name: &str) -> Vec<Step> {
    let path = format!("{LAB}/../../docs/stacks/{name}.md");
    let steps = steps(&fs::read_to_string(path).expect("the page is there"));
    assert!(steps.len() >= 3, "it has steps");
    steps
}

// proves: H3, F7, D11
#[test]
fn raid_below_and_lvm_nfs_and_a_scsi_target_above_work_as_they_are_written() {
    if std::env::var_os("HOTSET_STACKS").is_none() {
        return skip(
            "HOTSET_STACKS=1 tries docs/stacks in a Debian of its own, which takes some minutes, root, and mmdebstrap",
        );
    }
    let site = Site::new();
    let (lab, pages) = (build_folder().join("lab-stacks"), site.path("pages"));
    fs::create_dir(&pages).expect("a folder can be made");
    for name in PAGES {
        fs::write(pages.join(format!("{name}.sh")), script(&page(name), |_| 0)).expect("a file can be written");
    }
    for (name, size_mib) in DISKS {
        let disk = File::create(site.path(name)).expect("an image can be made");
        disk.set_len(size_mib * MIB).expect("an image can be sparse");
    }
    let mut build = Command::new("sh");
    build.arg(format!("{LAB}/stacks-build.sh")).args([&lab, binary(), &pages]);
    let path = std::env::var("PATH").unwrap_or_default();
    let built = build.env("PATH", format!("{path}:/usr/sbin:/sbin")).output().expect("sh can be started");
    assert!(built.status.success(), "{}", text(&built));
    let said = boot(&site, &lab, &DISKS.map(|(name, _)| name));
    println!("{said}");
    assert_done(&said);
    for name in PAGES {
        let begin = format!("guest: page {name}");
        let (_, rest) = said.split_once(&begin).expect("each page is done");
        let (printed, _) = rest.split_once("guest: it ended with").expect("each page ends");
        assert_printed(&page(name), &by_step(printed));
    }
    succeed("rm", &[lab.join("root.img")]);
}
