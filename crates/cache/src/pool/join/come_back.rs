//! SSDs that left come back by themselves (REQUIREMENTS F5): those that were silent, or had no room, or were write-protected, and
//! those that are waited for because they have what no other SSD has.
//!
//! What comes back joins as a newcomer does, with an empty slot index, and with what it has of the log: its copies of rows
//! that were sealed before it left are relied on again once a row record says so, and what is set aside there is dirty as
//! before (`log/data_loss/set_aside.rs`). One that takes no writes yet is only read.

use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;

use hotset_block::{DeviceError, Env, Instant};

use crate::address::VolumeIndex;
use crate::clean::slot_ssd::SlotSsd;
use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::format::superblock::Superblock;
use crate::log::row::Row;
use crate::log::scan_aside::hold_segments;
use crate::members::label::{Named, newest_superblock};
use crate::members::life::LifeChange;
use crate::members::owner::refuse_living;
use crate::members::ssd::{Fault, Ssd, is_gone};
use crate::pool::join::Joiner;
use crate::pool::survey::check_shape;
use crate::reasons::OutOfUse;
use crate::volume::inner::VolumeInner;

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

impl<E: Env> Joiner<E> {
    /// The SSDs that are to be taken back as soon as they are there, opened anew: UUID, and where each was last.
    pub(crate) fn ssds_returning(&self) -> Vec<(u128, String)> {
        let mut returning = self.log.as_ref().map_or_else(Vec::new, |log| log.data_loss().ssds_awaited());
        let silent = self.members.ssds().filter(|ssd| ssd.life().is_silent() && self.may_return(ssd));
        let silent = silent.map(|ssd| (ssd.uuid, ssd.path.clone()));
        let mut others = Vec::new();
        if !self.life.is_fenced() {
            others.extend(self.members.away_since_before());
            if self.log.is_none() {
                // A read pool has nothing to lose: what was missing at this start joins it, empty, whenever it comes.
                others.extend(self.members.missing());
            }
        }
        others.retain(|(uuid, _)| self.was_out_long_enough(*uuid));
        for (uuid, path) in silent.chain(others) {
            if returning.iter().all(|(other, _)| *other != uuid) {
                returning.push((uuid, path));
            }
        }
        returning
    }

    /// It left durably, nothing is in its place, and it did not come and go too often.
    pub(crate) fn may_return(&self, ssd: &Ssd<E>) -> bool {
        let is_in = self.members.has(ssd.uuid);
        let in_time = self.was_out_long_enough(ssd.uuid);
        ssd.life().is_missed() && ssd.life().is_forgotten() && !is_in && in_time && !self.life.is_fenced()
    }

    /// It did not come back, or try to, too often lately.
    fn was_out_long_enough(&self, uuid: u128) -> bool {
        let returns = self.returns.borrow().get(&uuid).copied();
        returns.is_none_or(|returns| self.env.now().since(returns.last) >= returns.wait)
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
        check_shape(&named, &superblock.layout)?;
        self.check_room_for(&[superblock.layout])?;
        let device = Rc::new(named.device);
        match self.members.probe_device(&device).await {
            Some(Ok(())) => self.join_again(named.path, device, superblock).await,
            Some(Err(error)) if !is_gone(&error) => self.only_read(named.path, device, &superblock, &error).await,
            Some(Err(error)) => Err(Error::device(&format!("SSD {}", named.path), &error)),
            None => Err(self.members.no_answer(&named.path)),
        }
    }

