//! Replacements of fixture kernels, compared by the API. Whether one is faster is not tested: tests depend on
//! no time.

use std::sync::Arc;
use std::time::Duration;

use rehal_hal::DeviceGroup;
use rehal_judge::{
    CacheState, Clock, CompareOptions, CompareSubject, ComparedShape, Comparison, ElementTypeRule,
    KernelComparer, Outcome, Stopped, TimingVerdict, Verification,
};
use rehal_local::LocalSync;
use rehal_local::executable::Plugins;
use rehal_replay::{Plan, PlanOptions, Replacement, ReplayOptions, Selector, Substitution};

const SQUARE: &str = "chain_dispatch_0_matmul_24x24x24_f32";
const MULTIPLY: &str = "chain_dispatch_1_matmul_24x24x24_f32";
const ADD: &str = "chain_dispatch_6_elementwise_576_f32";

/// The replacements of `fixtures/cts/chain.c`, with a fault.
fn kernels(fault: u32) -> Replacement {
    const MARK: &[u8] = b"REHAL-FAULT\0";
    let mut bytes = std::fs::read(testing::fixtures().join("cts/chain.so")).unwrap();
    let at = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).unwrap() + MARK.len();
    bytes[at..at + 4].copy_from_slice(&fault.to_le_bytes());
    Replacement::bytes(bytes)
}

fn devices() -> DeviceGroup {
    DeviceGroup::new(vec![LocalSync::create(Plugins::default())]).unwrap()
}

