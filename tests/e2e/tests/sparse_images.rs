//! SSD images with holes are written in full before a pool gets them: everything else goes on meanwhile, and it can be cancelled.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use hotset_e2e::daemon::Daemon;
use hotset_e2e::faulty::{Fault, FaultyFile};
use hotset_e2e::files::MIB;
use hotset_e2e::tools::{eventually, text};

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
    eventually("the image is written", TIMEOUT, || operation(&daemon)["kind"] == "write-images");

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
    drop(daemon);
}
