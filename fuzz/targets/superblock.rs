//! What an SSD starts with: its superblock, in two copies.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_cache::fuzz::superblock(bytes));
