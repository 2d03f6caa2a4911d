//! Data whose every byte is known: a sector's content follows from its number and its version.

/// The smallest unit that a device writes whole, and in which the tests count.
pub const SECTOR: usize = 512;
/// [`SECTOR`] as a length on a device.
pub const SECTOR_BYTES: u64 = 512;
pub const PAGE: usize = 4096;
/// [`PAGE`] as a length on a device.
pub const PAGE_BYTES: u64 = 4096;
pub const SECTORS_PER_PAGE: u64 = 8;

/// Which content a sector has: the how-manieth, 0 being that of a fresh image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Number(u64),
    Zeroes,
}

/// Fills one sector. It starts with its number and version, so that a failure can say what it found.
pub fn fill_sector(bytes: &mut [u8], sector: u64, version: Version) {
    let Version::Number(version) = version else {
        bytes.fill(0);
        return;
    };
    let mut state = (sector << 24) ^ (version << 3) ^ 0x9e37_79b9_7f4a_7c15;
    for word in bytes.chunks_exact_mut(8) {
        state = xorshift(state);
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes[..8].copy_from_slice(&sector.to_le_bytes());
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
}

/// Whether `bytes` are that sector in that version.
pub fn is_sector(bytes: &[u8], sector: u64, version: Version) -> bool {
    let mut expected = [0; SECTOR];
    fill_sector(&mut expected, sector, version);
    bytes == expected
}

/// Sectors `first..first + count`, all in one version.
pub fn sectors(first: u64, count: u64, version: Version) -> Vec<u8> {
    let len = usize::try_from(count * SECTOR_BYTES).expect("an address has 64 bits at most");
    let mut bytes = vec![0; len];
    for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR)) {
        fill_sector(bytes, sector, version);
    }
    bytes
}

/// Pages `first..first + count`, all in one version.
pub fn pages(first: u64, count: u64, version: u64) -> Vec<u8> {
    sectors(first * SECTORS_PER_PAGE, count * SECTORS_PER_PAGE, Version::Number(version))
}

/// Asserts that `bytes` are the pages from `first` on, all in one version; the last may be cut at a sector.
#[track_caller]
pub fn assert_pages(bytes: &[u8], first: u64, version: u64) {
    assert_eq!(bytes.len() % SECTOR, 0, "a whole number of sectors");
    for (sector, bytes) in (first * SECTORS_PER_PAGE..).zip(bytes.chunks_exact(SECTOR)) {
        assert!(
            is_sector(bytes, sector, Version::Number(version)),
            "sector {sector} (page {}) is not in version {version}: it is {}",
            sector / SECTORS_PER_PAGE,
            describe(bytes)
        );
    }
}

/// What a sector holds, for a message.
pub fn describe(bytes: &[u8]) -> String {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight bytes"));
    let (sector, version) = (number(0), number(8));
    if is_sector(bytes, sector, Version::Number(version)) {
        format!("sector {sector} in version {version}")
    } else if bytes.iter().all(|byte| *byte == 0) {
        "zeroes".to_owned()
    } else {
        format!("{:02x?}…", &bytes[..16])
    }
}

/// Marsaglia's xorshift64: good enough to make every sector look different.
fn xorshift(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

/// A generator for tests: seeded, so that a failure can be run again.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = xorshift(self.0);
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.number() >> 11) % limit
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.number().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sectors_or_versions_are_alike() {
        let contents: std::collections::BTreeSet<_> = (0..64)
            .flat_map(|sector| (0..4).map(move |version| sectors(sector, 1, Version::Number(version))))
            .collect();
        assert_eq!(contents.len(), 64 * 4);
    }

    #[test]
    #[should_panic(expected = "sector 24 (page 3) is not in version 1: it is sector 24 in version 2")]
    fn a_wrong_version_is_named() {
        assert_pages(&pages(3, 1, 2), 3, 1);
    }
}
