//! The header of a slot.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_cache::fuzz::slot_header(bytes));
