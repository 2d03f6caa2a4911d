//! A pool's SSDs, looked at without a daemon: what is on them, whether it is whole, and the dirty data written to where it
//! belongs. For the day when all else failed. Nothing is ever written to an SSD here: what is read is read by the scan of a start, which cannot
//! write.

use std::rc::Rc;

use hotset_block::{Device, Env, Likeness, likeness};

use crate::address::{SsdIndex, VolumeIndex};
use crate::attachments::identity::{judged, was_written};
use crate::config::{PAGE, PoolKind, PoolName, VolumeName, limits};
use crate::error::{Error, ErrorKind, Remedy};
use crate::format::catalogue::{Catalogue, CataloguedVolume};
use crate::format::crc64;
use crate::format::record::RecordKind;
use crate::log::overlay::{Content, PAGES_MAX};
use crate::log::read_copies::{count_good_copies, read_run};
use crate::log::run::LogRun;
use crate::log::scan::{LogScan, MissingPart};
use crate::log::stream::StreamMark;
use crate::log::write_log::WriteLog;
use crate::members::label::{LABEL_BYTES, Named, newest_superblock};
use crate::members::newest::Records;
use crate::members::reading::ReadSsds;
use crate::members::roster::Roster;
use crate::members::ssd::Ssd;
use crate::pool::survey::{LeftOut, Missing, Survey, SurveyedSsd, none_readable, state_record};
use crate::time_limit::within;
use crate::volume::backing::Backing;

/// Pages that are looked at in one piece.
const PIECE_PAGES: u64 = 256;

/// What lies on the SSDs of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub pool: PoolName,
    pub pool_uuid: u128,
    pub kind: PoolKind,
    pub epoch: u64,
    /// The pool was stopped cleanly.
    pub clean_stop: bool,
    /// The state directory's copy of the pool was read, too. Else, if the pool went on without these SSDs, only that may know, and
    /// what they hold is old.
    pub state_read: bool,
    pub ssds: Vec<ReportedSsd>,
    pub volumes: Vec<ReportedVolume>,
    /// What is wrong, or cannot be known from what is here alone.
    pub problems: Vec<String>,
    /// Those of them that say that hosts may have written newer data than what is found here: to write that over what the
    /// backing devices hold may bring an old state back.
    pub doubts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedSsd {
    pub path: String,
    pub uuid: u128,
    /// It was given; else the pool knows of it, and it is missing here.
    pub present: bool,
    /// The newest members record names it; what others hold is not believed.
    pub member: bool,
    /// It is none, and has copies of what is unavailable ([`ReportedVolume::unavailable_bytes`]): those are believed.
    pub awaited: bool,
    /// It was given, and why it cannot be read.
    pub unreadable: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedVolume {
    pub name: VolumeName,
    /// The backing device as it was spelled.
    pub backing: String,
    pub size_bytes: u64,
    pub dirty_bytes: u64,
    /// Of them, what the state directory lists as unavailable: since the SSDs that have it left the pool, nobody wrote it. What is
    /// here of it is as good as the rest.
    pub unavailable_bytes: u64,
    /// The dirty stretches in order: first byte and length, at most [`EXTENTS_MAX`] of them.
    pub dirty_extents: Vec<(u64, u64)>,
}

/// Dirty stretches that a report lists for a volume at most.
pub const EXTENTS_MAX: usize = 1000;

/// How the copies of dirty data stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub dirty_bytes: u64,
    /// Bytes of which a copy has the right checksum.
    pub good_bytes: u64,
    /// Bytes of which a copy is missing or wrong.
    pub one_copy_bytes: u64,
    /// Bytes of which no copy is right.
    pub lost_bytes: u64,
    /// Bytes that the state directory lists as unavailable.
    pub unavailable_bytes: u64,
    /// Those of them of which a copy is here, with the right checksum.
    pub found_bytes: u64,
}

/// What was written to a backing device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    pub written_bytes: u64,
    /// Bytes of which no copy is right: they stay on the backing device as they were.
    pub lost_bytes: u64,
}

/// What there is of a pool.
pub struct Given<D> {
    pub ssds: Vec<Named<D>>,
    /// SSDs that cannot be opened, by their paths, and why.
    pub unopened: Vec<(String, Error)>,
    /// The state directory's copy of the pool.
    pub state: Option<D>,
}

impl<D> From<Vec<Named<D>>> for Given<D> {
    fn from(ssds: Vec<Named<D>>) -> Self {
        Self { ssds, unopened: Vec::new(), state: None }
    }
}

