//! Both SSDs go with the only copies of dirty data and come back: while the daemon runs, at a start, or for the tool that works
//! without a daemon. Exactly what nobody wrote meanwhile is there again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hotset_e2e::apart::{APART, pages_apart, with_dirty_pages};
use hotset_e2e::daemon::Daemon;
use hotset_e2e::nbd::Client;
use hotset_e2e::pattern::{PAGE_BYTES, assert_pages, pages};
use hotset_e2e::tools;

const COUNT: u64 = 96;

/// A daemon whose SSDs went, what they held, and which pages are unavailable.
struct Scene {
    daemon: Daemon,
    ssds: [PathBuf; 2],
    away: [PathBuf; 2],
    backing: PathBuf,
    unavailable: Vec<u64>,
}

impl Scene {
    fn without_ssds() -> Self {
        let (daemon, backing) = with_dirty_pages(COUNT);
        let mut client = daemon.client("v");
        client.flush().expect("a flush");
        let ssds = ["ssd0", "ssd1"].map(|name| daemon.site.path(name));
        let away = ["away0", "away1"].map(|name| daemon.site.path(name));
        for (ssd, away) in ssds.iter().zip(&away) {
            fs::copy(ssd, away).expect("what it holds can be kept");
            fs::File::options().write(true).open(ssd).and_then(|file| file.set_len(0)).expect("it can");
        }
        // Only what uses them finds out.
        let _ = client.read((COUNT - 1) * APART * PAGE_BYTES, 4096);
        let _ = client.write(PAGE_BYTES, &pages(1, 1, 0)).and_then(|()| client.flush());
        let mut scene = Self { daemon, ssds, away, backing, unavailable: Vec::new() };
        tools::eventually("it is known what is unavailable", Duration::from_secs(60), || scene.unavailable_bytes() > 0);
        scene.unavailable = pages_apart(COUNT).filter(|page| client.read(page * PAGE_BYTES, 4096).is_err()).collect();
        assert_eq!(
            scene.unavailable_bytes(),
            u64::try_from(scene.unavailable.len()).expect("a length fits in 64 bits") * PAGE_BYTES
        );
        let shown = scene.daemon.ok("volume show v");
        for told in ["unavailable", "ssd0", "ssd1", "bring back", "pool recover p --accept-loss"] {
            assert!(shown.contains(told), "{told}: {shown}");
        }
        assert!(!shown.contains("backup"), "{shown}");
        // One is written again.
        client.write(scene.unavailable[0] * PAGE_BYTES, &pages(scene.unavailable[0], 1, 2)).expect("a write");
        scene
    }

    fn unavailable_bytes(&self) -> u64 {
        self.daemon.json("volume show v")["lost_bytes"].as_u64().expect("a number")
    }

    /// The SSDs are at their paths again, as they were.
    fn ssds_come_back(&self) {
        for (ssd, away) in self.ssds.iter().zip(&self.away) {
            fs::rename(away, ssd).expect("it can be put back");
        }
    }

    fn check(&self, client: &mut Client) {
        for page in pages_apart(COUNT) {
            let version = if page == self.unavailable[0] { 2 } else { 1 };
            let bytes = client.read(page * PAGE_BYTES, 4096).unwrap_or_else(|error| panic!("page {page}: {error}"));
            assert_pages(&bytes, page, version);
        }
    }
}

// proves: F5, F9
#[test]
fn what_both_ssds_took_with_them_is_served_again_when_they_are_back_in_the_running_daemon() {
    let scene = Scene::without_ssds();
    scene.ssds_come_back();
    tools::eventually("it is there again", Duration::from_secs(60), || scene.unavailable_bytes() == 0);
    scene.check(&mut scene.daemon.client("v"));
    // That hosts were told errors is remembered for a while.
    let health = || scene.daemon.json("pool show p")["health"] == "good";
    tools::eventually("all is good again", Duration::from_secs(60), health);
    let told = || {
        let events = scene.daemon.ok("events");
        events.contains("unavailable") && events.contains("good")
    };
    tools::eventually("both are events", Duration::from_secs(10), told);
    scene.daemon.ok("volume disable-cache v");
}

// proves: F5, F9
#[test]
fn what_both_ssds_took_with_them_is_served_again_at_a_start_with_them_and_recover_tells_the_same() {
    let mut scene = Scene::without_ssds();
    let bytes = scene.unavailable_bytes();
    scene.daemon.kill();
    scene.ssds_come_back();
    let (ssds, state) = (scene.ssds.each_ref().map(|ssd| ssd.display().to_string()), scene.daemon.site.path("state"));
    let recover = format!("recover --ssd {} {}", ssds[0], ssds[1]);
    let by_state = scene.daemon.json(&format!("{recover} --state {}", state.display()));
    let told = |key: &str| by_state[key].as_u64().expect("a number");
    assert_eq!((told("unavailable_bytes"), told("found_bytes")), (bytes, bytes), "{by_state}");
    assert_eq!((told("lost_bytes"), told("dirty_bytes")), (0, bytes), "{by_state}");
    scene.daemon.launch();
    tools::eventually("the volume is served", Duration::from_secs(60), || scene.daemon.is_online("v"));
    assert_eq!(scene.unavailable_bytes(), 0);
    scene.check(&mut scene.daemon.client("v"));
    // That hosts were told errors is remembered for a while.
    let health = || scene.daemon.json("pool show p")["health"] == "good";
    tools::eventually("all is good", Duration::from_secs(60), health);
}

// proves: F5
#[test]
fn recover_writes_what_is_unavailable_and_the_ssds_have() {
    let mut scene = Scene::without_ssds();
    scene.daemon.kill();
    scene.ssds_come_back();
    let (ssds, state) = (scene.ssds.each_ref().map(|ssd| ssd.display().to_string()), scene.daemon.site.path("state"));
    let recover = format!("recover --ssd {} {} --state {} --write --force", ssds[0], ssds[1], state.display());
    let written = scene.daemon.json(&recover);
    let left = u64::try_from(scene.unavailable.len() - 1).expect("a length fits in 64 bits") * PAGE_BYTES;
    assert_eq!(written["volumes"][0]["written_bytes"], left, "{written}");
    for page in &scene.unavailable {
        let bytes = hotset_e2e::files::read_part(&scene.backing, page * PAGE_BYTES, 4096);
        assert_pages(&bytes, *page, if *page == scene.unavailable[0] { 2 } else { 1 });
    }
}
