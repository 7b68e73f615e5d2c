//! The runner with a clock that only benchmarks advance.

use std::{
    cell::RefCell,
    io::Write,
    ops::ControlFlow,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

use rehal_base::{Error, TextWriter};

use super::*;
use crate::{
    ConsoleReporter, Counter, CsvReporter, Filter, JsonReporter, MinTime, Pulse, Run, RunKind, State,
    TimeUnit, clock::fake::FakeClock, report::samples::Shared,
};

const MS: u64 = 1_000_000;

/// Benchmarks that note the iterations requested by each call.
#[derive(Default)]
struct Lab {
    clock: Rc<FakeClock>,
    calls: Rc<RefCell<Vec<u64>>>,
}

impl Lab {
    /// A workload that keeps the CPU busy for 1 ms per iteration.
    fn benchmark(&self, name: &str) -> Benchmark<'static> {
        let (clock, calls) = (self.clock.clone(), self.calls.clone());
        Benchmark::new(name, move |state| {
            calls.borrow_mut().push(state.max_iterations());
            while state.keep_running() {
                clock.advance_ns(MS);
            }
            state.set_items_processed(state.iterations());
            Ok(())
        })
        .unit(TimeUnit::Millisecond)
    }

    fn runner(&self, options: Options) -> Runner {
        Runner { options, clock: Box::new(self.clock.clone()) }
    }

    /// Runs, and returns the runs that the display received.
    fn run(&self, options: Options, benchmarks: &mut [Benchmark<'_>]) -> Vec<Run> {
        let mut watch = Watch::default();
        self.runner(options).run(benchmarks, &mut watch.reporters()).unwrap();
        watch.display.take()
    }

    fn calls(&self) -> Vec<u64> {
        self.calls.take()
    }
}

/// Reporters that keep their input.
#[derive(Default)]
struct Watch {
    display: Rc<RefCell<Vec<Run>>>,
    file: Rc<RefCell<Vec<Run>>>,
    list: Shared,
    notes: Shared,
}

struct Keep(Rc<RefCell<Vec<Run>>>);

impl Reporter for Keep {
    fn begin(&mut self, _: &Context) -> io::Result<()> {
        Ok(())
    }
    fn runs(&mut self, runs: &[Run]) -> io::Result<()> {
        assert!(!runs.is_empty());
        self.0.borrow_mut().extend_from_slice(runs);
        Ok(())
    }
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Watch {
    fn reporters(&mut self) -> Reporters<'static> {
        Reporters {
            list: Box::new(self.list.clone()),
            display: Box::new(Keep(self.display.clone())),
            file: Some(Box::new(Keep(self.file.clone()))),
            notes: Box::new(self.notes.clone()),
        }
    }
}

fn times(count: u64) -> Options {
    Options { min_time: MinTime::Iterations(count), ..Options::default() }
}

fn names(runs: &[Run]) -> Vec<String> {
    runs.iter().map(Run::name).collect()
}

#[test]
fn grows_until_the_time_is_reached_and_then_repeats() {
    let lab = Lab::default();
    let options = Options { repetitions: 3, ..Options::default() };
    let runs = lab.run(options, &mut [lab.benchmark("BM").use_real_time()]);
    assert_eq!(lab.calls(), [1, 10, 100, 700, 700, 700]);
    assert_eq!(
        names(&runs)[2..],
        [
            "BM/real_time",
            "BM/real_time_mean",
            "BM/real_time_median",
            "BM/real_time_stddev",
            "BM/real_time_cv"
        ]
    );
    assert!(runs[..3].iter().all(|run| run.iterations == 700 && run.times() == (1.0, 0.5)));
    assert!((runs[0].counters["items_per_second"].value - 1000.0).abs() < 1e-9);
}

#[test]
fn the_measured_clock_decides() {
    let lab = Lab::default();
    // Thread time is half: 100 iterations take 0.05 s, exactly a tenth, which is not significant.
    lab.run(Options::default(), &mut [lab.benchmark("BM")]);
    assert_eq!(lab.calls(), [1, 10, 100, 1000]);
    // Process time is twice: 100 iterations take 0.2 s, so 3.5 times as many.
    let runs = lab.run(Options::default(), &mut [lab.benchmark("BM").measure_process_cpu_time()]);
    assert_eq!(lab.calls(), [1, 10, 100, 350]);
    assert_eq!(runs[0].times(), (1.0, 2.0));
    assert!((runs[0].counters["items_per_second"].value - 500.0).abs() < 1e-9);
}

#[test]
fn manual_time_is_set_by_the_benchmark() {
    let lab = Lab::default();
    let (clock, calls) = (lab.clock.clone(), lab.calls.clone());
    let mut benchmarks = [Benchmark::new("BM_replay/scope:execute", move |state| {
        calls.borrow_mut().push(state.max_iterations());
        while state.keep_running() {
            clock.advance_ns(100 * MS);
            state.set_iteration_time_ns(MS);
        }
        state.set_items_processed(state.iterations());
        Ok(())
    })
    .measure_process_cpu_time()
    .use_manual_time()
    .unit(TimeUnit::Millisecond)];
    let runs = lab.run(Options::default(), &mut benchmarks);
    // Real time is far above five times the minimum from 100 iterations on; manual time is unaffected.
    assert_eq!(lab.calls(), [1, 10, 100, 700]);
    assert_eq!(names(&runs), ["BM_replay/scope:execute/process_time/manual_time"]);
    let (real, cpu) = runs[0].times();
    assert!((real - 1.0).abs() < 1e-9 && (cpu - 200.0).abs() < 1e-9);
    assert!((runs[0].counters["items_per_second"].value - 1000.0).abs() < 1e-6);
}

#[test]
fn a_benchmark_that_sleeps_terminates() {
    let lab = Lab::default();
    let (clock, calls) = (lab.clock.clone(), lab.calls.clone());
    let mut benchmarks = [Benchmark::new("BM", move |state| {
        calls.borrow_mut().push(state.max_iterations());
        while state.keep_running() {
            clock.sleep_ns(300 * MS);
        }
        Ok(())
    })];
    lab.run(Options::default(), &mut benchmarks);
    // 10 iterations take 3 s of real time, more than 5 * 0.5 s, and no CPU time at all.
    assert_eq!(lab.calls(), [1, 10]);
}

#[test]
fn warms_up_once_and_starts_over() {
    let lab = Lab::default();
    let options = Options { min_warmup_time_s: 0.05, repetitions: 2, ..Options::default() };
    lab.run(options, &mut [lab.benchmark("BM").use_real_time()]);
    assert_eq!(lab.calls(), [1, 10, 70, 1, 10, 100, 700, 700]);
    // With given iterations the warm-up starts with them; they may be enough immediately.
    lab.run(Options { min_warmup_time_s: 0.05, ..times(5) }, &mut [lab.benchmark("BM").use_real_time()]);
    assert_eq!(lab.calls(), [5, 50, 5]);
}

#[test]
fn a_pulse_ends_with_a_report_of_what_was_measured() {
    let lab = Lab::default();
    // A repetition of 50 iterations beats after each.
    for (beats, iterations) in [(3, &[4][..]), (50, &[50, 1]), (60, &[50, 11])] {
        let count = AtomicU64::new(0);
        let pulse = Pulse::new(move |_| match count.fetch_add(1, Ordering::Relaxed) < beats {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let options = Options { repetitions: 3, pulse, ..times(50) };
        let mut watch = Watch::default();
        let mut benchmarks = [lab.benchmark("A").use_real_time(), lab.benchmark("B").use_real_time()];
        let outcome = lab.runner(options).run(&mut benchmarks, &mut watch.reporters()).unwrap();
        assert!(outcome.is_interrupted && outcome.real_times_s[1].is_empty());
        let runs = watch.file.take();
        let is_single = |run: &&Run| matches!(run.kind, RunKind::Iteration { .. });
        let measured: Vec<_> = runs.iter().filter(is_single).map(|run| run.iterations).collect();
        assert_eq!(measured, iterations);
        assert!(runs.iter().all(|run| run.error.is_none() && run.run_name.starts_with("A/")));
        lab.calls();
    }
    // In random order, all that was measured of both is reported.
    let count = AtomicU64::new(0);
    let pulse = Pulse::new(move |_| match count.fetch_add(1, Ordering::Relaxed) < 390 {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    let options = Options { repetitions: 5, random_interleaving: true, pulse, ..times(50) };
    let mut watch = Watch::default();
    let mut benchmarks = [lab.benchmark("A").use_real_time(), lab.benchmark("B").use_real_time()];
    let outcome = lab.runner(options).run(&mut benchmarks, &mut watch.reporters()).unwrap();
    let measured: Vec<_> = outcome.real_times_s.iter().map(Vec::len).collect();
    let runs = watch.file.take();
    let count_of = |name: &str| {
        let is_one =
            |run: &&Run| matches!(run.kind, RunKind::Iteration { .. }) && run.run_name.starts_with(name);
        runs.iter().filter(is_one).count()
    };
    assert_eq!(measured, [count_of("A/"), count_of("B/")]);
    assert_eq!(measured.iter().sum::<usize>(), 8);
    lab.calls();
    let whole = Options { pulse: Pulse::new(|_| ControlFlow::Continue(())), ..times(50) };
    assert_eq!(lab.run(whole, &mut [lab.benchmark("A")])[0].iterations, 50);
}

#[test]
fn benchmark_settings_override_the_options() {
    let lab = Lab::default();
    let options = Options { repetitions: 3, ..times(9) };
    let runs = lab.run(options, &mut [lab.benchmark("BM").iterations(2).repetitions(1)]);
    assert_eq!(lab.calls(), [2]);
    assert_eq!((names(&runs), runs[0].repetitions), (vec!["BM/iterations:2/repeats:1".to_string()], 1));
    lab.run(Options::default(), &mut [lab.benchmark("BM").min_time_s(0.001).use_real_time()]);
    assert_eq!(lab.calls(), [1]);
    lab.run(times(0), &mut [lab.benchmark("BM")]);
    assert_eq!(lab.calls(), [1], "every benchmark runs at least one iteration");
}

#[test]
fn a_dry_run_is_one_iteration() {
    let lab = Lab::default();
    let options = Options { dry_run: true, repetitions: 3, min_warmup_time_s: 1.0, ..times(50) };
    let runs = lab.run(options, &mut [lab.benchmark("BM").iterations(7).repetitions(2)]);
    assert_eq!((lab.calls(), runs.len(), runs[0].repetitions), (vec![1], 1, 1));
}

#[test]
fn lists_the_selected_benchmarks() {
    let lab = Lab::default();
    let mut watch = Watch::default();
    let options = Options { list_tests: true, filter: Filter::new("^(a|c)").unwrap(), ..Options::default() };
    let mut benchmarks = ["a", "b", "c"].map(|name| lab.benchmark(name).use_real_time());
    let outcome = lab.runner(options).run(&mut benchmarks, &mut watch.reporters()).unwrap();
    assert_eq!(outcome, RunOutcome { matched: 2, ..RunOutcome::default() });
    assert_eq!(watch.list.text(), "a/real_time\nc/real_time\n");
    assert!(lab.calls().is_empty() && watch.display.take().is_empty());
}

#[test]
fn a_note_reports_an_unmatched_filter() {
    let lab = Lab::default();
    let mut watch = Watch::default();
    let options = Options { filter: Filter::new("-BM").unwrap(), ..Options::default() };
    let outcome = lab.runner(options).run(&mut [lab.benchmark("BM")], &mut watch.reporters()).unwrap();
    assert_eq!(outcome, RunOutcome::default());
    assert_eq!(watch.notes.text(), "Failed to match any benchmarks against regex: -BM\n");
    assert!(lab.calls().is_empty());
}

#[test]
fn reports_of_aggregates_only() {
    let lab = Lab::default();
    let with = |display, report, repetitions| {
        let options = Options {
            display_aggregates_only: display,
            report_aggregates_only: report,
            repetitions,
            ..times(2)
        };
        let mut watch = Watch::default();
        lab.runner(options).run(&mut [lab.benchmark("BM")], &mut watch.reporters()).unwrap();
        (watch.display.take().len(), watch.file.take().len())
    };
    assert_eq!(with(false, false, 3), (3 + 4, 3 + 4));
    assert_eq!(with(true, false, 3), (4, 3 + 4));
    assert_eq!(with(false, true, 3), (4, 4));
    // A single repetition has no aggregates, so it is reported itself.
    assert_eq!(with(true, false, 1), (1, 1));
    assert_eq!(with(false, true, 1), (1, 1));
}

#[test]
fn repetitions_are_reported_immediately() {
    let lab = Lab::default();
    let mut watch = Watch::default();
    let (seen, clock) = (watch.display.clone(), lab.clock.clone());
    let counts = Rc::new(RefCell::new(Vec::new()));
    let kept = counts.clone();
    let mut benchmarks = [Benchmark::new("BM", move |state| {
        kept.borrow_mut().push(seen.borrow().len());
        while state.keep_running() {
            clock.advance_ns(1);
        }
        Ok(())
    })];
    let options = Options { repetitions: 3, ..times(1) };
    lab.runner(options).run(&mut benchmarks, &mut watch.reporters()).unwrap();
    assert_eq!(counts.take(), [0, 1, 2]);
}

#[test]
fn a_skipped_benchmark_does_not_stop_the_others() {
    let lab = Lab::default();
    let mut watch = Watch::default();
    let broken = Benchmark::new("broken", |state| {
        while state.keep_running() {
            state.skip_with_error("no device");
        }
        state.set_items_processed(1);
        Ok(())
    });
    let elsewhere = Benchmark::new("elsewhere", |state| {
        state.skip_with_error("not here");
        Ok(())
    });
    let lazy = Benchmark::new("lazy", |_| Ok(()));
    let mut benchmarks = [broken, elsewhere, lazy, lab.benchmark("fine")];
    let outcome = lab
        .runner(Options { repetitions: 2, ..times(3) })
        .run(&mut benchmarks, &mut watch.reporters())
        .unwrap();
    let real_times_s = vec![vec![], vec![], vec![], vec![0.001, 0.001]];
    assert_eq!((outcome.matched, outcome.failed, outcome.real_times_s), (4, 6, real_times_s));
    assert_eq!(outcome.samples.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["fine"]);
    let runs = watch.display.take();
    assert_eq!(names(&runs)[..7], ["broken", "broken", "elsewhere", "elsewhere", "lazy", "lazy", "fine"]);
    assert_eq!(runs.len(), 6 + 2 + 4, "skipped benchmarks have no statistics");
    assert_eq!(runs[0].error.as_deref(), Some("no device"));
    assert_eq!((runs[0].iterations, runs[0].times(), runs[0].counters.len()), (0, (0.0, 0.0), 0));
    assert_eq!(runs[2].error.as_deref(), Some("not here"));
    assert!(matches!(&runs[4].error, Some(message) if message.contains("left its loop")));
    assert_eq!(runs[6].family_index, 3);
}

#[test]
fn an_error_ends_the_run_with_complete_reports() {
    let lab = Lab::default();
    let json = Shared::default();
    let mut reporters = Reporters {
        display: Box::new(JsonReporter::new(Box::new(json.clone()))),
        file: None,
        ..Watch::default().reporters()
    };
    let broken = Benchmark::new("broken", |state| {
        assert!(state.keep_running());
        Err(Error::not_found("no scope 'x'").advise("name a scope"))
    });
    let error = lab
        .runner(Options { min_warmup_time_s: 1.0, ..Options::default() })
        .run(&mut [broken, lab.benchmark("never")], &mut reporters)
        .unwrap_err();
    assert_eq!(error.report(), "NOT_FOUND; no scope 'x'\n  at: benchmark broken\n  try: name a scope");
    assert!(lab.calls().is_empty());
    let value: serde_json::Value = serde_json::from_str(&json.text()).unwrap();
    let runs = value["benchmarks"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["error_message"], "NOT_FOUND; no scope 'x'");
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_but_the_file_is_kept() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let lab = Lab::default();
    let json = Shared::default();
    let mut reporters = Reporters {
        display: Box::new(ConsoleReporter::new(TextWriter::new(Full, false), Some(Box::new(io::sink())))),
        file: Some(Box::new(JsonReporter::new(Box::new(json.clone())))),
        ..Watch::default().reporters()
    };
    let error = lab.runner(times(1)).run(&mut [lab.benchmark("BM")], &mut reporters).unwrap_err();
    assert!(error.to_string().starts_with("RESOURCE_EXHAUSTED; writing the benchmark report"), "{error}");
    let value: serde_json::Value = serde_json::from_str(&json.text()).unwrap();
    assert_eq!(value["benchmarks"][0]["name"], "BM");
}

#[test]
fn logs_follow_the_verbosity() {
    let log = |verbosity| {
        let lab = Lab::default();
        let mut watch = Watch::default();
        let options = Options { verbosity, min_time: MinTime::Seconds(0.004), ..Options::default() };
        lab.runner(options).run(&mut [lab.benchmark("BM").use_real_time()], &mut watch.reporters()).unwrap();
        watch.notes.text()
    };
    assert_eq!(log(1), "");
    let want = "\
-- LOG(2): Running BM/real_time for 1
-- LOG(2): Ran in 0.0005/0.001
-- LOG(3): Next iters: 6, 5.6
-- LOG(2): Running BM/real_time for 6
-- LOG(2): Ran in 0.003/0.006
";
    assert_eq!(log(3), want);
    let without_predictions: String =
        want.split_inclusive('\n').filter(|line| !line.contains("(3)")).collect();
    assert_eq!(log(2), without_predictions);
}

#[test]
fn hardware_counters_print_a_note() {
    let lab = Lab::default();
    let mut watch = Watch::default();
    let options = Options { perf_counters: vec!["CYCLES".into()], ..times(1) };
    lab.runner(options).run(&mut [lab.benchmark("BM")], &mut watch.reporters()).unwrap();
    assert_eq!(watch.notes.text(), "Performance counters not supported.\n");
}

#[test]
fn the_whole_table_matches_the_reference() {
    let lab = Lab::default();
    let out = Shared::default();
    let mut reporters = Reporters {
        display: Box::new(ConsoleReporter::new(
            TextWriter::new(out.clone(), false),
            Some(Box::new(io::sink())),
        )),
        file: None,
        ..Watch::default().reporters()
    };
    let clock = lab.clock.clone();
    // 120, 140 and 160 us of real time per iteration; twice that of process time. The header and the widths
    // are the pinned release's output for three repetitions.
    let mut next_ns = 100_000;
    let mut benchmarks = [Benchmark::new("BM_replay", move |state| {
        next_ns += 20_000;
        while state.keep_running() {
            clock.advance_ns(next_ns);
        }
        state.set_items_processed(state.iterations());
        state.set_counter("bytes", Counter::new(4096.0));
        Ok(())
    })
    .measure_process_cpu_time()
    .use_real_time()
    .unit(TimeUnit::Millisecond)];
    lab.runner(Options { repetitions: 3, ..times(20) }).run(&mut benchmarks, &mut reporters).unwrap();
    assert_eq!(
        out.text(),
        "\
--------------------------------------------------------------------------------------------------
Benchmark                                        Time             CPU   Iterations UserCounters...
--------------------------------------------------------------------------------------------------
BM_replay/process_time/real_time             0.120 ms        0.240 ms           20 bytes=4.096k items_per_second=8.33333k/s
BM_replay/process_time/real_time             0.140 ms        0.280 ms           20 bytes=4.096k items_per_second=7.14286k/s
BM_replay/process_time/real_time             0.160 ms        0.320 ms           20 bytes=4.096k items_per_second=6.25k/s
BM_replay/process_time/real_time_mean        0.140 ms        0.280 ms            3 bytes=4.096k items_per_second=7.24206k/s
BM_replay/process_time/real_time_median      0.140 ms        0.280 ms            3 bytes=4.096k items_per_second=7.14286k/s
BM_replay/process_time/real_time_stddev      0.020 ms        0.040 ms            3 bytes=0 items_per_second=1.0452k/s
BM_replay/process_time/real_time_cv          14.29 %         14.29 %             3 bytes=0.00% items_per_second=14.43%
"
    );
}

#[test]
fn parts_are_reported_below_their_benchmark_and_widen_the_table() {
    let lab = Lab::default();
    let calls = Rc::new(RefCell::new(Vec::new()));
    let noted = calls.clone();
    let benchmark = lab.benchmark("a").parts(move |run, is_last| {
        noted.borrow_mut().push((run.iterations, is_last));
        let part = Run { run_name: "a/a_part_with_a_long_name".to_owned(), ..run.clone() };
        Ok(if is_last { vec![part] } else { Vec::new() })
    });
    let options = Options { repetitions: 2, ..times(3) };
    let mut watch = Watch::default();
    let table = Shared::default();
    let mut reporters = watch.reporters();
    reporters.display = Box::new(ConsoleReporter::new(TextWriter::new(table.clone(), false), None));
    lab.runner(options).run(&mut [benchmark, lab.benchmark("b")], &mut reporters).unwrap();
    assert_eq!(calls.take(), [(3, false), (3, true)]);
    let kept = names(&watch.file.take());
    let first_of_b = kept.iter().position(|name| name == "b").unwrap();
    assert_eq!(kept[first_of_b - 1], "a/a_part_with_a_long_name", "{kept:?}");
    let table = table.text();
    let ends: Vec<_> =
        table.lines().filter(|line| line.contains(" ms ")).filter_map(|line| line.find(" ms ")).collect();
    assert!(ends.len() > 4 && ends.iter().all(|end| *end == ends[0]), "{table}");
}

#[test]
fn a_csv_report_has_columns_for_the_counters_of_parts() {
    let lab = Lab::default();
    let benchmark = lab.benchmark("a").parts(|run, _| {
        let counters = [("calls".to_owned(), Counter::new(2.0))].into();
        Ok(vec![Run { run_name: "a/part".to_owned(), counters, ..run.clone() }])
    });
    let table = Shared::default();
    let mut reporters = Watch::default().reporters();
    reporters.display = Box::new(CsvReporter::new(Box::new(table.clone()), Some(Box::new(io::sink()))));
    lab.runner(times(1)).run(&mut [lab.benchmark("first"), benchmark], &mut reporters).unwrap();
    let table = table.text();
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].ends_with(",error_message,\"calls\""), "{table}");
    assert_eq!(lines.iter().filter(|line| line.ends_with(",2")).count(), 1, "{table}");
    assert!(lines[3].starts_with("\"a/part\",1,"), "{table}");
}

#[test]
fn an_error_in_parts_ends_the_run() {
    let lab = Lab::default();
    let benchmark = lab.benchmark("a").parts(|_, _| Err(Error::invalid_argument("no parts")));
    let mut watch = Watch::default();
    let error = lab.runner(times(1)).run(&mut [benchmark], &mut watch.reporters()).unwrap_err();
    assert!(error.to_string().contains("no parts"), "{error}");
    assert_eq!(names(&watch.display.take()), ["a"]);
}

#[test]
fn interleaved_repetitions_are_reported_together() {
    let lab = Lab::default();
    let options = Options { random_interleaving: true, repetitions: 5, ..times(1) };
    let runs = lab.run(options, &mut [lab.benchmark("a"), lab.benchmark("b")]);
    assert_eq!(lab.calls().len(), 10);
    assert_eq!(runs.len(), 2 * (5 + 4));
    let first = runs[0].run_name.clone();
    assert!(runs[..9].iter().all(|run| run.run_name == first));
    assert!(runs[9..].iter().all(|run| run.run_name != first));
    let indices: Vec<_> = runs[..5].iter().map(|run| run.kind.clone()).collect();
    assert_eq!(indices, [0, 1, 2, 3, 4].map(|repetition_index| RunKind::Iteration { repetition_index }));
}

/// A benchmark whose iterations take `real_ms` of real time and report `manual_ms` as manual time.
fn partly_timed(lab: &Lab, real_ms: u64, manual_ms: u64) -> Benchmark<'static> {
    let (clock, calls) = (lab.clock.clone(), lab.calls.clone());
    Benchmark::new("BM", move |state| {
        calls.borrow_mut().push(state.max_iterations());
        while state.keep_running() {
            clock.advance_ns(real_ms * MS);
            state.set_iteration_time_ns(manual_ms * MS);
        }
        Ok(())
    })
    .use_manual_time()
}

#[test]
fn manual_time_much_below_real_time_stops_at_the_limit() {
    for (real_ms, manual_ms, calls) in [
        // One iteration takes longer than the limit of 5 s.
        (7000, 1, vec![1]),
        (1000, 1, vec![1, 4]),
        (1, 0, vec![1, 10, 100, 1000, 3889]),
    ] {
        let lab = Lab::default();
        let options = Options { repetitions: 2, ..Options::default() };
        let runs = lab.run(options, &mut [partly_timed(&lab, real_ms, manual_ms).real_time_limit(10.0)]);
        let last = calls.last().copied();
        assert_eq!(lab.calls(), calls.into_iter().chain(last).collect::<Vec<_>>());
        for run in runs {
            assert_eq!(run.label, "stopped after 5s before min_time 0.5s was measured", "{}", run.name());
        }
    }
}

#[test]
fn a_limit_that_is_not_reached_has_no_effect() {
    let lab = Lab::default();
    let limited = |lab: &Lab| partly_timed(lab, 5, 1).real_time_limit(10.0);
    let runs = lab.run(Options::default(), &mut [limited(&lab)]);
    assert_eq!((lab.calls(), runs[0].label.as_str()), (vec![1, 10, 100, 700], ""));
    // An explicit iteration count is not limited, and a limited warm-up does not label the run.
    let runs = lab.run(times(20_000), &mut [limited(&lab)]);
    assert_eq!((lab.calls(), runs[0].label.as_str()), (vec![20_000], ""));
    let warm = Options { min_warmup_time_s: 0.01, ..Options::default() };
    let runs = lab.run(warm, &mut [partly_timed(&lab, 100, 1).real_time_limit(20.0).iterations(3)]);
    assert_eq!((lab.calls(), runs[0].label.as_str()), (vec![3, 3], ""));
}

fn summary_of(lab: &Lab, options: Options, benchmark: Benchmark<'_>) -> String {
    let mut watch = Watch::default();
    lab.runner(Options { summary: true, ..options }).run(&mut [benchmark], &mut watch.reporters()).unwrap();
    watch.notes.text()
}

/// Takes 1 ms per iteration, except the given ones of a run.
fn uneven(lab: &Lab, slow: &'static [(u64, u64)]) -> Benchmark<'static> {
    let clock = lab.clock.clone();
    let body = move |state: &mut State<'_>| {
        while state.keep_running() {
            let index = state.iterations() - 1;
            let found = slow.iter().find(|(at, _)| *at == index);
            clock.advance_ns(found.map_or(MS, |(_, time)| *time));
        }
        Ok(())
    };
    Benchmark::new("BM", body).use_real_time().unit(TimeUnit::Millisecond)
}

#[test]
fn the_summary_separates_warm_up_median_and_outliers() {
    let lab = Lab::default();
    let options = Options { min_warmup_time_s: 0.005, ..times(40) };
    assert_eq!(
        summary_of(&lab, options, uneven(&lab, &[(0, 3 * MS), (30, 5 * MS)])),
        "BM/real_time: median 1.00 ms (95 % interval 1.00 ms to 1.00 ms), mean 1.15 ms, spread 0.00 % (MAD)\n  \
         40 samples of 1 iteration; warm-up, not included: 40 iterations in 46.0 ms\n  \
         2 outliers: 5.00 ms (sample 30), 3.00 ms (sample 0)\n\
         ***WARNING*** the first sample took 3.0 times as long as the rest; --benchmark_min_warmup_time=0.5 runs these \
         before the measurement\n"
    );
}

#[test]
fn the_summary_covers_all_repetitions_and_batches_many_iterations() {
    let lab = Lab::default();
    let text = summary_of(&lab, Options { repetitions: 2, ..times(1001) }, uneven(&lab, &[]));
    // 91 samples of 11 iterations each time.
    assert!(text.contains("182 samples of 11 iterations, no warm-up\n"), "{text}");
    assert!(!text.contains("outlier") && text.lines().count() == 2, "{text}");
}

#[test]
fn few_samples_are_named_and_failures_have_no_summary() {
    let lab = Lab::default();
    let text = summary_of(&lab, times(3), uneven(&lab, &[]));
    assert!(text.starts_with("BM/real_time: median 1.00 ms, mean 1.00 ms"), "{text}");
    assert!(text.contains("too few samples"), "{text}");
    let failing = Benchmark::new("BM", |state| {
        state.skip_with_error("broken");
        Ok(())
    });
    assert_eq!(summary_of(&lab, times(3), failing), "");
    assert_eq!(summary_of(&lab, Options { dry_run: true, ..times(3) }, uneven(&lab, &[])), "");
}

#[test]
fn samples_follow_the_measured_clock() {
    let lab = Lab::default();
    let clock = lab.clock.clone();
    let manual = Benchmark::new("BM", move |state| {
        while state.keep_running() {
            clock.advance_ns(MS);
            state.set_iteration_time_ns(10);
        }
        Ok(())
    });
    assert!(summary_of(&lab, times(20), manual.use_manual_time()).contains("median 10.0 ns"));
    // Process time runs at twice real time.
    let cpu = lab.benchmark("BM").measure_process_cpu_time();
    assert!(summary_of(&lab, times(20), cpu).contains("median 2.00 ms"));
    let clock = lab.clock.clone();
    let batches = Benchmark::new("BM", move |state| {
        while state.keep_running_batch(7) {
            clock.advance_ns(7 * MS);
        }
        Ok(())
    });
    let text = summary_of(&lab, times(500), batches.use_real_time().unit(TimeUnit::Millisecond));
    assert!(text.contains("median 1.00 ms") && text.contains("mean 1.00 ms"), "{text}");
}
