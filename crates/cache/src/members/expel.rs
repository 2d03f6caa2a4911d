//! An SSD is out of use: at once, whatever room noticed. What follows from it in the others is told to the frame
//! (`pool/departure.rs`), which has the order of all of it.

use std::rc::Rc;

use hotset_block::Env;

use crate::members::Members;
use crate::members::departures::{Departures, Gone};
use crate::members::life::LifeChange;
use crate::members::ssd::{Fault, Ssd, is_gone};
use crate::reasons::OutOfUse;
use crate::status::Refusal;

impl<E: Env> Members<E> {
    pub(crate) fn departures(&self) -> &Rc<Departures<Ssd<E>>> {
        &self.departures
    }

    /// The next SSD about which the frame has to do something.
    pub(crate) fn next_gone(&self) -> Option<Gone<Ssd<E>>> {
        self.departures.next()
    }

    /// Waits until an SSD that went offline has left durably, or never can.
    pub(crate) async fn until_left(&self, ssd: &Ssd<E>) {
        while !ssd.life().has_left() && !self.life.is_fenced() {
            ssd.left_event.wait().await;
        }
    }

    /// Waits until all SSDs that are offline have left durably, or never can: what they hold may be believed until then.
    pub(crate) async fn until_all_left(&self) {
        for ssd in self.ssds().filter(|ssd| !ssd.is_online()) {
            self.until_left(ssd).await;
        }
    }

    /// An SSD failed a write or a flush, or is gone: it leaves the pool. One that only refuses writes is read as long as it
    /// has what nobody else has, and is taken back by itself if it lacked room or was write-protected.
    pub(crate) fn ssd_failed(&self, ssd: &Rc<Ssd<E>>, fault: &Fault) {
        let Fault::Device(error) = fault else { return };
        if is_gone(error) {
            return self.expel(ssd, OutOfUse::Failed(*error));
        }
        if self.take_out(ssd, LifeChange::RefusedWrites, OutOfUse::Failed(*error)) {
            ssd.refusal.set(Some(Refusal::of(error.kind)));
        }
    }

    /// Takes an SSD out of the pool for good: out of sight at once, then durably.
    pub(crate) fn expel(&self, ssd: &Rc<Ssd<E>>, why: OutOfUse) {
        self.take_out(ssd, LifeChange::Failed, why);
    }

    /// False: it is out of use already.
    pub(crate) fn take_out(&self, ssd: &Rc<Ssd<E>>, change: LifeChange, why: OutOfUse) -> bool {
        let (was_member, was_read_only) = (ssd.life().has_joined(), ssd.life().is_read_only());
        let taken = ssd.go_offline(change, why);
        if taken && was_member {
            self.departures.push(Gone::OutOfUse(Rc::clone(ssd)));
        }
        if was_read_only && !ssd.life().is_readable() {
            ssd.let_go();
            self.departures.push(Gone::Unreadable(Rc::clone(ssd)));
        }
        taken
    }
}
