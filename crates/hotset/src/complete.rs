//! What a shell is told when it completes a command line: verbs and options by the argument parser, and the names of pools,
//! volumes, SSDs, spares, tokens and operations by the daemon.
//!
//! A daemon that is not there, or does not answer at once, knows no names: nothing is printed, and nobody waits.

use std::any::TypeId;
use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use hotset_api::{ApiError, OperationList, OperationState, PoolList, TokenList, VolumeList};
use hotset_cache::config::{PoolName, VolumeName};

use crate::args::{Arguments, OutputFormat, StatsWord};
use crate::client::{Address, Answers, Client};
use crate::settings::{PoolSetting, VolumeSetting, pool_settings, volume_settings};

/// Nobody waits longer at a shell for the names that a daemon knows.
const LIMIT: Duration = Duration::from_millis(700);

/// The command line with all that can be completed.
pub(crate) fn command() -> Command {
    of_verb(Arguments::command())
}

fn of_verb(command: Command) -> Command {
    let verb = command.get_name().to_owned();
    command.mut_args(move |argument| of_argument(&verb, argument)).mut_subcommands(of_verb)
}

/// What an argument is about follows from its type, so that a new verb is completed too.
fn of_argument(verb: &str, argument: Arg) -> Arg {
    let kind = argument.get_value_parser().type_id();
    let is_new = (verb == "create" && argument.get_id() == "name") || argument.get_id() == "to";
    let candidates: fn() -> Vec<String> = if is_new {
        return argument;
    } else if kind == TypeId::of::<PoolName>() {
        pools
    } else if kind == TypeId::of::<VolumeName>() || kind == TypeId::of::<StatsWord>() {
        volumes
    } else if kind == TypeId::of::<OutputFormat>() {
        formats
    } else if kind == TypeId::of::<PoolSetting>() {
        pool_settings
    } else if kind == TypeId::of::<VolumeSetting>() {
        volume_settings
    } else if verb == "remove-ssd" && argument.get_id() == "ssd" {
        ssds
    } else if verb == "remove-spare" && argument.get_id() == "ssd" {
        spares
    } else if verb == "cancel" && argument.get_id() == "id" {
        operations
    } else if verb == "delete" && argument.get_id() == "name" {
        tokens
    } else if verb == "events" && argument.get_id() == "subject" {
        subjects
    } else if argument.get_id() == "source" {
        // Of `advise` and `whatif`: a volume, or a file with requests.
        return argument.add(ArgValueCompleter::new(|typed: &OsStr| {
            let files = PathCompleter::file().complete(typed);
            beginning(typed, volumes()).into_iter().chain(files).collect()
        }));
    } else {
        return argument;
    };
    argument.add(ArgValueCompleter::new(move |typed: &OsStr| beginning(typed, candidates())))
}

fn beginning(typed: &OsStr, words: Vec<String>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    words.into_iter().filter(|word| word.starts_with(typed)).map(CompletionCandidate::new).collect()
}

fn formats() -> Vec<String> {
    ["text", "json"].map(str::to_owned).to_vec()
}

fn pools() -> Vec<String> {
    ask(
        |client| client.get_exactly::<PoolList>("/pools"),
        |list| list.pools.into_iter().map(|pool| pool.name).collect(),
    )
}

fn volumes() -> Vec<String> {
    ask(
        |client| client.get_exactly::<VolumeList>("/volumes"),
        |list| list.volumes.into_iter().map(|volume| volume.name).collect(),
    )
}

fn ssds() -> Vec<String> {
    ask(
        |client| client.get_exactly::<PoolList>("/pools"),
        |list| list.pools.into_iter().flat_map(|pool| pool.ssds).map(|ssd| ssd.path).collect(),
    )
}

fn spares() -> Vec<String> {
    ask(
        |client| client.get_exactly::<PoolList>("/pools"),
        |list| list.pools.into_iter().flat_map(|pool| pool.spares).map(|spare| spare.path).collect(),
    )
}

