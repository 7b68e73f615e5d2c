//! Medians, ratios and verdicts, as a table and as JSON.

use super::measure::Unit;
use rehal_bench::stats::{self, Interval, PairedRatio};
use serde_json::json;

/// The target of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Maximum ratio of ours to the reference's.
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
    theirs: Summary,
    ours: Summary,
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
    /// Summarizes the figures of pairs of runs: `theirs[i]` and `ours[i]` were measured one after the other.
    pub fn new(name: &str, unit: Unit, target: Target, theirs: Vec<f64>, ours: Vec<f64>) -> Self {
        let (ratio, interval) = match stats::paired_ratio(&ours, &theirs) {
            Ok(PairedRatio { ratio, interval: (low, high), .. }) => (ratio, Interval { low, high }),
            // Differences, which noise can make negative: then a pair has no ratio.
            Err(_) => {
                let ratio = stats::median(&ours) / stats::median(&theirs);
                (ratio, stats::bootstrap_ratio(&theirs, &ours, stats::median))
            }
        };
        let (theirs, ours) = (Summary::of(theirs), Summary::of(ours));
        Self { name: name.to_owned(), unit, target, theirs, ours, ratio, interval }
    }

    /// The cells of a table: name, ours, the reference's, ratio, interval, promise and verdict.
    pub fn cells(&self) -> [String; 7] {
        [
            format!("`{}`", self.name),
            human(self.ours.median, self.unit),
            human(self.theirs.median, self.unit),
            format!("{:.2}", self.ratio),
            self.interval_text(),
            self.promise(),
            self.verdict().to_owned(),
        ]
    }

    fn interval_text(&self) -> String {
        format!("{:.2} to {:.2}", self.interval.low, self.interval.high)
    }

    fn is_met(&self) -> bool {
        match self.target {
            // Of differences, which noise can make negative: then no ratio says anything.
            Target::Ratio(_) if self.theirs.median <= 0.0 => self.ours.median <= 0.0,
            Target::Ratio(_) | Target::Within(_) => self.allows(self.ratio),
            Target::Bytes(limit) => self.ours.median <= limit as f64,
            Target::Seconds(limit) => self.ours.median <= limit * 1e9,
        }
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
    fn is_decided(&self) -> bool {
        let Interval { low, high } = self.interval;
        match self.target {
            Target::Bytes(_) | Target::Seconds(_) => true,
            // An interval on both sides of 1 may have a ratio within the limit although neither end is.
            Target::Within(_) if !self.is_met() => {
                (!self.allows(low) && !self.allows(high)) && (low > 1.0) == (high > 1.0)
            }
            Target::Ratio(_) | Target::Within(_) => {
                [low, high].iter().all(|end| self.allows(*end) == self.is_met())
            }
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.is_met(), self.is_decided()) {
            (true, true) => "met",
            (true, false) => "met, undecided",
            (false, true) => "MISSED",
            (false, false) => "MISSED, undecided",
        }
    }

    fn promise(&self) -> String {
        match self.target {
            Target::Ratio(limit) => format!("<= {limit}x"),
            Target::Within(limit) => format!("1 ± {limit}"),
            Target::Bytes(limit) => format!("<= {}", human(limit as f64, Unit::Bytes)),
            Target::Seconds(limit) => format!("<= {}", human(limit * 1e9, Unit::Nanoseconds)),
        }
    }
}

impl Summary {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        let median = at(0.5);
        let distance = (at(0.75) - at(0.25)) / 2.0;
        Self { median, spread: if distance == 0.0 { 0.0 } else { distance / median.abs() } }
    }
}

/// Prints the table header.
pub fn print_head() {
    println!(
        "{:<28} {:>22} {:>22} {:>7} {:>13}  {:<14} verdict",
        "claim", "reference", "rehal", "ratio", "95 %", "promised"
    );
}

/// Prints a row as soon as it is measured: the whole table takes minutes.
pub fn print_row(row: &Row) {
    let side = |side: &Summary| format!("{} ±{:>2.0}%", human(side.median, row.unit), side.spread * 100.0);
    println!(
        "{:<28} {:>22} {:>22} {:>6.2}x {:>13}  {:<14} {}",
        row.name,
        side(&row.theirs),
        side(&row.ours),
        row.ratio,
        row.interval_text(),
        row.promise(),
        row.verdict(),
    );
}

/// Prints how many targets are met.
pub fn print_foot(rows: &[Row]) {
    let met = rows.iter().filter(|row| row.is_met()).count();
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
            };
            json!({
                "name": row.name, "unit": unit, "promised": row.promise(), "met": row.is_met(), "decided": row.is_decided(),
                "ratio": row.ratio, "interval": [row.interval.low, row.interval.high],
                "reference_median": row.theirs.median, "rehal_median": row.ours.median,
                "reference_spread": row.theirs.spread, "rehal_spread": row.ours.spread,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "rows": rows }))
}

fn human(value: f64, unit: Unit) -> String {
    let (scales, names): ([f64; 4], [&str; 4]) = match unit {
        Unit::Nanoseconds => ([1.0, 1e3, 1e6, 1e9], ["ns", "us", "ms", "s"]),
        Unit::Bytes => ([1.0, 1024.0, 1_048_576.0, 1_073_741_824.0], ["B", "KiB", "MiB", "GiB"]),
    };
    let at = (1..4).rev().find(|at| value.abs() >= scales[*at]).unwrap_or(0);
    format!("{:.1} {}", value / scales[at], names[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_decide() {
        let row = Row::new(
            "a",
            Unit::Nanoseconds,
            Target::Ratio(0.5),
            vec![100.0, 90.0, 4000.0],
            vec![45.0, 50.0, 60.0],
        );
        assert!(row.is_met());
        assert!((row.ratio - 0.45).abs() < 1e-9);
        let row = Row::new("b", Unit::Bytes, Target::Bytes(10), vec![1.0], vec![11.0]);
        assert!(!row.is_met());
        assert!(json(&[row]).contains("\"met\": false"));
    }

    #[test]
    fn differences_below_the_noise_have_no_ratio() {
        let row = |theirs, ours| {
            Row::new("a", Unit::Nanoseconds, Target::Ratio(0.5), vec![theirs], vec![ours]).is_met()
        };
        assert!(row(10.0, 5.0) && row(-10.0, -1.0) && row(10.0, -1.0));
        assert!(!row(-10.0, 5.0) && !row(10.0, 6.0));
    }

    #[test]
    fn pairs_are_compared_pair_by_pair() {
        let row = |theirs: &[f64], ours: Vec<f64>| {
            Row::new("a", Unit::Nanoseconds, Target::Ratio(1.02), theirs.to_vec(), ours)
        };
        // The machine's speed differs by a factor of four, and the programs' not at all.
        let times: Vec<f64> = (0..12).map(|index| f64::from(index % 4 + 1) * 100.0).collect();
        let times_of = |factor: f64| times.iter().map(|time| time * factor).collect();
        assert_eq!(row(&times, times_of(1.005)).verdict(), "met");
        assert_eq!(row(&times, times_of(1.1)).verdict(), "MISSED");
    }

    #[test]
    fn noise_is_not_a_verdict() {
        let verdict = |target, ours: [f64; 6]| {
            Row::new("a", Unit::Nanoseconds, target, vec![100.0; 6], ours.to_vec()).verdict()
        };
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
