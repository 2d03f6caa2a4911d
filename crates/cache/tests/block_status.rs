//! What is said of a volume's holes, while its backing device takes its time to say it.

use std::fs::File;
use std::pin::pin;

use futures_util::future::{Either, poll_immediate, select};
use hotset_block::{ByteRange, Extent, ExtentKind, FileDevice, FileOptions};
use hotset_cache::config::{IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{DirtyData, Named, Pool, PoolSpec, STATE_BYTES, Volume};

use crate::harness::{Bad, PACE, TELLS_ALLOCATION, TestDevice, TestEnv, run};
use crate::world::{MIB, write};

const WHOLE: ByteRange = ByteRange { start: 0, end: 16 * MIB };

/// A volume over a file without data.
fn volume_over_a_hole(env: &TestEnv, name: &str) -> (Volume<TestEnv>, TestDevice) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    File::create(&path).unwrap().set_len(WHOLE.end).unwrap();
    let store = FileDevice::open(&env.host, &path, FileOptions::default()).unwrap();
    let backing = TestDevice::from(store);
    let (name, path) = (name.parse().unwrap(), path.display().to_string());
    let spec = VolumeSpec { name, backing: path, settings: VolumeSettings::default() };
    (Volume::open(env.clone(), spec, backing.clone()).unwrap(), backing)
}

async fn pool_with(env: &TestEnv, volume: &Volume<TestEnv>) -> Pool<TestEnv> {
    let kind = PoolKind::ReadWrite;
    let spec = PoolSpec { name: "tank".parse().unwrap(), kind, settings: PoolSettings::preset(kind, IoType::Custom) };
    let ssd = || Named { path: "ssd".to_owned(), device: TestDevice::new(16 * MIB) };
    let pool = Pool::create(env.clone(), spec, vec![ssd(), ssd()], TestDevice::new(STATE_BYTES)).await.unwrap();
    pool.attach(volume).await.unwrap();
    pool
}

/// The device has been asked, and hangs.
async fn until_asked(backing: &TestDevice, asked: impl Future + Unpin) {
    match select(asked, pin!(backing.until_held())).await {
        Either::Left(_) => panic!("it was answered"),
        Either::Right(_) => {}
    }
}

fn extents(lengths: &[(u64, ExtentKind)]) -> Vec<Extent> {
    lengths.iter().map(|(length, kind)| Extent { length: *length, kind: *kind }).collect()
}

// proves: F7
#[test]
fn a_device_that_says_nothing_of_its_holes_delays_nobody_else_and_all_of_it_counts_as_data() {
    run(async |env| {
        // Slow enough for an answer of a busy machine: it takes a thread.
        let at = env.clone().at_pace(PACE / 5);
        let ((volume, backing), (other, _)) = (volume_over_a_hole(&at, "hangs"), volume_over_a_hole(&env, "other"));
        backing.become_bad(Bad::HangsAt(TELLS_ALLOCATION));
        let mut waits = pin!(volume.block_status(WHOLE, 8));
        assert!(poll_immediate(&mut waits).await.is_none());
        other.read(ByteRange::at(0, 4096)).await.unwrap();
        volume.read(ByteRange::at(0, 4096)).await.unwrap();
        assert_eq!(other.block_status(WHOLE, 8).await.unwrap(), extents(&[(16 * MIB, ExtentKind::Hole)]));
        assert_eq!(waits.await.unwrap(), extents(&[(16 * MIB, ExtentKind::Data)]));
        backing.recover();
        assert_eq!(volume.block_status(WHOLE, 8).await.unwrap(), extents(&[(16 * MIB, ExtentKind::Hole)]));
    });
}

// proves: F7
#[test]
fn what_was_written_before_or_while_a_device_says_what_it_holds_is_data_wherever_it_lies_by_then() {
    run(async |env| {
        let (volume, backing) = volume_over_a_hole(&env, "volume");
        let pool = pool_with(&env, &volume).await;
        write(&volume, MIB / 4096, 1).await;
        backing.become_bad(Bad::HangsAt(TELLS_ALLOCATION));
        let mut asked = pin!(volume.block_status(WHOLE, 8));
        until_asked(&backing, &mut asked).await;
        write(&volume, 2 * MIB / 4096, 2).await;
        let (hole, data) = (ExtentKind::Hole, ExtentKind::Data);
        backing.recover();
        let expected = [(MIB, hole), (4096, data), (MIB - 4096, hole), (4096, data), (14 * MIB - 4096, hole)];
        assert_eq!(asked.await.unwrap(), extents(&expected), "what came meanwhile");

        backing.become_bad(Bad::HangsAt(TELLS_ALLOCATION));
        let mut asked = pin!(volume.block_status(WHOLE, 8));
        until_asked(&backing, &mut asked).await;
        pool.detach(&volume.name(), DirtyData::Clean).await.unwrap();
        backing.recover();
        assert_eq!(asked.await.unwrap(), extents(&expected), "the log has gone");
    });
}
