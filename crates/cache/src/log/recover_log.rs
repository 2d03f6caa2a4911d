//! A start finds what the write log holds (rule `recovery`) in three phases: a scan that only reads (`scan.rs`), a repair of what it found
//! (`repair.rs`), and the end that was found is recorded; only then does the pool serve. A crash at any moment of this changes
//! nothing.

use hotset_block::Env;

use crate::config::PAGE;
use crate::error::Error;
use crate::log::overlay::PAGES_MAX;
use crate::log::row_life::RowChange;
use crate::log::scan::{LogScan, MissingPart, Scanned};
use crate::log::stream::StreamMark;
use crate::log::{Known, Log};
use crate::members::newest::Records;

impl<E: Env> Log<E> {
    /// Brings what the log holds into memory; answers what is told to the administrator.
    pub(crate) async fn recover(&self, records: &Records, missing_part: MissingPart) -> Result<String, Error> {
        let started = self.env.real_now();
        let scanned = self.scan(records, missing_part).await?;
        self.set_known(Known::Yes);
        // What they hold is not needed: only now are they not waited for any more.
        self.members.dismiss_missing().await?;
        self.repair_log(&scanned).await;
        for row in self.state.rows_live() {
            row.change(RowChange::BatchesEnded);
            row.forget_drafts();
        }
        self.segments.measure();
        self.rows.record_rows().await?;
        let milliseconds = self.env.real_now().since(started).as_millis();
        self.state.recovery_milliseconds.set(u64::try_from(milliseconds).unwrap_or(u64::MAX));
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

    async fn scan(&self, records: &Records, missing_part: MissingPart) -> Result<Scanned, Error> {
        let (row, index) = self.members.witness_keeper().log_end();
        let ssds = self.members.to_read();
        let scan = LogScan::new(ssds, &self.state, &self.pool_name, missing_part, self.env.real_now());
        scan.run(records, StreamMark { row, index }).await
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
