//! Reporting: status, conditions, events, statistics. It looks at what the other rooms know, and changes nothing there.

pub(crate) mod conditions;
pub(crate) mod connect;
pub(crate) mod events;
mod explained;
mod failures_told;
pub(crate) mod found;
pub(crate) mod hook;
pub(crate) mod memory_pressure;
pub(crate) mod moved_devices;
pub(crate) mod observer;
pub(crate) mod runs;
pub(crate) mod seen;
pub(crate) mod selfcheck;
pub(crate) mod ssds;
pub(crate) mod status;
