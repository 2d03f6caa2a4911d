//! The verbs `advise` and `whatif` for volumes: what caches of other sizes would do, as the daemon has watched.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use hotset_api::{
    Advice, AdviceList, AdvisedDays, AdvisedPool, AdvisedSize, ApiError, ApiErrorKind, LiveWhatIf, LiveWhatIfPool,
    Volume,
};
use hotset_cache::date_and_time;

use super::drawing::{Drawn, Marks, drawing};
use super::http::Client;
use super::print::print;
use super::table::{Table, facts};
use super::trace::{TraceFile, record};
use crate::advice::default_sizes;
use crate::args::{AdviseArguments, Output, WhatIfArguments};
use crate::size::{Endurance, Size, grouped, human, percent, whole_bytes};
use crate::words;

/// A volume that was opened just now is not known yet: how often it is asked about, and in what time again.
const SETUP_QUESTIONS_MAX: u32 = 8;
const SETUP_INTERVAL: Duration = Duration::from_millis(250);
/// What is recorded for `whatif` takes no more of the temporary directory.
const WATCHED_BYTES_MAX: u64 = 1 << 30;

/// Refuses what only a trace can be asked for.
pub(crate) fn check_advise(arguments: &AdviseArguments) -> Result<(), ApiError> {
    let of_a_trace = [
        ("--block-size", arguments.block_size.is_some()),
        ("--type", arguments.kind.is_some()),
        ("--populate-on-read", arguments.populate_on_read.is_some()),
        ("--cutoff", arguments.cutoff.is_some()),
    ];
    if let Some((option, _)) = of_a_trace.iter().find(|(_, is_given)| *is_given) {
        return Err(invalid(format!(
            "{option} is for a trace: a volume is watched with the settings of its pool, or with default ones; see hotset trace record"
        )));
    }
    Ok(())
}

/// All volumes, or one.
pub(crate) fn advise(client: &Client, output: Output, arguments: &AdviseArguments) -> Result<(), ApiError> {
    let window = arguments.window.map_or("week", hotset_api::AdviceWindow::word);
    let endurance =
        arguments.endurance.map_or_else(String::new, |Endurance(bytes)| format!("&endurance_bytes={bytes}"));
    let query = format!("window={window}{endurance}");
    let Some(name) = &arguments.source else {
        let list: AdviceList = client.get(&format!("/advisor?{query}"))?;
        return print(output, &list, |list| all_text(list, arguments.days));
    };
    let advice: Advice = client.get(&format!("/volumes/{name}/advisor?{query}")).map_err(or_a_file)?;
    print(output, &advice, |advice| text(advice, arguments.days))
}

/// The same of `whatif`.
pub(crate) fn check_whatif(arguments: &WhatIfArguments) -> Result<(), ApiError> {
    if arguments.exact || arguments.cutoff.is_some() {
        return Err(invalid("--exact and --cutoff are for a trace, or for --seconds".to_owned()));
    }
    Ok(())
}

/// Other sizes of a volume's pool, as far as they are known.
pub(crate) fn whatif(client: &Client, output: Output, arguments: &WhatIfArguments) -> Result<(), ApiError> {
    let name = &arguments.source;
    let window = arguments.window.map_or("week", hotset_api::AdviceWindow::word);
    let sizes = if arguments.size.is_empty() {
        let known: Advice = client.get(&format!("/volumes/{name}/advisor?window={window}")).map_err(or_a_file)?;
        let block_bytes = arguments.block_size.iter().copied().max().unwrap_or(known.setup.block_bytes);
        default_sizes(known.footprint_bytes, block_bytes)
    } else {
        arguments.size.iter().map(|Size(bytes)| *bytes).collect()
    };
    let sizes = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut all: Option<LiveWhatIf> = None;
    for query in queries(arguments) {
        let path = format!("/volumes/{name}/whatif?sizes={sizes}&window={window}{query}");
        let part: LiveWhatIf = client.get(&path).map_err(or_a_file)?;
        match &mut all {
            Some(all) => all.pools.extend(part.pools),
            None => all = Some(part),
        }
    }
    print(output, &all.expect("there is a combination"), whatif_text)
}

/// What hosts asked of a volume, for `whatif` to go through.
pub(crate) struct Watched {
    requests: File,
    /// What it is of.
    pub(crate) called: String,
    /// How long it took.
    pub(crate) time: Duration,
    /// Why it took less than was asked for; `None`: it did not.
    pub(crate) ended_early: Option<&'static str>,
    /// With what the volume is like where nothing was said.
    pub(crate) arguments: WhatIfArguments,
}

