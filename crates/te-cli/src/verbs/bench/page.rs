//! `te bench-page`: draws a report that another program put together.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use te_draw::{Axis, Cell, Grid, Panel, Report, Section, Series};

use crate::error::{CliError, Failure};

#[derive(Debug, Args)]
pub(crate) struct Page {
    /// The report as JSON
    from: PathBuf,
    /// The page
    to: PathBuf,
}

pub(crate) fn run(args: &Page) -> Result<(), CliError> {
    let text = std::fs::read_to_string(&args.from)
        .map_err(|cause| CliError::file("cannot read", &args.from, &cause))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| wrong(&args.from, &error))?;
    let report = report(&value).ok_or_else(|| wrong(&args.from, "it is no report"))?;
    std::fs::write(&args.to, report.html())
        .map_err(|cause| CliError::file("cannot write", &args.to, &cause))
}

fn wrong(path: &Path, cause: impl std::fmt::Display) -> CliError {
    CliError::new(Failure::Usage, format!("cannot draw {}", path.display()), cause)
}

fn report(value: &Value) -> Option<Report> {
    Some(Report {
        title: text(&value["title"])?,
        summary: text(&value["summary"])?,
        notes: texts(&value["notes"])?,
        sections: each(&value["sections"], section)?,
    })
}

fn section(value: &Value) -> Option<Section> {
    let panels = match &value["panels"] {
        Value::Null => Vec::new(),
        panels => each(panels, panel)?,
    };
    let table = match &value["table"] {
        Value::Null => None,
        table => Some(Grid {
            columns: texts(&table["columns"])?,
            rows: each(&table["rows"], |row| each(row, cell))?,
        }),
    };
    Some(Section { title: text(&value["title"])?, notes: texts(&value["notes"])?, table, panels })
}

fn cell(value: &Value) -> Option<Cell> {
    match value {
        Value::String(text) => Some(Cell::Text(text.clone())),
        other => Some(Cell::Verdict(text(&other["word"])?)),
    }
}

fn panel(value: &Value) -> Option<Panel> {
    let series = each(&value["series"], |series| {
        let point = |point: &Value| Some((point[0].as_f64()?, point[1].as_f64()?));
        Some(Series::new(text(&series["name"])?, each(&series["points"], point)?))
    });
    Some(Panel::new(text(&value["title"])?, axis(&value["across"])?, axis(&value["up"])?, series?))
}

fn axis(value: &Value) -> Option<Axis> {
    let label = text(&value["label"])?;
    match value["kind"].as_str()? {
        "bytes" => Some(Axis::bytes(label)),
        "log" => Some(Axis::log(label)),
        "count" => Some(Axis::count(label)),
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    each(value, text)
}

fn each<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_read() {
        let form = |kind: &str| json!({"label": "x", "kind": kind});
        let value = json!({
            "title": "t", "summary": "s", "notes": ["n"],
            "sections": [
                {"title": "a", "notes": [], "table": {"columns": ["c", "d"],
                 "rows": [["x", {"word": "met"}]]}},
                {"title": "b", "notes": [], "panels": [{"title": "p", "across": form("bytes"),
                 "up": form("log"), "series": [{"name": "te", "points": [[4096, 1.5]]}]}]},
            ],
        });
        let page = report(&value).unwrap().html();
        assert!(page.contains("<h2>a</h2>") && page.contains("te at 4 KiB: 1.5 x"), "{page}");
        assert!(report(&json!({"title": "t"})).is_none());
        assert!(axis_of("count").is_some() && axis_of("other").is_none());
    }

    fn axis_of(kind: &str) -> Option<Axis> {
        axis(&json!({"label": "x", "kind": kind}))
    }
}
