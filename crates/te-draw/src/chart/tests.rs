//! Charts as whole pictures.

use super::*;
use crate::picture::tests::assert_is_xml;
use crate::scene::tests::faults;

fn sample(n_series: usize, points: &[(f64, f64)]) -> Chart {
    let series = |at: usize| {
        let points = points.iter().map(|(x, y)| (*x, y * (1.0 + at as f64))).collect();
        Series::new(format!("series number {at} <&>"), points)
    };
    let all: Vec<Series> = (0..n_series).map(series).collect();
    let rate = Panel::new("Throughput", Axis::bytes("block"), Axis::log("GB/s"), all.clone());
    let time = Panel::new("Latency", Axis::bytes("block"), Axis::log("µs"), all);
    Chart::new("A bench", "what was measured, and how; ".repeat(12), vec![rate, time])
}

const SWEEP: &[(f64, f64)] = &[(4096.0, 0.13), (65536.0, 1.5), (1048576.0, 4.2), (67108864.0, 5.1)];

#[test]
fn no_text_of_a_chart_overlaps_or_is_cut() {
    for chart in [
        sample(1, SWEEP),
        sample(4, SWEEP),
        sample(12, SWEEP),
        sample(2, &[]),
        sample(0, &[]),
        sample(1, &[(1.0, 1.0)]),
        sample(3, &[(1.0, 1e-9), (1e15, 1e12)]),
        sample(2, &[(0.0, -1.0), (f64::NAN, f64::INFINITY)]),
    ] {
        assert_eq!(faults(&chart.scene()), [""; 0]);
    }
}

#[test]
fn a_chart_is_well_formed_and_always_the_same() {
    let chart = sample(4, SWEEP);
    let text = chart.svg();
    assert_is_xml(&text);
    assert_eq!(text, chart.svg());
    assert!(text.contains("series number 0 &lt;&amp;&gt; at 4 KiB: 0.13 GB/s"), "{text}");
}

#[test]
fn every_point_has_a_mark_within_the_picture() {
    let scene = sample(2, SWEEP).scene();
    assert_eq!(scene.spots.len(), 2 * 2 * SWEEP.len());
    for spot in &scene.spots {
        assert!(spot.area.x >= 0 && spot.area.x + spot.area.w <= scene.w, "{spot:?}");
        assert!(spot.area.y >= 0 && spot.area.y + spot.area.h <= scene.h, "{spot:?}");
    }
}
