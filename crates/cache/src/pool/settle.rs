//! Pages by which backing devices are recognised are judged again a while after hosts wrote to them: what else writes to a device after a
//! crash is known by them.

use std::rc::Weak;
use std::time::Duration;

use hotset_block::Env;

use crate::config::limits;
use crate::volume::place::PoolRooms;

/// So many volumes have their turn as often as a single one: each is a record on all members.
const VOLUMES_AT_ONCE: usize = 32;

/// The task that does so, to the end of the pool. While it sleeps it keeps neither the pool nor its devices.
pub(super) async fn run_settling<E: Env>(env: E, rooms: Weak<PoolRooms<E>>) {
    let mut volumes = 0;
    loop {
        env.sleep(interval(volumes)).await;
        let Some(rooms) = rooms.upgrade().filter(|rooms| !rooms.life.is_stopping()) else { return };
        let all = rooms.volumes.all();
        volumes = all.len();
        for (index, volume) in all {
            let is_sound = !volume.life.is_fenced() && volume.backing.latched().is_none() && !rooms.life.is_stopping();
            let Some(attached) = volume.attached_at(&rooms, index).filter(|_| is_sound) else { continue };
            // What cannot be recorded now is recorded the next time, or the pool is fenced.
            let _ = volume.settle(&attached).await;
        }
    }
}

fn interval(volumes: usize) -> Duration {
    let rounds = u32::try_from(volumes / VOLUMES_AT_ONCE).expect("a pool has 1024 volumes at most");
    limits::SETTLE_INTERVAL * (1 + rounds)
}
