//! A device's flushes, one at a time (rule `flush-covers-all`): a request joins only a flush that starts after it
//! arrived.

use crate::members::flusher::{Flusher, Mark};

/// Returns when a flush that started after `mark` was taken has succeeded, by running `flush` or waiting for another's;
/// or with the error of the one that it ran.
pub(crate) async fn cover<X>(flusher: &Flusher, mark: Mark, flush: impl AsyncFn() -> Result<(), X>) -> Result<(), X> {
    while !flusher.covers(mark) {
        let Some(running) = flusher.start() else {
            flusher.ended().await;
            continue;
        };
        let covers = flusher.mark();
        assert!(covers >= mark, "a flush begins after {mark:?} was asked for, and covers {covers:?} only");
        flush().await?;
        flusher.set_covered(covers);
        drop(running);
    }
    Ok(())
}
