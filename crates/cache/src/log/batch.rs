//! Batches of the write log (rule `two-copies`): put together from whatever waits, written to both copies, and taking
//! effect in the order of the stream, when both copies of them and of all earlier ones completed. A copy that fails counts
//! as completed when its SSD has left the pool durably (rule `membership`).

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::join_all;
use hotset_block::{Buf, Env, PAGE_BYTES, copy_for_device};

use crate::address::at;
use crate::attachment_ids::AttachmentIds;
use crate::clean::Clean;
use crate::config::PAGE;
use crate::format::crc32c;
use crate::format::log::{
    BATCH_PAGES_MAX, Batch, BatchPlace, Entry, PLAIN_ENTRY_BYTES, Payload, header_pages, pages_entry_bytes,
};
use crate::log::append::{Appends, cancelled};
use crate::log::log_segments::LogSegments;
use crate::log::overlay::{Content, LivePage, Place};
use crate::log::queue::{Append, Body, Lane, Queue};
use crate::log::row::{BatchPlaceInRow, Row};
use crate::log::row_life::RowChange;
use crate::log::rows::RowKeeper;
use crate::log::segment_copy::PresentCopy;
use crate::log::shared::Shared;
use crate::log::signals::Signals;
use crate::log::stream::InflightBatch;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::pool_life::PoolLife;

/// Pages of data of one batch at most.
const BATCH_DATA_PAGES: u32 = 256;
/// Bytes of entries of one batch at most.
const BATCH_PAYLOAD_BYTES: usize = 12 << 10;
/// Hints that one batch carries at most.
const BATCH_HINTS: usize = 128;
// With its header, which is at most as long as its data may be.
const _: () = assert!(2 * BATCH_DATA_PAGES <= BATCH_PAGES_MAX);

/// The copies of a batch: where each goes, and its bytes.
type BatchCopies = Vec<(PresentCopy, u64, Buf)>;

/// What goes into one batch.
struct Selected {
    /// Each with its first page's position in the row, which it gets with its place.
    appends: Vec<(Append, u32)>,
    /// Of the entries of the appends.
    entry_bytes: usize,
    data_pages: u32,
    /// The hints.
    payload: Payload,
}

impl Selected {
    fn is_empty(&self) -> bool {
        self.appends.is_empty() && self.payload.entries() == 0
    }

    fn header_pages(&self) -> u32 {
        header_pages(self.payload.len() + self.entry_bytes)
    }
}

/// Who writes batches.
pub(crate) struct BatchWriter<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    ids: Rc<AttachmentIds>,
    state: Rc<WriteLog>,
    signals: Rc<Signals>,
    segments: Rc<LogSegments<E>>,
    appends: Rc<Appends<E>>,
    rows: Rc<RowKeeper<E>>,
}

impl<E: Env> BatchWriter<E> {
    pub(super) fn new(
        shared: &Shared<E>,
        segments: &Rc<LogSegments<E>>,
        appends: &Rc<Appends<E>>,
        rows: &Rc<RowKeeper<E>>,
    ) -> Self {
        Self {
            env: shared.env.clone(),
            life: Rc::clone(&shared.life),
            members: Rc::clone(&shared.members),
            clean: Rc::clone(&shared.clean),
            ids: Rc::clone(&shared.ids),
            state: Rc::clone(&shared.state),
            signals: Rc::clone(&shared.signals),
            segments: Rc::clone(segments),
            appends: Rc::clone(appends),
            rows: Rc::clone(rows),
        }
    }

    /// The task that writes batches.
    pub(crate) async fn run_writer(self: Rc<Self>) {
        while !self.life.has_stopped() {
            let wanted = self.signals.wanted.wait();
            while let Some((inflight, copies)) = self.next_batch() {
                let log = Rc::clone(&self);
                let mut writing = Box::pin(async move { log.write_copies(&inflight, copies).await });
                // Its writes begin at once, before whatever else is ready.
                if poll_fn(|context| Poll::Ready(writing.as_mut().poll(context))).await.is_pending() {
                    self.env.spawn(writing);
                }
            }
            wanted.await;
        }
    }

