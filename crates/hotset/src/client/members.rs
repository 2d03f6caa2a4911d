//! The verbs about a pool's SSDs and spares.

use std::path::PathBuf;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind, Pool, PoolChange, Progress, Spare, SsdsAdd, SsdsRemove};
use hyper::Method;
use tokio::signal::unix::{SignalKind, signal};

use super::http::{Client, request};
use super::table::Table;
use super::{absolute, print};
use crate::args::{Output, SsdsArguments};
use crate::size::human;

/// How often a line of progress is printed.
const TICK: Duration = Duration::from_secs(2);

pub(super) fn add(client: &Client, output: Output, arguments: &SsdsArguments, what: &str) -> Result<(), ApiError> {
    let name = &arguments.name;
    let ssds = arguments.ssd.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
    let body = SsdsAdd { ssds, force: arguments.force, allow_same_disk: arguments.allow_same_disk };
    let change: PoolChange = client.send(Method::POST, &format!("/pools/{name}/{what}"), &body)?;
    print(output, &change, |change| format!("Pool {name} has {}\n", counted(&change.pool)))
}

pub(super) fn remove_spares(client: &Client, output: Output, name: &str, spares: &[String]) -> Result<(), ApiError> {
    let body = SsdsRemove { ssds: spares.iter().map(|spare| selector(spare)).collect() };
    let change: PoolChange = client.send(Method::DELETE, &format!("/pools/{name}/spares"), &body)?;
    print(output, &change, |change| format!("Pool {name} has {}\n", counted(&change.pool)))
}

/// Waits for the end, and tells how far it is; Ctrl-C cancels.
pub(super) fn remove(client: &Client, output: Output, name: &str, ssds: &[String]) -> Result<(), ApiError> {
    let body = SsdsRemove { ssds: ssds.iter().map(|ssd| selector(ssd)).collect() };
    let body = serde_json::to_vec(&body).expect("the API's types have string keys only");
    let (path, removal) = (format!("/pools/{name}/ssds"), format!("/pools/{name}/removal"));
    let change: PoolChange = client.block_on(async {
        let failed = |error| ApiError::new(ApiErrorKind::Internal, format!("signals: {error}"));
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut ticks = tokio::time::interval(TICK);
        ticks.tick().await;
        let mut done = std::pin::pin!(request(client.endpoint(), Method::DELETE, &path, body));
        loop {
            tokio::select! {
                outcome = &mut done => return outcome,
                _ = ticks.tick() => {
                    let pool = request::<Pool>(client.endpoint(), Method::GET, &format!("/pools/{name}"), Vec::new()).await;
                    if let (Ok(pool), Output::Text) = (pool, output) {
                        pool.ssds.iter().filter_map(|ssd| Some((&ssd.path, ssd.evacuation?))).for_each(|(path, progress)| {
                            eprintln!("removing SSD {path}: {}", line(&progress));
                        });
                    }
                }
                _ = interrupt.recv() => {
                    // The removal's own answer says what became of it.
                    let _ = request::<PoolChange>(client.endpoint(), Method::DELETE, &removal, Vec::new()).await;
                }
            }
        }
    })?;
    print(output, &change, |change| format!("Pool {name} has {}\n", counted(&change.pool)))
}

pub(super) fn cancel(client: &Client, output: Output, name: &str) -> Result<(), ApiError> {
    let change: PoolChange = client.delete(&format!("/pools/{name}/removal"))?;
    print(output, &change, |change| match change.changed {
        true => format!("The SSDs of pool {name} stay\n"),
        false => format!("No SSD is being removed from pool {name}\n"),
    })
}

/// How far something is, in one line.
pub(super) fn line(progress: &Progress) -> String {
    let eta = progress.eta_seconds.map_or_else(|| "time left unknown".to_owned(), |left| format!("{left} s left"));
    format!(
        "{} of {}, {}/s, {eta}",
        human(progress.done_bytes),
        human(progress.total_bytes),
        human(progress.bytes_per_second)
    )
}

pub(super) fn table(spares: &[Spare]) -> String {
    let mut table = Table::new(&["SPARE", ">SIZE", "REASON"]);
    for spare in spares {
        table.row(vec![spare.path.clone(), human(spare.size_bytes), spare.reason.clone()]);
    }
    table.render()
}

fn counted(pool: &Pool) -> String {
    let online = pool.ssds.iter().filter(|ssd| ssd.online).count();
    format!("{online} SSD(s) and {} spare(s)", pool.spares.len())
}

/// A path as the daemon knows it, or a UUID.
fn selector(word: &str) -> String {
    let is_uuid = word.len() == 32 && word.chars().all(|digit| digit.is_ascii_hexdigit());
    if is_uuid { word.to_owned() } else { absolute(&PathBuf::from(word)).unwrap_or_else(|_| word.to_owned()) }
}
