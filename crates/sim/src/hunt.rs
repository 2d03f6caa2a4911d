//! Runs a seed so that an assertion of the engine that fails is a violation like any other.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use hotset_cache::config::PoolKind;
use hotset_cache::planted::{Planted, plant};

use crate::scenario::{self, Outcome};
use crate::shape::Profile;
use crate::world::{is_changing, kind_of, shape_of};

thread_local! {
    /// The seed that this thread runs, and whether the engine has a bug that is expected to be noticed.
    static RUNNING: Cell<Option<(u64, bool)>> = const { Cell::new(None) };
}

/// The worlds in which something is looked for: all, those with pools of one type, or those that are after one thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ground {
    pub kind: Option<PoolKind>,
    pub profile: Option<Profile>,
    /// Not those whose SSDs come and go.
    pub fixed_ssds: bool,
}

impl Ground {
    /// Their seeds, from `start` on.
    pub fn seeds(self, start: u64) -> impl Iterator<Item = u64> {
        (start..).filter(move |seed| self.contains(*seed))
    }

    fn contains(self, seed: u64) -> bool {
        self.kind.is_none_or(|kind| kind == kind_of(seed))
            && !(self.fixed_ssds && is_changing(seed))
            && self.profile.is_none_or(|profile| profile == shape_of(seed).profile)
    }
}

/// Bugs that show soonest in worlds that are after one kind of bad luck.
const SHARP: &[(Planted, PoolKind, Profile)] = &[
    (Planted::DropNotFlushed, PoolKind::Read, Profile::PowerCuts),
    (Planted::EvictWithoutDrop, PoolKind::Read, Profile::PowerCuts),
    (Planted::ReuseBeforeDropFlushed, PoolKind::Read, Profile::PowerCuts),
    (Planted::PublishWithoutSlotFlush, PoolKind::Read, Profile::PowerCuts),
    (Planted::PublishBeforeHeader, PoolKind::Read, Profile::PowerCuts),
    (Planted::FailedFlushForgotten, PoolKind::Read, Profile::FailedFlush),
    (Planted::ClearForgetsFailure, PoolKind::Read, Profile::FailedFlush),
    (Planted::ClearKeepsUnflushed, PoolKind::Read, Profile::FailedFlush),
    (Planted::AttachmentIdReused, PoolKind::Read, Profile::Everything),
    (Planted::IndexGapIgnored, PoolKind::Read, Profile::Everything),
    (Planted::TailsNotWitnessed, PoolKind::Read, Profile::LostTails),
    (Planted::GenerationNotChecked, PoolKind::Read, Profile::OldContent),
    (Planted::HeaderNotChecked, PoolKind::Read, Profile::OldContent),
    (Planted::ChangedBackingIgnored, PoolKind::Read, Profile::Everything),
    (Planted::OpenWarmWithoutState, PoolKind::Read, Profile::LostState),
    (Planted::ColdRecordForgotten, PoolKind::Read, Profile::FailingSsd),
    (Planted::StaleNewcomerBelieved, PoolKind::Read, Profile::Changing),
    (Planted::FenceIgnored, PoolKind::ReadWrite, Profile::Everything),
    (Planted::ReserveIgnored, PoolKind::ReadWrite, Profile::HungBacking),
    (Planted::FreeBeforeDropsFlushed, PoolKind::ReadWrite, Profile::LateLog),
    (Planted::CleanWithoutLogFlush, PoolKind::ReadWrite, Profile::CleanCuts),
    (Planted::FreeBeforeNewerFlushed, PoolKind::ReadWrite, Profile::LogCuts),
    (Planted::DurableWriteIsPlain, PoolKind::ReadWrite, Profile::Commits),
    (Planted::SealWithoutFlush, PoolKind::ReadWrite, Profile::LogCuts),
    (Planted::AckBeforeEpoch, PoolKind::ReadWrite, Profile::AlternateMissing),
    (Planted::CleanedMoveForgotten, PoolKind::ReadWrite, Profile::ModeChanges),
    (Planted::WrittenOutBesideCleaner, PoolKind::ReadWrite, Profile::ModeChanges),
    (Planted::LossForgotten, PoolKind::ReadWrite, Profile::SecondLoss),
    (Planted::SilenceIsDeath, PoolKind::ReadWrite, Profile::Silence),
    (Planted::RefusalIsDeath, PoolKind::ReadWrite, Profile::Refusal),
    (Planted::OffListTooEarly, PoolKind::ReadWrite, Profile::SecondLoss),
    (Planted::OffListTooLate, PoolKind::ReadWrite, Profile::SecondLoss),
    (Planted::ReturnedWhole, PoolKind::ReadWrite, Profile::SecondLoss),
    (Planted::ReturnNotCompared, PoolKind::ReadWrite, Profile::SecondLoss),
    (Planted::MemoryKeepsLost, PoolKind::ReadWrite, Profile::SecondLoss),
    (Planted::MirrorForgotten, PoolKind::ReadWrite, Profile::Changing),
    (Planted::ReleasedBeforeEmpty, PoolKind::ReadWrite, Profile::Changing),
    (Planted::ScrubBelievesFirstCopy, PoolKind::ReadWrite, Profile::Scrubs),
    (Planted::ScrubMendsNothing, PoolKind::ReadWrite, Profile::Scrubs),
    (Planted::ScrubHoldsNothing, PoolKind::ReadWrite, Profile::Scrubs),
];

/// Where a bug can show, and does so soonest.
pub fn ground_of(bug: Planted) -> Ground {
    match SHARP.iter().find(|(sharp, _, _)| *sharp == bug) {
        Some((_, kind, profile)) => Ground { kind: Some(*kind), profile: Some(*profile), fixed_ssds: false },
        None => {
            let kind = if bug.is_of_log() { PoolKind::ReadWrite } else { PoolKind::Read };
            Ground { kind: Some(kind), profile: None, fixed_ssds: true }
        }
    }
}

static HOOK: Once = Once::new();

/// Runs a seed. Where panics abort (release builds), the process ends with the assertion's message and the seed.
pub fn run_caught(seed: u64, bug: Option<Planted>) -> Outcome {
    HOOK.call_once(name_the_seed_in_panics);
    RUNNING.set(Some((seed, bug.is_some())));
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| scenario::run(seed, bug, 0)));
    RUNNING.set(None);
    plant(None);
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Some(format!("the engine panicked: {}", text.unwrap_or_default()));
        Outcome { history: 0, violation, tail: Vec::new(), steps: 0 }
    })
}

fn name_the_seed_in_panics() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |information| match RUNNING.get() {
        Some((_, true)) => {}
        Some((seed, false)) => eprintln!("seed {seed}: {information}"),
        None => previous(information),
    }));
}
