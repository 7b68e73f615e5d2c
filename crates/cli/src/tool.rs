use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rehal::work::perform_work;
use rehal_base::{Align, Error, Result, StatusCode, alternatives, describe_abilities, nearest};
use rehal_crash::HeldSignals;
use rehal_devices::CrashReports;
use rehal_jobs::{Confinement, CopyEnd, Worker, announced, end_by, run_in_child, supervise, supervised};

use crate::flags::{self, AGENTS_MD, Flags, GENERAL, Group};
use crate::names::IREE_NAMES;
use crate::report::{ErrorReports, Origin};
use crate::table::table;
use crate::{
    advice, files as named_files, findings, interrupts, output, output_file, sandbox, shells, tools,
};

/// The program whose verbs are the tools.
const PROGRAM: &str = "rehal";

/// A tool: its names, its flags, its documentation, and the function that runs it.
pub struct Tool {
    /// The name by which it is called, such as `iree-run-replay`, or `rehal` with its verb.
    pub name: &'static str,
    /// Its verb of `rehal`, such as `run`; two words for a subcommand, such as `profile timeline`.
    pub verb: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// A description in paragraphs.
    pub about: &'static str,
    /// Its operands.
    pub operands: Operands,
    /// Its flags, apart from the general ones.
    pub groups: &'static [&'static Group],
    /// Examples: a task, and a command that starts with `{tool}`.
    pub examples: &'static [(&'static str, &'static str)],
    /// The guide for agents, as Markdown.
    pub guide: &'static str,
    /// Answers a tool-specific query, given its name and value and the flags before it; `None` for other
    /// queries.
    pub answer: fn(&str, &str, &Flags) -> Option<Result<String>>,
    /// Derives options from the flags, then runs the tool.
    pub run: fn(&Invocation) -> Result<()>,
}

/// The operands of a tool.
pub enum Operands {
    /// One file.
    One {
        /// Its kind, such as `capture`.
        what: &'static str,
        /// Its placeholder, such as `CAPTURE.ireereplay`.
        form: &'static str,
    },
    /// One file for another program, which gets the flags that the tool does not have; none if such a flag
    /// makes that program print something.
    Forwarded {
        /// Its kind, such as `program`.
        what: &'static str,
        /// Its placeholder, such as `PROGRAM.mlir`.
        form: &'static str,
        /// Whether a flag of the other program takes a value, which may then follow it after a space.
        takes_value: fn(&Flags, &str) -> Result<bool>,
    },
    /// One file or more.
    Several {
        /// The kind of each, such as `descriptor`.
        what: &'static str,
        /// Their placeholder.
        form: &'static str,
    },
    /// Two files.
    Two {
        /// The kind of each, such as `profile`.
        what: &'static str,
        /// Their placeholders, such as `BEFORE.ireeprof AFTER.ireeprof`.
        form: &'static str,
    },
    /// A word that says what to do, and one file.
    WordAndFile {
        /// Kind of the file, such as `profile`.
        what: &'static str,
        /// The placeholders of both, such as `[COMMAND] FILE.ireeprof`.
        form: &'static str,
        /// The word if only a file is given.
        default: &'static str,
        /// The words.
        words: fn() -> Vec<&'static str>,
    },
    /// One of several words.
    Word {
        /// The noun for them, such as `shell`.
        what: &'static str,
        /// The words, as the usage line shows them.
        form: &'static str,
        /// The words.
        words: &'static [&'static str],
    },
    /// A directory, or none.
    MaybeDirectory {
        /// Flags and placeholder, as the usage line shows them.
        usage: &'static str,
    },
    /// None: flags name all files.
    None {
        /// The required flags, as the usage line shows them.
        usage: &'static str,
    },
}

/// An invocation of a tool.
pub struct Invocation {
    /// The name as invoked: `iree-run-replay`, `rehal run`.
    pub name: String,
    /// `argv[0]`.
    pub program: OsString,
    /// Its flags.
    pub flags: Flags,
    /// The word before the file, if [`Tool::operands`] has one.
    word: Option<String>,
    /// The files that [`Tool::operands`] has.
    files: Vec<PathBuf>,
    /// The work that another process asks of this one, if it is a worker.
    pub(crate) worker: Option<Worker>,
    /// The exit status, unless there is an error.
    status: Cell<u8>,
    /// Whether checks of an emulated device found an error.
    has_findings: Cell<bool>,
    /// That of a copy of this process which has said why it ended.
    ended: Cell<Option<CopyEnd<()>>>,
    /// Whether the user knows that code is not confined in full.
    is_warned: Cell<bool>,
    pub(crate) origin: Rc<Origin>,
}

