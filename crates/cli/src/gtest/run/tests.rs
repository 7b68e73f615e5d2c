use std::ffi::OsString;

use super::*;
use crate::flags::Flags;
use crate::gtest::GTEST;

fn suite(names: &[&'static str]) -> Suite<&'static str> {
    let tests = names.iter().enumerate();
    let tests =
        tests.map(|(index, name)| Test { name: (*name).into(), parameter: index.to_string(), body: *name });
    Suite { name: "module".into(), tests: tests.collect() }
}

fn options(flags: &[&str]) -> Options {
    let flags = Flags::parse(&[&GTEST], flags.iter().map(OsString::from)).unwrap();
    Options::new(&flags, false).unwrap()
}

/// Runs tests, of which those that start with `bad` fail; returns whether all passed, and the output with
/// times as 0.
fn report(names: &[&'static str], flags: &[&str]) -> (bool, String) {
    let mut out = Vec::new();
    let fails = |name: &&str| match name.starts_with("bad") {
        true => vec!["check.expect_true: Failure\nExpected 0 to be nonzero.\n".to_string()],
        false => Vec::new(),
    };
    let mut writer = TextWriter::new(&mut out, false);
    let passed = run(&suite(names), &options(flags), &mut writer, fails).is_ok_and(|failed| failed == 0);
    drop(writer);
    (passed, String::from_utf8(out).unwrap())
}

#[test]
fn passing_tests() {
    let (passed, text) = report(&["abs", "add"], &["--gtest_print_time=false"]);
    assert!(passed);
    assert_eq!(
        text,
        "[==========] Running 2 tests from 1 test suite.\n\
         [----------] Global test environment set-up.\n\
         [----------] 2 tests from module\n\
         [ RUN      ] module.abs\n\
         [       OK ] module.abs\n\
         [ RUN      ] module.add\n\
         [       OK ] module.add\n\
         [----------] Global test environment tear-down\n\
         [==========] 2 tests from 1 test suite ran.\n\
         [  PASSED  ] 2 tests.\n"
    );
}

#[test]
fn failures_are_listed_in_module_order() {
    let (passed, text) = report(&["bad1", "ok", "bad2"], &[]);
    assert!(!passed);
    assert!(text.contains(
        "[ RUN      ] module.bad1\n\
         check.expect_true: Failure\n\
         Expected 0 to be nonzero.\n\n\
         [  FAILED  ] module.bad1, where GetParam() = 0 (0 ms)\n\
         [ RUN      ] module.ok\n\
         [       OK ] module.ok (0 ms)\n"
    ));
    assert!(text.ends_with(
        "[----------] 3 tests from module (0 ms total)\n\n\
         [----------] Global test environment tear-down\n\
         [==========] 3 tests from 1 test suite ran. (0 ms total)\n\
         [  PASSED  ] 1 test.\n\
         [  FAILED  ] 2 tests, listed below:\n\
         [  FAILED  ] module.bad1, where GetParam() = 0\n\
         [  FAILED  ] module.bad2, where GetParam() = 2\n\n \
         2 FAILED TESTS\n"
    ));
}

#[test]
fn filters_and_disabled_tests() {
    let names = &["abs", "bad", "DISABLED_old"];
    let (passed, text) = report(names, &["--gtest_filter=-*bad"]);
    assert!(passed);
    assert!(
        text.starts_with(
            "Note: Google Test filter = -*bad\n[==========] Running 1 test from 1 test suite.\n"
        )
    );
    assert!(text.ends_with("[  PASSED  ] 1 test.\n\n  YOU HAVE 1 DISABLED TEST\n\n"));
    let (_, text) = report(names, &["--gtest_also_run_disabled_tests", "--gtest_brief"]);
    assert!(text.contains("3 tests from 1 test suite ran.") && !text.contains("RUN"));
    let (_, text) = report(names, &["--gtest_list_tests"]);
    assert_eq!(
        text,
        "module.\n  abs  # GetParam() = 0\n  bad  # GetParam() = 1\n  DISABLED_old  # GetParam() = 2\n"
    );
    let (passed, text) = report(names, &["--gtest_filter=zzz"]);
    assert!(passed && text.contains("Running 0 tests from 0 test suites.\n"));
    assert!(!report(names, &["--gtest_filter=zzz", "--gtest_fail_if_no_test_selected"]).0);
    assert!(!report(&[], &["--gtest_fail_if_no_test_linked"]).0);
}

#[test]
fn the_first_failure_may_be_the_last_test() {
    let (passed, text) = report(&["a", "bad", "never"], &["--gtest_fail_fast"]);
    assert!(!passed && text.contains("2 tests from 1 test suite ran.") && !text.contains("never"), "{text}");
}

#[test]
fn flags_that_would_change_what_is_done_are_refused() {
    let error = |flag: &str| Flags::parse(&[&GTEST], [OsString::from(flag)]).err().map(|it| it.to_string());
    for flag in ["--gtest_output=xml:a.xml", "--gtest_repeat=2", "--gtest_shuffle"] {
        let message = error(flag).unwrap();
        assert!(message.contains(&format!("{flag} needs ")), "{message}");
    }
    for flag in ["--gtest_output=", "--gtest_repeat=1", "--gtest_shuffle=false", "--gtest_random_seed=3"] {
        assert_eq!(error(flag), None);
    }
}
