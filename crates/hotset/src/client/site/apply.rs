//! The `apply` verb: everything is checked before anything is changed; then one step after the other, and if one fails, what was done.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use hotset_api::{
    ApiError, ApiErrorKind, CacheEnable, ChangePlan, MemoryCache, MemoryCacheSet, MemoryPlan, Operation, OperationKind,
    OperationStart, PoolCreate, PoolList, PoolPlan, PoolVolume, PoolVolumes, Removal, SsdsAdd, SsdsRemove,
    VolumeCreate, VolumeList, VolumeSet,
};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::http::Client;
use super::super::operations::follow;
use super::super::print::{print, tell};
use super::file::Mistake;
use super::plan::{SettingChange, Shares, SiteStep, plan};
use super::wanted::WantedSite;
use crate::args::{ApplyArguments, Output};
use crate::size::human;

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
    let here = client.door().is_of_this_machine();
    let wanted = WantedSite::parse(&text, &|path| identity(here, path)).map_err(told)?;
    let pools: PoolList = client.get_exactly("/pools")?;
    let volumes: VolumeList = client.get_exactly("/volumes")?;
    let same = |one: &str, other: &str| one == other || identity(here, one) == identity(here, other);
    let memory_cache: Option<MemoryCache> =
        wanted.memory_cache.map(|_| client.get_exactly("/memory-cache")).transpose()?;
    let plan = plan(&wanted, &pools.pools, &volumes.volumes, memory_cache.as_ref(), &same).map_err(told)?;
    let refused = check(client, &plan.steps, here, &same)?;
    if !refused.is_empty() {
        return Err(told(refused));
    }
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

/// The one path of a file that may have several, where that can be seen.
fn identity(here: bool, path: &str) -> PathBuf {
    let known = if here { std::fs::canonicalize(path).ok() } else { None };
    known.unwrap_or_else(|| PathBuf::from(path))
}

/// What the daemon would refuse, asked of it before anything is changed; each with its line.
fn check(
    client: &Client,
    steps: &[SiteStep],
    here: bool,
    same: &dyn Fn(&str, &str) -> bool,
) -> Result<Vec<Mistake>, ApiError> {
    let mut check = Check { client, steps, here, same, tables_bytes: 0, wrong: Vec::new() };
    for step in steps {
        check.check(step)?;
    }
    check.check_promises()?;
    Ok(check.wrong)
}

/// What a volume is to have of a pool in the end.
struct PromiseWanted<'a> {
    volume: &'a str,
    pool: &'a str,
    shares: Shares,
    /// What the file says of it, and where.
    key: &'static str,
    line: usize,
}

impl PromiseWanted<'_> {
    fn of_pool(&self) -> PoolVolume {
        let Shares { cache_min, cache_max } = self.shares;
        PoolVolume { name: self.volume.to_owned(), cache_min, cache_max }
    }
}

struct Check<'a> {
    client: &'a Client,
    steps: &'a [SiteStep],
    /// The daemon's files are those of this machine.
    here: bool,
    same: &'a dyn Fn(&str, &str) -> bool,
    /// The memory that the pools, SSDs and spares take which are new in the file.
    tables_bytes: u64,
    wrong: Vec<Mistake>,
}

