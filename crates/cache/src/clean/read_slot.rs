//! Pages are read from a slot.
//!
//! A slot's bytes go to a host only if the slot's header names this block in this generation, and every page has the
//! checksum that the header says (rule `checked-or-not-served`). A clean slot is only a copy: whatever is wrong with
//! it leaves the cache, and the backing device answers.

use std::ops::Range;
use std::rc::Rc;

use hotset_block::{Buf, DeviceError, Env, PAGE_BYTES};

use crate::address::{BlockKey, SlotIndex, at};
use crate::clean::Clean;
use crate::clean::grace::Epoch;
use crate::clean::slot_ssd::SlotSsd;
use crate::clean::slots::Why;
use crate::config::limits;
use crate::format::crc32c;
use crate::format::slot_header::SlotHeader;
use crate::members::ssd::{Fault, is_gone};
use crate::reasons::OutOfUse;

/// What a slot brought.
pub(crate) enum Brought {
    Pages(Buf),
    /// An error, or bytes that are not what was stored: what is bad has left the cache.
    Bad,
    /// Nothing: the slot has another block by now, or none, or its SSD is gone.
    Superseded,
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

/// A read of a slot: while it lives, the slot is not filled again.
struct Reading<'a, E: Env> {
    clean: &'a Clean<E>,
    ssd: &'a Rc<SlotSsd<E>>,
    slot: SlotIndex,
    /// The block that the slot is to hold.
    key: BlockKey,
    epoch: Epoch,
}

impl<E: Env> Drop for Reading<'_, E> {
    fn drop(&mut self) {
        if self.ssd.end_read(self.epoch) {
            self.clean.fills.wake_pump();
        }
    }
}

impl<E: Env> Clean<E> {
    /// Pages of one slot that holds this block, checked.
    pub(crate) async fn read_slot(&self, slot: SlotIndex, key: BlockKey, pages: Range<u32>, buf: Buf) -> Brought {
        assert_eq!(buf.len(), pages.len() * PAGE_BYTES, "pages {pages:?} of {slot:?} are read to room of another size");
        let reading = self.begin_read(slot, key);
        let (holds, known) = {
            let slots = self.slots.borrow();
            (slots.key(slot) == Some(key) && slots.holds_all(slot, &pages), slots.header_is_known(slot))
        };
        if !holds {
            return Brought::Superseded;
        }
        match if known { Header::Confirmed } else { Box::pin(reading.load_header()).await } {
            Header::Confirmed => {}
            Header::Wrong => return Brought::Bad,
            Header::Superseded => return Brought::Superseded,
        }
        let ssd = reading.ssd;
        let error = match ssd.read_clean(ssd.page_offset(ssd.local(slot), pages.start), buf).await {
            Ok(buf) if reading.checksums_match(pages.start, &buf) => return Brought::Pages(buf),
            Ok(_) => None,
            Err(Fault::Offline) => return Brought::Superseded,
            Err(Fault::Device(error)) => Some(error),
        };
        reading.are_bad(&pages, error.as_ref());
        Brought::Bad
    }

    /// For a scrub: reads pages of a slot that holds this block, and takes those that are bad out of the cache. Answers how
    /// many they were.
    pub(crate) async fn check_slot(&self, slot: SlotIndex, key: BlockKey, pages: &Range<u32>) -> u64 {
        let reading = self.begin_read(slot, key);
        if self.slots.borrow().key(slot) != Some(key) {
            return 0;
        }
        reading.check(pages).await
    }

    /// For a scrub: reads a slot's header again.
    pub(crate) async fn check_header(&self, slot: SlotIndex, key: BlockKey) -> Header {
        let reading = self.begin_read(slot, key);
        if self.slots.borrow().key(slot) != Some(key) {
            return Header::Superseded;
        }
        reading.load_header().await
    }

    fn begin_read(&self, slot: SlotIndex, key: BlockKey) -> Reading<'_, E> {
        let ssd = self.ssds.of(slot);
        Reading { clean: self, ssd, slot, key, epoch: ssd.begin_read() }
    }
}

