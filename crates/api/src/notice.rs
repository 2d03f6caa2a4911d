//! Notices: whether those who are to be told of events can be.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a target answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NoticeAnswer {
    /// `web hook` or `e-mail`.
    pub target: String,
    pub address: String,
    /// It took the notice.
    pub ok: bool,
    /// What it said, or why it took none.
    pub answer: String,
}

/// `POST /api/v1/notices/test`: each target was sent a notice that this is a test, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NoticeTest {
    pub targets: Vec<NoticeAnswer>,
}
