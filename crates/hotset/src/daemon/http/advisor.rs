//! Paths of the advisor: what caches of other sizes would do.

use axum::Json;
use axum::extract::State;
use hotset_api as api;
use hotset_api::{AdviceWindow, ApiError, ApiErrorKind};
use hotset_cache::config::{BlockBytes, VolumeName};
use serde::Deserialize;
use utoipa::IntoParams;

use super::control::Control;
use super::exchange::{Answer, Name, Queried};
use crate::daemon::advisor::{self, Case};
use crate::words;

/// Sizes at most, of one question.
const SIZES_MAX: usize = 64;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct AdviceQuery {
    /// By default a week.
    window: Option<AdviceWindow>,
    /// What all SSDs together may be written, for the years that they last if this volume alone writes to them.
    endurance_bytes: Option<u64>,
}

impl AdviceQuery {
    fn asked(&self) -> advisor::AdviceAsked {
        let window = self.window.unwrap_or(AdviceWindow::Week);
        advisor::AdviceAsked { window, endurance_bytes: self.endurance_bytes }
    }
}

/// What caches of other sizes would do for each volume, cached or not, and what is hot.
#[utoipa::path(get, path = "/api/v1/advisor", params(AdviceQuery),
    responses((status = 200, body = api::AdviceList), (status = "default", body = ApiError)))]
pub(super) async fn advise_all(
    State(control): State<Control>,
    Queried(asked): Queried<AdviceQuery>,
) -> Answer<api::AdviceList> {
    Ok(Json(control.advisor.advise_all(asked.asked()).await?))
}

/// The same of one volume.
#[utoipa::path(get, path = "/api/v1/volumes/{name}/advisor", params(("name" = String, Path), AdviceQuery),
    responses((status = 200, body = api::Advice), (status = "default", body = ApiError)))]
pub(super) async fn advise(
    State(control): State<Control>,
    Name(name): Name<String>,
    Queried(asked): Queried<AdviceQuery>,
) -> Answer<api::Advice> {
    let name = open_volume(&control, &name).await?;
    Ok(Json(control.advisor.advise(&name, asked.asked()).await?))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WhatIfAsked {
    /// Sizes of the cache in bytes, with commas between them.
    sizes: String,
    /// By default a week.
    window: Option<AdviceWindow>,
    /// What is not said is as the volume's pool has it, or as an uncached volume is watched.
    r#type: Option<api::PoolKind>,
    block_bytes: Option<u64>,
    policy: Option<api::PolicyKind>,
    populate_on_read: Option<u8>,
    populate_on_write: Option<u8>,
}

/// What pools of these sizes would have done for a volume, as far as what is watched tells.
#[utoipa::path(get, path = "/api/v1/volumes/{name}/whatif", params(("name" = String, Path), WhatIfAsked),
    responses((status = 200, body = api::LiveWhatIf), (status = "default", body = ApiError)))]
pub(super) async fn whatif(
    State(control): State<Control>,
    Name(name): Name<String>,
    Queried(asked): Queried<WhatIfAsked>,
) -> Answer<api::LiveWhatIf> {
    let name = open_volume(&control, &name).await?;
    let cases = cases(&asked)?;
    let window = asked.window.unwrap_or(AdviceWindow::Week);
    let asked = advisor::AdviceAsked { window, endurance_bytes: None };
    Ok(Json(control.advisor.whatif(&name, asked, &cases).await?))
}

fn cases(asked: &WhatIfAsked) -> Result<Vec<Case>, ApiError> {
    let invalid = |message: String| ApiError::new(ApiErrorKind::Invalid, message);
    let size = |text: &str| text.parse::<u64>().map_err(|_| invalid(format!("size {text:?}: it is a number of bytes")));
    let sizes: Vec<u64> = asked.sizes.split(',').map(size).collect::<Result<_, _>>()?;
    if sizes.len() > SIZES_MAX {
        return Err(invalid(format!("{} sizes: {SIZES_MAX} can be asked for at once", sizes.len())));
    }
    let block_bytes = asked.block_bytes.map(BlockBytes::new).transpose().map_err(|error| invalid(error.to_string()))?;
    let case = |size_bytes| Case {
        size_bytes,
        kind: asked.r#type.map(words::engine_pool_kind),
        block_bytes,
        policy: asked.policy.map(words::engine_policy),
        populate_on_read: asked.populate_on_read,
        populate_on_write: asked.populate_on_write,
    };
    Ok(sizes.into_iter().map(case).collect())
}

async fn open_volume(control: &Control, name: &str) -> Result<VolumeName, ApiError> {
    Ok(control.rooms.records.open_volume_status(name).await?.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(sizes: &str) -> WhatIfAsked {
        WhatIfAsked {
            sizes: sizes.to_owned(),
            window: None,
            r#type: None,
            block_bytes: None,
            policy: None,
            populate_on_read: None,
            populate_on_write: None,
        }
    }

    #[test]
    fn sizes_are_numbers_and_not_too_many() {
        assert_eq!(cases(&asked("1,20")).unwrap().len(), 2);
        let refused = |asked: &WhatIfAsked| cases(asked).unwrap_err().message;
        assert!(refused(&asked("1,big")).contains("number of bytes"));
        assert!(refused(&asked("1,".repeat(99).trim_end_matches(','))).contains("at once"));
        assert!(refused(&WhatIfAsked { block_bytes: Some(3), ..asked("1") }).contains("power of two"));
    }
}
