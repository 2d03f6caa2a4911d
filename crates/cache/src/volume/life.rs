//! Whether a volume serves, and its writes may stay dirty: one state at a time, and one function that says which state follows.
//!
//! What a state allows is asked by name ([`VolumeLife::is_stopped`], [`VolumeLife::keeps_nothing_dirty`], ...), so that no flow has
//! to know the states.

use std::cell::RefCell;

use crate::reasons::VolumeFence;

/// Three things that do not depend on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LifeState {
    requests: Requests,
    stay: Stay,
    writes: Writes,
}

/// Whether requests are taken. Once they are refused, that stays so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requests {
    Taken,
    Refused,
}

/// Whether it serves where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stay {
    Serving,
    /// It serves, and its cache is being flushed, so that it can be taken away: new writes go past it.
    Draining,
    /// It serves nothing.
    Fenced(VolumeFence),
    /// Its pool has stopped: what that holds of it may be newer than what the backing device does. It may have been fenced before.
    CutOff {
        fence: Option<VolumeFence>,
    },
}

/// What an administrator wants of its writes, wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    MayStayDirty,
    /// Nothing new stays dirty, for a while.
    Held,
}

/// What may happen to a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VolumeChange {
    /// It takes no more requests.
    Stopped,
    /// A pool has it from here on: nothing of what was said of it where it was before holds.
    Joined,
    /// What its pool has of it does not belong to its backing device, or is not all.
    Refused(VolumeFence),
    /// Somebody else took its pool over.
    TakenOver(VolumeFence),
    /// No pool has it from here on.
    Left,
    /// As that, and its backing device may still take what it was sent before.
    LeftBehind(VolumeFence),
    /// What its backing device was sent before it left has ended.
    CaughtUp,
    /// Its cache is to be taken away.
    DrainBegan,
    /// Its cache is not to be taken away any more.
    DrainEnded,
    /// Its pool has stopped.
    PoolStopped,
    WritesHeld,
    WritesReleased,
}

impl LifeState {
    /// The state after `change`; `None`: that cannot happen to a volume in this state, or changes nothing.
    fn after(&self, change: VolumeChange) -> Option<Self> {
        let now = self.clone();
        match change {
            VolumeChange::Stopped => {
                (self.requests == Requests::Taken).then_some(Self { requests: Requests::Refused, ..now })
            }
            VolumeChange::WritesHeld => {
                (self.writes == Writes::MayStayDirty).then_some(Self { writes: Writes::Held, ..now })
            }
            VolumeChange::WritesReleased => {
                (self.writes == Writes::Held).then_some(Self { writes: Writes::MayStayDirty, ..now })
            }
            VolumeChange::Joined
            | VolumeChange::Refused(_)
            | VolumeChange::TakenOver(_)
            | VolumeChange::Left
            | VolumeChange::LeftBehind(_)
            | VolumeChange::CaughtUp
            | VolumeChange::DrainBegan
            | VolumeChange::DrainEnded
            | VolumeChange::PoolStopped => self.stay.after(change).map(|stay| Self { stay, ..now }),
        }
    }
}

impl Stay {
    fn after(&self, change: VolumeChange) -> Option<Self> {
        match (self, change) {
            (Self::Draining | Self::Fenced(_) | Self::CutOff { .. }, VolumeChange::Joined)
            | (Self::Draining | Self::Fenced(_), VolumeChange::Left)
            | (Self::Fenced(VolumeFence::LeftBehind { .. }), VolumeChange::CaughtUp)
            | (Self::Draining, VolumeChange::DrainEnded) => Some(Self::Serving),
            (Self::Serving, VolumeChange::DrainBegan) => Some(Self::Draining),
            (
                Self::Serving | Self::Draining | Self::Fenced(_),
                VolumeChange::Refused(why) | VolumeChange::LeftBehind(why),
            )
            | (Self::Serving | Self::Draining, VolumeChange::TakenOver(why)) => Some(Self::Fenced(why)),
            (Self::Serving | Self::Draining, VolumeChange::PoolStopped) => Some(Self::CutOff { fence: None }),
            (Self::Fenced(why), VolumeChange::PoolStopped) => Some(Self::CutOff { fence: Some(why.clone()) }),
            (Self::Serving | Self::Draining | Self::Fenced(_) | Self::CutOff { .. }, _) => None,
        }
    }
}

