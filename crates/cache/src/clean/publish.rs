//! Filled slots become believed (rule `publish-late`): only after their data and header are flushed on their SSD, and
//! after a backing flush that began after they were read. What the backing device would lose in a power cut must not
//! survive in the cache.

use std::rc::Rc;

use futures_util::future::{join, join_all};
use hotset_block::Env;
use hotset_block::sync::Promise;

use crate::address::{SlotIndex, VolumeIndex};
use crate::clean::invalidate::Drops;
use crate::clean::map::Map;
use crate::config::limits;
use crate::format::index::Entry;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::time_limit::within;
use crate::volume::VolumeInner;

impl<E: Env> PoolInner<E> {
    /// The task that publishes now and then.
    pub(crate) async fn run_publisher(self: Rc<Self>) {
        while !self.life.is_stopping() {
            within(&self.env, limits::PUBLISH_INTERVAL, self.publish_wanted.wait()).await;
            if !self.life.is_stopping() && !self.unpublished.borrow().is_empty() {
                self.publish().await;
            }
        }
    }

    /// Publishes the slots that are visible now; answers their tickets. Slots of a volume whose backing device does
    /// not flush stay unpublished.
    pub(crate) async fn publish(self: &Rc<Self>) -> Drops {
        let _one_at_a_time = self.publish_lock.acquire(1).await;
        let batch = self.unpublished.take();
        let (flushed_volumes, ()) = join(self.flush_backings(&batch), self.flush_slots(&batch)).await;
        let mut tickets = Vec::new();
        for (slot, generation) in batch {
            let Some(volume) = self.unpublished_volume(slot, generation) else { continue };
            if flushed_volumes.contains(&volume) {
                tickets.extend(self.publish_slot(slot));
            } else {
                self.unpublished.borrow_mut().push((slot, generation));
            }
        }
        tickets
    }

    /// Whose slot it is, if it is still the one that was filled, and not published.
    pub(crate) fn unpublished_volume(&self, slot: SlotIndex, generation: u32) -> Option<VolumeIndex> {
        let map = self.map.borrow();
        let same = map.generation(slot) == generation && !map.published(slot);
        map.key(slot).filter(|_| same).map(|key| key.volume)
    }

    /// Flushes the backing devices of these slots; answers the volumes whose flush succeeded.
    async fn flush_backings(&self, batch: &[(SlotIndex, u32)]) -> Vec<VolumeIndex> {
        let mut volumes: Vec<VolumeIndex> =
            batch.iter().filter_map(|(slot, generation)| self.unpublished_volume(*slot, *generation)).collect();
        volumes.sort_unstable();
        volumes.dedup();
        let flushes = volumes.into_iter().map(async |index| {
            let (volume, _) = self.attached_volume(index)?;
            if !volume.backing.info.volatile_cache || planted(Planted::PublishWithoutBackingFlush) {
                return Some(index);
            }
            self.flushed_in_time(volume).await.then_some(index)
        });
        join_all(flushes).await.into_iter().flatten().collect()
    }

    /// Whether the backing device flushes within the limit: one that hangs holds up its own slots only. Who gives up the
    /// wait does not give up the flush, for only the flush itself learns that it failed.
    async fn flushed_in_time(&self, volume: Rc<VolumeInner<E>>) -> bool {
        if volume.backing.flushing_to_publish.replace(true) {
            return false;
        }
        let (promise, flushed) = Promise::new();
        self.env.spawn(async move {
            let result = volume.backing.flush().await;
            volume.backing.flushing_to_publish.set(false);
            promise.set(result.is_ok());
        });
        within(&self.env, limits::STOP_FLUSH_TIMEOUT, flushed).await.flatten() == Some(true)
    }

    /// Flushes the SSDs of these slots; those that cannot leave the pool. Who gives up the wait does not give up the flush: only the
    /// flush itself learns that it failed.
    async fn flush_slots(self: &Rc<Self>, batch: &[(SlotIndex, u32)]) {
        if planted(Planted::PublishWithoutSlotFlush) {
            return;
        }
        let involved = self.slot_ssds.iter().filter(|ssd| ssd.is_online()).filter(|ssd| {
            let slots = ssd.slots();
            batch.iter().any(|(slot, _)| slots.contains(&slot.0))
        });
        let flushes = involved.map(async |ssd| {
            let (promise, flushed) = Promise::new();
            let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
            self.env.spawn(async move {
                if let Err(fault) = ssd.flush().await {
                    pool.members.ssd_failed(&ssd.ssd, &fault);
                }
                promise.set(());
            });
            flushed.await
        });
        join_all(flushes).await;
    }

    fn publish_slot(
        self: &Rc<Self>,
        slot: SlotIndex,
    ) -> Option<(crate::address::SsdIndex, crate::clean::index_journal::Ticket)> {
        let ssd = Rc::clone(self.ssd_of(slot));
        if !ssd.is_online() {
            return None;
        }
        let entry = {
            let mut map = self.map.borrow_mut();
            map.set_published(slot, true);
            self.entry_of(&map, slot, ssd.local(slot))?
        };
        Some((ssd.index, self.push_entry(&ssd, entry)))
    }

    /// What the index is to say of a slot.
    pub(crate) fn entry_of(&self, map: &Map, slot: SlotIndex, local: u32) -> Option<Entry> {
        let key = map.key(slot)?;
        let attachment = self.attachment_of(key.volume)?;
        let whole = map.valid_count(slot) == self.pages_per_block;
        let mask = if whole { Vec::new() } else { map.valid_words(slot).collect() };
        let generation = map.generation(slot);
        Some(Entry::Publish { slot: local, generation, attachment, block: u64::from(key.block.0), mask })
    }
}
