//! Why requests of hosts failed: the first failure of each kind, and how many there were, until somebody takes them.

use std::cell::RefCell;

use crate::error::{Error, ErrorKind};

/// Requests of hosts that failed in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of the first of them: what failed, and on what.
    pub first: Error,
    pub count: u64,
}

/// One entry for each kind of error at most.
#[derive(Default)]
pub(crate) struct HostFailures(RefCell<Vec<Failure>>);

impl HostFailures {
    pub(crate) fn note(&self, error: &Error) {
        let mut noted = self.0.borrow_mut();
        let is_alike = |failure: &&mut Failure| is_alike(failure.first.kind, error.kind);
        match noted.iter_mut().find(is_alike) {
            Some(failure) => failure.count += 1,
            None => noted.push(Failure { first: error.clone(), count: 1 }),
        }
    }

    pub(crate) fn take(&self) -> Vec<Failure> {
        self.0.take()
    }
}

/// Whatever a kind says beside itself.
fn is_alike(one: ErrorKind, other: ErrorKind) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_of_each_kind_is_kept_and_all_are_counted() {
        let failures = HostFailures::default();
        for (kind, message) in
            [(ErrorKind::Media, "a read failed"), (ErrorKind::Media, "another one"), (ErrorKind::Gone, "it is gone")]
        {
            failures.note(&Error::new(kind, message));
        }
        let taken: Vec<_> =
            failures.take().into_iter().map(|failure| (failure.first.to_string(), failure.count)).collect();
        assert_eq!(taken, [("a read failed".to_owned(), 2), ("it is gone".to_owned(), 1)]);
        assert_eq!(failures.take(), []);
    }
}
