//! Changing: what administrators ask for, and what takes long is an operation of one register. It uses what opens, and knows nothing of
//! who reports.

pub(crate) mod accept;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod flush;
pub(crate) mod flush_now;
pub(crate) mod flushed;
pub(crate) mod losses;
pub(crate) mod members;
pub(crate) mod memory_cache;
mod memory_parts;
pub(crate) mod operating;
pub(crate) mod operations;
pub(crate) mod pools;
pub(crate) mod recordings;
pub(crate) mod removal;
pub(crate) mod rewrite;
pub(crate) mod scrub;
pub(crate) mod volumes;
