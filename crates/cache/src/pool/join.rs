//! SSDs join the pool while it serves (rule `membership`): one that is added, or a spare that takes over.
//!
//! A newcomer is made ready before anybody hears of it: what it held is forgotten, its slot index is empty, the records are
//! on it, its superblock comes last. Then a members record with it, of a higher epoch, is durable; only then does it get its
//! share of slots and of the log. A crash before that leaves an SSD that nobody believes.

use std::rc::Rc;

use futures_util::future::try_join_all;
use hotset_block::{Buf, Device, DeviceError, Env};

use crate::address::{SlotIndex, SsdIndex};
use crate::clean::counters::Counters;
use crate::clean::links::SLOTS_MAX;
use crate::config::{PoolKind, limits};
use crate::error::{Error, ErrorKind};
use crate::format::Unusable;
use crate::format::layout::{Layout, OWNER_OFFSET, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, segment_bytes_for};
use crate::format::members::{Member, MembersRecord, SpareMember};
use crate::format::record::RecordKind;
use crate::format::superblock::Superblock;
use crate::log::write_log::Log;
use crate::members::label::{LABEL_BYTES, Named, newest_superblock};
use crate::members::life::LifeChange;
use crate::members::owner::refuse_living;
use crate::members::records::to_buf;
use crate::members::segments::Purpose;
use crate::members::spare::Spare;
use crate::members::ssd::{Fault, Ssd, not_made};
use crate::members::witness::failed_before;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::pool::create::random_uuid;
use crate::pool::open::new_member;
use crate::status::{FailedSsd, SsdStatus};
use crate::time_limit::within;

/// A copy of something dirty that is set aside lies on this SSD.
fn is_listed(log: &Log, ssd_uuid: u128) -> bool {
    let rows = log.rows_aside();
    rows.iter()
        .filter(|row| row.dirty() > 0)
        .flat_map(|row| row.segments.iter().flatten())
        .any(|mirror| mirror.get().ssd_uuid == ssd_uuid)
}

/// What makes an SSD one of a pool, and last who has it.
const ERASED_OFFSETS: [u64; 3] = [SUPERBLOCK_OFFSETS[0], SUPERBLOCK_OFFSETS[1], OWNER_OFFSET];

/// Somebody who is about to join.
struct Newcomer<D> {
    uuid: u128,
    path: String,
    device: Rc<D>,
}

