//! What volumes are promised of the cache, and how much of it they may have: as slots of the pool as it is now; and how
//! slots that a volume has already are brought under a new share.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::clean::ready_wanted;
use crate::config::{VolumeName, VolumeSettings};
use crate::error::{Error, ErrorKind};
use crate::volume::place::PoolRooms;

/// Slots that are looked at, or evicted, before others have their turn.
const SLOTS_PER_TURN: u32 = 4096;

/// What volumes are promised of a pool, and may have.
pub(crate) struct VolumeShares<'p, E: Env> {
    pool: &'p Rc<PoolRooms<E>>,
}

impl<'p, E: Env> VolumeShares<'p, E> {
    pub(crate) fn of(pool: &'p Rc<PoolRooms<E>>) -> Self {
        Self { pool }
    }

    /// Slots that the pool has for clean data however long its write log is.
    pub(crate) fn clean_slots_min(&self) -> u64 {
        let slots: u64 = self.pool.members.serving_ssds().map(|ssd| u64::from(ssd.layout.slot_count())).sum();
        let per_segment = self.pool.members.ssds().next().map_or(0, |ssd| ssd.layout.slots_per_segment());
        let of_log = self.pool.log.as_ref().map_or(0, |log| log.segments_max());
        slots.saturating_sub(u64::try_from(of_log).expect("segments fit in memory") * per_segment)
    }

    /// Slots that a volume with these settings is promised, rounded up, and may have, rounded down.
    fn share_slots(&self, settings: &VolumeSettings) -> (u64, u64) {
        let whole = self.clean_slots_min() * self.pool.blocks.bytes();
        let min = settings.cache_min.map_or(0, |share| share.of(whole).div_ceil(self.pool.blocks.bytes()));
        let max =
            settings.cache_max.map_or(u64::from(u32::MAX), |share| (share.of(whole) / self.pool.blocks.bytes()).max(1));
        (min, max)
    }

    /// Whether the pool can keep what it would promise if volume `name` had these settings.
    pub(crate) fn check_shares(&self, name: &VolumeName, settings: &VolumeSettings) -> Result<(), Error> {
        self.check_promises(&[], &[(name.clone(), *settings)])
    }

    /// Whether the pool can keep what it would promise after `leave` had left it, and with each of `stay` in it and with these settings.
    pub(crate) fn check_promises(
        &self,
        leave: &[VolumeName],
        stay: &[(VolumeName, VolumeSettings)],
    ) -> Result<(), Error> {
        let concerned: BTreeSet<&VolumeName> = leave.iter().chain(stay.iter().map(|(name, _)| name)).collect();
        let catalogue = self.pool.attachments.catalogue();
        let others = catalogue.volumes.iter().filter(|volume| !concerned.contains(&volume.spec.name));
        let mut promised: u64 = others.map(|volume| self.share_slots(&volume.spec.settings).0).sum();
        let slots = self.clean_slots_min();
        let room = slots.saturating_sub(u64::try_from(ready_wanted(slots)).expect("an address has 64 bits at most"));
        for (name, settings) in stay {
            settings.check()?;
            let refused = |what: String| Err(Error::new(ErrorKind::Refused, format!("volume {name}: {what}")));
            let (min, max) = self.share_slots(settings);
            if min > max {
                let what =
                    format!("cache-min is {} bytes and above cache-max, {} bytes", self.bytes(min), self.bytes(max));
                return refused(what);
            }
            if min > 0 && promised + min > room {
                return refused(format!(
                    "cache-min of {} bytes: pool {} has promised {} bytes to other volumes, and can promise {} bytes in all",
                    self.bytes(min),
                    self.pool.name,
                    self.bytes(promised),
                    self.bytes(room)
                ));
            }
            promised += min;
        }
        Ok(())
    }

    fn bytes(&self, slots: u64) -> u64 {
        slots.saturating_mul(self.pool.blocks.bytes())
    }

    /// All volumes have their shares of the pool as it is now.
    pub(crate) fn apply_shares(&self) {
        let volumes = self.pool.attachments.catalogue().volumes.clone();
        for volume in volumes {
            if let Some(index) = self.pool.ids.index_of(volume.attachment) {
                self.apply_share(index, &volume.spec.settings);
            }
        }
    }

    /// The volume has its share from here on; what it has already follows soon.
    pub(crate) fn apply_share(&self, index: VolumeIndex, settings: &VolumeSettings) {
        let (min, max) = self.share_slots(settings);
        let slots = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        self.pool.clean.share_of(index).set(slots(min), slots(max));
        if self.pool.clean.slots().slots_used_by(index) > 0 && !self.pool.life.is_stopping() {
            let pool = Rc::clone(self.pool);
            self.pool.env.spawn(async move { enforce_share(&pool, index).await });
        }
    }
}

/// Moves the volume's slots to its own queues, then evicts what it has above its maximum.
async fn enforce_share<E: Env>(pool: &Rc<PoolRooms<E>>, index: VolumeIndex) {
    let share = pool.clean.share_of(index);
    while share.list_some(SLOTS_PER_TURN) {
        pool.env.sleep(Duration::ZERO).await;
    }
    while !pool.life.is_stopping() {
        let room = share.make_room(0, SLOTS_PER_TURN);
        pool.volumes.count_evictions(index, room.evicted);
        if room.enough || !share.has_victim() {
            return;
        }
        pool.env.sleep(Duration::ZERO).await;
    }
}
