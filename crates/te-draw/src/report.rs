//! A report of a measurement as one page of HTML: tables with verdicts, and charts.

use std::fmt::Write;

use crate::chart::Panel;
use crate::markup::{self, escaped};
use crate::page::{STYLE, variables};

/// Everything on the page, in its order.
#[derive(Debug, Clone)]
pub struct Report {
    /// The heading.
    pub title: String,
    /// One line below it.
    pub summary: String,
    /// Under which conditions it was measured.
    pub notes: Vec<String>,
    /// Parts below.
    pub sections: Vec<Section>,
}

/// One part of the page.
#[derive(Debug, Clone)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Sentences below it.
    pub notes: Vec<String>,
    /// A table, if there is one.
    pub table: Option<Grid>,
    /// Charts, as many beside each other as there is room for.
    pub panels: Vec<Panel>,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Grid {
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// Rows with as many cells.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Text; a column of numbers only is flush right.
    Text(String),
    /// `met`, `MISSED`, or another word of which neither is true.
    Verdict(String),
}

impl Report {
    /// The page, for light and dark screens. It loads nothing.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; img-src data:\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
             <style>\n{}{}{STYLE}{OWN_STYLE}</style>\n\
             </head>\n<body>\n<header><h1>{title}</h1><p>{}</p></header>\n<main>\n",
            variables(),
            markup::style_sheet(),
            escaped(&self.summary),
        );
        if !self.notes.is_empty() {
            page.push_str("<section><h2>Conditions</h2><ul>");
            for note in &self.notes {
                let _ = write!(page, "<li>{}</li>", escaped(note));
            }
            page.push_str("</ul></section>\n");
        }
        self.sections.iter().for_each(|section| section.write(&mut page));
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }
}

impl Section {
    fn write(&self, page: &mut String) {
        let _ = writeln!(page, "<section><h2>{}</h2>", escaped(&self.title));
        for note in &self.notes {
            let _ = writeln!(page, "<p>{}</p>", escaped(note));
        }
        if let Some(table) = &self.table {
            table.write(page);
        }
        if !self.panels.is_empty() {
            page.push_str("<div class=\"flow charts\">");
            for panel in &self.panels {
                let svg = markup::inline(&panel.scene(), panel.title());
                let _ = writeln!(page, "<div class=\"wide\">{svg}</div>");
            }
            page.push_str("</div>");
        }
        page.push_str("</section>\n");
    }
}

impl Grid {
    fn write(&self, page: &mut String) {
        let numbers: Vec<bool> = (0..self.columns.len()).map(|at| self.is_numbers(at)).collect();
        let class =
            |at: usize| if numbers.get(at) == Some(&true) { " class=\"number\"" } else { "" };
        page.push_str("<div class=\"wide\"><table class=\"figures\"><thead><tr>");
        for (at, column) in self.columns.iter().enumerate() {
            let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(at), escaped(column));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            page.push_str("<tr>");
            for (at, cell) in row.iter().enumerate() {
                page.push_str(&cell.html(class(at)));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table></div>\n");
    }

    /// Whether a column holds nothing but numbers, at least one.
    fn is_numbers(&self, at: usize) -> bool {
        let texts = self.rows.iter().filter_map(|row| match row.get(at) {
            Some(Cell::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        let mut texts = texts.filter(|text| !text.is_empty()).peekable();
        let is_number = |text: &str| text.trim_end_matches(" M").parse::<f64>().is_ok();
        texts.peek().is_some() && texts.all(is_number)
    }
}

impl Cell {
    fn html(&self, class: &str) -> String {
        match self {
            Self::Text(text) if text.chars().count() > MOST_UNBROKEN => {
                format!("<td class=\"long\">{}</td>", escaped(text))
            }
            Self::Text(text) => format!("<td{class}>{}</td>", escaped(text)),
            Self::Verdict(word) => {
                let class = match word.as_str() {
                    "met" => "met",
                    "MISSED" => "missed",
                    _ => "open",
                };
                format!("<td><span class=\"verdict {class}\">{}</span></td>", escaped(word))
            }
        }
    }
}

/// Characters of a text that is never broken.
const MOST_UNBROKEN: usize = 44;

const OWN_STYLE: &str = "\
header p{font-size:16px}
section p,section ul{margin:0 0 8px;max-width:80em}
section ul{padding-left:18px}
.charts{gap:24px 40px;margin-top:12px}
.figures td{padding:4px 16px 4px 0}
.number{text-align:right}
.verdict{display:inline-block;padding:0 8px;border-radius:4px;white-space:nowrap;border:1px solid}
.met{color:var(--Green);border-color:var(--Green)}
.missed{color:var(--Red);border-color:var(--Red);font-weight:700}
.open{color:var(--Muted);border-color:var(--PanelEdge)}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Series};

    fn report() -> Report {
        let text = |text: &str| Cell::Text(text.to_owned());
        let rows = vec![
            vec![text("a <b>"), text("1.5"), Cell::Verdict("met".to_owned())],
            vec![text("c"), text(""), Cell::Verdict("MISSED".to_owned())],
        ];
        let columns = ["work", "GB/s", "verdict"].map(str::to_owned).to_vec();
        let series = vec![Series::new("te", vec![(1.0, 2.0), (2.0, 3.0)])];
        let panel = Panel::new("p & q", Axis::count("round"), Axis::log("GB/s"), series);
        Report {
            title: "A report </title>".to_owned(),
            summary: "1 met".to_owned(),
            notes: vec!["on this machine".to_owned()],
            sections: vec![Section {
                title: "First".to_owned(),
                notes: vec!["a note".to_owned()],
                table: Some(Grid { columns, rows }),
                panels: vec![panel],
            }],
        }
    }

    #[test]
    fn a_page_names_nothing_outside_itself() {
        let page = report().html().replace("http://www.w3.org/2000/svg", "");
        for part in ["http:", "https:", "url(", "@import", " src=", "<script"] {
            assert!(!page.contains(part), "{part}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn texts_never_become_markup() {
        let page = report().html();
        assert!(page.contains("<td>a &lt;b&gt;</td>"), "{page}");
        assert_eq!(page.matches("</title>").count(), 1 + 1 + 2, "{page}");
    }

    #[test]
    fn columns_of_numbers_are_flush_right_and_verdicts_have_colours() {
        let page = report().html();
        for part in [
            "<th scope=\"col\" class=\"number\">GB/s</th>",
            "<td class=\"number\">1.5</td>",
            "<th scope=\"col\">work</th>",
            "<span class=\"verdict met\">met</span>",
            "<span class=\"verdict missed\">MISSED</span>",
            "te at 2: 3 GB/s",
        ] {
            assert!(page.contains(part), "{part} in\n{page}");
        }
    }
}
