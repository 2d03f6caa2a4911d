//! Member records: written to the state directory and to every SSD, durable on the majority before they take effect
//! (rule `membership`).

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use hotset_block::{Buf, BufPool, Device, Env};

use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::format::Unusable;
use crate::format::catalogue::Catalogue;
use crate::format::layout::{CATALOGUE_AREA_BYTES_MAX, RECORDS_OFFSET};
use crate::format::members::MembersRecord;
use crate::format::record::{HEADER_BYTES, Record, RecordKind};
use crate::members::segments::Purpose;
use crate::members::ssd::{Fault, Ssd, not_made};
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::time_limit::within;

/// A record on its way to the state directory.
enum StateRecord {
    Ended(bool),
    /// Whether the state directory takes it.
    Begun(Pin<Box<dyn Future<Output = bool>>>),
    /// Another one is on its way, for which nobody waits.
    Waits,
}

impl StateRecord {
    /// `None`: not before `limit`.
    async fn within<E: Env>(&mut self, env: &E, limit: Duration) -> Option<bool> {
        match self {
            Self::Ended(taken) => Some(*taken),
            Self::Begun(writing) => within(env, limit, writing).await,
            Self::Waits => None,
        }
    }
}

/// A record that the state directory did not take.
#[derive(Clone, Debug)]
pub(crate) struct Missed {
    number: u64,
    /// `None`: it did not take effect, and only a later one is to be believed.
    bytes: Option<Vec<u8>>,
}

/// Records of the pool that its state directory lacks: what a start compares with the SSDs', to believe in the read cache.
#[derive(Debug, Default)]
pub(crate) struct StateLacks {
    members: Option<Missed>,
    catalogue: Option<Missed>,
}

impl StateLacks {
    pub(crate) fn is_any(&self) -> bool {
        self.members.is_some() || self.catalogue.is_some()
    }

    fn of(&self, kind: RecordKind) -> Option<&Missed> {
        match kind {
            RecordKind::Members => self.members.as_ref(),
            RecordKind::Catalogue => self.catalogue.as_ref(),
            RecordKind::Rows | RecordKind::Losses | RecordKind::Witness => None,
        }
    }

    fn note(&mut self, kind: RecordKind, missed: Option<Missed>) {
        match kind {
            RecordKind::Members => self.members = missed,
            RecordKind::Catalogue => self.catalogue = missed,
            RecordKind::Rows | RecordKind::Losses | RecordKind::Witness => {}
        }
    }
}

/// How a members record or catalogue is changed: everything that was decided is in the closure.
type Change<'a, T> = &'a dyn Fn(&mut T);

/// The bytes as a buffer for a device.
pub(crate) fn to_buf(buffers: &BufPool, bytes: &[u8]) -> Buf {
    let mut buf = buffers.take(bytes.len());
    buf.copy_from_slice(bytes);
    buf
}

impl<E: Env> PoolInner<E> {
    /// Changes the members record; returns when it is durable.
    pub(crate) async fn change_members(self: &Rc<Self>, change: Change<'_, MembersRecord>) -> Result<(), Error> {
        let _one_at_a_time = self.records_lock.acquire(1).await;
        let mut members = self.members.borrow().clone();
        change(&mut members);
        self.note_writes();
        members.written = self.budget.borrow().written();
        self.write_record(RecordKind::Members, members.encode()).await?;
        self.budget.borrow_mut().recorded(members.written);
        *self.members.borrow_mut() = members;
        Ok(())
    }

    /// Changes the catalogue; returns when it is durable.
    pub(crate) async fn change_catalogue(self: &Rc<Self>, change: Change<'_, Catalogue>) -> Result<(), Error> {
        let _one_at_a_time = self.records_lock.acquire(1).await;
        let mut catalogue = self.catalogue.borrow().clone();
        change(&mut catalogue);
        self.write_record(RecordKind::Catalogue, catalogue.encode()).await?;
        *self.catalogue.borrow_mut() = catalogue;
        Ok(())
    }

    /// Writes a record under the next number: to the state directory first, so that it is never behind an SSD unless
    /// it failed, then to all SSDs at once. An SSD that cannot take it leaves the pool.
    pub(crate) async fn write_record(self: &Rc<Self>, kind: RecordKind, payload: Vec<u8>) -> Result<(), Error> {
        self.write_record_to(kind, payload, &[]).await
    }

