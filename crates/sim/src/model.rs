//! What hosts may see: for every cell of a volume the contents that its next read may return.
//!
//! The model knows requests only: when they began, when and how they were answered, when the daemon died and when the
//! power failed. It knows nothing of caches. A cell is the smallest unit that a host writes or a backing device stores
//! whole; within a request every cell is judged by itself, because a request may be torn between them.

use std::collections::BTreeMap;

use hotset_block::ByteRange;

use crate::cell::{Cell, CellWrite, Tick};
use crate::content::{self, CellPlace, Content};
use crate::image::{Image, index};
use crate::order::Order;

/// A write, trim or write-zeroes, from its start to its answer. The number is part of what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteNumber(pub u64);

/// A read or a flush, from its start to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Begun(Tick);

/// How a write was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It is visible from now on.
    Done,
    /// It is visible, and survives a power cut.
    Durable,
    /// With an error, or it was a mere hint: it may have happened.
    Unknown,
}

/// How the daemon ended, for one backing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It stopped or died; the device kept its power.
    Kill,
    /// Devices on the way to it lost their power, and it did not: what they held may be lost, and what it holds is no
    /// more durable than before.
    CutBefore,
    /// The device lost its power.
    PowerCut,
}

/// The model of one volume.
pub struct VolumeModel {
    volume: u64,
    cell_bytes: u64,
    /// Empty: still the initial content.
    cells: Vec<Cell>,
    initial: Image,
    now: Tick,
    order: Order,
    writing: BTreeMap<WriteNumber, ByteRange>,
    reading: Vec<Tick>,
    /// Acknowledged and not durable, by cell.
    volatile: Vec<(usize, u64)>,
    power_cut: Tick,
    /// Writes below this number may be lost whatever a flush says, unless it has vouched for them already.
    doubted_below: u64,
    /// When the backing device was opened again: what a read that began before returns need not stay.
    reopened_at: Tick,
    /// Something was lost, and no flush has said so yet.
    untold: bool,
}

impl VolumeModel {
    /// A volume whose backing device holds `initial`, made of cells that [`content::fill`] filled, or zeroes.
    pub fn new(volume: u64, size_bytes: u64, cell_bytes: u64, initial: Image) -> Self {
        let cells = vec![Cell { entries: Vec::new() }; index(size_bytes / cell_bytes)];
        Self {
            volume,
            cell_bytes,
            cells,
            initial,
            now: 1,
            order: Order::new(),
            writing: BTreeMap::new(),
            reading: Vec::new(),
            volatile: Vec::new(),
            power_cut: 0,
            doubted_below: 0,
            reopened_at: 0,
            untold: false,
        }
    }

    /// A host sends a write, or a write of zeroes.
    pub fn begin_write(&mut self, range: ByteRange, zeroes: bool) -> WriteNumber {
        let now = self.tick();
        let number = self.order.begin(now);
        let content = if zeroes { Content::Zeroes } else { Content::Write(number.0) };
        for at in self.cells_of(range) {
            self.cell(at).begin(CellWrite::begun(number.0, content, now));
        }
        self.writing.insert(number, range);
        number
    }

    /// The loss of these bytes is accepted: from some moment on they may be what `content` has.
    pub fn begin_acceptance(&mut self, range: ByteRange, content: &Image) -> WriteNumber {
        let number = self.number_elsewhere();
        let now = self.tick();
        for (at, held) in self.cells_of(range).zip(content.bytes(range).chunks_exact(index(self.cell_bytes))) {
            let held = content::recognise(held, self.place(at));
            self.cell(at).begin(CellWrite::begun(number.0, held, now));
        }
        self.writing.insert(number, range);
        number
    }

    /// The bytes of a write.
    pub fn fill(&self, number: WriteNumber, range: ByteRange, bytes: &mut [u8]) {
        for (at, cell) in self.cells_of(range).zip(bytes.chunks_exact_mut(index(self.cell_bytes))) {
            content::fill(cell, self.place(at), number.0);
        }
    }

