//! The presets against the vendors' figures, and streaming against what the disks can transfer.

use super::host::{Random, Run, as_f64, drive, drive_for, random_page};
use crate::ByteRange;
use crate::emulated::{ArrayModel, ArrayRequest, Parameters, Preset};

const MIB: u64 = 1 << 20;

fn random_reads(parameters: &Parameters, depth: u64) -> Run {
    let mut random = Random(1);
    drive(&mut ArrayModel::new(parameters), depth, || ArrayRequest::Read(random_page(parameters, &mut random)))
}

fn random_writes(parameters: &Parameters, depth: u64) -> Run {
    let mut random = Random(2);
    drive(&mut ArrayModel::new(parameters), depth, || ArrayRequest::Write(random_page(parameters, &mut random)))
}

/// Sequential requests of `length` bytes from the start of the volume.
fn stream(parameters: &Parameters, depth: u64, length: u64, request: fn(ByteRange) -> ArrayRequest) -> Run {
    let mut position = 0;
    let mut next = || {
        let range = ByteRange::at(position % parameters.size_bytes, length);
        position += length;
        request(range)
    };
    drive_for(&mut ArrayModel::new(parameters), depth, 500, 1000, &mut next)
}

#[track_caller]
fn assert_within(part: f64, measured: f64, expected: f64) {
    let ratio = measured / expected;
    assert!((1.0 - part..=1.0 + part).contains(&ratio), "{measured:.0} is {ratio:.2} of {expected:.0}");
}

// proves: B1, B2
#[test]
fn b1_reads_and_writes_as_the_vendors_array_at_depth_128() {
    let array = Preset::B1.parameters(8 << 30);
    assert_within(0.15, random_reads(&array, 128).per_second, 4512.0);
    assert_within(0.15, random_writes(&array, 128).per_second, 1660.0);
}

// proves: B6
#[test]
fn b6_reads_and_writes_as_the_vendors_array_at_depth_32() {
    let array = Preset::B6.parameters(20 << 30);
    assert_within(0.15, random_reads(&array, 32).per_second, 1016.0);
    assert_within(0.15, random_writes(&array, 32).per_second, 562.0);
}

// proves: B9
#[test]
fn b9_reads_writes_and_streams_as_the_vendors_array() {
    let array = Preset::B9.parameters(8 << 30);
    assert_within(0.15, random_reads(&array, 24).per_second, 1100.0);
    assert_within(0.15, random_writes(&array, 24).per_second, 300.0);
    let stripe = array.stripe_bytes();
    assert_within(0.15, stream(&array, 8, 4 * stripe, ArrayRequest::Read).bytes_per_second, 900e6);
    assert_within(0.15, stream(&array, 8, 4 * stripe, ArrayRequest::Write).bytes_per_second, 900e6);
}

#[test]
fn the_size_of_the_volume_does_not_change_what_a_preset_gives() {
    for size_bytes in [1 << 30, 64 << 30] {
        let array = Preset::B1.parameters(size_bytes);
        assert_within(0.15, random_reads(&array, 128).per_second, 4512.0);
        assert_within(0.15, random_writes(&array, 128).per_second, 1660.0);
    }
}

#[test]
fn streaming_reaches_the_rate_of_all_data_disks() {
    for preset in Preset::ALL {
        for controller_cache_bytes in [0, 64 * MIB] {
            let array = Parameters { controller_cache_bytes, ..preset.parameters(8 << 30) };
            let rate = as_f64(array.rate * u64::from(array.level.data_disks(array.disks)));
            let length = array.stripe_bytes();
            assert_within(0.1, stream(&array, 8, length, ArrayRequest::Read).bytes_per_second, rate);
            assert_within(0.1, stream(&array, 8, length, ArrayRequest::Write).bytes_per_second, rate);
        }
    }
}
