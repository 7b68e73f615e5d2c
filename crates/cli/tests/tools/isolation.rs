//! Work that a program asks for, in a process of this one: whatever a kernel does there, the caller lives.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rehal::capture::{CaptureFile, CaptureOptions};
use rehal::work::{CompareWork, ReplaySetup, ReplayWork, VerifyWork};
use rehal_base::{Error, StatusCode};
use rehal_build::{CompilerOptions, build_substitutes};
use rehal_devices::DeviceSettings;
use rehal_jobs::{Confinement, Isolation, Sandbox, WorkOptions, perform};
use rehal_judge::{CompareOptions, Outcome};
use rehal_replay::{CalledFunction, Plan, Replacement, Selector, Substitution};

use crate::common::{Scratch, capture, run, write_kernel};
use crate::confinement::{PROBE, victim};

const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";
const RIGHT: &str = "binding_2[i] = binding_0[i] + binding_1[i];";

fn isolated() -> WorkOptions {
    let mut options = WorkOptions::default();
    options.program = Some(PathBuf::from(env!("CARGO_BIN_EXE_rehal")));
    options.time = Some(Duration::from_secs(60));
    options
}

fn setup() -> ReplaySetup {
    let path = capture("add4.add.local-sync");
    let capture = CaptureFile::open(path.as_ref(), &CaptureOptions::default()).unwrap();
    let plan = capture.plan().unwrap();
    let mut setup = ReplaySetup::of_plan(&plan).unwrap();
    setup.devices = DeviceSettings::for_plan(&plan, Some("local-sync"));
    setup
}

/// A kernel in C in place of the function of the capture.
fn kernel(plan: &Plan, body: &str) -> Replacement {
    let scratch = Scratch::new();
    let path = scratch.path("kernel.c");
    write_kernel(&path, &capture("add4.add.local-sync"), FUNCTION, body);
    built(plan, &path)
}

fn built(plan: &Plan, path: &Path) -> Replacement {
    let mut built = [Substitution::new(Selector::Name(FUNCTION.into()), Replacement::file(path.to_owned()))];
    let mut options = CompilerOptions::default();
    options.functions = CalledFunction::in_plan(plan);
    build_substitutes(&mut built, &options, |_, _| {}).unwrap();
    let [Substitution { replacement, .. }] = built;
    replacement
}

fn replaced(kernel: &Replacement) -> ReplaySetup {
    let mut setup = setup();
    setup.options.substitutions.push(Substitution::new(Selector::Name(FUNCTION.into()), kernel.clone()));
    setup
}

fn compare(kernel: &Replacement) -> CompareWork {
    let mut options = CompareOptions::default();
    options.max_time = Duration::from_millis(50);
    CompareWork::new(setup(), FUNCTION, options).with(kernel.clone())
}

#[test]
fn work_in_another_process_is_confined() {
    let (plan, file) = (setup().plan().unwrap(), Scratch::new());
    let kernel = kernel(&plan, &format!("{}{PROBE}", victim(&file)));
    let mut options = isolated();
    options.confinement = Confinement::new(Sandbox::Require);
    let replayed = perform(&ReplayWork::new(replaced(&kernel)), &options).unwrap();
    assert_eq!(replayed.host_reads.len(), 2);
    let verified = perform(&VerifyWork::new(replaced(&kernel)), &options).unwrap();
    assert_eq!(verified.outcome(), Outcome::Same);
    let compared = compare(&kernel).run(&options).unwrap();
    assert_eq!(compared.verification.outcome(), Outcome::Same);
    options.confinement = Confinement::new(Sandbox::Off);
    let error = perform(&ReplayWork::new(replaced(&kernel)), &options).unwrap_err();
    assert!(error.message().ends_with(": it returned 1"), "{error:?}");
}

