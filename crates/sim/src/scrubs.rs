//! Scrubs while hosts are served; and what a scrub promises: when it has come to its end, and nothing rots any more, any one
//! copy is enough.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;
use hotset_cache::{Error, ErrorKind, Pool, ScrubState, ScrubStatus};

use crate::chaos::{self, is_fragile};
use crate::daemon::Daemon;
use crate::executor::SimEnv;
use crate::scenario::{self, Death, run_until};
use crate::shape::Profile;
use crate::world::World;

/// One scrub, which is sometimes cancelled.
pub async fn one_command(daemon: &Daemon) {
    let Some(pool) = daemon.pool() else { return };
    let limit_ms = daemon.world.simulation.draw(|random| random.pick(&[1, 50, 60_000, 60_000]));
    let (env, canceller) = (daemon.env.clone(), pool.clone());
    let scrubbing = Rc::new(Cell::new(true));
    let still = Rc::clone(&scrubbing);
    daemon.env.spawn(async move {
        env.sleep(Duration::from_millis(limit_ms)).await;
        if still.get() {
            canceller.cancel_scrub();
        }
    });
    daemon.world.simulation.note(|| format!("scrub for {limit_ms} ms"));
    let scrubbed = pool.scrub().await;
    scrubbing.set(false);
    judge(daemon, &pool, scrubbed);
}

/// What a scrub says must be possible.
fn judge(daemon: &Daemon, pool: &Pool<SimEnv>, scrubbed: Result<ScrubStatus, Error>) {
    daemon.world.simulation.note(|| format!("scrubbed: {scrubbed:?}"));
    match scrubbed {
        Ok(status) if status.bad_pages > 0 && !daemon.world.ssds_suffered.get() => {
            daemon.world.violate(format!("a scrub finds something wrong with sound SSDs: {status:?}"));
        }
        Ok(status) if status.lost_pages > 0 && has_sound_copies(daemon, pool) => {
            daemon.world.violate(format!("a scrub takes for lost what is sound on one of two SSDs: {status:?}"));
        }
        Ok(_) => {}
        // One at a time.
        Err(error) if error.kind == ErrorKind::Refused => {}
        Err(error) => daemon.expect_cache_trouble("a scrub", &error),
    }
}

/// Of everything dirty there is a copy on an SSD on which nothing ever rotted.
fn has_sound_copies(daemon: &Daemon, pool: &Pool<SimEnv>) -> bool {
    daemon.world.shape.profile == Profile::Scrubs && !is_fragile(&pool.status())
}

/// Lets a last daemon live, in which the sound SSD is lost after a scrub.
pub fn check(world: &Rc<World>, steps: &mut u64) {
    world.set_phase("the last life");
    world.begin_life();
    let daemon = Daemon::new(world);
    world.simulation.spawn(last_life(daemon.clone()));
    if !run_until(world, &daemon, Death::Never, steps) && world.simulation.trace.violation().is_none() {
        world.violate("the last life does not end".to_owned());
    }
    daemon.vanish();
    world.end_life(false, || false);
}

async fn last_life(daemon: Daemon) {
    daemon.start().await;
    scenario::spawn_hosts(&daemon);
    daemon.world.simulation.spawn(chaos::work(daemon.clone()));
    for number in 0..daemon.world.volumes.len() {
        daemon.attach(number).await;
    }
    scenario::wait_for_hosts(&daemon.env, &daemon).await;
    daemon.stopping.set(true);
    while daemon.hosts_running.get() > 0 {
        daemon.env.sleep(Duration::from_millis(10)).await;
    }
    daemon.world.rot_has_ended.set(true);
    lose_sound_ssd(&daemon).await;
    daemon.finished.set(true);
}

async fn lose_sound_ssd(daemon: &Daemon) {
    let Some(pool) = daemon.pool().filter(|pool| !is_fragile(&pool.status())) else { return };
    let scrubbed = pool.scrub().await;
    let ended = scrubbed.as_ref().is_ok_and(|status| status.state == ScrubState::Finished);
    judge(daemon, &pool, scrubbed);
    if !ended || is_fragile(&pool.status()) {
        return;
    }
    let weak = daemon.world.weak_ssd();
    daemon.world.trouble_ssds();
    daemon.world.ssds.iter().filter(|ssd| !Rc::ptr_eq(&ssd.disk, &weak.disk)).for_each(|ssd| ssd.disk.vanish());
    scenario::look_after_crash(daemon).await;
}
