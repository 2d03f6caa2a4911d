//! Pages of which no copy can be had now, and how they come back (REQUIREMENTS F5): a loss is a state.
//!
//! What the last copy took with it is *set aside*: it moves from its row to a twin of that row which is out of the log, so
//! that it holds up no freeing and no append. The losses record names each of its pages (`format/losses.rs`), and the segments of the twin
//! are used for nothing else. When an SSD is back that has a copy, exactly what is listed is read from it again, dirty as
//! before, checked by its checksum like everything else. A host that writes such a page meanwhile goes around the cache: the
//! backing device, its flush, the page off the list durably, then the answer; in any other order a crash shows a value that is
//! not legal. A twin whose pages are all clean is freed like a row, and by the same rule: not before every older one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Buf, Env};

use crate::address::{SsdIndex, VolumeIndex, at};
use crate::config::{PAGE, VolumeName, limits};
use crate::error::{Error, ErrorKind};
use crate::log::append::stopped;
use crate::log::data_loss::DataLoss;
use crate::log::loss_list::{Pages, is_among};
use crate::log::overlay::{Content, LivePage, Place};
use crate::log::read_log::Unread;
use crate::log::row::Row;
use crate::log::scan_aside::{add_aside_row, find_copies};
use crate::log::segment_copy::{Mirror, MirrorCell, MirrorChange, PresentCopy};
use crate::members::ssd::Ssd;
use crate::reasons::NoCopy;
use crate::time_limit::within;

/// How often a flush looks by itself whether something was written to its backing device.
const INTERVAL: Duration = Duration::from_secs(1);
/// Pages that come back in one turn.
const RETURN_PAGES: u64 = 1024;

impl<E: Env> DataLoss<E> {
    // ---- pages go

    /// No copy of a dirty page of data can be had now. If an SSD that is away has one, it may come back; else the page is lost.
    pub(crate) fn lose_page(&self, live: &LivePage) {
        if self.set_aside(live).is_none() {
            self.state.set(&LivePage { content: Content::Lost, ..*live });
        }
    }

    /// Whether the page is set aside, and still lies there.
    pub(crate) fn is_set_aside(&self, live: &LivePage) -> bool {
        let now = self.state.overlay.borrow().get(live.volume, live.page);
        now != Some(*live) || self.set_aside(live).is_some()
    }

    fn set_aside(&self, live: &LivePage) -> Option<()> {
        self.clean.in_memory().supersede(live.volume, &(live.page..live.page + 1));
        let (Content::Data { checksum } | Content::Unavailable { checksum }) = live.content else { return None };
        let unavailable = Content::Unavailable { checksum };
        let row = self.state.row(live.place.row());
        if row.is_aside() {
            self.state.set(&LivePage { content: unavailable, ..*live });
            return Some(());
        }
        let (segment, _) = row.locate(live.place.position());
        // One that is about to leave, too.
        let is_gone = |ssd: SsdIndex| !self.members.ssd(ssd).is_online();
        let is_away = |mirror: Mirror| mirror.place().filter(|_| mirror.ssd().is_none_or(is_gone));
        let away = row.segments[at(segment)].each_ref().map(|mirror| is_away(mirror.get()));
        if away.iter().all(Option::is_none) {
            return None;
        }
        if !row.life().has_ended() && !row.has_lost_segment() {
            // What is in flight there would be older than what is listed of it. It takes no more, for an SSD of it is gone.
            return Some(());
        }
        let twin = self.twin_of(&row)?;
        let mut content = unavailable;
        let cells = twin.segments[at(segment)].iter().zip(away);
        for (cell, (ssd_uuid, segment)) in cells.filter_map(|(cell, away)| Some((cell, away?))) {
            cell.change(MirrorChange::Named { ssd_uuid, segment });
            match self.read_only_ssd(ssd_uuid) {
                // Its segments are as they were, for it takes no writes.
                Some(ssd) => {
                    cell.change(MirrorChange::Found(ssd));
                    content = Content::Data { checksum };
                }
                None => self.state.losses.wait_for(ssd_uuid),
            }
        }
        self.state.set(&LivePage { place: Place::new(twin.slot, live.place.position()), content, ..*live });
        if row.number >= self.state.stream.flushed().row {
            twin.add_unflushed();
        }
        twin.list_changed();
        Some(())
    }

