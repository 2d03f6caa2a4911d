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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::{join, select};
    use hotset_block::{HostDevice, HostEnv, MemoryDevice, PAGE_BYTES, ZeroMode};

    use crate::config::{PAGE, VolumeSettings, VolumeSpec};
    use crate::log::Log;
    use crate::log::tests::{MoveInFlight, set_aside_while_moved};
    use crate::pool::open::tests::with_pool_and_state;
    use crate::volume::inner::Volume;
    use crate::volume::requests::{Durability, ZeroEffort};

    use super::*;

    const PAGE_OF_HOST: u64 = 9;

    /// Hosts write, write a part, and zero a page that is just being moved and was set aside meanwhile, each in a pool of its own. Then
    /// the move `ends`, and `check` is told the log, and whether the backing device has what the host wrote.
    fn with_requests(requests: &[u8], ends: fn(&MoveInFlight, &Log<HostEnv>), check: fn(&Log<HostEnv>, bool)) {
        for request in requests {
            with_pool_and_state(&[1, 2, 3], async |pool| {
                let log = pool.log.as_ref().expect("a read-write pool has a log");
                let backing = MemoryDevice::new(1 << 20, 512);
                let (name, settings) = ("disk".parse().expect("a name"), VolumeSettings::default());
                let spec = VolumeSpec { name, backing: "disk.img".to_owned(), settings };
                let volume =
                    Volume::open(pool.env.clone(), spec, HostDevice::Memory(backing.clone())).expect("it fits");
                let mut bytes = backing.unplug();
                bytes.fill(7);
                backing.plug(bytes);
                pool.attach(&volume.inner).await.expect("the state directory takes it");
                let index = volume.inner.attached().expect("it is attached").index;
                let moving = set_aside_while_moved(log, index, PAGE_OF_HOST);
                let of = |length| pool.env.buffers().take_zeroed(length);
                let range = ByteRange::at(PAGE_OF_HOST * PAGE, PAGE);
                let asked = async {
                    match request {
                        0 => volume.write(range.start, of(PAGE_BYTES), Durability::Volatile).await,
                        1 => volume.write(range.start, of(512), Durability::Volatile).await,
                        _ => {
                            volume.write_zeroes(range, ZeroMode::MayPunch, ZeroEffort::Any, Durability::Volatile).await
                        }
                    }
                };
                let is_on_backing = || {
                    let bytes = backing.unplug();
                    let is_zero = bytes[usize::try_from(range.start).expect("the device is small")] == 0;
                    backing.plug(bytes);
                    is_zero
                };
                let turns = async || {
                    for _ in 0..200 {
                        pool.env.sleep(Duration::ZERO).await;
                    }
                };
                let meanwhile = async {
                    turns().await;
                    assert!(!is_on_backing(), "the move may take effect, or be found by a start, after it");
                    ends(&moving, log);
                    turns().await;
                    check(log, is_on_backing());
                };
                select(std::pin::pin!(join(asked, std::future::pending::<()>())), std::pin::pin!(meanwhile)).await;
            });
        }
    }

    // proves: F5, F7
    #[test]
    fn what_a_host_writes_to_an_unavailable_page_that_is_just_being_moved_is_newer_than_what_is_moved() {
        with_requests(&[0, 1, 2], MoveInFlight::completes, |log, is_on_backing| {
            assert!(!is_on_backing && log.total().lost == 0, "the log has it, and takes what the host writes");
        });
    }

    // proves: F5, F7
    #[test]
    fn what_a_host_writes_to_an_unavailable_page_whose_move_failed_is_on_the_backing_device() {
        with_requests(&[0, 2], MoveInFlight::fails, |log, is_on_backing| {
            assert!(is_on_backing && log.total().lost == 0, "no SSD has anything of it");
        });
    }
}
