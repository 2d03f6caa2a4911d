//! What hosts write: bytes that say where they belong and which write they came from.

use crate::random::mix;

/// The largest and the smallest unit in which content is described; both divide every request.
pub const CELL_BYTES_MIN: u64 = 512;

const MAGIC: u64 = 0x5EE_D0FB_17E5_u64;

/// A cell says first what it is, in four words.
const HEAD_BYTES: usize = 32;

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    Zeroes,
    /// What write number `0` left; writes have numbers of their own.
    Write(u64),
    /// Nothing that a host ever wrote here.
    Foreign,
}

/// A cell's place in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellPlace {
    pub volume: u64,
    pub cell: u64,
}

/// Fills a cell with what write number `version` stores at `place`.
pub fn fill(bytes: &mut [u8], place: CellPlace, version: u64) {
    let (head, tail) = bytes.split_at_mut(HEAD_BYTES);
    for (chunk, word) in head.chunks_exact_mut(8).zip([MAGIC, place.volume, place.cell, version]) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    for (chunk, word) in tail.chunks_exact_mut(8).zip(words(place, version)) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}

/// Which content of `place` these bytes are.
pub fn recognise(bytes: &[u8], place: CellPlace) -> Content {
    if is_zero(bytes) {
        return Content::Zeroes;
    }
    let version = word(bytes, 3);
    if is_filled(bytes, place, version) { Content::Write(version) } else { Content::Foreign }
}

/// Which write a cell of `place` says that it is of, taken at its word: what it holds was judged when it came there.
pub fn write_named(bytes: &[u8], place: CellPlace) -> Option<u64> {
    let named = (word(bytes, 0), word(bytes, 1), word(bytes, 2)) == (MAGIC, place.volume, place.cell);
    named.then(|| word(bytes, 3))
}

/// For people: what a cell that holds the wrong bytes holds.
pub fn describe(bytes: &[u8]) -> String {
    if word(bytes, 0) != MAGIC {
        return format!("bytes that nobody wrote ({:02x?}…)", &bytes[..bytes.len().min(16)]);
    }
    let place = CellPlace { volume: word(bytes, 1), cell: word(bytes, 2) };
    let whole = if is_filled(bytes, place, word(bytes, 3)) { "" } else { ", damaged" };
    format!("volume {} cell {} write {}{whole}", place.volume, place.cell, word(bytes, 3))
}

/// Looks at eight bytes at a time: a simulation spends much of its time here.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| *word == [0; 8]) && rest.iter().all(|byte| *byte == 0)
}

fn is_filled(bytes: &[u8], place: CellPlace, version: u64) -> bool {
    let (head, tail) = bytes.split_at(HEAD_BYTES);
    let is = |(chunk, word): (&[u8], u64)| *chunk == word.to_le_bytes();
    head.chunks_exact(8).zip([MAGIC, place.volume, place.cell, version]).all(is)
        && tail.chunks_exact(8).zip(words(place, version)).all(is)
}

/// What follows the head of a cell: no two cells, and no two versions of one, have it in common.
fn words(place: CellPlace, version: u64) -> impl Iterator<Item = u64> {
    let first = seed(place, version);
    (0..).map(move |number: u64| first ^ number.wrapping_mul(0x5851_F42D_4C95_7F2D))
}

fn seed(place: CellPlace, version: u64) -> u64 {
    mix(version ^ mix(place.cell ^ mix(place.volume)))
}

fn word(bytes: &[u8], number: usize) -> u64 {
    let chunk = bytes[number * 8..number * 8 + 8].try_into().expect("eight bytes are eight bytes");
    u64::from_le_bytes(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_recognised_at_its_own_place_only() {
        let place = CellPlace { volume: 1, cell: 7 };
        let mut bytes = [0; 512];
        assert_eq!(recognise(&bytes, place), Content::Zeroes);
        fill(&mut bytes, place, 42);
        assert_eq!(recognise(&bytes, place), Content::Write(42));
        assert_eq!(recognise(&bytes, CellPlace { volume: 1, cell: 8 }), Content::Foreign);
        assert_eq!(describe(&bytes), "volume 1 cell 7 write 42");
        bytes[500] ^= 1;
        assert_eq!(recognise(&bytes, place), Content::Foreign);
        assert_eq!(describe(&bytes), "volume 1 cell 7 write 42, damaged");
    }
}
