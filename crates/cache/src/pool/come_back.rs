//! SSDs that left come back by themselves (REQUIREMENTS F5): those that were silent, or had no room, or were write-protected, and
//! those that are waited for because they have what no other SSD has.
//!
//! What comes back joins as a newcomer does, with an empty slot index, and with what it has of the log: its copies of rows
//! that were sealed before it left are relied on again once a row record says so, and what is set aside there is dirty as
//! before (`set_aside.rs`). One that takes no writes yet is only read.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Device, DeviceError, Env, Instant};

use crate::address::at;
use crate::clean::slot_ssd::SlotSsd;
use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::format::log::Summary;
use crate::format::superblock::Superblock;
use crate::log::read_summary::read_summary_of;
use crate::log::scan_aside::{hold_segment, hold_segments};
use crate::log::write_log::{Mirror, Row, RowState};
use crate::members::label::{Named, newest_superblock};
use crate::members::life::LifeChange;
use crate::members::owner::refuse_living;
use crate::members::ssd::{Ssd, is_gone};
use crate::pool::PoolInner;

/// An SSD that came back so often is left out for longer and longer when it leaves again, up to this; if nothing happened to it
/// for so long, it counts as one that never left.
const RETURNS_AT_ONCE: u32 = 4;
const LEFT_OUT_MAX: Duration = Duration::from_hours(1);

/// How often an SSD came back, and when it may again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returns {
    count: u32,
    last: Instant,
    /// It is left out for so long afterwards.
    wait: Duration,
}

/// A copy of a segment that lies on an SSD that is back, and is not relied on yet.
struct OldCopy {
    row: Rc<Row>,
    position: u32,
    side: usize,
    mirror: Mirror,
}

impl OldCopy {
    fn cell(&self) -> &Cell<Mirror> {
        &self.row.segments[at(self.position)][self.side]
    }
}

impl<E: Env> PoolInner<E> {
    /// The SSDs that are to be taken back as soon as they are there, opened anew: UUID, and where each was last.
    pub(crate) fn ssds_returning(&self) -> Vec<(u128, String)> {
        let mut returning = self.ssds_awaited();
        let silent = self.members.ssds().filter(|ssd| ssd.life().is_silent() && self.may_return(ssd));
        let silent = silent.map(|ssd| (ssd.uuid, ssd.path.clone()));
        let before = if self.life.is_fenced() { Vec::new() } else { self.members.away_since_before() };
        for (uuid, path) in silent.chain(before) {
            if returning.iter().all(|(other, _)| *other != uuid) {
                returning.push((uuid, path));
            }
        }
        returning
    }

    /// It left durably, nothing is in its place, and it did not come and go too often.
    fn may_return(&self, ssd: &Ssd<E>) -> bool {
        let is_in = self.members.has(ssd.uuid);
        let returns = self.returns.borrow().get(&ssd.uuid).copied();
        let in_time = returns.is_none_or(|returns| self.env.now().since(returns.last) >= returns.wait);
        ssd.life().is_missed() && ssd.life().is_forgotten() && !is_in && in_time && !self.life.is_fenced()
    }

    fn count_return(&self, uuid: u128) {
        let mut returns = self.returns.borrow_mut();
        let now = self.env.now();
        let lately = returns.get(&uuid).filter(|returns| now.since(returns.last) < LEFT_OUT_MAX);
        let count = lately.map_or(0, |returns| returns.count) + 1;
        let wait = match count.checked_sub(RETURNS_AT_ONCE) {
            None => Duration::ZERO,
            Some(more) => limits::SSD_TIMEOUT.saturating_mul(1 << more.min(16)).min(LEFT_OUT_MAX),
        };
        returns.insert(uuid, Returns { count, last: now, wait });
    }

