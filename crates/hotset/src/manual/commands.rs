//! The page of each verb: what the argument parser knows, and what `manual/commands.txt` says beside it.

use std::io::{Result, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::Roff;

use super::markup::{self, ManualPage};

const WRITTEN: &str = include_str!("../../manual/commands.txt");

/// What the parser knows nothing of, in the order in which it comes.
const PARTS: [&str; 5] = ["EXAMPLES", "ENVIRONMENT", "FILES", "NOTES", "EXIT STATUS"];

const REFERENCES: &str = "SEE ALSO";

/// Of nearly every verb.
const EXIT_STATUS: &str = "0 :: Done.\n1 :: It failed, or was refused; standard error says why, and what to do.\n2 :: The \
    command line is wrong: an option, a value, a column, or what does not go together; nothing was done.";

/// Of each verb that asks the daemon.
const FILES: &str = "`/var/lib/hotset/api.sock` :: The daemon of this machine is asked here, where `--api` and `HOTSET_API` name no \
    other.";

/// Verbs that ask no daemon, with those below them.
const WITHOUT_A_DAEMON: [&str; 7] = ["serve", "image", "recover", "demo", "config", "completions", "man"];

/// What was written of one verb, a line end first.
#[derive(Clone, Copy)]
struct WrittenPage(&'static str);

impl WrittenPage {
    /// Of a verb as `pool create`; of the program itself as `hotset`. None was written: nothing.
    fn of(verb: &str) -> Self {
        Self(sections().find(|(name, _)| *name == verb).map_or("", |(_, text)| text))
    }

    /// What is under this heading.
    fn part(self, heading: &str) -> Option<&'static str> {
        self.0.split_once(&format!("\n{heading}\n")).map(|(_, rest)| before_a_heading(rest))
    }

    /// What comes before the first heading.
    fn description(self) -> &'static str {
        before_a_heading(self.0)
    }
}

fn before_a_heading(text: &str) -> &str {
    let starts = PARTS.iter().chain([&REFERENCES]).filter_map(|heading| text.find(&format!("\n{heading}\n")));
    starts.min().map_or(text, |start| &text[..start])
}

/// The sections of the file: a verb, and what is written of it.
fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    WRITTEN.split("\n== ").skip(1).map(|section| section.split_at(section.find('\n').unwrap_or(section.len())))
}

/// The page of `command`, then those of its verbs.
pub(super) fn add(command: &Command, pages: &mut Vec<ManualPage>) {
    pages.push(page(command));
    visible(command).for_each(|verb| add(verb, pages));
}

/// The verbs that people see, below `command`.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

/// As the file calls it.
fn verb_of(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    name.strip_prefix("hotset ").unwrap_or(name).to_owned()
}

fn asks_a_daemon(verb: &str) -> bool {
    verb.split(' ').next().is_some_and(|first| !WITHOUT_A_DAEMON.contains(&first))
}

fn page_name(command: &Command) -> String {
    match verb_of(command).as_str() {
        "hotset" => "hotset".to_owned(),
        verb => format!("hotset-{}", verb.replace(' ', "-")),
    }
}

fn page(command: &Command) -> ManualPage {
    let name = page_name(command);
    let written = WrittenPage::of(&verb_of(command));
    let shown = without_what_every_verb_takes(command, &name);
    let man = Man::new(shown.clone());
    let mut draft = Draft::titled(&name);
    draft.parser(|to| man.render_name_section(to));
    draft.parser(|to| man.render_synopsis_section(to));
    draft.parser(|to| man.render_description_section(to));
    draft.written(None, written.description());
    if let Some(help) = shown.get_after_help().filter(|_| name != "hotset") {
        draft.written(None, &help.to_string());
    }
    if shown.get_arguments().any(|argument| !argument.is_hide_set()) {
        draft.parser(|to| man.render_options_section(to));
    }
    if name != "hotset" {
        draft.written(None, "What every verb takes, as `--api` and `--output`, is told in hotset(1).");
    }
    if visible(&shown).next().is_some() {
        draft.parser(|to| man.render_subcommands_section(to));
    }
    for heading in PARTS {
        let usual = match heading {
            "EXIT STATUS" => Some(EXIT_STATUS),
            "FILES" if asks_a_daemon(&verb_of(command)) => Some(FILES),
            _ => None,
        };
        if let Some(part) = written.part(heading).or(usual) {
            draft.written(Some(heading), part);
        }
    }
    draft.written(Some(REFERENCES), &references(command, &name, written));
    ManualPage { file: format!("{name}.1"), text: draft.text }
}

/// That is told once, with the program.
fn without_what_every_verb_takes(command: &Command, name: &str) -> Command {
    if name == "hotset" {
        return command.clone();
    }
    command.clone().mut_args(|argument| {
        let everywhere = argument.is_global_set() || ["help", "version"].contains(&argument.get_id().as_str());
        let hidden = argument.is_hide_set();
        argument.hide(hidden || everywhere)
    })
}

