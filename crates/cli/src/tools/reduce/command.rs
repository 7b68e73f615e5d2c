//! Commands that check captures.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rehal_base::platform::{OsStrExt, OsStringExt};
use rehal_base::{Error, Result};
use rehal_jobs::Job;

use crate::kernel_recording;

/// The placeholder of the capture in a command.
const PLACE: &str = "{}";

/// A command that checks a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckCommand {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A line for `sh -c`.
    Shell(String),
}

impl CheckCommand {
    /// Parses a command. It is split into words as a shell does; if it has syntax of a shell outside of
    /// quotes, a shell runs it.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if is_shell_syntax(text) {
            if !text.contains(PLACE) {
                return Err(Error::invalid_argument(
                    "the command of --check needs a shell, and does not contain {}",
                )
                .advise("write {} where the path of the capture belongs"));
            }
            return Ok(Self::Shell(text.to_string()));
        }
        let mut words: Vec<String> = shlex::split(text).ok_or_else(|| {
            Error::invalid_argument(format!("--check={text}: a quotation mark is not closed"))
                .advise("close it, or put a backslash before it")
        })?;
        if words.is_empty() {
            return Err(Error::invalid_argument("--check is empty")
                .advise("give crash, wrong, slow, or a command with {} in place of the capture"));
        }
        if !words.iter().any(|word| word.contains(PLACE)) {
            words.push(PLACE.to_string());
        }
        Ok(Self::Words(words))
    }

    /// The command for a capture. It does not record kernels: the second one would find the records of the
    /// first, and fail.
    pub(super) fn on(&self, capture: &Path) -> Result<Job> {
        let mut job = self.with(capture)?;
        job.environment.push((kernel_recording::VARIABLE.into(), None));
        Ok(job)
    }

    fn with(&self, capture: &Path) -> Result<Job> {
        Ok(match self {
            Self::Words(words) => {
                let mut words = words.iter().map(|word| replaced(word, capture.as_os_str()));
                let mut job = Job::for_program(words.next().unwrap_or_default());
                job.arguments = words.collect();
                job
            }
            Self::Shell(line) => {
                let quoted = shlex::bytes::try_quote(capture.as_os_str().as_bytes())
                    .map_err(|_| Error::invalid_argument("the path of the capture contains a NUL"))?;
                let mut job = Job::for_program("/bin/sh");
                job.arguments = vec!["-c".into(), replaced(line, OsStr::from_bytes(&quoted))];
                job
            }
        })
    }

    /// The executable that runs: the program, or the shell.
    pub(super) fn program(&self) -> &str {
        match self {
            Self::Words(words) => &words[0],
            Self::Shell(_) => "/bin/sh",
        }
    }
}

fn replaced(text: &str, path: &OsStr) -> OsString {
    let pieces: Vec<&[u8]> = text.split(PLACE).map(str::as_bytes).collect();
    OsString::from_vec(pieces.join(path.as_bytes()))
}

/// Whether a shell would do more with a text than split it into words.
fn is_shell_syntax(text: &str) -> bool {
    let mut quote = None;
    let mut characters = text.chars().peekable();
    let mut starts_word = true;
    while let Some(it) = characters.next() {
        match (quote, it) {
            (None, '\'' | '"') => quote = Some(it),
            (Some(open), it) if it == open => quote = None,
            (None | Some('"'), '\\') => drop(characters.next()),
            (None | Some('"'), '$' | '`') => return true,
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' | '\n') => return true,
            (None, '~' | '#' | '!') if starts_word => return true,
            _ => {}
        }
        starts_word = quote.is_none() && it.is_ascii_whitespace();
    }
    // A variable is set for the command.
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    let name = first.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        match CheckCommand::parse(text).unwrap() {
            CheckCommand::Words(words) => words,
            CheckCommand::Shell(line) => panic!("a shell runs {line}"),
        }
    }

    #[test]
    fn commands_are_split_into_words() {
        assert_eq!(words("a 'b c' \"d e\" f\\ g {}"), ["a", "b c", "d e", "f g", "{}"]);
        assert_eq!(words("a --x={}.txt '{}'"), ["a", "--x={}.txt", "{}"]);
        assert_eq!(words("check.sh"), ["check.sh", "{}"]);
        assert_eq!(words("grep 'a|b*' {}"), ["grep", "a|b*", "{}"]);
        assert!(CheckCommand::parse("a 'b").is_err() && CheckCommand::parse("  ").is_err());
    }

    #[test]
    fn syntax_of_a_shell_needs_one() {
        for line in
            ["a {} | b", "! a {}", "a {} && b", "A=1 a {}", "a {} > b", "a $B {}", "a \"$B\" {}", "a `b` {}"]
        {
            assert_eq!(CheckCommand::parse(line).unwrap(), CheckCommand::Shell(line.into()));
        }
        assert!(CheckCommand::parse("a | b").is_err());
    }

    #[test]
    fn paths_are_quoted_for_a_shell_only() {
        let path = Path::new("/a b/'c'");
        let of = |text: &str| {
            let job = CheckCommand::parse(text).unwrap().on(path).unwrap();
            job.arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of("x -{}- {}"), ["-/a b/'c'-", "/a b/'c'"]);
        let job = CheckCommand::parse("printf %s {} | cat").unwrap().on(path).unwrap();
        let shown = job.run(&mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(shown.stdout.bytes, b"/a b/'c'");
    }
}
