//! Copies of pages of the write log are read one by one, and mended by nobody: for who only looks, and where no copy brings the whole.

use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::config::PAGE;
use crate::log::overlay::Content;
use crate::log::run::{LogRun, matches};
use crate::log::segment_copy::PresentCopy;
use crate::members::reading::{ReadSsd, ReadSsds};

async fn read_copy<E: Env>(ssd: ReadSsd<'_, E>, mirror: PresentCopy, page: u32, bytes: usize) -> Option<Buf> {
    ssd.read(ssd.layout().segment_offset(mirror.segment) + u64::from(page) * PAGE, bytes).await.ok()
}

/// The pages of a run, from whichever copies are good; `None` if some page has none.
pub(crate) async fn read_run<E: Env>(ssds: ReadSsds<'_, E>, run: &LogRun) -> Option<Buf> {
    match run.first.content {
        Content::Zeroes => Some(Buf::zeroed(run.bytes())),
        Content::Lost | Content::Unavailable { .. } => None,
        Content::Data { .. } => {
            let (segment, page) = run.row().locate(run.first.place.position());
            for (index, mirror) in run.row().copies_one_by_one(segment) {
                let bytes = read_copy(ssds.get(index), mirror, page, run.bytes()).await;
                if let Some(bytes) = bytes.filter(|bytes| matches(bytes, &run.checksums)) {
                    return Some(bytes);
                }
            }
            read_pages(ssds, run).await
        }
    }
}

/// Page by page, each from whichever copy is good: no copy brings the whole run of data.
pub(super) async fn read_pages<E: Env>(ssds: ReadSsds<'_, E>, run: &LogRun) -> Option<Buf> {
    let (segment, first) = run.row().locate(run.first.place.position());
    let mut whole = Buf::zeroed(run.bytes());
    for ((chunk, checksum), page) in whole.chunks_exact_mut(PAGE_BYTES).zip(&run.checksums).zip(first..) {
        chunk.copy_from_slice(&read_page(ssds, run, segment, page, *checksum).await?);
    }
    Some(whole)
}

/// One page from whichever copy is good.
pub(super) async fn read_page<E: Env>(
    ssds: ReadSsds<'_, E>,
    run: &LogRun,
    segment: u32,
    page: u32,
    checksum: u32,
) -> Option<Buf> {
    for (index, mirror) in run.row().copies_one_by_one(segment) {
        let bytes = read_copy(ssds.get(index), mirror, page, PAGE_BYTES).await;
        if let Some(bytes) = bytes.filter(|bytes| matches(bytes, std::slice::from_ref(&checksum))) {
            return Some(bytes);
        }
    }
    None
}

/// Of each page of a run of data, how many copies have the right checksum.
pub(crate) async fn count_good_copies<E: Env>(ssds: ReadSsds<'_, E>, run: &LogRun) -> Vec<usize> {
    let (segment, first) = run.row().locate(run.first.place.position());
    let mut good = vec![0; run.checksums.len()];
    for (index, mirror) in run.row().copies_one_by_one(segment) {
        let ssd = ssds.get(index);
        let whole = read_copy(ssd, mirror, first, run.bytes()).await;
        for ((good, checksum), (number, page)) in good.iter_mut().zip(&run.checksums).zip((0..).zip(first..)) {
            let right = match &whole {
                Some(bytes) => matches(&bytes[number * PAGE_BYTES..][..PAGE_BYTES], std::slice::from_ref(checksum)),
                // One page that cannot be read says nothing of the others.
                None => read_copy(ssd, mirror, page, PAGE_BYTES)
                    .await
                    .is_some_and(|bytes| matches(&bytes, std::slice::from_ref(checksum))),
            };
            *good += usize::from(right);
        }
    }
    good
}
