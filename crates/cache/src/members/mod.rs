//! Who belongs to a pool: its SSDs, their superblocks and lives, the member records, spares, and the watch over SSDs that are silent.
//!
//! [`Members`] knows nothing of what lies on its SSDs. Whoever is out of use is out of sight at once; what follows from that in
//! all rooms is a step of the frame, which waits for it ([`Members::next_gone`]).

// Nouns: what is true now.
pub(crate) mod budget;
pub(crate) mod departures;
pub(crate) mod flusher;
pub(crate) mod io;
pub(crate) mod label;
pub(crate) mod life;
pub(crate) mod newest;
pub(crate) mod ownership;
pub(crate) mod pool_life;
mod record_numbers;
pub(crate) mod roster;
pub(crate) mod segments;
pub(crate) mod spare;
pub(crate) mod state_lacks;
pub(crate) mod watch;
pub(crate) mod witnesses;

// Verbs: what happens.
pub(crate) mod expel;
pub(crate) mod flush;
pub(crate) mod gone;
pub(crate) mod look;
pub(crate) mod newcomer;
pub(crate) mod owner;
pub(crate) mod reading;
pub(crate) mod records;
pub(crate) mod ssd;
pub(crate) mod state_directory;
pub(crate) mod superblocks;
pub(crate) mod wear;
pub(crate) mod witness;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hotset_block::Env;
use hotset_block::sync::{Permit, Semaphore};

use crate::address::SsdIndex;
use crate::config::{PoolName, limits};
use crate::format::members::MembersRecord;
use crate::format::witness::GoneSsd;
use crate::members::budget::Budget;
use crate::members::departures::Departures;
use crate::members::newest::{FoundWitnesses, Numbered};
use crate::members::owner::Marks;
use crate::members::pool_life::PoolLife;
use crate::members::record_numbers::RecordNumbers;
use crate::members::roster::Roster;
use crate::members::spare::{Spare, Spares};
use crate::members::ssd::Ssd;
use crate::members::state_directory::StateDirectory;
use crate::members::witnesses::Witnesses;
use crate::status::SsdStatus;

/// The members of a pool, and what they have on record of each other.
pub(crate) struct Members<E: Env> {
    env: E,
    pool_uuid: u128,
    pool_name: PoolName,
    life: Rc<PoolLife>,
    /// In the order of their slots in the map. Those that went offline stay here, offline.
    ssds: Roster<Ssd<E>>,
    /// SSDs that were members, or look like it, and are not used: for the status.
    absent: RefCell<Vec<SsdStatus>>,
    /// SSDs that failed or were missing before this run, as they are on record.
    gone_before: RefCell<Vec<GoneSsd>>,
    spares: Spares<E::Device>,
    departures: Rc<Departures<Ssd<E>>>,
    /// One SSD leaves at a time.
    leave_lock: Semaphore,
    record: RefCell<MembersRecord>,
    numbers: RecordNumbers,
    /// One change of a member record at a time.
    records_lock: Semaphore,
    state: Rc<StateDirectory<E>>,
    /// What it lacks is being written there again.
    writing_state_again: Cell<bool>,
    witnesses: Witnesses,
    /// This pool's marks on its SSDs.
    marks: Rc<Marks<E>>,
    /// What was written to the SSDs of late.
    budget: RefCell<Budget>,
    /// A record of it is being written.
    recording_writes: Cell<bool>,
}

/// What the members of a pool are put together from.
pub(crate) struct MembersParts<E: Env> {
    pub(crate) env: E,
    pub(crate) pool_uuid: u128,
    pub(crate) life: Rc<PoolLife>,
    pub(crate) ssds: Vec<Rc<Ssd<E>>>,
    pub(crate) absent: Vec<SsdStatus>,
    pub(crate) spares: Vec<Spare<E::Device>>,
    pub(crate) state: Option<E::Device>,
    pub(crate) record: Numbered<MembersRecord>,
    /// Of the newest catalogue and row records.
    pub(crate) catalogue_number: u64,
    pub(crate) rows_number: u64,
    pub(crate) found: FoundWitnesses,
}

