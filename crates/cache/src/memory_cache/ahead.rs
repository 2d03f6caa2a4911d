//! Pieces of streams that were read before a host asked for them.
//!
//! They are no part of the two queues: a stream is read once, and would only push out what is read again. Like pages in memory they are
//! copies: whatever changes a page takes its piece away, in the same turn ([`super::VolumePages::supersede`]).

use std::collections::VecDeque;
use std::ops::Range;

use hotset_block::Buf;

use crate::address::{bytes_within, touch};

/// The part of the memory cache that pieces have at most (1 / 4), and the most that they have at all, in pages.
const PART: u32 = 4;
const PAGES_MAX: u32 = 16 << 10;
/// What a stream has ahead of it: as many pieces as this at first, twice as many each time that a host had to wait for one.
const DEPTH_MIN: u64 = 2;
const DEPTH_MAX: u64 = 8;
/// A piece is about so many pages, less in a small memory cache: requests of a host that are shorter come in whole numbers.
const PIECE_PAGES: u64 = 256;
/// Longer requests keep the disks busy by themselves.
const REQUEST_PAGES_MAX: u64 = 1024;
/// Where a piece begins so close behind a request, its stream is being read ahead already.
const NEAR_PAGES: u64 = 2 * DEPTH_MAX * PIECE_PAGES;

/// A piece that is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedAhead {
    pub(crate) pages: Range<u64>,
    pub(super) id: u64,
}

/// What there is of a request.
pub(crate) enum FoundAhead {
    Nothing,
    /// It is being read.
    Coming,
    /// All of it; the second buffer, if there is one, follows the first.
    There(Buf, Option<Buf>),
}

struct Piece {
    id: u64,
    /// The volume's number.
    number: usize,
    pages: Range<u64>,
    /// Those that no host has asked for yet.
    left: u64,
    /// How many pieces its stream has ahead of it.
    depth: u64,
    /// `None`: it is being read.
    bytes: Option<Buf>,
}

/// The pieces of all volumes, in the order in which their reading began.
#[derive(Default)]
pub(super) struct Ahead {
    pieces: VecDeque<Piece>,
    pages: u32,
    next_id: u64,
}

impl Ahead {
    /// What they take.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Looks for the pages of a request, one or two pieces of them; what hosts have had of a piece they will not ask for again.
    pub(super) fn find(&mut self, number: usize, pages: &Range<u64>) -> FoundAhead {
        let Some(first) = self.place_of(number, pages.start) else { return FoundAhead::Nothing };
        let middle = self.pieces[first].pages.end.min(pages.end);
        let second = if middle < pages.end { self.place_of(number, middle) } else { Some(first) };
        let Some(second) = second.filter(|second| self.pieces[*second].pages.end >= pages.end) else {
            return FoundAhead::Nothing;
        };
        let Some(head) = self.lend(first, &(pages.start..middle)) else { return FoundAhead::Coming };
        if second == first {
            self.count_taken(&[(first, pages.end - pages.start)]);
            return FoundAhead::There(head, None);
        }
        let Some(tail) = self.lend(second, &(middle..pages.end)) else { return FoundAhead::Coming };
        self.count_taken(&[(first, middle - pages.start), (second, pages.end - middle)]);
        FoundAhead::There(head, Some(tail))
    }

    /// A host waits for this page: its stream is to have more ahead of it.
    pub(super) fn deepen(&mut self, number: usize, page: u64) {
        let mut next = page;
        while let Some(place) = self.place_of(number, next) {
            let piece = &mut self.pieces[place];
            piece.depth = DEPTH_MAX.min(piece.depth * 2);
            next = piece.pages.end;
        }
    }

    /// The pieces that a stream is to have ahead of a request of so many pages, as far as there is room. The page that it goes on with
    /// is `next`, the volume's end is `volume_end`.
    pub(super) fn extend(
        &mut self,
        number: usize,
        next: u64,
        request_pages: u64,
        volume_end: u64,
        allowed_pages: u32,
    ) -> Vec<WantedAhead> {
        if request_pages == 0 || request_pages > REQUEST_PAGES_MAX {
            return Vec::new();
        }
        let room = u64::from(PAGES_MAX.min(allowed_pages / PART));
        let requests = PIECE_PAGES.min(room / DEPTH_MIN) / request_pages;
        let piece_pages = requests.max(1) * request_pages;
        let (mut end, mut depth) = (next, DEPTH_MIN);
        while let Some(place) = self.place_of(number, end) {
            end = self.pieces[place].pages.end;
            depth = depth.max(self.pieces[place].depth);
        }
        if end == next && self.begins_near(number, next) {
            return Vec::new();
        }
        let target = volume_end.min(next + depth * piece_pages);
        let mut wanted = Vec::new();
        // Whole pieces, but for the last one of the volume.
        while end < target {
            let pages = end..volume_end.min(end + piece_pages);
            end = pages.end;
            if self.overlaps(number, &pages) || u64::from(self.pages) + pages.end - pages.start > room {
                break;
            }
            wanted.push(self.begin(number, pages, depth));
        }
        wanted
    }

