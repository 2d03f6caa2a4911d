//! Who may use the API: roles, tokens, and what the daemon knows of the one who asks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look, and change nothing.
    View,
    /// Everything.
    Admin,
}

impl Role {
    pub fn word(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Admin => "admin",
        }
    }
}

/// `POST /api/v1/tokens`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// 1 to 64 characters of `A-Z a-z 0-9 - _ .`
    pub name: String,
    pub role: Role,
}

/// A new token: the only time that it is shown. The daemon keeps a hash of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCreated {
    pub name: String,
    pub role: Role,
    /// Goes into the header `Authorization: Bearer TOKEN`.
    pub token: String,
}

/// A token as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    pub name: String,
    pub role: Role,
    pub created_unix_ms: u64,
}

/// `GET /api/v1/tokens`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    pub tokens: Vec<Token>,
}

/// `GET /api/v1/session`: whom the daemon takes the client for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    pub role: Role,
    /// The name of the token; null for a client that needs none.
    pub token: Option<String>,
    pub version: String,
}
