//! Faults planted in copies of fixture kernels: each is found, at the right dispatch and element.

use std::sync::Arc;

use rehal_hal::{Device, DeviceGroup};
use rehal_judge::{
    Difference, ElementTypeRule, Ledger, LedgerContents, LedgerOptions, LedgerWriter, Outcome, Tolerance,
    Verification, VerifyOptions, VerifySides, verify_against, verify_lockstep, watch_memory,
};
use rehal_local::executable::Plugins;
use rehal_local::{LocalSync, LocalTask, LocalTaskOptions};
use rehal_replay::{Plan, PlanOptions, Replacement, Replay, ReplayOptions, Selector, Substitution};

/// A fault of `fixtures/cts/chain.c`.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Factor,
    Row,
    NotANumber,
    Ulp,
    OutOfBoundsWrite,
    UlpEverywhere,
    Race,
    WriteBeyond,
    ReadUnwritten,
    ReadBeyond,
    CopyBeyond,
}

fn plan() -> Arc<Plan> {
    let path = testing::fixtures().join("captures/chain.chain.local-sync.ireereplay");
    Arc::new(Plan::compile(std::fs::read(path).unwrap(), PlanOptions::default()).unwrap())
}

/// The kernels of the capture with a fault.
fn kernels(fault: Fault) -> Vec<u8> {
    const MARK: &[u8] = b"REHAL-FAULT\0";
    let mut bytes = std::fs::read(testing::fixtures().join("cts/chain.so")).unwrap();
    let at = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).unwrap() + MARK.len();
    assert_eq!(bytes[at..at + 4], [0; 4]);
    bytes[at..at + 4].copy_from_slice(&(fault as u32).to_le_bytes());
    bytes
}

/// A replay of the plan; without a fault with the captured kernels.
fn replay(plan: &Arc<Plan>, fault: Option<Fault>) -> Replay {
    replay_on(plan, LocalSync::create(Plugins::default()), fault, 0)
}

fn replay_on(plan: &Arc<Plan>, device: Device, fault: Option<Fault>, redzone_bytes: u64) -> Replay {
    let substitution = |fault| Substitution::new(Selector::All, Replacement::bytes(kernels(fault)));
    let options = ReplayOptions::default()
        .substitutions(fault.map(substitution).into_iter().collect())
        .redzone_bytes(redzone_bytes);
    Replay::new(plan.clone(), &DeviceGroup::new(vec![device]).unwrap(), &options).unwrap()
}

fn options(edit: impl FnOnce(&mut VerifyOptions)) -> VerifyOptions {
    let mut options = VerifyOptions::default();
    options.element_types = vec![ElementTypeRule::parse("f32").unwrap()];
    // To the bit, unless a test says otherwise.
    options.measures_rounding = false;
    edit(&mut options);
    options
}

fn sides<'r>(expected: &'r Replay, actual: &'r Replay) -> VerifySides<'r, 'static, 'static> {
    VerifySides { expected, actual, expected_observers: &mut [], observers: &mut [] }
}

fn lockstep(fault: Option<Fault>, options: &VerifyOptions) -> Verification {
    let plan = plan();
    let (expected, actual) = (replay(&plan, None), replay(&plan, fault));
    let sides = sides(&expected, &actual);
    verify_lockstep(sides, options).unwrap()
}

fn ledger(edit: impl FnOnce(&mut LedgerOptions)) -> Vec<u8> {
    let mut options = LedgerOptions::default();
    edit(&mut options);
    let plan = plan();
    let mut writer = LedgerWriter::new(Vec::new(), &plan, options).unwrap();
    replay(&plan, None).run(&mut [&mut writer]).unwrap();
    writer.finish().unwrap()
}

fn against(ledger: &[u8], fault: Option<Fault>, options: &VerifyOptions) -> Verification {
    let ledger = Ledger::from_bytes(ledger).unwrap();
    verify_against(&replay(&plan(), fault), &ledger, options, &mut []).unwrap()
}

