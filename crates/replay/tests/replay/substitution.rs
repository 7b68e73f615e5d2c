//! Substitution of executables: selection, validation against the captured functions, execution.

use std::path::PathBuf;
use std::sync::Arc;

use rehal_base::{Error, Remedy, Result, StatusCode};
use rehal_hal::{DeviceGroup, FunctionInfo, FunctionParameter, NeededWorkgroups};
use rehal_replay::{
    Candidate, Plan, PlanOptions, Replacement, Replay, ReplayOptions, Selector, Substitute, Substitution,
};

use crate::common::{
    CaptureBuilder, FAKE_RAW_FORMAT, FakeCode, Id, Observed, Ran, TestDevice, code, function, replay, run,
    run_with, whole,
};

/// Files with replacements.
struct Replacements(tempfile::TempDir);

impl Replacements {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Options with substitutions, in which `{}` is the path.
fn substitute(path: &std::path::Path, selectors: &[&str]) -> ReplayOptions {
    parsed(&selectors.iter().map(|it| it.replace("{}", path.to_str().unwrap())).collect::<Vec<_>>())
}

/// A capture of two executables; each of the three functions is dispatched over a separate byte.
fn capture() -> (CaptureBuilder, [Id; 2]) {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executables = [
        capture.executable(cache, &code("left", 1, &[function("l", 0, 1)])),
        capture.executable(cache, &code("right", 2, &[function("r", 0, 1), function("s", 0, 1)])),
    ];
    let dispatches = [(executables[0], 0), (executables[1], 0), (executables[1], 1)];
    for (executable, ordinal) in dispatches {
        let buffer = capture.buffer(1);
        capture.dispatch(&CaptureBuilder::kernel(executable, ordinal, [1; 3]), &[], &[whole(buffer)]);
        capture.read(buffer, 0, 1);
    }
    (capture, executables)
}

/// The results of the three dispatches.
fn results(observed: &Observed) -> Vec<u8> {
    observed.bytes().concat()
}

#[test]
fn by_id_by_function_by_own_name_and_all() {
    let files = Replacements::new();
    let left = files.add("left", &code("new left", 10, &[function("l", 0, 1)]).encode());
    let right = files.add("right", &code("new", 20, &[function("r", 0, 1), function("s", 0, 1)]).encode());
    let functions = ["l", "r", "s"].map(|name| function(name, 0, 1));
    let both = files.add("both", &code("both", 30, &functions).encode());
    let (capture, [left_id, right_id]) = capture();
    let bytes = capture.finish();
    assert_eq!(results(&run(&bytes).unwrap()), [1, 2, 2]);
    for (path, selector, expected) in [
        (&left, format!("{left_id}={{}}"), [10, 2, 2]),
        (&right, format!("{right_id}={{}}"), [1, 20, 20]),
        (&left, "l={}".to_string(), [10, 2, 2]),
        (&right, "s={}".to_string(), [1, 2, 20]),
        // Own names are known only after preparation.
        (&left, "left={}".to_string(), [10, 2, 2]),
        (&right, "right@fake={}".to_string(), [1, 20, 20]),
        (&both, "all={}".to_string(), [30, 30, 30]),
        (&both, "all@fake-raw={}".to_string(), [30, 30, 30]),
    ] {
        let observed = run_with(&bytes, &substitute(path, &[&selector])).unwrap();
        assert_eq!(results(&observed), expected, "{selector}");
    }
}

#[test]
fn several_selectors_of_different_functions_all_apply() {
    let files = Replacements::new();
    let functions = ["l", "r", "s"].map(|name| function(name, 0, 1));
    let [a, b] = [("a", 40), ("b", 50)].map(|(name, adds)| {
        files.add(name, &code(name, adds, &functions).encode()).to_str().unwrap().to_string()
    });
    let (capture, [left, right]) = capture();
    let bytes = capture.finish();
    for (substitutions, expected) in [
        ([format!("{left}={a}"), format!("{right}={b}")], [40, 50, 50]),
        ([format!("l={a}"), format!("s={b}")], [40, 2, 50]),
        ([format!("r={a}"), format!("s={b}")], [1, 40, 50]),
        ([format!("{left}={a}"), format!("right={b}")], [40, 50, 50]),
    ] {
        let observed = run_with(&bytes, &parsed(&substitutions)).unwrap();
        assert_eq!(results(&observed), expected, "{substitutions:?}");
    }
}

#[test]
fn an_executable_is_not_selected_by_its_id_and_by_a_name() {
    let files = Replacements::new();
    let functions = ["l", "r", "s"].map(|name| function(name, 0, 1));
    let [a, b] = [("a", 40), ("b", 50)].map(|(name, adds)| {
        files.add(name, &code(name, adds, &functions).encode()).to_str().unwrap().to_string()
    });
    let (capture, [_, right]) = capture();
    let bytes = capture.finish();
    for (name, how) in [("r", "the name of its function 'r'"), ("right", "its own name 'right'")] {
        let mut both = [format!("{name}={a}"), format!("{right}={b}")];
        for _ in 0..2 {
            let error = set_up(&bytes, &parsed(&both)).unwrap_err();
            assert_eq!(error.code(), StatusCode::InvalidArgument, "{both:?}: {error:?}");
            let expected = format!("executable {right} is selected by its id and by {how}");
            assert_eq!(error.message(), expected, "{both:?}");
            both.reverse();
        }
    }
}

#[test]
fn a_replacement_without_effect_is_an_error() {
    let files = Replacements::new();
    let [a, b] = ["a", "b"].map(|name| {
        files.add(name, &code(name, 40, &[function("l", 0, 1)]).encode()).to_str().unwrap().to_string()
    });
    let both = [format!("left={a}"), format!("l={b}")];
    let error = run_with(&capture().0.finish(), &parsed(&both)).unwrap_err();
    assert!(error.message().contains("it has none of the functions to replace"), "{error:?}");
}

/// Options with substitutions, of code that needs the captured workgroups.
fn parsed(substitutions: &[String]) -> ReplayOptions {
    let parse = |it: &String| {
        let Substitution { selector, replacement } = Substitution::parse(it).unwrap();
        Substitution::new(selector, same(replacement))
    };
    ReplayOptions::default().substitutions(substitutions.iter().map(parse).collect())
}

#[test]
fn functions_are_matched_by_name() {
    let files = Replacements::new();
    let functions = [function("s", 0, 1), function("extra", 9, 9), function("r", 0, 1)];
    let swapped = files.add("swapped", &code("swapped", 5, &functions).encode());
    let (capture, [_, right]) = capture();
    let observed = run_with(&capture.finish(), &substitute(&swapped, &[&format!("{right}={{}}")])).unwrap();
    let names: Vec<_> = observed
        .ran
        .iter()
        .filter_map(|ran| match ran {
            Ran::Dispatch { executable, function, .. } => Some((executable.as_str(), function.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(names, [("left", "l"), ("swapped", "r"), ("swapped", "s")]);
    assert_eq!(results(&observed), [1, 5, 5]);
}

#[test]
fn replaced_code_is_not_prepared() {
    let files = Replacements::new();
    let path = files.add("left", &code("new", 10, &[function("l", 0, 1)]).encode());
    let mut capture = CaptureBuilder::new();
    let (cache, buffer) = (capture.cache(), capture.buffer(1));
    let executable =
        capture.executable_with(cache, "of-another-machine", b"\x7FELF?", &[function("l", 0, 1)]);
    capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), &[], &[whole(buffer)]);
    capture.read(buffer, 0, 1);
    let bytes = capture.finish();
    let error = run(&bytes).unwrap_err();
    assert_eq!(error.code(), StatusCode::Incompatible);
    for selector in ["all={}", "l={}", "all@fake-raw={}"] {
        let observed = run_with(&bytes, &substitute(&path, &[selector])).unwrap();
        assert_eq!(results(&observed), [10]);
        assert_eq!(observed.executables, [(executable, "new".to_string())]);
    }
}

#[test]
fn the_format_is_detected_or_specified_by_the_user() {
    let files = Replacements::new();
    let path = files.add("left", &code("new", 10, &[function("l", 0, 1)]).encode());
    let (capture, _) = capture();
    for (selector, format) in [("l={}", "fake"), ("l@fake-raw={}", FAKE_RAW_FORMAT)] {
        let observed = run_with(&capture.finish(), &substitute(&path, &[selector])).unwrap();
        let prepared = Ran::Prepared { name: "new".into(), format: format.into() };
        assert!(observed.ran.contains(&prepared), "{:?}", observed.ran);
    }
}

/// The error of replacing the executable `captured` by `replacement`, which names both.
#[track_caller]
fn rejected(captured: &[FunctionInfo], replacement: &FakeCode, words: &[&str]) -> Error {
    let files = Replacements::new();
    let path = files.add("replacement", &replacement.encode());
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("captured", 1, captured));
    let place = capture.place();
    // The mismatch must be found before anything runs.
    capture.scope_begin("never");
    let error = match run_with(&capture.finish(), &substitute(&path, &[&format!("{executable}={{}}")])) {
        Ok(_) => panic!("replaced; expected {words:?}"),
        Err(error) => error,
    };
    let report = error.report();
    let substitute = format!("substitute '{}' for executable {executable}", path.display());
    let record = format!("record #{}, offset {}: operation(3) executable_cache", place.ordinal, place.offset);
    for word in [record.as_str(), &substitute].iter().chain(words) {
        assert!(report.contains(word), "'{word}' is not in: {report}");
    }
    error
}

#[test]
fn signature_mismatches_show_both_signatures() {
    let captured = FunctionInfo { flags: 1, workgroup_size: [4, 2, 1], ..function("f", 2, 3) };
    let was = "captured=(flags=0x1 constants=2 bindings=3 parameters=0 workgroup_size=[4,2,1])";
    let parameter = FunctionParameter { kind: 1, size: 8, flags: 0, offset: 4, name: String::new() };
    for (replacement, is) in [
        (FunctionInfo { constant_count: 3, ..captured.clone() }, "flags=0x1 constants=3 bindings=3"),
        (FunctionInfo { binding_count: 4, ..captured.clone() }, "constants=2 bindings=4 parameters=0"),
        (FunctionInfo { flags: 0, ..captured.clone() }, "flags=0x0 constants=2"),
        (FunctionInfo { workgroup_size: [8, 2, 1], ..captured.clone() }, "workgroup_size=[8,2,1]"),
        (FunctionInfo { parameters: vec![parameter], ..captured.clone() }, "parameters=1"),
    ] {
        let words = ["function 'f'", was, "replacement=(flags=", is];
        let error = rejected(std::slice::from_ref(&captured), &code("new", 1, &[replacement]), &words);
        assert_eq!(error.code(), StatusCode::FailedPrecondition);
        assert!(error.advice().unwrap().to_string().contains("same bindings and constants"));
    }
}

#[test]
fn parameter_mismatches_are_located() {
    let parameter =
        |kind, size, flags, offset| FunctionParameter { kind, size, flags, offset, name: String::new() };
    let with = |second| FunctionInfo {
        parameter_count: 2,
        parameters: vec![parameter(0, 4, 0, 0), second],
        ..function("f", 1, 1)
    };
    let captured = with(parameter(1, 8, 2, 1));
    for (other, is) in [
        (parameter(2, 8, 2, 1), "replacement=(type=2 size=8 flags=0x2 offset=1)"),
        (parameter(1, 4, 2, 1), "replacement=(type=1 size=4 flags=0x2 offset=1)"),
        (parameter(1, 8, 0, 1), "replacement=(type=1 size=8 flags=0x0 offset=1)"),
        (parameter(1, 8, 2, 9), "replacement=(type=1 size=8 flags=0x2 offset=9)"),
    ] {
        let was = "captured=(type=1 size=8 flags=0x2 offset=1)";
        let words = ["'f' parameter 1", was, is];
        rejected(std::slice::from_ref(&captured), &code("new", 1, &[with(other)]), &words);
    }
    // The same parameter count, but fewer descriptions.
    let mut fewer = captured.clone();
    fewer.parameters.pop();
    let words = ["'f' parameter 1", "replacement=(not described)"];
    rejected(std::slice::from_ref(&captured), &code("new", 1, &[fewer]), &words);
}

#[test]
fn missing_functions_are_rejected() {
    let captured = [function("first", 0, 0), function("second", 0, 0)];
    let one = code("new", 1, &[function("first", 0, 0), function("other", 0, 0)]);
    let words = ["it lacks function 'second'; it has: first, other", "for executable "];
    assert_eq!(rejected(&captured, &one, &words).code(), StatusCode::NotFound);
    // Two captured functions must not map to the same function.
    let twice = [function("same", 0, 0), function("same", 0, 0)];
    let words = ["captured functions 0 and 1 are both 'same' in the executable"];
    let error = rejected(&twice, &code("new", 1, &[function("same", 0, 0)]), &words);
    assert_eq!(error.code(), StatusCode::FailedPrecondition);
    rejected(
        &[function("", 0, 0)],
        &code("new", 1, &[function("", 0, 0)]),
        &["captured function 0 has no name"],
    );
}

#[test]
fn captured_executables_are_checked_like_replacements() {
    // Another release of the driver may reflect other functions from the same bytes.
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let data = code("captured", 1, &[function("f", 1, 1)]).encode();
    capture.executable_with(cache, "fake", &data, &[function("f", 1, 2)]);
    let error = run(&capture.finish()).unwrap_err();
    assert_eq!(error.code(), StatusCode::FailedPrecondition);
    assert!(error.message().contains("bindings=2") && error.message().contains("bindings=1"), "{error:?}");
}

#[test]
fn a_function_is_replaced_by_itself() {
    let files = Replacements::new();
    let [r, s] = [("r", 20), ("s", 30)].map(|(name, adds)| {
        let code = code(&format!("new {name}"), adds, &[function(name, 0, 1)]);
        files.add(name, &code.encode()).to_str().unwrap().to_string()
    });
    let both = [function("r", 0, 1), function("s", 0, 1)];
    let both = files.add("both", &code("both", 40, &both).encode()).to_str().unwrap().to_string();
    let (capture, [_, right]) = capture();
    let bytes = capture.finish();
    for (substitutions, expected, prepared) in [
        // What the file lacks stays captured.
        (vec![format!("r={r}")], [1, 20, 2], &["new r", "right"][..]),
        (vec![format!("s={s}")], [1, 2, 30], &["new s", "right"]),
        // Each function from the file that is named for it.
        (vec![format!("r={r}"), format!("s={s}")], [1, 20, 30], &["new r", "new s"]),
        (vec![format!("s={s}"), format!("r={both}")], [1, 40, 30], &["new s", "both"]),
        (vec![format!("s={both}"), format!("r={r}")], [1, 20, 40], &["both", "new r"]),
        // And no other function from that file.
        (vec![format!("s={both}")], [1, 2, 40], &["both", "right"]),
    ] {
        let observed = run_with(&bytes, &parsed(&substitutions)).unwrap();
        assert_eq!(results(&observed), expected, "{substitutions:?}");
        let of_right = observed.executables.iter().filter(|(id, _)| *id == right);
        let names: Vec<_> = of_right.map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, prepared, "{substitutions:?}");
    }
}

#[test]
fn a_program_replaces_some_functions() {
    let (capture, [left, right]) = capture();
    let bytes = capture.finish();
    let run = |id: Id, code: FakeCode| {
        let replacement = Replacement::bytes(code.encode()).keep_missing().named("kernel.c");
        run_with(&bytes, &replacing([(Selector::Id(id), replacement)]))
    };
    let observed = run(right, code("new", 20, &[function("s", 0, 1)])).unwrap();
    assert_eq!(results(&observed), [1, 2, 20]);
    let error = run(left, code("new", 20, &[function("s", 0, 1), function("t", 0, 1)])).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("none of the functions to replace: they are l, and it has s, t"));
    assert!(error.report().contains(&format!("substitute 'kernel.c' for executable {left}")), "{error:?}");
    let error = run(right, code("new", 20, &[function("s", 0, 2)])).unwrap_err();
    assert!(error.message().contains("signature mismatch of function 's'"), "{error:?}");
    assert!(error.report().contains("'kernel.c'"), "{error:?}");
}

