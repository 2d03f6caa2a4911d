//! A host's read: per page from the slot that holds it, else from the backing device; runs together, all at once.
//!
//! A slot's bytes go to a host only if the slot's header names this block in this generation, and every page has the
//! checksum that the header says (rule `checked-or-not-served`). A clean slot is only a copy: whatever is wrong with
//! it, the backing device answers.

use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, join_all, select};
use hotset_block::{Buf, BufPool, ByteRange, DeviceError, Env, PAGE_BYTES};

use crate::address::{BlockIndex, BlockKey, DETACHED, SlotIndex, VolumeIndex, bytes_of};
use crate::clean::fills::Request;
use crate::clean::grace::Epoch;
use crate::clean::slot_ssd::SlotSsd;
use crate::config::{PAGE, limits};
use crate::error::{Error, ErrorKind};
use crate::format::crc32c;
use crate::format::slot_header::SlotHeader;
use crate::log::read_log::LogRun;
use crate::members::io::add;
use crate::members::ssd::{Fault, is_gone};
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::volume::backing::HostsTurn;
use crate::volume::cleaner::joined;
use crate::volume::{Attached, VolumeInner};

/// Where consecutive pages of a request are.
enum Source {
    /// The slot, and the block that it holds.
    Slot(SlotIndex, BlockKey),
    Log(LogRun),
    Backing,
}

struct Run {
    source: Source,
    pages: Range<u64>,
}

impl Run {
    fn is_cached(&self) -> bool {
        !matches!(self.source, Source::Backing)
    }

    fn is_of_log(&self) -> bool {
        matches!(self.source, Source::Log(_))
    }
}

/// Where the pages of a request are.
enum Plan {
    /// All in one slot.
    Hit(SlotIndex, BlockKey),
    /// None in the cache.
    Miss,
    Mixed(Vec<Run>),
}

/// Where a request's bytes go.
pub(crate) enum Destination {
    /// A buffer of this engine's, taken when a device is about to fill it.
    Own,
    /// The caller's, of exactly the pages of the request.
    Given(Buf),
}

impl Destination {
    fn buf(self, buffers: &BufPool, bytes: usize) -> Buf {
        match self {
            Self::Own => buffers.take(bytes),
            Self::Given(buf) => {
                assert_eq!(buf.len(), bytes, "a given buffer holds the pages of its request and nothing else");
                buf
            }
        }
    }
}

/// A read of a slot: while it lives, the slot is not filled again.
struct Reading<'a, E: Env> {
    pool: &'a Rc<PoolInner<E>>,
    ssd: &'a Rc<SlotSsd<E>>,
    epoch: Epoch,
}

impl<E: Env> Drop for Reading<'_, E> {
    fn drop(&mut self) {
        if self.ssd.grace.end(self.epoch) {
            self.pool.collect_ready(self.ssd);
        }
    }
}

impl<E: Env> VolumeInner<E> {
    /// The newest bytes of `range`, which is valid and not empty. They are not in the destination's buffer if a device failed
    /// to fill it, and may still write to it.
    pub(crate) async fn read_range(self: &Rc<Self>, range: ByteRange, destination: Destination) -> Result<Buf, Error> {
        let Some(attached) = self.place()? else { return self.read_backing(range, destination).await };
        let pages = PoolInner::<E>::pages_of(range);
        let settings = self.spec.borrow().settings;
        let streaming =
            self.streams_past(range, &self.read_streams, settings.read_cutoff_bytes) || !settings.read_cache;
        match attached.pool.plan(attached.index, &pages) {
            Plan::Hit(slot, key) => {
                if let Some(buf) = attached.pool.read_slot(slot, key, &pages, &self.stats, destination).await {
                    add(&self.stats.read_hits, 1);
                    return Ok(within_pages(buf, &pages, range));
                }
                if planted(Planted::SsdErrorAnswered) {
                    return Err(Error::new(ErrorKind::Media, "the SSD failed"));
                }
                self.read_backing(range, Destination::Own).await
            }
            Plan::Mixed(runs) if !streaming || runs.iter().all(Run::is_cached) || runs.iter().any(Run::is_of_log) => {
                let counted = if streaming { Counted::No } else { Counted::Yes };
                self.read_runs(&attached, runs, &pages, range, counted, destination).await
            }
            Plan::Miss if !streaming => Box::pin(self.read_miss(&attached, &pages, range, destination)).await,
            Plan::Miss | Plan::Mixed(_) => {
                add(&self.stats.bypassed_reads, 1);
                self.read_backing(range, destination).await
            }
        }
    }

