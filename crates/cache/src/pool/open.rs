//! A pool starts (rules `membership`, `recovery`): members and epoch, catalogue, slot indexes; then it
//! serves.
//!
//! The order of what is written at a start: the clean mark is erased first; members that are missing leave when the write
//! log turns out to be whole without them; an SSD that is not believed gets a new incarnation; then every SSD a checkpoint
//! of the new session; then the new session is recorded. A crash at any moment between leaves a start that can be repeated.

use std::rc::{Rc, Weak};

use hotset_block::sync::Semaphore;
use hotset_block::{Device, Env};

use crate::address::{Blocks, SsdIndex};
use crate::attachment_ids::AttachmentIds;
use crate::attachments::Attachments;
use crate::clean::Clean;
use crate::clean::recover::{FoundIndex, LOST_TAIL, Unbelieved, scan_index};
use crate::clean::slot_ssd::SlotSsd;
use crate::config::{PoolKind, limits};
use crate::error::Error;
use crate::format::Unreadable;
use crate::format::layout::STATE_BYTES_MIN;
use crate::format::members::Member;
use crate::format::superblock::Superblock;
use crate::log::scan::{MissingPart, Scanned};
use crate::log::{Known, Log};
use crate::members::label::Named;
use crate::members::newcomer::new_member;
use crate::members::newest::Records;
use crate::members::owner::Admitted;
use crate::members::pool_life::PoolLife;
use crate::members::spare::Spare;
use crate::members::ssd::{Fault, Ssd, is_gone};
use crate::members::{Members, MembersParts};
use crate::pool::departure::run_departures;
use crate::pool::inner::PoolInner;
use crate::pool::join::come_back::run_returns;
use crate::pool::scrub_progress::Scrub;
use crate::pool::settle::run_settling;
use crate::pool::survey::{Membership, Missing, Survey};
use crate::pool::takeover::run_owner;
use crate::status::SsdStatus;
use crate::volume::fill::run_fill_pump;
use crate::volume::place::{AttachedVolumes, PoolRooms};
use crate::volume::settings::SettingsNow;
use crate::volume::shares::VolumeShares;

/// Everything that a pool is put together from.
pub(crate) struct Parts<E: Env> {
    pub(crate) env: E,
    pub(crate) uuid: u128,
    pub(crate) ssds: Vec<(Named<E::Device>, Superblock)>,
    pub(crate) absent: Vec<SsdStatus>,
    pub(crate) spares: Vec<Spare<E::Device>>,
    pub(crate) state: Option<E::Device>,
    pub(crate) records: Records,
    pub(crate) entry: Admitted,
}

/// See [`crate::Pool::open`].
pub(crate) async fn open<E: Env>(
    env: E,
    ssds: Vec<Named<E::Device>>,
    state: Option<E::Device>,
    missing: Missing,
) -> Result<Rc<PoolInner<E>>, Error> {
    let (mut survey, entry) = Survey::<E>::enter(&env, ssds, state.as_ref(), missing).await?;
    survey.set_aside_old_copies(&env, missing).await?;
    let mut unexpected = survey.protect_dirty_data(missing == Missing::AcceptLoss)?;
    unexpected.extend(survey.leave_out_excess());
    if missing == Missing::Refuse {
        survey.check_read()?;
    }
    let plan = survey.membership();
    let proven = survey.is_proven();
    if missing == Missing::Refuse && !plan.missing.is_empty() {
        return Err(survey.missing_error(&plan.missing));
    }
    if missing != Missing::AcceptLoss {
        survey.check_copies()?;
    }
    if !proven {
        survey.records.supersede_missing_members();
    }
    let before = survey.records.clone();
    let missed: Vec<SsdStatus> = plan.missing.iter().map(|member| survey.absent_status(member)).collect();
    let absent = missed.into_iter().chain(unexpected).chain(survey.unknown_spares).collect();
    let parts = Parts {
        uuid: survey.pool_uuid,
        absent,
        spares: survey.spares,
        ssds: survey.found.into_iter().map(|ssd| (ssd.named, ssd.superblock)).collect(),
        state: state.filter(|state| state.info().size_bytes >= STATE_BYTES_MIN),
        records: survey.records,
        entry,
        env,
    };
    let pool = parts.start(&plan).await?;
    let opened = async {
        if let Some(log) = &pool.log {
            log.take_losses_of(&before);
        }
        pool.members.remember_gone(&before.members.value);
        let missing_part = if missing == Missing::AcceptLoss { MissingPart::GoOn } else { MissingPart::Refuse };
        Start { pool: &pool, plan: &plan }.recover(&before, missing_part).await?;
        if let Some(log) = pool.log.as_ref().filter(|_| missing == Missing::AcceptLoss) {
            log.data_loss().accept_unknown().await?;
            log.data_loss().accept_unavailable_at_start().await?;
        }
        if let Some(log) = pool.log.as_ref().filter(|_| !proven) {
            log.rows().record_rows().await?;
        }
        Ok(())
    };
    if let Err(error) = opened.await {
        pool.cancel_start().await;
        return Err(error);
    }
    pool.serve();
    Ok(pool)
}

