//! A scrub reads everything that the SSDs hold, beside what hosts do, and mends what is bad: clean pages leave the cache
//! and are read again from the backing device, a bad copy in the write log is written again from the other one.
//!
//! What is bad is found by the checks that a host's read makes (rule `checked-or-not-served`); a scrub only makes them
//! before a host needs the bytes, and while there is another copy. It reads one stretch at a time, and rests in proportion
//! to how long that took: a share of the SSDs' time, whatever their speed (as `docs/decisions/0006-fetch-rate.md`).

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use hotset_block::Env;

use crate::address::{BlockKey, Blocks, SlotIndex};
use crate::attachment_ids::AttachmentIds;
use crate::clean::Clean;
use crate::clean::read_slot::Header;
use crate::clean::slots::SlotContent;
use crate::config::{FetchRate, PAGE, PoolName};
use crate::error::{Error, ErrorKind};
use crate::log::Log;
use crate::log::overlay::{Content, PAGES_MAX};
use crate::log::run::LogRun;
use crate::members::Members;
use crate::members::pool_life::PoolLife;
use crate::pool::scrub_progress::Scrub;
use crate::status::{ScrubState, ScrubStatus, UnfinishedScrub};
use crate::volume::fill::Filler;
use crate::volume::place::PoolRooms;
use crate::volume::settings::SettingsNow;

/// What is read at a time, in pages: long enough for an SSD to be efficient, short enough for hosts not to notice.
const STRETCH_PAGES: u32 = 64;
/// Pieces of a stretch in the write log that are read at once: a few, as they may be as short as a page and lie apart.
const RUNS_AT_ONCE: usize = 8;
/// Empty slots that are passed in one turn.
const SLOTS_OF_A_TURN: u32 = 4096;
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(1);

/// How long it rests after a stretch, in times the stretch took.
fn rest(rate: FetchRate) -> u32 {
    match rate {
        FetchRate::Low => 9,
        FetchRate::Medium => 2,
        FetchRate::High => 0,
    }
}

/// Since when a scrub runs, and how long it ran before it was cut off.
struct Started {
    at: hotset_block::RealInstant,
    before_seconds: u64,
}

impl Started {
    fn seconds(&self, env: &impl Env) -> u64 {
        self.before_seconds + env.real_now().since(self.at).as_secs()
    }
}

/// Who reads and checks everything now and then.
pub(crate) struct Scrubber<E: Env> {
    env: E,
    name: PoolName,
    settings: Rc<SettingsNow>,
    blocks: Blocks,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    ids: Rc<AttachmentIds>,
    log: Option<Rc<Log<E>>>,
    rooms: Rc<PoolRooms<E>>,
    progress: Scrub,
}