/// What events are of.
fn subjects() -> Vec<String> {
    let kinds = ["daemon", "pool", "volume", "ssd"].map(str::to_owned);
    kinds.into_iter().chain(pools()).chain(volumes()).chain(ssds()).collect()
}

fn tokens() -> Vec<String> {
    ask(
        |client| client.get_exactly::<TokenList>("/tokens"),
        |list| list.tokens.into_iter().map(|token| token.name).collect(),
    )
}

fn operations() -> Vec<String> {
    let running = |list: OperationList| {
        let running = list.operations.into_iter().filter(|operation| operation.state == OperationState::Running);
        running.map(|operation| operation.id.to_string()).collect()
    };
    ask(|client| client.get_exactly::<OperationList>("/operations"), running)
}

/// On a thread that is left alone when it takes too long: the process ends soon.
fn ask<T: 'static>(question: fn(&Client) -> Result<T, ApiError>, names: fn(T) -> Vec<String>) -> Vec<String> {
    let (answered, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let answers = Answers { limit: Some(LIMIT), for_people: false };
        let client = crate::client(named_api(), named("--api-ca"), named("--token-file"), answers);
        if let Ok(list) = client.and_then(|client| question(&client)) {
            let _ = answered.send(names(list));
        }
    });
    crate::running_time::receive(&answer, LIMIT).unwrap_or_default()
}

/// The daemon that the command line names, which is not whole yet.
fn named_api() -> Vec<Address> {
    let named: Option<std::path::PathBuf> = named("--api");
    named.and_then(|text| text.to_str()?.parse().ok()).into_iter().collect()
}

/// What comes after a flag, which a shell hands over after `--`.
fn named(flag: &str) -> Option<std::path::PathBuf> {
    let mut words = std::env::args_os().skip_while(|word| word != "--").skip_while(|word| word != flag);
    words.next()?;
    words.next().map(Into::into)
}

#[cfg(test)]
mod tests {
    use clap_complete::engine::complete;

    use super::*;

    fn completed(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = std::iter::once("hotset").chain(words.iter().copied()).map(Into::into).collect();
        let last = words.len() - 1;
        let candidates = complete(&mut command(), words, last, None).expect("a command line");
        candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn verbs_options_and_words_are_completed_without_a_daemon() {
        assert!(completed(&["pool", ""]).iter().any(|word| word == "add-ssd"));
        assert!(completed(&["pool", "create", "p", "--pol"]).iter().any(|word| word == "--policy"));
        assert!(completed(&["pool", "create", "p", "--policy", ""]).iter().any(|word| word == "s3-fifo"));
        assert!(completed(&["volume", "enable-cache", ""]).iter().all(|word| word.starts_with('-')));
        assert_eq!(completed(&["events", "--subject", "s"]), ["ssd"]);
        assert!(completed(&["whatif", "src/"]).iter().any(|file| file == "src/complete.rs"));
    }

    #[test]
    fn settings_are_completed_by_key_and_by_value() {
        let keys = completed(&["pool", "set", "p", "fl"]);
        assert!(keys.contains(&"flush-rate=".to_owned()) || keys.contains(&"flush-rate=low".to_owned()), "{keys:?}");
        assert_eq!(completed(&["volume", "set", "v", "mode=write-t"]), ["mode=write-through"]);
    }

    #[test]
    fn every_name_of_a_pool_or_a_volume_is_completed() {
        let mut lacking = Vec::new();
        look(&command(), &mut lacking);
        assert_eq!(lacking, [""; 0], "arguments for names without completion");
    }

    fn look(verb: &Command, lacking: &mut Vec<String>) {
        for argument in verb.get_arguments() {
            let kind = argument.get_value_parser().type_id();
            let is_name = kind == TypeId::of::<PoolName>() || kind == TypeId::of::<VolumeName>();
            let is_new = (verb.get_name() == "create" && argument.get_id() == "name") || argument.get_id() == "to";
            if is_name && !is_new && argument.get::<ArgValueCompleter>().is_none() {
                lacking.push(format!("{} {}", verb.get_name(), argument.get_id()));
            }
        }
        verb.get_subcommands().for_each(|verb| look(verb, lacking));
    }
}
