//! What a volume's backing device is: its identity is read, compared with the one on record (`attachments/identity.rs` judges), and
//! what is about to change of it recorded first.

use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::{ByteRange, Device, Env, Likeness, likeness};

use crate::address::pages_of;
use crate::attachments::evidence::BackingEvidence;
use crate::attachments::identity::{
    evidence, fingerprint_pages, judged, may_have_grown, unsettled_pages, was_rounded_down, was_written,
};
use crate::config::{PAGE, limits};
use crate::error::{Error, ErrorKind};
use crate::format::catalogue::{BackingIdentity, Fingerprint};
use crate::format::crc64;
use crate::time_limit::{apart, within, within_or_apart};
use crate::volume::inner::VolumeInner;
use crate::volume::place::Attached;
use crate::volume::view::BackingView;

impl<E: Env> BackingView<E> {
    /// What the backing device is now, of which the volume has so many bytes. A page that cannot be read stays unsettled.
    pub(crate) async fn capture_identity(
        &self,
        size_bytes: u64,
        mark_is_final: bool,
    ) -> Result<BackingIdentity, Error> {
        let device = self.backing.identity_now().await?;
        let reads = fingerprint_pages(size_bytes).into_iter().map(async |page| {
            let checksum = self.fingerprint(page, size_bytes).await;
            Fingerprint { page, checksum: checksum.unwrap_or(0), unsettled: checksum.is_none() }
        });
        let fingerprints = join_all(reads).await;
        Ok(BackingIdentity { size_bytes, device, mark_is_final, fingerprints })
    }

    /// What the backing device is now, and still is after a power cut; an error if it does not answer in time. The caller holds
    /// off writes.
    pub(crate) async fn capture_durable_identity(&self, size_bytes: u64) -> Result<BackingIdentity, Error> {
        if !self.backing.info.read_only {
            self.flush_in_time().await?;
        }
        self.in_time(self.capture_identity(size_bytes, false)).await?
    }

    /// Flushes the backing device, however long the caller waits.
    pub(crate) async fn flush_in_time(&self) -> Result<(), Error> {
        let backing = Rc::clone(&self.backing);
        let flushed = self.in_time(apart(&self.env, async move { backing.flush().await })).await?;
        flushed.unwrap_or_else(|| Err(Error::new(ErrorKind::Stopping, "everything is being stopped")))
    }

    /// Of the device as it is now, whether or not it is the right one.
    pub(crate) async fn fingerprint(&self, page: u64, size_bytes: u64) -> Option<u64> {
        let range = ByteRange { start: page * PAGE, end: ((page + 1) * PAGE).min(size_bytes) };
        let wide = self.device_blocks(range);
        let bytes_of = |range: ByteRange| usize::try_from(range.length()).expect("a page or two");
        let buf = self.env.buffers().take(bytes_of(wide));
        let (buf, read) = self.backing.read_to_judge(wide.start, buf).await;
        let skip = usize::try_from(range.start - wide.start).expect("less than a block");
        read.ok().map(|()| crc64(&buf.narrow(skip, bytes_of(range))))
    }

    /// Sizes were rounded down to sectors once. Of a file that is as it was then, the volume has as much as it had: its last page
    /// could not be told from a changed one.
    pub(crate) fn keep_end_of(&self, before: &BackingIdentity) {
        let size_bytes = self.size_bytes.get();
        let is_rounded_up = self.backing.device().is_ok_and(|device| device.end_bytes() < size_bytes);
        if is_rounded_up && was_rounded_down(before, size_bytes) {
            self.size_bytes.set(before.size_bytes);
        }
    }

