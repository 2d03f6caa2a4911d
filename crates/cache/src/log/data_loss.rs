//! The last copy of something leaves with its SSD while the pool runs (REQUIREMENTS F5): the pages that only it held are
//! unavailable from then on, durably: they answer errors until an SSD with a copy is back (`set_aside.rs`), a host writes them,
//! or they are given up; everything else goes on.
//!
//! What is unavailable is put on record in the state directory before the SSD leaves: which pages, by row, and where they lie. A
//! row record says that both copies of a segment are gone only together with the number of that record and the attachments that
//! it names; a start that cannot find it knows whom it concerns, and not what: those volumes are fenced until that is accepted.
//! The record's entries count like entries of the rows, as their newest.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::{Buf, ByteRange, Env};

use crate::address::{SsdIndex, VolumeIndex, at, bytes_of, pages_of};
use crate::config::{PAGE, VolumeName};
use crate::error::{Error, ErrorKind};
use crate::format::losses::{AsidePage, AsidePages, AsideRow, AsideSegment, Group, Loss, Losses};
use crate::format::record::{HEADER_BYTES, LOSSES_AREA_BYTES, RecordKind};
use crate::log::append::has_lost_segment;
use crate::log::overlay::{Content, Live, PAGES_MAX};
use crate::log::write_log::{Append, Body, Log, Mirror, Row};
use crate::members::ssd::Ssd;
use crate::pool::PoolInner;
use crate::volume::{Attached, VolumeInner};

/// Pages that are given up in one piece.
const ACCEPT_PAGES: u64 = 64;

impl<E: Env> PoolInner<E> {
    /// Before an SSD leaves: what only it holds is lost, and that is put on record. `Err`: it cannot be, so the SSD must not
    /// leave, for nobody would know afterwards that anything is missing.
    pub(crate) async fn account_for_loss(self: &Rc<Self>, ssd: &Ssd<E>) -> Result<(), Error> {
        let Some(log) = &self.log else { return Ok(()) };
        self.take_away(log, ssd);
        let no_rows_recorded = self.members.one_change().await;
        // A row of which nobody was told anything yet counts too: a start would ask for the SSDs that its record names.
        let loses = log.rows_live().iter().any(|row| is_lost_without(row, ssd.index));
        if !loses {
            drop(no_rows_recorded);
            // A start would ask for the SSDs of rows that the record names, also where there is nothing in them.
            return if log.record_names_dropped.get() { self.record_rows(log).await } else { Ok(()) };
        }
        self.check_losses_fit(log, ssd)?;
        // From here on rows demand a losses record that does not exist yet: they are not recorded before it does.
        log.losses_number.set(log.losses_number.get() + 1);
        for row in log.rows_live() {
            for cell in row.segments.iter().flatten().filter(|cell| cell.get().ssd == Some(ssd.index)) {
                cell.set(Mirror { ssd: None, ..cell.get() });
            }
        }
        self.count_openable(log);
        self.show_losses(log);
        self.note_concerned(log);
        // Taken now: what is written over a lost page meanwhile may be lost, too, for nobody has flushed it.
        let losses = self.losses(log, None);
        log.rows_aside().iter().for_each(|row| row.list_is_behind.set(false));
        // What superseded pages that lay there must not be forgotten either: then older copies would be the newest.
        self.flush_ssds().await;
        self.write_losses(log.losses_number.get(), &losses).await?;
        drop(no_rows_recorded);
        self.record_rows(log).await
    }

    async fn flush_ssds(self: &Rc<Self>) {
        // Also of those that take no writes: what is set aside there is not lost with their power then.
        let flushes = self.members.ssds().filter(|ssd| ssd.life().is_readable()).map(async |ssd| {
            if let Err(fault) = ssd.flush().await {
                self.members.ssd_failed(ssd, &fault);
            }
        });
        join_all(flushes).await;
    }

