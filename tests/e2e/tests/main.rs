//! The product, driven by real clients. Each test starts a daemon of its own and names the requirements it proves.

mod administration;
mod api;
mod api_fuzz;
mod attachment;
mod clients;
mod convert;
mod crash;
mod demonstration;
mod dirty_faults;
mod faults;
mod geometry;
mod guest;
mod guest_database;
mod guest_disk;
mod guest_journal;
mod guest_machine;
mod guest_power;
mod hostile;
mod live;
mod metrics;
mod refusals;
mod restart;
mod scrub;
mod tls;
mod write_back;
