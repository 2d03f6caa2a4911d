//! Which parts of a volume are allocated, where its write log has newer ones.

use std::rc::Rc;

use hotset_block::{ByteRange, Env, Extent, ExtentKind};

use crate::config::{PAGE, limits};
use crate::log::overlay::Content;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::VolumeInner;

/// Where the write log has data of a volume, as far as `end`; in order.
struct LoggedData {
    runs: Vec<ByteRange>,
    end: u64,
}

impl LoggedData {
    /// Takes a page into account that is live there, and behind those before it.
    fn add(&mut self, page: ByteRange) {
        match self.runs.last_mut() {
            Some(last) if last.end == page.start => last.end = page.end,
            _ => self.runs.push(page),
        }
    }
}

impl<E: Env> VolumeInner<E> {
    /// The backing device's answer, and all that the write log has is data. One that has no answer in time lets everything count as
    /// data: that is always true to say (NBD: "Metadata querying"), and whoever copies the volume reads what he need not.
    pub(super) async fn allocation(self: &Rc<Self>, range: ByteRange, extents_max: usize) -> Vec<Extent> {
        // The device may answer as it was before the cleaner wrote a page there, and the log may have forgotten that page by then.
        let before = self.logged_data(range);
        let looked_at = ByteRange { start: range.start, end: before.end };
        let answer = self.backing.allocation(looked_at, extents_max).await;
        let Some(extents) = answer.filter(|extents| !extents.is_empty()) else {
            return vec![Extent { length: range.length(), kind: ExtentKind::Data }];
        };
        let after = self.logged_data(looked_at);
        let extents = with_data(range.start, extents, &before.runs);
        let extents = with_data(range.start, extents, &after.runs);
        cut(extents, after.end - range.start, extents_max)
    }

    /// From the start of `range` on, and not of more pages than one turn has time for.
    fn logged_data(self: &Rc<Self>, range: ByteRange) -> LoggedData {
        let mut found = LoggedData { runs: Vec::new(), end: range.end };
        let attached = self.attached();
        let logged = attached.as_deref().and_then(|attached| LoggedVolume::of(self, attached));
        let Some(logged) = logged else { return found };
        let overlay = logged.log.overlay();
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        for (number, live) in overlay.range(logged.index(), pages).enumerate() {
            let Some(page) = ByteRange::at(live.page * PAGE, PAGE).intersection(range) else { continue };
            if number == limits::STATUS_PAGES_MAX {
                found.end = page.start;
                break;
            }
            if live.content != Content::Zeroes {
                found.add(page);
            }
        }
        found
    }
}

/// The same extents, from byte `start` on, in which these runs are data.
fn with_data(start: u64, extents: Vec<Extent>, runs: &[ByteRange]) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::new();
    let (mut at, mut runs) = (start, runs);
    for extent in extents {
        let end = at + extent.length;
        while let [run, others @ ..] = runs
            && run.start < end
        {
            let (first, last) = (run.start.max(at), run.end.min(end));
            push_extent(&mut merged, first - at, extent.kind);
            push_extent(&mut merged, last - first, ExtentKind::Data);
            at = last;
            if run.end > end {
                break;
            }
            runs = others;
        }
        push_extent(&mut merged, end - at, extent.kind);
        at = end;
    }
    merged
}

/// So many bytes of them, in so many extents.
fn cut(extents: Vec<Extent>, mut bytes: u64, extents_max: usize) -> Vec<Extent> {
    let shortened = extents.into_iter().map(|extent| {
        let length = extent.length.min(bytes);
        bytes -= length;
        Extent { length, ..extent }
    });
    shortened.take_while(|extent| extent.length > 0).take(extents_max).collect()
}

/// Appends an extent, or lengthens the last one.
fn push_extent(extents: &mut Vec<Extent>, length: u64, kind: ExtentKind) {
    match extents.last_mut() {
        _ if length == 0 => {}
        Some(last) if last.kind == kind => last.length += length,
        _ => extents.push(Extent { length, kind }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extents_of(lengths: &[(u64, bool)]) -> Vec<Extent> {
        let kind = |is_data: bool| if is_data { ExtentKind::Data } else { ExtentKind::Hole };
        lengths.iter().map(|(length, is_data)| Extent { length: *length, kind: kind(*is_data) }).collect()
    }

    /// Runs with gaps between them, from `start` on.
    fn runs_of(start: u64, lengths: &[(u64, u64)]) -> Vec<ByteRange> {
        let run = |at: &mut u64, (gap, length): &(u64, u64)| {
            let run = ByteRange::at(*at + gap, *length);
            *at = run.end;
            Some(run)
        };
        lengths.iter().scan(start, run).collect()
    }

    fn bytes_of(extents: &[Extent]) -> Vec<ExtentKind> {
        let kinds = |extent: &Extent| vec![extent.kind; usize::try_from(extent.length).unwrap()];
        extents.iter().flat_map(kinds).collect()
    }

    proptest! {
        #[test]
        fn what_the_log_has_is_data_and_the_rest_is_as_the_device_says(
            start in 0_u64..4,
            extents in prop::collection::vec((1_u64..6, any::<bool>()), 1..8),
            runs in prop::collection::vec((1_u64..6, 1_u64..6), 0..8),
        ) {
            let (extents, runs) = (extents_of(&extents), runs_of(start, &runs));
            let mut expected = bytes_of(&extents);
            for (byte, kind) in (start..).zip(&mut expected) {
                if runs.iter().any(|run| (run.start..run.end).contains(&byte)) {
                    *kind = ExtentKind::Data;
                }
            }
            let merged = with_data(start, extents, &runs);
            prop_assert_eq!(bytes_of(&merged), expected);
            prop_assert!(merged.windows(2).all(|pair| pair[0].kind != pair[1].kind));
        }
    }

    #[test]
    fn an_answer_ends_after_so_many_extents_and_where_the_log_was_looked_through() {
        let extents = || extents_of(&[(4, true), (4, false), (4, true)]);
        assert_eq!(cut(extents(), 12, 2), extents_of(&[(4, true), (4, false)]));
        assert_eq!(cut(extents(), 6, 3), extents_of(&[(4, true), (2, false)]));
        assert_eq!(cut(extents(), 8, 3), extents_of(&[(4, true), (4, false)]));
    }

    #[test]
    fn pages_beside_each_other_are_one_run() {
        let mut found = LoggedData { runs: Vec::new(), end: 10 * PAGE };
        [1, 2, 4].into_iter().for_each(|page| found.add(ByteRange::at(page * PAGE, PAGE)));
        assert_eq!(found.runs, [ByteRange::at(PAGE, 2 * PAGE), ByteRange::at(4 * PAGE, PAGE)]);
    }
}
