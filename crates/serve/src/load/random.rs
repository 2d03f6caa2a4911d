//! Chance, from a seed: numbers, and bytes to write.

use super::Workload;

/// Where a request may take its bytes from; a power of two.
const PLACES: usize = 4 << 20;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA'14).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What a load writes that nobody checks: bytes that storage can neither compress nor leave out, and that it has not seen before.
///
/// They are drawn once. Each request takes them from another place, so that it costs no more than a copy.
pub struct RandomBytes {
    bytes: Vec<u8>,
    next: usize,
    step: usize,
}

impl RandomBytes {
    /// For requests of one size, as long as a load may make them. The same seed gives the same bytes.
    pub fn new(seed: u64, request_bytes: u32) -> Self {
        let request_bytes = usize::try_from(request_bytes.min(Workload::REQUEST_BYTES_MAX)).expect("at most 32 MiB");
        let mut random = Random::new(seed);
        let mut bytes = vec![0; (PLACES + request_bytes).next_multiple_of(8)];
        for word in bytes.as_chunks_mut::<8>().0 {
            *word = random.next().to_le_bytes();
        }
        // Odd: a place is taken again when all others have been. Longer than a request: two in a row share no byte.
        Self { bytes, next: 0, step: (request_bytes | 1) + 2 }
    }

    /// The bytes of the next request.
    pub fn fill(&mut self, request: &mut [u8]) {
        request.copy_from_slice(&self.bytes[self.next..self.next + request.len()]);
        self.next = (self.next + self.step) % PLACES;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_page_is_written_twice_and_every_byte_is_as_likely_as_any_other() {
        for (request_bytes, requests) in [(4096, 4096), (8192, 2048), (1 << 20, 16)] {
            let mut random = RandomBytes::new(1, request_bytes);
            let (mut seen, mut counts) = (HashSet::new(), [0_u64; 256]);
            let mut request = vec![0; usize::try_from(request_bytes).expect("at most 1 MiB")];
            for _ in 0..requests {
                random.fill(&mut request);
                for page in request.chunks_exact(4096) {
                    assert!(seen.insert(page.to_vec()), "{request_bytes}: a page came twice");
                }
                request.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
            }
            let bytes: u64 = counts.iter().sum();
            assert!(
                counts.iter().all(|count| count * 256 > bytes * 9 / 10 && count * 256 < bytes * 11 / 10),
                "{counts:?}"
            );
        }
    }

    #[test]
    fn a_seed_gives_the_same_bytes_again_and_another_seed_others() {
        let drawn = |seed| {
            let mut random = RandomBytes::new(seed, 512);
            let mut requests = [[0; 512]; 2];
            requests.iter_mut().for_each(|request| random.fill(request));
            requests
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        assert_ne!(drawn(1)[0], drawn(1)[1]);
    }

    #[test]
    fn requests_are_filled_however_long_they_are_and_however_many_there_are() {
        for request_bytes in [1, 512, 32 << 20] {
            let mut random = RandomBytes::new(3, request_bytes);
            let mut request = vec![0; usize::try_from(request_bytes).expect("at most 32 MiB")];
            (0..20).for_each(|_| random.fill(&mut request));
        }
        let mut random = RandomBytes::new(3, 512);
        random.next = PLACES - 1;
        random.fill(&mut [0; 512]);
    }
}
