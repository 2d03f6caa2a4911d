//! Files through the ring: transfers, locks, what happens when they are cut, and futures that are dropped.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, join_all, poll_immediate};
use hotset_block::{
    Buf, ByteRange, Device, DeviceErrorKind, Discard, Env, ExtentKind, FileDevice, FileOptions, HostEnv, ZeroMode,
    create_image,
};
use tempfile::TempDir;

use crate::together::run;

const MIB: u64 = 1 << 20;

/// An image of `size_bytes` zeroes, and the directory that goes with it.
fn image(size_bytes: u64) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("image");
    create_image(&path, size_bytes, &mut |_| ()).unwrap();
    (directory, path)
}

fn open(env: &HostEnv, path: &Path) -> FileDevice {
    FileDevice::open(env, path, FileOptions::default()).unwrap()
}

fn filled(mut buf: Buf, value: u8) -> Buf {
    buf.fill(value);
    buf
}

#[test]
fn what_is_written_is_read_back_through_registered_and_other_buffers() {
    let (_directory, path) = image(4 * MIB);
    run(async |env| {
        let device = open(&env, &path);
        assert_eq!(device.info().size_bytes, 4 * MIB);
        for (offset, buf) in [(0, env.buffers().take(8192)), (65_536, Buf::zeroed(3 * 4096))] {
            let length = buf.len();
            device.write(offset, filled(buf, 0x5a)).await.1.unwrap();
            device.flush().await.unwrap();
            let (registered, result) = device.read(offset, env.buffers().take(length)).await;
            result.unwrap();
            let (plain, result) = device.read(offset, Buf::zeroed(length)).await;
            result.unwrap();
            assert!(registered.iter().chain(plain.iter()).all(|byte| *byte == 0x5a));
        }
    });
    let mut bytes = [0; 2];
    File::open(&path).unwrap().read_exact_at(&mut bytes, 8191).unwrap();
    assert_eq!(bytes, [0x5a, 0], "in the file itself, and not beyond what was written");
}

#[test]
fn parts_of_a_buffer_go_to_different_places_at_once() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        let (head, tail) = env.buffers().take(8192).split_at(4096);
        let ((head, first), (tail, second)) =
            join(device.write(0, filled(head, 1)), device.write(512 * 1024, filled(tail, 2))).await;
        first.and(second).unwrap();
        let _whole = head.join(tail);
        let (buf, result) = device.read(512 * 1024, env.buffers().take(4096)).await;
        result.unwrap();
        assert_eq!(buf[0], 2);
    });
}

#[test]
fn many_more_operations_than_the_ring_has_entries_all_complete() {
    let (_directory, path) = image(4 * MIB);
    run(async |env| {
        let device = open(&env, &path);
        let pages = 0..1024_u64;
        let writes = pages.clone().map(|page| {
            let value = u8::try_from(page % 251).unwrap();
            device.write(page * 4096, filled(env.buffers().take(4096), value))
        });
        assert!(join_all(writes).await.iter().all(|(_, result)| result.is_ok()));
        let reads = pages.clone().map(|page| device.read(page * 4096, env.buffers().take(4096)));
        for (page, (buf, result)) in pages.zip(join_all(reads).await) {
            result.unwrap();
            assert!(buf.iter().all(|byte| u64::from(*byte) == page % 251), "page {page}");
        }
    });
}

#[test]
fn a_dropped_write_still_happens_and_its_buffer_is_not_reused_before() {
    let (_directory, path) = image(64 * MIB);
    let large = 32 * 1024 * 1024;
    run(async |env| {
        let device = open(&env, &path);
        {
            let write = device.write(0, filled(Buf::zeroed(large), 0x77));
            let mut write = pin!(write);
            assert!(poll_immediate(write.as_mut()).await.is_none());
        }
        let never_polled = device.write(32 * MIB, filled(Buf::zeroed(4096), 0x99));
        drop(never_polled);
        // What is allocated now must not be what the kernel still reads from.
        let others: Vec<Buf> = (0..64).map(|_| filled(env.buffers().take(1 << 20), 0x11)).collect();
        drop(others);
    });
    let bytes = fs::read(&path).unwrap();
    assert!(bytes[..large].iter().all(|byte| *byte == 0x77));
    assert!(bytes[large..].iter().all(|byte| *byte == 0), "a write that never began does not happen");
}

#[test]
fn dropped_reads_do_not_scribble_over_buffers_that_were_handed_out_again() {
    let (_directory, path) = image(16 * MIB);
    File::options().write(true).open(&path).unwrap().write_all_at(&vec![0xee; 16 << 20], 0).unwrap();
    run(async |env| {
        let device = open(&env, &path);
        for round in 0..50_u64 {
            let read = device.read(round % 4 * 4 * MIB, env.buffers().take(128 * 1024));
            assert!(read.now_or_never().is_none(), "an answer takes a visit to the kernel");
            let mine = filled(env.buffers().take(128 * 1024), 0x22);
            env.sleep(Duration::from_micros(300)).await;
            assert!(mine.iter().all(|byte| *byte == 0x22));
        }
    });
}