    /// Writes a record to the members, and to SSDs that are about to join, which have no say yet.
    pub(crate) async fn write_record_to(
        self: &Rc<Self>,
        kind: RecordKind,
        payload: Vec<u8>,
        newcomers: &[Rc<Ssd<E>>],
    ) -> Result<(), Error> {
        let counter = self.record_number(kind);
        let number = counter.get() + 1;
        let record = Record { pool_uuid: self.uuid, number, payload };
        let bytes = record.encode(kind);
        self.check_record_fits(kind, bytes.len(), newcomers)?;
        counter.set(number);
        let members_before = self.members.borrow().ssds.len() + usize::from(self.state.is_some());
        let forgotten = planted(Planted::ColdRecordForgotten) && self.online_ssds().count() < members_before / 2;
        let mut state = self.begin_state_record(kind, number, &bytes);
        let in_time = if forgotten { Some(false) } else { state.within(&self.env, limits::SSD_TIMEOUT).await };
        let writes = self.online_ssds().map(|ssd| self.write_ssd_record(Rc::clone(ssd), kind, number, &bytes));
        // Nobody else watches whether these answer, and a change that waited for one for ever would hold up all others.
        let joining = newcomers.iter().map(async |ssd| {
            let written = async { Ok(self.write_ssd_record(Rc::clone(ssd), kind, number, &bytes).await) };
            self.in_time(ssd, written).await.unwrap_or(false)
        });
        let (old, new) = join(join_all(writes), join_all(joining)).await;
        let ssds = old.into_iter().filter(|agrees| *agrees).count();
        let state_agrees = match in_time {
            Some(agrees) => agrees,
            // The SSDs are enough, and it does not hold them up.
            None if ssds * 2 > members_before => {
                self.leave_state_record(state);
                false
            }
            None => self.end_state_record(state, kind, number, &bytes).await,
        };
        let agreed = ssds + usize::from(state_agrees);
        let takes_effect = forgotten || state_agrees || agreed * 2 > members_before;
        let missed =
            (self.state.is_some() && !state_agrees).then(|| Missed { number, bytes: takes_effect.then_some(bytes) });
        self.state_lacks.borrow_mut().note(kind, missed);
        if takes_effect {
            let failed = newcomers.iter().zip(new).find(|(_, agrees)| !agrees);
            return failed.map_or(Ok(()), |(ssd, _)| Err(not_made(ssd, &Fault::Offline)));
        }
        Err(Error::new(
            ErrorKind::Gone,
            format!(
                "pool {}: a change could be recorded on {agreed} of {members_before} members only; \
                 check the state directory and the SSDs, then restart",
                self.name
            ),
        ))
    }

    /// Of the newest record.
    fn record_number(&self, kind: RecordKind) -> &Cell<u64> {
        match kind {
            RecordKind::Members => &self.members_number,
            RecordKind::Rows => &self.rows_number,
            RecordKind::Catalogue => &self.catalogue_number,
            RecordKind::Losses | RecordKind::Witness => unreachable!("whoever writes these numbers them"),
        }
    }

    fn check_record_fits(&self, kind: RecordKind, bytes: usize, newcomers: &[Rc<Ssd<E>>]) -> Result<(), Error> {
        let areas = self.online_ssds().chain(newcomers).map(|ssd| kind.area(0, ssd.layout.catalogue_area_bytes).1);
        let room = areas.min().unwrap_or(CATALOGUE_AREA_BYTES_MAX);
        if u64::try_from(bytes).is_ok_and(|bytes| bytes <= room) {
            return Ok(());
        }
        let message =
            format!("pool {}: its catalogue has no room for more volumes; use larger SSDs or another pool", self.name);
        Err(Error::new(ErrorKind::Refused, message))
    }

    /// Begins to write a record to the state directory, if there is one and nothing else is on its way there.
    fn begin_state_record(self: &Rc<Self>, kind: RecordKind, number: u64, bytes: &[u8]) -> StateRecord {
        if self.state.is_none() {
            return StateRecord::Ended(false);
        }
        if self.state_hangs.get() {
            return StateRecord::Waits;
        }
        let (offset, _) = kind.area(number % 2, CATALOGUE_AREA_BYTES_MAX);
        let (pool, buf) = (Rc::clone(self), to_buf(self.env.buffers(), bytes));
        StateRecord::Begun(Box::pin(async move {
            let Some(state) = &pool.state else { return false };
            let (_buf, written) = state.write(offset, buf).await;
            written.is_ok() && state.flush().await.is_ok()
        }))
    }

    /// Nobody waits for it any more. Nothing else is written there before it has ended (rule `late-io`).
    fn leave_state_record(self: &Rc<Self>, record: StateRecord) {
        let StateRecord::Begun(writing) = record else { return };
        self.state_hangs.set(true);
        let pool = Rc::clone(self);
        self.env.spawn(async move {
            writing.await;
            pool.state_hangs.set(false);
            pool.state_answers.wake_all();
        });
    }