/// The exit status without a verb.
const NO_VERB: u8 = 2;

/// Runs the tool by whose name this program is called; by any other name, the one whose verb is its first
/// argument, or the first two. Returns the exit status.
pub fn main() -> u8 {
    rehal_base::platform::prepare_console();
    let mut arguments = std::env::args_os().peekable();
    let called = arguments.next().unwrap_or_else(|| PROGRAM.into());
    finish(take_worker(&mut arguments).and_then(|worker| match tool_of_name(&called) {
        _ if worker.is_some() && arguments.peek().is_none() => worker.as_ref().map_or(Ok(1), perform),
        Some(tool) => start(tool, tool.name.to_string(), called, arguments, worker),
        None => start_verb(PROGRAM, called, tools::ALL, arguments, worker),
    }))
}

/// Performs the work of a process that has started this one.
fn perform(worker: &Worker) -> Result<u8> {
    CrashReports::install();
    rehal_crash::name_options(flags::CRASH_OPTIONS);
    interrupts::fail_large_writes();
    let work = || {
        let outcome = perform_work(worker);
        findings::print();
        outcome
    };
    let Some(limit) = supervised(worker) else {
        return announced(worker, || work().map(|()| 0), advice::print);
    };
    let status = match supervise(HeldSignals::hold(), work, limit, advice::print)? {
        CopyEnd::Done(()) => 0,
        CopyEnd::Exited(status) => status,
        CopyEnd::Signaled(signal) => end_by(signal),
    };
    announced(worker, || Ok(status), advice::print)
}

/// This process as a worker, if its first argument says that it is one.
fn take_worker(arguments: &mut Peekable<impl Iterator<Item = OsString>>) -> Result<Option<Worker>> {
    if arguments.next_if(|it| it == Worker::VERB).is_none() {
        return Ok(None);
    }
    // SAFETY: the user who starts this program names plugins, as by flags.
    #[allow(unsafe_code, reason = "the user of the program vouches for what is asked for")]
    let taken = unsafe { Worker::from_stdin() }.map(Some);
    let advice = "`rehal worker` is started by other programs of rehal: call another verb";
    taken.map_err(|error| Error::io("taking the request of a worker", &error).advise(advice))
}

/// The tool with the name in `argv[0]`, which may be a path.
fn tool_of_name(called: &OsStr) -> Option<&'static Tool> {
    let name = Path::new(called).file_name()?.to_str()?;
    let name = name.strip_suffix(std::env::consts::EXE_SUFFIX).unwrap_or(name);
    tools::ALL.iter().copied().find(|tool| tool.name == name && IREE_NAMES.contains(&name))
}

/// Runs a tool on these arguments, for tests within the crate.
#[cfg(test)]
pub(crate) fn run_tool(tool: &Tool, arguments: &[String]) -> Result<()> {
    start(tool, tool.name.to_string(), tool.name.into(), arguments.iter().map(OsString::from), None).map(drop)
}

/// Prints the error, if any; returns the exit status, 1 for an error.
fn finish(result: Result<u8>) -> u8 {
    result.unwrap_or_else(|error| {
        advice::print(&error);
        1
    })
}

fn start(
    tool: &Tool,
    name: String,
    program: OsString,
    arguments: impl Iterator<Item = OsString>,
    worker: Option<Worker>,
) -> Result<u8> {
    let arguments: Vec<OsString> = arguments.collect();
    let forwards = matches!(tool.operands, Operands::Forwarded { .. });
    let parsed = Flags::parse_for(&tool.all_groups(), arguments.iter().cloned(), forwards);
    let wants_json = match &parsed {
        Ok(flags) => flags.wants_json(),
        Err(_) => Flags::ask_for_json(&tool.all_groups(), &arguments),
    };
    let origin = Rc::new(match &parsed {
        Ok(flags) => Origin::new(&flags.arguments()),
        Err(_) => Origin::new(&arguments),
    });
    // A worker answers the process that started it, and an error would damage a result on standard output.
    let writes_result = parsed.as_ref().is_ok_and(named_files::write_stdout);
    let has_reader = wants_json && worker.is_none() && !writes_result;
    if has_reader {
        origin.host();
    }
    let errors = ErrorReports::new(has_reader.then_some(&*origin));
    let outcome = parsed.and_then(|flags| start_with(tool, name, program, flags, worker, &origin, &errors));
    outcome.inspect_err(|error| errors.print(error, None))
}

