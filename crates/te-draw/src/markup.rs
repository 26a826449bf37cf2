//! Writes a scene as SVG.
//!
//! What is seen goes through the back end of plotters, which escapes it. Two things are added that
//! it cannot write: a style sheet for dark backgrounds, and invisible areas that tell more when they
//! are pointed at.

use std::fmt::Write;

use plotters::prelude::{Color, DrawingBackend, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, FontTransform, IntoFont, ShapeStyle, TextStyle};

use crate::ink::Ink;
use crate::scene::{Align, Area, Item, Label, Mark, Scene, Spot};

/// Fonts that are narrower than or as wide as what layout reckons with.
const FONTS: &str = "system-ui, Segoe UI, Roboto, Helvetica Neue, Arial, DejaVu Sans, sans-serif";
/// The back end writes font sizes divided by this.
const SIZE_FACTOR: f64 = 1.24;

/// A whole SVG file, with a style sheet of its own.
pub(crate) fn document(scene: &Scene, title: &str) -> String {
    let style = format!("<style>{}</style>\n", style_sheet());
    write(scene, title, &style)
}

/// SVG for a page that has [`style_sheet`] once for all its pictures.
pub(crate) fn inline(scene: &Scene, title: &str) -> String {
    write(scene, title, "")
}

/// What turns the light colours into dark ones, and rounds corners where that is understood.
pub(crate) fn style_sheet() -> String {
    let mut css = String::from("svg rect{rx:4px}svg .hot{fill:#000;fill-opacity:0;rx:4px}");
    css.push_str("@media (prefers-color-scheme: dark){");
    for ink in Ink::ALL {
        let (light, dark) = (ink.light(), ink.dark());
        let _ = write!(css, "svg [fill=\"#{light:06X}\"]{{fill:#{dark:06X}}}");
        let _ = write!(css, "svg [stroke=\"#{light:06X}\"]{{stroke:#{dark:06X}}}");
    }
    css.push('}');
    css
}

/// A text for use between tags and in quoted attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn write(scene: &Scene, title: &str, style: &str) -> String {
    let mut text = drawn(scene);
    let title = escaped(title);
    if let Some(end) = text.find('>') {
        // The first tag is the back end's own and holds numbers only.
        text.insert_str(end + 1, &format!("\n{style}<title>{title}</title>"));
        text.insert_str(end, &format!(" role=\"img\" aria-label=\"{title}\""));
    }
    let spots: String = scene.spots.iter().map(hot).collect();
    let end = text.rfind("</svg>").unwrap_or(text.len());
    text.insert_str(end, &spots);
    text
}

fn drawn(scene: &Scene) -> String {
    let mut text = String::new();
    let size = (scene.w.unsigned_abs(), scene.h.unsigned_abs());
    let mut backend = SVGBackend::with_string(&mut text, size);
    for item in &scene.items {
        draw(&mut backend, item);
    }
    let _ = backend.present();
    drop(backend);
    text
}

fn draw(backend: &mut SVGBackend<'_>, item: &Item) {
    // A back end that writes into a String has nothing that could fail.
    let _ = match item {
        Item::Fill(area, ink) => {
            let (from, to) = corners(*area);
            backend.draw_rect(from, to, &colour(*ink), true)
        }
        Item::Frame(area, ink) => {
            let (from, to) = corners(*area);
            backend.draw_rect(from, to, &colour(*ink), false)
        }
        Item::Line(from, to, ink) => backend.draw_line(*from, *to, &colour(*ink)),
        Item::Curve(points, ink) => backend.draw_path(points.iter().copied(), &thick(*ink)),
        Item::Mark(at, mark, ink) => return draw_mark(backend, *at, *mark, *ink),
        Item::Text(label) => backend.draw_text(&label.text, &text_style(label), label.at),
    };
}

fn draw_mark(backend: &mut SVGBackend<'_>, (x, y): (i32, i32), mark: Mark, ink: Ink) {
    // As above, nothing of this can fail.
    let _ = match mark {
        Mark::Dot => backend.draw_circle((x, y), 4, &colour(ink), true),
        Mark::Diamond => {
            backend.fill_polygon([(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)], &colour(ink))
        }
        Mark::Ring => {
            let _ = backend.draw_circle((x, y), 4, &colour(Ink::Paper), true);
            backend.draw_circle((x, y), 4, &thick(ink), false)
        }
        Mark::Triangle => {
            let corners = [(x, y - 6), (x + 6, y + 4), (x - 6, y + 4)];
            let _ = backend.fill_polygon(corners, &colour(Ink::Paper));
            backend.draw_path(corners.into_iter().chain([corners[0]]), &thick(ink))
        }
    };
}

fn thick(ink: Ink) -> ShapeStyle {
    colour(ink).stroke_width(2)
}

fn corners(area: Area) -> ((i32, i32), (i32, i32)) {
    ((area.x, area.y), (area.x + area.w, area.y + area.h))
}

fn colour(ink: Ink) -> RGBColor {
    let [_, red, green, blue] = ink.light().to_be_bytes();
    RGBColor(red, green, blue)
}

fn text_style(label: &Label) -> TextStyle<'static> {
    let font = (FONTS, f64::from(label.face.size) * SIZE_FACTOR).into_font();
    let style = if label.face.bold { FontStyle::Bold } else { FontStyle::Normal };
    let turn = if label.upwards { FontTransform::Rotate270 } else { FontTransform::None };
    let across = match label.align {
        Align::Start => HPos::Left,
        Align::Middle => HPos::Center,
        Align::End => HPos::Right,
    };
    let colour = colour(label.ink).to_backend_color();
    let font = font.style(style).transform(turn);
    TextStyle { font, color: colour, pos: Pos::new(across, VPos::Center) }
}

fn hot(spot: &Spot) -> String {
    let Area { x, y, w, h } = spot.area;
    let (key, title) = (escaped(&spot.key), escaped(&spot.lines.join("\n")));
    format!(
        "<rect class=\"hot\" data-k=\"{key}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" \
         fill=\"#000000\" fill-opacity=\"0\"><title>{title}</title></rect>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Face;

    #[test]
    fn everything_that_comes_from_outside_is_escaped() {
        let mut scene = Scene::of_size(100, 20);
        let evil = "</svg><script>\"'&";
        scene.text((0, 10), evil, Face::plain(10), Ink::Text);
        let (area, lines) = (Area::new(0, 0, 5, 5), vec![evil.to_owned()]);
        scene.spots.push(Spot { area, key: evil.to_owned(), lines });
        let svg = document(&scene, evil);
        assert!(!svg.contains("<script"), "{svg}");
        assert_eq!(svg.matches("&lt;script&gt;").count(), 5, "{svg}");
        assert_eq!(svg.matches("</svg>").count(), 1);
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_dark_colour_is_there_for_each_light_one() {
        let css = style_sheet();
        assert!(css.contains("svg [fill=\"#FFFFFF\"]{fill:#12161C}"), "{css}");
        assert_eq!(css.matches("[stroke=").count(), Ink::ALL.len());
    }
}
