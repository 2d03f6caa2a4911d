//! Image files that were never written in full.
//!
//! A hole in an image would make the first write to it slow, and could fail for lack of room long after the pool was
//! made. An allocated but unwritten extent costs a journal commit at its first write, so that is not enough either. So they are filled
//! before (`hotset_block::fill_image`).

use std::os::unix::fs::MetadataExt;

/// Whether parts of the file were never written, as far as its allocated blocks tell.
pub(crate) fn is_sparse(metadata: &std::fs::Metadata) -> bool {
    metadata.is_file() && metadata.blocks().saturating_mul(512) < metadata.len()
}
