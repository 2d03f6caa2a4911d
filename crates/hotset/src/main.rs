//! The one binary: `hotset serve` is the daemon, the other verbs talk to it through its API.

mod args;
mod client;
mod daemon;
mod demo;
mod endpoint;
mod image;
mod manual;
mod paths;
mod plane;
mod settings;
mod size;
mod words;

use std::process::ExitCode;

use clap::Parser;
use hotset_api::{ApiError, ApiErrorKind};
use utoipa::OpenApi;

use args::{Arguments, ImageVerb, Output, Verb};
use client::Client;
use endpoint::Endpoint;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let output = arguments.output;
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

fn run(arguments: Arguments) -> Result<ExitCode, ApiError> {
    let Arguments { api, output, verb } = arguments;
    match verb {
        Verb::Serve(serve) => {
            return daemon::run(&serve, &api).map_err(|message| ApiError::new(ApiErrorKind::Internal, message));
        }
        Verb::Pool(verb) => client::run_pool(&client(api)?, output, verb)?,
        Verb::Volume(verb) => client::run_volume(&client(api)?, output, verb)?,
        Verb::Status(status) => return client::run_status(&client(api)?, output, &status).map(ExitCode::from),
        Verb::Stats(stats) => client::run_stats(&client(api)?, output, &stats)?,
        Verb::Image(ImageVerb::Create { path, size }) => client::create_image(output, &path, size)?,
        Verb::Demo(demo) => return demo::run(&demo, output),
        Verb::Completions { shell } => client::write_out(&manual::completions(shell))?,
        Verb::Man { dir } => manual::pages(dir.as_deref())?,
        Verb::Openapi => client::write_out(&client::json(&daemon::Document::openapi()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The daemon that a client verb talks to.
fn client(api: Vec<Endpoint>) -> Result<Client, ApiError> {
    let mut endpoints = api.into_iter();
    let endpoint = endpoints.next().unwrap_or_else(|| paths::api_socket(&paths::state_directory()));
    if endpoints.next().is_some() {
        return Err(ApiError::new(ApiErrorKind::Invalid, "this verb talks to one daemon: give --api once"));
    }
    Client::new(endpoint)
}

fn report(output: Output, error: &ApiError) {
    match output {
        Output::Text => eprintln!("hotset: {error}"),
        Output::Json => eprint!("{}", client::json(error)),
    }
}
