//! Once the SSDs have taken what an administrator allows them in a day, nothing more is populated. Hosts' writes, cleaning and
//! copies go on.

use hotset_block::Env;

use crate::pool::PoolInner;
use crate::status::SsdWritesStatus;

impl<E: Env> PoolInner<E> {
    /// The SSDs have taken what they may in a day, fills that run included.
    pub(crate) fn is_worn_for_today(&self) -> bool {
        let Some(limit) = self.settings.get().ssd_writes_per_day_bytes else { return false };
        let running = u64::try_from(self.fills.running()).expect("an address has 64 bits at most") * self.block_bytes();
        self.members.written_today().saturating_add(running) >= limit
    }

    pub(crate) fn ssd_writes(&self) -> SsdWritesStatus {
        SsdWritesStatus { day_bytes: self.members.written_today(), populating_stopped: self.is_worn_for_today() }
    }
}