/// The workgroups of the captured dispatches in a replay that replaces executables.
fn workgroups(bytes: &[u8], options: &ReplayOptions) -> Result<Vec<[u32; 3]>> {
    let plan = Arc::new(Plan::compile(bytes.to_vec(), PlanOptions::default())?);
    let group = DeviceGroup::new(vec![TestDevice::create().0])?;
    let replay = Replay::new(plan.clone(), &group, options)?;
    assert!(replay.plan().is_of_same_records(&plan));
    let mut counts = Vec::new();
    replay.plan().dispatches(|it| {
        counts.push(it.workgroup_count.unwrap());
        Ok(())
    })?;
    Ok(counts)
}

fn replacing(substitutions: impl IntoIterator<Item = (Selector, Replacement)>) -> ReplayOptions {
    let pairs = substitutions.into_iter();
    let all = pairs.map(|(selector, replacement)| Substitution::new(selector, same(replacement))).collect();
    ReplayOptions::default().substitutions(all)
}

/// Code that needs the captured workgroups, unless something else is said of a function.
fn same(replacement: Replacement) -> Replacement {
    replacement.with_workgroups(None, NeededWorkgroups::Same)
}

fn named(name: &str) -> Selector {
    Selector::Name(name.into())
}

/// Code that divides its work differently needs other workgroups than were captured.
#[test]
fn a_replacement_may_need_other_workgroups() {
    let (capture, [_, right]) = capture();
    let bytes = capture.finish();
    let functions = ["r", "s", "l"].map(|name| function(name, 0, 1));
    let plain = Replacement::bytes(code("new", 20, &functions).encode()).keep_missing();
    let counted = plain
        .clone()
        .with_workgroups(Some("s"), NeededWorkgroups::Count([2, 3, 4]))
        .with_workgroups(Some("l"), NeededWorkgroups::Count([9, 9, 9]));
    let one = [1; 3];
    for (substitutions, expected) in [
        (vec![(named("r"), counted.clone())], [one, one, one]),
        (vec![(named("s"), counted.clone())], [one, one, [2, 3, 4]]),
        (vec![(Selector::Id(right), counted.clone())], [one, one, [2, 3, 4]]),
        (vec![(named("right"), counted.clone())], [one, one, [2, 3, 4]]),
        (vec![(Selector::All, counted.clone())], [[9, 9, 9], one, [2, 3, 4]]),
        // The code that runs for a function decides, whatever the order.
        (vec![(named("right"), counted.clone()), (named("s"), plain.clone())], [one; 3]),
        (vec![(named("s"), plain.clone()), (named("right"), counted.clone())], [one; 3]),
        (vec![(named("right"), plain), (named("s"), counted.clone())], [one, one, [2, 3, 4]]),
    ] {
        let options = replacing(substitutions);
        assert_eq!(workgroups(&bytes, &options).unwrap(), expected, "{:?}", options.substitutions);
    }
    let counted = same(counted);
    // What a program chooses by itself needs its workgroups, too.
    let substitute: Substitute =
        Arc::new(
            move |candidate: &Candidate<'_>| Ok((candidate.record.id == right).then(|| counted.clone())),
        );
    let options = ReplayOptions::default().substitute(Some(substitute));
    assert_eq!(workgroups(&bytes, &options).unwrap(), [one, one, [2, 3, 4]]);
}