    /// A piece was read; `None`: it could not be, or not in a way that can be relied on. It may be gone meanwhile.
    pub(super) fn bring(&mut self, id: u64, bytes: Option<Buf>) {
        match (self.pieces.iter_mut().find(|piece| piece.id == id), bytes) {
            (Some(piece), Some(bytes)) => {
                assert!(piece.bytes.is_none(), "pages {:?} of a stream are brought twice", piece.pages);
                piece.bytes = Some(bytes);
            }
            (Some(_), None) => self.forget(id),
            (None, _) => {}
        }
    }

    pub(super) fn forget(&mut self, id: u64) {
        self.retain(|piece| piece.id != id);
    }

    /// These pages are something else from now on. Answers whether a piece of them was there, or coming.
    pub(super) fn supersede(&mut self, number: usize, pages: &Range<u64>) -> bool {
        let had_some = self.overlaps(number, pages);
        if had_some {
            self.retain(|piece| piece.number != number || !touch(&piece.pages, pages));
        }
        had_some
    }

    /// Takes out the piece that is there for the longest time; false: there is none.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let oldest = self.pieces.pop_front();
        self.count();
        oldest.is_some()
    }

    fn begin(&mut self, number: usize, pages: Range<u64>, depth: u64) -> WantedAhead {
        let id = self.next_id;
        self.next_id += 1;
        let left = pages.end - pages.start;
        self.pieces.push_back(Piece { id, number, pages: pages.clone(), left, depth, bytes: None });
        self.count();
        WantedAhead { pages, id }
    }

    fn place_of(&self, number: usize, page: u64) -> Option<usize> {
        self.pieces.iter().position(|piece| piece.number == number && piece.pages.contains(&page))
    }

    fn begins_near(&self, number: usize, end: u64) -> bool {
        let near = end..end.saturating_add(NEAR_PAGES);
        self.pieces.iter().any(|piece| piece.number == number && near.contains(&piece.pages.start))
    }

    fn overlaps(&self, number: usize, pages: &Range<u64>) -> bool {
        self.pieces.iter().any(|piece| piece.number == number && touch(&piece.pages, pages))
    }

    fn lend(&mut self, place: usize, pages: &Range<u64>) -> Option<Buf> {
        let piece = &mut self.pieces[place];
        let within = bytes_within(&piece.pages, pages);
        let lent = piece.bytes.as_mut()?.lend();
        // The last page of a volume may be there in part.
        let end = within.end.min(lent.len());
        Some(lent.narrow(within.start, end - within.start))
    }

    /// Hosts have had so many more pages of some pieces.
    fn count_taken(&mut self, taken: &[(usize, u64)]) {
        for (place, pages) in taken {
            let piece = &mut self.pieces[*place];
            piece.left = piece.left.saturating_sub(*pages);
        }
        self.retain(|piece| piece.left > 0);
    }

    fn retain(&mut self, stays: impl Fn(&Piece) -> bool) {
        self.pieces.retain(stays);
        self.count();
    }

    fn count(&mut self) {
        let pages: u64 = self.pieces.iter().map(|piece| piece.pages.end - piece.pages.start).sum();
        assert!(pages <= u64::from(PAGES_MAX), "{pages} pages are read ahead, and {PAGES_MAX} may be");
        self.pages = u32::try_from(pages).expect("what there is room for is counted in 32 bits");
    }
}

#[cfg(test)]
mod tests {
    use hotset_block::PAGE_BYTES;

    use super::*;
    use crate::refused::assert_refused;

    const VOLUME_PAGES: u64 = 100_000;
    const ALLOWED: u32 = 64 << 10;

    fn extend(
        ahead: &mut Ahead,
        number: usize,
        request: Range<u64>,
        volume_end: u64,
        allowed: u32,
    ) -> Vec<WantedAhead> {
        ahead.extend(number, request.end, request.end - request.start, volume_end, allowed)
    }

    fn ranges(wanted: &[WantedAhead]) -> Vec<(u64, u64)> {
        wanted.iter().map(|wanted| (wanted.pages.start, wanted.pages.end)).collect()
    }

    fn bring_all(ahead: &mut Ahead, wanted: Vec<WantedAhead>) {
        for WantedAhead { pages, id } in wanted {
            let mut buf = Buf::zeroed(usize::try_from(pages.end - pages.start).unwrap() * PAGE_BYTES);
            for (page, part) in pages.zip(buf.chunks_exact_mut(PAGE_BYTES)) {
                part.fill(u8::try_from(page % 251).unwrap());
            }
            ahead.bring(id, Some(buf));
        }
    }

