//! What lies in a segment of the write log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_cache::fuzz::log_segment(bytes));
