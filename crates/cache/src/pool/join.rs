//! SSDs join the pool while it serves (rule `membership`): one that is added, or a spare that takes over.
//!
//! A newcomer is made ready before anybody hears of it: what it held is forgotten, its slot index is empty, the records are
//! on it, its superblock comes last. Then a members record with it, of a higher epoch, is durable; only then does it get its
//! share of slots and of the log. A crash before that leaves an SSD that nobody believes.

pub(crate) mod come_back;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::try_join_all;
use hotset_block::sync::Semaphore;
use hotset_block::{Device, Env};

use crate::address::SsdIndex;
use crate::attachments::Attachments;
use crate::clean::Clean;
use crate::clean::slot_ssd::SlotSsd;
use crate::config::{PoolKind, PoolName, limits};
use crate::error::{Error, ErrorKind, Remedy};
use crate::format::Unusable;
use crate::format::layout::{Layout, segment_bytes_for};
use crate::format::members::{Member, SpareMember};
use crate::format::record::RecordKind;
use crate::format::superblock::Superblock;
use crate::log::Log;
use crate::members::Members;
use crate::members::label::{Named, newest_superblock};
use crate::members::life::LifeChange;
use crate::members::newcomer::{NotJoined, new_member, random_uuid};
use crate::members::owner::refuse_living;
use crate::members::pool_life::PoolLife;
use crate::members::spare::Spare;
use crate::members::ssd::{Fault, Ssd};
use crate::members::superblocks::erase_devices;
use crate::pool::join::come_back::Returns;
use crate::pool::plan::limit_exceeded;
use crate::reasons::SpareReason;
use crate::volume::place::{AttachedVolumes, PoolRooms};
use crate::volume::settings::SettingsNow;
use crate::volume::shares::VolumeShares;

/// Somebody who is about to join.
struct Newcomer<D> {
    uuid: u128,
    path: String,
    device: Rc<D>,
}

/// Who takes SSDs into a pool: new ones, spares, and those that come back.
pub(crate) struct Joiner<E: Env> {
    env: E,
    uuid: u128,
    name: PoolName,
    kind: PoolKind,
    settings: Rc<SettingsNow>,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    attachments: Rc<Attachments<E>>,
    log: Option<Rc<Log<E>>>,
    volumes: Rc<AttachedVolumes<E>>,
    admin_lock: Rc<Semaphore>,
    rooms: Rc<PoolRooms<E>>,
    /// SSDs that came back in this run.
    returns: RefCell<BTreeMap<u128, Returns>>,
}

impl<E: Env> Joiner<E> {
    pub(super) fn new(pool: &Rc<PoolRooms<E>>) -> Self {
        Self {
            env: pool.env.clone(),
            uuid: pool.uuid,
            name: pool.name.clone(),
            kind: pool.kind,
            settings: Rc::clone(&pool.settings),
            life: Rc::clone(&pool.life),
            members: Rc::clone(&pool.members),
            clean: Rc::clone(&pool.clean),
            attachments: Rc::clone(&pool.attachments),
            log: pool.log.clone(),
            volumes: Rc::clone(&pool.volumes),
            admin_lock: Rc::clone(&pool.admin_lock),
            rooms: Rc::clone(pool),
            returns: RefCell::default(),
        }
    }

