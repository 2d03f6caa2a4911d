//! Completions and man pages, made from the definitions of the command line and from what people wrote beside them.
//!
//! What a verb takes comes from the argument parser; what it is for, and examples, from `manual/commands.txt`; the keys of the
//! configuration from the file that is installed as `/etc/hotset/hotset.toml`. Tests see to it that none of them lacks anything.

mod commands;
mod configuration;
mod markup;

use std::path::Path;

use clap::CommandFactory;
use clap_complete::env::Shells;
use hotset_api::{ApiError, ApiErrorKind};

use self::markup::ManualPage;
use crate::args::{Arguments, Shell};
use crate::client::write_out;

#[cfg(test)]
pub(crate) use configuration::{INSTALLED, keys};

const CONCEPTS: &str = include_str!("../../manual/concepts.txt");

/// zsh loads the script when a command line is completed for the first time, by calling it as the function `_hotset`: that time has to be
/// answered, too.
const FIRST_OF_ZSH: &str = "if [[ ${funcstack[1]-} == _hotset ]]; then _clap_dynamic_completer_hotset \"$@\"; fi\n";

/// The script that makes a shell ask this program for completions.
pub(crate) fn completions(shell: Shell) -> String {
    let name = shell.name();
    let shells = Shells::builtins();
    let completer = shells.completer(name).expect("clap_complete knows the shells that the verb takes");
    let mut script = Vec::new();
    completer
        .write_registration("COMPLETE", "hotset", "hotset", "hotset", &mut script)
        .expect("memory takes all that is written");
    let script = String::from_utf8(script).expect("clap_complete writes text");
    match shell {
        Shell::Bash => script + include_str!("../../manual/words.bash"),
        Shell::Zsh => script + FIRST_OF_ZSH,
        Shell::Fish | Shell::Elvish | Shell::Powershell => script,
    }
}

/// Writes all pages into `directory`, or the main page to standard output.
pub(crate) fn pages(directory: Option<&Path>) -> Result<(), ApiError> {
    let Some(directory) = directory else { return write_out(&all()[0].text) };
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        all().iter().try_for_each(|page| std::fs::write(directory.join(&page.file), &page.text))
    };
    write()
        .map_err(|error| ApiError::new(ApiErrorKind::Device, format!("man pages in {}: {error}", directory.display())))
}

/// The main page first.
fn all() -> Vec<ManualPage> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    commands::add(&command, &mut pages);
    pages.push(configuration::page());
    pages.push(markup::page(
        "hotset-concepts",
        7,
        "the words and ideas of Hotset, an SSD cache for block storage",
        CONCEPTS,
    ));
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        pages(Some(directory.path())).unwrap();
        for page in
            ["hotset.1", "hotset-pool-create.1", "hotset-volume-enable-cache.1", "hotset.toml.5", "hotset-concepts.7"]
        {
            let text = std::fs::read_to_string(directory.path().join(page)).expect(page);
            assert!(text.contains(".TH") && text.contains("NAME"), "{page}: {text}");
        }
        assert!(!directory.path().join("hotset-openapi.1").exists(), "a hidden verb");
    }

    #[test]
    fn what_a_page_refers_to_is_a_page() {
        let pages = all();
        let names: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
        for page in &pages {
            for word in page.text.split(|c: char| !(c.is_ascii_alphanumeric() || "-.()\\".contains(c))) {
                let word = word.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
                let Some((name, section)) = word.strip_suffix(')').and_then(|word| word.split_once('(')) else {
                    continue;
                };
                if name == "hotset" || name.starts_with("hotset-") || name.starts_with("hotset.") {
                    let file = format!("{name}.{section}");
                    assert!(names.contains(&file.as_str()), "{}: there is no page {file}", page.file);
                }
            }
        }
    }

    #[test]
    fn every_shell_has_a_script_that_asks_this_program() {
        for shell in Shell::ALL {
            let script = completions(*shell);
            assert!(script.contains("COMPLETE") && script.contains("hotset"), "{script}");
        }
    }
}
