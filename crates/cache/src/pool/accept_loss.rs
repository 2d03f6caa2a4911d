//! What is lost is accepted (REQUIREMENTS F5): only an administrator makes a fact of a loss. What is unavailable, and what no SSD can
//! bring back, is from then on what the backing devices hold.

use std::ops::Range;
use std::rc::Rc;

use hotset_block::{ByteRange, Env};

use crate::address::bytes_of;
use crate::config::{PAGE, VolumeName};
use crate::error::Error;
use crate::log::Log;
use crate::log::data_loss::AcceptedLosses;
use crate::pool::inner::PoolInner;
use crate::volume::in_log::LoggedVolume;
use crate::volume::inner::VolumeInner;

/// What became of lost pages that were to be accepted.
enum Accepted {
    Yes,
    /// They are something else by now.
    Changed,
    /// The log has no room for them.
    NoRoom,
}

impl<E: Env> PoolInner<E> {
    /// What is lost of each volume, in rising order, some extents of each at most.
    pub(crate) fn lost_extents(&self, extents_max: usize) -> Vec<(VolumeName, Vec<ByteRange>)> {
        let Some(log) = &self.log else { return Vec::new() };
        let catalogue = self.attachments.catalogue();
        let lost_of = |attachment| {
            let index = self.ids.index_of(attachment).filter(|index| log.counts(*index).lost > 0)?;
            Some(log.data_loss().lost_extents(index, extents_max))
        };
        let volumes = catalogue.volumes.iter();
        volumes.filter_map(|volume| Some((volume.spec.name.clone(), lost_of(volume.attachment)?))).collect()
    }

    /// Discards what is lost: it is from now on what the backing devices hold. Answers the bytes. Fenced volumes are left
    /// as they are; those that are fenced because nobody knows what they lost may be reattached then. While there is no room, nothing
    /// is held (rule `reserves`).
    pub(crate) async fn accept_loss(self: &Rc<Self>) -> Result<u64, Error> {
        let Some(log) = &self.log else { return Ok(0) };
        let mut _one_at_a_time = self.admin_lock.acquire(1).await;
        log.data_loss().accept_unknown().await?;
        let mut bytes = self.accept_unavailable(log).await?;
        for (index, volume) in self.volumes.all() {
            let mut from = 0;
            while let Some(pages) = log.data_loss().next_lost(index, from) {
                let attached = volume.attached_at(&self.rooms, index).filter(|_| !volume.life.is_fenced());
                let Some(attached) = attached else { break };
                let Some(logged) = LoggedVolume::of(&volume, &attached) else { break };
                match self.accept_lost(log, logged, &volume, &pages).await? {
                    Accepted::Yes => {
                        bytes += (pages.end - pages.start) * PAGE;
                        from = pages.end;
                    }
                    Accepted::Changed => from = pages.start,
                    Accepted::NoRoom => {
                        drop(_one_at_a_time);
                        logged.wait_for_room(&mut volume.line.place(pages)).await?;
                        _one_at_a_time = self.admin_lock.acquire(1).await;
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// These pages, which follow each other and are lost, are from now on what the backing device holds.
    async fn accept_lost(
        &self,
        log: &Log<E>,
        logged: LoggedVolume<'_, E>,
        volume: &Rc<VolumeInner<E>>,
        pages: &Range<u64>,
    ) -> Result<Accepted, Error> {
        let _held = volume.view.in_time(volume.locks.exclusive(pages.clone())).await?;
        // A host may have been faster.
        if log.data_loss().next_lost(logged.index(), pages.start).as_ref() != Some(pages) {
            return Ok(Accepted::Changed);
        }
        let read = volume.view.read_whole_pages(pages, self.env.buffers().take(bytes_of(pages)));
        let data = volume.view.in_time(read).await??;
        Ok(if logged.overwrite(pages, data).await? { Accepted::Yes } else { Accepted::NoRoom })
    }

    /// Discards what is unavailable of the volumes that are attached and serve. Answers the bytes.
    async fn accept_unavailable(&self, log: &Log<E>) -> Result<u64, Error> {
        log.data_loss().check_returned().await;
        let mut accepted = AcceptedLosses::default();
        for (index, volume) in self.volumes.all() {
            if volume.life.is_fenced() || log.counts(index).lost == 0 {
                continue;
            }
            for pages in log.data_loss().unavailable_runs(index) {
                let _held = volume.view.in_time(volume.locks.exclusive(pages.clone())).await?;
                log.data_loss().accept(index, &pages, &mut accepted).await;
                // No slot must be believed that they superseded.
                self.clean.invalidate_durably(index, pages).await?;
            }
        }
        log.data_loss().discard_unavailable(&accepted).await
    }
}
