//! The program without its symbols, and the symbols by themselves.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::tree::Tree;
use crate::command::{command, output_of, succeed};

/// Takes away what only debuggers need.
pub(super) fn strip(program: &Path) -> Result<()> {
    let program = program.display().to_string();
    succeed(command("strip", &["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", &program]))
        .context("strip comes with the package binutils")
}

/// What debuggers find a program's symbols by; `None`: it was linked without.
pub(super) fn build_id(program: &Path) -> Result<Option<String>> {
    let notes = output_of(command("readelf", &["--notes", &program.display().to_string()]))?;
    Ok(notes.split("Build ID: ").nth(1).and_then(|rest| rest.split_whitespace().next()).map(str::to_owned))
}

/// Puts a program's symbols where debuggers look for them.
pub(super) fn add(tree: &Tree, program: &Path, build_id: &str) -> Result<()> {
    let (first, rest) = build_id.split_at(2);
    let file = format!("usr/lib/debug/.build-id/{first}/{rest}.debug");
    let path = tree.path(&file)?;
    let (from, to) = (program.display().to_string(), path.display().to_string());
    succeed(command("objcopy", &["--only-keep-debug", "--compress-debug-sections", &from, &to]))?;
    fs::metadata(&path).with_context(|| to)?;
    tree.mode(&file, 0o644)
}
