//! How a host connects to a volume.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectKind {
    NbdClient,
    Qemu,
    Libvirt,
    Fstab,
}

/// A command or a piece of configuration, to be copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Snippet {
    pub kind: ConnectKind,
    /// As `Linux block device (nbd-client)`.
    pub title: String,
    /// Where it goes, and what must be there first.
    pub note: String,
    pub text: String,
}

/// One address at which hosts find the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectAddress {
    /// As `nbd://192.0.2.1:10809/vol1`.
    pub uri: String,
    /// Clients need a certificate.
    pub tls: bool,
    /// Only hosts on this machine can use it.
    pub local: bool,
    pub snippets: Vec<Snippet>,
}

/// `GET /api/v1/volumes/{name}/connect`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connect {
    pub volume: String,
    pub addresses: Vec<ConnectAddress>,
}