impl<E: Env> PoolInner<E> {
    /// See [`crate::Pool::add_ssds`].
    pub(crate) async fn add_ssds(self: &Rc<Self>, ssds: Vec<Named<E::Device>>) -> Result<Vec<u128>, Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let mut newcomers = Vec::new();
        for named in ssds {
            let uuid = self.uuid_for(&named).await?;
            newcomers.push(Newcomer { uuid, path: named.path, device: Rc::new(named.device) });
        }
        let uuids = newcomers.iter().map(|newcomer| newcomer.uuid).collect();
        self.join_ssds(newcomers).await?;
        Ok(uuids)
    }

    /// A new identity, also for one that was in the pool before: what any record says of the old one does not hold. Refused
    /// if it is in the pool, or may hold the only copy of something.
    async fn uuid_for(&self, named: &Named<E::Device>) -> Result<u128, Error> {
        let fresh = random_uuid(&self.env);
        refuse_living(&self.env, std::slice::from_ref(named)).await?;
        let bytes = self.read_label(&named.path, &named.device).await?;
        let refused = |why: &str| Err(Error::new(ErrorKind::Refused, format!("SSD {} {why}", named.path)));
        let label = match newest_superblock(&bytes) {
            Ok(Some(label)) if label.pool_uuid == self.uuid => label,
            Err(Unusable::Newer(newer)) if newer.pool_uuid == self.uuid => {
                return refused(&format!("was in the pool under a later Hotset: {newer}"));
            }
            // Of a broken or foreign superblock nothing is kept: that is for the caller to ask.
            Ok(_) | Err(Unusable::Newer(_) | Unusable::Corrupt(_)) => return Ok(fresh),
        };
        let members = self.members.borrow();
        if members.member(label.ssd_uuid).is_some() {
            return refused("is in the pool already");
        }
        if members.spares.iter().any(|spare| spare.uuid == label.ssd_uuid) {
            return refused("is a spare of the pool already");
        }
        let lacks_copy =
            self.log.as_ref().is_some_and(|log| log.mirrors.left() > 0 && log.overlay.borrow().total().dirty > 0);
        if self.log.as_ref().is_some_and(|log| is_listed(log, label.ssd_uuid)) {
            return refused(
                "was in the pool, and has copies of data that is unavailable: it is taken back by itself; or accept the loss                  first with pool recover --accept-loss",
            );
        }
        if (lacks_copy || self.life.is_fenced()) && !planted(Planted::StaleNewcomerBelieved) {
            return refused(
                "was in the pool, and may hold a copy of dirty data of which there is only one other: wait until that has \
                 two copies again or is flushed, or add another SSD",
            );
        }
        if planted(Planted::StaleNewcomerBelieved) {
            return Ok(label.ssd_uuid);
        }
        Ok(fresh)
    }

    /// The first bytes of a device, with its superblocks; an error if it does not answer in time.
    pub(super) async fn read_label(&self, path: &str, device: &E::Device) -> Result<Buf, Error> {
        let read = within(&self.env, limits::SSD_TIMEOUT, device.read(0, self.env.buffers().take(LABEL_BYTES)));
        let Some((bytes, read)) = read.await else { return Err(self.no_answer(path)) };
        read.map_err(|error| Error::device(&format!("SSD {path}"), &error))?;
        Ok(bytes)
    }

    pub(super) fn no_answer(&self, path: &str) -> Error {
        let seconds = limits::SSD_TIMEOUT.as_secs();
        Error::new(ErrorKind::Gone, format!("pool {}: SSD {path} did not answer for {seconds} s", self.name))
    }

    /// Those of the pool; where it was opened without any SSD, as if it were made of the newcomers.
    fn segment_bytes_with(&self, newcomers: &[Newcomer<E::Device>]) -> Result<u64, Error> {
        let smallest = newcomers.iter().map(|newcomer| newcomer.device.info().size_bytes).min();
        match (self.ssds.first(), self.kind, smallest) {
            (Some(ssd), _, _) => Ok(ssd.layout.segment_bytes),
            (None, PoolKind::Read, Some(smallest)) => Ok(segment_bytes_for(self.settings.get().block_bytes, smallest)),
            (None, PoolKind::Read | PoolKind::ReadWrite, _) => {
                let what =
                    "it was opened without any SSD, which cannot be mended while it serves: delete it and make another";
                Err(Error::new(ErrorKind::Refused, format!("pool {}: {what}", self.name)))
            }
        }
    }

    fn superblock_for(
        &self,
        newcomer: &Newcomer<E::Device>,
        segment_bytes: u64,
        spare: bool,
    ) -> Result<Superblock, Error> {
        let info = newcomer.device.info();
        let settings = self.settings.get();
        let layout = Layout::new(info.size_bytes, info.logical_block_bytes, settings.block_bytes, segment_bytes)?;
        Ok(Superblock {
            pool_uuid: self.uuid,
            ssd_uuid: newcomer.uuid,
            pool_name: self.name.clone(),
            kind: self.kind,
            checksums: settings.checksums,
            spare,
            layout,
        })
    }

    pub(super) fn check_room_for(&self, layouts: &[Layout]) -> Result<(), Error> {
        let refused = |what: String| Err(Error::new(ErrorKind::Refused, format!("pool {}: {what}", self.name)));
        self.life.check_open()?;
        if self.life.is_stopping() {
            return Err(Error::new(ErrorKind::Stopping, "the pool stops"));
        }
        if self.members.borrow().ssds.len() + layouts.len() > limits::SSDS_MAX {
            return refused(format!("a pool has at most {} SSDs", limits::SSDS_MAX));
        }
        if self.ssds.room() < layouts.len() {
            return refused("so many SSDs came and went that the daemon has to be restarted first".to_owned());
        }
        let more: u64 = layouts.iter().map(|layout| u64::from(layout.slot_count())).sum();
        if u64::from(self.map.borrow().slot_count()) + more > u64::from(SLOTS_MAX) {
            return refused("its cache blocks would be more than a pool can hold: use larger blocks".to_owned());
        }
        Ok(())
    }

    /// Makes the newcomers ready, then members. All or none.
    async fn join_ssds(self: &Rc<Self>, newcomers: Vec<Newcomer<E::Device>>) -> Result<(), Error> {
        let segment_bytes = self.segment_bytes_with(&newcomers)?;
        let superblock_for = |newcomer| self.superblock_for(newcomer, segment_bytes, false);
        let superblocks: Vec<Superblock> = newcomers.iter().map(superblock_for).collect::<Result<_, _>>()?;
        let layouts: Vec<Layout> = superblocks.iter().map(|superblock| superblock.layout).collect();
        self.check_room_for(&layouts)?;
        let mut ssds = Vec::new();
        for (newcomer, superblock) in newcomers.into_iter().zip(&superblocks) {
            let index = SsdIndex(u16::try_from(self.ssds.len() + ssds.len()).expect("the roster is bounded"));
            let ssd = Ssd::newcomer(self.env.clone(), index, newcomer.path, newcomer.device, superblock);
            ssd.incarnation.set(self.incarnation_for(superblock.ssd_uuid));
            ssds.push(Rc::new(ssd));
        }
        let formats = ssds.iter().map(|ssd| self.in_time(ssd, self.format_index(ssd)));
        try_join_all(formats).await?;
        self.record_newcomers(&ssds, &superblocks).await
    }

    fn incarnation_for(&self, uuid: u128) -> u64 {
        let before = self.ssds.iter().find(|ssd| ssd.uuid == uuid && planted(Planted::StaleNewcomerBelieved));
        before.map_or_else(|| self.env.random(), |ssd| ssd.incarnation.get())
    }

    /// What the SSD was is forgotten; its slot index is empty.
    async fn format_index(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) -> Result<(), Fault> {
        self.erase_superblock(ssd).await?;
        if planted(Planted::StaleNewcomerBelieved) {
            ssd.fill_ceiling.set(u64::MAX);
            return Ok(());
        }
        self.reset_index(ssd).await?;
        let session = self.members.borrow().session;
        self.write_checkpoint(ssd, session).await
    }

    /// Runs a step of making an SSD ready; one that does not answer is given up.
    pub(crate) async fn in_time<T>(
        &self,
        ssd: &Ssd<E>,
        step: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Error> {
        let mut step = std::pin::pin!(step);
        loop {
            if let Some(done) = within(&self.env, limits::SSD_TIMEOUT / 4, step.as_mut()).await {
                return done.map_err(|fault| not_made(ssd, &fault));
            }
            if ssd.oldest_operation() > limits::SSD_TIMEOUT {
                ssd.go_offline(LifeChange::Failed, "it did not answer");
            }
        }
    }

    /// The records, the superblocks, and then the members record that makes SSDs of them.
    pub(super) async fn record_newcomers(
        self: &Rc<Self>,
        ssds: &[Rc<Ssd<E>>],
        superblocks: &[Superblock],
    ) -> Result<(), Error> {
        // What is on its way to be published is named by slots: they must not be another SSD's meanwhile.
        let _nothing_is_published = self.publish_lock.acquire(1).await;
        let _one_at_a_time = self.records_lock.acquire(1).await;
        let catalogue = self.catalogue.borrow().encode();
        self.write_record_to(RecordKind::Catalogue, catalogue, ssds).await?;
        let rows = self.log.as_ref().map(|log| log.record()).unwrap_or_default().encode();
        self.write_record_to(RecordKind::Rows, rows, ssds).await?;
        for (ssd, superblock) in ssds.iter().zip(superblocks) {
            if let Ok(device) = ssd.device() {
                self.claim_newcomer(&device, ssd.uuid).await;
            }
            self.in_time(ssd, self.write_superblock(ssd, superblock)).await?;
        }
        let mut members = self.members.borrow().clone();
        members.epoch += 1;
        members.ssds.extend(ssds.iter().zip(superblocks).map(|(ssd, superblock)| self.member_of(ssd, superblock)));
        members.spares.retain(|spare| ssds.iter().all(|ssd| ssd.uuid != spare.uuid));
        self.write_record_to(RecordKind::Members, members.encode(), ssds).await?;
        self.take_in(members, ssds);
        Ok(())
    }

    fn member_of(&self, ssd: &Ssd<E>, superblock: &Superblock) -> Member {
        let session = if planted(Planted::StaleNewcomerBelieved) { 0 } else { self.members.borrow().session };
        Member { incarnation: ssd.incarnation.get(), session, ..new_member(&self.env, &ssd.path, superblock) }
    }

    /// From here on the newcomers get their share.
    fn take_in(self: &Rc<Self>, members: MembersRecord, ssds: &[Rc<Ssd<E>>]) {
        *self.members.borrow_mut() = members;
        for ssd in ssds {
            let first: SlotIndex = self.slots_for(ssd);
            ssd.first_slot.set(first);
            ssd.change(LifeChange::Joined);
            ssd.owned_by(&self.owner);
            self.ssds.push(Rc::clone(ssd));
            self.forget_one_gone(&ssd.path);
        }
        let slots = self.map.borrow().slot_count();
        self.policy.borrow_mut().set_capacity(slots);
        *self.counters.borrow_mut() = Counters::new(slots, self.pages_per_block);
        self.members_changed();
    }

    /// Slots for an SSD that joins: those of one that left, or new ones.
    fn slots_for(&self, newcomer: &Ssd<E>) -> SlotIndex {
        let count = newcomer.layout.slot_count();
        let is_free = |index: SsdIndex| {
            let ssd = &self.ssds[usize::from(index.0)];
            ssd.gives_slots_away() && !self.fills.any_into(&ssd.slots())
        };
        if let Some(first) = self.slot_ranges.borrow_mut().take_over(newcomer.index, count, is_free) {
            let taken = first.0..first.0 + count;
            self.unpublished.borrow_mut().retain(|(slot, _)| !taken.contains(&slot.0));
            return first;
        }
        let first = self.map.borrow_mut().add_slots(count);
        self.slot_ranges.borrow_mut().push(first, count, newcomer.index);
        first
    }

    /// Whatever depends on how many SSDs there are looks again.
    pub(crate) fn members_changed(self: &Rc<Self>) {
        self.fill_pump_wanted.wake_all();
        self.spare_wanted.wake_all();
        if let Some(log) = &self.log {
            self.measure_log(log);
        }
        self.apply_shares();
        let Some(log) = &self.log else { return };
        self.judge_mirrors(log);
        for event in [&log.mirrors.wanted, &log.wanted, &log.mover_wanted, &log.cleaner_wanted, &log.room] {
            event.wake_all();
        }
    }

    /// An SSD that failed or is missing has been replaced: the one that was at this path, else any.
    fn forget_one_gone(&self, path: &str) {
        if !self.forget_gone_if(|other| other == path) {
            self.forget_gone_if(|_| true);
        }
    }

    /// The first one that is missed and whose path fits; false: there is none.
    fn forget_gone_if(&self, fits: impl Fn(&str) -> bool) -> bool {
        if let Some(ssd) = self.ssds.iter().find(|ssd| ssd.life().is_missed() && fits(&ssd.path)) {
            ssd.change(LifeChange::Replaced);
            return true;
        }
        let mut absent = self.absent.borrow_mut();
        let place = absent.iter().position(|ssd| ssd.is_missed() && fits(&ssd.path));
        place.map(|place| absent.remove(place)).is_some()
    }

    /// See [`crate::Pool::remember_failed`].
    pub(crate) fn remember_failed(&self, ssds: &[FailedSsd]) {
        for ssd in ssds.iter().filter(|ssd| self.ssds.iter().all(|own| own.uuid != ssd.uuid)) {
            let mut absent = self.absent.borrow_mut();
            match absent.iter_mut().find(|known| known.uuid == ssd.uuid) {
                Some(known) => known.failed = true,
                None => absent.push(failed_before(ssd, 0)),
            }
        }
        self.spare_wanted.wake_all();
    }

    /// Both copies, one after the other: never both in flight.
    pub(crate) async fn write_superblock(&self, ssd: &Ssd<E>, superblock: &Superblock) -> Result<(), Fault> {
        for offset in SUPERBLOCK_OFFSETS {
            ssd.write(Purpose::Label, offset, to_buf(self.env.buffers(), &superblock.encode())).await?;
            ssd.flush().await?;
        }
        Ok(())
    }

    pub(crate) async fn erase_superblock(&self, ssd: &Ssd<E>) -> Result<(), Fault> {
        for offset in ERASED_OFFSETS {
            let length = usize::try_from(SUPERBLOCK_BYTES).expect("what lies in memory has an address");
            ssd.write(Purpose::Label, offset, self.env.buffers().take_zeroed(length)).await?;
            ssd.flush().await?;
        }
        Ok(())
    }

    /// Of a device that is no SSD of the pool any more.
    pub(crate) async fn erase_device(&self, device: &E::Device) -> Result<(), DeviceError> {
        for offset in ERASED_OFFSETS {
            let length = usize::try_from(SUPERBLOCK_BYTES).expect("what lies in memory has an address");
            let (_buf, written) = device.write(offset, self.env.buffers().take_zeroed(length)).await;
            written?;
            device.flush().await?;
        }
        Ok(())
    }

    // ---- spares

    /// See [`crate::Pool::add_spares`].
    pub(crate) async fn add_spares(self: &Rc<Self>, spares: Vec<Named<E::Device>>) -> Result<Vec<u128>, Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let mut added = Vec::new();
        for named in spares {
            let uuid = self.uuid_for(&named).await?;
            added.push(Newcomer { uuid, path: named.path, device: Rc::new(named.device) });
        }
        if self.members.borrow().spares.len() + added.len() > limits::SPARES_MAX {
            let message = format!("pool {}: a pool has at most {} spares", self.name, limits::SPARES_MAX);
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let mut records = Vec::new();
        let segment_bytes = self.segment_bytes_with(&added)?;
        for newcomer in &added {
            let superblock = self.superblock_for(newcomer, segment_bytes, true)?;
            self.check_room_for(&[superblock.layout])?;
            let device = Rc::clone(&newcomer.device);
            let ssd = Ssd::newcomer(self.env.clone(), SsdIndex(0), newcomer.path.clone(), device, &superblock);
            self.in_time(&ssd, self.erase_superblock(&ssd)).await?;
            self.claim_newcomer(&newcomer.device, newcomer.uuid).await;
            self.in_time(&ssd, self.write_superblock(&ssd, &superblock)).await?;
            let size_bytes = superblock.layout.ssd_bytes;
            records.push(SpareMember { uuid: newcomer.uuid, size_bytes, path: newcomer.path.clone() });
        }
        self.change_members(&|members| members.spares.extend(records.iter().cloned())).await?;
        for (newcomer, record) in added.iter().zip(records) {
            let device = Some(Rc::clone(&newcomer.device));
            let SpareMember { uuid, size_bytes, path } = record;
            self.spares.borrow_mut().push(Rc::new(Spare { uuid, size_bytes, path, device, reason: String::new() }));
        }
        self.spare_wanted.wake_all();
        Ok(added.iter().map(|newcomer| newcomer.uuid).collect())
    }

    /// See [`crate::Pool::remove_spares`].
    pub(crate) async fn remove_spares(self: &Rc<Self>, uuids: &[u128]) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        if uuids.iter().any(|uuid| self.members.borrow().spares.iter().all(|spare| spare.uuid != *uuid)) {
            return Err(Error::new(ErrorKind::NotFound, format!("pool {}: it has no such spare", self.name)));
        }
        self.change_members(&|members| members.spares.retain(|spare| !uuids.contains(&spare.uuid))).await?;
        let (removed, kept) = self.spares.take().into_iter().partition(|spare| uuids.contains(&spare.uuid));
        *self.spares.borrow_mut() = kept;
        let removed: Vec<Rc<Spare<E::Device>>> = removed;
        for spare in removed {
            let Some(device) = spare.device.clone() else { continue };
            let newcomer = Newcomer { uuid: spare.uuid, path: spare.path.clone(), device };
            let segment_bytes = self.segment_bytes_with(std::slice::from_ref(&newcomer))?;
            let superblock = self.superblock_for(&newcomer, segment_bytes, true)?;
            let ssd = Ssd::newcomer(self.env.clone(), SsdIndex(0), newcomer.path, newcomer.device, &superblock);
            self.in_time(&ssd, self.erase_superblock(&ssd)).await?;
        }
        Ok(())
    }

    /// The task that lets spares take over.
    pub(crate) async fn run_spares(self: Rc<Self>) {
        while !self.life.is_stopping() {
            let wanted = self.spare_wanted.wait();
            while !self.life.is_stopping() && self.needs_spare() && self.let_spare_join().await {}
            wanted.await;
        }
    }

    /// An SSD is gone and nothing is in its place.
    fn needs_spare(&self) -> bool {
        let missed =
            self.ssds.iter().any(|ssd| ssd.life().is_missed()) || self.absent.borrow().iter().any(SsdStatus::is_missed);
        let single = self.kind == PoolKind::ReadWrite && !self.has_two_ssds();
        (missed || single) && !self.life.is_fenced()
    }

    /// The first spare that fits becomes an SSD; false: there is none.
    async fn let_spare_join(self: &Rc<Self>) -> bool {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let usable = |spare: &&Rc<Spare<E::Device>>| spare.device.is_some() && spare.reason.is_empty();
        let found = self.spares.borrow().iter().find(usable).cloned();
        let Some(spare) = found.filter(|_| self.needs_spare() && !self.life.is_stopping()) else { return false };
        let device = spare.device.clone().expect("it was chosen because it is there");
        let newcomer = Newcomer { uuid: spare.uuid, path: spare.path.clone(), device };
        let joined = self.join_ssds(vec![newcomer]).await;
        let mut spares = self.spares.borrow_mut();
        spares.retain(|other| !Rc::ptr_eq(other, &spare));
        if let Err(error) = joined {
            let (uuid, size_bytes, path) = (spare.uuid, spare.size_bytes, spare.path.clone());
            let reason = error.to_string();
            spares.push(Rc::new(Spare { uuid, size_bytes, path, device: spare.device.clone(), reason }));
        }
        true
    }
}