    /// See [`crate::Pool::bring_back`].
    pub(crate) async fn bring_back(self: &Rc<Self>, named: Named<E::Device>) -> Result<(), Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let refused = |why: &str| Err(Error::new(ErrorKind::Refused, format!("SSD {} {why}", named.path)));
        refuse_living(&self.env, std::slice::from_ref(&named)).await?;
        let bytes = self.members.read_label(&named.path, &named.device).await?;
        let superblock =
            newest_superblock(&bytes).map_err(|error| Error::unusable(&format!("SSD {}", named.path), &error))?;
        let Some(superblock) = superblock.filter(|superblock| superblock.pool_uuid == self.uuid && !superblock.spare)
        else {
            return refused("is not the one that left the pool");
        };
        if self.members.has(superblock.ssd_uuid) {
            return refused("is in the pool");
        }
        if self.ssds_returning().iter().all(|(uuid, _)| *uuid != superblock.ssd_uuid) {
            return refused("left the pool, and is not waited for: add it as a new one");
        }
        if superblock.layout.ssd_bytes > named.device.info().size_bytes {
            return refused("was cut short since it left the pool: give it its size back");
        }
        self.check_room_for(&[superblock.layout])?;
        let device = Rc::new(named.device);
        match self.members.probe_device(&device).await {
            Some(Ok(())) => self.join_again(named.path, device, superblock).await,
            Some(Err(error)) if !is_gone(&error) => {
                self.only_read(named.path, device, &superblock, &error).await;
                Ok(())
            }
            Some(Err(error)) => Err(Error::device(&format!("SSD {}", named.path), &error)),
            None => Err(self.members.no_answer(&named.path)),
        }
    }

    /// It takes writes: from here on it is an SSD like the others.
    async fn join_again(
        self: &Rc<Self>,
        path: String,
        device: Rc<E::Device>,
        superblock: Superblock,
    ) -> Result<(), Error> {
        let newcomer = Rc::new(self.newcomer_again(path, device, &superblock));
        let ssd = Rc::new(SlotSsd::new(newcomer));
        ssd.incarnation.set(self.env.random());
        // Its superblock stays, so that a crash leaves what it was.
        let aside = self.rows_aside();
        let emptied = async {
            hold_segments(ssd.to_read(), &aside).await;
            let copies = self.hold_copies(&ssd).await;
            let session = self.members.record().session;
            self.clean.index().format(&ssd, session).await?;
            Ok(copies)
        };
        let copies = ssd.in_time(emptied).await?;
        self.count_return(ssd.uuid);
        self.record_newcomers(&[Rc::clone(&ssd)], &[superblock]).await?;
        self.replace_former(&ssd);
        self.members.forget_absent(&[ssd.uuid]);
        self.commit_copies(&ssd.ssd, copies).await;
        self.take_back(&ssd.ssd).await;
        Ok(())
    }

    fn newcomer_again(&self, path: String, device: Rc<E::Device>, superblock: &Superblock) -> Ssd<E> {
        Ssd::newcomer(self.env.clone(), self.members.next_index(0), path, device, superblock)
    }

    /// The rows that are set aside, of a pool that has a log.
    fn rows_aside(&self) -> Vec<Rc<Row>> {
        self.log.as_ref().map(|log| log.rows_aside()).unwrap_or_default()
    }

    /// What was read from the object that left is read from the new one, from the same turn on.
    fn replace_former(&self, ssd: &Ssd<E>) {
        for former in self.members.ssds().filter(|other| other.uuid == ssd.uuid && other.index != ssd.index) {
            for cell in self.rows_aside().iter().flat_map(|row| row.segments.iter().flatten()) {
                if cell.get().ssd == Some(former.index) {
                    cell.set(Mirror { ssd: Some(ssd.index), ..cell.get() });
                }
            }
            former.change(LifeChange::Replaced);
            former.go_offline(LifeChange::Failed, "");
            former.let_go();
        }
    }

    /// It takes no writes: what is set aside there is read, and nothing else is done with it.
    async fn only_read(
        self: &Rc<Self>,
        path: String,
        device: Rc<E::Device>,
        superblock: &Superblock,
        error: &DeviceError,
    ) {
        let ssd = self.newcomer_again(path, device, superblock);
        let aside = self.rows_aside();
        hold_segments(ssd.to_read(), &aside).await;
        ssd.is_only_read(error);
        let ssd = Rc::new(ssd);
        self.members.push(&ssd);
        self.clean.ssds().push_without_slots(&ssd);
        self.members.forget_absent(&[ssd.uuid]);
        self.take_back(&ssd).await;
    }

    // ---- SSDs that take no writes

    /// Looks whether SSDs that take no writes are still there, and whether they take them again. Called by the watchdog.
    pub(crate) fn watch_read_only(self: &Rc<Self>) {
        if self.life.is_stopping() {
            return;
        }
        for ssd in self.members.ssds().filter(|ssd| ssd.life().is_read_only()) {
            if ssd.oldest_operation() > limits::SSD_TIMEOUT {
                let seconds = ssd.oldest_operation().as_secs();
                self.members.expel(ssd, &format!("it took no writes, and then did not answer for {seconds} s"));
            } else if ssd.may_pass() && !ssd.is_busy() && self.may_return(ssd) && ssd.begin_probe() {
                let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
                self.env.spawn(async move {
                    pool.try_again(&ssd).await;
                    ssd.end_probe();
                });
            }
        }
    }

    async fn try_again(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let Ok(device) = ssd.device() else { return };
        let (Some(Ok(())), false) = (self.members.probe_device(&device).await, self.life.is_stopping()) else { return };
        let Ok(bytes) = self.members.read_label(&ssd.path, &device).await else { return };
        let Ok(Some(superblock)) = newest_superblock(&bytes) else { return };
        let fits = superblock.ssd_uuid == ssd.uuid && self.may_return(ssd);
        if fits && self.check_room_for(&[superblock.layout]).is_ok() {
            // What fails now is tried again.
            let _ = self.join_again(ssd.path.clone(), device, superblock).await;
        }
    }

    // ---- its copies of rows

    /// Its copies of rows that live are used for nothing else. Before it has slots.
    async fn hold_copies(self: &Rc<Self>, ssd: &Ssd<E>) -> Vec<OldCopy> {
        let Some(log) = &self.log else { return Vec::new() };
        let rows = log.rows_live();
        let sealed: Vec<Rc<Row>> = rows.into_iter().filter(|row| row.state.get() == RowState::Sealed).collect();
        let mut held = Vec::new();
        for row in sealed.iter().filter(|row| row.intact.get()) {
            for (position, pair) in (0..).zip(&row.segments) {
                for (side, mirror) in pair.iter().map(Cell::get).enumerate() {
                    let is_its = mirror.ssd_uuid == ssd.uuid && mirror.ssd.is_none();
                    if is_its && hold_segment(ssd.to_read(), row, position, mirror.segment).await {
                        held.push(OldCopy { row: Rc::clone(row), position, side, mirror });
                    }
                }
            }
        }
        held
    }

    /// They are copies again, durably, as far as the rows live and they are whole.
    async fn commit_copies(self: &Rc<Self>, ssd: &Rc<Ssd<E>>, copies: Vec<OldCopy>) {
        let Some(log) = &self.log else { return };
        let mut relied_on = Vec::new();
        for copy in copies {
            let new = Mirror { ssd: Some(ssd.index), ..copy.mirror };
            let is_whole = self.is_sealed_copy(&copy, new).await;
            let lives = log.row_at(copy.row.slot).is_some_and(|row| Rc::ptr_eq(&row, &copy.row))
                && copy.row.number >= log.oldest_live.get();
            if is_whole && lives && ssd.is_online() && copy.cell().get() == copy.mirror {
                copy.cell().set(new);
                relied_on.push(copy);
            } else if ssd.is_online() {
                ssd.segments.borrow_mut().set_free(copy.mirror.segment);
                ssd.wake_for_segments();
            }
        }
        if !relied_on.is_empty() && self.record_rows(log).await.is_err() {
            for copy in relied_on.iter().filter(|copy| copy.cell().get().ssd == Some(ssd.index)) {
                copy.cell().set(copy.mirror);
            }
        }
        self.count_openable(log);
        self.judge_mirrors(log);
    }

    /// It says of itself what the row is known to be: it was whole before the SSD left.
    async fn is_sealed_copy(self: &Rc<Self>, copy: &OldCopy, mirror: Mirror) -> bool {
        let Some(index) = mirror.ssd else { return false };
        let ssd = self.members.to_read().get(index);
        let Some(bytes) = read_summary_of(ssd, &copy.row, mirror).await else { return false };
        let row = &copy.row;
        Summary::decode(&bytes).is_ok_and(|summary| {
            summary.header == row.header(copy.position)
                && summary.fits(row.batches_end())
                && summary.row_batches == row.batches.get()
                && summary.last_checksum == row.last_checksum.get()
        })
    }
}
