//! The changes between two profiles, function by function.

use std::collections::HashMap;

use rehal_profile::times::{FunctionTimes, TimedBy};
use serde::{Serialize, Serializer};

use crate::judge::{TimingVerdict, judge_processes};
use crate::stats::{self, Interval};

/// Functions that were dispatched more often by the same factor: up to this difference, since a program may
/// be killed between two of them.
const SAME_FACTOR: f64 = 0.01;

/// They have at least this part of the time.
const MIN_SHARE: f64 = 0.75;

/// The profiles of one version, each of a process of its own.
#[derive(Serialize)]
pub struct ProfileSide {
    /// Names of the profiles, such as their paths.
    pub paths: Vec<String>,
    /// Functions that a profile dispatches.
    pub function_count: usize,
    /// Dispatches of all functions in all profiles.
    pub dispatch_count: u64,
    /// Nanoseconds of these dispatches.
    pub total_ns: f64,
    #[serde(skip)]
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
#[derive(Serialize)]
pub struct ProfileComparison {
    /// The version that is compared with.
    pub before: ProfileSide,
    /// The version that is judged.
    pub after: ProfileSide,
    /// By how much more often functions with most of the time were dispatched after; `None` if by no factor
    /// in common.
    #[serde(skip)]
    pub common_factor: Option<f64>,
    /// The common factor, or else 1. All changes are relative to the time before, multiplied by it.
    pub count_factor: f64,
    /// Nanoseconds by which all dispatches changed that the factor does not explain.
    pub change_ns: f64,
    /// Its part by the numbers of dispatches.
    pub count_change_ns: f64,
    /// Its part by their mean times.
    pub mean_change_ns: f64,
    /// Nanoseconds by which all dispatches changed, with the factor.
    pub raw_change_ns: f64,
    intervals_cover: &'static str,
    /// Functions of either side.
    #[serde(rename = "functions")]
    pub changes: Vec<FunctionChange>,
}

/// How the time of a function changed.
#[derive(Serialize)]
pub struct FunctionChange {
    /// Its name.
    pub name: String,
    /// Who timed its dispatches. Those of a host and of a device are two functions.
    pub timed_by: TimedBy,
    /// The verdict of its interval.
    pub verdict: ChangeVerdict,
    /// Nanoseconds by which its dispatches took longer in total, apart from the factor of their numbers.
    pub change_ns: f64,
    /// Its part by the number of dispatches that are added, by the mean before; after, if there is none
    /// before.
    pub count_change_ns: f64,
    /// Its part by the mean, of all dispatches after.
    pub mean_change_ns: f64,
    /// Nanoseconds by which the sum of its dispatches changed, with that factor.
    pub raw_change_ns: f64,
    /// Dispatches more than the factor explains.
    #[serde(skip)]
    pub added_count: f64,
    /// The median after as a fraction of that before, if both are known and not zero.
    pub ratio: Option<f64>,
    /// Its interval, with enough profiles. All of them are wide enough that with 95 %, no function without a
    /// change has one that excludes 1.
    pub ratio_interval: Option<Interval>,
    /// `None` if only the other side dispatches it.
    pub before: Option<FunctionTotals>,
    /// `None` if only the other side dispatches it.
    pub after: Option<FunctionTotals>,
}

/// The dispatches of a function on one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FunctionTotals {
    /// Dispatches in all profiles.
    pub count: usize,
    /// Their sum in nanoseconds.
    pub total_ns: f64,
    /// Their mean in nanoseconds.
    pub mean_ns: f64,
    /// Nanoseconds: the median of the medians of the profiles.
    pub median_ns: f64,
}

/// The verdict on a function of a side, or of both; serialized as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerdict {
    /// Both sides dispatch it.
    Judged(TimingVerdict),
    /// Only the side before dispatches it.
    OnlyBefore,
    /// Only the side after dispatches it.
    OnlyAfter,
}