#[test]
fn a_device_is_ours_alone_until_it_is_dropped_and_readers_share() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let first = open(&env, &path);
        let clone = first.clone();
        drop(first);
        let refused = FileDevice::open(&env, &path, FileOptions::default()).map(drop).unwrap_err();
        assert_eq!(refused.kind, DeviceErrorKind::Busy);
        assert!(refused.to_string().contains("in use"), "{refused}");
        for claimed in [false, true] {
            let refused = FileDevice::open(&env, &path, FileOptions { read_only: true, claimed, to_the_end: false })
                .map(drop)
                .unwrap_err();
            assert_eq!(refused.kind, DeviceErrorKind::Busy, "it is not read either");
        }
        drop(clone);
        let reading = FileOptions { read_only: true, ..FileOptions::default() };
        let readers = [0, 1].map(|_| FileDevice::open(&env, &path, reading).unwrap());
        assert!(FileDevice::open(&env, &path, FileOptions::default()).is_err());
        let (_, result) = readers[0].write(0, Buf::zeroed(4096)).await;
        assert_eq!(result.unwrap_err().kind, DeviceErrorKind::ReadOnly);
        assert_eq!(readers[1].read(0, Buf::zeroed(4096)).await.1, Ok(()));
    });
}

#[test]
fn the_lock_stays_while_an_operation_is_in_flight() {
    let (_directory, path) = image(64 * MIB);
    run(async |env| {
        let device = open(&env, &path);
        {
            let write = device.write(0, Buf::zeroed(64 << 20));
            let mut write = pin!(write);
            assert!(poll_immediate(write.as_mut()).await.is_none());
        }
        drop(device);
        assert!(FileDevice::open(&env, &path, FileOptions::default()).is_err(), "the kernel still has the write");
        while FileDevice::open(&env, &path, FileOptions::default()).is_err() {
            env.sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_cut_file_is_gone_and_never_reads_as_zeroes() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        for length in [512 * 1024, 512 * 1024 + 100] {
            File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
            let (_, beyond) = device.read(768 * 1024, env.buffers().take(4096)).await;
            let (_, across) = device.read(508 * 1024, env.buffers().take(8192)).await;
            assert_eq!(beyond.unwrap_err().kind, DeviceErrorKind::Gone);
            assert_eq!(across.unwrap_err().kind, DeviceErrorKind::Gone);
        }
    });
}

#[test]
fn a_write_past_the_cut_of_a_file_is_refused_and_does_not_make_it_grow_again() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        let length = || std::fs::metadata(&path).unwrap().len();
        let cut = |length| File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
        cut(512 * 1024);
        let (_, written) = device.write(768 * 1024, env.buffers().take_zeroed(4096)).await;
        assert_eq!(written.unwrap_err().kind, DeviceErrorKind::Gone);
        assert_eq!(device.flush().await.unwrap_err().kind, DeviceErrorKind::Gone);
        assert_eq!(length(), 512 * 1024);
        cut(MIB);
        let (_, read) = device.read(0, env.buffers().take(4096)).await;
        assert_eq!(read.unwrap_err().kind, DeviceErrorKind::Gone, "what was cut once is not trusted again");
        drop(device);
        let device = open(&env, &path);
        assert_eq!(device.read(0, env.buffers().take(4096)).await.1, Ok(()));
    });
}

#[test]
fn transfers_outside_the_device_or_between_its_blocks_are_out_of_range() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        for (offset, length) in [(MIB, 4096), (MIB - 512, 4096), (100, 512), (0, 100), (u64::MAX - 511, 512)] {
            let (_, read) = device.read(offset, Buf::zeroed(length)).await;
            let (_, written) = device.write(offset, Buf::zeroed(length)).await;
            assert_eq!(read.unwrap_err().kind, DeviceErrorKind::OutOfRange, "{offset} {length}");
            assert_eq!(written.unwrap_err().kind, DeviceErrorKind::OutOfRange, "{offset} {length}");
        }
        assert_eq!(device.read(MIB, Buf::zeroed(0)).await.1, Ok(()), "nothing fits everywhere");
    });
}

#[test]
fn single_sectors_can_be_transferred_from_inside_a_buffer() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        let sector = usize::try_from(device.info().logical_block_bytes).unwrap();
        let (head, tail) = filled(env.buffers().take(2 * sector), 3).split_at(sector);
        device.write(u64::try_from(sector).unwrap(), tail).await.1.unwrap();
        drop(head);
        let (buf, result) = device.read(0, env.buffers().take(4096.max(3 * sector))).await;
        result.unwrap();
        assert_eq!((buf[sector - 1], buf[sector], buf[2 * sector - 1], buf[2 * sector]), (0, 3, 3, 0));
    });
}

