//! Pages with live copies that the log cannot take, or whose copies cannot be had: what hosts write there goes to the backing device,
//! durably, and off the list of what is lost.

use std::ops::Range;

use hotset_block::{Buf, ByteRange, Env};

use crate::address::{bytes_of, pages_of};
use crate::config::PAGE;
use crate::error::{Error, ErrorKind};
use crate::log::queue::Body;
use crate::volume::in_log::LoggedVolume;

/// Pages that are written as zeroes in one piece.
const ZERO_PAGES: u64 = 64;

impl<E: Env> LoggedVolume<'_, E> {
    /// Pages with a live copy get another content, wherever that goes now. False: there is no room for it. The caller holds them.
    pub(crate) async fn overwrite(self, pages: &Range<u64>, data: Buf) -> Result<bool, Error> {
        if self.pool().members.online_ssds().next().is_none() {
            self.replace_lost(pages, data).await?;
        } else if self.log.has_room(pages.end - pages.start) {
            self.log.appends().append(self.index(), pages, data).await?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A host's write where pages have live copies and no SSD is left. The caller holds them.
    pub(crate) async fn write_without_ssds(self, range: ByteRange, buf: Buf) -> Result<(), Error> {
        let pages = pages_of(range);
        let data =
            if range.is_aligned_to(PAGE) { buf } else { self.volume.whole_pages(self.attached, range, buf).await? };
        self.replace_lost(&pages, data).await
    }

    pub(crate) async fn store_redirected(self, pages: Range<u64>, body: Body) -> Result<(), Error> {
        self.pool().life.check_open()?;
        if let Body::Data(data) = body {
            return self.replace_lost(&pages, data).await;
        }
        let mut page = pages.start;
        while page < pages.end {
            let some = page..pages.end.min(page + ZERO_PAGES);
            let zeroes = self.volume.env.buffers().take_zeroed(bytes_of(&some));
            self.replace_lost(&some, zeroes).await?;
            page = some.end;
        }
        Ok(())
    }

    /// Writes whole pages to the backing device, durably; only then nothing is missing of them any more, durably too.
    pub(crate) async fn replace_lost(self, pages: &Range<u64>, data: Buf) -> Result<(), Error> {
        let range = self.volume.bytes_of_pages(pages);
        let length = usize::try_from(range.length()).expect("a request fits in memory");
        // As long as a record has an SSD as a member, a start may believe what it holds of these pages.
        self.pool().members.until_all_left().await;
        self.pool().life.check_open()?;
        let _not_cleaned = self.volume.invalidate_before_write(Some(self.attached), range).await?;
        self.volume.write_backing(range, data.narrow(0, length)).await?;
        self.volume.backing.flush().await?;
        self.log.data_loss().take_off_list(self.index(), pages).await
    }

    /// `Err`: what has to be appended never can be.
    pub(crate) fn check_log_serves(self) -> Result<(), Error> {
        self.pool().life.check_open()?;
        let name = &self.volume.spec.borrow().name;
        if self.pool().members.online_ssds().next().is_none() {
            let message = format!("volume {name}: the SSDs that hold newer data of these pages are gone");
            return Err(Error::new(ErrorKind::Gone, message));
        }
        let is_full = self.log.total().cleanable() >= self.log.dirty_max();
        match self.volume.backing.latched() {
            Some(reason) if is_full => Err(Error::new(ErrorKind::Media, reason.to_string())),
            Some(_) | None => Ok(()),
        }
    }
}
