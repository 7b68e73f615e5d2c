//! The messages in the errors of a compiler.

use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::platform::{DirBuilderExt, set_mode};
use rehal_base::{Error, Remedy, Result, StatusCode};
use rehal_jobs::{JobEnd, JobLimits, JobOutcome};

use super::{Compilation, Compiler, CompilerSetup};
use crate::{Shortage, memory_limit};

/// Most lines that are shown of an operation that a diagnostic prints.
const OPERATION_LINES: usize = 4;
/// Most lines of messages in an error.
const MAX_LINES: usize = 60;

/// The error of a compilation that failed. If the compiler crashed, what is needed to repeat that is kept.
/// `directory` has its temporary files.
pub(super) fn explain(
    compiler: &Compiler,
    compilation: &Compilation,
    outcome: &JobOutcome,
    messages: &str,
    directory: Option<&Path>,
) -> Error {
    let input = if compilation.is_stdin { Path::new("<stdin>") } else { &compilation.input }.display();
    let shown = condensed(messages);
    if let (JobEnd::Exited(_), Some(error)) = (outcome.end, of_flags(messages)) {
        return error;
    }
    let is_ended = matches!(outcome.end, JobEnd::TimedOut { .. } | JobEnd::Interrupted);
    match Shortage::find(outcome.end, messages, directory).filter(|_| !is_ended) {
        // What its memory is limited to here, and not by the environment, is said below.
        Some(Shortage::Memory) if compiler.limits.memory_bytes.is_some() => {}
        Some(shortage) => return lacking(shortage, &format!("compiling '{input}'"), messages),
        None => {}
    }
    match outcome.end {
        JobEnd::Exited(_) if is_diagnosed(messages) && !is_out_of_memory(compiler, outcome.end, messages) => {
            let error = Error::invalid_argument(format!("'{input}' does not compile\n{shown}").trim_end());
            match messages.contains("no HAL devices defined in the module") {
                true => error.advise(Remedy::SetOption { name: "target".into(), value: "cpu".into() }),
                false => error.advise("correct the source, or the flags of the compiler"),
            }
        }
        JobEnd::TimedOut { .. } => too_long(compiler, format!("compiling '{input}'"))
            .advise("give the compiler more time, or a smaller program"),
        JobEnd::Interrupted => {
            Error::new(StatusCode::Cancelled, format!("compiling '{input}' was interrupted"))
        }
        end if is_out_of_memory(compiler, end, messages) => {
            let limit = compiler.limits.memory_bytes.unwrap_or_default();
            let message = format!("compiling '{input}' needs more than {limit} bytes of memory, the limit");
            let value = limit.saturating_mul(2).to_string();
            Error::resource_exhausted(message)
                .advise(Remedy::SetOption { name: CompilerSetup::MEMORY_LIMIT.into(), value })
        }
        end if end.is_killed() => {
            let message = format!("the compiler was ended {end}, with '{input}'");
            Error::new(StatusCode::Aborted, message).advise("compile it again")
        }
        end => {
            let place = match pass(messages) {
                Some(pass) => format!("in the pass {pass}"),
                None => "outside of its passes".into(),
            };
            let mut message = format!("the compiler ended {end} {place}, with '{input}'");
            if let Some(limit) = compiler.limits.memory_bytes.or_else(|| Some(memory_limit()?.0)) {
                // It also aborts where an allocation fails.
                message.push_str(&format!("; the limit of {limit} bytes of memory may be the reason"));
            }
            if !shown.trim().is_empty() {
                message.push('\n');
                message.push_str(shown.trim_end());
            }
            let error = Error::new(StatusCode::Internal, message);
            match keep(compiler, compilation, messages) {
                Ok(directory) => {
                    let directory = directory.display();
                    error.advise(format!("{directory} has the program, the command and all messages: sh {directory}/command.sh repeats it"))
                }
                Err(kept) => error.context(format!("keeping the program: {}", kept.message())),
            }
        }
    }
}

