//! What a cache of another size, or with other settings, would do: answered from a sample of the accesses that hosts make.
//!
//! Samples are *spatial*: a block is watched, with all of its accesses, or not at all, as a hash of it says (SHARDS, Waldspurger et al.,
//! FAST'15). What is sampled feeds two things: reuse distances (`reuse.rs`), which give the curve of LRU at every size, and miniatures
//! (`miniature.rs`; Waldspurger et al., ATC'17), caches of the engine's own policy and counters, as much smaller as fewer blocks are
//! watched. The room knows no device, no clock and no volume; whoever asks brings the accesses. Why so, and how far it can be believed:
//! `docs/decisions/0015-what-the-advisor-samples.md`.

// Nouns: what is true now.
pub mod access;
pub mod curve;
pub mod days;
pub mod figures;
pub mod live;
pub mod miniature;
pub mod reuse;
pub mod sample;
pub mod sizes;
pub mod tallies;
pub mod tap;
pub mod whatif;

// Verbs: what happens.
