//! Hosts that ask for any bytes, of a file of any length: what one writes into a page is not lost to what another one writes beside it.

use std::path::Path;

use futures_util::future::join_all;
use hotset_block::{Buf, ByteRange, FileDevice, FileOptions, ZeroMode};
use hotset_cache::config::{PoolKind, VolumeSettings, VolumeSpec, WriteMode};
use hotset_cache::{DirtyData, Durability, ErrorKind, Pool, Volume, ZeroEffort};

use crate::harness::{TestDevice, TestEnv, run};
use crate::world::{self, MIB, World};

/// No whole number of pages, nor of sectors.
const FILE_BYTES: u64 = MIB + 4096 + 700;
/// What the tests ask for lies in so many bytes at the beginning, and in as many at the end.
const BUSY_BYTES: u64 = 5 * 4096;
/// Parts of a busy region that are asked for at the same time.
const PARTS: u64 = 8;

/// What is tried in turn.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Uncached without one.
    pool: Option<PoolKind>,
    write_mode: WriteMode,
    logical_block_bytes: u32,
}

/// The same numbers at every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Write(Durability),
    Zero,
    Trim,
    Read,
}

async fn act(volume: &Volume<TestEnv>, action: Action, range: ByteRange, fill: u8) -> Option<Vec<u8>> {
    let length = usize::try_from(range.length()).unwrap();
    match action {
        Action::Write(durability) => {
            let mut buf = Buf::zeroed(length);
            buf.fill(fill);
            volume.write(range.start, buf, durability).await.unwrap();
        }
        Action::Zero => {
            let (mode, durability) = (ZeroMode::MayPunch, Durability::Volatile);
            volume.write_zeroes(range, mode, ZeroEffort::Any, durability).await.unwrap();
        }
        Action::Trim => volume.trim(range, Durability::Volatile).await.unwrap(),
        Action::Read => {
            let bytes = volume.read(range).await.unwrap();
            let given = volume.read_into(range.start, Buf::zeroed(length)).await.unwrap();
            assert!(bytes[..] == given[..], "both ways to read {range:?}");
            return Some(bytes.to_vec());
        }
    }
    None
}

/// What a volume is to hold.
struct Model(Vec<u8>);

impl Model {
    fn of(&mut self, range: ByteRange) -> &mut [u8] {
        &mut self.0[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
    }

    fn apply(&mut self, action: Action, range: ByteRange, fill: u8, unit: u64) {
        match action {
            Action::Write(_) => self.of(range).fill(fill),
            Action::Zero => self.of(range).fill(0),
            // Parts of the device's blocks stay.
            Action::Trim => self.of(range.narrowed_to(unit)).fill(0),
            Action::Read => {}
        }
    }
}

/// A range of each part of a busy region: all of them at once, and none of them meets another one.
fn ranges(numbers: &mut Numbers, size_bytes: u64) -> Vec<ByteRange> {
    let first = if numbers.below(2) == 0 { 0 } else { size_bytes - BUSY_BYTES };
    let part_bytes = BUSY_BYTES / PARTS;
    let part = |part: u64| {
        let length = 1 + numbers.below(part_bytes);
        ByteRange::at(first + part * part_bytes + numbers.below(part_bytes - length + 1), length)
    };
    (0..PARTS).map(part).collect()
}

async fn exercise(volume: &Volume<TestEnv>, model: &mut Model, case: Case, unit: u64) {
    let mut numbers = Numbers(7);
    for round in 0..150 {
        let asked: Vec<_> = ranges(&mut numbers, volume.size_bytes())
            .into_iter()
            .map(|range| {
                let action = match numbers.below(10) {
                    0..4 => Action::Write(Durability::Volatile),
                    4 => Action::Write(Durability::Durable),
                    5 => Action::Zero,
                    6 => Action::Trim,
                    _ => Action::Read,
                };
                (action, range, u8::try_from(1 + numbers.below(250)).unwrap())
            })
            .collect();
        let answers = join_all(asked.iter().map(|(action, range, fill)| act(volume, *action, *range, *fill))).await;
        for ((action, range, fill), answer) in asked.into_iter().zip(answers) {
            model.apply(action, range, fill, unit);
            if let Some(bytes) = answer {
                assert!(bytes == model.of(range), "{case:?}, round {round}: {range:?}");
            }
        }
        if numbers.below(10) == 0 {
            volume.flush().await.unwrap();
        }
    }
    let all = volume.read(ByteRange::at(0, volume.size_bytes())).await.unwrap();
    assert!(all[..] == model.0[..], "{case:?}: at the end");
}

async fn open(env: &TestEnv, path: &Path, case: Case) -> Volume<TestEnv> {
    let options = FileOptions { to_the_end: true, ..FileOptions::default() };
    let device = TestDevice::from(FileDevice::open(&env.host, path, options).unwrap());
    let settings = VolumeSettings {
        logical_block_bytes: case.logical_block_bytes,
        write_mode: case.write_mode,
        ..VolumeSettings::default()
    };
    let spec = VolumeSpec { name: "disk".parse().unwrap(), backing: "file".into(), settings };
    Volume::open(env.clone(), spec, device).unwrap()
}

async fn try_case(env: TestEnv, path: &Path, case: Case) {
    std::fs::write(path, vec![9; usize::try_from(FILE_BYTES).unwrap()]).unwrap();
    let world = World::new(env.clone(), &[40 * MIB, 40 * MIB], MIB);
    let volume = open(&env, path, case).await;
    let size_bytes =
        FILE_BYTES.next_multiple_of(512) / u64::from(case.logical_block_bytes) * u64::from(case.logical_block_bytes);
    assert_eq!(volume.size_bytes(), size_bytes, "{case:?}");
    let mut model = Model(vec![9; usize::try_from(FILE_BYTES).unwrap()]);
    model.0.resize(usize::try_from(size_bytes).unwrap(), 0);
    let pool: Option<Pool<TestEnv>> = match case.pool {
        Some(kind) => {
            let pool = world.create(kind).await;
            pool.attach(&volume).await.unwrap();
            Some(pool)
        }
        None => None,
    };
    let unit = u64::from(volume_unit(path, &env));
    exercise(&volume, &mut model, case, unit).await;
    if let Some(pool) = &pool {
        pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
    }
    volume.flush().await.unwrap();
    let mut file = std::fs::read(path).unwrap();
    file.resize(file.len().next_multiple_of(512), 0);
    assert!(file[..model.0.len()] == model.0[..], "{case:?}: on the backing device");
    if let Some(pool) = pool {
        pool.close().await.unwrap();
    }
}

/// The block of the device under the volume.
fn volume_unit(path: &Path, env: &TestEnv) -> u32 {
    use hotset_block::Device as _;
    let beside = path.with_extension("beside");
    std::fs::write(&beside, vec![0; 4096]).unwrap();
    FileDevice::open(&env.host, &beside, FileOptions::default()).unwrap().info().logical_block_bytes
}

// proves: D13, H1
#[test]
fn any_bytes_are_read_and_written_by_many_at_once_in_every_mode() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let modes = [WriteMode::WriteBack, WriteMode::InstantWriteBack, WriteMode::WriteThrough, WriteMode::WriteAround];
    let cached = modes.map(|write_mode| (Some(PoolKind::ReadWrite), write_mode));
    let others = [(None, WriteMode::WriteBack), (Some(PoolKind::Read), WriteMode::WriteBack)];
    for (pool, write_mode) in cached.into_iter().chain(others) {
        for logical_block_bytes in [512, 4096] {
            let case = Case { pool, write_mode, logical_block_bytes };
            run(async |env| try_case(env, &path, case).await);
        }
    }
}

