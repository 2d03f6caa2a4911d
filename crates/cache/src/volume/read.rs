//! A host's read: per page from the log or the slot that holds it, else from the backing device; runs together, all at once.
//!
//! A clean slot is only a copy: whatever is wrong with it (`clean/read_slot.rs`), the backing device answers. The memory cache is asked
//! before all of them, and gets what was read a second time (`memory_cache/`).

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::{Buf, ByteRange, Env, PAGE_BYTES};

use crate::address::{BlockKey, SlotIndex, bytes_of, pages_of};
use crate::advisor::access::{Direction, Passage};
use crate::clean::read_slot::Brought;
use crate::config::{PAGE, limits};
use crate::error::Error;
use crate::members::io::add;
use crate::memory_cache::Admission;
use crate::volume::destination::{Destination, joined, within_pages};
use crate::volume::fill::Filler;
use crate::volume::inner::{Volume, VolumeInner};
use crate::volume::missed::Missed;
use crate::volume::missed_read::MissedRead;
use crate::volume::place::Attached;
use crate::volume::plan::{Plan, Run, Source};
use crate::volume::read_ahead::ReadAhead;
use crate::volume::read_balance::CleanCopy;
use crate::volume::stream_read::StreamReader;

/// Of so many hits in memory, the pool hears of one.
const HITS_PER_TOUCH: u64 = 16;

/// What the memory cache says to a request.
enum Asked {
    Hit(Buf),
    /// The request goes on below.
    Miss(Destination),
}

impl<E: Env> Volume<E> {
    /// The newest bytes of `range`, in a buffer of the engine's: for whoever has no memory of its own for them, this copies
    /// nothing, whatever the range.
    pub fn read(&self, range: ByteRange) -> impl Future<Output = Result<Buf, Error>> {
        self.read_to(range, Destination::Own)
    }

    /// Reads the newest bytes from `offset` on into `buf`, as many as it holds, and answers it. Nothing is copied if the range is
    /// whole pages and `buf` lies at a page in memory; else the bytes are read elsewhere and copied once.
    ///
    /// The answer is another buffer if a device failed to fill `buf` and the bytes had to come from a second one. The failed one
    /// keeps `buf`, and may write to it, until the kernel gives it back (rule `late-io`): so it does after an error.
    pub async fn read_into(&self, offset: u64, mut buf: Buf) -> Result<Buf, Error> {
        let volume = &self.inner;
        let length = u64::try_from(buf.len()).expect("a length fits in 64 bits");
        let end = offset.checked_add(length).ok_or_else(|| volume.outside(offset, length))?;
        let range = ByteRange { start: offset, end };
        let whole_pages = offset.is_multiple_of(PAGE) && end.is_multiple_of(PAGE);
        if whole_pages && buf.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return self.read_to(range, Destination::Given(buf)).await;
        }
        buf.copy_from_slice(&self.read_to(range, Destination::Own).await?);
        Ok(buf)
    }

    async fn read_to(&self, range: ByteRange, destination: Destination) -> Result<Buf, Error> {
        let volume = &self.inner;
        volume.check(range, limits::REQUEST_BYTES_MAX)?;
        if range.is_empty() {
            return Ok(volume.env.buffers().take(0));
        }
        volume.recorder.note(range, Direction::Read, || volume.env.now());
        let began = volume.stats.read_latency.begin(|| volume.env.real_now());
        let result = VolumeReader::of(volume).read_range(range, destination).await;
        let length_of = |buf: &Buf| u64::try_from(buf.len()).expect("a length fits in 64 bits");
        let length = result.as_ref().map_or(range.length(), length_of);
        assert_eq!(length, range.length(), "a host that reads {range:?} would get another number of bytes");
        volume.stats.read_latency.end(began, || volume.env.real_now());
        // Here, in the turn in which a hit is counted: hits per read never exceed one, whenever somebody looks.
        add(&volume.stats.reads, 1);
        add(&volume.stats.read_bytes, range.length());
        result
    }
}

/// Who reads a volume: for a host, or for a flow that needs what is newest.
struct VolumeReader<'v, E: Env> {
    volume: &'v Rc<VolumeInner<E>>,
}

impl<E: Env> Clone for VolumeReader<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Env> Copy for VolumeReader<'_, E> {}

impl<'v, E: Env> VolumeReader<'v, E> {
    fn of(volume: &'v Rc<VolumeInner<E>>) -> Self {
        Self { volume }
    }

