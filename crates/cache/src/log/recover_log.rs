//! A start finds what the write log holds (rule `recovery`) in three phases: a scan that only reads (`scan.rs`), a repair of what it found
//! (`repair.rs`), and the end that was found is recorded; only then does the pool serve. A crash at any moment of this changes
//! nothing.

use std::rc::Rc;

use hotset_block::Env;

use crate::config::PAGE;
use crate::error::Error;
use crate::log::overlay::PAGES_MAX;
use crate::log::scan::{LogScan, MissingPart, Scanned};
use crate::log::write_log::{Known, Log, RowState, StreamMark};
use crate::members::newest::Records;
use crate::pool::PoolInner;

impl<E: Env> PoolInner<E> {
    /// Brings what the log holds into memory; answers what is told to the administrator.
    pub(crate) async fn recover_log(self: &Rc<Self>, log: &Rc<Log>, records: &Records) -> Result<String, Error> {
        let started = self.env.real_now();
        let scanned = self.scan_log(log, records).await?;
        log.set_known(Known::Yes);
        // What they hold is not needed: only now are they not waited for any more.
        self.members.dismiss_missing().await?;
        self.repair_log(&scanned).await;
        for row in log.rows_live() {
            row.state.set(RowState::Sealed);
            row.drafts.borrow_mut().clear();
        }
        self.measure_log(log);
        self.record_rows(log).await?;
        let milliseconds = self.env.real_now().since(started).as_millis();
        log.recovery_milliseconds.set(u64::try_from(milliseconds).unwrap_or(u64::MAX));
        let total = log.overlay.borrow().total();
        Ok(format!(
            "write log: {} bytes dirty, {} bytes clean of {} pages found in {} rows, {} bytes read in {milliseconds} ms",
            total.dirty * PAGE,
            (total.live - total.dirty) * PAGE,
            scanned.pages,
            log.row_count(),
            log.recovered_bytes.get(),
        ))
    }

    async fn scan_log(&self, log: &Log, records: &Records) -> Result<Scanned, Error> {
        let missing_part = if self.accepts_loss { MissingPart::GoOn } else { MissingPart::Refuse };
        let (row, index) = self.members.witnessed_log_end();
        let ssds = self.members.to_read();
        let scan = LogScan::new(ssds, log, &self.name, missing_part, self.env.real_now());
        scan.run(records, StreamMark { row, index }).await
    }

    /// What the slots hold of pages that have a live copy is superseded. After the session has begun.
    pub(crate) async fn hide_all_superseded(self: &Rc<Self>, log: &Log) {
        for volume in self.ids.indexes() {
            let mut from = 0;
            loop {
                let live: Vec<u64> =
                    log.overlay.borrow().range(volume, from..PAGES_MAX).take(1024).map(|live| live.page).collect();
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
