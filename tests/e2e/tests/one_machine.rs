//! Two machines that reach the same SSDs: two daemons with ids and state directories of their own, each with its own way to the
//! same bytes, so that neither sees the other's locks.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::pattern::{PAGE_BYTES, assert_pages, pages};
use hotset_e2e::served::ServedFile;
use hotset_e2e::tools;

const PAGES: u64 = 64;
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

fn on_machine(id: &str) -> Daemon {
    let mut daemon = Daemon::prepare("--missing-wait 1");
    let config = daemon.site.path("hotset.toml");
    fs::write(&config, format!("machine_id = {id:?}\n")).expect("a file can be written");
    daemon.add_arguments(&format!("--config {}", config.display()));
    daemon.launch();
    daemon
}

/// The images as one machine reaches them.
fn served(daemon: &Daemon, images: &[PathBuf]) -> Option<Vec<ServedFile>> {
    let serve = |(number, image): (usize, &PathBuf)| ServedFile::mount(&daemon.site.path(&format!("s{number}")), image);
    images.iter().enumerate().map(serve).collect()
}

fn paths(served: &[ServedFile]) -> String {
    let paths: Vec<String> = served.iter().map(|file| file.path().display().to_string()).collect();
    paths.join(" ")
}

// proves: F10
#[test]
fn a_pool_has_one_machine_at_a_time_whether_the_other_one_runs_is_paused_killed_or_stopped() {
    let (mut here, mut there) = (on_machine("here"), on_machine("there"));
    let images: Vec<PathBuf> = ["one", "two"].map(|name| here.site.path(name)).into();
    for image in &images {
        here.ok(&format!("image create {} 64M", image.display()));
    }
    let (Some(own), Some(theirs)) = (served(&here, &images), served(&there, &images)) else { return };
    here.ok(&format!("pool create p --type read-write --io-type custom --block-size 64K --ssd {}", paths(&own)));
    here.make_volume(PAGES, "p");
    let mut client = here.client("v");
    client.write(0, &pages(0, PAGES, 1)).expect("a write");
    client.flush().expect("a flush");
    let import = format!("pool import --ssd {}", paths(&theirs));
    // It runs.
    there.refuse(&format!("{import} --force"), 1, "is in use by another machine");
    client.write(0, &pages(0, 1, 2)).expect("nothing has changed for its hosts");
    // It does not run, but may go on.
    tools::succeed("kill", &["-STOP", &here.pid().to_string()]);
    there.refuse(&import, 1, "not stopped cleanly");
    there.ok(&format!("{import} --force"));
    tools::succeed("kill", &["-CONT", &here.pid().to_string()]);
    assert!(client.write(0, &pages(0, 1, 3)).is_err(), "somebody else has the pool");
    tools::eventually("it says so", RECOVERY_LIMIT, || {
        let pool = here.json("pool show p");
        pool["health"] == "failed" && pool["reason"].as_str().is_some_and(|reason| reason.contains("took it over"))
    });
    // It was killed, and starts while the other one has the pool.
    here.kill();
    tools::eventually("the other one serves its volume", RECOVERY_LIMIT, || there.is_online("v"));
    here.launch();
    let pool = here.json("pool show p");
    assert!(pool["reason"].as_str().is_some_and(|reason| reason.contains("is in use by another machine")), "{pool}");
    assert!(!here.is_online("v") && pool["action"] != "", "{pool}");
    let mut client = there.client("v");
    let page = u32::try_from(PAGE_BYTES).expect("a page is below 4 GiB");
    assert_pages(&client.read(0, page).expect("a read"), 0, 2);
    assert_pages(&client.read(PAGE_BYTES, page).expect("a read"), 1, 1);
    // It was stopped, and whoever wants has it.
    assert!(there.stop().success());
    here.ok("pool open p");
    let bytes = here.client("v").read(0, page).expect("a read");
    assert_pages(&bytes, 0, 2);
    assert!(here.stop().success());
}
