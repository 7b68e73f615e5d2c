//! What changed between two profiles, function by function.

use std::collections::HashMap;

use rehal_bench::stats::{self, Interval};
use rehal_session::{FunctionTimes, TimedBy};

/// Samples of a bootstrap: more dispatches are averaged in groups of neighbours, so that its time is bounded.
const MAX_SAMPLES: usize = 512;

/// A profile.
pub(super) struct Side {
    pub path: String,
    pub dispatch_count: u64,
    pub total_ns: f64,
    functions: Vec<FunctionTimes>,
}

/// Two profiles with the changes of their functions, that of most weight first.
pub(super) struct Comparison {
    pub before: Side,
    pub after: Side,
    pub changes: Vec<Change>,
}

/// How the time of a function changed.
pub(super) struct Change {
    pub name: String,
    pub timed_by: TimedBy,
    pub before: Option<Times>,
    pub after: Option<Times>,
    /// The mean after as a fraction of that before, if both are known and the latter is not zero.
    pub ratio: Option<f64>,
    /// Its 95 % interval, with enough dispatches.
    pub ratio_interval: Option<Interval>,
}

/// The dispatches of a function in one profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    pub count: usize,
    pub total_ns: f64,
    pub mean_ns: f64,
    /// The 95 % interval of the mean, with enough dispatches.
    pub interval_ns: Option<Interval>,
}

/// What can be said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Faster,
    Slower,
    /// The difference cannot be told from noise.
    Noise,
    /// Too few dispatches to tell.
    Few,
    OnlyBefore,
    OnlyAfter,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Noise => "noise",
            Self::Few => "few",
            Self::OnlyBefore => "only before",
            Self::OnlyAfter => "only after",
        }
    }
}

impl Side {
    pub(super) fn new(path: String, functions: Vec<FunctionTimes>) -> Self {
        let times = || functions.iter().flat_map(|function| &function.times_ns);
        // The sum of nothing is -0.0.
        let (dispatch_count, total_ns) = (times().count() as u64, times().sum::<f64>() + 0.0);
        Self { path, dispatch_count, total_ns, functions }
    }

    pub(super) fn function_count(&self) -> usize {
        self.functions.len()
    }
}

impl Comparison {
    pub(super) fn of(before: Side, after: Side) -> Self {
        let key = |function: &FunctionTimes| (function.timed_by, function.name.clone());
        let mut rest: HashMap<_, _> = after.functions.iter().map(|it| (key(it), it)).collect();
        let mut changes: Vec<_> = before
            .functions
            .iter()
            .map(|function| Change::of(Some(function), rest.remove(&key(function))))
            .collect();
        let added = after.functions.iter().filter(|function| rest.contains_key(&key(function)));
        changes.extend(added.map(|function| Change::of(None, Some(function))));
        let weight = |change: &Change| change.total_ns().abs();
        changes.sort_by(|left, right| {
            weight(right).total_cmp(&weight(left)).then_with(|| left.name.cmp(&right.name))
        });
        Self { before, after, changes }
    }

    /// The change of the time of all dispatches.
    pub(super) fn total_ns(&self) -> f64 {
        self.after.total_ns - self.before.total_ns
    }
}

impl Change {
    fn of(before: Option<&FunctionTimes>, after: Option<&FunctionTimes>) -> Self {
        let Some(any) = before.or(after) else { unreachable!("a profile has the function") };
        let samples = |function: Option<&FunctionTimes>| function.map(|it| grouped(&it.times_ns));
        let mut change = Self {
            name: any.name.clone(),
            timed_by: any.timed_by,
            before: before.map(Times::of),
            after: after.map(Times::of),
            ratio: None,
            ratio_interval: None,
        };
        let (Some(old), Some(new)) = (change.before, change.after) else { return change };
        if old.mean_ns > 0.0 {
            change.ratio = Some(new.mean_ns / old.mean_ns);
            if let (Some(old_samples), Some(new_samples)) = (samples(before), samples(after))
                && old.interval_ns.is_some()
                && new.interval_ns.is_some()
            {
                let interval = stats::bootstrap_ratio(&old_samples, &new_samples, stats::mean);
                // A resample of zeros has no ratio.
                change.ratio_interval = interval.high.is_finite().then_some(interval);
            }
        }
        change
    }

    /// How much longer its dispatches took, in total.
    pub(super) fn total_ns(&self) -> f64 {
        let total = |times: Option<Times>| times.map_or(0.0, |times| times.total_ns);
        total(self.after) - total(self.before)
    }

    pub(super) fn verdict(&self) -> Verdict {
        match (self.before, self.after, self.ratio_interval) {
            (_, None, _) => Verdict::OnlyBefore,
            (None, _, _) => Verdict::OnlyAfter,
            (.., None) => Verdict::Few,
            (.., Some(Interval { high, .. })) if high < 1.0 => Verdict::Faster,
            (.., Some(Interval { low, .. })) if low > 1.0 => Verdict::Slower,
            (.., Some(_)) => Verdict::Noise,
        }
    }
}

