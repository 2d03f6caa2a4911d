//! An operation that may take so long and no longer.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::Env;

/// `None`: it took longer than `limit`. What is abandoned goes on in the device, with its buffers.
pub(crate) async fn within<E: Env, T>(env: &E, limit: Duration, operation: impl Future<Output = T>) -> Option<T> {
    let operation = pin!(operation);
    match select(operation, pin!(env.sleep(limit))).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}