#[test]
fn a_kernel_that_ends_or_holds_its_process_is_an_error_with_its_name() {
    let plan = setup().plan().unwrap();
    let crashed = (StatusCode::Aborted, "a kernel crashed with SIGSEGV");
    let ended =
        (StatusCode::Aborted, "the process ended with status 0 before its work was done, in function");
    let late = (StatusCode::DeadlineExceeded, "the work has not ended within 1500 ms in function");
    let stuck = (StatusCode::DeadlineExceeded, "a kernel has not ended within 1.5 seconds, in function");
    for (body, (code, part)) in [
        ("*(volatile int *)0 = 1; binding_2[i] = 0;", crashed),
        ("extern void _exit(int); _exit(0); binding_2[i] = 0;", ended),
        ("binding_2[i] = 0; for (volatile int q = 0;; ++q) {}", late),
        ("binding_2[i] = 0; for (volatile int q = 0;; ++q) {}", stuck),
    ] {
        let kernel = kernel(&plan, body);
        let mut options = isolated();
        let limit = Some(Duration::from_millis(1500));
        match part {
            it if it == late.1 => options.time = limit,
            it if it == stuck.1 => options.progress_time = limit,
            _ => {}
        }
        let errors: [Error; 3] = [
            perform(&ReplayWork::new(replaced(&kernel)), &options).unwrap_err(),
            perform(&VerifyWork::new(replaced(&kernel)), &options).unwrap_err(),
            compare(&kernel).run(&options).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code(), code, "{body}: {}", error.report());
            for part in [part, FUNCTION] {
                assert!(error.message().contains(part), "{part}: {}", error.report());
            }
        }
    }
}

#[test]
fn the_outcome_is_that_of_this_process() {
    let mut here = WorkOptions::default();
    here.isolation = Isolation::None;
    let work = ReplayWork::new(setup());
    let replayed = perform(&work, &isolated()).unwrap();
    assert_eq!(replayed, perform(&work, &here).unwrap());
    let ran = run(&["rehal", "run", "--format=json", &capture("add4.add.local-sync")]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["host_reads"].as_array(), Some(&replayed.host_reads));
    assert_eq!(told["step_count"], replayed.step_count);
    assert!(!replayed.host_reads.is_empty());

    let plan = work.setup.plan().unwrap();
    let (right, wrong) = (kernel(&plan, RIGHT), kernel(&plan, "binding_2[i] = binding_0[i] - binding_1[i];"));
    let of = |kernel: &Replacement, options: &WorkOptions| {
        let found = perform(&VerifyWork::new(replaced(kernel)), options).unwrap();
        (
            found.outcome(),
            found.dispatch_count,
            found.read_count,
            found.different_count,
            found.differences.len(),
        )
    };
    assert_eq!(of(&right, &isolated()), of(&right, &here));
    assert_eq!(of(&wrong, &isolated()), of(&wrong, &here));
    assert_eq!(of(&right, &here).0, Outcome::Same);
    assert_eq!((of(&wrong, &here).0, of(&wrong, &here).3), (Outcome::Different, 1));

    let compared = compare(&right).run(&isolated()).unwrap();
    assert!(
        compared.changes_inputs
            && compared.is_right()
            && compared.timings.iter().all(|it| it.judgment.pair_count > 0)
    );
    assert!(compared.ratio().is_some_and(|it| it.is_finite()));
    assert!(!compare(&wrong).run(&isolated()).unwrap().is_right());
}

/// A comparison is repeated with the captured inputs after a crash, and after nothing else: without this
/// test, a kernel that ends its process with other inputs could be called right.
#[test]
fn only_a_crash_is_followed_by_a_comparison_with_the_captured_inputs() {
    let plan = setup().plan().unwrap();
    let picky = |end: &str| kernel(&plan, &format!("if (binding_0[i] != i + 1) {{ {end} }} {RIGHT}"));
    let compared = compare(&picky("*(volatile int *)8 = 0;")).run(&isolated()).unwrap();
    assert!(!compared.is_right() && !compared.changes_inputs);
    let why = compared.not_reproduced.as_deref().unwrap_or_default();
    assert!(why.contains("which the captured kernel takes, it fails"), "{why}");
    let varied = compared.timings.iter().flat_map(|it| &it.shapes).map(|it| it.varied_bindings.len());
    assert_eq!(varied.sum::<usize>(), 0);
    let error = compare(&picky("extern void _exit(int); _exit(3);")).run(&isolated()).unwrap_err();
    assert_eq!(error.code(), StatusCode::Aborted);
    assert!(error.message().contains("the process ended with status 3"), "{}", error.report());
    // With the captured inputs alone, there is nothing to repeat.
    let mut work = compare(&picky("extern void _exit(int); _exit(3);"));
    work.options.changes_inputs = false;
    assert!(work.run(&isolated()).is_ok_and(|it| it.is_right() && !it.changes_inputs));
}

#[test]
fn errors_of_the_work_are_those_of_this_process() {
    let mut work = ReplayWork::new(setup());
    work.setup.devices.uris.clear();
    work.setup.devices.uris.extend(["local-sync".into(), "local-sync".into()]);
    let mut here = WorkOptions::default();
    here.isolation = Isolation::None;
    let [there, here] = [isolated(), here].map(|options| perform(&work, &options).unwrap_err());
    assert_eq!(there.report(), here.report());
    // A remedy, which each interface names in its own words.
    assert_eq!(there.advice(), here.advice());
    assert!(matches!(there.advice(), Some(rehal_base::Advice::Remedy(_))), "{}", there.report());
}

