//! Who belongs to a pool: its SSDs, their superblocks and lives, the member records, spares, and the watch over SSDs that are silent.

// Nouns: what is true now.
pub(crate) mod flusher;
pub(crate) mod io;
pub(crate) mod label;
pub(crate) mod life;
pub(crate) mod newest;
pub(crate) mod ownership;
pub(crate) mod pool_life;
pub(crate) mod roster;
pub(crate) mod segments;
pub(crate) mod spare;
pub(crate) mod watch;
pub(crate) mod witnesses;

// Verbs: what happens.
pub(crate) mod flush;
pub(crate) mod owner;
pub(crate) mod records;
pub(crate) mod ssd;
pub(crate) mod witness;