/// The one of these member files of a state directory that is of the pool to which the SSDs belong.
pub async fn state_of_pool<E: Env>(env: &E, ssds: &[Named<E::Device>], members: Vec<E::Device>) -> Option<E::Device> {
    let mut pool_uuid = None;
    for ssd in ssds {
        let label = within(env, limits::SSD_TIMEOUT, ssd.device.read(0, env.buffers().take(LABEL_BYTES))).await;
        let Some((bytes, Ok(()))) = label else { continue };
        if let Ok(Some(superblock)) = newest_superblock(&bytes) {
            pool_uuid = Some(superblock.pool_uuid);
            break;
        }
    }
    for member in members {
        match state_record::<E>(env, Some(&member), Missing::AcceptLoss, RecordKind::Members, Some(pool_uuid?)).await {
            Ok(None) => {}
            // One of a later version is the pool's too: who opens it says so.
            Ok(Some(_)) | Err(_) => return Some(member),
        }
    }
    None
}

/// An opened set of SSDs.
pub struct Offline<E: Env> {
    env: E,
    ssds: Roster<Ssd<E>>,
    catalogue: Catalogue,
    /// What the write log of a read-write pool holds.
    log: Option<WriteLog>,
    report: Report,
}

impl<E: Env> Offline<E> {
    /// Reads what lies on the SSDs. All of them belong to one pool; some may be missing, or not be readable.
    pub async fn open(env: E, given: impl Into<Given<E::Device>>) -> Result<Self, Error> {
        let Given { ssds, unopened: mut unreadable, state } = given.into();
        if ssds.is_empty() {
            return Err(none_readable(&unreadable));
        }
        // Nothing is put on record here: what cannot be read is passed over.
        let mut survey = Survey::<E>::make(&env, ssds, state.as_ref(), Missing::AcceptLoss).await?;
        unreadable.append(&mut survey.left_out);
        let old_copies = survey.old_copies(&env).await?;
        if survey.found.is_empty() && !unreadable.is_empty() {
            return Err(none_readable(&unreadable));
        }
        let mut found = Findings { ssds: reported_ssds(&survey), problems: Vec::new(), doubts: doubts_of(&survey) };
        found.tell_old_copies(&survey, old_copies);
        found.tell_unreadable(unreadable);
        let Survey { records, state_knows, pool_uuid, found: ssds, .. } = survey;
        let ssds = of_use(&env, ssds, &records);
        let mut log = (records.members.value.kind == PoolKind::ReadWrite).then(WriteLog::new);
        if let Some(log) = &mut log {
            let (name, (row, index)) = (&records.members.value.name, records.witnesses.seen.log_flushed);
            let scan = LogScan::new(ReadSsds::new(&ssds), log, name, MissingPart::GoOn, env.real_now());
            // What is noted of rows is that a part of them cannot be had.
            found.doubts.extend(scan.run(&records, StreamMark { row, index }).await?.notes);
        }
        let Findings { ssds: reported, mut problems, doubts } = found;
        problems.extend(doubts.clone());
        let members = records.members.value;
        let report = Report {
            pool: members.name,
            pool_uuid,
            kind: members.kind,
            epoch: members.epoch,
            clean_stop: members.clean,
            state_read: state_knows,
            ssds: reported,
            volumes: reported_volumes(&records.catalogue.value, log.as_ref()),
            problems,
            doubts,
        };
        Ok(Self { env, ssds, catalogue: records.catalogue.value, log, report })
    }

    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Reads every copy of all dirty data and compares the checksums. `progress` hears of the bytes that are done.
    pub async fn verify(&self, mut progress: impl FnMut(u64)) -> Verified {
        let mut verified = Verified::default();
        let Some(log) = &self.log else { return verified };
        for volume in volumes_of(&self.catalogue) {
            let mut from = 0;
            while let Some(pages) = next_piece(log, volume, from) {
                from = pages.end;
                for run in log.runs(volume, pages, |live| live.dirty) {
                    for copies in self.copies_by_page(&run).await {
                        verified.count_page(&copies);
                        if run.row().is_aside() {
                            verified.unavailable_bytes += PAGE;
                            verified.found_bytes += if copies.good > 0 { PAGE } else { 0 };
                        }
                    }
                    progress(verified.dirty_bytes);
                }
            }
        }
        verified
    }