    pub fn end_write(&mut self, number: WriteNumber, answered: Answered) {
        let Some(range) = self.writing.remove(&number) else { return };
        let now = self.tick();
        self.order.end(number, now, answered);
        let oldest_read = self.oldest_read();
        for at in self.cells_of(range) {
            let cell = self.cell(at);
            match answered {
                Answered::Done => cell.acknowledge(number.0, now, false),
                Answered::Durable => cell.acknowledge(number.0, now, true),
                Answered::Unknown => cell.end_unknown(number.0, now),
            }
            cell.prune(oldest_read);
            if answered == Answered::Done {
                self.volatile.push((at, number.0));
            }
        }
    }

    pub fn begin_read(&mut self) -> Begun {
        let begun = self.tick();
        self.reading.push(begun);
        Begun(begun)
    }

    /// A read was answered. `bytes` is `None` if it was answered with an error.
    pub fn end_read(&mut self, begun: Begun, range: ByteRange, bytes: Option<&[u8]>) -> Result<(), String> {
        self.end_look(begun);
        let Some(bytes) = bytes else { return Ok(()) };
        let (now, power_cut) = (self.tick(), self.power_cut);
        for (at, held) in self.cells_of(range).zip(bytes.chunks_exact(index(self.cell_bytes))) {
            let seen = content::recognise(held, self.place(at));
            if begun.0 < self.reopened_at && self.cell(at).has_held(seen) {
                continue;
            }
            match self.cell(at).observe(seen, begun.0, now, power_cut) {
                Some(Some(learnt)) if learnt >= self.doubted_below => self.volatile.push((at, learnt)),
                Some(Some(_) | None) => {}
                None => return Err(self.complaint(at, held, begun.0)),
            }
        }
        Ok(())
    }

    /// What was asked about as [`Self::begin_read`] was answered, and no bytes with that.
    pub fn end_look(&mut self, begun: Begun) {
        self.reading.retain(|other| *other != begun.0);
    }

    pub fn begin_flush(&mut self) -> Begun {
        Begun(self.tick())
    }

    /// A flush succeeded.
    pub fn end_flush(&mut self, begun: Begun) {
        let oldest_read = self.oldest_read();
        let mut volatile = std::mem::take(&mut self.volatile);
        volatile.retain(|(at, version)| {
            let cell = self.cell(*at);
            let durable = cell.flushed(*version, begun.0);
            cell.prune(oldest_read);
            !durable
        });
        self.volatile = volatile;
    }

    /// A flush failed because the backing device may have lost what it was given: no later one vouches for that.
    pub fn flush_failed(&mut self) {
        self.untold = false;
        self.volatile.clear();
        self.doubted_below = self.order.next();
    }

    /// The backing device was opened again, and may have lost what was not flushed. Writes that wait for it go on.
    pub fn reopened(&mut self) {
        let now = self.tick();
        self.cells.iter_mut().filter(|cell| !cell.entries.is_empty()).for_each(Cell::forget_unflushed);
        self.doubted_below = self.order.next();
        self.reopened_at = now;
    }

    /// It was opened again, and no flush failed since hosts were told of some of that as written: the next one has to.
    pub fn reopened_untold(&mut self) {
        self.reopened();
        self.untold = !self.volatile.is_empty();
        self.volatile.clear();
    }

    /// Whether a flush that succeeds now passes over what was lost.
    pub fn check_told(&self) -> Result<(), String> {
        match self.untold {
            true => Err("a flush succeeds, and what was written before may be lost".to_owned()),
            false => Ok(()),
        }
    }

