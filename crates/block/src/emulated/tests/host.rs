//! A host that keeps a fixed number of requests at the model, in virtual time.

use std::collections::HashMap;
use std::time::Duration;

use crate::emulated::{ArrayModel, ArrayRequest, Parameters, RequestId};
use crate::{ByteRange, Instant};

/// Answers to queue before measuring and while measuring.
const WARM_UP: u64 = 3_000;
const MEASURED: u64 = 20_000;

/// What a run of requests gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) slowest: Duration,
}

/// A small deterministic generator (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A 4 KiB page of the volume, anywhere.
pub(super) fn random_page(parameters: &Parameters, random: &mut Random) -> ByteRange {
    ByteRange::at(random.below(parameters.size_bytes / 4096) * 4096, 4096)
}

/// Keeps `depth` requests at the array, as `next` gives them.
pub(super) fn drive(model: &mut ArrayModel, depth: u64, mut next: impl FnMut() -> ArrayRequest) -> Run {
    drive_for(model, depth, WARM_UP, MEASURED, &mut next)
}

pub(super) fn drive_for(
    model: &mut ArrayModel,
    depth: u64,
    warm_up: u64,
    measured: u64,
    next: &mut impl FnMut() -> ArrayRequest,
) -> Run {
    let mut pending: HashMap<RequestId, (Instant, u64)> = HashMap::new();
    let mut now = Instant(0);
    let (mut answered, mut bytes, mut slowest) = (0, 0, Duration::ZERO);
    let mut began = now;
    while answered < warm_up + measured {
        while u64::try_from(pending.len()).unwrap() < depth {
            let request = next();
            pending.insert(model.submit(now, request), (now, length(request)));
        }
        now = model.next_event().expect("requests are pending");
        for answer in model.advance(now) {
            let (since, length) = pending.remove(&answer.request).expect("answered once");
            answered += 1;
            if answered == warm_up {
                began = now;
            } else if answered > warm_up {
                bytes += length;
                slowest = slowest.max(answer.at.since(since));
            }
        }
    }
    let seconds = now.since(began).as_secs_f64();
    Run { per_second: as_f64(measured) / seconds, bytes_per_second: as_f64(bytes) / seconds, slowest }
}

fn length(request: ArrayRequest) -> u64 {
    match request {
        ArrayRequest::Read(range) | ArrayRequest::Write(range) => range.length(),
        ArrayRequest::Flush | ArrayRequest::Discard => 0,
    }
}

/// Counts here are far below 2^32.
pub(super) fn as_f64(count: u64) -> f64 {
    let million = 1_000_000;
    f64::from(u32::try_from(count / million).unwrap()) * 1e6 + f64::from(u32::try_from(count % million).unwrap())
}
