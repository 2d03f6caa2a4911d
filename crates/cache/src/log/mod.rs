//! The write log: dirty data in two copies, its order, how it is read, freed, mirrored and recovered, and what is lost of it.
//!
//! [`Log`] knows neither volumes nor backing devices. Whoever cleans says what the backing device has by now; what can go nowhere
//! but there is handed out ([`Appends::redirects`]), and so is what a segment that the log takes held ([`Log::take_claims`]).

// Nouns: what is true now.
pub(crate) mod capacity;
mod gathered;
mod loss_list;
pub(crate) mod mirrors;
mod open_rows;
pub(crate) mod overlay;
pub(crate) mod pace;
pub(crate) mod queue;
mod redirects;
pub(crate) mod row;
mod row_life;
mod row_numbers;
pub(crate) mod run;
mod segment_copy;
pub(crate) mod signals;
pub(crate) mod stream;
pub(crate) mod tallies;
mod window;
pub(crate) mod write_log;

// Verbs: what happens.
pub(crate) mod append;
mod batch;
pub(crate) mod data_loss;
mod log_segments;
pub(crate) mod mirror;
mod move_row;
pub(crate) mod read_copies;
pub(crate) mod read_log;
pub(crate) mod read_summary;
mod recover_log;
mod repair;
mod rows;
pub(crate) mod scan;
pub(crate) mod scan_aside;
mod scan_batch;
mod scan_chain;
mod shared;
mod stop;
mod turn;

use std::cell::{Cell, Ref};
use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::Event;
use hotset_block::{Env, RealInstant};

use crate::address::VolumeIndex;
use crate::attachment_ids::AttachmentIds;
use crate::clean::{Claimed, Clean};
use crate::config::PoolName;
use crate::format::rows::Rows;
use crate::log::append::Appends;
use crate::log::batch::BatchWriter;
use crate::log::data_loss::DataLoss;
use crate::log::log_segments::LogSegments;
use crate::log::mirror::Mirrorer;
use crate::log::mirrors::Mirrors;
use crate::log::move_row::Mover;
use crate::log::overlay::{LivePage, Overlay, OverlayCounts};
use crate::log::pace::Pace;
use crate::log::queue::CleanedHint;
use crate::log::read_log::LogReader;
use crate::log::row::Row;
use crate::log::rows::RowKeeper;
use crate::log::run::LogRun;
use crate::log::shared::Shared;
use crate::log::signals::Signals;
use crate::log::stream::FlushHabit;
use crate::log::tallies::LogTally;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::newest::Records;
use crate::members::pool_life::PoolLife;

/// The write log of a pool: its parts, each of which knows those that it uses.
pub(crate) struct Log<E: Env> {
    env: E,
    pool_name: PoolName,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    ids: Rc<AttachmentIds>,
    state: Rc<WriteLog>,
    signals: Rc<Signals>,
    known: Cell<Known>,
    known_changed: Event,
    segments: Rc<LogSegments<E>>,
    appends: Rc<Appends<E>>,
    rows: Rc<RowKeeper<E>>,
    writer: Rc<BatchWriter<E>>,
    reader: Rc<LogReader<E>>,
    data_loss: Rc<DataLoss<E>>,
    mirrorer: Rc<Mirrorer<E>>,
    mover: Rc<Mover<E>>,
}

/// Whether it is known what the log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Known {
    /// A start has not read it yet.
    #[default]
    NotYet,
    Yes,
    /// The start came to nothing.
    Never,
}