    /// The daemon is gone.
    pub fn end_run(&mut self, ending: Ending) {
        let now = self.tick();
        self.order.end_all(now);
        self.writing.clear();
        self.reading.clear();
        (self.doubted_below, self.untold) = (0, false);
        for cell in self.cells.iter_mut().filter(|cell| !cell.entries.is_empty()) {
            match ending {
                Ending::Kill => cell.kill(now),
                Ending::CutBefore | Ending::PowerCut => cell.cut_power(now),
            }
        }
        match ending {
            Ending::Kill => {}
            Ending::CutBefore => self.volatile.clear(),
            Ending::PowerCut => {
                self.power_cut = now;
                self.volatile.clear();
            }
        }
    }

    /// The backing device has more room than before, which reads as zeroes.
    pub fn grow(&mut self, size_bytes: u64) {
        self.initial.grow(size_bytes);
        self.cells.resize(index(size_bytes / self.cell_bytes), Cell { entries: Vec::new() });
    }

    /// While no daemon ran, somebody else wrote this, durably.
    pub fn overwritten(&mut self, range: ByteRange) -> WriteNumber {
        let number = self.number_elsewhere();
        self.order.end(number, self.now, Answered::Durable);
        for at in self.cells_of(range) {
            self.cells[at].entries = vec![CellWrite::initial(Content::Write(number.0))];
        }
        number
    }

    /// Whether every cell of these bytes is something that a read that began now might return.
    pub fn may_hold(&mut self, range: ByteRange, bytes: &[u8]) -> Result<(), String> {
        let now = self.now;
        for (at, held) in self.cells_of(range).zip(bytes.chunks_exact(index(self.cell_bytes))) {
            let content = content::recognise(held, self.place(at));
            if !self.cell(at).may_hold(content) {
                return Err(self.complaint(at, held, now));
            }
        }
        Ok(())
    }

    /// Whether a host wrote this here at any time, and it is not older than what lies there (`order.rs`).
    pub fn may_replace(&mut self, range: ByteRange, bytes: &[u8], held: &[u8]) -> Result<(), String> {
        let length = index(self.cell_bytes);
        let pairs = bytes.chunks_exact(length).zip(held.chunks_exact(length));
        for (at, (bytes, held)) in self.cells_of(range).zip(pairs) {
            let place = self.place(at);
            let written = match content::recognise(bytes, place) {
                Content::Foreign => return Err(self.complaint(at, bytes, self.now)),
                Content::Zeroes => continue,
                Content::Write(written) => WriteNumber(written),
            };
            let newer = content::write_named(held, place).filter(|held| {
                let seen = self.cells[at].is_acknowledged(*held);
                self.order.replaces(WriteNumber(*held), written, seen)
            });
            if let Some(newer) = newer {
                return Err(format!("{}; there is write {newer}, which is newer", self.complaint(at, bytes, self.now)));
            }
        }
        Ok(())
    }

    /// What hosts wrote is discarded where it is not in `content`, which is what they see from now on.
    pub fn adopt(&mut self, content: &Image) {
        for at in 0..self.cells.len() {
            let place = self.place(at);
            let bytes = content.bytes(ByteRange::at(place.cell * self.cell_bytes, self.cell_bytes));
            let held = content::recognise(&bytes, place);
            let cell = self.cell(at);
            if !matches!(&cell.entries[..], [only] if only.content == held) {
                cell.entries = vec![CellWrite::initial(held)];
            }
        }
        self.volatile.clear();
    }

    /// The stretches, of this length, in which a host has written.
    pub fn written_stretches(&self, length: u64) -> Vec<ByteRange> {
        let cells = index(length / self.cell_bytes);
        let is_written = |cell: &Cell| cell.entries.iter().any(CellWrite::is_of_host);
        let stretches = (0..).zip(self.cells.chunks(cells)).filter(|(_, cells)| cells.iter().any(is_written));
        let end = u64::try_from(self.cells.len()).expect("a length fits in 64 bits") * self.cell_bytes;
        let range = |number: u64| ByteRange { start: number * length, end: ((number + 1) * length).min(end) };
        stretches.map(|(number, _)| range(number)).collect()
    }

