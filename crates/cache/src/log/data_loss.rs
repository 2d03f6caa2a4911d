//! The last copy of something leaves with its SSD while the pool runs (REQUIREMENTS F5): the pages that only it held are
//! unavailable from then on, durably: they answer errors until an SSD with a copy is back (`set_aside.rs`), a host writes them,
//! or their loss is accepted; everything else goes on.
//!
//! What is unavailable is put on record in the state directory before the SSD leaves: which pages, by row, and where they lie. A
//! row record says that both copies of a segment are gone only together with the number of that record and the attachments that
//! it names; a start that cannot find it knows whom it concerns, and not what: those volumes are fenced until that is accepted.
//! The record's entries count like entries of the rows, as their newest.

mod set_aside;

pub(crate) use set_aside::AcceptedLosses;

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::sync::{Permit, Semaphore};
use hotset_block::{ByteRange, Env};

use crate::address::{SsdIndex, VolumeIndex, at};
use crate::attachment_ids::AttachmentIds;
use crate::clean::Clean;
use crate::config::{PAGE, PoolName};
use crate::error::{Error, ErrorKind};
use crate::format::losses::{AsidePage, AsidePages, AsideRow, AsideSegment, Group, Loss, Losses};
use crate::format::record::{HEADER_BYTES, LOSSES_AREA_BYTES, RecordKind};
use crate::log::log_segments::LogSegments;
use crate::log::overlay::{Content, LivePage, PAGES_MAX};
use crate::log::read_log::LogReader;
use crate::log::row::Row;
use crate::log::row_life::RowChange;
use crate::log::rows::RowKeeper;
use crate::log::run::LogRun;
use crate::log::segment_copy::MirrorCell;
use crate::log::shared::Shared;
use crate::log::signals::Signals;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::pool_life::PoolLife;
use crate::members::ssd::Ssd;
use crate::reasons::VolumeFence;

/// Pages that are accepted as lost in one piece.
const ACCEPT_PAGES: u64 = 64;

/// An SSD leaves with the last copy of something: no rows are recorded before that is on record.
pub(crate) struct LossBegun {
    no_rows_recorded: Permit,
}

/// What no copy can be had of, as it is and as it is on record.
pub(crate) struct DataLoss<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    ids: Rc<AttachmentIds>,
    pool_name: PoolName,
    state: Rc<WriteLog>,
    signals: Rc<Signals>,
    segments: Rc<LogSegments<E>>,
    rows: Rc<RowKeeper<E>>,
    reader: Rc<LogReader<E>>,
    /// One change of the losses record at a time.
    losses_lock: Semaphore,
}

impl<E: Env> DataLoss<E> {
    pub(super) fn new(
        shared: &Shared<E>,
        segments: &Rc<LogSegments<E>>,
        rows: &Rc<RowKeeper<E>>,
        reader: &Rc<LogReader<E>>,
    ) -> Self {
        Self {
            env: shared.env.clone(),
            life: Rc::clone(&shared.life),
            members: Rc::clone(&shared.members),
            clean: Rc::clone(&shared.clean),
            ids: Rc::clone(&shared.ids),
            pool_name: shared.pool_name.clone(),
            state: Rc::clone(&shared.state),
            signals: Rc::clone(&shared.signals),
            segments: Rc::clone(segments),
            rows: Rc::clone(rows),
            reader: Rc::clone(reader),
            losses_lock: Semaphore::new(1),
        }
    }

    /// It has the last copy of something. A row of which nobody was told anything yet counts, too: a start would ask for the SSDs that
    /// its record names.
    pub(crate) fn is_lost_with(&self, ssd: &Ssd<E>) -> bool {
        self.state.rows_live().iter().any(|row| is_lost_without(row, ssd.index))
    }

    /// An SSD is about to leave. `Some`: with it goes the last copy of something; [`Self::record_loss`] follows, in the same turn but
    /// for what spares some of it. `Err`: what is lost cannot be put on record, so the SSD must not leave, for nobody would know
    /// afterwards that anything is missing.
    pub(crate) async fn begin_loss(&self, ssd: &Ssd<E>) -> Result<Option<LossBegun>, Error> {
        self.take_away(ssd);
        let no_rows_recorded = self.members.one_change().await;
        if !self.is_lost_with(ssd) {
            drop(no_rows_recorded);
            // A start would ask for the SSDs of rows that the record names, also where there is nothing in them.
            if self.state.record_names_dropped() {
                self.rows.record_rows().await?;
            }
            return Ok(None);
        }
        self.check_losses_fit(ssd)?;
        // From here on rows demand a losses record that does not exist yet: they are not recorded before it does.
        self.state.losses.ask_for(self.state.losses.number() + 1);
        self.state.lose_copies_on(ssd.index);
        self.segments.count_openable();
        Ok(Some(LossBegun { no_rows_recorded }))
    }