    /// Where the volume is cached. A read that is refused for that has missed, as all must that are no hits.
    fn place(self) -> Result<Option<Rc<Attached<E>>>, Error> {
        self.volume.place().inspect_err(|_| self.volume.stats.count_missed(Missed::Degraded))
    }

    /// The newest bytes of `range`, which is valid and not empty. They are not in the destination's buffer if a device failed
    /// to fill it, and may still write to it.
    ///
    /// Hits are read here. What takes more than a hit lies in a box: its future would make that of every read as large as itself.
    async fn read_range(self, range: ByteRange, mut destination: Destination) -> Result<Buf, Error> {
        let attached = self.place()?;
        let pages = pages_of(range);
        let cutoff = self.volume.spec.borrow().settings.read_cutoff_bytes;
        let is_of_stream = cutoff.is_some_and(|cutoff| self.volume.read_streams.borrow_mut().record(range) > cutoff);
        let passage = if is_of_stream { Passage::Past } else { Passage::Counted };
        self.volume.tap.note(&pages, Direction::Read, passage);
        if is_of_stream {
            return Box::pin(self.read_of_stream(range, destination)).await;
        }
        if self.volume.memory.concerns(&pages) {
            match self.read_memory(attached.as_deref(), &pages, range, Passage::Counted, destination) {
                Asked::Hit(buf) => return Ok(buf),
                Asked::Miss(below) => destination = below,
            }
            if let Some(admission) = self.begin_admission(&pages) {
                return Box::pin(self.read_and_admit(attached, &admission, &pages, range, destination)).await;
            }
        }
        let Some(attached) = attached else {
            return Box::pin(self.read_uncached(range, destination)).await;
        };
        match attached.pool.plan(attached.index, &pages) {
            Plan::Hit(slot, key) => self.volume.read_slot(&attached, slot, key, range, destination).await,
            plan @ (Plan::Miss | Plan::Mixed(_)) => {
                self.read_planned(&attached, plan, range, destination, self.past_if_off()).await
            }
        }
    }

    /// For a long stream: what was read ahead of it, or is in memory; else it goes past the cache, and brings nothing in.
    async fn read_of_stream(self, range: ByteRange, mut destination: Destination) -> Result<Buf, Error> {
        let pages = pages_of(range);
        let ahead = if self.volume.memory.reads_ahead() { ReadAhead::of(self.volume).read(range).await } else { None };
        // Waiting for it took its time.
        let attached = self.place()?;
        if let Some(buf) = ahead {
            add(&self.volume.stats.bypassed_reads, u64::from(attached.is_some()));
            self.volume.missed(&pages, Missed::Stream);
            return Ok(destination.filled_with(buf));
        }
        if self.volume.memory.concerns(&pages) {
            match self.read_memory(attached.as_deref(), &pages, range, Passage::Past, destination) {
                Asked::Hit(buf) => return Ok(buf),
                Asked::Miss(below) => destination = below,
            }
        }
        let Some(attached) = attached else {
            ReadAhead::of(self.volume).extend(range);
            return self.read_uncached(range, destination).await;
        };
        let plan = attached.pool.plan(attached.index, &pages);
        if plan.is_clean() {
            return self.read_clean_of_stream(&attached, plan, range, destination).await;
        }
        self.read_planned(&attached, plan, range, destination, Some(Missed::Stream)).await
    }

    /// From memory, if all pages are there. A single page is not copied but for a destination that was given.
    fn read_memory(
        self,
        attached: Option<&Attached<E>>,
        pages: &Range<u64>,
        range: ByteRange,
        passage: Passage,
        destination: Destination,
    ) -> Asked {
        let asked = match destination {
            Destination::Own if pages.end - pages.start == 1 => match self.volume.memory.lend(pages.start) {
                Some(buf) => Asked::Hit(within_pages(buf, pages, range)),
                None => Asked::Miss(destination),
            },
            Destination::Own => {
                match self.volume.memory.copy(pages, || self.volume.env.buffers().take(bytes_of(pages))) {
                    Some(buf) => Asked::Hit(within_pages(buf, pages, range)),
                    None => Asked::Miss(destination),
                }
            }
            Destination::Given(buf) => {
                let mut given = Some(buf);
                match self.volume.memory.copy(pages, || given.take().expect("it is asked for once")) {
                    Some(buf) => Asked::Hit(buf),
                    None => Asked::Miss(given.map_or(Destination::Own, Destination::Given)),
                }
            }
        };
        if matches!(asked, Asked::Hit(_)) {
            self.count_memory_hit(attached, pages, passage);
        }
        asked
    }