    /// A number under which somebody else may write, whether or not hosts ever see it.
    pub fn number_elsewhere(&mut self) -> WriteNumber {
        let now = self.tick();
        self.order.begin(now)
    }

    /// Whether every cell of this content is something that a read that began now might return.
    pub fn may_hold_all(&mut self, content: &Image) -> Result<(), String> {
        let size = u64::try_from(self.cells.len()).expect("a length fits in 64 bits") * self.cell_bytes;
        let overwritten = (0u64..).zip(&self.cells).filter(|(_, cell)| !cell.entries.is_empty());
        // Pages that are still the very ones of the beginning cannot be wrong where nobody wrote.
        let mut pages: std::collections::BTreeSet<u64> =
            overwritten.map(|(at, _)| at * self.cell_bytes / 4096).collect();
        pages.extend(content.pages_unlike(&self.initial));
        for start in pages.into_iter().map(|page| page * 4096).filter(|start| *start < size) {
            let range = ByteRange { start, end: (start + 4096).min(size) };
            self.may_hold(range, &content.bytes(range))?;
        }
        Ok(())
    }

    /// Whether some of this range, which is said to read as zeroes, did since `begun`.
    pub fn may_be_zero(&mut self, begun: Begun, range: ByteRange) -> Result<(), String> {
        for at in self.cells_of(range) {
            if !self.cell(at).may_have_held(Content::Zeroes, begun.0) {
                return Err(self.complaint(at, &[0; 512], begun.0));
            }
        }
        Ok(())
    }

    fn complaint(&mut self, at: usize, held: &[u8], begun: Tick) -> String {
        let place = self.place(at);
        let found = match content::recognise(held, place) {
            Content::Zeroes => "zeroes".to_owned(),
            Content::Write(version) => format!("write {version}"),
            Content::Foreign => content::describe(held),
        };
        let legal = self.cell(at).legal_since(begun);
        let byte = place.cell * self.cell_bytes;
        format!(
            "volume {} cell {} (byte {byte}, page {}): {found}; legal is: {legal}",
            self.volume,
            place.cell,
            byte / 4096
        )
    }

    fn tick(&mut self) -> Tick {
        self.now += 1;
        self.now
    }

    fn oldest_read(&self) -> Tick {
        self.reading.iter().copied().min().unwrap_or(self.now + 1)
    }

    fn place(&self, at: usize) -> CellPlace {
        CellPlace { volume: self.volume, cell: u64::try_from(at).expect("an index fits in 64 bits") }
    }

    /// The cells of a range. What lies past the end of the volume belongs to nobody.
    fn cells_of(&self, range: ByteRange) -> std::ops::Range<usize> {
        index(range.start / self.cell_bytes)..index(range.end / self.cell_bytes).min(self.cells.len())
    }

