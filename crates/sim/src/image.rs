//! What a disk holds: pages that share memory until one copy is changed, so that snapshots cost little.

use std::rc::Rc;

use hotset_block::{ByteRange, PAGE_BYTES};

use crate::content::is_zero;

type Page = [u8; PAGE_BYTES];

/// The bytes of a disk. Pages never written are `None` and read as zeroes.
#[derive(Clone)]
pub struct Image {
    pages: Vec<Option<Rc<Page>>>,
}

impl Image {
    pub fn zeroed(size_bytes: u64) -> Self {
        Self { pages: vec![None; index(size_bytes).div_ceil(PAGE_BYTES)] }
    }

    /// There are more bytes than before, all of them zero.
    pub fn grow(&mut self, size_bytes: u64) {
        self.pages.resize(index(size_bytes).div_ceil(PAGE_BYTES), None);
    }

    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let mut at = index(offset);
        let mut rest = into;
        while !rest.is_empty() {
            let (page, start) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let length = rest.len().min(PAGE_BYTES - start);
            let (part, tail) = rest.split_at_mut(length);
            match &self.pages[page] {
                Some(bytes) => part.copy_from_slice(&bytes[start..start + length]),
                None => part.fill(0),
            }
            (rest, at) = (tail, at + length);
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut at = index(offset);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (page, start) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let length = rest.len().min(PAGE_BYTES - start);
            let (part, tail) = rest.split_at(length);
            if length == PAGE_BYTES && is_zero(part) {
                self.pages[page] = None;
            } else {
                self.put(page, start, part);
            }
            (rest, at) = (tail, at + length);
        }
    }

    /// A whole page is not copied before it is overwritten, whoever else has it.
    fn put(&mut self, page: usize, start: usize, part: &[u8]) {
        match (&mut self.pages[page], Page::try_from(part)) {
            (Some(held), Ok(whole)) => match Rc::get_mut(held) {
                Some(own) => *own = whole,
                None => *held = Rc::new(whole),
            },
            (Some(held), Err(_)) => Rc::make_mut(held)[start..start + part.len()].copy_from_slice(part),
            (empty @ None, _) => {
                let mut bytes = [0; PAGE_BYTES];
                bytes[start..start + part.len()].copy_from_slice(part);
                *empty = Some(Rc::new(bytes));
            }
        }
    }

    /// Whether the page that contains this byte holds anything but zeroes by never having been written.
    pub fn is_hole(&self, offset: u64) -> bool {
        self.pages[index(offset) / PAGE_BYTES].is_none()
    }

    /// The bytes of a range.
    pub fn bytes(&self, range: ByteRange) -> Vec<u8> {
        let mut bytes = vec![0; index(range.length())];
        self.read(range.start, &mut bytes);
        bytes
    }

    /// The pages (by number) that were written since both images were one.
    pub fn pages_unlike(&self, other: &Self) -> Vec<u64> {
        let same = |one: &Option<Rc<Page>>, other: &Option<Rc<Page>>| match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => Rc::ptr_eq(one, other),
            (None, Some(_)) | (Some(_), None) => false,
        };
        let pairs = (0u64..).zip(self.pages.iter().zip(&other.pages));
        pairs.filter(|(_, (one, other))| !same(one, other)).map(|(number, _)| number).collect()
    }

    /// The pages (by number) that hold data.
    pub fn data_pages(&self) -> Vec<u64> {
        let numbered = (0u64..).zip(&self.pages);
        numbered.filter(|(_, page)| page.is_some()).map(|(number, _)| number).collect()
    }
}

/// A device offset as an index into memory.
pub fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("simulated disks fit in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_what_the_image_loses() {
        let mut image = Image::zeroed(3 * 4096);
        image.write(4000, &[7; 200]);
        let snapshot = image.clone();
        image.write(4096, &[0; 4096]);
        assert_eq!(image.bytes(ByteRange::at(4000, 200))[96..], [0; 104]);
        assert_eq!(snapshot.bytes(ByteRange::at(4000, 200)), [7; 200]);
        assert!(image.is_hole(4096) && !snapshot.is_hole(4096));
    }
}
