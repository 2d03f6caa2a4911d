//! The one binary: `hotset serve` is the daemon, the other verbs talk to it through its API.

mod advice;
mod args;
mod client;
mod clock;
mod complete;
mod daemon;
mod demo;
mod endpoint;
mod escape;
mod given_file;
mod image;
mod machine;
mod manual;
mod paths;
mod plane;
mod predecessor;
mod recover;
mod running_time;
mod settings;
mod since;
mod size;
mod spelled;
mod state_file;
mod trace;
mod udev;
mod usage;
mod whatif;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use clap::Parser;
use clap::error::ContextValue;
use clap_complete::CompleteEnv;
use hotset_api::{ApiError, ApiErrorKind};
use utoipa::OpenApi;

use args::{Arguments, ConfigVerb, ImageVerb, Output, OutputFormat, Verb};
use client::{Address, Answers, ApiDoor, Client, Credentials};
use endpoint::Endpoint;
use escape::{escaped, escaped_lines};

/// How long the daemon's last error may take to be written.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(1);

/// How large the stack may grow, and the least with which all verbs work.
const STACK_BYTES: u64 = 8 << 20;
const STACK_BYTES_MIN: u64 = 1 << 20;

fn main() -> ExitCode {
    // What does the work takes more of the stack than there may be.
    match hotset_block::raise_stack_limit(STACK_BYTES) {
        Ok(bytes) if bytes < STACK_BYTES_MIN => {
            client::tell(&format!(
                "hotset: the stack may have {} KiB, and {} KiB are needed: raise RLIMIT_STACK (`ulimit -s 8192`, LimitSTACK=8M of \
                 the service)",
                bytes >> 10,
                STACK_BYTES_MIN >> 10
            ));
            ExitCode::FAILURE
        }
        Ok(_) | Err(_) => begin(),
    }
}

/// Not a part of `main`, which has to do with little.
#[inline(never)]
fn begin() -> ExitCode {
    // Ends here if a shell asks for completions: COMPLETE in the environment.
    CompleteEnv::with_factory(complete::command).complete();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return wrong_words(error),
    };
    let (output, _) = form(&arguments.output);
    if let Err(error) = usage::check(&arguments) {
        report(output, &error);
        return ExitCode::from(usage::WRONG_USAGE);
    }
    // A health check that cannot be made has found a failure.
    let checks = matches!(&arguments.verb, Verb::Status(status) if status.check);
    let failed = if checks { ExitCode::from(2) } else { ExitCode::FAILURE };
    match run(arguments) {
        Ok(code) => code,
        Err(error) => {
            report(output, &error);
            failed
        }
    }
}

