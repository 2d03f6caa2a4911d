//! How a backing device is recognised (DESIGN: backing identity): its size and name, fingerprint pages at fixed places,
//! and, after a clean stop, the mark that rises with every write to it.

use hotset_block::{DeviceIdentity, Likeness, likeness};

use crate::attachments::evidence::BackingEvidence;
use crate::config::{PAGE, limits};
use crate::format::catalogue::{BackingIdentity, Fingerprint};
use crate::format::crc64;

/// The least that hosts see of a device.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The fingerprint pages of a device: some in the first and the last MiB, where partition tables and file systems keep
/// what they change at every use, the others evenly between.
pub(crate) fn fingerprint_pages(size_bytes: u64) -> Vec<u64> {
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

/// The fingerprint pages that are judged.
pub(crate) fn judged(identity: &BackingIdentity) -> impl Iterator<Item = &Fingerprint> {
    identity.fingerprints.iter().filter(|fingerprint| !fingerprint.unsettled)
}

/// What speaks for and against a device's being the one that was seen last: it is called so now and has so many bytes, and its pages
/// that are [`judged`] have these checksums, as far as they could be read.
pub(crate) fn evidence(
    before: &BackingIdentity,
    now: DeviceIdentity,
    size_bytes: u64,
    found: &[Option<u64>],
) -> BackingEvidence {
    let settled: Vec<&Fingerprint> = judged(before).collect();
    let is_as_before = |(fingerprint, found): &(&&Fingerprint, &Option<u64>)| **found == Some(fingerprint.checksum);
    let (same, other): (Vec<_>, Vec<_>) = settled.iter().zip(found).partition(is_as_before);
    let blank = crc64(&vec![0; usize::try_from(PAGE).expect("a page has 4096 bytes")]);
    let alike = likeness(&before.device.id, &now.id);
    BackingEvidence {
        size_bytes_before: before.size_bytes,
        size_bytes,
        likeness: alike,
        // Another device's mark says nothing of this one.
        written: (alike == Likeness::Same && was_compared(before, &now)).then(|| was_written(before, &now)),
        identity_before: before.device.id.clone(),
        identity: now.id,
        matching: same.len(),
        telling: same.iter().filter(|(fingerprint, _)| fingerprint.checksum != blank).count(),
        changed: other.iter().map(|(fingerprint, _)| fingerprint.page * PAGE).collect(),
        unsettled: before.fingerprints.len() - settled.len(),
    }
}

/// Sizes were rounded down to sectors once: a device of this size may be one that was taken for that much smaller.
pub(crate) fn was_rounded_down(before: &BackingIdentity, size_bytes: u64) -> bool {
    before.size_bytes + SECTOR_BYTES == size_bytes && !before.size_bytes.is_multiple_of(PAGE)
}

/// A device of this size may be the one of before, grown. A page that its old end cut is known by its first part alone, so a device
/// whose size was no whole number of pages is not taken to have grown.
pub(crate) fn may_have_grown(before: &BackingIdentity, size_bytes: u64) -> bool {
    size_bytes > before.size_bytes && before.size_bytes.is_multiple_of(PAGE)
}

/// The device's mark says that it was written to since a clean stop. Without one, or in another boot, it says nothing.
pub(crate) fn was_written(before: &BackingIdentity, now: &DeviceIdentity) -> bool {
    was_compared(before, now) && now.change_mark != before.device.change_mark
}

fn was_compared(before: &BackingIdentity, now: &DeviceIdentity) -> bool {
    before.mark_is_final && now.boot == before.device.boot
}

/// The pages of an identity whose change has to be recorded before it is made.
pub(crate) fn judged_pages(identity: &BackingIdentity) -> Vec<u64> {
    judged(identity).map(|fingerprint| fingerprint.page).collect()
}

/// The pages of an identity that are not judged.
pub(crate) fn unsettled_pages(identity: &BackingIdentity) -> impl Iterator<Item = u64> {
    identity.fingerprints.iter().filter(|fingerprint| fingerprint.unsettled).map(|fingerprint| fingerprint.page)
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

    fn identity(id: &str, pages: &[(u64, u64, bool)]) -> BackingIdentity {
        let fingerprint = |&(page, checksum, unsettled)| Fingerprint { page, checksum, unsettled };
        BackingIdentity {
            size_bytes: 1 << 20,
            device: DeviceIdentity { id: id.to_owned(), ..DeviceIdentity::default() },
            mark_is_final: false,
            fingerprints: pages.iter().map(fingerprint).collect(),
        }
    }

    // proves: F8
    #[test]
    fn unsettled_pages_are_not_judged_and_others_by_their_checksums() {
        let before = identity("a", &[(0, 7, false), (3, 8, true), (9, 9, false)]);
        assert_eq!(judged_pages(&before), [0, 9]);
        let now = before.device.clone();
        let same = evidence(&before, now.clone(), 1 << 20, &[Some(7), Some(9)]);
        assert_eq!((same.matching, same.telling, same.unsettled, same.changed), (2, 2, 1, Vec::new()));
        let changed = evidence(&before, now, 1 << 20, &[Some(7), None]);
        assert_eq!(
            (changed.matching, changed.changed),
            (1, vec![9 * PAGE]),
            "one that cannot be read speaks against it"
        );
    }

    #[test]
    fn only_a_device_of_whole_pages_is_taken_to_have_grown() {
        let whole = identity("a", &[]);
        assert!(may_have_grown(&whole, 2 << 20) && !may_have_grown(&whole, 1 << 20));
        let cut = BackingIdentity { size_bytes: (1 << 20) + 512, ..whole };
        assert!(!may_have_grown(&cut, 2 << 20));
        assert!(was_rounded_down(&cut, (1 << 20) + 1024) && !was_rounded_down(&cut, (1 << 20) + 4096));
    }
}