impl<E: Env> Parts<E> {
    pub(crate) fn assemble(self) -> Rc<PoolInner<E>> {
        let Records { members, catalogue, rows, witnesses: found, .. } = self.records;
        let (name, kind, settings) = (members.value.name.clone(), members.value.kind, members.value.settings);
        let numbered = (0..).map(SsdIndex).zip(self.ssds);
        let ssd = |(index, (named, superblock))| Rc::new(Ssd::new(self.env.clone(), index, named, &superblock));
        let ssds = numbered.map(ssd).collect();
        let ids = Rc::new(AttachmentIds::new(catalogue.value.volumes.iter().map(|volume| volume.attachment)));
        let life = Rc::new(PoolLife::default());
        let scrub = Scrub::opened(found.seen.scrub);
        let members = Rc::new(Members::new(MembersParts {
            env: self.env.clone(),
            pool_uuid: self.uuid,
            life: Rc::clone(&life),
            ssds,
            absent: self.absent,
            spares: self.spares,
            state: self.state,
            record: members,
            catalogue_number: catalogue.number,
            rows_number: rows.number,
            found,
        }));
        let clean = Clean::new(self.env.clone(), Rc::clone(&life), Rc::clone(&members), Rc::clone(&ids), &settings);
        let clean = Rc::new(clean);
        let log = (kind == PoolKind::ReadWrite).then(|| {
            let (env, life, members) = (self.env.clone(), Rc::clone(&life), Rc::clone(&members));
            Rc::new(Log::new(env, name.clone(), life, members, Rc::clone(&clean), Rc::clone(&ids)))
        });
        let attachments = Attachments::new(name.clone(), Rc::clone(&members), Rc::clone(&ids), catalogue.value);
        Rc::new(PoolInner::of(
            PoolRooms {
                env: self.env,
                uuid: self.uuid,
                name,
                kind,
                settings: Rc::new(SettingsNow::new(settings)),
                blocks: Blocks { pages_per_block: settings.block_bytes.pages() },
                life,
                members,
                clean,
                attachments: Rc::new(attachments),
                volumes: Rc::new(AttachedVolumes::new(Rc::clone(&ids))),
                ids,
                log,
                admin_lock: Rc::new(Semaphore::new(1)),
            },
            scrub,
        ))
    }

    /// Erases the clean mark and records who came to the pool, before anything else is written.
    async fn start(mut self, plan: &Membership) -> Result<Rc<PoolInner<E>>, Error> {
        let entry = std::mem::replace(&mut self.entry, Admitted::none());
        let pool = self.assemble();
        pool.members.claim(&entry).await?;
        pool.watch();
        if let Err(error) = (Start { pool: &pool, plan }).begin().await {
            pool.cancel_start().await;
            return Err(error);
        }
        Ok(pool)
    }
}

/// A start that is under way: what of the pool's content it finds, mends and takes into use.
pub(super) struct Start<'p, E: Env> {
    pub(super) pool: &'p Rc<PoolInner<E>>,
    pub(super) plan: &'p Membership,
}

/// What the scan of a start found. Nothing of it is in use yet but what the log has in memory.
struct FoundContent<E: Env> {
    log: Option<Scanned>,
    indexes: Vec<(Rc<SlotSsd<E>>, FoundIndex)>,
    /// SSDs whose slot index is not believed.
    cold: Vec<Rc<SlotSsd<E>>>,
    /// What is told of them.
    notes: Vec<String>,
}

