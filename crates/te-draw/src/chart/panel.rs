//! One panel: title, legend, grid, lines with marks, ticks.

use super::axis::Scale;
use super::{Panel, Series};
use crate::heat;
use crate::ink::Ink;
use crate::metrics::Face;
use crate::scene::{Align, Area, Label, Mark, Scene, Spot};

impl Panel {
    pub(crate) fn scene(&self) -> Scene {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let across = self.across.scale(points().map(|point| point.0), TICK_APART);
        let up = self.up.scale(points().map(|point| point.1), 0.06);
        let left = up.ticks.iter().map(|(_, text)| TICK.width(text)).max().unwrap_or(0) + 8;
        let mut scene = Scene::of_size(WIDTH, 0);
        super::lines(&mut scene, self.title(), HEAD, Ink::Text, WIDTH);
        let y = scene.h + 2;
        scene.put(0, y, heat::flow(self.legend(), WIDTH));
        let y = scene.h + 12;
        scene.text((0, y), &self.up.label, TICK, Ink::Muted);
        let plot = Area::new(left, y + 14, WIDTH - left - RIGHT, HIGH);
        scene.fill(plot, Ink::Panel);
        if points().next().is_none() {
            let middle = (plot.x + plot.w / 2, plot.y + plot.h / 2);
            scene.centred(middle, "nothing was measured", TICK, Ink::Muted);
        } else {
            grid(&mut scene, plot, (&across, &up));
        }
        for (at, series) in self.series.iter().enumerate() {
            self.line(&mut scene, plot, (&across, &up), (at, series));
        }
        let below = (plot.x + plot.w / 2, plot.y + plot.h + 34);
        scene.centred(below, &self.across.label, TICK, Ink::Muted);
        scene.h = below.1 + 10;
        scene
    }

    fn legend(&self) -> Vec<Scene> {
        let chip = |(at, series): (usize, &Series)| {
            let room = WIDTH - 34;
            let name = TICK.wrap(&series.name, room, 1).into_iter().next().unwrap_or_default();
            let mut chip = Scene::of_size(34 + TICK.width(&name), 18);
            let (mark, ink) = look(at, series);
            chip.curve(vec![(0, 9), (26, 9)], ink);
            chip.mark((13, 9), mark, ink);
            chip.text((32, 9), &name, TICK, Ink::Text);
            chip
        };
        self.series.iter().enumerate().map(chip).collect()
    }

    fn line(
        &self,
        scene: &mut Scene,
        plot: Area,
        (across, up): (&Scale, &Scale),
        (at, series): (usize, &Series),
    ) {
        let place = |(x, y): &(f64, f64)| {
            let (right, high) = (across.place(*x)?, up.place(*y)?);
            Some((plot.x + pixels(right, plot.w), plot.y + plot.h - pixels(high, plot.h)))
        };
        let placed: Vec<_> =
            series.points.iter().filter_map(|point| Some((*point, place(point)?))).collect();
        let (mark, ink) = look(at, series);
        scene.curve(placed.iter().map(|(_, place)| *place).collect(), ink);
        for ((x, y), place) in placed {
            scene.mark(place, mark, ink);
            let area = Area::new(place.0 - 8, place.1 - 8, 16, 16);
            let text = format!("{} at {}: {}", series.name, self.across.shown(x), self.up.shown(y));
            scene.spots.push(Spot { area, key: String::new(), lines: vec![text] });
        }
    }
}

fn grid(scene: &mut Scene, plot: Area, (across, up): (&Scale, &Scale)) {
    let (right, bottom) = (plot.x + plot.w, plot.y + plot.h);
    for (value, text) in &up.ticks {
        let Some(at) = up.place(*value) else { continue };
        let y = bottom - pixels(at, plot.h);
        scene.rule((plot.x, y), (right, y));
        scene.label(Label {
            text: text.clone(),
            face: TICK,
            ink: Ink::Muted,
            align: Align::End,
            upwards: false,
            at: (plot.x - 6, y),
        });
    }
    for (value, text) in &across.ticks {
        let Some(at) = across.place(*value) else { continue };
        let x = plot.x + pixels(at, plot.w);
        scene.rule((x, plot.y), (x, bottom));
        scene.centred((x, bottom + 14), text, TICK, Ink::Muted);
    }
}

/// After all colours were used once the marks change, too.
fn look(at: usize, series: &Series) -> (Mark, Ink) {
    let inks = Ink::SERIES;
    let (colour, mark) = series.look.unwrap_or((at, at + at / inks.len()));
    (Mark::ALL[mark % Mark::ALL.len()], inks[colour % inks.len()])
}

/// Whole pixels of a share of a length.
#[expect(clippy::cast_possible_truncation, reason = "a share between 0 and 1 of a short length")]
fn pixels(share: f64, length: i32) -> i32 {
    (share * f64::from(length)).round() as i32
}

/// Width of a panel, pixels.
pub(super) const WIDTH: i32 = 560;
/// Height of the plot itself.
const HIGH: i32 = 260;
/// Room for half a text below the last tick.
const RIGHT: i32 = 26;
/// Ticks across are at least so far apart, as a share of the width, that texts have room.
const TICK_APART: f64 = 0.125;
const TICK: Face = Face::plain(11);
const HEAD: Face = Face::bold(13);