#[test]
fn a_program_that_is_missing_or_another_is_an_error_before_anything_runs() {
    let work = ReplayWork::new(setup());
    let mut options = isolated();
    options.program = Some("/nonexistent/rehal".into());
    let error = perform(&work, &options).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("/nonexistent/rehal"), "{}", error.report());
    options.program = Some("/bin/true".into());
    let error = perform(&work, &options).unwrap_err();
    assert_eq!(error.code(), StatusCode::Aborted);
    assert!(error.report().contains("'/bin/true'"), "{}", error.report());
}

/// Without this test, a kernel that finds the way to the process which asks may say that it is right.
#[test]
fn a_kernel_that_answers_for_its_process_is_not_right() {
    let plan = setup().plan().unwrap();
    let right = compare(&kernel(&plan, RIGHT)).run(&isolated()).unwrap();
    assert!(right.is_right());
    let answers = [
        serde_json::json!({ "Answer": { "Ok": right } }),
        serde_json::json!({ "Answer": { "Ok": right.verification } }),
        serde_json::json!({ "Answer": { "Ok": null } }),
    ];
    // A process that is supervised says its status by itself.
    for (answer, has_status) in answers.iter().flat_map(|it| [(it, 0), (it, 1)]) {
        let scratch = Scratch::new();
        let path = scratch.path("kernel.c");
        let body = "static unsigned long thread; if (is_worker() && !thread) pthread_create(&thread, 0, forge, 0); \
                    binding_2[i] = is_worker() ? 7 : binding_0[i] + binding_1[i];";
        write_forging(&path, body, answer, has_status, 50);
        let verified = perform(&VerifyWork::new(replaced(&built(&plan, &path))), &isolated());
        assert!(verified.as_ref().map_or(true, |it| it.outcome() == Outcome::Different), "{verified:?}");
        let compared = compare(&built(&plan, &path)).run(&isolated());
        assert!(compared.as_ref().map_or(true, |it| !it.is_right()), "{compared:?}");
        let with = format!("--replay_executable_substitution={FUNCTION}={}", path.display());
        let ran = run(&["rehal", "verify", "--device=local-sync", &with, &capture("add4.add.local-sync")]);
        assert_ne!(ran.status, Some(0), "{ran:?}");
        let with = format!("--with={}", path.display());
        let add = capture("add4.add.local-sync");
        let ran = run(&["rehal", "compare", "--device=local-sync", "--function=add", &with, &add]);
        assert_ne!(ran.status, Some(0), "{ran:?}");
    }
}

/// A kernel that may answer for its process.
fn write_forging(path: &Path, body: &str, answer: &serde_json::Value, has_status: u32, delay: u32) {
    write_kernel(path, &capture("add4.add.local-sync"), FUNCTION, body);
    let source = std::fs::read_to_string(path).unwrap();
    let forging = include_str!("confinement/forge.c")
        .replace("ANSWER", &format!("{:?}", answer.to_string()))
        .replace("HAS_STATUS", &has_status.to_string())
        .replace("DELAY", &delay.to_string());
    std::fs::write(path, forging + &source).unwrap();
}

/// Without this test, a kernel that has the results of the captured inputs, and makes its process say that it
/// is right, is called right. Here, it is right in that process.
#[test]
fn a_kernel_that_remembers_results_and_answers_for_its_process_is_not_right() {
    let plan = setup().plan().unwrap();
    let replayed = perform(&ReplayWork::new(setup()), &isolated()).unwrap();
    let results = hex::decode(replayed.host_reads[0]["bytes"].as_str().unwrap()).unwrap();
    let results = results.as_chunks::<4>().0.iter().map(|it| f32::from_le_bytes(*it).to_string());
    let results = results.collect::<Vec<_>>().join(", ");
    let scratch = Scratch::new();
    let path = scratch.path("kernel.c");
    let body = format!(
        "static const float known[] = {{{results}}}; \
         binding_2[i] = is_side() ? known[i] : binding_0[i] + binding_1[i];"
    );
    write_forging(&path, &body, &serde_json::Value::Null, 0, 0);
    let compared = compare(&built(&plan, &path)).run(&isolated()).unwrap();
    assert!(compared.verification.outcome() == Outcome::Same && !compared.is_right(), "{compared:?}");
    let expected = "with fresh values of its inputs, it computes something else, at record #17";
    assert_eq!(compared.not_reproduced.as_deref(), Some(expected));
}