    /// Puts a batch together; `None`: there is nothing to write now, or no place for it.
    fn next_batch(self: &Rc<Self>) -> Option<(Rc<InflightBatch>, BatchCopies)> {
        loop {
            let queue = &self.state.queue;
            if !queue.wants_batch() || self.life.has_stopped() || self.state.stream.has_orphans() {
                return None;
            }
            let Some(row) = self.rows.current_row() else {
                if self.state.is_out_of_rows() {
                    queue.cancel_moves();
                }
                if self.appends.is_without_ssds() {
                    self.appends.refuse_appends();
                }
                return None;
            };
            let at_once = row.segments.len().max(2);
            if self.state.stream.in_flight() >= at_once {
                return None;
            }
            let selected = self.select(&row);
            if !selected.is_empty() {
                return Some(self.place(&row, selected));
            }
            let all_done = !queue.wants_hints()
                && queue.is_empty(Lane::Urgent)
                && (queue.is_empty(Lane::Hosts) || !self.state.hosts_may_append());
            if all_done {
                return None;
            }
            // Nothing fits any more.
            self.rows.close_row();
        }
    }

    /// Takes what waits, as far as it fits into the next batch of the row.
    fn select(&self, row: &Row) -> Selected {
        let queue = &self.state.queue;
        let waiting = queue.len().min(at(BATCH_DATA_PAGES));
        let mut selected = Selected {
            appends: Vec::with_capacity(waiting),
            entry_bytes: 0,
            data_pages: 0,
            payload: Payload::default(),
        };
        let room = row.room();
        let draft_without = row.draft_bytes();
        let summary_bytes = at(crate::format::log::summary_pages(row.segment_pages)) * PAGE_BYTES;
        let is_in_summary = |payload_bytes| draft_without + payload_bytes <= summary_bytes;
        let fits = |selected: &Selected, append: &Append| {
            let after = selected.entry_bytes + entry_bytes(append);
            let data = selected.data_pages + append.data_pages();
            let first = selected.appends.is_empty();
            header_pages(after) + data <= room
                && is_in_summary(after)
                && (first || (data <= BATCH_DATA_PAGES && after <= BATCH_PAYLOAD_BYTES))
                && data <= BATCH_PAGES_MAX
        };
        let mut take = |lane: Lane, share: u32| loop {
            if selected.data_pages >= share {
                return;
            }
            let Some(append) = queue.take_first(lane, |append| fits(&selected, append)) else { return };
            if !self.still_wanted(&append, &selected.appends) {
                queue.ended(&append);
                append.done.set(Ok(()));
                continue;
            }
            selected.entry_bytes += entry_bytes(&append);
            selected.data_pages += append.data_pages();
            selected.appends.push((append, 0));
        };
        // Moves leave half of what is left to hosts.
        take(Lane::Urgent, BATCH_DATA_PAGES.min(room) / 2);
        if self.state.hosts_may_append() {
            take(Lane::Hosts, BATCH_DATA_PAGES);
        }
        take(Lane::Urgent, BATCH_DATA_PAGES);
        if !selected.appends.is_empty() || queue.wants_hints() {
            let (header, entry_bytes) = (selected.header_pages(), selected.entry_bytes);
            push_hints(queue, &mut selected.payload, |payload: &Payload| {
                let after = entry_bytes + payload.len() + PLAIN_ENTRY_BYTES;
                header_pages(after) == header && is_in_summary(after)
            });
        }
        selected
    }

    /// A host's append always is. A move only if all its pages are the newest at this moment, also beside those that
    /// have their place already and do not count yet (rule `free-oldest-first`); and not of what became unavailable since it was
    /// read: a host may be writing that past the log (rule `losses`).
    fn still_wanted(&self, append: &Append, before: &[(Append, u32)]) -> bool {
        let (from, spread) = match &append.body {
            Body::Data(_) | Body::Zeroes(_) => return true,
            Body::Move { from, .. } => (*from, true),
            Body::Mark { from, spread, .. } => (*from, *spread),
        };
        let pages = append.pages();
        let overlay = self.state.overlay.borrow();
        let mut offset = 0;
        for live in overlay.range(append.volume, pages.clone()) {
            let is_next = live.page == pages.start + u64::from(offset) && live.place == from.at(offset, spread);
            if !is_next || !live.dirty || live.is_unavailable() {
                return false;
            }
            offset += 1;
        }
        let overlaps = |other: &Append| {
            let theirs = other.pages();
            other.volume == append.volume && theirs.start < pages.end && pages.start < theirs.end
        };
        u64::from(offset) == pages.end - pages.start
            && !before.iter().any(|(other, _)| overlaps(other))
            && !self.state.stream.any_append(overlaps)
    }

