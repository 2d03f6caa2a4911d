//! The emulated array as a device: its bytes are those of its file, its time is waited for and not burnt.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, poll_immediate};
use hotset_block::emulated::{EmulatedArray, EmulatedArraySpec};
use hotset_block::{
    Buf, ByteRange, Device, DeviceErrorKind, Discard, Env, ExtentKind, FileDevice, FileOptions, HostEnv, MemoryDevice,
    OpenError, ZeroMode,
};
use tempfile::TempDir;

use crate::together::run;

const MIB: u64 = 1 << 20;
const SIZE_BYTES: u64 = 16 * MIB;

type Array = EmulatedArray<HostEnv, FileDevice>;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("array image");
    (directory, path)
}

/// Where the store's short transfers are made without the ring.
fn place_in_memory() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("array image");
    (directory, path)
}

async fn try_open(env: &HostEnv, path: &Path, keys: &str) -> Result<Array, OpenError> {
    let text = format!("emulated:disks=5,level=raid5,size={SIZE_BYTES},file={},chunk=16K{keys}", path.display());
    let spec: EmulatedArraySpec = text.parse().unwrap();
    EmulatedArray::open(env, &spec, FileOptions::default()).await
}

async fn open(env: &HostEnv, path: &Path) -> Array {
    try_open(env, path, "").await.unwrap()
}

fn bytes(len: usize, seed: usize) -> Buf {
    let mut buf = Buf::zeroed(len);
    for (index, byte) in buf.iter_mut().enumerate() {
        *byte = u8::try_from((index * 7 + seed * 31 + index / 251) % 255 + 1).unwrap();
    }
    buf
}

async fn read(array: &Array, offset: u64, len: usize) -> Vec<u8> {
    let (buf, result) = array.read(offset, Buf::zeroed(len)).await;
    result.unwrap();
    buf.to_vec()
}

async fn write(array: &Array, offset: u64, buf: Buf) {
    array.write(offset, buf).await.1.unwrap();
}

#[test]
fn it_says_what_it_is() {
    let (_directory, path) = place();
    run(async |env| {
        let info = open(&env, &path).await.info();
        assert_eq!((info.size_bytes, info.logical_block_bytes, info.optimal_io_bytes), (SIZE_BYTES, 512, 4 * 16_384));
        assert_eq!((info.discard, info.read_only), (Discard::Zeroes, false));
        assert!(info.emulated && info.volatile_cache);
        let cached = try_open(&env, &path, ",controller-cache=16M").await.unwrap();
        assert!(cached.info().volatile_cache, "what the file lies on may lose it in a power cut");
        let text = format!("disks=5,level=raid5,size={SIZE_BYTES},chunk=16K,controller-cache=16M,file=none");
        let spec: EmulatedArraySpec = format!("emulated:{text}").parse().unwrap();
        let lasting = EmulatedArray::new(&env, &spec.parameters, MemoryDevice::new(SIZE_BYTES, 512));
        assert!(!lasting.info().volatile_cache, "a controller's cache survives a power cut");
    });
    assert_eq!(fs::metadata(&path).unwrap().blocks(), 0, "the file was made sparse");
}

#[test]
fn what_is_written_is_read_back_across_chunks_and_in_parts() {
    [place(), place_in_memory()].into_iter().for_each(|(_directory, path)| written_is_read_back(&path));
}

fn written_is_read_back(path: &Path) {
    run(async |env| {
        let array = open(&env, path).await;
        let mut expected = vec![0; usize::try_from(SIZE_BYTES).unwrap()];
        let writes =
            [(0, 512), (16_384 - 512, 1024), (65_536 - 4096, 8192), (3 * 65_536, 65_536), (100 * 512, 200_192)];
        for (seed, (offset, len)) in writes.into_iter().enumerate() {
            let buf = bytes(len, seed);
            expected[offset..offset + len].copy_from_slice(&buf);
            write(&array, u64::try_from(offset).unwrap(), buf).await;
        }
        assert!(read(&array, 0, MIB.try_into().unwrap()).await == expected[..1 << 20]);
        assert!(read(&array, 32_256, 512 * 70).await == expected[32_256..32_256 + 512 * 70]);
    });
}

#[test]
fn a_store_in_memory_that_was_cut_short_is_gone() {
    let (_directory, path) = place_in_memory();
    run(async |env| {
        let array = open(&env, &path).await;
        write(&array, 0, bytes(8192, 1)).await;
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        let (_, result) = array.read(0, Buf::zeroed(8192)).await;
        assert_eq!(result.unwrap_err().kind, DeviceErrorKind::Gone);
        let (_, result) = array.write(0, bytes(4096, 2)).await;
        assert_eq!(result.unwrap_err().kind, DeviceErrorKind::Gone, "nothing it says can be trusted");
    });
}

#[test]
fn data_are_in_the_file_when_the_write_is_acknowledged() {
    let (_directory, path) = place();
    run(async |env| {
        let array = try_open(&env, &path, ",controller-cache=16M").await.unwrap();
        for step in 0..20 {
            let buf = bytes(4096, step);
            let copy = buf.to_vec();
            write(&array, u64::try_from(step).unwrap() * 20_480, buf).await;
            assert!(fs::read(&path).unwrap()[step * 20_480..][..4096] == copy);
        }
    });
}