    /// What lost its last copy, and what the backing devices do not have of it, is put on record.
    pub(crate) async fn record_loss(&self, begun: LossBegun) -> Result<(), Error> {
        // Without any SSD nothing older can come back: what is clean needs no word.
        let nothing_left = self.members.online_ssds().next().is_none();
        self.show_losses();
        // Taken now: what is written over a lost page meanwhile may be lost, too, for nobody has flushed it.
        let is_unlisted = |(row, live): &(Rc<Row>, LivePage)| nothing_left && !live.dirty && !row.is_aside();
        let (unlisted, listed): (Vec<_>, Vec<_>) = self.lost_pages(None).into_iter().partition(is_unlisted);
        let losses = self.losses_of(listed, |_| false);
        self.state.list_is_recorded();
        // What superseded pages that lay there must not be forgotten either: then older copies would be the newest.
        self.flush_ssds().await;
        self.write_losses(self.state.losses.number(), &losses).await?;
        drop(begun.no_rows_recorded);
        self.rows.record_rows().await?;
        self.forget_unlisted(&unlisted);
        Ok(())
    }

    /// No start believes any more what the SSDs that are gone hold of these clean pages: from here on they are like others that the log has
    /// nothing of. Before that a host's write would be older than what a start may find; and what the list names stays, whatever has become
    /// of it.
    fn forget_unlisted(&self, pages: &[(Rc<Row>, LivePage)]) {
        for (row, live) in pages {
            if self.state.row_at(row.slot).is_some_and(|now| Rc::ptr_eq(&now, row)) {
                self.state.remove_at(live.volume, live.page, live.place);
            }
        }
    }

    /// What a host's own write took to the backing device as well is durable there, although the log said that it is dirty: the pages of the
    /// run that lost their last copy are clean.
    pub(crate) fn exempt_written_through(&self, volume: VolumeIndex, run: &LogRun) {
        for (page, place) in run.places().filter(|_| run.lives(&self.state)) {
            let (segment, _) = run.row().locate(place.position());
            if run.row().mirrors(segment).next().is_none() {
                self.state.set_clean_at(volume, page, place);
            }
        }
    }

    async fn flush_ssds(&self) {
        // Also of those that take no writes: what is set aside there is not lost with their power then.
        let flushes = self.members.ssds().filter(|ssd| ssd.life().is_readable()).map(async |ssd| {
            if let Err(fault) = ssd.flush().await {
                self.members.ssd_failed(ssd, &fault);
            }
        });
        join_all(flushes).await;
    }

    fn check_losses_fit(&self, ssd: &Ssd<E>) -> Result<(), Error> {
        let room = self.members.state().keeps_losses();
        if room && has_room(&self.losses(Some(ssd.index)).encode()) {
            return Ok(());
        }
        let message = format!(
            "pool {}: SSD {} failed ({}) and has the only copy of dirty data, more than the state directory has room to \
             name: no more writes are taken; see to the SSD, then restart",
            self.pool_name,
            ssd.path,
            ssd.why_offline()
        );
        Err(Error::new(ErrorKind::Gone, message))
    }

