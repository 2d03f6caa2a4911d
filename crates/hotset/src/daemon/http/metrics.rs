//! `/metrics` in the text format of Prometheus: base units, and one series for each pool, SSD or volume, never for what
//! hosts choose.
//!
//! Every value is one that the status has too; a scrape counts nothing and scans nothing. The format is a dozen lines
//! (https://prometheus.io/docs/instrumenting/exposition_formats/), and values come from a snapshot, so that a client
//! library's registry would have nothing to do.

use std::fmt::{Display, Write as _};

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use hotset_api::{Condition, DaemonCounters, Health, Pool, PoolState, Status, Volume, VolumeState};
use hotset_cache::{LATENCY_CLASSES, LatencyCounts, class_end_ns};

use super::control::Manages;
use super::exchange::Failure;
use crate::daemon::history::Look;
use crate::daemon::volume_counters::VOLUME_COUNTERS;
use crate::words;

/// The ends of the histograms' buckets are the ends of every so many classes: each doubles the one before.
const CLASSES_PER_BUCKET: usize = 8;

/// The first bucket ends with this class: 8 µs; the ones before say nothing of disks.
const FIRST_CLASS: usize = 7;

/// The last one that is told apart: 16 s.
const LAST_CLASS: usize = FIRST_CLASS + 21 * CLASSES_PER_BUCKET;

const _: () = assert!(LAST_CLASS < LATENCY_CLASSES);

pub(super) async fn metrics(State(rooms): Manages) -> Result<impl IntoResponse, Failure> {
    let (status, look) = (rooms.reporting.status().await?, rooms.reporting.look().await?);
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, content_type)], text(&status, &look)))
}

fn text(status: &Status, look: &Look) -> String {
    let mut page = MetricsPage(String::new());
    of_daemon(&mut page, status);
    of_conditions(&mut page, &status.conditions);
    of_counters(&mut page, &status.counters);
    of_pools(&mut page, &status.pools);
    of_ssds(&mut page, &status.pools);
    of_volumes(&mut page, &status.volumes);
    of_latencies(&mut page, look);
    page.0
}

#[derive(Clone, Copy)]
enum MetricKind {
    Gauge,
    Counter,
    Histogram,
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

struct MetricsPage(String);

impl MetricsPage {
    fn head(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Gauge => "gauge",
            MetricKind::Counter => "counter",
            MetricKind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("strings take all");
    }

