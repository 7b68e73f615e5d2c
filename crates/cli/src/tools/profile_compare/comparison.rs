//! What changed between two profiles, function by function.

use std::collections::HashMap;

use rehal_judge::stats::{self, Interval};
use rehal_judge::{TimingVerdict, judge_processes};
use rehal_profile::times::{FunctionTimes, TimedBy};
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

/// Two versions with the changes of their functions, that of most weight first.
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
    /// The median after as a fraction of that before, if both are known and not zero.
    pub ratio: Option<f64>,
    /// Its interval, with enough profiles. All of them are wide enough that with 95 %, no function without a
    /// change has one that excludes 1.
    pub ratio_interval: Option<Interval>,
    pub verdict: Verdict,
}

/// The dispatches of a function on one side.
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
    Judged(TimingVerdict),
    OnlyBefore,
    OnlyAfter,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Judged(verdict) => verdict.told(),
            Self::OnlyBefore => "only before",
            Self::OnlyAfter => "only after",
        }
    }

    fn is_changed(self) -> bool {
        matches!(self, Self::Judged(TimingVerdict::Faster | TimingVerdict::Slower))
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
    pub(super) fn from_sides(before: Side, after: Side, margin: f64) -> Self {
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
        judge(&pairs, &mut changes, margin);
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

/// Judges the functions of both sides. Of many functions without a change, some would have a 95 % interval
/// that excludes 1. So each has the probability that is left to it by their number, without those of which it
/// is known that they changed (Holm, 1979, "A simple sequentially rejective multiple test procedure").
fn judge(pairs: &[Pair<'_>], changes: &mut [Change], margin: f64) {
    let mut compared = Vec::new();
    for (index, (pair, change)) in pairs.iter().zip(&*changes).enumerate() {
        if let ((Some(before), Some(after)), Some(_)) = (pair, change.ratio) {
            compared.push((index, &before.profiles_ns, &after.profiles_ns));
        }
    }
    let mut changed_count = 0;
    loop {
        for (index, before, after) in &compared {
            let judgment = judge_processes(before, after, margin, compared.len() - changed_count);
            changes[*index].ratio_interval = judgment.interval;
            changes[*index].verdict = Verdict::Judged(judgment.verdict);
        }
        let count = changes.iter().filter(|it| it.verdict.is_changed()).count();
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
            verdict: match (before, after) {
                (_, None) => Verdict::OnlyBefore,
                (None, _) => Verdict::OnlyAfter,
                _ => Verdict::Judged(TimingVerdict::CannotTell),
            },
        };
        change.count_ns = change.added_count * times[0].or(times[1]).map_or(0.0, |times| times.mean_ns);
        let (Some(old), Some(new)) = (change.before, change.after) else { return change };
        change.mean_ns = count(change.after) * (new.mean_ns - old.mean_ns);
        if old.median_ns > 0.0 && new.median_ns > 0.0 {
            change.ratio = Some(new.median_ns / old.median_ns);
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

    const MARGIN: f64 = 0.0;

    const SLOWER: Verdict = Verdict::Judged(TimingVerdict::Slower);
    const FASTER: Verdict = Verdict::Judged(TimingVerdict::Faster);
    const CANNOT_TELL: Verdict = Verdict::Judged(TimingVerdict::CannotTell);

    /// Of one profile.
    fn side(path: &str, functions: Vec<FunctionTimes>) -> Side {
        Side::new(vec![(path.into(), functions)])
    }

    type Profiles = Vec<Vec<FunctionTimes>>;

    fn compared(before: Profiles, after: Profiles) -> Vec<(String, Verdict, f64)> {
        let side = |profiles: Profiles| Side::new(profiles.into_iter().map(|it| ("p".into(), it)).collect());
        let comparison = Comparison::from_sides(side(before), side(after), MARGIN);
        let row = |change: &Change| (change.name.clone(), change.verdict, change.total_ns());
        comparison.changes.iter().map(row).collect()
    }

    /// A profile of functions, each with its time. The placement of each in the process makes it up to 8 %
    /// slower, dispatches differ by as much again, and now and then one is preempted.
    fn profile(random: &mut fastrand::Rng, functions: &[(&str, f64)]) -> Vec<FunctionTimes> {
        let of = |(name, time): &(&str, f64)| {
            let placed = time * (1.0 + 0.08 * random.f64());
            let mut dispatch = || placed * (1.0 + 0.08 * random.f64() + 9.0 * random.f64().powi(40));
            function(name, &(0..20).map(|_| dispatch()).collect::<Vec<_>>())
        };
        functions.iter().map(of).collect()
    }

    fn profiles(random: &mut fastrand::Rng, count: usize, functions: &[(&str, f64)]) -> Profiles {
        (0..count).map(|_| profile(random, functions)).collect()
    }

    #[test]
    fn what_changed_the_whole_most_is_first() {
        let mut random = fastrand::Rng::with_seed(1);
        let before = [("same", 100.0), ("gone", 1.0), ("faster", 1_000.0), ("slower", 40.0)];
        let after = [("slower", 60.0), ("same", 100.0), ("faster", 500.0), ("new", 9.0)];
        let found = compared(profiles(&mut random, 8, &before), profiles(&mut random, 8, &after));
        let rows: Vec<_> = found.iter().map(|(name, verdict, _)| (name.as_str(), *verdict)).collect();
        let (gone, new) = (Verdict::OnlyBefore, Verdict::OnlyAfter);
        let expected =
            [("faster", FASTER), ("slower", SLOWER), ("new", new), ("same", CANNOT_TELL), ("gone", gone)];
        let is_in_order = found.windows(2).all(|pair| pair[0].2.abs() >= pair[1].2.abs());
        assert!(expected.iter().all(|it| rows.contains(it)) && is_in_order, "{found:?}");
        assert_eq!((rows.len(), rows[0], rows[1]), (5, expected[0], expected[1]));
        assert!((-110_000.0..-75_000.0).contains(&found[0].2), "{found:?}");
    }

    #[test]
    fn few_profiles_prove_nothing_however_much_they_differ() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut verdict = |before, after, time| {
            let (before, after) = (
                profiles(&mut random, before, &[("f", 100.0)]),
                profiles(&mut random, after, &[("f", time)]),
            );
            compared(before, after)[0].1
        };
        assert_eq!([verdict(1, 1, 900.0), verdict(1, 9, 900.0), verdict(3, 3, 900.0)], [CANNOT_TELL; 3]);
        assert_eq!([verdict(4, 4, 900.0), verdict(4, 4, 10.0)], [SLOWER, FASTER]);
        // A percent slower, with eight of placement.
        assert_eq!(verdict(8, 8, 101.0), CANNOT_TELL);
        let of = |times: &[f64]| vec![vec![function("f", times)]; 8];
        assert_eq!(compared(of(&[0.0; 30]), of(&[90.0; 30]))[0].1, CANNOT_TELL);
    }

    const NAMES: [&str; 30] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
        "u", "v", "w", "x", "y", "z", "aa", "bb", "cc", "dd",
    ];

    #[test]
    fn in_at_most_five_of_a_hundred_comparisons_an_equal_function_is_called_different() {
        let functions = NAMES.map(|name| (name, 100.0));
        for (count, functions) in [(4, &functions[..1]), (8, &functions[..1]), (8, &functions[..])] {
            let mut random = fastrand::Rng::with_seed(3);
            let mut is_wrong = |_: &u32| {
                let sides = [0; 2].map(|_| profiles(&mut random, count, functions));
                let [before, after] = sides;
                compared(before, after).iter().any(|it| it.1.is_changed())
            };
            let wrong = (0..100).filter(|it| is_wrong(it)).count();
            assert!(wrong <= 5, "{wrong} of 100 with {count} profiles of {} functions", functions.len());
        }
    }

    #[test]
    fn functions_that_changed_are_found_among_many() {
        let mut random = fastrand::Rng::with_seed(1);
        let before = profiles(&mut random, 8, &NAMES.map(|name| (name, 100.0)));
        let after: Vec<_> = (0..30).map(|at| (NAMES[at], if at < 20 { 115.0 } else { 100.0 })).collect();
        let found = compared(before, profiles(&mut random, 8, &after));
        let verdict = |name: &str| found.iter().find(|it| it.0 == name).unwrap().1;
        assert!(NAMES[..20].iter().all(|name| verdict(name) == SLOWER), "{found:?}");
        assert!(NAMES[20..].iter().all(|name| !verdict(name).is_changed()), "{found:?}");
    }

    #[test]
    fn the_ratio_is_of_the_medians_of_profiles() {
        let of = |times: [f64; 3]| {
            Side::new(times.map(|it| ("p".into(), vec![function("f", &[it, it, 9e9])])).into())
        };
        let comparison = Comparison::from_sides(of([10.0, 11.0, 50.0]), of([22.0, 20.0, 23.0]), MARGIN);
        let change = &comparison.changes[0];
        assert_eq!((change.ratio, change.ratio_interval), (Some(2.0), None));
        assert_eq!(change.before.map(|it| (it.count, it.median_ns)), Some((9, 11.0)));
        assert_eq!((comparison.before.paths.len(), comparison.before.dispatch_count), (3, 9));
    }

    #[test]
    fn a_profile_without_dispatches_takes_no_time() {
        let total_ns = side("a", Vec::new()).total_ns;
        assert!(total_ns == 0.0 && total_ns.is_sign_positive(), "{total_ns}");
    }

    #[test]
    fn functions_of_hosts_and_devices_are_not_mixed() {
        let of_device = FunctionTimes { timed_by: TimedBy::Device, ..function("f", &[1.0]) };
        let found = compared(vec![vec![function("f", &[1.0])]], vec![vec![of_device]]);
        assert_eq!(
            found.iter().map(|it| it.1).collect::<Vec<_>>(),
            [Verdict::OnlyBefore, Verdict::OnlyAfter]
        );
    }

    /// Times around `center`, of which some are a tenth slower.
    fn times(center: f64, count: usize) -> Vec<f64> {
        (0..count).map(|at| if at * at % 7 < 2 { center * 1.1 } else { center }).collect()
    }

    fn repeated(function: &FunctionTimes, count: usize) -> FunctionTimes {
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
        let comparison = Comparison::from_sides(side("a", functions()), side("b", twice), MARGIN);
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
        let comparison = Comparison::from_sides(side("a", before), side("b", after), MARGIN);
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
        let comparison = Comparison::from_sides(side("a", before), side("b", after), MARGIN);
        assert!((comparison.count_factor() - 1.8).abs() < 0.01, "{}", comparison.count_factor());
        for change in &comparison.changes {
            assert!(change.added_count.abs() < 4.0 && change.count_ns.abs() < 40.0, "{}", change.added_count);
            assert!((change.total_ns() - 9_000.0).abs() < 50.0, "{}", change.total_ns());
        }
    }
}
