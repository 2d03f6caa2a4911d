//! A pool is made, or starts (rules `membership`, `recovery`): members and epoch, catalogue, slot indexes; then it
//! serves.
//!
//! The order of what is written at a start: the clean mark is erased first; an SSD that is not believed gets a new
//! incarnation; then every SSD a checkpoint of the new session; then the new session is recorded. A crash at any moment
//! between leaves a start that can be repeated.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hotset_block::sync::{Event, Semaphore};
use hotset_block::{Buf, Device, Env};

use crate::config::{PoolKind, limits};
use crate::error::{Error, ErrorKind};
use crate::format::catalogue::Catalogue;
use crate::format::layout::{CATALOGUE_AREA_BYTES_MAX, Layout, RECORDS_OFFSET, SUPERBLOCK_OFFSETS, segment_bytes_for};
use crate::format::members::{Member, Members};
use crate::format::record::{Record, RecordKind};
use crate::format::rows::Rows;
use crate::format::superblock::Superblock;
use crate::planted::{Planted, planted};
use crate::pool::{LABEL_BYTES, Missing, Named, Pool, PoolInner, PoolSpec, PoolVolume, STATE_BYTES, newest_superblock};
use crate::ssd::{Fault, Ssd};
use crate::state::fills::Fills;
use crate::state::map::Map;
use crate::state::{Counters, Policy, SlotIndex, SsdIndex};
use crate::status::SsdStatus;

use super::records::{newest_record, to_buf};
use super::recover::Unbelieved;
use super::within;

/// An SSD whose superblock was read.
struct Found<D> {
    named: Named<D>,
    superblock: Superblock,
    members: Option<Record>,
    catalogue: Option<Record>,
    rows: Option<Record>,
}

/// Everything that a pool is put together from.
struct Parts<E: Env> {
    env: E,
    uuid: u128,
    ssds: Vec<(Named<E::Device>, Superblock)>,
    absent: Vec<SsdStatus>,
    state: Option<E::Device>,
    members: Members,
    members_number: u64,
    catalogue: Catalogue,
    catalogue_number: u64,
    was_clean: bool,
}

fn random_uuid<E: Env>(env: &E) -> u128 {
    (u128::from(env.random()) << 64) | u128::from(env.random())
}

/// See [`Pool::create`].
pub(crate) async fn create<E: Env>(
    env: E,
    spec: PoolSpec,
    ssds: Vec<Named<E::Device>>,
    state: E::Device,
) -> Result<Pool<E>, Error> {
    let sizes: Vec<u64> = ssds.iter().map(|ssd| ssd.device.info().size_bytes).collect();
    Pool::<E>::plan(&spec, &sizes)?;
    check_state_size::<E>(&state)?;
    let uuid = random_uuid(&env);
    let smallest = sizes.iter().min().copied().expect("a planned pool has an SSD");
    let segment_bytes = segment_bytes_for(spec.settings.block_bytes, smallest);
    let mut parts = Parts {
        uuid,
        ssds: Vec::new(),
        absent: Vec::new(),
        state: Some(state),
        members: first_members(&spec),
        members_number: 0,
        catalogue: Catalogue { next_attachment: 1, volumes: Vec::new() },
        catalogue_number: 0,
        was_clean: false,
        env,
    };
    for named in ssds {
        let info = named.device.info();
        let layout = Layout::new(info.size_bytes, info.logical_block_bytes, spec.settings.block_bytes, segment_bytes)?;
        let superblock = Superblock {
            pool_uuid: uuid,
            ssd_uuid: random_uuid(&parts.env),
            pool_name: spec.name.clone(),
            kind: spec.kind,
            checksums: spec.settings.checksums,
            layout,
        };
        parts.members.ssds.push(new_member(&parts.env, &named.path, &superblock));
        parts.ssds.push((named, superblock));
    }
    let pool = parts.assemble();
    pool.env.spawn(Rc::clone(&pool).run_watchdog());
    let fresh: Vec<Rc<Ssd<E>>> = pool.ssds.clone();
    pool.start_cold(&fresh).await;
    pool.write_first_records().await?;
    pool.write_superblocks().await?;
    pool.begin_session().await?;
    pool.serve();
    Ok(Pool { inner: pool })
}

