//! What was added to a backing device is taken in, while hosts use its volume.

use hotset_block::{Device, Env};

use crate::attachments::identity::{SECTOR_BYTES, judged_pages};
use crate::config::PAGE;
use crate::error::{Error, ErrorKind};
use crate::log::overlay::PAGES_MAX;
use crate::volume::inner::{Volume, VolumeInner};
use crate::volume::place::{Attached, PoolRooms};

impl<E: Env> Volume<E> {
    /// Takes in what was added to the backing device since it was opened, with all that is cached and dirty kept: durable in
    /// the volume's pool when this answers. Answers the size, which may be as before. The caller tells hosts.
    pub async fn grow(&self) -> Result<u64, Error> {
        let volume = &self.inner;
        let (now, size_bytes) = (volume.size_bytes.get(), volume.view.size_of_backing()?);
        // A device does not take a smaller size in: what it answers is the one that it had. A file ends within its last sector.
        let end_bytes = volume.backing.device()?.end_bytes();
        if end_bytes.next_multiple_of(SECTOR_BYTES) < now {
            let message = format!(
                "volume {}: its backing device has {end_bytes} bytes and is smaller than the volume, which has {now}: what hosts \
                 wrote behind its end is gone; give the device its size back, and restore what was there",
                self.name()
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        if size_bytes <= now {
            return Ok(now);
        }
        if !now.is_multiple_of(PAGE) {
            let message = format!(
                "volume {}: its backing device grew to {size_bytes} bytes, but {now} bytes are no whole number of pages of \
                 {PAGE} bytes: its last page cannot be told from a changed one; take it out of its pool and open it anew",
                self.name()
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        if volume.attached().is_none() {
            // A pool that it joins holds it, and is about to record the size that it had.
            let _held = volume.view.in_time(volume.hold_all()).await?;
            if volume.attached().is_none() {
                volume.size_bytes.set(size_bytes.max(volume.size_bytes.get()));
                return Ok(volume.size_bytes.get());
            }
        }
        if let Some(attached) = volume.attached() {
            volume.grow_cached(&attached, size_bytes).await?;
        }
        Ok(volume.size_bytes.get())
    }

    /// Whether [`Volume::grow`] has something to do.
    pub fn can_grow(&self) -> bool {
        self.inner.view.size_of_backing().is_ok_and(|size_bytes| size_bytes > self.inner.size_bytes.get())
    }
}

impl<E: Env> VolumeInner<E> {
    /// The backing device of a volume that serves has grown. What it is now is durable before anybody can write to what was
    /// added; hosts and the cleaner are held off while it is looked at.
    async fn grow_cached(&self, attached: &Attached<E>, size_bytes: u64) -> Result<(), Error> {
        let (volume, pool) = (self, &attached.pool);
        let _one_at_a_time = pool.admin_lock.acquire(1).await;
        let now = volume.size_bytes.get();
        if size_bytes <= now {
            // Somebody who asked later was first, and found more.
            return Ok(());
        }
        let refused = |why: &str| {
            let name = &volume.spec.borrow().name;
            Err(Error::new(ErrorKind::Refused, format!("volume {name} cannot grow now: {why}")))
        };
        if volume.life.is_fenced() || pool.life.is_stopping() {
            return refused("it is fenced, or its pool is being stopped");
        }
        volume.check_fits(pool, size_bytes)?;
        let _held = volume.view.in_time(volume.hold_all()).await?;
        let _not_cleaned = volume.view.in_time(volume.clean_locks.exclusive(0..PAGES_MAX)).await?;
        let known = pool.attachments.at(attached.index);
        let Some(known) = known.filter(|_| !volume.detached_from(pool)) else {
            return refused("its cache is being taken away");
        };
        let backing = volume.view.capture_durable_identity(size_bytes).await?;
        let grown = pool.attachments.record_growth(known, backing).await?;
        *attached.judged_pages.borrow_mut() = judged_pages(&grown.backing);
        let before = volume.size_bytes.replace(size_bytes);
        assert_eq!(before, now, "a volume grew twice at once, to {size_bytes} bytes");
        Ok(())
    }

    /// A volume of this size has few enough blocks for the pool.
    pub(crate) fn check_fits(&self, pool: &PoolRooms<E>, size_bytes: u64) -> Result<(), Error> {
        let most = u64::from(u32::MAX) * pool.blocks.bytes();
        if size_bytes <= most {
            return Ok(());
        }
        let name = &self.spec.borrow().name;
        let message = format!("volume {name} is larger than {most} bytes: use a pool with larger cache blocks");
        Err(Error::new(ErrorKind::Refused, message))
    }
}
