//! The small records that every member of a pool keeps a copy of, with and without their envelope.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_cache::fuzz::member_record(bytes));
