//! What hosts wrote just when the last SSD left goes to the backing devices: whoever waits for it holds its pages.

use std::rc::Rc;

use hotset_block::Env;

use crate::error::{Error, ErrorKind};
use crate::log::Log;
use crate::log::queue::Append;
use crate::pool::inner::PoolInner;
use crate::volume::in_log::LoggedVolume;

impl<E: Env> PoolInner<E> {
    /// The task that sees to what the log cannot take any more.
    pub(crate) async fn run_redirects(self: Rc<Self>, log: Rc<Log<E>>) {
        loop {
            let added = log.appends().redirects().added();
            while let Some(append) = log.appends().redirects().next() {
                let pool = Rc::clone(&self);
                self.env.spawn(async move { pool.redirect(append).await });
            }
            if self.life.has_stopped() {
                return;
            }
            added.await;
        }
    }

    async fn redirect(&self, append: Append) {
        // What is lost is on record first: this makes it less.
        self.members.until_all_left().await;
        let pages = append.pages();
        let found = self.volumes.get(append.volume).filter(|(_, attachment)| *attachment == append.attachment);
        let place = found.and_then(|(volume, _)| volume.attached().map(|attached| (volume, attached)));
        let logged = place.as_ref().and_then(|(volume, attached)| LoggedVolume::of(volume, attached));
        let outcome = match logged {
            Some(logged) => logged.store_redirected(pages, append.body).await,
            None => Err(Error::new(ErrorKind::Stopping, "the volume has left its pool")),
        };
        append.done.set(outcome);
    }
}