    /// Writes a volume's dirty data to `device`, in the order of addresses, and flushes it. Refused if the device is not
    /// the one that the data belongs to, or was written to without the pool, as far as its identity and fingerprints
    /// tell, unless `anywhere`.
    pub async fn apply(
        &self,
        name: &VolumeName,
        device: E::Device,
        anywhere: bool,
        mut progress: impl FnMut(u64),
    ) -> Result<Applied, Error> {
        let mut volumes = volumes_of(&self.catalogue).zip(&self.catalogue.volumes);
        let (index, known) = volumes.find(|(_, volume)| volume.spec.name == *name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("pool {} caches no volume {name}", self.report.pool))
        })?;
        let backing = Backing::new(self.env.clone(), known.spec.backing.clone(), device);
        let identity = backing.identity_now().await?;
        if backing.info.size_bytes < known.backing.size_bytes {
            let message = format!(
                "volume {name} has {} bytes, the device given for it {}",
                known.backing.size_bytes, backing.info.size_bytes
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let alike = likeness(&known.backing.device.id, &identity.id);
        if alike == Likeness::Other && !anywhere {
            return Err(other_device(name, &known.backing.device.id, &identity.id));
        }
        if !anywhere {
            if was_written(&known.backing, &identity) {
                let message = format!(
                    "volume {name}: the device given for it was written to since the pool was stopped, so that what is dirty may \
                     be older than what it holds (an earlier call that wrote to it does that, too): look at it before it is written \
                     to"
                );
                return Err(Error::new(ErrorKind::Refused, message).with_remedy(Remedy::Force));
            }
            let telling = self.check_fingerprints(index, known, &backing).await?;
            if telling == 0 && alike == Likeness::Unknown {
                return Err(other_device(name, &known.backing.device.id, &identity.id));
            }
        }
        let applied = self.write_dirty(index, known.backing.size_bytes, &backing, &mut progress).await?;
        backing.flush().await?;
        Ok(applied)
    }

    /// Answers how many pages, other than blank ones, are what the pool has seen there last; refused if one is not. Dirty pages are not judged: they are about to be written,
    /// and were before, if an earlier call did not come to its end.
    async fn check_fingerprints(
        &self,
        index: VolumeIndex,
        known: &CataloguedVolume,
        backing: &Backing<E>,
    ) -> Result<usize, Error> {
        let mut telling = 0;
        let is_dirty = |page| {
            let log = self.log.as_ref();
            log.is_some_and(|log| log.overlay().range(index, page..page + 1).any(|live| live.dirty))
        };
        for fingerprint in judged(&known.backing) {
            if is_dirty(fingerprint.page) {
                continue;
            }
            let start = fingerprint.page * PAGE;
            let bytes_to =
                |end: u64| usize::try_from(PAGE.min(end.saturating_sub(start))).expect("a page fits in memory");
            let buf = self.env.buffers().take(bytes_to(backing.info.size_bytes));
            let (buf, read) = backing.read(start, buf).await;
            read?;
            let seen = &buf[..bytes_to(known.backing.size_bytes)];
            telling += usize::from(seen.iter().any(|byte| *byte != 0));
            if crc64(seen) != fingerprint.checksum {
                let message = format!(
                    "volume {}: the device given for it does not hold at byte {start} what the pool saw there last: it is another \
                     one, or was written to without the pool, and may be newer than what is dirty: give the right device",
                    known.spec.name
                );
                return Err(Error::new(ErrorKind::Refused, message).with_remedy(Remedy::Force));
            }
        }
        Ok(telling)
    }

    async fn write_dirty(
        &self,
        index: VolumeIndex,
        size_bytes: u64,
        backing: &Backing<E>,
        progress: &mut impl FnMut(u64),
    ) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        let Some(log) = &self.log else { return Ok(applied) };
        let mut from = 0;
        while let Some(pages) = next_piece(log, index, from) {
            from = pages.end;
            for run in log.runs(index, pages, |live| live.dirty) {
                if self.write_run(&run, size_bytes, backing, &mut applied).await? {
                    continue;
                }
                // Some page of it has no good copy; the others have.
                for page in run.pages.clone() {
                    for run in log.runs(index, page..page + 1, |live| live.dirty) {
                        if !self.write_run(&run, size_bytes, backing, &mut applied).await? {
                            applied.lost_bytes += bytes_of(&run, size_bytes);
                        }
                    }
                }
                progress(applied.written_bytes + applied.lost_bytes);
            }
        }
        Ok(applied)
    }

    /// Writes a run; false: it cannot be read as a whole.
    async fn write_run(
        &self,
        run: &LogRun,
        size_bytes: u64,
        backing: &Backing<E>,
        applied: &mut Applied,
    ) -> Result<bool, Error> {
        let Some(data) = read_run(ReadSsds::new(&self.ssds), run).await else { return Ok(false) };
        let length = bytes_of(run, size_bytes);
        let data = data.narrow(0, usize::try_from(length).expect("a run fits in memory"));
        backing.write(run.pages.start * PAGE, data).await?;
        applied.written_bytes += length;
        Ok(true)
    }

    async fn copies_by_page(&self, run: &LogRun) -> Vec<PageCopies> {
        let all_alike = |good| run.pages.clone().map(|_| PageCopies { good, wanted: 1 }).collect();
        match run.first.content {
            Content::Zeroes => all_alike(1),
            Content::Lost | Content::Unavailable { .. } => all_alike(0),
            Content::Data { .. } => {
                let copies = count_good_copies(ReadSsds::new(&self.ssds), run).await;
                copies.into_iter().map(|good| PageCopies { good, wanted: 2 }).collect()
            }
        }
    }
}

