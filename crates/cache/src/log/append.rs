//! Pages enter the write log (rule `flush-covers-all`): how a flow hands them over and hears that they are visible, and how
//! all of them become durable. `route.rs` decides which writes come here, `batch.rs` writes them.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use hotset_block::sync::Promise;
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::DETACHED;
use crate::config::{PAGE, PoolKind};
use crate::error::{Error, ErrorKind};
use crate::log::write_log::{Append, Body, Log, Mirror, Row};
use crate::pool::PoolInner;
use crate::time_limit::within;
use crate::volume::{Attached, VolumeInner};

/// Pages of one append at most; a longer write becomes several.
const APPEND_PAGES_MAX: u32 = 128;
/// How often a flush looks by itself whether something was written to its backing device.
const INTERVAL: Duration = Duration::from_secs(1);
/// An append is so small a part of an empty segment, at most: also where moves fill each row first, hosts find a place.
const APPENDS_IN_SEGMENT: u32 = 2;

impl<E: Env> VolumeInner<E> {
    /// Appends whole pages; returns when they are visible. The caller holds them.
    pub(crate) async fn append(
        self: &Rc<Self>,
        attached: &Attached<E>,
        log: &Rc<Log>,
        pages: &Range<u64>,
        data: Buf,
    ) -> Result<(), Error> {
        let chunk =
            usize::try_from(attached.pool.append_pages_max()).expect("what lies in memory has an address") * PAGE_BYTES;
        if data.len() <= chunk {
            let wait = attached.pool.submit(log, attached, pages.start, Body::Data(data));
            return wait.await.unwrap_or_else(|| Err(stopped()));
        }
        let mut waits = Vec::new();
        let mut page = pages.start;
        let mut rest = Some(data);
        while let Some(data) = rest.take() {
            let data = if data.len() > chunk {
                let (head, tail) = data.split_at(chunk);
                rest = Some(tail);
                head
            } else {
                data
            };
            let count = u64::try_from(data.len() / PAGE_BYTES).expect("an address has 64 bits at most");
            waits.push(attached.pool.submit(log, attached, page, Body::Data(data)));
            page += count;
        }
        for wait in waits {
            wait.await.unwrap_or_else(|| Err(stopped()))?;
        }
        Ok(())
    }
}

/// A host's write was under way when its volume was taken from the pool by force.
pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Gone, "what the cache held of the volume was given up")
}

fn stopped() -> Error {
    Error::new(ErrorKind::Stopping, "the pool has stopped")
}

impl<E: Env> PoolInner<E> {
    /// Pages of the longest append.
    fn append_pages_max(&self) -> u32 {
        let segment_pages = self.segment_pages();
        let room = segment_pages - crate::format::log::summary_pages(segment_pages) - 1;
        APPEND_PAGES_MAX.min(room.saturating_sub(2) / APPENDS_IN_SEGMENT).max(1)
    }

    pub(crate) fn segment_pages(&self) -> u32 {
        let bytes = self.members.ssds().next().map_or(PAGE, |ssd| ssd.layout.segment_bytes);
        u32::try_from(bytes / PAGE).expect("a segment is small")
    }

    /// Queues an append; the answer comes when it is visible, or never, if the pool has stopped.
    pub(crate) fn submit(
        &self,
        log: &Log,
        attached: &Attached<E>,
        page: u64,
        body: Body,
    ) -> hotset_block::sync::Promised<Result<(), Error>> {
        match self.ids.of(attached.index) {
            None => Promise::new().1,
            // While the write waited for something.
            Some(DETACHED) => {
                let (done, wait) = Promise::new();
                done.set(Err(cancelled()));
                wait
            }
            Some(attachment) => self.submit_for(log, attached.index, attachment, page, body),
        }
    }

    pub(crate) fn submit_for(
        &self,
        log: &Log,
        volume: crate::address::VolumeIndex,
        attachment: u64,
        page: u64,
        body: Body,
    ) -> hotset_block::sync::Promised<Result<(), Error>> {
        let (done, wait) = Promise::new();
        if self.life.has_stopped() {
            return wait;
        }
        let append = Append { volume, attachment, page, body, done };
        log.count_queued(&append);
        match append.body {
            Body::Data(_) | Body::Zeroes(_) => log.hosts.borrow_mut().push_back(append),
            Body::Move { .. } | Body::Mark { .. } => log.urgent.borrow_mut().push_back(append),
        }
        log.wanted.wake_all();
        wait
    }

    /// No row can be opened, and none is on its way: there are more than the SSDs that are left have room for.
    pub(crate) fn is_out_of_rows(&self, log: &Log) -> bool {
        log.current.borrow().is_none() && !log.preparing.get() && rows_available(log) == 0
    }

