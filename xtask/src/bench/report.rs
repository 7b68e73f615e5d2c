//! Medians, ratios and verdicts, as a table and as JSON.

use super::measure::Unit;
use rehal_judge::stats::{self, Interval};
use serde_json::json;

/// The target of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Maximum ratio of ours to the other column.
    Ratio(f64),
    /// Maximum distance of that ratio from 1.
    Within(f64),
    /// Maximum bytes of ours.
    Bytes(u64),
    /// Maximum seconds of ours.
    Seconds(f64),
}

/// A measured row.
pub struct Row {
    name: String,
    unit: Unit,
    target: Target,
    /// Of differences, noise may be more than what they are.
    is_difference: bool,
    compared: Option<Compared>,
    ours: Summary,
}

/// The runs that ours is compared with.
struct Compared {
    theirs: Summary,
    /// The median of the ratios of the pairs: a slow phase of the machine affects both of a pair.
    ratio: f64,
    /// Its 95 % interval, by the sign test.
    interval: Interval,
}

/// The median of the runs, and half the interquartile range relative to it.
struct Summary {
    median: f64,
    spread: f64,
}

impl Row {
    /// Summarizes the figures of runs: `theirs[i]` and `ours[i]` were measured one after the other. Without
    /// `theirs`, the target is a number.
    pub fn new(
        name: String,
        unit: Unit,
        target: Target,
        is_difference: bool,
        theirs: &[f64],
        ours: &[f64],
    ) -> Self {
        let compared = (!theirs.is_empty()).then(|| {
            let (ratio, interval) = ratio(theirs, ours);
            Compared { theirs: Summary::of(theirs), ratio, interval }
        });
        Self { name, unit, target, is_difference, compared, ours: Summary::of(ours) }
    }

    /// The cells of a table: name, ours, the reference's, ratio, interval, promise and verdict.
    pub fn cells(&self) -> [String; 7] {
        let [theirs, ratio, interval] = match &self.compared {
            Some(it) => [human(it.theirs.median, self.unit), format!("{:.2}", it.ratio), it.interval_text()],
            None => std::array::from_fn(|_| "-".to_owned()),
        };
        let ours = human(self.ours.median, self.unit);
        let verdict = self.verdict().to_owned();
        [format!("`{}`", self.name), ours, theirs, ratio, interval, self.promise(), verdict]
    }

    /// Whether the target is met; `None` if the noise is more than the difference that was measured.
    fn is_met(&self) -> Option<bool> {
        let theirs = self.compared.as_ref().map_or(1.0, |it| it.theirs.median);
        if self.is_difference && (theirs <= 0.0 || self.ours.median <= 0.0) {
            return None;
        }
        Some(match (self.target, &self.compared) {
            (Target::Ratio(_) | Target::Within(_), Some(it)) => self.allows(it.ratio),
            (Target::Bytes(limit), _) => self.ours.median <= limit as f64,
            (Target::Seconds(limit), _) => self.ours.median <= limit * 1e9,
            (Target::Ratio(_) | Target::Within(_), None) => return None,
        })
    }

    /// Whether the target allows this ratio, as printed: half a percent is below the noise.
    fn allows(&self, ratio: f64) -> bool {
        match self.target {
            Target::Ratio(limit) => (ratio * 100.0).round() / 100.0 <= limit,
            Target::Within(limit) => ((ratio - 1.0).abs() * 100.0).round() / 100.0 <= limit,
            Target::Bytes(_) | Target::Seconds(_) => true,
        }
    }

