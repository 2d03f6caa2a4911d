//! What stands on a volume, as `docs/stacks` says that it is set up.

use std::fs;

use hotset_e2e::tools::skip;

use crate::page::{assert_printed, run_apart, steps};

/// Does what a page says, if this machine can; else says so loudly.
fn works_as_written(page: &str, needs: &str, is_there: bool) {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root || !fs::exists("/dev/fuse").unwrap_or(false) {
        return skip("the pages of docs/stacks need root, loop devices and /dev/fuse");
    }
    if !is_there {
        return skip(&format!("docs/stacks/{page} needs {needs}"));
    }
    let path = format!("{}/../../docs/stacks/{page}", env!("CARGO_MANIFEST_DIR"));
    let steps = steps(&fs::read_to_string(path).expect("the page is there"));
    assert!(steps.len() >= 5, "it has steps");
    assert_printed(&steps, &run_apart(&steps));
}

// proves: F7, S1, D11
#[test]
fn a_samba_share_on_a_volume_keeps_its_files_and_who_may_read_them() {
    works_as_written("samba.md", "samba", fs::exists("/usr/sbin/smbd").unwrap_or(false));
}

// proves: F7, S1, D6, D11
#[test]
fn a_database_on_a_volume_fails_no_transaction_when_the_daemon_is_killed() {
    works_as_written("postgresql.md", "the package postgresql", fs::exists("/usr/lib/postgresql").unwrap_or(false));
}
