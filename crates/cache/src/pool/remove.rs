//! SSDs leave the pool because somebody wants them elsewhere (rule `membership`): they get nothing new, what of the write
//! log lies there is copied to others, what is cached there is dropped; then a members record without them is durable, and
//! last their superblocks are erased. Until that record they are members, and the removal can be cancelled.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;

use crate::address::at;
use crate::config::{PAGE, PoolKind};
use crate::error::{Error, ErrorKind, Remedy};
use crate::log::capacity::{ROWS_MIN, capacity};
use crate::members::life::LifeChange;
use crate::members::ssd::Ssd;
use crate::members::superblocks::erase_device;
use crate::pool::inner::PoolInner;
use crate::reasons::OutOfUse;
use crate::status::Evacuation;
use crate::time_limit::within;

/// Slots that are dropped before others have their turn.
const SLOTS_PER_TURN: u32 = 1024;
/// How often a removal looks by itself.
const INTERVAL: Duration = Duration::from_millis(100);

/// How a removal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    Done,
    /// `cancel_removal` was called: all of them are in the pool as before, with less in them.
    Cancelled,
}

impl<E: Env> PoolInner<E> {
    /// See [`crate::Pool::remove_ssds`].
    pub(crate) async fn remove_ssds(self: &Rc<Self>, uuids: &[u128]) -> Result<Removed, Error> {
        let _one_at_a_time = self.removal_lock.acquire(1).await;
        let removal = Removal { pool: self, leaving: self.removable(uuids)? };
        self.removal_cancelled.set(false);
        for ssd in &removal.leaving {
            ssd.change(LifeChange::RemovalBegan { since: self.env.now(), bytes: self.bytes_to_evacuate(ssd) });
        }
        self.joiner.members_changed();
        let _no_other_change;
        let emptied = match removal.empty().await {
            Ok(Removed::Done) => {
                _no_other_change = self.admin_lock.acquire(1).await;
                // Waiting for that took its time: somebody may have cancelled, an SSD failed, a row been begun that was being prepared.
                match removal.check_none_returned(uuids) {
                    Ok(()) => removal.empty_log().await,
                    Err(returned) => Err(returned),
                }
            }
            not_emptied => not_emptied,
        };
        if emptied != Ok(Removed::Done) {
            removal.keep();
            return emptied;
        }
        let mut released = Ok(());
        for ssd in &removal.leaving {
            released = released.and(removal.release(ssd).await);
        }
        if released.is_err() {
            removal.keep();
        }
        self.members.forget_gone(uuids);
        released.map(|()| Removed::Done)
    }

    pub(crate) fn cancel_removal(&self) {
        self.removal_cancelled.set(true);
        if let Some(log) = &self.log {
            log.signals().room.wake_all();
        }
    }

    /// The SSDs that are to be emptied; those that are gone already are not among them.
    fn removable(&self, uuids: &[u128]) -> Result<Vec<Rc<Ssd<E>>>, Error> {
        let refused = |what: String| Err(Error::new(ErrorKind::Refused, format!("pool {}: {what}", self.name)));
        self.life.check_open()?;
        for uuid in uuids {
            let known = self.members.ssds().any(|ssd| ssd.uuid == *uuid && !ssd.life().is_replaced())
                || self.members.absent().iter().any(|ssd| ssd.uuid == *uuid);
            if !known {
                let message = format!("pool {}: it has no SSD {uuid:032x}", self.name);
                return Err(Error::new(ErrorKind::NotFound, message));
            }
        }
        let (leaving, staying): (Vec<_>, Vec<_>) =
            self.members.online_ssds().cloned().partition(|ssd| uuids.contains(&ssd.uuid));
        if leaving.is_empty() {
            return Ok(leaving);
        }
        self.check_nothing_unavailable_on(&leaving)?;
        if staying.len() == 1 && self.members.state().is_behind() {
            return refused(
                "its state directory takes no records now, and the one SSD that would be left is no majority of the members: the pool would \
                 take no more writes; see to the state directory first"
                    .to_owned(),
            );
        }
        match (&self.log, self.kind) {
            (None, _) | (Some(_), PoolKind::Read) if staying.is_empty() => {
                refused("its last SSD cannot be removed; delete the pool".to_owned())
            }
            (Some(_), PoolKind::ReadWrite) if staying.len() < 2 => refused(
                "two copies of dirty data need two SSDs, and fewer would be left; add one first, or delete the pool"
                    .to_owned(),
            ),
            (Some(log), PoolKind::ReadWrite) => {
                let segments = staying.iter().map(|ssd| ssd.segments.log_max()).collect();
                let size = capacity(segments, log.segments().segment_pages());
                let dirty = log.total().dirty;
                if size.rows >= ROWS_MIN && dirty <= size.dirty_pages() {
                    return Ok(leaving);
                }
                refused(format!(
                    "{} bytes are dirty, and the SSDs that would be left have room for two copies of {} bytes; wait until \
                     more is flushed, or add an SSD first",
                    dirty * PAGE,
                    size.dirty_pages() * PAGE
                ))
            }
            (None, _) | (Some(_), PoolKind::Read) => Ok(leaving),
        }
    }

