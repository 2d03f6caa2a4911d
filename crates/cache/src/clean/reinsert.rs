//! A page comes back to its block's slot when the log forgets it: clean, and as hot as its block.
//!
//! A host's write takes its pages out of the slot (`invalidate`), and once they are clean the log has them only until it needs their
//! row. Then they are written to the very places of what they superseded. On the SSD the slot's header and index go on saying
//! that they are not there (rule `believed-until-dropped`: their drops are flushed before the row is freed), so that they are visible
//! until the next start, and nothing is to be written for them but themselves. Their checksums are in memory alone: a pool without
//! checksums takes nothing back, for nobody could tell a page that is torn.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::{BlockKey, SsdIndex, VolumeIndex};
use crate::clean::Clean;
use crate::clean::grace::ReadsSoFar;
use crate::clean::slots::SlotContent;
use crate::members::segments::Purpose;

/// How often it is looked whether reads have ended, and how long is waited in between: whoever frees a row waits no longer.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(2);

/// Places of a slot, which nobody reads, for pages of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vacancy {
    content: SlotContent,
    pages: Range<u32>,
}

impl Vacancy {
    /// The place of one page of these.
    pub(crate) fn one(&self, offset: u32) -> Self {
        let page = self.pages.start + offset;
        assert!(self.pages.contains(&page), "page {page} of a block has no place among {:?}", self.pages);
        Self { content: self.content, pages: page..page + 1 }
    }
}

/// Where pages may come back to.
pub(crate) struct Vacancies<'c, E: Env> {
    clean: &'c Clean<E>,
}

impl<E: Env> Clean<E> {
    pub(crate) fn vacancies(&self) -> Vacancies<'_, E> {
        Vacancies { clean: self }
    }
}

impl<E: Env> Vacancies<'_, E> {
    /// The places for these pages, which lie in one block and were superseded in its slot. `None`: it has no slot, or that is not to be
    /// written to now.
    pub(crate) fn of(&self, volume: VolumeIndex, pages: &Range<u64>) -> Option<Vacancy> {
        let key = BlockKey { volume, block: self.clean.blocks.one_of(pages)? };
        let content = {
            let slots = self.clean.slots.borrow();
            slots.content(slots.find(key)?)?
        };
        let vacancy = Vacancy { content, pages: self.clean.blocks.within(pages) };
        self.is_vacant(&vacancy).then_some(vacancy)
    }

    /// Whether pages come back to any: not without checksums, nor when the SSDs have taken what they may in a day.
    pub(crate) fn are_used(&self) -> bool {
        let has_worn = |limit| self.clean.members.written_today() >= limit;
        self.clean.checksums && !self.clean.ssd_writes_per_day.get().is_some_and(has_worn)
    }

    /// The first page behind the block of this one.
    pub(crate) fn end_of_block(&self, page: u64) -> u64 {
        let per_block = u64::from(self.clean.blocks.pages_per_block);
        (page / per_block + 1) * per_block
    }

    fn is_vacant(&self, vacancy: &Vacancy) -> bool {
        let Vacancy { content, pages } = vacancy;
        if !self.clean.slots.borrow().has_vacancy(*content, pages) {
            return false;
        }
        let ssd = self.clean.ssds.of(content.slot);
        let local = ssd.local(content.slot);
        ssd.is_online() && ssd.life().may_take_batches() && ssd.is_for_slots(local)
    }

    /// Waits until the reads that are in flight have ended: none that comes later reads what is vacant now. False: some take too long.
    pub(crate) async fn reads_have_ended(&self) -> bool {
        let mut left: Vec<(SsdIndex, ReadsSoFar)> =
            self.clean.ssds.serving().map(|ssd| (ssd.index, ssd.reads_so_far())).collect();
        for _ in 0..LOOKS {
            left.retain(|(index, reads)| {
                let (ended, more_ready) = self.clean.ssds.get(*index).have_ended(*reads);
                if more_ready {
                    self.clean.fills.wake_pump();
                }
                !ended
            });
            if left.is_empty() {
                return true;
            }
            self.clean.env.sleep(LOOK).await;
        }
        false
    }

    /// Writes pages to their places. The reads that had begun when these became vacant have ended. False: nothing can come back there.
    pub(crate) async fn write(&self, vacancy: &Vacancy, data: Buf) -> bool {
        let Vacancy { content, pages } = vacancy;
        assert_eq!(data.len(), pages.len() * PAGE_BYTES, "pages {pages:?} come back to {content:?} as other bytes");
        if !self.is_vacant(vacancy) {
            return false;
        }
        let ssd = Rc::clone(self.clean.ssds.of(content.slot));
        let (slot, generation) = (ssd.local(content.slot), content.generation);
        // Whatever becomes of the block, its slot is given to no other one before this write has ended.
        let epoch = ssd.begin_read();
        ssd.segments.begin_page_write(slot, generation);
        let written = ssd.write(Purpose::Slot { slot, generation }, ssd.page_offset(slot, pages.start), data).await;
        ssd.segments.end_page_write(slot, generation);
        if let Err(fault) = &written {
            self.clean.members.ssd_failed(&ssd.ssd, fault);
        }
        if ssd.end_read(epoch) {
            self.clean.fills.wake_pump();
        }
        written.is_ok()
    }

    /// Pages that were written to their places are visible from now on, if those are still theirs: in the turn in which the log forgets
    /// them. Answers whether they are.
    pub(crate) fn reinsert(&self, vacancy: &Vacancy, checksums: &[u32]) -> bool {
        let is_vacant = self.is_vacant(vacancy);
        if is_vacant {
            self.clean.slots.borrow_mut().reinsert(vacancy.content, vacancy.pages.start, checksums);
        }
        is_vacant
    }
}
