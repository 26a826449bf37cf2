//! A table of the page.

use std::fmt::Write;

use crate::markup::escaped;

/// Rows of text under a heading. A column without any text is left out, as is a table without rows.
#[derive(Debug)]
pub(super) struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(title: &'static str, columns: &[&'static str]) -> Self {
        Self { title, columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row of unescaped texts, one for each column.
    pub(super) fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.to_vec());
    }

    pub(super) fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let filled =
            |at: usize| self.rows.iter().any(|row| row.get(at).is_some_and(|c| !c.is_empty()));
        let shown: Vec<usize> = (0..self.columns.len()).filter(|at| filled(*at)).collect();
        let mut out =
            format!("<section><h2>{}</h2><div class=\"wide\"><table><thead><tr>", self.title);
        for at in &shown {
            let _ = write!(out, "<th scope=\"col\">{}</th>", self.columns[*at]);
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for at in &shown {
                out.push_str(&cell(row.get(*at).map_or("", String::as_str)));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div></section>\n");
        out
    }
}

/// Short texts stay on one line, so that a narrow screen does not break them to bits. Where there is
/// nothing to say, a dash says that nothing was forgotten.
fn cell(text: &str) -> String {
    let text = if text.is_empty() { "–" } else { text };
    let class = if text.chars().count() > MOST_UNBROKEN { " class=\"long\"" } else { "" };
    format!("<td{class}>{}</td>", escaped(text))
}

/// Characters of a text that is never broken.
const MOST_UNBROKEN: usize = 30;
