//! A pool whose SSDs fail, come and go under the load of hosts that check every byte: writes stay cached, nothing is lost, and no
//! host sees an error.

use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::load::Host;
use hotset_e2e::pattern::PAGE_BYTES;
use hotset_e2e::tools::eventually;

/// Sectors of one host's region: 4 MiB.
const REGION: u64 = 4 * MIB / 512;
const HOSTS: u64 = 3;
/// The longest that anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn daemon_with(ssds_mib: &[u64]) -> Daemon {
    let daemon = Daemon::start();
    daemon.make_read_write_pool(ssds_mib, "--populate-on-read 1");
    daemon.make_volume(HOSTS * REGION * 512 / PAGE_BYTES, "p");
    daemon
}

/// Does something to the daemon while hosts work; then compares all that they wrote.
fn under_load(daemon: &mut Daemon, act: impl FnOnce(&mut Daemon)) {
    let mut hosts: Vec<Host> = (0..HOSTS).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    let (started, stop) = (Barrier::new(hosts.len() + 1), AtomicBool::new(false));
    let clients: Vec<_> = hosts.iter().map(|_| daemon.client("v")).collect();
    thread::scope(|scope| {
        for (host, mut client) in hosts.iter_mut().zip(clients) {
            let (started, stop) = (&started, &stop);
            scope.spawn(move || {
                started.wait();
                host.work(&mut client, stop).expect("no host sees an error");
            });
        }
        started.wait();
        eventually("there is a load", PATIENCE, || daemon.stat("v", "writes") > 300);
        act(daemon);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(daemon.stat("v", "errors"), 0);
    let mut client = daemon.client("v");
    hosts.iter_mut().for_each(|host| host.check_all(&mut client));
}

/// An image for one more SSD.
fn image(daemon: &Daemon, name: &str, mib: u64) -> String {
    let path = daemon.site.path(name);
    fs::write(&path, vec![0x5a; usize::try_from(mib * MIB).expect("small")]).expect("an image can be written");
    path.display().to_string()
}

fn shrink(daemon: &Daemon, name: &str) {
    let file = fs::File::options().write(true).open(daemon.site.path(name));
    file.and_then(|file| file.set_len(MIB)).expect("a file can shrink");
}

fn is_good_with(daemon: &Daemon, ssds: usize) -> bool {
    let pool = daemon.json("pool show p");
    let online = pool["ssds"].as_array().map_or(0, |ssds| ssds.iter().filter(|ssd| ssd["online"] == true).count());
    pool["health"] == "good" && online == ssds && pool["write_log"]["write_caching_off"] == false
}

// proves: F2
#[test]
fn a_pool_of_three_ssds_heals_by_itself_and_stays_in_write_back() {
    let mut daemon = daemon_with(&[48, 48, 48]);
    under_load(&mut daemon, |daemon| {
        shrink(daemon, "ssd0");
        eventually("all of it has two copies again", PATIENCE, || is_good_with(daemon, 2));
        let hits = daemon.stat("v", "write_hits");
        eventually("writes are cached", PATIENCE, || daemon.stat("v", "write_hits") > hits + 100);
    });
    assert!(daemon.stop().success());
}

// proves: P5
#[test]
fn ssds_are_added_and_removed_under_load() {
    let mut daemon = daemon_with(&[48, 48]);
    let more = image(&daemon, "more", 48);
    let first = daemon.site.path("ssd0").display().to_string();
    under_load(&mut daemon, |daemon| {
        daemon.ok(&format!("pool add-ssd p --ssd {more}"));
        assert!(is_good_with(daemon, 3));
        daemon.refuse(&format!("pool add-ssd p --ssd {more}"), 1, "in use");
        daemon.ok(&format!("pool remove-ssd p --ssd {first}"));
        assert!(is_good_with(daemon, 2));
        daemon.refuse(&format!("pool remove-ssd p --ssd {more}"), 1, "two copies");
    });
    fs::remove_file(first).expect("it is nobody's");
    daemon.restart();
    assert!(is_good_with(&daemon, 2));
    assert!(daemon.stop().success());
}

// proves: F3
#[test]
fn a_spare_takes_over_under_load_and_is_an_ssd_after_a_restart() {
    let mut daemon = daemon_with(&[48, 48]);
    let spare = image(&daemon, "spare", 48);
    daemon.ok(&format!("pool add-spare p --ssd {spare}"));
    daemon.restart();
    assert_eq!(daemon.json("pool show p")["spares"].as_array().map(Vec::len), Some(1));
    under_load(&mut daemon, |daemon| {
        shrink(daemon, "ssd1");
        eventually("the spare has taken over", PATIENCE, || is_good_with(daemon, 2));
    });
    assert!(daemon.stop().success());
}