/// The record, the function, the binding, and the indices of the first elements that differ.
fn found(difference: &Difference) -> (u32, &str, Option<u32>, Vec<u64>) {
    let elements = difference.elements.as_ref().unwrap();
    let indices = elements.first.iter().map(|it| it.index).collect();
    (difference.place.record, difference.place.function().unwrap_or("read"), difference.binding, indices)
}

const SQUARE: &str = "chain_dispatch_0_matmul_24x24x24_f32";
const MULTIPLY: &str = "chain_dispatch_1_matmul_24x24x24_f32";
const ADD: &str = "chain_dispatch_6_elementwise_576_f32";

/// The faults with where they show first.
type Planted = (Fault, u32, &'static str, u32, &'static [u64]);
const PLANTED: [Planted; 6] = [
    (Fault::Factor, 67, ADD, 1, &[576, 577, 578, 579, 580, 581, 582, 583]),
    (Fault::Row, 28, MULTIPLY, 2, &[192, 193, 194, 195, 196, 197, 198, 199]),
    (Fault::NotANumber, 28, MULTIPLY, 2, &[100]),
    (Fault::Ulp, 17, SQUARE, 1, &[200]),
    (Fault::OutOfBoundsWrite, 28, MULTIPLY, 0, &[600]),
    (Fault::UlpEverywhere, 20, MULTIPLY, 0, &[1151]),
];

fn check(found_in: &Verification, planted: &Planted) {
    let (fault, record, function, binding, indices) = *planted;
    assert_eq!(found_in.outcome(), Outcome::Different, "{fault:?}");
    assert_eq!(found_in.differences.len(), 1, "{fault:?}");
    let difference = &found_in.differences[0];
    assert_eq!(found(difference), (record, function, Some(binding), indices.to_vec()), "{fault:?}");
    assert!(found_in.dispatch_count < 13, "{fault:?}: it stops at the first difference");
    let elements = difference.elements.as_ref().unwrap();
    let first = &elements.first[0];
    let (ulps, is_nan) = (first.ulps, first.actual == "NaN");
    match fault {
        Fault::Ulp => assert_eq!((ulps, elements.different_count), (Some(1), 1)),
        // Bindings 0 and 2 are the same range.
        Fault::UlpEverywhere => {
            assert_eq!((ulps, elements.different_count, &difference.aliases[..]), (Some(1), 1, &[2][..]));
        }
        Fault::NotANumber => assert!(is_nan && ulps.is_none() && elements.histogram.other_count == 1),
        Fault::Row => assert_eq!(elements.different_count, 8 * 24),
        Fault::Factor => assert_eq!((elements.different_count, &difference.aliases[..]), (576, &[2][..])),
        Fault::OutOfBoundsWrite => {
            assert!((1..=difference.different.length).contains(&difference.unexpected_bytes));
        }
        _ => unreachable!(),
    }
    let [start, end] = [difference.different.offset, difference.different.end()];
    let last = indices[0] + elements.different_count - 1;
    assert!(start / 4 == indices[0] && (end - 1) / 4 == last, "{fault:?}: {start}..{end}");
}

#[test]
fn lockstep_finds_each_fault() {
    for planted in &PLANTED {
        check(&lockstep(Some(planted.0), &options(|_| {})), planted);
    }
}

#[test]
fn a_ledger_with_bytes_finds_each_fault() {
    let ledger = ledger(|it| it.kept_bytes = u64::MAX);
    for planted in &PLANTED {
        check(&against(&ledger, Some(planted.0), &options(|_| {})), planted);
    }
}

#[test]
fn a_ledger_of_digests_finds_each_dispatch() {
    let ledger = ledger(|_| {});
    for (fault, record, function, binding, _) in PLANTED {
        let found = against(&ledger, Some(fault), &options(|_| {}));
        let difference = &found.differences[0];
        assert_eq!((found.outcome(), difference.place.record), (Outcome::Different, record), "{fault:?}");
        assert_eq!(
            (difference.place.function(), difference.binding),
            (Some(function), Some(binding)),
            "{fault:?}"
        );
        // What should not have been written is known: it is what was there before.
        assert_eq!(difference.elements.is_some(), matches!(fault, Fault::OutOfBoundsWrite), "{fault:?}");
        assert!(difference.different.length != 0);
    }
}