    /// What cannot be read just now may be read later: its copy is not erased before its loss is accepted.
    fn check_nothing_unavailable_on(&self, leaving: &[Rc<Ssd<E>>]) -> Result<(), Error> {
        let Some(log) = &self.log else { return Ok(()) };
        let unavailable = leaving.iter().map(|ssd| (ssd, log.data_loss().unavailable_bytes_on(ssd)));
        let Some((ssd, bytes)) = unavailable.into_iter().find(|(_, bytes)| *bytes > 0) else { return Ok(()) };
        let message = format!(
            "pool {}: SSD {} holds {bytes} bytes of dirty data that cannot be read now, and may be later: see to the SSD, write \
             that data again, or accept its loss first",
            self.name, ssd.path
        );
        Err(Error::new(ErrorKind::Refused, message).with_remedy(Remedy::AcceptLoss(self.name.clone())))
    }

    /// Bytes of the log and of cached blocks that lie on an SSD, about.
    fn bytes_to_evacuate(&self, ssd: &Ssd<E>) -> u64 {
        let log_bytes = self.log.as_ref().map_or(0, |log| {
            let segments = u64::try_from(log.mirrorer().copies_on(ssd)).expect("an address has 64 bits at most");
            segments * u64::from(log.segments().segment_pages()) * PAGE
        });
        log_bytes + u64::from(self.clean.ssds().slots_used_on(ssd.index)) * self.blocks.bytes()
    }

    pub(crate) fn evacuation_of(&self, ssd: &Ssd<E>) -> Option<Evacuation> {
        let (since, bytes) = ssd.life().evacuation()?;
        let left_bytes = self.bytes_to_evacuate(ssd);
        let total_bytes = bytes.max(left_bytes);
        let milliseconds = u64::try_from(self.env.now().since(since).as_millis()).unwrap_or(u64::MAX);
        let bytes_per_second = (total_bytes - left_bytes).saturating_mul(1000) / milliseconds.max(1);
        Some(Evacuation { left_bytes, total_bytes, bytes_per_second })
    }
}

/// A removal of SSDs that is under way.
struct Removal<'p, E: Env> {
    pool: &'p Rc<PoolInner<E>>,
    leaving: Vec<Rc<Ssd<E>>>,
}