/// What says that newer data may be elsewhere.
fn doubts_of<E: Env>(survey: &Survey<E>) -> Vec<String> {
    let mut doubts = Vec::new();
    let members = &survey.records.members.value;
    let is_here = |uuid: u128| survey.found.iter().any(|ssd| ssd.superblock.ssd_uuid == uuid);
    let (here, all) = (members.ssds.iter().filter(|member| is_here(member.ssd_uuid)).count(), members.ssds.len());
    if !survey.is_proven() {
        let or_state = if survey.state_knows { "" } else { " or the state directory" };
        // One of a pair may be a copy that was made long ago.
        doubts.push(format!(
            "{here} of {all} SSDs are here: without the others{or_state} it cannot be proven that this is the pool's newest \
             state"
        ));
    }
    for attachment in survey.records.unknown_losses() {
        let volume = survey.records.catalogue.value.volumes.iter().find(|volume| volume.attachment == attachment);
        if let Some(volume) = volume {
            doubts.push(format!(
                "volume {} lost dirty data, and the record of what it was is not here: what is found of it may be older",
                volume.spec.name
            ));
        }
    }
    doubts
}

/// What is told of the SSDs while they are looked at.
struct Findings {
    ssds: Vec<ReportedSsd>,
    problems: Vec<String>,
    doubts: Vec<String>,
}

impl Findings {
    /// Beside another copy, what is bad of an old one is known by its checksums.
    fn tell_old_copies<E: Env>(&mut self, survey: &Survey<E>, old_copies: Vec<(u128, Error)>) {
        let (old, told): (Vec<u128>, Vec<String>) =
            old_copies.into_iter().map(|(uuid, why)| (uuid, why.to_string())).unzip();
        if survey.misses(&old) { self.doubts.extend(told) } else { self.problems.extend(told) }
    }

    fn tell_unreadable(&mut self, unreadable: Vec<LeftOut>) {
        for (path, error) in unreadable {
            self.problems.push(format!("SSD {path} cannot be read: {error}"));
            tell_unreadable(&mut self.ssds, path, &error);
        }
    }
}

/// Who is there, and who should be.
fn reported_ssds<E: Env>(survey: &Survey<E>) -> Vec<ReportedSsd> {
    let members = &survey.records.members.value;
    let is_member = |uuid| members.member(uuid).is_some();
    let listed = survey.records.known_losses().cloned().unwrap_or_default();
    let mut ssds: Vec<ReportedSsd> = Vec::new();
    for found in &survey.found {
        let (path, uuid) = (found.named.path.clone(), found.superblock.ssd_uuid);
        let (member, awaited) = (is_member(uuid), !is_member(uuid) && listed.names(uuid));
        ssds.push(ReportedSsd { path, uuid, present: true, member, awaited, unreadable: None });
    }
    let mut missing = Vec::new();
    let is_here = |uuid: u128| survey.found.iter().any(|found| found.superblock.ssd_uuid == uuid);
    for member in members.ssds.iter().filter(|member| !is_here(member.ssd_uuid)) {
        let (path, uuid) = (member.path.clone(), member.ssd_uuid);
        missing.push(ReportedSsd { path, uuid, present: false, member: true, awaited: false, unreadable: None });
    }
    for (uuid, path) in listed.ssds.iter().filter(|(uuid, _)| !is_member(*uuid) && !is_here(*uuid)) {
        let (path, uuid) = (path.clone(), *uuid);
        missing.push(ReportedSsd { path, uuid, present: false, member: false, awaited: true, unreadable: None });
    }
    ssds.extend(missing);
    ssds
}

