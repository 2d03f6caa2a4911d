//! What is there at a start, before anything is written: the SSDs' superblocks, the newest member records, and who is
//! believed (rule `membership`).

use std::cell::Cell;
use std::rc::Rc;

use hotset_block::{Buf, Device, DeviceError, Env};

use crate::config::{PoolKind, limits};
use crate::error::{Error, ErrorKind, Remedy};
use crate::format::catalogue::Catalogue;
use crate::format::layout::{CATALOGUE_AREA_BYTES_MAX, Layout, RECORDS_OFFSET, STATE_BYTES, STATE_BYTES_MIN};
use crate::format::losses::Losses;
use crate::format::members::{Member, MembersRecord};
use crate::format::owner::Owner;
use crate::format::record::{Record, RecordKind};
use crate::format::rows::{RowRecord, Rows, SegmentCopy};
use crate::format::superblock::Superblock;
use crate::format::witness::Witness;
use crate::format::{FORMAT_VERSION, OtherStream, Unreadable, Unusable};
use crate::members::label::{LABEL_BYTES, Named, has_older_superblock, newest_superblock};
use crate::members::newest::{FoundWitnesses, Numbered, Records};
use crate::members::owner::{Admitted, OpenAdmission, Takeover, admission, dismiss_owner, mark_in};
use crate::members::records::{newest_record, record_bytes};
use crate::members::spare::Spare;
use crate::pool::plan::limit_exceeded;
use crate::reasons::{AllCold, NotUsed, PoolLimit, SpareReason};
use crate::status::SsdStatus;
use crate::time_limit::within;

/// How an open treats SSDs of the pool that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Refuse, naming them; the caller waits and tries again.
    Refuse,
    /// Go on without them: they leave the pool, and what they hold is never believed again. Dirty data is not discarded.
    Leave,
    /// As [`Self::Leave`], and discard the dirty data of which no copy is left, and the proof that what is left is the newest.
    AcceptLoss,
}

/// An SSD whose superblock was read.
pub(crate) struct SurveyedSsd<D> {
    pub(crate) named: Named<D>,
    pub(crate) superblock: Superblock,
    pub(crate) members: Option<Record>,
    pub(crate) catalogue: Option<Record>,
    pub(crate) rows: Option<Record>,
    pub(crate) witness: Option<Record>,
    /// Who has it.
    pub(crate) mark: Option<Owner>,
    /// Its superblock is of an older version.
    pub(crate) is_older: bool,
    /// Why some of its records cannot be read: the newest may be among them.
    unread: Option<Error>,
    /// Why its witness record cannot be read.
    witness_unread: Option<Error>,
}

impl<D> SurveyedSsd<D> {
    pub(crate) fn is_in(&self, members: &MembersRecord) -> bool {
        members.member(self.superblock.ssd_uuid).is_some()
    }
}

/// Everything that a start decides by.
pub(crate) struct Survey<E: Env> {
    pub(crate) pool_uuid: u128,
    pub(crate) found: Vec<SurveyedSsd<E::Device>>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) spares: Vec<Spare<E::Device>>,
    /// Spares that the pool does not know (any more).
    pub(crate) unknown_spares: Vec<SsdStatus>,
    pub(crate) records: Records,
    /// The state directory knows of everything that any SSD knows of.
    state_agrees: bool,
    /// The state directory knows the pool.
    pub(crate) state_knows: bool,
    /// Some member does not have the newest catalogue.
    catalogue_behind: bool,
    /// Why the state directory's witness record cannot be read.
    state_witness_unread: Option<Error>,
    /// A newest record is of an older version of the format.
    older_records: bool,
}

/// Who is in the pool at this start, and who is believed.
pub(crate) struct Membership {
    /// Members that are not there.
    pub(crate) missing: Vec<Member>,
    /// SSDs that are there and are no members (any more): they come back empty.
    pub(crate) returned: Vec<u128>,
    /// The newest catalogue is not everywhere: whoever wrote it may have died before its change took effect.
    pub(crate) catalogue_behind: bool,
    /// Nothing on any SSD is believed, and why.
    pub(crate) all_cold: Option<AllCold>,
    /// Superblocks of an older version, as they are to be written.
    pub(crate) older_superblocks: Vec<Superblock>,
    /// A newest record is of an older version.
    pub(crate) older_records: bool,
}

impl Membership {
    /// The pool is of an older version, or a part of it is.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.older_records || !self.older_superblocks.is_empty()
    }
}