impl ChangeVerdict {
    /// The verdict as text.
    pub fn name(self) -> &'static str {
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

impl Serialize for ChangeVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl ProfileSide {
    /// A side of profiles, each with its path and the times of its functions.
    pub fn new(profiles: Vec<(String, Vec<FunctionTimes>)>) -> Self {
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
        Self { paths, function_count: functions.len(), dispatch_count, total_ns, functions }
    }
}

impl ProfileComparison {
    /// Compares two versions. A function is faster or slower if it is so by more than `margin`, a fraction.
    pub fn from_sides(before: ProfileSide, after: ProfileSide, margin: f64) -> Self {
        let key = |function: &Function| (function.timed_by, function.name.clone());
        let mut rest: HashMap<_, _> = after.functions.iter().map(|it| (key(it), it)).collect();
        let mut pairs: Vec<_> =
            before.functions.iter().map(|function| (Some(function), rest.remove(&key(function)))).collect();
        let added = after.functions.iter().filter(|function| rest.contains_key(&key(function)));
        pairs.extend(added.map(|function| (None, Some(function))));
        let common_factor = common_factor(&pairs);
        let count_factor = common_factor.unwrap_or(1.0);
        let mut changes: Vec<_> = pairs
            .iter()
            .map(|(before, after)| FunctionChange::from_times(*before, *after, count_factor))
            .collect();
        judge(&pairs, &mut changes, margin);
        let weight = |change: &FunctionChange| change.change_ns.abs();
        changes.sort_by(|left, right| {
            weight(right).total_cmp(&weight(left)).then_with(|| left.name.cmp(&right.name))
        });
        let change_ns = after.total_ns - before.total_ns * count_factor;
        // The sum of nothing is -0.0.
        let count_change_ns = changes.iter().map(|change| change.count_change_ns).sum::<f64>() + 0.0;
        Self {
            common_factor,
            count_factor,
            change_ns,
            count_change_ns,
            mean_change_ns: change_ns - count_change_ns,
            raw_change_ns: after.total_ns - before.total_ns,
            intervals_cover: "variation between the profiles of a side",
            before,
            after,
            changes,
        }
    }

    /// Nanoseconds of all dispatches before, as often as after.
    pub fn scaled_before_ns(&self) -> f64 {
        self.before.total_ns * self.count_factor
    }

    /// Whether the factor explains the numbers of dispatches of all functions.
    pub fn has_common_counts(&self) -> bool {
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
fn judge(pairs: &[Pair<'_>], changes: &mut [FunctionChange], margin: f64) {
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
            changes[*index].verdict = ChangeVerdict::Judged(judgment.verdict);
        }
        let count = changes.iter().filter(|it| it.verdict.is_changed()).count();
        // Fewer others have narrower intervals, so that it does not decrease.
        if count <= changed_count {
            return;
        }
        changed_count = count;
    }
}

impl FunctionChange {
    fn from_times(before: Option<&Function>, after: Option<&Function>, count_factor: f64) -> Self {
        let Some(any) = before.or(after) else { unreachable!("a profile has the function") };
        let times = [before, after].map(|function| function.map(FunctionTotals::from_function));
        let count = |times: Option<FunctionTotals>| times.map_or(0.0, |times| times.count as f64);
        let total = |times: Option<FunctionTotals>| times.map_or(0.0, |times| times.total_ns);
        // As often as after, by the factor.
        let expected = count(times[0]) * count_factor;
        let added = count(times[1]) - expected;
        let mut change = Self {
            name: any.name.clone(),
            timed_by: any.timed_by,
            before: times[0],
            after: times[1],
            change_ns: 0.0,
            raw_change_ns: total(times[1]) - total(times[0]),
            // A product of the factor may differ from the number in its last digit.
            added_count: if added.abs() < 1e-6 * expected { 0.0 } else { added },
            count_change_ns: 0.0,
            mean_change_ns: 0.0,
            ratio: None,
            ratio_interval: None,
            verdict: match (before, after) {
                (_, None) => ChangeVerdict::OnlyBefore,
                (None, _) => ChangeVerdict::OnlyAfter,
                _ => ChangeVerdict::Judged(TimingVerdict::CannotTell),
            },
        };
        change.count_change_ns =
            change.added_count * times[0].or(times[1]).map_or(0.0, |times| times.mean_ns);
        if let (Some(old), Some(new)) = (change.before, change.after) {
            change.mean_change_ns = count(change.after) * (new.mean_ns - old.mean_ns);
            if old.median_ns > 0.0 && new.median_ns > 0.0 {
                change.ratio = Some(new.median_ns / old.median_ns);
            }
        }
        change.change_ns = change.count_change_ns + change.mean_change_ns;
        change
    }
}

impl FunctionTotals {
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

    const SLOWER: ChangeVerdict = ChangeVerdict::Judged(TimingVerdict::Slower);
    const FASTER: ChangeVerdict = ChangeVerdict::Judged(TimingVerdict::Faster);
    const CANNOT_TELL: ChangeVerdict = ChangeVerdict::Judged(TimingVerdict::CannotTell);

    /// Of one profile.
    fn side(path: &str, functions: Vec<FunctionTimes>) -> ProfileSide {
        ProfileSide::new(vec![(path.into(), functions)])
    }

    type Profiles = Vec<Vec<FunctionTimes>>;

