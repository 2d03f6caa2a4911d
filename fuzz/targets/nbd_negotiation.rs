//! The handshake of an NBD connection with a client that says anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotset_serve::nbd::fuzz::negotiation(bytes));