impl<E: Env> Survey<E> {
    /// The survey of somebody who is about to open the pool, and may have to see first that nobody else uses it.
    pub(crate) async fn enter(
        env: &E,
        ssds: Vec<Named<E::Device>>,
        state: Option<&E::Device>,
        missing: Missing,
    ) -> Result<(Self, Admitted), Error> {
        let survey = Self::make(env, ssds, state, missing).await?;
        match survey.admission(env) {
            OpenAdmission::Open(entry) => return Ok((survey, entry)),
            OpenAdmission::Watch => {}
        }
        let Self { found, left_out, unknown_spares, spares, .. } = survey;
        let again = |spare: Spare<E::Device>| {
            let device = spare.device.and_then(Rc::into_inner)?;
            Some(Named { path: spare.path, device })
        };
        let spares = spares.into_iter().filter_map(again);
        let named: Vec<_> = found.into_iter().map(|ssd| ssd.named).chain(spares).collect();
        dismiss_owner(env, &named, Takeover::Own).await?;
        let mut survey = Self::make(env, named, state, missing).await?;
        survey.left_out.extend(left_out);
        survey.unknown_spares.extend(unknown_spares);
        match survey.admission(env) {
            OpenAdmission::Open(entry) => Ok((survey, entry)),
            OpenAdmission::Watch => {
                let message = "somebody else has begun to use the SSDs while they were looked at; try again";
                Err(Error::new(ErrorKind::OtherMachine, message))
            }
        }
    }

    fn admission(&self, env: &E) -> OpenAdmission {
        let marks = self.found.iter().map(|ssd| (ssd.superblock.ssd_uuid, ssd.mark.clone())).collect();
        admission(&env.machine(), marks)
    }

    /// Reads all that; `Err` if no pool can be made of it.
    pub(crate) async fn make(
        env: &E,
        ssds: Vec<Named<E::Device>>,
        state: Option<&E::Device>,
        missing: Missing,
    ) -> Result<Self, Error> {
        let (mut found, left_out) = look_at_all(env, ssds, missing).await?;
        // Where the state directory knows the pool, a read pool goes on without any of its SSDs.
        if found.is_empty() && state.is_none() && !left_out.is_empty() {
            return Err(none_readable(&left_out));
        }
        let uuid = common_pool(&found)?;
        let state_members = state_record::<E>(env, state, missing, RecordKind::Members, uuid).await?;
        let state_catalogue = state_record::<E>(env, state, missing, RecordKind::Catalogue, uuid).await?;
        let state_rows = state_record::<E>(env, state, missing, RecordKind::Rows, uuid).await?;
        let ssd_members = found.iter().filter_map(|ssd| ssd.members.as_ref()).max_by_key(|record| record.number);
        let members_agree = is_as_new(state_members.as_ref(), ssd_members);
        let newest = latest(state_members.as_ref(), ssd_members).ok_or_else(|| {
            let message = "no member of the pool has a valid members record: the pool cannot be opened; \
                           create it anew (a read pool holds nothing that the backing devices do not)";
            Error::new(ErrorKind::Corrupt, message)
        })?;
        let members = MembersRecord::decode(&newest.payload).map_err(|error| corrupt(&error))?;
        check_geometry(&found, &members)?;
        let (pool_uuid, members_number) = (newest.pool_uuid, newest.number);
        let mut older_records = newest.version < FORMAT_VERSION;
        let (spares, unknown_spares) = take_spares(&mut found, &members);
        // What left the pool has no say in it any more.
        let voters = || found.iter().filter(|ssd| ssd.is_in(&members));
        let ssd_catalogue = voters().filter_map(|ssd| ssd.catalogue.as_ref()).max_by_key(|record| record.number);
        let ssd_rows = voters().filter_map(|ssd| ssd.rows.as_ref()).max_by_key(|record| record.number);
        let catalogue_agrees = is_as_new(state_catalogue.as_ref(), ssd_catalogue);
        let state_agrees = state_members.is_some() && members_agree && catalogue_agrees;
        let newest = latest(state_catalogue.as_ref(), ssd_catalogue);
        older_records |= newest.is_some_and(|record| record.version < FORMAT_VERSION);
        let catalogue = match newest {
            Some(record) => Catalogue::decode(&record.payload).map_err(|error| corrupt(&error))?,
            None => Catalogue { next_attachment: 1, volumes: Vec::new() },
        };
        let numbers = voters().map(|ssd| ssd.catalogue.as_ref()).chain([state_catalogue.as_ref()]);
        let catalogue_behind =
            numbers.map(|record| record.map(|record| record.number)).any(|number| number != newest.map(|r| r.number));
        // Above those of SSDs that left too, which may come back to be written over.
        let catalogue_number = highest(state_catalogue.as_ref(), found.iter().map(|ssd| ssd.catalogue.as_ref()));
        let newest = latest(state_rows.as_ref(), ssd_rows);
        older_records |= newest.is_some_and(|record| record.version < FORMAT_VERSION);
        let rows = match newest {
            Some(record) => Rows::decode(record.version, &record.payload)
                .map_err(|error| Error::unreadable("the newest record", &error))?,
            None => Rows::default(),
        };
        check_rows(&members, &rows)?;
        let newest_rows_number = newest.map_or(0, |record| record.number);
        let rows_number = highest(state_rows.as_ref(), found.iter().map(|ssd| ssd.rows.as_ref()));
        let with_losses = state.filter(|state| state.info().size_bytes >= STATE_BYTES);
        let losses = state_record::<E>(env, with_losses, missing, RecordKind::Losses, Some(pool_uuid)).await?;
        let losses_number = losses.as_ref().map_or(0, |record| record.number);
        let losses = match losses {
            Some(record) => Losses::decode(&record.payload).map_err(|error| corrupt(&error))?,
            None => Losses::default(),
        };
        let (state_witness, unread) = read_state_record::<E>(env, state, RecordKind::Witness, Some(pool_uuid)).await?;
        let state_witness_unread = unread.map(|error| accept_unread(missing, &error)).transpose()?;
        let records = Records {
            members: Numbered { number: members_number, value: members },
            catalogue: Numbered { number: catalogue_number, value: catalogue },
            rows: Numbered { number: rows_number, value: rows },
            rows_newest: newest_rows_number,
            losses: Numbered { number: losses_number, value: losses },
            witnesses: witnesses_of(&found, state_witness.as_ref()),
        };
        Ok(Self {
            pool_uuid,
            found,
            left_out,
            spares,
            unknown_spares,
            records,
            state_agrees,
            state_knows: state_members.is_some(),
            catalogue_behind,
            state_witness_unread,
            older_records,
        })
    }

