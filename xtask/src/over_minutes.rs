//! What was seen over the minutes of a run: plots, one below the other.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

/// Of each plot.
const HEIGHT: u32 = 220;
const WIDTH: u32 = 900;

/// A line: minutes and values, and its colour.
pub(crate) type Line = (Vec<(f64, f64)>, RGBColor);

/// One of the plots.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) lines: Vec<Line>,
}

/// Draws them as SVG.
pub(crate) fn draw(path: &Path, minutes: f64, plots: &[Plot]) -> Result<(), Box<dyn Error>> {
    let height = HEIGHT * u32::try_from(plots.len())?;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    for (plot, panel) in plots.iter().zip(area.split_evenly((plots.len(), 1))) {
        let values = plot.lines.iter().flat_map(|(points, _)| points).map(|point| point.1);
        let most = values.fold(1.0, f64::max) * 1.1;
        let mut chart = ChartBuilder::on(&panel)
            .caption(plot.title, ("sans-serif", 15))
            .margin(8)
            .x_label_area_size(24)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..minutes, 0.0..most)?;
        chart
            .configure_mesh()
            .y_labels(4)
            .light_line_style(WHITE)
            .x_label_formatter(&|minute| format!("{minute:.0} min"))
            .draw()?;
        for (points, color) in &plot.lines {
            chart.draw_series(LineSeries::new(points.iter().copied(), color))?;
        }
    }
    area.present()?;
    Ok(())
}