#[test]
fn a_ledger_of_reads_finds_the_first_read() {
    let ledger = ledger(|it| it.contents = LedgerContents::Reads);
    let found = against(&ledger, Some(Fault::NotANumber), &options(|it| it.keep_going = true));
    let reads: Vec<u32> = found.differences.iter().map(|it| it.place.record).collect();
    assert_eq!((found.outcome(), found.dispatch_count, found.read_count), (Outcome::Different, 0, 3));
    assert_eq!(reads, [102, 104]);
    let numbers = found.differences[0].actual.unwrap();
    assert_eq!(numbers.finite_count + numbers.nan_count + numbers.infinity_count, 576);
    assert!(numbers.nan_count > 0);
}

#[test]
fn what_is_the_same_is_the_same() {
    for fault in [None, Some(Fault::None)] {
        let mut outcomes = vec![lockstep(fault, &options(|_| {}))];
        for ledger in
            [ledger(|_| {}), ledger(|it| it.kept_bytes = 100), ledger(|it| it.kept_bytes = u64::MAX)]
        {
            outcomes.push(against(&ledger, fault, &options(|_| {})));
        }
        for outcome in outcomes {
            assert_eq!((outcome.outcome(), outcome.tolerated_count), (Outcome::Same, 0));
            assert_eq!((outcome.dispatch_count, outcome.read_count), (13, 3));
        }
    }
}

#[test]
fn tolerated_differences_do_not_accumulate() {
    let tolerance = |it: &mut VerifyOptions| {
        it.tolerances = vec![Tolerance::parse("*matmul*:f32:ulp=1").unwrap()];
    };
    let kept = ledger(|it| it.kept_bytes = u64::MAX);
    for outcome in [
        lockstep(Some(Fault::UlpEverywhere), &options(tolerance)),
        against(&kept, Some(Fault::UlpEverywhere), &options(tolerance)),
    ] {
        // All eleven products but none of what is computed from them.
        assert_eq!((outcome.outcome(), outcome.tolerated_count), (Outcome::Same, 11));
        assert_eq!((outcome.dispatch_count, outcome.read_count), (13, 3));
    }
    let outcome = lockstep(Some(Fault::Factor), &options(tolerance));
    assert_eq!(outcome.differences[0].place.record, 67);
    let outcome = lockstep(Some(Fault::NotANumber), &options(tolerance));
    assert_eq!(outcome.differences[0].place.record, 28);
}

/// Without a tolerance, what rounding explains is measured, and everything else is found as before.
#[test]
fn rounding_is_measured_without_a_tolerance() {
    for (fault, function, count) in [(Fault::Ulp, SQUARE, 1), (Fault::UlpEverywhere, MULTIPLY, 11)] {
        let outcome = lockstep(Some(fault), &VerifyOptions::default());
        assert_eq!(
            (outcome.outcome(), outcome.rounded_count, outcome.tolerated_count),
            (Outcome::Same, count, 0)
        );
        assert_eq!((outcome.dispatch_count, outcome.read_count), (13, 3));
        let [rounded] = &outcome.rounding[..] else { panic!("{outcome:?}") };
        assert_eq!((rounded.function.as_str(), rounded.element_type.to_string().as_str()), (function, "f32"));
        let error = rounded.error;
        assert!(error.multiple.is_some_and(|it| it > 0.0 && it <= 2.0), "{error:?}");
        assert!((0.5..8.0).contains(&error.scale_ulps) && !error.is_ill_conditioned, "{error:?}");
    }
    for planted in PLANTED.iter().filter(|it| !matches!(it.0, Fault::Ulp | Fault::UlpEverywhere)) {
        check(&lockstep(Some(planted.0), &options(|it| it.measures_rounding = true)), planted);
    }
    // A tolerance that matches counts instead, and so does none of the type.
    let stated = |text| {
        options(|it| {
            it.measures_rounding = true;
            it.tolerances = vec![Tolerance::parse(text).unwrap()];
        })
    };
    let outcome = lockstep(Some(Fault::Ulp), &stated("*:f32:ulp=0"));
    assert_eq!((outcome.outcome(), outcome.different_count), (Outcome::Different, 1));
    let outcome = lockstep(Some(Fault::Ulp), &stated("*:f32:ulp=1"));
    assert_eq!((outcome.outcome(), outcome.tolerated_count, outcome.rounded_count), (Outcome::Same, 1, 0));
    let outcome = lockstep(Some(Fault::Ulp), &stated("other*:f32:ulp=1"));
    assert_eq!((outcome.outcome(), outcome.rounded_count), (Outcome::Same, 1));
    // Integers are exact, as are numbers of an unknown type.
    let integers = options(|it| {
        it.measures_rounding = true;
        it.element_types = vec![ElementTypeRule::parse("i32").unwrap()];
    });
    assert_eq!(lockstep(Some(Fault::Ulp), &integers).outcome(), Outcome::Different);
    // Ledgers have no kernels to measure.
    let kept = ledger(|it| it.kept_bytes = u64::MAX);
    assert_eq!(against(&kept, Some(Fault::Ulp), &VerifyOptions::default()).outcome(), Outcome::Different);
}