impl<E: Env> Removal<'_, E> {
    async fn empty(&self) -> Result<Removed, Error> {
        if self.empty_log().await? == Removed::Cancelled {
            return Ok(Removed::Cancelled);
        }
        self.empty_slots().await
    }

    async fn empty_log(&self) -> Result<Removed, Error> {
        if let Some(log) = &self.pool.log {
            while self.leaving.iter().any(|ssd| ssd.is_online() && log.mirrorer().copies_on(ssd) > 0) {
                if self.check()? == Removed::Cancelled {
                    return Ok(Removed::Cancelled);
                }
                log.mirrors().wanted.wake_all();
                within(&self.pool.env, INTERVAL, log.signals().room.wait()).await;
            }
            // A row that took no batch may still be in the record.
            log.rows().record_rows().await?;
            // Some of it may have become unavailable meanwhile.
            self.pool.check_nothing_unavailable_on(&self.leaving)?;
        }
        self.check()
    }

    async fn empty_slots(&self) -> Result<Removed, Error> {
        for ssd in &self.leaving {
            while self.pool.clean.is_being_filled(ssd.index) && ssd.is_online() {
                within(&self.pool.env, INTERVAL, self.pool.clean.fills().ended()).await;
                if self.check()? == Removed::Cancelled {
                    return Ok(Removed::Cancelled);
                }
            }
            let count = ssd.layout.slot_count();
            for first in (0..count).step_by(at(SLOTS_PER_TURN)) {
                let written = self.pool.clean.empty_slots(ssd.index, first..count.min(first + SLOTS_PER_TURN));
                self.pool.clean.index().wait_durable(written).await?;
                if self.check()? == Removed::Cancelled {
                    return Ok(Removed::Cancelled);
                }
            }
        }
        self.check()
    }

    /// One that was away when the removal began, and is in the pool again, was not emptied.
    fn check_none_returned(&self, uuids: &[u128]) -> Result<(), Error> {
        let is_emptied = |ssd: &Ssd<E>| self.leaving.iter().any(|leaving| leaving.index == ssd.index);
        let mut in_use = self.pool.members.online_ssds();
        let Some(returned) = in_use.find(|ssd| uuids.contains(&ssd.uuid) && !is_emptied(ssd)) else { return Ok(()) };
        let message = format!(
            "pool {}: SSD {} came back while others were emptied; all of them stay: remove them again",
            self.pool.name, returned.path
        );
        Err(Error::new(ErrorKind::Refused, message))
    }

    /// Whether the removal goes on.
    fn check(&self) -> Result<Removed, Error> {
        self.pool.life.check_open()?;
        if self.pool.life.is_stopping() {
            return Err(Error::new(ErrorKind::Stopping, "the pool stops: the SSDs stay in it"));
        }
        if self.pool.kind == PoolKind::ReadWrite
            && !self.pool.members.has_two_ssds()
            && self.leaving.iter().any(|ssd| ssd.is_online())
        {
            let message = format!("pool {}: another SSD failed: two copies need those that were to go", self.pool.name);
            return Err(Error::new(ErrorKind::Refused, message));
        }
        Ok(if self.pool.removal_cancelled.get() { Removed::Cancelled } else { Removed::Done })
    }

    /// They are like any other again.
    fn keep(&self) {
        for ssd in &self.leaving {
            ssd.change(LifeChange::RemovalCancelled);
        }
        self.pool.joiner.members_changed();
    }

    async fn until_idle(&self, ssd: &Ssd<E>) {
        let busy = || ssd.is_busy() || self.pool.clean.index().is_being_written(ssd.index);
        while ssd.is_online() && busy() {
            // Whatever hangs makes the watchdog expel it.
            self.pool.env.sleep(INTERVAL / 20).await;
        }
    }

    /// The members record without the SSD, then its superblock; then it is nobody's.
    async fn release(&self, ssd: &Rc<Ssd<E>>) -> Result<(), Error> {
        self.until_idle(ssd).await;
        if ssd.is_online() {
            // It is sound, and has its say: where the state directory takes nothing, those that stay may be half of the members. If this
            // fails, it is tried without it when it leaves.
            let _ = self.pool.members.record_departure(ssd.uuid).await;
        }
        self.until_idle(ssd).await;
        let device = ssd.is_online().then(|| ssd.device()).and_then(Result::ok);
        if ssd.go_offline(LifeChange::Replaced, OutOfUse::Removed) {
            self.pool.clean.ssds().went_out_of_use(ssd.index);
            self.pool.leave(ssd).await;
        }
        self.pool.members.until_left(ssd).await;
        self.pool.life.check_open()?;
        let Some(device) = device else { return Ok(()) };
        match erase_device(&self.pool.env, &device).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => {
                let message = format!(
                    "SSD {} left the pool, but its superblock could not be erased: it is refused elsewhere as a part of this \
                     pool, unless that is forced",
                    ssd.path
                );
                Err(Error::new(ErrorKind::Media, message))
            }
        }
    }
}
