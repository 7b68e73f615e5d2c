//! What changed between two profiles, function by function.

use std::collections::HashMap;

use rehal_bench::judge::judge_processes;
use rehal_bench::stats::{self, Interval};
use rehal_session::{FunctionTimes, TimedBy};
use serde::Serialize;

/// Functions that were dispatched more often by the same factor: up to this difference, since a program may
/// be killed between two of them.
const SAME_FACTOR: f64 = 0.01;

/// They have at least this part of the time.
const MIN_SHARE: f64 = 0.75;

/// The profiles of one version, each of a process of its own.
pub(super) struct Side {
    pub paths: Vec<String>,
    pub dispatch_count: u64,
    pub total_ns: f64,
    functions: Vec<Function>,
}

/// A function in the profiles of a side.
struct Function {
    name: String,
    timed_by: TimedBy,
    /// Of all profiles.
    times_ns: Vec<f64>,
    /// The median of each profile that has it. Each is a sample: a process has one placement in memory, which
    /// may make a function slower by some percent.
    profiles_ns: Vec<f64>,
}

/// Two profiles with the changes of their functions, that of most weight first.
pub(super) struct Comparison {
    pub before: Side,
    pub after: Side,
    /// By how much more often functions with most of the time were dispatched after; `None` if by no factor
    /// in common.
    pub common_factor: Option<f64>,
    pub changes: Vec<Change>,
}

/// How the time of a function changed.
pub(super) struct Change {
    pub name: String,
    pub timed_by: TimedBy,
    pub before: Option<Times>,
    pub after: Option<Times>,
    /// Dispatches more than the factor explains.
    pub added_count: f64,
    /// Their time, by the mean before; after, if there is none before.
    pub count_ns: f64,
    /// What the mean changed, of all dispatches after.
    pub mean_ns: f64,
    /// The mean after as a fraction of that before, if both are known and the latter is not zero.
    pub ratio: Option<f64>,
    /// The interval of the ratio of medians, with enough profiles. All of them are wide enough that with 95 %,
    /// no function without a change has one that excludes 1.
    pub ratio_interval: Option<Interval>,
}

/// The dispatches of a function in one profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Times {
    pub count: usize,
    pub total_ns: f64,
    pub mean_ns: f64,
    /// The median of the medians of the profiles.
    pub median_ns: f64,
}

/// What can be said of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Faster,
    Slower,
    /// The difference cannot be told from what processes differ by.
    Noise,
    /// Too few profiles to tell.
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
    /// Of profiles with these paths.
    pub(super) fn new(profiles: Vec<(String, Vec<FunctionTimes>)>) -> Self {
        let (mut functions, mut indices) = (Vec::<Function>::new(), HashMap::new());
        let mut paths = Vec::new();
        for (path, of_profile) in profiles {
            paths.push(path);
            for FunctionTimes { name, timed_by, times_ns, .. } in of_profile {
                let index = *indices.entry((timed_by, name.clone())).or_insert(functions.len());
                if index == functions.len() {
                    functions.push(Function {
                        name,
                        timed_by,
                        times_ns: Vec::new(),
                        profiles_ns: Vec::new(),
                    });
                }
                functions[index].profiles_ns.push(stats::median(&times_ns));
                functions[index].times_ns.extend(times_ns);
            }
        }
        let times = || functions.iter().flat_map(|function| &function.times_ns);
        // The sum of nothing is -0.0.
        let (dispatch_count, total_ns) = (times().count() as u64, times().sum::<f64>() + 0.0);
        Self { paths, dispatch_count, total_ns, functions }
    }

    pub(super) fn function_count(&self) -> usize {
        self.functions.len()
    }
}

impl Comparison {
    pub(super) fn from_sides(before: Side, after: Side) -> Self {
        let key = |function: &Function| (function.timed_by, function.name.clone());
        let mut rest: HashMap<_, _> = after.functions.iter().map(|it| (key(it), it)).collect();
        let mut pairs: Vec<_> =
            before.functions.iter().map(|function| (Some(function), rest.remove(&key(function)))).collect();
        let added = after.functions.iter().filter(|function| rest.contains_key(&key(function)));
        pairs.extend(added.map(|function| (None, Some(function))));
        let common_factor = common_factor(&pairs);
        let count_factor = common_factor.unwrap_or(1.0);
        let mut changes: Vec<_> =
            pairs.iter().map(|(before, after)| Change::from_times(*before, *after, count_factor)).collect();
        set_intervals(&pairs, &mut changes);
        let weight = |change: &Change| change.total_ns().abs();
        changes.sort_by(|left, right| {
            weight(right).total_cmp(&weight(left)).then_with(|| left.name.cmp(&right.name))
        });
        Self { before, after, common_factor, changes }
    }

    /// The common factor, or else 1. All changes are relative to the time before, multiplied by it.
    pub(super) fn count_factor(&self) -> f64 {
        self.common_factor.unwrap_or(1.0)
    }

    /// The time of all dispatches before, as often as after.
    pub(super) fn scaled_before_ns(&self) -> f64 {
        self.before.total_ns * self.count_factor()
    }

