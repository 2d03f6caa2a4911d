//! A stream reads clean data: from the SSDs or, where those hold it up, from the backing device (`volume/read_balance.rs`,
//! decision 0020).

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::sync::Promise;
use hotset_block::{Buf, Env};

use crate::address::bytes_of;
use crate::error::Error;
use crate::time_limit::within;
use crate::volume::inner::VolumeInner;
use crate::volume::place::Attached;
use crate::volume::read_balance::{CleanCopy, QueuedRead};

/// A stream waits so long for the backing device, and then reads the SSDs: disks may be asleep, or try to read a bad sector.
const BACKING_LIMIT: Duration = Duration::from_millis(200);

/// Who reads a volume for a stream.
pub(super) struct StreamReader<'v, E: Env> {
    volume: &'v Rc<VolumeInner<E>>,
}

impl<'v, E: Env> StreamReader<'v, E> {
    pub(super) fn of(volume: &'v Rc<VolumeInner<E>>) -> Self {
        Self { volume }
    }

    /// The copy that a request of clean pages reads; it is counted there from now on.
    pub(super) fn balance(&self, pages: &Range<u64>) -> (CleanCopy, QueuedRead) {
        let (balance, backing) = (&self.volume.read_balance, &self.volume.backing);
        let (count, now) = (pages.end - pages.start, self.volume.env.now());
        let copy = balance.choose(count, now, |requests| backing.serves_only(requests));
        (copy, balance.begin(copy, count, now))
    }

    /// Clean pages from the backing device. `None`: it failed, or takes too long.
    pub(super) async fn read_backing(&self, queued: QueuedRead, pages: Range<u64>, buf: Buf) -> Option<Buf> {
        let (promise, brought) = Promise::new();
        let volume = Rc::clone(self.volume);
        // The device works on it, also when the host stops waiting.
        self.volume.env.spawn(async move {
            let read = volume.view.read_whole_pages(&pages, buf).await;
            if read.is_ok() {
                queued.end(volume.env.now());
            }
            promise.set(read.ok());
        });
        let read = within(&self.volume.env, BACKING_LIMIT, brought).await.flatten().flatten();
        if read.is_none() {
            self.volume.read_balance.forget_backing();
        }
        read
    }

    /// The newest bytes of whole pages that the stream is expected to ask for.
    pub(super) async fn read_newest(&self, attached: &Attached<E>, pages: &Range<u64>) -> Result<Buf, Error> {
        let plan = attached.pool.plan(attached.index, pages);
        if !plan.is_clean() {
            return self.volume.read_newest_of(attached, plan, pages).await;
        }
        let (copy, queued) = self.balance(pages);
        if copy == CleanCopy::Ssds {
            let read = self.volume.read_newest_of(attached, plan, pages).await;
            queued.end(self.volume.env.now());
            return read;
        }
        let buf = self.volume.env.buffers().take(bytes_of(pages));
        match self.read_backing(queued, pages.clone(), buf).await {
            Some(buf) => Ok(buf),
            // Trying took its time: the pages may be elsewhere now.
            None => self.volume.read_newest(attached, pages).await,
        }
    }
}