    /// Live pages in segments of which no copy is left, `without` an SSD that is about to leave; and what is set aside.
    fn lost_pages(&self, without: Option<SsdIndex>) -> Vec<(Rc<Row>, LivePage)> {
        let is_gone = |mirror: &MirrorCell| mirror.get().ssd().is_none_or(|ssd| Some(ssd) == without);
        let lacks = |row: &Rc<Row>| row.live() > 0 && row.segments.iter().any(|pair| pair.iter().all(is_gone));
        let rows: BTreeMap<u32, Rc<Row>> =
            self.state.rows_live().into_iter().filter(lacks).map(|row| (row.slot, row)).collect();
        let overlay = self.state.overlay.borrow();
        let mut lost = Vec::new();
        if !rows.is_empty() {
            for live in self.ids.indexes().flat_map(|volume| overlay.range(volume, 0..PAGES_MAX)) {
                let Some(row) = rows.get(&live.place.row()) else { continue };
                let (segment, _) = row.locate(live.place.position());
                if row.segments[at(segment)].iter().all(is_gone) {
                    lost.push((Rc::clone(row), live));
                }
            }
        }
        for row in self.state.rows_aside() {
            let listed = row.listed().into_iter().filter_map(|(volume, page)| overlay.get(volume, page));
            lost.extend(listed.map(|live| (Rc::clone(&row), live)));
        }
        lost
    }

    /// From here on lost pages say so.
    fn show_losses(&self) {
        for (row, live) in self.lost_pages(None) {
            if row.is_aside() {
                continue;
            }
            row.change(RowChange::Broke);
            match (live.dirty, live.content) {
                (false, Content::Data { .. }) => drop(self.state.set(&LivePage { content: Content::Lost, ..live })),
                (true, Content::Data { .. }) => self.lose_page(&live),
                (_, Content::Zeroes | Content::Lost | Content::Unavailable { .. }) => {}
            }
        }
        for row in self.state.rows_live().iter().filter(|row| row.has_lost_segment()) {
            row.change(RowChange::Broke);
        }
    }

    /// What is to be recorded.
    fn losses(&self, without: Option<SsdIndex>) -> Losses {
        self.losses_of(self.lost_pages(without), |_| false)
    }

    /// The losses of these pages, of which those are clean that are mended. What is clean where nothing older is left needs no word.
    fn losses_of(&self, mut lost: Vec<(Rc<Row>, LivePage)>, is_mended: impl Fn(&LivePage) -> bool) -> Losses {
        lost.sort_by_key(|(_, live)| (live.volume, live.page));
        let mut groups: BTreeMap<(u64, u64, Loss), Vec<Range<u64>>> = BTreeMap::new();
        let mut rows: BTreeMap<u64, AsideRow> = BTreeMap::new();
        for (row, live) in lost {
            let Some(attachment) = self.ids.of(live.volume) else { continue };
            let what = match (live.dirty && !is_mended(&live), live.content) {
                (false, _) if row.is_aside() && self.state.nothing_is_older(&row) => continue,
                (false, _) => Loss::Clean,
                (true, Content::Zeroes) => Loss::Zeroes,
                (true, Content::Lost) => Loss::Lost,
                (true, Content::Data { checksum } | Content::Unavailable { checksum }) => {
                    list_page(
                        rows.entry(row.number).or_insert_with(|| unlisted(&row)),
                        &row,
                        attachment,
                        &live,
                        checksum,
                    );
                    continue;
                }
            };
            let pages = groups.entry((row.number, attachment, what)).or_default();
            match pages.last_mut() {
                Some(last) if last.end == live.page => last.end += 1,
                Some(_) | None => pages.push(live.page..live.page + 1),
            }
        }
        let group = |((row, attachment, what), pages)| Group { row, attachment, what, pages };
        let mut losses = Losses {
            groups: groups.into_iter().map(group).collect(),
            rows: rows.into_values().collect(),
            ssds: Vec::new(),
        };
        self.note_paths();
        losses.ssds = self.state.losses.paths();
        losses.ssds.retain(|(uuid, _)| losses.rows.iter().any(|row| row.names(*uuid)));
        losses
    }

    /// Remembers where the pool's SSDs are: they may be away next time.
    pub(crate) fn note_paths(&self) {
        self.state.losses.note_paths(self.members.ssds().map(|ssd| (ssd.uuid, ssd.path.clone())));
    }

    /// From here on row records name who lost something: never fewer than this losses record does.
    fn note_volumes_with_loss(&self, losses: &Losses) {
        let lives = |attachment: u64| self.ids.index_of(attachment).is_some();
        self.state.losses.add_with_loss(losses.attachments(), lives);
        let named = self.state.losses.with_loss();
        let are_named = losses.attachments().iter().all(|lost| named.contains(lost) || !lives(*lost));
        assert!(are_named, "a volume lost something, and rows do not say so");
    }

