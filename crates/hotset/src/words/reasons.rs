//! What people are told of why pools, SSDs and volumes are as they are, and what to do.

use hotset_cache::{PoolReason, SpareReason, SsdDoubt, SsdReason, VolumeReason};

/// Empty if there is nothing to say.
pub(crate) fn pool_reason(reason: Option<&PoolReason>) -> String {
    reason.map_or_else(String::new, of_pool)
}

fn of_pool(reason: &PoolReason) -> String {
    match reason {
        PoolReason::Fenced(error) => error.to_string(),
        PoolReason::Silent { paths } => format!(
            "{} SSD(s) do not answer, and have what no other SSD has: {}. What hosts ask of that waits, the rest goes to the \
             backing devices, and nothing is lost; see to what they share: their controller, their path, the file system of \
             their images. When they answer again, all goes on by itself",
            paths.len(),
            paths.join(", ")
        ),
        PoolReason::NoneTakesWrites => {
            "no SSD takes writes: what is dirty is read from them and being flushed, volumes run at their backing devices' \
             speed; see to the SSDs: their space, their write protection, their wear"
                .to_owned()
        }
        PoolReason::NoSsd => "no SSD is left: volumes run at their backing devices' speed".to_owned(),
        PoolReason::FewerSsds { gone } => {
            format!("{gone} SSD(s) out of use, the others serve; see the SSDs' reasons and replace them")
        }
        PoolReason::OneSsd => {
            "one SSD is left, which is not enough for two copies: dirty data is being flushed, new writes go to the backing \
             devices, cached reads are served; replace the other SSDs"
                .to_owned()
        }
        PoolReason::NoRoomForCopies => {
            "the SSDs that are left have no room for a second copy of all dirty data: it is being flushed, new writes go to \
             the backing devices, cached reads are served; add an SSD"
                .to_owned()
        }
        PoolReason::CopiesAreMade { done_bytes, total_bytes } => format!(
            "second copies of dirty data are being made: {done_bytes} of {total_bytes} bytes; writes are cached meanwhile"
        ),
        PoolReason::Missed { paths } => format!(
            "{} SSD(s) out of use ({}), the others have two copies of all dirty data; replace them, or remove them from the \
             pool",
            paths.len(),
            paths.join(", ")
        ),
        PoolReason::Doubts(doubts) => {
            let doubts: Vec<String> = doubts.iter().map(|(path, doubt)| format!("SSD {path}: {}", of_doubt(doubt))).collect();
            doubts.join("; ")
        }
        PoolReason::StateIsBehind => {
            "the state directory did not take the pool's newest records, the SSDs have them: after a restart the read cache \
             may be cold; see to the disk that holds the state directory"
                .to_owned()
        }
        PoolReason::WornForToday { day_bytes, limit_bytes } => format!(
            "nothing new is populated: {day_bytes} bytes were written to its SSDs within 24 hours, and ssd-writes-per-day is \
             {limit_bytes} bytes; wait, or raise it"
        ),
    }
}

fn of_doubt(doubt: &SsdDoubt) -> String {
    match doubt {
        SsdDoubt::LostWrites => {
            "it lost writes that it had said were flushed, so that its part of the read cache was emptied; replace it"
                .to_owned()
        }
        SsdDoubt::Misread { reads } => {
            format!("{reads} of its reads failed or brought wrong bytes, which hosts did not see; replace it")
        }
        SsdDoubt::FailedBefore { how } => format!("it failed before ({how}) and is used again; replace it"),
    }
}

/// Empty if there is nothing to say.
pub(crate) fn ssd_reason(reason: Option<&SsdReason>) -> String {
    reason.map_or_else(String::new, of_ssd)
}

fn of_ssd(reason: &SsdReason) -> String {
    match reason {
        SsdReason::NotAnswering { seconds } => format!("it has not answered for {seconds} s, and is waited for"),
        SsdReason::WithoutIt { why } => {
            format!("{why}: the pool goes on without it, and takes it back when it answers")
        }
        SsdReason::TakesNoWrites { why, only_here_bytes, may_pass } => {
            let read = match only_here_bytes {
                0 => "nothing is lost with it".to_owned(),
                bytes => {
                    format!("{bytes} bytes of dirty data that no SSD in use has are read from it and being flushed")
                }
            };
            let then = if *may_pass { ", and it is taken back when it takes writes" } else { "" };
            format!("it takes no writes ({why}): {read}{then}")
        }
        SsdReason::OutOfUse { why } => why.to_string(),
        SsdReason::NotUsed { why } => why.to_string(),
        SsdReason::Doubt(doubt) => of_doubt(doubt),
    }
}

/// Empty if there is nothing to say.
pub(crate) fn spare_reason(reason: Option<&SpareReason>) -> String {
    match reason {
        None => String::new(),
        Some(SpareReason::Missing) => "it is missing".to_owned(),
        Some(SpareReason::CouldNotJoin(error)) => error.to_string(),
    }
}

/// Empty if there is nothing to say.
pub(crate) fn volume_reason(reason: Option<&VolumeReason>) -> String {
    reason.map_or_else(String::new, of_volume)
}

fn of_volume(reason: &VolumeReason) -> String {
    match reason {
        VolumeReason::OfPool(reason) => of_pool(reason),
        VolumeReason::BackingStopped(stop) => stop.to_string(),
        VolumeReason::Fenced(fence) => fence.to_string(),
        VolumeReason::Lost { bytes, why } => format!(
            "{bytes} bytes that hosts wrote are unavailable, and reads of them fail: {why}; everything else is served"
        ),
        VolumeReason::NotCleaned(error) => {
            format!("its dirty data cannot be written to the backing device, and is kept: {error}")
        }
        VolumeReason::BackingSilent { device, what, seconds } => {
            format!("backing device {device} has answered no {what} for {seconds} s")
        }
    }
}
