//! From one look at the data plane to the next: what happened between, by subject.

use std::collections::BTreeMap;

use hotset_api::{Subject, SubjectKind};
use hotset_cache::config::VolumeName;
use hotset_cache::{DeviceIo, LatencyCounts, PoolStatus, SsdStatus, VolumeStats, VolumeStatus};

use super::bucket::{Bucket, Classes, Field};
use crate::daemon::volume_counters::{VOLUME_COUNTERS, stats};
use crate::plane::Snapshot;

/// Reads and writes of a volume, by class of latency.
pub(crate) type Latencies = BTreeMap<String, (LatencyCounts, LatencyCounts)>;

/// One look.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) snapshot: Snapshot,
    pub(crate) latencies: Latencies,
}

/// Remembers the last look.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    last: Option<Look>,
}

impl Sampler {
    /// What was counted of a volume before its renaming is not counted again.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let (Some(last), Ok(name)) = (&mut self.last, to.parse::<VolumeName>()) else { return };
        if let Some(volume) = last.snapshot.volumes.iter_mut().find(|volume| volume.name.as_str() == from) {
            volume.name = name;
        }
        if let Some(latencies) = last.latencies.remove(from) {
            last.latencies.insert(to.to_owned(), latencies);
        }
    }

    /// What happened since the last look; gauges only at the first one, and for what is new.
    pub(super) fn sample(&mut self, look: Look) -> Vec<(Subject, Bucket)> {
        let before = self.last.as_ref();
        let covered_ms = before.map_or(0, |before| {
            let time = look.snapshot.at.since(before.snapshot.at);
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
        });
        let mut samples = Vec::new();
        let mut of_volumes = BTreeMap::new();
        let mut of_daemon = Bucket { samples: 1, covered_ms, ..Bucket::default() };
        for volume in &look.snapshot.volumes {
            let bucket = volume_bucket(volume, &look, before, covered_ms);
            of_daemon.add_values(&bucket);
            samples.push((Subject::new(SubjectKind::Volume, volume.name.as_str()), bucket.clone()));
            of_volumes.insert(volume.name.clone(), bucket);
        }
        for pool in &look.snapshot.pools {
            let mut whole = Bucket { samples: 1, covered_ms, ..Bucket::default() };
            for bucket in pool.volumes.iter().filter_map(|name| of_volumes.get(name)) {
                whole.add_values(bucket);
            }
            for (subject, bucket) in ssd_buckets(pool, before, covered_ms) {
                // What the SSDs hold is what the volumes have in them: counted once.
                let mut io = bucket.clone();
                io.set(Field::CACHE_USED_BYTES, 0);
                whole.add_values(&io);
                of_daemon.add_values(&io);
                samples.push((subject, bucket));
            }
            whole.set(Field::CACHE_USED_BYTES, pool.used_bytes);
            if let Some(log) = &pool.write_log {
                whole.set(Field::WRITE_CACHE_USED_BYTES, log.live_bytes);
                whole.set(Field::DIRTY_BYTES, log.dirty_bytes);
            }
            samples.push((Subject::new(SubjectKind::Pool, pool.name.as_str()), whole));
        }
        if !look.snapshot.volumes.is_empty() {
            // First: it has its place in the file, however many subjects there are.
            samples.insert(0, (Subject::new(SubjectKind::Daemon, ""), of_daemon));
        }
        self.last = Some(look);
        samples
    }
}

/// A volume that was not there at the last look was opened since: all that it counts is of this interval.
fn volume_bucket(volume: &VolumeStatus, look: &Look, before: Option<&Look>, covered_ms: u64) -> Bucket {
    let mut bucket = Bucket { samples: 1, covered_ms, ..Bucket::default() };
    bucket.set(Field::CACHE_USED_BYTES, volume.cache_used_bytes);
    bucket.set(Field::WRITE_CACHE_USED_BYTES, volume.write_cache_used_bytes);
    bucket.set(Field::DIRTY_BYTES, volume.dirty_bytes);
    let Some(before) = before else { return bucket };
    let old = before.snapshot.volumes.iter().find(|old| old.name == volume.name);
    let (old_stats, old_io) = old.map_or_else(Default::default, |old| (old.stats, old.backing_io));
    count_requests(&mut bucket, &old_stats, &volume.stats);
    let DeviceIo { reads, read_bytes, writes, written_bytes } = between(old_io, volume.backing_io);
    bucket.set(Field::BACKING_READS, reads);
    bucket.set(Field::BACKING_READ_BYTES, read_bytes);
    bucket.set(Field::BACKING_WRITES, writes);
    bucket.set(Field::BACKING_WRITTEN_BYTES, written_bytes);
    let name = volume.name.as_str();
    if let Some((reads, writes)) = look.latencies.get(name) {
        let old = before.latencies.get(name);
        bucket.read_latency = classes_between(old.map(|old| &old.0), reads);
        bucket.write_latency = classes_between(old.map(|old| &old.1), writes);
    }
    bucket
}