impl Times {
    fn of(function: &FunctionTimes) -> Self {
        let times = &function.times_ns;
        let has_interval = times.len() >= stats::MIN_INTERVAL_SAMPLES;
        Self {
            count: times.len(),
            total_ns: times.iter().sum(),
            mean_ns: stats::mean(times),
            interval_ns: has_interval.then(|| stats::bootstrap(&grouped(times), stats::mean)),
        }
    }
}

/// The means of groups of neighbours, which are as many as a bootstrap takes.
fn grouped(times_ns: &[f64]) -> Vec<f64> {
    times_ns.chunks(times_ns.len().div_ceil(MAX_SAMPLES).max(1)).map(stats::mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, times_ns: &[f64]) -> FunctionTimes {
        FunctionTimes {
            name: name.into(),
            timed_by: TimedBy::Host,
            times_ns: times_ns.to_vec(),
            thread_time_ns: times_ns.iter().sum(),
        }
    }

    fn compared(before: Vec<FunctionTimes>, after: Vec<FunctionTimes>) -> Vec<(String, Verdict, f64)> {
        let comparison = Comparison::of(Side::new("a".into(), before), Side::new("b".into(), after));
        let row = |change: &Change| (change.name.clone(), change.verdict(), change.total_ns());
        comparison.changes.iter().map(row).collect()
    }

    /// Times around `center`, of which some are a tenth slower, in runs of other lengths than those of a bootstrap.
    fn times(center: f64, count: usize) -> Vec<f64> {
        (0..count).map(|at| if at * at % 7 < 2 { center * 1.1 } else { center }).collect()
    }

    #[test]
    fn what_changed_the_whole_most_is_first() {
        let before = vec![
            function("same", &times(100.0, 30)),
            function("gone", &[5.0]),
            function("faster", &times(1_000.0, 30)),
            function("slower", &times(10.0, 30)),
        ];
        let after = vec![
            function("slower", &times(20.0, 30)),
            function("same", &times(100.0, 30)),
            function("faster", &times(500.0, 30)),
            function("new", &[70.0, 30.0]),
        ];
        let expected = [
            ("faster", Verdict::Faster, -15_700.0),
            ("slower", Verdict::Slower, 314.0),
            ("new", Verdict::OnlyAfter, 100.0),
            ("gone", Verdict::OnlyBefore, -5.0),
            ("same", Verdict::Noise, 0.0),
        ];
        let found = compared(before, after);
        assert_eq!(found.len(), expected.len());
        for ((name, verdict, total), (want_name, want_verdict, want_total)) in found.iter().zip(expected) {
            assert_eq!((name.as_str(), *verdict), (want_name, want_verdict));
            assert!((total - want_total).abs() < 1e-6, "{name}: {total}");
        }
    }

    #[test]
    fn few_dispatches_and_noise_are_not_called_changes() {
        let verdict = |before: &[f64], after: &[f64]| {
            compared(vec![function("f", before)], vec![function("f", after)])[0].1
        };
        assert_eq!(verdict(&times(10.0, 7), &times(90.0, 30)), Verdict::Few);
        assert_eq!(verdict(&times(10.0, 8), &times(90.0, 8)), Verdict::Slower);
        // One percent slower, with ten percent of noise.
        assert_eq!(verdict(&times(100.0, 30), &times(101.0, 30)), Verdict::Noise);
        assert_eq!(verdict(&[0.0; 30], &times(90.0, 30)), Verdict::Few);
    }

    #[test]
    fn a_profile_without_dispatches_takes_no_time() {
        let total_ns = Side::new("a".into(), Vec::new()).total_ns;
        assert!(total_ns == 0.0 && total_ns.is_sign_positive(), "{total_ns}");
    }

    #[test]
    fn functions_of_hosts_and_devices_are_not_mixed() {
        let of_device = FunctionTimes { timed_by: TimedBy::Device, ..function("f", &[1.0]) };
        let found = compared(vec![function("f", &[1.0])], vec![of_device]);
        assert_eq!(
            found.iter().map(|it| it.1).collect::<Vec<_>>(),
            [Verdict::OnlyBefore, Verdict::OnlyAfter]
        );
    }

    #[test]
    fn many_dispatches_are_grouped() {
        let many: Vec<f64> = (0..1_000_000).map(|at| (at % 10) as f64).collect();
        let groups = grouped(&many);
        assert!(groups.len() <= MAX_SAMPLES && (stats::mean(&groups) - 4.5).abs() < 0.01);
        assert_eq!(grouped(&[3.0, 4.0]), [3.0, 4.0]);
    }
}
