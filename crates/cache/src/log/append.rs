//! Pages enter the write log (rule `flush-covers-all`): how a flow hands them over and hears that they are visible, and how
//! all of them become durable. `volume/route.rs` decides which writes come here, `batch.rs` writes them.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use hotset_block::sync::{Promise, Promised};
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::{DETACHED, VolumeIndex};
use crate::config::PAGE;
use crate::error::{Error, ErrorKind};
use crate::log::Log;
use crate::log::queue::{Append, Body};
use crate::log::row::Row;
use crate::log::segment_copy::PresentCopy;
use crate::time_limit::within;

/// Pages of one append at most; a longer write becomes several.
const APPEND_PAGES_MAX: u32 = 128;
/// How often a flush looks by itself whether something was written to its backing device.
const INTERVAL: Duration = Duration::from_secs(1);
/// An append is so small a part of an empty segment, at most: also where moves fill each row first, hosts find a place.
const APPENDS_IN_SEGMENT: u32 = 2;

/// A host's write was under way when its volume was taken from the pool by force.
pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Gone, "what the cache held of the volume was given up")
}

fn stopped() -> Error {
    Error::new(ErrorKind::Stopping, "the pool has stopped")
}

impl<E: Env> Log<E> {
    /// Appends whole pages; returns when they are visible. The caller holds them.
    pub(crate) async fn append(&self, volume: VolumeIndex, pages: &Range<u64>, data: Buf) -> Result<(), Error> {
        let chunk = usize::try_from(self.append_pages_max()).expect("what lies in memory has an address") * PAGE_BYTES;
        if data.len() <= chunk {
            let wait = self.submit(volume, pages.start, Body::Data(data));
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
            waits.push(self.submit(volume, page, Body::Data(data)));
            page += count;
        }
        for wait in waits {
            wait.await.unwrap_or_else(|| Err(stopped()))?;
        }
        Ok(())
    }

    /// Appends so many zero pages from `page` on; returns when they are visible. The caller holds them.
    pub(crate) async fn append_zeroes(&self, volume: VolumeIndex, page: u64, count: u64) -> Result<(), Error> {
        let wait = self.submit(volume, page, Body::Zeroes(count));
        wait.await.unwrap_or_else(|| Err(stopped()))
    }

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
    fn submit(&self, volume: VolumeIndex, page: u64, body: Body) -> Promised<Result<(), Error>> {
        match self.ids.of(volume) {
            None => Promise::new().1,
            // While the write waited for something.
            Some(DETACHED) => {
                let (done, wait) = Promise::new();
                done.set(Err(cancelled()));
                wait
            }
            Some(attachment) => self.submit_for(volume, attachment, page, body),
        }
    }

    pub(super) fn submit_for(
        &self,
        volume: VolumeIndex,
        attachment: u64,
        page: u64,
        body: Body,
    ) -> Promised<Result<(), Error>> {
        let (done, wait) = Promise::new();
        if self.life.has_stopped() {
            return wait;
        }
        self.state.queue.push(Append { volume, attachment, page, body, done });
        self.signals.wanted.wake_all();
        wait
    }

    /// Where a page of a log segment lies on its SSD.
    pub(crate) fn log_offset(&self, copy: PresentCopy, page: u32) -> u64 {
        self.members.ssd(copy.ssd).layout.segment_offset(copy.segment) + u64::from(page) * PAGE
    }

    /// There is no place for appends any more, and there will be none. If that is so because no SSD is left, what hosts
    /// wrote goes to the backing devices.
    pub(crate) fn refuse_appends(&self) {
        let error = if self.life.is_ending_log() {
            stopped()
        } else if let Some(error) = self.life.fence() {
            error.clone()
        } else {
            Error::new(ErrorKind::Gone, format!("pool {}: no SSD is left that takes writes", self.pool_name))
        };
        for append in self.state.queue.take_all() {
            if append.is_of_host() && self.is_without_ssds() && !self.life.is_ending_log() {
                self.redirects.push(append);
            } else {
                append.done.set(Err(error.clone()));
            }
        }
        self.signals.room.wake_all();
    }

    /// Makes every append durable that was answered before this call.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        let mark = self.state.stream.completed();
        let flushes = self.members.ssds().map(async |ssd| {
            if !ssd.is_online() {
                // What it has of these appends may be lost with its cache: it must not be believed again.
                self.members.until_left(ssd).await;
            }
            if !ssd.life().is_readable() || ssd.has_flushed_log() {
                return;
            }
            if let Err(fault) = ssd.flush().await {
                self.members.ssd_failed(ssd, &fault);
                self.members.until_left(ssd).await;
            }
        });
        join_all(flushes).await;
        self.life.check_open()?;
        self.state.stream.flush_ended(mark);
        let flushed = self.state.stream.flushed();
        self.members.witness_keeper().log_is_flushed((flushed.row, flushed.index));
        Ok(())
    }

    /// The log's flush for a host: what SSDs have that refused to flush it is on its backing device, too, as it is nowhere else
    /// for sure.
    pub(crate) async fn flush_for_host(&self) -> Result<(), Error> {
        self.flush().await?;
        let unflushed: Vec<Rc<Row>> = self.state.rows_aside().into_iter().filter(|row| row.is_unflushed()).collect();
        if unflushed.is_empty() {
            return Ok(());
        }
        while unflushed.iter().any(|row| self.is_undurable(row)) {
            let cleaned = self.signals.room.wait();
            self.signals.cleaner_wanted.wake_all();
            within(&self.env, INTERVAL, cleaned).await;
            self.life.check_open()?;
            if self.life.has_stopped() {
                return Err(stopped());
            }
        }
        // A start must not ask the SSDs for what was cleaned.
        let _one_at_a_time = self.losses_lock.acquire(1).await;
        self.write_next_losses(|_| false).await?;
        unflushed.iter().for_each(|row| row.set_unflushed(false));
        Ok(())
    }
}
