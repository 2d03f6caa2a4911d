//! Opening: the start, the search for SSDs, which pools and volumes are opened and served, and which are fenced. It knows nothing of the
//! rooms above.

pub(crate) mod awaited;
pub(crate) mod converting;
pub(crate) mod departed_ssds;
pub(crate) mod devices;
pub(crate) mod disks;
pub(crate) mod guard;
pub(crate) mod holds;
pub(crate) mod local_devices;
pub(crate) mod locals;
pub(crate) mod moved_devices;
pub(crate) mod offline;
pub(crate) mod offline_ssds;
pub(crate) mod probe;
pub(crate) mod prober;
pub(crate) mod recognise;
pub(crate) mod records;
pub(crate) mod scan;
pub(crate) mod second_writers;
pub(crate) mod serve;
pub(crate) mod spares;
pub(crate) mod start;
pub(crate) mod unread;
pub(crate) mod upkeep;
