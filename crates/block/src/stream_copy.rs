//! Copies of what another processor or a device reads next.
//!
//! Why `unsafe`: stores past the cache exist only as intrinsics over raw pointers.

#![allow(unsafe_code)]

/// Copies each source to its target without bringing the target into this processor's cache: for bytes that a device reads
/// and nobody here looks at again. An ordinary copy first fetches every line that it overwrites, from where the device
/// had it. All copies of a batch go in one call: in its end it waits until the stores have left the processor.
///
/// # Panics
/// If a target and its source differ in length.
pub fn copy_for_device<'a>(copies: impl IntoIterator<Item = (&'a mut [u8], &'a [u8])>) {
    #[cfg(target_arch = "x86_64")]
    let _in_order = Fence;
    for (target, source) in copies {
        assert_eq!(target.len(), source.len(), "a copy has the length of what is copied");
        #[cfg(target_arch = "x86_64")]
        if let (lines, []) = target.as_chunks_mut()
            && lines.as_ptr().addr().is_multiple_of(WORD_BYTES)
        {
            // SAFETY: SSE2 is part of x86-64.
            unsafe { stream(lines, source) };
            continue;
        }
        target.copy_from_slice(source);
    }
}

/// Stores past the cache are in no order with others until this ends.
#[cfg(target_arch = "x86_64")]
struct Fence;

#[cfg(target_arch = "x86_64")]
impl Drop for Fence {
    fn drop(&mut self) {
        // SAFETY: SSE is part of x86-64.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
}

#[cfg(target_arch = "x86_64")]
const WORD_BYTES: usize = 16;

/// What the processor gathers before it stores: with all words of it loaded first, it stores them as one.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// `target` is aligned to words.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
fn stream(target: &mut [[u8; LINE_BYTES]], source: &[u8]) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};

    for (to, from) in target.iter_mut().zip(source.as_chunks::<LINE_BYTES>().0) {
        let (to, from) = (to.as_chunks_mut::<WORD_BYTES>().0, from.as_chunks::<WORD_BYTES>().0);
        // SAFETY: a word has 16 bytes.
        let load = |word: usize| unsafe { _mm_loadu_si128(from[word].as_ptr().cast()) };
        for (to, word) in to.iter_mut().zip([load(0), load(1), load(2), load(3)]) {
            // SAFETY: `to` has the 16 bytes that are stored, aligned as the caller says.
            unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), word) };
        }
    }
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
            copy_for_device([(&mut target[start..start + len], &source[..])]);
            assert_eq!(target[start..start + len], source[..], "{start} {len}");
            assert!(target[..start].iter().chain(&target[start + len..]).all(|byte| *byte == 0), "{start} {len}");
        }
    }
}
