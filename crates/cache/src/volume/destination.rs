//! Where the bytes of a request go, and how they are put together.

use std::ops::Range;

use hotset_block::{Buf, BufPool, ByteRange};

use crate::config::PAGE;

/// Where a request's bytes go.
pub(crate) enum Destination {
    /// A buffer of this engine's, taken when a device is about to fill it.
    Own,
    /// The caller's, of exactly the pages of the request.
    Given(Buf),
}

impl Destination {
    pub(super) fn buf(self, buffers: &BufPool, bytes: usize) -> Buf {
        match self {
            Self::Own => buffers.take(bytes),
            Self::Given(buf) => {
                assert_eq!(buf.len(), bytes, "a given buffer holds the pages of its request and nothing else");
                buf
            }
        }
    }

    /// For bytes that are there already.
    pub(super) fn filled_with(self, bytes: Buf) -> Buf {
        match self {
            Self::Own => bytes,
            Self::Given(mut buf) => {
                buf.copy_from_slice(&bytes);
                buf
            }
        }
    }
}

/// The request's part of a buffer of whole pages.
pub(super) fn within_pages(buf: Buf, pages: &Range<u64>, range: ByteRange) -> Buf {
    let skip = usize::try_from(range.start - pages.start * PAGE).expect("less than a page");
    buf.narrow(skip, usize::try_from(range.length()).expect("a request fits in memory"))
}

/// Joins two buffers, without a copy if they are neighbours.
pub(crate) fn joined(buffers: &BufPool, before: Buf, part: Buf) -> Buf {
    if before.is_followed_by(&part) {
        return before.join(part);
    }
    let mut whole = buffers.take(before.len() + part.len());
    whole[..before.len()].copy_from_slice(&before);
    whole[before.len()..].copy_from_slice(&part);
    whole
}
