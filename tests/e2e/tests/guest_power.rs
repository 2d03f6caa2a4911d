//! Power cuts. The daemon runs in a virtual machine, on disks that forget at a cut what was not flushed: SSDs, backing
//! devices and the state directory's disk, each by itself. Nothing that was flushed may be missing afterwards.
//!
//! The journal of what was flushed is out here: of the volume `pages`, to which this program writes over the network, and
//! of the files that the machine's kernel made safe on ext4 and on xfs, which it tells on its console.

use hotset_e2e::files::usize_of;
use hotset_e2e::nbd::Client;
use hotset_e2e::pattern::Random;
use hotset_e2e::tools::succeed;

use crate::guest_journal::{Files, Pages, Promise};
use crate::guest_machine::{Lab, Machine, Parts};

/// Power cuts in a run; `HOTSET_CUTS` asks for another number.
pub(crate) fn cuts() -> u64 {
    let asked = std::env::var("HOTSET_CUTS").ok();
    asked.map_or(2, |cuts| cuts.parse().expect("HOTSET_CUTS is a number"))
}

/// A machine whose power is cut again and again, and what has to survive that.
pub(crate) struct Endurance {
    pub(crate) lab: Lab,
    pub(crate) pages: Pages,
    pub(crate) files: Files,
    pub(crate) random: Random,
    phase: &'static str,
    boots: u64,
}

impl Endurance {
    pub(crate) fn new(phase: &'static str, seed: u64) -> Self {
        let (pages, files) = (Pages::new(), Files::default());
        Self { lab: Lab::new(Parts::usual()), pages, files, random: Random::new(seed), phase, boots: 0 }
    }

    /// Starts the machine, which has everything that was safe, and goes to work.
    pub(crate) fn start(&mut self) -> (Machine, Client) {
        let mut machine = self.lab.boot(self.phase, self.boots, false);
        self.boots += 1;
        let start = machine.wait_for("guest: serving");
        let mut client = self.lab.connect(&start);
        self.pages.reconcile_after_cut(&mut client, &mut machine);
        let began = machine.wait_for("guest: forget xfs");
        self.files.check(&began);
        self.files.learn(&began);
        (machine, client)
    }

    /// The power is cut. First all is lost that was not flushed, later everything, or most, or hardly anything: a cache that was
    /// just being emptied.
    pub(crate) fn end_cut(&mut self, machine: &mut Machine) {
        self.files.learn(&machine.rest());
        let at_risk = self.lab.unflushed_bytes();
        let kept_percent = if self.boots == 1 { 0 } else { [0, 15, 50, 90][usize_of(self.random.below(4))] };
        println!("cut {}: {}, {at_risk} bytes at risk, {kept_percent} % of them kept", self.boots, self.files);
        self.lab.keep_some_writes(&mut self.random, kept_percent);
    }

    /// The last start; the caches are empty in the end, and the backing devices alone have everything.
    pub(crate) fn end(mut self) {
        let mut machine = self.lab.boot(self.phase, self.boots, true);
        let start = machine.wait_for("guest: serving");
        self.pages.reconcile_after_cut(&mut self.lab.connect(&start), &mut machine);
        self.files.check(&machine.wait_for("guest: checked xfs"));
        machine.tell("go on");
        machine.wait_for("guest: done");
        self.lab.keep_some_writes(&mut self.random, 0);
        self.pages.check_file(&self.lab.site.path("pages"));
        succeed("e2fsck", &["-f", "-n", &self.lab.site.path("ext4").display().to_string()]);
        succeed("xfs_repair", &["-n", &self.lab.site.path("xfs").display().to_string()]);
    }
}

