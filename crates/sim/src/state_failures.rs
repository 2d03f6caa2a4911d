//! The state directory takes nothing for a time: its file system is full, or the disk that it lies on fails or takes its time. The
//! SSDs are a majority without it, and it is told everything when it takes records again.

use std::time::Duration;

use hotset_block::Env;
use hotset_cache::PoolStatus;

use crate::daemon::Daemon;
use crate::disk::{Faults, TOO_LATE_MS};
use crate::shape::Profile;
use crate::world::World;

/// Worlds in which something is wrong with SSDs, or is going to be: there the state directory has to vouch for what is left.
const STATE_IS_NEEDED: &[Profile] = &[
    Profile::LostState,
    Profile::OneCopy,
    Profile::AlternateMissing,
    Profile::FailingSsd,
    Profile::SecondLoss,
    Profile::Silence,
    Profile::Refusal,
    Profile::LostTails,
];

/// Lets the state directory fail for a time; again and again.
pub async fn strike(daemon: Daemon) {
    let world = &daemon.world;
    while !daemon.stopping.get() {
        let wait_ms = world.simulation.draw(|random| random.pick(&[5, 50, 500, 5_000]));
        let wait_ms = world.simulation.draw(|random| random.between(1, wait_ms));
        daemon.env.sleep(Duration::from_millis(wait_ms)).await;
        let may = daemon.pool().is_some_and(|pool| may_fail(world, &pool.status()));
        if daemon.stopping.get() || !may {
            return;
        }
        fail(&daemon).await;
    }
}

/// The SSDs are more than half of the members and sound, and stay so: else the pool may take no writes (docs/OPERATIONS.md).
fn may_fail(world: &World, pool: &PoolStatus) -> bool {
    let ssds_suffered = world.ssds_suffered.get() || world.thinned.get() || world.shape.troubles.of_ssds();
    let majority = pool.ssds.len() > 1 && pool.ssds.iter().all(|ssd| ssd.online && ssd.evacuation.is_none());
    !STATE_IS_NEEDED.contains(&world.shape.profile) && majority && !ssds_suffered
}

async fn fail(daemon: &Daemon) {
    let world = &daemon.world;
    let (faults, lasts_ms) = world.simulation.draw(|random| {
        let faults = Faults {
            write_errors: random.pick(&[0, 200, 1000]),
            flush_errors: random.pick(&[0, 200]),
            late: random.pick(&[0, 0, 300]),
            late_ms: TOO_LATE_MS,
            ..Faults::default()
        };
        (faults, random.pick(&[50, 1_000, 20_000]))
    });
    world.simulation.note(|| format!("the state directory fails: {faults:?}"));
    world.distrust_state();
    let state = world.state.borrow().clone();
    state.set_faults(faults);
    world.state_is_failing.set(true);
    daemon.env.sleep(Duration::from_millis(lasts_ms)).await;
    state.set_faults(Faults::default());
}
