//! What the advisor keeps of a volume for the next start.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_cache::fuzz::advisor_state(bytes));
