//! A pool of a terabyte whose devices hold nothing: the tables are real, every slot gets filled, and what the process allocates is
//! what was stated before the pool was made (REQUIREMENTS P14). Every byte is counted where it is allocated, so the
//! test runs in a process of its own.

use std::process::Command;

use hotset_block::ByteRange;
use hotset_cache::config::{BlockBytes, FetchRate, IoType, PoolKind, PoolSettings, VolumeSettings, VolumeSpec};
use hotset_cache::{Named, Pool, PoolSpec, STATE_BYTES, Volume};
use peak_alloc::PeakAlloc;

use crate::harness::{TestDevice, TestEnv, run};

const SSD_BYTES: u64 = 250_000_000_000 / 4096 * 4096;
const BLOCK: u64 = 4 << 20;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Set in the process that has this test alone.
const ALONE: &str = "HOTSET_TEST_ALONE";

fn allocated_bytes() -> u64 {
    ALLOCATED.current_usage().try_into().unwrap()
}

// proves: P14
#[test]
fn a_pool_of_a_terabyte_takes_the_memory_that_was_stated_and_no_more() {
    if std::env::var_os(ALONE).is_none() {
        let name = "memory_at_scale::a_pool_of_a_terabyte_takes_the_memory_that_was_stated_and_no_more";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let ran = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "yes").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        assert!(said.contains("1 passed"), "{said}");
        return print!("{said}");
    }
    run(async |env| {
        let mut settings = PoolSettings::preset(PoolKind::Read, IoType::WebService);
        settings.block_bytes = BlockBytes::new(BLOCK).unwrap();
        (settings.checksums, settings.fetch_rate) = (false, FetchRate::High);
        let spec = PoolSpec { name: "large".parse().unwrap(), kind: PoolKind::Read, settings };
        let plan = Pool::<TestEnv>::plan(&spec, &[SSD_BYTES; 4]).unwrap();
        let ssd = |index: u32| Named { path: format!("ssd{index}"), device: TestDevice::forgetful(SSD_BYTES) };
        let state = TestDevice::new(STATE_BYTES);
        let before = allocated_bytes();
        let pool = Pool::create(env.clone(), spec, (0..4).map(ssd).collect(), state).await.unwrap();
        let volume = VolumeSpec {
            name: "disk".parse().unwrap(),
            backing: "nothing".into(),
            settings: VolumeSettings::default(),
        };
        let volume = Volume::open(env.clone(), volume, TestDevice::forgetful(8 * SSD_BYTES)).unwrap();
        pool.attach(&volume).await.unwrap();
        // More than there is room for: slots are evicted and filled again too.
        let blocks = plan.slots + plan.slots / 50;
        for first in (0..blocks).step_by(8) {
            volume.populate(ByteRange::at(first * BLOCK, 8 * BLOCK)).await.unwrap();
        }
        let status = pool.status();
        assert!(status.slots_used * 100 > plan.slots * 98, "{} of {} slots are filled", status.slots_used, plan.slots);
        assert!(volume.status().stats.evicted_blocks > 0);
        assert!(
            status.memory_bytes <= plan.memory_bytes + plan.memory_bytes / 50,
            "{} stated, {} in tables",
            plan.memory_bytes,
            status.memory_bytes
        );
        let taken = allocated_bytes() - before;
        // Buffers of fills that run, records and executor: bounded, whatever the pool's size.
        let beside = 8 << 20;
        println!("{} bytes stated, {} in tables, {taken} allocated", plan.memory_bytes, status.memory_bytes);
        assert!(taken <= plan.memory_bytes + beside, "{} bytes stated, {taken} allocated", plan.memory_bytes);
        assert!(taken >= status.memory_bytes, "{} in tables, {taken} allocated", status.memory_bytes);
        assert!(plan.memory_bytes <= 1000 * 460_000, "REQUIREMENTS P14: 460 KB per GB");
    });
}