#[test]
fn workgroups_follow_the_names_of_dumped_files() {
    const FUNCTION: &str = "main_dispatch_3_matmul";
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("old", 1, &[function(FUNCTION, 0, 1)]));
    let buffer = capture.buffer(1);
    capture.dispatch(&CaptureBuilder::kernel(executable, 0, [1; 3]), &[], &[whole(buffer)]);
    let bytes = capture.finish();
    let code = code("new", 7, &[function(FUNCTION, 0, 1)]).encode();
    let replacement =
        Replacement::bytes(code).with_workgroups(Some(FUNCTION), NeededWorkgroups::Count([2, 3, 4]));
    for name in [FUNCTION, "main_dispatch_3", "configured_module_main_dispatch_3", "old"] {
        let options = replacing([(named(name), replacement.clone())]);
        assert_eq!(workgroups(&bytes, &options).unwrap(), [[2, 3, 4]], "{name}");
    }
}

/// Captures of version 1.0 have no names of functions: those of the replacement count.
#[test]
fn workgroups_are_known_without_captured_names() {
    let mut capture = CaptureBuilder::new();
    capture.version_major = 1;
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("old", 1, &[function("a", 0, 1), function("b", 0, 1)]));
    for ordinal in [0, 1] {
        let buffer = capture.buffer(1);
        capture.dispatch(&CaptureBuilder::kernel(executable, ordinal, [1; 3]), &[], &[whole(buffer)]);
    }
    let bytes = capture.finish();
    let code = code("new", 7, &[function("x", 0, 1), function("y", 0, 1)]).encode();
    let replacement = Replacement::bytes(code).with_workgroups(Some("y"), NeededWorkgroups::Count([2, 3, 4]));
    let options = replacing([(Selector::Id(executable), replacement)]);
    assert_eq!(workgroups(&bytes, &options).unwrap(), [[1; 3], [2, 3, 4]]);
}

