//! A pool stops, or is deleted.

use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::Env;

use crate::address::VolumeIndex;
use crate::config::{VolumeName, limits};
use crate::error::{Error, ErrorKind};
use crate::format::members::MembersRecord;
use crate::pool::detach::DirtyData;
use crate::pool::inner::PoolInner;
use crate::time_limit::{within, within_or_apart};
use crate::volume::inner::VolumeInner;
use crate::volume::life::VolumeChange;
use crate::volume::place::PoolRooms;

/// How [`crate::Pool::close`] left the volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Volumes whose backing device was not left clean, and why: it failed a flush, or did not answer. No mark of this
    /// stop is recorded for it, so the next start treats it as after a crash.
    pub not_durable: Vec<(VolumeName, Error)>,
    /// Acknowledged bytes that only the SSDs have, of all volumes of the pool. Its status tells nothing of that any more.
    pub dirty_bytes: u64,
}

/// A volume and its place in the pool.
type Attachment<E> = (VolumeIndex, Rc<VolumeInner<E>>);

/// Volumes that are not left clean, and why.
type NotDurable = Vec<(VolumeName, Error)>;

fn silent<E: Env>(volume: &VolumeInner<E>) -> Error {
    let seconds = limits::STOP_FLUSH_TIMEOUT.as_secs();
    Error::new(ErrorKind::Media, format!("backing device {} did not flush within {seconds} s", volume.backing.name))
}

/// Those that came to an end; adds the others to `not_durable`.
fn sort_out<E: Env>(
    volumes: Vec<Attachment<E>>,
    results: Vec<Result<(), Error>>,
    not_durable: &mut NotDurable,
) -> Vec<Attachment<E>> {
    let mut durable = Vec::new();
    for ((index, volume), result) in volumes.into_iter().zip(results) {
        match result {
            Ok(()) => durable.push((index, volume)),
            Err(error) => not_durable.push((volume.name(), error)),
        }
    }
    durable
}

impl<E: Env> PoolInner<E> {
    /// Requests are refused, those in flight finish, backing devices and slots are flushed, what is visible is
    /// published, identities recorded; the clean mark last.
    pub(crate) async fn close(self: &Rc<Self>) -> Result<Closed, Error> {
        let _one_at_a_time = self.admin_lock.acquire(1).await;
        if self.members.owner().is_taken() {
            self.life.check_open()?;
        }
        if self.life.has_stopped() {
            // It was deleted, or closed, while this waited.
            return Ok(Closed::default());
        }
        let result = PoolStop::begin(self).run().await;
        self.end();
        result
    }

    /// Nothing of the pool runs any more: whatever still waits for an SSD that does not answer is let go.
    pub(crate) fn end(self: &Rc<Self>) {
        self.life.end("the pool has stopped");
        self.members.end();
        self.clean.ssds().end();
        if let Some(log) = &self.log {
            log.end();
        }
    }

    /// Ends the background tasks; fills that run end without a slot.
    async fn stop_fills(&self) {
        self.life.end_fills();
        let fills = self.clean.fills();
        fills.forget_queue();
        self.clean.wake();
        self.members.spares().wanted().wake_all();
        let ended = async {
            while fills.running() > 0 {
                fills.ended().await;
            }
        };
        within(&self.env, limits::STOP_FLUSH_TIMEOUT, ended).await;
    }

    /// Ends cleaning and moving, makes everything in the log durable and seals its last row. Dirty data stays.
    async fn stop_log(self: &Rc<Self>) -> Result<(), Error> {
        let Some(log) = &self.log else { return Ok(()) };
        self.life.end_log();
        log.wake_all();
        let quiet = async {
            let cleans = || self.volumes.all().iter().any(|(_, volume)| volume.cleaning.is_under_way());
            while !log.is_quiet() || cleans() {
                log.signals().room.wait().await;
            }
        };
        // A backing device that hangs holds nothing up: what it was sent stays dirty.
        within(&self.env, limits::STOP_FLUSH_TIMEOUT, quiet).await;
        log.stop().await
    }

    /// Detaches all volumes, which go on uncached, and erases the superblocks.
    pub(crate) async fn delete(self: &Rc<Self>, dirty: DirtyData) -> Result<(), Error> {
        let _one_at_a_time = loop {
            let names: Vec<_> =
                self.attachments.catalogue().volumes.iter().map(|volume| volume.spec.name.clone()).collect();
            for name in names {
                self.detach(&name, dirty).await?;
            }
            let lock = self.admin_lock.acquire(1).await;
            // A volume may have been attached while this waited.
            if self.attachments.catalogue().volumes.is_empty() {
                break lock;
            }
        };
        if self.life.has_stopped() {
            // It was closed while this waited, or somebody else has its SSDs.
            return self.life.check_open();
        }
        self.stop_fills().await;
        // That of a pool that is fenced cannot end well; nothing in it counts any more.
        let _ = self.stop_log().await;
        let result = self.members.erase_superblocks().await;
        self.end();
        result
    }
}

/// A stop that is under way.
struct PoolStop<'p, E: Env> {
    pool: &'p Rc<PoolInner<E>>,
    /// Those that there were when it began.
    volumes: Vec<Attachment<E>>,
    not_durable: NotDurable,
}

