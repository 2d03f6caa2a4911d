//! What makes an SSD one of a pool is written to it and erased: its superblock, and last who has it.

use std::rc::Rc;

use hotset_block::{Buf, Device, DeviceError, Env};

use crate::config::limits;
use crate::error::{Error, ErrorKind};
use crate::format::layout::{OWNER_OFFSET, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::format::superblock::Superblock;
use crate::members::Members;
use crate::members::label::LABEL_BYTES;
use crate::members::life::LifeChange;
use crate::members::look::until_looked;
use crate::members::segments::Purpose;
use crate::members::ssd::{Fault, Ssd, not_made};
use crate::reasons::OutOfUse;
use crate::time_limit::within;

/// What makes an SSD one of a pool, and last who has it.
const ERASED_OFFSETS: [u64; 3] = [SUPERBLOCK_OFFSETS[0], SUPERBLOCK_OFFSETS[1], OWNER_OFFSET];

fn superblock_length() -> usize {
    usize::try_from(SUPERBLOCK_BYTES).expect("what lies in memory has an address")
}

impl<E: Env> Ssd<E> {
    /// Both copies, one after the other: never both in flight.
    pub(crate) async fn write_superblock(&self, superblock: &Superblock) -> Result<(), Fault> {
        for offset in SUPERBLOCK_OFFSETS {
            self.write(Purpose::Label, offset, self.env.buffers().copy_of(&superblock.encode())).await?;
            self.flush().await?;
        }
        Ok(())
    }

    pub(crate) async fn erase_superblock(&self) -> Result<(), Fault> {
        for offset in ERASED_OFFSETS {
            self.write(Purpose::Label, offset, self.env.buffers().take_zeroed(superblock_length())).await?;
            self.flush().await?;
        }
        Ok(())
    }

    /// Something harmless that an SSD can do only if it answers and takes writes: the second copy of its superblock is read
    /// and written as it is.
    pub(crate) async fn write_superblock_again(&self) -> Result<(), Fault> {
        let [_, second] = SUPERBLOCK_OFFSETS;
        let bytes = self.read(second, self.env.buffers().take(superblock_length())).await?;
        self.write(Purpose::Label, second, bytes).await.map(drop)
    }

    /// Runs a step of making it ready; if it does not answer it is discarded.
    pub(crate) async fn in_time<T>(&self, step: impl Future<Output = Result<T, Fault>>) -> Result<T, Error> {
        let mut step = std::pin::pin!(step);
        loop {
            if let Some(done) = within(&self.env, limits::SSD_TIMEOUT / 4, step.as_mut()).await {
                return done.map_err(|fault| not_made(self, &fault));
            }
            if self.oldest_operation() > limits::SSD_TIMEOUT {
                let seconds = self.oldest_operation().as_secs();
                self.go_offline(LifeChange::Failed, OutOfUse::DidNotAnswer { seconds });
            }
        }
    }
}

/// The superblock of a device that is no SSD of a pool any more; `None`: it does not answer.
pub(crate) async fn erase_device<E: Env>(env: &E, device: &E::Device) -> Option<Result<(), DeviceError>> {
    let erase = async {
        for offset in ERASED_OFFSETS {
            let (_buf, written) = device.write(offset, env.buffers().take_zeroed(superblock_length())).await;
            written?;
            device.flush().await?;
        }
        Ok(())
    };
    within(env, limits::SSD_TIMEOUT, erase).await
}

/// What made devices SSDs of a pool that they are not in: whoever wants them next finds them free. One that takes no writes keeps it.
pub(crate) async fn erase_devices<E: Env>(env: &E, devices: &[Rc<E::Device>]) {
    for device in devices {
        let _ = erase_device(env, device).await;
    }
}

impl<E: Env> Members<E> {
    /// Of all SSDs and spares: the pool is no more.
    pub(crate) async fn erase_superblocks(&self) -> Result<(), Error> {
        self.check_is_ours()?;
        for ssd in self.online_ssds() {
            if let Err(Fault::Device(error)) = ssd.erase_superblock().await {
                return Err(Error::device(&format!("SSD {}: its superblock was not erased", ssd.path), &error));
            }
        }
        for spare in self.spares.take(|_| true) {
            let Some(device) = &spare.device else { continue };
            if let Some(Err(error)) = erase_device(&self.env, device).await {
                return Err(Error::device(&format!("spare {}: its superblock was not erased", spare.path), &error));
            }
        }
        Ok(())
    }

    /// The first bytes of a device, with its superblocks; an error if it does not answer in time.
    pub(crate) async fn read_label(&self, path: &str, device: &E::Device) -> Result<Buf, Error> {
        let read = within(&self.env, limits::SSD_TIMEOUT, device.read(0, self.env.buffers().take(LABEL_BYTES)));
        let Some((bytes, read)) = read.await else { return Err(self.no_answer(path)) };
        read.map_err(|error| Error::device(&format!("SSD {path}"), &error))?;
        Ok(bytes)
    }

    pub(crate) fn no_answer(&self, path: &str) -> Error {
        let seconds = limits::SSD_TIMEOUT.as_secs();
        Error::new(ErrorKind::Gone, format!("pool {}: SSD {path} did not answer for {seconds} s", self.pool_name))
    }

    /// Whether a device takes writes, also if it could only be read when it was opened: the second copy of its superblock is written
    /// as it is. `None`: it does not answer.
    pub(crate) async fn probe_device(&self, device: &E::Device) -> Option<Result<(), DeviceError>> {
        let [_, second] = SUPERBLOCK_OFFSETS;
        let probe = async {
            device.begin_to_write().await?;
            let (bytes, read) = device.read(second, self.env.buffers().take(superblock_length())).await;
            read?;
            until_looked(&self.env, self.owner()).await;
            device.write(second, bytes).await.1?;
            device.flush().await
        };
        within(&self.env, limits::SSD_TIMEOUT, probe).await
    }
}
