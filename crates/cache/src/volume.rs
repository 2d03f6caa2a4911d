//! The face of the engine towards hosts: a volume and the requests it takes.

use std::rc::Rc;

use hotset_block::{Buf, ByteRange, Env, Extent, ZeroMode};

use crate::config::{VolumeSettings, VolumeSpec};
use crate::error::Error;
use crate::status::VolumeStatus;

/// When a write may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is visible; a later flush makes it durable.
    Volatile,
    /// When it is durable (FUA).
    Durable,
}

/// How long zeroing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroEffort {
    /// As long as writing the zeroes takes.
    Any,
    /// Fail with `Unsupported` at once if it is not faster than writing (NBD's `FAST_ZERO`).
    FastOnly,
}

/// A block device that a host sees. A handle: cloning it is cheap.
pub struct Volume<E: Env> {
    pub(crate) inner: Rc<VolumeInner<E>>,
}

pub(crate) struct VolumeInner<E: Env> {
    pub(crate) env: E,
}

impl<E: Env> Clone for Volume<E> {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

/// Requests: every range must lie inside the volume and be aligned to its logical block; at most
/// `limits::REQUEST_BYTES_MAX` for reads, writes and populate, any length for trim and write-zeroes.
impl<E: Env> Volume<E> {
    /// A volume over `backing`, not cached. Fails if the settings do not fit the device.
    pub fn open(env: E, spec: VolumeSpec, backing: E::Device) -> Result<Self, Error> {
        todo!()
    }

    pub fn size_bytes(&self) -> u64 {
        todo!()
    }

    pub fn name(&self) -> crate::config::VolumeName {
        todo!()
    }

    pub fn settings(&self) -> VolumeSettings {
        todo!()
    }

    /// Whether TRIM changes anything here (the backing device's discard reads back zero).
    pub fn trims(&self) -> bool {
        todo!()
    }

    /// The newest bytes of `range`.
    pub async fn read(&self, range: ByteRange) -> Result<Buf, Error> {
        todo!()
    }

    /// Stores `buf` at `offset`. The buffer comes back to its pool when the last device is done with it.
    pub async fn write(&self, offset: u64, buf: Buf, durability: Durability) -> Result<(), Error> {
        todo!()
    }

    /// Makes every write durable that was answered before this call, on any connection.
    pub async fn flush(&self) -> Result<(), Error> {
        todo!()
    }

    pub async fn trim(&self, range: ByteRange, durability: Durability) -> Result<(), Error> {
        todo!()
    }

    pub async fn write_zeroes(
        &self,
        range: ByteRange,
        mode: ZeroMode,
        effort: ZeroEffort,
        durability: Durability,
    ) -> Result<(), Error> {
        todo!()
    }

    /// Brings the blocks of `range` into the cache, as far as there is room (NBD's `CACHE`).
    pub async fn populate(&self, range: ByteRange) -> Result<(), Error> {
        todo!()
    }

    /// Which parts of `range` are allocated, at most `extents_max`; may end before the range does, never empty for a
    /// range that is not.
    pub fn block_status(&self, range: ByteRange, extents_max: usize) -> Result<Vec<Extent>, Error> {
        todo!()
    }

    pub fn status(&self) -> VolumeStatus {
        todo!()
    }

    /// Changes the settings that can change while hosts use the volume (the cut-offs); refuses the others.
    pub async fn set(&self, settings: VolumeSettings) -> Result<(), Error> {
        todo!()
    }
}