    fn cell(&mut self, at: usize) -> &mut Cell {
        if self.cells[at].entries.is_empty() {
            let start = self.place(at).cell * self.cell_bytes;
            let bytes = self.initial.bytes(ByteRange::at(start, self.cell_bytes));
            let content = content::recognise(&bytes, self.place(at));
            self.cells[at].entries.push(CellWrite::initial(content));
        }
        &mut self.cells[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: ByteRange = ByteRange { start: 512, end: 1024 };

    fn model() -> VolumeModel {
        VolumeModel::new(0, 64 << 10, 512, Image::zeroed(64 << 10))
    }

    fn write(model: &mut VolumeModel, answered: Answered) -> WriteNumber {
        let number = model.begin_write(CELL, false);
        model.end_write(number, answered);
        number
    }

    fn bytes_of(model: &VolumeModel, number: WriteNumber) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        model.fill(number, CELL, &mut bytes);
        bytes
    }

    fn read(model: &mut VolumeModel, number: WriteNumber) -> Result<(), String> {
        let begun = model.begin_read();
        let bytes = bytes_of(model, number);
        model.end_read(begun, CELL, Some(&bytes))
    }

    fn flush(model: &mut VolumeModel) {
        let begun = model.begin_flush();
        model.end_flush(begun);
    }

    #[test]
    fn a_write_that_waits_for_its_backing_device_to_be_opened_again_may_still_happen() {
        let mut model = model();
        let old = write(&mut model, Answered::Durable);
        let waiting = model.begin_write(CELL, false);
        model.reopened();
        assert!(read(&mut model, old).is_ok());
        let bytes = bytes_of(&model, waiting);
        assert!(model.may_hold(CELL, &bytes).is_ok(), "the daemon writes it now");
        model.end_write(waiting, Answered::Done);
        assert!(read(&mut model, waiting).is_ok());
        read(&mut model, old).expect_err("it was replaced");
    }

    #[test]
    fn a_read_returns_the_newest_acknowledged_write() {
        let mut model = model();
        let old = write(&mut model, Answered::Done);
        let new = write(&mut model, Answered::Done);
        assert!(read(&mut model, new).is_ok());
        let complaint = read(&mut model, old).expect_err("the old one is stale");
        assert!(complaint.contains("page 0): write 1; legal is: Write(2) of write 2"), "{complaint}");
    }

    #[test]
    fn a_read_that_runs_beside_a_write_may_return_both_but_not_the_old_after_the_new() {
        let mut model = model();
        let old = write(&mut model, Answered::Done);
        let new = model.begin_write(CELL, false);
        assert!(read(&mut model, old).is_ok());
        let early = model.begin_read();
        assert!(read(&mut model, new).is_ok());
        assert!(read(&mut model, old).is_err(), "the new one was seen by a read that had ended");
        let bytes = bytes_of(&model, old);
        assert!(model.end_read(early, CELL, Some(&bytes)).is_ok(), "that read began before");
    }

    #[test]
    fn acknowledged_writes_survive_a_kill_and_unflushed_ones_may_die_in_a_power_cut() {
        for ending in [Ending::Kill, Ending::PowerCut] {
            let mut model = model();
            let flushed = write(&mut model, Answered::Done);
            flush(&mut model);
            let volatile = write(&mut model, Answered::Done);
            model.end_run(ending);
            assert_eq!(read(&mut model, flushed).is_ok(), ending == Ending::PowerCut);
            assert_eq!(read(&mut model, volatile).is_ok(), ending == Ending::Kill, "stable once observed");
        }
    }

    #[test]
    fn what_was_observed_after_a_power_cut_survives_the_next_one() {
        let mut model = model();
        let first = write(&mut model, Answered::Durable);
        let second = write(&mut model, Answered::Done);
        model.end_run(Ending::PowerCut);
        assert!(read(&mut model, second).is_ok());
        model.end_run(Ending::PowerCut);
        assert!(read(&mut model, first).is_err());
    }

    #[test]
    fn what_was_observed_after_a_kill_may_be_lost_until_it_is_flushed() {
        for flushes in [true, false] {
            let mut model = model();
            let first = write(&mut model, Answered::Durable);
            let second = model.begin_write(CELL, false);
            model.end_run(Ending::Kill);
            assert!(read(&mut model, second).is_ok());
            if flushes {
                flush(&mut model);
            }
            model.end_run(Ending::PowerCut);
            assert_eq!(read(&mut model, first).is_ok(), !flushes);
        }
    }

    #[test]
    fn a_flush_does_not_cover_what_was_answered_after_it_began() {
        let mut model = model();
        let first = write(&mut model, Answered::Done);
        let second = model.begin_write(CELL, false);
        let begun = model.begin_flush();
        model.end_write(second, Answered::Done);
        model.end_flush(begun);
        model.end_run(Ending::PowerCut);
        assert!(read(&mut model, first).is_ok());
    }

    #[test]
    fn a_durable_write_does_not_vouch_for_writes_that_ran_beside_it() {
        let mut model = model();
        let beside = model.begin_write(CELL, false);
        let durable = write(&mut model, Answered::Durable);
        model.end_write(beside, Answered::Done);
        let last = write(&mut model, Answered::Done);
        model.end_run(Ending::PowerCut);
        let mut other =
            VolumeModel { cells: model.cells.clone(), ..VolumeModel::new(0, 64 << 10, 512, Image::zeroed(64 << 10)) };
        other.now = model.now;
        other.power_cut = model.power_cut;
        assert!(read(&mut model, beside).is_ok(), "it may be the newer of the two");
        assert!(read(&mut other, durable).is_ok());
        assert!(read(&mut other, last).is_err(), "another one was observed");
    }

    #[test]
    fn a_failed_write_may_have_happened_but_does_not_come_and_go() {
        let mut model = model();
        let old = write(&mut model, Answered::Done);
        let failed = write(&mut model, Answered::Unknown);
        assert!(read(&mut model, old).is_ok());
        assert!(read(&mut model, failed).is_err());
    }

    fn goes_over(model: &mut VolumeModel, written: WriteNumber, held: WriteNumber) -> Result<(), String> {
        let (written, held) = (bytes_of(model, written), bytes_of(model, held));
        model.may_replace(CELL, &written, &held)
    }

    #[test]
    fn what_was_answered_does_not_give_way_to_what_had_ended_before_not_even_where_that_is_legal() {
        for ending in [None, Some(Ending::Kill), Some(Ending::PowerCut)] {
            let mut model = model();
            let old = write(&mut model, Answered::Durable);
            let beside = model.begin_write(CELL, false);
            let new = write(&mut model, Answered::Done);
            model.end_write(beside, Answered::Done);
            if let Some(ending) = ending {
                model.end_run(ending);
            }
            assert!(goes_over(&mut model, new, old).is_ok());
            assert!(goes_over(&mut model, beside, new).is_ok(), "nobody knows which is the newer one");
            assert!(goes_over(&mut model, new, beside).is_ok());
            let complaint = goes_over(&mut model, old, new).expect_err("it is older");
            assert!(complaint.contains("write 1; legal is") && complaint.ends_with("there is write 3, which is newer"));
        }
    }

    #[test]
    fn what_cells_have_forgotten_is_still_older_than_what_came_after_it() {
        let mut model = model();
        let numbers: Vec<_> = (0..5).map(|_| write(&mut model, Answered::Durable)).collect();
        goes_over(&mut model, numbers[0], numbers[2]).expect_err("it is older");
        assert!(goes_over(&mut model, numbers[1], numbers[0]).is_ok(), "the cleaner may still be on its way with it");
    }

    #[test]
    fn what_was_never_answered_gives_way_until_somebody_has_seen_it_there() {
        let mut model = model();
        let old = write(&mut model, Answered::Durable);
        let both = ByteRange { start: CELL.start, end: CELL.end + 512 };
        let unanswered = model.begin_write(both, false);
        model.end_run(Ending::Kill);
        let beside = ByteRange { start: CELL.end, end: both.end };
        let mut bytes = vec![0; 512];
        model.fill(unanswered, beside, &mut bytes);
        let begun = model.begin_read();
        assert!(model.end_read(begun, beside, Some(&bytes)).is_ok());
        assert!(goes_over(&mut model, old, unanswered).is_ok(), "it was seen in another cell");
        assert!(read(&mut model, unanswered).is_ok());
        goes_over(&mut model, old, unanswered).expect_err("it was seen");
    }

    #[test]
    fn zeroes_and_data_do_not_alternate() {
        let mut model = model();
        let data = write(&mut model, Answered::Done);
        let hint = model.begin_write(CELL, true);
        model.end_write(hint, Answered::Unknown);
        assert!(read(&mut model, data).is_ok());
        let begun = model.begin_read();
        assert!(model.end_read(begun, CELL, Some(&[0; 512])).is_err(), "the trim had not happened");
    }
}