    fn sample(&mut self, name: &str, labels: &Labels<'_>, value: impl Display) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    /// A metric of each of `all`.
    fn family<'a, T: 'a, V: Display>(
        &mut self,
        (name, kind, help): (&str, MetricKind, &str),
        all: impl IntoIterator<Item = &'a T>,
        labels: impl Fn(&'a T) -> Labels<'a>,
        value: impl Fn(&'a T) -> V,
    ) {
        let mut all = all.into_iter().peekable();
        if all.peek().is_some() {
            self.head(name, kind, help);
        }
        for one in all {
            self.sample(name, &labels(one), value(one));
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn health(health: Health) -> u8 {
    match health {
        Health::Good => 0,
        Health::Degraded => 1,
        Health::Failed => 2,
    }
}

fn of_daemon(page: &mut MetricsPage, status: &Status) {
    page.head("hotset_build_info", MetricKind::Gauge, "Always 1; the version is in the label.");
    page.sample("hotset_build_info", &vec![("version", status.version.as_str())], 1);
    for (name, help, value) in [
        (
            "hotset_health",
            "The worst of all conditions: 0 good, 1 degraded, 2 failed.",
            u64::from(health(status.health)),
        ),
        ("hotset_uptime_seconds", "Time since the daemon started.", status.uptime_s),
        ("hotset_memory_in_use_bytes", "Memory that the tables of all pools take.", status.memory_in_use_bytes),
        ("hotset_memory_limit_bytes", "Memory that the tables of all pools may take.", status.memory_limit_bytes),
        ("hotset_memory_cache_size_bytes", "Memory that the memory cache may take.", status.memory_cache.size_bytes),
        (
            "hotset_memory_cache_allowed_bytes",
            "Memory that the memory cache may take now: less than its size while memory is short.",
            status.memory_cache.allowed_bytes,
        ),
        (
            "hotset_memory_cache_used_bytes",
            "Memory that the pages in the memory cache take.",
            status.memory_cache.used_bytes,
        ),
        (
            "hotset_dirty_bytes",
            "Data at risk: acknowledged to hosts and not yet on the backing devices.",
            status.dirty_bytes,
        ),
        (
            "hotset_oldest_dirty_seconds",
            "How long the oldest dirty data has been dirty; 0 if none is.",
            status.oldest_dirty_seconds.unwrap_or(0),
        ),
    ] {
        page.head(name, MetricKind::Gauge, help);
        page.sample(name, &Labels::new(), value);
    }
}

/// One series for each thing that is not as it should be, while it is so.
fn of_conditions(page: &mut MetricsPage, conditions: &[Condition]) {
    fn labels(condition: &Condition) -> Labels<'_> {
        let name = if condition.path.is_empty() { &condition.subject.name } else { &condition.path };
        vec![("kind", condition.kind.word()), ("subject", condition.subject.kind.word()), ("name", name)]
    }
    page.family(
        ("hotset_condition", MetricKind::Gauge, "Something that is not as it should be: 1 degraded, 2 failed."),
        conditions,
        labels,
        |condition| health(condition.health),
    );
    page.family(
        ("hotset_condition_since_timestamp_seconds", MetricKind::Gauge, "When it began."),
        conditions,
        labels,
        |condition| condition.since_unix_ms / 1000,
    );
}

/// What the daemon counts of itself.
fn of_counters(page: &mut MetricsPage, counters: &DaemonCounters) {
    for (name, help, value) in [
        ("hotset_log_lines_dropped_total", "Lines of the log that could not be written.", counters.log_lines_dropped),
        (
            "hotset_events_not_kept_total",
            "Events that could not be written to the state directory when they happened.",
            counters.events_not_kept,
        ),
        (
            "hotset_connections_refused_total",
            "Connections of hosts that were refused, because there were as many as file descriptors allow.",
            counters.connections_refused,
        ),
        (
            "hotset_connections_made_room_total",
            "Connections of hosts that had not chosen a volume, and had to make room for others.",
            counters.connections_made_room,
        ),
        (
            "hotset_connections_abandoned_total",
            "Connections of hosts that are gone, or that held memory which others waited for and did nothing.",
            counters.connections_abandoned,
        ),
        (
            "hotset_accept_failures_total",
            "Times that no connection of a host could be taken, for want of a file descriptor or memory.",
            counters.accept_failures,
        ),
        (
            "hotset_tls_handshakes_refused_total",
            "TLS handshakes that failed, of hosts and of administrators.",
            counters.tls_handshakes_refused,
        ),
        (
            "hotset_logins_refused_total",
            "Requests with a token that is not known, or without one where one is needed.",
            counters.logins_refused,
        ),
        ("hotset_notices_sent_total", "Notices that a web hook or a mail server took.", counters.notices_sent),
        (
            "hotset_notices_failed_total",
            "Times that a web hook or a mail server did not take a notice.",
            counters.notices_failed,
        ),
        (
            "hotset_notices_left_out_total",
            "Events of which a target of notices was told only how many there were.",
            counters.notices_left_out,
        ),
    ] {
        page.head(name, MetricKind::Counter, help);
        page.sample(name, &vec![], value);
    }
}

fn of_pools(page: &mut MetricsPage, pools: &[Pool]) {
    use MetricKind::Gauge;
    let labels = |pool| -> Labels<'_> {
        let pool: &Pool = pool;
        vec![("pool", pool.name.as_str())]
    };
    let log = |pool: &Pool, value: fn(&hotset_api::WriteLog) -> u64| pool.write_log.as_ref().map_or(0, value);
    let head = |name, help| (name, Gauge, help);
    page.family(head("hotset_pool_health", "0 good, 1 degraded, 2 failed."), pools, labels, |pool| health(pool.health));
    let online = |pool: &Pool| u8::from(pool.state != PoolState::Offline);
    page.family(head("hotset_pool_online", "1 if the pool is open, 0 if it is offline."), pools, labels, online);
    page.family(
        head("hotset_pool_capacity_bytes", "Pages that its SSDs hold when they are full of clean data."),
        pools,
        labels,
        |pool| pool.capacity_bytes,
    );
    page.family(
        head("hotset_pool_capacity_min_bytes", "What of that clean data has however much is dirty."),
        pools,
        labels,
        |pool| pool.capacity_min_bytes,
    );
    page.family(
        head(
            "hotset_pool_slots_unpublished",
            "Cache blocks filled lately: if the daemon were killed now, the next one would read them again.",
        ),
        pools,
        labels,
        |pool| pool.slots_unpublished,
    );
    page.family(
        head("hotset_pool_ssd_written_day_bytes", "Bytes written to its SSDs within the last 24 hours."),
        pools,
        labels,
        |pool| pool.ssd_written_day_bytes,
    );
    page.family(
        head("hotset_pool_ssd_writes_per_day_bytes", "The limit on that; 0 without one."),
        pools,
        labels,
        |pool| pool.ssd_writes_per_day_bytes.unwrap_or(0),
    );
    page.family(
        head("hotset_pool_populating_stopped", "1 if the limit is reached and nothing more is populated."),
        pools,
        labels,
        |pool| u64::from(pool.populating_stopped),
    );
    page.family(
        (
            "hotset_pool_policy_switches_total",
            MetricKind::Counter,
            "How often policy auto has followed another policy.",
        ),
        pools,
        labels,
        |pool| pool.policy_switches,
    );
    page.family(
        head("hotset_pool_policy_followed", "1, with the policy that is followed now."),
        pools,
        |pool| {
            let policy = words::engine_policy(pool.policy_followed).word();
            labels(pool).into_iter().chain([("policy", policy)]).collect()
        },
        |_| 1,
    );
    page.family(
        head("hotset_pool_used_bytes", "Pages that it holds, clean or dirty, of all its volumes together."),
        pools,
        labels,
        |pool| pool.used_bytes,
    );
    page.family(head("hotset_pool_memory_bytes", "Memory that its tables take."), pools, labels, |pool| {
        pool.memory_bytes
    });
    page.family(
        head("hotset_pool_dirty_capacity_bytes", "Data that may be dirty at once; 0 in a read pool."),
        pools,
        labels,
        |pool| log(pool, |log| log.dirty_capacity_bytes),
    );
    page.family(
        head("hotset_pool_dirty_bytes", "Data acknowledged to hosts and not yet on the backing devices."),
        pools,
        labels,
        |pool| log(pool, |log| log.dirty_bytes),
    );
    page.family(
        head("hotset_pool_write_caching_off", "1 if new writes go past the cache because two copies cannot be kept."),
        pools,
        labels,
        |pool| log(pool, |log| u64::from(log.write_caching_off)),
    );
}

fn of_ssds(page: &mut MetricsPage, pools: &[Pool]) {
    use MetricKind::{Counter, Gauge};
    type OfPool<'a> = (&'a Pool, &'a hotset_api::Ssd);
    let ssds: Vec<OfPool<'_>> = pools.iter().flat_map(|pool| pool.ssds.iter().map(move |ssd| (pool, ssd))).collect();
    fn labels<'a>((pool, ssd): &OfPool<'a>) -> Labels<'a> {
        vec![("pool", pool.name.as_str()), ("ssd", ssd.uuid.as_str()), ("path", ssd.path.as_str())]
    }
    // What a drive does not say is not a number: no rule holds for it.
    let mut said = |name, help, value: fn(&hotset_api::Smart) -> Option<String>| {
        let value = |(_, ssd): &OfPool<'_>| value(&ssd.smart).unwrap_or_else(|| "NaN".to_owned());
        page.family((name, Gauge, help), &ssds, |one| labels(one), value);
    };
    said(
        "hotset_ssd_wear_ratio",
        "How much of the writes that it was made for it has taken; 1 is all, NaN unknown.",
        |smart| smart.wear_percent.map(hundredths),
    );
    said(
        "hotset_ssd_worn_out_timestamp_seconds",
        "When it will be worn out at the pace seen so far; NaN: unknown.",
        |smart| smart.worn_out_at_unix_ms.map(|at| (at / 1000).to_string()),
    );
    said(
        "hotset_ssd_smart_passed",
        "Its own verdict: 1 if it expects to go on working, NaN if it does not say.",
        |smart| smart.passed.map(|passed| u64::from(passed).to_string()),
    );
    said("hotset_ssd_temperature_celsius", "Its temperature; NaN if it does not say.", |smart| {
        smart.temperature_celsius.map(|celsius| celsius.to_string())
    });
    let mut family = |name, kind, help, value: fn(&hotset_api::Ssd) -> u64| {
        page.family((name, kind, help), &ssds, |one| labels(one), |(_, ssd)| value(ssd));
    };
    family("hotset_ssd_online", Gauge, "1 if the SSD is in use.", |ssd| u64::from(ssd.online));
    family("hotset_ssd_error_alert", Gauge, "1 if the SSD says of itself that it fails or is worn out.", |ssd| {
        u64::from(!ssd.smart.alert.is_empty())
    });
    family("hotset_ssd_cache_written_bytes", Gauge, "What the cache wrote to it over all starts.", |ssd| {
        ssd.smart.cache_written_bytes
    });
    family("hotset_ssd_size_bytes", Gauge, "Its size.", |ssd| ssd.size_bytes);
    family("hotset_ssd_slots", Gauge, "Cache blocks that it can hold.", |ssd| ssd.slots);
    family("hotset_ssd_slots_used", Gauge, "Cache blocks that it holds.", |ssd| ssd.slots_used);
    family(
        "hotset_ssd_read_errors_total",
        Counter,
        "Medium errors and checksum failures that hosts never saw.",
        |ssd| ssd.read_errors,
    );
    family("hotset_ssd_lost_writes", Gauge, "1 if it was found to have lost what it had flushed.", |ssd| {
        u64::from(ssd.lost_writes)
    });
    family("hotset_ssd_reads_total", Counter, "Reads of the SSD.", |ssd| ssd.io.reads);
    family("hotset_ssd_read_bytes_total", Counter, "Bytes read from the SSD.", |ssd| ssd.io.read_bytes);
    family("hotset_ssd_writes_total", Counter, "Writes to the SSD.", |ssd| ssd.io.writes);
    family("hotset_ssd_written_bytes_total", Counter, "Bytes written to the SSD.", |ssd| ssd.io.written_bytes);
}

fn of_volumes(page: &mut MetricsPage, volumes: &[Volume]) {
    use MetricKind::{Counter, Gauge};
    fn labels(volume: &Volume) -> Labels<'_> {
        vec![("volume", volume.name.as_str()), ("pool", volume.pool.as_deref().unwrap_or(""))]
    }
    let mut family = |name, kind, help, value: fn(&Volume) -> u64| {
        page.family((name, kind, help), volumes, labels, value);
    };
    family("hotset_volume_health", Gauge, "0 good, 1 degraded, 2 failed.", |volume| u64::from(health(volume.health)));
    family("hotset_volume_online", Gauge, "1 if hosts can use the volume.", |volume| {
        u64::from(volume.state != VolumeState::Offline)
    });
    family("hotset_volume_size_bytes", Gauge, "Its size.", |volume| volume.size_bytes);
    family("hotset_volume_cache_used_bytes", Gauge, "Its pages that its pool holds, clean or dirty.", |volume| {
        volume.cache_used_bytes
    });
    family(
        "hotset_volume_dirty_bytes",
        Gauge,
        "Data at risk: acknowledged, and not yet on the backing device.",
        |volume| volume.dirty_bytes,
    );
    family(
        "hotset_volume_oldest_dirty_seconds",
        Gauge,
        "How long the oldest of that has been so; 0 without.",
        |volume| volume.oldest_dirty_seconds.unwrap_or(0),
    );
    family("hotset_volume_unserved_bytes", Gauge, "The end of the backing device that hosts do not see.", |volume| {
        volume.unserved_bytes
    });
    family("hotset_volume_local_device", Gauge, "1 if it is to be a block device of the daemon's machine.", |volume| {
        u64::from(volume.local.is_some())
    });
    family("hotset_volume_local_device_connected", Gauge, "1 if it is one, and its requests are served.", |volume| {
        u64::from(volume.local.as_ref().is_some_and(|local| local.connected))
    });
    family("hotset_volume_backing_reads_total", Counter, "Reads of the backing device.", |volume| {
        volume.backing_io.reads
    });
    family("hotset_volume_backing_read_bytes_total", Counter, "Bytes read from the backing device.", |volume| {
        volume.backing_io.read_bytes
    });
    family("hotset_volume_backing_writes_total", Counter, "Writes to the backing device.", |volume| {
        volume.backing_io.writes
    });
    family("hotset_volume_backing_written_bytes_total", Counter, "Bytes written to the backing device.", |volume| {
        volume.backing_io.written_bytes
    });
    for counter in VOLUME_COUNTERS {
        page.family((counter.metric, Counter, counter.help), volumes, labels, |volume| (counter.get)(&volume.stats));
    }
}

fn of_latencies(page: &mut MetricsPage, look: &Look) {
    if look.latencies.is_empty() {
        return;
    }
    let name = "hotset_volume_request_duration_seconds";
    page.head(
        name,
        MetricKind::Histogram,
        "How long requests of hosts took; of every eighth request, chosen at random.",
    );
    for (volume, (reads, writes)) in &look.latencies {
        histogram(page, name, volume, "read", reads);
        histogram(page, name, volume, "write", writes);
    }
}

fn histogram(page: &mut MetricsPage, name: &str, volume: &str, operation: &'static str, counts: &LatencyCounts) {
    let labels = |end: Option<String>| {
        format!(
            "volume=\"{}\",operation=\"{operation}\"{}",
            escaped(volume),
            end.map_or_else(String::new, |end| format!(",le=\"{end}\""))
        )
    };
    let up_to = |class: usize| counts.classes[..=class].iter().sum::<u64>();
    for class in (FIRST_CLASS..=LAST_CLASS).step_by(CLASSES_PER_BUCKET) {
        let end = seconds(class_end_ns(class));
        page.line(format_args!("{name}_bucket{{{}}} {}", labels(Some(end)), up_to(class)));
    }
    let all = counts.classes.iter().sum::<u64>();
    page.line(format_args!("{name}_bucket{{{}}} {all}", labels(Some("+Inf".to_owned()))));
    page.line(format_args!("{name}_sum{{{}}} {}", labels(None), seconds(counts.total_ns)));
    page.line(format_args!("{name}_count{{{}}} {all}", labels(None)));
}

/// Exactly, without the detour of a float.
fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

/// Percent as a ratio, exactly.
fn hundredths(percent: u16) -> String {
    format!("{}.{:02}", percent / 100, percent % 100)
}

#[cfg(test)]
mod tests {
    use hotset_cache::config::VolumeSettings;