    /// It takes writes: from here on it is an SSD like the others. Refused while something is written of which it has a part: a moment
    /// later it is known what that is worth.
    pub(crate) async fn join_again(
        self: &Rc<Self>,
        path: String,
        device: Rc<E::Device>,
        superblock: Superblock,
    ) -> Result<(), Error> {
        if self.log.as_ref().is_some_and(|log| log.mirrorer().seals_without(superblock.ssd_uuid)) {
            let message =
                format!("SSD {path} has a part of what is written just now: it is taken back when that is sealed");
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let newcomer = Rc::new(self.newcomer_again(path, device, &superblock));
        let ssd = Rc::new(SlotSsd::new(newcomer));
        ssd.begin_incarnation(self.env.random());
        // Its superblock stays, so that a crash leaves what it was.
        let emptied = async {
            // In this order: of a row that is set aside meanwhile, the first has held all.
            let copies = match &self.log {
                Some(log) => log.mirrorer().hold_copies(&ssd).await,
                None => Vec::new(),
            };
            let aside = hold_segments(ssd.to_read(), &self.rows_aside()).await;
            let session = self.members.record().session;
            self.clean.index().format(&ssd, session).await?;
            Ok((copies, aside))
        };
        let emptied = ssd.in_time(emptied).await;
        // One that fails here tries again later and later, too.
        self.count_return(ssd.uuid);
        let (copies, aside) = emptied?;
        let recorded = self.record_newcomers(&[Rc::clone(&ssd)], &[superblock]).await;
        // What it holds may be needed, and so it keeps its superblock.
        recorded.map_err(|not_joined| not_joined.error)?;
        self.replace_former(&ssd);
        self.members.forget_absent(&[ssd.uuid]);
        if let Some(log) = &self.log {
            log.mirrorer().commit_copies(&ssd.ssd, copies).await;
        }
        self.take_back(&ssd.ssd).await;
        if let Some(log) = &self.log {
            // Rows may have been freed meanwhile.
            log.segments().release_unnamed(&ssd, aside);
        }
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
            if let Some(log) = &self.log {
                log.mirrorer().read_from_newcomer(former, ssd);
            }
            former.change(LifeChange::Replaced);
            former.go_offline(LifeChange::Failed, OutOfUse::CameBack);
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
    ) -> Result<(), Error> {
        let ssd = self.newcomer_again(path, device, superblock);
        let aside = self.rows_aside();
        // Nobody else watches whether it answers, before it is in the pool.
        let held = async {
            hold_segments(ssd.to_read(), &aside).await;
            if ssd.is_online() { Ok(()) } else { Err(Fault::Offline) }
        };
        ssd.in_time(held).await?;
        ssd.is_only_read(error);
        let ssd = Rc::new(ssd);
        self.members.push(&ssd);
        self.clean.ssds().push_without_slots(&ssd);
        self.members.forget_absent(&[ssd.uuid]);
        self.take_back(&ssd).await;
        Ok(())
    }

    /// An SSD of the pool can be read again: what is listed and lies there is dirty as before. Pages that are just being written
    /// follow in the background: a backing device that hangs holds up no change to the pool.
    async fn take_back(self: &Rc<Self>, ssd: &Rc<Ssd<E>>) {
        let Some(log) = &self.log else { return };
        log.data_loss().find_copies_on(ssd).await;
        if log.data_loss().bring_list_up_to_date().await.is_err() {
            // It may leave out what is about to be shown: that is looked at again.
            return;
        }
        for (index, pages) in log.data_loss().returned_runs() {
            if self.is_free(index, &pages) {
                log.data_loss().show_returned(index, &pages);
                continue;
            }
            for page in pages {
                let page = page..page + 1;
                match self.volumes.get(index).filter(|_| !self.is_free(index, &page)) {
                    None => log.data_loss().show_returned(index, &page),
                    Some((volume, _)) => {
                        let joiner = Rc::clone(self);
                        self.env.spawn(async move { joiner.show_when_free(&volume, index, page).await });
                    }
                }
            }
        }
        log.data_loss().returned_is_shown();
    }

    /// Nobody writes these pages.
    fn is_free(&self, index: VolumeIndex, pages: &Range<u64>) -> bool {
        self.volumes.get(index).is_none_or(|(volume, _)| volume.locks.try_exclusive(pages).is_some())
    }

    /// Waits until nobody writes these pages of a volume that is attached under this index.
    async fn show_when_free(&self, volume: &Rc<VolumeInner<E>>, index: VolumeIndex, pages: Range<u64>) {
        let _held = volume.locks.exclusive(pages.clone()).await;
        let is_other = self.volumes.get(index).is_some_and(|(now, _)| !Rc::ptr_eq(&now, volume));
        let Some(log) = self.log.as_ref().filter(|_| !is_other && !self.life.has_stopped()) else { return };
        log.data_loss().show_returned(index, &pages);
        log.data_loss().returned_is_shown();
    }

    /// Reads what is unavailable although SSDs that can be read have it: what they bring after all is dirty as before.
    async fn look_again(&self) {
        let Some(log) = &self.log else { return };
        let mut good = Vec::new();
        for (index, pages) in log.data_loss().returned_runs() {
            for page in pages {
                if self.life.is_stopping() {
                    return;
                }
                if log.data_loss().can_be_read(index, page).await {
                    good.push((index, page..page + 1));
                }
            }
        }
        if good.is_empty() {
            return;
        }
        // Not while the loss is accepted.
        let _no_other_change = self.admin_lock.acquire(1).await;
        if log.data_loss().bring_list_up_to_date().await.is_err() {
            return;
        }
        for (index, page) in good.iter().filter(|(index, page)| self.is_free(*index, page)) {
            log.data_loss().show_returned(*index, page);
        }
        log.data_loss().returned_is_shown();
    }
}

/// The task that looks again and again at what SSDs that can be read do not bring. While it sleeps it keeps neither the pool nor its
/// devices.
pub(crate) async fn run_returns<E: Env>(env: E, joiner: Weak<Joiner<E>>) {
    loop {
        env.sleep(limits::SSD_TIMEOUT).await;
        match joiner.upgrade() {
            Some(joiner) if !joiner.life.is_stopping() => joiner.look_again().await,
            Some(_) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use hotset_block::{Device as _, HostDevice, MemoryDevice, PAGE_BYTES};

    use super::*;
    use crate::format::superblock;
    use crate::log::tests::{forget_aside, row_aside};
    use crate::pool::open::tests::with_pool;

    #[test]
    fn what_an_ssd_kept_for_a_row_that_is_freed_while_it_comes_back_is_used_again() {
        with_pool(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let superblock = Superblock { ssd_uuid: 4, ..superblock::tests::sample() };
            let segment = superblock.layout.segments().for_slots().last().expect("it has segments");
            let row = row_aside(log, 9, 4, segment);
            let mut header = pool.env.buffers().take(PAGE_BYTES);
            row.header(0).encode_into(&mut header);
            let device = HostDevice::Memory(MemoryDevice::new(superblock.layout.ssd_bytes, 512));
            device.write(superblock.layout.segment_offset(segment), header).await.1.expect("it takes writes");
            let no_records = pool.members.one_change().await;
            let freed = async {
                // It is about to be on record as a member.
                for _ in 0..100 {
                    pool.env.sleep(Duration::ZERO).await;
                }
                forget_aside(log, &row);
                drop(no_records);
            };
            let back = pool.joiner.join_again("ssd-4".to_owned(), Rc::new(device), superblock);
            join(back, freed).await.0.expect("the others record it");
            let ssd = pool.members.ssds().find(|ssd| ssd.uuid == 4).expect("it is back");
            assert!(!ssd.segments.is_of_row(segment, 7));
        });
    }
}
