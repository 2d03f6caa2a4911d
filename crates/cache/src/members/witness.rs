//! Members are told how far the others have come (rules `recovery`, `believed-until-dropped`): an SSD that loses what it had
//! flushed says nothing of it at the next start, but another member does.
//!
//! Before a drop counts as flushed, another SSD has the record that says so, written, but not flushed: after the daemon's
//! death the loss is noticed for certain. Every few seconds the records are made durable on all members, the state directory
//! among them, so that after a power cut only the last seconds may be missing. What may be lost thereby is the proof, never
//! data. `docs/decisions/0009-witness-records.md` says why it is so.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use hotset_block::{Device, Env};

use crate::format::layout::{CATALOGUE_AREA_BYTES_MAX, RECORDS_OFFSET};
use crate::format::record::{Record, RecordKind};
use crate::format::witness::{SeenSsd, Witness};
use crate::members::Members;
use crate::members::segments::Purpose;
use crate::members::ssd::Ssd;
use crate::members::witnesses::WitnessCopy;
use crate::status::ScrubStatus;
use crate::time_limit::within;

/// What waits for a drop waits so long for the other SSD at most: one that is late holds up nobody else's writes.
const TELLING_MAX: Duration = Duration::from_millis(100);
/// Who waits until it is durable everywhere waits so long at most: what members know of a loss is worth less than going on.
const KEEPING_MAX: Duration = Duration::from_secs(1);
/// The state directory, which may lie on a slow disk, is written to that often at most.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

/// Sees to it that members know of each other how far they have come.
pub(crate) struct WitnessKeeper<'a, E: Env>(&'a Rc<Members<E>>);

impl<E: Env> Members<E> {
    pub(crate) fn witness_keeper(self: &Rc<Self>) -> WitnessKeeper<'_, E> {
        WitnessKeeper(self)
    }
}

