//! What is wrong with a command line that its parser lets through, because one argument means something only beside another. It is found
//! before the daemon is asked, and ends the program as what the parser refuses does.

use hotset_api::{ApiError, ApiErrorKind};

use crate::args::{Arguments, ImageVerb, OutputFormat, Verb};
use crate::{client, recover, whatif};

/// What the program ends with where the command line is wrong; its parser does the same.
pub(crate) const WRONG_USAGE: u8 = 2;

/// # Errors
/// What is wrong with it.
pub(crate) fn check(arguments: &Arguments) -> Result<(), ApiError> {
    check_addresses(arguments)?;
    let columns = match &arguments.output {
        OutputFormat::Columns(columns) => columns.as_slice(),
        OutputFormat::Text | OutputFormat::Json => &[],
    };
    client::check_lists(&arguments.verb, columns)?;
    match &arguments.verb {
        Verb::Stats(stats) => client::check_stats(stats),
        Verb::Image(ImageVerb::Create { size, .. }) => client::check_image(*size),
        Verb::Advise(advise) if !advise.source.as_deref().is_some_and(whatif::is_trace) => client::check_advise(advise),
        Verb::WhatIf(arguments) if whatif::is_trace(&arguments.source) => whatif::check_of_trace(arguments),
        Verb::WhatIf(arguments) if arguments.seconds.is_some() => whatif::check(arguments),
        Verb::WhatIf(arguments) => client::check_whatif(arguments),
        Verb::Recover(arguments) => recover::check_named_once(arguments),
        Verb::Serve(_)
        | Verb::Pool(_)
        | Verb::Volume(_)
        | Verb::MemoryCache(_)
        | Verb::Status(_)
        | Verb::Top(_)
        | Verb::Events(_)
        | Verb::Notify(_)
        | Verb::Operations(_)
        | Verb::Token(_)
        | Verb::Trace(_)
        | Verb::Advise(_)
        | Verb::UdevRules
        | Verb::Demo(_)
        | Verb::Export
        | Verb::Apply(_)
        | Verb::Config(_)
        | Verb::Completions { .. }
        | Verb::Man { .. }
        | Verb::Openapi => Ok(()),
    }
}

/// A daemon listens at several places; whoever asks asks one.
fn check_addresses(arguments: &Arguments) -> Result<(), ApiError> {
    if matches!(arguments.verb, Verb::Serve(_)) {
        return crate::listening(arguments.api.clone()).map(drop);
    }
    match arguments.api.len() {
        0 | 1 => Ok(()),
        _ => Err(ApiError::new(ApiErrorKind::Invalid, "this verb talks to one daemon: give --api once")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn refused(words: &str) -> Option<String> {
        let parsed = Arguments::try_parse_from(words.split(' ')).expect("the parser lets it through");
        check(&parsed).err().map(|error| error.message)
    }

    // proves: O5
    #[test]
    fn what_is_wrong_beside_another_argument_is_found_before_anybody_is_asked() {
        for (words, part) in [
            ("hotset pool list -o nonsense", "no column \"nonsense\"; the columns are pool, type"),
            ("hotset volume list --sort nonsense", "no column"),
            ("hotset volume list --sort=-nonsense", "no column"),
            ("hotset token list -o nonsense", "no column"),
            ("hotset operations --sort nonsense", "no column"),
            ("hotset stats -o read-iops", "no column"),
            ("hotset stats 5 -o reads", "no column"),
            ("hotset status -o pool", "prints no list"),
            ("hotset operations cancel 3 -o id", "prints no list"),
            ("hotset stats 5 5 5", "each once"),
            ("hotset stats v w", "each once"),
            ("hotset --api unix:/a --api unix:/b status", "--api once"),
            ("hotset --api https://a.example:7780 serve", "a daemon listens at"),
            ("hotset advise v --cutoff off", "is for a trace"),
            ("hotset whatif v --exact", "are for a trace"),
            ("hotset whatif /dev/null --seconds 5", "is for a volume"),
            ("hotset whatif v --seconds 5 --size 1M --block-size 4M", "holds no block"),
            ("hotset recover --ssd /a --backing v=/x --backing v=/y", "given twice"),
            ("hotset image create /a 5000", "an SSD has at least"),
        ] {
            let message = refused(words).unwrap_or_else(|| panic!("{words}: it is let through"));
            assert!(message.contains(part), "{words}: {message}");
        }
    }

    // proves: O5
    #[test]
    fn what_is_right_is_let_through() {
        for words in [
            "hotset pool list -o pool,used --sort=-used",
            "hotset stats v 5 3 -o volume,read-iops",
            "hotset stats --watch -o read-iops",
            "hotset stats -o read_bytes",
            "hotset -o json status",
            "hotset serve --api unix:/a --api unix:/b",
            "hotset advise v",
            "hotset whatif v --seconds 5 --cutoff off",
            "hotset operations -o id",
        ] {
            assert_eq!(refused(words), None, "{words}");
        }
    }
}