    /// A request of which nothing is in the cache. If its block is hot and can be filled now, the fill takes over what
    /// was read for the host.
    async fn read_miss(
        self: &Rc<Self>,
        attached: &Attached<E>,
        pages: &Range<u64>,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let pool = &attached.pool;
        let hot = pool.count_read(attached.index, std::iter::once(pages));
        let [key] = hot[..] else {
            for key in hot {
                pool.request_fill(key);
            }
            return self.read_missing(pool, pages, range, destination).await;
        };
        // Those that wait for their turn come first: they are filled in the order in which the disks read fastest.
        let now =
            pool.fills.queued() == 0 && pool.fills.may_begin(attached.index, pool.env.now()) && pool.may_start_fill();
        let begun = if now { pool.begin_fill(key) } else { None };
        let Some((fill, volume)) = begun else {
            pool.request_fill(key);
            return self.read_missing(pool, pages, range, destination).await;
        };
        let read = self.read_whole_pages(pages, destination.buf(self.env.buffers(), bytes_of(pages))).await;
        if let Ok(buf) = &read {
            let first = u64::from(key.block.0) * u64::from(pool.pages_per_block);
            let within = pages.start.max(first)..pages.end.min(first + u64::from(pool.pages_per_block));
            let offset = usize::try_from((within.start - pages.start) * PAGE).expect("a request fits in memory");
            let bytes = usize::try_from((within.end - within.start) * PAGE).expect("a request fits in memory");
            let copy = crate::members::records::to_buf(self.env.buffers(), &buf[offset..offset + bytes]);
            let first_page = u32::try_from(within.start - first).expect("a block has at most 1024 pages");
            fill.offered.borrow_mut().push((first_page, copy));
        }
        pool.spawn_fill(fill, volume);
        Ok(within_pages(read?, pages, range))
    }

    /// What the cache does not have: from the backing device, or from the fill of its block, if that comes first while
    /// the host waits for its turn.
    async fn read_missing(
        self: &Rc<Self>,
        pool: &PoolInner<E>,
        pages: &Range<u64>,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let (attached, slot, key) = {
            let mut turn = pin!(self.backing.hosts_turn(self.device_blocks(range).length()));
            loop {
                let filled = pool.fills.ended.wait();
                if let Either::Left((turn, _)) = select(turn.as_mut(), filled).await {
                    return self.read_in_turn(turn, range, destination).await;
                }
                // Another volume may have the place of this one in the pool by now.
                let Some(attached) = self.attached() else { continue };
                if let Plan::Hit(slot, key) = attached.pool.plan(attached.index, pages) {
                    break (attached, slot, key);
                }
            }
        };
        if let Some(buf) = attached.pool.read_slot(slot, key, pages, &self.stats, destination).await {
            add(&self.stats.read_hits, 1);
            return Ok(within_pages(buf, pages, range));
        }
        self.read_backing(range, Destination::Own).await
    }