/// A count that depends on constants is that of each dispatch; one that is not known is refused if it is
/// needed.
#[test]
fn workgroups_are_computed_for_each_dispatch() {
    let mut capture = CaptureBuilder::new();
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("old", 1, &[function("a", 1, 1), function("b", 0, 1)]));
    for constant in [40_u32, 41, 7] {
        let buffer = capture.buffer(1);
        let kernel = CaptureBuilder::kernel(executable, 0, [1; 3]);
        capture.dispatch(&kernel, &constant.to_le_bytes(), &[whole(buffer)]);
    }
    let bytes = capture.finish();
    let code = code("new", 7, &[function("a", 1, 1), function("b", 0, 1)]).encode();
    let run = |needed: NeededWorkgroups| {
        // Nothing is known of the function that is not dispatched.
        let replacement = Replacement::bytes(code.clone())
            .named("variant.mlir")
            .with_workgroups(Some("b"), NeededWorkgroups::Unknown("why".into()))
            .with_workgroups(Some("a"), needed);
        let options = vec![Substitution::new(Selector::Id(executable), replacement)];
        workgroups(&bytes, &ReplayOptions::default().substitutions(options))
    };
    let computed = |text: &str| NeededWorkgroups::Computed(Arc::new(text.parse().unwrap()));
    let counts = run(computed("in:0 =7 add:0:1 =8 divs:2:3 =1 -> 4 5 5")).unwrap();
    assert_eq!(counts, [[5, 1, 1], [6, 1, 1], [1, 1, 1]]);
    for (needed, message) in [
        (
            computed("=7 in:0 sub:1:0 divs:0:2 -> 3 0 0"),
            "its workgroup count divides by zero for the constants 7",
        ),
        (
            NeededWorkgroups::Unknown("it is computed by 'x'".into()),
            "its workgroup count is not known: it is computed by 'x'",
        ),
    ] {
        let error = run(needed).unwrap_err();
        assert_eq!(error.message(), message);
        let report = error.report();
        assert!(report.contains("function 'a' of substitute 'variant.mlir', record #"), "{report}");
    }
}

