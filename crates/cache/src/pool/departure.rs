//! An SSD leaves the pool (rule `membership`): out of sight at once, durably out of the member records, out of the write
//! log, and out of the map. The one place that knows the order of all of it.

use std::rc::{Rc, Weak};

use futures_util::future::join_all;
use hotset_block::Env;

use crate::config::limits;
use crate::error::Error;
use crate::log::Log;
use crate::members::departures::{Departures, Gone};
use crate::members::life::LifeChange;
use crate::members::ssd::Ssd;
use crate::pool::inner::PoolInner;
use crate::time_limit::{within, within_or_apart};
use crate::volume::shares::VolumeShares;

impl<E: Env> PoolInner<E> {
    /// Sees to what follows from SSDs that are out of use.
    fn see_to_gone(self: &Rc<Self>) {
        while let Some(gone) = self.members.next_gone() {
            match gone {
                Gone::OutOfUse(ssd) => {
                    self.clean.ssds().went_out_of_use(ssd.index);
                    let pool = Rc::clone(self);
                    self.env.spawn(async move { pool.leave(&ssd).await });
                }
                Gone::Unreadable(ssd) => {
                    if let Some(log) = &self.log {
                        log.data_loss().take_away(&ssd);
                    }
                }
            }
        }
    }

    /// What happens when an SSD leaves, from the turn after it went out of use until nothing asks for it any more.
    pub(crate) async fn leave(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        let one_at_a_time = self.members.one_departure().await;
        // What would be lost with it is known only when a start has read the log.
        if !self.log_is_known().await {
            return;
        }
        // Whoever opens the pool next is to know, also if the daemon dies before the SSD has left.
        self.members.witness_keeper().keep().await;
        self.record_without(ssd).await;
        let may_go_on = ssd.life().has_left() || self.life.is_fenced();
        assert!(may_go_on, "SSD {} is {:?} and on record, and the pool would go on without it", ssd.path, ssd.life());
        if let Some(log) = &self.log {
            log.go_on_without(ssd);
        }
        drop(one_at_a_time);
        VolumeShares::of(&self.rooms).apply_shares();
        ssd.left_event.wake_all();
        self.clean.ssds().went_out_of_use(ssd.index);
        self.refuse_appends_if_fenced();
        self.clean.forget_ssd(ssd.index).await;
        ssd.change(LifeChange::SlotsForgotten);
        if !self.life.is_fenced() {
            self.let_go_of(ssd).await;
        }
    }

    /// False: the start came to nothing, and the SSD stays on record.
    async fn log_is_known(&self) -> bool {
        match &self.log {
            Some(log) => log.is_known().await,
            None => true,
        }
    }

    /// What is lost with it is on record, then a members record without it; if that cannot be, the pool is fenced.
    async fn record_without(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        let recorded = match self.account_for_loss(ssd).await {
            Err(error) => Err(error),
            Ok(()) => self.members.record_departure(ssd.uuid).await,
        };
        match recorded {
            Ok(()) => {
                ssd.change(LifeChange::LeftDurably);
            }
            Err(error) => self.life.fence_anew(error),
        }
    }

    fn refuse_appends_if_fenced(&self) {
        if let Some(log) = self.log.as_ref().filter(|_| self.life.is_fenced()) {
            log.appends().refuse_appends();
        }
    }

    /// Whoever opens the device finds it free, once nothing of it is in flight; a spare may take over.
    async fn let_go_of(&self, ssd: &Ssd<E>) {
        if !ssd.life().is_readable() {
            ssd.let_go();
        }
        self.members.spares().wanted().wake_all();
        if let Some(log) = &self.log {
            log.data_loss().forget_clean_rows().await;
        }
    }

    /// What only this SSD holds is lost with it, and that is put on record, before it leaves.
    async fn account_for_loss(self: &Rc<Self>, ssd: &Ssd<E>) -> Result<(), Error> {
        let Some(log) = &self.log else { return Ok(()) };
        if log.data_loss().is_lost_with(ssd) {
            self.flush_written_through().await;
        }
        let Some(begun) = log.data_loss().begin_loss(ssd).await? else { return Ok(()) };
        self.exempt_written_through(log);
        log.data_loss().record_loss(begun).await
    }

    /// What hosts' own writes took to their backing devices as well need not be lost, once it is durable there. A device that does not
    /// answer is not waited for: what it may not have goes on the list.
    async fn flush_written_through(self: &Rc<Self>) {
        let flushes = self.volumes.all().into_iter().map(async |(index, volume)| {
            let attached = volume.attached_at(&self.rooms, index);
            if attached.is_some_and(|attached| attached.has_written_out()) {
                // It fails, or takes too long: then it covers nothing.
                let flush = async move { volume.backing.flush().await };
                let _ = within_or_apart(&self.env, limits::SSD_TIMEOUT, flush).await;
            }
        });
        join_all(flushes).await;
    }

    /// What hosts' own writes took to their backing device as well, and a flush made durable there, is clean, although the log said that
    /// it is dirty.
    fn exempt_written_through(self: &Rc<Self>, log: &Log<E>) {
        for (index, volume) in self.volumes.all() {
            let Some(attached) = volume.attached_at(&self.rooms, index) else { continue };
            let flusher = &volume.backing.flusher;
            attached.written_out_durably(flusher, |run| log.data_loss().exempt_written_through(index, run));
        }
    }
}

/// The task that sees to SSDs that are out of use, from the first I/O of a start to the end of the stop. While it sleeps it keeps
/// neither the pool nor its devices.
pub(crate) async fn run_departures<E: Env>(env: E, departures: Rc<Departures<Ssd<E>>>, pool: Weak<PoolInner<E>>) {
    loop {
        let added = departures.added();
        let Some(pool) = pool.upgrade() else { return };
        pool.see_to_gone();
        if pool.life.has_stopped() {
            return;
        }
        drop(pool);
        within(&env, limits::SSD_TIMEOUT, added).await;
    }
}

#[cfg(test)]
mod tests {
    use crate::address::SsdIndex;
    use crate::log::Known;
    use crate::pool::open::tests::with_pool;

    #[test]
    #[should_panic(expected = "SSD ssd-1 is Online and on record, and the pool would go on without it")]
    fn the_pool_does_not_go_on_without_an_ssd_that_is_in_use() {
        with_pool(&[1, 2], async |pool| {
            pool.log.as_ref().expect("a read-write pool has a log").set_known(Known::Yes);
            pool.leave(pool.members.ssd(SsdIndex(0))).await;
        });
    }
}
