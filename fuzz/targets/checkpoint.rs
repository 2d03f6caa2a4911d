//! The start of a checkpoint of a slot index.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_cache::fuzz::checkpoint(bytes));
