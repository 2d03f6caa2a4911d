//! SSD images with holes are written in full before a pool gets them: everything else goes on meanwhile, and it can be cancelled. Making
//! a pool and adding to it are operations from their beginning to their end.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::MIB;
use hotset_e2e::tools::{eventually, succeed, text};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The last operation.
fn operation(daemon: &Daemon) -> serde_json::Value {
    daemon.json("operations")["operations"][0].clone()
}

// proves: P5, P9
#[test]
fn while_images_with_holes_are_written_others_go_on_and_it_can_be_cancelled() {
    let daemon = Daemon::start();
    let behind = daemon.site.path("behind");
    File::create(&behind).and_then(|file| file.set_len(64 * MIB)).expect("an image can have holes");
    let Some(faulty) = FaultyFile::mount(&daemon.site.path("faulty"), &behind) else { return };
    let image = faulty.path().display().to_string();
    faulty.set(Fault::HangOpens);
    let create = format!("pool create p --type read --io-type database --ssd {image}");
    let creating = daemon.begin(&create);
    eventually("the image is written", TIMEOUT, || operation(&daemon)["total_bytes"] == 64 * MIB);
    assert_eq!(operation(&daemon)["kind"], "create-pool");

    daemon.make_volume(64, "");

    let id = operation(&daemon)["id"].clone();
    daemon.ok(&format!("operations cancel {id}"));
    faulty.set(Fault::None);
    let ended = creating.wait_with_output().expect("hotset ends");
    let said = text(&ended);
    assert!(!ended.status.success() && said.contains("was cancelled"), "{said}");
    assert_eq!(operation(&daemon)["state"], "cancelled");
    assert_eq!(daemon.json("pool list")["pools"], serde_json::json!([]));

    daemon.ok(&create);
    assert_eq!(operation(&daemon)["state"], "done");
    assert!(fs::metadata(&behind).expect("the image is there").blocks() * 512 >= 64 * MIB, "a hole is left");

    let kinds = [("add-ssd", "add-ssds"), ("add-spare", "add-spares")];
    for (verb, kind) in kinds {
        let behind = daemon.site.path(verb);
        File::create(&behind).and_then(|file| file.set_len(64 * MIB)).expect("an image can have holes");
        let Some(faulty) = FaultyFile::mount(&daemon.site.path(&format!("faulty-{verb}")), &behind) else { return };
        faulty.set(Fault::HangOpens);
        let add = format!("pool {verb} p --ssd {}", faulty.path().display());
        let adding = daemon.begin(&add);
        eventually("the image is written", TIMEOUT, || {
            let newest = operation(&daemon);
            newest["kind"] == kind && newest["total_bytes"] == 64 * MIB
        });
        // Ctrl-C.
        succeed("kill", &["-INT", &adding.id().to_string()]);
        eventually("it is told to end", TIMEOUT, || operation(&daemon)["waits_for"] == "its end: it was cancelled");
        faulty.set(Fault::None);
        let ended = adding.wait_with_output().expect("hotset ends");
        assert!(!ended.status.success() && text(&ended).contains("was cancelled"), "{}", text(&ended));
        assert_eq!(operation(&daemon)["state"], "cancelled");
    }
    drop(daemon);
}

// proves: P5, P9
#[test]
fn a_pool_that_is_made_is_an_operation_and_what_is_refused_is_listed_and_no_event() {
    let daemon = Daemon::start();
    let one = daemon.site.blank("one", 64 * MIB).display().to_string();
    daemon.ok(&format!("pool create p --type read --io-type database --ssd {one}"));
    let made = operation(&daemon);
    assert_eq!((&made["kind"], &made["state"]), (&"create-pool".into(), &"done".into()), "{made}");
    daemon.refuse(&format!("pool add-ssd p --ssd {one}"), 1, "in use");
    let refused = operation(&daemon);
    assert_eq!((&refused["kind"], &refused["state"]), (&"add-ssds".into(), &"failed".into()), "{refused}");
    assert!(refused["error"]["message"].as_str().is_some_and(|said| said.contains("in use")), "{refused}");
    let told = || daemon.json("events")["events"].to_string();
    daemon.ok("pool set p policy=lru");
    eventually("what came later is told", TIMEOUT, || told().contains("settings changed"));
    assert!(told().contains("create-pool done") && !told().contains("add-ssds"), "who asked knows: {}", told());
}