#[test]
fn workgroups_of_no_function_are_an_error() {
    let (capture, [left, _]) = capture();
    let bytes = capture.finish();
    let code = code("new", 20, &[function("l", 0, 1)]).encode();
    let replacement = Replacement::bytes(code)
        .named("best.mlir")
        .with_workgroups(Some("other"), NeededWorkgroups::Count([2, 3, 4]));
    for selector in [named("l"), named("left"), Selector::Id(left)] {
        let error = set_up(&bytes, &replacing([(selector, replacement.clone())])).unwrap_err();
        assert_eq!(error.code(), StatusCode::FailedPrecondition, "{error:?}");
        assert_eq!(
            error.message(),
            "the workgroups of function 'other' are stated, which the code of substitute 'best.mlir' does not have"
        );
    }
}

#[test]
fn a_file_that_is_named_for_a_function_must_have_it() {
    let files = Replacements::new();
    let path = files.add("r", &code("new", 20, &[function("r", 0, 1)]).encode());
    let (capture, [_, right]) = capture();
    let bytes = capture.finish();
    let error = run_with(&bytes, &substitute(&path, &["s={}"])).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("no function 's'; it has: r"), "{error:?}");
    let place = format!("'{}' for function 's' of executable {right}", path.display());
    assert!(error.report().contains(&place), "{error:?}");
    // Whole executables need all functions.
    for selector in [format!("{right}={{}}"), "right={}".into()] {
        let error = run_with(&bytes, &substitute(&path, &[&selector])).unwrap_err();
        assert_eq!(error.message(), "it lacks function 's'; it has: r");
        assert!(error.advice().unwrap().to_string().contains("by the name of a function"), "{error:?}");
    }
}

