//! Member records: written to the state directory and to every SSD, durable on the majority before they take effect
//! (rule `membership`).

use std::cell::Ref;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use hotset_block::sync::Permit;
use hotset_block::{Buf, Env};

use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::format::Unusable;
use crate::format::layout::{CATALOGUE_AREA_BYTES_MAX, RECORDS_OFFSET};
use crate::format::members::{Member, MembersRecord};
use crate::format::record::{HEADER_BYTES, Record, RecordKind};
use crate::members::Members;
use crate::members::look::until_looked;
use crate::members::newcomer::NotJoined;
use crate::members::segments::Purpose;
use crate::members::ssd::{Fault, Ssd, not_made};
use crate::members::state_directory::StateDirectory;
use crate::members::state_lacks::MissedRecord;

impl<E: Env> Members<E> {
    /// Held while a member record is changed, of whatever kind.
    pub(crate) async fn one_change(&self) -> Permit {
        self.records_lock.acquire(1).await
    }

    /// The members record as it is on record.
    pub(crate) fn record(&self) -> Ref<'_, MembersRecord> {
        self.record.borrow()
    }

    /// Changes the members record; everything that was decided is in `change`. Returns when it is durable.
    pub(crate) async fn change_record(self: &Rc<Self>, change: &dyn Fn(&mut MembersRecord)) -> Result<(), Error> {
        let _one_at_a_time = self.one_change().await;
        let mut record = self.record.borrow().clone();
        change(&mut record);
        self.note_writes();
        record.written = self.budget.borrow().written();
        assert_follows(&self.record.borrow(), &record);
        self.write_record(RecordKind::Members, record.encode()).await?;
        self.budget.borrow_mut().recorded(record.written);
        self.is_on_record(record);
        Ok(())
    }

    /// The members record is this one from here on: neither who belongs nor what was opened goes back.
    fn is_on_record(&self, record: MembersRecord) {
        *self.record.borrow_mut() = record;
    }

    /// The SSD is no member any more, durably (rule `membership`).
    pub(crate) async fn record_departure(self: &Rc<Self>, ssd_uuid: u128) -> Result<(), Error> {
        self.change_record(&|record| {
            record.ssds.retain(|member| member.ssd_uuid != ssd_uuid);
            record.epoch += 1;
        })
        .await
    }

    /// Members that are not there are none any more. Not before it is known that the pool can do without them: else what
    /// they hold would not be believed either when they come back.
    pub(crate) async fn dismiss_missing(self: &Rc<Self>) -> Result<(), Error> {
        let is_here = |member: &Member| self.ssds.iter().any(|ssd| ssd.uuid == member.ssd_uuid);
        if self.record.borrow().ssds.iter().all(is_here) {
            return Ok(());
        }
        self.change_record(&|record| {
            record.epoch += 1;
            record.ssds.retain(is_here);
        })
        .await
    }

    /// The SSDs' incarnations are those of the members record.
    pub(crate) fn take_incarnations(&self) {
        let record = self.record.borrow();
        for ssd in self.ssds.iter() {
            if let Some(member) = record.member(ssd.uuid) {
                ssd.incarnation.set(member.incarnation);
            }
        }
    }

    /// Writes a members record with newcomers in it, which then belong to it. The caller holds [`Self::one_change`], and has made them
    /// ready: from this record on a start may believe them. Where one of them does not take it, none joins, and the record that follows
    /// says so: a start would wait for them, and count them among those who have a say.
    pub(crate) async fn record_newcomers(
        self: &Rc<Self>,
        members: Vec<Member>,
        ssds: &[Rc<Ssd<E>>],
    ) -> Result<(), NotJoined> {
        let mut record = self.record.borrow().clone();
        record.epoch += 1;
        record.ssds.extend(members);
        record.spares.retain(|spare| ssds.iter().all(|ssd| ssd.uuid != spare.uuid));
        assert_follows(&self.record.borrow(), &record);
        if let Err(error) = self.write_record_to(RecordKind::Members, record.encode(), ssds).await {
            let without = MembersRecord { epoch: record.epoch + 1, ..self.record.borrow().clone() };
            // If that cannot be, the next change says it.
            let is_taken_back = self.write_record(RecordKind::Members, without.encode()).await.is_ok();
            if is_taken_back {
                self.is_on_record(without);
            }
            return Err(NotJoined { error, is_only_labelled: is_taken_back });
        }
        self.is_on_record(record);
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
        self.check_record_fits(kind, record_bytes(&payload), newcomers)?;
        // The state directory is nobody else's, and what it says would take effect by itself.
        until_looked(&self.env, self.owner()).await;
        self.check_is_ours()?;
        let number = self.numbers.take(kind);
        let bytes = Record::new(self.pool_uuid, number, payload).encode(kind);
        let members: Vec<u128> = self.record.borrow().ssds.iter().map(|member| member.ssd_uuid).collect();
        let members_before = members.len() + usize::from(self.state.device().is_some());
        let mut state = self.state.begin(kind, number, &bytes);
        let in_time = state.within(&self.env, limits::SSD_TIMEOUT).await;
        // One that is back and no member again yet has no say either.
        let writes = self.online_ssds().map(async |ssd| {
            self.write_ssd_record(Rc::clone(ssd), kind, number, &bytes).await && members.contains(&ssd.uuid)
        });
        // Nobody else watches whether these answer, and a change that waited for one for ever would hold up all others.
        let joining = newcomers.iter().map(async |ssd| {
            let written = async { Ok(self.write_ssd_record(Rc::clone(ssd), kind, number, &bytes).await) };
            ssd.in_time(written).await.unwrap_or(false)
        });
        let (old, new) = join(join_all(writes), join_all(joining)).await;
        let ssds = old.into_iter().filter(|agrees| *agrees).count();
        let state_agrees = match in_time {
            Some(agrees) => agrees,
            // The SSDs are enough, and it does not hold them up.
            None if ssds * 2 > members_before => {
                self.state.leave(state);
                false
            }
            None => self.state.end(state, kind, number, &bytes).await,
        };
        self.numbers.assert_newest(kind, number);
        let agreed = ssds + usize::from(state_agrees);
        assert!(agreed <= members_before, "{agreed} of {members_before} members have {kind:?} record {number}");
        let takes_effect = state_agrees || agreed * 2 > members_before;
        let missed = (!state_agrees).then(|| MissedRecord { number, bytes: takes_effect.then_some(bytes) });
        self.state.note(kind, missed);
        if takes_effect {
            let failed = newcomers.iter().zip(new).find(|(_, agrees)| !agrees);
            return failed.map_or(Ok(()), |(ssd, _)| Err(not_made(ssd, &Fault::Offline)));
        }
        Err(Error::new(
            ErrorKind::Gone,
            format!(
                "pool {}: a change could be recorded on {agreed} of {members_before} members only; \
                 check the state directory and the SSDs, then restart",
                self.pool_name
            ),
        ))
    }

    /// # Errors
    /// `OtherMachine`: somebody else has the SSDs, and what they are is no longer said here.
    pub(super) fn check_is_ours(&self) -> Result<(), Error> {
        if !self.owner().is_taken() {
            return Ok(());
        }
        let message = format!("pool {}: somebody else has its SSDs now; it is changed there", self.pool_name);
        Err(Error::new(ErrorKind::OtherMachine, message))
    }

    fn check_record_fits(&self, kind: RecordKind, bytes: u64, newcomers: &[Rc<Ssd<E>>]) -> Result<(), Error> {
        let areas = self.online_ssds().chain(newcomers).map(|ssd| kind.area(0, ssd.layout.catalogue_area_bytes).1);
        let room = areas.min().unwrap_or(CATALOGUE_AREA_BYTES_MAX);
        if bytes <= room {
            return Ok(());
        }
        let message = format!(
            "pool {}: its catalogue has no room for more volumes; use larger SSDs or another pool",
            self.pool_name
        );
        Err(Error::new(ErrorKind::Refused, message))
    }

    /// The member that is no SSD.
    pub(crate) fn state(&self) -> &Rc<StateDirectory<E>> {
        &self.state
    }

    /// What the state directory did not take is written there again.
    pub(crate) fn watch_state(self: &Rc<Self>) {
        let may = !self.life.is_stopping();
        if self.state.wants_records() && may && !self.writing_state_again.replace(true) {
            let members = Rc::clone(self);
            self.env.spawn(async move {
                for kind in [RecordKind::Catalogue, RecordKind::Members] {
                    let _one_at_a_time = members.one_change().await;
                    if !members.life.is_stopping() {
                        members.state.write_again(kind).await;
                    }
                }
                members.writing_state_again.set(false);
            });
        }
    }

    async fn write_ssd_record(self: &Rc<Self>, ssd: Rc<Ssd<E>>, kind: RecordKind, number: u64, bytes: &[u8]) -> bool {
        let (offset, area_bytes) = kind.area(number % 2, ssd.layout.catalogue_area_bytes);
        let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= area_bytes);
        assert!(fits, "SSD {}: {kind:?} record {number} of {} bytes has no room", ssd.path, bytes.len());
        let result = match ssd.write(Purpose::Record, RECORDS_OFFSET + offset, self.env.buffers().copy_of(bytes)).await
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
}

