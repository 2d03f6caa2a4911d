//! Conditions: whatever makes a host see an error, or breaks a promise, as long as that is so.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Health, Subject};

/// What is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionKind {
    /// A pool is not good.
    Pool,
    /// An SSD is not good.
    Ssd,
    /// A volume is not good, or its cache is not.
    Volume,
    /// Hosts got errors, within the last hour.
    HostErrors,
    /// The state directory takes nothing: it is full, read-only or gone.
    StateDirectory,
    /// A record in the state directory cannot be read.
    RecordUnreadable,
    /// Records that could not be read were set aside, and begun anew.
    RecordsSetAside,
    /// The record of a pool, or of the volumes without one, is older than what it is about.
    RecordOutdated,
    /// Events are not kept over a restart.
    Events,
    /// Statistics are not kept.
    Statistics,
    /// Older statistics were set aside, because they could not be read.
    StatisticsSetAside,
    /// What is written to the SSDs is not counted over a restart.
    SsdWrites,
    /// How runs of the daemon end is not counted: a pool that ends it again and again is not fenced.
    Failures,
    /// Backing devices with dirty data are not guarded over a restart.
    Guard,
    /// The event hook does not work.
    EventHook,
    /// The web hook for notices takes none.
    WebHook,
    /// The mail server takes no notices.
    Mail,
    /// Lines of the log were dropped.
    Log,
    /// A certificate ends within 30 days, or has ended, or a new one cannot be used.
    Certificate,
    /// Hosts were refused for want of file descriptors, within the last minutes.
    ConnectionsRefused,
    /// A socket that the service manager keeps is at no address that the configuration names: who comes by it is turned away.
    SocketNotServed,
    /// Hosts do not see the last bytes of a backing device.
    EndNotServed,
    /// Another file is in the place of a volume's backing device, and is served.
    OtherBacking,
    /// Somebody else can write to a device in use: a loop device, a mount or swap came to it after it was opened.
    SecondWriter,
    /// Which backing device is whose is not kept over a restart.
    Backings,
    /// What this daemon is called on SSDs is not kept over a restart.
    DaemonId,
    /// A backing device has grown, and its volume cannot.
    Growth,
    /// A conversion of a pool does not come to its end.
    Conversion,
    /// A spare of a pool was not taken again after a conversion.
    Spare,
    /// A spare of a pool is gone, or cannot be read: it could not take the place of an SSD.
    SpareUnusable,
    /// A flush that was asked for, so that something can be taken away, ended before its end.
    Flush,
    /// SSDs that were to be removed from a pool could not be emptied.
    Removal,
    /// The scan found SSDs of a pool that is not on record, and the pool is not opened.
    PoolNotOpened,
    /// A volume is not the block device of this machine that it is to be.
    LocalDevice,
    /// What a HUP asked for was not done.
    Reload,
}

impl ConditionKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Ssd => "ssd",
            Self::Volume => "volume",
            Self::HostErrors => "host-errors",
            Self::StateDirectory => "state-directory",
            Self::RecordUnreadable => "record-unreadable",
            Self::RecordsSetAside => "records-set-aside",
            Self::RecordOutdated => "record-outdated",
            Self::Events => "events",
            Self::Statistics => "statistics",
            Self::StatisticsSetAside => "statistics-set-aside",
            Self::SsdWrites => "ssd-writes",
            Self::Failures => "failures",
            Self::Guard => "guard",
            Self::EventHook => "event-hook",
            Self::WebHook => "web-hook",
            Self::Mail => "mail",
            Self::Log => "log",
            Self::Certificate => "certificate",
            Self::ConnectionsRefused => "connections-refused",
            Self::SocketNotServed => "socket-not-served",
            Self::EndNotServed => "end-not-served",
            Self::OtherBacking => "other-backing",
            Self::SecondWriter => "second-writer",
            Self::Backings => "backings",
            Self::DaemonId => "daemon-id",
            Self::Growth => "growth",
            Self::Conversion => "conversion",
            Self::Spare => "spare",
            Self::SpareUnusable => "spare-unusable",
            Self::Flush => "flush",
            Self::Removal => "removal",
            Self::PoolNotOpened => "pool-not-opened",
            Self::LocalDevice => "local-device",
            Self::Reload => "reload",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Condition {
    pub kind: ConditionKind,
    /// Whom it concerns.
    pub subject: Subject,
    /// The path of an SSD; empty otherwise.
    pub path: String,
    /// The pool that an SSD is in.
    pub pool: Option<String>,
    /// How bad it is: never `good`.
    pub health: Health,
    /// What is wrong, in one line.
    pub reason: String,
    /// What to do about it.
    pub action: String,
    /// When it began, as far as the daemon knows, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// When it was last seen to happen.
    pub latest_unix_ms: u64,
    /// How often it happened; 1 for what is a state.
    pub count: u64,
}