    /// Reads run by run, all at once.
    async fn read_runs(
        self: &Rc<Self>,
        attached: &Attached<E>,
        runs: Vec<Run>,
        pages: &Range<u64>,
        range: ByteRange,
        counted: Counted,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let pool = &attached.pool;
        let all_cached = runs.iter().all(Run::is_cached);
        if !all_cached && counted == Counted::Yes {
            let missing = runs.iter().filter(|run| !run.is_cached()).map(|run| &run.pages);
            for key in pool.count_read(attached.index, missing) {
                pool.request_fill(key);
            }
        }
        let mut rest = destination.buf(self.env.buffers(), bytes_of(pages));
        let mut reads = Vec::new();
        for run in runs {
            let (part, next) = rest.split_at(bytes_of(&run.pages));
            rest = next;
            reads.push(self.read_run(attached, run, part));
        }
        let mut whole: Option<Buf> = None;
        for part in join_all(reads).await {
            let part = part?;
            whole = Some(match whole {
                None => part,
                Some(before) => joined(&self.env, before, part),
            });
        }
        add(&self.stats.read_hits, u64::from(all_cached && counted == Counted::Yes));
        Ok(within_pages(whole.expect("a request has pages"), pages, range))
    }

    /// The pages of one run. What a clean copy does not bring, the backing device does.
    async fn read_run(self: &Rc<Self>, attached: &Attached<E>, run: Run, part: Buf) -> Result<Buf, Error> {
        let length = part.len();
        match run.source {
            Source::Slot(slot, key) => {
                let key_pages = attached.pool.in_block(&run.pages);
                if let Some(part) = attached.pool.read_slot_into(slot, key, key_pages, part, &self.stats).await {
                    return Ok(part);
                }
            }
            Source::Log(log_run) => {
                if let Some(part) = attached.pool.read_run_of_log(&log_run, part).await {
                    return Ok(part);
                }
                if !log_run.clean {
                    // Its row may be freed.
                    drop(log_run);
                    return Box::pin(self.read_again(&run.pages)).await;
                }
            }
            Source::Backing => return self.read_whole_pages(&run.pages, part).await,
        }
        self.read_whole_pages(&run.pages, self.env.buffers().take(length)).await
    }

    /// Pages that were dirty, and that the log did not bring. Trying took its time: they may have been moved, cleaned or written
    /// since, each by itself.
    async fn read_again(self: &Rc<Self>, pages: &Range<u64>) -> Result<Buf, Error> {
        let mut whole = self.env.buffers().take(bytes_of(pages));
        for (page, chunk) in pages.clone().zip(whole.chunks_exact_mut(PAGE_BYTES)) {
            chunk.copy_from_slice(&self.read_page_again(page).await?);
        }
        Ok(whole)
    }

    /// A page is lost only if it is dirty, still where it was, no copy there is good, and hosts did not write it to the backing
    /// device as well.
    async fn read_page_again(self: &Rc<Self>, page: u64) -> Result<Buf, Error> {
        let pages = page..page + 1;
        // Another pool may have it by now, or none. Each turn has found it elsewhere.
        while let Some(attached) = self.place()? {
            let Some(log) = &attached.pool.log else { break };
            let Some(run) = log.runs(attached.index, pages.clone(), |_| true).pop() else { break };
            let buf = self.env.buffers().take(PAGE_BYTES);
            if let Some(bytes) = attached.pool.read_run_of_log(&run, buf).await {
                return Ok(bytes);
            }
            if log.overlay.borrow().get(attached.index, page) != Some(run.first) {
                continue;
            }
            if let Some(error) = attached.pool.life.fence() {
                // SSDs that are not asked any more may have it.
                return Err(error.clone());
            }
            if !run.clean && !attached.wrote_out(page, run.first.place) {
                return Err(attached.pool.unreadable_page(log, self, &run.first));
            }
            break;
        }
        // Its dirty data may have been given up meanwhile.
        self.check_not_fenced()?;
        self.read_whole_pages(&pages, self.env.buffers().take(PAGE_BYTES)).await
    }

