//! Searches with candidates that are invented: which are timed, which are best, and what is known afterwards.

use std::collections::HashMap;
use std::path::Path;

use rehal_base::{Error, Result};
use rehal_build::{
    BuiltPoint, GridSampler, ListSampler, Measured, PointSource, RandomSampler, Sampler, Search,
    SearchEffort, SearchHost, SearchOptions, SearchResult, SearchSpace, SearchStop, Trial, TrialOutcome,
};
use serde_json::{Map, Value};

/// Compiles, checks and times nothing: the name of a candidate says what becomes of it.
#[derive(Default)]
struct Host {
    /// The work that was done, in order.
    done: Vec<String>,
    lines: Vec<String>,
    /// The comparison after so many has no answer.
    limit: Option<usize>,
    /// Interrupted from then on.
    is_interrupted: bool,
    /// A candidate that is wrong when it is measured once more.
    flaky: Option<&'static str>,
    /// A candidate that seems to take no time in trials.
    lucky: Option<&'static str>,
}

/// The time of a candidate by its name, or what else becomes of it.
fn time(name: &str) -> std::result::Result<f64, TrialOutcome> {
    match name {
        "wrong" => Err(TrialOutcome::Wrong),
        "crash" => Err(TrialOutcome::Crashed),
        "hang" => Err(TrialOutcome::TimedOut),
        number => Ok(number.split('~').next().unwrap().parse().unwrap()),
    }
}

impl SearchHost for Host {
    type Code = String;

    fn bytes(code: &String) -> &[u8] {
        code.split('~').next().unwrap_or_default().as_bytes()
    }

    fn workgroups(code: &String) -> Option<String> {
        code.split_once('~').map(|(_, count)| count.to_owned())
    }

    fn build(&mut self, source: &PointSource) -> Result<BuiltPoint<String>> {
        let name = source.macros[0].1.clone();
        self.done.push(format!("build {name}"));
        match &*name {
            "broken" => Ok(BuiltPoint::Failed("it does not compile".into())),
            "full" => Err(Error::resource_exhausted("no space")),
            // What follows does not change the code.
            _ => Ok(BuiltPoint::Code(name.split('#').next().unwrap_or_default().to_owned())),
        }
    }

    fn compare(
        &mut self,
        candidate: &String,
        other: Option<&String>,
        effort: SearchEffort,
    ) -> Result<Option<Measured>> {
        let against = other.map_or("captured", String::as_str);
        let effort = match effort {
            SearchEffort::Trial { give_up_above } => format!("up to {give_up_above:.2}"),
            SearchEffort::Result => "well".into(),
        };
        self.done.push(format!("{candidate} with {against} {effort}"));
        if self.limit.is_some_and(|limit| self.done.iter().filter(|it| it.contains(" with ")).count() > limit)
        {
            self.is_interrupted = true;
            return Ok(None);
        }
        if effort == "well" && self.flaky == Some(candidate.as_str()) {
            return Ok(Some(Measured::without_time(TrialOutcome::Wrong, "flaky".into())));
        }
        let ours = match time(candidate) {
            Ok(_) if effort != "well" && self.lucky == Some(candidate.as_str()) => 0.001,
            Ok(ours) => ours,
            Err(outcome) => return Ok(Some(Measured::without_time(outcome, "why".into()))),
        };
        let ratio = ours / other.map_or(1.0, |it| time(it).unwrap());
        let outcome = match ratio {
            ..0.99 => TrialOutcome::Faster,
            0.99..1.01 => TrialOutcome::CannotTell,
            _ => TrialOutcome::Slower,
        };
        let mut measured = Measured::timed(outcome, Some(ratio));
        measured.ratio_interval = Some([0.9 * ratio, 1.1 * ratio]);
        Ok(Some(measured))
    }

