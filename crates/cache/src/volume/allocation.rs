//! Which parts of a volume are allocated, where its write log has newer ones.

use hotset_block::{ByteRange, Env, Extent, ExtentKind};

use crate::config::PAGE;
use crate::log::overlay::Content;
use crate::volume::in_log::LoggedVolume;

impl<E: Env> LoggedVolume<'_, E> {
    /// The backing device's answer, with everything that the write log has marked as data.
    pub(super) fn with_live_pages(self, range: ByteRange, extents: Vec<Extent>, extents_max: usize) -> Vec<Extent> {
        let overlay = self.log.overlay();
        let mut merged: Vec<Extent> = Vec::new();
        let mut start = range.start;
        for extent in extents {
            let end = start + extent.length;
            let mut at = start;
            if extent.kind != ExtentKind::Data {
                for live in overlay.range(self.index(), start / PAGE..end.div_ceil(PAGE)) {
                    if live.content == Content::Zeroes {
                        continue;
                    }
                    let (first, last) = ((live.page * PAGE).max(at), ((live.page + 1) * PAGE).min(end));
                    push_extent(&mut merged, first - at, extent.kind);
                    push_extent(&mut merged, last - first, ExtentKind::Data);
                    at = last;
                    if merged.len() >= extents_max {
                        merged.truncate(extents_max);
                        return merged;
                    }
                }
            }
            push_extent(&mut merged, end - at, extent.kind);
            start = end;
        }
        merged.truncate(extents_max);
        merged
    }
}

/// Appends an extent, or lengthens the last one.
fn push_extent(extents: &mut Vec<Extent>, length: u64, kind: ExtentKind) {
    match extents.last_mut() {
        _ if length == 0 => {}
        Some(last) if last.kind == kind => last.length += length,
        _ => extents.push(Extent { length, kind }),
    }
}