/// What a record with this payload takes of its area.
pub(crate) fn record_bytes(payload: &[u8]) -> u64 {
    u64::try_from((HEADER_BYTES + payload.len()).next_multiple_of(4096)).expect("an address has 64 bits at most")
}

/// # Panics
/// If `record` does not go on where `before` was: a member that is away would be believed, or one that is here would not.
fn assert_follows(before: &MembersRecord, record: &MembersRecord) {
    assert_eq!(record.kind, before.kind, "a pool became one of another kind");
    assert!(record.epoch >= before.epoch, "epoch {} follows {}", record.epoch, before.epoch);
    assert!(record.session >= before.session, "session {} follows {}", record.session, before.session);
    let uuids = |record: &MembersRecord| record.ssds.iter().map(|member| member.ssd_uuid).collect::<Vec<_>>();
    let same_members = uuids(record) == uuids(before);
    assert!(same_members || record.epoch > before.epoch, "epoch {} has two lists of members", record.epoch);
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

#[cfg(test)]
mod tests {
    use hotset_block::{HostDevice, MemoryDevice};

    use super::*;
    use crate::address::SsdIndex;
    use crate::config::PoolKind;
    use crate::format::members::tests::sample;
    use crate::format::rows::Rows;
    use crate::format::superblock::{self, Superblock};
    use crate::members::newcomer::new_member;
    use crate::pool::open::tests::{with_pool, with_pool_and_state};

    fn follows(change: impl FnOnce(&mut MembersRecord)) {
        let mut record = sample();
        change(&mut record);
        assert_follows(&sample(), &record);
    }

    #[test]
    fn a_members_record_follows_one_that_it_goes_on_from() {
        follows(|_| {});
        follows(|record| record.session += 1);
        follows(|record| {
            record.epoch += 1;
            record.ssds.pop();
        });
    }

    #[test]
    #[should_panic(expected = "epoch 1 follows 2")]
    fn an_epoch_does_not_go_back() {
        follows(|record| record.epoch -= 1);
    }

    #[test]
    #[should_panic(expected = "session 4 follows 5")]
    fn a_session_does_not_go_back() {
        follows(|record| record.session -= 1);
    }

    #[test]
    #[should_panic(expected = "epoch 2 has two lists of members")]
    fn nobody_leaves_without_a_new_epoch() {
        follows(|record| drop(record.ssds.pop()));
    }

    #[test]
    #[should_panic(expected = "a pool became one of another kind")]
    fn a_pool_keeps_its_kind() {
        follows(|record| record.kind = PoolKind::ReadWrite);
    }

    #[test]
    fn a_newcomer_that_does_not_take_its_last_record_is_on_record_nowhere() {
        with_pool_and_state(&[1, 2], async |pool| {
            let superblock = Superblock { ssd_uuid: 3, ..superblock::tests::sample() };
            let device = Rc::new(HostDevice::Memory(MemoryDevice::new(superblock.layout.ssd_bytes, 512)));
            let HostDevice::Memory(memory) = &*device else { panic!("it lies in memory") };
            memory.vanish();
            let index = pool.members.next_index(0);
            let newcomer =
                Rc::new(Ssd::newcomer(pool.env.clone(), index, "new".to_owned(), Rc::clone(&device), &superblock));
            let member = new_member(&pool.env, "new", 3, superblock.layout.ssd_bytes);
            let _one_at_a_time = pool.members.one_change().await;
            pool.members.record_newcomers(vec![member], &[newcomer]).await.expect_err("it is gone");
            for ssd in pool.members.ssds() {
                let read =
                    async |offset, length| Some(ssd.read(RECORDS_OFFSET + offset, Buf::zeroed(length)).await.ok()?);
                let area = ssd.layout.catalogue_area_bytes;
                let record = newest_record(RecordKind::Members, area, None, read).await.expect("it is sound");
                let record = MembersRecord::decode(&record.expect("it was written").payload).expect("it is sound");
                let uuids: Vec<u128> = record.ssds.iter().map(|member| member.ssd_uuid).collect();
                assert_eq!((uuids, record.epoch), (vec![1, 2], pool.members.record().epoch));
            }
        });
    }

    #[test]
    #[should_panic(expected = "2 of 1 members have Rows record 1")]
    fn a_record_is_not_on_more_members_than_there_are() {
        // Both SSDs take it, under one name.
        with_pool(&[1, 1], async |pool| {
            let written = pool.members.write_record(RecordKind::Rows, Rows::default().encode()).await;
            written.expect("the SSDs take it");
        });
    }

    #[test]
    #[should_panic(expected = "SSD ssd-1: Members record 7 of")]
    fn a_record_does_not_reach_into_the_next_one_on_an_ssd() {
        with_pool(&[1, 2], async |pool| {
            let ssd = pool.members.ssd(SsdIndex(0));
            let (_, area_bytes) = RecordKind::Members.area(1, ssd.layout.catalogue_area_bytes);
            let bytes = vec![0; usize::try_from(area_bytes).expect("an area is small") + 4096];
            pool.members.write_ssd_record(Rc::clone(ssd), RecordKind::Members, 7, &bytes).await;
        });
    }
}