impl<E: Env> Start<'_, E> {
    async fn begin(&self) -> Result<(), Error> {
        let plan = self.plan;
        let changed = !plan.missing.is_empty() || !plan.returned.is_empty() || plan.all_cold.is_some();
        let joining: Vec<Member> = self
            .pool
            .members
            .ssds()
            .filter(|ssd| plan.returned.contains(&ssd.uuid))
            .map(|ssd| new_member(&self.pool.env, &ssd.path, ssd.uuid, ssd.layout.ssd_bytes))
            .collect();
        let all = self.pool.members.record().ssds.len() + joining.len();
        let incarnations: Vec<u64> = (0..all).map(|_| self.pool.env.random()).collect();
        self.pool
            .members
            .change_record(&|members| {
                members.clean = false;
                members.epoch += u64::from(changed);
                members.ssds.extend(joining.iter().cloned());
                for ssd in self.pool.members.ssds() {
                    let member = members.member_mut(ssd.uuid).expect("every SSD that is there is a member now");
                    member.path.clone_from(&ssd.path);
                }
                if plan.all_cold.is_some() {
                    // Also of those that are missing: a start that ends here leaves them in the pool, and the next one may not
                    // know why they were not believed.
                    for (member, incarnation) in members.ssds.iter_mut().zip(&incarnations) {
                        member.incarnation = *incarnation;
                    }
                }
            })
            .await?;
        if self.pool.log.is_none() {
            self.pool.members.dismiss_missing().await?;
        }
        self.upgrade().await?;
        if changed || plan.catalogue_behind || plan.is_upgrade() {
            // Whoever was lost, or knows nothing, is made good for: every member has the newest catalogue.
            self.pool.attachments.record_again().await?;
        }
        self.pool.members.take_incarnations();
        Ok(())
    }

    /// In three phases: what is there is found, then mended, then in use. Then the session begins.
    async fn recover(&self, before: &Records, missing_part: MissingPart) -> Result<(), Error> {
        let pool = self.pool;
        let started = pool.env.real_now();
        let found = self.scan(before, missing_part).await?;
        let mut notes = self.repair(&found).await?;
        notes.extend(found.notes);
        let slots = self.install(found.indexes);
        pool.begin_session().await?;
        pool.members.witness_keeper().log_is_recovered();
        if let Some(log) = &pool.log {
            log.hide_all_superseded().await;
        }
        let milliseconds = pool.env.real_now().since(started).as_millis();
        notes.insert(0, format!("{slots} cached blocks found in {milliseconds} ms"));
        *pool.recovery.borrow_mut() = notes.join("; ");
        Ok(())
    }

    /// Reads the write log, then the slot indexes of the SSDs that are believed; the others start cold.
    async fn scan(&self, before: &Records, missing_part: MissingPart) -> Result<FoundContent<E>, Error> {
        let pool = self.pool;
        let log = match &pool.log {
            Some(log) => Some(log.scan(before, missing_part).await?),
            None => None,
        };
        let mut found = FoundContent { log, indexes: Vec::new(), cold: Vec::new(), notes: Vec::new() };
        for ssd in pool.clean.ssds().iter() {
            let known = before.members.value.member(ssd.uuid).filter(|_| self.plan.all_cold.is_none());
            let Some(member) = known else {
                let why = self.plan.all_cold.map(|why| why.to_string());
                found.starts_cold(ssd, why.as_deref().unwrap_or("it came back to the pool with old content"));
                continue;
            };
            let seen = pool.members.witness_keeper().journal_end_of(ssd);
            match scan_index(ssd.to_read(), member, seen).await {
                Ok(index) => found.indexes.push((Rc::clone(ssd), index)),
                Err(Unbelieved::Cold(reason)) => found.starts_cold(ssd, &reason),
                Err(Unbelieved::LostTail) => {
                    ssd.has_lost_writes();
                    found.starts_cold(ssd, LOST_TAIL);
                }
                // What cannot be read is as good as damaged: the copies of the log on this SSD are not.
                Err(Unbelieved::Fault(Fault::Device(error))) if !is_gone(&error) => {
                    ssd.has_misread();
                    found.starts_cold(ssd, &format!("its slot index cannot be read: {error}"));
                }
                Err(Unbelieved::Fault(fault)) => pool.members.ssd_failed(&ssd.ssd, &fault),
                Err(Unbelieved::OtherStream(other)) => {
                    let what = format!("SSD {}, slot index", ssd.path);
                    return Err(Error::unreadable(&what, &Unreadable::OtherStream(other)));
                }
            }
        }
        Ok(found)
    }

    /// What lacks a copy of the log gets it, and the indexes that are not believed are empty, durably; answers what is told of the log.
    async fn repair(&self, found: &FoundContent<E>) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        if let (Some(log), Some(scanned)) = (&self.pool.log, &found.log) {
            notes.push(log.mend(scanned).await?);
        }
        if found.cold.iter().any(|ssd| ssd.lost_writes()) {
            // Before its new slot index hides what it lost.
            self.pool.members.witness_keeper().keep().await;
        }
        self.record_cold(&found.cold).await?;
        self.pool.start_cold(&found.cold).await;
        Ok(notes)
    }

    /// What was found of the slots is visible from here on, but where the log lies; answers how many.
    fn install(&self, indexes: Vec<(Rc<SlotSsd<E>>, FoundIndex)>) -> u64 {
        // Before any slot is listed, so that each is in the right queue at once.
        VolumeShares::of(&self.pool.rooms).apply_shares();
        let used = || u64::from(self.pool.clean.slots().slots_used());
        assert_eq!(used(), 0, "a start finds its slots in use already");
        // Of an SSD that has left meanwhile nothing would forget what came into its slots.
        let indexes = indexes.into_iter().filter(|(ssd, _)| !ssd.life().has_left());
        let found = indexes.map(|(ssd, index)| self.pool.clean.install_index(&ssd, index)).sum();
        assert_eq!(used(), found, "blocks that a start found on its SSDs share slots");
        found
    }

    /// New incarnations, durably, for SSDs whose index is not believed; those of the plan have theirs already.
    async fn record_cold(&self, cold: &[Rc<SlotSsd<E>>]) -> Result<(), Error> {
        let damaged: Vec<(u128, u64)> = cold.iter().map(|ssd| (ssd.uuid, self.pool.env.random())).collect();
        if self.plan.all_cold.is_some() || damaged.is_empty() {
            return Ok(());
        }
        self.pool
            .members
            .change_record(&|members| {
                members.epoch += 1;
                for (uuid, incarnation) in &damaged {
                    if let Some(member) = members.member_mut(*uuid) {
                        member.incarnation = *incarnation;
                    }
                }
            })
            .await?;
        self.pool.members.take_incarnations();
        Ok(())
    }
}

