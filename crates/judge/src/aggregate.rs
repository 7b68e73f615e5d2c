use crate::{AggregateUnit, Counter, Counters, Run, RunKind, stats};

type Statistic = (&'static str, AggregateUnit, fn(&[f64]) -> f64);

/// The statistics over repetitions, in report order.
const STATISTICS: [Statistic; 4] = [
    ("mean", AggregateUnit::Time, stats::mean),
    ("median", AggregateUnit::Time, stats::median),
    ("stddev", AggregateUnit::Time, stats::stddev),
    ("cv", AggregateUnit::Percentage, stats::cv),
];

/// Width of the name column beyond the longest name: `_` and the longest statistic.
pub(crate) const NAME_SUFFIX_WIDTH: usize = "_median".len();

/// Mean, median, standard deviation and coefficient of variation over the repetitions of one benchmark; empty
/// if fewer than two have times. Keeps the label if all repetitions have the same one.
pub fn aggregates(repetitions: &[Run]) -> Vec<Run> {
    let measured: Vec<&Run> = repetitions.iter().filter(|run| run.error.is_none()).collect();
    let [first, _, ..] = measured.as_slice() else { return Vec::new() };
    let samples = |of: fn(&Run) -> f64| measured.iter().map(|run| of(run)).collect::<Vec<_>>();
    let (real, cpu) = (samples(|run| run.real_time_s), samples(|run| run.cpu_time_s));
    let same_label = repetitions.iter().all(|run| run.label == first.label);
    STATISTICS
        .into_iter()
        .map(|(name, unit, compute)| Run {
            kind: RunKind::Aggregate { name, unit },
            iterations: repetitions.len() as u64,
            real_time_s: compute(&real),
            cpu_time_s: compute(&cpu),
            counters: counters(&measured, compute),
            label: if same_label { first.label.clone() } else { String::new() },
            samples: None,
            ..(*first).clone()
        })
        .collect()
}

/// The statistic of each counter over the runs that report it.
fn counters(runs: &[&Run], compute: fn(&[f64]) -> f64) -> Counters {
    let mut all: Counters = runs.iter().rev().flat_map(|run| run.counters.clone()).collect();
    for (name, counter) in &mut all {
        let values: Vec<f64> =
            runs.iter().filter_map(|run| run.counters.get(name)).map(|counter| counter.value).collect();
        *counter = Counter { value: compute(&values), ..*counter };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::replay_run;

    fn repetition(index: u32, real_time_s: f64, items_per_second: f64) -> Run {
        Run {
            kind: RunKind::Iteration { repetition_index: index },
            repetitions: 3,
            real_time_s,
            cpu_time_s: real_time_s * 2.0,
            counters: Counters::from([("items_per_second".into(), Counter::rate(items_per_second))]),
            ..replay_run()
        }
    }

    #[test]
    fn one_repetition_has_none() {
        assert_eq!(aggregates(&[]), []);
        assert_eq!(aggregates(&[replay_run()]), []);
        let skipped = Run { error: Some("x".into()), ..replay_run() };
        assert_eq!(aggregates(&[replay_run(), skipped]), []);
    }

    #[test]
    fn four_statistics_of_times_and_counters() {
        let runs = [repetition(0, 1.0, 10.0), repetition(1, 5.0, 20.0), repetition(2, 3.0, 60.0)];
        let lines = aggregates(&runs);
        let names: Vec<String> = lines.iter().map(Run::name).collect();
        let name = |suffix| format!("BM_replay/process_time/real_time_{suffix}");
        assert_eq!(names, ["mean", "median", "stddev", "cv"].map(name));
        let times: Vec<f64> = lines.iter().map(|line| line.real_time_s).collect();
        assert_eq!(times, [3.0, 3.0, 2.0, 2.0 / 3.0]);
        let times: Vec<f64> = lines.iter().map(|line| line.cpu_time_s).collect();
        assert_eq!(times, [6.0, 6.0, 4.0, 2.0 / 3.0]);
        let items: Vec<f64> = lines.iter().map(|line| line.counters["items_per_second"].value).collect();
        assert_eq!(items[..2], [30.0, 20.0]);
        assert!(lines.iter().all(|line| line.iterations == 3 && line.repetitions == 3));
        assert!(lines.iter().all(|line| line.counters["items_per_second"].is_rate));
        assert_eq!(lines.iter().filter(|line| line.is_percentage()).count(), 1);
    }

    #[test]
    fn labels_are_kept_if_all_agree() {
        let labelled = |label: &str| Run { label: label.into(), ..replay_run() };
        assert_eq!(aggregates(&[labelled("a"), labelled("a")])[0].label, "a");
        assert_eq!(aggregates(&[labelled("a"), labelled("b")])[0].label, "");
    }

    #[test]
    fn the_name_column_has_room() {
        let longest = STATISTICS.iter().map(|(name, ..)| name.len()).max().unwrap();
        assert_eq!(NAME_SUFFIX_WIDTH, 1 + longest);
    }
}
