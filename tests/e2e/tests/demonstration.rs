//! `hotset demo`, as a newcomer sees it.

use std::fs;

use hotset_e2e::daemon::binary;
use hotset_e2e::files::Site;
use hotset_e2e::tools::{run, text};

// proves: B1, B2, B3
#[test]
fn the_demo_shows_the_improvement_says_that_it_is_emulated_and_cleans_up() {
    let site = Site::new();
    let scratch = site.path("scratch");
    fs::create_dir(&scratch).expect("a folder can be made");
    let output =
        run(&binary().to_string_lossy(), &["demo", "--seconds", "12", "--dir", &scratch.display().to_string()]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for part in ["emulated", "IOPS", "random read", "random write", "8 KiB", "67", "120 %", "every byte was right"] {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
    let left: Vec<_> = fs::read_dir(&scratch).expect("the folder is there").collect();
    assert!(left.is_empty(), "it leaves {left:?}");
}
