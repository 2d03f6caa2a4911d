//! What the array does with single requests: parity, ordering, caches, flushes.

use std::collections::HashSet;
use std::time::Duration;

use super::host::{Random, drive, drive_for, random_page};
use crate::emulated::{ArrayModel, ArrayRequest, DiskCounters, Level, Parameters, Preset, RequestId};
use crate::{ByteRange, Instant};

const MIB: u64 = 1 << 20;

fn array(level: Level, disks: u32) -> Parameters {
    Parameters { level, disks, ..Preset::B1.parameters(1 << 30) }
}

/// One request on a new array: what the disks' heads do for it, all caches emptied.
fn heads_for(parameters: &Parameters, request: ArrayRequest) -> DiskCounters {
    let mut model = ArrayModel::new(parameters);
    model.submit(Instant(0), request);
    run_dry(&mut model);
    model.counters()
}

/// Lets everything happen; the time of the last answer.
fn run_dry(model: &mut ArrayModel) -> Instant {
    let mut last = Instant(0);
    while let Some(now) = model.next_event() {
        last = model.advance(now).last().map_or(last, |answer| answer.at);
    }
    last
}

/// When the answer to the request that has just been submitted comes.
fn time_of(model: &mut ArrayModel, request: RequestId) -> Instant {
    loop {
        let now = model.next_event().expect("the request is not answered yet");
        if let Some(answer) = model.advance(now).into_iter().find(|answer| answer.request == request) {
            return answer.at;
        }
    }
}

#[test]
fn a_full_stripe_write_reads_nothing() {
    for (level, parity) in [(Level::Raid5, 1), (Level::Raid6, 2), (Level::Raid0, 0)] {
        let array = array(level, 8);
        let stripe = array.stripe_bytes();
        let heads = heads_for(&array, ArrayRequest::Write(ByteRange::at(3 * stripe, stripe)));
        assert_eq!(heads.read_bytes, 0, "{level}");
        assert_eq!(heads.written_bytes, stripe + parity * array.chunk_bytes, "{level}");
    }
}

#[test]
fn requests_that_fill_a_stripe_together_read_nothing() {
    let array = array(Level::Raid6, 8);
    let mut model = ArrayModel::new(&array);
    for part in 0..4 * array.stripe_bytes() / 12_288 {
        model.submit(Instant(0), ArrayRequest::Write(ByteRange::at(part * 12_288, 12_288)));
    }
    run_dry(&mut model);
    assert_eq!(model.counters().read_bytes, 0);
    assert_eq!(model.counters().written_bytes, 4 * 8 * array.chunk_bytes);
}

#[test]
fn a_small_write_reads_and_writes_its_data_and_all_its_parity() {
    let page = ByteRange::at(40 << 10, 4096);
    for (level, reads, writes) in
        [(Level::Raid0, 0, 1), (Level::Raid10, 0, 2), (Level::Raid5, 2, 2), (Level::Raid6, 3, 3)]
    {
        let heads = heads_for(&array(level, 8), ArrayRequest::Write(page));
        assert_eq!((heads.reads, heads.writes), (reads, writes), "{level}");
        assert_eq!((heads.read_bytes, heads.written_bytes), (reads * 4096, writes * 4096), "{level}");
    }
}

#[test]
fn a_large_read_uses_all_disks_at_once() {
    let array = Parameters { disk_cache_bytes: 0, ..array(Level::Raid0, 8) };
    let mut model = ArrayModel::new(&array);
    let request = model.submit(Instant(0), ArrayRequest::Read(ByteRange::at(0, 64 * MIB)));
    let seconds = time_of(&mut model, request).since(Instant(0)).as_secs_f64();
    let alone = 64.0 * 1024.0 * 1024.0 / 175e6;
    assert!(seconds < alone / 7.0, "{seconds} of {alone} seconds for one disk");
}

#[test]
fn neighbouring_requests_become_one_transfer_of_the_head() {
    let array = Parameters { level: Level::Raid0, disks: 1, ..array(Level::Raid0, 1) };
    let mut model = ArrayModel::new(&array);
    for page in (0..16).rev() {
        model.submit(Instant(0), ArrayRequest::Read(ByteRange::at(8 * MIB + page * 4096, 4096)));
    }
    run_dry(&mut model);
    assert_eq!(model.counters().read_bytes, 16 * 4096);
    assert_eq!(model.counters().reads, 2, "the first alone, since the head was free; then the others");
}

