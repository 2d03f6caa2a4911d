//! A start finds what the write log holds (rule `recovery`) in three phases: a scan that only reads (`scan.rs`), which fills what is in
//! memory of the log; a repair of what it found (`repair.rs`), at the end of which the end that was found is recorded; and when the slot
//! indexes are known too, what slots hold of pages with a live copy is superseded. A crash at any moment of this changes nothing.

use hotset_block::{Env, RealInstant};

use crate::config::PAGE;
use crate::error::Error;
use crate::log::overlay::PAGES_MAX;
use crate::log::row_life::RowChange;
use crate::log::scan::{LogScan, MissingPart, Scanned};
use crate::log::stream::StreamMark;
use crate::log::{Known, Log};
use crate::members::newest::Records;

impl<E: Env> Log<E> {
    /// Finds what the log holds. Nothing is written.
    pub(crate) async fn scan(&self, records: &Records, missing_part: MissingPart) -> Result<Scanned, Error> {
        let started = self.env.real_now();
        let (row, index) = self.members.witness_keeper().log_end();
        let ssds = self.members.to_read();
        let scan = LogScan::new(ssds, &self.state, &self.pool_name, missing_part, started);
        let scanned = scan.run(records, StreamMark { row, index }).await?;
        self.recovery_took(started);
        Ok(scanned)
    }

    /// Mends what a scan found, and records the end that it found; answers what is told to the administrator.
    pub(crate) async fn mend(&self, scanned: &Scanned) -> Result<String, Error> {
        let started = self.env.real_now();
        self.set_known(Known::Yes);
        // What they hold is not needed: only now are they not waited for any more.
        self.members.dismiss_missing().await?;
        self.repair_log(scanned).await?;
        for row in self.state.rows_live() {
            row.change(RowChange::BatchesEnded);
            row.forget_drafts();
        }
        self.segments.measure();
        self.rows.record_rows().await?;
        self.recovery_took(started);
        let milliseconds = self.state.recovery_milliseconds.get();
        let total = self.state.overlay.borrow().total();
        Ok(format!(
            "write log: {} bytes dirty, {} bytes clean of {} pages found in {} rows, {} bytes read in {milliseconds} ms",
            total.dirty * PAGE,
            (total.live - total.dirty) * PAGE,
            scanned.pages,
            self.state.row_count(),
            self.state.recovered_bytes.get(),
        ))
    }

    fn recovery_took(&self, since: RealInstant) {
        let milliseconds = u64::try_from(self.env.real_now().since(since).as_millis()).unwrap_or(u64::MAX);
        let before = self.state.recovery_milliseconds.get();
        self.state.recovery_milliseconds.set(before.saturating_add(milliseconds));
    }

    /// What the slots hold of pages that have a live copy is superseded. After the session has begun.
    pub(crate) async fn hide_all_superseded(&self) {
        for volume in self.ids.indexes() {
            let mut from = 0;
            loop {
                let live: Vec<u64> = self
                    .state
                    .overlay
                    .borrow()
                    .range(volume, from..PAGES_MAX)
                    .take(1024)
                    .map(|live| live.page)
                    .collect();
                let Some(last) = live.last() else { break };
                from = last + 1;
                for page in live {
                    self.clean.supersede(volume, page..page + 1);
                }
                self.env.sleep(std::time::Duration::ZERO).await;
            }
        }
    }
}
