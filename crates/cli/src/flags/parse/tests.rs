use std::path::PathBuf;

use rehal_base::platform::OsStrExt;

use super::*;
use crate::flags::{Query, Words};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Round,
    Square,
}

const SWITCH: Flag<bool> = Flag::switch("a_switch", false, "");
const WORDY: Flag<bool> = Flag::switch("b_switch", true, "").words(Words::Benchmark);
const COUNT: Flag<i64> = Flag::integer("count", 3, "");
const SMALL: Flag<u8> = Flag::number("small", 1, (1, 9), |number| number as u8, "");
const TEXT: Flag<Option<String>> = Flag::text("text", "NAME", "");
const SHAPE: Flag<Shape> =
    Flag::choice("shape", "round", &[("round", Shape::Round), ("square", Shape::Square)], "");
const PATHS: List<PathBuf> = List::paths("path", "PATH", "");
const OUTPUTS: List<String> = List::texts("output", "SPEC", "").may_be_empty();

const GROUP: Group = Group {
    title: "Test",
    flags: &[
        &SWITCH,
        &WORDY,
        &COUNT,
        &SMALL,
        &TEXT,
        &SHAPE,
        &PATHS,
        &OUTPUTS,
        &List::texts("device", "URI", ""),
        &Query::new("show", "").with_value("WHAT"),
        &Query::new("tell", ""),
        &Flag::text("mode", "MODE", "").effect(Effect::Missing { what: "profiling", instead: "measure it" }),
        &Flag::switch("streams", true, "").effect(Effect::Ignored("there are none")),
        &Flag::switch("graphs", true, "").effect(Effect::Ignored("there are none")),
        &Flag::integer("threads", 0, "").effect(Effect::OfDriver("local-task")),
    ],
};

fn parse(arguments: &[&str]) -> Result<Flags> {
    Flags::parse(&[&GROUP], arguments.iter().map(OsString::from))
}

fn error(arguments: &[&str]) -> String {
    parse(arguments).map(drop).unwrap_err().report()
}

#[test]
fn defaults() {
    let flags = parse(&[]).unwrap();
    assert!(!flags.get(&SWITCH) && flags.get(&WORDY));
    assert_eq!((flags.get(&COUNT), flags.get(&SMALL)), (3, 1));
    assert_eq!((flags.get(&TEXT), flags.get(&SHAPE)), (None, Shape::Round));
    assert!(flags.list(&PATHS).is_empty() && flags.warnings().is_empty() && flags.query().is_none());
}

#[test]
fn booleans() {
    for (value, expected) in [("", true), ("=", true), ("=true", true), ("=1", true), ("=false", false)] {
        assert_eq!(parse(&[&format!("--a-switch{value}")]).unwrap().get(&SWITCH), expected);
    }
    for value in ["n", "off", "No", "0", "f"] {
        assert!(!parse(&[&format!("--b_switch={value}")]).unwrap().get(&WORDY));
    }
    let report = error(&["--b_switch=maybe"]);
    assert!(
        report
            .starts_with("INVALID_ARGUMENT; invalid value 'maybe' for --b_switch (expected true or false)\n")
    );
    assert!(error(&["--a_switch=yes"]).contains("(expected true or false)"));
}

#[test]
fn the_last_value_wins_and_lists_accumulate() {
    let flags = parse(&["--count=1", "--path=a", "--count=-2", "--path=b=c"]).unwrap();
    assert_eq!(flags.get(&COUNT), -2);
    assert_eq!(flags.list(&PATHS), ["a", "b=c"].map(PathBuf::from));
    assert_eq!(parse(&["--output=", "--output=-"]).unwrap().list(&OUTPUTS), ["", "-"]);
    assert!(error(&["--shape=oval", "--shape=round"]).contains("invalid value 'oval'"), "each is checked");
}

#[test]
fn quotes_are_dropped_unless_a_flag_is_a_list() {
    let flags = parse(&["--text=\"a\"b\"", "--shape=\"square\"", "--path=\"a\"", "--count=\"4\""]).unwrap();
    assert_eq!((flags.get(&TEXT).as_deref(), flags.get(&SHAPE)), (Some("a\"b"), Shape::Square));
    assert_eq!((flags.list(&PATHS), flags.get(&COUNT)), (vec![PathBuf::from("\"a\"")], 4));
    assert_eq!(parse(&["--text=\""]).unwrap().get(&TEXT).as_deref(), Some("\""));
}

