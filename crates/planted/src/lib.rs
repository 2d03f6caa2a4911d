//! The engine of `crates/cache` with bugs, to prove that the simulator would find them: at least one for each rule of the
//! protocol that its world can break.
//!
//! The build script takes the engine's sources and plants what `rules/` describes, and what the simulator needs beside it
//! (`hooks.md`). As long as nobody calls [`planted::plant`] the engine is the other one. That one knows nothing of it, and
//! neither does the shipped binary: only `hotset-sim` depends on this crate.
#![allow(warnings, clippy::all, reason = "the engine is checked where it is written")]

pub mod planted;

// Its own tests are those of crates/cache; clippy would look at the whole of it once more.
#[cfg(not(test))]
include!(concat!(env!("OUT_DIR"), "/engine/lib.rs"));
