//! What tests of assertions have in common: that what must not be ends the process, in the words of the rule that it breaks.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// # Panics
/// If `act` goes through, or ends with other words.
pub(crate) fn assert_refused<T>(words: &str, act: impl FnOnce() -> T) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(act()))).expect_err(words);
    let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    assert!(said.is_some_and(|said| said.contains(words)), "it ends with {said:?}, not with {words:?}");
}
