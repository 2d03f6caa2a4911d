//! Plots, one below the other in a picture (SVG).

use std::error::Error;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, DefaultFormatting, KeyPointHint, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 900;
const HEIGHT: u32 = 320;
const FOOTER: u32 = 28;
/// What labels take below a plot: written along it, or, where so many letters do not fit, upright.
const LABELS: u32 = 40;
const UPRIGHT_LABELS: u32 = 220;
const LETTERS_MAX: usize = 100;
/// One for each series; told apart by people who see no colours by their lightness.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x9a, 0xa5, 0xb1),
    RGBColor(0x1f, 0x5f, 0xbf),
    RGBColor(0xd9, 0x6b, 0x0b),
    RGBColor(0x1b, 0x7f, 0x4d),
    RGBColor(0x7a, 0x2f, 0x8f),
    RGBColor(0x33, 0x33, 0x33),
];
/// Of the room that a group of bars has, what the bars take.
const BARS: f64 = 0.8;

#[derive(Clone)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) axis: Axis,
    pub(super) shape: Shape,
    /// A level that is drawn in, and what it is.
    pub(super) limit: Option<(f64, String)>,
}

/// The vertical one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Linear,
    /// From so much, which is more than nothing.
    Logarithmic,
}

#[derive(Clone)]
pub(super) enum Shape {
    /// A group of bars for each label; each series has a value for each label, 0 for none.
    Bars {
        labels: Vec<String>,
        series: Vec<(String, Vec<f64>)>,
    },
    Lines {
        series: Vec<(String, Vec<(f64, f64)>)>,
    },
}

impl Panel {
    /// Requests per second over seconds.
    pub(super) fn warm_up(title: &str, series: Vec<(String, Vec<(f64, f64)>)>) -> Self {
        Self {
            title: title.to_owned(),
            x: "seconds since the cache was enabled".to_owned(),
            y: "IOPS".to_owned(),
            axis: Axis::Linear,
            shape: Shape::Lines { series },
            limit: None,
        }
    }

    fn labels_are_upright(&self) -> bool {
        match &self.shape {
            Shape::Bars { labels, .. } => labels.iter().map(|label| label.chars().count()).sum::<usize>() > LETTERS_MAX,
            Shape::Lines { .. } => false,
        }
    }

    /// Above them is the room for their names.
    fn is_bars(&self) -> bool {
        matches!(self.shape, Shape::Bars { .. })
    }

    fn height(&self) -> u32 {
        if self.labels_are_upright() { HEIGHT + UPRIGHT_LABELS - LABELS } else { HEIGHT }
    }

    fn values(&self) -> Vec<f64> {
        let mut values: Vec<f64> = match &self.shape {
            Shape::Bars { series, .. } => series.iter().flat_map(|(_, values)| values.clone()).collect(),
            Shape::Lines { series } => {
                series.iter().flat_map(|(_, points)| points.iter().map(|point| point.1)).collect()
            }
        };
        values.extend(self.limit.iter().map(|(level, _)| *level));
        values
    }

    fn width(&self) -> f64 {
        match &self.shape {
            Shape::Bars { labels, .. } => f64::from(u32::try_from(labels.len()).unwrap_or(u32::MAX)),
            Shape::Lines { series } => series
                .iter()
                .flat_map(|(_, points)| points.iter().map(|point| point.0))
                .fold(f64::MIN_POSITIVE, f64::max),
        }
    }
}

