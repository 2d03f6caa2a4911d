//! Work that blocks, off the control plane's own thread.

use hotset_api::{ApiError, ApiErrorKind};

/// Runs what blocks on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::new(ApiErrorKind::Internal, format!("a background step failed: {error}")))
}
