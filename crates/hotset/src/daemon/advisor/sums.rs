//! What was asked, and what is known for that.

use hotset_api::AdviceWindow;
use hotset_cache::advisor::days::BlockDays;
use hotset_cache::advisor::miniature::Setup;
use hotset_cache::advisor::tallies::Tallies;

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdviceAsked {
    pub(crate) window: AdviceWindow,
    /// What all SSDs together may be written.
    pub(crate) endurance_bytes: Option<u64>,
}

/// What was summed up of a volume.
pub(super) struct Sums {
    pub(super) window: AdviceWindow,
    /// Seconds since 1970.
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) setup: Setup,
    pub(super) size_bytes: u64,
    pub(super) sample: f64,
    pub(super) footprint_bytes: u64,
    pub(super) tallies: Tallies,
    pub(super) days: BlockDays,
}
