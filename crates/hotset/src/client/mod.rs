//! The verbs that talk to the daemon: each makes a request and prints the answer.

mod address;
mod drives;
mod events;
mod http;
mod image;
mod members;
mod memory_cache;
mod operations;
mod pool;
mod print;
mod removal;
mod rules;
mod scrub;
mod site;
mod stats;
mod status;
mod table;
mod token;
mod top;
mod volume;

pub(crate) use address::{Address, Credentials};
pub(crate) use events::run as run_events;
pub(crate) use http::{Answers, Client, Door};
pub(crate) use image::{create as create_image, fill_bar};
pub(crate) use memory_cache::run as run_memory_cache;
pub(crate) use operations::run as run_operations;
pub(crate) use pool::run as run_pool;
pub(crate) use print::{json, print, tell, write_out};
pub(crate) use rules::run as run_udev_rules;
pub(crate) use site::{run_apply, run_export};
pub(crate) use stats::run as run_stats;
pub(crate) use status::run as run_status;
pub(crate) use table::Table;
pub(crate) use token::run as run_token;
pub(crate) use top::run as run_top;
pub(crate) use volume::run as run_volume;