/// Prints help, the version, or what is wrong with the command line; the latter as JSON if that was asked for.
fn wrong_words(error: clap::Error) -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let error = shown(error);
    let json = words.windows(2).any(|pair| ["-o", "--output"].contains(&pair[0].as_str()) && pair[1] == "json")
        || words.iter().any(|word| word == "-ojson" || word == "--output=json");
    if json && error.use_stderr() {
        report(Output::Json, &ApiError::new(ApiErrorKind::Invalid, error.to_string()));
    } else if error.use_stderr() && has_what_is_obeyed(&error) {
        client::tell(error.render().to_string().trim_end());
    } else {
        // Nobody is left to tell that the terminal went away.
        let _ = error.print();
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// What it quotes of the command line is in one line, and a terminal does nothing but show it.
fn shown(mut error: clap::Error) -> clap::Error {
    let quoted: Vec<_> = error.context().filter_map(|(kind, value)| Some((kind, escaped_quote(value)?))).collect();
    for (kind, value) in quoted {
        error.insert(kind, value);
    }
    error
}

/// `None`: it stays as it is.
fn escaped_quote(value: &ContextValue) -> Option<ContextValue> {
    if let ContextValue::String(text) = value {
        return Some(ContextValue::String(escaped(text)));
    }
    if let ContextValue::Strings(texts) = value {
        return Some(ContextValue::Strings(texts.iter().map(|text| escaped(text)).collect()));
    }
    // Tips, which have a style.
    let ContextValue::StyledStrs(tips) = value else { return None };
    let plain: Vec<String> = tips.iter().map(ToString::to_string).collect();
    let all: Vec<String> = plain.iter().map(|tip| escaped(tip)).collect();
    (all != plain).then(|| ContextValue::StyledStrs(all.into_iter().map(Into::into).collect()))
}

/// Also after [`shown`]: what refuses a value may quote it.
fn has_what_is_obeyed(error: &clap::Error) -> bool {
    let plain = error.render().to_string();
    escaped_lines(&plain) != plain
}

fn run(arguments: Arguments) -> Result<ExitCode, ApiError> {
    let Arguments { api, api_ca, token_file, timeout, output, verb } = arguments;
    let (output, columns) = form(&output);
    let limit = (timeout > 0).then(|| Duration::from_secs(timeout));
    let answers = Answers { limit, for_people: output == Output::Text };
    let client = |api| client(api, api_ca.clone(), token_file.clone(), answers);
    match verb {
        Verb::Serve(serve) => {
            let ended = daemon::run(&serve, &listening(api)?);
            return Ok(ended.unwrap_or_else(|message| {
                last_words(output, ApiError::new(ApiErrorKind::Internal, message));
                ExitCode::FAILURE
            }));
        }
        Verb::Pool(verb) => client::run_pool(&client(api)?, output, columns, verb)?,
        Verb::Volume(verb) => client::run_volume(&client(api)?, output, columns, verb)?,
        Verb::MemoryCache(verb) => client::run_memory_cache(&client(api)?, output, &verb)?,
        Verb::Status(status) => return client::run_status(&client(api)?, output, &status).map(ExitCode::from),
        Verb::Stats(stats) => client::run_stats(&client(api)?, output, columns, stats)?,
        Verb::Top(top) => client::run_top(&client(api)?, output, &top)?,
        Verb::Events(events) => client::run_events(&client(api)?, output, &events)?,
        Verb::Notify(verb) => client::run_notify(&client(api)?, output, &verb)?,
        Verb::Operations(operations) => client::run_operations(&client(api)?, output, columns, operations)?,
        Verb::Token(verb) => client::run_token(&client(api)?, output, columns, verb)?,
        Verb::Trace(verb) => client::run_trace(&client(api)?, output, verb)?,
        Verb::Advise(arguments) => match &arguments.source {
            Some(source) if whatif::is_trace(source) => whatif::run_advise(output, Path::new(source), &arguments)?,
            Some(_) | None => client::run_advise(&client(api)?, output, &arguments)?,
        },
        Verb::WhatIf(arguments) if whatif::is_trace(&arguments.source) => whatif::run(output, &arguments)?,
        Verb::WhatIf(arguments) => match arguments.seconds {
            Some(seconds) => {
                let watched = client::watch_for_whatif(&client(api)?, output, &arguments, seconds, whatif::check)?;
                let path = watched.path();
                let requests = whatif::Requests {
                    path: &path,
                    called: &watched.called,
                    watched: Some(watched.time),
                    ended_early: watched.ended_early,
                };
                whatif::try_requests(output, &requests, &watched.arguments)?;
            }
            None => client::run_whatif(&client(api)?, output, &arguments)?,
        },
        Verb::UdevRules => client::run_udev_rules(&client(api)?, output)?,
        Verb::Image(ImageVerb::Create { path, size }) => client::create_image(output, &path, size)?,
        Verb::Recover(arguments) => recover::run(output, &arguments)?,
        Verb::Demo(demo) => return demo::run(&demo, output),
        Verb::Export => client::run_export(&client(api)?, output)?,
        Verb::Apply(arguments) => client::run_apply(&client(api)?, output, &arguments)?,
        Verb::Config(ConfigVerb::Check { config }) => check_config(output, config.as_deref())?,
        Verb::Completions { shell } => client::write_out(&manual::completions(shell))?,
        Verb::Man { dir } => manual::pages(dir.as_deref())?,
        Verb::Openapi => client::write_out(&client::json(&daemon::Document::openapi()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// For people or for programs, and the columns that were asked for.
fn form(format: &OutputFormat) -> (Output, Vec<String>) {
    match format {
        OutputFormat::Text => (Output::Text, Vec::new()),
        OutputFormat::Json => (Output::Json, Vec::new()),
        OutputFormat::Columns(columns) => (Output::Text, columns.clone()),
    }
}

/// The daemon that a client verb talks to. What the command line leaves out may stand in the environment; not so for the
/// daemon, which listens where its own configuration says.
fn client(
    api: Vec<Address>,
    api_ca: Option<PathBuf>,
    token_file: Option<PathBuf>,
    answers: Answers,
) -> Result<Client, ApiError> {
    let address = match api.into_iter().next() {
        Some(address) => address,
        None => address_of_environment()?,
    };
    let file = |given: Option<PathBuf>, name| given.or_else(|| std::env::var_os(name).map(PathBuf::from));
    let (api_ca, token_file) = (file(api_ca, "HOTSET_API_CA"), file(token_file, "HOTSET_TOKEN_FILE"));
    // Not an argument: those can be read by every user of the machine.
    let token = std::env::var("HOTSET_TOKEN").ok();
    Client::new(ApiDoor::new(address, Credentials::new(api_ca, token, token_file.as_deref())?, answers)?)
}

fn address_of_environment() -> Result<Address, ApiError> {
    let Some(named) = std::env::var_os("HOTSET_API").filter(|named| !named.is_empty()) else {
        return Ok(Address::Here(paths::api_socket(&paths::state_directory())));
    };
    let parsed = named.to_str().ok_or_else(|| "it is no text".to_owned()).and_then(str::parse);
    parsed.map_err(|why| ApiError::new(ApiErrorKind::Invalid, format!("HOTSET_API: {why}")))
}

fn check_config(output: Output, config: Option<&Path>) -> Result<(), ApiError> {
    let checked = daemon::check_config(config).map_err(|message| ApiError::new(ApiErrorKind::Invalid, message))?;
    client::print(output, &serde_json::json!({ "config": checked }), |_| {
        format!("{}: it is right\n", checked.display())
    })
}

/// Where a daemon is to listen.
fn listening(api: Vec<Address>) -> Result<Vec<Endpoint>, ApiError> {
    let one = |address| match address {
        Address::Here(endpoint) => Ok(endpoint),
        Address::Elsewhere { .. } => Err(ApiError::new(
            ApiErrorKind::Invalid,
            format!(
                "api {address}: a daemon listens at unix:PATH or tcp:ADDRESS:PORT; [api_tls] makes the latter https"
            ),
        )),
    };
    api.into_iter().map(one).collect()
}

fn report(output: Output, error: &ApiError) {
    match output {
        Output::Text => client::tell(&format!("hotset: {error}")),
        Output::Json => client::tell(client::json(error).trim_end()),
    }
}

/// Of a daemon: it has caught the signals that would end it, and must not wait for one who does not read.
fn last_words(output: Output, error: ApiError) {
    let (done, said) = mpsc::channel();
    let told = error.clone();
    let telling = std::thread::Builder::new().spawn(move || {
        report(output, &told);
        let _ = done.send(());
    });
    if telling.is_err() {
        return report(output, &error);
    }
    let _ = running_time::receive(&said, LAST_WORDS_LIMIT);
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: S4
    #[test]
    fn a_wrong_command_line_is_shown_and_not_obeyed() {
        for (words, shown_as) in [
            (vec!["hotset", "stat\u{1b}[2Jus\nx"], "stat\\u{1b}[2Jus\\nx"),
            (vec!["hotset", "status", "--che\u{9b}\nck"], "--che\\u{9b}\\nck"),
            (vec!["hotset", "-o", "\u{202e}x\ny\u{7f}", "status"], "\\u{202e}"),
        ] {
            let error = shown(Arguments::try_parse_from(words).expect_err("it is wrong"));
            let told = escaped_lines(&error.render().to_string());
            assert!(told.contains(shown_as), "{told}");
            assert!(!told.lines().any(|line| line.starts_with('x') || line.starts_with("ck")), "{told}");
        }
    }
}
