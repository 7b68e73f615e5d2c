use std::ffi::OsString;
use std::path::PathBuf;

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
    Options::new(&flags, false, 41).unwrap()
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
fn repeats_shuffles_and_stops() {
    let (_, text) = report(&["a", "b"], &["--gtest_repeat=2"]);
    assert!(text.starts_with("\nRepeating all tests (iteration 1) . . .\n\n[====="));
    assert_eq!(text.matches("Global test environment set-up").count(), 1);
    assert_eq!(text.matches("module.b (0 ms)").count(), 2);
    let (_, text) = report(&["a", "b"], &["--gtest_shuffle", "--gtest_random_seed=1"]);
    assert!(text.starts_with("Note: Randomizing tests' orders with a seed of 1 .\n"));
    assert!(text.find("module.b").unwrap() < text.find("module.a").unwrap());
    let (_, text) = report(&["bad", "never"], &["--gtest_fail_fast", "--gtest_repeat=-1"]);
    assert!(!text.contains("module.never"));
}

#[test]
fn reports_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| -> PathBuf { directory.path().join("new").join(name) };
    let keep = |format: &str, path: PathBuf| {
        report(&["abs", "bad", "DISABLED_x"], &[&format!("--gtest_output={format}:{}", path.display())]);
        std::fs::read_to_string(path).unwrap()
    };
    let xml = keep("xml", file("r.xml"));
    assert!(
        xml.contains("<testsuite name=\"module\" tests=\"3\" failures=\"1\" disabled=\"1\" errors=\"0\"")
    );
    assert!(xml.contains("<failure message=\"check.expect_true: Failure&#x0A;Expected 0 to be nonzero.\""));
    assert!(xml.contains("status=\"notrun\" result=\"suppressed\""));
    let json: serde_json::Value = serde_json::from_str(&keep("json", file("r.json"))).unwrap();
    assert_eq!(json["testsuites"][0]["testsuite"][1]["failures"].as_array().unwrap().len(), 1);
    assert_eq!(json["testsuites"][0]["testsuite"][0]["result"], "COMPLETED");
}