impl<E: Env> Scrubber<E> {
    pub(super) fn new(pool: &Rc<PoolRooms<E>>, progress: Scrub) -> Self {
        Self {
            env: pool.env.clone(),
            name: pool.name.clone(),
            settings: Rc::clone(&pool.settings),
            blocks: pool.blocks,
            life: Rc::clone(&pool.life),
            members: Rc::clone(&pool.members),
            clean: Rc::clone(&pool.clean),
            ids: Rc::clone(&pool.ids),
            log: pool.log.clone(),
            rooms: Rc::clone(pool),
            progress,
        }
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> &Scrub {
        &self.progress
    }

    /// Checks everything once. Answers when it is done, or cancelled.
    pub(crate) async fn scrub(self: &Rc<Self>) -> Result<ScrubStatus, Error> {
        self.scrub_from(self.beginning()).await
    }

    /// Checks what an earlier one did not come to.
    pub(crate) async fn resume(self: &Rc<Self>, unfinished: UnfinishedScrub) -> Result<ScrubStatus, Error> {
        let is_of_now = unfinished.slots_checked > 0 && unfinished.epoch == self.members.record().epoch;
        self.scrub_from(if is_of_now { unfinished } else { self.beginning() }).await
    }

    fn beginning(&self) -> UnfinishedScrub {
        let live_pages = self.log.as_ref().map_or(0, |log| log.total().live);
        let total_bytes = (self.clean.slots().used_pages() + 2 * live_pages) * PAGE;
        let found = ScrubStatus { total_bytes, ..ScrubStatus::default() };
        UnfinishedScrub { found, slots_checked: 0, epoch: self.members.record().epoch }
    }

    async fn scrub_from(self: &Rc<Self>, from: UnfinishedScrub) -> Result<ScrubStatus, Error> {
        if self.progress.is_running() {
            let message = format!("pool {}: a scrub is running; wait for its end, or cancel it", self.name);
            return Err(Error::new(ErrorKind::Refused, message));
        }
        self.progress.begin(from);
        let started = Started { at: self.env.real_now(), before_seconds: from.found.seconds };
        if let Some(log) = self.log.as_ref().filter(|_| from.slots_checked == 0) {
            self.scrub_log(log).await;
        }
        self.scrub_slots(from.slots_checked, &started).await;
        if self.life.is_stopping() && !self.progress.is_cancelled() {
            self.progress.cut_off();
            let message = format!("pool {}: it is closed, which cuts off its scrub", self.name);
            return Err(Error::new(ErrorKind::Stopping, message));
        }
        let state = if self.progress.is_cancelled() { ScrubState::Cancelled } else { ScrubState::Finished };
        self.end(state, started.seconds(&self.env)).await;
        Ok(self.progress.status())
    }

    async fn end(&self, state: ScrubState, seconds: u64) {
        let ended_at = self.env.unix_seconds();
        self.progress.found(|status| {
            status.state = state;
            status.seconds = seconds;
            status.ended_unix_seconds = ended_at;
        });
        self.progress.end();
        self.members.witness_keeper().scrub_ended(self.progress.ended());
        self.members.witness_keeper().keep().await;
    }

    fn scrub_goes_on(&self) -> bool {
        !self.life.is_stopping() && !self.progress.is_cancelled()
    }

    async fn scrub_slots(self: &Rc<Self>, first: u32, started: &Started) {
        let mut slot = first;
        while self.scrub_goes_on() && slot < self.clean.slots().slot_count() {
            let content = self.clean.slots().content(SlotIndex(slot));
            if let Some(content) = content {
                self.scrub_slot(content).await;
            }
            if !self.scrub_goes_on() {
                return;
            }
            slot += 1;
            self.progress.checked_slots(slot, started.seconds(&self.env));
            // What is free, or on an SSD that does not answer, waits for nothing.
            if slot.is_multiple_of(SLOTS_OF_A_TURN) {
                self.env.sleep(Duration::ZERO).await;
            }
        }
    }

    async fn scrub_slot(self: &Rc<Self>, content: SlotContent) {
        let SlotContent { slot, key, .. } = content;
        let Some(mut bad) = self.scrub_header(slot, key).await else { return };
        let mut page = 0;
        while bad == 0 && page < self.blocks.pages_per_block && self.scrub_goes_on() {
            let most = STRETCH_PAGES.min(self.blocks.pages_per_block - page);
            let Some((valid, length)) = self.clean.slots().run_of(content, page, most) else { return };
            if valid {
                bad += self.scrub_stretch(slot, key, page..page + length).await;
            }
            page += length;
        }
        if bad > 0 {
            self.progress.found(|status| status.dropped_pages += bad);
            Filler::of(&self.rooms).request_fill(key);
        }
    }

    /// One stretch of a slot; answers how many of its pages were bad and have left the cache.
    async fn scrub_stretch(self: &Rc<Self>, slot: SlotIndex, key: BlockKey, pages: Range<u32>) -> u64 {
        let began = self.env.now();
        let bad = self.clean.check_slot(slot, key, &pages).await;
        self.progress.found(|status| {
            status.checked_bytes += u64::from(pages.end - pages.start) * PAGE;
            status.bad_pages += bad;
        });
        self.rest_after(began).await;
        bad
    }

    /// The header of a slot; answers how many pages have left the cache because it was bad. `None`: the slot is being freed, and
    /// nobody read what its pages are to be checked by.
    async fn scrub_header(self: &Rc<Self>, slot: SlotIndex, key: crate::address::BlockKey) -> Option<u64> {
        let held = u64::from(self.clean.slots().pages_in(slot));
        let bad = match self.clean.check_header(slot, key).await {
            Header::Wrong => held,
            Header::Confirmed => 0,
            Header::Superseded => return None,
        };
        self.progress.found(|status| status.bad_pages += bad);
        Some(bad)
    }

    async fn scrub_log(self: &Rc<Self>, log: &Rc<Log<E>>) {
        for index in self.ids.indexes() {
            let mut page = 0;
            while self.scrub_goes_on() {
                let Some(first) = log.overlay().first_in(index, &(page..PAGES_MAX)) else { break };
                page = first.page + u64::from(STRETCH_PAGES);
                // Few: a run keeps its row from being freed for as long as it lives.
                let runs = log.runs(index, first.page..page, |_| true);
                let began = self.env.now();
                let at_once = stream::iter(runs);
                at_once.for_each_concurrent(RUNS_AT_ONCE, async |run| self.scrub_run(log, &run).await).await;
                self.rest_after(began).await;
            }
        }
    }

    async fn scrub_run(&self, log: &Log<E>, run: &LogRun) {
        let pages = run.pages.end - run.pages.start;
        match run.first.content {
            Content::Data { .. } => {
                let copies = log.reader().check_copies_of(run).await;
                self.progress.found(|status| {
                    status.checked_bytes += copies.checked * pages * PAGE;
                    status.bad_pages += copies.bad_pages;
                    status.repaired_pages += copies.repaired_pages;
                    // What is clean lies on the backing device as well.
                    status.lost_pages += if run.clean { 0 } else { copies.lost_pages };
                });
            }
            Content::Zeroes => {}
            Content::Lost | Content::Unavailable { .. } => self.progress.found(|status| status.lost_pages += pages),
        }
    }

    async fn rest_after(&self, began: hotset_block::Instant) {
        let rest = self.env.now().since(began) * rest(self.settings.get().fetch_rate);
        if !rest.is_zero() {
            self.env.sleep(rest.min(REST_MAX)).await;
        }
    }
}
