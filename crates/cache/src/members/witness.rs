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
use crate::members::records::to_buf;
use crate::members::segments::Purpose;
use crate::members::ssd::Ssd;
use crate::members::witnesses::{OfRooms, WitnessCopy};
use crate::status::ScrubStatus;
use crate::time_limit::within;

/// What waits for a drop waits so long for the other SSD at most: one that is late holds up nobody else's writes.
const TELLING_MAX: Duration = Duration::from_millis(100);
/// Who waits until it is durable everywhere waits so long at most: what members know of a loss is worth less than going on.
const KEEPING_MAX: Duration = Duration::from_secs(1);
/// The state directory, which may lie on a slow disk, is written to that often at most.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

impl<E: Env> Members<E> {
    /// The SSD's journal has just been flushed, and drops with it: returns when another SSD knows, or is late.
    pub(crate) async fn witness_drops(self: &Rc<Self>, ssd: &Ssd<E>) {
        let wanted = self.witnesses.change();
        match self.witness_of(ssd) {
            Some(other) => {
                within(&self.env, TELLING_MAX, self.told(&other, wanted)).await;
            }
            // Nobody waits for the state directory, which may be much slower than an SSD.
            None => self.spawn_telling_state(),
        }
    }

    /// The write log was flushed up to this row, and this batch in it. Where no other SSD has its batches, the state directory is told
    /// at once.
    pub(crate) fn witness_log(self: &Rc<Self>, log_flushed: (u64, u32)) {
        self.witnesses.of_rooms.set(OfRooms { log_flushed, ..self.witnesses.of_rooms.get() });
        if self.serving_ssds().nth(1).is_none() {
            self.witnesses.change();
            self.spawn_telling_state();
        }
    }

    /// What the log lost, if anything, is known: from here on its next flush is what counts.
    pub(crate) fn witness_recovered_log(&self) {
        self.witnesses.of_rooms.set(OfRooms { log_flushed: (0, 0), ..self.witnesses.of_rooms.get() });
    }

    /// A scrub has ended; with [`Self::keep_witnesses`] that is on record.
    pub(crate) fn witness_scrub(&self, scrub: Option<ScrubStatus>) {
        self.witnesses.of_rooms.set(OfRooms { scrub, ..self.witnesses.of_rooms.get() });
    }

    /// Where all members knew together that the slot index of an SSD was flushed to, when the pool was opened.
    pub(crate) fn witnessed_journal_end(&self, ssd: &Ssd<E>) -> u64 {
        self.witnesses.found.borrow().journal_end_of(ssd.uuid, ssd.incarnation.get())
    }

    /// How far all members knew together that the write log was flushed: row, and batch in it.
    pub(crate) fn witnessed_log_end(&self) -> (u64, u32) {
        self.witnesses.found.borrow().log_flushed
    }

    /// Another SSD, which is told of this one: the next one that serves, so that each has another's.
    fn witness_of(&self, ssd: &Ssd<E>) -> Option<Rc<Ssd<E>>> {
        let behind = self.serving_ssds().filter(|other| other.index > ssd.index);
        let before = self.serving_ssds().filter(|other| other.index < ssd.index);
        behind.chain(before).find(|other| other.life().has_joined()).cloned()
    }

    /// Returns when the SSD has so many changes on record, or is out of use.
    async fn told(self: &Rc<Self>, ssd: &Rc<Ssd<E>>, wanted: u64) {
        while ssd.is_online() && ssd.witness.told() < wanted {
            let changed = ssd.witness.changed();
            self.spawn_telling(ssd);
            changed.await;
        }
    }

    /// What is on its way goes on when nobody waits for it any more: an area is not written twice at once.
    fn spawn_telling(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        if ssd.witness.writing.replace(true) {
            return;
        }
        let (members, ssd) = (Rc::clone(self), Rc::clone(ssd));
        self.env.spawn(async move {
            let changes = members.witnesses.changes();
            let (offset, bytes) = members.next_witness(&ssd.witness);
            let written =
                ssd.write(Purpose::Record, RECORDS_OFFSET + offset, to_buf(members.env.buffers(), &bytes)).await;
            match written {
                Ok(_) => ssd.witness.set_told(changes),
                Err(fault) => members.ssd_failed(&ssd, &fault),
            }
            ssd.witness.ended();
        });
    }