#[test]
fn choosing_the_nearest_of_32_beats_first_come_first_served() {
    let random_reads = |ncq| {
        let array = Parameters { ncq, ..array(Level::Raid5, 16) };
        let mut random = Random(3);
        drive(&mut ArrayModel::new(&array), 256, || ArrayRequest::Read(random_page(&array, &mut random))).per_second
    };
    let (first_come, nearest) = (random_reads(1), random_reads(32));
    assert!(nearest > 1.7 * first_come, "{first_come:.0} {nearest:.0}");
}

#[test]
fn a_distant_request_is_served_although_nearer_ones_never_end() {
    let array = Parameters { span_bytes: 1 << 30, ..array(Level::Raid0, 1) };
    let mut model = ArrayModel::new(&array);
    let mut random = Random(4);
    let mut submitted = 0_u64;
    let mut next = || {
        submitted += 1;
        let near = random.below(1024) * 4096;
        let start = if submitted.is_multiple_of(100) { (1 << 30) - 4096 } else { near };
        ArrayRequest::Read(ByteRange::at(start, 4096))
    };
    let run = drive_for(&mut model, 32, 1000, 20_000, &mut next);
    assert!(run.slowest < Duration::from_millis(400), "{:?}", run.slowest);
}

#[test]
fn reads_are_answered_although_writes_and_flushes_never_end() {
    let array = array(Level::Raid5, 4);
    let mut random = Random(5);
    let mut submitted = 0_u64;
    let mut next = || {
        submitted += 1;
        match submitted % 8 {
            0 => ArrayRequest::Flush,
            1 => ArrayRequest::Read(random_page(&array, &mut random)),
            _ => ArrayRequest::Write(random_page(&array, &mut random)),
        }
    };
    let run = drive_for(&mut ArrayModel::new(&array), 64, 1000, 10_000, &mut next);
    assert!(run.slowest < Duration::from_secs(2), "{:?}", run.slowest);
}

#[test]
fn a_write_is_acknowledged_from_the_disks_cache_and_a_flush_takes_the_time_to_empty_it() {
    let array = array(Level::Raid0, 4);
    let mut model = ArrayModel::new(&array);
    let mut random = Random(6);
    let mut now = Instant(0);
    for _ in 0..100 {
        let write = model.submit(now, ArrayRequest::Write(random_page(&array, &mut random)));
        now = time_of(&mut model, write);
    }
    assert!(now.since(Instant(0)) < Duration::from_millis(10), "100 writes went to memory");
    let flush = model.submit(now, ArrayRequest::Flush);
    let flushed = time_of(&mut model, flush);
    let took = flushed.since(now);
    assert!((Duration::from_millis(50)..Duration::from_millis(500)).contains(&took), "{took:?}");
    assert_eq!(model.counters().written_bytes, 100 * 4096, "nothing is left in a cache");
    let again = model.submit(flushed, ArrayRequest::Flush);
    assert!(time_of(&mut model, again).since(flushed) < Duration::from_millis(1), "an empty cache needs no time");
}

#[test]
fn reads_that_a_host_waits_for_go_before_most_writes_that_nobody_waits_for() {
    let array = array(Level::Raid0, 1);
    let mut model = ArrayModel::new(&array);
    let mut random = Random(10);
    for _ in 0..30 {
        model.submit(Instant(0), ArrayRequest::Write(random_page(&array, &mut random)));
    }
    let reads = (0..30).map(|_| model.submit(Instant(0), ArrayRequest::Read(random_page(&array, &mut random))));
    let mut reads: HashSet<RequestId> = reads.collect();
    while !reads.is_empty() {
        let now = model.next_event().expect("reads are pending");
        for answer in model.advance(now) {
            reads.remove(&answer.request);
        }
    }
    assert!(model.counters().writes < 15, "{:?}", model.counters());
}

#[test]
fn a_flush_waits_for_what_came_before_it_and_not_for_what_comes_after() {
    let array = array(Level::Raid0, 1);
    let mut model = ArrayModel::new(&array);
    model.submit(Instant(0), ArrayRequest::Write(ByteRange::at(512 * MIB, 4096)));
    let before = model.submit(Instant(0), ArrayRequest::Write(ByteRange::at(1000 * MIB, 4096)));
    let now = time_of(&mut model, before);
    let flush = model.submit(now, ArrayRequest::Flush);
    for page in 0..50 {
        model.submit(now, ArrayRequest::Write(ByteRange::at(512 * MIB + page * 64 * 4096, 4096)));
    }
    let took = time_of(&mut model, flush).since(now);
    assert_eq!(model.counters().writes - 1, 2, "the two before it; the next one is under way");
    assert!(took > Duration::from_millis(2), "two accesses of a disk take longer than {took:?}");
    run_dry(&mut model);
    assert_eq!(model.counters().writes, 52);
}

