//! Functions of the reference's programs that fail for a known reason, and the verdict on a report.

use super::{Program, failures};
use crate::tool::Ended;
use std::collections::BTreeMap;

/// Lines of a program without `reference/`, a function (`*` for all), part of its message, and the reason.
const LISTED: &str = include_str!("../../cuda_failures.txt");

/// A function that is expected to fail.
#[derive(Clone, Copy)]
struct Failing<'a> {
    program: &'a str,
    function: &'a str,
    words: &'a str,
}

fn listed(text: &str) -> impl Iterator<Item = Failing<'_>> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let fields: Vec<&str> = line.split(" | ").collect();
        let [program, function, words, _reason] = fields[..] else {
            panic!("expected PROGRAM | FUNCTION | WORDS | REASON, found: {line}")
        };
        Failing { program, function, words }
    })
}

/// Listed programs that are not among the reference's.
pub fn unknown_programs(programs: &[Program]) -> Vec<&'static str> {
    let is_known =
        |name: &str| programs.iter().any(|program| program.name.strip_prefix("reference/") == Some(name));
    listed(LISTED).map(|failing| failing.program).filter(|name| !is_known(name)).collect()
}

impl Program {
    /// Whether exactly the functions that are expected to fail do so, with the expected messages.
    pub fn judge(&self, ended: &Ended) -> Result<(), String> {
        let below = self.name.strip_prefix("reference/").unwrap_or_default();
        let known: Vec<_> = listed(LISTED).filter(|failing| failing.program == below).collect();
        if known.is_empty() {
            return if ended.succeeded() { Ok(()) } else { Err(failures(ended)) };
        }
        judge(&known, &String::from_utf8_lossy(&ended.stdout))
            .map_err(|why| format!("{why}\n{}", failures(ended)))
    }
}

fn judge(known: &[Failing<'_>], report: &str) -> Result<(), String> {
    let functions = functions(report);
    if functions.is_empty() {
        return Err("the report has no functions".to_owned());
    }
    for failing in known.iter().filter(|failing| failing.function != "*") {
        if !functions.contains_key(failing.function) {
            return Err(format!("{} is listed as failing, but is not in the report", failing.function));
        }
    }
    for (function, message) in functions {
        let expected = known.iter().find(|failing| [function, "*"].contains(&failing.function));
        match (expected, message) {
            (None, None) => {}
            (None, Some(_)) => return Err(format!("{function} fails, and is not listed")),
            (Some(_), None) => return Err(format!("{function} passes, but is listed as failing")),
            (Some(failing), Some(message)) if message.contains(failing.words) => {}
            (Some(failing), Some(_)) => {
                return Err(format!("{function} fails without the words {:?}", failing.words));
            }
        }
    }
    Ok(())
}

/// The functions of a report; those that failed with their messages.
fn functions(report: &str) -> BTreeMap<&str, Option<String>> {
    let mut found = BTreeMap::new();
    let mut open: Option<(&str, String)> = None;
    for line in report.lines() {
        if let Some(name) = line.strip_prefix("[ RUN      ] ") {
            // The name of the module comes first.
            open = Some((name.split_once('.').map_or(name, |(_, function)| function), String::new()));
        } else if line.starts_with("[       OK ] ") {
            found.extend(open.take().map(|(function, _)| (function, None)));
        } else if line.starts_with("[  FAILED  ] ") {
            found.extend(open.take().map(|(function, message)| (function, Some(message))));
        } else if let Some((_, message)) = &mut open {
            message.push_str(line);
            message.push('\n');
        }
    }
    // A function that did not end has failed.
    found.extend(open.map(|(function, message)| (function, Some(message))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "[ RUN      ] module.a\n[       OK ] module.a (1 ms)\n\
        [ RUN      ] module.b.c\nNOT_FOUND; no b\n\n[  FAILED  ] module.b.c, where GetParam() = 1 (2 ms)\n\
        [  FAILED  ] 1 test, listed below:\n[  FAILED  ] module.b.c, where GetParam() = 1\n";

    #[test]
    fn exactly_the_listed_functions_may_fail() {
        let verdict = |text: &str| judge(&listed(text).collect::<Vec<_>>(), REPORT);
        assert_eq!(verdict("# more\np | b.c | no b | why"), Ok(()));
        for (text, words) in [
            ("", "b.c fails, and is not listed"),
            ("p | b.c | no c | why", "without the words"),
            ("p | * | no b | why", "a passes, but"),
            ("p | b.c | no b | why\np | d | x | why", "d is listed as failing, but is not in the report"),
        ] {
            let error = verdict(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(judge(&[], "").is_err());
        assert_eq!(functions("[ RUN      ] module.a\nwords\n")["a"].as_deref(), Some("words\n"));
    }

    #[test]
    fn the_list_is_well_formed() {
        assert!(listed(LISTED).all(|failing| failing.words.len() > 5));
    }
}
