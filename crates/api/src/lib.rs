//! Requests and replies of the control API: types only.
//!
//! Keys are stable: a key is never renamed and never changes its meaning; new ones may appear. Every number's unit is
//! the last word of its key. All paths start with [`PREFIX`]; every answer that is not 2xx is an [`ApiError`].

mod access;
mod advisor;
mod condition;
mod connect;
mod counters;
mod disk;
mod error;
mod event;
mod explanation;
mod flush;
mod history;
mod loss;
mod members;
mod memory_cache;
mod notice;
mod operation;
mod pool;
mod recording;
mod scrub;
mod smart;
mod status;
mod subject;
mod volume;
mod words;

pub use access::{Role, Session, Token, TokenCreate, TokenCreated, TokenList};
pub use advisor::{
    Advice, AdviceList, AdviceWindow, AdvisedDay, AdvisedDays, AdvisedPool, AdvisedSize, LiveWhatIf, LiveWhatIfPool,
};
pub use condition::{Condition, ConditionKind};
pub use connect::{Connect, ConnectAddress, ConnectKind, Snippet};
pub use counters::DaemonCounters;
pub use disk::{Disk, DiskKind, DiskList};
pub use error::{ApiError, ApiErrorKind};
pub use event::{Event, EventList, Severity};
pub use explanation::{Explanation, LogCopy, PagePlaces, SlotCopy};
pub use flush::{Flush, FlushCancelled, FlushPurpose, HoldReleased, Removal, WritesHeld};
pub use history::{History, HistoryAverages, HistoryPoint, LatencyPercentiles, RecentLatency};
pub use loss::{LossAccepted, LossList, LostExtent, VolumeLoss};
pub use members::{ChangePlan, MemoryPlan, PoolVolume, PoolVolumes, Progress, Spare, SsdsAdd, SsdsRemove};
pub use memory_cache::{MemoryCache, MemoryCacheChange, MemoryCacheSet};
pub use notice::{NoticeAnswer, NoticeTest};
pub use operation::{Operation, OperationCancelled, OperationKind, OperationList, OperationStart, OperationState};
pub use pool::{
    MemoryTerm, MemoryTerms, Pool, PoolChange, PoolConvert, PoolCreate, PoolImport, PoolList, PoolPlan, PoolSet,
    PoolSettingsChange, Ssd, WriteLog,
};
pub use recording::{Recorded, Recording};
pub use scrub::{Scrub, ScrubState};
pub use smart::{Smart, SsdHealth, SsdIdentity};
pub use status::{DeviceIo, Stats, Status, VolumeCounters, Work};
pub use subject::{Subject, SubjectKind};
pub use volume::{
    BackingAccept, BackingEvidence, CacheEnable, Deleted, HostClient, HostProtocol, LocalDevice, Share, Volume,
    VolumeChange, VolumeClear, VolumeCreate, VolumeList, VolumeRename, VolumeSet, VolumeStats,
};
pub use words::{
    CacheHealth, CacheState, FetchRate, FlushRate, Health, IoType, MissReason, PolicyKind, PoolKind, PoolState,
    SsdState, VolumeState, WriteMode,
};

/// What every path of this version of the API starts with.
pub const PREFIX: &str = "/api/v1";