    /// The newest bytes of whole pages, for a flow that holds them; not counted as a host's read.
    pub(crate) async fn read_newest(self: &Rc<Self>, attached: &Attached<E>, pages: &Range<u64>) -> Result<Buf, Error> {
        let whole = ByteRange { start: pages.start * PAGE, end: pages.end * PAGE };
        match attached.pool.plan(attached.index, pages) {
            Plan::Hit(slot, key) => {
                let run = Run { source: Source::Slot(slot, key), pages: pages.clone() };
                self.read_runs(attached, vec![run], pages, whole, Counted::No, Destination::Own).await
            }
            Plan::Mixed(runs) => self.read_runs(attached, runs, pages, whole, Counted::No, Destination::Own).await,
            Plan::Miss => self.read_whole_pages(pages, self.env.buffers().take(bytes_of(pages))).await,
        }
    }

    /// Whole pages from the backing device.
    pub(crate) async fn read_whole_pages(&self, pages: &Range<u64>, buf: Buf) -> Result<Buf, Error> {
        let read = async |offset, part| self.backing.read(offset, part).await;
        let (buf, result) = self.read_pages(pages.start * PAGE, buf, read).await;
        result.map(|()| buf)
    }

    /// Reads pages by `read`; what of them lies behind the end of the volume is zero.
    pub(crate) async fn read_pages(
        &self,
        offset: u64,
        buf: Buf,
        read: impl AsyncFn(u64, Buf) -> (Buf, Result<(), Error>),
    ) -> (Buf, Result<(), Error>) {
        let inside = self.size_bytes.get().saturating_sub(offset);
        let Some(inside) = usize::try_from(inside).ok().filter(|inside| *inside < buf.len()) else {
            return read(offset, buf).await;
        };
        let (buf, mut behind) = buf.split_at(inside);
        behind.fill(0);
        let (buf, result) = read(offset, buf).await;
        (buf.join(behind), result)
    }

    /// Exactly `range` from the backing device, in the device's blocks.
    pub(crate) async fn read_backing(&self, range: ByteRange, destination: Destination) -> Result<Buf, Error> {
        let turn = self.backing.hosts_turn(self.device_blocks(range).length()).await;
        self.read_in_turn(turn, range, destination).await
    }

    async fn read_in_turn(
        &self,
        turn: HostsTurn<'_, E>,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let wide = self.device_blocks(range);
        let bytes = usize::try_from(wide.length()).expect("a request fits in memory");
        let buf = destination.buf(self.env.buffers(), bytes);
        let (buf, result) = turn.read(wide.start, buf).await;
        result?;
        let skip = usize::try_from(range.start - wide.start).expect("less than a block");
        Ok(buf.narrow(skip, usize::try_from(range.length()).expect("a request fits in memory")))
    }

    /// The blocks of the backing device that `range` touches.
    pub(crate) fn device_blocks(&self, range: ByteRange) -> ByteRange {
        self.backing.blocks_of(range)
    }
}

/// The request's part of a buffer of whole pages.
fn within_pages(buf: Buf, pages: &Range<u64>, range: ByteRange) -> Buf {
    let skip = usize::try_from(range.start - pages.start * PAGE).expect("less than a page");
    buf.narrow(skip, usize::try_from(range.length()).expect("a request fits in memory"))
}

impl<E: Env> PoolInner<E> {
    /// Finds where pages are now, and tells the policy what is hit.
    fn plan(&self, volume: VolumeIndex, pages: &Range<u64>) -> Plan {
        let per_block = u64::from(self.pages_per_block);
        let live = self.log.as_ref().is_some_and(|log| log.overlay.borrow().first_in(volume, pages).is_some());
        if pages.start / per_block == (pages.end - 1) / per_block && !live {
            let block = BlockIndex(u32::try_from(pages.start / per_block).expect("volumes are checked at attach"));
            let within = self.in_block(pages);
            let mut map = self.map.borrow_mut();
            let key = BlockKey { volume, block };
            let Some(slot) = map.find(key) else { return Plan::Miss };
            let length = within.end - within.start;
            if map.valid_run(slot, within.start, length) == (true, length) && self.is_readable(slot) {
                self.policy.borrow_mut().touched(&mut map, slot);
                return Plan::Hit(slot, key);
            }
        }
        self.plan_runs(volume, pages)
    }