    /// The change of the time of all dispatches that the factor does not explain.
    pub(super) fn total_ns(&self) -> f64 {
        self.after.total_ns - self.scaled_before_ns()
    }

    /// Its part of the numbers of dispatches.
    pub(super) fn count_ns(&self) -> f64 {
        // The sum of nothing is -0.0.
        self.changes.iter().map(|change| change.count_ns).sum::<f64>() + 0.0
    }

    /// Whether the factor explains the numbers of dispatches of all functions.
    pub(super) fn has_common_counts(&self) -> bool {
        self.changes.iter().all(|change| change.added_count == 0.0)
    }
}

/// A function of either profile, or of both.
type Pair<'a> = (Option<&'a Function>, Option<&'a Function>);

/// The ratio of the numbers of dispatches of functions with most of the time of those that both profiles
/// have; `None` if they have no ratio in common.
fn common_factor(pairs: &[Pair<'_>]) -> Option<f64> {
    let total = |function: &Function| function.times_ns.iter().sum::<f64>();
    let mut ratios: Vec<_> = pairs
        .iter()
        .filter_map(|(before, after)| {
            let (before, after) = (before.as_ref()?, after.as_ref()?);
            let ratio = after.times_ns.len() as f64 / before.times_ns.len() as f64;
            Some((ratio, total(before) + total(after)))
        })
        .collect();
    ratios.sort_by(|left, right| left.0.total_cmp(&right.0));
    let all: f64 = ratios.iter().map(|(_, weight)| weight).sum();
    // The weighted median is one of them, if there are any.
    let mut below = 0.0;
    let median = ratios.iter().find(|(_, weight)| {
        below += weight;
        below * 2.0 >= all
    });
    let (factor, _) = median?;
    let is_same = |ratio: f64| (ratio / factor - 1.0).abs() <= SAME_FACTOR;
    let same: f64 = ratios.iter().filter(|(ratio, _)| is_same(*ratio)).map(|(_, weight)| weight).sum();
    (same >= MIN_SHARE * all).then_some(*factor)
}

/// Sets the intervals of ratios. Of many functions without a change, some would have a 95 % interval that
/// excludes 1. So each has the probability that is left to it by their number, without those of which it is
/// known that they changed (Holm, 1979, "A simple sequentially rejective multiple test procedure").
fn set_intervals(pairs: &[Pair<'_>], changes: &mut [Change]) {
    let mut compared = Vec::new();
    for (index, (pair, change)) in pairs.iter().zip(&*changes).enumerate() {
        if let ((Some(before), Some(after)), Some(_)) = (pair, change.ratio) {
            compared.push((index, &before.profiles_ns, &after.profiles_ns));
        }
    }
    let mut changed_count = 0;
    loop {
        for (index, before, after) in &compared {
            let (_, interval, _) = judge_processes(before, after, 0.0, compared.len() - changed_count);
            changes[*index].ratio_interval = interval;
        }
        let has_changed = |change: &&Change| matches!(change.verdict(), Verdict::Faster | Verdict::Slower);
        let count = changes.iter().filter(has_changed).count();
        // Fewer others have narrower intervals, so that it does not decrease.
        if count <= changed_count {
            return;
        }
        changed_count = count;
    }
}

impl Change {
    fn from_times(before: Option<&Function>, after: Option<&Function>, count_factor: f64) -> Self {
        let Some(any) = before.or(after) else { unreachable!("a profile has the function") };
        let times = [before, after].map(|function| function.map(Times::from_function));
        let count = |times: Option<Times>| times.map_or(0.0, |times| times.count as f64);
        // As often as after, by the factor.
        let expected = count(times[0]) * count_factor;
        let added = count(times[1]) - expected;
        let mut change = Self {
            name: any.name.clone(),
            timed_by: any.timed_by,
            before: times[0],
            after: times[1],
            // A product of the factor may differ from the number in its last digit.
            added_count: if added.abs() < 1e-6 * expected { 0.0 } else { added },
            count_ns: 0.0,
            mean_ns: 0.0,
            ratio: None,
            ratio_interval: None,
        };
        change.count_ns = change.added_count * times[0].or(times[1]).map_or(0.0, |times| times.mean_ns);
        let (Some(old), Some(new)) = (change.before, change.after) else { return change };
        change.mean_ns = count(change.after) * (new.mean_ns - old.mean_ns);
        if old.mean_ns > 0.0 {
            change.ratio = Some(new.mean_ns / old.mean_ns);
        }
        change
    }

    /// How much longer its dispatches took, in total, apart from the factor of their numbers.
    pub(super) fn total_ns(&self) -> f64 {
        self.count_ns + self.mean_ns
    }

    /// The same with it.
    pub(super) fn raw_total_ns(&self) -> f64 {
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
    fn from_function(function: &Function) -> Self {
        let times = &function.times_ns;
        Self {
            count: times.len(),
            total_ns: times.iter().sum(),
            mean_ns: stats::mean(times),
            median_ns: stats::median(&function.profiles_ns),
        }
    }
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
        let comparison = Comparison::from_sides(Side::new("a".into(), before), Side::new("b".into(), after));
        let row = |change: &Change| (change.name.clone(), change.verdict(), change.total_ns());
        comparison.changes.iter().map(row).collect()
    }

    /// Times around `center`, of which some are a tenth slower, in runs of other lengths than those of a
    /// bootstrap.
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

    /// Times of functions without a change, in phases of the machine that are shorter than a sixth of a
    /// profile.
    fn equal(random: &mut fastrand::Rng, count: usize) -> Vec<FunctionTimes> {
        let time = |random: &mut fastrand::Rng| 100.0 * (1.0 + 0.2 * random.f64() + random.f64().powi(20));
        let times = |random: &mut fastrand::Rng| (0..60).map(|_| time(random)).collect::<Vec<_>>();
        (0..count).map(|index| function(&format!("f{index}"), &times(random))).collect()
    }

    #[test]
    fn none_of_many_equal_functions_seems_to_have_changed() {
        const COMPARISONS: u64 = 20;
        let changed = |seed: u64, count: usize| {
            let mut random = fastrand::Rng::with_seed(seed);
            let found = compared(equal(&mut random, count), equal(&mut random, count));
            found.iter().filter(|(_, verdict, _)| *verdict != Verdict::Noise).count()
        };
        let wrong = (0..COMPARISONS).filter(|seed| changed(*seed, 88) > 0).count();
        assert!(wrong <= 2, "{wrong} of {COMPARISONS} comparisons");
    }

    #[test]
    fn functions_that_changed_are_found_among_many() {
        let mut random = fastrand::Rng::with_seed(1);
        let (before, mut after) = (equal(&mut random, 40), equal(&mut random, 40));
        for function in &mut after[..30] {
            function.times_ns.iter_mut().for_each(|it| *it *= 2.0);
        }
        let found = compared(before, after);
        let slower = found.iter().filter(|(_, verdict, _)| *verdict == Verdict::Slower).count();
        assert_eq!((slower, found[..30].iter().all(|it| it.1 == Verdict::Slower)), (30, true));
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

    fn repeated(function: &Function, count: usize) -> FunctionTimes {
        FunctionTimes { times_ns: function.times_ns.repeat(count), ..function.clone() }
    }

    #[test]
    fn a_number_of_iterations_is_not_a_change() {
        let once = function("once", &[30.0]);
        let functions =
            || vec![function("a", &times(100.0, 50)), function("b", &times(1_000.0, 25)), once.clone()];
        let twice: Vec<_> = functions()
            .iter()
            .map(|it| if it.name == "once" { it.clone() } else { repeated(it, 2) })
            .collect();
        let comparison =
            Comparison::from_sides(Side::new("a".into(), functions()), Side::new("b".into(), twice));
        assert_eq!(comparison.common_factor, Some(2.0));
        let of = |name: &str| comparison.changes.iter().find(|it| it.name == name).unwrap();
        for name in ["a", "b"] {
            let change = of(name);
            assert_eq!((change.added_count, change.total_ns()), (0.0, 0.0), "{name}");
            assert!(change.raw_total_ns() > 0.0, "{name}");
        }
        // The initializer ran once in each.
        assert_eq!((of("once").added_count, of("once").total_ns()), (-1.0, -30.0));
        assert_eq!(comparison.changes[0].name, "once");
        assert!(!comparison.has_common_counts());
        assert!((comparison.total_ns() - -30.0).abs() < 1e-6 && comparison.count_ns() == -30.0);
    }

    #[test]
    fn without_a_common_factor_the_number_and_the_mean_are_separate() {
        let before = vec![function("more", &[10.0; 50]), function("less", &[10.0; 60])];
        let after = vec![function("more", &[8.0; 100]), function("less", &[15.0; 20])];
        let comparison = Comparison::from_sides(Side::new("a".into(), before), Side::new("b".into(), after));
        assert_eq!((comparison.common_factor, comparison.count_factor()), (None, 1.0));
        let rows: Vec<_> = comparison
            .changes
            .iter()
            .map(|it| (&*it.name, it.added_count, it.count_ns, it.mean_ns))
            .collect();
        assert_eq!(rows, [("less", -40.0, -400.0, 100.0), ("more", 50.0, 500.0, -200.0)]);
        assert_eq!((comparison.total_ns(), comparison.count_ns()), (0.0, 100.0));
    }

    #[test]
    fn a_factor_of_killed_programs_is_found_though_it_is_not_exact() {
        let before = vec![function("a", &[10.0; 500]), function("b", &[10.0; 499])];
        let after = vec![function("a", &[20.0; 901]), function("b", &[20.0; 900])];
        let comparison = Comparison::from_sides(Side::new("a".into(), before), Side::new("b".into(), after));
        assert!((comparison.count_factor() - 1.8).abs() < 0.01, "{}", comparison.count_factor());
        for change in &comparison.changes {
            assert!(change.added_count.abs() < 4.0 && change.count_ns.abs() < 40.0, "{}", change.added_count);
            assert!((change.total_ns() - 9_000.0).abs() < 50.0, "{}", change.total_ns());
        }
    }
}
