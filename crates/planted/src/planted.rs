//! Which bug the engine has, on this thread.

use std::cell::Cell;

include!(concat!(env!("OUT_DIR"), "/bugs.rs"));

impl Planted {
    /// Every bug with its name and the rule that it breaks.
    pub const ALL: &'static [(Self, &'static str, &'static str)] = ALL;

    /// It is of the write log, which read pools do not have.
    pub fn is_of_log(self) -> bool {
        is_of_log(self)
    }
}

thread_local! {
    static ACTIVE: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// From now on, on this thread, the engine has this bug and no other.
pub fn plant(bug: Option<Planted>) {
    ACTIVE.set(bug);
}

/// Whether the engine is to break this rule.
#[inline]
pub fn planted(bug: Planted) -> bool {
    ACTIVE.get() == Some(bug)
}
