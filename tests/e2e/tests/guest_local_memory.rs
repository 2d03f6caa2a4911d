//! Local devices where memory is short: in a virtual machine with little of it, whose page cache is full of what has to be written to one.

use crate::guest_machine::Lab;

/// Of which half is left when the machine has started.
const MEMORY_MIB: u64 = 256;

// proves: H3, F11
#[test]
fn memory_that_only_writing_to_a_local_device_can_free_is_freed_and_nothing_is_killed_for_want_of_it() {
    let lab = Lab::new().with_memory(MEMORY_MIB);
    let said = lab.boot("local_memory", 0, true).rest();
    assert!(said.contains("guest: done") && !said.contains("FAILED"), "{said}");
}