    /// Who is in the pool and who is believed.
    pub(crate) fn membership(&self) -> Membership {
        let (found, members) = (&self.found, &self.records.members.value);
        let is_there = |member: &&Member| found.iter().any(|ssd| ssd.superblock.ssd_uuid == member.ssd_uuid);
        let missing: Vec<Member> = members.ssds.iter().filter(|member| !is_there(member)).cloned().collect();
        let uuids = found.iter().map(|ssd| ssd.superblock.ssd_uuid);
        let returned = uuids.filter(|uuid| members.member(*uuid).is_none()).collect();
        let all_cold = if !self.state_agrees {
            Some(AllCold::StateIsBehind)
        } else if !self.is_proven() {
            let (present, all) = self.votes();
            Some(AllCold::FewMembers { present, all })
        } else if self.misses_superseding() {
            Some(AllCold::SupersedingLost)
        } else if self.witness_unread().is_some() {
            Some(AllCold::WitnessUnread)
        } else {
            None
        };
        let older = self.found.iter().filter(|ssd| ssd.is_older);
        let older_superblocks = older.map(|ssd| ssd.superblock.clone()).collect();
        Membership {
            missing,
            returned,
            catalogue_behind: self.catalogue_behind,
            all_cold,
            older_superblocks,
            older_records: self.older_records,
        }
    }

    /// Members that are there and can be read, and all of them. A state directory that knows nothing proves nothing.
    fn votes(&self) -> (usize, usize) {
        let read = self.members_found().filter(|ssd| ssd.unread.is_none()).count() + usize::from(self.state_knows);
        (read, self.records.members.value.ssds.len() + 1)
    }

    fn members_found(&self) -> impl Iterator<Item = &SurveyedSsd<E::Device>> {
        self.found.iter().filter(|ssd| ssd.is_in(&self.records.members.value))
    }

    /// Members that are there, and of which nobody knows whether they have something newer.
    fn unread(&self) -> impl Iterator<Item = (&SurveyedSsd<E::Device>, &Error)> {
        self.members_found().filter_map(|ssd| Some((ssd, ssd.unread.as_ref()?)))
    }

    /// The newest records that were read are the pool's newest: a majority of its members is there, and no record took effect on those
    /// alone that are not there or cannot be read.
    pub(crate) fn is_proven(&self) -> bool {
        let (read, all) = self.votes();
        let present = read + self.unread().count();
        present * 2 > all && (all - read) * 2 <= all
    }