#[test]
fn discarded_ranges_read_as_zeroes_and_show_as_holes() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        assert_eq!(device.info().discard, Discard::Zeroes);
        device.write(0, filled(Buf::zeroed(1 << 20), 9)).await.1.unwrap();
        device.discard(ByteRange::at(256 * 1024, 256 * 1024)).await.unwrap();
        device.write_zeroes(ByteRange::at(0, 4096), ZeroMode::KeepAllocated).await.unwrap();
        device.write_zeroes(ByteRange::at(768 * 1024, 4096), ZeroMode::MayPunch).await.unwrap();
        let (buf, result) = device.read(0, Buf::zeroed(1 << 20)).await;
        result.unwrap();
        let zeroes = [0..4096, 256 * 1024..512 * 1024, 768 * 1024..772 * 1024];
        for (index, byte) in buf.iter().enumerate() {
            let expected = if zeroes.iter().any(|range| range.contains(&index)) { 0 } else { 9 };
            assert_eq!(*byte, expected, "byte {index}");
        }
        let extents = device.allocation(ByteRange::at(128 * 1024, 512 * 1024), 8).await.unwrap();
        let kinds: Vec<_> = extents.iter().map(|extent| (extent.kind, extent.length)).collect();
        let kib = |number: u64| number * 1024;
        let (data, hole) = (ExtentKind::Data, ExtentKind::Hole);
        assert_eq!(kinds, [(data, kib(128)), (hole, kib(256)), (data, kib(128))]);
        assert_eq!(device.allocation(ByteRange::at(0, MIB), 2).await.unwrap().len(), 2);
    });
}

#[test]
fn an_identity_stays_over_reopening_and_its_mark_rises_with_writes() {
    let (_directory, path) = image(MIB);
    let (_other_directory, other) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        let before = device.identity().unwrap();
        // The kernel's clock for mtime ticks only so often.
        env.sleep(Duration::from_millis(20)).await;
        device.write(0, Buf::zeroed(4096)).await.1.unwrap();
        device.flush().await.unwrap();
        drop(device);
        let after = open(&env, &path).identity().unwrap();
        assert_eq!((&before.id, &before.parent, before.boot), (&after.id, &after.parent, after.boot));
        assert!(after.change_mark > before.change_mark);
        assert_ne!(open(&env, &other).identity().unwrap().id, before.id);
    });
}

#[test]
fn what_is_no_device_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    fs::write(&empty, b"").unwrap();
    run(async |env| {
        for (path, reason) in
            [(directory.path(), "neither a block device"), (&empty, "empty"), (Path::new("/no/such"), "No such")]
        {
            let error = FileDevice::open(&env, path, FileOptions::default()).map(drop).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    });
}

#[test]
fn completions_beyond_the_kernels_queue_arrive_although_a_task_never_rests() {
    let (_directory, path) = image(MIB);
    run(async |env| {
        let device = open(&env, &path);
        let restless = env.clone();
        env.spawn(async move {
            loop {
                restless.end_of_turn().await;
            }
        });
        let reads = (0..512).map(|number| device.read(number % 256 * 4096, env.buffers().take(4096)));
        assert!(join_all(reads).await.iter().all(|(_, result)| result.is_ok()));
    });
}

/// A small generator, so that a failure comes again.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn random_operations_of_which_some_are_dropped_never_mix_up_pages() {
    const PAGES: u64 = 64;
    let (_directory, path) = image(PAGES * 4096);
    run(async |env| {
        let device = open(&env, &path);
        let mut state = 7;
        for _ in 0..3000 {
            let page = next_random(&mut state) % PAGES;
            let value = u8::try_from(page + 1).unwrap();
            let is_dropped = next_random(&mut state).is_multiple_of(2);
            if next_random(&mut state).is_multiple_of(2) {
                // Whoever writes a page writes the same, so that it is known although some writes come late.
                let mut write = pin!(device.write(page * 4096, filled(env.buffers().take(4096), value)));
                match poll_immediate(write.as_mut()).await {
                    None if is_dropped => {}
                    None => write.await.1.unwrap(),
                    Some((_, result)) => result.unwrap(),
                }
            } else {
                let mut read = pin!(device.read(page * 4096, filled(env.buffers().take(4096), 255)));
                if poll_immediate(read.as_mut()).await.is_none() && !is_dropped {
                    let (buf, result) = read.await;
                    result.unwrap();
                    assert!(buf.iter().all(|byte| *byte == 0 || *byte == value), "page {page}");
                }
            }
        }
    });
}