fn not_made<E: Env>(ssd: &Ssd<E>, fault: &Fault) -> Error {
    let name = format!("SSD {}", ssd.path);
    match fault {
        Fault::Device(error) => Error::device(&name, error),
        Fault::Offline => Error::new(ErrorKind::Gone, format!("{name}: {}", ssd.reason.borrow())),
    }
}

fn first_members(spec: &PoolSpec) -> Members {
    Members {
        name: spec.name.clone(),
        kind: spec.kind,
        settings: spec.settings,
        epoch: 1,
        session: 0,
        clean: false,
        ssds: Vec::new(),
    }
}

fn new_member<E: Env>(env: &E, path: &str, superblock: &Superblock) -> Member {
    Member {
        ssd_uuid: superblock.ssd_uuid,
        size_bytes: superblock.layout.ssd_bytes,
        path: path.to_owned(),
        incarnation: env.random(),
        session: 0,
        journal_end: None,
    }
}

fn check_state_size<E: Env>(state: &E::Device) -> Result<(), Error> {
    let size = state.info().size_bytes;
    if size >= STATE_BYTES {
        return Ok(());
    }
    let message = format!("the pool's member file in the state directory has {size} bytes instead of {STATE_BYTES}");
    Err(Error::new(ErrorKind::Corrupt, message))
}

/// See [`Pool::open`].
pub(crate) async fn open<E: Env>(
    env: E,
    ssds: Vec<Named<E::Device>>,
    state: Option<E::Device>,
    missing: Missing,
) -> Result<Pool<E>, Error> {
    let found = look_at_all(&env, ssds, missing).await?;
    let uuid = common_pool(&found)?;
    let state_members = state_record::<E>(&env, state.as_ref(), RecordKind::Members, uuid).await;
    let state_catalogue = state_record::<E>(&env, state.as_ref(), RecordKind::Catalogue, uuid).await;
    let newest = |one: Option<&Record>, other: Option<&Record>| {
        one.map(|record| record.number) >= other.map(|record| record.number)
    };
    let ssd_members = found.iter().filter_map(|ssd| ssd.members.as_ref()).max_by_key(|record| record.number);
    let ssd_catalogue = found.iter().filter_map(|ssd| ssd.catalogue.as_ref()).max_by_key(|record| record.number);
    let agrees = state_members.is_some()
        && newest(state_members.as_ref(), ssd_members)
        && newest(state_catalogue.as_ref(), ssd_catalogue);
    let members_record = latest(state_members.as_ref(), ssd_members).ok_or_else(|| {
        let message = "no member of the pool has a valid members record: the pool cannot be opened; \
                       create it anew (a read pool holds nothing that the backing devices do not)";
        Error::new(ErrorKind::Corrupt, message)
    })?;
    let members = Members::decode(&members_record.payload).map_err(|error| corrupt(&error))?;
    let catalogue_record = latest(state_catalogue.as_ref(), ssd_catalogue);
    let catalogue = match catalogue_record {
        Some(record) => Catalogue::decode(&record.payload).map_err(|error| corrupt(&error))?,
        None => Catalogue { next_attachment: 1, volumes: Vec::new() },
    };
    check_rows(&found)?;
    let (members_number, pool_uuid) = (members_record.number, members_record.pool_uuid);
    let catalogue_number = catalogue_record.map_or(0, |record| record.number);
    let plan = Membership::judge(&found, &members, agrees, state.is_some());
    if missing == Missing::Refuse && !plan.missing.is_empty() {
        return Err(missing_error(&members, &plan.missing));
    }
    let was_clean = members.clean;
    let before = members.clone();
    let parts = Parts {
        uuid: pool_uuid,
        absent: plan.missing.iter().map(absent_status).collect(),
        ssds: found.into_iter().map(|ssd| (ssd.named, ssd.superblock)).collect(),
        state: state.filter(|state| state.info().size_bytes >= STATE_BYTES),
        members,
        members_number,
        catalogue,
        catalogue_number,
        was_clean: was_clean && agrees,
        env,
    };
    let pool = parts.start(&plan).await?;
    pool.recover(&before, &plan).await?;
    pool.serve();
    Ok(Pool { inner: pool })
}