impl<E: Env> Reading<'_, E> {
    /// Takes pages that are bad out of the cache; answers how many they were.
    async fn check(&self, pages: &Range<u32>) -> u64 {
        let local = self.ssd.local(self.slot);
        let buffers = self.clean.env.buffers();
        let buf = buffers.take(PAGE_BYTES * pages.len());
        let read = self.ssd.read(self.ssd.page_offset(local, pages.start), buf).await;
        if read.is_ok_and(|buf| self.checksums_match(pages.start, &buf)) {
            return 0;
        }
        let mut bad = 0;
        for page in pages.clone() {
            let error = match self.ssd.read(self.ssd.page_offset(local, page), buffers.take(PAGE_BYTES)).await {
                Ok(buf) if self.checksums_match(page, &buf) => continue,
                Ok(_) => None,
                Err(Fault::Offline) => return bad,
                Err(Fault::Device(error)) => Some(error),
            };
            bad += 1;
            self.are_bad(&(page..page + 1), error.as_ref());
        }
        bad
    }

    /// An SSD whose reads fail too often leaves.
    fn count_read_error(&self, error: Option<&DeviceError>) {
        let errors = self.ssd.has_misread();
        let members = &self.clean.members;
        match error {
            Some(error) if is_gone(error) => members.expel(&self.ssd.ssd, OutOfUse::Failed(*error)),
            Some(_) | None if errors > limits::SSD_READ_ERRORS_MAX => {
                members.expel(&self.ssd.ssd, OutOfUse::Misread { reads: errors });
            }
            Some(_) | None => {}
        }
    }

    /// What the slot holds there is bad: it leaves the cache, if the slot still holds this block. The SSD brought nothing (`error`),
    /// or bytes that are not what was stored.
    fn are_bad(&self, pages: &Range<u32>, error: Option<&DeviceError>) {
        self.count_read_error(error);
        if self.holds_key() {
            self.clean.hide_slot_pages(self.slot, self.key, pages);
        }
    }

    fn holds_key(&self) -> bool {
        self.clean.slots.borrow().find(self.key) == Some(self.slot)
    }

    fn checksums_match(&self, first_page: u32, bytes: &[u8]) -> bool {
        let found = bytes.chunks_exact(PAGE_BYTES).map(crc32c);
        self.clean.slots.borrow().checksums_match(self.slot, first_page, found)
    }

    /// Reads the slot's header, which confirms whose block it holds and brings the checksums.
    async fn load_header(&self) -> Header {
        let header_bytes = usize::try_from(self.ssd.layout.header_bytes()).expect("an address has 64 bits at most");
        let buf = self.clean.env.buffers().take(header_bytes);
        let read = self.ssd.read_clean(self.ssd.layout.slot_offset(self.ssd.local(self.slot)), buf).await;
        // A volume that is leaving the pool has no id any more, and its slots are about to be free.
        let leaving = self.clean.ids.of(self.key.volume).is_none();
        if leaving || !self.holds_key() {
            return Header::Superseded;
        }
        let confirmed = match &read {
            Ok(bytes) => SlotHeader::decode(bytes).ok().filter(|header| self.confirms(header)),
            Err(_) => None,
        };
        if let Some(header) = confirmed {
            self.clean.slots.borrow_mut().header_confirmed(self.slot, &header.checksums);
            return Header::Confirmed;
        }
        let error = match &read {
            Err(Fault::Offline) => return Header::Superseded,
            Err(Fault::Device(error)) => Some(error),
            Ok(_) => None,
        };
        self.count_read_error(error);
        if self.ssd.is_online() {
            self.clean.free_slot(self.slot, Why::Emptied);
        }
        Header::Wrong
    }

    fn confirms(&self, header: &SlotHeader) -> bool {
        let clean = self.clean;
        let address = clean.ids.of(self.key.volume) == Some(header.attachment)
            && header.block == u64::from(self.key.block.0)
            && header.slot == self.ssd.local(self.slot);
        let generation = header.generation == clean.slots.borrow().generation(self.slot)
            && header.incarnation == self.ssd.incarnation();
        let checksums = !clean.checksums || header.checksums.len() == at(clean.blocks.pages_per_block);
        address && generation && checksums
    }
}