/// See the file's summary.
pub(crate) struct VolumeLife(RefCell<LifeState>);

impl Default for VolumeLife {
    fn default() -> Self {
        let state = LifeState { requests: Requests::Taken, stay: Stay::Serving, writes: Writes::MayStayDirty };
        Self(RefCell::new(state))
    }
}

impl VolumeLife {
    pub(crate) fn change(&self, change: VolumeChange) {
        let next = self.0.borrow().after(change);
        if let Some(next) = next {
            *self.0.borrow_mut() = next;
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.borrow().requests == Requests::Refused
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        matches!(self.0.borrow().stay, Stay::CutOff { .. })
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.with_fence(|fence| fence.is_some())
    }

    /// Why it serves nothing.
    pub(crate) fn fence(&self) -> Option<VolumeFence> {
        self.with_fence(|fence| fence.cloned())
    }

    fn with_fence<T>(&self, f: impl FnOnce(Option<&VolumeFence>) -> T) -> T {
        match &self.0.borrow().stay {
            Stay::Serving | Stay::Draining => f(None),
            Stay::Fenced(fence) => f(Some(fence)),
            Stay::CutOff { fence } => f(fence.as_ref()),
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.0.borrow().stay == Stay::Draining
    }

    /// Nobody drains it any more, and nothing else ended that.
    pub(crate) fn is_drain_cancelled(&self) -> bool {
        self.0.borrow().stay == Stay::Serving
    }

    pub(crate) fn holds_writes(&self) -> bool {
        self.0.borrow().writes == Writes::Held
    }

    /// Its cache is to be taken away, or an administrator wants the backing device to have everything.
    pub(crate) fn keeps_nothing_dirty(&self) -> bool {
        self.is_draining() || self.holds_writes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_behind() -> VolumeFence {
        VolumeFence::LeftBehind { backing: "b".to_owned() }
    }

    fn stays() -> Vec<Stay> {
        let fences = [left_behind(), VolumeFence::UnknownLoss];
        let fenced = fences.iter().cloned().map(Stay::Fenced);
        let cut_off = [None].into_iter().chain(fences.iter().cloned().map(Some)).map(|fence| Stay::CutOff { fence });
        [Stay::Serving, Stay::Draining].into_iter().chain(fenced).chain(cut_off).collect()
    }

    fn states() -> Vec<LifeState> {
        let mut states = Vec::new();
        for requests in [Requests::Taken, Requests::Refused] {
            for writes in [Writes::MayStayDirty, Writes::Held] {
                states.extend(stays().into_iter().map(|stay| LifeState { requests, stay, writes }));
            }
        }
        states
    }

    fn changes_of_stays() -> Vec<VolumeChange> {
        vec![
            VolumeChange::Joined,
            VolumeChange::Refused(VolumeFence::UnknownLoss),
            VolumeChange::TakenOver(VolumeFence::UnknownLoss),
            VolumeChange::Left,
            VolumeChange::LeftBehind(left_behind()),
            VolumeChange::CaughtUp,
            VolumeChange::DrainBegan,
            VolumeChange::DrainEnded,
            VolumeChange::PoolStopped,
        ]
    }

    /// Everything that may happen to a stay, and nothing else may.
    fn table() -> Vec<(Stay, VolumeChange, Stay)> {
        let lost = || VolumeFence::UnknownLoss;
        let fenced = || Stay::Fenced(lost());
        let behind = || Stay::Fenced(left_behind());
        let mut table = vec![
            (Stay::Serving, VolumeChange::DrainBegan, Stay::Draining),
            (Stay::Draining, VolumeChange::DrainEnded, Stay::Serving),
            (behind(), VolumeChange::CaughtUp, Stay::Serving),
            (Stay::Serving, VolumeChange::TakenOver(lost()), fenced()),
            (Stay::Draining, VolumeChange::TakenOver(lost()), fenced()),
            (Stay::Serving, VolumeChange::PoolStopped, Stay::CutOff { fence: None }),
            (Stay::Draining, VolumeChange::PoolStopped, Stay::CutOff { fence: None }),
            (fenced(), VolumeChange::PoolStopped, Stay::CutOff { fence: Some(lost()) }),
            (behind(), VolumeChange::PoolStopped, Stay::CutOff { fence: Some(left_behind()) }),
        ];
        for stay in [Stay::Draining, fenced(), behind()] {
            table.push((stay.clone(), VolumeChange::Left, Stay::Serving));
            table.push((stay, VolumeChange::Joined, Stay::Serving));
        }
        for fence in [None, Some(lost()), Some(left_behind())] {
            table.push((Stay::CutOff { fence }, VolumeChange::Joined, Stay::Serving));
        }
        for stay in [Stay::Serving, Stay::Draining, fenced(), behind()] {
            table.push((stay.clone(), VolumeChange::Refused(lost()), fenced()));
            table.push((stay, VolumeChange::LeftBehind(left_behind()), behind()));
        }
        table
    }

    #[test]
    fn every_change_in_every_state_of_a_volume_leads_where_the_table_says() {
        let table = table();
        for state in states() {
            for change in changes_of_stays() {
                let told = table.iter().find(|(from, by, _)| (from, by) == (&state.stay, &change));
                let told = told.map(|(_, _, to)| LifeState { stay: to.clone(), ..state.clone() });
                assert_eq!(state.after(change.clone()), told, "{state:?} {change:?}");
            }
            let refused = LifeState { requests: Requests::Refused, ..state.clone() };
            let held = LifeState { writes: Writes::Held, ..state.clone() };
            let released = LifeState { writes: Writes::MayStayDirty, ..state.clone() };
            let others = [
                (VolumeChange::Stopped, refused),
                (VolumeChange::WritesHeld, held),
                (VolumeChange::WritesReleased, released),
            ];
            for (change, next) in others {
                let told = Some(next).filter(|next| *next != state);
                assert_eq!(state.after(change.clone()), told, "{state:?} {change:?}");
            }
        }
    }

    #[test]
    fn what_a_state_allows_is_what_it_says() {
        for state in states() {
            let life = VolumeLife(RefCell::new(state.clone()));
            assert_eq!(life.is_stopped(), state.requests == Requests::Refused, "{state:?}");
            assert_eq!(life.is_fenced(), life.fence().is_some(), "{state:?}");
            let held = state.writes == Writes::Held;
            assert_eq!(
                (life.holds_writes(), life.keeps_nothing_dirty()),
                (held, held || life.is_draining()),
                "{state:?}"
            );
            let is = [
                life.is_drain_cancelled(),
                life.is_draining(),
                life.is_fenced() && !life.is_cut_off(),
                life.is_cut_off(),
            ];
            assert_eq!(is.into_iter().filter(|is| *is).count(), 1, "{state:?}");
        }
    }

    #[test]
    fn what_was_said_of_a_volume_where_it_was_does_not_hold_in_the_next_pool_but_what_an_administrator_wants_does() {
        let life = VolumeLife::default();
        life.change(VolumeChange::Refused(VolumeFence::UnknownLoss));
        life.change(VolumeChange::TakenOver(left_behind()));
        assert_eq!(life.fence(), Some(VolumeFence::UnknownLoss), "the first reason is kept");
        life.change(VolumeChange::WritesHeld);
        life.change(VolumeChange::PoolStopped);
        life.change(VolumeChange::Stopped);
        assert!(life.is_fenced() && life.is_cut_off());
        life.change(VolumeChange::Joined);
        assert!(!life.is_fenced() && !life.is_draining() && !life.is_cut_off());
        assert!(life.holds_writes() && life.keeps_nothing_dirty() && life.is_stopped());
    }
}
