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
use crate::format::members::MembersRecord;
use crate::format::record::{Record, RecordKind};
use crate::format::witness::{GoneSsd, SeenSsd, Witness};
use crate::members::records::to_buf;
use crate::members::segments::Purpose;
use crate::members::ssd::Ssd;
use crate::members::witnesses::WitnessCopy;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::status::{FailedSsd, SsdStatus};
use crate::time_limit::within;

/// What waits for a drop waits so long for the other SSD at most: one that is late holds up nobody else's writes.
const TELLING_MAX: Duration = Duration::from_millis(100);
/// Who waits until it is durable everywhere waits so long at most: what members know of a loss is worth less than going on.
const KEEPING_MAX: Duration = Duration::from_secs(1);
/// The state directory, which may lie on a slow disk, is written to that often at most.
const STATE_INTERVAL: Duration = Duration::from_millis(100);

impl<E: Env> PoolInner<E> {
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

    /// The write log was flushed further. Where no other SSD has its batches, the state directory is told at once.
    pub(crate) fn witness_log(self: &Rc<Self>) {
        if self.serving_ssds().nth(1).is_none() {
            self.witnesses.change();
            self.spawn_telling_state();
        }
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
        let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
        self.env.spawn(async move {
            let changes = pool.witnesses.changes();
            let (offset, bytes) = pool.next_witness(&ssd.witness);
            let written = ssd.write(Purpose::Record, RECORDS_OFFSET + offset, to_buf(pool.env.buffers(), &bytes)).await;
            match written {
                Ok(_) => ssd.witness.set_told(changes),
                Err(fault) => pool.ssd_failed(&ssd, &fault),
            }
            ssd.witness.ended();
        });
    }

    /// Tells the state directory, as often as it may be.
    fn spawn_telling_state(self: &Rc<Self>) {
        if self.state.is_none() || self.witnesses.state.writing.replace(true) {
            return;
        }
        let pool = Rc::clone(self);
        self.env.spawn(async move {
            while pool.tell_state().await && !pool.life.has_stopped() {
                let copy = &pool.witnesses.state;
                copy.wake_all();
                if !copy.wants_durable() {
                    within(&pool.env, STATE_INTERVAL, copy.hurried()).await;
                }
                if copy.told() >= pool.witnesses.changes() && !copy.wants_durable() {
                    break;
                }
            }
            pool.witnesses.state.ended();
        });
    }

    /// False: it did not take it.
    async fn tell_state(&self) -> bool {
        let Some(state) = &self.state else { return false };
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
        let due = !self.witnesses.is_kept() && !self.life.is_stopping() && self.offline.is_none();
        if due && !self.witnesses.keeping.replace(true) {
            let pool = Rc::clone(self);
            self.env.spawn(async move {
                let wanted = pool.witnesses.changes();
                pool.ask_state();
                pool.keep_on_ssds(wanted).await;
                pool.witnesses.set_kept(wanted);
                pool.witnesses.keeping.set(false);
            });
        }
    }