    /// Whether other runs would probably lead to the same verdict: neither end of the interval contradicts
    /// it.
    fn is_decided(&self, is_met: bool) -> bool {
        let Some(Compared { interval: Interval { low, high }, .. }) = self.compared else { return true };
        match self.target {
            Target::Bytes(_) | Target::Seconds(_) => true,
            // An interval on both sides of 1 may have a ratio within the limit although neither end is.
            Target::Within(_) if !is_met => {
                (!self.allows(low) && !self.allows(high)) && (low > 1.0) == (high > 1.0)
            }
            Target::Ratio(_) | Target::Within(_) => [low, high].iter().all(|end| self.allows(*end) == is_met),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.is_met().map(|it| (it, self.is_decided(it))) {
            Some((true, true)) => "met",
            Some((true, false)) => "met, undecided",
            Some((false, true)) => "MISSED",
            Some((false, false)) => "MISSED, undecided",
            None => "cannot tell",
        }
    }

    fn promise(&self) -> String {
        match self.target {
            Target::Ratio(limit) => format!("<= {}x", (limit * 100.0).round() / 100.0),
            Target::Within(limit) => format!("1 ± {limit}"),
            Target::Bytes(limit) => format!("<= {}", human(limit as f64, Unit::Bytes)),
            Target::Seconds(limit) => format!("<= {}", human(limit * 1e9, Unit::Nanoseconds)),
        }
    }
}

impl Compared {
    fn interval_text(&self) -> String {
        format!("{:.2} to {:.2}", self.interval.low, self.interval.high)
    }
}

/// The median of the ratios of pairs, with its interval. Differences, which noise can make negative, have no
/// ratio of pairs: then that of both medians, from one end of their intervals to the other.
fn ratio(theirs: &[f64], ours: &[f64]) -> (f64, Interval) {
    // With fewer than six pairs, it is the minimum and the maximum.
    let interval = |figures: &[f64], outside| {
        let end = |of: fn(f64, f64) -> f64| figures.iter().copied().reduce(of).unwrap_or(f64::NAN);
        let all = Interval { low: end(f64::min), high: end(f64::max) };
        stats::median_interval(figures, outside).unwrap_or(all)
    };
    if theirs.iter().chain(ours).all(|it| *it > 0.0) {
        let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        return (stats::median(&ratios), interval(&ratios, 0.05));
    }
    let [theirs_ends, ours_ends] = [theirs, ours].map(|it| interval(it, 0.025));
    let Interval { low, high } = ours_ends;
    let interval = match theirs_ends.low > 0.0 {
        true => {
            let ends = [theirs_ends.low, theirs_ends.high];
            let of = |end: f64| ends.map(|it| end / it);
            Interval {
                low: of(low).into_iter().fold(f64::INFINITY, f64::min),
                high: of(high).into_iter().fold(f64::NEG_INFINITY, f64::max),
            }
        }
        false => Interval { low: f64::NEG_INFINITY, high: f64::INFINITY },
    };
    (stats::median(ours) / stats::median(theirs), interval)
}

impl Summary {
    fn of(values: &[f64]) -> Self {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        let median = at(0.5);
        let distance = (at(0.75) - at(0.25)) / 2.0;
        Self { median, spread: if distance == 0.0 { 0.0 } else { distance / median.abs() } }
    }
}

/// Prints the table header.
pub fn print_head() {
    print_cells(
        ["claim", "rehal", "reference", "ratio", "95 %", "promised", "verdict"].map(ToOwned::to_owned),
        0.0,
    );
}

/// Prints a row as soon as it is measured: the whole table takes minutes.
pub fn print_row(row: &Row) {
    print_cells(row.cells(), row.ours.spread);
}

fn print_cells([name, ours, theirs, ratio, interval, promise, verdict]: [String; 7], spread: f64) {
    let name = name.trim_matches('`');
    let spread = if spread == 0.0 { String::new() } else { format!("±{:.0}%", spread * 100.0) };
    println!(
        "{name:<30} {ours:>10} {spread:>5} {theirs:>10} {ratio:>6} {interval:>14}  {promise:<11} {verdict}"
    );
}

/// Prints how many targets are met.
pub fn print_foot(rows: &[Row]) {
    let met = rows.iter().filter(|row| row.is_met() == Some(true)).count();
    println!("{met} of {} targets met", rows.len());
}

/// The same figures as JSON.
pub fn json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let unit = match row.unit {
                Unit::Nanoseconds => "ns",
                Unit::Bytes => "bytes",
                Unit::Percent => "percent",
            };
            let compared = row.compared.as_ref();
            json!({
                "name": row.name, "unit": unit, "promised": row.promise(), "verdict": row.verdict(),
                "met": row.is_met(),
                "ratio": compared.map(|it| it.ratio),
                "interval": compared.map(|it| [it.interval.low, it.interval.high]),
                "reference_median": compared.map(|it| it.theirs.median), "rehal_median": row.ours.median,
                "reference_spread": compared.map(|it| it.theirs.spread), "rehal_spread": row.ours.spread,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "rows": rows }))
}

