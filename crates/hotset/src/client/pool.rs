//! The `pool` verbs.

use hotset_api::{
    ApiError, Deleted, LossAccepted, LossList, MemoryTerms, Operation, OperationKind, PolicyKind, Pool, PoolChange,
    PoolConvert, PoolCreate, PoolImport, PoolKind, PoolList, PoolPlan, PoolSettingsChange, WriteLog,
};
use hyper::Method;

use super::http::Client;
use super::image::fill_bar;
use super::print::{absolute, print, tell, write_out};
use super::table::{Cell, Column, Listing, Table, facts, notes, on_off};
use super::{drives, flush, members, operations, removal, scrub};
use crate::args::{ConvertArguments, Output, PoolCreateArguments, PoolVerb};
use crate::settings::pool_set;
use crate::size::{grouped, human};
use crate::words;

pub(crate) fn run(client: &Client, output: Output, columns: Vec<String>, verb: PoolVerb) -> Result<(), ApiError> {
    match verb {
        PoolVerb::Create(arguments) => create(client, output, &arguments),
        PoolVerb::List(table) => {
            let list: PoolList = client.get("/pools")?;
            let text = listed(&list.pools, &Listing { columns, table })?;
            print(output, &list, |_| text)
        }
        PoolVerb::Show { name } => print(output, &client.get::<Pool>(&format!("/pools/{name}"))?, show),
        PoolVerb::Set { name, settings } => {
            let change = client.send(Method::PATCH, &format!("/pools/{name}"), &pool_set(&settings))?;
            print(output, &change, |PoolSettingsChange { changed, pool, warnings }| {
                let done = if *changed { format!("Changed pool {name}") } else { format!("Pool {name} is already so") };
                format!("{done}\n{}{}", settings_of(pool), warned(warnings))
            })
        }
        PoolVerb::Delete { name, removal } => {
            let (path, flush) = (format!("/pools/{name}"), format!("/pools/{name}/flush"));
            let deleted: Deleted = removal::remove(client, output, &path, &flush, removal)?;
            print(output, &deleted, |deleted| format!("Deleted pool {}\n", deleted.deleted))
        }
        PoolVerb::Convert(arguments) => convert(client, output, &arguments),
        PoolVerb::Scrub { name, background } => scrub::run(client, output, name.as_str(), background),
        PoolVerb::Flush { name, flush } => flush::run(client, output, OperationKind::FlushPool, name.as_str(), &flush),
        PoolVerb::Release { name } => flush::release(client, output, "pool", name.as_str()),
        PoolVerb::CancelFlush { name } => removal::cancel(client, output, "pool", &format!("/pools/{name}/flush")),
        PoolVerb::AddSsd(arguments) => members::add(client, output, &arguments, OperationKind::AddSsds),
        PoolVerb::RemoveSsd { name, ssd, background } => {
            members::remove(client, output, name.as_str(), &ssd, background)
        }
        PoolVerb::CancelRemove { name } => members::cancel(client, output, name.as_str()),
        PoolVerb::Recover { name, accept_loss } => recover(client, output, name.as_str(), accept_loss),
        PoolVerb::AddSpare(arguments) => members::add(client, output, &arguments, OperationKind::AddSpares),
        PoolVerb::RemoveSpare { name, ssd } => members::remove_spares(client, output, name.as_str(), &ssd),
        PoolVerb::Open { name } => {
            let change: PoolChange = client.send(Method::POST, &format!("/pools/{name}/open"), &())?;
            print(output, &change, |change| match change.changed {
                true => format!("Opened pool {}\n{}", change.pool.name, show(&change.pool)),
                false => format!("Pool {} is open already\n", change.pool.name),
            })
        }
        PoolVerb::Import { ssd, accept_missing, accept_loss, force } => {
            let ssds = ssd.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
            let import = PoolImport { ssds, accept_missing, accept_loss, force };
            let change: PoolChange = client.send(Method::POST, "/pools/import", &import)?;
            print(output, &change, |change| match change.changed {
                true => format!("Imported pool {}\n{}", change.pool.name, show(&change.pool)),
                false => format!("Pool {} is open already\n", change.pool.name),
            })
        }
    }
}

