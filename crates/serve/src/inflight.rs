//! What every session has in flight: what it may take of memory, and when it is late.

mod budget;
mod progress;
mod requests;

pub(crate) use self::budget::{Budget, Cost};
pub(crate) use self::progress::Ended;
pub(crate) use self::requests::{Pending, Reserved, Ticket};