/// The error of setting up a replay with these substitutions; nothing runs.
fn set_up(bytes: &[u8], options: &ReplayOptions) -> Result<()> {
    let plan = Plan::compile(bytes.to_vec(), PlanOptions::default()).unwrap();
    let group = DeviceGroup::new(vec![TestDevice::create().0]).unwrap();
    Replay::new(plan, &group, options).map(drop)
}

#[test]
fn unmatched_and_conflicting_selectors() {
    let files = Replacements::new();
    let path = files.add("left", &code("new", 10, &[function("l", 0, 1)]).encode());
    let (capture, [left, right]) = capture();
    let bytes = capture.finish();
    let twice = [format!("{left}={{}}"), format!("{left}@fake={{}}")];
    let list = format!("it has {left} (l); {right} (r, s)");
    let cases: [(&[&str], StatusCode, &str); 7] = [
        (&["99={}"], StatusCode::NotFound, "executable 99 is not in the capture"),
        (&["99={}"], StatusCode::NotFound, &list),
        (&["missing={}"], StatusCode::NotFound, "executable 'missing' is not in the capture"),
        (&["missing={}"], StatusCode::NotFound, "left, right"),
        (&[&twice[0], &twice[1]], StatusCode::InvalidArgument, "is substituted twice"),
        (&["l={}", "l={}"], StatusCode::InvalidArgument, "executable 'l' is substituted twice"),
        (&["all={}", "l={}"], StatusCode::InvalidArgument, "excludes other substitutions"),
    ];
    for (selectors, code, words) in cases {
        for reversed in [false, true] {
            let mut selectors = selectors.to_vec();
            if reversed {
                selectors.reverse();
            }
            let error = set_up(&bytes, &substitute(&path, &selectors)).unwrap_err();
            assert_eq!(error.code(), code, "{selectors:?}: {error:?}");
            assert!(error.report().contains(words), "{selectors:?}: {error:?}");
        }
    }
    // Every selector fails on a capture without executables.
    let bytes = CaptureBuilder::new().finish();
    for selector in ["1={}", "l={}", "all={}"] {
        let error = set_up(&bytes, &substitute(&path, &[selector])).unwrap_err();
        assert!(error.report().contains("no executables"), "{selector}: {error:?}");
    }
}

