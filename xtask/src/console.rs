//! The web console: checked and built by Node, then driven in a browser on a real daemon.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{command, root, succeed, target_dir};
use crate::tally::Tally;
use crate::test::{build_all, count};

/// Types up to date, lints, formats, and a build that is small enough. Without Node it fails: a console that nobody
/// checked is not shipped.
pub(crate) fn check() -> Result<Tally> {
    install()?;
    let mut tally = Tally::default();
    for script in ["check", "build"] {
        tally.add(Tally::one(succeed(npm(&["run", "--silent", script])).is_ok()));
    }
    Ok(tally)
}

/// The browser tests, or those whose file or title has one of the words in it.
pub(crate) fn browse(filter: &[String]) -> Result<Tally> {
    install()?;
    build_all()?;
    let mut words = vec!["exec", "--no", "--", "playwright", "test"];
    words.extend(filter.iter().map(String::as_str));
    let mut playwright = npm(&words);
    playwright.env("HOTSET_BIN", target_dir()?.join("debug/hotset"));
    playwright.env("HOTSET_CONSOLE_OUT", target_dir()?.join("console"));
    count(playwright)
}

/// Brings the packages of the lock file, unless they are there.
fn install() -> Result<()> {
    let lock = directory().join("package-lock.json");
    // npm writes this file last.
    let installed = directory().join("node_modules/.package-lock.json");
    let wanted = lock.metadata()?.modified()?;
    if installed.metadata().and_then(|file| file.modified()).is_ok_and(|at| at >= wanted) {
        return Ok(());
    }
    succeed(npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"]))
        .context("the console needs Node 20.19 or newer, with npm")
}

fn npm(words: &[&str]) -> Command {
    let mut npm = command("npm", words);
    npm.current_dir(directory()).env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1");
    npm
}

fn directory() -> PathBuf {
    root().join("console")
}