impl<E: Env> Log<E> {
    /// Of a pool with these members, of which nobody knows yet what it holds.
    pub(crate) fn new(
        env: E,
        pool_name: PoolName,
        life: Rc<PoolLife>,
        members: Rc<Members<E>>,
        clean: Rc<Clean<E>>,
        ids: Rc<AttachmentIds>,
    ) -> Self {
        let (state, signals) = (Rc::new(WriteLog::new()), Rc::default());
        let shared = Shared { env, pool_name, life, members, clean, ids, state, signals };
        let segments = Rc::new(LogSegments::new(&shared));
        let appends = Rc::new(Appends::new(&shared, &segments));
        let rows = Rc::new(RowKeeper::new(&shared, &segments, &appends));
        let writer = Rc::new(BatchWriter::new(&shared, &segments, &appends, &rows));
        let reader = Rc::new(LogReader::new(&shared, &segments));
        let data_loss = Rc::new(DataLoss::new(&shared, &segments, &rows, &reader));
        let mirrorer = Rc::new(Mirrorer::new(&shared, &segments, &rows, &reader));
        let mover = Rc::new(Mover::new(&shared, &segments, &appends, &rows, &reader, &data_loss, &mirrorer));
        let Shared { env, pool_name, life, members, clean, ids, state, signals } = shared;
        Self {
            env,
            pool_name,
            life,
            members,
            clean,
            ids,
            state,
            signals,
            known: Cell::default(),
            known_changed: Event::new(),
            segments,
            appends,
            rows,
            writer,
            reader,
            data_loss,
            mirrorer,
            mover,
        }
    }

    // ---- its parts

    /// Segments of SSDs, as it uses them.
    pub(crate) fn segments(&self) -> &LogSegments<E> {
        &self.segments
    }

    /// Where pages enter it.
    pub(crate) fn appends(&self) -> &Appends<E> {
        &self.appends
    }

    /// Its rows, and how it is flushed.
    pub(crate) fn rows(&self) -> &RowKeeper<E> {
        &self.rows
    }

    /// Who reads it.
    pub(crate) fn reader(&self) -> &LogReader<E> {
        &self.reader
    }

    /// What no copy can be had of.
    pub(crate) fn data_loss(&self) -> &Rc<DataLoss<E>> {
        &self.data_loss
    }

    /// The copies of its segments, by SSD.
    pub(crate) fn mirrorer(&self) -> &Mirrorer<E> {
        &self.mirrorer
    }

