//! Power cuts under file systems on local devices: as in `guest_power.rs`, but nothing stands between the kernel and the daemon.

use crate::guest_power::survive_power_cuts;

// proves: H3, D6, D11, F7
#[test]
fn what_fsync_made_safe_on_a_local_device_survives_power_cuts() {
    survive_power_cuts("local_power", 43, 4);
}
