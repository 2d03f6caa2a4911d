//! The memory cache gets another size, or has to do with less for a while: what it has too much goes back to the kernel piece by piece,
//! and its tables are made anew in turns, so that hosts do not wait for it.

use std::time::Duration;

use hotset_block::Env;

use super::{MemoryCache, pages_in};

/// Pages that go in one turn.
const RELEASED_PER_TURN: usize = 256;
/// Cells of the index, or places of pages, that are moved in one turn.
pub(super) const MOVED_PER_TURN: u32 = 1024;
/// Sets of what is remembered that are filled in one turn, each from as many as a set has places.
pub(super) const SETS_PER_TURN: usize = 128;

impl MemoryCache {
    /// Gives it another size, 0 for off, and lets it have all of that. Returns when what is too much has gone back to the kernel; a
    /// later call takes the place of this one.
    pub async fn resize<E: Env>(&self, env: &E, size_bytes: u64) {
        self.set_size(size_bytes);
        self.fit(env).await;
    }

    /// Lets it have so much of its size for now. Returns when what is too much has gone back to the kernel.
    pub async fn allow<E: Env>(&self, env: &E, bytes: u64) {
        self.set_allowed(bytes);
        self.fit(env).await;
    }

    pub(super) fn set_size(&self, size_bytes: u64) {
        let pages = pages_in(size_bytes);
        let mut state = self.state.borrow_mut();
        state.size_bytes = size_bytes;
        state.allowed_pages = pages;
        state.resident.resize(pages);
        state.seen.resize(pages);
    }

    pub(super) fn set_allowed(&self, bytes: u64) {
        let mut state = self.state.borrow_mut();
        state.allowed_pages = pages_in(bytes.min(state.size_bytes));
    }

    async fn fit<E: Env>(&self, env: &E) {
        while self.fit_some() {
            env.sleep(Duration::ZERO).await;
        }
    }

    /// A turn; answers whether there may be more to do.
    pub(super) fn fit_some(&self) -> bool {
        let mut state = self.state.borrow_mut();
        for _ in 0..RELEASED_PER_TURN {
            if state.pages() <= state.allowed_pages || !(state.ahead.drop_oldest() || state.evict()) {
                break;
            }
        }
        let released = state.buffers.release_pages(RELEASED_PER_TURN);
        if released == RELEASED_PER_TURN || state.pages() > state.allowed_pages {
            return true;
        }
        state.resident.fit_some(MOVED_PER_TURN) || state.seen.fit_some(SETS_PER_TURN)
    }
}