    /// Where a page of a log segment lies on its SSD.
    pub(crate) fn log_offset(&self, mirror: Mirror, page: u32) -> u64 {
        let ssd = mirror.ssd.expect("a copy that is lost lies nowhere");
        self.members.ssd(ssd).layout.segment_offset(mirror.segment) + u64::from(page) * PAGE
    }

    /// Waits until an SSD that went offline has left durably, or never can.
    pub(crate) async fn until_left(&self, ssd: &crate::members::ssd::Ssd<E>) {
        while !ssd.life().has_left() && !self.life.is_fenced() {
            ssd.left_event.wait().await;
        }
    }

    /// There is no place for appends any more, and there will be none. If that is so because no SSD is left, what hosts
    /// wrote goes to the backing devices.
    pub(crate) fn refuse_appends(self: &Rc<Self>, log: &Rc<Log>) {
        let error = if self.life.is_ending_log() {
            stopped()
        } else if let Some(error) = self.life.fence() {
            error.clone()
        } else {
            Error::new(ErrorKind::Gone, format!("pool {}: no SSD is left that takes writes", self.name))
        };
        let queues = [log.hosts.take(), log.urgent.take()];
        for append in queues.into_iter().flatten() {
            log.uncount_queued(&append);
            match append.body {
                Body::Data(_) | Body::Zeroes(_) if self.is_without_ssds() && !self.life.is_ending_log() => {
                    let (pool, log) = (Rc::clone(self), Rc::clone(log));
                    self.env.spawn(async move { pool.redirect_to_backing(&log, append).await });
                }
                Body::Data(_) | Body::Zeroes(_) | Body::Move { .. } | Body::Mark { .. } => {
                    append.done.set(Err(error.clone()));
                }
            }
        }
        log.room.wake_all();
    }

    /// `Err`: what has to be appended never can be.
    pub(crate) fn check_log_serves(&self, log: &Log, volume: &VolumeInner<E>) -> Result<(), Error> {
        self.life.check_open()?;
        let name = &volume.spec.borrow().name;
        if self.members.online_ssds().next().is_none() {
            let message = format!("volume {name}: the SSDs that hold newer data of these pages are gone");
            return Err(Error::new(ErrorKind::Gone, message));
        }
        let stuck = log.overlay.borrow().total().cleanable() >= log.dirty_max();
        match volume.backing.latched() {
            Some(reason) if stuck => Err(Error::new(ErrorKind::Media, reason)),
            Some(_) | None => Ok(()),
        }
    }

    /// Makes every append durable that was answered before this call.
    pub(crate) async fn flush_log(self: &Rc<Self>, log: &Log) -> Result<(), Error> {
        debug_assert_eq!(self.kind, PoolKind::ReadWrite);
        let mark = log.completed.get();
        let flushes = self.members.ssds().map(async |ssd| {
            if !ssd.is_online() {
                // What it has of these appends may be lost with its cache: it must not be believed again.
                self.until_left(ssd).await;
            }
            if !ssd.life().is_readable() || ssd.has_flushed_log() {
                return;
            }
            if let Err(fault) = ssd.flush().await {
                self.members.ssd_failed(ssd, &fault);
                self.until_left(ssd).await;
            }
        });
        join_all(flushes).await;
        self.life.check_open()?;
        log.flushed.set(log.flushed.get().max(mark));
        let flushed = log.flushed.get();
        self.members.witness_log((flushed.row, flushed.index));
        Ok(())
    }

    /// The log's flush for a host: what SSDs have that refused to flush it is on its backing device, too, as it is nowhere else
    /// for sure.
    pub(crate) async fn flush_log_for_host(self: &Rc<Self>, log: &Log) -> Result<(), Error> {
        self.flush_log(log).await?;
        let unflushed: Vec<Rc<Row>> = log.rows_aside().into_iter().filter(|row| row.is_unflushed.get()).collect();
        if unflushed.is_empty() {
            return Ok(());
        }
        while unflushed.iter().any(|row| self.is_undurable(log, row)) {
            let cleaned = log.room.wait();
            log.cleaner_wanted.wake_all();
            within(&self.env, INTERVAL, cleaned).await;
            self.life.check_open()?;
            if self.life.has_stopped() {
                return Err(stopped());
            }
        }
        // A start must not ask the SSDs for what was cleaned.
        let _one_at_a_time = log.losses_lock.acquire(1).await;
        self.write_next_losses(log, |_| false).await?;
        unflushed.iter().for_each(|row| row.is_unflushed.set(false));
        Ok(())
    }
}

/// A segment of the row has no copy left.
pub(crate) fn has_lost_segment(row: &Row) -> bool {
    row.segments.iter().any(|pair| pair.iter().all(|mirror| mirror.get().ssd.is_none()))
}

/// Rows that can still be opened, or wait to be used.
pub(crate) fn rows_available(log: &Log) -> usize {
    let prepared = usize::from(log.prepared.borrow().is_some());
    log.rows_openable.get() + prepared
}
