//! A daemon that does not run for a while: stopped, frozen with its container or its machine, swapped out. Nothing comes
//! of it: no SSD leaves, no host is answered with an error, nothing is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::files::MIB;
use hotset_e2e::load::{Host, StopOnPanic};
use hotset_e2e::pattern::{PAGE_BYTES, Random};
use hotset_e2e::tools;

/// Sectors of one host's region: 8 MiB.
const REGION: u64 = 8 * MIB / 512;
const HOSTS: u64 = 3;

/// The pauses: each longer than an SSD may be silent. `HOTSET_PAUSES` asks for another number, of 1 to 60 s.
fn pauses(random: &mut Random) -> Vec<Duration> {
    let Some(asked) = std::env::var("HOTSET_PAUSES").ok() else {
        return [11, 12].map(Duration::from_secs).to_vec();
    };
    let count: u64 = asked.parse().expect("HOTSET_PAUSES is a number");
    (0..count).map(|_| Duration::from_millis(1_000 + random.below(59_000))).collect()
}

// proves: F2, F7, S1
#[test]
fn a_daemon_that_was_stopped_blames_no_ssd_and_answers_no_host_with_an_error() {
    let mut daemon = Daemon::start();
    daemon.make_read_write_pool(&[48, 48], "--populate-on-read 1");
    daemon.make_volume(HOSTS * REGION * 512 / PAGE_BYTES, "p");
    let mut hosts: Vec<_> = (0..HOSTS).map(|index| Host::new(index * REGION, REGION, index + 1)).collect();
    let clients: Vec<_> = hosts.iter().map(|_| daemon.client("v")).collect();
    let stop = AtomicBool::new(false);
    let pauses = pauses(&mut Random::new(29));
    thread::scope(|scope| {
        let _stop = StopOnPanic(&stop);
        for (host, mut client) in hosts.iter_mut().zip(clients) {
            let stop = &stop;
            scope.spawn(move || host.work(&mut client, stop).expect("no host is answered with an error"));
        }
        for pause in pauses {
            let writes = daemon.stat("v", "writes");
            tools::eventually("there is a load", Duration::from_secs(60), || daemon.stat("v", "writes") > writes + 300);
            daemon.pause_for(pause);
            assert_sound(&daemon, pause);
        }
        let writes = daemon.stat("v", "writes");
        tools::eventually("the load goes on", Duration::from_secs(60), || daemon.stat("v", "writes") > writes + 300);
        stop.store(true, Ordering::Relaxed);
    });
    let mut client = daemon.client("v");
    hosts.iter_mut().for_each(|host| host.check_all(&mut client));
    daemon.ok("volume disable-cache v");
    assert!(daemon.stop().success());
    let backing = daemon.site.path("backing");
    hosts.iter_mut().for_each(|host| host.check_file(&backing));
}

fn assert_sound(daemon: &Daemon, pause: Duration) {
    let pool = daemon.json("pool show p");
    let ssds = pool["ssds"].as_array().expect("a list");
    assert!(ssds.iter().all(|ssd| ssd["state"] == "online"), "after {pause:?}: {ssds:?}");
    assert_eq!(daemon.stat("v", "errors"), 0, "after {pause:?}");
    assert_eq!(daemon.json("volume show v")["lost_bytes"], 0, "after {pause:?}");
}