/// What pages hold that are filled with their own number.
fn numbered(pages: std::ops::Range<u64>) -> Vec<u8> {
    pages.flat_map(|page| vec![u8::try_from(page).unwrap(); 4096]).collect()
}

// proves: D1
#[test]
fn a_read_of_whole_pages_fills_the_buffer_that_it_was_given_from_wherever_they_are() {
    run(async |env| {
        let world = World::new(env.clone(), &[40 * MIB, 40 * MIB], MIB);
        let volume = world.volume();
        for page in 0..64 {
            world::write(&volume, page, u8::try_from(page).unwrap()).await;
        }
        check_given(&volume, 0..8, "uncached").await;
        let pool = world.create(PoolKind::ReadWrite).await;
        pool.attach(&volume).await.unwrap();
        check_given(&volume, 0..8, "a miss").await;
        volume.populate(ByteRange::at(0, 64 << 10)).await.unwrap();
        let hits = volume.status().stats.read_hits;
        check_given(&volume, 0..8, "a slot").await;
        assert_eq!(volume.status().stats.read_hits, hits + 1);
        world::write(&volume, 18, 18).await;
        check_given(&volume, 14..20, "a slot, the log and the backing device").await;
        pool.close().await.unwrap();
    });
}

async fn check_given(volume: &Volume<TestEnv>, pages: std::ops::Range<u64>, from: &str) {
    let expected = numbered(pages.clone());
    let buf = Buf::zeroed(expected.len());
    let given = buf.as_ptr();
    let buf = volume.read_into(pages.start * 4096, buf).await.unwrap();
    assert!(buf[..] == expected[..], "{from}: the bytes");
    assert_eq!(buf.as_ptr(), given, "{from}: nothing was copied");
}

// proves: D3
#[test]
fn a_buffer_that_a_failed_ssd_had_is_not_the_one_that_is_answered() {
    run(async |env| {
        let world = World::new(env.clone(), &[40 * MIB, 40 * MIB], MIB);
        let volume = world.volume();
        world::write(&volume, 3, 3).await;
        let pool = world.create(PoolKind::Read).await;
        pool.attach(&volume).await.unwrap();
        volume.populate(ByteRange::at(0, 64 << 10)).await.unwrap();
        world.rot(0).await;
        world.rot(1).await;
        let buf = volume.read_into(3 * 4096, Buf::zeroed(4096)).await.unwrap();
        assert!(buf.iter().all(|byte| *byte == 3), "the backing device's bytes");
        assert!(volume.status().stats.read_errors_hidden > 0, "the SSD was asked first");
        let past = volume.read_into(volume.size_bytes(), Buf::zeroed(4096)).await.unwrap_err();
        assert_eq!(past.kind, ErrorKind::OutOfRange);
        pool.close().await.unwrap();
    });
}