fn recover(client: &Client, output: Output, name: &str, accept_loss: bool) -> Result<(), ApiError> {
    if accept_loss {
        let accepted: LossAccepted = client.send(Method::POST, &format!("/pools/{name}/losses/accept"), &())?;
        return print(output, &accepted, |accepted| {
            format!(
                "{} bytes are lost for good: they are what the backing devices hold\n",
                grouped(accepted.accepted_bytes)
            )
        });
    }
    print(output, &client.get::<LossList>(&format!("/pools/{name}/losses"))?, losses)
}

fn losses(list: &LossList) -> String {
    if list.volumes.is_empty() {
        return "Nothing is unavailable\n".to_owned();
    }
    let mut text = String::new();
    for volume in &list.volumes {
        text.push_str(&match volume.possible {
            true => format!("Volume {}: nobody knows what is lost; it may be any of this\n", volume.name),
            false => format!("Volume {}: {} bytes are unavailable\n", volume.name, grouped(volume.lost_bytes)),
        });
        for extent in &volume.extents {
            text.push_str(&format!("  {} bytes at {}\n", grouped(extent.length), grouped(extent.offset)));
        }
    }
    if list.volumes.iter().any(|volume| !volume.possible) {
        text.push_str("They answer errors until an SSD that has them is back (`hotset pool show` names those that are away), they are written \
             again, or the loss is accepted with --accept-loss\n",
        );
    }
    if list.volumes.iter().any(|volume| volume.possible) {
        text.push_str(
            "A volume of which nobody knows what is lost serves nothing until that is accepted with --accept-loss\n",
        );
    }
    text
}

fn create(client: &Client, output: Output, arguments: &PoolCreateArguments) -> Result<(), ApiError> {
    let request = PoolCreate {
        name: arguments.name.to_string(),
        kind: words::pool_kind(arguments.kind),
        io_type: words::io_type(arguments.io_type),
        block_size_bytes: arguments.block_size,
        populate_on_read: arguments.populate_on_read,
        populate_on_write: arguments.populate_on_write,
        policy: arguments.policy.map(words::policy),
        checksums: arguments.checksums,
        ssds: arguments.ssd.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?,
        force: arguments.force,
        allow_same_disk: arguments.allow_same_disk,
    };
    let plan: PoolPlan = client.send(Method::POST, "/pools/plan", &request)?;
    if arguments.dry_run {
        return print(output, &plan, |plan| show_plan(plan, &request.ssds));
    }
    if output == Output::Text {
        write_out(&format!("Memory: {}\n", memory(&plan)))?;
    }
    let bar = fill_bar(plan.bytes_to_write_first, "Writing sparse SSD images in full");
    let pool: Pool = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch_work(client, &bar, plan.bytes_to_write_first));
        let name = request.name.as_str();
        let pool = operations::send_cancellable(client, OperationKind::CreatePool, name, "/pools", &request);
        bar.finish_and_clear();
        watcher.join().expect("the watcher only draws");
        pool
    })?;
    // What lasts is shown with the pool.
    for warning in plan.warnings.iter().filter(|warning| !pool.warnings.contains(warning)) {
        tell(&format!("warning: {warning}"));
    }
    print(output, &pool, |pool| format!("Created pool {}\n{}", pool.name, show(pool)))
}