    /// Writes the losses record; durable when this answers.
    async fn write_losses(&self, number: u64, losses: &Losses) -> Result<(), Error> {
        self.note_volumes_with_loss(losses);
        let payload = losses.encode();
        if !has_room(&payload) {
            let message = format!(
                "pool {}: more dirty data cannot be read from any SSD than the state directory has room to name: bring back the \
                 SSDs that are missing",
                self.pool_name
            );
            return Err(Error::new(ErrorKind::Gone, message));
        }
        if self.members.state().write_only(RecordKind::Losses, number, payload).await {
            return Ok(());
        }
        let message = format!(
            "pool {}: what was lost with an SSD cannot be recorded in the state directory: see to that, then restart",
            self.pool_name
        );
        Err(Error::new(ErrorKind::Gone, message))
    }

    /// Writes the losses as they are now, but for pages of which nothing is missing any more, as the next record: no rows are
    /// recorded that ask for it before it is there, and when this answers, a start asks for it.
    pub(crate) async fn write_next_losses(&self, is_mended: impl Fn(&LivePage) -> bool) -> Result<(), Error> {
        let no_rows_recorded = self.members.one_change().await;
        let number = self.state.losses.number() + 1;
        let losses = self.losses_of(self.lost_pages(None), is_mended);
        // What goes on meanwhile is for the next one.
        let aside = self.state.rows_aside();
        self.state.list_is_recorded();
        // What it leaves out was written again, on SSDs.
        self.flush_ssds().await;
        let mut recorded = self.write_losses(number, &losses).await;
        // Where it cannot be written, the one before it says more than is lost; nothing asks for one that is nowhere.
        if recorded.is_ok() {
            self.state.losses.ask_for(number);
        }
        drop(no_rows_recorded);
        // What is set aside page by page came without a row record.
        if recorded.is_ok() && !self.state.losses_are_on_record() {
            recorded = self.rows.record_rows().await;
        }
        if recorded.is_err() {
            // A start may go by it all the same, and what it leaves out is as it was.
            aside.iter().for_each(|row| row.list_changed());
        }
        recorded
    }

    /// What is lost of a volume, in rising order, some extents at most.
    pub(crate) fn lost_extents(&self, volume: VolumeIndex, extents_max: usize) -> Vec<ByteRange> {
        let mut extents: Vec<ByteRange> = Vec::new();
        if self.state.counts(volume).lost == 0 {
            return extents;
        }
        for live in self.state.overlay.borrow().range(volume, 0..PAGES_MAX).filter(LivePage::is_lost) {
            let (start, end) = (live.page * PAGE, (live.page + 1) * PAGE);
            let full = extents.len() == extents_max;
            match extents.last_mut() {
                Some(last) if last.end == start => last.end = end,
                Some(_) if full => break,
                Some(_) | None => extents.push(ByteRange { start, end }),
            }
        }
        extents
    }

    /// Why a volume is not to be served although its backing device is the right one: it lost nobody knows what.
    pub(crate) fn unknown_loss(&self, attachment: u64) -> Option<VolumeFence> {
        self.state.losses.with_unknown_loss().contains(&attachment).then_some(VolumeFence::UnknownLoss)
    }

    /// Some pages from `from` on that are lost and follow each other.
    pub(crate) fn next_lost(&self, volume: VolumeIndex, from: u64) -> Option<Range<u64>> {
        let overlay = self.state.overlay.borrow();
        if overlay.counts(volume).lost == 0 {
            return None;
        }
        let is_lost = |live: &LivePage| live.dirty && live.content == Content::Lost;
        let mut lost = overlay.range(volume, from..PAGES_MAX).filter(is_lost);
        let first = lost.next()?.page;
        let mut pages = first..first + 1;
        for live in lost {
            if live.page != pages.end || pages.end - pages.start >= ACCEPT_PAGES {
                break;
            }
            pages.end += 1;
        }
        Some(pages)
    }

    /// What was lost and nobody knows is accepted, durably: volumes that are fenced for it may be reattached.
    pub(crate) async fn accept_unknown(&self) -> Result<(), Error> {
        let unknown = self.state.losses.with_unknown_loss();
        if unknown.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.losses_lock.acquire(1).await;
        // The record that the rows ask for from here on says what is known to be lost.
        self.write_next_losses(|_| false).await?;
        self.state.losses.set_with_unknown_loss(Vec::new());
        let recorded = self.rows.record_rows().await;
        if recorded.is_err() {
            self.state.losses.set_with_unknown_loss(unknown);
        }
        recorded
    }
}

