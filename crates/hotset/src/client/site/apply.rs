//! The `apply` verb: everything is checked before anything is changed; then one step after the other, and if one fails, what was done.

use std::io::Read;
use std::path::Path;

use hotset_api::{
    ApiError, ApiErrorKind, CacheEnable, Operation, OperationKind, OperationStart, PoolList, PoolPlan, Removal,
    SsdsAdd, SsdsRemove, VolumeList,
};
use hyper::Method;
use serde::Serialize;
use serde_json::Value;

use super::super::http::Client;
use super::super::operations::follow;
use super::super::print::{print, tell};
use super::file::Mistake;
use super::plan::{SitePlan, SiteStep, plan};
use super::wanted::WantedSite;
use crate::args::{ApplyArguments, Output};

/// What was done, or would be.
#[derive(Serialize)]
struct Applied {
    changed: bool,
    dry_run: bool,
    /// Lines of the difference: `+` comes, `-` goes, `~` changes.
    changes: Vec<String>,
    /// What is there and not in the file.
    left_alone: Vec<String>,
}

pub(crate) fn run(client: &Client, output: Output, arguments: &ApplyArguments) -> Result<(), ApiError> {
    let file = &arguments.file;
    let text = read(file).map_err(|error| invalid(format!("{}: {error}", file.display())))?;
    let told = |wrong: Vec<Mistake>| {
        let lines: Vec<String> =
            wrong.iter().map(|wrong| format!("{}, line {}: {}", file.display(), wrong.line, wrong.message)).collect();
        invalid(format!("{}\nNothing was changed", lines.join("\n")))
    };
    let wanted = WantedSite::parse(&text).map_err(told)?;
    let pools: PoolList = client.get_exactly("/pools")?;
    let volumes: VolumeList = client.get_exactly("/volumes")?;
    let here = client.door().is_of_this_machine();
    let plan = plan(&wanted, &pools.pools, &volumes.volumes, &|one, other| is_same(here, one, other)).map_err(told)?;
    check(client, &plan, here)?;
    let changes: Vec<String> = plan.steps.iter().flat_map(SiteStep::lines).collect();
    let applied =
        Applied { changed: !changes.is_empty(), dry_run: arguments.dry_run, changes, left_alone: plan.left_alone };
    if !arguments.dry_run {
        carry_out(client, output, &plan.steps)?;
    }
    print(output, &applied, shown)
}

fn shown(applied: &Applied) -> String {
    let mut text: String = applied.changes.iter().map(|line| format!("{line}\n")).collect();
    text.push_str(match (applied.changed, applied.dry_run) {
        (false, _) => "Everything is already so\n",
        (true, true) => "Nothing was changed: dry run\n",
        (true, false) => "Done\n",
    });
    for name in &applied.left_alone {
        text.push_str(&format!("{name} is not in the file, and stays as it is\n"));
    }
    text
}

fn read(file: &Path) -> std::io::Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map(|_| text)
}

/// Two names of one file, where that can be seen.
fn is_same(here: bool, one: &str, other: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(path).ok();
    one == other || (here && real(one).is_some_and(|path| real(other) == Some(path)))
}

/// What the daemon would refuse, as far as it can be known before.
fn check(client: &Client, plan: &SitePlan, here: bool) -> Result<(), ApiError> {
    for step in &plan.steps {
        match step {
            SiteStep::CreatePool(pool) => {
                client
                    .send::<PoolPlan>(Method::POST, "/pools/plan", pool)
                    .map_err(|error| nothing_changed(&format!("pool {}", pool.name), error))?;
            }
            SiteStep::CreateVolume(volume) if here && volume.backing.starts_with('/') => {
                if let Err(error) = std::fs::metadata(&volume.backing) {
                    let error = invalid(format!("backing device {}: {error}", volume.backing));
                    return Err(nothing_changed(&format!("volume {}", volume.name), error));
                }
            }
            SiteStep::AddSsds { pool, ssds: paths } | SiteStep::AddSpares { pool, spares: paths } if here => {
                if let Some((path, error)) =
                    paths.iter().find_map(|path| std::fs::metadata(path).err().map(|error| (path, error)))
                {
                    return Err(nothing_changed(&format!("pool {pool}"), invalid(format!("SSD {path}: {error}"))));
                }
            }
            SiteStep::CreateVolume(_)
            | SiteStep::AddSsds { .. }
            | SiteStep::AddSpares { .. }
            | SiteStep::SetPool { .. }
            | SiteStep::RemoveSpares { .. }
            | SiteStep::DisableCache { .. }
            | SiteStep::EnableCache { .. }
            | SiteStep::SetVolume { .. }
            | SiteStep::RemoveSsds { .. } => {}
        }
    }
    Ok(())
}