    /// Gives the batch its place in the row and makes its bytes, once for each copy.
    fn place(&self, row: &Rc<Row>, selected: Selected) -> (Rc<InflightBatch>, BatchCopies) {
        let (header_pages, pages) = (selected.header_pages(), selected.header_pages() + selected.data_pages);
        let Selected { mut payload, mut appends, entry_bytes, .. } = selected;
        let BatchPlaceInRow { segment, index, first_page } = row.next_place();
        let header_bytes = at(header_pages) * PAGE_BYTES;
        let mut bytes = self.env.buffers().take(at(pages) * PAGE_BYTES);
        let checksums = copy_data(&appends, &mut bytes[header_bytes..]);
        payload.reserve(entry_bytes);
        let header = row.position(segment, first_page);
        let mut position = header + header_pages;
        let mut rest = &checksums[..];
        for (append, place) in &mut appends {
            let count = append.data_pages();
            let own = rest.split_off(..at(count)).expect("every page of data has a checksum");
            push_entry(&mut payload, row, append, own);
            *place = if count == 0 { header } else { position };
            position += count;
        }
        assert_eq!(
            position,
            header + pages,
            "row {}: data of batch {index} lies not where its entries say",
            row.number
        );
        assert_eq!(payload.header_pages(), header_pages, "entries have the bytes that were counted");
        row.begin_batch(pages, &payload, self.env.real_now());
        let flushed = self.state.stream.flushed();
        let previous = self.state.stream.last_checksum();
        let place = BatchPlace {
            row: row.number,
            incarnation: row.incarnation,
            index,
            previous,
            flushed_row: flushed.row,
            flushed_index: flushed.index,
        };
        let checksum = Batch::encode_into(&mut bytes[..header_bytes], &place, &payload);
        row.ends_with(checksum);
        let inflight = Rc::new(InflightBatch {
            row: Rc::clone(row),
            index,
            first_page,
            appends: std::cell::RefCell::new(appends),
            checksums,
            written: std::cell::Cell::new(None),
        });
        self.state.stream.begin(&inflight, checksum);
        let mut mirrors = row.mirrors(segment);
        let mut copies: BatchCopies = Vec::with_capacity(2);
        match (mirrors.next(), mirrors.next()) {
            (Some(one), Some(other)) => {
                assert!(one.ssd != other.ssd, "row {}: both copies of batch {index} go to one SSD", row.number);
                let (bytes, twin) = bytes.share();
                copies.push((one, self.segments.log_offset(one, first_page), bytes));
                copies.push((other, self.segments.log_offset(other, first_page), twin));
            }
            (Some(one), None) => copies.push((one, self.segments.log_offset(one, first_page), bytes)),
            (None, _) => {}
        }
        (inflight, copies)
    }

    /// Writes the copies of a batch; then whatever is complete, in order, takes effect.
    async fn write_copies(self: &Rc<Self>, inflight: &Rc<InflightBatch>, copies: BatchCopies) {
        // One operation of each SSD, where a flush of both would follow.
        let durable = self.state.flush_habit.wants_durable();
        let (purpose, has_two) = (inflight.row.purpose(), copies.len() == 2);
        let writes = copies.into_iter().map(async |(copy, offset, bytes)| {
            let ssd = self.members.ssd(copy.ssd);
            let written = if durable {
                ssd.write_durable(purpose, offset, bytes).await
            } else {
                ssd.write(purpose, offset, bytes).await
            };
            match written {
                Ok(_) => {
                    if !durable {
                        ssd.has_appended();
                    }
                    true
                }
                Err(fault) => {
                    self.members.ssd_failed(ssd, &fault);
                    self.members.until_left(ssd).await;
                    false
                }
            }
        });
        let written = join_all(writes).await;
        if !has_two {
            // What an SSD holds of these pages that is just leaving may be believed at a start.
            self.members.until_all_left().await;
        }
        let fenced = self.life.is_fenced();
        if self.state.stream.has_orphans() {
            inflight.row.changed.wake_all();
        }
        let ended = inflight.written.get();
        assert_eq!(ended, None, "row {}: batch {} is written twice", inflight.row.number, inflight.index);
        let on_all = has_two && written.iter().all(|copy| *copy);
        inflight.written.set(Some(on_all || (!fenced && written.contains(&true))));
        self.complete_in_order();
    }