    /// See [`crate::Pool::add_ssds`].
    pub(crate) async fn add_ssds(self: &Rc<Self>, ssds: Vec<Named<E::Device>>) -> Result<Vec<u128>, Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let mut newcomers = Vec::new();
        for named in ssds {
            let uuid = self.uuid_for(&named).await?;
            newcomers.push(Newcomer { uuid, path: named.path, device: Rc::new(named.device) });
        }
        let uuids = newcomers.iter().map(|newcomer| newcomer.uuid).collect();
        let devices: Vec<_> = newcomers.iter().map(|newcomer| Rc::clone(&newcomer.device)).collect();
        match self.join_ssds(newcomers).await {
            Ok(()) => Ok(uuids),
            Err(NotJoined { error, is_only_labelled }) => {
                if is_only_labelled {
                    erase_devices(&self.env, &devices).await;
                }
                Err(error)
            }
        }
    }

    /// A new identity, also for one that was in the pool before: what any record says of the old one does not hold. Refused
    /// if it is in the pool, or may hold the only copy of something.
    async fn uuid_for(&self, named: &Named<E::Device>) -> Result<u128, Error> {
        let fresh = random_uuid(&self.env);
        refuse_living(&self.env, std::slice::from_ref(named)).await?;
        let bytes = self.members.read_label(&named.path, &named.device).await?;
        let refused = |why: &str| Err(Error::new(ErrorKind::Refused, format!("SSD {} {why}", named.path)));
        let label = match newest_superblock(&bytes) {
            Ok(Some(label)) if label.pool_uuid == self.uuid => label,
            Err(Unusable::Newer(newer)) if newer.pool_uuid == self.uuid => {
                return refused(&format!("was in the pool under a later Hotset: {newer}"));
            }
            // Of a broken or foreign superblock nothing is kept: that is for the caller to ask.
            Ok(_) | Err(Unusable::Newer(_) | Unusable::Corrupt(_)) => return Ok(fresh),
        };
        let members = self.members.record();
        if members.member(label.ssd_uuid).is_some() {
            return refused("is in the pool already");
        }
        if members.spares.iter().any(|spare| spare.uuid == label.ssd_uuid) {
            return refused("is a spare of the pool already");
        }
        let lacks_copy = self.log.as_ref().is_some_and(|log| log.mirrors().left() > 0 && log.total().dirty > 0);
        if self.log.as_ref().is_some_and(|log| log.mirrorer().lists_copy_on(label.ssd_uuid)) {
            let refusal = refused(
                "was in the pool, and has copies of data that is unavailable: it is taken back by itself; or accept the loss first",
            );
            return refusal.map_err(|error| error.with_remedy(Remedy::AcceptLoss(self.name.clone())));
        }
        if lacks_copy || self.life.is_fenced() {
            return refused(
                "was in the pool, and may hold a copy of dirty data of which there is only one other: wait until that has \
                 two copies again or is flushed, or add another SSD",
            );
        }
        Ok(fresh)
    }

    /// Those of the pool; where it was opened without any SSD, as if it were made of the newcomers.
    fn segment_bytes_with(&self, newcomers: &[Newcomer<E::Device>]) -> Result<u64, Error> {
        let smallest = newcomers.iter().map(|newcomer| newcomer.device.info().size_bytes).min();
        match (self.members.ssds().next(), self.kind, smallest) {
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
        if self.members.room() < layouts.len() {
            return refused("so many SSDs came and went that the daemon has to be restarted first".to_owned());
        }
        let ssds = self.members.record().ssds.len() + layouts.len();
        let more: u64 = layouts.iter().map(|layout| u64::from(layout.slot_count())).sum();
        let limit = limit_exceeded(ssds, u64::from(self.clean.slots().slot_count()) + more);
        limit.map_or(Ok(()), |limit| refused(limit.to_string()))
    }

    /// Makes the newcomers ready, then members. All or none.
    async fn join_ssds(self: &Rc<Self>, newcomers: Vec<Newcomer<E::Device>>) -> Result<(), NotJoined> {
        let segment_bytes = self.segment_bytes_with(&newcomers)?;
        let superblock_for = |newcomer| self.superblock_for(newcomer, segment_bytes, false);
        let superblocks: Vec<Superblock> = newcomers.iter().map(superblock_for).collect::<Result<_, _>>()?;
        let layouts: Vec<Layout> = superblocks.iter().map(|superblock| superblock.layout).collect();
        self.check_room_for(&layouts)?;
        let mut ssds = Vec::new();
        for (newcomer, superblock) in newcomers.into_iter().zip(&superblocks) {
            let index = self.members.next_index(ssds.len());
            let ssd = Ssd::newcomer(self.env.clone(), index, newcomer.path, newcomer.device, superblock);
            ssd.begin_incarnation(self.env.random());
            ssds.push(Rc::new(SlotSsd::new(Rc::new(ssd))));
        }
        let formats = ssds.iter().map(|ssd| ssd.in_time(self.format_index(ssd)));
        try_join_all(formats).await?;
        self.record_newcomers(&ssds, &superblocks).await?;
        // They are in the place of SSDs that are gone.
        ssds.iter().for_each(|ssd| self.members.forget_one_gone(&ssd.path));
        Ok(())
    }

    /// What the SSD was is forgotten; its slot index is empty.
    async fn format_index(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) -> Result<(), Fault> {
        ssd.erase_superblock().await?;
        let session = self.members.record().session;
        self.clean.index().format(ssd, session).await
    }

    /// The records, the superblocks, and then the members record that makes SSDs of them.
    pub(super) async fn record_newcomers(
        self: &Rc<Self>,
        ssds: &[Rc<SlotSsd<E>>],
        superblocks: &[Superblock],
    ) -> Result<(), NotJoined> {
        self.clean.make_room_for(ssds).await;
        let recorded = self.record_ready_newcomers(ssds, superblocks).await;
        self.clean.room_is_used();
        recorded
    }

    async fn record_ready_newcomers(
        self: &Rc<Self>,
        ssds: &[Rc<SlotSsd<E>>],
        superblocks: &[Superblock],
    ) -> Result<(), NotJoined> {
        // What is on its way to be published is named by slots: they must not be another SSD's meanwhile.
        let _nothing_is_published = self.clean.unpublished().hold().await;
        let _one_at_a_time = self.members.one_change().await;
        // It may have been fenced since: what is lost in memory then is on an SSD, and no record must say that it is lost.
        self.life.check_open()?;
        let newcomers: Vec<Rc<Ssd<E>>> = ssds.iter().map(|ssd| Rc::clone(&ssd.ssd)).collect();
        let catalogue = self.attachments.catalogue().encode();
        self.members.write_record_to(RecordKind::Catalogue, catalogue, &newcomers).await?;
        let rows = self.log.as_ref().map(|log| log.next_record()).unwrap_or_default();
        self.members.write_record_to(RecordKind::Rows, rows.encode(), &newcomers).await?;
        if let Some(log) = &self.log {
            log.is_recorded(&rows);
        }
        let labelled = self.label_newcomers(ssds, superblocks).await;
        labelled.map_err(|error| NotJoined { error, is_only_labelled: true })?;
        let members = ssds.iter().map(|ssd| self.member_of(ssd)).collect();
        self.members.record_newcomers(members, &newcomers).await?;
        self.take_in(ssds);
        Ok(())
    }

    async fn label_newcomers(&self, ssds: &[Rc<SlotSsd<E>>], superblocks: &[Superblock]) -> Result<(), Error> {
        for (ssd, superblock) in ssds.iter().zip(superblocks) {
            if let Ok(device) = ssd.device() {
                self.members.marks().claim_newcomer(&device, ssd.uuid).await;
            }
            ssd.in_time(ssd.write_superblock(superblock)).await?;
        }
        Ok(())
    }

    fn member_of(&self, ssd: &Ssd<E>) -> Member {
        Member {
            incarnation: ssd.incarnation(),
            session: self.members.record().session,
            ..new_member(&self.env, &ssd.path, ssd.uuid, ssd.layout.ssd_bytes)
        }
    }

    /// From here on the newcomers get their share.
    fn take_in(self: &Rc<Self>, ssds: &[Rc<SlotSsd<E>>]) {
        for ssd in ssds {
            self.clean.take_in(ssd);
            ssd.change(LifeChange::Joined);
            ssd.owned_by(self.members.owner());
            self.members.push(&ssd.ssd);
        }
        self.clean.capacity_changed();
        self.members_changed();
    }

    /// Whatever depends on how many SSDs there are looks again.
    pub(crate) fn members_changed(self: &Rc<Self>) {
        self.clean.fills().wake_pump();
        self.members.spares().wanted().wake_all();
        if let Some(log) = &self.log {
            log.segments().measure();
        }
        VolumeShares::of(&self.rooms).apply_shares();
        if let Some(log) = &self.log {
            log.members_changed();
        }
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
        if self.members.record().spares.len() + added.len() > limits::SPARES_MAX {
            let message = format!("pool {}: a pool has at most {} spares", self.name, limits::SPARES_MAX);
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let segment_bytes = self.segment_bytes_with(&added)?;
        let superblock_for = |newcomer| self.superblock_for(newcomer, segment_bytes, true);
        let superblocks: Vec<Superblock> = added.iter().map(superblock_for).collect::<Result<_, _>>()?;
        superblocks.iter().try_for_each(|superblock| self.check_room_for(&[superblock.layout]))?;
        let record = |(newcomer, superblock): (&Newcomer<E::Device>, &Superblock)| {
            let size_bytes = superblock.layout.ssd_bytes;
            SpareMember { uuid: newcomer.uuid, size_bytes, path: newcomer.path.clone() }
        };
        let records: Vec<SpareMember> = added.iter().zip(&superblocks).map(record).collect();
        let mut labelled = Vec::new();
        let recorded = async {
            for (newcomer, superblock) in added.iter().zip(&superblocks) {
                labelled.push(Rc::clone(&newcomer.device));
                self.label_spare(newcomer, superblock).await?;
            }
            self.members.change_record(&|members| members.spares.extend(records.iter().cloned())).await
        };
        if let Err(error) = recorded.await {
            erase_devices(&self.env, &labelled).await;
            return Err(error);
        }
        for (newcomer, record) in added.iter().zip(records) {
            let device = Some(Rc::clone(&newcomer.device));
            let SpareMember { uuid, size_bytes, path } = record;
            self.members.spares().add(Spare { uuid, size_bytes, path, device, reason: None });
        }
        self.members.spares().wanted().wake_all();
        Ok(added.iter().map(|newcomer| newcomer.uuid).collect())
    }

    async fn label_spare(&self, newcomer: &Newcomer<E::Device>, superblock: &Superblock) -> Result<(), Error> {
        let device = Rc::clone(&newcomer.device);
        let ssd = Ssd::newcomer(self.env.clone(), SsdIndex(0), newcomer.path.clone(), device, superblock);
        ssd.in_time(ssd.erase_superblock()).await?;
        self.members.marks().claim_newcomer(&newcomer.device, newcomer.uuid).await;
        ssd.in_time(ssd.write_superblock(superblock)).await
    }

    /// See [`crate::Pool::remove_spares`].
    pub(crate) async fn remove_spares(self: &Rc<Self>, uuids: &[u128]) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        if uuids.iter().any(|uuid| self.members.record().spares.iter().all(|spare| spare.uuid != *uuid)) {
            return Err(Error::new(ErrorKind::NotFound, format!("pool {}: it has no such spare", self.name)));
        }
        self.members.change_record(&|members| members.spares.retain(|spare| !uuids.contains(&spare.uuid))).await?;
        for spare in self.members.spares().take(|uuid| uuids.contains(&uuid)) {
            let Some(device) = spare.device.clone() else { continue };
            let newcomer = Newcomer { uuid: spare.uuid, path: spare.path.clone(), device };
            let segment_bytes = self.segment_bytes_with(std::slice::from_ref(&newcomer))?;
            let superblock = self.superblock_for(&newcomer, segment_bytes, true)?;
            let ssd = Ssd::newcomer(self.env.clone(), SsdIndex(0), newcomer.path, newcomer.device, &superblock);
            ssd.in_time(ssd.erase_superblock()).await?;
        }
        Ok(())
    }

    /// The task that lets spares take over.
    pub(crate) async fn run_spares(self: Rc<Self>) {
        while !self.life.is_stopping() {
            let wanted = self.members.spares().wanted().wait();
            while !self.life.is_stopping() && self.needs_spare() && self.let_spare_join().await {}
            wanted.await;
        }
    }

    /// An SSD is gone and nothing is in its place.
    fn needs_spare(&self) -> bool {
        let single = self.kind == PoolKind::ReadWrite && !self.members.has_two_ssds();
        (self.members.misses_one() || single) && !self.life.is_fenced()
    }

    /// The first spare that fits becomes an SSD; false: there is none.
    async fn let_spare_join(self: &Rc<Self>) -> bool {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let found = self.members.spares().usable();
        let Some(spare) = found.filter(|_| self.needs_spare() && !self.life.is_stopping()) else { return false };
        let device = spare.device.clone().expect("it was chosen because it is there");
        let newcomer = Newcomer { uuid: spare.uuid, path: spare.path.clone(), device };
        let joined = self.join_ssds(vec![newcomer]).await;
        self.members.spares().take(|uuid| uuid == spare.uuid);
        // Its superblock stays: it is a spare of the pool as before.
        if let Err(NotJoined { error, .. }) = joined {
            let (uuid, size_bytes, path) = (spare.uuid, spare.size_bytes, spare.path.clone());
            let reason = Some(SpareReason::CouldNotJoin(error));
            self.members.spares().add(Spare { uuid, size_bytes, path, device: spare.device.clone(), reason });
        }
        true
    }
}