#[test]
fn digests_have_no_tolerance() {
    let outcome = against(
        &ledger(|_| {}),
        Some(Fault::Ulp),
        &options(|it| it.tolerances = vec![Tolerance::parse("*:f32:ulp=1").unwrap()]),
    );
    assert_eq!((outcome.outcome(), outcome.different_count), (Outcome::Inconclusive, 0));
    assert!(outcome.inconclusive[0].contains("record #17"), "{:?}", outcome.inconclusive);
}

#[test]
fn each_dispatch_is_judged_by_itself_with_keep_going() {
    let kept = ledger(|it| it.kept_bytes = u64::MAX);
    let keep_going = || options(|it| it.keep_going = true);
    for outcome in
        [lockstep(Some(Fault::Row), &keep_going()), against(&kept, Some(Fault::Row), &keep_going())]
    {
        let records: Vec<_> = outcome.differences.iter().map(|it| it.place.record).collect();
        assert_eq!((records, outcome.different_count), (vec![28, 80], 2));
        assert_eq!((outcome.dispatch_count, outcome.read_count), (13, 3));
    }
    // Digests cannot replace anything: what is computed from the difference differs too.
    let outcome = against(&ledger(|_| {}), Some(Fault::Row), &keep_going());
    assert!(outcome.different_count > 2, "{}", outcome.different_count);
}

#[test]
fn two_devices_are_compared() {
    let plan = plan();
    let task = LocalTask::create(LocalTaskOptions::default()).unwrap();
    let options = ReplayOptions::default();
    let actual = Replay::new(plan.clone(), &DeviceGroup::new(vec![task]).unwrap(), &options).unwrap();
    let expected = replay(&plan, None);
    let sides = sides(&expected, &actual);
    let outcome = verify_lockstep(sides, &VerifyOptions::default()).unwrap();
    assert_eq!((outcome.outcome(), outcome.dispatch_count), (Outcome::Same, 13));
}

#[test]
fn a_race_is_found_where_workgroups_run_at_the_same_time() {
    let plan = plan();
    let mut workers = LocalTaskOptions::default();
    workers.selection.worker_count = Some(2);
    let racing = replay_on(&plan, LocalTask::create(workers).unwrap(), Some(Fault::Race), 0);
    let expected = replay(&plan, None);
    let sides = sides(&expected, &racing);
    let outcome = verify_lockstep(sides, &options(|_| {})).unwrap();
    assert_eq!(outcome.outcome(), Outcome::Different);
    assert_eq!(found(&outcome.differences[0]), (17, SQUARE, Some(1), vec![5]));
}

fn watch(fault: Option<Fault>, keep_going: bool) -> Verification {
    let plan = plan();
    let side = || replay_on(&plan, LocalSync::create(Plugins::default()), fault, rehal_judge::REDZONE_BYTES);
    let (expected, actual) = (side(), side());
    let sides = sides(&expected, &actual);
    watch_memory(sides, &options(|it| it.keep_going = keep_going)).unwrap()
}