/// The error of a compiler that should have printed something.
pub(super) fn of_query(compiler: &Compiler, outcome: &JobOutcome, messages: &str) -> Error {
    if let Some(error) = of_flags(messages) {
        return error;
    }
    let (path, shown) = (compiler.path().display(), condensed(messages));
    if let Some(shortage) = Shortage::find(outcome.end, messages, None).filter(|_| !outcome.is_success()) {
        return lacking(shortage, &format!("starting '{path}'"), messages);
    }
    if let JobEnd::TimedOut { .. } = outcome.end {
        return too_long(compiler, format!("asking '{path}' for its version or its flags"))
            .advise("give the compiler more time");
    }
    let message = match outcome.is_success() {
        true => format!("'{path}' refuses its flags\n{shown}"),
        false => format!("'{path}' ended {}\n{shown}", outcome.end),
    };
    if outcome.end.is_killed() {
        return Error::new(StatusCode::Aborted, message.trim_end());
    }
    Error::invalid_argument(message.trim_end()).advise("correct the flags of the compiler")
}

fn too_long(compiler: &Compiler, what: String) -> Error {
    let limit = compiler.limits.time.unwrap_or_default();
    Error::new(StatusCode::DeadlineExceeded, format!("{what} took longer than {limit:?}"))
}

/// Part of the warning of a substitution that did not happen.
const NOT_SUBSTITUTED: &str = "could not perform the requested substitution";

/// The error of a compilation that did not do what flags ask for, although the compiler thinks it has
/// succeeded.
pub(super) fn silent(messages: &str) -> Option<Error> {
    let line = messages.lines().find(|it| it.contains(NOT_SUBSTITUTED))?;
    let name = line.split('`').nth(1).unwrap_or_default();
    Some(
        Error::not_found(format!(
            "nothing was compiled: the program has no executable '{name}' to substitute"
        ))
        .advise("name an executable of the program"),
    )
}

/// Whether a line warns of `index.json`, in a directory of `rehal executables`: the compiler takes all files
/// of a directory for substitutes.
pub(super) fn is_of_index(line: &str) -> bool {
    line.contains(NOT_SUBSTITUTED) && line.contains(" executable `index` ")
}

/// Whether messages say what is wrong with a program or a flag.
pub(super) fn is_diagnosed(messages: &str) -> bool {
    messages.lines().any(|line| is_diagnostic(line, "error")) || of_flags(messages).is_some()
}

/// The error of a flag that the compiler does not have, or of which it refuses the value.
fn of_flags(messages: &str) -> Option<Error> {
    let quoted = |line: &str, before: &str| {
        let (_, rest) = line.split_once(before)?;
        Some(rest.split_once('\'')?.0.to_owned())
    };
    let find = |before: &str| messages.lines().find_map(|line| quoted(line, before));
    if let Some(flag) = find("Unknown command line argument '") {
        let meant = find("Did you mean '").map_or_else(String::new, |it| format!(": did you mean '{it}'?"));
        return Some(
            Error::invalid_argument(format!("the compiler has no flag '{flag}'{meant}"))
                .advise(Remedy::FindCompilerFlag),
        );
    }
    let is_of_flags = |line: &str| {
        line.contains("for the -")
            || line.contains("positional command line arguments")
            || line.contains("positional arguments specified")
    };
    let is_of_program = messages.lines().any(|line| is_diagnostic(line, "error"));
    (!is_of_program && messages.lines().any(is_of_flags)).then(|| {
        let message = format!("the compiler refuses its flags\n{}", condensed(messages));
        Error::invalid_argument(message.trim_end()).advise("correct the flags of the compiler")
    })
}

