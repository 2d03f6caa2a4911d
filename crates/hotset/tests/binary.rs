//! The binary by itself, without a daemon. Because this is here, cargo builds the binary together with all other tests.

use std::process::{Command, Output};

fn hotset(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hotset")).args(words).output().expect("cargo has built it")
}

#[test]
fn it_says_which_version_it_is() {
    let output = hotset(&["--version"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.starts_with(concat!("hotset ", env!("CARGO_PKG_VERSION"), " ")), "{told}");
    assert!(output.status.success());
}

#[test]
fn a_wrong_flag_is_refused_by_name_and_with_the_status_of_a_usage_error() {
    let output = hotset(&["status", "--frobnicate"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("--frobnicate") && told.contains("--help"), "{told}");
    assert_eq!(output.status.code(), Some(2));
}