/// Those of the SSDs that are believed.
fn of_use<E: Env>(env: &E, found: Vec<SurveyedSsd<E::Device>>, records: &Records) -> Roster<Ssd<E>> {
    let is_awaited = |uuid| records.known_losses().is_some_and(|losses| losses.names(uuid));
    let of_use =
        found.into_iter().filter(|ssd| ssd.is_in(&records.members.value) || is_awaited(ssd.superblock.ssd_uuid));
    let ssds = (0..).zip(of_use).map(|(index, ssd)| {
        let SurveyedSsd { named, superblock, .. } = ssd;
        Rc::new(Ssd::new(env.clone(), SsdIndex(index), named, &superblock))
    });
    Roster::new(ssds.collect(), 0)
}

/// Says why an SSD that was given is not present; one that the pool knows by another path is in the list once more.
fn tell_unreadable(ssds: &mut Vec<ReportedSsd>, path: String, error: &Error) {
    let reason = Some(error.to_string());
    match ssds.iter_mut().find(|ssd| !ssd.present && ssd.path == path) {
        Some(ssd) => ssd.unreadable = reason,
        None => {
            ssds.push(ReportedSsd { path, uuid: 0, present: false, member: false, awaited: false, unreadable: reason });
        }
    }
}

/// The next dirty pages from `from` on, a piece of them.
fn next_piece(log: &WriteLog, volume: VolumeIndex, from: u64) -> Option<std::ops::Range<u64>> {
    let overlay = log.overlay();
    let first = overlay.range(volume, from..PAGES_MAX).find(|live| live.dirty)?.page;
    Some(first..first + PIECE_PAGES)
}

/// The indexes of the catalogue's volumes, in its order.
fn volumes_of(catalogue: &Catalogue) -> impl Iterator<Item = VolumeIndex> {
    let count = u16::try_from(catalogue.volumes.len()).expect("a pool has at most VOLUMES_MAX volumes");
    (0..count).map(VolumeIndex)
}

fn reported_volumes(catalogue: &Catalogue, log: Option<&WriteLog>) -> Vec<ReportedVolume> {
    let volumes = volumes_of(catalogue).zip(&catalogue.volumes).map(|(index, volume)| ReportedVolume {
        name: volume.spec.name.clone(),
        backing: volume.spec.backing.clone(),
        size_bytes: volume.backing.size_bytes,
        dirty_bytes: log.map_or(0, |log| log.counts(index).dirty) * PAGE,
        unavailable_bytes: log.map_or(0, |log| unavailable_bytes(log, index)),
        dirty_extents: log.map_or_else(Vec::new, |log| dirty_extents(log, index)),
    });
    volumes.collect()
}

fn unavailable_bytes(log: &WriteLog, index: VolumeIndex) -> u64 {
    log.rows_aside().iter().map(|row| u64::from(row.dirty_of(index)) * PAGE).sum()
}

fn dirty_extents(log: &WriteLog, index: VolumeIndex) -> Vec<(u64, u64)> {
    let mut extents: Vec<(u64, u64)> = Vec::new();
    for live in log.overlay().range(index, 0..PAGES_MAX).filter(|live| live.dirty) {
        let full = extents.len() == EXTENTS_MAX;
        match extents.last_mut() {
            Some((start, length)) if *start + *length == live.page * PAGE => *length += PAGE,
            _ if full => break,
            _ => extents.push((live.page * PAGE, PAGE)),
        }
    }
    extents
}

/// The bytes of a run that lie inside the volume.
fn bytes_of(run: &LogRun, size_bytes: u64) -> u64 {
    (run.pages.end * PAGE).min(size_bytes) - run.pages.start * PAGE
}

/// Copies of a page: those that are right, and how many there should be.
struct PageCopies {
    good: usize,
    wanted: usize,
}

impl Verified {
    fn count_page(&mut self, &PageCopies { good, wanted }: &PageCopies) {
        self.dirty_bytes += PAGE;
        self.good_bytes += if good > 0 { PAGE } else { 0 };
        self.one_copy_bytes += if good > 0 && good < wanted { PAGE } else { 0 };
        self.lost_bytes += if good == 0 { PAGE } else { 0 };
    }
}

fn other_device(volume: &VolumeName, before: &str, now: &str) -> Error {
    let message = format!(
        "volume {volume}: its dirty data belongs to {before:?}, the device given is {now:?}: give the right device"
    );
    Error::new(ErrorKind::Refused, message).with_remedy(Remedy::Force)
}