#[test]
fn paths_need_not_be_utf8_but_text_must() {
    let argument = |bytes: &[u8]| [OsStr::from_bytes(bytes).to_os_string()];
    let flags = Flags::parse(&[&GROUP], argument(b"--path=\xff")).unwrap();
    assert_eq!(flags.list(&PATHS), [PathBuf::from(OsStr::from_bytes(b"\xff"))]);
    let error = Flags::parse(&[&GROUP], argument(b"--text=\xff")).map(drop).unwrap_err();
    assert!(error.report().contains("invalid value '\u{fffd}' for --text (expected UTF-8 text)"));
}

#[test]
fn values_follow_an_equals_sign() {
    for arguments in [&["--shape", "text"][..], &["--path"], &["--path="], &["--count"], &["--count="]] {
        let report = error(arguments);
        assert!(
            report.contains(" needs a value (expected ") && report.contains("\n  try: write --"),
            "{report}"
        );
    }
    assert_eq!(parse(&["--text="]).unwrap().get(&TEXT), None);
    assert!(error(&["--shape="]).contains("invalid value '' for --shape (expected round or square)"));
}

#[test]
fn numbers_have_a_range() {
    for value in ["abc", "1.5", "9223372036854775808", "1x"] {
        let report = error(&[&format!("--count={value}")]);
        let expected = format!("invalid value '{value}' for --count (expected an integer)");
        assert!(report.contains(&expected), "{report}");
    }
    for value in ["0", "10"] {
        assert!(error(&[&format!("--small={value}")]).contains("(expected an integer from 1 to 9)"));
    }
}

#[test]
fn similar_names_and_words_are_suggested() {
    assert_eq!(
        error(&["--shpe=round"]),
        "INVALID_ARGUMENT; unknown flag '--shpe'\n  try: did you mean --shape? --help=all lists the flags"
    );
    assert_eq!(
        error(&["--zzz"]),
        "INVALID_ARGUMENT; unknown flag '--zzz'\n  try: --help=all lists the flags"
    );
    assert_eq!(
        error(&["--shape=sqare"]),
        "INVALID_ARGUMENT; invalid value 'sqare' for --shape (expected round or square)\n  \
         try: did you mean --shape=square? --help=all describes --shape"
    );
}

#[test]
fn a_query_is_answered_after_the_flags_before_it_are_checked() {
    let flags = parse(&["--text=a", "--show=x", "--tell", "--zzz"]).unwrap();
    assert_eq!(flags.query(), Some(("show", "x")));
    assert_eq!(parse(&["--show"]).unwrap().query(), Some(("show", "")));
    assert!(error(&["--zzz", "--show"]).contains("unknown flag"));
    assert!(error(&["--tell=x"]).contains("invalid value 'x' for --tell (expected no value)"));
}

#[test]
fn flags_without_effect_warn_once_or_are_refused() {
    assert!(parse(&["--mode=", "--streams", "--threads=0"]).unwrap().warnings().is_empty());
    let flags =
        parse(&["--streams=false", "--graphs=0", "--streams=0", "--threads=4", "--device=x"]).unwrap();
    let for_other_devices =
        "warning: without effect: --threads (no device of the driver local-task is named)";
    assert_eq!(
        flags.warnings(),
        ["warning: without effect: --streams, --graphs (there are none)", for_other_devices]
    );
    for devices in [&[][..], &["--device=x", "--device=local-task"], &["--device=local-task://0"]] {
        assert!(parse(&[&["--threads=4"], devices].concat()).unwrap().warnings().is_empty());
    }
    assert_eq!(
        error(&["--mode=x"]),
        "UNIMPLEMENTED; --mode=x needs profiling, which is not in this build\n  try: leave out --mode; measure it"
    );
}

#[test]
#[should_panic(expected = "--elsewhere is in the tool's table")]
fn a_tool_reads_only_flags_of_its_table() {
    const ELSEWHERE: Flag<bool> = Flag::switch("elsewhere", false, "");
    parse(&[]).unwrap().get(&ELSEWHERE);
}
