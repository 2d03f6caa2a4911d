//! The seeded simulation of the cache: a faulty world, a model of what hosts may see, and what hunts for a difference.

mod cell;
pub mod content;
pub mod device;
pub mod disk;
pub mod executor;
pub mod image;
mod media;
pub mod model;
pub mod random;
pub mod trace;
