//! A planted bug, which a fuzz run must find: else the fuzzing itself is broken.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Byte by byte, so that only a fuzzer that sees coverage gets there.
    if let [b'h', b'o', b't', b's', ..] = bytes {
        panic!("planted");
    }
});
