//! An SSD leaves the pool (rule `membership`): out of sight at once, durably out of the member records, out of the write
//! log, and out of the map. The one place that knows the order of all of it.

use std::rc::Rc;

use hotset_block::Env;

use crate::format::members::MembersRecord;
use crate::log::write_log::Known;
use crate::members::life::LifeChange;
use crate::members::ssd::{Fault, Ssd, is_gone};
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::status::Refusal;

impl<E: Env> PoolInner<E> {
    /// An SSD failed a write or a flush, or is gone: it leaves the pool. One that only refuses writes is read as long as it
    /// has what nobody else has, and is taken back by itself if it lacked room or was write-protected.
    pub(crate) fn ssd_failed(self: &Rc<Self>, ssd: &Rc<Ssd<E>>, fault: &Fault) {
        let Fault::Device(error) = fault else { return };
        if is_gone(error) || planted(Planted::RefusalIsDeath) {
            return self.expel(ssd, &error.to_string());
        }
        if self.take_out(ssd, LifeChange::RefusedWrites, &error.to_string()) {
            ssd.refusal.set(Some(Refusal::of(error.kind)));
        }
    }

    /// Takes an SSD out of the pool for good: out of sight at once, then durably.
    pub(crate) fn expel(self: &Rc<Self>, ssd: &Rc<Ssd<E>>, reason: &str) {
        self.take_out(ssd, LifeChange::Failed, reason);
    }

    /// False: it is out of use already.
    pub(crate) fn take_out(self: &Rc<Self>, ssd: &Rc<Ssd<E>>, change: LifeChange, reason: &str) -> bool {
        if self.offline.is_some() {
            return false;
        }
        let (was_member, was_read_only) = (ssd.life().has_joined(), ssd.life().is_read_only());
        let taken = ssd.go_offline(change, reason);
        if taken && was_member {
            let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
            self.env.spawn(async move { pool.leave(&ssd).await });
        }
        if was_read_only && !ssd.life().is_readable() {
            self.lose_read_only(ssd);
        }
        taken
    }

    /// Records that an SSD left, then lets those go on who wait for it; then forgets its slots.
    pub(crate) async fn leave(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        let uuid = ssd.uuid;
        let change = |members: &mut MembersRecord| {
            members.ssds.retain(|member| member.ssd_uuid != uuid);
            members.epoch += 1;
        };
        // Of two that fail at once, the second one has to know that the first one's copies are gone.
        let one_at_a_time = self.leave_lock.acquire(1).await;
        if !self.log_is_known().await {
            return;
        }
        // Whoever opens the pool next is to know, also if the daemon dies before the SSD has left.
        self.keep_witnesses().await;
        let recorded = match self.account_for_loss(ssd).await {
            Err(error) => Err(error),
            Ok(()) if planted(Planted::ExpelWithoutEpoch) => Ok(()),
            Ok(()) => self.change_members(&change).await,
        };
        match recorded {
            Ok(()) => {
                ssd.change(LifeChange::LeftDurably);
            }
            Err(error) => self.life.fence_anew(error),
        }
        if let Some(log) = &self.log {
            self.rows_without(log, ssd);
        }
        drop(one_at_a_time);
        self.apply_shares();
        ssd.left_event.wake_all();
        ssd.journal.wake_all();
        if self.life.is_fenced()
            && let Some(log) = &self.log
        {
            self.refuse_appends(log);
        }
        self.forget_slots_of(ssd).await;
        ssd.change(LifeChange::SlotsForgotten);
        if !self.life.is_fenced() {
            // Whoever opens the device finds it free, once nothing of it is in flight.
            if !ssd.life().is_readable() {
                ssd.let_go();
            }
            self.spare_wanted.wake_all();
            self.forget_clean_rows().await;
        }
    }

    /// What would be lost with an SSD is known only when a start has read the log. False: the start came to nothing, and what
    /// is on record stays as it was.
    async fn log_is_known(&self) -> bool {
        let Some(log) = &self.log else { return true };
        loop {
            match log.known.get() {
                Known::NotYet => log.known_event.wait().await,
                Known::Yes => return true,
                Known::Never => return false,
            }
        }
    }

    /// No SSD is left, and the backing devices have everything: the rows that were lost with the SSDs are wanted by nobody.
    pub(crate) async fn forget_clean_rows(self: &Rc<Self>) {
        let Some(log) = &self.log else { return };
        if self.online_ssds().next().is_none() && log.overlay.borrow().total().dirty == 0 {
            log.oldest_live.set(log.next_number.get());
            // If that cannot be recorded either, a start asks for the SSDs, which is safe.
            let _ = self.record_rows(log).await;
        }
    }

    /// Takes the slots of an offline SSD out of the map, some at a time.
    async fn forget_slots_of(&self, ssd: &Rc<Ssd<E>>) {
        for local in 0..ssd.layout.slot_count() {
            self.forget_slot(ssd.slot_index(local));
            if local % 4096 == 4095 {
                self.env.sleep(std::time::Duration::ZERO).await;
            }
        }
        self.drops.borrow_mut().retain(|_, pending| {
            pending.retain(|(index, _)| *index != ssd.index);
            !pending.is_empty()
        });
        self.freed.borrow_mut().retain(|freed| freed.ssd != ssd.index);
        self.fill_pump_wanted.wake_all();
    }
}
