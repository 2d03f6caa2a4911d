//! Filled slots become believed (rule `publish-late`): backing devices and SSDs are flushed, then the slot indexes say so.

use std::rc::Rc;

use futures_util::future::{join, join_all};
use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::clean::Clean;
use crate::clean::pending_drops::Drops;
use crate::config::limits;
use crate::members::pool_life::PoolLife;
use crate::time_limit::{within, within_or_apart};
use crate::volume::inner::VolumeInner;
use crate::volume::place::{AttachedVolumes, PoolRooms};

/// Who makes filled slots believed.
pub(crate) struct Publisher<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    clean: Rc<Clean<E>>,
    volumes: Rc<AttachedVolumes<E>>,
}

impl<E: Env> Publisher<E> {
    pub(super) fn new(pool: &PoolRooms<E>) -> Self {
        Self {
            env: pool.env.clone(),
            life: Rc::clone(&pool.life),
            clean: Rc::clone(&pool.clean),
            volumes: Rc::clone(&pool.volumes),
        }
    }

    /// The task that publishes now and then.
    pub(crate) async fn run_publisher(self: Rc<Self>) {
        while !self.life.is_stopping() {
            within(&self.env, limits::PUBLISH_INTERVAL, self.clean.unpublished().wanted()).await;
            if !self.life.is_stopping() && !self.clean.unpublished().is_empty() {
                self.publish().await;
            }
        }
    }

    /// Publishes the slots that are visible now; answers what is durable when they are believed. Slots of a volume whose backing
    /// device does not flush stay unpublished.
    pub(crate) async fn publish(&self) -> Drops {
        let _one_at_a_time = self.clean.unpublished().hold().await;
        let batch = self.clean.unpublished().take_to_publish();
        let backings = self.flush_backings(self.clean.volumes_of(&batch));
        let (flushed, ()) = join(backings, self.clean.flush_slots(&batch)).await;
        self.clean.publish(batch, &flushed)
    }

    /// Flushes the backing devices of these volumes; answers those whose flush succeeded.
    async fn flush_backings(&self, volumes: Vec<VolumeIndex>) -> Vec<VolumeIndex> {
        let flushes = volumes.into_iter().map(async |index| {
            let (volume, _) = self.volumes.get(index)?;
            if !volume.backing.info.volatile_cache {
                return Some(index);
            }
            self.flushed_in_time(volume).await.then_some(index)
        });
        join_all(flushes).await.into_iter().flatten().collect()
    }

    /// Whether the backing device flushes within the limit: one that hangs holds up its own slots only.
    async fn flushed_in_time(&self, volume: Rc<VolumeInner<E>>) -> bool {
        if !volume.backing.begin_flush_to_publish() {
            return false;
        }
        let flush = async move {
            let result = volume.backing.flush().await;
            volume.backing.end_flush_to_publish();
            result.is_ok()
        };
        within_or_apart(&self.env, limits::STOP_FLUSH_TIMEOUT, flush).await == Some(true)
    }
}