    /// Some hits are told to the pool: what is hot in memory is to be on the SSDs, for the time when it is not.
    fn count_memory_hit(self, attached: Option<&Attached<E>>, pages: &Range<u64>, passage: Passage) {
        add(&self.volume.stats.read_hits, 1);
        add(&self.volume.stats.memory_hits, 1);
        if let Some(attached) = attached
            && self.volume.stats.memory_hits.get().is_multiple_of(HITS_PER_TOUCH)
        {
            self.tell_pool(attached, pages, passage);
        }
    }

    /// The policy hears of a hit where the SSDs have the pages; where they have none of them, it counts towards populating.
    #[cold]
    fn tell_pool(self, attached: &Attached<E>, pages: &Range<u64>, passage: Passage) {
        let Attached { pool, index, .. } = attached;
        pool.clean.touch(*index, pages);
        let counts = passage == Passage::Counted && self.past_if_off().is_none();
        if counts && matches!(pool.plan(*index, pages), Plan::Miss) {
            let threshold = pool.settings.get().populate_on_read;
            for key in pool.clean.count_read(*index, std::iter::once(pages), threshold).hot {
                Filler::of(pool).request_fill(key);
            }
        }
    }

    /// Whether a read is to bring pages into memory. Not beside somebody who writes them: what it reads may be old when it is there.
    fn begin_admission(self, pages: &Range<u64>) -> Option<Admission> {
        let admission = self.volume.memory.note_read(pages)?;
        self.volume.locks.held_in(pages).is_empty().then_some(admission)
    }

    /// Reads whole pages, and brings into memory those that were read before.
    async fn read_and_admit(
        self,
        attached: Option<Rc<Attached<E>>>,
        admission: &Admission,
        pages: &Range<u64>,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let whole = self.volume.bytes_of_pages(pages);
        let destination = if whole == range { destination } else { Destination::Own };
        let buf = self.read_below(attached, whole, destination).await?;
        if self.volume.locks.held_in(pages).is_empty() {
            self.volume.memory.admit(admission, pages, &buf);
        }
        Ok(within_pages(buf, pages, range))
    }

    /// What memory does not have.
    async fn read_below(
        self,
        attached: Option<Rc<Attached<E>>>,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let Some(attached) = attached else { return self.read_uncached(range, destination).await };
        let plan = attached.pool.plan(attached.index, &pages_of(range));
        self.read_planned(&attached, plan, range, destination, self.past_if_off()).await
    }

    /// What no pool has anything of.
    async fn read_uncached(self, range: ByteRange, destination: Destination) -> Result<Buf, Error> {
        self.volume.missed(&pages_of(range), Missed::Off);
        self.volume.view.read_backing(range, destination).await
    }

    /// Reads go past the cache if they are not to be cached.
    fn past_if_off(self) -> Option<Missed> {
        (!self.volume.spec.borrow().settings.read_cache).then_some(Missed::Off)
    }

    /// What lies on the SSDs and on the backing device, for a stream.
    async fn read_clean_of_stream(
        self,
        attached: &Rc<Attached<E>>,
        plan: Plan,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let pages = pages_of(range);
        let stream = StreamReader::of(self.volume);
        let (copy, queued) = stream.balance(&pages);
        if copy == CleanCopy::Ssds {
            let read = self.read_planned(attached, plan, range, destination, Some(Missed::Stream)).await;
            queued.end(self.volume.env.now());
            return read;
        }
        let buf = destination.buf(self.volume.env.buffers(), bytes_of(&pages));
        if let Some(buf) = stream.read_backing(queued, pages.clone(), buf).await {
            add(&self.volume.stats.bypassed_reads, 1);
            self.volume.missed(&pages, Missed::Stream);
            return Ok(within_pages(buf, &pages, range));
        }
        // Trying took its time: the pages may be elsewhere now.
        self.read_below(self.place()?, range, Destination::Own).await
    }

