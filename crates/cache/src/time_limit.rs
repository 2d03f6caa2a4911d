//! An operation that may take so long and no longer.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, poll_immediate, select};
use hotset_block::Env;
use hotset_block::sync::Promise;

/// `None`: it took longer than `limit`. What is abandoned goes on in the device, with its buffers.
pub(crate) async fn within<E: Env, T>(env: &E, limit: Duration, operation: impl Future<Output = T>) -> Option<T> {
    let operation = pin!(operation);
    match select(operation, pin!(env.sleep(limit))).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

/// What comes to its end however long its caller waits, and whoever cancels that: a flush, of whose failure only the flush itself learns.
/// `None`: all tasks end.
pub(crate) async fn apart<E: Env, T: 'static>(env: &E, operation: impl Future<Output = T> + 'static) -> Option<T> {
    let mut operation = Box::pin(operation);
    // It begins in this turn, as it would if it were waited for here: what a flush covers is decided when it begins.
    if let Some(done) = poll_immediate(&mut operation).await {
        return Some(done);
    }
    let (promise, ended) = Promise::new();
    env.spawn(async move { promise.set(operation.await) });
    ended.await
}

/// Waits for what goes on [`apart`] so long and no longer.
pub(crate) async fn within_or_apart<E: Env, T: 'static>(
    env: &E,
    limit: Duration,
    operation: impl Future<Output = T> + 'static,
) -> Option<T> {
    within(env, limit, apart(env, operation)).await.flatten()
}

#[cfg(test)]
mod tests {
    use hotset_block::{Executor, ExecutorOptions};

    use super::*;

    #[test]
    fn what_is_waited_for_no_more_ends_all_the_same() {
        let executor = Executor::new(ExecutorOptions::default()).expect("there is an io_uring");
        executor.run(async |env| {
            let (go, goes) = Promise::new();
            let (ends, ended) = Promise::new();
            let operation = async move { ends.set(goes.await) };
            assert_eq!(within_or_apart(&env, Duration::from_millis(1), operation).await, None);
            go.set(7);
            assert_eq!(within(&env, Duration::from_secs(60), ended).await, Some(Some(Some(7))));
            assert_eq!(within_or_apart(&env, Duration::from_secs(60), async { 8 }).await, Some(8));
        });
    }
}