#[test]
fn executables_can_be_checked_before_a_run() {
    let files = Replacements::new();
    let path = files.add("left", &code("new", 10, &[function("l", 0, 2)]).encode());
    let (capture, [left, _]) = capture();
    let bytes = capture.finish();
    let plan = Arc::new(Plan::compile(bytes, PlanOptions::default()).unwrap());
    let check = |options: &ReplayOptions| {
        let (device, log) = TestDevice::create();
        let group = DeviceGroup::new(vec![device]).unwrap();
        let checked = Replay::new(plan.clone(), &group, options).unwrap().check_executables();
        let only_prepared = log.lock().unwrap().iter().all(|ran| matches!(ran, Ran::Prepared { .. }));
        assert!(only_prepared);
        checked
    };
    check(&ReplayOptions::default()).unwrap();
    let error = check(&substitute(&path, &[&format!("{left}={{}}")])).unwrap_err();
    assert!(error.message().contains("bindings=1") && error.message().contains("bindings=2"), "{error:?}");
    assert!(error.report().contains("executable_cache.prepare_executable(402)"), "{error:?}");
}

#[test]
fn invalid_replacement_files() {
    let files = Replacements::new();
    let (capture, [left, _]) = capture();
    let bytes = capture.finish();
    let try_with = |path: &std::path::Path, format: &str| {
        run_with(&bytes, &substitute(path, &[&format!("{left}{format}={{}}")])).unwrap_err()
    };
    let empty = files.add("empty", b"");
    for format in ["", "@fake"] {
        let error = try_with(&empty, format);
        let expected = format!("'{}' is empty, not an executable", empty.display());
        assert_eq!((error.code(), error.message()), (StatusCode::InvalidArgument, &*expected));
    }
    let text = files.add("text", b"#!/bin/sh");
    let error = try_with(&text, "");
    assert_eq!(error.code(), StatusCode::InvalidArgument);
    assert_eq!(error.advice(), Some(&Remedy::NameExecutable.into()), "{error:?}");
    assert_eq!(try_with(&text, "@fake").code(), StatusCode::InvalidArgument);
    assert_eq!(try_with(&text, "@vulkan-spirv-fb").code(), StatusCode::Incompatible);
    let error = try_with(&files.0.path().join("missing"), "");
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.report().contains(&format!("the substitute for executable {left}")), "{}", error.report());
    assert_eq!(try_with(files.0.path(), "").code(), StatusCode::InvalidArgument);
}

