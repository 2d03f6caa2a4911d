//! What hosts wrote just when the last SSD left goes to the backing devices: whoever waits for it holds its pages.

use std::rc::Rc;

use hotset_block::Env;

use crate::error::{Error, ErrorKind};
use crate::log::Log;
use crate::log::queue::Append;
use crate::pool::PoolInner;

impl<E: Env> PoolInner<E> {
    /// The task that sees to what the log cannot take any more.
    pub(crate) async fn run_redirects(self: Rc<Self>, log: Rc<Log<E>>) {
        loop {
            let added = log.appends().redirects().added();
            while let Some(append) = log.appends().redirects().next() {
                let (pool, log) = (Rc::clone(&self), Rc::clone(&log));
                self.env.spawn(async move { pool.redirect(&log, append).await });
            }
            if self.life.has_stopped() {
                return;
            }
            added.await;
        }
    }

    async fn redirect(&self, log: &Log<E>, append: Append) {
        // What is lost is on record first: this makes it less.
        self.members.until_all_left().await;
        let pages = append.pages();
        let outcome = match self.attached_volume(append.volume) {
            Some((volume, attachment)) if attachment == append.attachment => {
                volume.store_past_the_log(log, pages, append.body).await
            }
            Some(_) | None => Err(Error::new(ErrorKind::Stopping, "the volume has left its pool")),
        };
        append.done.set(outcome);
    }
}
