//! What a scan has read of one copy of a segment: each page once, in order.

use hotset_block::PAGE_BYTES;

use crate::address::at;

/// What was read of one copy of a segment, in order: each page once.
pub(crate) struct Window {
    /// The page of the segment with which `bytes` begins.
    pub(crate) first: u32,
    pub(crate) bytes: Vec<u8>,
    /// The first page that may be asked for again.
    pub(crate) wanted: u32,
    /// The SSD did not answer: this copy is not asked again.
    pub(crate) failed: bool,
}

impl Window {
    /// Batches begin behind the segment's header.
    pub(crate) fn new() -> Self {
        Self { first: 1, bytes: Vec::new(), wanted: 1, failed: false }
    }

    pub(crate) fn end(&self) -> u32 {
        self.first + u32::try_from(self.bytes.len() / PAGE_BYTES).expect("a segment has fewer than 2^32 pages")
    }

    /// Nothing before this page is asked for again.
    pub(crate) fn advance(&mut self, page: u32) {
        assert!(page >= self.wanted, "page {page} is to be read on from, and {} was before", self.wanted);
        self.wanted = page;
        // The other copy may have brought what this one was not read for.
        if page > self.end() {
            self.bytes.clear();
            self.first = page;
        }
    }

    /// The pages from `page` on, if they were read.
    pub(crate) fn pages(&self, page: u32, count: u32) -> Option<&[u8]> {
        let start = at(page.checked_sub(self.first)?) * PAGE_BYTES;
        self.bytes.get(start..start + at(count) * PAGE_BYTES)
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len().is_multiple_of(PAGE_BYTES), "{} bytes of a copy are no whole pages", bytes.len());
        self.bytes.drain(..at(self.wanted - self.first) * PAGE_BYTES);
        self.first = self.wanted;
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn what_was_read_of_a_copy_is_in_order_and_in_whole_pages() {
        let mut window = Window::new();
        window.advance(3);
        assert_refused("page 2 is to be read on from, and 3 was before", || window.advance(2));
        assert_refused("100 bytes of a copy are no whole pages", || window.push(&[0; 100]));
    }
}
