//! What a session has in flight, whatever its protocol: what it may take of memory, when a request is late, whether the
//! client does its part, and how the session ends. It knows no protocol: a request is whatever the session answers it by.

mod budget;
mod client_watch;
mod ending;
mod progress;
mod requests;

pub(crate) use self::budget::{Budget, Cost};
pub(crate) use self::client_watch::ClientWatch;
pub(crate) use self::ending::{Course, Ending, Stopped};
pub(crate) use self::progress::{Ended, Operation, Work};
pub(crate) use self::requests::{Inflight, Reserved, Ticket};