impl<E: Env> WitnessKeeper<'_, E> {
    /// The SSD's journal has just been flushed, and drops with it: returns when another SSD knows, or is late.
    pub(crate) async fn drops_are_flushed(&self, ssd: &Ssd<E>) {
        let wanted = self.0.witnesses.change();
        match self.witness_of(ssd) {
            Some(other) => {
                within(&self.0.env, TELLING_MAX, self.told(&other, wanted)).await;
            }
            // Nobody waits for the state directory, which may be much slower than an SSD.
            None => self.spawn_telling_state(),
        }
    }

    /// The write log was flushed up to this row, and this batch in it. Where no other SSD has its batches, the state directory is told
    /// at once.
    pub(crate) fn log_is_flushed(&self, log_flushed: (u64, u32)) {
        self.0.witnesses.log_is_flushed(log_flushed);
        if self.0.serving_ssds().nth(1).is_none() {
            self.0.witnesses.change();
            self.spawn_telling_state();
        }
    }

    /// What the log lost, if anything, is known: from here on its next flush is what counts.
    pub(crate) fn log_is_recovered(&self) {
        self.0.witnesses.log_is_recovered();
    }

    /// A scrub has ended; with [`Self::keep`] that is on record.
    pub(crate) fn scrub_ended(&self, scrub: Option<ScrubStatus>) {
        self.0.witnesses.scrub_ended(scrub);
    }

    /// Where all members knew together that the slot index of an SSD was flushed to, when the pool was opened.
    pub(crate) fn journal_end_of(&self, ssd: &Ssd<E>) -> u64 {
        self.0.witnesses.found.borrow().journal_end_of(ssd.uuid, ssd.incarnation.get())
    }

    /// How far all members knew together that the write log was flushed: row, and batch in it.
    pub(crate) fn log_end(&self) -> (u64, u32) {
        self.0.witnesses.found.borrow().log_flushed
    }

    /// Another SSD, which is told of this one: the next one that serves, so that each has another's.
    fn witness_of(&self, ssd: &Ssd<E>) -> Option<Rc<Ssd<E>>> {
        let behind = self.0.serving_ssds().filter(|other| other.index > ssd.index);
        let before = self.0.serving_ssds().filter(|other| other.index < ssd.index);
        behind.chain(before).find(|other| other.life().has_joined()).cloned()
    }

    /// Returns when the SSD has so many changes on record, or is out of use.
    async fn told(&self, ssd: &Rc<Ssd<E>>, wanted: u64) {
        while ssd.is_online() && ssd.witness.told() < wanted {
            let changed = ssd.witness.changed();
            self.spawn_telling(ssd);
            changed.await;
        }
    }

    /// What is on its way goes on when nobody waits for it any more: an area is not written twice at once.
    fn spawn_telling(&self, ssd: &Rc<Ssd<E>>) {
        if ssd.witness.writing.replace(true) {
            return;
        }
        let (members, ssd) = (Rc::clone(self.0), Rc::clone(ssd));
        self.0.env.spawn(async move {
            let changes = members.witnesses.changes();
            let (offset, bytes) = members.witness_keeper().next_record(&ssd.witness);
            let written =
                ssd.write(Purpose::Record, RECORDS_OFFSET + offset, members.env.buffers().copy_of(&bytes)).await;
            match written {
                Ok(_) => ssd.witness.set_told(changes),
                Err(fault) => members.ssd_failed(&ssd, &fault),
            }
            ssd.witness.ended();
        });
    }

    /// Tells the state directory, as often as it may be.
    fn spawn_telling_state(&self) {
        if self.0.state.device().is_none() || self.0.witnesses.state.writing.replace(true) {
            return;
        }
        let members = Rc::clone(self.0);
        self.0.env.spawn(async move {
            while members.witness_keeper().tell_state().await && !members.life.has_stopped() {
                let copy = &members.witnesses.state;
                copy.wake_all();
                if !copy.wants_durable() {
                    within(&members.env, STATE_INTERVAL, copy.hurried()).await;
                }
                if copy.told() >= members.witnesses.changes() && !copy.wants_durable() {
                    break;
                }
            }
            members.witnesses.state.ended();
        });
    }

    /// False: it did not take it.
    async fn tell_state(&self) -> bool {
        let Some(state) = self.0.state.device() else { return false };
        let (changes, copy) = (self.0.witnesses.changes(), &self.0.witnesses.state);
        let durable = copy.take_durable();
        let (offset, bytes) = self.next_record(copy);
        let buf = self.0.env.buffers().copy_of(&bytes);
        let written = if durable {
            self.0.state.write_durable(offset, buf).await
        } else {
            state.write(offset, buf).await.1.is_ok()
        };
        if written {
            copy.set_told(changes);
            copy.set_durable(if durable { changes } else { 0 });
        }
        written
    }

    /// Makes what members are to know durable on all of them, if it changed.
    pub(crate) fn watch(&self) {
        self.0.witnesses.note(self.seen().encode());
        let due = !self.0.witnesses.is_kept() && !self.0.life.is_stopping();
        if due && !self.0.witnesses.keeping.replace(true) {
            let members = Rc::clone(self.0);
            self.0.env.spawn(async move {
                let wanted = members.witnesses.changes();
                members.witness_keeper().ask_state();
                members.witness_keeper().keep_on_ssds(wanted).await;
                members.witnesses.set_kept(wanted);
                members.witnesses.keeping.set(false);
            });
        }
    }

    /// Tells the members, and returns when all that answer in time know it.
    pub(crate) async fn keep(&self) {
        let wanted = self.0.witnesses.change();
        self.ask_state();
        let on_ssds = within(&self.0.env, KEEPING_MAX, self.keep_on_ssds(wanted));
        let copy = &self.0.witnesses.state;
        let kept = async {
            while self.0.state.device().is_some() && !copy.is_durable(wanted) {
                let changed = copy.changed();
                self.ask_state();
                changed.await;
                if !copy.writing.get() && !copy.is_durable(wanted) {
                    // It did not take it.
                    break;
                }
            }
        };
        join(on_ssds, within(&self.0.env, KEEPING_MAX, kept)).await;
    }

    fn ask_state(&self) {
        self.0.witnesses.state.want_durable();
        self.spawn_telling_state();
    }

    async fn keep_on_ssds(&self, wanted: u64) {
        join_all(self.0.online_ssds().map(|ssd| self.kept_on(ssd, wanted))).await;
    }

    /// Returns when so many changes are durable on the SSD, or it is out of use.
    async fn kept_on(&self, ssd: &Rc<Ssd<E>>, wanted: u64) {
        while ssd.is_online() && !ssd.witness.is_durable(wanted) {
            let changed = ssd.witness.changed();
            self.spawn_keeping(ssd);
            changed.await;
        }
    }

    /// Who cancels the wait does not cancel the flush, for only the flush itself learns that it failed.
    fn spawn_keeping(&self, ssd: &Rc<Ssd<E>>) {
        if ssd.witness.keeping.replace(true) {
            return;
        }
        let (members, ssd) = (Rc::clone(self.0), Rc::clone(ssd));
        self.0.env.spawn(async move {
            let wanted = members.witnesses.changes();
            members.witness_keeper().told(&ssd, wanted).await;
            if ssd.is_online() {
                match ssd.flush().await {
                    Ok(()) => ssd.witness.set_durable(wanted),
                    Err(fault) => members.ssd_failed(&ssd, &fault),
                }
            }
            ssd.witness.keeping.set(false);
            ssd.witness.wake_all();
        });
    }

    /// The next record for a member, and where among its records it lies.
    fn next_record(&self, copy: &WitnessCopy) -> (u64, Vec<u8>) {
        let number = self.0.witnesses.next_number(copy);
        let (offset, _) = RecordKind::Witness.area(number % 2, CATALOGUE_AREA_BYTES_MAX);
        let record = Record::new(self.0.pool_uuid, number, self.seen().encode());
        (offset, record.encode(RecordKind::Witness))
    }

    fn seen(&self) -> Witness {
        // Of an SSD whose index was not believed at this start, what members knew stays true until a record says that it is empty.
        let journal_end = |ssd: &Ssd<E>| ssd.index_flushed.get().max(self.journal_end_of(ssd));
        let seen = |ssd: &Rc<Ssd<E>>| SeenSsd {
            uuid: ssd.uuid,
            incarnation: ssd.incarnation.get(),
            journal_end: journal_end(ssd),
            losses: ssd.losses.get(),
            read_errors: ssd.read_errors_ever(),
        };
        let ssds = self.0.online_ssds().filter(|ssd| ssd.life().has_joined()).map(seen).collect();
        let of_rooms = self.0.witnesses.of_rooms();
        Witness { ssds, log_flushed: of_rooms.log_flushed, gone: self.0.gone_ssds(), scrub: of_rooms.scrub }
    }
}