fn convert(client: &Client, output: Output, arguments: &ConvertArguments) -> Result<(), ApiError> {
    let name = &arguments.name;
    let request = PoolConvert {
        kind: arguments.kind.map(words::pool_kind),
        block_size_bytes: arguments.block_size,
        checksums: arguments.checksums,
        allow_same_disk: arguments.allow_same_disk,
    };
    let path = format!("/pools/{name}/conversion");
    if arguments.dry_run {
        let pool: Pool = client.get(&format!("/pools/{name}"))?;
        let ssds: Vec<String> = pool.ssds.into_iter().filter(|ssd| ssd.online).map(|ssd| ssd.path).collect();
        let plan: PoolPlan = client.send(Method::POST, &format!("{path}/plan"), &request)?;
        return print(output, &plan, |plan| show_plan(plan, &ssds));
    }
    let operation: Operation = client.send(Method::POST, &path, &request)?;
    if arguments.background {
        return print(output, &operation, |operation| {
            format!("Operation {} converts pool {name}: `hotset operations` shows how far it is\n", operation.id)
        });
    }
    let ended = operations::follow(client, output, operation.id, "Flushing")?;
    if let Some(error) = ended.error {
        return Err(error);
    }
    let pool: Pool = client.get(&format!("/pools/{name}"))?;
    print(output, &pool, |pool| {
        let (kind, block) = (words::engine_pool_kind(pool.kind), human(pool.block_size_bytes));
        format!(
            "Pool {name} is a {kind} pool with a cache block of {block} now, checksums {}\n",
            on_off(pool.checksums)
        )
    })
}

