//! What must be on the demo's volume: a function of the page and its version, and which versions a read may show.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hotset_serve::load::Event;

/// The unit of versions.
pub(super) const PAGE_BYTES: usize = 4096;

/// What is written to the array's file at once.
const CHUNK_PAGES: u64 = 1024;

/// Steps from one word of a page to the next (the golden ratio's, as in SplitMix64).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// The newest version that a write has carried.
    issued: u32,
    /// Reads that begin now show this version or a newer one.
    floor: u32,
    /// The first of the writes that are in flight together: which of them comes last is open.
    group: u32,
    writes_in_flight: u16,
    reads_in_flight: u16,
    /// The floor when the first of the reads in flight began.
    read_floor: u32,
}

/// Follows every write and judges every read.
#[derive(Debug)]
pub(super) struct Content {
    pages: Vec<Page>,
    request_pages: usize,
    pub(super) checked_bytes: u64,
    pub(super) wrong_pages: u64,
    /// The first page that was wrong, for the message.
    pub(super) first_wrong: Option<u64>,
}

impl Content {
    pub(super) fn new(size_bytes: u64) -> Self {
        let pages = vec![Page::default(); index(size_bytes / bytes(PAGE_BYTES))];
        Self { pages, request_pages: 1, checked_bytes: 0, wrong_pages: 0, first_wrong: None }
    }

    /// The length of the requests that follow, in bytes.
    pub(super) fn set_request(&mut self, request_bytes: u32) {
        self.request_pages = index(u64::from(request_bytes)) / PAGE_BYTES;
    }

    /// Writes version 0 of every page into the file.
    pub(super) fn write_first(path: &Path, size_bytes: u64, progress: &mut dyn FnMut(u64)) -> io::Result<()> {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut chunk = vec![0; index(CHUNK_PAGES) * PAGE_BYTES];
        let pages = size_bytes / bytes(PAGE_BYTES);
        let mut first = 0;
        while first < pages {
            let count = CHUNK_PAGES.min(pages - first);
            let part = &mut chunk[..index(count) * PAGE_BYTES];
            for (page, bytes) in (first..).zip(part.chunks_exact_mut(PAGE_BYTES)) {
                write_page(bytes, page, 0);
            }
            file.write_all_at(part, first * bytes(PAGE_BYTES))?;
            first += count;
            progress(first * bytes(PAGE_BYTES));
        }
        Ok(())
    }

    /// The bytes of a write that is issued now.
    pub(super) fn fill(&mut self, offset: u64, buf: &mut [u8]) {
        let first = offset / bytes(PAGE_BYTES);
        for (number, bytes) in (first..).zip(buf.chunks_exact_mut(PAGE_BYTES)) {
            let page = &mut self.pages[index(number)];
            page.issued += 1;
            if page.writes_in_flight == 0 {
                page.group = page.issued;
            }
            page.writes_in_flight += 1;
            write_page(bytes, number, page.issued);
        }
    }

    pub(super) fn follow(&mut self, event: Event) {
        match event {
            Event::ReadIssued { offset } => self.each(offset, |page| {
                if page.reads_in_flight == 0 {
                    page.read_floor = page.floor;
                }
                page.reads_in_flight += 1;
            }),
            Event::Written { offset } => self.each(offset, |page| {
                page.writes_in_flight -= 1;
                if page.writes_in_flight == 0 {
                    page.floor = page.group;
                }
            }),
        }
    }

    fn each(&mut self, offset: u64, change: impl FnMut(&mut Page)) {
        let first = index(offset) / PAGE_BYTES;
        self.pages[first..first + self.request_pages].iter_mut().for_each(change);
    }

    /// Judges the bytes of a read.
    pub(super) fn check(&mut self, offset: u64, data: &[u8]) {
        let first = offset / bytes(PAGE_BYTES);
        for (number, content) in (first..).zip(data.chunks_exact(PAGE_BYTES)) {
            let page = &mut self.pages[index(number)];
            page.reads_in_flight -= 1;
            let right =
                version_of(content, number).is_some_and(|version| (page.read_floor..=page.issued).contains(&version));
            if !right {
                self.wrong_pages += 1;
                self.first_wrong.get_or_insert(number);
            }
            self.checked_bytes += bytes(PAGE_BYTES);
        }
    }
}