fn start_with(
    tool: &Tool,
    name: String,
    program: OsString,
    mut flags: Flags,
    worker: Option<Worker>,
    origin: &Rc<Origin>,
    errors: &ErrorReports<'_>,
) -> Result<u8> {
    if let Some((query, value)) = flags.query() {
        let text = match query {
            "help" if value == "short" => Ok(tool.short_help(&name)),
            "help" if matches!(value, "" | "true" | "1" | "all") => Ok(tool.help(&name, value == "all")),
            "version" => Ok(version(&name)),
            other => (tool.answer)(other, value, &flags)
                .unwrap_or_else(|| Err(Error::unimplemented(format!("{name} does not answer --{other}")))),
        };
        return output::print(&text?).map(|()| 0);
    }
    if flags.get(&AGENTS_MD) {
        return output::print(tool.guide).map(|()| 0);
    }
    if let Operands::Forwarded { takes_value, .. } = &tool.operands
        && flags.operands().len() > 1
    {
        flags.join_values(takes_value)?;
    }
    let (word, files) = match &tool.operands {
        // Some flags of the other program make it print something.
        Operands::Forwarded { .. } if flags.operands().is_empty() && !flags.forwarded().is_empty() => {
            (None, Vec::new())
        }
        operands => operands.check(&name, flags.operands())?,
    };
    named_files::check(&flags, &files)?;
    // Of a worker, the process that started it has said them.
    if worker.is_none() {
        flags.warnings().iter().for_each(|warning| output::note(warning));
    }
    // Every tool maps files, which another process may truncate.
    CrashReports::install();
    rehal_crash::name_options(flags::CRASH_OPTIONS);
    interrupts::fail_large_writes();
    // Where a process cannot be copied, one that runs captured code is started again.
    if worker.is_none()
        && flags.takes(sandbox::SANDBOX.name())
        && let Some(status) = run_in_child(advice::print)?
    {
        return Ok(status);
    }
    let origin = origin.clone();
    let invocation = Invocation {
        name,
        program,
        flags,
        word,
        files,
        worker,
        status: Cell::new(0),
        has_findings: Cell::new(false),
        ended: Cell::default(),
        is_warned: Cell::default(),
        origin,
    };
    let run = || {
        let capture = match &invocation.files[..] {
            [only] => Some(only.as_path()),
            _ => None,
        };
        let serve = tools::SERVING.iter().find(|(verb, _)| *verb == tool.verb);
        let ran = match (serve, &invocation.worker) {
            (Some((_, serve)), Some(worker)) => serve(&invocation, worker),
            _ => (tool.run)(&invocation),
        };
        // A signal may end the process below.
        output_file::forget();
        match (ran, invocation.ended.get()) {
            // No error is a success, whatever status code has given its process.
            (Err(_), Some(CopyEnd::Exited(status))) => Ok(status.max(1)),
            (Err(_), Some(CopyEnd::Signaled(signal))) => Ok(end_by(signal)),
            (ran, _) => {
                ran.map(|()| invocation.exit_status()).inspect_err(|error| errors.print(error, capture))
            }
        }
    };
    match &invocation.worker {
        Some(worker) => announced(worker, run, advice::print),
        None => run(),
    }
}

fn start_verb(
    program: &str,
    called: OsString,
    tools: &[&Tool],
    mut arguments: Peekable<impl Iterator<Item = OsString>>,
    worker: Option<Worker>,
) -> Result<u8> {
    let first = arguments.next().unwrap_or_default();
    if let Some(tool) = take_verb(tools, &first, &mut arguments) {
        return start(tool, format!("{program} {}", tool.verb), called, arguments, worker);
    }
    match &*first.to_string_lossy() {
        "help" | "--help" | "-h" => match arguments.next() {
            None => output::print(&verbs_help(program, tools)).map(|()| 0),
            Some(verb) => match take_verb(tools, &verb, &mut arguments) {
                Some(tool) => {
                    let help = ["--help".into()].into_iter();
                    start(tool, format!("{program} {}", tool.verb), called, help, None)
                }
                None => help_of_group(program, &verb, arguments.next(), tools),
            },
        },
        shells::VERB => {
            let words: Vec<_> = arguments.map(|it| it.to_string_lossy().into_owned()).collect();
            output::print(&shells::complete(tools, &words)).map(|()| 0)
        }
        "version" | "--version" => output::print(&version(program)).map(|()| 0),
        "agents_md" | "--agents_md" | "--agents-md" => {
            let guides: Vec<_> = tools.iter().map(|tool| tool.guide).collect();
            output::print(&guides.join("\n")).map(|()| 0)
        }
        "" => {
            output::note(verbs_help(program, tools).trim_end());
            Ok(NO_VERB)
        }
        other => match arguments.next() {
            Some(flag) if matches!(flag.to_str(), Some("help" | "--help" | "-h")) => {
                help_of_group(program, &first, arguments.next(), tools)
            }
            Some(flag) if matches!(flag.to_str(), Some("--agents_md" | "--agents-md")) => {
                let group = verbs_of_group(other, tools);
                let guides: Vec<_> = group.iter().map(|tool| tool.guide).collect();
                match guides.is_empty() {
                    true => Err(unknown_verb(other, tools)),
                    false => output::print(&guides.join("\n")).map(|()| 0),
                }
            }
            _ => Err(unknown_verb(other, tools)),
        },
    }
}