    /// A record cannot be read that may be newer than all that were, or may say that another SSD lost something: another time it may be.
    pub(crate) fn check_read(&self) -> Result<(), Error> {
        let first = self.unread().map(|(_, error)| error).next().filter(|_| !self.is_proven());
        first.or(self.witness_unread()).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Why a member cannot say how far the others had come, which nobody else may know: each has a record of its own.
    fn witness_unread(&self) -> Option<&Error> {
        self.members_found().find_map(|ssd| ssd.witness_unread.as_ref()).or(self.state_witness_unread.as_ref())
    }

    /// Dirty data is believed only if a majority of the members agrees on it, and SSDs that are no members are not
    /// touched while there is any. Takes those out; answers what the status says of them.
    pub(crate) fn protect_dirty_data(&mut self, accepts_loss: bool) -> Result<Vec<SsdStatus>, Error> {
        if self.records.members.value.kind == PoolKind::Read {
            return Ok(Vec::new());
        }
        let members = &self.records.members.value;
        if !self.is_proven() && !accepts_loss {
            let (present, all) = self.votes();
            let is_there = |member: &Member| self.found.iter().any(|ssd| ssd.superblock.ssd_uuid == member.ssd_uuid);
            let missing: Vec<&Member> = members.ssds.iter().filter(|member| !is_there(member)).collect();
            let unread = || self.unread();
            let paths: Vec<&str> = missing
                .iter()
                .map(|member| member.path.as_str())
                .chain(unread().map(|(ssd, _)| ssd.named.path.as_str()))
                .collect();
            let unread: String = unread().map(|(_, error)| format!("; {error}")).collect();
            let reasons = self.reasons_of(missing.iter().copied()) + &unread;
            let state = (!self.state_knows).then_some("the state directory");
            let wanted = match (paths.join(", "), state) {
                (ssds, None) => format!("{ssds} as they were"),
                (ssds, Some(state)) if ssds.is_empty() => format!("{state} as it was"),
                (ssds, Some(state)) => format!("{ssds} as they were, or {state}"),
            };
            let message = format!(
                "pool {}: only {present} of its {all} members are there and can be read, which cannot prove its newest state: bring back \
                 {wanted}{reasons}",
                members.name
            );
            return Err(Error::new(ErrorKind::Gone, message));
        }
        if self.records.rows.value.rows.is_empty() && !self.records.lack_losses() {
            return Ok(Vec::new());
        }
        let found = std::mem::take(&mut self.found);
        let members = &self.records.members.value;
        // What is listed of those that left is all that is taken from them.
        let (kept, unexpected): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|ssd| ssd.is_in(members) || self.is_listed(ssd));
        self.found = kept;
        Ok(unexpected.iter().map(|ssd| status_of_other(ssd, NotUsed::LeftEarlier)).collect())
    }

    /// What is back and would not be let in by a join, because the pool has no room for it, does not come in by a start either. Takes that
    /// out, above all what nothing is listed of; answers what the status says of it.
    pub(crate) fn leave_out_excess(&mut self) -> Vec<SsdStatus> {
        let catalogue_bytes = record_bytes(&self.records.catalogue.value.encode());
        let members = &self.records.members.value;
        let found = std::mem::take(&mut self.found);
        let (kept, mut back): (Vec<_>, Vec<_>) = found.into_iter().partition(|ssd| ssd.is_in(members));
        back.sort_by_key(|ssd| !self.is_listed(ssd));
        let slots_of = |ssd: &SurveyedSsd<E::Device>| u64::from(ssd.superblock.layout.slot_count());
        let (mut ssds, mut slots) = (members.ssds.len(), kept.iter().map(slots_of).sum::<u64>());
        self.found = kept;
        let mut excess = Vec::new();
        for ssd in back {
            let is_small = catalogue_bytes > ssd.superblock.layout.catalogue_area_bytes;
            let limit = limit_exceeded(ssds + 1, slots + slots_of(&ssd));
            match limit.or(is_small.then_some(PoolLimit::Catalogue)) {
                Some(limit) => excess.push(status_of_other(&ssd, NotUsed::NoRoom { limit })),
                None => {
                    (ssds, slots) = (ssds + 1, slots + slots_of(&ssd));
                    self.found.push(ssd);
                }
            }
        }
        excess
    }

    /// It has what is listed as unavailable.
    fn is_listed(&self, ssd: &SurveyedSsd<E::Device>) -> bool {
        self.records.known_losses().is_some_and(|losses| losses.names(ssd.superblock.ssd_uuid))
    }

    /// Of every segment of every live row a copy is there, or both are on record as lost; else nothing is changed, above all
    /// not who is a member, for the SSD that is missed may come back with the only one.
    pub(crate) fn check_copies(&self) -> Result<(), Error> {
        self.missed_segment().map_or(Ok(()), |(row, pair)| Err(self.no_copy(row, pair)))
    }

    /// A segment of which no copy is there, although one is not on record as lost.
    fn missed_segment(&self) -> Option<(&RowRecord, &[SegmentCopy; 2])> {
        self.missed_segments(&[]).next()
    }

    /// Without these SSDs, a segment has no copy, and one of them has it.
    pub(crate) fn misses(&self, ssds: &[u128]) -> bool {
        let has = |copy: &SegmentCopy| !copy.lost && ssds.contains(&copy.ssd_uuid);
        self.missed_segments(ssds).any(|(_, pair)| pair.iter().any(has))
    }

