//! Pauses of the daemon: its process is stopped, or its machine frozen, while devices go on.
//!
//! Nothing may come of them: no SSD that is sound leaves its pool, and no host is answered with an error.

use std::time::Duration;

use hotset_cache::planted::{Planted, planted};

use crate::daemon::Daemon;
use crate::random::Random;
use crate::world::World;

/// Steps after a pause in which whoever was taken for dead has been expelled.
const CONSEQUENCES: u64 = 500;

/// The pauses of one daemon's life.
pub struct Pauses {
    /// From which step on, and for how long; the first one is the last of the list.
    left: Vec<(u64, Duration)>,
    look_at: Option<u64>,
}

impl Pauses {
    /// One world of four has pauses, of every kind of bad luck.
    pub fn draw(world: &World) -> Self {
        let mut left = Vec::new();
        if world.pauses {
            let count = world.simulation.draw(|random| random.between(1, 3));
            left.extend((0..count).map(|_| world.simulation.draw(draw_pause)));
            left.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
        }
        Self { left, look_at: None }
    }

    /// After so many steps of the life: pauses the daemon, if it is time and an SSD is at work, and looks at what came of
    /// the last pause.
    pub fn after_step(&mut self, taken: u64, daemon: &Daemon) {
        let world = &daemon.world;
        if let Some((_, duration)) = self.left.pop_if(|(step, _)| *step <= taken && is_at_work(world)) {
            world.simulation.pause(duration, planted(Planted::PauseCounted));
            self.look_at = Some(taken + CONSEQUENCES);
        }
        if self.look_at.take_if(|step| *step <= taken).is_some() {
            check_ssds(daemon);
        }
    }
}

fn draw_pause(random: &mut Random) -> (u64, Duration) {
    let latest = random.pick(&[100, 1_000, 10_000, 50_000]);
    (random.below(latest), Duration::from_secs(random.pick(&[1, 12, 60])))
}

fn is_at_work(world: &World) -> bool {
    world.present_ssds().any(|ssd| ssd.disk.is_busy())
}

/// No SSD has failed where nothing was ever wrong with one. Of a pool that has stopped all SSDs are out of use.
fn check_ssds(daemon: &Daemon) {
    let world = &daemon.world;
    if daemon.closed.get() {
        return;
    }
    if world.thinned.get() || world.ssds_suffered.get() || world.cache_trouble.get() || world.two_lost.get().is_some() {
        return;
    }
    let Some(status) = daemon.pool().map(|pool| pool.status()) else { return };
    if status.ssds.iter().any(|ssd| ssd.failed) {
        world.violate(format!("a sound SSD has failed: {status:?}"));
    }
}