/// The tools whose verbs have two words, of which `first` is the first.
fn verbs_of_group<'t>(first: &str, tools: &[&'t Tool]) -> Vec<&'t Tool> {
    tools.iter().copied().filter(|it| it.verb.split_once(' ').is_some_and(|(it, _)| it == first)).collect()
}

/// Prints the verbs that begin with a word, unless another follows.
fn help_of_group(program: &str, first: &OsStr, next: Option<OsString>, tools: &[&Tool]) -> Result<u8> {
    let first = first.to_string_lossy();
    let group = verbs_of_group(&first, tools);
    if group.is_empty() || next.is_some() {
        return Err(unknown_verb(&first, tools));
    }
    let mut text = format!("Usage: {program} {first} VERB [flags] [FILE]\n\n");
    text.push_str(&verbs_list(program, &group));
    text.push_str(&format!("\n{program} {first} VERB --help prints the flags of a verb.\n"));
    output::print(&text).map(|()| 0)
}

/// The tool whose verb is `first`, or `first` and the next argument, which is then taken.
fn take_verb<'t>(
    tools: &[&'t Tool],
    first: &OsStr,
    arguments: &mut Peekable<impl Iterator<Item = OsString>>,
) -> Option<&'t Tool> {
    let find = |verb: &str| tools.iter().copied().find(|tool| tool.verb == verb);
    let first = first.to_str()?;
    let both = arguments.peek().and_then(|second| Some(format!("{first} {}", second.to_str()?)));
    if let Some(tool) = both.and_then(|both| find(&both)) {
        arguments.next();
        return Some(tool);
    }
    find(first)
}

fn unknown_verb(verb: &str, tools: &[&Tool]) -> Error {
    let longer: Vec<_> = tools.iter().filter(|it| it.verb.split(' ').next() == Some(verb)).collect();
    if !longer.is_empty() {
        let longer: Vec<_> = longer.iter().map(|it| format!("'{}'", it.verb)).collect();
        return Error::invalid_argument(format!("'{verb}' is only a part of a verb"))
            .advise(format!("name one of {}; {verb} --help describes them", longer.join(", ")));
    }
    let error = Error::invalid_argument(format!("unknown verb '{verb}'"));
    let is_meant = |tool: &&&Tool| tool.name == verb || tool.verb.split(' ').next_back() == Some(verb);
    let same = tools.iter().find(is_meant).map(|tool| tool.verb);
    match same.or_else(|| nearest(verb, tools.iter().map(|tool| tool.verb))) {
        Some(meant) => error.advise(format!("did you mean '{meant}'? {}", verbs(tools))),
        None => error.advise(verbs(tools)),
    }
}

fn verbs(tools: &[&Tool]) -> String {
    let verbs: Vec<_> = tools.iter().map(|tool| tool.verb).collect();
    format!("the verbs are {}; VERB --help describes one", verbs.join(", "))
}

fn verbs_help(program: &str, tools: &[&Tool]) -> String {
    let mut text =
        format!("{program} runs compiled programs, and records, replays, dumps and benchmarks them.\n\n");
    text.push_str(&format!("Usage: {program} VERB [flags] [FILE]\n\n"));
    let more =
        [("help", "prints this, or with a verb the flags of that verb"), ("version", "prints the version")];
    text.push_str(&verbs_in_groups(program, tools, &more));
    text.push_str(&format!(
        "\n{program} help VERB and {program} VERB --help print the flags of a verb, {program} VERB --agents_md a \
         guide for agents.\n"
    ));
    text
}

