//! Between the API's words and the engine's: one function for each direction that is used.

mod reasons;
mod scrub;

use hotset_api as api;
use hotset_cache as cache;
use hotset_cache::config;

pub(crate) use reasons::{pool_reason, spare_reason, ssd_reason, volume_reason};
pub(crate) use scrub::{last_scrub, scrub, scrub_found, scrub_severity};

pub(crate) fn pool_kind(kind: config::PoolKind) -> api::PoolKind {
    match kind {
        config::PoolKind::Read => api::PoolKind::Read,
        config::PoolKind::ReadWrite => api::PoolKind::ReadWrite,
    }
}

pub(crate) fn engine_pool_kind(kind: api::PoolKind) -> config::PoolKind {
    match kind {
        api::PoolKind::Read => config::PoolKind::Read,
        api::PoolKind::ReadWrite => config::PoolKind::ReadWrite,
    }
}

pub(crate) fn io_type(io_type: config::IoType) -> api::IoType {
    match io_type {
        config::IoType::Database => api::IoType::Database,
        config::IoType::FileSystem => api::IoType::FileSystem,
        config::IoType::WebService => api::IoType::WebService,
        config::IoType::Custom => api::IoType::Custom,
    }
}

pub(crate) fn engine_io_type(io_type: api::IoType) -> config::IoType {
    match io_type {
        api::IoType::Database => config::IoType::Database,
        api::IoType::FileSystem => config::IoType::FileSystem,
        api::IoType::WebService => config::IoType::WebService,
        api::IoType::Custom => config::IoType::Custom,
    }
}

pub(crate) fn policy(policy: config::PolicyKind) -> api::PolicyKind {
    match policy {
        config::PolicyKind::S3Fifo => api::PolicyKind::S3Fifo,
        config::PolicyKind::Lru => api::PolicyKind::Lru,
        config::PolicyKind::Fifo => api::PolicyKind::Fifo,
        config::PolicyKind::TwoQ => api::PolicyKind::TwoQ,
        config::PolicyKind::Auto => api::PolicyKind::Auto,
    }
}

pub(crate) fn engine_policy(policy: api::PolicyKind) -> config::PolicyKind {
    match policy {
        api::PolicyKind::S3Fifo => config::PolicyKind::S3Fifo,
        api::PolicyKind::Lru => config::PolicyKind::Lru,
        api::PolicyKind::Fifo => config::PolicyKind::Fifo,
        api::PolicyKind::TwoQ => config::PolicyKind::TwoQ,
        api::PolicyKind::Auto => config::PolicyKind::Auto,
    }
}

pub(crate) fn fetch_rate(rate: config::FetchRate) -> api::FetchRate {
    match rate {
        config::FetchRate::Low => api::FetchRate::Low,
        config::FetchRate::Medium => api::FetchRate::Medium,
        config::FetchRate::High => api::FetchRate::High,
    }
}

pub(crate) fn engine_fetch_rate(rate: api::FetchRate) -> config::FetchRate {
    match rate {
        api::FetchRate::Low => config::FetchRate::Low,
        api::FetchRate::Medium => config::FetchRate::Medium,
        api::FetchRate::High => config::FetchRate::High,
    }
}

pub(crate) fn flush_rate(rate: config::FlushRate) -> api::FlushRate {
    match rate {
        config::FlushRate::Low => api::FlushRate::Low,
        config::FlushRate::Medium => api::FlushRate::Medium,
        config::FlushRate::High => api::FlushRate::High,
    }
}

pub(crate) fn engine_flush_rate(rate: api::FlushRate) -> config::FlushRate {
    match rate {
        api::FlushRate::Low => config::FlushRate::Low,
        api::FlushRate::Medium => config::FlushRate::Medium,
        api::FlushRate::High => config::FlushRate::High,
    }
}

pub(crate) fn write_mode(mode: config::WriteMode) -> api::WriteMode {
    match mode {
        config::WriteMode::WriteBack => api::WriteMode::WriteBack,
        config::WriteMode::InstantWriteBack => api::WriteMode::InstantWriteBack,
        config::WriteMode::WriteThrough => api::WriteMode::WriteThrough,
        config::WriteMode::WriteAround => api::WriteMode::WriteAround,
    }
}

pub(crate) fn engine_write_mode(mode: api::WriteMode) -> config::WriteMode {
    match mode {
        api::WriteMode::WriteBack => config::WriteMode::WriteBack,
        api::WriteMode::InstantWriteBack => config::WriteMode::InstantWriteBack,
        api::WriteMode::WriteThrough => config::WriteMode::WriteThrough,
        api::WriteMode::WriteAround => config::WriteMode::WriteAround,
    }
}

pub(crate) fn share(share: config::Share) -> api::Share {
    match share {
        config::Share::Bytes(bytes) => api::Share::Bytes(bytes),
        config::Share::Percent(percent) => api::Share::Percent(percent),
    }
}

/// A share of no bytes is none.
pub(crate) fn engine_share(share: api::Share) -> Option<config::Share> {
    match share {
        api::Share::Bytes(0) => None,
        api::Share::Bytes(bytes) => Some(config::Share::Bytes(bytes)),
        api::Share::Percent(percent) => Some(config::Share::Percent(percent)),
    }
}