impl<E: Env> FoundContent<E> {
    fn starts_cold(&mut self, ssd: &Rc<SlotSsd<E>>, why: &str) {
        self.notes.push(format!("SSD {} starts empty: {why}", ssd.path));
        self.cold.push(Rc::clone(ssd));
    }
}

impl<E: Env> PoolInner<E> {
    /// A start came to nothing: SSDs that failed meanwhile stay on record, for nobody knows what they hold, and whoever can open
    /// the pool may.
    async fn cancel_start(self: &Rc<Self>) {
        if let Some(log) = &self.log {
            log.set_known(Known::Never);
        }
        self.members.release().await;
    }

    /// Empties the indexes of these SSDs.
    pub(crate) async fn start_cold(self: &Rc<Self>, cold: &[Rc<SlotSsd<E>>]) {
        for ssd in cold {
            if let Err(fault) = ssd.empty_index().await {
                self.members.ssd_failed(&ssd.ssd, &fault);
            }
        }
    }

    /// A checkpoint of the new session on every SSD, then the session's record.
    pub(crate) async fn begin_session(self: &Rc<Self>) -> Result<(), Error> {
        let session = self.members.record().session + 1;
        for ssd in self.clean.ssds().iter() {
            if let Err(fault) = self.clean.index().begin_session(ssd, session).await {
                self.members.ssd_failed(&ssd.ssd, &fault);
            }
        }
        let online: Vec<u128> = self.members.online_ssds().map(|ssd| ssd.uuid).collect();
        self.members
            .change_record(&|members| {
                members.session = session;
                for member in &mut members.ssds {
                    member.journal_end = None;
                    if online.contains(&member.ssd_uuid) {
                        member.session = session;
                    }
                }
            })
            .await
    }

    /// Starts the tasks that watch over the members.
    pub(crate) fn watch(self: &Rc<Self>) {
        let (env, members) = (&self.env, &self.members);
        env.spawn(run_watchdog(env.clone(), Rc::downgrade(self)));
        env.spawn(run_owner(env.clone(), Rc::clone(members.owner()), Rc::downgrade(self)));
        env.spawn(run_departures(env.clone(), Rc::clone(members.departures()), Rc::downgrade(self)));
    }

