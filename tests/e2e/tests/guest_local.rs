//! Volumes as block devices of the daemon's own machine, by the kernel's NBD client in a virtual machine with Debian's kernel, and by ublk in
//! one with the kernel of its backports.

use crate::guest_machine::{Lab, Machine, Parts};

/// How often the daemon is killed under a mounted file system; `HOTSET_KILLS` asks for another number.
fn kills() -> u64 {
    let asked = std::env::var("HOTSET_KILLS").ok();
    asked.map_or(2, |kills| kills.parse().expect("HOTSET_KILLS is a number"))
}

/// Up to where the daemon was killed, restarted, replaced, and everything else was tried.
fn outlive(lab: &Lab) -> Machine {
    let kills = kills();
    let mut machine = lab.boot("local", 0, true);
    machine.wait_for("guest: how many kills?");
    machine.tell(&kills.to_string());
    for kill in 1..=kills {
        machine.wait_for(&format!("guest: killed {kill}"));
    }
    machine.wait_for("guest: replaced");
    machine.wait_for("guest: fio is content");
    machine.wait_for("guest: growth is in order");
    machine
}

// proves: H3, F11
#[test]
fn a_local_device_outlives_kills_restarts_and_another_daemon_grows_and_is_not_taken_from_who_uses_it() {
    let lab = Lab::new(Parts::with_fio());
    outlive(&lab).wait_for("guest: done");
}

// proves: H3, F11
#[test]
fn the_same_holds_by_ublk_and_the_other_driver_takes_over_where_that_is_gone() {
    let lab = Lab::new(Parts::with_ublk_and_fio());
    let mut machine = outlive(&lab);
    let said = machine.wait_for("guest: random reads: ");
    let figure = said.lines().find(|line| line.contains("guest: random reads: "));
    println!("4 KiB, 32 at once, a second: {}", figure.unwrap_or_default());
    machine.wait_for("guest: done");
}
