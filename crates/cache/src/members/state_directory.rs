//! The member that is no SSD: the pool's file in the state directory. Nothing holds up the SSDs that it does not have to.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::sync::Event;
use hotset_block::{Buf, Device, Env};

use crate::config::limits;
use crate::format::layout::{CATALOGUE_AREA_BYTES_MAX, STATE_BYTES};
use crate::format::record::{Record, RecordKind};
use crate::members::ssd::may_be_of_the_flush;
use crate::members::state_lacks::{MissedRecord, StateLacks};
use crate::time_limit::within;

/// See the file's summary.
pub(crate) struct StateDirectory<E: Env> {
    env: E,
    pool_uuid: u128,
    /// `None`: there is none, or it knows nothing of this pool.
    device: Option<E::Device>,
    lacks: StateLacks,
    /// Durable writes that failed and may have taken along what a flush was to make durable.
    flushes_refused: Cell<u64>,
    /// A record is on its way there that nobody waits for any more.
    hangs: Cell<bool>,
    /// That record has ended.
    answers: Event,
}

/// A record on its way to the state directory.
pub(super) enum StateRecord {
    Ended(bool),
    /// Whether the state directory takes it.
    Begun(Pin<Box<dyn Future<Output = bool>>>),
    /// Another one is on its way, for which nobody waits.
    Waits,
}

impl StateRecord {
    /// `None`: not before `limit`.
    pub(super) async fn within<E: Env>(&mut self, env: &E, limit: Duration) -> Option<bool> {
        match self {
            Self::Ended(taken) => Some(*taken),
            Self::Begun(writing) => within(env, limit, writing).await,
            Self::Waits => None,
        }
    }
}

impl<E: Env> StateDirectory<E> {
    pub(super) fn new(env: E, pool_uuid: u128, device: Option<E::Device>) -> Self {
        let (lacks, hangs) = (StateLacks::default(), Cell::new(false));
        Self { env, pool_uuid, device, lacks, flushes_refused: Cell::new(0), hangs, answers: Event::new() }
    }

    pub(super) fn device(&self) -> Option<&E::Device> {
        self.device.as_ref()
    }

    /// It has room for a record of what was lost.
    pub(crate) fn keeps_losses(&self) -> bool {
        self.device.as_ref().is_some_and(|state| state.info().size_bytes >= STATE_BYTES)
    }

    /// It lacks newest records, or may: it failed, or did not answer in time.
    pub(crate) fn is_behind(&self) -> bool {
        self.hangs.get() || self.lacks.is_any()
    }

    /// It lacks newest records, and answers.
    pub(super) fn wants_records(&self) -> bool {
        self.lacks.is_any() && !self.hangs.get()
    }

    /// What the newest record of a kind came to there: `None`, it is there.
    pub(super) fn note(&self, kind: RecordKind, missed: Option<MissedRecord>) {
        self.lacks.note(kind, missed.filter(|_| self.device.is_some()));
    }

    /// Begins to write a record, if nothing else is on its way.
    pub(super) fn begin(self: &Rc<Self>, kind: RecordKind, number: u64, bytes: &[u8]) -> StateRecord {
        if self.device.is_none() {
            return StateRecord::Ended(false);
        }
        if self.hangs.get() {
            return StateRecord::Waits;
        }
        let (offset, area_bytes) = kind.area(number % 2, CATALOGUE_AREA_BYTES_MAX);
        let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= area_bytes);
        assert!(fits, "{kind:?} record {number} of {} bytes would overwrite another one", bytes.len());
        let (state, buf) = (Rc::clone(self), self.env.buffers().copy_of(bytes));
        StateRecord::Begun(Box::pin(async move {
            let Some(device) = state.device() else { return false };
            let refused_before = state.flushes_refused.get();
            let (_buf, written) = device.write(offset, buf).await;
            let flushed = written.is_ok() && device.flush().await.is_ok();
            flushed && state.flushes_refused.get() == refused_before
        }))
    }

    /// Writes beside the records, durably; false: it was not taken.
    pub(super) async fn write_durable(&self, offset: u64, buf: Buf) -> bool {
        let Some(device) = self.device() else { return false };
        let (_buf, written) = device.write_durable(offset, buf).await;
        if written.is_err_and(|error| may_be_of_the_flush(&error)) {
            self.flushes_refused.set(self.flushes_refused.get() + 1);
        }
        written.is_ok()
    }

    /// Nobody waits for it any more. Nothing else is written there before it has ended (rule `late-io`).
    pub(super) fn leave(self: &Rc<Self>, record: StateRecord) {
        let StateRecord::Begun(writing) = record else { return };
        let hung = self.hangs.replace(true);
        assert!(!hung, "two records are on their way to the state directory, and nobody waits for either");
        let state = Rc::clone(self);
        self.env.spawn(async move {
            writing.await;
            state.hangs.set(false);
            state.answers.wake_all();
        });
    }

    /// Waits for it, however long that takes; false: it was not taken.
    pub(super) async fn end(
        self: &Rc<Self>,
        mut record: StateRecord,
        kind: RecordKind,
        number: u64,
        bytes: &[u8],
    ) -> bool {
        loop {
            match record {
                StateRecord::Ended(taken) => return taken,
                StateRecord::Begun(writing) => return writing.await,
                StateRecord::Waits => {
                    let answers = self.answers.wait();
                    if self.hangs.get() {
                        answers.await;
                    }
                    record = self.begin(kind, number, bytes);
                }
            }
        }
    }

    /// What it did not take is written there again, as it is on the SSDs. The caller sees to it that no record is changed meanwhile.
    pub(super) async fn write_again(self: &Rc<Self>, kind: RecordKind) {
        let Some(MissedRecord { number, bytes: Some(bytes) }) = self.lacks.get(kind) else { return };
        let mut record = self.begin(kind, number, &bytes);
        match record.within(&self.env, limits::SSD_TIMEOUT).await {
            Some(true) => self.note(kind, None),
            Some(false) => {}
            None => self.leave(record),
        }
    }

    /// Writes a record that no SSD keeps; false: it could not.
    pub(crate) async fn write_only(self: &Rc<Self>, kind: RecordKind, number: u64, payload: Vec<u8>) -> bool {
        let bytes = Record::new(self.pool_uuid, number, payload).encode(kind);
        let record = self.begin(kind, number, &bytes);
        self.end(record, kind, number, &bytes).await
    }
}

#[cfg(test)]
mod tests {
    use hotset_block::{Executor, ExecutorOptions, HostDevice, MemoryDevice};

    use super::*;

    #[test]
    #[should_panic(expected = "would overwrite another one")]
    fn a_record_does_not_reach_into_the_next_one_in_the_state_directory() {
        Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring").run(async |env| {
            let device = HostDevice::Memory(MemoryDevice::new(STATE_BYTES, 512));
            let state = Rc::new(StateDirectory::new(env, 1, Some(device)));
            let (_, area_bytes) = RecordKind::Members.area(0, CATALOGUE_AREA_BYTES_MAX);
            let bytes = vec![0; usize::try_from(area_bytes).expect("an area is small") + 4096];
            state.begin(RecordKind::Members, 7, &bytes);
        });
    }
}