    /// Tells the state directory, as often as it may be.
    fn spawn_telling_state(self: &Rc<Self>) {
        if self.state.device().is_none() || self.witnesses.state.writing.replace(true) {
            return;
        }
        let members = Rc::clone(self);
        self.env.spawn(async move {
            while members.tell_state().await && !members.life.has_stopped() {
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
        let Some(state) = self.state.device() else { return false };
        let (changes, copy) = (self.witnesses.changes(), &self.witnesses.state);
        let durable = copy.take_durable();
        let (offset, bytes) = self.next_witness(copy);
        let buf = to_buf(self.env.buffers(), &bytes);
        let (_buf, written) =
            if durable { state.write_durable(offset, buf).await } else { state.write(offset, buf).await };
        if written.is_ok() {
            copy.set_told(changes);
            copy.set_durable(if durable { changes } else { 0 });
        }
        written.is_ok()
    }

    /// Makes what members are to know durable on all of them, if it changed.
    pub(crate) fn watch_witnesses(self: &Rc<Self>) {
        self.witnesses.note(self.seen().encode());
        let due = !self.witnesses.is_kept() && !self.life.is_stopping();
        if due && !self.witnesses.keeping.replace(true) {
            let members = Rc::clone(self);
            self.env.spawn(async move {
                let wanted = members.witnesses.changes();
                members.ask_state();
                members.keep_on_ssds(wanted).await;
                members.witnesses.set_kept(wanted);
                members.witnesses.keeping.set(false);
            });
        }
    }

    /// Tells the members, and returns when all that answer in time know it.
    pub(crate) async fn keep_witnesses(self: &Rc<Self>) {
        let wanted = self.witnesses.change();
        self.ask_state();
        let on_ssds = within(&self.env, KEEPING_MAX, self.keep_on_ssds(wanted));
        let copy = &self.witnesses.state;
        let kept = async {
            while self.state.device().is_some() && !copy.is_durable(wanted) {
                let changed = copy.changed();
                self.ask_state();
                changed.await;
                if !copy.writing.get() && !copy.is_durable(wanted) {
                    // It did not take it.
                    break;
                }
            }
        };
        join(on_ssds, within(&self.env, KEEPING_MAX, kept)).await;
    }

    fn ask_state(self: &Rc<Self>) {
        self.witnesses.state.want_durable();
        self.spawn_telling_state();
    }

    async fn keep_on_ssds(self: &Rc<Self>, wanted: u64) {
        join_all(self.online_ssds().map(|ssd| self.kept_on(ssd, wanted))).await;
    }

    /// Returns when so many changes are durable on the SSD, or it is out of use.
    async fn kept_on(self: &Rc<Self>, ssd: &Rc<Ssd<E>>, wanted: u64) {
        while ssd.is_online() && !ssd.witness.is_durable(wanted) {
            let changed = ssd.witness.changed();
            self.spawn_keeping(ssd);
            changed.await;
        }
    }

    /// Who gives up the wait does not give up the flush, for only the flush itself learns that it failed.
    fn spawn_keeping(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        if ssd.witness.keeping.replace(true) {
            return;
        }
        let (members, ssd) = (Rc::clone(self), Rc::clone(ssd));
        self.env.spawn(async move {
            let wanted = members.witnesses.changes();
            members.told(&ssd, wanted).await;
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
    fn next_witness(&self, copy: &WitnessCopy) -> (u64, Vec<u8>) {
        let number = self.witnesses.next_number(copy);
        let (offset, _) = RecordKind::Witness.area(number % 2, CATALOGUE_AREA_BYTES_MAX);
        let record = Record::new(self.pool_uuid, number, self.seen().encode());
        (offset, record.encode(RecordKind::Witness))
    }

    fn seen(&self) -> Witness {
        // Of an SSD whose index was not believed at this start, what members knew stays true until a record says that it is empty.
        let journal_end = |ssd: &Ssd<E>| ssd.index_flushed.get().max(self.witnessed_journal_end(ssd));
        let seen = |ssd: &Rc<Ssd<E>>| SeenSsd {
            uuid: ssd.uuid,
            incarnation: ssd.incarnation.get(),
            journal_end: journal_end(ssd),
            losses: ssd.losses.get(),
            read_errors: ssd.read_errors_ever(),
        };
        let ssds = self.online_ssds().filter(|ssd| ssd.life().has_joined()).map(seen).collect();
        let of_rooms = self.witnesses.of_rooms.get();
        Witness { ssds, log_flushed: of_rooms.log_flushed, gone: self.gone_ssds(), scrub: of_rooms.scrub }
    }
}
