//! The requests of an NBD connection, and what our own client decodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_serve::nbd::fuzz::messages(bytes));