    /// Waits for it, however long that takes; false: the state directory did not take it.
    async fn end_state_record(
        self: &Rc<Self>,
        mut record: StateRecord,
        kind: RecordKind,
        number: u64,
        bytes: &[u8],
    ) -> bool {
        loop {
            match record {
                StateRecord::Ended(taken) => return taken,
                StateRecord::Begun(writing) => return writing.await,
                StateRecord::Waits => {
                    let answers = self.state_answers.wait();
                    if self.state_hangs.get() {
                        answers.await;
                    }
                    record = self.begin_state_record(kind, number, bytes);
                }
            }
        }
    }

    /// What the state directory did not take is written there again, as it is on the SSDs.
    pub(crate) fn watch_state(self: &Rc<Self>) {
        let wanted = self.state_lacks.borrow().is_any() && !self.state_hangs.get();
        let may = !self.life.is_stopping() && self.offline.is_none();
        if wanted && may && !self.writing_state_again.replace(true) {
            let pool = Rc::clone(self);
            self.env.spawn(async move {
                for kind in [RecordKind::Catalogue, RecordKind::Members] {
                    pool.write_state_again(kind).await;
                }
                pool.writing_state_again.set(false);
            });
        }
    }

    async fn write_state_again(self: &Rc<Self>, kind: RecordKind) {
        let _one_at_a_time = self.records_lock.acquire(1).await;
        let missed = self.state_lacks.borrow().of(kind).cloned();
        let Some(Missed { number, bytes: Some(bytes) }) = missed.filter(|_| !self.life.is_stopping()) else { return };
        let mut record = self.begin_state_record(kind, number, &bytes);
        match record.within(&self.env, limits::SSD_TIMEOUT).await {
            Some(true) => self.state_lacks.borrow_mut().note(kind, None),
            Some(false) => {}
            None => self.leave_state_record(record),
        }
    }

    async fn write_ssd_record(self: &Rc<Self>, ssd: Rc<Ssd<E>>, kind: RecordKind, number: u64, bytes: &[u8]) -> bool {
        let (offset, _) = kind.area(number % 2, ssd.layout.catalogue_area_bytes);
        let result = match ssd.write(Purpose::Record, RECORDS_OFFSET + offset, to_buf(self.env.buffers(), bytes)).await
        {
            Ok(_) => ssd.flush().await,
            Err(fault) => Err(fault),
        };
        match result {
            Ok(()) => true,
            Err(fault) => {
                self.ssd_failed(&ssd, &fault);
                false
            }
        }
    }

    /// Writes a record that only the state directory keeps; false: it could not.
    pub(crate) async fn write_state_only(self: &Rc<Self>, kind: RecordKind, number: u64, payload: Vec<u8>) -> bool {
        let bytes = Record { pool_uuid: self.uuid, number, payload }.encode(kind);
        let record = self.begin_state_record(kind, number, &bytes);
        self.end_state_record(record, kind, number, &bytes).await
    }
}

/// The newest valid record of a kind in the two areas of one member. `read` reads from the start of the records. If either
/// is of a later version, the other one is not the newest.
pub(crate) async fn newest_record(
    kind: RecordKind,
    catalogue_area_bytes: u64,
    pool_uuid: Option<u128>,
    read: impl AsyncFn(u64, usize) -> Option<Buf>,
) -> Result<Option<Record>, Unusable> {
    let is_own = |uuid: u128| pool_uuid.is_none_or(|own| own == uuid);
    let mut newest: Option<Record> = None;
    let mut corrupt = None;
    for which in 0..2 {
        let (offset, area_bytes) = kind.area(which, catalogue_area_bytes);
        let Some(head) = read(offset, 4096).await else { continue };
        let header = match Record::decode_header(kind, &head) {
            Ok(header) => header,
            Err(Unusable::Newer(newer)) if is_own(newer.pool_uuid) => return Err(Unusable::Newer(newer)),
            Err(Unusable::Newer(_) | Unusable::Corrupt(_)) => continue,
        };
        let whole = (HEADER_BYTES + header.length).next_multiple_of(4096);
        let fits = u64::try_from(whole).is_ok_and(|whole| whole <= area_bytes);
        if !is_own(header.pool_uuid) || !fits {
            continue;
        }
        let Some(bytes) = read(offset, whole).await else { continue };
        match Record::decode(kind, &bytes) {
            Ok(record) if newest.as_ref().is_none_or(|other| other.number < record.number) => newest = Some(record),
            Ok(_) => {}
            Err(error) => corrupt = Some(error),
        }
    }
    match (newest, corrupt) {
        (None, Some(error)) => Err(error),
        (newest, _) => Ok(newest),
    }
}
