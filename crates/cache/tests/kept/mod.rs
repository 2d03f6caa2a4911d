//! What golden images are made of: devices in memory whose identity outlives the process, and bytes that follow from
//! their place.

use std::collections::BTreeSet;

use crate::harness::TestDevice;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const BLOCK: u64 = 64 << 10;
pub(crate) const VOLUME_BYTES: u64 = 16 << 20;

/// Every page of the backing device is this word over and over. Pages that hosts wrote hold another one.
pub(crate) fn word(page: u64, written: bool) -> u64 {
    (page + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(written)
}

pub(crate) fn fill_page(bytes: &mut [u8], page: u64, written: bool) {
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&word(page, written).to_le_bytes());
    }
}

/// A backing device on which hosts wrote these pages.
pub(crate) async fn backing(written: &BTreeSet<u64>) -> TestDevice {
    let mut bytes = vec![0; usize::try_from(VOLUME_BYTES).unwrap()];
    for (page, chunk) in (0..).zip(bytes.chunks_exact_mut(usize::try_from(PAGE).unwrap())) {
        fill_page(chunk, page, written.contains(&page));
    }
    TestDevice::holding(&bytes).await
}