#[test]
fn a_flush_waits_for_the_write_that_is_under_way() {
    let mut model = ArrayModel::new(&array(Level::Raid0, 1));
    let write = model.submit(Instant(0), ArrayRequest::Write(ByteRange::at(512 * MIB, 4096)));
    let now = time_of(&mut model, write);
    let flush = model.submit(now, ArrayRequest::Flush);
    let took = time_of(&mut model, flush).since(now);
    assert!(took > Duration::from_millis(1), "an access of a disk takes longer than {took:?}");
}

#[test]
fn a_request_that_comes_before_the_driver_woke_up_finds_the_array_as_it_is_by_then() {
    let mut model = ArrayModel::new(&array(Level::Raid0, 1));
    let first = model.submit(Instant(0), ArrayRequest::Read(ByteRange::at(512 * MIB, 4096)));
    let later = Instant(0).plus(Duration::from_secs(1));
    let second = model.submit(later, ArrayRequest::Read(ByteRange::at(0, 4096)));
    assert!(model.next_event().expect("the first is answered") < later);
    let answers = model.advance(later);
    assert_eq!(answers.iter().map(|answer| answer.request).collect::<Vec<_>>(), [first]);
    assert!(time_of(&mut model, second) > later);
}

#[test]
fn a_controller_cache_absorbs_a_burst_and_then_slows_down_to_the_disks() {
    let array = Parameters { controller_cache_bytes: 16 * MIB, ..array(Level::Raid5, 16) };
    let mut random = Random(7);
    let mut next = || ArrayRequest::Write(random_page(&array, &mut random));
    let mut model = ArrayModel::new(&array);
    let burst = drive_for(&mut model, 32, 1, 2000, &mut next).per_second;
    let sustained = drive_for(&mut ArrayModel::new(&array), 32, 10_000, 10_000, &mut next).per_second;
    assert!(burst > 100_000.0, "{burst:.0}");
    assert!((1500.0..10_000.0).contains(&sustained), "{sustained:.0}");
}

#[test]
fn a_flush_is_free_with_a_controller_cache() {
    let array = Parameters { controller_cache_bytes: 16 * MIB, ..array(Level::Raid5, 16) };
    let mut model = ArrayModel::new(&array);
    let write = model.submit(Instant(0), ArrayRequest::Write(ByteRange::at(4096, 4096)));
    let now = time_of(&mut model, write);
    let flush = model.submit(now, ArrayRequest::Flush);
    assert!(time_of(&mut model, flush).since(now) < Duration::from_millis(1));
}

#[test]
fn a_controller_cache_joins_small_sequential_writes_to_full_stripes() {
    let array = Parameters { controller_cache_bytes: 64 * MIB, ..array(Level::Raid5, 5) };
    let mut model = ArrayModel::new(&array);
    for page in 0..1024 {
        model.submit(Instant(0), ArrayRequest::Write(ByteRange::at(page * 4096, 4096)));
    }
    run_dry(&mut model);
    assert_eq!(model.counters().read_bytes, 0);
    assert_eq!(model.counters().written_bytes, 5 * MIB, "4 MiB of data and their parity");
}

#[test]
fn a_driver_that_wakes_up_late_gets_the_same_throughput() {
    let array = array(Level::Raid0, 1);
    let sequence = |lateness: Duration| {
        let mut model = ArrayModel::new(&array);
        let mut random = Random(8);
        let mut now = Instant(0);
        for _ in 0..500 {
            model.submit(now, ArrayRequest::Read(random_page(&array, &mut random)));
            while let Some(due) = model.next_event() {
                now = due.plus(lateness);
                model.advance(now);
            }
        }
        now.since(Instant(0)).as_secs_f64()
    };
    let (prompt, late) = (sequence(Duration::ZERO), sequence(Duration::from_millis(1)));
    assert!(late < prompt * 1.01, "{prompt} {late}");
}

#[test]
fn the_same_requests_take_the_same_time() {
    let array = Preset::B1.parameters(1 << 30);
    let run = || {
        let mut random = Random(9);
        let mut next = || ArrayRequest::Write(random_page(&array, &mut random));
        drive_for(&mut ArrayModel::new(&array), 64, 100, 1000, &mut next)
    };
    assert_eq!(run().slowest, run().slowest);
}