    /// Completed batches take effect and are answered, in the order of the stream.
    fn complete_in_order(self: &Rc<Self>) {
        loop {
            let Some(inflight) = self.state.stream.front() else { break };
            match inflight.written.get() {
                None => break,
                // What is listed of a row that lacks a segment is the newest of it: nothing takes effect there any more.
                Some(true) if inflight.row.has_lost_segment() => {
                    self.cancel_inflight();
                    break;
                }
                Some(true) => {
                    self.take_effect(&inflight);
                }
                Some(false) => {
                    self.cancel_inflight();
                    break;
                }
            }
        }
        self.signals.wanted.wake_all();
        self.signals.room.wake_all();
    }

    fn take_effect(self: &Rc<Self>, inflight: &InflightBatch) {
        let row = &inflight.row;
        let is_listed = self.state.aside_of(row.number).is_some();
        assert!(!is_listed, "row {} is set aside, and batch {} of it takes effect", row.number, inflight.index);
        let mut checksums = &inflight.checksums[..];
        let mut of_hosts = false;
        for (append, position) in inflight.appends.take() {
            let of_host = append.is_of_host();
            of_hosts |= of_host;
            let (own, rest) = checksums.split_at(at(append.data_pages()));
            checksums = rest;
            self.state.queue.ended(&append);
            let lives = self.ids.of(append.volume) == Some(append.attachment);
            if lives {
                self.show_append(row, &append, position, own);
            }
            append.done.set(if lives || !of_host { Ok(()) } else { Err(cancelled()) });
        }
        assert!(checksums.is_empty(), "row {}: of batch {} some data is of no append", row.number, inflight.index);
        self.state.stream.complete_front();
        if of_hosts {
            self.state.flush_habit.completed();
        }
        row.batch_ended();
        if row.is_quarter_full()
            && !self.state.open.has_prepared()
            && self.state.open.is_current(|current| Rc::ptr_eq(current, row))
        {
            self.rows.spawn_prepare();
        }
        if self.state.is_long() {
            self.signals.mover_wanted.wake_all();
        }
    }

    /// The pages of an append are the newest from here on.
    fn show_append(&self, row: &Row, append: &Append, position: u32, checksums: &[u32]) {
        let pages = append.pages();
        let data_pages = at(append.data_pages());
        assert_eq!(checksums.len(), data_pages, "row {}: pages of an append have no checksums", row.number);
        match &append.body {
            Body::Data(_) => {
                self.clean.supersede(append.volume, pages.clone());
                for ((page, checksum), offset) in pages.zip(checksums).zip(0..) {
                    let content = Content::Data { checksum: *checksum };
                    let place = Place::new(row.slot, position + offset);
                    self.state.supersede(&LivePage { volume: append.volume, page, place, content, dirty: true });
                }
            }
            Body::Zeroes(_) => {
                self.clean.supersede(append.volume, pages.clone());
                let place = Place::new(row.slot, position);
                for page in pages {
                    let content = Content::Zeroes;
                    self.state.supersede(&LivePage { volume: append.volume, page, place, content, dirty: true });
                }
            }
            Body::Move { from, .. } => self.show_moved(row, append, (*from, true), position, None),
            Body::Mark { content, from, spread, .. } => {
                self.show_moved(row, append, (*from, *spread), position, Some(*content));
            }
        }
    }

    fn show_moved(
        &self,
        row: &Row,
        append: &Append,
        (from, spread): (Place, bool),
        position: u32,
        mark: Option<Content>,
    ) {
        let mut moved = 0;
        for (page, offset) in append.pages().zip(0..) {
            let before = self.state.overlay.borrow().get(append.volume, page);
            // A page that was cleaned meanwhile goes with its copy too: what the row holds must be known until it is freed.
            let from = from.at(offset, spread);
            let same = before.filter(|live| live.place == from || self.state.is_set_aside_from(live, from));
            let Some(before) = same else { continue };
            let place = Place::new(row.slot, position).at(offset, mark.is_none());
            if mark == Some(Content::Lost) {
                self.clean.in_memory().supersede(append.volume, &(page..page + 1));
            }
            let content = match before.content {
                // From here on SSDs have it.
                Content::Unavailable { checksum } => Content::Data { checksum },
                Content::Data { .. } | Content::Zeroes | Content::Lost => before.content,
            };
            self.state.set(&LivePage { place, content: mark.unwrap_or(content), ..before });
            moved += PAGE;
        }
        self.state.tallies.count_moved(append.volume, moved);
    }