/// The area of a losses record holds one with this payload.
fn has_room(payload: &[u8]) -> bool {
    u64::try_from(HEADER_BYTES + payload.len()).is_ok_and(|bytes| bytes <= LOSSES_AREA_BYTES - PAGE)
}

/// A segment of the row has no copy but on this SSD, if on any.
fn is_lost_without(row: &Row, ssd: SsdIndex) -> bool {
    row.segments.iter().any(|pair| {
        let on_it = |mirror: &MirrorCell| mirror.get().is_on(ssd);
        pair.iter().any(on_it) && pair.iter().all(|mirror| !mirror.get().is_there() || on_it(mirror))
    })
}

/// A row of which nothing is listed yet.
fn unlisted(row: &Row) -> AsideRow {
    let Row { number, incarnation, segment_pages, .. } = *row;
    AsideRow { number, incarnation, segment_pages, segments: Vec::new(), volumes: Vec::new() }
}

/// Pages come in rising order of volumes and pages.
fn list_page(listed: &mut AsideRow, row: &Row, attachment: u64, live: &LivePage, checksum: u32) {
    let (position, _) = row.locate(live.place.position());
    let copies = row.segments[at(position)].each_ref().map(|mirror| mirror.get().place().unwrap_or_default());
    match listed.segments.iter_mut().find(|segment| segment.position == position) {
        // The row, and what was set aside of it before, may know one copy each.
        Some(segment) => {
            for (known, copy) in segment.copies.iter_mut().zip(copies).filter(|(known, _)| known.0 == 0) {
                *known = copy;
            }
        }
        None => listed.segments.push(AsideSegment { position, copies }),
    }
    let page = AsidePage { page: live.page, position: live.place.position(), checksum };
    match listed.volumes.last_mut() {
        Some(volume) if volume.attachment == attachment => volume.pages.push(page),
        Some(_) | None => listed.volumes.push(AsidePages { attachment, pages: vec![page] }),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;

    use super::*;
    use crate::log::overlay::Place;
    use crate::log::segment_copy::Mirror;
    use crate::log::tests::{copy_on, open_row};
    use crate::pool::open::tests::with_pool_and_state;
    use crate::reasons::OutOfUse;

    #[test]
    fn a_list_of_losses_that_would_reach_into_the_next_area_has_no_room() {
        let most = usize::try_from(LOSSES_AREA_BYTES - PAGE).unwrap() - HEADER_BYTES;
        assert!(has_room(&vec![0; most]) && !has_room(&vec![0; most + 1]));
    }

    // proves: F5, F7
    #[test]
    fn what_is_clean_goes_through_the_log_until_no_start_believes_what_the_last_ssd_has_of_it() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let volume = log.ids.free_index();
            log.ids.attach(volume, 7);
            let row = open_row(log, [Mirror::There(copy_on(log, 0, 3)), Mirror::Nowhere]);
            let (place, zeroes) = (Place::new(row.slot, 1), Place::new(row.slot, 2));
            let content = Content::Data { checksum: 1 };
            log.state.supersede(&LivePage { volume, page: 9, place, content, dirty: false });
            let dirty = LivePage { volume, page: 20, place: zeroes, content: Content::Zeroes, dirty: true };
            log.state.supersede(&dirty);
            log.members.ssds().for_each(|ssd| log.members.expel(ssd, OutOfUse::CameBack));
            let last = log.members.ssd(SsdIndex(0));
            let begun = log.data_loss.begin_loss(last).await.expect("there is room").expect("it has the only copy");
            // It comes between the list and the rows.
            let other_change = async {
                let _no_rows_recorded = log.members.one_change().await;
                assert!(log.state.set_clean_at(volume, 20, zeroes), "the cleaner was under way with it");
                log.any_live(volume, &(9..10))
            };
            let (is_live, recorded) = join(other_change, log.data_loss.record_loss(begun)).await;
            recorded.expect("the state directory takes it");
            assert!(is_live, "a start may find it on the SSD");
            assert!(!log.any_live(volume, &(9..10)));
            assert!(log.any_live(volume, &(20..21)), "the list says that it is dirty");
        });
    }
}
