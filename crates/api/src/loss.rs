//! What is unavailable because the SSDs that have it are away.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/v1/pools/{name}/losses`: what answers errors until an SSD with it is back, it is written or its loss accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LossList {
    /// Only volumes of which something is unavailable.
    pub volumes: Vec<VolumeLoss>,
}

/// What of one volume is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeLoss {
    pub name: String,
    /// What was lost is not known: it may be any of `extents`. The volume is fenced until that is accepted.
    pub possible: bool,
    /// As far as it is known.
    pub lost_bytes: u64,
    /// In rising order; at most the first thousand.
    pub extents: Vec<LostExtent>,
}

/// Consecutive bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostExtent {
    pub offset: u64,
    pub length: u64,
}

/// `POST /api/v1/pools/{name}/losses/accept`: from now on it is what the backing devices hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LossAccepted {
    pub accepted_bytes: u64,
}
