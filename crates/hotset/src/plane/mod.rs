//! The data plane: some threads, each with its executor, and on each some pools with their volumes and those who use them.
//! Hosts connect on the first, and go from there to the thread of their volume; no request crosses threads.
//!
//! Other threads reach them through a [`Handle`], whose jobs run here, each as a task of its own. Nothing here blocks.

pub(crate) mod device;
mod handle;
mod listen;
mod local;
mod open;
mod places;
mod pools;
mod relocate;
mod stop;
mod volumes;

pub(crate) use handle::{Handle, ThreadMemory};
pub(crate) use open::{Plane, Snapshot, Timed};
pub(crate) use pools::{Opened, plan};
pub(crate) use stop::StopReport;
pub(crate) use volumes::{TakenOfVolume, uncached_setup};