    /// Starts the background tasks.
    pub(crate) fn serve(self: &Rc<Self>) {
        self.env.spawn(run_fill_pump(Rc::clone(&self.rooms)));
        self.env.spawn(Rc::clone(&self.publisher).run_publisher());
        self.env.spawn(run_settling(self.env.clone(), Rc::downgrade(&self.rooms)));
        self.env.spawn(Rc::clone(&self.joiner).run_spares());
        if let Some(log) = &self.log {
            let pool = Rc::clone(self);
            log.serve(move || pool.host_requests());
            self.env.spawn(Rc::clone(self).run_cleaner(Rc::clone(log)));
            self.env.spawn(Rc::clone(self).run_redirects(Rc::clone(log)));
            self.env.spawn(run_returns(self.env.clone(), Rc::downgrade(&self.joiner)));
        }
    }

    /// Reads and writes of hosts so far.
    fn host_requests(&self) -> u64 {
        let volumes = self.volumes.all();
        volumes.iter().map(|(_, volume)| volume.stats.host_requests()).sum()
    }
}

/// The task that watches for SSDs that do not answer, from the first I/O of a start to the end of the stop, and knows which
/// backing devices do not. While it sleeps it keeps neither the pool nor its devices.
pub(crate) async fn run_watchdog<E: Env>(env: E, pool: Weak<PoolInner<E>>) {
    loop {
        env.sleep(limits::SSD_TIMEOUT / 4).await;
        match pool.upgrade() {
            Some(pool) if !pool.life.has_stopped() => {
                pool.watch.watch_ssds();
                pool.watch.watch_read_only();
                for (_, volume) in pool.volumes.all() {
                    volume.backing.hangs_for();
                }
                pool.members.watch_writes();
                pool.members.watch_state();
                pool.members.witness_keeper().watch();
            }
            Some(_) | None => return,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hotset_block::{Executor, ExecutorOptions, HostDevice, HostEnv, MemoryDevice};

    use super::*;
    use crate::format::layout::STATE_BYTES;
    use crate::format::members::{MembersRecord, tests as members};
    use crate::format::superblock::tests as superblock;

    /// A read-write pool over SSDs in memory that have these UUIDs, put together and not started: none of its tasks runs.
    pub(crate) fn with_pool(uuids: &[u128], test: impl AsyncFnOnce(&Rc<PoolInner<HostEnv>>)) {
        with_pool_and(None, uuids, test);
    }

    /// The same with a state directory.
    pub(crate) fn with_pool_and_state(uuids: &[u128], test: impl AsyncFnOnce(&Rc<PoolInner<HostEnv>>)) {
        with_pool_and(Some(HostDevice::Memory(MemoryDevice::new(STATE_BYTES, 512))), uuids, test);
    }

    fn with_pool_and(state: Option<HostDevice>, uuids: &[u128], test: impl AsyncFnOnce(&Rc<PoolInner<HostEnv>>)) {
        Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring").run(async |env| {
            let pool = Parts { state, ..parts(env, uuids) }.assemble();
            // Else writes wait for that, if the test begins long after the process.
            pool.members.owner().has_looked(pool.env.now(), pool.env.real_now());
            test(&pool).await;
        });
    }

    fn parts(env: HostEnv, uuids: &[u128]) -> Parts<HostEnv> {
        let mut distinct = uuids.to_vec();
        distinct.dedup();
        let record = members::sample();
        let member = |ssd_uuid| Member { ssd_uuid, ..record.ssds[0].clone() };
        let ssds = distinct.into_iter().map(member).collect();
        let mut record = MembersRecord { kind: PoolKind::ReadWrite, ssds, ..record };
        record.settings.block_bytes = superblock::sample().layout.block_bytes;
        let ssd = |ssd_uuid: &u128| {
            let superblock = Superblock { ssd_uuid: *ssd_uuid, ..superblock::sample() };
            let device = HostDevice::Memory(MemoryDevice::new(superblock.layout.ssd_bytes, 512));
            (Named { path: format!("ssd-{ssd_uuid}"), device }, superblock)
        };
        Parts {
            env,
            uuid: 1,
            ssds: uuids.iter().map(ssd).collect(),
            absent: Vec::new(),
            spares: Vec::new(),
            state: None,
            records: Records::first(record),
            entry: Admitted::none(),
        }
    }
}
