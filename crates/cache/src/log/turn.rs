//! A walk over many pages lets others run now and then.

use std::time::Duration;

use hotset_block::Env;

/// Pages of which something is changed in one turn.
pub(super) const PAGES_CHANGED: u64 = 1024;
/// Pages that are only looked at in one turn.
pub(super) const PAGES_LOOKED_AT: u64 = 16 << 10;

/// The pages that a walk has visited in this turn, and how many those may be.
pub(super) struct Turn {
    pages_max: u64,
    pages: u64,
}

impl Turn {
    pub(super) fn of(pages_max: u64) -> Self {
        Self { pages_max, pages: 0 }
    }

    /// So many pages more were visited; others run if that is enough. What the caller knew may be another afterwards.
    pub(super) async fn visited<E: Env>(&mut self, env: &E, pages: u64) {
        self.pages += pages;
        if self.pages >= self.pages_max {
            self.pages = 0;
            env.sleep(Duration::ZERO).await;
        }
    }
}
