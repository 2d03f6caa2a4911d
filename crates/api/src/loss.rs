//! What was lost with SSDs while a pool ran.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /api/v1/pools/{name}/losses`: what answers errors until it is written again or given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LossList {
    /// Only volumes that lost something.
    pub volumes: Vec<VolumeLoss>,
}

/// What of one volume is lost.
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