    /// What is where the plan says. What is `past` the cache brings nothing in; it is a hit where the cache has all of it.
    async fn read_planned(
        self,
        attached: &Rc<Attached<E>>,
        plan: Plan,
        range: ByteRange,
        destination: Destination,
        past: Option<Missed>,
    ) -> Result<Buf, Error> {
        let pages = pages_of(range);
        let is_of_stream = past == Some(Missed::Stream);
        match plan {
            Plan::Hit(slot, key) => Box::pin(self.volume.read_slot(attached, slot, key, range, destination)).await,
            Plan::Mixed(runs)
                if past.is_none() || runs.iter().all(Run::is_cached) || runs.iter().any(Run::is_of_log) =>
            {
                let counted = past.map_or(Counted::Yes, Counted::Past);
                self.read_runs(attached, runs, &pages, range, counted, destination).await
            }
            Plan::Miss if past.is_none() => {
                Box::pin(MissedRead::of(self.volume, attached, &pages, range).run(destination)).await
            }
            Plan::Miss | Plan::Mixed(_) => {
                add(&self.volume.stats.bypassed_reads, 1);
                past.into_iter().for_each(|missed| self.volume.missed(&pages, missed));
                if is_of_stream {
                    ReadAhead::of(self.volume).extend(range);
                }
                Box::pin(self.volume.view.read_backing(range, destination)).await
            }
        }
    }

    /// Reads run by run, all at once.
    async fn read_runs(
        self,
        attached: &Attached<E>,
        runs: Vec<Run>,
        pages: &Range<u64>,
        range: ByteRange,
        counted: Counted,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let pool = &attached.pool;
        let all_cached = runs.iter().all(Run::is_cached);
        match counted {
            Counted::Yes if !all_cached => {
                let missing = runs.iter().filter(|run| !run.is_cached()).map(|run| &run.pages);
                let threshold = pool.settings.get().populate_on_read;
                let counted = pool.clean.count_read(attached.index, missing, threshold);
                self.volume.missed(pages, pool.why_missed(&counted, threshold));
                for key in counted.hot {
                    Filler::of(pool).request_fill(key);
                }
            }
            Counted::Past(missed) if !all_cached => self.volume.missed(pages, missed),
            Counted::Yes | Counted::Past(_) | Counted::No => {}
        }
        let hits = all_cached && counted != Counted::No;
        let mut rest = destination.buf(self.volume.env.buffers(), bytes_of(pages));
        let mut reads = Vec::new();
        for run in runs {
            let (part, next) = rest.split_at(bytes_of(&run.pages));
            rest = next;
            reads.push(self.read_run(attached, run, part));
        }
        assert!(rest.is_empty(), "pages {pages:?} are read, and {} bytes of them are of no run", rest.len());
        let mut whole: Option<Buf> = None;
        for part in join_all(reads).await {
            let part = part.inspect_err(|_| {
                if hits {
                    self.volume.missed(pages, Missed::Degraded);
                }
            })?;
            whole = Some(match whole {
                None => part,
                Some(before) => joined(self.volume.env.buffers(), before, part),
            });
        }
        add(&self.volume.stats.read_hits, u64::from(hits));
        Ok(within_pages(whole.expect("a request has pages"), pages, range))
    }

    /// The pages of one run. What a clean copy does not bring, the backing device does.
    async fn read_run(self, attached: &Attached<E>, run: Run, part: Buf) -> Result<Buf, Error> {
        let length = part.len();
        match run.source {
            Source::Slot(slot, key) => {
                let within = attached.pool.blocks.within(&run.pages);
                let brought = attached.pool.clean.read_slot(slot, key, within, part).await;
                if let Some(part) = self.volume.brought(brought) {
                    return Ok(part);
                }
            }
            Source::Log(log_run) => {
                let log = attached.pool.log.as_ref().expect("what it brought lies in it");
                if let Some(part) = log.reader().read_run(&log_run, part).await {
                    return Ok(part);
                }
                if !log_run.clean {
                    // Its row may be freed.
                    drop(log_run);
                    return Box::pin(self.read_again(&run.pages)).await;
                }
            }
            Source::Backing => return self.volume.view.read_whole_pages(&run.pages, part).await,
        }
        self.volume.view.read_whole_pages(&run.pages, self.volume.env.buffers().take(length)).await
    }

    /// Pages that were dirty, and that the log did not bring. Trying took its time: they may have been moved, cleaned or written
    /// since, each by itself.
    async fn read_again(self, pages: &Range<u64>) -> Result<Buf, Error> {
        let mut whole = self.volume.env.buffers().take(bytes_of(pages));
        for (page, chunk) in pages.clone().zip(whole.chunks_exact_mut(PAGE_BYTES)) {
            chunk.copy_from_slice(&self.read_page_again(page).await?);
        }
        Ok(whole)
    }

