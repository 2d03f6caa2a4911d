//! Volumes as block devices of the daemon's own machine, by the kernel's NBD client: in a virtual machine with Debian's kernel.

use crate::guest_machine::Lab;

/// How often the daemon is killed under a mounted file system; `HOTSET_KILLS` asks for another number.
fn kills() -> u64 {
    let asked = std::env::var("HOTSET_KILLS").ok();
    asked.map_or(2, |kills| kills.parse().expect("HOTSET_KILLS is a number"))
}

// proves: H3, F11
#[test]
fn a_local_device_outlives_kills_restarts_and_another_daemon_grows_and_is_not_taken_from_who_uses_it() {
    let (mut lab, kills) = (Lab::with_fio(), kills());
    lab.allow(30 * (kills + 1));
    let mut machine = lab.boot("local", 0, true);
    machine.wait_for("guest: how many kills?");
    machine.tell(&kills.to_string());
    for kill in 1..=kills {
        machine.wait_for(&format!("guest: killed {kill}"));
    }
    machine.wait_for("guest: replaced");
    machine.wait_for("guest: fio is content");
    machine.wait_for("guest: growth is in order");
    machine.wait_for("guest: done");
}