    use super::*;
    use crate::daemon::reporting::status::bare_volume;
    use crate::daemon::volume_counters::{numbered, stats};

    // proves: S4
    #[test]
    fn every_counter_of_a_volume_is_a_metric() {
        let bare = bare_volume("v".to_owned(), "/backing".to_owned(), VolumeSettings::default());
        let mut page = MetricsPage(String::new());
        of_volumes(&mut page, &[Volume { stats: stats(&numbered()), ..bare }]);
        for (counter, number) in VOLUME_COUNTERS.iter().zip(1000..) {
            let name = counter.metric;
            for line in [
                format!("# HELP {name} {}", counter.help),
                format!("# TYPE {name} counter"),
                format!("{name}{{volume=\"v\",pool=\"\"}} {number}"),
            ] {
                assert_eq!(page.0.lines().filter(|known| **known == line).count(), 1, "{line}");
            }
        }
    }

    #[test]
    fn a_ratio_is_written_with_two_digits() {
        assert_eq!((hundredths(0), hundredths(7), hundredths(104)), ("0.00".into(), "0.07".into(), "1.04".into()));
    }

    #[test]
    fn labels_are_escaped_and_seconds_are_exact() {
        let mut page = MetricsPage(String::new());
        page.sample("m", &vec![("path", "a\"b\\c\nd")], 1);
        assert_eq!(page.0, "m{path=\"a\\\"b\\\\c\\nd\"} 1\n");
        assert_eq!(seconds(1_500_000_001), "1.500000001");
    }

    #[test]
    fn buckets_double_and_hold_all() {
        let mut counts = LatencyCounts { classes: vec![0; LATENCY_CLASSES], total_ns: 5 };
        (counts.classes[0], counts.classes[FIRST_CLASS + 1], counts.classes[LATENCY_CLASSES - 1]) = (1, 2, 4);
        let mut page = MetricsPage(String::new());
        histogram(&mut page, "h", "v", "read", &counts);
        let values: Vec<u64> = page.0.lines().map_while(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        assert_eq!((values[0], values[1], values.last()), (1, 3, Some(&7)));
        assert_eq!(class_end_ns(FIRST_CLASS + CLASSES_PER_BUCKET), 2 * class_end_ns(FIRST_CLASS));
        assert!(page.0.contains("le=\"0.000008192\"} 1"), "{}", page.0);
    }
}