impl Watched {
    /// Where the requests can be read from, for as long as this is there.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.requests.as_raw_fd()))
    }
}

/// Records what hosts ask of a volume for `seconds`, unless `check` refuses what is asked for: afterwards it would be late.
pub(crate) fn watch(
    client: &Client,
    output: Output,
    arguments: &WhatIfArguments,
    seconds: u64,
    check: impl FnOnce(&WhatIfArguments) -> Result<(), ApiError>,
) -> Result<Watched, ApiError> {
    let name = &arguments.source;
    let arguments = with_setup(client, arguments)?;
    check(&arguments)?;
    let mut file = TraceFile::nameless(WATCHED_BYTES_MAX)?;
    let (ended, elapsed) = record(client, output, name, &mut file, Duration::from_secs(seconds))?;
    if file.requests == 0 {
        let message = format!("volume {name}: hosts asked nothing of it for {} s", elapsed.as_secs());
        return Err(ApiError::new(ApiErrorKind::Refused, message));
    }
    let called = format!("volume {name}, {} s", elapsed.as_secs());
    let ended_early = ended.early();
    Ok(Watched { requests: file.into_file(), called, time: elapsed, ended_early, arguments })
}

/// What is asked for, with what the volume is like where nothing was said.
fn with_setup(client: &Client, arguments: &WhatIfArguments) -> Result<WhatIfArguments, ApiError> {
    let name = &arguments.source;
    let volume: Volume = client.get(&format!("/volumes/{name}")).map_err(or_a_file)?;
    let mut arguments = arguments.clone();
    arguments.cutoff = arguments.cutoff.or(Some(volume.read_cutoff_bytes.unwrap_or(0)));
    let setup = || client.get::<Advice>(&format!("/volumes/{name}/advisor?window=all")).ok().map(|advice| advice.setup);
    let asked_again = || {
        std::thread::sleep(SETUP_INTERVAL);
        setup()
    };
    if let Some(setup) = setup().or_else(|| (0..SETUP_QUESTIONS_MAX).find_map(|_| asked_again())) {
        as_watched(&mut arguments, &setup);
    }
    Ok(arguments)
}

/// What was not said is as the volume's pool is set.
fn as_watched(arguments: &mut WhatIfArguments, setup: &AdvisedPool) {
    let own = words::engine_pool_kind(setup.r#type);
    if *arguments.kind.get_or_insert(own) == own && arguments.populate_on_write.is_empty() {
        arguments.populate_on_write.push(setup.populate_on_write);
    }
    if arguments.block_size.is_empty() {
        arguments.block_size.push(setup.block_bytes);
    }
    if arguments.policy.is_empty() {
        arguments.policy.push(words::engine_policy(setup.policy));
    }
    if arguments.populate_on_read.is_empty() {
        arguments.populate_on_read.push(setup.populate_on_read);
    }
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, message)
}

/// Somebody may have meant a file.
fn or_a_file(error: ApiError) -> ApiError {
    if error.kind != ApiErrorKind::NotFound {
        return error;
    }
    ApiError { message: format!("{}; there is no file of this name either", error.message), ..error }
}

/// Every combination of the settings that were given.
fn queries(arguments: &WhatIfArguments) -> Vec<String> {
    let mut queries = vec![arguments.kind.map_or_else(String::new, |kind| format!("&type={}", kind.word()))];
    let lists = [
        ("block_bytes", arguments.block_size.iter().map(ToString::to_string).collect::<Vec<_>>()),
        ("policy", arguments.policy.iter().map(|policy| policy.word().to_owned()).collect()),
        ("populate_on_read", arguments.populate_on_read.iter().map(ToString::to_string).collect()),
        ("populate_on_write", arguments.populate_on_write.iter().map(ToString::to_string).collect()),
    ];
    for (key, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
        let with = |query: &String| values.iter().map(|value| format!("{query}&{key}={value}")).collect::<Vec<_>>();
        queries = queries.iter().flat_map(with).collect();
    }
    queries
}

