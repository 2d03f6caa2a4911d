//! The write log: dirty data in two copies, its order, how it is read, freed, mirrored and recovered, and what is lost of it.

// Nouns: what is true now.
pub(crate) mod gathered;
pub(crate) mod mirrors;
pub(crate) mod overlay;
pub(crate) mod window;
pub(crate) mod write_log;

// Verbs: what happens.
pub(crate) mod append;
pub(crate) mod batch;
pub(crate) mod data_loss;
pub(crate) mod mirror;
pub(crate) mod move_row;
pub(crate) mod read_copies;
pub(crate) mod read_log;
pub(crate) mod read_summary;
pub(crate) mod recover_log;
pub(crate) mod repair;
pub(crate) mod rows;
pub(crate) mod scan;
pub(crate) mod scan_aside;
pub(crate) mod scan_batch;
pub(crate) mod scan_chain;
pub(crate) mod set_aside;
