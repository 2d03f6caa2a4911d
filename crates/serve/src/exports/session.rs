//! What the exports ask of a client's session, so that they know no protocol.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Instant;

use crate::inflight::{Course, Ended, Ending};

/// A client's session with an export, in whatever protocol. Nothing here waits.
pub(crate) trait Session: 'static {
    /// How it ends, pauses and leaves.
    fn ending(&self) -> &Ending;

    /// Requests received and not answered.
    fn in_flight(&self) -> usize;

    /// What ended since this was asked last.
    fn ended(&self) -> Ended;

    /// Answers with an error what has made no progress for `timeout`, given what `ended` on the export.
    fn expire_late(&self, ended: &Ended, now: Instant, timeout: Duration);

    /// Whether the client has held memory that others may wait for, and done nothing of its part (to send what it announced, or
    /// to take its replies) over so many looks in a row. Every look asks this.
    fn is_stalled(&self, looks: u32) -> bool;

    /// Receives no more requests; those in flight have `limit` to finish.
    fn stop(&self, limit: Duration) {
        self.ending().stop(limit);
    }

    /// Ends the session at once.
    fn close(&self);

    /// Receives no more requests for now.
    fn pause(&self) {
        self.ending().pause();
    }

    /// Goes on after a pause, whether or not it has come to rest.
    fn resume(&self) {
        self.ending().resume();
    }

    /// Leaves for the thread where its export is now, for it is at rest.
    fn depart(&self) {
        self.ending().depart();
    }

    /// Completes when everything received before a pause is done and answered, or the session goes on or ends.
    fn at_rest(self: Rc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move { self.ending().leaves(Course::Pausing).await })
    }
}