    fn is_there(ahead: &mut Ahead, pages: Range<u64>) -> bool {
        let FoundAhead::There(head, tail) = ahead.find(7, &pages) else { return false };
        let bytes: Vec<u8> = head.iter().chain(tail.iter().flat_map(|tail| tail.iter())).copied().collect();
        let expected = pages.flat_map(|page| [u8::try_from(page % 251).unwrap(); PAGE_BYTES]).collect::<Vec<u8>>();
        assert!(bytes == expected, "they are the pages that were asked for");
        true
    }

    #[test]
    fn a_stream_finds_each_of_its_pages_once_and_has_more_ahead_of_it_where_it_waits() {
        let mut ahead = Ahead::default();
        let wanted = extend(&mut ahead, 7, 0..256, VOLUME_PAGES, ALLOWED);
        assert_eq!(ranges(&wanted), [(256, 512), (512, 768)]);
        assert!(matches!(ahead.find(7, &(256..512)), FoundAhead::Coming));
        ahead.deepen(7, 256);
        bring_all(&mut ahead, wanted);
        assert!(is_there(&mut ahead, 300..512) && is_there(&mut ahead, 256..300));
        assert!(matches!(ahead.find(7, &(256..512)), FoundAhead::Nothing), "it was asked for");
        assert!(matches!(ahead.find(6, &(512..768)), FoundAhead::Nothing), "that is another volume");
        let wanted = extend(&mut ahead, 7, 256..512, VOLUME_PAGES, ALLOWED);
        assert_eq!(ranges(&wanted), [(768, 1024), (1024, 1280), (1280, 1536)], "it had to wait");
        let wanted = extend(&mut ahead, 7, 512..768, VOLUME_PAGES, ALLOWED);
        assert_eq!(ranges(&wanted), [(1536, 1792)]);
    }

    #[test]
    fn requests_across_two_pieces_and_the_end_of_a_volume_are_found_whole() {
        let mut ahead = Ahead::default();
        let wanted = extend(&mut ahead, 7, 0..100, 350, ALLOWED);
        assert_eq!(
            ranges(&wanted),
            [(100, 300), (300, 350)],
            "pieces are whole requests, and the last ends with the volume"
        );
        bring_all(&mut ahead, wanted);
        let wanted = extend(&mut ahead, 7, 0..7, 10_000, ALLOWED);
        assert!(wanted.is_empty(), "its stream is being read ahead");
        let mut ahead = Ahead::default();
        let wanted = extend(&mut ahead, 7, 0..100, VOLUME_PAGES, ALLOWED);
        assert_eq!(ranges(&wanted), [(100, 300), (300, 500)]);
        bring_all(&mut ahead, wanted);
        assert!(is_there(&mut ahead, 290..310));
        assert!(matches!(ahead.find(7, &(490..510)), FoundAhead::Nothing), "a part of it is not there");
    }

    #[test]
    fn what_changes_takes_its_piece_away_and_what_comes_for_it_later_is_let_go() {
        let mut ahead = Ahead::default();
        let wanted = extend(&mut ahead, 7, 0..256, VOLUME_PAGES, ALLOWED);
        ahead.supersede(6, &(0..VOLUME_PAGES));
        ahead.supersede(7, &(100..256));
        ahead.supersede(7, &(767..768));
        assert_eq!(ahead.pages(), 256);
        bring_all(&mut ahead, wanted);
        assert!(is_there(&mut ahead, 256..512) && !is_there(&mut ahead, 512..513));
        assert_eq!(ahead.pages(), 0);
    }

    #[test]
    fn pieces_have_a_part_of_the_memory_cache_and_no_more() {
        let mut ahead = Ahead::default();
        assert!(extend(&mut ahead, 7, 0..256, VOLUME_PAGES, 4 * 255).is_empty());
        assert_eq!(extend(&mut ahead, 7, 0..256, VOLUME_PAGES, 4 * 256).len(), 1);
        assert!(extend(&mut ahead, 5, 0..256, VOLUME_PAGES, 4 * 256).is_empty(), "the other volume has all of it");
        assert!(extend(&mut ahead, 7, 9000..9000 + REQUEST_PAGES_MAX + 1, VOLUME_PAGES, ALLOWED).is_empty());
        assert!(ahead.drop_oldest() && !ahead.drop_oldest());
        let small = extend(&mut ahead, 7, 0..16, VOLUME_PAGES, 4 * 120);
        assert_eq!(ranges(&small), [(16, 64), (64, 112)], "pieces are small in a small memory cache");
    }

    #[test]
    fn a_piece_is_brought_once() {
        let mut ahead = Ahead::default();
        let wanted = extend(&mut ahead, 0, 0..64, VOLUME_PAGES, ALLOWED);
        let bring = |ahead: &mut Ahead| ahead.bring(wanted[0].id, Some(Buf::zeroed(PAGE_BYTES)));
        bring(&mut ahead);
        assert_refused("of a stream are brought twice", || bring(&mut ahead));
    }
}