/// Verbs and what they do.
fn verbs_list(program: &str, tools: &[&Tool]) -> String {
    "Verbs\n".to_owned() + &verb_table(&tools.iter().map(|tool| verb_row(program, tool)).collect::<Vec<_>>())
}

/// The same under the titles of their groups, with `more` of them.
fn verbs_in_groups(program: &str, tools: &[&Tool], more: &[(&str, &str)]) -> String {
    let mut rows: Vec<_> = tools.iter().map(|tool| verb_row(program, tool)).collect();
    rows.extend(more.iter().map(|(verb, what)| [(*verb).to_owned(), (*what).to_owned()]));
    // One table, so that all columns align.
    let mut text = String::new();
    for (line, [verb, _]) in verb_table(&rows).lines().zip(&rows) {
        if let Some((title, _)) = tools::GROUPS.iter().find(|(_, first)| first == verb) {
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{title}\n"));
        }
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn verb_row(program: &str, tool: &Tool) -> [String; 2] {
    let twin = if tool.name.starts_with(program) { String::new() } else { format!(" (as {})", tool.name) };
    [tool.verb.to_owned(), format!("{}{twin}", tool.summary)]
}

fn verb_table(rows: &[[String; 2]]) -> String {
    table("  ", &[Align::Left, Align::Left], rows)
}

fn version(name: &str) -> String {
    let of = if name.starts_with("rehal") { "" } else { " of rehal" };
    let build = concat!(env!("REHAL_COMMIT"), ", ", env!("REHAL_TARGET"), ", ", env!("REHAL_PROFILE"));
    let version = env!("CARGO_PKG_VERSION");
    let confined = Confinement::default().describe();
    format!(
        "{name}{of} {version}\ncommit {build}\nreads captures 1.0 and 2.0; follows IREE 3.13.0\nconfines captured code: {confined}\n{}",
        describe_abilities()
    )
}

/// The banner of help, by which scripts identify IREE's tools.
fn banner(name: &str) -> String {
    const RULE: &str = "# ============================================================================\n";
    let product = if name.starts_with("iree-") { "\u{1F47B} IREE: " } else { "" };
    format!("{RULE}# {product}{name}\n{RULE}#\n")
}

impl Tool {
    pub(crate) fn all_groups(&self) -> Vec<&'static Group> {
        self.groups.iter().copied().chain([&GENERAL]).collect()
    }

    fn short_help(&self, name: &str) -> String {
        let (summary, usage) = (self.summary, self.operands.usage());
        let flags = flags::help_short(&self.all_groups());
        format!(
            "{name}: {summary}\n\nUsage: {name} [flags] {usage}\n\n{flags}\n--help describes the flags and has \
             examples; --agents_md prints a guide.\n"
        )
    }

    pub(crate) fn help(&self, name: &str, all: bool) -> String {
        let usage = self.operands.usage();
        let mut text = banner(name);
        text.push_str(&flags::comment(&format!(
            "{name}: {}\n\nUsage: {name} [flags] {usage}\n\n{}",
            self.summary, self.about
        )));
        let groups = self.all_groups();
        text.push_str(&if all { flags::help_all(&groups) } else { flags::help(&groups) });
        text.push_str("\n# ---- Examples\n#\n");
        for (what, command) in self.examples {
            text.push_str(&flags::comment(&format!(
                "{what}\n    {}",
                command.replace("{tool}", name).replace('\n', "\n    ")
            )));
            text.push_str("#\n");
        }
        text.truncate(text.len() - 2);
        text
    }
}

impl Operands {
    /// Placeholders and required flags, as the usage line shows them.
    pub(crate) fn usage(&self) -> &'static str {
        match self {
            Self::One { form, .. }
            | Self::Forwarded { form, .. }
            | Self::Several { form, .. }
            | Self::Two { form, .. }
            | Self::WordAndFile { form, .. }
            | Self::Word { form, .. } => form,
            Self::MaybeDirectory { usage } | Self::None { usage } => usage,
        }
    }

    /// Checks the number of operands; returns the word, if the tool has one, and the files.
    fn check(&self, name: &str, given: &[OsString]) -> Result<(Option<String>, Vec<PathBuf>)> {
        let shown: Vec<_> = given.iter().map(|it| format!("'{}'", it.display())).collect();
        let shown = format!("given: {}", shown.join(", "));
        let files = || given.iter().map(PathBuf::from).collect();
        let usage = |form: &str| format!("{name} [flags] {form}; --help describes the flags");
        match (self, given) {
            (Self::One { .. } | Self::Forwarded { .. }, [_])
            | (Self::Several { .. }, [_, ..])
            | (Self::Two { .. }, [_, _])
            | (Self::MaybeDirectory { .. }, [] | [_])
            | (Self::None { .. }, []) => Ok((None, files())),
            (Self::WordAndFile { default, .. }, [_]) => Ok((Some((*default).to_owned()), files())),
            (Self::WordAndFile { .. }, [word, path]) => {
                Ok((Some(word.to_string_lossy().into_owned()), vec![path.into()]))
            }
            (Self::Word { words, .. }, [word]) if words.iter().any(|it| word == it) => {
                Ok((Some(word.to_string_lossy().into_owned()), Vec::new()))
            }
            (Self::Word { what, form, words }, given) => {
                let words = alternatives(words);
                Err(match given {
                    [] => Error::invalid_argument(format!("{name} needs a {what} (expected {words})")),
                    [word] => invalid_word(what, word, &words),
                    _ => Error::invalid_argument(format!("{name} takes one {what}")).context(shown),
                }
                .advise(usage(form)))
            }
            (Self::Two { what, form }, []) => {
                Err(Error::invalid_argument(format!("{name} needs two {what}s")).advise(usage(form)))
            }
            (Self::Two { what, form }, _) => {
                Err(Error::invalid_argument(format!("{name} takes two {what}s, found {}", given.len()))
                    .context(shown)
                    .advise(usage(form)))
            }
            (
                Self::One { what, form }
                | Self::Forwarded { what, form, .. }
                | Self::Several { what, form }
                | Self::WordAndFile { what, form, .. },
                [],
            ) => Err(Error::invalid_argument(format!("{name} needs a {what}")).advise(usage(form))),
            (Self::One { what, .. } | Self::Forwarded { what, .. } | Self::WordAndFile { what, .. }, _) => {
                Err(Error::invalid_argument(format!("{name} takes one {what}"))
                    .context(shown)
                    .advise("values of flags follow '=', as in --device=local-sync"))
            }
            (Self::MaybeDirectory { usage }, _) => {
                Err(Error::invalid_argument(format!("{name} takes one directory"))
                    .context(shown)
                    .advise(format!("{name} {usage}")))
            }
            (Self::None { usage }, _) => Err(Error::invalid_argument(format!("{name} takes only flags"))
                .context(shown)
                .advise(format!("values of flags follow '=': {name} {usage}"))),
        }
    }
}