/// Whether a line begins a diagnostic: `FILE:LINE:COLUMN: error: ...`.
fn is_diagnostic(line: &str, severity: &str) -> bool {
    let Some((place, _)) = line.split_once(&format!(": {severity}: ")) else {
        return line.starts_with(&format!("{severity}: "));
    };
    place == "<unknown>"
        || place.starts_with("loc(")
        || place.rsplit(':').take(2).all(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The messages without what only a developer of the compiler reads: frames of stacks, and operations of
/// many lines.
fn condensed(messages: &str) -> String {
    let mut text = String::new();
    let (mut lines, mut of_operation, mut left_out) = (0, None, 0);
    let begins = |line: &str| ["error", "warning", "note", "remark"].iter().any(|it| is_diagnostic(line, it));
    for line in messages.lines() {
        if begins(line) {
            of_operation = line.contains("see current operation").then_some(0);
        } else if let Some(count) = &mut of_operation {
            *count += 1;
        }
        let is_frame = line.trim_start().starts_with('#') && line.contains(" 0x");
        let is_report = line.starts_with("Please report issues to") || line.starts_with("Stack dump");
        if is_frame
            || is_report
            || of_operation.is_some_and(|count| count > OPERATION_LINES)
            || lines == MAX_LINES
        {
            left_out += 1;
            continue;
        }
        lines += 1;
        text.push_str(&shortened(line));
        text.push('\n');
    }
    if left_out != 0 {
        text.push_str(&format!("({left_out} more lines of operations and stacks)\n"));
    }
    text
}

/// The last lines of messages, which name the error of a script.
pub(super) fn last_lines(messages: &str) -> String {
    const COUNT: usize = 6;
    let lines: Vec<_> = messages.trim_end().lines().collect();
    lines[lines.len().saturating_sub(COUNT)..].join("\n")
}

/// A line without the middle of what is too long to read, such as the features of a processor.
fn shortened(line: &str) -> String {
    const LIMIT: usize = 400;
    let count = line.chars().count();
    if count <= LIMIT {
        return line.to_owned();
    }
    let start: String = line.chars().take(LIMIT / 2).collect();
    let end: String = line.chars().skip(count - LIMIT / 4).collect();
    format!("{start} ... {end}")
}

/// The pass in which the compiler crashed, from its stack.
fn pass(messages: &str) -> Option<&str> {
    let frames = || messages.lines().filter(|line| line.trim_start().starts_with('#'));
    let named = |line: &'_ str, end: &str| {
        let at = line.find(end)?;
        let name = line[..at + "Pass".len()].rsplit(|it: char| !it.is_alphanumeric() && it != '_').next()?;
        (name.len() > "Pass".len())
            .then_some(at + "Pass".len() - name.len())
            .map(|start| (start, at + "Pass".len()))
    };
    ["Pass::runOnOperation", "Pass::"]
        .iter()
        .find_map(|end| frames().find_map(|line| named(line, end).map(|(start, end)| &line[start..end])))
}

/// Whether the compiler needs more memory than it is given here.
fn is_out_of_memory(compiler: &Compiler, end: JobEnd, messages: &str) -> bool {
    let is_limited = compiler.limits.memory_bytes.is_some();
    is_limited && Shortage::find(end, messages, None) == Some(Shortage::Memory)
}

/// The error of a compiler that lacked something. Its messages are mostly stacks.
pub(super) fn lacking(shortage: Shortage, what: &str, messages: &str) -> Error {
    let lacked = match shortage {
        Shortage::Disk => "needs more space for temporary files than there is",
        Shortage::FileSize => "writes a file that is larger than a process may write",
        Shortage::Memory => "needs more memory than a process may have",
    };
    let said = messages.lines().find(|line| Shortage::find(JobEnd::Exited(1), line, None) == Some(shortage));
    let said = said.map_or_else(String::new, |line| format!(": {}", shortened(line.trim())));
    shortage.explain(format!("{what} {lacked}{said}"))
}

/// Keeps the program, the command and the messages of a crash in a new directory.
fn keep(compiler: &Compiler, compilation: &Compilation, messages: &str) -> Result<PathBuf> {
    let failed = |error: std::io::Error| Error::io("writing", &error);
    let parent = std::env::temp_dir();
    let directory = (0..)
        .map(|index: u32| parent.join(format!("rehal-compiler-crash-{}-{index}", std::process::id())))
        .find(|it| !it.exists())
        .unwrap_or(parent);
    fs::DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
    let name = compilation.input.file_name().unwrap_or("program".as_ref());
    fs::copy(&compilation.input, directory.join(name)).map_err(failed)?;
    let mut command = format!("#!/bin/sh\n# Crashes {}.\n", compiler.version());
    command.push_str("here=$(cd \"$(dirname \"$0\")\" && pwd)\n");
    if let Ok(current) = std::env::current_dir() {
        let current = quoted(&current);
        command.push_str(&format!(
            "# The paths of flags are relative to this directory.\ncd {current} || exit\n"
        ));
    }
    command.push_str(&limited(compiler.limits));
    command.push_str(&format!("{} \"$here\"/{}", quoted(compiler.path()), quoted(Path::new(name))));
    for flag in &compilation.flags {
        command.push_str(&format!(" \\\n  {}", quoted(Path::new(flag))));
    }
    command.push_str(" \\\n  -o /dev/null\n");
    let script = directory.join("command.sh");
    fs::write(&script, command).map_err(failed)?;
    set_mode(&script, 0o700).map_err(failed)?;
    fs::write(directory.join("messages.txt"), messages).map_err(failed)?;
    Ok(directory)
}

/// The start of a shell's command that runs a program within limits.
fn limited(limits: JobLimits) -> String {
    let memory = limits.memory_bytes.map(|bytes| format!("ulimit -d {}\n", bytes / 1024));
    let time = limits.time.map(|time| format!("timeout {} ", time.as_secs_f64()));
    format!("{}exec {}", memory.unwrap_or_default(), time.unwrap_or_default())
}

/// A word of a shell's command.
fn quoted(word: &Path) -> String {
    format!("'{}'", word.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_keep_place_and_caret_and_lose_stacks_and_operations() {
        let messages = "a.mlir:2:23: error: use of undeclared SSA value name\n  %0 = arith.addf %a, %b\n       ^\n\
                        a.mlir:1:1: note: see current operation: \n1\n2\n3\n4\n5\n6\nb.mlir:1:2: warning: w\nx\n\
                        Please report issues to x\nStack dump:\n #0 0x0000 f(int) a.cpp:0:0\n";
        let shown = condensed(messages);
        assert!(shown.starts_with(
            "a.mlir:2:23: error: use of undeclared SSA value name\n  %0 = arith.addf %a, %b\n       ^\n"
        ));
        assert!(
            shown.ends_with(
                "1\n2\n3\n4\nb.mlir:1:2: warning: w\nx\n(5 more lines of operations and stacks)\n"
            ),
            "{shown}"
        );
        assert!(is_diagnosed(messages) && of_flags(messages).is_none());
        let unknown = "iree-compile: Unknown command line argument '--x=1'.  Try: 'iree-compile --help'\n\
                       iree-compile: Did you mean '--y=1'?\n";
        assert!(is_diagnosed(unknown));
        assert_eq!(
            of_flags(unknown).unwrap().message(),
            "the compiler has no flag '--x=1': did you mean '--y=1'?"
        );
        assert!(!is_diagnosed("Unknown CPU for target architecture x86_64.\nLLVM ERROR: x"));
        assert!(!is_diagnosed("a.mlir:1:1: warning: the error: x"));
    }

    #[test]
    fn the_pass_of_a_crash_is_that_of_the_innermost_frame() {
        let messages = " #3 0x1 (/lib/libc.so.6+0x3c050)\n\
                        #4 0x2 mlir::iree_compiler::(anonymous namespace)::Pattern::match() a.cpp:0:0\n\
                        #5 0x3 mlir::iree_compiler::(anonymous namespace)::ConvertToHALPass::runOnOperation() a.cpp:0:0\n\
                        #6 0x4 mlir::detail::OpToOpPassAdaptor::run(mlir::Pass*, bool) Pass.cpp:0:0\n";
        assert_eq!(pass(messages), Some("ConvertToHALPass"));
        assert_eq!(
            pass("#12 0x1 mlir::(anonymous namespace)::AssignTargetsPass::getDependentDialects() a.cpp:0:0"),
            Some("AssignTargetsPass")
        );
        assert_eq!(pass("#0 0x1 mlir::Pass::run() a.cpp:0:0"), None);
        assert_eq!(pass("SomePass::runOnOperation"), None);
    }

    #[test]
    fn a_substitution_that_did_not_happen_is_an_error() {
        let warning = "WARNING: iree-hal-substitute-executables could not perform the requested substitution as the \
                       executable `zzz` was not found in the module";
        assert!(silent(warning).unwrap().message().contains("no executable 'zzz'"));
        assert!(silent("a.mlir:1:1: warning: x").is_none());
        assert!(!is_of_index(warning) && is_of_index(&warning.replace("zzz", "index")));
    }

    #[test]
    fn limits_are_repeated() {
        assert_eq!(limited(JobLimits::default()), "exec ");
        let mut limits = JobLimits::for_time(std::time::Duration::from_millis(1500));
        limits.memory_bytes = Some(2048);
        assert_eq!(limited(limits), "ulimit -d 2\nexec timeout 1.5 ");
    }

    #[test]
    fn words_of_commands_are_quoted() {
        assert_eq!(quoted(Path::new("a b'c")), r"'a b'\''c'");
    }
}