    /// No copy of the first batch in flight could be written, or its row lost a segment: it and those behind it are appended anew, to
    /// another row, which goes on with the chain where it was: of rows that lost a segment a start does not ask for it.
    fn cancel_inflight(self: &Rc<Self>) {
        let orphans = self.state.stream.orphan_all();
        for inflight in orphans.iter().rev() {
            inflight.row.change(RowChange::Broke);
            let appends = inflight.appends.take().into_iter().rev();
            appends.for_each(|(append, _)| self.state.queue.put_back(append));
        }
        self.rows.close_row();
        for inflight in orphans {
            let log = Rc::clone(self);
            self.env.spawn(async move { log.erase_orphaned_batch(&inflight).await });
        }
        if self.members.online_ssds().next().is_none() || self.life.is_fenced() {
            self.appends.refuse_appends();
        }
    }

    /// What copies are left of a batch that was discarded are made unreadable, durably. Until then nothing is appended and no
    /// row is freed: a start may find the batch, and must not believe it beside newer ones, or when what superseded its
    /// pages is gone from the log.
    async fn erase_orphaned_batch(&self, inflight: &InflightBatch) {
        let row = &inflight.row;
        while inflight.written.get().is_none() {
            row.changed.wait().await;
        }
        if !self.life.is_fenced() {
            let erasures = row.mirrors(inflight.segment()).collect::<Vec<_>>().into_iter().map(async |mirror| {
                let zeroes = self.env.buffers().take_zeroed(PAGE_BYTES);
                // An SSD that does not take it leaves, and its copy with it.
                let _ = self.segments.write_flushed(row, mirror, inflight.first_page, zeroes).await;
            });
            join_all(erasures).await;
        }
        // A copy that is gone already may still be believed at a start, until its SSD has left.
        self.members.until_all_left().await;
        row.batch_ended();
        self.state.stream.orphan_is_erased();
        self.signals.wanted.wake_all();
        self.signals.room.wake_all();
    }
}

fn entry_bytes(append: &Append) -> usize {
    match append.data_pages() {
        0 => PLAIN_ENTRY_BYTES,
        pages => pages_entry_bytes(at(pages)),
    }
}

/// Copies the data to where it lies in the batch; answers the checksums, page by page. Each page comes into the
/// processor's cache once, for both.
fn copy_data(appends: &[(Append, u32)], target: &mut [u8]) -> Vec<u32> {
    let mut checksums = Vec::with_capacity(target.len() / PAGE_BYTES);
    let data = appends.iter().filter_map(|(append, _)| match &append.body {
        Body::Data(data) | Body::Move { data, .. } => Some(data),
        Body::Zeroes(_) | Body::Mark { .. } => None,
    });
    let pages = data.flat_map(|data| data.chunks_exact(PAGE_BYTES));
    copy_for_device(target.chunks_exact_mut(PAGE_BYTES).zip(pages).map(|(place, page)| {
        checksums.push(crc32c(page));
        (place, page)
    }));
    checksums
}

fn push_entry(payload: &mut Payload, row: &Row, append: &Append, checksums: &[u32]) {
    let (attachment, page) = (append.attachment, append.page);
    match &append.body {
        Body::Data(_) => payload.push_pages(attachment, page, row.next_version(), checksums),
        Body::Move { version, .. } => payload.push_pages(attachment, page, *version, checksums),
        Body::Zeroes(count) => {
            let count = u32::try_from(*count).expect("a zero entry has fewer than 2^32 pages");
            payload.push(&Entry::Zeroes { attachment, page, version: row.next_version(), count });
        }
        Body::Mark { content, version, count, .. } => {
            let (version, count) = (*version, u32::try_from(*count).expect("a mark is of at most 2^32 pages"));
            payload.push(&match content {
                Content::Lost | Content::Unavailable { .. } => Entry::Lost { attachment, page, version, count },
                Content::Zeroes | Content::Data { .. } => Entry::Zeroes { attachment, page, version, count },
            });
        }
    }
}