    fn command(&self, values: &Map<String, Value>) -> String {
        serde_json::to_string(values).unwrap()
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    fn finished(&mut self, trial: &Trial, is_new: bool) -> Result<()> {
        if is_new {
            self.lines.push(serde_json::to_string(trial).unwrap());
        }
        Ok(())
    }
}

struct Work(tempfile::TempDir);

impl Work {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        std::fs::write(this.path().join("k.c"), "// base M A B C D\n").unwrap();
        this
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn space(&self, values: &[&str]) -> SearchSpace {
        let path = self.path().join("space.toml");
        std::fs::write(&path, format!("base = \"k.c\"\n[[axis]]\nmacro = \"M\"\nvalues = {values:?}\n"))
            .unwrap();
        SearchSpace::read(&path).unwrap()
    }
}

fn search(space: &SearchSpace, host: Host, options: SearchOptions) -> (SearchStop, SearchResult, Host) {
    let mut search = Search::new(space, host, options);
    let stop = search.run(&mut GridSampler::default()).unwrap();
    search.finish().unwrap();
    let (result, host) = search.into_result();
    (stop, result, host)
}

#[test]
fn candidates_of_the_same_code_are_timed_once() {
    let work = Work::new();
    let space = work.space(&["0.5", "0.5#1", "0.7", "0.5#2", "wrong", "wrong#1", "0.5~2"]);
    let (_, result, host) = search(&space, Host::default(), SearchOptions::default());
    let same: Vec<_> = result.trials.iter().map(|it| it.same_code_as).collect();
    assert_eq!(same, [None, Some(1), None, Some(1), None, Some(5), None]);
    let timed = |start: &str| host.done.iter().filter(|it| it.starts_with(start)).count();
    assert_eq!((timed("0.5 with captured up to"), timed("wrong with")), (1, 1), "{:?}", host.done);
    // Other workgroups are another candidate, and the second is not the code of the best.
    assert!(host.done.iter().any(|it| it.starts_with("0.5~2 with captured")), "{:?}", host.done);
    assert_eq!(result.trials[3].outcome, TrialOutcome::Faster);
    let [best, second] = [result.best, result.second].map(Option::unwrap);
    assert_eq!((best, result.trials[second].same_code_as), (0, None));
    assert!(result.unchanging_axes.is_empty());
    // A search that is resumed knows them.
    let known = host.lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut options = SearchOptions::default();
    options.known = known;
    let (_, again, _) = search(&space, Host::default(), options);
    assert_eq!(again.trials.iter().map(|it| it.same_code_as).collect::<Vec<_>>(), same);
}

#[test]
fn an_axis_that_changes_nothing_is_named() {
    let work = Work::new();
    let path = work.path().join("space.toml");
    let axes =
        "[[axis]]\nmacro = \"M\"\nvalues = [\"0.5\", \"0.7\"]\n[[axis]]\nflag = \"-O\"\nvalues = [1, 2, 3]\n";
    std::fs::write(&path, format!("base = \"k.c\"\n{axes}")).unwrap();
    let space = SearchSpace::read(&path).unwrap();
    let (_, result, host) = search(&space, Host::default(), SearchOptions::default());
    assert_eq!(result.unchanging_axes, ["O"]);
    assert!(!result.trials[0].flags.is_empty() && result.best_flags.is_empty());
    assert_eq!(host.done.iter().filter(|it| it.contains(" with captured up to")).count(), 2);
    // Not if a value was not tried.
    let mut search = Search::new(&space, Host::default(), SearchOptions::default());
    let points = [0, 1, 3, 4].map(|index| space.point(index).unwrap());
    search.run(&mut ListSampler::for_points(points.to_vec())).unwrap();
    assert!(search.into_result().0.unchanging_axes.is_empty());
}

fn names(result: &SearchResult, outcome: TrialOutcome) -> Vec<&str> {
    let of = |it: &Trial| it.outcome == outcome;
    result.trials.iter().filter(|it| of(it)).map(|it| it.point["M"].as_str().unwrap()).collect()
}

#[test]
fn the_best_is_found_and_what_is_wrong_is_never_best() {
    let work = Work::new();
    let space = work.space(&["1.2", "wrong", "0.5", "broken", "crash", "0.2", "hang", "0.3"]);
    let (stop, result, host) = search(&space, Host::default(), SearchOptions::default());
    assert_eq!(stop, SearchStop::Points);
    let best = &result.trials[result.best.unwrap()];
    assert_eq!((best.point["M"].as_str(), best.is_best), (Some("0.2"), true));
    assert_eq!(result.trials[result.second.unwrap()].point["M"], "0.3");
    assert_eq!(result.against_captured.as_ref().unwrap().ratio, Some(0.2));
    assert!((result.against_second.as_ref().unwrap().ratio.unwrap() - 2.0 / 3.0).abs() < 1e-9);
    for (outcome, expected) in [
        (TrialOutcome::Wrong, vec!["wrong"]),
        (TrialOutcome::Crashed, vec!["crash"]),
        (TrialOutcome::TimedOut, vec!["hang"]),
        (TrialOutcome::Failed, vec!["broken"]),
        (TrialOutcome::Slower, vec!["1.2"]),
        (TrialOutcome::Faster, vec!["0.5", "0.2", "0.3"]),
    ] {
        assert_eq!(names(&result, outcome), expected);
    }
    // Each is compared with the captured kernel, and those that seem better with the best so far.
    let compared: Vec<_> = host.done.iter().filter(|it| it.contains(" with ")).map(String::as_str).collect();
    assert_eq!(
        compared,
        [
            "1.2 with captured up to 1.05",
            "wrong with captured up to 1.05",
            "0.5 with captured up to 1.05",
            "0.5 with 1.2 up to 1.05",
            "crash with captured up to 0.53",
            "0.2 with captured up to 0.53",
            "0.2 with 0.5 up to 1.05",
            "hang with captured up to 0.21",
            "0.3 with captured up to 0.21",
            "0.2 with captured well",
            "0.2 with 0.3 well",
        ]
    );
    let failed = result.trials.iter().find(|it| it.outcome == TrialOutcome::Failed).unwrap();
    assert_eq!((failed.error.as_deref(), &failed.candidate_digest), (Some("it does not compile"), &None));
    assert_eq!(best.candidate_digest, Some(blake3::hash(b"0.2").to_hex().to_string()));
    assert_eq!(result.best_file(&space).unwrap().unwrap(), b"#define M 0.2\n// base M A B C D\n");
}

#[test]
fn a_search_is_resumed_at_what_it_does_not_know() {
    let work = Work::new();
    let space = work.space(&["1.2", "wrong", "0.5", "0.2", "0.3"]);
    // Interrupted in the comparison of the third with the first.
    let (stop, result, first) =
        search(&space, Host { limit: Some(3), ..Host::default() }, SearchOptions::default());
    assert_eq!((stop, first.lines.len()), (SearchStop::Interrupted, 3));
    assert_eq!(result.trials.len(), 3);
    let known = |lines: &[String]| {
        let mut options = SearchOptions::default();
        options.known = lines.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
        options
    };
    let (_, result, second) = search(&space, Host::default(), known(&first.lines));
    assert_eq!(result.trials[result.best.unwrap()].point["M"], "0.2");
    let built: Vec<_> = second.done.iter().filter(|it| it.starts_with("build ")).collect();
    assert_eq!(built[..2], ["build 0.5", "build 1.2"], "for the comparison that is missing: {built:?}");
    assert_eq!(second.done.iter().filter(|it| it.contains(" with captured up ")).count(), 2);
    assert_eq!(result.trials.iter().map(|it| it.trial).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    // Nothing is left but to measure the best once more.
    let lines: Vec<_> = first.lines.iter().chain(&second.lines).cloned().collect();
    let (_, result, third) = search(&space, Host::default(), known(&lines));
    assert_eq!((third.lines.len(), result.trials.len()), (0, 5));
    assert_eq!(third.done.iter().filter(|it| it.contains(" with ")).count(), 2, "{:?}", third.done);
    // With other inputs, nothing is known.
    let mut options = known(&lines);
    options.inputs = vec!["another capture".into()];
    let (_, _, fourth) = search(&space, Host::default(), options);
    assert_eq!(fourth.lines.len(), 5);
    // In a larger space, only what is new is tried.
    let space = work.space(&["1.2", "wrong", "0.5", "0.2", "0.3", "0.9"]);
    let (_, _, fifth) = search(&space, Host::default(), known(&lines));
    assert_eq!(fifth.lines.len(), 1);
    // An axis may get another name.
    let path = work.path().join("space.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace("[[axis]]", "[[axis]]\nname = \"renamed\"");
    std::fs::write(&path, text).unwrap();
    let space = SearchSpace::read(&path).unwrap();
    let (_, result, _) = search(&space, Host::default(), known(&lines));
    let best = &result.trials[result.best.unwrap()];
    assert_eq!((&best.point["renamed"], &*best.command), (&"0.2".into(), r#"{"renamed":"0.2"}"#));
    assert_eq!(result.best_file(&space).unwrap().unwrap(), b"#define M 0.2\n// base M A B C D\n");
    // A base that has changed is another one.
    std::fs::write(work.path().join("k.c"), "// another M\n").unwrap();
    let (_, _, sixth) = search(&work.space(&["0.2"]), Host::default(), known(&lines));
    assert_eq!(sixth.lines.len(), 1);
}

#[test]
fn a_best_one_that_is_wrong_once_more_gives_way() {
    let work = Work::new();
    let space = work.space(&["0.5", "0.2"]);
    let (_, result, host) =
        search(&space, Host { flaky: Some("0.2"), ..Host::default() }, SearchOptions::default());
    assert_eq!(result.trials[result.best.unwrap()].point["M"], "0.5");
    assert_eq!(names(&result, TrialOutcome::Wrong), ["0.2"]);
    assert_eq!((result.second, result.against_captured.unwrap().ratio), (None, Some(0.5)));
    // That is known when the search is resumed.
    let mut options = SearchOptions::default();
    options.known = host.lines.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(options.known.len(), 3);
    let last = &options.known[2];
    assert_eq!((last.trial, last.outcome, last.ratio), (2, TrialOutcome::Wrong, None));
    assert!(last.against_best.is_none() && last.error.as_deref() == Some("flaky"));
    let (_, result, resumed) = search(&space, Host::default(), options);
    assert_eq!((result.best, resumed.lines.len()), (Some(0), 0));
    let (_, result, _) = search(&work.space(&["wrong"]), Host::default(), SearchOptions::default());
    assert!(result.best.is_none() && result.against_captured.is_none());
}

#[test]
fn what_is_far_faster_is_best_if_that_was_not_compared() {
    let work = Work::new();
    for (second, expected) in [("0.3", 1), ("0.45", 0)] {
        let space = work.space(&["0.5", second, "0.1"]);
        let interrupted = Host { limit: Some(2), ..Host::default() };
        let (stop, result, host) = search(&space, interrupted, SearchOptions::default());
        assert_eq!((stop, result.best), (SearchStop::Interrupted, Some(expected)), "{second}");
        assert_eq!((result.trials.len(), host.lines.len()), (2, 2));
        // Nothing is measured once more.
        assert!(result.against_captured.is_none() && !host.done.iter().any(|it| it.ends_with(" well")));
    }
}

/// The best of many noisy measurements was lucky, too.
#[test]
fn a_best_one_that_is_slower_than_the_second_gives_way() {
    let work = Work::new();
    let space = work.space(&["0.5", "0.2", "0.7"]);
    let (_, result, host) =
        search(&space, Host { lucky: Some("0.7"), ..Host::default() }, SearchOptions::default());
    assert_eq!(result.trials[result.best.unwrap()].point["M"], "0.2");
    assert_eq!(result.against_captured.unwrap().ratio, Some(0.2));
    let well: Vec<_> = host.done.iter().filter(|it| it.ends_with(" well")).map(String::as_str).collect();
    let expected =
        ["0.7 with captured well", "0.7 with 0.2 well", "0.2 with captured well", "0.2 with 0.7 well"];
    assert_eq!(well, expected);
}

#[test]
fn limits_and_errors_end_a_search() {
    let work = Work::new();
    let space = work.space(&["1", "2", "3"]);
    let mut options = SearchOptions::default();
    options.max_trials = Some(2);
    let (stop, result, _) = search(&space, Host::default(), options.clone());
    assert_eq!((stop, result.trials.len()), (SearchStop::Trials, 2));
    options.max_time = Some(std::time::Duration::ZERO);
    let (stop, result, _) = search(&space, Host::default(), options);
    assert_eq!((stop, result.trials.len()), (SearchStop::Time, 0));
    let space = work.space(&["1", "full"]);
    let mut search = Search::new(&space, Host::default(), SearchOptions::default());
    assert_eq!(search.run(&mut GridSampler::default()).unwrap_err().message(), "no space");
    // What is known by then is not lost.
    let (result, _) = search.into_result();
    assert_eq!((result.trials.len(), result.best), (1, Some(0)));
}

#[test]
fn samplers_have_each_point_once() {
    let work = Work::new();
    let space = work.space(&["a", "b", "c", "d", "e"]);
    let points = |sampler: &mut dyn Sampler| {
        let mut found = Vec::new();
        while let Some(point) = sampler.next(&space, &|| false).unwrap() {
            found.push(space.values(&point)["M"].as_str().unwrap().to_owned());
        }
        found
    };
    assert_eq!(points(&mut GridSampler::default()), ["a", "b", "c", "d", "e"]);
    let mut orders = HashMap::new();
    for seed in 0..20 {
        let mut order = points(&mut RandomSampler::with_seed(seed));
        assert_eq!(points(&mut RandomSampler::with_seed(seed)), order);
        *orders.entry(order.clone()).or_insert(0) += 1;
        order.sort();
        assert_eq!(order, ["a", "b", "c", "d", "e"]);
    }
    assert!(orders.len() > 5);
    let two = vec![space.point(3).unwrap(), space.point(0).unwrap()];
    assert_eq!(points(&mut ListSampler::for_points(two)), ["d", "a"]);
    // Of a large space, points are drawn.
    let path = work.path().join("large.toml");
    let axis = |name: &str| {
        let values: Vec<_> = (0..100).collect();
        format!("[[axis]]\nmacro = \"{name}\"\nvalues = {values:?}\n")
    };
    let text = format!("base = \"k.c\"\n{}{}{}", axis("A"), axis("B"), axis("C"));
    std::fs::write(&path, text).unwrap();
    let space = SearchSpace::read(&path).unwrap();
    assert_eq!(space.size(), 1_000_000);
    let mut sampler = RandomSampler::with_seed(1);
    let drawn: Vec<_> = (0..500).map(|_| sampler.next(&space, &|| false).unwrap().unwrap()).collect();
    assert_eq!(drawn.iter().collect::<std::collections::HashSet<_>>().len(), 500);
    assert!(RandomSampler::with_seed(1).next(&space, &|| true).unwrap().is_none());
    // The first millions of points of a space may be excluded.
    let text =
        format!("base = \"k.c\"\n{}{}{}{}[[exclude]]\nA = 0\n", axis("A"), axis("B"), axis("C"), axis("D"));
    std::fs::write(&path, text).unwrap();
    let space = SearchSpace::read(&path).unwrap();
    let asked = std::cell::Cell::new(0);
    let is_interrupted = || asked.replace(asked.get() + 1) == 3;
    assert!(GridSampler::default().next(&space, &is_interrupted).unwrap().is_none());
    assert!(RandomSampler::with_seed(1).next(&space, &|| false).unwrap().is_some());
}