#[test]
fn a_write_beyond_a_binding_is_found() {
    let outcome = watch(Some(Fault::WriteBeyond), false);
    assert_eq!((outcome.outcome(), outcome.dispatch_count), (Outcome::Different, 1));
    assert_eq!((outcome.out_of_bounds_write_count, outcome.different_count), (1, 0));
    let write = &outcome.out_of_bounds_writes[0];
    assert_eq!((write.place.record, write.place.function()), (17, Some(SQUARE)));
    assert_eq!((write.buffer_id, write.buffer_size, write.offset, write.length), (12, 4608, 4608, 4));
    assert_eq!((write.binding, write.bound.length, &write.bytes[..]), (1, 4608, &1_f32.to_le_bytes()[..]));
    let all = watch(Some(Fault::WriteBeyond), true);
    assert_eq!((all.out_of_bounds_write_count, all.dispatch_count), (1, 13));
}

#[test]
fn reads_of_unwritten_bytes_are_found() {
    for (fault, index) in [(Fault::ReadUnwritten, 7), (Fault::ReadBeyond, 570), (Fault::CopyBeyond, 570)] {
        let outcome = watch(Some(fault), false);
        assert_eq!(
            (outcome.outcome(), outcome.out_of_bounds_write_count),
            (Outcome::Different, 0),
            "{fault:?}"
        );
        assert_eq!(found(&outcome.differences[0]), (17, SQUARE, Some(1), vec![index]), "{fault:?}");
    }
}

#[test]
fn memory_without_errors_is_the_same() {
    for fault in [None, Some(Fault::None), Some(Fault::Ulp)] {
        let outcome = watch(fault, false);
        assert_eq!((outcome.outcome(), outcome.dispatch_count, outcome.read_count), (Outcome::Same, 13, 3));
    }
    let plan = plan();
    let (expected, actual) = (replay(&plan, None), replay(&plan, None));
    let sides = sides(&expected, &actual);
    let error = watch_memory(sides, &options(|_| {})).unwrap_err();
    assert!(error.message().contains("redzones"), "{}", error.report());
}

#[test]
fn numbers_are_of_what_was_compared() {
    let kept = ledger(|it| {
        it.kept_bytes = u64::MAX;
        it.element_types = vec![ElementTypeRule::parse("f32").unwrap()];
    });
    for outcome in [
        lockstep(Some(Fault::Factor), &options(|_| {})),
        against(&kept, Some(Fault::Factor), &options(|_| {})),
    ] {
        // Half of the binding is written.
        let [expected, actual] = [&outcome.differences[0].expected, &outcome.differences[0].actual]
            .map(|numbers| numbers.unwrap());
        assert_eq!((expected.finite_count, actual.finite_count), (576, 576));
        assert!(expected.mean != actual.mean);
    }
}

#[test]
fn an_unknown_type_is_that_of_the_function_name_or_bytes() {
    let mut exact = VerifyOptions::default();
    exact.measures_rounding = false;
    let outcome = lockstep(Some(Fault::Ulp), &exact);
    let difference = &outcome.differences[0];
    assert_eq!(found(difference).3, [200]);
    assert!(difference.element_type.is_some());
    // A host read has no function.
    let reads = ledger(|it| (it.contents, it.kept_bytes) = (LedgerContents::Reads, u64::MAX));
    let outcome = against(&reads, Some(Fault::NotANumber), &VerifyOptions::default());
    let difference = &outcome.differences[0];
    assert!(difference.element_type.is_none() && difference.actual.is_none());
    let elements = difference.elements.as_ref().unwrap();
    assert_eq!(elements.first[0].index, difference.different.offset);
}

