//! SSDs answer reads of a few pages with errors, for good or for a moment.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;
use hotset_cache::Named;
use hotset_cache::config::PoolKind;

use crate::device::SimDevice;
use crate::disk::{Disk, Faults, Watcher, WhatIsLate};
use crate::model::Ending;
use crate::tests::second_loss::{PAGES, Scene, Stage};
use crate::tests::stage::{PAGE, World, run_one};

/// By `docs/FORMAT.md`.
const SEGMENT_MAGIC: &[u8] = b"HOTSETls";
const BATCH_MAGIC: &[u8] = b"HOTSETlb";
const SUMMARY_MAGIC: &[u8] = b"HOTSETlm";
/// Of an SSD of 128 MiB, about.
const SEGMENT_BYTES: u64 = 2 << 20;
/// How long a page is asked for.
const ASKED_FOR: u64 = 150;

/// Where an SSD has pages that are so.
fn pages_that(disk: &Disk, are_so: impl Fn(&[u8]) -> bool) -> Vec<u64> {
    let (content, mut page) = (disk.content(), [0; 4096]);
    let is_so = |offset: &u64| {
        content.read(*offset, &mut page);
        are_so(&page)
    };
    (0..disk.info().size_bytes).step_by(4096).filter(is_so).collect()
}

/// A segment of the write log.
struct Segment {
    row: u64,
    /// Where the headers of its batches lie.
    batches: Vec<u64>,
    is_sealed: bool,
}

/// The newest row comes last.
fn segments(disk: &Disk) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut page = [0; 4096];
    for offset in pages_that(disk, |page| page.starts_with(b"HOTSETl")) {
        disk.peek(offset, &mut page);
        let row = u64::from_le_bytes(page[16..24].try_into().unwrap());
        match segments.last_mut() {
            _ if page.starts_with(SEGMENT_MAGIC) => {
                segments.push(Segment { row, batches: Vec::new(), is_sealed: false });
            }
            // What is of another row was there before.
            Some(segment) if segment.row != row => {}
            Some(segment) if page.starts_with(BATCH_MAGIC) => segment.batches.push(offset),
            Some(segment) if page.starts_with(SUMMARY_MAGIC) => segment.is_sealed = true,
            Some(_) | None => {}
        }
    }
    segments.sort_by_key(|segment| segment.row);
    segments
}

/// Counts bytes that are written in large pieces.
#[derive(Default)]
struct Copied(Cell<u64>);

impl Watcher for Copied {
    fn wrote(&self, _: u64, bytes: &[u8], _: &[u8], _: bool) {
        if bytes.len() > 128 << 10 {
            self.0.set(self.0.get() + u64::try_from(bytes.len()).unwrap());
        }
    }
}

impl Scene {
    async fn sleep_seconds(&self, seconds: u64) {
        self.env().sleep(Duration::from_secs(seconds)).await;
    }

    /// Bytes of copies that are to be made.
    fn rebuild_left(&self) -> u64 {
        let status = self.pool.borrow().as_ref().unwrap().status();
        status.rebuild.map_or(0, |rebuild| rebuild.total_bytes - rebuild.done_bytes)
    }

    /// Some sealed rows on two SSDs, with little that lives in them; then a third one comes.
    async fn fill_two_of_three(self) {
        self.ssds[2].vanish();
        self.create(600).await;
        for turn in 0..1500 {
            let page = if turn % 100 == 0 { turn / 100 } else { 16 + turn % 48 };
            self.write(page).await.unwrap();
        }
        self.ssds[2].come_back();
        let third = Named { path: "ssd2".to_owned(), device: SimDevice::open(&self.ssds[2]) };
        let pool = self.pool.borrow().clone().unwrap();
        pool.add_ssds(vec![third]).await.unwrap();
    }

    /// What it had gets other copies.
    async fn lose_one(&self) {
        self.ssds[1].vanish();
        let _ = self.write(0).await;
    }

    /// Nothing brings some pages of the newest sealed row, in which nothing lives.
    async fn rebuild_around_bad_pages(self) {
        let newest = segments(&self.ssds[0]).into_iter().rfind(|segment| segment.is_sealed).unwrap();
        self.ssds[0].set_bad_pages(newest.batches.into_iter().step_by(5));
        let copied = Rc::new(Copied::default());
        self.ssds[2].watch(copied.clone());
        self.lose_one().await;
        let wanted = self.rebuild_left();
        assert!(wanted > 2 * SEGMENT_BYTES, "{wanted} bytes of copies are wanted");
        self.sleep_seconds(60).await;
        assert_eq!(self.rebuild_left() / SEGMENT_BYTES, 0, "what can be read has two copies");
        assert!(self.rebuild_left() > 0, "what cannot is asked for again");
        self.sleep_seconds(ASKED_FOR - 60 + 15).await;
        assert_eq!(self.rebuild_left(), 0, "it is asked for no longer");
        assert!(copied.0.get() <= wanted + 2 * SEGMENT_BYTES, "{} bytes were written for {wanted}", copied.0.get());
    }

    /// The SSD that is left brings nothing for a while.
    async fn rebuild_after_errors(self) {
        self.ssds[0].set_faults(Faults { read_errors: 1000, ..Faults::default() });
        self.lose_one().await;
        let before = self.ssds[0].reads();
        self.sleep_seconds(20).await;
        let reads = self.ssds[0].reads() - before;
        assert!(reads < 20 * 600, "it was asked {reads} times");
        self.ssds[0].set_faults(Faults::default());
        self.sleep_seconds(10).await;
        assert_eq!(self.rebuild_left(), 0);
    }
}