    /// What the backing device is now, durably, if it is the same one and has only grown: every byte that was judged before is as it
    /// was.
    pub(crate) async fn grown(&self, before: &BackingIdentity) -> Result<Option<BackingIdentity>, Error> {
        let size_bytes = self.size_bytes.get();
        if !may_have_grown(before, size_bytes) {
            return Ok(None);
        }
        let now = self.capture_durable_identity(size_bytes).await?;
        // Growing a file changes its mark too, so that one which grew while Hotset was stopped is taken for a changed one.
        if likeness(&before.device.id, &now.device.id) != Likeness::Same || was_written(before, &now.device) {
            return Ok(None);
        }
        for fingerprint in judged(before) {
            let found = self.in_time(self.fingerprint(fingerprint.page, size_bytes)).await?;
            if found != Some(fingerprint.checksum) {
                return Ok(None);
            }
        }
        Ok(Some(now))
    }

    /// Why the backing device is not the one that was seen last, or not as it was; `None` if nothing speaks against it.
    pub(crate) async fn difference(&self, before: &BackingIdentity) -> Option<String> {
        match self.evidence(before).await {
            Ok(evidence) => evidence.against(),
            Err(_) => Some("its identity cannot be read".to_owned()),
        }
    }

    /// What speaks for and against the backing device's being the one that was seen last.
    pub(crate) async fn evidence(&self, before: &BackingIdentity) -> Result<BackingEvidence, Error> {
        let now = self.backing.identity_now().await?;
        // A page in which the device ended is known by so much of it.
        let end_bytes = before.size_bytes.min(self.size_bytes.get());
        let reads = judged(before).map(async |fingerprint| {
            let is_there = fingerprint.page * PAGE < end_bytes;
            if is_there { self.fingerprint(fingerprint.page, end_bytes).await } else { None }
        });
        let found = join_all(reads).await;
        Ok(evidence(before, now, self.size_bytes.get(), &found))
    }
}

impl<E: Env> VolumeInner<E> {
    /// Records that fingerprint pages in `range` are about to be written: they are not judged until they are settled
    /// again. The caller holds the range.
    pub(crate) async fn mark_unsettled(&self, attached: &Attached<E>, range: ByteRange) -> Result<(), Error> {
        let touched = pages_of(range);
        if !attached.judged_pages.borrow().iter().any(|page| touched.contains(page)) {
            return Ok(());
        }
        attached.pool.attachments.record_unsettled(attached.index, &touched).await?;
        attached.judged_pages.borrow_mut().retain(|page| !touched.contains(page));
        Ok(())
    }

    /// Has fingerprint pages judged again that were written to since they were judged last, by what the backing device holds of them now,
    /// durably: whatever else writes to them after a crash is known then, too. What is being written has its turn the next time.
    pub(crate) async fn settle(&self, attached: &Attached<E>) -> Result<(), Error> {
        let Some(known) = attached.pool.attachments.at(attached.index) else { return Ok(()) };
        let hold = |page: u64| {
            let pages = page..page + 1;
            Some((page, self.locks.try_exclusive(&pages)?, self.clean_locks.try_exclusive(&pages)?))
        };
        let held: Vec<_> = unsettled_pages(&known.backing).filter_map(hold).collect();
        if held.is_empty() {
            return Ok(());
        }
        let backing = Rc::clone(&self.backing);
        let flushed = within_or_apart(&self.env, limits::SETTLE_TIMEOUT, async move { backing.flush().await }).await;
        if !matches!(flushed, Some(Ok(()))) {
            return Ok(());
        }
        let size_bytes = known.backing.size_bytes;
        let reads = held.iter().map(async |(page, ..)| Some((*page, self.view.fingerprint(*page, size_bytes).await?)));
        let Some(read) = within(&self.env, limits::SETTLE_TIMEOUT, join_all(reads)).await else { return Ok(()) };
        let settled: Vec<(u64, u64)> = read.into_iter().flatten().collect();
        // Before they are on record: whoever writes to one from now on says so there.
        attached.judged_pages.borrow_mut().extend(settled.iter().map(|(page, _)| page));
        attached.pool.attachments.record_settled(known.attachment, &settled).await
    }
}
