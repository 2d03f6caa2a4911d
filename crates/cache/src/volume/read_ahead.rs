//! Streams are read before a host asks for them, into the memory cache: so one that asks for one request at a time gets what the disks
//! give to many.
//!
//! Only where the cache leaves a stream alone: what of it is to come into the cache is read as a miss, and counted.

use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;

use hotset_block::{Buf, ByteRange, Env};

use crate::address::{bytes_of, pages_of};
use crate::config::PAGE;
use crate::members::io::add;
use crate::memory_cache::{FoundAhead, VolumePages, WantedAhead};
use crate::time_limit::within;
use crate::volume::carried::WIDE_READ_LIMIT;
use crate::volume::destination::{joined, within_pages};
use crate::volume::inner::VolumeInner;
use crate::volume::stream_read::StreamReader;

/// A piece that nobody has asked for goes after this time: its stream has ended.
const UNUSED_LIMIT: Duration = Duration::from_secs(5);

/// The streams of a volume, as they are read ahead.
pub(super) struct ReadAhead<'v, E: Env> {
    volume: &'v Rc<VolumeInner<E>>,
}

impl<'v, E: Env> ReadAhead<'v, E> {
    pub(super) fn of(volume: &'v Rc<VolumeInner<E>>) -> Self {
        Self { volume }
    }

    /// What was read of a stream before this request came, and has more of it read. `None`: the request reads for itself.
    pub(super) async fn read(&self, range: ByteRange) -> Option<Buf> {
        let pages = pages_of(range);
        let waited_for = async {
            let mut has_waited = false;
            loop {
                let changed = self.volume.memory.ahead_changed();
                match self.volume.memory.find_ahead(&pages) {
                    FoundAhead::Nothing => return None,
                    FoundAhead::There(head, None) => return Some(head),
                    FoundAhead::There(head, Some(tail)) => return Some(joined(self.volume.env.buffers(), head, tail)),
                    FoundAhead::Coming => {}
                }
                if !has_waited {
                    self.volume.memory.deepen_ahead(pages.start);
                    self.extend(range);
                    has_waited = true;
                }
                changed.await;
            }
        };
        // A place beside the host's pages may take long; then it reads those alone.
        let buf = within(&self.volume.env, WIDE_READ_LIMIT, waited_for).await.flatten()?;
        self.extend(range);
        add(&self.volume.stats.read_ahead_hits, 1);
        Some(within_pages(buf, &pages, range))
    }

    /// Has what follows a stream's request read.
    pub(super) fn extend(&self, range: ByteRange) {
        // The next request may begin within the last page of this one.
        let (next, request_pages) = (range.end / PAGE, range.length().div_ceil(PAGE));
        for wanted in self.volume.memory.extend_ahead(next, request_pages, self.volume.size_bytes.get().div_ceil(PAGE))
        {
            let volume = Rc::clone(self.volume);
            self.volume.env.spawn(async move {
                let bytes = ReadAhead::of(&volume).read_piece(&wanted.pages).await;
                volume.memory.bring_ahead(&wanted, bytes);
                let (memory, env) = (Rc::downgrade(&volume.memory), volume.env.clone());
                drop(volume);
                forget_unused(&env, &memory, &wanted).await;
            });
        }
    }

    /// Not beside somebody who writes the pages: what is read may be old when it is there.
    async fn read_piece(&self, pages: &Range<u64>) -> Option<Buf> {
        let attached = self.volume.place().ok()?;
        let is_written = || !self.volume.locks.held_in(pages).is_empty();
        if is_written() {
            return None;
        }
        let read = match attached {
            Some(attached) => StreamReader::of(self.volume).read_newest(&attached, pages).await,
            None => self.volume.view.read_whole_pages(pages, self.volume.env.buffers().take(bytes_of(pages))).await,
        };
        read.ok().filter(|_| !is_written())
    }
}

async fn forget_unused<E: Env>(env: &E, memory: &Weak<VolumePages>, wanted: &WantedAhead) {
    env.sleep(UNUSED_LIMIT).await;
    if let Some(memory) = memory.upgrade() {
        memory.forget_ahead(wanted);
    }
}
