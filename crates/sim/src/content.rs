//! What hosts write: bytes that say where they belong and which write they came from.

use crate::random::mix;

/// The largest and the smallest unit in which content is described; both divide every request.
pub const CELL_BYTES_MIN: u64 = 512;

const MAGIC: u64 = 0x5EE_D0FB_17E5_u64;

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
pub struct Place {
    pub volume: u64,
    pub cell: u64,
}

/// Fills a cell with what write number `version` stores at `place`.
pub fn fill(bytes: &mut [u8], place: Place, version: u64) {
    let mut word = seed(place, version);
    for (number, chunk) in bytes.chunks_exact_mut(8).enumerate() {
        let value = match number {
            0 => MAGIC,
            1 => place.volume,
            2 => place.cell,
            3 => version,
            _ => {
                word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                word
            }
        };
        chunk.copy_from_slice(&value.to_le_bytes());
    }
}

/// Which content of `place` these bytes are.
pub fn recognise(bytes: &[u8], place: Place) -> Content {
    if bytes.iter().all(|byte| *byte == 0) {
        return Content::Zeroes;
    }
    let version = word(bytes, 3);
    if is_filled(bytes, place, version) { Content::Write(version) } else { Content::Foreign }
}

/// For people: what a cell that holds the wrong bytes holds.
pub fn describe(bytes: &[u8]) -> String {
    if word(bytes, 0) != MAGIC {
        return format!("bytes that nobody wrote ({:02x?}…)", &bytes[..bytes.len().min(16)]);
    }
    let place = Place { volume: word(bytes, 1), cell: word(bytes, 2) };
    let whole = if is_filled(bytes, place, word(bytes, 3)) { "" } else { ", damaged" };
    format!("volume {} cell {} write {}{whole}", place.volume, place.cell, word(bytes, 3))
}

fn is_filled(bytes: &[u8], place: Place, version: u64) -> bool {
    let mut expected = seed(place, version);
    let head = [MAGIC, place.volume, place.cell, version];
    bytes.chunks_exact(8).enumerate().all(|(number, chunk)| {
        let value = head.get(number).copied().unwrap_or_else(|| {
            expected = expected.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            expected
        });
        chunk == value.to_le_bytes()
    })
}

fn seed(place: Place, version: u64) -> u64 {
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
        let place = Place { volume: 1, cell: 7 };
        let mut bytes = [0; 512];
        assert_eq!(recognise(&bytes, place), Content::Zeroes);
        fill(&mut bytes, place, 42);
        assert_eq!(recognise(&bytes, place), Content::Write(42));
        assert_eq!(recognise(&bytes, Place { volume: 1, cell: 8 }), Content::Foreign);
        assert_eq!(describe(&bytes), "volume 1 cell 7 write 42");
        bytes[500] ^= 1;
        assert_eq!(recognise(&bytes, place), Content::Foreign);
        assert_eq!(describe(&bytes), "volume 1 cell 7 write 42, damaged");
    }
}
