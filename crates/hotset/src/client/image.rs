//! The `image` verb, which needs no daemon.

use std::path::Path;
use std::time::Duration;

use hotset_api::{ApiError, ApiErrorKind};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::print::print;
use crate::args::Output;
use crate::size::{Size, human};

/// The answer of `image create`.
#[derive(Serialize)]
struct Created {
    path: String,
    size_bytes: u64,
}

/// Whether an SSD may be so large.
pub(crate) fn check_size(Size(size_bytes): Size) -> Result<(), ApiError> {
    if size_bytes < hotset_cache::config::limits::SSD_BYTES_MIN || !size_bytes.is_multiple_of(4096) {
        let least = human(hotset_cache::config::limits::SSD_BYTES_MIN);
        let message = format!("image of {size_bytes} bytes: an SSD has at least {least}, in whole pages of 4 KiB");
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    Ok(())
}

pub(crate) fn create(output: Output, path: &Path, Size(size_bytes): Size) -> Result<(), ApiError> {
    if lies_in_dev(path) {
        let message = format!("image {}: /dev is memory, gone at the next start; make it elsewhere", path.display());
        return Err(ApiError::new(ApiErrorKind::Invalid, message));
    }
    let bar = fill_bar(size_bytes, "Writing");
    let made = hotset_block::create_image(path, size_bytes, &mut |done| bar.set_position(done));
    bar.finish_and_clear();
    made.map_err(|error| ApiError::new(ApiErrorKind::Device, format!("image {}: {error}", path.display())))?;
    let created = Created { path: super::print::absolute(path)?, size_bytes };
    print(output, &created, |created| format!("Created {} of {}\n", created.path, human(created.size_bytes)))
}

/// In /dev itself: not in what is mounted in there.
fn lies_in_dev(path: &Path) -> bool {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::metadata(directory).is_ok_and(|metadata| hotset_block::lies_among_devices(&metadata))
}

/// A bar with rate and remaining time on a terminal's standard error; nothing elsewhere, or for nothing to do.
pub(crate) fn fill_bar(total_bytes: u64, what: &'static str) -> ProgressBar {
    if total_bytes == 0 {
        return ProgressBar::hidden();
    }
    let template = "{msg} [{bar:30}] {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    let bar = ProgressBar::new(total_bytes).with_style(style).with_message(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
