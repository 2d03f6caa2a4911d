//! Bugs that the simulator plants, to prove that it would find them: at least one for each rule of the protocol.
//!
//! Where the engine keeps a rule it asks [`planted`] whether the rule is to be broken. Without the cargo feature
//! `planted` the answer is the constant `false`, and nothing of this is in the code. The shipped binary never has the
//! feature: only `hotset-sim` asks for it, nothing depends on `hotset-sim`, and releases are built by
//! `cargo build --package hotset` (a build of the whole workspace would unify the features).

/// Declares the bugs with their names and the rule that each breaks.
macro_rules! bugs {
    ($($(#[$meta:meta])* $bug:ident: $rule:literal),+ $(,)?) => {
        /// One rule broken. The words in the comment say what the engine then does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(not(feature = "planted"), allow(dead_code, reason = "bugs exist in the simulator only"))]
        pub enum Planted { $($(#[$meta])* $bug),+ }

        impl Planted {
            /// Every bug with its name and the rule that it breaks.
            pub const ALL: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$bug, stringify!($bug), $rule)),+];

            /// It is of the write log, which read pools do not have.
            pub fn is_of_log(self) -> bool {
                let position = |bug: Self| Self::ALL.iter().position(|(other, _, _)| *other == bug);
                position(self) >= position(Self::LivePageWrittenAround)
            }
        }
    };
}

bugs! {
    /// A write to cached pages records no drop before its backing write.
    WriteWithoutDrop: "write-ahead",
    /// The drop is written after the backing write (before the answer).
    DropAfterBackingWrite: "write-ahead",
    /// The drop is written before the backing write, but its flush is not waited for.
    DropNotFlushed: "write-ahead",
    /// The pages are not held exclusively while the backing write runs.
    WriteHoldsNothing: "write-ahead",
    /// An evicted slot gets no drop record.
    EvictWithoutDrop: "believed-until-dropped",
    /// An evicted slot is ready for a new fill before its drop is flushed.
    ReuseBeforeDropFlushed: "believed-until-dropped",
    /// An evicted slot is filled again while reads of it are in flight.
    ReuseUnderRead: "believed-until-dropped",
    /// A slot is published although its data and header are not flushed on its SSD.
    PublishWithoutSlotFlush: "publish-late",
    /// A slot is published without a backing flush begun after the last write to its block.
    PublishWithoutBackingFlush: "publish-late",
    /// A slot is published whose header was not written.
    PublishBeforeHeader: "publish-late",
    /// A fill keeps pages that were written while it ran.
    FillIgnoresWrite: "fill-clean-only",
    /// A fill keeps pages that were trimmed or zeroed while it ran.
    FillIgnoresDiscard: "fill-clean-only",
    /// A backing flush forgets the writes that completed while it ran (the mark is cleared when the flush ends).
    FlushForgetsConcurrentWrite: "flush-covers-all",
    /// A flush joins a device flush that started before it arrived.
    FlushJoinsRunningFlush: "flush-covers-all",
    /// After a failed backing flush, the next one that succeeds is believed.
    FailedFlushForgotten: "flush-covers-all",
    /// A device that was opened again after a failed flush counts as one that lost nothing: hosts are not told.
    ClearForgetsFailure: "flush-covers-all",
    /// Slots that were filled from what a device that was opened again may have lost stay.
    ClearKeepsUnflushed: "publish-late",
    /// FUA is answered without a flush.
    FuaWithoutFlush: "flush-covers-all",
    /// FLUSH is answered at once, without any device flush.
    FlushDoesNothing: "flush-covers-all",
    /// An SSD that failed is left out without a higher epoch.
    ExpelWithoutEpoch: "membership",
    /// An SSD whose epoch is below the pool's is believed at open.
    OldSsdBelieved: "membership",
    /// Without a majority no cold record goes to the state directory.
    ColdRecordForgotten: "membership",
    /// Without the state directory's agreement slots are believed at open.
    OpenWarmWithoutState: "membership",
    /// A write that takes long gives its slot free while the device still works on it.
    ReleaseOnTimeout: "late-io",
    /// A gap in the slot index before a later valid record is skipped.
    IndexGapIgnored: "recovery",
    /// A record of a previous lap is taken for a record of this lap.
    IndexWrongLapAccepted: "recovery",
    /// Drop records are not replayed.
    DropNotReplayed: "recovery",
    /// No member is told how far the slot indexes of the others have come.
    TailsNotWitnessed: "believed-until-dropped",
    /// A volume attached again gets the attachment id that it had before.
    AttachmentIdReused: "recovery",
    /// What a backing device said at a clean stop is not forgotten when it is written to again.
    CleanMarkKept: "recovery",
    /// A write smaller than the backing device's block is read, modified and written without a lock.
    SubPageWithoutLock: "sub-page",
    /// A trim leaves the cached pages of its range.
    TrimKeepsCachedPages: "zeroes",
    /// Write-zeroes leaves a page that it covers in part in the cache as it was.
    ZeroesKeepPartialPage: "zeroes",
    /// A trim takes the whole pages at its ends, not only its range.
    TrimWidened: "backing-owned",
    /// Page checksums are not compared.
    ChecksumNotChecked: "checked-or-not-served",
    /// The generation in a slot's header is not compared.
    GenerationNotChecked: "checked-or-not-served",
    /// Nothing in a slot's header is compared: whose block it holds, and which fill of the slot it describes.
    HeaderNotChecked: "checked-or-not-served",
    /// A backing device that was changed behind our back keeps its cached pages.
    ChangedBackingIgnored: "backing-identity",
    /// What an administrator changes in the settings of a volume is answered, and not recorded.
    SettingsNotRecorded: "membership",
    /// A volume's new name is answered, and not recorded.
    RenameNotRecorded: "membership",
    /// An SSD's read error is the host's answer.
    SsdErrorAnswered: "errors-hidden",
    /// A page with a live copy is written to the backing device only.
    LivePageWrittenAround: "one-dirty-rule",
    /// Cleaning writes to the backing device before the log is flushed.
    CleanWithoutLogFlush: "write-ahead",
    /// A page is clean although the backing device was not flushed after it was written.
    CleanWithoutBackingFlush: "clean-one-at-a-time",
    /// A page is marked clean although it was overwritten meanwhile.
    CleanNotRechecked: "clean-one-at-a-time",
    /// A row is freed without a record of it.
    FreeWithoutRecord: "free-oldest-first",
    /// A row is freed before what supersedes its pages is flushed.
    FreeBeforeNewerFlushed: "free-oldest-first",
    /// A row is freed before the slot indexes know which of their pages it superseded.
    FreeBeforeDropsFlushed: "free-oldest-first",
    /// A page is moved to the head although a newer version took its place before.
    MoveNotRechecked: "free-oldest-first",
    /// A page that was cleaned while its move was in flight is forgotten where it was moved to.
    CleanedMoveForgotten: "free-oldest-first",
    /// Of batches that were given up, a start finds the copies that were written.
    OrphanedBatchesLeft: "recovery",
    /// A fill takes pages that have a live copy.
    FillTakesLivePages: "fill-clean-only",
    /// A write is answered when one copy of its batch is written.
    AckOfFirstCopy: "two-copies",
    /// Only one copy of a batch is written.
    OneCopyOnly: "two-copies",
    /// A batch whose copy failed is answered before the SSD has left durably.
    AckBeforeEpoch: "membership",
    /// What is to be durable when it is written is written like anything else.
    DurableWriteIsPlain: "flush-covers-all",
    /// FLUSH forgets the write log.
    FlushWithoutLog: "flush-covers-all",
    /// FLUSH forgets what was written around the cache.
    FlushWithoutAround: "flush-covers-all",
    /// A row is sealed although its batches are not flushed.
    SealWithoutFlush: "recovery",
    /// A row takes batches before its record is durable.
    RowWithoutRecord: "recovery",
    /// Recovery takes the later of two entries of a page instead of the one with the higher version.
    RecoverByPosition: "recovery",
    /// Recovery believes what an earlier row left in a segment, behind the end of the chain.
    RecoverBehindCut: "recovery",
    /// Recovery does not bring the copies of a row into line.
    RecoverWithoutRepair: "recovery",
    /// Dirty data of another backing device is cleaned to the one that is there.
    FenceIgnored: "backing-identity",
    /// A trim or zeroing leaves the live copies of its pages.
    ZeroesKeepLiveCopy: "zeroes",
    /// A row record names a new copy of a segment that was not written.
    MirrorForgotten: "membership",
    /// What an SSD holds from an earlier time in the pool is believed when it joins again.
    StaleNewcomerBelieved: "membership",
    /// An SSD is released before what lies on it has a place elsewhere.
    ReleasedBeforeEmpty: "membership",
    /// What is lost with the last copy of a segment is not put on record.
    LossForgotten: "membership",
    /// A page is off the list of what is unavailable before its backing write.
    OffListTooEarly: "losses",
    /// A host that wrote an unavailable page is answered although the list still names that page.
    OffListTooLate: "losses",
    /// Of an SSD that is back everything is taken that its rows hold, not only what is listed.
    ReturnedWhole: "losses",
    /// What an SSD that is back has is taken for what is listed, whatever it is.
    ReturnNotCompared: "losses",
    /// A host's write takes a place that is reserved for moves.
    ReserveIgnored: "reserves",
    /// A volume leaves its pool although it has dirty data there.
    DetachKeepsDirty: "one-dirty-rule",
    /// Row records do not name the attachments that lost something.
    ConcernedForgotten: "membership",
    /// A scrub takes the first copy that it can read for the good one.
    ScrubBelievesFirstCopy: "checked-or-not-served",
    /// A scrub counts bad copies as mended, and writes nothing.
    ScrubMendsNothing: "two-copies",
    /// A scrub looks at places in rows that it does not keep from being freed: something newer may lie there by then.
    ScrubHoldsNothing: "believed-until-dropped",
    /// An SSD that does not answer leaves, also where nothing else has what it holds.
    SilenceIsDeath: "membership",
    /// An SSD that refuses a write is not read any more, also where nothing else has what it holds.
    RefusalIsDeath: "membership",
    /// What an SSD has that refused to flush it counts as durable.
    RefusedFlushBelieved: "flush-covers-all",
    /// Time in which the daemon did not run counts like any other: the world's clock has this bug, not the engine.
    PauseCounted: "silence",
}

#[cfg(feature = "planted")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// From now on, on this thread, the engine has this bug and no other.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Planted>) {
    ACTIVE.set(bug);
}

/// Whether the engine is to break this rule.
#[cfg(feature = "planted")]
#[inline]
pub fn planted(bug: Planted) -> bool {
    ACTIVE.get() == Some(bug)
}

/// Whether the engine is to break this rule: never.
#[cfg(not(feature = "planted"))]
#[inline]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}