    fn check_losses_fit(&self, log: &Log, ssd: &Ssd<E>) -> Result<(), Error> {
        let room = self.members.state().keeps_losses();
        let bytes = self.losses(log, Some(ssd.index)).encode().len() + HEADER_BYTES;
        if room && u64::try_from(bytes).is_ok_and(|bytes| bytes <= LOSSES_AREA_BYTES - PAGE) {
            return Ok(());
        }
        let message = format!(
            "pool {}: SSD {} failed ({}) and has the only copy of dirty data, more than the state directory has room to \
             name: no more writes are taken; see to the SSD, then restart",
            self.name,
            ssd.path,
            ssd.reason()
        );
        Err(Error::new(ErrorKind::Gone, message))
    }

    /// Live pages in segments of which no copy is left, `without` an SSD that is about to leave; and what is set aside.
    fn lost_pages(&self, log: &Log, without: Option<SsdIndex>) -> Vec<(Rc<Row>, Live)> {
        let is_gone = |mirror: &Cell<Mirror>| mirror.get().ssd.is_none_or(|ssd| Some(ssd) == without);
        let lacks = |row: &Rc<Row>| row.live.get() > 0 && row.segments.iter().any(|pair| pair.iter().all(is_gone));
        let rows: BTreeMap<u32, Rc<Row>> =
            log.rows_live().into_iter().filter(lacks).map(|row| (row.slot, row)).collect();
        let overlay = log.overlay.borrow();
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
        for row in log.rows_aside() {
            let listed = row.listed().into_iter().filter_map(|(volume, page)| overlay.get(volume, page));
            lost.extend(listed.map(|live| (Rc::clone(&row), live)));
        }
        lost
    }

    /// From here on lost pages say so. Without any SSD nothing older can come back: what is clean needs no word.
    fn show_losses(self: &Rc<Self>, log: &Log) {
        self.exempt_written_through(log);
        let nothing_left = self.members.online_ssds().next().is_none();
        for (row, live) in self.lost_pages(log, None) {
            if row.is_aside() {
                continue;
            }
            row.intact.set(false);
            match (live.dirty, live.content) {
                (false, _) if nothing_left => log.remove_at(live.volume, live.page, live.place),
                (false, Content::Data { .. }) => drop(log.set(&Live { content: Content::Lost, ..live })),
                (true, Content::Data { .. }) => self.lose_page(log, &live),
                (_, Content::Zeroes | Content::Lost | Content::Unavailable { .. }) => {}
            }
        }
        for row in log.rows_live().iter().filter(|row| has_lost_segment(row)) {
            row.intact.set(false);
        }
    }

    /// What hosts' own writes took to their backing device as well is there, although the log said that it is dirty: those that
    /// were told of it are told the truth. From here on hosts' flushes make it durable there.
    fn exempt_written_through(self: &Rc<Self>, log: &Log) {
        for (index, volume) in self.attached_volumes() {
            let Some(attached) = volume.attached_at(self, index) else { continue };
            let mut spared = false;
            for (_, run) in attached.written_out.borrow().iter().filter(|(_, run)| run.lives(log)) {
                for (page, place) in run.places() {
                    let (segment, _) = run.row().locate(place.position());
                    if run.row().mirrors(segment).next().is_none() {
                        spared |= log.set_clean_at(index, page, place);
                    }
                }
            }
            if spared {
                volume.backing.count_as_around();
            }
        }
    }

    /// What is to be recorded.
    fn losses(&self, log: &Log, without: Option<SsdIndex>) -> Losses {
        self.losses_of(log, self.lost_pages(log, without), |_| false)
    }

