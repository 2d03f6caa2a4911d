//! What goes to the backing device past the cache (rules `write-ahead`, `sub-page`), in the device's blocks. The caller holds its pages.

use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Buf, ByteRange, Env, ZeroMode};

use crate::address::{bytes_of, pages_of};
use crate::config::{PAGE, limits};
use crate::error::{Error, ErrorKind};
use crate::members::io::add;
use crate::volume::destination::Destination;
use crate::volume::inner::VolumeInner;
use crate::volume::locks::Held;
use crate::volume::pieces::Pieces;
use crate::volume::place::Attached;
use crate::volume::requests::ZeroEffort;

impl<E: Env> VolumeInner<E> {
    /// Sees to it that nothing supersedes or outlives what is about to be written to the backing device: drops what is
    /// cached, marks touched fingerprints. The caller holds the range, and what this answers until the backing device has
    /// answered.
    pub(crate) async fn invalidate_before_write(
        self: &Rc<Self>,
        attached: Option<&Attached<E>>,
        range: ByteRange,
    ) -> Result<Option<Held>, Error> {
        let pages = pages_of(range);
        let Some(attached) = attached else {
            self.memory.supersede_in_turns(&pages, || self.env.sleep(Duration::ZERO)).await;
            return Ok(None);
        };
        // The cleaner may be on its way with what had a live copy until the last SSD left (rule `clean-one-at-a-time`).
        let not_cleaned = match &attached.pool.log {
            Some(_) => Some(self.clean_locks.exclusive(pages.clone()).await),
            None => None,
        };
        self.mark_unsettled(attached, range).await?;
        attached.pool.clean.invalidate_durably(attached.index, pages).await?;
        Ok(not_cleaned)
    }

    /// Writes to the backing device, in the device's blocks; a part of a block is read, modified and written (rule
    /// `sub-page`). The caller holds the pages: two writes to one block do not lose each other.
    pub(crate) async fn write_backing(&self, range: ByteRange, buf: Buf) -> Result<(), Error> {
        let wide = self.view.device_blocks(range);
        if range == wide {
            return self.backing.write(range.start, buf).await;
        }
        let mut whole = self.view.read_backing(wide, Destination::Own).await?;
        let skip = usize::try_from(range.start - wide.start).expect("less than a block");
        whole[skip..skip + buf.len()].copy_from_slice(&buf);
        self.backing.write(wide.start, whole).await
    }

    /// What a write of parts of pages makes of the pages that it touches: they are read and modified. The caller holds them.
    pub(crate) async fn whole_pages(
        self: &Rc<Self>,
        attached: &Attached<E>,
        range: ByteRange,
        buf: Buf,
    ) -> Result<Buf, Error> {
        let pages = pages_of(range);
        let mut whole = if range == self.bytes_of_pages(&pages) {
            // All that the volume has of them: nothing is kept, so that nothing need be readable.
            self.env.buffers().take_zeroed(bytes_of(&pages))
        } else {
            Box::pin(self.read_newest(attached, &pages)).await?
        };
        let skip = usize::try_from(range.start - pages.start * PAGE).expect("less than a page");
        whole[skip..skip + buf.len()].copy_from_slice(&buf);
        Ok(whole)
    }

    /// Zeroes whole backing blocks: by the device if it can, else by writing.
    pub(crate) async fn zero_blocks(&self, range: ByteRange, mode: ZeroMode, effort: ZeroEffort) -> Result<(), Error> {
        let range = self.zero_by_device(range, mode).await?;
        if range.is_empty() {
            return Ok(());
        }
        if effort == ZeroEffort::FastOnly {
            let message = format!("backing device {} cannot zero faster than by writing", self.backing.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + limits::ZERO_CHUNK_BYTES);
            let length = usize::try_from(end - start).expect("a chunk fits in memory");
            // Requests for zeroes carry none, and so nobody else bounds how many there are.
            let _turn = self.zeroing.acquire(1).await;
            self.backing.write(start, self.env.buffers().take_zeroed(length)).await?;
            add(&self.steps, 1);
            start = end;
        }
        Ok(())
    }

    /// As far as the device can by itself; answers what is left.
    async fn zero_by_device(&self, range: ByteRange, mode: ZeroMode) -> Result<ByteRange, Error> {
        let mut pieces = Pieces::of(range);
        loop {
            let left = pieces.left();
            let Some(piece) = pieces.next() else { return Ok(left) };
            let began = self.env.now();
            match self.backing.write_zeroes(piece, mode).await {
                Err(error) if error.kind == ErrorKind::Unsupported => return Ok(left),
                result => result?,
            }
            pieces.took(self.env.now().since(began));
            add(&self.steps, 1);
        }
    }
}