pub(crate) fn health(health: cache::Health) -> api::Health {
    match health {
        cache::Health::Good => api::Health::Good,
        cache::Health::Degraded => api::Health::Degraded,
        cache::Health::Failed => api::Health::Failed,
    }
}

/// What to do where another machine has a pool.
pub(crate) const TAKE_OVER: &str = "stop Hotset on that machine; if it is gone for good, `hotset pool import --ssd PATH... --force` takes the \
     pool over here";

/// Of something that only a later Hotset can read.
pub(crate) fn newer_format(message: &str, version: u32) -> api::ApiError {
    let hint = format!("install a Hotset that knows version {version}");
    api::ApiError::new(api::ApiErrorKind::Unsupported, message).with_hint(hint)
}

/// Of a pool that was deleted with what it held, and whose SSDs are there.
pub(crate) fn forgotten_pool(name: &str) -> String {
    format!(
        "pool {name} was deleted while it was offline, with the dirty data on its SSDs: that is older than what hosts may have \
         written since, so the pool is not opened; `hotset recover` shows what it holds, `hotset pool create --force` uses \
         its SSDs anew"
    )
}

pub(crate) fn memory_terms(terms: cache::MemoryTerms) -> api::MemoryTerms {
    let term = |term: cache::MemoryTerm| {
        let cache::MemoryTerm { count, bytes_each } = term;
        api::MemoryTerm { count, bytes_each, bytes: term.bytes() }
    };
    let cache::MemoryTerms { slots, slot_pages, checksums, dirty_pages } = terms;
    api::MemoryTerms {
        slots: term(slots),
        slot_pages: term(slot_pages),
        checksums: term(checksums),
        dirty_pages: term(dirty_pages),
    }
}

/// The verb that is meant.
fn remedy(remedy: &cache::Remedy) -> String {
    match remedy {
        cache::Remedy::Force => "or use --force, if that is what you want".to_owned(),
        cache::Remedy::AcceptLoss(pool) => format!("`hotset pool recover {pool} --accept-loss` accepts the loss"),
        cache::Remedy::GoOnWithoutMissing => {
            "`hotset pool import --accept-missing --accept-loss` goes on without what only they have".to_owned()
        }
        cache::Remedy::RecoverByHand => {
            "`hotset recover` shows what can be read, and with --write --force writes it to the backing devices"
                .to_owned()
        }
        cache::Remedy::Convert(pool) => format!("`hotset pool convert {pool}` does that"),
    }
}

/// The engine's error for a client of the API.
pub(crate) fn error(error: &cache::Error) -> api::ApiError {
    let plain = plain_error(error);
    match error.remedy() {
        Some(verb) => plain.with_hint(remedy(verb)),
        None => plain,
    }
}

fn plain_error(error: &cache::Error) -> api::ApiError {
    use cache::ErrorKind;
    let kind = match error.kind {
        ErrorKind::Invalid | ErrorKind::OutOfRange => api::ApiErrorKind::Invalid,
        ErrorKind::ReadOnly | ErrorKind::Refused => api::ApiErrorKind::Refused,
        ErrorKind::Media | ErrorKind::Gone => api::ApiErrorKind::Device,
        ErrorKind::Full => api::ApiErrorKind::Full,
        ErrorKind::Unsupported => api::ApiErrorKind::Unsupported,
        ErrorKind::NotFound => api::ApiErrorKind::NotFound,
        ErrorKind::Corrupt => api::ApiErrorKind::Corrupt,
        ErrorKind::Missing => {
            let hint = "give them with --ssd; --accept-missing goes on without SSDs that are gone for good";
            return api::ApiError::new(api::ApiErrorKind::Device, error.to_string()).with_hint(hint);
        }
        ErrorKind::NewerFormat(version) => return newer_format(&error.to_string(), version),
        ErrorKind::OtherStream => {
            let unsupported = api::ApiError::new(api::ApiErrorKind::Unsupported, error.to_string());
            return unsupported.with_hint("install the Hotset that this pool was split with, or a later one");
        }
        ErrorKind::OtherMachine => api::ApiErrorKind::OtherMachine,
        ErrorKind::Stopping => api::ApiErrorKind::Unavailable,
    };
    api::ApiError::new(kind, error.to_string())
}

pub(crate) fn miss_reason(missed: cache::Missed) -> api::MissReason {
    match missed {
        cache::Missed::FirstTouch => api::MissReason::FirstTouch,
        cache::Missed::BelowThreshold => api::MissReason::BelowThreshold,
        cache::Missed::Evicted => api::MissReason::Evicted,
        cache::Missed::Overwritten => api::MissReason::Overwritten,
        cache::Missed::Stream => api::MissReason::Stream,
        cache::Missed::NoRoom => api::MissReason::NoRoom,
        cache::Missed::FetchRate => api::MissReason::FetchRate,
        cache::Missed::Share => api::MissReason::Share,
        cache::Missed::WearLimit => api::MissReason::WearLimit,
        cache::Missed::Degraded => api::MissReason::Degraded,
        cache::Missed::Off => api::MissReason::Off,
    }
}