    /// An SSD that left because it takes no writes, and can be read.
    fn read_only_ssd(&self, uuid: u128) -> Option<SsdIndex> {
        let found = self.members.ssds().find(|ssd| ssd.uuid == uuid && ssd.life().is_read_only());
        found.map(|ssd| ssd.index)
    }

    /// What is set aside of a row; `None`: there is no place in memory for one more.
    fn twin_of(&self, row: &Row) -> Option<Rc<Row>> {
        if let Some(twin) = self.state.aside_of(row.number) {
            let (there, of_row) = (twin.segments.len(), row.segments.len());
            assert!(there >= of_row, "row {} has {of_row} segments, and is set aside as {there}", row.number);
            return Some(twin);
        }
        let Row { number, incarnation, segment_pages, .. } = *row;
        let (segments, now) = (row.segments.len(), self.env.real_now());
        let twin = |slot| Row::new_aside(slot, number, incarnation, segments, segment_pages, now);
        add_aside_row(&self.state, twin)
    }

    /// Dirty data that lies on this SSD and on none that is in use, at most.
    pub(crate) fn bytes_only_on(&self, ssd: &Ssd<E>) -> u64 {
        let is_on = |row: &Row| row.segments.iter().flatten().any(|mirror| mirror.get().is_on(ssd.index));
        let rows = self.state.rows_aside();
        let pages: u64 = rows.iter().filter(|row| is_on(row)).map(|row| u64::from(row.dirty())).sum();
        pages * PAGE
    }

    /// Dirty data that no copy brings, and of which this SSD has one.
    pub(crate) fn unavailable_bytes_on(&self, ssd: &Ssd<E>) -> u64 {
        let lies_there = |row: &Row, live: &LivePage| {
            let (segment, _) = row.locate(live.place.position());
            live.dirty && live.is_unavailable() && row.mirrors(segment).any(|copy| copy.ssd == ssd.index)
        };
        let bytes_of =
            |row: Rc<Row>| self.lives_of(&row).iter().filter(|live| lies_there(&row, live)).map(|_| PAGE).sum::<u64>();
        self.state.rows_aside().into_iter().map(bytes_of).sum()
    }

    /// Something in it, of these volumes, was never flushed, and all that have it refuse to.
    fn is_undurable(&self, row: &Row, is_wanted: impl Fn(VolumeIndex) -> bool) -> bool {
        let refuses = |(index, _): (SsdIndex, PresentCopy)| {
            let ssd = self.members.ssd(index);
            ssd.may_lack_log()
        };
        let is_data =
            |live: &LivePage| live.dirty && is_wanted(live.volume) && matches!(live.content, Content::Data { .. });
        row.is_unflushed()
            && self.lives_of(row).iter().filter(|live| is_data(live)).any(|live| {
                let (segment, _) = row.locate(live.place.position());
                row.copies_one_by_one(segment).all(refuses)
            })
    }

    /// An SSD goes: what is set aside there cannot be had any more. The list says so already.
    pub(crate) fn take_away(&self, ssd: &Ssd<E>) {
        if ssd.life().is_readable() {
            return;
        }
        for row in self.state.rows_aside() {
            for cell in row.segments.iter().flatten().filter(|cell| cell.get().is_on(ssd.index)) {
                cell.change(MirrorChange::Left);
            }
            for live in self.lives_of(&row) {
                let (segment, _) = row.locate(live.place.position());
                if live.dirty && row.mirrors(segment).next().is_none() {
                    self.lose_page(&live);
                    // It may come back, as it did before or as one that takes writes.
                    self.state.losses.wait_for(ssd.uuid);
                }
            }
        }
    }

    /// The pages of a row that is set aside.
    pub(crate) fn lives_of(&self, row: &Row) -> Vec<LivePage> {
        let overlay = self.state.overlay.borrow();
        row.listed().into_iter().filter_map(|(volume, page)| overlay.get(volume, page)).collect()
    }

