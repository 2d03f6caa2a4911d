//! How a backing device is recognised (DESIGN: backing identity): its size and name, fingerprint pages at fixed places,
//! and, after a clean stop, the mark that rises with every write to it.

use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::{ByteRange, Device, DeviceIdentity, Env, Likeness, likeness};

use crate::address::pages_of;
use crate::attachments::evidence::BackingEvidence;
use crate::config::{PAGE, limits};
use crate::error::Error;
use crate::format::catalogue::{BackingIdentity, Fingerprint};
use crate::format::crc64;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;
use crate::volume::{Attached, VolumeInner};

/// The least that hosts see of a device.
const SECTOR_BYTES: u64 = 512;

/// The fingerprint pages of a device: some in the first and the last MiB, where partition tables and file systems keep
/// what they change at every use, the others evenly between.
fn fingerprint_pages(size_bytes: u64) -> Vec<u64> {
    let pages = size_bytes.div_ceil(PAGE);
    let mebibyte = (1 << 20) / PAGE;
    let mut chosen = vec![0, 1, 16, mebibyte - 1, pages.saturating_sub(mebibyte), pages.saturating_sub(2), pages - 1];
    let between = u64::try_from(limits::FINGERPRINTS - chosen.len()).expect("an address has 64 bits at most");
    chosen.extend((1..=between).map(|step| pages / (between + 1) * step));
    chosen.retain(|page| *page < pages);
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

impl<E: Env> VolumeInner<E> {
    /// What the backing device is now, of which the volume has so many bytes. A page that cannot be read stays unsettled.
    pub(crate) async fn capture_identity(
        &self,
        size_bytes: u64,
        mark_is_final: bool,
    ) -> Result<BackingIdentity, Error> {
        let device = self.backing.device()?.identity().map_err(|error| self.backing.error(&error))?;
        let reads = fingerprint_pages(size_bytes).into_iter().map(async |page| {
            let checksum = self.fingerprint(page, size_bytes).await;
            Fingerprint { page, checksum: checksum.unwrap_or(0), unsettled: checksum.is_none() }
        });
        let fingerprints = join_all(reads).await;
        Ok(BackingIdentity { size_bytes, device, mark_is_final, fingerprints })
    }

    /// What the backing device is now, and still is after a power cut; an error if it does not answer in time. The caller holds
    /// off writes.
    pub(crate) async fn capture_durable_identity(self: &Rc<Self>, size_bytes: u64) -> Result<BackingIdentity, Error> {
        if !self.backing.info.read_only {
            self.flush_in_time().await?;
        }
        self.in_time(self.capture_identity(size_bytes, false)).await?
    }

    /// Flushes the backing device. Who gives up the wait does not give up the flush, for only the flush itself learns that it
    /// failed.
    pub(crate) async fn flush_in_time(self: &Rc<Self>) -> Result<(), Error> {
        let volume = Rc::clone(self);
        let mut flush = Box::pin(async move { volume.backing.flush().await });
        match self.in_time(&mut flush).await {
            Ok(flushed) => flushed,
            Err(error) => {
                self.env.spawn(async move { drop(flush.await) });
                Err(error)
            }
        }
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
        if is_rounded_up && before.size_bytes + SECTOR_BYTES == size_bytes && !before.size_bytes.is_multiple_of(PAGE) {
            self.size_bytes.set(before.size_bytes);
        }
    }

    /// What the backing device is now, durably, if it is the same one and has only grown: every byte that was judged before is as it
    /// was. A page that its old end cut is known by its first part alone, so a device whose size was no whole number of pages
    /// is not taken to have grown.
    pub(crate) async fn grown(self: &Rc<Self>, before: &BackingIdentity) -> Result<Option<BackingIdentity>, Error> {
        let size_bytes = self.size_bytes.get();
        if size_bytes <= before.size_bytes || !before.size_bytes.is_multiple_of(PAGE) {
            return Ok(None);
        }
        let now = self.capture_durable_identity(size_bytes).await?;
        // Growing a file changes its mark too, so that one which grew while Hotset was stopped is taken for a changed one.
        if likeness(&before.device.id, &now.device.id) != Likeness::Same || was_written(before, &now.device) {
            return Ok(None);
        }
        for fingerprint in before.fingerprints.iter().filter(|fingerprint| !fingerprint.unsettled) {
            let found = self.in_time(self.fingerprint(fingerprint.page, size_bytes)).await?;
            if found != Some(fingerprint.checksum) {
                return Ok(None);
            }
        }
        Ok(Some(now))
    }

    /// Why the backing device is not the one that was seen last, or not as it was; `None` if nothing speaks against it.
    pub(crate) async fn difference(&self, before: &BackingIdentity) -> Option<String> {
        if planted(Planted::ChangedBackingIgnored) {
            return None;
        }
        match self.evidence(before).await {
            Ok(evidence) => evidence.against(),
            Err(_) => Some("its identity cannot be read".to_owned()),
        }
    }

    /// What speaks for and against the backing device's being the one that was seen last.
    pub(crate) async fn evidence(&self, before: &BackingIdentity) -> Result<BackingEvidence, Error> {
        let now = self.backing.device()?.identity().map_err(|error| self.backing.error(&error))?;
        let settled: Vec<&Fingerprint> = before.fingerprints.iter().filter(|page| !page.unsettled).collect();
        // A page in which the device ended is known by so much of it.
        let end_bytes = before.size_bytes.min(self.size_bytes.get());
        let reads = settled.iter().map(async |fingerprint| {
            let is_there = fingerprint.page * PAGE < end_bytes;
            if is_there { self.fingerprint(fingerprint.page, end_bytes).await } else { None }
        });
        let found = join_all(reads).await;
        let is_as_before = |(fingerprint, found): &(&&Fingerprint, &Option<u64>)| **found == Some(fingerprint.checksum);
        let (same, other): (Vec<_>, Vec<_>) = settled.iter().zip(&found).partition(is_as_before);
        let blank = crc64(&vec![0; usize::try_from(PAGE).expect("a page is small")]);
        let alike = likeness(&before.device.id, &now.id);
        Ok(BackingEvidence {
            size_bytes_before: before.size_bytes,
            size_bytes: self.size_bytes.get(),
            likeness: alike,
            // Another device's mark says nothing of this one.
            written: (alike == Likeness::Same && was_compared(before, &now)).then(|| was_written(before, &now)),
            identity_before: before.device.id.clone(),
            identity: now.id,
            matching: same.len(),
            telling: same.iter().filter(|(fingerprint, _)| fingerprint.checksum != blank).count(),
            changed: other.iter().map(|(fingerprint, _)| fingerprint.page * PAGE).collect(),
            unsettled: before.fingerprints.len() - settled.len(),
        })
    }
}

/// The device's mark says that it was written to since a clean stop. Without one, or in another boot, it says nothing.
pub(crate) fn was_written(before: &BackingIdentity, now: &DeviceIdentity) -> bool {
    was_compared(before, now) && now.change_mark != before.device.change_mark
}

fn was_compared(before: &BackingIdentity, now: &DeviceIdentity) -> bool {
    before.mark_is_final && now.boot == before.device.boot
}

/// The pages of an identity whose change has to be recorded before it is made.
pub(crate) fn settled_pages(identity: &BackingIdentity) -> Vec<u64> {
    let settled = identity.fingerprints.iter().filter(|fingerprint| !fingerprint.unsettled);
    settled.map(|fingerprint| fingerprint.page).collect()
}

impl<E: Env> PoolInner<E> {
    /// Records that fingerprint pages in `range` are about to be written: they are not judged until they are settled
    /// again. The caller holds the range.
    pub(crate) async fn mark_unsettled(self: &Rc<Self>, attached: &Attached<E>, range: ByteRange) -> Result<(), Error> {
        let touched = pages_of(range);
        if !attached.settled_pages.borrow().iter().any(|page| touched.contains(page)) {
            return Ok(());
        }
        let Some(attachment) = self.ids.of(attached.index) else { return Ok(()) };
        self.change_catalogue(&|catalogue| {
            let volumes = catalogue.volumes.iter_mut().filter(|volume| volume.attachment == attachment);
            for fingerprint in volumes.flat_map(|volume| &mut volume.backing.fingerprints) {
                fingerprint.unsettled |= touched.contains(&fingerprint.page);
            }
        })
        .await?;
        attached.settled_pages.borrow_mut().retain(|page| !touched.contains(page));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_cover_both_ends_and_fit_the_limit() {
        for size in [512, 4096, 10_000, 1 << 20, 5 << 30] {
            let pages = fingerprint_pages(size);
            assert!(pages.len() <= limits::FINGERPRINTS && pages.contains(&0), "{size}: {pages:?}");
            assert!(pages.contains(&(size.div_ceil(PAGE) - 1)), "{size}: {pages:?}");
        }
    }
}