fn write_page(content: &mut [u8], page: u64, version: u32) {
    let head = (page << 32) | u64::from(version);
    let base = mixed(head);
    let (words, _) = content.as_chunks_mut::<8>();
    for (index, word) in (0_u64..).zip(words) {
        *word = base.wrapping_add(index.wrapping_mul(STEP)).to_le_bytes();
    }
    content[..8].copy_from_slice(&head.to_le_bytes());
}

/// The version that a page holds, if every byte of it is that of this page in one version.
fn version_of(content: &[u8], page: u64) -> Option<u32> {
    let (words, _) = content.as_chunks::<8>();
    let (first, rest) = words.split_first()?;
    let head = u64::from_le_bytes(*first);
    let base = mixed(head);
    let whole = (1_u64..)
        .zip(rest)
        .all(|(index, word)| u64::from_le_bytes(*word) == base.wrapping_add(index.wrapping_mul(STEP)));
    let version = u32::try_from(head & u64::from(u32::MAX)).ok()?;
    (whole && head >> 32 == page).then_some(version)
}

/// Every bit of the result depends on every bit of `value` (the finalizer of SplitMix64).
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("the demo's sizes fit the address space")
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).expect("a length fits 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn page(number: u64, version: u32) -> Vec<u8> {
        let mut content = vec![0; PAGE_BYTES];
        write_page(&mut content, number, version);
        content
    }

    fn judge(content: &mut Content, number: u64, bytes: &[u8]) -> bool {
        let before = content.wrong_pages;
        content.check(number * 4096, bytes);
        content.wrong_pages == before
    }

    fn begin_read(content: &mut Content, number: u64) {
        content.follow(Event::ReadIssued { offset: number * 4096 });
    }

    #[test]
    fn a_single_wrong_byte_is_seen() {
        for position in [0, 3, 7, 8, 100, 4095] {
            let mut content = Content::new(SIZE);
            let mut bytes = page(5, 0);
            begin_read(&mut content, 5);
            assert!(judge(&mut content, 5, &bytes));
            bytes[position] ^= 1;
            begin_read(&mut content, 5);
            assert!(!judge(&mut content, 5, &bytes), "byte {position}");
        }
        let mut content = Content::new(SIZE);
        begin_read(&mut content, 5);
        assert!(!judge(&mut content, 5, &page(6, 0)), "another page's content");
    }

    #[test]
    fn a_stale_version_is_seen_and_a_concurrent_one_is_not_held_against_the_server() {
        let mut content = Content::new(SIZE);
        let mut buf = vec![0; PAGE_BYTES];
        begin_read(&mut content, 1);
        content.fill(4096, &mut buf);
        content.follow(Event::Written { offset: 4096 });
        assert!(judge(&mut content, 1, &page(1, 0)), "the read began before the write was done");
        begin_read(&mut content, 1);
        assert!(!judge(&mut content, 1, &page(1, 0)), "now the old version is stale");
        begin_read(&mut content, 1);
        assert!(judge(&mut content, 1, &page(1, 1)));
        begin_read(&mut content, 1);
        assert!(!judge(&mut content, 1, &page(1, 2)), "a version that nobody wrote");
    }

    #[test]
    fn of_writes_in_flight_together_any_may_be_the_last() {
        let mut content = Content::new(SIZE);
        let mut buf = vec![0; PAGE_BYTES];
        content.fill(0, &mut buf);
        content.fill(0, &mut buf);
        content.follow(Event::Written { offset: 0 });
        content.follow(Event::Written { offset: 0 });
        for (version, right) in [(0, false), (1, true), (2, true)] {
            begin_read(&mut content, 0);
            assert_eq!(judge(&mut content, 0, &page(0, version)), right, "version {version}");
        }
    }

    #[test]
    fn the_first_content_is_version_zero_of_every_page() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("array");
        let size = (CHUNK_PAGES + 3) * 4096;
        Content::write_first(&path, size, &mut |_| ()).unwrap();
        let all = std::fs::read(&path).unwrap();
        assert_eq!(bytes(all.len()), size);
        for (number, content) in (0..).zip(all.chunks(PAGE_BYTES)) {
            assert_eq!(version_of(content, number), Some(0), "page {number}");
        }
    }
}