    /// Segments of which no copy is there, without these SSDs, although one is not on record as lost.
    fn missed_segments(&self, without: &[u128]) -> impl Iterator<Item = (&RowRecord, &[SegmentCopy; 2])> {
        let is_here =
            |uuid: u128| !without.contains(&uuid) && self.found.iter().any(|ssd| ssd.superblock.ssd_uuid == uuid);
        let is_there = move |copy: &SegmentCopy| !copy.lost && is_here(copy.ssd_uuid);
        let is_missed =
            move |pair: &[SegmentCopy; 2]| !pair.iter().any(&is_there) && !pair.iter().all(|copy| copy.lost);
        let pairs =
            self.records.rows.value.rows.iter().flat_map(|row| row.segments.iter().map(move |pair| (row, pair)));
        pairs.filter(move |(_, pair)| is_missed(pair))
    }

    /// Slots may hold what a part of the write log superseded that is not there, and that no record lists.
    fn misses_superseding(&self) -> bool {
        self.missed_segment().is_some() || self.records.lack_losses()
    }

    fn no_copy(&self, row: &RowRecord, pair: &[SegmentCopy; 2]) -> Error {
        let path = |copy: &SegmentCopy| match self.records.members.value.member(copy.ssd_uuid) {
            Some(member) => member.path.clone(),
            None => format!("{:032x}", copy.ssd_uuid),
        };
        let wanted: Vec<String> = pair.iter().filter(|copy| !copy.lost).map(path).collect();
        let members = pair.iter().filter_map(|copy| self.records.members.value.member(copy.ssd_uuid));
        let message = format!(
            "pool {}: no copy of row {} of its write log is there, whose data may be newer than the backing devices': its \
             volumes are not served, and nothing is lost. Bring back SSD {} as it was, then restart; or discard what \
             only they hold{}",
            self.records.members.value.name,
            row.number,
            wanted.join(" or "),
            self.reasons_of(members)
        );
        Error::new(ErrorKind::Gone, message).with_remedy(Remedy::GoOnWithoutMissing)
    }

    pub(crate) fn missing_error(&self, missing: &[Member]) -> Error {
        let told = |member: &Member| match self.reason_of(member) {
            Some(error) => format!("{} ({error})", member.path),
            None => member.path.clone(),
        };
        let told: Vec<String> = missing.iter().map(told).collect();
        let message = format!("pool {}: missing SSD(s): {}", self.records.members.value.name, told.join(", "));
        Error::new(ErrorKind::Missing, message)
    }

    /// Why a member counts as missing although its device is there.
    fn reason_of(&self, member: &Member) -> Option<&Error> {
        self.left_out.iter().find(|(path, _)| *path == member.path).map(|(_, error)| error)
    }

    /// The reasons of these, to be added to a message.
    fn reasons_of<'a>(&self, members: impl Iterator<Item = &'a Member>) -> String {
        members.filter_map(|member| self.reason_of(member)).map(|error| format!("; {error}")).collect()
    }

    /// What the status says of a member that is not there.
    pub(crate) fn absent_status(&self, member: &Member) -> SsdStatus {
        let why = self.reason_of(member).map_or(NotUsed::Missing, |error| NotUsed::LeftOut(error.clone()));
        let unused = SsdStatus::unused(&member.path, member.ssd_uuid, member.size_bytes, why);
        SsdStatus { missing: true, ..unused }
    }
}

fn status_of_other<D>(ssd: &SurveyedSsd<D>, why: NotUsed) -> SsdStatus {
    let superblock = &ssd.superblock;
    SsdStatus::unused(&ssd.named.path, superblock.ssd_uuid, superblock.layout.ssd_bytes, why)
}