// proves: D6, D11, F7, F8
#[test]
fn whatever_was_flushed_survives_power_cuts_of_disks_with_volatile_caches() {
    let mut endurance = Endurance::new("power", 23);
    for cut in 0..cuts() {
        let (mut machine, mut client) = endurance.start();
        // As soon as the volume promised something: a moment later the daemon may have flushed of its own accord.
        let promised = [Promise::Flush, Promise::Through][usize_of(cut % 2)];
        let Endurance { lab, pages, random, .. } = &mut endurance;
        let moment = random.below(700);
        pages.work_until_the_power_goes(&mut client, |answered, promise| {
            let enough = answered >= moment && machine.said_so_far().contains("guest: round");
            if enough && promise == promised && lab.unflushed_bytes() > 0 {
                lab.cut_power(&mut machine);
            }
        });
        endurance.end_cut(&mut machine);
    }
    endurance.end();
}

// An SSD that is overwritten, or comes back from an older copy, is no different in here: see `dirty_faults.rs`.
// proves: F2, F4, F7
#[test]
fn an_ssd_pulled_out_of_the_running_machine_loses_nothing_and_comes_back_as_an_old_one() {
    let lab = Lab::new(Parts::usual());
    let (mut pages, mut files) = (Pages::new(), Files::default());
    let mut random = Random::new(29);
    let mut machine = lab.boot("power", 0, false);
    let start = machine.wait_for("guest: serving");
    let mut client = lab.connect(&start);
    files.learn(&machine.wait_for("guest: forget xfs"));
    let mut pulled_at = None;
    pages.work_until_the_power_goes(&mut client, |answered, _| match pulled_at {
        None if answered >= 200 && machine.said_so_far().contains("guest: safe") => {
            machine.pull("ssd0");
            files.learn(&machine.take());
            pulled_at = Some(answered);
        }
        None => {}
        // Both hosts go on: this one, and the machine's kernel, whose files are safe all the same.
        Some(pulled) if answered > pulled + 300 && machine.said_so_far().contains("guest: safe") => {
            lab.cut_power(&mut machine);
        }
        Some(_) => {}
    });
    files.learn(&machine.rest());
    lab.keep_some_writes(&mut random, 30);

    // It is there again, with what it held when it was pulled out.
    let mut machine = lab.boot("power", 1, true);
    let start = machine.wait_for("guest: serving");
    assert!(start.contains("what it holds is not believed"), "{start}");
    pages.reconcile_after_cut(&mut lab.connect(&start), &mut machine);
    files.check(&machine.wait_for("guest: checked xfs"));
    machine.tell("go on");
    machine.wait_for("guest: done");
    lab.keep_some_writes(&mut random, 0);
    pages.check_file(&lab.site.path("pages"));
}

// proves: F8
#[test]
fn after_a_restart_with_dirty_data_udev_leads_a_uuid_to_the_volume_and_not_to_its_backing_device() {
    let lab = Lab::new(Parts::usual());
    let mut machine = lab.boot("udev", 0, false);
    let said = machine.rest();
    let dirty = said.lines().find_map(|line| line.split("guest: dirty \"dirty_bytes\":").nth(1));
    assert!(dirty.is_some_and(|bytes| bytes.trim() != "0"), "{said}");
    // It was switched off without a word to the daemon.
    lab.keep_some_writes(&mut Random::new(37), 50);
    lab.boot("udev", 1, true).wait_for("guest: done");
}

// proves: F8
#[test]
fn a_machine_that_starts_with_systemd_mounts_by_uuid_the_volume_whose_newest_data_is_dirty() {
    let mut lab = Lab::new(Parts::with_systemd());
    let said = lab.boot("udev", 0, false).rest();
    assert!(said.contains("guest: dirty") && !said.contains("FAILED"), "{said}");
    // By the kernel's NBD client, and by ublk.
    for (boot, parts) in [(1, Parts::with_systemd()), (2, Parts::with_ublk_and_systemd())] {
        lab.keep_some_writes(&mut Random::new(41), 50);
        lab.use_parts(parts);
        let mut machine = lab.boot("systemd", boot, boot == 2);
        machine.wait_for("guest: ready with its device");
        machine.wait_for("guest: done");
        machine.rest();
    }
}
