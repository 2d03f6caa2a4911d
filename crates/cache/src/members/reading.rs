//! SSDs to be read and nothing else: whoever has only this cannot write to them. Recovery looks at what there is through it, with or
//! without a daemon.

use hotset_block::{Buf, Env};

use crate::address::SsdIndex;
use crate::format::layout::Layout;
use crate::members::Members;
use crate::members::roster::Roster;
use crate::members::ssd::{Fault, Ssd};

/// One SSD.
pub(crate) struct ReadSsd<'a, E: Env>(&'a Ssd<E>);

impl<E: Env> Clone for ReadSsd<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Env> Copy for ReadSsd<'_, E> {}

impl<'a, E: Env> ReadSsd<'a, E> {
    pub(crate) async fn read(self, offset: u64, bytes: usize) -> Result<Buf, Fault> {
        self.0.read(offset, self.0.env.buffers().take(bytes)).await
    }

    pub(crate) fn env(self) -> &'a E {
        &self.0.env
    }

    pub(crate) fn index(self) -> SsdIndex {
        self.0.index
    }

    pub(crate) fn uuid(self) -> u128 {
        self.0.uuid
    }

    pub(crate) fn layout(self) -> &'a Layout {
        &self.0.layout
    }

    /// Only index sectors of this incarnation are believed.
    pub(crate) fn incarnation(self) -> u64 {
        self.0.incarnation.get()
    }

    pub(crate) fn is_readable(self) -> bool {
        self.0.life().is_readable()
    }

    // ---- in memory alone

    /// Has the segment for the row of the write log with this incarnation; false: there is no such one, or the log has it already.
    pub(crate) fn take_for_log(self, segment: u32, incarnation: u64) -> bool {
        self.0.segments.set_log(segment, incarnation)
    }

    pub(crate) fn is_of_row(self, segment: u32, incarnation: u64) -> bool {
        self.0.segments.is_of_row(segment, incarnation)
    }
}

impl<E: Env> Ssd<E> {
    pub(crate) fn to_read(&self) -> ReadSsd<'_, E> {
        ReadSsd(self)
    }
}

/// All SSDs of a pool.
pub(crate) struct ReadSsds<'a, E: Env>(&'a Roster<Ssd<E>>);

impl<E: Env> Clone for ReadSsds<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Env> Copy for ReadSsds<'_, E> {}

impl<'a, E: Env> ReadSsds<'a, E> {
    pub(crate) fn new(ssds: &'a Roster<Ssd<E>>) -> Self {
        Self(ssds)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = ReadSsd<'a, E>> {
        self.0.iter().map(|ssd| ReadSsd(ssd))
    }

    pub(crate) fn get(self, index: SsdIndex) -> ReadSsd<'a, E> {
        ReadSsd(&self.0[usize::from(index.0)])
    }
}

impl<E: Env> Members<E> {
    pub(crate) fn to_read(&self) -> ReadSsds<'_, E> {
        ReadSsds(&self.ssds)
    }
}
