//! `cargo x tidy`: the rules of the house that neither the compiler nor clippy checks.
//!
//! A rule looks at one file, or at the workspace's metadata, and names what breaks it. Every rule has a test with an
//! example that it must find.

mod circles;
mod code;
mod crates;
mod map;
mod planted;
mod rooms;
mod rules;

use std::fs;
use std::process::ExitCode;

use anyhow::Result;

use crate::command::{listed_files, metadata, root};

/// A breach: where, and which rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// `path:line`, or the name of a crate.
    place: String,
    rule: String,
}

/// Prints every breach; succeeds if there is none.
pub(crate) fn run() -> Result<ExitCode> {
    let mut findings = crates::check(&metadata()?);
    let files = files()?;
    let nouns = rooms::nouns(|path| fs::read_to_string(root().join(path)).ok());
    let mut texts = Vec::new();
    for path in &files {
        // What is not text has no rules; a file that is listed but deleted is gone with the next commit.
        if let Ok(text) = fs::read_to_string(root().join(path)) {
            let is_noun = nouns.contains(path);
            findings.extend(rules::check(path, &text, is_noun));
            findings.extend(rooms::check(path, &text));
            texts.push((path.clone(), text));
        }
    }
    findings.extend(circles::check(&texts));
    findings.extend(planted::check(&texts));
    findings.extend(map::check(&texts));
    for finding in &findings {
        println!("{}: {}", finding.place, finding.rule);
    }
    println!("tidy: {} files, {} findings", files.len(), findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every file that is, or is about to be, in the repository.
fn files() -> Result<Vec<String>> {
    let listed = listed_files(&[])?;
    Ok(listed.lines().map(str::to_owned).collect())
}