    /// The log's flush for a host of this volume: what SSDs have of it that refused to flush it is on its backing device, too, as it
    /// is nowhere else for sure.
    pub(crate) async fn flush_for_host(&self, volume: VolumeIndex) -> Result<(), Error> {
        self.rows.flush().await?;
        let is_listed = |row: &Rc<Row>| row.listed().iter().any(|(listed, _)| *listed == volume);
        let aside = self.state.rows_aside().into_iter().filter(|row| row.is_unflushed() && is_listed(row));
        // What comes to them later is for the flush that comes then.
        let unflushed: Vec<(Rc<Row>, u64)> = aside.map(|row| (Rc::clone(&row), row.unflushed())).collect();
        if unflushed.is_empty() {
            return Ok(());
        }
        while unflushed.iter().any(|(row, _)| self.is_undurable(row, |of| of == volume)) {
            let cleaned = self.signals.room.wait();
            self.signals.cleaner_wanted.wake_all();
            within(&self.env, INTERVAL, cleaned).await;
            self.life.check_open()?;
            if self.life.has_stopped() {
                return Err(stopped());
            }
        }
        // A start must not ask the SSDs for what was cleaned.
        self.write_list_anew().await?;
        // Other volumes may have something there that waits still.
        let durable = unflushed.iter().filter(|(row, _)| !self.is_undurable(row, |_| true));
        durable.for_each(|(row, until)| row.are_durable(*until));
        Ok(())
    }

    // ---- an SSD is back

    /// An SSD of the pool can be read again: what is set aside there is found. [`Self::returned_runs`] tells what it is.
    pub(crate) async fn find_copies_on(&self, ssd: &Rc<Ssd<E>>) {
        self.state.losses.is_back(ssd.uuid);
        for row in self.state.rows_aside() {
            find_copies(ssd.to_read(), &row).await;
        }
    }

    /// More of what is back is shown: it is compared with what is listed, and goes where there is room.
    pub(crate) fn returned_is_shown(self: &Rc<Self>) {
        self.spawn_check();
        for event in [&self.signals.mover_wanted, &self.signals.cleaner_wanted, &self.signals.room] {
            event.wake_all();
        }
    }

    /// What came back is compared with what is listed, in the background.
    pub(crate) fn spawn_check(self: &Rc<Self>) {
        if self.state.rows_aside().iter().any(|row| row.has_copies()) {
            let log = Rc::clone(self);
            self.env.spawn(async move { log.check_returned().await });
        }
    }

    /// What came back and is something else than what is listed, or has answered with errors for too long, is unavailable.
    pub(crate) async fn check_returned(&self) {
        let rows = self.state.rows_aside();
        let lives = rows.iter().flat_map(|row| self.lives_of(row));
        for live in lives.filter(|live| live.dirty && !live.is_lost()) {
            if matches!(self.read_listed(&live).await, Some(Err(Unread::Lost))) {
                self.lose_page(&live);
            }
            if self.life.has_stopped() {
                return;
            }
        }
    }

    /// Reads data as it is listed, whether it is unavailable or not. `None`: it is no data, or not this any more.
    async fn read_listed(&self, live: &LivePage) -> Option<Result<Buf, Unread>> {
        let is_same = || self.state.overlay.borrow().get(live.volume, live.page) == Some(*live);
        if !is_same() {
            return None;
        }
        let run = self.state.run_of_data(live)?;
        let read = self.reader.read_or_expire(&run).await;
        is_same().then_some(read)
    }

    /// Some copy of an unavailable page can be read again.
    pub(crate) async fn can_be_read(&self, volume: VolumeIndex, page: u64) -> bool {
        let live = self.state.overlay.borrow().get(volume, page).filter(LivePage::is_unavailable);
        match live {
            Some(live) => matches!(self.read_listed(&live).await, Some(Ok(_))),
            None => false,
        }
    }