/// The first dispatches of a function, each as a shape of its own.
fn subject(function: &str, shapes: usize) -> CompareSubject {
    let path = testing::fixtures().join("captures/chain.chain.local-sync.ireereplay");
    let plan = Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap();
    let mut found = Vec::new();
    plan.dispatches(|dispatch| {
        if dispatch.name == function.as_bytes() && found.len() < shapes {
            let mut shape = ComparedShape::default();
            (shape.record, shape.occurrence, shape.count) =
                (dispatch.location.ordinal, dispatch.occurrence, 1);
            found.push(shape);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(found.len(), shapes);
    CompareSubject {
        plan: Arc::new(plan),
        devices: devices(),
        other_devices: devices(),
        replay: ReplayOptions::default(),
        function: function.to_owned(),
        shapes: found,
    }
}

fn options() -> CompareOptions {
    let mut options = CompareOptions::default();
    options.verify.element_types = vec![ElementTypeRule::parse("f32").unwrap()];
    options.caches = vec![CacheState::Warm];
    options.precision = 0.5;
    options.max_time = Duration::from_secs(3600);
    options
}

fn compare(function: &str, shapes: usize, fault: u32, options: &CompareOptions) -> Comparison {
    let comparer = KernelComparer::new(subject(function, shapes)).unwrap();
    comparer.compare(&kernels(fault), options, &mut []).unwrap()
}

#[test]
fn a_right_replacement_is_timed_by_shape() {
    let comparison = compare(MULTIPLY, 2, 0, &options());
    assert!(comparison.is_right() && comparison.wrong_verification().is_none());
    assert_eq!(comparison.verification.dispatch_count, 13);
    assert_eq!(comparison.after_timing.as_ref().map(|it| it.dispatch_count), Some(2));
    let [timing] = &comparison.timings[..] else { panic!("{comparison:?}") };
    assert_eq!((timing.cache, timing.judgment.stopped), (CacheState::Warm, Stopped::Precise));
    assert!(
        timing.judgment.batch_count >= 8
            && timing.judgment.pair_count + timing.judgment.preempted_count
                >= 2 * 5 * timing.judgment.batch_count,
        "{timing:?}"
    );
    assert!(timing.judgment.clock == Clock::Processor && timing.judgment.interval.is_some());
    assert_eq!(timing.shapes.len(), 2);
    assert!(
        timing.shapes.iter().all(|it| it.timing.captured.ns > 0.0 && it.timing.replaced.ns > 0.0),
        "{timing:?}"
    );
    assert_eq!(comparison.ratio(), Some(timing.judgment.ratio));
}

#[test]
fn wrong_replacements_are_found_and_not_timed() {
    for (function, fault, record) in [(ADD, 1, 67), (MULTIPLY, 3, 28), (MULTIPLY, 2, 28), (SQUARE, 4, 17)] {
        // One ULP is wrong with a tolerance of none.
        let mut options = options();
        options.verify.measures_rounding = fault != 4;
        let comparison = compare(function, 1, fault, &options);
        assert!(!comparison.is_right() && comparison.timings.is_empty(), "{comparison:?}");
        let found = comparison.wrong_verification().unwrap();
        assert_eq!((found.outcome(), found.differences[0].place.record), (Outcome::Different, record));
    }
    let mut options = options();
    options.times_wrong = true;
    let comparison = compare(ADD, 1, 1, &options);
    assert!(!comparison.is_right() && comparison.timings.len() == 1, "{comparison:?}");
}

/// With the same fault on both sides, nothing differs.
#[test]
fn another_kernel_takes_the_place_of_the_captured_one() {
    let mut subject = subject(SQUARE, 1);
    subject.replay.substitutions = vec![Substitution::new(Selector::Name(SQUARE.to_owned()), kernels(4))];
    let comparer = KernelComparer::new(subject).unwrap();
    let mut options = options();
    options.verify.measures_rounding = false;
    for (fault, is_right) in [(4, true), (0, false)] {
        let comparison = comparer.compare(&kernels(fault), &options, &mut []).unwrap();
        assert_eq!((comparison.is_right(), comparison.timings.len()), (is_right, usize::from(is_right)));
    }
}

/// Also from a file of its own. Its workgroups are those of the captured code, which nothing states.
#[test]
fn the_same_code_is_never_slower() {
    let subject = subject(SQUARE, 1);
    let mut executable = None;
    for it in subject.plan.executables() {
        if it.function_infos().iter().any(|info| info.name == SQUARE) {
            executable = Some(it.data.to_vec());
        }
    }
    let comparer = KernelComparer::new(subject).unwrap();
    let same = comparer.compare(&Replacement::bytes(executable.unwrap()), &options(), &mut []).unwrap();
    assert!(same.is_same_code && same.is_right(), "{same:?}");
    assert_eq!((same.is_slower(), same.timings.len()), (Some(false), 1));
    let other = comparer.compare(&kernels(0), &options(), &mut []).unwrap();
    assert!(!other.is_same_code && other.is_right(), "{other:?}");
}

/// Other functions of the same file stay as they were captured.
#[test]
fn only_the_named_function_is_replaced() {
    let comparison = compare(SQUARE, 1, 1, &options());
    assert!(comparison.is_right() && comparison.timings.len() == 1, "{comparison:?}");
}

#[test]
fn several_replacements_share_what_is_cut_out() {
    let comparer = KernelComparer::new(subject(SQUARE, 1)).unwrap();
    let mut exact = options();
    exact.verify.measures_rounding = false;
    for (fault, is_right) in [(0, true), (4, false), (0, true)] {
        let comparison = comparer.compare(&kernels(fault), &exact, &mut []).unwrap();
        assert_eq!(comparison.is_right(), is_right);
    }
    // One ULP is right up to rounding, with the captured inputs and with fresh values.
    let comparison = comparer.compare(&kernels(4), &options(), &mut []).unwrap();
    assert!(
        comparison.is_right() && comparison.timings[0].shapes[0].varied_bindings.contains(&0),
        "{comparison:?}"
    );
    let rounded = |it: Option<&Verification>| it.map(|it| it.rounded_count);
    assert_eq!(rounded(Some(&comparison.verification)), Some(1));
    assert_eq!(rounded(comparison.after_timing.as_ref()), Some(1));
}

#[test]
fn time_that_is_up_ends_the_sampling() {
    let mut options = options();
    options.max_time = Duration::ZERO;
    options.precision = 1e-9;
    let comparison = compare(SQUARE, 1, 0, &options);
    let [timing] = &comparison.timings[..] else { panic!("{comparison:?}") };
    assert_eq!(
        (timing.judgment.batch_count, timing.judgment.pair_count + timing.judgment.preempted_count),
        (1, 1)
    );
    // The replacement, which uses no vectors, takes 16 times as long: a few dispatches may or may not be
    // enough to tell.
    let found = (
        timing.judgment.stopped,
        timing.judgment.interval.is_none(),
        timing.judgment.verdict(),
        comparison.is_slower(),
    );
    let unknown = (Stopped::OutOfTime, true, TimingVerdict::CannotTell, None);
    let slower = (Stopped::FarSlower, false, TimingVerdict::Slower, Some(true));
    assert!(found == unknown || found == slower, "{found:?}");
}

/// Without this test, the states may be swapped: with evicted inputs, a dispatch takes twice as long.
#[test]
fn states_of_caches_are_timed_apart() {
    let mut options = options();
    options.caches = vec![CacheState::Warm, CacheState::Cold];
    let comparison = compare(ADD, 1, 0, &options);
    let caches: Vec<_> = comparison.timings.iter().map(|timing| timing.cache).collect();
    assert_eq!(caches, options.caches);
    let [warm, cold] = [0, 1].map(|it| comparison.timings[it].shapes[0].timing.captured.ns);
    assert!(cold > 1.2 * warm, "{warm} ns with warm caches, {cold} ns with cold ones");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let mut empty = subject(SQUARE, 1);
    empty.shapes.clear();
    let error = KernelComparer::new(empty).err().unwrap();
    assert!(error.message().contains("never dispatched"), "{}", error.report());
    let comparer = KernelComparer::new(subject(SQUARE, 1)).unwrap();
    let error = comparer.compare(&Replacement::bytes(*b"no code"), &options(), &mut []).err().unwrap();
    assert!(error.report().contains("format"), "{}", error.report());
}
