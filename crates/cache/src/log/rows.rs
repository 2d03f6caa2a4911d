//! Rows of the write log: opened on pairs of SSDs, sealed, freed (rules `free-oldest-first`, `reserves`), and how
//! segments come to the log from the slots and go back.

use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::Env;

use crate::error::Error;
use crate::format::record::RecordKind;
use crate::log::append::Appends;
use crate::log::log_segments::LogSegments;
use crate::log::row::Row;
use crate::log::row_life::RowChange;
use crate::log::segment_copy::Mirror;
use crate::log::shared::Shared;
use crate::log::signals::Signals;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::pool_life::PoolLife;

/// Pause before a row that could not be opened is tried again.
const RETRY: std::time::Duration = std::time::Duration::from_millis(10);

/// The rows of the log: which one takes batches, which are sealed, and what is on record of them.
pub(crate) struct RowKeeper<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    state: Rc<WriteLog>,
    signals: Rc<Signals>,
    segments: Rc<LogSegments<E>>,
    appends: Rc<Appends<E>>,
}

impl<E: Env> RowKeeper<E> {
    pub(super) fn new(shared: &Shared<E>, segments: &Rc<LogSegments<E>>, appends: &Rc<Appends<E>>) -> Self {
        Self {
            env: shared.env.clone(),
            life: Rc::clone(&shared.life),
            members: Rc::clone(&shared.members),
            state: Rc::clone(&shared.state),
            signals: Rc::clone(&shared.signals),
            segments: Rc::clone(segments),
            appends: Rc::clone(appends),
        }
    }

    /// Has the next row made ready, if there may be one.
    pub(crate) fn spawn_prepare(self: &Rc<Self>) {
        if self.life.has_stopped() || self.state.capacity.openable() == 0 || !self.state.open.begin_preparing() {
            return;
        }
        let log = Rc::clone(self);
        self.env.spawn(async move {
            match log.prepare_row().await {
                Ok(Some(row)) => log.state.open.is_ready(row),
                Ok(None) if log.members.online_ssds().next().is_some() => log.env.sleep(RETRY).await,
                Ok(None) | Err(_) => {
                    log.until_no_orphans().await;
                    log.appends.refuse_appends();
                }
            }
            log.state.open.end_preparing();
            log.signals.room.wake_all();
            log.signals.wanted.wake_all();
        });
    }

    /// Opens a row: segments on pairs of SSDs, their headers durable on both copies, then the row's record. `Ok(None)`:
    /// an SSD failed meanwhile, or there are no segments; it is tried again when it is wanted again.
    async fn prepare_row(&self) -> Result<Option<Rc<Row>>, Error> {
        // At most two rows are not sealed: this one, and the one that is written now.
        while let Some(row) = self.state.row_being_sealed() {
            row.changed.wait().await;
        }
        let Some(pairs) = self.segments.take_segments().await else { return Ok(None) };
        let Some(slot) = self.state.free_row_slot() else {
            self.segments.give_back(&pairs);
            return Ok(None);
        };
        let number = self.state.numbers.take();
        let row = Row::new(slot, number, self.env.random(), pairs, self.segments.segment_pages(), self.env.real_now());
        let row = Rc::new(row);
        self.segments.give_to_row(&row);
        self.state.add_row(&row);
        self.segments.count_openable();
        if !self.segments.write_segment_headers(&row).await {
            self.drop_row(&row);
            return Ok(None);
        }
        row.change(RowChange::HeadersDurable);
        if let Err(error) = self.record_rows().await {
            self.drop_row(&row);
            return Err(error);
        }
        // Some may have left meanwhile.
        let is_lost = |mirror: Mirror| match mirror {
            Mirror::There(copy) => !self.members.ssd(copy.ssd).is_online(),
            Mirror::Away { .. } => true,
            Mirror::Nowhere => false,
        };
        if row.segments.iter().flatten().any(|mirror| is_lost(mirror.get())) {
            self.drop_row(&row);
            return Ok(None);
        }
        Ok(Some(row))
    }

    /// Releases a row that took no batch. Its record, if there is one, says so at the next change.
    pub(crate) fn drop_row(&self, row: &Rc<Row>) {
        self.state.drop_row(row);
        self.segments.release_segments(row);
    }

    /// A row that takes no more batches: when all of them are complete and flushed on both copies, its summaries are
    /// written; the next row record says that it is sealed.
    pub(crate) async fn seal_row(&self, row: &Rc<Row>) {
        while row.has_batches_in_flight() {
            row.changed.wait().await;
        }
        if row.life().is_intact() {
            // What cannot be flushed is not of a copy any more; without any copy the row is lost, sealed or not.
            let _ = self.flush().await;
            self.segments.write_summaries(row).await;
        }
        row.forget_drafts();
        row.change(RowChange::BatchesEnded);
        row.changed.wake_all();
        self.signals.wanted.wake_all();
        self.signals.mover_wanted.wake_all();
    }

    /// Makes every append durable that was answered before this call.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        let mark = self.state.stream.completed();
        let flushes = self.members.ssds().map(async |ssd| {
            if !ssd.is_online() {
                // What it has of these appends may be lost with its cache: it must not be believed again.
                self.members.until_left(ssd).await;
            }
            if !ssd.life().is_readable() || ssd.has_flushed_log() {
                return;
            }
            if let Err(fault) = ssd.flush().await {
                self.members.ssd_failed(ssd, &fault);
                self.members.until_left(ssd).await;
            }
        });
        join_all(flushes).await;
        self.life.check_open()?;
        self.state.stream.flush_ended(mark);
        let flushed = self.state.stream.flushed();
        self.members.witness_keeper().log_is_flushed((flushed.row, flushed.index));
        Ok(())
    }

    /// Writes the row records as they are now; returns when they are durable.
    pub(crate) async fn record_rows(&self) -> Result<(), Error> {
        let _one_at_a_time = self.members.one_change().await;
        if let Some(error) = self.life.fence() {
            // It could not be put on record what would be lost: no record must say that it is.
            return Err(error.clone());
        }
        let record = self.state.next_record();
        if let Err(error) = self.members.write_record(RecordKind::Rows, record.encode()).await {
            self.state.is_not_recorded();
            return Err(error);
        }
        self.state.is_recorded(&record);
        Ok(())
    }

    /// Returns when a start finds nothing of batches that were discarded.
    pub(super) async fn until_no_orphans(&self) {
        while self.state.stream.has_orphans() {
            self.signals.room.wait().await;
        }
    }

    /// The row that takes batches. `None`: one is being made ready.
    pub(super) fn current_row(self: &Rc<Self>) -> Option<Rc<Row>> {
        let current = self.state.open.current();
        if let Some(row) = current {
            if row.room() >= 2 {
                return Some(row);
            }
            self.close_row();
        }
        if let Some(row) = self.state.open.use_prepared() {
            // Of an empty row, the one before it: what its summary says if it stays empty.
            row.ends_with(self.state.stream.last_checksum());
            assert!(row.life().takes_batches() && row.batches() == 0, "row {} is taken into use twice", row.number);
            return Some(row);
        }
        self.spawn_prepare();
        None
    }

    /// The current row takes no more batches.
    pub(crate) fn close_row(self: &Rc<Self>) {
        let row = self.state.open.close_current();
        if let Some(row) = row {
            assert!(row.life().takes_batches(), "row {} is closed twice", row.number);
            row.change(RowChange::Closed);
            let log = Rc::clone(self);
            self.env.spawn(async move { log.seal_row(&row).await });
        }
    }
}
