//! Names of pools and volumes, as requests have them, and what is said of those that nothing has.

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::VolumeStatus;
use hotset_cache::config::{PoolName, VolumeName, VolumeSpec};

pub(crate) fn spec_of(volume: &VolumeStatus) -> VolumeSpec {
    VolumeSpec { name: volume.name.clone(), backing: volume.backing.clone(), settings: volume.settings }
}

/// 32 hexadecimal digits.
pub(crate) fn uuid(uuid: u128) -> String {
    format!("{uuid:032x}")
}

pub(crate) fn pool_name(text: &str) -> Result<PoolName, ApiError> {
    text.parse().map_err(|error| crate::words::error(&error))
}

pub(crate) fn volume_name(text: &str) -> Result<VolumeName, ApiError> {
    text.parse().map_err(|error| crate::words::error(&error))
}

pub(crate) fn no_such_pool(name: &str) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, format!("pool {name}: there is no such pool"))
        .with_hint("`hotset pool list` shows all")
}

pub(crate) fn no_such_volume(name: &str) -> ApiError {
    ApiError::new(ApiErrorKind::NotFound, format!("volume {name}: there is no such volume"))
        .with_hint("`hotset volume list` shows all")
}