/// Those that were written down, and the pages above and below.
fn references(command: &Command, name: &str, written: WrittenPage) -> String {
    let mut names: Vec<String> =
        written.part(REFERENCES).unwrap_or_default().split([',', '\n']).map(whole_name).collect();
    names.extend(visible(command).map(|verb| whole_name(&page_name(verb))));
    let above = name.rsplit_once('-').map(|(above, _)| above).filter(|above| above.starts_with("hotset"));
    names.extend([above.map(whole_name), Some("hotset(1)".to_owned())].into_iter().flatten());
    let mut seen = Vec::new();
    for found in names {
        if !found.is_empty() && found != whole_name(name) && !seen.contains(&found) && is_a_verb_or_elsewhere(&found) {
            seen.push(found);
        }
    }
    seen.join(", ")
}

/// What a verb's name has before its last `-` need not be a verb: `hotset-udev-rules`.
fn is_a_verb_or_elsewhere(name: &str) -> bool {
    let Some(verb) = name.strip_suffix("(1)").and_then(|name| name.strip_prefix("hotset-")) else { return true };
    sections().any(|(section, _)| section.replace(' ', "-") == verb)
}

/// With the section of the manual, which is 1 unless it says another.
fn whole_name(name: &str) -> String {
    let name = name.trim();
    if name.is_empty() || name.ends_with(')') { name.to_owned() } else { format!("{name}(1)") }
}

/// A page that is being made.
struct Draft {
    text: String,
}

impl Draft {
    fn titled(name: &str) -> Self {
        let mut roff = Roff::new();
        markup::title(&mut roff, name, 1);
        Self { text: roff.render() }
    }

    /// A section that comes from the argument parser.
    fn parser(&mut self, write: impl FnOnce(&mut dyn Write) -> Result<()>) {
        let mut bytes = Vec::new();
        write(&mut bytes).expect("memory takes all that is written");
        self.add(&String::from_utf8(bytes).expect("the parser's texts are text"));
    }

    /// A section that people wrote; without a heading it goes on with the one before.
    fn written(&mut self, heading: Option<&str>, text: &str) {
        let mut roff = Roff::new();
        if let Some(heading) = heading {
            roff.control("SH", [heading]);
        }
        markup::add(&mut roff, text);
        self.add(&roff.render());
    }

    /// The definitions before the first line are there already.
    fn add(&mut self, rendered: &str) {
        let lines = rendered.lines().skip_while(|line| line.starts_with(".ie ") || line.starts_with(".el "));
        lines.for_each(|line| {
            self.text.push_str(line);
            self.text.push('\n');
        });
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Arguments;

    fn built() -> Command {
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        command
    }

    fn verbs(command: &Command, all: &mut Vec<String>) {
        all.push(verb_of(command));
        visible(command).for_each(|verb| verbs(verb, all));
    }

    #[test]
    fn every_verb_is_written_of_with_examples_and_nothing_else_is() {
        let mut all = Vec::new();
        verbs(&built(), &mut all);
        for verb in &all {
            let examples = WrittenPage::of(verb).part("EXAMPLES").unwrap_or_default();
            assert!(
                examples.lines().any(|line| line.starts_with("    ")),
                "manual/commands.txt has no examples of `{verb}`: add \"== {verb}\", \"EXAMPLES\" and lines that begin with four blanks"
            );
        }
        for (section, _) in sections() {
            assert!(all.iter().any(|verb| verb == section), "manual/commands.txt: there is no verb `{section}`");
        }
    }

    #[test]
    fn every_example_is_understood() {
        for (section, text) in sections() {
            for line in text.lines().filter_map(|line| line.strip_prefix("    hotset ")) {
                let words: Vec<&str> =
                    line.split_whitespace().take_while(|word| !["|", ">", "#"].contains(word)).collect();
                let parsed = Arguments::try_parse_from(std::iter::once("hotset").chain(words));
                parsed.unwrap_or_else(|error| panic!("{section}: {line}: {error}"));
            }
        }
    }

    #[test]
    fn every_reference_that_was_written_is_a_page() {
        let mut pages = Vec::new();
        add(&built(), &mut pages);
        for (section, _) in sections() {
            for name in WrittenPage::of(section).part(REFERENCES).unwrap_or_default().split([',', '\n']) {
                let name = whole_name(name);
                let ours = name.starts_with("hotset") && name.ends_with("(1)");
                let file = name.replace("(1)", ".1");
                assert!(!ours || pages.iter().any(|page| page.file == file), "{section}: there is no page {name}");
            }
        }
    }

    #[test]
    fn a_page_has_what_the_parser_knows_and_what_was_written() {
        let mut pages = Vec::new();
        add(&built(), &mut pages);
        let page = pages.iter().find(|page| page.file == "hotset-pool-create.1").expect("it is a verb");
        for part in ["SYNOPSIS", "\\-\\-populate\\-on\\-read", "EXAMPLES", "EXIT STATUS", "hotset\\-pool\\-convert(1)"]
        {
            assert!(page.text.contains(part), "{part}: {}", page.text);
        }
        assert!(!page.text.contains("token\\-file"), "what every verb takes is told once: {}", page.text);
        assert!(page.text.contains("api.sock"), "{}", page.text);
        let image = pages.iter().find(|page| page.file == "hotset-image-create.1").expect("it is a verb");
        assert!(!image.text.contains("FILES"), "it asks no daemon: {}", image.text);
    }
}