/// Draws the panels, and below them how they came to be.
pub(super) fn draw(path: &Path, panels: &[Panel], footer: &str) -> Result<(), Box<dyn Error>> {
    let height = panels.iter().map(Panel::height).sum::<u32>();
    let area = SVGBackend::new(path, (WIDTH, height + FOOTER)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut below = area.clone();
    for panel in panels {
        let (part, rest) = below.split_vertically(panel.height());
        below = rest;
        let most =
            panel.values().into_iter().fold(f64::MIN_POSITIVE, f64::max) * if panel.is_bars() { 1.5 } else { 1.15 };
        match panel.axis {
            Axis::Linear => draw_panel(&part, panel, 0.0, 0.0..most)?,
            Axis::Logarithmic => {
                let positive = panel.values().into_iter().filter(|value| *value > 0.0);
                let least = positive.fold(most, f64::min) / 2.0;
                draw_panel(&part, panel, least, (least..most * 2.0).log_scale())?;
            }
        }
    }
    below.draw(&Text::new(footer.to_owned(), (12, 8), ("sans-serif", 12).into_font().color(&COLOURS[5])))?;
    area.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel<Y>(area: &Area<'_>, panel: &Panel, floor: f64, y: Y) -> Result<(), Box<dyn Error>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let width = panel.width();
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 15))
        .margin(8)
        .margin_right(24)
        .x_label_area_size(if panel.labels_are_upright() { UPRIGHT_LABELS } else { LABELS })
        .y_label_area_size(76)
        .build_cartesian_2d(Across { width, by_group: matches!(panel.shape, Shape::Bars { .. }) }, y)?;
    let label = |x: &f64| match &panel.shape {
        // Drawn below: the library turns labels about their middle.
        Shape::Bars { .. } if panel.labels_are_upright() => String::new(),
        Shape::Bars { labels, .. } => label_at(labels, *x),
        Shape::Lines { .. } => spell(*x),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .y_labels(6)
        .x_labels(if matches!(panel.shape, Shape::Bars { .. }) { 64 } else { 12 })
        .x_desc(panel.x.as_str())
        .y_desc(panel.y.as_str())
        .x_label_formatter(&label)
        .y_label_formatter(&|value| spell(*value))
        .draw()?;
    match &panel.shape {
        Shape::Bars { series, .. } => {
            let room = BARS / f64::from(u32::try_from(series.len())?);
            for (index, (name, values)) in series.iter().enumerate() {
                let colour = COLOURS[index % COLOURS.len()];
                let left = (1.0 - BARS) / 2.0 + room * f64::from(u32::try_from(index)?);
                let bars = values.iter().enumerate().filter(|(_, value)| **value > 0.0).map(|(group, value)| {
                    let from = f64::from(u32::try_from(group).unwrap_or(u32::MAX)) + left;
                    Rectangle::new([(from, floor), (from + room, *value)], colour.filled())
                });
                let numbers = values.iter().enumerate().filter(|(_, value)| **value > 0.0).map(|(group, value)| {
                    let from = f64::from(u32::try_from(group).unwrap_or(u32::MAX)) + left;
                    EmptyElement::at((from, *value)) + Text::new(spell(*value), (0, -14), ("sans-serif", 11))
                });
                chart
                    .draw_series(bars)?
                    .label(name)
                    .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
                chart.draw_series(numbers)?;
            }
        }
        Shape::Lines { series } => {
            for (index, (name, points)) in series.iter().enumerate() {
                let colour = COLOURS[(index + 1) % COLOURS.len()];
                chart
                    .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                    .label(name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
            }
        }
    }
    if let (true, Shape::Bars { labels, .. }) = (panel.labels_are_upright(), &panel.shape) {
        let (across, down) = area.get_pixel_range();
        let style = ("sans-serif", 12).into_font().transform(FontTransform::Rotate90).color(&COLOURS[5]);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        for (label, middle) in labels.iter().zip(middles(width)) {
            let (x, y) = chart.plotting_area().map_coordinate(&(middle, floor));
            area.draw(&Text::new(label.clone(), (x - across.start, y - down.start + 8), style.clone()))?;
        }
    }
    if let Some((level, name)) = &panel.limit {
        let line = [(0.0, *level), (width, *level)];
        chart
            .draw_series(LineSeries::new(line, RED.stroke_width(1)))?
            .label(name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], RED));
    }
    chart
        .configure_series_labels()
        .position(match panel.shape {
            Shape::Bars { .. } => SeriesLabelPosition::UpperLeft,
            // Most curves rise.
            Shape::Lines { .. } => SeriesLabelPosition::LowerRight,
        })
        .background_style(WHITE.mix(0.8))
        .border_style(COLOURS[0])
        .draw()?;
    Ok(())
}

/// The horizontal axis: labels stand in the middle of groups, or at round numbers.
struct Across {
    width: f64,
    by_group: bool,
}

