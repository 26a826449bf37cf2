//! A progress bar on a terminal, nothing elsewhere.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far a transfer is.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `total` is none where the end is not known.
    pub(crate) fn new(word: &str, total: Option<u64>) -> Self {
        let rest = "{bytes} of {total_bytes}, {decimal_bytes_per_sec}, {eta} left";
        match total {
            Some(_) => Self::styled(word, total, &format!("{BAR}  {rest}")),
            None => Self::styled(word, None, "{msg:>9} {spinner} {bytes}, {decimal_bytes_per_sec}"),
        }
    }

    /// Without a rate, for work of which moving is a part only.
    pub(crate) fn plain(word: &str, total: u64) -> Self {
        Self::styled(word, Some(total), &format!("{BAR}  {{bytes}} of {{total_bytes}}"))
    }

    fn styled(word: &str, total: Option<u64>, template: &str) -> Self {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(style(template));
        bar.set_message(word.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

const BAR: &str = "{msg:>9} {bar:30.cyan/dim} {percent:>3}%";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}
