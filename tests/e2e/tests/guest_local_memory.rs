//! Local devices where memory is short: in a virtual machine with little of it, whose page cache is full of what has to be written to one.

use hotset_e2e::tools::skip;

use crate::guest_machine::{Lab, Parts, assert_done};

/// Of which half is left when the machine has started.
const MEMORY_MIB: u64 = 256;

fn memory_is_freed(parts: Parts) {
    let said = Lab::with_little_memory(parts, MEMORY_MIB).boot("local_memory", 0, true).rest();
    assert_done(&said);
}

// proves: H3, F11
#[test]
fn memory_that_only_writing_to_a_local_device_can_free_is_freed_and_nothing_is_killed_for_want_of_it() {
    memory_is_freed(Parts::usual());
}

// proves: H3, F11
#[test]
fn memory_that_only_writing_to_a_local_device_of_ublk_can_free_is_freed_too() {
    if std::env::var_os("HOTSET_UBLK_MEMORY").is_none() {
        skip("HOTSET_UBLK_MEMORY=1 has little memory beside a local device of ublk too, which takes a minute");
        return;
    }
    memory_is_freed(Parts::with_ublk());
}
