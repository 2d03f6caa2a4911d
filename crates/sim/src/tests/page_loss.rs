//! Pages are set aside one by one, because the only copy that is left of them cannot be read, and the daemon dies at write 0, 1, 2 … of
//! what follows: whatever is read afterwards is the newest that was flushed, or an error. Never anything older.

use std::time::Duration;

use hotset_block::Env;
use hotset_cache::STATE_BYTES;

use crate::disk::Faults;
use crate::model::Ending;
use crate::tests::second_loss::{LOSSES_OFFSET, PAGES, Scene, Stage};
use crate::tests::stage::{PAGE, at_every_write};

/// Pages that hosts write again.
const AGAIN: u64 = 6;

impl Scene {
    /// What is dirty lies in rows behind the oldest one, or in the only one that there is.
    async fn fill(self, in_only_row: bool) {
        if !in_only_row {
            return self.prepare(600).await;
        }
        self.create(600).await;
        for page in 0..AGAIN {
            self.write(page).await.unwrap();
        }
    }

    /// One SSD goes, and of what the other one has some cannot be read for a while.
    async fn lose_pages(self) {
        self.ssds[1].set_faults(Faults { read_errors: 1000, ..Faults::default() });
        self.ssds[0].vanish();
        // It may be told that something cannot be read.
        let _ = self.write(PAGES - 1).await;
        // What has a single copy left is cleaned, and given up when it was asked for long enough.
        while self.volume().status().lost_bytes < AGAIN * PAGE {
            self.env().sleep(Duration::from_millis(50)).await;
        }
        self.ssds[1].set_faults(Faults::default());
    }

    /// Hosts write some of it again.
    async fn write_again(self) {
        for page in 0..AGAIN {
            let _ = self.write(page).await;
        }
        for _ in 0..20 {
            self.env().sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Dies at this write of what follows the loss, and starts without the SSD that is gone, or with it; false if that ended before.
fn lose_and_die(in_only_row: bool, with_all: bool, crash_at: u64, ending: Ending) -> bool {
    let scene = Stage::new(crash_at % 7, 2);
    scene.run(scene.clone().fill(in_only_row), None);
    scene.run(scene.clone().lose_pages(), None);
    let ended = scene.run(scene.clone().write_again(), Some(crash_at));
    scene.crash(ending);
    scene.ssds[1].set_faults(Faults::default());
    if with_all {
        scene.ssds[0].come_back();
    }
    scene.run(scene.clone().start_again(), None);
    !ended
}

// proves: F5, F7
#[test]
fn a_crash_at_every_write_after_pages_could_not_be_read_never_shows_anything_older() {
    for with_all in [false, true] {
        at_every_write("rows", |write, ending| lose_and_die(false, with_all, write, ending));
    }
}

// proves: F5, F7
#[test]
fn a_crash_at_every_write_after_pages_of_the_oldest_row_could_not_be_read_never_shows_anything_older() {
    for with_all in [false, true] {
        at_every_write("one row", |write, ending| lose_and_die(true, with_all, write, ending));
    }
}

// proves: F5
#[test]
fn where_the_record_of_pages_that_could_not_be_read_is_lost_nothing_older_is_shown_before_that_is_accepted() {
    let scene = Stage::new(3, 2);
    scene.run(scene.clone().fill(false), None);
    scene.run(scene.clone().lose_pages(), None);
    scene.run(scene.clone().write_again(), None);
    scene.crash(Ending::Kill);
    scene.state.overwrite(LOSSES_OFFSET, &vec![0; usize::try_from(STATE_BYTES - LOSSES_OFFSET).unwrap()]);
    scene.run(scene.clone().start_without_record(), None);
}