    /// Log over slot over backing device.
    fn plan_runs(&self, volume: VolumeIndex, pages: &Range<u64>) -> Plan {
        let mut runs: Vec<Run> = Vec::new();
        let mut start = pages.start;
        for live in self.log.iter().flat_map(|log| log.runs(volume, pages.clone(), |_| true)) {
            if start < live.pages.start {
                self.plan_clean_runs(&mut runs, volume, start..live.pages.start);
            }
            start = live.pages.end;
            runs.push(Run { pages: live.pages.clone(), source: Source::Log(live) });
        }
        if start < pages.end {
            self.plan_clean_runs(&mut runs, volume, start..pages.end);
        }
        if runs.iter().any(Run::is_cached) { Plan::Mixed(runs) } else { Plan::Miss }
    }

    /// Of pages that have no live copy in the log.
    fn plan_clean_runs(&self, runs: &mut Vec<Run>, volume: VolumeIndex, pages: Range<u64>) {
        let mut map = self.map.borrow_mut();
        for (block, within) in self.blocks_of(pages) {
            let first = u64::from(block.0) * u64::from(self.pages_per_block);
            let key = BlockKey { volume, block };
            let slot = map.find(key).filter(|slot| self.is_readable(*slot));
            let mut page = within.start;
            while page < within.end {
                let (valid, length) =
                    slot.map_or((false, within.end - page), |slot| map.valid_run(slot, page, within.end - page));
                let pages = first + u64::from(page)..first + u64::from(page + length);
                let source = match slot {
                    Some(slot) if valid => Source::Slot(slot, key),
                    Some(_) | None => Source::Backing,
                };
                push_run(runs, Run { source, pages });
                page += length;
            }
            if let Some(slot) = slot {
                self.policy.borrow_mut().touched(&mut map, slot);
            }
        }
    }

    fn is_readable(&self, slot: SlotIndex) -> bool {
        self.ssd_of(slot).life().may_be_read()
    }

    /// The pages' places in their block; they are all in one.
    pub(crate) fn in_block(&self, pages: &Range<u64>) -> Range<u32> {
        let first = pages.start / u64::from(self.pages_per_block) * u64::from(self.pages_per_block);
        let small = |page: u64| u32::try_from(page - first).expect("a block has at most 1024 pages");
        small(pages.start)..small(pages.end)
    }