/// Takes the spares out of what was found: those that the members record names, there or not; and those that it does not.
/// Where the record names an SSD as a spare, it is one, whatever its superblock says: it was about to take over.
fn take_spares<D>(found: &mut Vec<SurveyedSsd<D>>, members: &MembersRecord) -> (Vec<Spare<D>>, Vec<SsdStatus>) {
    let known = |ssd: &SurveyedSsd<D>| members.spares.iter().any(|spare| spare.uuid == ssd.superblock.ssd_uuid);
    let is_spare = |ssd: &SurveyedSsd<D>| ssd.superblock.spare && members.member(ssd.superblock.ssd_uuid).is_none();
    let all = std::mem::take(found);
    let (here, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(known);
    let (unknown_spares, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(is_spare);
    *found = rest;
    let mut here: Vec<_> = here.into_iter().map(|ssd| (ssd.superblock.ssd_uuid, ssd.named)).collect();
    let spares = members.spares.iter().map(|spare| {
        let place = here.iter().position(|(uuid, _)| *uuid == spare.uuid);
        let named = place.map(|place| here.swap_remove(place).1);
        let path = named.as_ref().map_or_else(|| spare.path.clone(), |named| named.path.clone());
        let (uuid, size_bytes) = (spare.uuid, spare.size_bytes);
        let reason = named.is_none().then_some(SpareReason::Missing);
        Spare { uuid, size_bytes, path, device: named.map(|named| Rc::new(named.device)), reason }
    });
    let unknown = unknown_spares.iter().map(|ssd| status_of_other(ssd, NotUsed::UnknownSpare));
    (spares.collect(), unknown.collect())
}

fn is_as_new(state: Option<&Record>, ssd: Option<&Record>) -> bool {
    state.map(|record| record.number) >= ssd.map(|record| record.number)
}

/// A read pool has no write log.
fn check_rows(members: &MembersRecord, rows: &Rows) -> Result<(), Error> {
    if members.kind == PoolKind::ReadWrite || rows.rows.is_empty() {
        return Ok(());
    }
    let message = format!("pool {} is a read pool, but its records name a write log", members.name);
    Err(Error::new(ErrorKind::Corrupt, message))
}

/// The superblocks say where slots lie, the members record how large they are: they must be of one mind.
fn check_geometry<D>(found: &[SurveyedSsd<D>], members: &MembersRecord) -> Result<(), Error> {
    for ssd in found {
        let (superblock, settings) = (&ssd.superblock, &members.settings);
        let same = superblock.kind == members.kind
            && superblock.layout.block_bytes == settings.block_bytes
            && superblock.checksums == settings.checksums;
        if !same {
            let message =
                format!("SSD {}: its superblock and the pool's members record contradict each other", ssd.named.path);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
    }
    Ok(())
}

fn corrupt(error: &crate::format::Corrupt) -> Error {
    Error::new(ErrorKind::Corrupt, error.to_string())
}

fn highest<'a>(state: Option<&'a Record>, ssds: impl Iterator<Item = Option<&'a Record>>) -> u64 {
    ssds.chain([state]).flatten().map(|record| record.number).max().unwrap_or(0)
}

/// The newer of two records; the state directory's if they have one number.
fn latest<'a>(state: Option<&'a Record>, ssd: Option<&'a Record>) -> Option<&'a Record> {
    [ssd, state].into_iter().flatten().max_by_key(|record| record.number)
}

/// The path of an SSD that cannot be used, and why.
pub(crate) type LeftOut = (String, Error);

/// Why there is no SSD at all.
pub(crate) fn none_readable(left_out: &[LeftOut]) -> Error {
    let reasons: Vec<String> = left_out.iter().map(|(_, error)| error.to_string()).collect();
    let kind = left_out.first().map_or(ErrorKind::Invalid, |(_, error)| error.kind);
    Error::new(kind, reasons.join("; "))
}

/// Looks at every SSD. One that fails, does not answer or is not what it was is refused like one that is missing, or
/// left out like it; one of a later format is always refused: what it holds is good.
async fn look_at_all<E: Env>(
    env: &E,
    ssds: Vec<Named<E::Device>>,
    missing: Missing,
) -> Result<(Vec<SurveyedSsd<E::Device>>, Vec<LeftOut>), Error> {
    let mut found = Vec::new();
    let mut left_out = Vec::new();
    for named in ssds {
        let path = named.path.clone();
        let looked = within(env, limits::SSD_TIMEOUT, look_at(env, named)).await;
        let seconds = limits::SSD_TIMEOUT.as_secs();
        let silent = || Err(Error::new(ErrorKind::Gone, format!("SSD {path} did not answer for {seconds} s")));
        match looked.unwrap_or_else(silent) {
            Ok(ssd) => found.push(ssd),
            Err(error) if error.kind.needs_later_hotset() => return Err(error),
            Err(error) => match missing {
                Missing::Refuse => return Err(error),
                Missing::Leave | Missing::AcceptLoss => left_out.push((path, error)),
            },
        }
    }
    Ok((found, left_out))
}

/// The device can hold what its SSD was laid out for: it has as many bytes, and takes blocks as small.
pub(crate) fn check_shape<D: Device>(named: &Named<D>, layout: &Layout) -> Result<(), Error> {
    let (path, info) = (&named.path, named.device.info());
    let wrong = |message: String| Err(Error::new(ErrorKind::Corrupt, format!("SSD {path} {message}")));
    if layout.ssd_bytes > info.size_bytes {
        let (before, now) = (layout.ssd_bytes, info.size_bytes);
        return wrong(format!(
            "was {before} bytes and is {now} bytes now: it was cut short; give it its size back or leave it out"
        ));
    }
    if !layout.sector_bytes.is_multiple_of(info.logical_block_bytes) {
        let (before, now) = (layout.sector_bytes, info.logical_block_bytes);
        return wrong(format!(
            "was laid out for blocks of {before} bytes, and its device takes blocks of {now} bytes and no smaller ones: nothing of it is lost; put \
             it where blocks of {before} bytes are taken, as where it was before"
        ));
    }
    Ok(())
}

/// Reads an SSD's superblock and its newest records.
async fn look_at<E: Env>(env: &E, named: Named<E::Device>) -> Result<SurveyedSsd<E::Device>, Error> {
    let (bytes, read) = named.device.read(0, env.buffers().take(LABEL_BYTES)).await;
    read.map_err(|error| Error::device(&format!("SSD {}", named.path), &error))?;
    let what = format!("SSD {}", named.path);
    let superblock = newest_superblock(&bytes).map_err(|error| Error::unusable(&what, &error))?;
    let Some(superblock) = superblock else {
        let message = format!("{} carries no Hotset superblock: it is not an SSD of a pool", named.path);
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    check_shape(&named, &superblock.layout)?;
    let (mark, is_older) = (mark_in(&bytes, superblock.ssd_uuid), has_older_superblock(&bytes));
    let area = superblock.layout.catalogue_area_bytes;
    let uuid = Some(superblock.pool_uuid);
    let records = RecordsOn::<E>::ssd(env, &named.device, area);
    let members = records.newest(RecordKind::Members, uuid).await;
    let catalogue = records.newest(RecordKind::Catalogue, uuid).await;
    let rows = records.newest(RecordKind::Rows, uuid).await;
    let unread = records.unread.take().map(|error| Error::device(&format!("{what}, member records"), &error));
    let witness = records.newest(RecordKind::Witness, uuid).await;
    let witness_unread = records.unread.take().map(|error| {
        let why = "how far the other SSDs had come cannot be read from it, and what they hold may be old; see to it, or go on with a cold cache";
        Error::device(&format!("{what}: {why}"), &error)
    });
    if superblock.spare {
        // What it holds from an earlier time in the pool is nobody's word.
        return Ok(SurveyedSsd {
            named,
            superblock,
            members: None,
            catalogue: None,
            rows: None,
            witness: None,
            mark,
            is_older,
            unread: None,
            witness_unread: None,
        });
    }
    let members = known(&what, RecordKind::Members, members)?;
    let catalogue = known(&what, RecordKind::Catalogue, catalogue)?;
    let (rows, witness) = (known(&what, RecordKind::Rows, rows)?, known(&what, RecordKind::Witness, witness)?);
    Ok(SurveyedSsd { named, superblock, members, catalogue, rows, witness, mark, is_older, unread, witness_unread })
}

/// The member records on a device.
struct RecordsOn<'a, E: Env> {
    env: &'a E,
    device: &'a E::Device,
    /// Where they begin.
    start: u64,
    catalogue_area_bytes: u64,
    /// Why one could not be read, since this was taken last.
    unread: Cell<Option<DeviceError>>,
}

impl<'a, E: Env> RecordsOn<'a, E> {
    fn ssd(env: &'a E, device: &'a E::Device, catalogue_area_bytes: u64) -> Self {
        Self { env, device, start: RECORDS_OFFSET, catalogue_area_bytes, unread: Cell::default() }
    }

    fn state(env: &'a E, device: &'a E::Device) -> Self {
        let catalogue_area_bytes = CATALOGUE_AREA_BYTES_MAX;
        Self { env, device, start: 0, catalogue_area_bytes, unread: Cell::default() }
    }

    /// Of those that can be read.
    async fn newest(&self, kind: RecordKind, uuid: Option<u128>) -> Result<Option<Record>, Unusable> {
        let read = async |offset: u64, length: usize| {
            let (buf, result) = self.device.read(self.start + offset, self.env.buffers().take(length)).await;
            result.map_err(|error| self.unread.set(Some(error))).ok().map(|()| buf)
        };
        newest_record(kind, self.catalogue_area_bytes, uuid, read).await
    }
}

/// A member's record. One that is broken is none; what a later Hotset wrote is not passed over.
fn known(what: &str, kind: RecordKind, record: Result<Option<Record>, Unusable>) -> Result<Option<Record>, Error> {
    if let Ok(Some(record)) = &record
        && let Some(other) = other_stream(kind, record)
    {
        return Err(Error::unreadable(what, &Unreadable::OtherStream(other)));
    }
    match record {
        Ok(record) => Ok(record),
        Err(Unusable::Corrupt(_)) => Ok(None),
        Err(Unusable::Newer(newer)) => Err(Error::unusable(what, &Unusable::Newer(newer))),
    }
}

/// The stream that a record names and that this version does not know. What else is wrong in it is told when it is the newest.
fn other_stream(kind: RecordKind, record: &Record) -> Option<OtherStream> {
    let decoded = match kind {
        RecordKind::Rows => Rows::decode(record.version, &record.payload).map(drop),
        RecordKind::Witness => Witness::decode(record.version, &record.payload).map(drop),
        RecordKind::Members | RecordKind::Catalogue | RecordKind::Losses => Ok(()),
    };
    match decoded {
        Err(Unreadable::OtherStream(other)) => Some(other),
        Ok(()) | Err(Unreadable::Corrupt(_)) => None,
    }
}

pub(crate) async fn read_at<E: Env>(env: &E, device: &E::Device, offset: u64, length: usize) -> Option<Buf> {
    let (buf, result) = device.read(offset, env.buffers().take(length)).await;
    result.ok().map(|()| buf)
}

/// The newest record of a kind in the state directory. One that cannot be read is not taken for none, for it may be read the next time, and
/// what is recorded until then would say that there was none; unless somebody accepts that.
pub(crate) async fn state_record<E: Env>(
    env: &E,
    state: Option<&E::Device>,
    missing: Missing,
    kind: RecordKind,
    uuid: Option<u128>,
) -> Result<Option<Record>, Error> {
    let (record, unread) = read_state_record::<E>(env, state, kind, uuid).await?;
    unread.map(|error| accept_unread(missing, &error)).transpose()?;
    Ok(record)
}

/// The newest record of a kind in the state directory of those that can be read; and why one cannot.
async fn read_state_record<E: Env>(
    env: &E,
    state: Option<&E::Device>,
    kind: RecordKind,
    uuid: Option<u128>,
) -> Result<(Option<Record>, Option<DeviceError>), Error> {
    let state = state.filter(|state| state.info().size_bytes >= STATE_BYTES_MIN);
    let Some(state) = state else { return Ok((None, None)) };
    let records = RecordsOn::<E>::state(env, state);
    let record = records.newest(kind, uuid).await;
    let record = known("the state directory's member file", kind, record)?;
    Ok((record, records.unread.take()))
}

/// Answers why a record of the state directory cannot be read, where somebody accepts that.
fn accept_unread(missing: Missing, error: &DeviceError) -> Result<Error, Error> {
    let message = "see to the disk of the state directory: the pool's member file there cannot be read";
    let why = Error::device(message, error);
    match missing {
        Missing::Refuse | Missing::Leave => Err(why),
        Missing::AcceptLoss => Ok(why),
    }
}

/// See [`crate::pool::ssds_awaited`].
pub(crate) async fn ssds_awaited<E: Env>(env: &E, state: &E::Device) -> Result<Vec<u128>, Error> {
    let rows = state_record::<E>(env, Some(state), Missing::Leave, RecordKind::Rows, None).await?;
    let asked =
        rows.and_then(|record| Rows::decode(record.version, &record.payload).ok()).map_or(0, |rows| rows.losses);
    if asked == 0 || state.info().size_bytes < STATE_BYTES {
        return Ok(Vec::new());
    }
    let losses = state_record::<E>(env, Some(state), Missing::Leave, RecordKind::Losses, None).await?;
    let losses = losses.filter(|record| record.number >= asked);
    let losses = losses.and_then(|record| Losses::decode(&record.payload).ok()).unwrap_or_default();
    Ok(losses.ssds.into_iter().map(|(ssd_uuid, _)| ssd_uuid).collect())
}

/// The pool to which all SSDs belong; `None` without SSDs.
fn common_pool<D>(found: &[SurveyedSsd<D>]) -> Result<Option<u128>, Error> {
    let Some(first) = found.first() else { return Ok(None) };
    for (index, other) in found.iter().enumerate() {
        if other.superblock.pool_uuid != first.superblock.pool_uuid {
            let message = format!(
                "{} belongs to pool {}, {} to pool {}: give the SSDs of one pool",
                first.named.path, first.superblock.pool_name, other.named.path, other.superblock.pool_name
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let twin = found[..index].iter().find(|before| before.superblock.ssd_uuid == other.superblock.ssd_uuid);
        if let Some(twin) = twin {
            let message = format!("{} and {} are copies of one SSD: leave one out", twin.named.path, other.named.path);
            return Err(Error::new(ErrorKind::Refused, message));
        }
    }
    Ok(Some(first.superblock.pool_uuid))
}

fn witnesses_of<D>(found: &[SurveyedSsd<D>], state: Option<&Record>) -> FoundWitnesses {
    let number = |record: Option<&Record>| record.map_or(0, |record| record.number);
    let mut records: Vec<&Record> = found.iter().filter_map(|ssd| ssd.witness.as_ref()).chain(state).collect();
    records.sort_by_key(|record| record.number);
    FoundWitnesses {
        // One that is broken is none: it only ever takes belief away.
        seen: Witness::merged(
            records.iter().filter_map(|record| Witness::decode(record.version, &record.payload).ok()),
        ),
        number: number(records.last().copied()),
        ssds: found.iter().map(|ssd| (ssd.superblock.ssd_uuid, number(ssd.witness.as_ref()))).collect(),
        state: number(state),
    }
}
