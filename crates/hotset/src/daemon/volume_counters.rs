//! What is counted of a volume, by the table in `hotset-counters`: from the engine's counters to the API's, to metrics, and to what the
//! history keeps. Nothing else of the daemon names them all.

use hotset_api::{HistoryPoint, VolumeStats};

/// A counter of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeCounter {
    /// In the API's [`VolumeStats`].
    #[cfg(test)]
    pub(crate) name: &'static str,
    pub(crate) metric: &'static str,
    /// The metric's.
    pub(crate) help: &'static str,
    pub(crate) get: fn(&VolumeStats) -> u64,
    /// `None`: the history does not keep it.
    pub(crate) kept: Option<HistoryPlace>,
}

/// What the history keeps of a counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryPlace {
    /// Among the values of a bucket: the format of the history file.
    pub(crate) place: usize,
    /// The series that shows it for each second; `None`: no series, or one that is more than a rate.
    pub(crate) rate: Option<fn(&mut HistoryPoint) -> &mut Option<f64>>,
}

macro_rules! counters {
    ($([$(
        $(#[$doc:meta])* $name:ident, $metric:literal, $help:literal, history($($place:literal $(, $rate:ident)?)?),
            $how:ident($($said:tt)*);
    )*])*) => {
        /// All of them.
        pub(crate) const VOLUME_COUNTERS: &[VolumeCounter] = &[$($(
            VolumeCounter {
                #[cfg(test)]
                name: stringify!($name),
                metric: $metric,
                help: $help,
                get: |stats| stats.$name,
                kept: first![$(Some(HistoryPlace { place: $place, rate: first![$(Some(|point| &mut point.$rate),)? None] }),)? None],
            },
        )*)*];

        /// The engine's, as the API has them.
        pub(crate) fn stats(stats: &hotset_cache::VolumeStats) -> VolumeStats {
            VolumeStats { hit_ratio: stats.hit_ratio(), $($($name: stats.$name,)*)* }
        }
    };
}

/// What a row says, or else what follows.
macro_rules! first {
    [$first:expr $(, $rest:expr)*] => { $first };
}

hotset_counters::volume_counters!(counters);

#[cfg(test)]
macro_rules! numbered {
    ($([$(
        $(#[$doc:meta])* $name:ident, $metric:literal, $help:literal, history($($kept:tt)*),
            $how:ident($($said:tt)*);
    )*])*) => {
        /// The engine's counters, each with a value of its own: its place in the table and 1000.
        pub(crate) fn numbered() -> hotset_cache::VolumeStats {
            let mut values = 1000..;
            hotset_cache::VolumeStats { $($($name: values.next().expect("there are more"),)*)* }
        }
    };
}
#[cfg(test)]
hotset_counters::volume_counters!(numbered);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use hotset_counters::Shown;

    use super::*;

    fn numbers() -> impl Iterator<Item = (&'static VolumeCounter, u64)> {
        VOLUME_COUNTERS.iter().zip(1000..)
    }

    /// The text of a file of the repository.
    fn file(path: &str) -> String {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
    }

    // proves: S2, S4
    #[test]
    fn every_counter_of_the_engine_is_in_the_api_its_document_and_the_types_of_the_console() {
        let shown = serde_json::to_value(stats(&numbered())).unwrap();
        let document: serde_json::Value = serde_json::from_str(&file("docs/openapi.json")).unwrap();
        let described = &document["components"]["schemas"]["VolumeStats"]["properties"];
        let types = file("console/src/api/schema.d.ts");
        let types = types.split_once("VolumeStats: {").unwrap().1.split_once("};").unwrap().0;
        for (counter, value) in numbers() {
            let name = counter.name;
            assert_eq!(shown[name], value, "{name}");
            assert_eq!((counter.get)(&stats(&numbered())), value, "{name}");
            assert_eq!(described[name]["type"], "integer", "docs/openapi.json: {name}");
            assert!(types.contains(&format!(" {name}: number;")), "console/src/api/schema.d.ts: {name}");
        }
        let known: BTreeSet<&str> = VOLUME_COUNTERS.iter().map(|counter| counter.name).chain(["hit_ratio"]).collect();
        let all = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(all(&shown).iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
        assert_eq!(all(described), all(&shown));
    }

    /// Set this to have the committed file written anew.
    const BLESS: &str = "HOTSET_BLESS";

    fn for_the_console() -> String {
        let mut text = String::from(
            "// Generated from the table in crates/counters: `HOTSET_BLESS=1 cargo test -p hotset`.\n\
             import type { VolumeStats } from \"./types\";\n\n\
             /** A counter of a volume, and how it is shown. */\n\
             export interface Counter {\n  readonly name: Exclude<keyof VolumeStats, \"hit_ratio\">;\n  readonly bytes: boolean;\n  \
             readonly shown: { readonly caption: string; readonly said: string } | { readonly missed: string };\n}\n\n\
             export const COUNTERS: readonly Counter[] = [\n",
        );
        for counter in hotset_counters::COUNTERS {
            let shown = match counter.shown {
                Shown::Line { caption, said } => format!("caption: {caption:?}, said: {said:?}"),
                Shown::Missed { reason } => format!("missed: {reason:?}"),
            };
            let (name, bytes) = (counter.name, counter.is_bytes());
            text.push_str(&format!("  {{ name: {name:?}, bytes: {bytes}, shown: {{ {shown} }} }},\n"));
        }
        text.push_str(
            "];\n\n/** Where nothing was counted. */\nexport const NOTHING: VolumeStats = {\n  hit_ratio: 0,\n",
        );
        text.extend(hotset_counters::COUNTERS.iter().map(|counter| format!("  {}: 0,\n", counter.name)));
        text + "};\n"
    }

    #[test]
    fn the_console_has_every_counter_as_it_is_shown() {
        let path = "console/src/api/counters.ts";
        if std::env::var_os(BLESS).is_some() {
            let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
            std::fs::write(whole, for_the_console()).unwrap();
        }
        let is_so = file(path) == for_the_console();
        assert!(is_so, "{path} is not what the table says; {BLESS}=1 cargo test -p hotset writes it");
    }

    #[test]
    fn every_metric_of_a_counter_has_a_name_and_a_help_of_its_own() {
        let names: BTreeSet<&str> = VOLUME_COUNTERS.iter().map(|counter| counter.metric).collect();
        let helps: BTreeSet<&str> = VOLUME_COUNTERS.iter().map(|counter| counter.help).collect();
        assert_eq!((names.len(), helps.len()), (VOLUME_COUNTERS.len(), VOLUME_COUNTERS.len()));
        let good = |name: &&str| name.starts_with("hotset_volume_") && name.ends_with("_total");
        assert!(names.iter().all(good), "{names:?}");
        assert!(helps.iter().all(|help| help.ends_with('.')), "{helps:?}");
    }
}
