//! Progress bars that say what is going on; silent where standard error is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `total` steps.
pub(super) fn bar(total: u64, what: &str) -> ProgressBar {
    styled(ProgressBar::new(total), "{msg:32} {wide_bar} {pos}/{len} {per_sec} {eta}", what)
}

/// A bar of bytes.
pub(super) fn bytes(what: &str) -> ProgressBar {
    styled(ProgressBar::new(0), "{msg:32} {wide_bar} {bytes}/{total_bytes} {eta}", what)
}

fn styled(bar: ProgressBar, template: &str, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(what.to_owned())
}

/// A count of unknown length.
pub(super) fn spinner(what: &str) -> ProgressBar {
    styled(ProgressBar::new_spinner(), "{spinner} {msg} {pos} {per_sec}", what)
}