impl<'p, E: Env> PoolStop<'p, E> {
    /// The volumes take no more requests.
    fn begin(pool: &'p Rc<PoolInner<E>>) -> Self {
        let volumes = pool.volumes.all();
        for (_, volume) in &volumes {
            volume.life.change(VolumeChange::Stopped);
        }
        Self { pool, volumes, not_durable: Vec::new() }
    }

    async fn run(mut self) -> Result<Closed, Error> {
        let PoolRooms { env, clean, members, .. } = &*self.pool.rooms;
        self.pool.stop_fills().await;
        let durable = self.make_volumes_durable().await;
        self.pool.stop_log().await?;
        let durable = self.flush_cleaned(durable).await;
        let tickets = within(env, limits::STOP_FLUSH_TIMEOUT, self.pool.publisher.publish()).await.unwrap_or_default();
        clean.index().wait_durable(tickets).await?;
        for last in clean.index().last_tickets() {
            clean.index().wait_durable(vec![last]).await?;
        }
        clean.index().finish_checkpoints().await;
        self.record_identities(&durable).await?;
        members.witness_keeper().keep().await;
        self.write_clean_mark().await?;
        members.release().await;
        let dirty_bytes = self.pool.status().write_log.map_or(0, |log| log.dirty_bytes);
        self.detach_handles();
        Ok(Closed { not_durable: self.not_durable, dirty_bytes })
    }

    /// What the cleaner wrote last is made durable too, before anything says what the backing devices hold; answers the
    /// volumes where that came to an end.
    async fn flush_cleaned(&mut self, volumes: Vec<Attachment<E>>) -> Vec<Attachment<E>> {
        if self.pool.log.is_none() {
            return volumes;
        }
        let flush = async |volume: &Rc<VolumeInner<E>>| {
            if volume.cleaning.is_under_way() {
                let seconds = limits::STOP_FLUSH_TIMEOUT.as_secs();
                let message = format!("what was being flushed to {} did not end in {seconds} s", volume.backing.name);
                return Err(Error::new(ErrorKind::Media, message));
            }
            if volume.backing.info.read_only {
                return Ok(());
            }
            let flushing = Rc::clone(volume);
            let flushed = self.in_stop_time(async move { flushing.backing.flush().await }).await;
            flushed.unwrap_or_else(|| Err(silent(volume)))
        };
        let flushes = join_all(volumes.iter().map(|(_, volume)| flush(volume))).await;
        sort_out(volumes, flushes, &mut self.not_durable)
    }

    /// Waits for the writes in flight, and flushes the backing devices; answers the volumes where both came to an end.
    async fn make_volumes_durable(&mut self) -> Vec<Attachment<E>> {
        let ends = join_all(self.volumes.iter().map(|(_, volume)| self.make_volume_durable(volume))).await;
        sort_out(self.volumes.clone(), ends, &mut self.not_durable)
    }

    async fn make_volume_durable(&self, volume: &Rc<VolumeInner<E>>) -> Result<(), Error> {
        if let Some(reason) = volume.life.fence() {
            // It is not the volume's own backing device: nothing of it is recorded.
            return Err(Error::new(ErrorKind::Gone, reason.to_string()));
        }
        let waiting = Rc::clone(volume);
        let durable = self.in_stop_time(async move { waiting.wait_for_writes().await }).await;
        durable.unwrap_or_else(|| Err(silent(volume)))
    }

    /// Waits as long as a stop may.
    async fn in_stop_time<T: 'static>(&self, work: impl Future<Output = T> + 'static) -> Option<T> {
        within_or_apart(&self.pool.env, limits::STOP_FLUSH_TIMEOUT, work).await
    }

    /// Records what the backing devices are now, so that any later change is noticed.
    async fn record_identities(&self, volumes: &[Attachment<E>]) -> Result<(), Error> {
        let mut identities = Vec::new();
        for (index, volume) in volumes {
            let capture = volume.view.capture_identity(volume.size_bytes(), true);
            let captured = within(&self.pool.env, limits::STOP_FLUSH_TIMEOUT, capture).await;
            if let (Some(Ok(identity)), Some(attachment)) = (captured, self.pool.ids.of(*index)) {
                identities.push((attachment, identity));
            }
        }
        if identities.is_empty() {
            return Ok(());
        }
        self.pool.attachments.record_identities(&identities).await
    }

    async fn write_clean_mark(&self) -> Result<(), Error> {
        let ends = self.pool.clean.index().ends();
        self.pool
            .members
            .change_record(&|members: &mut MembersRecord| {
                members.clean = true;
                for member in &mut members.ssds {
                    member.journal_end = ends.iter().find(|(uuid, _)| *uuid == member.ssd_uuid).map(|(_, end)| *end);
                }
            })
            .await
    }

    /// Pool and volumes hold each other; after this they do not.
    fn detach_handles(&self) {
        for (_, volume) in &self.volumes {
            volume.cut_off();
        }
        self.pool.volumes.clear();
        self.pool.ids.clear();
    }
}

impl<E: Env> VolumeInner<E> {
    /// Waits for the writes in flight, then flushes the backing device.
    async fn wait_for_writes(self: &Rc<Self>) -> Result<(), Error> {
        drop(self.hold_all().await);
        if self.backing.info.read_only { Ok(()) } else { self.flush_all().await }
    }
}
