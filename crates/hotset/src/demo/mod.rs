//! `hotset demo`

use std::process::ExitCode;

use hotset_api::ApiError;

use crate::args::{DemoArguments, Output};

pub(crate) fn run(_: &DemoArguments, _: Output) -> Result<ExitCode, ApiError> {
    Err(ApiError::new(hotset_api::ApiErrorKind::Unsupported, "the demo is not in this build"))
}