fn count_requests(bucket: &mut Bucket, old: &VolumeStats, new: &VolumeStats) {
    // Opened anew, all counters begin at zero: then reads tell, which only grow.
    let old = if new.reads < old.reads || new.writes < old.writes { &VolumeStats::default() } else { old };
    let (old, new) = (stats(old), stats(new));
    for counter in VOLUME_COUNTERS {
        if let Some(kept) = counter.kept {
            bucket.set(Field::of(kept), since((counter.get)(&old), (counter.get)(&new)));
        }
    }
}

/// As with volumes: an SSD that was not there at the last look began to count since.
fn ssd_buckets(pool: &PoolStatus, before: Option<&Look>, covered_ms: u64) -> Vec<(Subject, Bucket)> {
    let old_pool = before.and_then(|before| before.snapshot.pools.iter().find(|old| old.uuid == pool.uuid));
    let slot_bytes = pool.settings.block_bytes.get();
    let bucket_of = |ssd: &SsdStatus| {
        let mut bucket = Bucket { samples: 1, covered_ms, ..Bucket::default() };
        bucket.set(Field::CACHE_USED_BYTES, ssd.slots_used.saturating_mul(slot_bytes));
        if before.is_some() {
            let old = old_pool.and_then(|old| old.ssds.iter().find(|old| old.uuid == ssd.uuid));
            let io = between(old.map_or_else(DeviceIo::default, |old| old.io), ssd.io);
            bucket.set(Field::SSD_READS, io.reads);
            bucket.set(Field::SSD_READ_BYTES, io.read_bytes);
            bucket.set(Field::SSD_WRITES, io.writes);
            bucket.set(Field::SSD_WRITTEN_BYTES, io.written_bytes);
        }
        (Subject::new(SubjectKind::Ssd, format!("{:032x}", ssd.uuid)), bucket)
    };
    pool.ssds.iter().filter(|ssd| ssd.online).map(bucket_of).collect()
}

fn between(old: DeviceIo, new: DeviceIo) -> DeviceIo {
    DeviceIo {
        reads: since(old.reads, new.reads),
        read_bytes: since(old.read_bytes, new.read_bytes),
        writes: since(old.writes, new.writes),
        written_bytes: since(old.written_bytes, new.written_bytes),
    }
}

/// A counter that is less than it was began anew.
fn since(old: u64, new: u64) -> u64 {
    new.checked_sub(old).unwrap_or(new)
}

pub(super) fn classes_between(old: Option<&LatencyCounts>, new: &LatencyCounts) -> Classes {
    let before = |class: usize| old.map_or(0, |old| old.classes[class]);
    let counts = new.classes.iter().enumerate().map(|(class, count)| (class, since(before(class), *count)));
    counts
        .filter(|(_, count)| *count > 0)
        .filter_map(|(class, count)| Some((u16::try_from(class).ok()?, count)))
        .collect()
}

#[cfg(test)]
mod tests {
    use hotset_cache::LATENCY_CLASSES;

    use super::*;
    use crate::daemon::volume_counters::numbered;

    #[test]
    fn only_what_was_counted_since_counts_and_a_counter_may_begin_anew() {
        let counts = |first: u64, last: u64| {
            let mut classes = vec![0; LATENCY_CLASSES];
            (classes[3], classes[LATENCY_CLASSES - 1]) = (first, last);
            LatencyCounts { classes, total_ns: 0 }
        };
        assert_eq!(classes_between(Some(&counts(5, 1)), &counts(7, 1)), [(3, 2)]);
        assert_eq!(classes_between(None, &counts(7, 0)), [(3, 7)]);
        assert_eq!((since(5, 9), since(9, 5)), (4, 5));
    }

    #[test]
    fn a_volume_that_was_opened_anew_starts_from_zero() {
        let counted = |reads, read_hits| VolumeStats { reads, read_hits, ..Default::default() };
        let mut bucket = Bucket::default();
        count_requests(&mut bucket, &counted(100, 90), &counted(40, 30));
        assert_eq!((bucket.get(Field::reads()), bucket.get(Field::read_hits())), (40, 30));
        count_requests(&mut bucket, &counted(40, 30), &counted(50, 32));
        assert_eq!((bucket.get(Field::reads()), bucket.get(Field::read_hits())), (10, 2));
    }

    #[test]
    fn every_counter_that_is_kept_comes_from_the_engine_to_its_place() {
        let mut bucket = Bucket::default();
        count_requests(&mut bucket, &VolumeStats::default(), &numbered());
        for (counter, number) in VOLUME_COUNTERS.iter().zip(1000..) {
            let Some(kept) = counter.kept else { continue };
            assert_eq!(bucket.get(Field::of(kept)), number, "{}", counter.name);
        }
    }
}
