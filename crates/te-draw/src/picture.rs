//! One SVG file with everything: the machine, the affinity, what the colours mean.

use crate::board::board;
use crate::heat;
use crate::ink::Ink;
use crate::markup;
use crate::metrics::Face;
use crate::scene::{Area, Scene};
use crate::subject::Subject;
use crate::words;

const MARGIN: i32 = 24;
/// Narrowest picture, so that the legend has room.
const MIN_WIDTH: i32 = 560;

/// The machine, its affinity as a heat map, and a legend, as one SVG file.
///
/// It follows the light or dark preference of whoever shows it, and tells details of what is
/// pointed at.
pub fn svg(subject: Subject<'_>) -> String {
    markup::document(&whole(subject), &subject.title())
}

fn whole(subject: Subject<'_>) -> Scene {
    let board = board(subject);
    let tables = heat::tables(subject);
    let width = tables.iter().map(|table| table.w).fold(board.w.max(MIN_WIDTH), i32::max);
    let mut parts = vec![title(subject, width), board, links(subject, width)];
    parts.push(heat::flow(tables, width));
    parts.push(heat::legend(subject, width));
    let mut inner = Scene::default();
    for part in parts.into_iter().filter(|part| part.h > 0) {
        let y = if inner.h == 0 { 0 } else { inner.h + MARGIN };
        inner.put(0, y, part);
    }
    let mut scene = Scene::of_size(inner.w.max(width) + 2 * MARGIN, inner.h + 2 * MARGIN);
    scene.fill(Area::new(0, 0, scene.w, scene.h), Ink::Paper);
    scene.put(MARGIN, MARGIN, inner);
    scene
}

fn title(subject: Subject<'_>, width: i32) -> Scene {
    let mut scene = Scene::default();
    let source = words::source(subject.machine().source());
    let summary = format!("{}, {source}", words::summary(subject.machine()));
    lines(&mut scene, &subject.title(), Face::bold(18), Ink::Text, width);
    lines(&mut scene, &summary, Face::plain(12), Ink::Muted, width);
    scene
}

const WORD: Face = Face::bold(11);

/// Links between GPUs, in words.
pub(crate) fn links(subject: Subject<'_>, width: i32) -> Scene {
    let mut scene = Scene::default();
    for (word, text) in words::gpu_links(subject) {
        let y = scene.h;
        let chip = Area::new(0, y, WORD.width(&word) + 16, 22);
        scene.fill(chip, Ink::Link);
        scene.centred((chip.w / 2, y + 11), &word, WORD, Ink::OnNear);
        let mut beside = Scene::default();
        lines(&mut beside, &text, Face::plain(12), Ink::Text, width - chip.w - 8);
        scene.put(chip.w + 8, y + 3, beside);
        scene.h = scene.h.max(y + 22) + 6;
    }
    scene
}

fn lines(scene: &mut Scene, text: &str, face: Face, ink: Ink, width: i32) {
    for line in face.wrap(text, width, 8) {
        let y = scene.h + face.line_height() / 2;
        scene.text((0, y), &line, face, ink);
        scene.h += face.line_height();
        scene.w = scene.w.max(face.width(&line));
    }
}

#[cfg(test)]
pub(crate) mod tests;