fn all_text(list: &AdviceList, with_days: bool) -> String {
    if list.volumes.is_empty() {
        return "Nothing is known of any volume yet: they are watched while they are open\n".to_owned();
    }
    let mut parts: Vec<String> = list.volumes.iter().map(|advice| text(advice, with_days)).collect();
    if with_days && list.volumes.len() > 1 {
        parts.push(format!("All volumes\n{}", days_text(&list.days)));
    }
    parts.join("\n")
}

fn text(advice: &Advice, with_days: bool) -> String {
    let AdvisedPool { r#type, block_bytes, policy, populate_on_read, .. } = advice.setup;
    let of = advice.pool.as_ref().map_or_else(|| "no pool; curve of a".to_owned(), |pool| format!("{pool}, a"));
    let pool = format!(
        "{of} {} pool, {}, blocks of {}, populate-on-read {populate_on_read}",
        words::engine_pool_kind(r#type).word(),
        words::engine_policy(policy).word(),
        human(block_bytes)
    );
    let [from, to] = [advice.from_unix_seconds, advice.to_unix_seconds].map(date_and_time);
    let [reads, stream_reads, writes] = [advice.reads, advice.stream_reads, advice.writes].map(grouped);
    let accesses = format!("{reads} reads, {stream_reads} of them of streams, {writes} writes (parts of blocks)");
    let known = facts(&[
        ("Volume", format!("{}, {}", advice.volume, human(advice.size_bytes))),
        ("Pool", pool),
        ("Watched", format!("{from} to {to}, {} of the blocks", percent(advice.sample))),
        ("Accesses", accesses),
        ("Accessed", human(advice.footprint_bytes)),
    ]);
    if with_days {
        return format!("{known}\n{}", days_text(&advice.days));
    }
    let drawn = |size: &AdvisedSize| Drawn {
        size_bytes: size.size_bytes,
        hit_ratio: size.hit_ratio,
        lru_hit_ratio: size.lru_hit_ratio,
    };
    let curve: Vec<Drawn> = advice.curve.iter().map(drawn).collect();
    let [recommended, present] =
        [&advice.recommended, &advice.present].map(|size| size.as_ref().map(|size| size.size_bytes));
    let drawing = if curve.is_empty() { String::new() } else { drawing(&curve, Marks { recommended, present }) };
    format!("{known}\n{drawing}\n{}\n", advice.sentence)
}

fn days_text(days: &AdvisedDays) -> String {
    let mut table = Table::new(&["DAY", ">READ", ">WRITTEN", ">READ AGAIN"]);
    for day in &days.days {
        let date = date_and_time(day.begins_unix_seconds);
        let date = date.split(['T', ' ']).next().unwrap_or_default().to_owned();
        table.row(vec![date, human(day.read_bytes), human(day.written_bytes), human(day.read_again_bytes)]);
    }
    let mut classes = Table::new(&["", ">BYTES", "SINCE"]);
    for (class, bytes, since) in [
        ("hot", days.hot_bytes, "accessed today"),
        ("warm", days.warm_bytes, "not today, but within seven days"),
        ("cold", days.cold_bytes, "before"),
        ("archived", days.archived_bytes, "never since it is watched"),
    ] {
        classes.row(vec![class.to_owned(), human(bytes), since.to_owned()]);
    }
    format!("{}\n{}", table.render(), classes.render())
}

fn whatif_text(told: &LiveWhatIf) -> String {
    let mut table =
        Table::new(&[">SIZE", ">BLOCK", "TYPE", "POLICY", ">READS", ">WRITES", ">HITS", ">+-", ">LRU HITS", ">A DAY"]);
    let mut unanswered: Vec<&str> = Vec::new();
    for LiveWhatIfPool { setup, size_bytes, answer, unanswered: why } in &told.pools {
        let cell = |told: &dyn Fn(&AdvisedSize) -> String| answer.as_ref().map_or_else(|| "?".to_owned(), told);
        table.row(vec![
            human(*size_bytes),
            human(setup.block_bytes),
            words::engine_pool_kind(setup.r#type).word().to_owned(),
            words::engine_policy(setup.policy).word().to_owned(),
            setup.populate_on_read.to_string(),
            setup.populate_on_write.to_string(),
            cell(&|size| percent(size.hit_ratio)),
            cell(&|size| percent(size.error)),
            cell(&|size| percent(size.lru_hit_ratio)),
            cell(&|size| {
                size.ssd_written_bytes_per_day.map_or_else(|| "-".to_owned(), |bytes| human(whole_bytes(bytes)))
            }),
        ]);
        if !why.is_empty() && !unanswered.contains(&why.as_str()) {
            unanswered.push(why);
        }
    }
    let mut notes: String = unanswered.iter().map(|why| format!("\n?: {why}\n")).collect();
    if !told.trials.is_empty() {
        notes += &format!("To try it with what hosts ask from now on:\n  {}\n", told.trials.join("\n  "));
    }
    format!("{}{notes}", table.render())
}

#[cfg(test)]
mod tests {
    use hotset_api::{AdviceWindow, AdvisedDay, PolicyKind, PoolKind};

    use super::*;

    fn size(mib: u64, hit_ratio: f64) -> AdvisedSize {
        AdvisedSize {
            size_bytes: mib << 20,
            hit_ratio,
            error: 0.01,
            write_hit_ratio: None,
            lru_hit_ratio: hit_ratio,
            ssd_written_bytes_per_day: Some(1e9),
            read_microseconds: None,
            years: None,
        }
    }

    fn setup() -> AdvisedPool {
        AdvisedPool {
            r#type: PoolKind::Read,
            block_bytes: 1 << 20,
            policy: PolicyKind::S3Fifo,
            populate_on_read: 2,
            populate_on_write: 0,
        }
    }

    fn advice() -> Advice {
        let day = AdvisedDay { begins_unix_seconds: 1_795_651_200, read_bytes: 7 << 30, ..AdvisedDay::default() };
        Advice {
            volume: "v".to_owned(),
            pool: Some("p".to_owned()),
            size_bytes: 1 << 40,
            window: AdviceWindow::Week,
            from_unix_seconds: 1_795_651_200,
            to_unix_seconds: 1_795_651_300,
            reads: 12_345,
            stream_reads: 678,
            writes: 1,
            sample: 0.25,
            footprint_bytes: 9 << 30,
            setup: setup(),
            curve: vec![size(100, 0.25), size(200, 0.5), size(400, 0.75)],
            present: Some(size(200, 0.5)),
            shared_with: 0,
            recommended: Some(size(400, 0.75)),
            sentence: "Recommended: 400 MiB.".to_owned(),
            days: AdvisedDays { days: vec![day], hot_bytes: 3 << 30, ..AdvisedDays::default() },
        }
    }

    // proves: A3
    #[test]
    fn a_volume_is_told_with_its_curve_its_marks_and_the_sentence() {
        let told = text(&advice(), false);
        for part in [
            "v, 1 TiB",
            "p, a read pool, s3-fifo, blocks of 1 MiB",
            "25.0 % of the blocks",
            "12,345 reads, 678 of them of streams",
            "Recommended: 400",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(told.contains(" : ") && told.contains(" | ") && told.matches('*').count() == 3, "{told}");
        let all = all_text(&AdviceList { volumes: vec![advice(), advice()], days: advice().days }, false);
        assert_eq!(all.matches("Recommended").count(), 2);
        assert!(all_text(&AdviceList { volumes: Vec::new(), days: AdvisedDays::default() }, false).contains("Nothing"));
    }

    // proves: A2
    #[test]
    fn days_are_a_table_of_bytes_and_what_is_hot_warm_cold_and_archived() {
        let told = text(&advice(), true);
        for part in ["2026-11-26", "7 GiB", "hot", "3 GiB", "warm", "cold", "archived", "READ AGAIN"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    // proves: A4
    #[test]
    fn what_is_not_known_is_a_question_mark_with_what_tells_it() {
        let pool = |answer, why: &str| LiveWhatIfPool {
            setup: setup(),
            size_bytes: 1 << 30,
            answer,
            unanswered: why.to_owned(),
        };
        let told = LiveWhatIf {
            volume: "v".to_owned(),
            window: AdviceWindow::Day,
            from_unix_seconds: 0,
            to_unix_seconds: 9,
            pools: vec![pool(Some(size(1, 0.5)), ""), pool(None, "not watched"), pool(None, "not watched")],
            trials: vec!["hotset whatif v --policy lru".to_owned(), "hotset whatif v --policy 2q".to_owned()],
        };
        let told = whatif_text(&told);
        assert!(told.contains("50.0 %"), "{told}");
        let note = "\n\n?: not watched\nTo try it with what hosts ask from now on:\n  hotset whatif v --policy lru\n  hotset whatif v --policy 2q\n";
        assert!(told.ends_with(note), "{told}");
    }
}
