//! What became of a notice: it was taken, or why not.

/// A target took a notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delivery {
    /// What it said to it.
    pub(super) answer: String,
    /// For whom it did not, and why: others have it.
    pub(super) refused: Vec<String>,
}

impl Delivery {
    pub(super) fn to_all(answer: impl Into<String>) -> Self {
        Self { answer: answer.into(), refused: Vec::new() }
    }

    /// For people.
    pub(super) fn told(&self) -> String {
        match self.refused.as_slice() {
            [] => self.answer.clone(),
            refused => format!("{}; not for {}", self.answer, refused.join("; ")),
        }
    }
}

/// Why a notice was not taken.
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
