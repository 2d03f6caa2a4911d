//! `cargo x sim`: the cache on a seeded executor, in a world that fails, against a model.

use anyhow::Result;

use crate::command::{cargo, succeed};

/// What a run takes if nobody says otherwise.
pub(crate) const SEEDS: u64 = 500;

/// Runs seeds, or one seed with its history.
pub(crate) fn run(seeds: u64, seed: Option<u64>) -> Result<()> {
    let (flag, value) = seed.map_or(("--seeds", seeds), |seed| ("--seed", seed));
    succeed(cargo(&["run", "--quiet", "--release", "--package=hotset-sim", "--", flag, &value.to_string()]))
}
