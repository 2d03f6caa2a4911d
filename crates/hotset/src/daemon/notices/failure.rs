//! Why a notice was not taken.

/// See the file's summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliveryFailure {
    pub(super) what: String,
    /// The same notice will not be taken later either.
    pub(super) permanent: bool,
}

impl DeliveryFailure {
    /// It may go better later.
    pub(super) fn passing(what: impl Into<String>) -> Self {
        Self { what: what.into(), permanent: false }
    }
}