impl Check<'_> {
    fn check(&mut self, step: &SiteStep) -> Result<(), ApiError> {
        match step {
            SiteStep::CreatePool { pool, line } => self.check_pool(pool, *line),
            SiteStep::AddSsds { pool, ssds, allow_same_disk, line } => {
                self.ask_about_ssds("ssds", pool, (ssds, *allow_same_disk), *line)
            }
            SiteStep::AddSpares { pool, spares, allow_same_disk, line } => {
                self.ask_about_ssds("spares", pool, (spares, *allow_same_disk), *line)
            }
            SiteStep::CreateVolume { volume, line } => {
                // A pool that is made before it is not there to be asked about.
                let pool = volume.pool.clone().filter(|pool| !self.is_new(pool));
                let volume = VolumeCreate { pool, ..(**volume).clone() };
                let path = format!("/volumes/{}/plan", volume.name);
                self.ask::<ChangePlan>(&path, &volume, "backing", &format!("volume {}", volume.name), *line).map(drop)
            }
            SiteStep::SetPool { pool, set, changes, line } if !self.is_new(pool) => {
                self.ask_about_settings("pool", pool, set, changes, *line)
            }
            SiteStep::SetVolume { volume, set, changes, line, .. } => {
                // What is made or moved before is not there yet, and its settings mean something else then. Shares are looked at together.
                let set = match self.stays(volume) {
                    true => VolumeSet { cache_min: None, cache_max: None, ..*set },
                    false => VolumeSet { local: set.local, ..Default::default() },
                };
                self.ask_about_settings("volume", volume, &set, changes, *line)
            }
            SiteStep::SetPool { .. }
            | SiteStep::RemoveSpares { .. }
            | SiteStep::DisableCache { .. }
            | SiteStep::EnableCache { .. }
            | SiteStep::SetMemoryCache { .. }
            | SiteStep::RemoveSsds { .. } => Ok(()),
        }
    }

    /// New pools are looked at one by one; together they may need more memory than there is.
    fn check_pool(&mut self, pool: &PoolCreate, line: usize) -> Result<(), ApiError> {
        let subject = format!("pool {}", pool.name);
        let ssds = self.free(&pool.ssds);
        if ssds.len() < pool.ssds.len() {
            // What is a spare somewhere now cannot be asked about, nor a pool without it.
            return Ok(());
        }
        let Some(plan) = self.ask::<PoolPlan>("/pools/plan", pool, "ssds", &subject, line)? else { return Ok(()) };
        let in_use_bytes = plan.memory_in_use_bytes;
        let more_bytes = self.memory_with_spares(pool)?.unwrap_or(plan.memory_bytes);
        self.add_tables(&subject, MemoryPlan { more_bytes, in_use_bytes, limit_bytes: plan.memory_limit_bytes }, line);
        Ok(())
    }

    /// Spares count like SSDs from the beginning. `None`: it has none, or what is wrong with them is found when they are added.
    fn memory_with_spares(&self, pool: &PoolCreate) -> Result<Option<u64>, ApiError> {
        let spares = self.steps.iter().find_map(|step| {
            let SiteStep::AddSpares { pool: of, spares, .. } = step else { return None };
            (*of == pool.name).then(|| self.free(spares))
        });
        let Some(spares) = spares else { return Ok(None) };
        let with_spares = PoolCreate { ssds: [pool.ssds.clone(), spares].concat(), ..pool.clone() };
        match self.client.send::<PoolPlan>(Method::POST, "/pools/plan", &with_spares) {
            Ok(plan) => Ok(Some(plan.memory_bytes)),
            Err(error) if concerns_the_daemon(error.kind) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// The memory of what the file adds is summed up: each step alone may have it, and all together may not.
    fn add_tables(&mut self, subject: &str, memory: MemoryPlan, line: usize) {
        let MemoryPlan { more_bytes, in_use_bytes, limit_bytes } = memory;
        self.tables_bytes += more_bytes;
        let needed_bytes = in_use_bytes + self.tables_bytes;
        if needed_bytes > limit_bytes {
            let (needed, limit) = (human(needed_bytes), human(limit_bytes));
            let message =
                format!("{subject}: the tables of all pools would need {needed} of memory, and may have {limit}");
            self.wrong.push(Mistake::new(line, message));
        }
    }

    fn ask_about_ssds(
        &mut self,
        key: &str,
        pool: &str,
        (ssds, allow_same_disk): (&[String], bool),
        line: usize,
    ) -> Result<(), ApiError> {
        if self.is_new(pool) {
            // A pool that is made before is not there to be asked about.
            let missing =
                ssds.iter().filter(|_| self.here).filter_map(|ssd| Some((ssd, std::fs::metadata(ssd).err()?)));
            let told =
                missing.map(|(ssd, error)| Mistake::new(line, format!("{key} of pool {pool}: SSD {ssd}: {error}")));
            self.wrong.extend(told);
            return Ok(());
        }
        let ssds = self.free(ssds);
        if ssds.is_empty() {
            return Ok(());
        }
        let (path, subject) = (format!("/pools/{pool}/{key}/plan"), format!("pool {pool}"));
        let plan = self.ask::<ChangePlan>(&path, &added(&ssds, allow_same_disk), key, &subject, line)?;
        if let Some(memory) = plan.and_then(|plan| plan.memory) {
            self.add_tables(&subject, memory, line);
        }
        Ok(())
    }

    fn ask_about_settings(
        &mut self,
        what: &str,
        name: &str,
        set: &impl Serialize,
        changes: &[SettingChange],
        line: usize,
    ) -> Result<(), ApiError> {
        let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
        let (path, subject) = (format!("/{what}s/{name}/settings/plan"), format!("{what} {name}"));
        self.ask::<ChangePlan>(&path, set, &keys.join(", "), &subject, line).map(drop)
    }

    /// What each pool would have promised to its volumes in the end. If that is too much, those that come or change are asked about one after
    /// the other, together with those before them: who is refused has the line.
    fn check_promises(&mut self) -> Result<(), ApiError> {
        let steps = self.steps;
        let wanted: Vec<PromiseWanted<'_>> = steps.iter().filter_map(|step| self.promise_wanted(step)).collect();
        // Of a pool that is made before, or gets SSDs, what it has then is not known yet.
        let is_known = |pool: &&str| !self.is_new(pool) && !self.gets_ssds(pool);
        let pools: BTreeSet<&str> = wanted.iter().map(|one| one.pool).filter(is_known).collect();
        for pool in pools {
            let leaves = |step: &'_ SiteStep| {
                let SiteStep::DisableCache { volume, pool: from } = step else { return None };
                (from == pool).then(|| volume.clone())
            };
            let leave: Vec<String> = steps.iter().filter_map(leaves).collect();
            let of_pool: Vec<&PromiseWanted<'_>> = wanted.iter().filter(|promise| promise.pool == pool).collect();
            if self.promises(pool, &leave, &of_pool, &[])?.is_ok() {
                continue;
            }
            for asked in 1..=of_pool.len() {
                let (known, later) = of_pool.split_at(asked);
                let PromiseWanted { volume, key, line, .. } = known[asked - 1];
                if let Err(error) = self.promises(pool, &leave, known, later)? {
                    self.note(&error, key, &format!("volume {volume}"), *line);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Asks whether a pool could keep what it would have promised to `known`, with neither `leave` nor `later` in it.
    fn promises(
        &self,
        pool: &str,
        leave: &[String],
        known: &[&PromiseWanted<'_>],
        later: &[&PromiseWanted<'_>],
    ) -> Result<Result<(), ApiError>, ApiError> {
        let later = later.iter().map(|promise| promise.volume.to_owned());
        let volumes = PoolVolumes {
            leave: leave.iter().cloned().chain(later).collect(),
            stay: known.iter().map(|promise| promise.of_pool()).collect(),
        };
        match self.client.send::<ChangePlan>(Method::POST, &format!("/pools/{pool}/volumes/plan"), &volumes) {
            Ok(_) => Ok(Ok(())),
            // A daemon of an earlier version cannot be asked.
            Err(error) if error.kind == ApiErrorKind::NotFound => Ok(Ok(())),
            Err(error) if concerns_the_daemon(error.kind) => Err(error),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Of the step that brings a volume to a pool, or changes what it has there.
    fn promise_wanted<'s>(&self, step: &'s SiteStep) -> Option<PromiseWanted<'s>> {
        let comes = |volume, pool, before: Shares, key, line| {
            let one = PromiseWanted { volume, pool, shares: before, key, line };
            match self.steps.iter().find_map(|step| shares_set(step, volume)) {
                Some((set, line)) => PromiseWanted { shares: before.changed_by(set), key: SHARES, line, ..one },
                None => one,
            }
        };
        if let SiteStep::CreateVolume { volume, line } = step {
            return Some(comes(volume.name.as_str(), volume.pool.as_deref()?, Shares::default(), "pool", *line));
        }
        if let SiteStep::EnableCache { volume, pool, shares, line } = step {
            return Some(comes(volume, pool, *shares, "pool", *line));
        }
        let SiteStep::SetVolume { volume, pool, before, .. } = step else { return None };
        let (_, line) = shares_set(step, volume).filter(|_| self.stays(volume))?;
        Some(comes(volume, pool.as_deref()?, *before, SHARES, line))
    }

    /// `None`: it would be refused, which is noted. An error: the daemon cannot be asked.
    fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
        request: &impl Serialize,
        key: &str,
        subject: &str,
        line: usize,
    ) -> Result<Option<T>, ApiError> {
        match self.client.send(Method::POST, path, request) {
            Ok(plan) => Ok(Some(plan)),
            Err(error) if concerns_the_daemon(error.kind) => Err(error),
            Err(error) => {
                self.note(&error, key, subject, line);
                Ok(None)
            }
        }
    }

    fn note(&mut self, error: &ApiError, key: &str, subject: &str, line: usize) {
        let hint = if error.hint.is_empty() { String::new() } else { format!("; {}", error.hint) };
        self.wrong.push(Mistake::new(line, format!("{key} of {subject}: {}{hint}", error.message)));
    }

    fn is_new(&self, pool: &str) -> bool {
        self.steps.iter().any(|step| matches!(step, SiteStep::CreatePool { pool: new, .. } if new.name == pool))
    }

    fn gets_ssds(&self, pool: &str) -> bool {
        self.steps.iter().any(|step| matches!(step, SiteStep::AddSsds { pool: larger, .. } if larger == pool))
    }

    /// The volume is there, and keeps its pool.
    fn stays(&self, name: &str) -> bool {
        !self.steps.iter().any(|step| match step {
            SiteStep::CreateVolume { volume, .. } => volume.name == name,
            SiteStep::DisableCache { volume, .. } | SiteStep::EnableCache { volume, .. } => volume == name,
            SiteStep::CreatePool { .. }
            | SiteStep::SetPool { .. }
            | SiteStep::AddSsds { .. }
            | SiteStep::AddSpares { .. }
            | SiteStep::RemoveSpares { .. }
            | SiteStep::SetVolume { .. }
            | SiteStep::SetMemoryCache { .. }
            | SiteStep::RemoveSsds { .. } => false,
        })
    }

    /// Without those that are spares now and leave before.
    fn free(&self, ssds: &[String]) -> Vec<String> {
        ssds.iter().filter(|ssd| !self.leaves_as_spare(ssd)).cloned().collect()
    }

    fn leaves_as_spare(&self, path: &str) -> bool {
        let leaves = |step: &SiteStep| matches!(step, SiteStep::RemoveSpares { spares, .. } if spares.iter().any(|spare| (self.same)(spare, path)));
        self.steps.iter().any(leaves)
    }
}

/// The keys of shares.
const SHARES: &str = "cache-min, cache-max";

/// What a step sets of a volume's shares, and the line that says so.
fn shares_set<'s>(step: &'s SiteStep, name: &str) -> Option<(&'s VolumeSet, usize)> {
    let SiteStep::SetVolume { volume, set, line, .. } = step else { return None };
    let changes = set.cache_min.is_some() || set.cache_max.is_some();
    (volume == name && changes).then_some((set, *line))
}

/// It says nothing about what was asked.
fn concerns_the_daemon(kind: ApiErrorKind) -> bool {
    matches!(
        kind,
        ApiErrorKind::Unauthenticated | ApiErrorKind::Forbidden | ApiErrorKind::Unavailable | ApiErrorKind::Internal
    )
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
        SiteStep::CreatePool { pool, .. } => client.send(Method::POST, "/pools", pool),
        SiteStep::SetPool { pool, set, .. } => client.send(Method::PATCH, &format!("/pools/{pool}"), set),
        SiteStep::AddSsds { pool, ssds, allow_same_disk, .. } => {
            client.send(Method::POST, &format!("/pools/{pool}/ssds"), &added(ssds, *allow_same_disk))
        }
        SiteStep::AddSpares { pool, spares, allow_same_disk, .. } => {
            client.send(Method::POST, &format!("/pools/{pool}/spares"), &added(spares, *allow_same_disk))
        }
        SiteStep::SetMemoryCache { size_bytes, .. } => {
            client.send(Method::PUT, "/memory-cache", &MemoryCacheSet { size_bytes: *size_bytes })
        }
        SiteStep::RemoveSpares { pool, spares } => {
            client.send(Method::DELETE, &format!("/pools/{pool}/spares"), &SsdsRemove { ssds: spares.clone() })
        }
        SiteStep::DisableCache { volume, .. } => {
            let removal = Removal { force: false, lose_data: false };
            client.send(Method::DELETE, &format!("/volumes/{volume}/cache"), &removal)
        }
        SiteStep::CreateVolume { volume, .. } => client.send(Method::POST, "/volumes", volume),
        SiteStep::EnableCache { volume, pool, .. } => {
            client.send(Method::PUT, &format!("/volumes/{volume}/cache"), &CacheEnable { pool: pool.clone() })
        }
        SiteStep::SetVolume { volume, set, .. } => client.send(Method::PATCH, &format!("/volumes/{volume}"), set),
        SiteStep::RemoveSsds { pool, ssds } => return remove_ssds(client, output, pool, ssds),
    };
    done.map(|answer| warn(&answer))
}

fn added(ssds: &[String], allow_same_disk: bool) -> SsdsAdd {
    SsdsAdd { ssds: ssds.to_vec(), allow_same_disk, ..Default::default() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Answers, ApiDoor, Credentials};

    // proves: O2, P14
    #[test]
    fn what_each_pool_alone_has_the_memory_for_and_all_together_have_not_is_told_where_it_gets_too_much() {
        let credentials = Credentials::new(None, None, None).unwrap();
        let answers = Answers { limit: None, for_people: false };
        let client = Client::new(ApiDoor::new("unix:/nobody".parse().unwrap(), credentials, answers).unwrap()).unwrap();
        let same = |one: &str, other: &str| one == other;
        let mut check =
            Check { client: &client, steps: &[], here: true, same: &same, tables_bytes: 0, wrong: Vec::new() };
        let memory = MemoryPlan { more_bytes: 40, in_use_bytes: 20, limit_bytes: 100 };
        for (pool, line) in [("pool a", 2), ("pool b", 4), ("pool c", 6)] {
            check.add_tables(pool, memory, line);
        }
        let told: Vec<(usize, &str)> = check.wrong.iter().map(|wrong| (wrong.line, wrong.message.as_str())).collect();
        let expected = "pool c: the tables of all pools would need 140 B of memory, and may have 100 B";
        assert_eq!(told, [(6, expected)]);
    }
}
