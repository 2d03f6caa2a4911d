//! The verbs that talk to the daemon: each makes a request and prints the answer.

mod address;
mod advisor;
mod drawing;
mod drives;
mod events;
mod flush;
mod http;
mod image;
mod lists;
mod members;
mod memory_cache;
mod notify;
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
mod trace;
mod volume;

pub(crate) use address::{Address, Credentials};
pub(crate) use advisor::{
    advise as run_advise, check_advise, check_whatif, watch as watch_for_whatif, whatif as run_whatif,
};
pub(crate) use drawing::{Drawn, Marks, drawing};
pub(crate) use events::run as run_events;
pub(crate) use http::{Answers, ApiDoor, Client};
pub(crate) use image::{check_size as check_image, create as create_image, fill_bar};
pub(crate) use lists::check_lists;
pub(crate) use memory_cache::run as run_memory_cache;
pub(crate) use notify::run as run_notify;
pub(crate) use operations::run as run_operations;
pub(crate) use pool::run as run_pool;
pub(crate) use print::{json, print, tell, write_out};
pub(crate) use removal::{Shown, time_left};
pub(crate) use rules::run as run_udev_rules;
pub(crate) use site::{run_apply, run_export};
pub(crate) use stats::{check as check_stats, run as run_stats};
pub(crate) use status::run as run_status;
pub(crate) use table::{Table, facts};
pub(crate) use token::run as run_token;
pub(crate) use top::run as run_top;
pub(crate) use trace::run as run_trace;
pub(crate) use volume::run as run_volume;
