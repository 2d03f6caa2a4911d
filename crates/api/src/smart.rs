//! What an SSD is, and how it says it is (S.M.A.R.T.).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Of an SSD; the worst that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SsdHealth {
    #[default]
    Good,
    /// It is missing: nobody can ask it.
    Unknown,
    /// It had medium errors or checksum failures since its pool was opened.
    ReadErrors,
    /// It says of itself that it fails or is worn out; `smart.alert` says how.
    ErrorAlert,
    /// It failed, or had left the pool before: nothing on it is used.
    Failed,
}

impl SsdHealth {
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::ReadErrors => "read errors",
            Self::ErrorAlert => "error alert",
            Self::Failed => "failed",
        }
    }
}

/// What an SSD is and where it is. Every text is empty where neither the kernel nor the drive says it; of an image file all
/// are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SsdIdentity {
    pub manufacturer: String,
    pub model: String,
    pub serial: String,
    pub firmware: String,
    /// `nvme`, `sata`, `sas`, `usb`, `virtio`, …
    pub transport: String,
    /// Of the link as it was negotiated, as `6.0 Gb/s` or `16.0 GT/s PCIe x4`.
    pub link_speed: String,
    pub enclosure: String,
    pub slot: String,
}

/// What an SSD said of itself when it was asked last. A value that it does not know is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Smart {
    pub checked_at_unix_ms: u64,
    /// Why nothing is known, or not all: `smartctl` is not installed, the SSD is an image file, … Empty otherwise.
    pub problem: String,
    /// What it warns of. Empty if nothing.
    pub alert: String,
    /// Its own verdict: whether it expects to go on working.
    pub passed: Option<bool>,
    /// How much of the writes that it was made for it has taken; can pass 100.
    pub wear_percent: Option<u16>,
    pub temperature_celsius: Option<i16>,
    pub power_on_hours: Option<u64>,
    /// All that was ever written to it, by whomever.
    pub drive_written_bytes: Option<u64>,
    /// Bytes that the cache wrote to it over all starts, as far as the state directory remembers.
    pub cache_written_bytes: u64,
    /// When it will be worn out at the pace seen so far; null until its wear was seen to grow.
    pub worn_out_at_unix_ms: Option<u64>,
}