    /// A page is lost only if it is dirty, still where it was, no copy there is good, and hosts did not write it to the backing
    /// device as well.
    async fn read_page_again(self, page: u64) -> Result<Buf, Error> {
        let pages = page..page + 1;
        // Another pool may have it by now, or none. Each turn has found it elsewhere.
        while let Some(attached) = self.volume.place()? {
            let Some(log) = &attached.pool.log else { break };
            let Some(run) = log.runs(attached.index, pages.clone(), |_| true).pop() else { break };
            let unread = match log.reader().read_or_expire(&run).await {
                Ok(bytes) => return Ok(bytes),
                Err(unread) => unread,
            };
            if log.live(attached.index, page) != Some(run.first) {
                continue;
            }
            if let Some(error) = attached.pool.life.fence() {
                // SSDs that are not asked any more may have it.
                return Err(error.clone());
            }
            if !run.clean && !attached.wrote_out(page, run.first.place) {
                return Err(log.data_loss().unreadable_page(&self.volume.spec.borrow().name, &run.first, unread));
            }
            break;
        }
        // Its dirty data may have been discarded meanwhile.
        self.volume.check_not_fenced()?;
        self.volume.view.read_whole_pages(&pages, self.volume.env.buffers().take(PAGE_BYTES)).await
    }
}

impl<E: Env> VolumeInner<E> {
    /// A read of these pages is not answered from the cache.
    pub(super) fn missed(&self, pages: &Range<u64>, missed: Missed) {
        self.stats.count_missed(missed);
        self.last_misses.note(pages, missed);
    }

    /// The newest bytes of whole pages, for a flow that holds them; not counted as a host's read.
    pub(crate) async fn read_newest(self: &Rc<Self>, attached: &Attached<E>, pages: &Range<u64>) -> Result<Buf, Error> {
        let plan = attached.pool.plan(attached.index, pages);
        self.read_newest_of(attached, plan, pages).await
    }

    /// As [`Self::read_newest`], of pages that are where the plan says.
    pub(super) async fn read_newest_of(
        self: &Rc<Self>,
        attached: &Attached<E>,
        plan: Plan,
        pages: &Range<u64>,
    ) -> Result<Buf, Error> {
        let whole = ByteRange { start: pages.start * PAGE, end: pages.end * PAGE };
        match plan {
            Plan::Hit(slot, key) => {
                let run = Run { source: Source::Slot(slot, key), pages: pages.clone() };
                VolumeReader::of(self).read_runs(attached, vec![run], pages, whole, Counted::No, Destination::Own).await
            }
            Plan::Mixed(runs) => {
                VolumeReader::of(self).read_runs(attached, runs, pages, whole, Counted::No, Destination::Own).await
            }
            Plan::Miss => self.view.read_whole_pages(pages, self.env.buffers().take(bytes_of(pages))).await,
        }
    }

    /// What one slot has; what it does not bring, the backing device does.
    pub(super) async fn read_slot(
        &self,
        attached: &Attached<E>,
        slot: SlotIndex,
        key: BlockKey,
        range: ByteRange,
        destination: Destination,
    ) -> Result<Buf, Error> {
        let pages = pages_of(range);
        let buf = destination.buf(self.env.buffers(), bytes_of(&pages));
        let within = attached.pool.blocks.within(&pages);
        let brought = attached.pool.clean.read_slot(slot, key, within, buf).await;
        if let Some(buf) = self.brought(brought) {
            add(&self.stats.read_hits, 1);
            return Ok(within_pages(buf, &pages, range));
        }
        self.missed(&pages, Missed::Degraded);
        Box::pin(self.view.read_backing(range, Destination::Own)).await
    }

    /// What a slot brought, if it did; what it did not is not the host's trouble.
    fn brought(&self, brought: Brought) -> Option<Buf> {
        match brought {
            Brought::Pages(buf) => Some(buf),
            Brought::Bad => {
                add(&self.stats.read_errors_hidden, 1);
                None
            }
            Brought::Superseded => None,
        }
    }
}

/// Whether a read counts as a host's, for hits and for populating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Yes,
    /// It goes past the cache, and brings nothing in.
    Past(Missed),
    No,
}
