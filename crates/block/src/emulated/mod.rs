//! An emulated array of HDDs: the time that such an array takes, while its data lie in a sparse file. And an emulated
//! SSD ([`EmulatedSsd`]): a file, slowed down.
//!
//! For demonstrations and tests on machines without an array. [`ArrayModel`] is a state machine in virtual time: arms,
//! platters, queues, parity and write caches, calibrated to arrays that vendors measured ([`Preset`]). The caches
//! model time only: data are in the file before a write is acknowledged, so an emulated array never loses more than
//! the file would.

mod controller;
mod device;
mod disk;
mod gathering;
mod layout;
mod mechanics;
mod model;
mod open;
mod parameters;
mod spelling;
mod ssd;
mod timeline;

#[cfg(test)]
mod tests;

pub use device::EmulatedArray;
pub use disk::DiskCounters;
pub use layout::Level;
pub use model::{Answer, ArrayModel, ArrayRequest, RequestId};
pub use parameters::{Parameters, Preset};
pub use spelling::{EmulatedArraySpec, SpellingError, split_spelling};
pub use ssd::{EmulatedSsd, EmulatedSsdSpec, SsdSpeed};