    /// Which pages have a live copy; let go before anything changes.
    pub(crate) fn overlay(&self) -> Ref<'_, Overlay> {
        self.state.overlay.borrow()
    }

    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.state.mirrors
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.signals
    }

    pub(crate) fn flush_habit(&self) -> &FlushHabit {
        &self.state.flush_habit
    }

    /// What became of the slots of segments that it took since this was asked last.
    pub(crate) fn take_claims(&self) -> Vec<Claimed> {
        self.segments.take_claims()
    }

    // ---- what a start knows

    /// It is known what it holds, or never will be.
    pub(crate) fn set_known(&self, known: Known) {
        self.known.set(known);
        self.known_changed.wake_all();
    }

    /// Waits until it is known what it holds. False: the start came to nothing, and what is on record stays as it was.
    pub(crate) async fn is_known(&self) -> bool {
        loop {
            match self.known.get() {
                Known::NotYet => self.known_changed.wait().await,
                Known::Yes => return true,
                Known::Never => return false,
            }
        }
    }

    /// What a start knows of what was lost.
    pub(crate) fn take_losses_of(&self, records: &Records) {
        self.state.losses.take_from(records);
    }

    // ---- what it holds

    pub(crate) fn counts(&self, volume: VolumeIndex) -> OverlayCounts {
        self.state.counts(volume)
    }

    /// Of all volumes together.
    pub(crate) fn total(&self) -> OverlayCounts {
        self.state.overlay.borrow().total()
    }

    /// Of one page.
    pub(crate) fn live(&self, volume: VolumeIndex, page: u64) -> Option<LivePage> {
        self.state.overlay.borrow().get(volume, page)
    }

    /// Some page of these has a live copy.
    pub(crate) fn any_live(&self, volume: VolumeIndex, pages: &Range<u64>) -> bool {
        self.state.overlay.borrow().first_in(volume, pages).is_some()
    }

    /// The runs of `pages` that have a live copy and of which `wanted` holds, in order.
    pub(crate) fn runs(
        &self,
        volume: VolumeIndex,
        pages: Range<u64>,
        wanted: impl Fn(&LivePage) -> bool,
    ) -> Vec<LogRun> {
        self.state.runs(volume, pages, wanted)
    }

    /// Since when the oldest dirty page of the volume has been dirty; see [`WriteLog::dirty_since`].
    pub(crate) fn dirty_since(&self, volume: VolumeIndex) -> Option<RealInstant> {
        self.state.dirty_since(volume)
    }

    /// The same of what can be cleaned.
    pub(crate) fn cleanable_since(&self, volume: VolumeIndex) -> Option<RealInstant> {
        self.state.cleanable_since(volume)
    }

    pub(crate) fn rows_live(&self) -> Vec<Rc<Row>> {
        self.state.rows_live()
    }

    pub(crate) fn rows_aside(&self) -> Vec<Rc<Row>> {
        self.state.rows_aside()
    }

    /// What the row record says that is about to be written.
    pub(crate) fn next_record(&self) -> Rows {
        self.state.next_record()
    }

    /// This row record is durable.
    pub(crate) fn is_recorded(&self, record: &Rows) {
        self.state.is_recorded(record);
    }

    /// Bytes found at the start that opened the pool, and how long that took.
    pub(crate) fn recovery(&self) -> (u64, u64) {
        (self.state.recovered_bytes.get(), self.state.recovery_milliseconds.get())
    }

    /// Segments that it may take, of all SSDs together, both copies.
    pub(crate) fn segments_max(&self) -> usize {
        self.state.capacity.size().segments
    }

    /// What was counted of a volume since this was asked last.
    pub(crate) fn take_tally(&self, volume: VolumeIndex) -> LogTally {
        self.state.tallies.take(volume)
    }

    // ---- room

    /// Pages that hosts may have dirty at once.
    pub(crate) fn dirty_max(&self) -> u64 {
        self.state.dirty_max()
    }

    /// Whether a host's append of so many pages finds room now.
    pub(crate) fn has_room(&self, pages: u64) -> bool {
        self.state.has_room(pages)
    }

    pub(crate) fn is_out_of_rows(&self) -> bool {
        self.state.is_out_of_rows()
    }

    /// Pages that are dirty and can be cleaned, or will be: of all volumes.
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.total().cleanable() + self.state.queue.pages()
    }

    /// The same of one volume.
    pub(crate) fn dirty_pages_of(&self, volume: VolumeIndex) -> u64 {
        self.counts(volume).cleanable() + self.state.queue.pages_of(volume)
    }

    /// Decides which writes go past a log that is nearly full.
    pub(crate) fn pace(&self) -> &Pace {
        &self.state.pace
    }

    /// Something is dirty, or will be.
    pub(crate) fn has_something_dirty(&self) -> bool {
        self.total().dirty > 0 || self.state.queue.pages() > 0 || self.state.stream.in_flight() > 0
    }

    // ---- pages are cleaned

    /// What the backing device has, durably, is clean, if it is still the newest; answers how many pages are. Hints tell of these alone:
    /// what was set aside meanwhile is dirty at its position in the row, and a host may write past it.
    pub(crate) fn mark_clean(&self, volume: VolumeIndex, run: &LogRun) -> u64 {
        let mut cleaned = 0;
        for (page, place) in run.places() {
            let is_clean = self.state.set_clean_at(volume, page, place);
            if is_clean && run.is_data() {
                let (row, position) = (run.row().number, place.position());
                self.state.queue.push_hint(CleanedHint { row, position, count: 1 });
            }
            cleaned += u64::from(is_clean);
        }
        cleaned
    }

    /// Pages were cleaned: whoever waits for that looks, and hints of it are written where there are many.
    pub(crate) fn pages_were_cleaned(&self) {
        if self.state.queue.want_many_hints() {
            self.signals.wanted.wake_all();
        }
        self.signals.room.wake_all();
        self.signals.mover_wanted.wake_all();
    }

    /// Places in the run's row still mean what they meant: it is not free.
    pub(crate) fn has_row_of(&self, run: &LogRun) -> bool {
        run.lives(&self.state)
    }

    /// Of each page of the run some SSD that is in use has a copy.
    pub(crate) fn is_on_ssds(&self, run: &LogRun) -> bool {
        run.places().all(|(_, place)| {
            let (segment, _) = run.row().locate(place.position());
            run.row().mirrors(segment).any(|copy| self.members.ssd(copy.ssd).is_online())
        })
    }

    /// Keeps the run's row from being freed from here on. False: it is free by now.
    pub(crate) fn hold_again(&self, run: &LogRun) -> bool {
        run.hold_again(&self.state)
    }

    /// See [`WriteLog::make_some_dirty`].
    pub(crate) fn make_some_dirty(&self, volume: VolumeIndex, from: u64) -> Option<u64> {
        self.state.make_some_dirty(volume, from)
    }

    // ---- volumes and SSDs leave

    /// Forgets some pages of a volume whose id is dead; false when none is left.
    pub(crate) fn forget_some_of(&self, volume: VolumeIndex) -> bool {
        self.state.forget_some_of(volume)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hotset_block::HostEnv;

    use super::*;
    use crate::address::SsdIndex;
    pub(crate) use crate::log::batch::tests::{MoveInFlight, set_aside_while_moved};
    use crate::log::overlay::{Content, Place};
    use crate::log::row_life::RowChange;
    use crate::log::segment_copy::{Mirror, MirrorChange, PresentCopy};
    use crate::pool::open::tests::with_pool;

    /// The log of a pool over three SSDs in memory, in which nothing happens by itself.
    pub(super) fn with_log(test: impl AsyncFnOnce(&Log<HostEnv>)) {
        with_pool(&[1, 2, 3], async |pool| test(pool.log.as_ref().expect("a read-write pool has a log")).await);
    }

    /// A row of one segment that takes batches.
    pub(crate) fn open_row(log: &Log<HostEnv>, mirrors: [Mirror; 2]) -> Rc<Row> {
        let slot = log.state.free_row_slot().expect("there are few rows");
        let number = log.state.numbers.take();
        let row = Row::new(slot, number, 7, vec![mirrors], log.segments.segment_pages(), RealInstant(0));
        let row = Rc::new(row);
        row.change(RowChange::HeadersDurable);
        log.state.add_row(&row);
        row
    }

    /// What is set aside of the row with this number, in a segment of an SSD.
    pub(crate) fn row_aside(log: &Log<HostEnv>, number: u64, ssd_uuid: u128, segment: u32) -> Rc<Row> {
        let slot = log.state.free_row_slot().expect("there are few rows");
        let aside = Rc::new(Row::new_aside(slot, number, 7, 1, log.segments.segment_pages(), RealInstant(0)));
        aside.segments[0][0].change(MirrorChange::Named { ssd_uuid, segment });
        log.state.add_aside(&aside);
        aside
    }

    /// Nothing of it is wanted any more.
    pub(crate) fn forget_aside(log: &Log<HostEnv>, aside: &Rc<Row>) {
        log.state.remove_aside(aside);
        log.segments.release_segments(aside);
    }

    /// A copy on this SSD.
    pub(crate) fn copy_on(log: &Log<HostEnv>, ssd: u16, segment: u32) -> PresentCopy {
        let ssd = log.members.ssd(SsdIndex(ssd));
        PresentCopy { ssd_uuid: ssd.uuid, ssd: ssd.index, segment }
    }

    // Their pages were listed as one volume's, in no order, and no start could read the list.
    #[test]
    fn what_was_lost_of_volumes_that_are_being_forgotten_is_not_listed() {
        with_log(async |log| {
            let row = open_row(log, [Mirror::Nowhere; 2]);
            for (attachment, position) in (1..).zip([9, 3]) {
                let volume = log.ids.free_index();
                log.ids.attach(volume, attachment);
                let (page, place) = (u64::from(position), Place::new(row.slot, position));
                let content = Content::Unavailable { checksum: 1 };
                log.state.supersede(&LivePage { volume, page, place, content, dirty: true });
                log.ids.detach(volume);
            }
            let _no_state_directory = log.data_loss.write_next_losses(|_| false).await;
        });
    }
}
