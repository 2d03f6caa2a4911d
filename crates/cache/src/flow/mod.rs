//! What happens: short `async` functions over the state of a pool or a volume. They own nothing.
//!
//! | file | flow | rules |
//! |---|---|---|
//! | `read.rs` | a host's read | `checked-or-not-served` |
//! | `write.rs` | a host's write, around the cache | `write-ahead`, `sub-page` |
//! | `zero.rs` | trim, write-zeroes | `zeroes` |
//! | `route.rs` | where a host's write goes | `one-dirty-rule`, `reserves` |
//! | `append.rs`, `batch.rs` | a write enters the write log | `two-copies`, `flush-covers-all` |
//! | `read_log.rs` | pages are read from the log | `checked-or-not-served` |
//! | `rows.rs` | rows are opened, sealed, freed | `free-oldest-first`, `reserves` |
//! | `move_row.rs` | the oldest row is emptied | `free-oldest-first` |
//! | `mirror.rs` | copies of the log are made again | `membership` |
//! | `lose.rs` | the last copy of something leaves with its SSD | `membership` |
//! | `set_aside.rs` | pages of which no copy can be had now: how they are kept apart, leave the list, and come back | `losses` |
//! | `clean.rs` | dirty data goes to the backing device | `clean-one-at-a-time`, `write-ahead` |
//! | `recover_log.rs` | what the log holds after a start | `recovery` |
//! | `drop_pages.rs` | pages leave the cache | `believed-until-dropped` |
//! | `fill.rs` | a block enters the cache | `fill-clean-only` |
//! | `publish.rs` | filled slots become believed | `publish-late` |
//! | `journal.rs` | the slot index is written | `recovery` |
//! | `flush.rs` | a device is flushed | `flush-covers-all` |
//! | `records.rs` | member records, SSDs that leave | `membership` |
//! | `owner.rs` | who has the SSDs, and that nobody else does | `one-machine` |
//! | `come_back.rs` | SSDs that left come back by themselves, or are only read | `membership` |
//! | `witness.rs` | members are told how far the others have come | `recovery`, `believed-until-dropped` |
//! | `create.rs` | a pool is made | |
//! | `join.rs`, `remove.rs` | SSDs join and leave while the pool serves; spares | `membership` |
//! | `survey.rs`, `open.rs`, `recover.rs` | a pool starts | `recovery`, `membership` |
//! | `attach.rs`, `identity.rs` | a volume joins and leaves | attachment ids, backing identity |
//! | `share.rs`, `wear.rs` | shares of volumes; what may be written to the SSDs in a day | |
//! | `scrub.rs` | everything is read and checked, and mended | `checked-or-not-served` |
//! | `clear.rs` | a backing device is checked and opened again | `flush-covers-all` |
//! | `close.rs` | a pool stops | |

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::Env;

pub(crate) mod append;
pub(crate) mod attach;
pub(crate) mod batch;
pub(crate) mod clean;
pub(crate) mod clear;
pub(crate) mod close;
pub(crate) mod come_back;
pub(crate) mod create;
pub(crate) mod detach;
pub(crate) mod drop_pages;
pub(crate) mod fill;
pub(crate) mod flush;
pub(crate) mod identity;
pub(crate) mod join;
pub(crate) mod journal;
pub(crate) mod lose;
pub(crate) mod mirror;
pub(crate) mod move_row;
pub(crate) mod old_copy;
pub(crate) mod open;
pub(crate) mod owner;
pub(crate) mod publish;
pub(crate) mod read;
pub(crate) mod read_log;
pub(crate) mod records;
pub(crate) mod recover;
pub(crate) mod recover_log;
pub(crate) mod remove;
pub(crate) mod route;
pub(crate) mod rows;
pub(crate) mod scrub;
pub(crate) mod set_aside;
pub(crate) mod share;
mod silence;
pub(crate) mod survey;
pub(crate) mod wear;
pub(crate) mod witness;
pub(crate) mod write;
pub(crate) mod zero;

/// `None`: it took longer than `limit`. What is abandoned goes on in the device, with its buffers.
pub(crate) async fn within<E: Env, T>(env: &E, limit: Duration, operation: impl Future<Output = T>) -> Option<T> {
    let operation = pin!(operation);
    match select(operation, pin!(env.sleep(limit))).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}
