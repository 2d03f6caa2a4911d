//! Copies of what another processor or a device reads next.
//!
//! Why `unsafe`: stores past the cache exist only as intrinsics over raw pointers.

#![allow(unsafe_code)]

/// Copies `source` to `target` without bringing `target` into this processor's cache: for bytes that a device reads and nobody
/// here looks at again. An ordinary copy first fetches every line that it overwrites, from where the device had it.
///
/// # Panics
/// If the lengths differ.
pub fn copy_for_device(target: &mut [u8], source: &[u8]) {
    assert_eq!(target.len(), source.len(), "a copy has the length of what is copied");
    #[cfg(target_arch = "x86_64")]
    if let (words, []) = target.as_chunks_mut()
        && words.as_ptr().addr().is_multiple_of(WORD_BYTES)
    {
        // SAFETY: SSE2 is part of x86-64.
        unsafe { stream(words, source) };
        return;
    }
    target.copy_from_slice(source);
}

#[cfg(target_arch = "x86_64")]
const WORD_BYTES: usize = 16;

/// `target` is aligned to words.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn stream(target: &mut [[u8; WORD_BYTES]], source: &[u8]) {
    use std::arch::x86_64::{_mm_set_epi64x, _mm_sfence, _mm_stream_si128};

    for (to, from) in target.iter_mut().zip(source.as_chunks::<WORD_BYTES>().0) {
        let (halves, _) = from.as_chunks();
        let word = _mm_set_epi64x(i64::from_ne_bytes(halves[1]), i64::from_ne_bytes(halves[0]));
        // SAFETY: `to` has the 16 bytes that are stored, aligned as the caller says.
        unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), word) };
    }
    // Such stores are in no order with others until here.
    _mm_sfence();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buf;

    #[test]
    fn every_byte_arrives_whatever_length_and_alignment() {
        for (start, len) in [(0, 4096), (0, 64), (0, 0), (64, 8192), (1, 4096), (0, 100), (63, 65)] {
            let source: Vec<u8> = (0..len).map(|index: usize| index.to_le_bytes()[0] ^ 0x5a).collect();
            let mut target = Buf::zeroed(16_384);
            copy_for_device(&mut target[start..start + len], &source);
            assert_eq!(target[start..start + len], source[..], "{start} {len}");
            assert!(target[..start].iter().chain(&target[start + len..]).all(|byte| *byte == 0), "{start} {len}");
        }
    }
}
