//! The log's tasks begin and end, and it is left so that nothing of it is missing.

use std::rc::Rc;

use hotset_block::Env;

use crate::config::limits;
use crate::error::Error;
use crate::log::Log;
use crate::log::row::Row;
use crate::members::ssd::Ssd;
use crate::time_limit::within;

impl<E: Env> Log<E> {
    /// Starts its tasks. Copies are made at a slower pace while `host_requests` become more.
    pub(crate) fn serve(self: &Rc<Self>, host_requests: impl Fn() -> u64 + 'static) {
        self.segments.measure();
        self.env.spawn(Rc::clone(&self.writer).run_writer());
        self.env.spawn(Rc::clone(&self.mover).run_mover());
        self.mirrorer.judge_mirrors();
        self.env.spawn(Rc::clone(&self.mirrorer).run_mirrorer(host_requests));
        self.data_loss.spawn_check();
    }

    /// Whoever depends on how many SSDs there are, or on whether the pool goes on, looks again.
    pub(crate) fn wake_all(&self) {
        let signals = &self.signals;
        for event in [&signals.wanted, &signals.mover_wanted, &signals.cleaner_wanted, &signals.room] {
            event.wake_all();
        }
        self.state.mirrors.wanted.wake_all();
    }

    /// There are more SSDs, or fewer that get something new.
    pub(crate) fn members_changed(&self) {
        self.mirrorer.judge_mirrors();
        self.wake_all();
    }

    /// Mover and mirrorer have ended.
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.mover_ended.get() && self.state.mirrors.has_ended()
    }

    /// Makes everything in it durable and seals its last row, for as long as it may take. Dirty data stays.
    pub(crate) async fn stop(self: &Rc<Self>) -> Result<(), Error> {
        let state = &self.state;
        state.queue.want_hints();
        self.signals.wanted.wake_all();
        while !state.is_idle() || state.queue.wants_hints() || state.open.is_preparing() {
            if self.members.online_ssds().next().is_none() || self.life.is_fenced() {
                break;
            }
            let changed = within(&self.env, limits::STOP_FLUSH_TIMEOUT, self.signals.room.wait()).await;
            if changed.is_none() || state.is_out_of_rows() {
                // Hints can be lost, and nobody was told of the rest: no row is freed any more to take it.
                state.queue.forget_hints_wanted();
                self.appends.refuse_appends();
            }
        }
        self.rows.flush().await?;
        self.rows.close_row();
        while let Some(row) = state.row_being_sealed() {
            row.changed.wait().await;
        }
        let prepared = state.open.withdraw_prepared(|_| true);
        if let Some(row) = prepared {
            state.remove_newest(&row);
        }
        self.rows.record_rows().await
    }

    /// Lets a start know, too, what has been cleaned: it takes none of that for dirty, however this process ends. What the SSDs take nothing
    /// of for a while stays as it is: hints can be lost.
    pub(crate) async fn publish_cleaned(&self) -> Result<(), Error> {
        let state = &self.state;
        state.queue.want_hints();
        self.signals.wanted.wake_all();
        let written = async {
            while state.queue.wants_hints() {
                self.signals.room.wait().await;
            }
            let Some(batch) = state.stream.back() else { return };
            while state.stream.is_in_flight(&batch) {
                self.signals.room.wait().await;
            }
        };
        within(&self.env, limits::STOP_FLUSH_TIMEOUT, written).await;
        self.rows.flush().await
    }

    /// Nothing of the pool runs any more: whatever waits is told so.
    pub(crate) fn end(&self) {
        self.appends.refuse_appends();
        self.appends.redirects().wake();
        self.wake_all();
    }

    /// An SSD has left: its copies are lost, and no row goes on with them.
    pub(crate) fn go_on_without(self: &Rc<Self>, ssd: &Ssd<E>) {
        self.state.lose_copies_on(ssd.index);
        // Where something was lost, the copies were taken out before that was put on record.
        let was_on_it =
            |row: &Rc<Row>| row.segments.iter().flatten().any(|cell| cell.get().ssd_uuid() == Some(ssd.uuid));
        let current_lost = self.state.open.is_current(was_on_it);
        let prepared = self.state.open.withdraw_prepared(|_| true);
        if let Some(row) = prepared {
            self.rows.drop_row(&row);
        }
        if current_lost {
            self.rows.close_row();
        }
        self.segments.measure();
        self.mirrorer.judge_mirrors();
        self.state.mirrors.wanted.wake_all();
        self.signals.mover_wanted.wake_all();
        self.signals.cleaner_wanted.wake_all();
        self.signals.wanted.wake_all();
        self.signals.room.wake_all();
    }
}
