//! Pages enter the write log (rule `flush-covers-all`): how a flow hands them over and hears that they are visible, and how
//! all of them become durable. `volume/route.rs` decides which writes come here, `batch.rs` writes them.

use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::{Promise, Promised};
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::VolumeIndex;
use crate::attachment_ids::AttachmentIds;
use crate::config::PoolName;
use crate::error::{Error, ErrorKind};
use crate::log::log_segments::LogSegments;
use crate::log::queue::{Append, Body};
use crate::log::redirects::Redirects;
use crate::log::shared::Shared;
use crate::log::signals::Signals;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::pool_life::PoolLife;

/// Pages of one append at most; a longer write becomes several.
const APPEND_PAGES_MAX: u32 = 128;
/// An append is so small a part of an empty segment, at most: also where moves fill each row first, hosts find a place.
const APPENDS_IN_SEGMENT: u32 = 2;

/// A host's write was under way when its volume was taken from the pool by force.
pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Gone, "what the cache held of the volume was discarded")
}

pub(super) fn stopped() -> Error {
    Error::new(ErrorKind::Stopping, "the pool has stopped")
}

/// Where pages enter the log.
pub(crate) struct Appends<E: Env> {
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    ids: Rc<AttachmentIds>,
    pool_name: PoolName,
    state: Rc<WriteLog>,
    signals: Rc<Signals>,
    segments: Rc<LogSegments<E>>,
    redirects: Redirects,
}

impl<E: Env> Appends<E> {
    pub(super) fn new(shared: &Shared<E>, segments: &Rc<LogSegments<E>>) -> Self {
        Self {
            life: Rc::clone(&shared.life),
            members: Rc::clone(&shared.members),
            ids: Rc::clone(&shared.ids),
            pool_name: shared.pool_name.clone(),
            state: Rc::clone(&shared.state),
            signals: Rc::clone(&shared.signals),
            segments: Rc::clone(segments),
            redirects: Redirects::default(),
        }
    }

    /// What the log cannot take any more, and was written by hosts.
    pub(crate) fn redirects(&self) -> &Redirects {
        &self.redirects
    }

    /// Appends whole pages; returns when they are visible. The caller holds them.
    pub(crate) async fn append(&self, volume: VolumeIndex, pages: &Range<u64>, data: Buf) -> Result<(), Error> {
        let chunk = usize::try_from(self.append_pages_max()).expect("what lies in memory has an address") * PAGE_BYTES;
        let count = u64::try_from(data.len() / PAGE_BYTES).expect("an address has 64 bits at most");
        assert_eq!(pages.end - pages.start, count, "pages {pages:?} are appended, and the data is of others");
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
        assert_eq!(page, pages.end, "pages {pages:?} are appended in pieces that end elsewhere");
        let mut appended = Ok(());
        for wait in waits {
            // All of them, also after one failed: then whoever holds the pages lets go of them.
            appended = appended.and(wait.await.unwrap_or_else(|| Err(stopped())));
        }
        appended
    }

    /// Appends so many zero pages from `page` on; returns when they are visible. The caller holds them.
    pub(crate) async fn append_zeroes(&self, volume: VolumeIndex, page: u64, count: u64) -> Result<(), Error> {
        let wait = self.submit(volume, page, Body::Zeroes(count));
        wait.await.unwrap_or_else(|| Err(stopped()))
    }

    /// Pages of the longest append.
    fn append_pages_max(&self) -> u32 {
        let segment_pages = self.segments.segment_pages();
        let room = segment_pages - crate::format::log::summary_pages(segment_pages) - 1;
        APPEND_PAGES_MAX.min(room.saturating_sub(2) / APPENDS_IN_SEGMENT).max(1)
    }

    /// Queues an append; the answer comes when it is visible, or never, if the pool has stopped.
    fn submit(&self, volume: VolumeIndex, page: u64, body: Body) -> Promised<Result<(), Error>> {
        match self.ids.of(volume) {
            Some(attachment) => self.submit_for(volume, attachment, page, body),
            // While the write waited for something.
            None if self.ids.is_detached(volume) => {
                let (done, wait) = Promise::new();
                done.set(Err(cancelled()));
                wait
            }
            None => Promise::new().1,
        }
    }

    pub(crate) fn submit_for(
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
        self.state.queue.push(Append::new(volume, attachment, page, body, done));
        self.signals.wanted.wake_all();
        wait
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

    /// No SSD is left, and what was lost with the last ones is on record.
    pub(crate) fn is_without_ssds(&self) -> bool {
        self.members.online_ssds().next().is_none() && !self.life.is_fenced()
    }
}
