//! What a training did, as one page that opens offline: reward, modes, advantages, the distance from the reference, broken rules.
//!
//! Lines are drawn as SVG with the means of some steps each; names are escaped. No script.

use std::fmt::Write as _;

use super::StepReport;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 28.0;
/// Points of a line, at most.
const POINTS: usize = 120;
const COLOURS: [&str; 6] = ["#0b5d8a", "#b3541e", "#3d7a3d", "#7a3d7a", "#8a6d0b", "#555555"];
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2rem auto;padding:0 1rem;color:#15202b;background:#fff}\
    h1{font-size:1.4rem}figure{display:inline-block;margin:0 1rem 1.5rem 0}figcaption{font-weight:600}svg text{font-size:11px;fill:#445}\
    .legend{font-size:.85rem}.legend b{font-weight:400;margin-right:1rem}";

/// A step's value, where it has one.
type Value<'a> = &'a dyn Fn(&StepReport) -> Option<f64>;

/// A chart's lines: a name and a value of each step.
type Lines = Vec<(String, Vec<(f64, f64)>)>;

/// The page of some runs.
pub fn render(title: &str, runs: &[(String, Vec<StepReport>)]) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style><h1>{0}</h1>",
        escaped(title)
    );
    let of = |value: &dyn Fn(&StepReport) -> Option<f64>| -> Lines {
        let line = |(name, steps): &(String, Vec<StepReport>)| (name.clone(), thinned(steps, value));
        runs.iter().map(line).collect()
    };
    let learning = |value: fn(&StepReport) -> f64| move |step: &StepReport| (!step.warm_up).then(|| value(step));
    let charts: [(&str, Value<'_>); 7] = [
        ("Reward", &learning(|step| step.reward)),
        ("Score of answered rollouts", &learning(|step| step.score)),
        ("Calls", &learning(|step| step.calls)),
        ("Mean |A mode|", &learning(|step| step.advantage_mode)),
        ("Mean |A inner|", &learning(|step| step.advantage_inner)),
        ("Distance from the reference (k3)", &learning(|step| step.kl)),
        (
            "Rollouts that broke a rule",
            &learning(|step| step.violations.values().sum::<u64>() as f64 / step.rollouts.max(1) as f64),
        ),
    ];
    for (name, value) in charts {
        chart(&mut page, name, &of(value));
    }
    for (run, steps) in runs {
        let mode = |mode: usize| {
            thinned(steps, &|step| (!step.warm_up && step.modes.iter().sum::<f64>() > 0.0).then(|| step.modes[mode]))
        };
        let lines = vec![("single".to_owned(), mode(0)), ("multi".into(), mode(1)), ("agentic".into(), mode(2))];
        chart(&mut page, &format!("Modes of free rollouts, {run}"), &lines);
    }
    page
}

/// Means of as many steps each as make few points.
fn thinned(steps: &[StepReport], value: &dyn Fn(&StepReport) -> Option<f64>) -> Vec<(f64, f64)> {
    let known: Vec<(f64, f64)> = steps.iter().filter_map(|step| Some((step.step as f64, value(step)?))).collect();
    let each = known.len().div_ceil(POINTS).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let n = chunk.len() as f64;
        (chunk.iter().map(|point| point.0).sum::<f64>() / n, chunk.iter().map(|point| point.1).sum::<f64>() / n)
    };
    known.chunks(each).map(mean).collect()
}

fn chart(page: &mut String, name: &str, lines: &Lines) {
    let points = || lines.iter().flat_map(|(_, points)| points.iter().copied()).filter(|point| point.1.is_finite());
    let (left, right) = points().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(x), high.max(x)));
    let (low, high) = points().fold((0.0_f64, 1e-9_f64), |(low, high), (_, y)| (low.min(y), high.max(y)));
    if points().next().is_none() {
        return;
    }
    let across = |x: f64| LEFT + (WIDTH - LEFT - 8.0) * (x - left) / (right - left).max(1.0);
    let up = |y: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 8.0) * (y - low) / (high - low);
    let mut svg = String::new();
    for part in 0..=4 {
        let value = low + (high - low) * f64::from(part) / 4.0;
        let y = up(value);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dde3e8\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{value:.3}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{0}\">step {left:.0}</text><text x=\"{WIDTH}\" y=\"{0}\" text-anchor=\"end\">{right:.0}</text>",
        HEIGHT - 8.0
    );
    let mut legend = String::new();
    for ((name, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let path: Vec<String> = points
            .iter()
            .filter(|point| point.1.is_finite())
            .map(|(x, y)| format!("{:.1},{:.1}", across(*x), up(*y)))
            .collect();
        let _ = write!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" points=\"{}\"/>",
            path.join(" ")
        );
        let _ = write!(legend, "<b style=\"color:{colour}\">{}</b>", escaped(name));
    }
    let name = escaped(name);
    let _ = write!(
        page,
        "<figure><figcaption>{name}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{name} by step\">{svg}</svg><div class=\"legend\">{legend}</div></figure>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_drawn_and_names_stay_text() {
        let steps: Vec<StepReport> = (0..300)
            .map(|step| StepReport {
                step,
                warm_up: step < 10,
                reward: 0.5,
                modes: [0.2, 0.3, 0.5],
                rollouts: 4,
                ..StepReport::default()
            })
            .collect();
        let page = render("a <b>", &[("<script>".into(), steps)]);
        assert_eq!(page.matches("<figure>").count(), 8);
        assert!(page.contains("a &lt;b&gt;") && !page.contains("<script>") && !page.contains("NaN"));
    }
}