    /// Unavailable pages of which there is a copy, as far as they follow each other.
    pub(crate) fn returned_runs(&self) -> Vec<(VolumeIndex, Range<u64>)> {
        let mut pages: Vec<(VolumeIndex, u64)> = Vec::new();
        for row in self.state.rows_aside() {
            let back = self.lives_of(&row).into_iter().filter(|live| is_back(&row, live));
            pages.extend(back.map(|live| (live.volume, live.page)));
        }
        pages.sort_unstable();
        let mut runs: Vec<(VolumeIndex, Range<u64>)> = Vec::new();
        for (volume, page) in pages {
            match runs.last_mut() {
                Some((of, run)) if *of == volume && run.end == page && run.end - run.start < RETURN_PAGES => {
                    run.end += 1
                }
                Some(_) | None => runs.push((volume, page..page + 1)),
            }
        }
        runs
    }

    /// Of these pages those are shown of which a copy is there again. Nobody may be writing them: what is on its way to the backing
    /// device must not be overtaken by what was there before.
    pub(crate) fn show_returned(&self, volume: VolumeIndex, pages: &Range<u64>) {
        let all: Vec<LivePage> = self.state.overlay.borrow().range(volume, pages.clone()).collect();
        for live in all {
            if is_back(&self.state.row(live.place.row()), &live) {
                self.show(&live);
            }
        }
    }

    fn show(&self, live: &LivePage) {
        if let Content::Unavailable { checksum } = live.content {
            self.state.set(&LivePage { content: Content::Data { checksum }, ..*live });
        }
    }

    // ---- pages leave the list

    /// Returns when nothing that is on its way into the log has one of these pages that is unavailable: what was moved while its copies
    /// left takes effect, or is unavailable as before and no start finds it elsewhere. Whatever is newer comes after that. The caller holds
    /// the pages, and looks again at what they are: nothing of them begins to be moved while they are unavailable.
    ///
    /// # Errors
    /// The pool takes no writes, or has stopped.
    pub(crate) async fn until_not_moved(&self, volume: VolumeIndex, pages: &Range<u64>) -> Result<(), Error> {
        loop {
            let completed = self.signals.room.wait();
            if !self.is_moved(volume, pages) {
                return Ok(());
            }
            self.life.check_open()?;
            if self.life.has_stopped() {
                return Err(stopped());
            }
            completed.await;
        }
    }

    /// See [`Self::until_not_moved`].
    pub(crate) fn is_moved(&self, volume: VolumeIndex, pages: &Range<u64>) -> bool {
        let overlay = self.state.overlay.borrow();
        if overlay.counts(volume).lost == 0 {
            return false;
        }
        let mut unavailable = overlay.range(volume, pages.clone()).filter(LivePage::is_unavailable);
        unavailable.any(|live| self.state.stream.may_bring(volume, live.page))
    }

    /// These pages are durable on the backing device: the list must not name them any more, durably, before the host hears of
    /// it. Those who come at the same time share one record. The caller holds the pages.
    pub(crate) async fn take_off_list(&self, volume: VolumeIndex, pages: &Range<u64>) -> Result<(), Error> {
        let own: Pages = (volume, pages.clone());
        self.state.losses.add_replaced(own.clone());
        let _one_at_a_time = self.losses_lock.acquire(1).await;
        if !self.state.losses.is_named(&own) {
            // Another one's record has left them out.
            return Ok(());
        }
        let replaced = self.state.losses.take_replaced();
        if let Err(error) = self.write_next_losses(|live| is_among(&replaced, live)).await {
            // Others that wait find theirs again.
            self.state.losses.put_back_replaced(replaced, &own);
            return Err(error);
        }
        for (volume, pages) in &replaced {
            let all: Vec<LivePage> = self.state.overlay.borrow().range(*volume, pages.clone()).collect();
            all.iter().for_each(|live| self.forget_replaced(live));
        }
        self.signals.mover_wanted.wake_all();
        self.forget_clean_rows().await;
        Ok(())
    }

    /// The backing device has something newer than this. It is clean as long as older rows might say something else.
    fn forget_replaced(&self, live: &LivePage) {
        let row = self.state.row(live.place.row());
        if row.is_aside() && !self.state.nothing_is_older(&row) {
            self.state.set(&LivePage { content: Content::Lost, dirty: false, ..*live });
        } else {
            self.state.remove_at(live.volume, live.page, live.place);
        }
    }

