//! The ground that Hotset stands on: byte ranges, buffers, the two seams `Device` and `Env`, and their real
//! implementations (io_uring executor, files and block devices, memory, the emulated HDD array and SSD).
//!
//! This crate knows nothing of caching. It holds the only `unsafe` code of the project.

mod apart;
mod buf;
mod closing;
mod counters;
mod descriptors;
mod device;
pub mod emulated;
mod env;
mod executor;
mod file;
mod file_system;
mod footprint;
mod host;
mod image;
mod in_use;
mod kernel_nbd;
mod likeness;
mod local_time;
mod machine;
mod memory;
mod net;
mod netlink;
mod operation;
mod own_writeback;
mod process_limits;
mod programs;
mod range;
mod remote;
mod ring;
mod running;
mod storage;
mod stream_copy;
pub mod sync;
mod sys;
mod sysfs;
mod tail;
mod task;
mod task_id;
mod ublk;

pub use apart::apart;
pub use buf::{Buf, BufPool, PAGE_BYTES};
pub use counters::SharedCounters;
pub use descriptors::{DescriptorUse, descriptors_for, may_keep, raise_descriptor_limit};
pub use device::{
    Device, DeviceError, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard, Extent, ExtentKind, Operation, ZeroMode,
};
pub use env::{Env, Instant, RealInstant};
pub use executor::{Executor, ExecutorOptions, at_work_for};
pub use file::{FileDevice, FileOptions, OpenError};
pub use footprint::Footprint;
pub use host::{HostDevice, HostEnv};
pub use image::{create_image, fill_image};
pub use in_use::{Access, User, holder_of, latecomers, user_of};
pub use kernel_nbd::KernelNbdDevice;
pub use likeness::{Likeness, likeness, outlives_boot};
pub use local_time::{WallClock, local_date_of, unix_seconds_of_local};
pub use machine::Machine;
pub use memory::MemoryDevice;
pub use net::{DetachedStream, InheritedListener, Listener, Stream, has_address, listen_on};
pub use netlink::GenericNetlink;
pub use own_writeback::{keep_memory, never_wait_for_writeback};
pub use process_limits::{check_threads, raise_stack_limit};
pub use range::ByteRange;
pub use remote::{COMMANDS_MAX, Command, PostError, Remote};
pub use running::{RunningClock, STRETCH_MAX, WAIT_MAX};
pub use storage::{check_is_storage, lies_among_devices};
pub use stream_copy::copy_for_device;
pub use sysfs::identify;
pub use ublk::{UBLK_REQUEST_BYTES, UblkCommand, UblkControl, UblkData, UblkDisk, UblkQueue};
