//! The memory cache gets another size, or has to do with less for a while: what it has too much goes back to the kernel piece by piece,
//! so that hosts do not wait for it.

use std::time::Duration;

use hotset_block::Env;

use super::{MemoryCache, pages_in};

/// Pages that go in one turn.
const RELEASED_PER_TURN: usize = 256;

impl MemoryCache {
    /// Gives it another size, 0 for off, and lets it have all of that. Returns when what is too much has gone back to the kernel; a
    /// later call takes the place of this one.
    pub async fn resize<E: Env>(&self, env: &E, size_bytes: u64) {
        self.set_size(size_bytes);
        self.shrink(env).await;
        self.end_resize(size_bytes);
    }

    /// Lets it have so much of its size for now. Returns when what is too much has gone back to the kernel.
    pub async fn allow<E: Env>(&self, env: &E, bytes: u64) {
        self.set_allowed(bytes);
        self.shrink(env).await;
    }

    pub(super) fn set_size(&self, size_bytes: u64) {
        let pages = pages_in(size_bytes);
        let mut state = self.state.borrow_mut();
        state.size_bytes = size_bytes;
        state.allowed_pages = pages;
        // Those that are yet to go have their places until then.
        let held = state.resident.len();
        state.resident.resize(pages.max(held));
        state.seen.resize(pages);
    }

    /// Nothing is too much for this size any more, unless there is another one by now.
    pub(super) fn end_resize(&self, size_bytes: u64) {
        let mut state = self.state.borrow_mut();
        if state.size_bytes == size_bytes {
            state.resident.resize(pages_in(size_bytes));
        }
    }

    pub(super) fn set_allowed(&self, bytes: u64) {
        let mut state = self.state.borrow_mut();
        state.allowed_pages = pages_in(bytes.min(state.size_bytes));
    }

    async fn shrink<E: Env>(&self, env: &E) {
        while self.shrink_some() {
            env.sleep(Duration::ZERO).await;
        }
    }

    /// Whether there may be more to give back.
    pub(super) fn shrink_some(&self) -> bool {
        let mut state = self.state.borrow_mut();
        for _ in 0..RELEASED_PER_TURN {
            if state.pages() <= state.allowed_pages || !(state.ahead.drop_oldest() || state.evict()) {
                break;
            }
        }
        let released = state.buffers.release_pages(RELEASED_PER_TURN);
        released == RELEASED_PER_TURN || state.pages() > state.allowed_pages
    }
}