    fn compared(before: Profiles, after: Profiles) -> Vec<(String, ChangeVerdict, f64)> {
        let side =
            |profiles: Profiles| ProfileSide::new(profiles.into_iter().map(|it| ("p".into(), it)).collect());
        let comparison = ProfileComparison::from_sides(side(before), side(after), MARGIN);
        let row = |change: &FunctionChange| (change.name.clone(), change.verdict, change.change_ns);
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
        let (gone, new) = (ChangeVerdict::OnlyBefore, ChangeVerdict::OnlyAfter);
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

    /// Without this test, functions that changed may count among those whose intervals are wider for each
    /// other.
    #[test]
    fn intervals_are_as_narrow_as_without_the_functions_that_changed() {
        let interval = |others: &[(&str, f64)]| {
            let side = |is_after: bool| {
                let of = |at: u32| {
                    let time = f64::from(100 + if is_after { at * 3 % 8 } else { at });
                    let named = others.iter().chain(&[("f", 1.01)]);
                    let functions = named
                        .map(|(name, factor)| function(name, &[if is_after { time * factor } else { time }]));
                    ("p".to_owned(), functions.collect())
                };
                ProfileSide::new((0..8).map(of).collect())
            };
            let comparison = ProfileComparison::from_sides(side(false), side(true), MARGIN);
            comparison.changes.iter().find(|it| it.name == "f").unwrap().ratio_interval.unwrap()
        };
        let alone = interval(&[]);
        assert_eq!(interval(&[("slower", 3.0), ("faster", 0.3)]), alone);
        let among = interval(&[("same", 1.0), ("other", 1.0)]);
        assert!(among.low < alone.low && among.high > alone.high, "{among:?} {alone:?}");
    }

    #[test]
    fn the_ratio_is_of_the_medians_of_profiles() {
        let of = |times: [f64; 3]| {
            ProfileSide::new(times.map(|it| ("p".into(), vec![function("f", &[it, it, 9e9])])).into())
        };
        let comparison =
            ProfileComparison::from_sides(of([10.0, 11.0, 50.0]), of([22.0, 20.0, 23.0]), MARGIN);
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
            [ChangeVerdict::OnlyBefore, ChangeVerdict::OnlyAfter]
        );
    }

    /// FunctionTotals around `center`, of which some are a tenth slower.
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
        let comparison = ProfileComparison::from_sides(side("a", functions()), side("b", twice), MARGIN);
        assert_eq!(comparison.common_factor, Some(2.0));
        let of = |name: &str| comparison.changes.iter().find(|it| it.name == name).unwrap();
        for name in ["a", "b"] {
            let change = of(name);
            assert_eq!((change.added_count, change.change_ns), (0.0, 0.0), "{name}");
            assert!(change.raw_change_ns > 0.0, "{name}");
        }
        // The initializer ran once in each.
        assert_eq!((of("once").added_count, of("once").change_ns), (-1.0, -30.0));
        assert_eq!(comparison.changes[0].name, "once");
        assert!(!comparison.has_common_counts());
        assert!((comparison.change_ns - -30.0).abs() < 1e-6 && comparison.count_change_ns == -30.0);
    }

    #[test]
    fn without_a_common_factor_the_number_and_the_mean_are_separate() {
        let before = vec![function("more", &[10.0; 50]), function("less", &[10.0; 60])];
        let after = vec![function("more", &[8.0; 100]), function("less", &[15.0; 20])];
        let comparison = ProfileComparison::from_sides(side("a", before), side("b", after), MARGIN);
        assert_eq!((comparison.common_factor, comparison.count_factor), (None, 1.0));
        let rows: Vec<_> = comparison
            .changes
            .iter()
            .map(|it| (&*it.name, it.added_count, it.count_change_ns, it.mean_change_ns))
            .collect();
        assert_eq!(rows, [("less", -40.0, -400.0, 100.0), ("more", 50.0, 500.0, -200.0)]);
        assert_eq!((comparison.change_ns, comparison.count_change_ns), (0.0, 100.0));
    }

    #[test]
    fn a_factor_of_killed_programs_is_found_though_it_is_not_exact() {
        let before = vec![function("a", &[10.0; 500]), function("b", &[10.0; 499])];
        let after = vec![function("a", &[20.0; 901]), function("b", &[20.0; 900])];
        let comparison = ProfileComparison::from_sides(side("a", before), side("b", after), MARGIN);
        assert!((comparison.count_factor - 1.8).abs() < 0.01, "{}", comparison.count_factor);
        for change in &comparison.changes {
            assert!(
                change.added_count.abs() < 4.0 && change.count_change_ns.abs() < 40.0,
                "{}",
                change.added_count
            );
            assert!((change.change_ns - 9_000.0).abs() < 50.0, "{}", change.change_ns);
        }
    }
}
