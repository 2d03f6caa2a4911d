//! Completions and man pages, made from the definitions of the command line.

use std::path::Path;

use clap::CommandFactory;
use hotset_api::{ApiError, ApiErrorKind};

use crate::args::Arguments;
use crate::client::write_out;

pub(crate) fn completions(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "hotset", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Writes one page for each verb into `directory`, or the main page to standard output.
pub(crate) fn pages(directory: Option<&Path>) -> Result<(), ApiError> {
    let failed = |error: std::io::Error| ApiError::new(ApiErrorKind::Device, format!("man pages: {error}"));
    let Some(directory) = directory else { return write_out(&main_page().map_err(failed)?) };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), directory).map_err(failed)
}

fn main_page() -> std::io::Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_and_a_completion() {
        let directory = tempfile::tempdir().unwrap();
        pages(Some(directory.path())).unwrap();
        for verb in ["serve", "pool-create", "volume-enable-cache", "status", "stats", "demo"] {
            assert!(directory.path().join(format!("hotset-{verb}.1")).exists(), "{verb}");
        }
        let bash = completions(clap_complete::Shell::Bash);
        assert!(bash.contains("enable-cache") && bash.contains("s3-fifo"));
        assert!(main_page().unwrap().contains("Exit codes"));
    }
}