#[test]
fn captures_of_version_1_match_functions_by_ordinal() {
    let files = Replacements::new();
    let path = files.add("new", &code("new", 7, &[function("b", 0, 1), function("a", 0, 1)]).encode());
    let mut capture = CaptureBuilder::new();
    capture.version_major = 1;
    let cache = capture.cache();
    let executable = capture.executable(cache, &code("old", 1, &[function("a", 0, 1), function("b", 0, 1)]));
    let buffer = capture.buffer(1);
    capture.dispatch(&CaptureBuilder::kernel(executable, 1, [1; 3]), &[], &[whole(buffer)]);
    capture.read(buffer, 0, 1);
    let bytes = capture.finish();
    assert_eq!(results(&run(&bytes).unwrap()), [1]);
    let names = |observed: &Observed| {
        let name = |ran: &Ran| match ran {
            Ran::Dispatch { function, .. } => Some(function.clone()),
            _ => None,
        };
        observed.ran.iter().filter_map(name).collect::<Vec<_>>()
    };
    for selector in [format!("{executable}={{}}"), "old={}".into(), "all={}".into()] {
        let observed = run_with(&bytes, &substitute(&path, &[&selector])).unwrap();
        assert_eq!(names(&observed), ["a"], "the second function of the replacement, whatever its name");
        assert_eq!(results(&observed), [7]);
    }
    let one = files.add("one", &code("one", 7, &[function("b", 0, 1)]).encode());
    let error = run_with(&bytes, &substitute(&one, &["all={}"])).unwrap_err();
    assert_eq!(error.code(), StatusCode::OutOfRange);
    assert!(error.message().contains("function 1 does not exist: the executable has 1"), "{error:?}");
    // Such a capture has no function names.
    let error = run_with(&bytes, &substitute(&one, &["b={}"])).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
}

#[test]
fn every_run_prepares_the_replacement() {
    let files = Replacements::new();
    let path = files.add("left", &code("new", 10, &[function("l", 0, 1)]).encode());
    let (capture, [left, _]) = capture();
    let runs = replay(&capture.finish(), &substitute(&path, &[&format!("{left}={{}}")]), 2).unwrap();
    for observed in runs {
        assert_eq!(results(&observed), [10, 2, 2]);
        let prepared = Ran::Prepared { name: "new".into(), format: "fake".into() };
        assert_eq!(observed.ran.iter().filter(|ran| **ran == prepared).count(), 1);
    }
}

#[test]
fn kept_executables_are_prepared_once() {
    let files = Replacements::new();
    let path = files.add("left", &code("new", 10, &[function("l", 0, 1)]).encode());
    let (capture, [left, _]) = capture();
    let options = substitute(&path, &[&format!("{left}={{}}")]).keeps_executables(true);
    let runs = replay(&capture.finish(), &options, 2).unwrap();
    let prepared = |it: &&Ran| matches!(it, Ran::Prepared { .. });
    assert_eq!(runs.iter().map(|it| it.ran.iter().filter(prepared).count()).collect::<Vec<_>>(), [2, 0]);
    assert!(runs.iter().all(|it| results(it) == [10, 2, 2]));
}
