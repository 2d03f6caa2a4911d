//! SSDs that do not answer for a time: what shares a controller, a path or a file system falls silent together. Hosts wait;
//! nothing is lost, nothing leaves, and afterwards everything is as it was.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use hotset_e2e::daemon::Daemon;
use hotset_e2e::nbd::Error;
use hotset_e2e::pattern::{PAGE_BYTES, assert_pages, pages};
use hotset_e2e::served::ServedFile;
use hotset_e2e::tools;

const PAGES: u64 = 1500;
/// Hosts are answered after this long, whatever happens.
const HOST_TIMEOUT: Duration = Duration::from_secs(30);
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

/// How long the SSDs are silent, each time. `HOTSET_SILENCES` asks for so many times, of all lengths.
fn silences() -> Vec<Duration> {
    let asked = std::env::var("HOTSET_SILENCES").ok();
    let count = asked.map_or(1, |count| count.parse().expect("HOTSET_SILENCES is a number"));
    [15, 30, 90].into_iter().cycle().take(count).map(Duration::from_secs).collect()
}

fn states(daemon: &Daemon) -> Vec<String> {
    let pool = daemon.json("pool show p");
    let ssds = pool["ssds"].as_array().expect("a list").iter();
    ssds.map(|ssd| ssd["state"].as_str().expect("a word").to_owned()).collect()
}

fn serve_two(daemon: &Daemon) -> Option<Vec<ServedFile>> {
    let images = ["one", "two"].map(|name| {
        let image = daemon.site.path(name);
        daemon.ok(&format!("image create {} 64M", image.display()));
        (name, image)
    });
    let serve =
        |(name, image): &(&str, PathBuf)| ServedFile::mount(&daemon.site.path(&format!("served-{name}")), image);
    let served: Vec<ServedFile> = images.iter().map(serve).collect::<Option<_>>()?;
    let paths: Vec<String> = served.iter().map(|file| file.path().display().to_string()).collect();
    let pool = "pool create p --type read-write --io-type custom --block-size 64K --ssd";
    daemon.ok(&format!("{pool} {}", paths.join(" ")));
    Some(served)
}

// proves: F1, F5
#[test]
fn two_ssds_that_are_silent_together_for_a_time_lose_nothing_and_go_on_by_themselves() {
    let daemon = Daemon::start();
    let Some(served) = serve_two(&daemon) else { return };
    daemon.make_volume(PAGES, "p");
    for (version, lasts) in (1..).zip(silences()) {
        let mut client = daemon.client("v");
        for first in (0..PAGES).step_by(100) {
            client.write(first * PAGE_BYTES, &pages(first, 100, version)).expect("a write");
        }
        client.flush().expect("a flush");
        let began = Instant::now();
        served.iter().for_each(ServedFile::stop);
        thread::scope(|scope| {
            let daemon = &daemon;
            let waits = scope.spawn(move || daemon.client("v").write(0, &pages(0, 1, version)));
            tools::eventually("they are silent", RECOVERY_LIMIT, || {
                states(daemon).iter().all(|state| state == "silent")
            });
            let shown = began.elapsed();
            let pool = daemon.json("pool show p");
            assert!(pool["health"] != "good" && pool["action"] != "", "{pool}");
            thread::sleep(lasts.saturating_sub(began.elapsed()));
            served.iter().for_each(ServedFile::go_on);
            match waits.join().expect("the host does not panic") {
                Ok(()) => {}
                Err(Error::Answer(_)) => assert!(lasts.max(shown) >= HOST_TIMEOUT, "the host was answered too early"),
                Err(error) => panic!("{error}"),
            }
        });
        tools::eventually("all is as it was", RECOVERY_LIMIT, || {
            let pool = daemon.json("pool show p");
            states(&daemon).iter().all(|state| state == "online") && pool["health"] == "good"
        });
        let mut client = daemon.client("v");
        for first in (0..PAGES).step_by(100) {
            let bytes = client.read(first * PAGE_BYTES, 100 * 4096).expect("a read");
            assert_pages(&bytes, first, version);
        }
        client.flush().expect("a flush");
        let log = daemon.log();
        assert!(!log.contains("expelled") && !log.contains("left the pool"), "{log}");
    }
}