impl<E: Env> Members<E> {
    pub(crate) fn new(parts: MembersParts<E>) -> Self {
        let MembersParts { record, found, env, .. } = parts;
        let witnesses = Witnesses::default();
        let marks = Rc::new(Marks::new(env.clone(), parts.pool_uuid));
        for (place, ssd) in (0..).zip(&parts.ssds) {
            assert_eq!(ssd.index, SsdIndex(place), "SSD {} is found under another index", ssd.path);
            let number = found.ssds.iter().find(|(uuid, _)| *uuid == ssd.uuid).map_or(0, |(_, number)| *number);
            ssd.witness.opened(number);
            ssd.losses.set(found.seen.losses_of(ssd.uuid));
            ssd.read_errors_before.set(found.seen.read_errors_of(ssd.uuid));
            ssd.incarnation.set(record.value.member(ssd.uuid).map_or(0, |member| member.incarnation));
            ssd.owned_by(marks.owner());
        }
        witnesses.state.opened(found.state);
        witnesses.opened(found.seen, found.number);
        let limit = record.value.settings.ssd_writes_per_day_bytes;
        let budget = Budget::new(record.value.written, limit, record.value.clean, env.unix_seconds());
        Self {
            pool_uuid: parts.pool_uuid,
            pool_name: record.value.name.clone(),
            life: parts.life,
            ssds: Roster::new(parts.ssds, limits::JOINS_MAX),
            absent: RefCell::new(parts.absent),
            gone_before: RefCell::default(),
            spares: Spares::new(parts.spares),
            departures: Rc::default(),
            leave_lock: Semaphore::new(1),
            numbers: RecordNumbers::new(record.number, parts.catalogue_number, parts.rows_number),
            record: RefCell::new(record.value),
            records_lock: Semaphore::new(1),
            state: Rc::new(StateDirectory::new(env.clone(), parts.pool_uuid, parts.state)),
            writing_state_again: Cell::new(false),
            witnesses,
            marks,
            budget: RefCell::new(budget),
            recording_writes: Cell::new(false),
            env,
        }
    }

    /// All that have been in the pool in this run, in the order in which they joined.
    pub(crate) fn ssds(&self) -> impl Iterator<Item = &Rc<Ssd<E>>> {
        self.ssds.iter()
    }

    pub(crate) fn ssd(&self, index: SsdIndex) -> &Rc<Ssd<E>> {
        &self.ssds[usize::from(index.0)]
    }

    pub(crate) fn online_ssds(&self) -> impl Iterator<Item = &Rc<Ssd<E>>> {
        self.ssds.iter().filter(|ssd| ssd.is_online())
    }

    /// The SSDs that have their share of what is new.
    pub(crate) fn serving_ssds(&self) -> impl Iterator<Item = &Rc<Ssd<E>>> {
        self.ssds.iter().filter(|ssd| ssd.life().is_serving())
    }

    pub(crate) fn has_two_ssds(&self) -> bool {
        self.serving_ssds().nth(1).is_some()
    }

    /// As [`Self::has_two_ssds`], and no SSD is waited for. In one pass: every write asks.
    pub(crate) fn has_two_ssds_that_answer(&self) -> bool {
        let mut serving = 0;
        for life in self.ssds.iter().map(|ssd| ssd.life()) {
            if life.is_suspect() {
                return false;
            }
            serving += u32::from(life.is_serving());
        }
        serving >= 2
    }

    /// The index of the SSD that joins next, after `others` that join with it.
    pub(crate) fn next_index(&self, others: usize) -> SsdIndex {
        SsdIndex(u16::try_from(self.ssds.len() + others).expect("at most JOINS_MAX SSDs join in a run"))
    }

    /// So many may join before the next start.
    pub(crate) fn room(&self) -> usize {
        self.ssds.room()
    }

    /// It is one of them from now on, under the next index.
    pub(crate) fn push(&self, ssd: &Rc<Ssd<E>>) {
        let next = self.next_index(0);
        assert_eq!(ssd.index, next, "SSD {} joins under an index that is not the next one", ssd.path);
        self.ssds.push(Rc::clone(ssd));
    }

    /// Held while an SSD leaves: of two that fail at once, the second one has to know that the first one's copies are gone.
    pub(crate) async fn one_departure(&self) -> Permit {
        self.leave_lock.acquire(1).await
    }

    pub(crate) fn spares(&self) -> &Spares<E::Device> {
        &self.spares
    }
}