fn invalid_word(what: &str, word: &OsStr, expected: &str) -> Error {
    let word = word.display();
    Error::invalid_argument(format!("'{word}' is not a {what} (expected {expected})"))
}

impl Invocation {
    /// Arguments, after that of the program, with which it is the same invocation.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        // Of `rehal kernel replay`, two words.
        let verb = self.name.split(' ').skip(1).map(OsString::from);
        verb.chain(self.flags.arguments()).collect()
    }

    /// The word before the operand. Panics unless [`Tool::operands`] has one.
    pub fn word(&self) -> &str {
        self.word.as_deref().expect("the tool's operands are checked before it runs")
    }

    /// The file. Panics unless [`Tool::operands`] has one.
    pub fn operand(&self) -> PathBuf {
        self.files.first().cloned().expect("the tool's operands are checked before it runs")
    }

    /// The files of [`Tool::operands`].
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Sets the exit status of a run without an error.
    pub fn set_status(&self, status: u8) {
        self.status.set(status);
    }

    /// The exit status of a run without an error.
    pub(crate) fn status(&self) -> u8 {
        self.status.get()
    }

    /// Notes whether checks of an emulated device found an error: then a run that ends well has a status of
    /// its own.
    pub(crate) fn note_findings(&self, found: bool) {
        self.has_findings.set(self.has_findings.get() || found);
    }

    fn exit_status(&self) -> u8 {
        match self.status.get() {
            0 if self.has_findings.get() => findings::FOUND,
            status => status,
        }
    }

    /// Whether the user has not been warned yet that code is not confined in full.
    pub(crate) fn is_first_warning(&self) -> bool {
        self.worker.is_none() && !self.is_warned.replace(true)
    }

    /// The tool ends as a copy of its process did, which has said why: the error is not printed.
    pub(crate) fn end_with(&self, ended: CopyEnd<()>) -> Error {
        self.ended.set(Some(ended));
        Error::new(StatusCode::Aborted, "the process of kernels has said why it ended")
    }

    /// Whether the tool ends as a copy of its process did.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }
}