    /// Tells the members, and returns when all that answer in time know it.
    pub(crate) async fn keep_witnesses(self: &Rc<Self>) {
        if self.offline.is_some() {
            return;
        }
        let wanted = self.witnesses.change();
        self.ask_state();
        let on_ssds = within(&self.env, KEEPING_MAX, self.keep_on_ssds(wanted));
        let copy = &self.witnesses.state;
        let kept = async {
            while self.state.is_some() && !copy.is_durable(wanted) {
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
        let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
        self.env.spawn(async move {
            let wanted = pool.witnesses.changes();
            pool.told(&ssd, wanted).await;
            if ssd.is_online() {
                match ssd.flush().await {
                    Ok(()) => ssd.witness.set_durable(wanted),
                    Err(fault) => pool.ssd_failed(&ssd, &fault),
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
        let record = Record { pool_uuid: self.uuid, number, payload: self.seen().encode() };
        (offset, record.encode(RecordKind::Witness))
    }

    fn seen(&self) -> Witness {
        let seen = |ssd: &Rc<Ssd<E>>| SeenSsd {
            uuid: ssd.uuid,
            incarnation: ssd.incarnation.get(),
            journal_end: if planted(Planted::TailsNotWitnessed) { 0 } else { ssd.journal.flushed_end.get() },
            losses: ssd.losses.get(),
            read_errors: ssd.read_errors_ever(),
        };
        let ssds = self.online_ssds().filter(|ssd| ssd.life().has_joined()).map(seen).collect();
        let log_flushed = self.log.as_ref().map_or((0, 0), |log| (log.flushed.get().row, log.flushed.get().index));
        Witness { ssds, log_flushed, gone: self.gone_ssds(), scrub: self.scrub.ended() }
    }

    /// SSDs that failed or were missing, and that nobody has replaced or removed: in this run, in those before, and those
    /// that are used again.
    fn gone_ssds(&self) -> Vec<GoneSsd> {
        let gone = |path: &str, uuid, size_bytes, failed, reason: &str| {
            let ssd = FailedSsd { path: path.to_owned(), uuid, reason: reason.to_owned() };
            GoneSsd { ssd, size_bytes, failed }
        };
        let of_this_run = self
            .ssds
            .iter()
            .filter(|ssd| ssd.life().is_out_of_use())
            .map(|ssd| gone(&ssd.path, ssd.uuid, ssd.layout.ssd_bytes, !ssd.may_pass(), &ssd.reason.borrow()));
        let used_again = self.online_ssds().filter(|ssd| !ssd.failed_before.borrow().is_empty());
        let used_again =
            used_again.map(|ssd| gone(&ssd.path, ssd.uuid, ssd.layout.ssd_bytes, true, &ssd.failed_before.borrow()));
        let absent = self.absent.borrow();
        let before = self.gone_before.borrow();
        let absent = absent.iter().filter(|ssd| ssd.is_missed()).map(|ssd| {
            let known = before.iter().find(|known| known.ssd.uuid == ssd.uuid);
            let reason = known.map_or(ssd.reason.as_str(), |known| known.ssd.reason.as_str());
            gone(&ssd.path, ssd.uuid, ssd.size_bytes, ssd.failed, reason)
        });
        of_this_run.chain(used_again).chain(absent).collect()
    }

    /// What members know of SSDs that failed or were missing before: the status names them again, those that are used again
    /// with a warning. Not those that had left `before` this start and are back with what nobody else has.
    pub(crate) fn remember_gone(&self, before: &MembersRecord) {
        let gone = self.witnesses.found.borrow().gone.clone();
        for gone in &gone {
            let uuid = gone.ssd.uuid;
            if let Some(ssd) = self.ssds.iter().find(|ssd| ssd.uuid == uuid) {
                if gone.failed && before.member(uuid).is_some() {
                    gone.ssd.reason.clone_into(&mut ssd.failed_before.borrow_mut());
                }
                continue;
            }
            let mut absent = self.absent.borrow_mut();
            let known = absent.iter_mut().find(|ssd| ssd.uuid == uuid);
            match (known, gone.failed) {
                (Some(known), true) => known.failed = true,
                (Some(_), false) => {}
                (None, true) => absent.push(failed_before(&gone.ssd, gone.size_bytes)),
                (None, false) => {
                    let reason = format!(
                        "{}; what it holds is not believed before it is taken back, by itself, when it is there",
                        gone.ssd.reason
                    );
                    let unused = SsdStatus::unused(&gone.ssd.path, uuid, gone.size_bytes, reason);
                    absent.push(SsdStatus { missing: true, ..unused });
                }
            }
        }
        *self.gone_before.borrow_mut() = gone;
    }
}

/// What the status says of an SSD that failed in an earlier run.
pub(crate) fn failed_before(ssd: &FailedSsd, size_bytes: u64) -> SsdStatus {
    let reason = format!(
        "it failed before ({}): what it holds is not believed, and it is not used unless it is added again",
        ssd.reason
    );
    SsdStatus { failed: true, ..SsdStatus::unused(&ssd.path, ssd.uuid, size_bytes, reason) }
}
