//! The memory cache: pages of all volumes, in front of SSDs and backing devices.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/v1/memory-cache`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryCache {
    /// What it may take when memory is not short; 0: it is off.
    pub size_bytes: u64,
    /// The size that it was set to, which is more than `size_bytes` if the machine has too little memory for it; null: none was.
    pub set_bytes: Option<u64>,
    /// What it may take now: less than its size while memory is short.
    pub allowed_bytes: u64,
    /// What the pages in it take now.
    pub used_bytes: u64,
    /// Its size by the configuration, which it has unless it was set to another one.
    pub configured_bytes: u64,
}

/// `PUT /api/v1/memory-cache`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryCacheSet {
    /// 0: off. Null or left out: what the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// The memory cache, and whether the request changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryCacheChange {
    pub changed: bool,
    pub memory_cache: MemoryCache,
}