/// A pool with a write log holds data that this version cannot read: it must not be touched.
fn check_rows<D>(found: &[Found<D>]) -> Result<(), Error> {
    for ssd in found {
        let Some(record) = &ssd.rows else { continue };
        let rows = Rows::decode(&record.payload).map_err(|error| corrupt(&error))?;
        if !rows.rows.is_empty() || ssd.superblock.kind == PoolKind::ReadWrite {
            let message = format!(
                "SSD {} belongs to a read-write pool with a write log, which this version cannot open",
                ssd.named.path
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    Ok(())
}

fn corrupt(error: &crate::format::Corrupt) -> Error {
    Error::new(ErrorKind::Corrupt, error.to_string())
}

fn latest<'a>(one: Option<&'a Record>, other: Option<&'a Record>) -> Option<&'a Record> {
    [one, other].into_iter().flatten().max_by_key(|record| record.number)
}

fn missing_error(members: &Members, missing: &[Member]) -> Error {
    let paths: Vec<&str> = missing.iter().map(|member| member.path.as_str()).collect();
    let message = format!("pool {}: missing SSD(s): {}", members.name, paths.join(", "));
    Error::new(ErrorKind::Gone, message)
}

fn absent_status(member: &Member) -> SsdStatus {
    SsdStatus {
        path: member.path.clone(),
        uuid: member.ssd_uuid,
        size_bytes: member.size_bytes,
        online: false,
        reason: "missing at the start: it left the pool".to_owned(),
        slots: 0,
        slots_used: 0,
        read_errors: 0,
        bytes_written: 0,
    }
}

/// Looks at every SSD. One that fails or does not answer is refused like one that is missing, or left out like it.
async fn look_at_all<E: Env>(
    env: &E,
    ssds: Vec<Named<E::Device>>,
    missing: Missing,
) -> Result<Vec<Found<E::Device>>, Error> {
    let mut found = Vec::new();
    for named in ssds {
        let path = named.path.clone();
        let looked = within(env, limits::SSD_TIMEOUT, look_at(env, named)).await;
        let seconds = limits::SSD_TIMEOUT.as_secs();
        let silent = || Err(Error::new(ErrorKind::Gone, format!("SSD {path} did not answer for {seconds} s")));
        match looked.unwrap_or_else(silent) {
            Ok(ssd) => found.push(ssd),
            Err(error) if missing == Missing::Refuse || !is_missing(&error) => return Err(error),
            Err(_left_out) => {}
        }
    }
    Ok(found)
}

/// The SSD itself failed, as opposed to what it holds.
fn is_missing(error: &Error) -> bool {
    match error.kind {
        ErrorKind::Media | ErrorKind::Gone => true,
        ErrorKind::Invalid
        | ErrorKind::OutOfRange
        | ErrorKind::ReadOnly
        | ErrorKind::Full
        | ErrorKind::Unsupported
        | ErrorKind::Refused
        | ErrorKind::NotFound
        | ErrorKind::Corrupt
        | ErrorKind::Stopping => false,
    }
}

/// Reads an SSD's superblock and its newest records.
async fn look_at<E: Env>(env: &E, named: Named<E::Device>) -> Result<Found<E::Device>, Error> {
    let (bytes, read) = named.device.read(0, env.buffers().take(LABEL_BYTES)).await;
    read.map_err(|error| Error::device(&format!("SSD {}", named.path), &error))?;
    let superblock = newest_superblock(&bytes)
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("SSD {}: {error}", named.path)))?;
    let Some(superblock) = superblock else {
        let message = format!("{} carries no Hotset superblock: it is not an SSD of a pool", named.path);
        return Err(Error::new(ErrorKind::Invalid, message));
    };
    if superblock.layout.ssd_bytes > named.device.info().size_bytes {
        let message = format!(
            "SSD {} was {} bytes and is {} bytes now: it was cut short; give it its size back or leave it out",
            named.path,
            superblock.layout.ssd_bytes,
            named.device.info().size_bytes
        );
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    let area = superblock.layout.catalogue_area_bytes;
    let uuid = Some(superblock.pool_uuid);
    let read =
        async |offset: u64, length: usize| read_at::<E>(env, &named.device, RECORDS_OFFSET + offset, length).await;
    let members = newest_record(RecordKind::Members, area, uuid, read).await.ok().flatten();
    let catalogue = newest_record(RecordKind::Catalogue, area, uuid, read).await.ok().flatten();
    let rows = newest_record(RecordKind::Rows, area, uuid, read).await.ok().flatten();
    Ok(Found { named, superblock, members, catalogue, rows })
}

async fn read_at<E: Env>(env: &E, device: &E::Device, offset: u64, length: usize) -> Option<Buf> {
    let (buf, result) = device.read(offset, env.buffers().take(length)).await;
    result.ok().map(|()| buf)
}

async fn state_record<E: Env>(
    env: &E,
    state: Option<&E::Device>,
    kind: RecordKind,
    uuid: Option<u128>,
) -> Option<Record> {
    let state = state.filter(|state| state.info().size_bytes >= STATE_BYTES)?;
    let read = async |offset: u64, length: usize| read_at::<E>(env, state, offset, length).await;
    newest_record(kind, CATALOGUE_AREA_BYTES_MAX, uuid, read).await.ok().flatten()
}

/// The pool to which all SSDs belong; `None` without SSDs.
fn common_pool<D>(found: &[Found<D>]) -> Result<Option<u128>, Error> {
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

/// Who is in the pool at this start, and who is believed (rule `membership`).
struct Membership {
    /// Members that are not there.
    missing: Vec<Member>,
    /// SSDs that are there and are no members (any more): they come back empty.
    returned: Vec<u128>,
    /// Nothing on any SSD is believed, and why.
    all_cold: Option<String>,
}

impl Membership {
    fn judge<D>(found: &[Found<D>], members: &Members, state_agrees: bool, state: bool) -> Self {
        let is_there = |member: &&Member| found.iter().any(|ssd| ssd.superblock.ssd_uuid == member.ssd_uuid);
        let missing: Vec<Member> = members.ssds.iter().filter(|member| !is_there(member)).cloned().collect();
        let uuids = found.iter().map(|ssd| ssd.superblock.ssd_uuid);
        let returned = uuids.filter(|uuid| members.member(*uuid).is_none()).collect();
        let present = members.ssds.len() - missing.len() + usize::from(state);
        let majority = present * 2 > members.ssds.len() + 1;
        let all_cold = if planted(Planted::OpenWarmWithoutState) {
            None
        } else if !state_agrees {
            Some("the state directory does not know the pool's newest state".to_owned())
        } else if !majority {
            Some(format!("only {present} of {} members are there", members.ssds.len() + 1))
        } else {
            None
        };
        Self { missing, returned, all_cold }
    }
}

impl<E: Env> Parts<E> {
    fn assemble(self) -> Rc<PoolInner<E>> {
        let settings = self.members.settings;
        let pages_per_block = settings.block_bytes.pages();
        let mut map = Map::new(pages_per_block, settings.checksums);
        let mut ssds = Vec::new();
        for (index, (named, superblock)) in self.ssds.into_iter().enumerate() {
            let index = SsdIndex(u16::try_from(index).expect("SSDs of a pool are bounded"));
            let first_slot: SlotIndex = map.add_slots(superblock.layout.slot_count());
            let ssd = Ssd::new(self.env.clone(), index, named, &superblock, first_slot);
            let incarnation = self.members.member(superblock.ssd_uuid).map_or(0, |member| member.incarnation);
            ssd.incarnation.set(incarnation);
            ssds.push((Rc::new(ssd), superblock));
        }
        let slots = map.slot_count();
        let volumes = self.catalogue.volumes.iter();
        let volumes = volumes.map(|volume| Some(PoolVolume { attachment: volume.attachment, volume: None })).collect();
        Rc::new(PoolInner {
            env: self.env,
            uuid: self.uuid,
            name: self.members.name.clone(),
            kind: self.members.kind,
            settings: Cell::new(settings),
            pages_per_block,
            superblocks: RefCell::new(ssds.iter().map(|(_, superblock)| superblock.clone()).collect()),
            ssds: ssds.into_iter().map(|(ssd, _)| ssd).collect(),
            absent: self.absent,
            state: self.state,
            map: RefCell::new(map),
            policy: RefCell::new(Policy::new(settings.policy, slots)),
            counters: RefCell::new(Counters::new(slots, pages_per_block)),
            volumes: RefCell::new(volumes),
            members: RefCell::new(self.members),
            members_number: Cell::new(self.members_number),
            catalogue: RefCell::new(self.catalogue),
            catalogue_number: Cell::new(self.catalogue_number),
            was_clean: Cell::new(self.was_clean),
            records_lock: Semaphore::new(1),
            admin_lock: Semaphore::new(1),
            publish_lock: Semaphore::new(1),
            fills: Fills::default(),
            fill_pump_wanted: Event::new(),
            drops: RefCell::new(BTreeMap::new()),
            freed: RefCell::default(),
            unpublished: RefCell::default(),
            publish_wanted: Event::new(),
            stopping: Cell::new(false),
            stopped: Cell::new(false),
            fenced: RefCell::new(None),
            recovery: RefCell::default(),
        })
    }

    /// Erases the clean mark and records who is in the pool now, before anything else is written.
    async fn start(self, plan: &Membership) -> Result<Rc<PoolInner<E>>, Error> {
        let pool = self.assemble();
        pool.env.spawn(Rc::clone(&pool).run_watchdog());
        let changed = !plan.missing.is_empty() || !plan.returned.is_empty() || plan.all_cold.is_some();
        let joining: Vec<Member> = pool
            .ssds
            .iter()
            .filter(|ssd| plan.returned.contains(&ssd.uuid))
            .map(|ssd| {
                let superblocks = pool.superblocks.borrow();
                let superblock = &superblocks[usize::from(ssd.index.0)];
                new_member(&pool.env, &ssd.path, superblock)
            })
            .collect();
        let incarnations: Vec<u64> = pool.ssds.iter().map(|_| pool.env.random()).collect();
        let keep_mark = planted(Planted::CleanMarkKept);
        pool.change_members(&|members| {
            members.clean &= keep_mark;
            members.epoch += u64::from(changed);
            members.ssds.retain(|member| plan.missing.iter().all(|missing| missing.ssd_uuid != member.ssd_uuid));
            members.ssds.extend(joining.iter().cloned());
            for (ssd, incarnation) in pool.ssds.iter().zip(&incarnations) {
                let member = members.member_mut(ssd.uuid).expect("every SSD that is there is a member now");
                member.path.clone_from(&ssd.path);
                if plan.all_cold.is_some() {
                    member.incarnation = *incarnation;
                }
            }
        })
        .await?;
        pool.take_incarnations();
        Ok(pool)
    }
}

impl<E: Env> PoolInner<E> {
    /// The SSDs' incarnations are those of the members record.
    fn take_incarnations(&self) {
        let members = self.members.borrow();
        for ssd in &self.ssds {
            if let Some(member) = members.member(ssd.uuid) {
                ssd.incarnation.set(member.incarnation);
            }
        }
    }

    /// Reads the slot indexes of the SSDs that are believed; the others start cold. Then begins the session.
    async fn recover(self: &Rc<Self>, before: &Members, plan: &Membership) -> Result<(), Error> {
        let started = self.env.now();
        let mut notes = Vec::new();
        let mut cold = Vec::new();
        let mut slots = 0;
        for ssd in &self.ssds {
            let known = before.member(ssd.uuid).filter(|_| plan.all_cold.is_none());
            let Some(member) = known else {
                let why = plan.all_cold.as_deref().unwrap_or("it came back to the pool with old content");
                notes.push(format!("SSD {} starts empty: {why}", ssd.path));
                cold.push(Rc::clone(ssd));
                continue;
            };
            match self.recover_ssd(ssd, member).await {
                Ok(count) => slots += count,
                Err(Unbelieved::Cold(reason)) => {
                    notes.push(format!("SSD {} starts empty: {reason}", ssd.path));
                    cold.push(Rc::clone(ssd));
                }
                Err(Unbelieved::Fault(fault)) => self.ssd_failed(ssd, &fault),
            }
        }
        self.record_cold(&cold, plan).await?;
        self.start_cold(&cold).await;
        self.begin_session().await?;
        let milliseconds = self.env.now().since(started).as_millis();
        notes.insert(0, format!("{slots} cached blocks found in {milliseconds} ms"));
        *self.recovery.borrow_mut() = notes.join("; ");
        Ok(())
    }

    /// New incarnations, durably, for SSDs whose index is not believed; those of `plan` have theirs already.
    async fn record_cold(self: &Rc<Self>, cold: &[Rc<Ssd<E>>], plan: &Membership) -> Result<(), Error> {
        let damaged: Vec<(u128, u64)> = cold.iter().map(|ssd| (ssd.uuid, self.env.random())).collect();
        if plan.all_cold.is_some() || damaged.is_empty() {
            return Ok(());
        }
        self.change_members(&|members| {
            members.epoch += 1;
            for (uuid, incarnation) in &damaged {
                if let Some(member) = members.member_mut(*uuid) {
                    member.incarnation = *incarnation;
                }
            }
        })
        .await?;
        self.take_incarnations();
        Ok(())
    }

    /// Empties the indexes of these SSDs.
    async fn start_cold(self: &Rc<Self>, cold: &[Rc<Ssd<E>>]) {
        for ssd in cold {
            if let Err(fault) = self.reset_index(ssd).await {
                self.ssd_failed(ssd, &fault);
            }
        }
    }

    /// A checkpoint of the new session on every SSD, then the session's record.
    async fn begin_session(self: &Rc<Self>) -> Result<(), Error> {
        let session = self.members.borrow().session + 1;
        for ssd in &self.ssds {
            if let Err(fault) = self.write_checkpoint(ssd, session).await {
                self.ssd_failed(ssd, &fault);
            }
        }
        let online: Vec<u128> = self.online_ssds().map(|ssd| ssd.uuid).collect();
        self.change_members(&|members| {
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

    async fn write_first_records(self: &Rc<Self>) -> Result<(), Error> {
        self.write_record(RecordKind::Rows, Rows::default().encode()).await?;
        self.change_catalogue(&|_| {}).await?;
        self.change_members(&|_| {}).await
    }

    /// Both copies on every SSD, one after the other: never both in flight.
    async fn write_superblocks(self: &Rc<Self>) -> Result<(), Error> {
        let superblocks = self.superblocks.borrow().clone();
        for (ssd, superblock) in self.ssds.iter().zip(superblocks) {
            for offset in SUPERBLOCK_OFFSETS {
                let written = ssd.write(offset, to_buf(self.env.buffers(), &superblock.encode())).await;
                let flushed = match written {
                    Ok(_) => ssd.flush().await,
                    Err(fault) => Err(fault),
                };
                flushed.map_err(|fault| not_made(ssd, &fault))?;
            }
        }
        Ok(())
    }

    /// Starts the background tasks.
    fn serve(self: &Rc<Self>) {
        self.env.spawn(Rc::clone(self).run_fill_pump());
        self.env.spawn(Rc::clone(self).run_publisher());
    }

    /// The task that expels an SSD that does not answer, from the first I/O of a start to the end of the stop.
    async fn run_watchdog(self: Rc<Self>) {
        while !self.stopped.get() {
            self.env.sleep(limits::SSD_TIMEOUT / 4).await;
            for ssd in self.online_ssds().filter(|ssd| ssd.oldest_operation() > limits::SSD_TIMEOUT) {
                let seconds = ssd.oldest_operation().as_secs();
                self.expel(ssd, &format!("it did not answer for {seconds} s"));
            }
        }
    }
}
