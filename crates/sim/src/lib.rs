//! The seeded simulation of the cache: a faulty world, a model of what hosts may see, and what hunts for a difference.
//!
//! The truth lies in plain sight: `disk.rs` holds what every device really has, `model.rs` what hosts may see. Faults are
//! laid over it (`chaos.rs`, the crashes of `scenario.rs`). First comes safety: whatever happens, no answer is wrong. Then
//! liveness: when the faults end, everything works again (`liveness.rs`).

pub mod administrator;
mod cell;
pub mod chaos;
pub mod content;
pub mod daemon;
pub mod device;
pub mod disk;
pub mod executor;
pub mod host;
pub mod hunt;
pub mod idle;
pub mod image;
pub mod liveness;
pub mod log_shape;
mod media;
pub mod members;
pub mod model;
mod order;
pub mod pauses;
pub mod program;
pub mod random;
pub mod recognise;
pub mod recovery;
pub mod refusals;
pub mod returns;
pub mod scenario;
pub mod scrubs;
pub mod second_loss;
pub mod shape;
pub mod silences;
pub mod state_failures;
pub mod trace;
pub mod world;

#[cfg(test)]
mod tests;
