//! Who waits for what of the log.

use hotset_block::sync::Event;

/// See the file's summary.
#[derive(Default)]
pub(crate) struct Signals {
    /// The writer has something to do.
    pub(super) wanted: Event,
    /// Rows were freed, pages cleaned, or appends completed.
    pub(crate) room: Event,
    pub(crate) cleaner_wanted: Event,
    pub(crate) mover_wanted: Event,
}
