//! A state directory, or an SSD, that does not answer any more: what was closed is let go all the same.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::{Buf, ByteRange, Env, Operation};
use hotset_cache::config::{BlockBytes, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec, limits};
use hotset_cache::{DirtyData, Durability, Named, Pool, PoolSpec, STATE_BYTES, Volume};

use crate::harness::{Bad, PACE, TestDevice, TestEnv, run};
use crate::world::{LOSSES_OFFSETS, MIB};

#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    Delete,
}

/// When the state directory begins to hang.
#[derive(Clone, Copy, Debug)]
enum Hangs {
    /// Before a change that is on record on the SSDs.
    BeforeAChange,
    BeforeTheEnd,
}

async fn pool_over(at: &TestEnv, kind: PoolKind, ssds: &[TestDevice], state: &TestDevice) -> Pool<TestEnv> {
    let mut settings = PoolSettings::preset(kind, IoType::Custom);
    settings.block_bytes = BlockBytes::new(64 << 10).unwrap();
    let spec = PoolSpec { name: "tank".parse().unwrap(), kind, settings };
    let named = ssds.iter().map(|ssd| Named { path: "ssd".to_owned(), device: ssd.clone() }).collect();
    Pool::create(at.clone(), spec, named, state.clone()).await.unwrap()
}

async fn attached(at: &TestEnv, pool: &Pool<TestEnv>) -> Volume<TestEnv> {
    let (name, backing) = ("disk".parse().unwrap(), "memory".to_owned());
    let spec = VolumeSpec { name, backing, settings: VolumeSettings::default() };
    let volume = Volume::open(at.clone(), spec, TestDevice::new(16 * MIB)).unwrap();
    pool.attach(&volume).await.unwrap();
    volume
}

async fn in_time<T>(at: &TestEnv, what: &str, work: impl Future<Output = T>) -> T {
    match select(pin!(work), pin!(at.sleep(20 * limits::SSD_TIMEOUT))).await {
        Either::Left((value, _)) => value,
        Either::Right(_) => panic!("for good: {what}"),
    }
}

// proves: F4, F11
#[test]
fn a_state_directory_that_hangs_keeps_no_ssd_of_a_pool_that_has_ended() {
    for kind in [PoolKind::Read, PoolKind::ReadWrite] {
        for (end, hangs) in [
            (End::Close, Hangs::BeforeAChange),
            (End::Close, Hangs::BeforeTheEnd),
            (End::Delete, Hangs::BeforeAChange),
            (End::Delete, Hangs::BeforeTheEnd),
        ] {
            run(async |env| {
                let at = env.at_pace(PACE);
                let ssds = [(); 2].map(|()| TestDevice::new(16 * MIB));
                let state = TestDevice::new(STATE_BYTES);
                let pool = pool_over(&at, kind, &ssds, &state).await;
                let volume = attached(&at, &pool).await;
                volume.write(0, Buf::zeroed(4096), Durability::Durable).await.unwrap();
                state.become_bad(Bad::HangsToWrite);
                let what = format!("{kind:?} {end:?} {hangs:?}");
                match hangs {
                    Hangs::BeforeAChange => {
                        in_time(&at, &what, volume.rename("renamed".parse().unwrap())).await.unwrap();
                    }
                    Hangs::BeforeTheEnd => {}
                }
                match end {
                    End::Close => drop(in_time(&at, &what, pool.close()).await.unwrap()),
                    End::Delete => in_time(&at, &what, pool.delete(DirtyData::Discard)).await.unwrap(),
                }
                drop((pool, volume));
                let is_free = async {
                    while ssds.iter().any(|ssd| ssd.holders() > 0) {
                        at.sleep(Duration::from_millis(100)).await;
                    }
                };
                in_time(&at, &format!("{what}: an SSD is held"), is_free).await;
                assert!(state.holders() > 0, "{what}: nothing hangs");
            });
        }
    }
}

// proves: F6
#[test]
fn a_stop_does_not_wait_for_good_for_an_ssd_that_refused_a_flush_and_then_fell_silent() {
    for kind in [PoolKind::Read, PoolKind::ReadWrite] {
        run(async |env| {
            let at = env.at_pace(PACE);
            let ssds = [(); 2].map(|()| TestDevice::with_cache(16 * MIB));
            let pool = pool_over(&at, kind, &ssds, &TestDevice::new(STATE_BYTES)).await;
            let volume = attached(&at, &pool).await;
            let [ssd, _] = &ssds;
            ssd.hold_next(Operation::Flush);
            volume.populate(ByteRange::at(0, 64 << 10)).await.unwrap();
            in_time(&at, "its index is flushed", ssd.until_held()).await;
            // A record is on its way to it, which nobody takes back from an SSD that can be read.
            ssd.become_bad(Bad::HangsToWrite);
            let renamed = volume.clone();
            at.spawn(async move { drop(renamed.rename("renamed".parse().unwrap()).await) });
            at.sleep(Duration::from_millis(100)).await;
            ssd.release();
            let _ = in_time(&at, &format!("{kind:?}"), pool.close()).await;
        });
    }
}

// proves: F5
#[test]
fn a_list_of_losses_is_not_taken_for_durable_when_another_write_failed_between_its_write_and_its_flush() {
    run(async |env| {
        let at = env.at_pace(PACE);
        let ssds = [(); 2].map(|()| TestDevice::new(16 * MIB));
        let state = TestDevice::new(STATE_BYTES);
        let pool = pool_over(&at, PoolKind::ReadWrite, &ssds, &state).await;
        // Nothing is cleaned by itself.
        let mut settings = pool.status().settings;
        settings.cleaning.dirty_watermark_percent = 90;
        pool.set(settings).await.unwrap();
        let volume = attached(&at, &pool).await;
        let mut page = Buf::zeroed(4096);
        page.fill(3);
        volume.write(0, page, Durability::Durable).await.unwrap();
        at.sleep(Duration::from_secs(2)).await;
        LOSSES_OFFSETS.into_iter().for_each(|offset| state.become_bad(Bad::HangsAt(offset)));
        state.hold_next(Operation::Flush);
        ssds.iter().for_each(TestDevice::vanish);
        let written = volume.clone();
        at.spawn(async move { drop(written.write(4096, Buf::zeroed(4096), Durability::Volatile).await) });
        in_time(&at, "a witness record is written", state.until_held()).await;
        in_time(&at, "the list is written", state.until_held()).await;
        // Like the kernel, the device tells of the failure once.
        state.release();
        at.sleep(Duration::from_millis(100)).await;
        state.recover();
        let error = in_time(&at, "it is known what was recorded", volume.flush()).await.unwrap_err();
        assert!(error.to_string().contains("cannot be recorded in the state directory"), "{error}");
    });
}
