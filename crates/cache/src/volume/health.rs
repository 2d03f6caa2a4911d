//! How a volume is, and the pool that caches it, and why.

use hotset_block::Env;

use crate::config::{PAGE, PoolKind};
use crate::reasons::{PoolReason, SsdDoubt, VolumeReason};
use crate::status::{Health, Rebuild};
use crate::volume::inner::VolumeInner;
use crate::volume::place::{Attached, PoolRooms};

impl<E: Env> VolumeInner<E> {
    /// What is wrong with the volume itself, whatever its pool is like.
    pub(super) fn own_health(&self, attached: Option<&Attached<E>>) -> Option<(Health, VolumeReason)> {
        if let Some(stop) = self.backing.latched() {
            return Some((Health::Failed, VolumeReason::BackingStopped(stop)));
        }
        if let Some(fence) = self.life.fence() {
            return Some((Health::Failed, VolumeReason::Fenced(fence)));
        }
        let bytes = attached.map_or(0, |attached| attached.pool.log_counts(attached.index).lost * PAGE);
        let lost =
            attached.filter(|_| bytes > 0).and_then(|attached| Some((attached.pool.log.as_ref()?, attached.index)));
        if let Some((log, index)) = lost {
            return Some((Health::Degraded, VolumeReason::Lost { bytes, why: log.data_loss().why_lost(Some(index)) }));
        }
        if let Some(error) = self.cleaning.error() {
            return Some((Health::Degraded, VolumeReason::NotCleaned(error)));
        }
        let (what, silence) = self.backing.hangs_for()?;
        let (device, seconds) = (self.backing.name.clone(), silence.as_secs());
        Some((Health::Degraded, VolumeReason::BackingSilent { device, what, seconds }))
    }
}

impl<E: Env> PoolRooms<E> {
    pub(crate) fn health(&self) -> (Health, Option<PoolReason>) {
        if let Some(error) = self.life.fence() {
            return (Health::Failed, Some(PoolReason::Fenced(error.clone())));
        }
        match self.health_of_ssds() {
            Some((health, reason)) => (health, Some(reason)),
            None if self.members.state().is_behind() => (Health::Degraded, Some(PoolReason::StateIsBehind)),
            None => (Health::Good, None),
        }
    }

    /// `None`: they are good.
    fn health_of_ssds(&self) -> Option<(Health, PoolReason)> {
        if let Some(silence) = self.silence() {
            return Some((Health::Failed, silence));
        }
        self.health_of_redundancy().or_else(|| {
            let doubts = self.members.online_ssds().filter_map(|ssd| Some((ssd.path.clone(), ssd.doubt()?)));
            let doubts: Vec<(String, SsdDoubt)> = doubts.collect();
            (!doubts.is_empty()).then_some((Health::Degraded, PoolReason::Doubts(doubts)))
        })
    }

    fn health_of_redundancy(&self) -> Option<(Health, PoolReason)> {
        let gone = self.members.ssds().filter(|ssd| !ssd.is_online() && !ssd.life().is_replaced()).count();
        let gone = gone + self.members.absent().len();
        if self.members.online_ssds().next().is_none() {
            let read_only = self.members.ssds().any(|ssd| ssd.life().is_read_only());
            return Some((Health::Failed, if read_only { PoolReason::NoneTakesWrites } else { PoolReason::NoSsd }));
        }
        let reason = match self.kind {
            PoolKind::Read => (gone > 0).then_some(PoolReason::FewerSsds { gone }),
            PoolKind::ReadWrite if self.members.online_ssds().nth(1).is_none() => Some(PoolReason::OneSsd),
            PoolKind::ReadWrite => self.copies_wanted().or_else(|| self.ssds_missed()),
        };
        Some((Health::Degraded, reason?))
    }

    /// Of a read-write pool in which something dirty has one copy only, or second ones have no room.
    fn copies_wanted(&self) -> Option<PoolReason> {
        let rebuild = self.log.as_ref()?.mirrorer().rebuild_status()?;
        if rebuild.space_insufficient {
            return Some(PoolReason::NoRoomForCopies);
        }
        let Rebuild { done_bytes, total_bytes, copies_lost, .. } = rebuild;
        copies_lost.then_some(PoolReason::CopiesAreMade { done_bytes, total_bytes })
    }

    /// Of a read-write pool that has two copies of everything, on fewer SSDs than it is meant to have, perhaps.
    fn ssds_missed(&self) -> Option<PoolReason> {
        let absent = self.members.absent();
        let failed = self.members.ssds().filter(|ssd| ssd.life().is_out_of_use()).map(|ssd| ssd.path.clone());
        let absent = absent.iter().filter(|ssd| ssd.is_missed()).map(|ssd| ssd.path.clone());
        let paths: Vec<String> = failed.chain(absent).collect();
        (!paths.is_empty()).then_some(PoolReason::Missed { paths })
    }

    /// SSDs that do not answer and are waited for; `None`: there are none.
    fn silence(&self) -> Option<PoolReason> {
        let silent = self.members.online_ssds().filter(|ssd| ssd.life().is_suspect());
        let paths: Vec<String> = silent.map(|ssd| ssd.path.clone()).collect();
        (!paths.is_empty()).then_some(PoolReason::Silent { paths })
    }
}