    /// Pages of a volume of which no copy can be had now, as far as they follow each other.
    pub(crate) fn unavailable_runs(&self, volume: VolumeIndex) -> Vec<Range<u64>> {
        self.state.unavailable_runs(volume)
    }

    /// Discards what is unavailable of volumes that nobody uses yet.
    pub(crate) async fn accept_unavailable_at_start(&self) -> Result<(), Error> {
        self.check_returned().await;
        let volumes: Vec<VolumeIndex> = self.ids.indexes().filter(|index| self.state.counts(*index).lost > 0).collect();
        let mut accepted = AcceptedLosses::default();
        for index in &volumes {
            for pages in self.state.unavailable_runs(*index) {
                self.accept(*index, &pages, &mut accepted).await;
                self.clean.invalidate_durably(*index, pages).await?;
            }
        }
        self.discard_unavailable(&accepted).await.map(drop)
    }

    /// Adds what is unavailable of these pages now. What a copy brings after all, or may bring later, is dirty as before instead, and what is
    /// still being moved after the time of a silent SSD is left as it is. Nobody may be writing them.
    pub(crate) async fn accept(&self, volume: VolumeIndex, pages: &Range<u64>, accepted: &mut AcceptedLosses) {
        // Whoever accepts holds up all changes of the pool.
        let moved = within(&self.env, limits::SSD_TIMEOUT, self.until_not_moved(volume, pages)).await;
        if !matches!(moved, Some(Ok(()))) {
            return;
        }
        let all: Vec<LivePage> = self.state.overlay.borrow().range(volume, pages.clone()).collect();
        for live in all.into_iter().filter(LivePage::is_unavailable) {
            match self.read_listed(&live).await {
                Some(Ok(_) | Err(Unread::Failing)) => self.show(&live),
                Some(Err(Unread::Lost)) => drop(accepted.0.insert((volume, live.page), live.place)),
                None => {}
            }
        }
    }

    /// Discards these losses: from now on the pages are what the backing devices hold. No slot is believed that they superseded.
    /// Answers the bytes.
    pub(crate) async fn discard_unavailable(&self, accepted: &AcceptedLosses) -> Result<u64, Error> {
        let _one_at_a_time = self.losses_lock.acquire(1).await;
        let is_accepted = |live: &LivePage| accepted.has(live);
        let rows = self.state.rows_aside();
        let discarded: Vec<LivePage> =
            rows.iter().flat_map(|row| self.lives_of(row)).filter(|live| is_accepted(live)).collect();
        if discarded.is_empty() {
            return Ok(0);
        }
        self.write_next_losses(is_accepted).await?;
        let mut bytes = 0;
        for live in discarded {
            // What came back, or was written meanwhile, is not accepted as lost.
            if self.state.overlay.borrow().get(live.volume, live.page).is_some_and(|now| now.place == live.place) {
                self.forget_replaced(&live);
                bytes += PAGE;
            }
        }
        // Nobody waits for SSDs any more that have nothing but what is discarded.
        let still: Vec<u128> = self.ssds_away(None).into_iter().map(|(uuid, _)| uuid).collect();
        self.state.losses.wait_only_for(&still);
        self.signals.mover_wanted.wake_all();
        self.forget_clean_rows().await;
        Ok(bytes)
    }

    /// The list is as things are now, where it names something that is about to be forgotten elsewhere.
    pub(crate) async fn bring_list_up_to_date(&self) -> Result<(), Error> {
        if !self.state.list_is_behind() {
            return Ok(());
        }
        let _one_at_a_time = self.losses_lock.acquire(1).await;
        if self.state.list_is_behind() { self.write_next_losses(|_| false).await } else { Ok(()) }
    }

    /// The list is as things are now, and leaves out what it need not say any more.
    pub(crate) async fn write_list_anew(&self) -> Result<(), Error> {
        let _one_at_a_time = self.losses_lock.acquire(1).await;
        self.write_next_losses(|_| false).await
    }

