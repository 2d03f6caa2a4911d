//! The `udev-rules` verb.

use std::path::Path;

use hotset_api::{ApiError, PoolKind, Status};
use serde::Serialize;

use super::http::Client;
use super::print::print;
use crate::args::Output;
use crate::given_file;
use crate::udev::{self, Guarded};

/// The answer for programs.
#[derive(Serialize)]
struct Rules {
    volumes: Vec<String>,
    rules: String,
}

pub(crate) fn run(client: &Client, output: Output) -> Result<(), ApiError> {
    let status: Status = client.get_exactly("/status")?;
    let guarded = guarded(&status);
    let rules = Rules {
        volumes: guarded.iter().map(|one| one.volume.clone()).collect(),
        rules: udev::rules(&guarded, &given_file::read_text(Path::new(udev::RULES_FILE)).unwrap_or_default()),
    };
    print(output, &rules, |rules| rules.rules.clone())
}

/// The volumes of read-write pools.
fn guarded(status: &Status) -> Vec<Guarded> {
    let read_write =
        |pool: &str| status.pools.iter().any(|known| known.name == pool && known.kind == PoolKind::ReadWrite);
    let volumes = status.volumes.iter().filter(|volume| volume.pool.as_deref().is_some_and(read_write));
    volumes.map(|volume| Guarded { volume: volume.name.clone(), backing: volume.backing.clone() }).collect()
}