#[test]
fn discarded_and_zeroed_ranges_read_as_zeroes_and_show_in_the_allocation() {
    let (_directory, path) = place();
    run(async |env| {
        let array = open(&env, &path).await;
        let whole = ByteRange::at(0, SIZE_BYTES);
        assert_eq!(array.allocation(whole, 8).await.unwrap()[0].kind, ExtentKind::Hole);
        write(&array, 0, bytes(1 << 20, 1)).await;
        assert_eq!(array.allocation(whole, 8).await.unwrap()[0].kind, ExtentKind::Data);
        array.discard(ByteRange::at(0, 65_536)).await.unwrap();
        array.write_zeroes(ByteRange::at(131_072, 65_536), ZeroMode::MayPunch).await.unwrap();
        array.write_zeroes(ByteRange::at(262_144, 65_536), ZeroMode::KeepAllocated).await.unwrap();
        array.flush().await.unwrap();
        let extents = array.allocation(whole, 8).await.unwrap();
        assert_eq!((extents[0].kind, extents[0].length), (ExtentKind::Hole, 65_536));
        let expected = bytes(1 << 20, 1);
        for (index, part) in read(&array, 0, 1 << 20).await.chunks(65_536).enumerate() {
            let zero = [0, 2, 4].contains(&index);
            assert!(if zero { part == [0; 65_536] } else { part == &expected[index * 65_536..][..65_536] }, "{index}");
        }
    });
}

#[test]
fn what_does_not_fit_is_refused_and_takes_no_time() {
    let (_directory, path) = place();
    run(async |env| {
        let array = open(&env, &path).await;
        let refused = |result: Result<(), hotset_block::DeviceError>| {
            assert_eq!(result.unwrap_err().kind, DeviceErrorKind::OutOfRange);
        };
        refused(array.read(SIZE_BYTES, Buf::zeroed(512)).await.1);
        refused(array.write(SIZE_BYTES - 512, Buf::zeroed(1024)).await.1);
        refused(array.write(100, Buf::zeroed(512)).await.1);
        refused(array.read(u64::MAX - 511, Buf::zeroed(1024)).await.1);
        refused(array.discard(ByteRange { start: 0, end: SIZE_BYTES + 512 }).await);
        refused(array.write_zeroes(ByteRange::at(1, 512), ZeroMode::KeepAllocated).await);
        let (_, nothing) = array.read(SIZE_BYTES, Buf::zeroed(0)).await;
        nothing.unwrap();
    });
}

#[test]
fn a_file_of_another_size_is_refused_with_advice() {
    let (directory, path) = place();
    fs::write(&path, [0; 8192]).unwrap();
    run(async |env| {
        let error = try_open(&env, &path, "").await.err().expect("8 KiB are not 16 MiB").to_string();
        assert!(error.contains("its size is 8K, not 16M: say size=8K, name another file, or remove it"), "{error}");
        let error = try_open(&env, directory.path(), "").await.err().expect("a directory").to_string();
        assert!(error.contains("regular file"), "{error}");
        let error = try_open(&env, &path.join("below"), "").await.err().expect("not a directory").to_string();
        assert!(error.contains("array image/below"), "{error}");
    });
    assert_eq!(fs::metadata(&path).unwrap().len(), 8192, "what is refused stays as it is");
}

#[test]
fn a_file_belongs_to_one_array_until_its_last_handle_is_gone() {
    let (_directory, path) = place();
    run(async |env| {
        let array = open(&env, &path).await;
        let other_handle = array.clone();
        drop(array);
        assert_eq!(try_open(&env, &path, "").await.err().expect("in use").kind, DeviceErrorKind::Busy);
        drop(other_handle);
        read(&open(&env, &path).await, 0, 4096).await;
    });
}

#[test]
fn an_abandoned_request_disturbs_nobody() {
    let (_directory, path) = place();
    run(async |env| {
        let array = open(&env, &path).await;
        for _ in 0..10 {
            assert!(poll_immediate(array.read(0, Buf::zeroed(4096))).await.is_none());
            assert!(poll_immediate(array.write(8192, bytes(4096, 1))).await.is_none());
        }
        write(&array, 4096, bytes(4096, 3)).await;
        assert!(read(&array, 4096, 4096).await == bytes(4096, 3)[..]);
    });
}

/// Nanoseconds that this thread has run.
fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn waiting_takes_the_arrays_time_and_hardly_any_of_the_processor() {
    let (_directory, path) = place();
    run(async |env| {
        let array = open(&env, &path).await;
        let (began, cpu_before) = (Instant::now(), cpu_time());
        join_all((0..4).map(async |_| {
            for _ in 0..50 {
                read(&array, env.random() % (SIZE_BYTES / 4096) * 4096, 4096).await;
            }
        }))
        .await;
        let (wall, cpu) = (began.elapsed(), cpu_time() - cpu_before);
        assert!(wall > Duration::from_millis(150), "200 reads by 5 disks cannot take {wall:?} only");
        assert!(cpu * 5 < wall, "{cpu:?} of {wall:?}");
    });
}
