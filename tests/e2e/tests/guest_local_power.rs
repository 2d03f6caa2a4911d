//! Power cuts under file systems on local devices: as in `guest_power.rs`, but nothing stands between the kernel and the daemon. One
//! of them is cached, and one is not.

use crate::guest_machine::Parts;
use crate::guest_power::{Endurance, cuts};

/// Rounds of the machine, each with safe files on both file systems, before the power goes.
const ROUNDS: usize = 2;

// proves: H3, D6, D11, F7
#[test]
fn what_fsync_made_safe_on_a_local_device_survives_power_cuts() {
    let mut endurance = Endurance::new("local_power", 43);
    for cut in 0..cuts() {
        let by_ublk = cut % 2 == 1;
        endurance.lab.use_parts(if by_ublk { Parts::with_ublk() } else { Parts::usual() });
        let (mut machine, mut client) = endurance.start();
        let requests = endurance.random.below(700);
        endurance.pages.work(&mut client, requests);
        // From here on nobody writes but the machine itself. With more the daemon would soon flush of its own accord, and it could not
        // be told whether it does as it is asked.
        endurance.files.learn(&machine.take());
        for _ in 0..ROUNDS {
            endurance.files.learn(&machine.wait_for("guest: round"));
        }
        endurance.lab.cut_power(&mut machine);
        endurance.end_cut(&mut machine);
    }
    endurance.end();
}