#[test]
fn kept_bytes_that_end_within_an_element_do_not_split_it() {
    let tolerance = |it: &mut VerifyOptions| it.tolerances = vec![Tolerance::parse("*:f32:ulp=1").unwrap()];
    // The 576th element that the dispatch writes differs by one ULP, in its first byte.
    for kept in [2301, 2302, 2303] {
        let ledger = ledger(|it| it.kept_bytes = kept);
        let outcome = against(&ledger, Some(Fault::UlpEverywhere), &options(tolerance));
        assert_eq!((outcome.outcome(), outcome.different_count), (Outcome::Inconclusive, 0), "{kept}");
    }
    let whole = ledger(|it| it.kept_bytes = 2304);
    let outcome = against(&whole, Some(Fault::UlpEverywhere), &options(tolerance));
    assert_eq!((outcome.outcome(), outcome.tolerated_count), (Outcome::Same, 11));
}

#[test]
fn a_difference_says_which_bytes_only_digests_are_known_of() {
    let range = |it: Option<rehal_base::Range>| it.map(|it| (it.offset, it.length));
    for (kept, has_elements, digests) in [(600, false, Some((592, 1712))), (1000, true, Some((992, 1312)))] {
        let ledger = ledger(|it| it.kept_bytes = kept);
        let found = against(&ledger, Some(Fault::Ulp), &options(|_| {}));
        let difference = &found.differences[0];
        assert_eq!(difference.elements.is_some(), has_elements, "{kept}");
        assert_eq!(range(difference.digest_bytes), digests, "{kept}");
        assert_eq!(difference.different.end(), 2304, "{kept}");
    }
    let found = lockstep(Some(Fault::Ulp), &options(|_| {}));
    assert!(found.differences[0].digest_bytes.is_none());
}

#[test]
fn differences_that_are_omitted_are_counted() {
    let mut options = options(|it| (it.keep_going, it.max_differences) = (true, 1));
    let found = lockstep(Some(Fault::Row), &options);
    assert_eq!((found.differences.len(), found.omitted_differences, found.different_count), (1, 1, 2));
    options.tolerances = vec![Tolerance::parse("*:f32:ulp=1").unwrap()];
    let digests = against(&ledger(|_| {}), Some(Fault::UlpEverywhere), &options);
    assert!(digests.inconclusive.len() == 1 && digests.omitted_reasons > 0, "{:?}", digests.inconclusive);
}

#[test]
fn tolerances_that_apply_to_nothing_are_named() {
    let unused = |fault, text: &str, element_type: Option<&str>| {
        let mut options = VerifyOptions::default();
        options.tolerances = vec![Tolerance::parse(text).unwrap()];
        options.element_types =
            element_type.map(|it| ElementTypeRule::parse(it).unwrap()).into_iter().collect();
        lockstep(fault, &options).unused_tolerances.len()
    };
    assert_eq!(unused(None, "*:f16:ulp=1", None), 1);
    // The names of the functions have it.
    assert_eq!(unused(None, "*:f32:ulp=1", None), 0);
    assert_eq!(unused(None, "*:f16:ulp=1", Some("f32")), 1);
    assert_eq!(unused(None, "softmax*:f32:ulp=1", Some("f32")), 1);
    assert_eq!(unused(None, "*elementwise*:f32:ulp=1", Some("f32")), 0);
    // It stops at the first dispatch: others might match.
    assert_eq!(unused(Some(Fault::Ulp), "*elementwise*:f32:ulp=1", Some("f32")), 0);
    assert_eq!(unused(Some(Fault::Row), "*elementwise*:f32:ulp=1", Some("f32")), 0);
    assert_eq!(unused(Some(Fault::Row), "softmax*:f32:ulp=1", Some("f32")), 1);
    assert_eq!(unused(Some(Fault::Row), "*:f16:ulp=1", None), 1);
    let typed = ledger(|it| {
        it.kept_bytes = u64::MAX;
        it.element_types = vec![ElementTypeRule::parse("f32").unwrap()];
    });
    let mut options = VerifyOptions::default();
    options.tolerances = vec![Tolerance::parse("*:f32:ulp=1").unwrap()];
    let found = against(&typed, Some(Fault::Ulp), &options);
    assert_eq!((found.outcome(), found.unused_tolerances.len()), (Outcome::Same, 0));
}