// A rebuild stood still for 150 s at each page that failed, and wrote what lay before it each second.
// proves: F2, F9
#[test]
fn pages_that_fail_hold_up_the_copies_of_no_other_row_and_are_asked_for_at_the_same_time() {
    for seed in 0..3 {
        let scene = Stage::with_large_ssds(seed, 3);
        scene.run(scene.clone().fill_two_of_three(), None);
        scene.run(scene.clone().rebuild_around_bad_pages(), None);
    }
}

// proves: F2, F9
#[test]
fn an_ssd_that_brings_nothing_is_not_asked_for_all_that_is_to_be_copied() {
    let scene = Stage::with_large_ssds(3, 3);
    scene.run(scene.clone().fill_two_of_three(), None);
    scene.run(scene.clone().rebuild_after_errors(), None);
}

/// Three pages next to each other that lie apart in the log, each with a copy on the first SSD alone, at the places that this answers.
async fn write_apart(world: &World) -> Vec<u64> {
    for (page, byte) in [(0, 101), (2, 103), (1, 102)] {
        world.write(&world.volume, page, byte).await.unwrap();
        world.volume.flush().await.unwrap();
    }
    let places = |byte| pages_that(&world.ssds[0], |page| page.iter().all(|other| *other == byte));
    let places: Vec<Vec<u64>> = (101..=103).map(places).collect();
    assert!(places.iter().all(|places| places.len() == 1), "{places:?}");
    places.concat()
}

/// What is left is noticed to be alone.
async fn lose_second(world: &World) {
    world.ssds[1].vanish();
    let _ = world.write(&world.sound, 0, 1).await;
}

// Each stretch of an extent was waited for by itself, and what could be read beside it stayed where it was.
// proves: F5
#[test]
fn what_cannot_be_read_holds_up_nothing_beside_it_and_is_asked_for_at_the_same_time() {
    run_one(1, PoolKind::ReadWrite, &["ssd0", "ssd1"], async |world: World| {
        let places = write_apart(&world).await;
        world.ssds[0].set_bad_pages([places[0], places[2]]);
        lose_second(&world).await;
        world.env.sleep(Duration::from_secs(5)).await;
        let mut byte = [0];
        world.backing.peek(PAGE, &mut byte);
        assert_eq!((byte, world.volume.status().dirty_bytes), ([102], 2 * PAGE), "what can be read is cleaned");
        assert_eq!(world.volume.status().lost_bytes, 0);
        world.env.sleep(Duration::from_secs(ASKED_FOR + 5)).await;
        assert_eq!(world.volume.status().lost_bytes, 2 * PAGE);
    });
}

// It was given up at the third error.
// proves: F5
#[test]
fn a_page_that_fails_now_and_then_is_not_given_up() {
    run_one(1, PoolKind::ReadWrite, &["ssd0", "ssd1"], async |world: World| {
        let places = write_apart(&world).await;
        world.backing.set_faults(Faults { write_errors: 1000, ..Faults::default() });
        lose_second(&world).await;
        for _ in 0..4 {
            world.ssds[0].set_bad_pages([places[1]]);
            world.env.sleep(Duration::from_secs(2)).await;
            world.ssds[0].set_bad_pages([]);
            world.env.sleep(Duration::from_secs(118)).await;
            assert_eq!(world.volume.status().lost_bytes, 0);
        }
        assert!(world.ssds[0].failed_operations() > 3, "the cleaner asks for it");
        assert_eq!(world.read(&world.volume, 1).await, 102);
    });
}

impl Scene {
    /// A long row that is not sealed.
    async fn write_long_row(self) {
        self.create(600).await;
        for turn in 0..220 {
            self.write(turn * 5 % PAGES).await.unwrap();
        }
    }

    /// A start meets two pages, far apart in it, that no copy brings for a moment.
    async fn start_with_two_resets(self) {
        let copies = [0, 1].map(|index| {
            let mut segments = segments(&self.ssds[index]).into_iter().map(|segment| segment.batches);
            segments.rfind(|batches| !batches.is_empty()).unwrap()
        });
        let resets = [2, copies[0].len() - 2].map(|batch| [copies[0][batch], copies[1][batch]]);
        let (scene, env) = (self.clone(), self.env());
        let set_bad = move |resets: &[[u64; 2]]| {
            for (index, disk) in scene.ssds.iter().enumerate() {
                disk.set_bad_pages(resets.iter().map(|offsets| offsets[index]));
            }
        };
        set_bad(&resets);
        let ssds = self.ssds.clone();
        env.clone().spawn(async move {
            for left in [&resets[1..], &[]] {
                let before = ssds[0].failed_operations();
                while ssds[0].failed_operations() == before {
                    env.sleep(Duration::from_millis(100)).await;
                }
                // From here on it takes time.
                let slow =
                    Faults { late: 1000, what_is_late: WhatIsLate::Reads, late_ms: &[4000], ..Faults::default() };
                ssds.iter().for_each(|disk| disk.set_faults(slow));
                env.sleep(Duration::from_secs(8)).await;
                set_bad(left);
                env.sleep(Duration::from_secs(4)).await;
            }
        });
        self.open().await.unwrap();
        self.ssds.iter().for_each(|disk| disk.set_faults(Faults::default()));
        assert!(self.read_all().await.iter().all(Option::is_some));
    }
}

// The start took the second one for the end of the log.
// proves: F1, F9
#[test]
fn a_start_asks_again_at_each_reset_of_a_link() {
    let scene = Stage::with_large_ssds(3, 2);
    scene.run(scene.clone().write_long_row(), None);
    scene.crash(Ending::Kill);
    scene.run(scene.clone().start_with_two_resets(), None);
}