    /// The losses of these pages, of which those are clean that are mended. What is clean where nothing older is left needs no word.
    fn losses_of(&self, log: &Log, mut lost: Vec<(Rc<Row>, Live)>, is_mended: impl Fn(&Live) -> bool) -> Losses {
        lost.sort_by_key(|(_, live)| (live.volume, live.page));
        let mut groups: BTreeMap<(u64, u64, Loss), Vec<Range<u64>>> = BTreeMap::new();
        let mut rows: BTreeMap<u64, AsideRow> = BTreeMap::new();
        for (row, live) in lost {
            let Some(attachment) = self.ids.of(live.volume) else { continue };
            let what = match (live.dirty && !is_mended(&live), live.content) {
                (false, _) if row.is_aside() && nothing_is_older(log, &row) => continue,
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
        self.note_paths(log);
        losses.ssds = log.paths_away.borrow().iter().map(|(uuid, path)| (*uuid, path.clone())).collect();
        losses.ssds.retain(|(uuid, _)| losses.rows.iter().any(|row| row.names(*uuid)));
        losses
    }

    /// Remembers where the pool's SSDs are: they may be away next time.
    pub(super) fn note_paths(&self, log: &Log) {
        let mut paths = log.paths_away.borrow_mut();
        paths.extend(self.members.ssds().map(|ssd| (ssd.uuid, ssd.path.clone())));
    }

    /// From here on row records name who lost something: never fewer than the losses record does.
    fn note_concerned(&self, log: &Log) {
        let mut with_loss = log.with_loss.borrow_mut();
        with_loss.extend(self.losses(log, None).attachments());
        with_loss.sort_unstable();
        with_loss.dedup();
        with_loss.retain(|attachment| self.ids.index_of(*attachment).is_some());
    }

    /// Writes the losses record; durable when this answers.
    async fn write_losses(self: &Rc<Self>, number: u64, losses: &Losses) -> Result<(), Error> {
        let payload = losses.encode();
        if self.members.state().write_only(RecordKind::Losses, number, payload).await {
            return Ok(());
        }
        let message = format!(
            "pool {}: what was lost with an SSD cannot be recorded in the state directory: see to that, then restart",
            self.name
        );
        Err(Error::new(ErrorKind::Gone, message))
    }

    /// Writes the losses as they are now, but for pages of which nothing is missing any more, as the next record: no rows are
    /// recorded that ask for it before it is there.
    pub(crate) async fn write_next_losses(
        self: &Rc<Self>,
        log: &Log,
        is_mended: impl Fn(&Live) -> bool,
    ) -> Result<(), Error> {
        let _no_rows_recorded = self.members.one_change().await;
        let number = log.losses_number.get() + 1;
        let losses = self.losses_of(log, self.lost_pages(log, None), is_mended);
        // What goes on meanwhile is for the next one.
        let aside = log.rows_aside();
        aside.iter().for_each(|row| row.list_is_behind.set(false));
        // What it leaves out was written again, on SSDs.
        self.flush_ssds().await;
        if let Err(error) = self.write_losses(number, &losses).await {
            aside.iter().for_each(|row| row.list_is_behind.set(true));
            return Err(error);
        }
        // Where it cannot be written, the one before it says more than is lost; nothing asks for one that is nowhere.
        log.losses_number.set(number);
        Ok(())
    }

    /// What is lost of each volume, in rising order, some extents of each at most.
    pub(crate) fn lost_extents(&self, extents_max: usize) -> Vec<(VolumeName, Vec<ByteRange>)> {
        let Some(log) = &self.log else { return Vec::new() };
        let mut all = Vec::new();
        for volume in &self.attachments.catalogue().volumes {
            let Some(index) = self.ids.index_of(volume.attachment).filter(|index| log.counts(*index).lost > 0) else {
                continue;
            };
            let overlay = log.overlay.borrow();
            let mut extents: Vec<ByteRange> = Vec::new();
            for live in overlay.range(index, 0..PAGES_MAX).filter(Live::is_lost) {
                let (start, end) = (live.page * PAGE, (live.page + 1) * PAGE);
                let full = extents.len() == extents_max;
                match extents.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    Some(_) if full => break,
                    Some(_) | None => extents.push(ByteRange { start, end }),
                }
            }
            all.push((volume.spec.name.clone(), extents));
        }
        all
    }

    /// Why a volume is not to be served although its backing device is the right one: it lost nobody knows what.
    pub(crate) fn unknown_loss(&self, attachment: u64) -> Option<String> {
        let lost = self.log.as_ref().is_some_and(|log| log.with_unknown_loss.borrow().contains(&attachment));
        lost.then(|| {
            "SSDs were lost with dirty data of this volume, and the record of what it was is gone from the state \
                 directory: any of it may be older than what hosts wrote last, so the volume serves nothing. Bring back the \
                 state directory as it was and restart, or accept the loss, which goes on with what is left"
                .to_owned()
        })
    }

    /// What was lost and nobody knows is given up, durably: volumes that are fenced for it may be reattached.
    pub(crate) async fn accept_unknown(self: &Rc<Self>) -> Result<(), Error> {
        let Some(log) = self.log.as_ref().filter(|log| !log.with_unknown_loss.borrow().is_empty()) else {
            return Ok(());
        };
        let _one_at_a_time = log.losses_lock.acquire(1).await;
        // The record that the rows ask for from here on says what is known to be lost.
        self.write_next_losses(log, |_| false).await?;
        let unknown = log.with_unknown_loss.take();
        let recorded = self.record_rows(log).await;
        if recorded.is_err() {
            *log.with_unknown_loss.borrow_mut() = unknown;
        }
        recorded
    }

    /// Gives up what is lost: it is from now on what the backing devices hold. Answers the bytes. Fenced volumes are left
    /// as they are; those that are fenced because nobody knows what they lost may be reattached then.
    pub(crate) async fn accept_loss(self: &Rc<Self>) -> Result<u64, Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        let Some(log) = &self.log else { return Ok(0) };
        self.accept_unknown().await?;
        let mut bytes = self.accept_unavailable(log).await?;
        for (index, volume) in self.attached_volumes() {
            let Some(attached) = volume.attached().filter(|_| volume.fenced.borrow().is_none()) else { continue };
            let mut from = 0;
            while let Some(pages) = next_lost(log, index, from) {
                from = pages.end;
                let _held = volume.in_time(volume.locks.exclusive(pages.clone())).await?;
                // A host may have been faster.
                if next_lost(log, index, pages.start) != Some(pages.clone()) {
                    from = pages.start;
                    continue;
                }
                let read = volume.read_whole_pages(&pages, self.env.buffers().take(bytes_of(&pages)));
                let data = volume.in_time(read).await??;
                volume.overwrite(&attached, log, &pages, data).await?;
                bytes += (pages.end - pages.start) * PAGE;
            }
        }
        Ok(bytes)
    }
}

