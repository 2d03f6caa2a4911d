//! Filled slots become believed (rule `publish-late`): only after their data and header are flushed on their SSD, and
//! after a backing flush that began after they were read. What the backing device would lose in a power cut must not
//! survive in the cache.
//!
//! The backing devices are not this room's: the frame flushes them, beside [`Clean::flush_slots`], and says which did.

use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::Env;
use hotset_block::sync::Promise;

use crate::address::{SsdIndex, VolumeIndex};
use crate::clean::Clean;
use crate::clean::index_journal::Ticket;
use crate::clean::pending_drops::Drops;
use crate::clean::unpublished::Filled;

impl<E: Env> Clean<E> {
    /// Whose backing devices have to be flushed before these slots are published.
    pub(crate) fn volumes_of(&self, batch: &[Filled]) -> Vec<VolumeIndex> {
        let slots = self.slots.borrow();
        let of = |filled: &Filled| slots.unpublished_volume(filled.slot, filled.generation);
        let mut volumes: Vec<VolumeIndex> = batch.iter().filter_map(of).collect();
        volumes.sort_unstable();
        volumes.dedup();
        volumes
    }

    /// Flushes the SSDs of these slots; those that cannot leave the pool. Who cancels the wait does not cancel the flush: only the
    /// flush itself learns that it failed.
    pub(crate) async fn flush_slots(&self, batch: &[Filled]) {
        let involved = self.ssds.iter().filter(|ssd| ssd.is_online()).filter(|ssd| {
            let slots = ssd.slots();
            batch.iter().any(|filled| slots.contains(&filled.slot.0))
        });
        let flushes = involved.map(async |ssd| {
            let (promise, flushed) = Promise::new();
            let (members, ssd) = (Rc::clone(&self.members), Rc::clone(ssd));
            self.env.spawn(async move {
                if let Err(fault) = ssd.flush().await {
                    members.ssd_failed(&ssd.ssd, &fault);
                }
                promise.set(());
            });
            flushed.await
        });
        join_all(flushes).await;
    }

    /// Publishes slots of these volumes; answers what has to be durable until they are believed. The others wait for the next time.
    pub(crate) fn publish(&self, batch: Vec<Filled>, flushed: &[VolumeIndex]) -> Drops {
        let mut tickets = Vec::new();
        for filled in batch {
            let of = self.slots.borrow().unpublished_volume(filled.slot, filled.generation);
            let Some(volume) = of else { continue };
            if flushed.contains(&volume) {
                tickets.extend(self.index.publish(filled.slot));
            } else {
                self.unpublished.put_back(filled);
            }
        }
        self.unpublished.published(&tickets, |ssd, ticket| self.is_durable(ssd, ticket));
        tickets
    }

    /// How many filled slots a crash now would leave out, at most.
    pub(crate) fn slots_unpublished(&self) -> usize {
        self.unpublished.count(|ssd, ticket| self.is_durable(ssd, ticket))
    }

    /// Nobody waits for it any more: it is flushed, or its SSD has left.
    fn is_durable(&self, ssd: SsdIndex, ticket: Ticket) -> bool {
        let ssd = self.ssds.get(ssd);
        !ssd.is_online() || ssd.journal.is_flushed(ticket)
    }
}
