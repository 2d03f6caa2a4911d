//! Values into bytes and back, purely. Every layout is described in `docs/FORMAT.md`, byte for byte; this module and
//! that page change together.
//!
//! Decoding checks everything before it believes anything: magic, version, lengths, checksum, ranges. It answers
//! [`Corrupt`] with the broken rule, never panics, never guesses.

pub(crate) mod catalogue;
pub(crate) mod checkpoint;
pub(crate) mod codec;
pub(crate) mod index;
pub(crate) mod layout;
pub(crate) mod log;
pub(crate) mod losses;
pub(crate) mod members;
pub(crate) mod owner;
pub(crate) mod record;
pub(crate) mod rows;
pub(crate) mod slot_header;
pub(crate) mod superblock;
pub(crate) mod witness;

pub use codec::{Corrupt, Newer, Unusable};
pub(crate) use codec::{OtherStream, Unreadable, crc32c, crc64};

/// The version of everything that is written. A higher one is refused, with the version it needs in the message; what lies there of
/// a lower one is read, and brought to this one when the pool is opened (`pool/upgrade.rs`).
pub const FORMAT_VERSION: u32 = 2;

/// The first version: without streams.
pub(crate) const OLDEST_VERSION: u32 = 1;

/// The stream to which everything belongs that this version writes. What is of another one is refused: a pool may be split into streams
/// by a later version, without another format.
pub(crate) const STREAM: u16 = 0;