/// Some pages from `from` on that are lost and follow each other.
fn next_lost(log: &Log, volume: VolumeIndex, from: u64) -> Option<Range<u64>> {
    let overlay = log.overlay.borrow();
    if overlay.counts(volume).lost == 0 {
        return None;
    }
    let mut lost = overlay.range(volume, from..PAGES_MAX).filter(|live| live.dirty && live.content == Content::Lost);
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

/// A segment of the row has no copy but on this SSD, if on any.
fn is_lost_without(row: &Row, ssd: SsdIndex) -> bool {
    let on_it = |mirror: Mirror| mirror.ssd == Some(ssd);
    row.segments.iter().any(|pair| {
        let pair = [pair[0].get(), pair[1].get()];
        pair.into_iter().any(on_it) && pair.into_iter().all(|mirror| mirror.ssd.is_none() || on_it(mirror))
    })
}

impl<E: Env> VolumeInner<E> {
    /// Pages with a live copy get another content, wherever that goes now. The caller holds them.
    async fn overwrite(
        self: &Rc<Self>,
        attached: &Attached<E>,
        log: &Rc<Log>,
        pages: &Range<u64>,
        data: Buf,
    ) -> Result<(), Error> {
        if attached.pool.members.online_ssds().next().is_none() {
            return self.replace_lost(attached, log, pages, data).await;
        }
        while !log.has_room(pages.end - pages.start) {
            attached.pool.check_log_serves(log, self)?;
            log.mover_wanted.wake_all();
            log.room.wait().await;
        }
        self.append(attached, log, pages, data).await
    }

    /// A host's write where pages have live copies and no SSD is left. The caller holds them.
    pub(crate) async fn write_without_ssds(
        self: &Rc<Self>,
        attached: &Attached<E>,
        log: &Rc<Log>,
        range: ByteRange,
        buf: Buf,
    ) -> Result<(), Error> {
        let pages = pages_of(range);
        let data = if range.is_aligned_to(PAGE) { buf } else { self.whole_pages(attached, range, buf).await? };
        self.replace_lost(attached, log, &pages, data).await
    }

    async fn store_past_the_log(self: &Rc<Self>, log: &Rc<Log>, pages: Range<u64>, body: Body) -> Result<(), Error> {
        let gone = || Error::new(ErrorKind::Stopping, "the volume has left its pool");
        let attached = self.attached().ok_or_else(gone)?;
        attached.pool.life.check_open()?;
        if let Body::Data(data) = body {
            return self.replace_lost(&attached, log, &pages, data).await;
        }
        let mut page = pages.start;
        while page < pages.end {
            let some = page..pages.end.min(page + ACCEPT_PAGES);
            let zeroes = self.env.buffers().take_zeroed(bytes_of(&some));
            self.replace_lost(&attached, log, &some, zeroes).await?;
            page = some.end;
        }
        Ok(())
    }

    /// Writes whole pages to the backing device, durably; only then nothing is missing of them any more, durably too.
    pub(crate) async fn replace_lost(
        self: &Rc<Self>,
        attached: &Attached<E>,
        log: &Rc<Log>,
        pages: &Range<u64>,
        data: Buf,
    ) -> Result<(), Error> {
        let range = self.bytes_of_pages(pages);
        let length = usize::try_from(range.length()).expect("a request fits in memory");
        // As long as a record has an SSD as a member, a start may believe what it holds of these pages.
        for ssd in attached.pool.members.ssds().filter(|ssd| !ssd.is_online()) {
            attached.pool.until_left(ssd).await;
        }
        attached.pool.life.check_open()?;
        let _not_cleaned = self.invalidate_before_write(Some(attached), range).await?;
        self.write_backing(range, data.narrow(0, length)).await?;
        self.backing.flush().await?;
        attached.pool.take_off_list(log, attached.index, pages).await
    }
}

impl<E: Env> PoolInner<E> {
    /// What a host wrote just when the last SSD went: whoever waits for it holds its pages.
    pub(crate) async fn redirect_to_backing(self: Rc<Self>, log: &Rc<Log>, append: Append) {
        // What is lost is on record first: this makes it less.
        for ssd in self.members.ssds().filter(|ssd| !ssd.is_online()) {
            self.until_left(ssd).await;
        }
        let pages = append.pages();
        let outcome = match self.attached_volume(append.volume) {
            Some((volume, attachment)) if attachment == append.attachment => {
                volume.store_past_the_log(log, pages, append.body).await
            }
            Some(_) | None => Err(Error::new(ErrorKind::Stopping, "the volume has left its pool")),
        };
        append.done.set(outcome);
    }
}

/// No row of the log is older: what is superseded here does not come back.
pub(crate) fn nothing_is_older(log: &Log, row: &Row) -> bool {
    log.oldest().is_none_or(|oldest| oldest.number > row.number)
}

/// A row of which nothing is listed yet.
fn unlisted(row: &Row) -> AsideRow {
    let Row { number, incarnation, segment_pages, .. } = *row;
    AsideRow { number, incarnation, segment_pages, segments: Vec::new(), volumes: Vec::new() }
}

/// Pages come in rising order of volumes and pages.
fn list_page(listed: &mut AsideRow, row: &Row, attachment: u64, live: &Live, checksum: u32) {
    let (position, _) = row.locate(live.place.position());
    let copies = row.segments[at(position)].each_ref().map(|mirror| (mirror.get().ssd_uuid, mirror.get().segment));
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
