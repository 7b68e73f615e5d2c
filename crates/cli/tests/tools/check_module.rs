//! `iree-check-module` as a user runs it.

use crate::common::{Scratch, command, fail, fixture, print, ran, run};

fn checks() -> String {
    format!("--module={}", fixture("modules/checks.vmfb"))
}

#[test]
fn tests_are_run_and_failures_reported() {
    let ran = run(&["iree-check-module", "--device=local-sync", &checks()]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    for line in [
        "[==========] Running 4 tests from 1 test suite.\n",
        "[       OK ] module.counts (",
        "[       OK ] module.counts_again (",
        "[ RUN      ] module.fails\ncheck.expect_almost_eq: Failure\nExpected near equality of these values.",
        "\n  1 of 2 elements differ:\n    [1] lhs 2.5 rhs 2\n",
        "[  FAILED  ] module.fails, where GetParam() = 3 (",
        "\n 1 FAILED TEST\nTest failed\n",
    ] {
        assert!(ran.stdout.contains(line), "no {line:?} in\n{}", ran.stdout);
    }
    assert!(ran.stderr.starts_with("UNKNOWN; 1 test failed\n  try: "), "{}", ran.stderr);
}

#[test]
fn statistics_of_devices_name_their_test() {
    let ran = run(&["iree-check-module", &checks(), "--gtest_filter=*counts*", "--print_device_statistics"]);
    let blocks = ran.stderr.matches("IREE HAL device statistics:\n").count();
    let labels: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("device statistics of")).collect();
    assert_eq!(labels, ["device statistics of test 'counts':", "device statistics of test 'counts_again':"]);
    assert_eq!(blocks, 2, "{}", ran.stderr);
}

#[test]
fn tests_are_selected_by_flags_and_environment_variables() {
    let passing = print(&["iree-check-module", &checks(), "--gtest_filter=-*fails"]);
    assert!(passing.starts_with("Note: Google Test filter = -*fails\n"), "{passing}");
    assert!(passing.ends_with("[  PASSED  ] 3 tests.\n"), "{passing}");
    let names = print(&["iree-check-module", &checks(), "--gtest_list_tests", "--gtest_filter=*count*"]);
    assert_eq!(names, "module.\n  counts  # GetParam() = 1\n  counts_again  # GetParam() = 2\n");
    let mut narrowed = command("iree-check-module");
    narrowed.arg(checks()).env("GTEST_FILTER", "*adds").env("GTEST_BRIEF", "1");
    let narrowed = ran(narrowed.output().unwrap());
    assert_eq!(narrowed.status, Some(0));
    assert!(narrowed.stdout.starts_with("[==========] 1 test from 1 test suite ran."), "{}", narrowed.stdout);
}

#[test]
fn an_unknown_executable_fails_before_the_first_test() {
    let elf = fixture("modules/add4_swapped.elf");
    let flag = format!("--executable_substitution=nothing={elf}");
    let ran = run(&["iree-check-module", "--device=local-sync", &checks(), &flag]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), "Test failed\n"), "{ran:?}");
    assert!(ran.stderr.contains("'nothing' is not in the program"), "{}", ran.stderr);
}

#[test]
fn failure_can_be_expected() {
    let expected = print(&["iree-check-module", &checks(), "--expect_failure"]);
    assert!(expected.ends_with("\nTest failed as expected\n"));
    let ran = run(&["iree-check-module", &checks(), "--expect_failure", "--gtest_filter=*adds"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("Test passed but expected failure"), "{}", ran.stderr);
}

#[test]
fn work_is_recorded() {
    let scratch = Scratch::new();
    let capture = scratch.path("adds.ireereplay");
    let output = format!("--device_replay_output={}", capture.display());
    print(&["iree-check-module", &checks(), "--gtest_filter=*adds", &output]);
    print(&["iree-run-replay", "--device=local-sync", &capture.display().to_string()]);
}

#[test]
fn functions_that_are_not_tests_are_refused() {
    let module = format!("--module={}", fixture("modules/simple_abs.vmfb"));
    let failing = |flags: &[&str]| {
        let ran = run(&[&["iree-check-module"], flags].concat());
        assert_eq!(ran.status, Some(1), "{ran:?}");
        assert_eq!(ran.stdout, "Test failed\n");
        ran.stderr
    };
    let stderr = failing(&[&module]);
    assert!(stderr.contains("but export 'abs' has signature '0r_r'"), "{stderr}");
    assert!(fail(&["iree-check-module"]).contains("--module is missing"));
    assert!(failing(&["--module=/nowhere.vmfb"]).contains("/nowhere.vmfb"));
    let refused = fail(&["iree-check-module", &checks(), "--gtest_output=xml:x"]);
    assert!(refused.contains("GoogleTest's report files") && refused.contains("--format=json"), "{refused}");
    assert!(fail(&["iree-check-module", &checks(), "--gtest_fliter=x"]).contains("--gtest_filter"));
    assert!(fail(&["iree-check-module", &checks(), "operand"]).contains("'operand'"));
}