impl Ranged for Across {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        plotters::coord::types::RangedCoordf64::from(self.range()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if self.by_group {
            middles(self.width)
        } else {
            plotters::coord::types::RangedCoordf64::from(self.range()).key_points(hint)
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.width
    }
}

/// 0.5, 1.5, …
fn middles(width: f64) -> Vec<f64> {
    std::iter::successors(Some(0.5), |middle| Some(middle + 1.0)).take_while(|middle| *middle < width).collect()
}

/// Of the group in which `x` is.
#[allow(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to the number of groups"
)]
fn label_at(labels: &[String], x: f64) -> String {
    labels.get(x as usize).cloned().unwrap_or_default()
}

/// As short as it can be read.
fn spell(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 10_000.0 => format!("{:.0}k", value / 1000.0),
        magnitude if magnitude >= 1000.0 => format!("{:.1}k", value / 1000.0),
        magnitude if magnitude >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(panels: &[Panel]) -> String {
        let path = std::env::temp_dir().join(format!("hotset-plot-{}-{}.svg", std::process::id(), panels.len()));
        draw(&path, panels, "2 CPUs; commit 123").expect("it can be drawn");
        let text = std::fs::read_to_string(&path).expect("it was written");
        std::fs::remove_file(&path).expect("it is there");
        text
    }

    fn bars() -> Panel {
        Panel {
            title: "How many times as fast".to_owned(),
            x: String::new(),
            y: "times".to_owned(),
            axis: Axis::Linear,
            shape: Shape::Bars {
                labels: vec!["1 SSD".to_owned(), "2 SSDs".to_owned()],
                series: vec![("vendor".to_owned(), vec![26.9, 42.6]), ("ours".to_owned(), vec![27.0, 0.0])],
            },
            limit: Some((1.0, "no cache".to_owned())),
        }
    }

    #[test]
    fn bars_have_their_labels_numbers_names_limit_and_footer_and_what_is_not_there_has_no_bar() {
        let text = drawn(&[bars()]);
        for word in
            ["How many times as fast", "1 SSD", "2 SSDs", "vendor", "ours", "no cache", "2 CPUs; commit 123", "43"]
        {
            assert!(text.contains(word), "{word}");
        }
        let filled = |colour: &str| text.matches(&format!("fill=\"{colour}\"")).count();
        // With the one of the legend.
        assert_eq!((filled("#9AA5B1"), filled("#1F5FBF")), (3, 2), "{text}");
    }

    #[test]
    fn lines_and_a_logarithmic_axis_are_drawn_one_below_the_other() {
        let curve = Panel::warm_up("Warm-up", vec![("1 SSD".to_owned(), vec![(0.0, 4500.0), (5.0, 120_000.0)])]);
        let mut latency = curve.clone();
        latency.axis = Axis::Logarithmic;
        latency.limit = Some((100.0, "100 ms".to_owned()));
        let text = drawn(&[curve, latency]);
        assert!(text.contains(&format!("height=\"{}\"", 2 * HEIGHT + FOOTER)));
        // Each curve, and the limit of the second, beside those of the axes.
        assert_eq!(text.matches("stroke=\"#1F5FBF\"").count(), 4, "two curves with legends");
        assert!(text.contains("100 ms"));
    }

    #[test]
    fn labels_that_do_not_fit_side_by_side_stand_upright_in_a_taller_plot() {
        let mut panel = bars();
        let Shape::Bars { labels, .. } = &mut panel.shape else { panic!("bars") };
        *labels = vec!["half reads, half writes, a cache of all of the data; ".repeat(2), "2 SSDs".to_owned()];
        let text = drawn(&[panel, bars(), bars()]);
        assert!(text.contains(&format!("height=\"{}\"", 3 * HEIGHT + UPRIGHT_LABELS - LABELS + FOOTER)));
        assert_eq!(text.matches("rotate(90").count(), 2, "{text}");
    }

    #[test]
    fn numbers_are_short_and_groups_have_their_labels_in_the_middle() {
        assert_eq!([121_326.0, 4512.0, 26.9, 1.0, 1.58].map(spell), ["121k", "4.5k", "27", "1", "1.6"]);
        assert_eq!(middles(3.0), [0.5, 1.5, 2.5]);
        assert_eq!(label_at(&["a".to_owned(), "b".to_owned()], 1.5), "b");
    }
}