    /// Counts a read that missed these pages, once for each block; answers the blocks that are hot now.
    fn count_read<'a>(&self, volume: VolumeIndex, missing: impl Iterator<Item = &'a Range<u64>>) -> Vec<BlockKey> {
        let threshold = self.settings.get().populate_on_read;
        let mut counters = self.counters.borrow_mut();
        let mut counted = None;
        let mut hot = Vec::new();
        for (block, _) in missing.flat_map(|pages| self.blocks_of(pages.clone())) {
            let key = BlockKey { volume, block };
            if counted.replace(key) != Some(key) && counters.count_read(key) >= threshold {
                hot.push(key);
            }
        }
        hot
    }

    /// Pages of one slot, checked; `None` if the slot does not bring them.
    async fn read_slot(
        self: &Rc<Self>,
        slot: SlotIndex,
        key: BlockKey,
        pages: &Range<u64>,
        stats: &crate::volume::Stats,
        destination: Destination,
    ) -> Option<Buf> {
        let buf = destination.buf(self.env.buffers(), bytes_of(pages));
        self.read_slot_into(slot, key, self.in_block(pages), buf, stats).await
    }

    async fn read_slot_into(
        self: &Rc<Self>,
        slot: SlotIndex,
        key: BlockKey,
        pages: Range<u32>,
        buf: Buf,
        stats: &crate::volume::Stats,
    ) -> Option<Buf> {
        let ssd = self.ssd_of(slot);
        let _reading = Reading { pool: self, ssd, epoch: ssd.grace.begin() };
        let (holds, loaded) = {
            let map = self.map.borrow();
            (map.key(slot), map.header_loaded(slot))
        };
        if holds != Some(key) {
            return None;
        }
        match if loaded { Header::Confirmed } else { Box::pin(self.load_header(ssd, slot, key)).await } {
            Header::Confirmed => {}
            Header::Wrong => {
                add(&stats.read_errors_hidden, 1);
                return None;
            }
            Header::Superseded => return None,
        }
        let offset =
            ssd.layout.slot_offset(ssd.local(slot)) + ssd.layout.header_bytes() + u64::from(pages.start) * PAGE;
        let error = match ssd.read_clean(offset, buf).await {
            Ok(buf) if self.checksums_match(slot, pages.start, &buf) => return Some(buf),
            Ok(_) => None,
            Err(Fault::Offline) => return None,
            Err(Fault::Device(error)) => Some(error),
        };
        add(&stats.read_errors_hidden, 1);
        self.count_read_error(ssd, error.as_ref());
        self.hide_bad_pages(slot, key, &pages);
        None
    }

    /// For a scrub: reads pages of a slot that holds this block, and takes those that are bad out of the cache. Answers how
    /// many they were.
    pub(crate) async fn check_slot(self: &Rc<Self>, slot: SlotIndex, key: BlockKey, pages: &Range<u32>) -> u64 {
        let ssd = self.ssd_of(slot);
        let _reading = Reading { pool: self, ssd, epoch: ssd.grace.begin() };
        if self.map.borrow().key(slot) != Some(key) {
            return 0;
        }
        let mut bad = 0;
        let at =
            |page: u32| ssd.layout.slot_offset(ssd.local(slot)) + ssd.layout.header_bytes() + u64::from(page) * PAGE;
        let buf = self.env.buffers().take(bytes_of(&(u64::from(pages.start)..u64::from(pages.end))));
        if ssd.read(at(pages.start), buf).await.is_ok_and(|buf| self.checksums_match(slot, pages.start, &buf)) {
            return 0;
        }
        for page in pages.clone() {
            let error = match ssd.read(at(page), self.env.buffers().take(PAGE_BYTES)).await {
                Ok(buf) if self.checksums_match(slot, page, &buf) => continue,
                Ok(_) => None,
                Err(Fault::Offline) => return bad,
                Err(Fault::Device(error)) => Some(error),
            };
            bad += 1;
            self.count_read_error(ssd, error.as_ref());
            self.hide_bad_pages(slot, key, &(page..page + 1));
        }
        bad
    }

    /// For a scrub: reads a slot's header again.
    pub(crate) async fn check_header(self: &Rc<Self>, slot: SlotIndex, key: BlockKey) -> Header {
        let ssd = self.ssd_of(slot);
        let _reading = Reading { pool: self, ssd, epoch: ssd.grace.begin() };
        if self.map.borrow().key(slot) != Some(key) {
            return Header::Superseded;
        }
        self.load_header(ssd, slot, key).await
    }

    /// An SSD brought nothing (`error`), or bytes that are not what was stored: too often, and it leaves.
    fn count_read_error(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>, error: Option<&DeviceError>) {
        let errors = ssd.has_misread();
        match error {
            Some(error) if is_gone(error) => self.members.expel(&ssd.ssd, &format!("{error}")),
            Some(_) | None if errors > limits::SSD_READ_ERRORS_MAX => {
                self.members.expel(&ssd.ssd, &format!("{} of its reads failed or brought wrong bytes", errors));
            }
            Some(_) | None => {}
        }
    }

    /// What the slot holds there is bad: it leaves the cache, if the slot still holds this block.
    fn hide_bad_pages(self: &Rc<Self>, slot: SlotIndex, key: BlockKey, pages: &Range<u32>) {
        if self.map.borrow().find(key) == Some(slot) {
            self.hide_slot_pages(slot, key, pages);
        }
    }

    fn checksums_match(&self, slot: SlotIndex, first_page: u32, bytes: &[u8]) -> bool {
        if planted(Planted::ChecksumNotChecked) {
            return true;
        }
        let map = self.map.borrow();
        let Some(checksums) = map.checksums(slot) else { return true };
        let expected = &checksums[usize::try_from(first_page).expect("what lies in memory has an address")..];
        bytes.chunks_exact(PAGE_BYTES).zip(expected).all(|(page, checksum)| crc32c(page) == *checksum)
    }

    /// Reads the slot's header, which confirms whose block it holds and brings the checksums.
    async fn load_header(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>, slot: SlotIndex, key: BlockKey) -> Header {
        let local = ssd.local(slot);
        let buf = self.env.buffers().take(usize::try_from(ssd.layout.header_bytes()).expect("a few pages"));
        let read = ssd.read_clean(ssd.layout.slot_offset(local), buf).await;
        // A volume that is leaving the pool has no id any more, and its slots are about to be free.
        let leaving = self.attachment_of(key.volume).is_none_or(|attachment| attachment == DETACHED);
        if leaving || self.map.borrow().find(key) != Some(slot) {
            return Header::Superseded;
        }
        let confirmed = match &read {
            Ok(bytes) => SlotHeader::decode(bytes).ok().filter(|header| self.confirms(header, ssd, slot, key)),
            Err(_) => None,
        };
        if let Some(header) = confirmed {
            let mut map = self.map.borrow_mut();
            if self.settings.get().checksums {
                map.set_checksums(slot, 0, &header.checksums);
            }
            map.set_header_loaded(slot, true);
            return Header::Confirmed;
        }
        let error = match &read {
            Err(Fault::Offline) => return Header::Superseded,
            Err(Fault::Device(error)) => Some(error),
            Ok(_) => None,
        };
        self.count_read_error(ssd, error);
        if ssd.is_online() {
            self.free_slot(slot, crate::clean::invalidate::Why::Emptied);
        }
        Header::Wrong
    }

    fn confirms(&self, header: &SlotHeader, ssd: &SlotSsd<E>, slot: SlotIndex, key: BlockKey) -> bool {
        let address = self.attachment_of(key.volume) == Some(header.attachment)
            && header.block == u64::from(key.block.0)
            && header.slot == ssd.local(slot);
        let generation =
            header.generation == self.map.borrow().generation(slot) && header.incarnation == ssd.incarnation.get();
        let pages = usize::try_from(self.pages_per_block).expect("what lies in memory has an address");
        let checksums = !self.settings.get().checksums || header.checksums.len() == pages;
        (address || planted(Planted::HeaderNotChecked))
            && (generation || planted(Planted::HeaderNotChecked) || planted(Planted::GenerationNotChecked))
            && checksums
    }

    /// Fills a block because the client asks for it (NBD's `CACHE`); returns when it is there, or cannot be.
    pub(crate) async fn populate_block(self: &Rc<Self>, key: BlockKey) {
        if self.request_fill(key) == Request::Refused {
            return;
        }
        while self.fills.is_known(key) && !self.life.is_stopping() {
            self.fills.ended.wait().await;
        }
    }
}

/// What a slot's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// The slot holds the block.
    Confirmed,
    /// Nothing good: the slot has left the cache.
    Wrong,
    /// Nobody wants to know any more: the slot has another block by now, or none, or its SSD is gone.
    Superseded,
}

/// Appends a run, or lengthens the last one.
fn push_run(runs: &mut Vec<Run>, run: Run) {
    let Some(last) = runs.last_mut().filter(|last| last.pages.end == run.pages.start) else {
        runs.push(run);
        return;
    };
    let same = match (&last.source, &run.source) {
        (Source::Backing, Source::Backing) => true,
        (Source::Slot(slot, key), Source::Slot(other, other_key)) => (slot, key) == (other, other_key),
        (Source::Slot(..) | Source::Log(_) | Source::Backing, _) => false,
    };
    if same {
        last.pages.end = run.pages.end;
    } else {
        runs.push(run);
    }
}

/// Whether a read counts as a host's, for hits and for populating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Yes,
    No,
}
