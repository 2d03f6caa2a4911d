//! SSDs that are missed: those that failed or were silent in this run, and those that were not there at its start.

use std::cell::Ref;

use hotset_block::Env;

use crate::format::members::MembersRecord;
use crate::format::witness::GoneSsd;
use crate::members::Members;
use crate::members::life::LifeChange;
use crate::reasons::{NotUsed, SsdReason};
use crate::status::{FailedSsd, SsdStatus};

impl<E: Env> Members<E> {
    /// SSDs that were members, or look like it, and are not used.
    pub(crate) fn absent(&self) -> Ref<'_, [SsdStatus]> {
        Ref::map(self.absent.borrow(), Vec::as_slice)
    }

    /// They are not missed any more.
    pub(crate) fn forget_absent(&self, uuids: &[u128]) {
        self.absent.borrow_mut().retain(|absent| !uuids.contains(&absent.uuid));
    }

    /// An SSD is gone and nothing is in its place.
    pub(crate) fn misses_one(&self) -> bool {
        self.ssds.iter().any(|ssd| ssd.life().is_missed()) || self.absent.borrow().iter().any(SsdStatus::is_missed)
    }

    /// Those that were silent or away before this run, and are still away: UUID, and where each was last.
    pub(crate) fn away_since_before(&self) -> Vec<(u128, String)> {
        let (before, absent) = (self.gone_before.borrow(), self.absent.borrow());
        let gone = before.iter().filter(|gone| !gone.failed).map(|gone| &gone.ssd);
        let away = gone.filter(|gone| absent.iter().any(|absent| absent.uuid == gone.uuid) && !self.has(gone.uuid));
        away.map(|gone| (gone.uuid, gone.path.clone())).collect()
    }

    /// Those that were not there at this start, did not fail, and are still away: UUID, and where each was last. Not those that were there
    /// and could not be used.
    pub(crate) fn missing(&self) -> Vec<(u128, String)> {
        let absent = self.absent.borrow();
        let missing = absent.iter().filter(|ssd| ssd.was_away() && !ssd.failed && !self.has(ssd.uuid));
        missing.map(|ssd| (ssd.uuid, ssd.path.clone())).collect()
    }

    /// The members record names this SSD.
    pub(crate) fn has(&self, ssd_uuid: u128) -> bool {
        self.record.borrow().member(ssd_uuid).is_some()
    }

    /// An SSD that failed or is missing has been replaced: the one that was at this path, else any.
    pub(crate) fn forget_one_gone(&self, path: &str) {
        if !self.forget_gone_if(|other| other == path) {
            self.forget_gone_if(|_| true);
        }
    }

    /// The first one that is missed and whose path fits; false: there is none.
    fn forget_gone_if(&self, fits: impl Fn(&str) -> bool) -> bool {
        if let Some(ssd) = self.ssds.iter().find(|ssd| ssd.life().is_missed() && fits(&ssd.path)) {
            ssd.change(LifeChange::Replaced);
            return true;
        }
        let mut absent = self.absent.borrow_mut();
        let place = absent.iter().position(|ssd| ssd.is_missed() && fits(&ssd.path));
        place.map(|place| absent.remove(place)).is_some()
    }

    /// The status names them no more. One that is in use is not gone, whatever it was.
    pub(crate) fn forget_gone(&self, uuids: &[u128]) {
        for ssd in self.ssds.iter().filter(|ssd| uuids.contains(&ssd.uuid) && ssd.life().is_out_of_use()) {
            ssd.change(LifeChange::Replaced);
        }
        self.forget_absent(uuids);
    }

    /// See [`crate::Pool::remember_failed`].
    pub(crate) fn remember_failed(&self, ssds: &[FailedSsd]) {
        for ssd in ssds.iter().filter(|ssd| self.ssds.iter().all(|own| own.uuid != ssd.uuid)) {
            let mut absent = self.absent.borrow_mut();
            match absent.iter_mut().find(|known| known.uuid == ssd.uuid) {
                Some(known) => known.failed = true,
                None => absent.push(failed_before(ssd, 0)),
            }
        }
        self.spares.wanted().wake_all();
    }

    /// SSDs that failed or were missing, and that nobody has replaced or removed: in this run, in those before, and those
    /// that are used again.
    pub(super) fn gone_ssds(&self) -> Vec<GoneSsd> {
        let gone = |path: &str, uuid, size_bytes, failed, reason: String| {
            let ssd = FailedSsd { path: path.to_owned(), uuid, reason };
            GoneSsd { ssd, size_bytes, failed }
        };
        let of_this_run = self
            .ssds
            .iter()
            .filter(|ssd| ssd.life().is_out_of_use())
            .map(|ssd| gone(&ssd.path, ssd.uuid, ssd.layout.ssd_bytes, !ssd.may_pass(), ssd.why_offline()));
        let used_again = self.online_ssds().filter_map(|ssd| {
            let how = ssd.failed_before.borrow().clone()?;
            Some(gone(&ssd.path, ssd.uuid, ssd.layout.ssd_bytes, true, how))
        });
        let absent = self.absent.borrow();
        let before = self.gone_before.borrow();
        let absent = absent.iter().filter(|ssd| ssd.is_missed()).map(|ssd| {
            let known = before.iter().find(|known| known.ssd.uuid == ssd.uuid);
            let reason = known.map_or_else(|| on_record(ssd), |known| known.ssd.reason.clone());
            gone(&ssd.path, ssd.uuid, ssd.size_bytes, ssd.failed, reason)
        });
        of_this_run.chain(used_again).chain(absent).collect()
    }

    /// What members know of SSDs that failed or were missing before: the status names them again, those that are used again
    /// with a warning. Not those that had left `before` this start and are back with what nobody else has.
    pub(crate) fn remember_gone(&self, before: &MembersRecord) {
        let gone = self.witnesses.found.borrow().gone.clone();
        for gone in &gone {
            let uuid = gone.ssd.uuid;
            if let Some(ssd) = self.ssds.iter().find(|ssd| ssd.uuid == uuid) {
                if gone.failed && before.member(uuid).is_some() {
                    *ssd.failed_before.borrow_mut() = Some(gone.ssd.reason.clone());
                }
                continue;
            }
            let mut absent = self.absent.borrow_mut();
            let known = absent.iter_mut().find(|ssd| ssd.uuid == uuid);
            match (known, gone.failed) {
                (Some(known), true) => known.failed = true,
                (Some(_), false) => {}
                (None, true) => absent.push(failed_before(&gone.ssd, gone.size_bytes)),
                (None, false) => {
                    let why = NotUsed::MissedBefore { how: gone.ssd.reason.clone() };
                    let unused = SsdStatus::unused(&gone.ssd.path, uuid, gone.size_bytes, why);
                    absent.push(SsdStatus { missing: true, ..unused });
                }
            }
        }
        *self.gone_before.borrow_mut() = gone;
    }
}

/// What the status says of an SSD that failed in an earlier run.
fn failed_before(ssd: &FailedSsd, size_bytes: u64) -> SsdStatus {
    let why = NotUsed::FailedBefore { how: ssd.reason.clone() };
    SsdStatus { failed: true, ..SsdStatus::unused(&ssd.path, ssd.uuid, size_bytes, why) }
}

/// What goes on record of one that is not used.
fn on_record(ssd: &SsdStatus) -> String {
    match &ssd.reason {
        Some(SsdReason::NotUsed { why }) => why.on_record(),
        Some(
            SsdReason::NotAnswering { .. }
            | SsdReason::WithoutIt { .. }
            | SsdReason::TakesNoWrites { .. }
            | SsdReason::OutOfUse { .. }
            | SsdReason::Doubt(_),
        )
        | None => String::new(),
    }
}