fn human(value: f64, unit: Unit) -> String {
    let (scales, names): ([f64; 4], [&str; 4]) = match unit {
        Unit::Percent => return format!("{value:.1} %"),
        Unit::Nanoseconds => ([1.0, 1e3, 1e6, 1e9], ["ns", "us", "ms", "s"]),
        Unit::Bytes => ([1.0, 1024.0, 1_048_576.0, 1_073_741_824.0], ["B", "KiB", "MiB", "GiB"]),
    };
    let at = (1..4).rev().find(|at| value.abs() >= scales[*at]).unwrap_or(0);
    format!("{:.1} {}", value / scales[at], names[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: Target, theirs: &[f64], ours: &[f64]) -> Row {
        Row::new("a".to_owned(), Unit::Nanoseconds, target, false, theirs, ours)
    }

    #[test]
    fn medians_decide() {
        let met = row(Target::Ratio(0.5), &[100.0, 90.0, 4000.0], &[45.0, 50.0, 60.0]);
        assert_eq!(met.is_met(), Some(true));
        assert!((met.compared.unwrap().ratio - 0.45).abs() < 1e-9);
        let alone = row(Target::Bytes(10), &[], &[11.0]);
        assert_eq!((alone.is_met(), alone.verdict()), (Some(false), "MISSED"));
        assert_eq!(alone.cells()[2], "-");
        assert!(json(&[alone]).contains("\"met\": false"));
    }

    #[test]
    fn differences_below_the_noise_say_nothing() {
        let verdict = |theirs: f64, ours: f64| {
            let target = Target::Ratio(0.5);
            let row = Row::new("a".to_owned(), Unit::Nanoseconds, target, true, &[theirs], &[ours]);
            row.verdict()
        };
        assert_eq!((verdict(10.0, 5.0), verdict(10.0, 6.0)), ("met", "MISSED"));
        for (theirs, ours) in [(-10.0, -1.0), (10.0, -1.0), (-10.0, 5.0), (10.0, 0.0)] {
            assert_eq!(verdict(theirs, ours), "cannot tell");
        }
    }

    #[test]
    fn pairs_are_compared_pair_by_pair() {
        // The machine's speed differs by a factor of four, and the programs' not at all.
        let times: Vec<f64> = (0..12).map(|index| f64::from(index % 4 + 1) * 100.0).collect();
        let times_of = |factor: f64| times.iter().map(|time| time * factor).collect::<Vec<_>>();
        assert_eq!(row(Target::Ratio(1.02), &times, &times_of(1.005)).verdict(), "met");
        assert_eq!(row(Target::Ratio(1.02), &times, &times_of(1.1)).verdict(), "MISSED");
    }

    #[test]
    fn noise_is_not_a_verdict() {
        let verdict = |target, ours: [f64; 6]| row(target, &[100.0; 6], &ours).verdict();
        let ratio = Target::Ratio(0.5);
        assert_eq!(verdict(ratio, [41.0, 42.0, 43.0, 44.0, 45.0, 46.0]), "met");
        assert_eq!(verdict(ratio, [30.0, 70.0, 31.0, 71.0, 32.0, 33.0]), "met, undecided");
        assert_eq!(verdict(ratio, [30.0, 70.0, 31.0, 71.0, 72.0, 73.0]), "MISSED, undecided");
        assert_eq!(verdict(ratio, [61.0, 62.0, 63.0, 64.0, 65.0, 66.0]), "MISSED");
        let within = Target::Within(0.03);
        assert_eq!(verdict(within, [98.0, 99.0, 100.0, 101.0, 102.0, 100.0]), "met");
        assert_eq!(verdict(within, [90.0, 91.0, 92.0, 90.0, 91.0, 92.0]), "MISSED");
        assert_eq!(verdict(within, [80.0, 120.0, 80.0, 120.0, 120.0, 120.0]), "MISSED, undecided");
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!(human(1234.0, Unit::Nanoseconds), "1.2 us");
        assert_eq!(human(16_777_216.0, Unit::Bytes), "16.0 MiB");
        assert_eq!(human(0.0, Unit::Bytes), "0.0 B");
    }
}