    /// No SSD is left, and the backing devices have everything: the rows that were lost with the SSDs are wanted by nobody.
    pub(crate) async fn forget_clean_rows(&self) {
        if self.members.online_ssds().next().is_none() && self.state.overlay.borrow().total().dirty == 0 {
            self.state.numbers.declare_all_free();
            // If that cannot be recorded either, a start asks for the SSDs, which is safe.
            let _ = self.rows.record_rows().await;
        }
    }

    // ---- what is told

    /// What a host is told that reads a dirty page of a volume of which no copy can be had. What came back and will not be had
    /// is known to be unavailable from then on.
    pub(crate) fn unreadable_page(&self, name: &VolumeName, live: &LivePage, unread: Unread) -> Error {
        let row = self.state.row(live.place.row());
        if unread == Unread::Lost && row.is_aside() && !live.is_lost() {
            self.lose_page(live);
        }
        let why = self.why_lost(Some(live.volume));
        let message = format!("volume {name}: dirty page {} is unavailable: {why}", live.page);
        Error::new(ErrorKind::Media, message)
    }

    /// Why dirty data that cannot be read cannot be.
    pub(crate) fn why_lost(&self, volume: Option<VolumeIndex>) -> NoCopy {
        let away = self.ssds_away(volume);
        if away.is_empty() {
            return NoCopy::Unreadable;
        }
        let path = |(uuid, path): &(u128, String)| if path.is_empty() { format!("{uuid:032x}") } else { path.clone() };
        NoCopy::Away { ssds: away.iter().map(path).collect() }
    }

    /// See [`crate::Pool::ssds_awaited`].
    pub(crate) fn ssds_awaited(&self) -> Vec<(u128, String)> {
        let members = self.members.record();
        let is_away = |uuid: &u128| members.member(*uuid).is_none();
        let awaited: BTreeSet<u128> = self.state.losses.awaited().into_iter().filter(is_away).collect();
        self.with_paths(awaited)
    }

    /// The SSDs that are away with copies of what is set aside of a volume (of all: `None`): where they were last.
    pub(crate) fn ssds_away(&self, volume: Option<VolumeIndex>) -> Vec<(u128, String)> {
        let is_wanted = |row: &Rc<Row>| volume.map_or_else(|| row.dirty(), |volume| row.dirty_of(volume)) > 0;
        let rows: Vec<Rc<Row>> = self.state.rows_aside().into_iter().filter(is_wanted).collect();
        let copies = rows.iter().flat_map(|row| row.segments.iter().flatten()).map(MirrorCell::get);
        let away = copies.filter(|copy| !copy.is_there()).filter_map(Mirror::ssd_uuid);
        self.with_paths(away.collect())
    }

    fn with_paths(&self, ssds: BTreeSet<u128>) -> Vec<(u128, String)> {
        self.note_paths();
        ssds.into_iter().map(|uuid| (uuid, self.state.losses.path_of(uuid))).collect()
    }
}

/// Unavailable pages that are lost by an administrator's word, as they lay when the word was given. What becomes unavailable later, while
/// these are discarded, nobody has spoken of.
#[derive(Debug, Default)]
pub(crate) struct AcceptedLosses(BTreeMap<(VolumeIndex, u64), Place>);

impl AcceptedLosses {
    fn has(&self, live: &LivePage) -> bool {
        live.is_unavailable() && self.0.get(&(live.volume, live.page)) == Some(&live.place)
    }
}

