//! The end of a file that is no whole number of blocks: direct I/O cannot reach it.
//!
//! From the last whole page of memory on, such a file is read and written through the page cache, by a second descriptor. Direct
//! I/O does not touch that page, so the two need not be kept coherent; a flush of the file covers both, for fsync(2) is about a
//! file and not about a descriptor. What the last sector lacks reads as zeroes. The file becomes longer, by less than a sector,
//! when something else is written there.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io;
use std::rc::Rc;

use crate::closing::OpenFile;
use crate::{ByteRange, sys};

/// What hosts may read and write at the least: sizes are rounded up to it.
const SECTOR_BYTES: u64 = 512;

/// See the file's summary.
pub(crate) struct Tail {
    /// Goes through the page cache.
    pub(crate) file: Rc<OpenFile>,
    /// Where it begins. Behind the end of a file that needs none any more.
    start: Cell<u64>,
    /// What the file has.
    file_bytes: Cell<u64>,
}

impl Tail {
    /// Whether a file of this size has one, if direct I/O on it takes blocks of `block_bytes`.
    pub(crate) fn is_needed(file_bytes: u64, block_bytes: u32) -> bool {
        !file_bytes.is_multiple_of(u64::from(block_bytes))
    }

    /// Opens the file once more, as the first descriptor may use it.
    pub(crate) fn open_again(file: &OpenFile, read_only: bool) -> io::Result<OpenFile> {
        let file = file.open_again(OpenOptions::new().read(true).write(!read_only))?;
        // The pages around it are direct I/O's.
        sys::expect_random_reads(&file)?;
        Ok(file)
    }

    /// Of a file that [`Tail::open_again`] opened.
    pub(crate) fn new(file: OpenFile, file_bytes: u64, block_bytes: u32) -> Self {
        let tail = Self { file: Rc::new(file), start: Cell::new(0), file_bytes: Cell::new(0) };
        tail.follow(file_bytes, block_bytes);
        tail
    }

    /// The file has another size now.
    pub(crate) fn follow(&self, file_bytes: u64, block_bytes: u32) {
        let needed = Self::is_needed(file_bytes, block_bytes);
        let page = sys::memory_page_bytes().max(u64::from(block_bytes));
        self.start.set(if needed { file_bytes - file_bytes % page } else { u64::MAX });
        self.file_bytes.set(file_bytes);
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes.get()
    }

    /// The size in sectors.
    pub(crate) fn size_bytes(file_bytes: u64) -> u64 {
        file_bytes.next_multiple_of(SECTOR_BYTES)
    }

    /// Where in `range` direct I/O ends. A range that ends within a block does so at what was the end of the file.
    pub(crate) fn divides(&self, range: ByteRange, block_bytes: u32) -> u64 {
        let whole = match range.end.is_multiple_of(u64::from(block_bytes)) {
            true => range.end,
            false => range.end - range.end % sys::memory_page_bytes().max(u64::from(block_bytes)),
        };
        whole.min(self.start.get()).clamp(range.start, range.end)
    }

    /// How much of what is to be written from `offset` on needs to be: the file does not become longer for zeroes.
    pub(crate) fn bytes_to_write(&self, offset: u64, bytes: &[u8]) -> usize {
        let inside = self.file_bytes.get().saturating_sub(offset);
        match usize::try_from(inside).ok().and_then(|inside| bytes.split_at_checked(inside)) {
            Some((_, beyond)) if beyond.iter().all(|byte| *byte == 0) => bytes.len() - beyond.len(),
            Some(_) | None => bytes.len(),
        }
    }

    /// Something was written up to here.
    pub(crate) fn reaches(&self, end: u64) {
        self.file_bytes.set(self.file_bytes.get().max(end));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::closing::Closed;

    fn tail(file_bytes: u64, block_bytes: u32) -> Tail {
        let file = OpenFile::new(OwnedFd::from(File::open("/dev/zero").unwrap()), Closed::AtOnce);
        let tail = Tail { file: Rc::new(file), start: Cell::new(0), file_bytes: Cell::new(0) };
        tail.follow(file_bytes, block_bytes);
        tail
    }

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    #[test]
    fn direct_io_ends_before_the_last_page_of_memory_that_is_not_whole() {
        let page = sys::memory_page_bytes();
        for (file_bytes, block) in [(10 * page + 2560, 4096), (10 * page + 700, 512)] {
            let tail = tail(file_bytes, block);
            let end = Tail::size_bytes(file_bytes);
            assert_eq!(tail.divides(range(0, 10 * page), block), 10 * page, "{file_bytes}");
            assert_eq!(tail.divides(range(9 * page, end), block), 10 * page, "{file_bytes}");
            assert_eq!(tail.divides(range(10 * page, end), block), 10 * page, "{file_bytes}");
        }
        let whole = tail(10 * page, 4096);
        assert_eq!(whole.divides(range(0, 10 * page), 4096), 10 * page);
        assert_eq!(whole.divides(range(0, 5 * page + 512), 4096), 5 * page, "it ended there before it grew");
    }

    #[test]
    fn a_file_becomes_longer_only_for_what_is_not_zero() {
        let tail = tail(1000, 512);
        let mut sector = vec![7; 488];
        sector.resize(512, 0);
        assert_eq!(tail.bytes_to_write(512, &sector), 488);
        sector[511] = 1;
        assert_eq!(tail.bytes_to_write(512, &sector), 512);
        tail.reaches(1024);
        assert_eq!(tail.bytes_to_write(512, &[0; 512]), 512);
    }
}
