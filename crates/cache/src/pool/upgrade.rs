//! A pool of an older version of the format is brought to the present one when it is opened, in place, with all that it holds.
//!
//! Each structure says of which version it is, and is replaced as ever: a record under the next number in the other area, a superblock
//! copy after copy, each flushed. So a crash at any moment leaves nothing that cannot be read, and the next start does what is left;
//! an older Hotset refuses the pool by name from the first record on. What says of itself no version (segments of the write log, the slot
//! index, slots) is of the one stream that there was, and stays as it is.

use hotset_block::Env;

use crate::error::Error;
use crate::format::record::RecordKind;
use crate::format::rows::Rows;
use crate::pool::open::Start;

impl<E: Env> Start<'_, E> {
    /// Replaces what the start does not write anyway: it records the members before, and the catalogue behind this; with a write log
    /// also the rows, when it has found them.
    pub(super) async fn upgrade(&self) -> Result<(), Error> {
        let Self { pool, plan } = self;
        for superblock in &plan.older_superblocks {
            let ssd = pool.members.online_ssds().find(|ssd| ssd.uuid == superblock.ssd_uuid);
            let Some(ssd) = ssd.cloned() else { continue };
            if let Err(fault) = ssd.write_superblock(superblock).await {
                pool.members.ssd_failed(&ssd, &fault);
            }
        }
        if plan.is_upgrade() && pool.log.is_none() {
            let _one_at_a_time = pool.members.one_change().await;
            pool.members.write_record(RecordKind::Rows, Rows::default().encode()).await?;
        }
        Ok(())
    }
}