fn nothing_changed(subject: &str, error: ApiError) -> ApiError {
    ApiError { message: format!("{subject}: {}. Nothing was changed", error.message), ..error }
}

fn carry_out(client: &Client, output: Output, steps: &[SiteStep]) -> Result<(), ApiError> {
    for (index, step) in steps.iter().enumerate() {
        if let Err(error) = carry_out_one(client, output, step) {
            let lines = |steps: &[SiteStep]| {
                let lines: Vec<String> =
                    steps.iter().flat_map(SiteStep::lines).map(|line| format!("\n  {line}")).collect();
                if lines.is_empty() { "\n  nothing".to_owned() } else { lines.concat() }
            };
            let message = format!(
                "{}\nThis failed:{}\nDone before:{}\nNot done:{}",
                error.message,
                lines(&steps[index..=index]),
                lines(&steps[..index]),
                lines(&steps[index + 1..])
            );
            return Err(ApiError { message, ..error });
        }
    }
    Ok(())
}

fn carry_out_one(client: &Client, output: Output, step: &SiteStep) -> Result<(), ApiError> {
    let done: Result<Value, ApiError> = match step {
        SiteStep::CreatePool(pool) => client.send(Method::POST, "/pools", pool),
        SiteStep::SetPool { pool, set, .. } => client.send(Method::PATCH, &format!("/pools/{pool}"), set),
        SiteStep::AddSsds { pool, ssds } => client.send(Method::POST, &format!("/pools/{pool}/ssds"), &added(ssds)),
        SiteStep::AddSpares { pool, spares } => {
            client.send(Method::POST, &format!("/pools/{pool}/spares"), &added(spares))
        }
        SiteStep::RemoveSpares { pool, spares } => {
            client.send(Method::DELETE, &format!("/pools/{pool}/spares"), &SsdsRemove { ssds: spares.clone() })
        }
        SiteStep::DisableCache { volume, .. } => {
            let removal = Removal { force: false, lose_data: false };
            client.send(Method::DELETE, &format!("/volumes/{volume}/cache"), &removal)
        }
        SiteStep::CreateVolume(volume) => client.send(Method::POST, "/volumes", volume),
        SiteStep::EnableCache { volume, pool } => {
            client.send(Method::PUT, &format!("/volumes/{volume}/cache"), &CacheEnable { pool: pool.clone() })
        }
        SiteStep::SetVolume { volume, set, .. } => client.send(Method::PATCH, &format!("/volumes/{volume}"), set),
        SiteStep::RemoveSsds { pool, ssds } => return remove_ssds(client, output, pool, ssds),
    };
    done.map(|answer| warn(&answer))
}

fn added(ssds: &[String]) -> SsdsAdd {
    SsdsAdd { ssds: ssds.to_vec(), ..Default::default() }
}

/// Waits until they are empty.
fn remove_ssds(client: &Client, output: Output, pool: &str, ssds: &[String]) -> Result<(), ApiError> {
    let start = OperationStart { ssds: ssds.to_vec(), ..OperationStart::of(OperationKind::RemoveSsds, pool) };
    let operation: Operation = client.send(Method::POST, "/operations", &start)?;
    match follow(client, output, operation.id, "Emptying SSDs of")?.error {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn warn(answer: &Value) {
    for warning in answer["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        tell(&format!("warning: {warning}"));
    }
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, message)
}