/// Follows the daemon's work until the bar is finished.
fn watch_work(client: &Client, bar: &indicatif::ProgressBar, total_bytes: u64) {
    if total_bytes == 0 {
        return;
    }
    let Ok(watcher) = Client::new(client.door().clone()) else { return };
    while !bar.is_finished() {
        if let Ok(status) = watcher.get::<hotset_api::Status>("/status") {
            bar.set_position(status.work.iter().map(|work| work.done_bytes).sum());
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

fn show_plan(plan: &PoolPlan, ssds: &[String]) -> String {
    let mut text = facts(&[
        ("Pool", format!("{} (not made: dry run)", plan.name)),
        ("Type", words::engine_pool_kind(plan.kind).to_string()),
        ("Capacity", capacity(plan.kind, plan.capacity_bytes, plan.capacity_min_bytes)),
        ("Dirty capacity", dirty_capacity(plan)),
        ("Slots", format!("{} of {}", grouped(plan.slots), human(plan.block_size_bytes))),
        ("Segments", human(plan.segment_bytes)),
        ("Thresholds", format!("populate on read {}, on write {}", plan.populate_on_read, plan.populate_on_write)),
        ("Policy", words::engine_policy(plan.policy).to_string()),
        ("Checksums", on_off(plan.checksums)),
        ("Memory", memory(plan)),
    ]);
    text.push_str(&format!("\n{}\n", memory_terms(plan)));
    let mut table = Table::new(&["SSD", ">CAPACITY"]);
    for (path, capacity) in ssds.iter().zip(&plan.ssd_capacity_bytes) {
        table.row(vec![path.clone(), human(*capacity)]);
    }
    text.push_str(&table.render());
    if plan.bytes_to_write_first > 0 {
        text.push_str(&format!("{} of sparse images are written in full first\n", human(plan.bytes_to_write_first)));
    }
    text.push_str(&warned(&plan.warnings));
    text
}

fn warned(warnings: &[String]) -> String {
    warnings.iter().map(|warning| format!("warning: {warning}\n")).collect()
}

fn memory(plan: &PoolPlan) -> String {
    let [needed, in_use, limit] = [plan.memory_bytes, plan.memory_in_use_bytes, plan.memory_limit_bytes].map(human);
    format!("{needed} needed when it is full; {in_use} of at most {limit} are for other pools")
}

/// How the memory adds up.
fn memory_terms(plan: &PoolPlan) -> String {
    let MemoryTerms { slots, slot_pages, checksums, dirty_pages } = plan.memory_terms;
    let mut table = Table::new(&["MEMORY FOR", ">COUNT", ">BYTES EACH", ">BYTES"]);
    let terms = [
        ("slots", slots),
        ("pages of slots", slot_pages),
        ("checksums of these pages", checksums),
        ("dirty pages, at random places", dirty_pages),
    ];
    for (what, term) in terms.into_iter().filter(|(_, term)| term.count > 0) {
        let each = format!("{:.3}", term.bytes_each);
        table.row(vec![what.to_owned(), grouped(term.count), each, grouped(term.bytes)]);
    }
    table.row(vec!["all of it".to_owned(), String::new(), String::new(), grouped(plan.memory_bytes)]);
    table.render()
}

/// What clean data has, and what of it the write log leaves when it is longest.
fn capacity(kind: PoolKind, bytes: u64, min_bytes: u64) -> String {
    match kind {
        PoolKind::Read => human(bytes),
        PoolKind::ReadWrite => {
            format!("{}, of which clean data has {} however much is dirty", human(bytes), human(min_bytes))
        }
    }
}

fn ssd_writes(pool: &Pool) -> String {
    let stopped = if pool.populating_stopped { ": nothing more is populated" } else { "" };
    let written = human(pool.ssd_written_day_bytes);
    match pool.ssd_writes_per_day_bytes {
        Some(limit) => format!("{written} in the last 24 hours, of {}{stopped}", human(limit)),
        None => format!("{written} in the last 24 hours, without a limit"),
    }
}

fn dirty_capacity(plan: &PoolPlan) -> String {
    match plan.kind {
        PoolKind::Read => String::new(),
        PoolKind::ReadWrite => format!(
            "{} of dirty data at once, on two SSDs each; at most {} of the memory is for that",
            human(plan.dirty_capacity_bytes),
            human(plan.dirty_memory_bytes)
        ),
    }
}

pub(super) const COLUMNS: &[Column<Pool>] = &[
    Column::new("POOL", |pool| Cell::Text(pool.name.clone())),
    Column::new("TYPE", |pool| Cell::Text(words::engine_pool_kind(pool.kind).to_string())),
    Column::new("STATE", |pool| Cell::Text(pool.state.word().to_owned())),
    Column::new("HEALTH", |pool| Cell::Text(pool.health.word().to_owned())),
    Column::new(">CAPACITY", |pool| Cell::Bytes(pool.capacity_bytes)),
    Column::new(">USED", |pool| Cell::Bytes(pool.used_bytes)),
    Column::new(">DIRTY", |pool| pool.write_log.map_or(Cell::Nothing, |log| Cell::Bytes(log.dirty_bytes))),
    Column::new(">SSDS", |pool| count(pool.ssds.len())),
    Column::new(">VOLUMES", |pool| count(pool.volumes.len())),
];

fn count(count: usize) -> Cell {
    Cell::Count(u64::try_from(count).unwrap_or(u64::MAX))
}

/// The list of pools, and below it why a pool is not good, and what to do.
fn listed(pools: &[Pool], listing: &Listing) -> Result<String, ApiError> {
    let mut text = listing.render(COLUMNS, pools, "No pools\n")?;
    if listing.is_plain() {
        text.extend(pools.iter().map(|pool| notes(&pool.name, &[&pool.reason, &pool.action])));
    }
    Ok(text)
}

fn settings_of(pool: &Pool) -> String {
    facts(&[
        ("I/O type", words::engine_io_type(pool.io_type).to_string()),
        ("Policy", policy(pool)),
        ("Populate on read", pool.populate_on_read.to_string()),
        ("Populate on write", or_never(pool.populate_on_write)),
        ("Fetch rate", words::engine_fetch_rate(pool.fetch_rate).to_string()),
        ("Flush rate", of_read_write(pool, words::engine_flush_rate(pool.flush_rate).to_string())),
        ("Dirty watermark", of_read_write(pool, format!("{} %", pool.dirty_watermark_percent))),
        ("Dirty age", of_read_write(pool, format!("{} s", pool.dirty_age_max_seconds))),
        ("Written to SSDs", ssd_writes(pool)),
    ])
}

/// Shown only where it has a meaning.
fn of_read_write(pool: &Pool, value: String) -> String {
    match pool.kind {
        PoolKind::Read => String::new(),
        PoolKind::ReadWrite => value,
    }
}

fn or_never(count: u8) -> String {
    if count == 0 { "0 (never)".to_owned() } else { count.to_string() }
}

/// And what `auto` follows, and why.
fn policy(pool: &Pool) -> String {
    let word = |policy| words::engine_policy(policy).word();
    let why = if pool.policy_reason.is_empty() { String::new() } else { format!(": {}", pool.policy_reason) };
    match pool.policy {
        PolicyKind::Auto => format!("auto, follows {}{why}", word(pool.policy_followed)),
        PolicyKind::S3Fifo | PolicyKind::TwoQ | PolicyKind::Lru | PolicyKind::Fifo => word(pool.policy).to_owned(),
    }
}

fn show(pool: &Pool) -> String {
    let mut text = facts(&[
        ("Pool", pool.name.clone()),
        ("UUID", pool.uuid.clone()),
        ("Type", words::engine_pool_kind(pool.kind).to_string()),
        ("I/O type", words::engine_io_type(pool.io_type).to_string()),
        ("State", pool.state.word().to_owned()),
        ("Health", pool.health.word().to_owned()),
        ("Reason", pool.reason.clone()),
        ("What to do", pool.action.clone()),
        ("Cache block", human(pool.block_size_bytes)),
        ("Policy", policy(pool)),
        ("Populate on read", pool.populate_on_read.to_string()),
        ("Populate on write", or_never(pool.populate_on_write)),
        ("Fetch rate", words::engine_fetch_rate(pool.fetch_rate).to_string()),
        ("Flush rate", of_read_write(pool, words::engine_flush_rate(pool.flush_rate).to_string())),
        ("Dirty watermark", of_read_write(pool, format!("{} %", pool.dirty_watermark_percent))),
        ("Dirty age", of_read_write(pool, format!("{} s", pool.dirty_age_max_seconds))),
        ("Checksums", on_off(pool.checksums)),
        ("Written to SSDs", ssd_writes(pool)),
        ("Capacity", capacity(pool.kind, pool.capacity_bytes, pool.capacity_min_bytes)),
        ("Used", human(pool.used_bytes)),
        ("Slots", format!("{} of {} in use", grouped(pool.slots_used), grouped(pool.slots))),
        ("Memory", human(pool.memory_bytes)),
        ("Data at risk", pool.write_log.map_or_else(String::new, data_at_risk)),
        ("Write log", pool.write_log.map_or_else(String::new, write_log)),
        ("Rebuilding", pool.rebuild.map_or_else(String::new, |rebuild| members::line(&rebuild))),
        ("Scrub", words::last_scrub(pool.scrub)),
        ("Recovery", pool.recovery.clone()),
        ("Volumes", pool.volumes.join(", ")),
    ]);
    text.push_str(&warned(&pool.warnings));
    text.push('\n');
    let mut table = Table::new(&["SSD", ">SIZE", "STATE", ">SLOTS USED", ">READ ERRORS", ">WRITTEN", "REASON"]);
    for ssd in &pool.ssds {
        table.row(vec![
            ssd.path.clone(),
            human(ssd.size_bytes),
            ssd.state.word().to_owned(),
            format!("{}/{}", grouped(ssd.slots_used), grouped(ssd.slots)),
            grouped(ssd.read_errors),
            human(ssd.written_bytes),
            ssd.evacuation.map_or_else(|| ssd.reason.clone(), |evacuation| members::line(&evacuation)),
        ]);
    }
    text.push_str(&table.render());
    text.extend(pool.ssds.iter().map(|ssd| notes(&ssd.path, &[&ssd.action])));
    text.push('\n');
    text.push_str(&drives::table(&pool.ssds));
    if !pool.spares.is_empty() {
        text.push('\n');
        text.push_str(&members::table(&pool.spares));
    }
    text
}

fn data_at_risk(log: WriteLog) -> String {
    let off = if log.write_caching_off { "; new writes go past the cache: two copies cannot be kept" } else { "" };
    format!(
        "{} of at most {} are not on the backing devices{off}",
        human(log.dirty_bytes),
        human(log.dirty_capacity_bytes)
    )
}

fn write_log(log: WriteLog) -> String {
    format!(
        "{} of SSDs in {} rows, {} of newest data; the last start read {} of it in {} ms",
        human(log.log_bytes),
        grouped(log.rows),
        human(log.live_bytes),
        human(log.recovered_bytes),
        grouped(log.recovery_ms)
    )
}