/// A page that is unavailable has a copy.
fn is_back(row: &Row, live: &LivePage) -> bool {
    let (segment, _) = row.locate(live.place.position());
    live.is_unavailable() && row.mirrors(segment).next().is_some()
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;
    use hotset_block::{Device, HostDevice, HostEnv, PAGE_BYTES};

    use super::*;
    use crate::format::crc32c;
    use crate::format::layout::SUPERBLOCK_OFFSETS;
    use crate::log::Log;
    use crate::log::tests::{copy_on, open_row, row_aside, set_aside_while_moved};
    use crate::members::life::LifeChange;
    use crate::members::segments::Purpose;
    use crate::members::ssd::Fault;
    use crate::pool::open::tests::with_pool_and_state;
    use crate::reasons::OutOfUse;

    // proves: F7
    #[test]
    fn what_is_set_aside_while_a_host_flushes_is_not_durable_by_that() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let row = open_row(log, [Mirror::There(copy_on(log, 0, 3)), Mirror::Nowhere]);
            let ssd = log.members.ssd(SsdIndex(0));
            log.members.expel(ssd, OutOfUse::CameBack);
            ssd.change(LifeChange::LeftDurably);
            log.state.lose_copies_on(ssd.index);
            let lose = |page: u32| {
                let (volume, place, content) =
                    (VolumeIndex(0), Place::new(row.slot, page), Content::Data { checksum: 1 });
                let live = LivePage { volume, page: page.into(), place, content, dirty: true };
                log.state.supersede(&live);
                log.data_loss.lose_page(&live);
            };
            lose(1);
            let twin = log.state.aside_of(row.number).expect("a page of it is set aside");
            assert!(twin.is_unflushed());
            log.data_loss.flush_for_host(VolumeIndex(0)).await.expect("the SSDs that are left take it");
            assert!(!twin.is_unflushed());
            lose(2);
            assert!(twin.is_unflushed(), "one more page was set aside");

            let no_records = log.members.one_change().await;
            let meanwhile = async {
                // The list is about to be written.
                for _ in 0..100 {
                    pool.env.sleep(Duration::ZERO).await;
                }
                lose(3);
                drop(no_records);
            };
            let (flushed, ()) = join(log.data_loss.flush_for_host(VolumeIndex(0)), meanwhile).await;
            flushed.expect("the SSDs that are left take it");
            assert!(twin.is_unflushed(), "the last page came after the flush began");
        });
    }

    /// It takes no writes, and refused to flush what it has of the log.
    async fn refuse_flush(log: &Log<HostEnv>, ssd: &Ssd<HostEnv>) {
        let device = ssd.device().expect("it is in use");
        let HostDevice::Memory(memory) = &*device else { panic!("it lies in memory") };
        let held = memory.unplug();
        let page = log.env.buffers().take(PAGE_BYTES);
        let refused = ssd.write_durable(Purpose::Label, SUPERBLOCK_OFFSETS[0], page).await;
        let Err(Fault::Device(error)) = refused else { panic!("it is not there") };
        memory.plug(held);
        ssd.has_appended();
        ssd.is_only_read(&error);
        ssd.change(LifeChange::LeftDurably);
        assert!(ssd.may_lack_log());
    }

    // proves: F7
    #[test]
    fn what_another_volume_has_on_an_ssd_that_refused_to_flush_holds_up_no_flush() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let row = open_row(log, [Mirror::There(copy_on(log, 0, 3)), Mirror::Nowhere]);
            refuse_flush(log, log.members.ssd(SsdIndex(0))).await;
            log.state.lose_copies_on(SsdIndex(0));
            let lives = [0, 1].map(|volume| {
                let (place, content) = (Place::new(row.slot, 1 + u32::from(volume)), Content::Data { checksum: 1 });
                LivePage { volume: VolumeIndex(volume), page: 7, place, content, dirty: true }
            });
            for live in &lives {
                log.state.supersede(live);
                log.data_loss.lose_page(live);
            }
            let twin = log.state.aside_of(row.number).expect("pages of it are set aside");
            let set_clean = |live: &LivePage| {
                let place = Place::new(twin.slot, live.place.position());
                assert!(log.state.set_clean_at(live.volume, live.page, place));
            };
            let flush = |volume| within(&pool.env, Duration::from_secs(5), log.data_loss.flush_for_host(volume));
            set_clean(&lives[0]);
            flush(VolumeIndex(0)).await.expect("the other volume is not waited for").expect("two SSDs take it");
            assert!(twin.is_unflushed(), "the other volume has not flushed");
            set_clean(&lives[1]);
            flush(VolumeIndex(1)).await.expect("nothing is dirty").expect("two SSDs take it");
            assert!(!twin.is_unflushed());
        });
    }

    // proves: F7
    #[test]
    fn an_ssd_that_is_back_is_no_proof_of_what_it_refused_to_flush_before() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let (former, back) = (log.members.ssd(SsdIndex(0)), log.members.ssd(SsdIndex(1)));
            refuse_flush(log, former).await;
            log.mirrorer().read_from_newcomer(former, back);
            back.flush().await.expect("its device flushes again");
            assert!(back.may_lack_log(), "a later flush makes durable what the device may have dropped");
        });
    }

    // proves: F5
    #[test]
    fn a_list_that_no_row_record_asks_for_is_written_again() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            row_aside(log, 9, 4, 3);
            log.life.fence_first(|| Error::new(ErrorKind::Gone, "no majority"));
            log.data_loss.write_next_losses(|_| true).await.expect_err("no rows are recorded");
            assert!(log.state.list_is_behind());
        });
    }

    // proves: F5
    #[test]
    fn a_segment_that_another_row_has_by_now_is_no_copy_although_it_has_the_old_header_still() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let ssd = log.members.ssd(SsdIndex(0));
            let segment = ssd.segments.for_slots().last().expect("it has segments");
            let aside = row_aside(log, 9, ssd.uuid, segment);
            let mut header = log.env.buffers().take(PAGE_BYTES);
            aside.header(0).encode_into(&mut header);
            let device = ssd.device().expect("it is in use");
            device.write(ssd.layout.segment_offset(segment), header).await.1.expect("it takes writes");
            assert!(ssd.segments.set_log(segment, aside.incarnation + 1));
            log.data_loss.find_copies_on(ssd).await;
            assert!(!aside.has_copies());
        });
    }

    // proves: F5
    #[test]
    fn of_what_is_unavailable_what_a_copy_brings_after_all_is_not_accepted_as_lost() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let ssd = log.members.ssd(SsdIndex(0));
            let segment = ssd.segments.for_slots().last().expect("it has segments");
            let aside = row_aside(log, 9, ssd.uuid, segment);
            aside.segments[0][0].change(MirrorChange::Found(ssd.index));
            let (volume, zeroes) = (VolumeIndex(0), crc32c(&[0; PAGE_BYTES]));
            for (page, checksum) in [(1, zeroes), (2, zeroes + 1)] {
                let (place, content) = (Place::new(aside.slot, page), Content::Unavailable { checksum });
                log.state.supersede(&LivePage { volume, page: page.into(), place, content, dirty: true });
            }
            let mut accepted = AcceptedLosses::default();
            log.data_loss.accept(volume, &(0..9), &mut accepted).await;
            assert_eq!(accepted.0.into_keys().collect::<Vec<_>>(), [(volume, 2)]);
            assert_eq!(log.state.counts(volume).lost, 1);
        });
    }

    // proves: F5, F7
    #[test]
    fn what_is_just_being_moved_is_not_accepted_as_lost() {
        with_pool_and_state(&[1, 2, 3], async |pool| {
            let log = pool.log.as_ref().expect("a read-write pool has a log");
            let volume = log.ids.free_index();
            log.ids.attach(volume, 7);
            let moving = set_aside_while_moved(log, volume, 9);
            let mut accepted = AcceptedLosses::default();
            let ends = async { moving.completes(log) };
            join(log.data_loss.accept(volume, &(0..20), &mut accepted), ends).await;
            assert!(accepted.0.is_empty());
        });
    }

    // proves: F5
    #[test]
    fn what_becomes_unavailable_after_the_word_was_given_is_not_accepted() {
        let (volume, content) = (VolumeIndex(1), Content::Unavailable { checksum: 7 });
        let lost = LivePage { volume, page: 5, place: Place::new(2, 9), content, dirty: true };
        let accepted = AcceptedLosses(BTreeMap::from([((volume, 5), lost.place)]));
        assert!(accepted.has(&lost));
        for later in [
            LivePage { page: 6, ..lost },
            LivePage { volume: VolumeIndex(2), ..lost },
            LivePage { place: Place::new(2, 10), ..lost },
            LivePage { content: Content::Data { checksum: 7 }, ..lost },
        ] {
            assert!(!accepted.has(&later), "{later:?}");
        }
    }
}