/// Hints go where a batch's header has room for them anyway.
fn push_hints(queue: &Queue, payload: &mut Payload, fits: impl Fn(&Payload) -> bool) {
    let mut taken = 0;
    while taken < BATCH_HINTS && fits(payload) {
        let Some(hint) = queue.take_hint() else { return };
        payload.push(&Entry::Cleaned { row: hint.row, position: hint.position, count: hint.count });
        taken += 1;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use futures_util::future::join;
    use hotset_block::HostEnv;

    use super::*;
    use crate::address::{SsdIndex, VolumeIndex};
    use crate::error::{Error, ErrorKind};
    use crate::log::Log;
    use crate::log::segment_copy::Mirror;
    use crate::log::tests::{copy_on, open_row, row_aside, with_log};
    use crate::members::life::LifeChange;
    use crate::reasons::OutOfUse;

    fn nothing() -> Selected {
        Selected { appends: Vec::new(), entry_bytes: 0, data_pages: 0, payload: Payload::default() }
    }

    fn place(mirrors: impl FnOnce(&Log<HostEnv>) -> [Mirror; 2], selected: Selected) {
        with_log(async |log| {
            let row = open_row(log, mirrors(log));
            log.writer.place(&row, selected);
        });
    }

    #[test]
    #[should_panic(expected = "row 1: data of batch 0 lies not where its entries say")]
    fn a_batch_with_pages_that_no_entry_names_is_not_written() {
        place(|_| [Mirror::Nowhere; 2], Selected { data_pages: 1, ..nothing() });
    }

    #[test]
    #[should_panic(expected = "entries have the bytes that were counted")]
    fn a_batch_whose_entries_are_shorter_than_its_header_is_not_written() {
        place(|_| [Mirror::Nowhere; 2], Selected { entry_bytes: PAGE_BYTES, ..nothing() });
    }

    #[test]
    #[should_panic(expected = "row 1: both copies of batch 0 go to one SSD")]
    fn the_copies_of_a_batch_do_not_go_to_one_ssd() {
        place(|log| [3, 4].map(|segment| Mirror::There(copy_on(log, 0, segment))), nothing());
    }

    // proves: F5, F7
    #[test]
    fn a_batch_on_a_single_copy_counts_only_when_every_ssd_that_leaves_has_left_durably() {
        with_log(async |log| {
            let there = copy_on(log, 0, log.members.ssd(SsdIndex(0)).segments.for_slots().last().expect("it has some"));
            assert!(log.members.ssd(there.ssd).segments.set_log(there.segment, 7));
            let (row, leaving) = (open_row(log, [Mirror::There(there), Mirror::Nowhere]), log.members.ssd(SsdIndex(1)));
            log.members.expel(leaving, OutOfUse::CameBack);
            let (batch, copies) = log.writer.place(&row, nothing());
            let leaves = async {
                for _ in 0..100 {
                    log.env.sleep(Duration::ZERO).await;
                }
                assert_eq!(batch.written.get(), None, "a start may believe what the one that leaves holds");
                leaving.change(LifeChange::LeftDurably);
                leaving.left_event.wake_all();
            };
            join(log.writer.write_copies(&batch, copies), leaves).await;
            assert_eq!(batch.written.get(), Some(true));
        });
    }

    #[test]
    fn a_batch_on_a_single_copy_does_not_count_where_it_is_not_on_record_that_another_ssd_left() {
        with_log(async |log| {
            let there = copy_on(log, 0, log.members.ssd(SsdIndex(0)).segments.for_slots().last().expect("it has some"));
            assert!(log.members.ssd(there.ssd).segments.set_log(there.segment, 7));
            let row = open_row(log, [Mirror::There(there), Mirror::Nowhere]);
            log.members.expel(log.members.ssd(SsdIndex(1)), OutOfUse::CameBack);
            log.life.fence_anew(Error::new(ErrorKind::Gone, "nothing can be recorded".to_owned()));
            let (batch, copies) = log.writer.place(&row, nothing());
            log.writer.write_copies(&batch, copies).await;
            assert_eq!(batch.written.get(), Some(false));
        });
    }

    /// A page of zeroes that is moved, while the last copy of it has left.
    pub(crate) struct MoveInFlight {
        pub(crate) to: Rc<Row>,
        batch: Rc<InflightBatch>,
    }

    impl MoveInFlight {
        /// Both copies are written.
        pub(crate) fn completes(&self, log: &Log<HostEnv>) {
            self.batch.written.set(Some(true));
            log.writer.complete_in_order();
        }

        /// No copy is written.
        pub(crate) fn fails(&self, log: &Log<HostEnv>) {
            self.batch.written.set(Some(false));
            log.writer.complete_in_order();
        }
    }

    /// In a segment that the log has there.
    fn log_copy_on(log: &Log<HostEnv>, ssd: u16) -> PresentCopy {
        let segments = &log.members.ssd(SsdIndex(ssd)).segments;
        let copy = copy_on(log, ssd, segments.for_slots().last().expect("it has some"));
        assert!(segments.set_log(copy.segment, 7));
        copy
    }

    fn zeroes() -> Content {
        Content::Data { checksum: crc32c(&[0; PAGE_BYTES]) }
    }

    pub(crate) fn set_aside_while_moved(log: &Log<HostEnv>, volume: VolumeIndex, page: u64) -> MoveInFlight {
        let from = open_row(log, [Mirror::There(copy_on(log, 0, 3)), Mirror::Nowhere]);
        let to = open_row(log, [1, 2].map(|ssd| Mirror::There(log_copy_on(log, ssd))));
        let live = LivePage { volume, page, place: Place::new(from.slot, 1), content: zeroes(), dirty: true };
        log.state.supersede(&live);
        let data = log.env.buffers().take_zeroed(PAGE_BYTES);
        let attachment = log.ids.of(volume).expect("the volume is attached");
        let body = Body::Move { data, from: live.place, version: 1 };
        let _answer = log.appends.submit_for(volume, attachment, page, body);
        let moved = log.state.queue.take_first(Lane::Urgent, |_| true).expect("it was submitted");
        let selected =
            Selected { appends: vec![(moved, 0)], entry_bytes: pages_entry_bytes(1), data_pages: 1, ..nothing() };
        let (batch, _) = log.writer.place(&to, selected);
        let ssd = log.members.ssd(SsdIndex(0));
        log.members.expel(ssd, OutOfUse::CameBack);
        ssd.change(LifeChange::LeftDurably);
        log.state.lose_copies_on(ssd.index);
        log.data_loss.lose_page(&live);
        MoveInFlight { to, batch }
    }

    // proves: F5, F7
    #[test]
    fn a_page_that_is_set_aside_while_it_is_moved_lies_where_it_was_moved_to() {
        with_log(async |log| {
            let volume = log.ids.free_index();
            log.ids.attach(volume, 7);
            let move_in_flight = set_aside_while_moved(log, volume, 9);
            let now = || log.live(volume, 9).expect("it is dirty");
            assert!(now().is_unavailable());
            move_in_flight.completes(log);
            assert_eq!((now().place.row(), now().content, now().dirty), (move_in_flight.to.slot, zeroes(), true));
        });
    }

    // proves: F5, F7
    #[test]
    fn what_became_unavailable_while_its_move_waited_is_not_moved_for_a_host_may_be_writing_it() {
        with_log(async |log| {
            let volume = log.ids.free_index();
            log.ids.attach(volume, 7);
            let to = open_row(log, [1, 2].map(|ssd| Mirror::There(copy_on(log, ssd, 3))));
            let twin = row_aside(log, 9, 4, 3);
            let (place, content) = (Place::new(twin.slot, 1), zeroes());
            let live = LivePage { volume, page: 9, place, content, dirty: true };
            log.state.supersede(&live);
            let move_it = || {
                let data = log.env.buffers().take_zeroed(PAGE_BYTES);
                drop(log.appends.submit_for(volume, 7, 9, Body::Move { data, from: live.place, version: 1 }));
                log.writer.select(&to).appends.len()
            };
            assert_eq!(move_it(), 1);
            log.data_loss.lose_page(&live);
            assert_eq!(move_it(), 0);
        });
    }

    #[test]
    #[should_panic(expected = "row 1: batch 0 is written twice")]
    fn a_batch_is_not_written_twice() {
        with_log(async |log| {
            let row = open_row(log, [Mirror::Nowhere; 2]);
            let (batch, copies) = log.writer.place(&row, nothing());
            batch.written.set(Some(true));
            log.writer.write_copies(&batch, copies).await;
        });
    }
}
