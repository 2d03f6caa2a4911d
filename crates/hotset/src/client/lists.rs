//! Which verbs print lists, and of which columns.

use hotset_api::{ApiError, ApiErrorKind};

use super::table::Listing;
use super::{operations, pool, stats, token, volume};
use crate::args::{OperationsArguments, PoolVerb, TableArguments, TokenVerb, Verb, VolumeVerb};
use crate::escape::escaped;

/// Whether the verb prints a list, where columns are asked for, and has them.
///
/// # Errors
/// It is not so.
pub(crate) fn check_lists(verb: &Verb, columns: &[String]) -> Result<(), ApiError> {
    let listing = |table: &TableArguments| Listing { columns: columns.to_vec(), table: table.clone() };
    match verb {
        Verb::Pool(PoolVerb::List(table)) => listing(table).check(pool::COLUMNS),
        Verb::Volume(VolumeVerb::List(table)) => listing(table).check(volume::COLUMNS),
        Verb::Token(TokenVerb::List(table)) => listing(table).check(token::COLUMNS),
        Verb::Operations(OperationsArguments { verb: None, table }) => listing(table).check(operations::COLUMNS),
        Verb::Stats(arguments) => stats::check_list(arguments, &listing(&arguments.table)),
        Verb::Pool(_)
        | Verb::Volume(_)
        | Verb::Token(_)
        | Verb::Operations(_)
        | Verb::Serve(_)
        | Verb::MemoryCache(_)
        | Verb::Status(_)
        | Verb::Top(_)
        | Verb::Events(_)
        | Verb::Notify(_)
        | Verb::Trace(_)
        | Verb::Advise(_)
        | Verb::WhatIf(_)
        | Verb::UdevRules
        | Verb::Image(_)
        | Verb::Recover(_)
        | Verb::Demo(_)
        | Verb::Export
        | Verb::Apply(_)
        | Verb::Config(_)
        | Verb::Completions { .. }
        | Verb::Man { .. }
        | Verb::Openapi => no_list(columns),
    }
}

fn no_list(columns: &[String]) -> Result<(), ApiError> {
    if columns.is_empty() {
        return Ok(());
    }
    let message = format!("-o {}: this verb prints no list: it is text or json", escaped(&columns.join(",")));
    Err(ApiError::new(ApiErrorKind::Invalid, message))
}
