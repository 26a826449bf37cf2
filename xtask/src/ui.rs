//! What a person sees: short lines, tables, and nothing that a log could hold as well.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this file is the terminal")]
#![expect(clippy::disallowed_methods, reason = "a stopwatch reads the clock")]

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant, SystemTime};

/// Prints one line.
pub(crate) fn say(line: &str) {
    println!("{line}");
    // A pipe would otherwise hold lines back for minutes. A closed pipe is not our concern.
    let _ = io::stdout().flush();
}

/// Prints the name of what comes next, set apart.
pub(crate) fn heading(text: &str) {
    say("");
    say(&bold(text));
}

/// Prints an error to standard error.
pub(crate) fn error(text: &str) {
    eprintln!("error: {text}");
}

/// `text` in bold where a person looks at it.
pub(crate) fn bold(text: &str) -> String {
    if io::stdout().is_terminal() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

/// A duration as people say it: `0.4 s`, `37 s`, `3 min 07 s`.
pub(crate) fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    match whole {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{whole} s"),
        _ => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

/// `1 test`, `2 tests`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Rows of text in aligned columns, with a line below the first row. Columns whose index is in
/// `right` are flush right.
pub(crate) fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    let mut out = String::new();
    for (row_idx, row) in rows.iter().enumerate() {
        out.push_str(table_line(row, &widths, right).trim_end());
        out.push('\n');
        if row_idx == 0 {
            let rule = widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>().join("  ");
            out.push_str(&rule);
            out.push('\n');
        }
    }
    out
}

fn table_line(row: &[String], widths: &[usize], right: &[usize]) -> String {
    let mut line = String::new();
    for (column, cell) in row.iter().enumerate() {
        let width = widths[column];
        let written = if right.contains(&column) {
            write!(line, "{cell:>width$}  ")
        } else {
            write!(line, "{cell:<width$}  ")
        };
        written.expect("a String takes everything");
    }
    line
}

/// The time of day, to compare with that of files.
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Measures how long something took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Time since the start, as text.
    pub(crate) fn text(self) -> String {
        seconds(self.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_naturally() {
        assert_eq!(seconds(Duration::from_millis(440)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(37)), "37 s");
        assert_eq!(seconds(Duration::from_secs(187)), "3 min 07 s");
    }

    #[test]
    fn columns_line_up() {
        let rows =
            [vec!["suite".to_owned(), "n".to_owned()], vec!["a".to_owned(), "12".to_owned()]];
        assert_eq!(table(&rows, &[1]), "suite   n\n-----  --\na      12\n");
    }
}
