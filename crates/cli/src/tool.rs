use std::env::ArgsOs;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use rehal_base::{Error, Result};

use crate::flags::{self, Flags, GENERAL, Group};
use crate::output;

/// A tool: what it is called, what it takes, what it says of itself, and what it does.
pub struct Tool {
    /// Its own binary, such as `iree-run-replay`.
    pub name: &'static str,
    /// The verb of `rehal` that is the same, such as `run`.
    pub verb: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What it does, in paragraphs.
    pub about: &'static str,
    /// What stands behind the flags on the command line.
    pub operands: &'static str,
    /// Its flags besides the general ones.
    pub groups: &'static [&'static Group],
    /// What people type: a line of what for, and a command that starts with `{tool}`.
    pub examples: &'static [(&'static str, &'static str)],
    /// The guide for agents, as Markdown.
    pub guide: &'static str,
    /// Answers a query flag of its own; `None` for one that it does not know.
    pub answer: fn(&str, &str) -> Option<Result<String>>,
    /// Does it.
    pub run: fn(&Invocation) -> Result<()>,
}

/// A tool that was started.
pub struct Invocation {
    /// The name it was started by: `iree-run-replay`, `rehal run`.
    pub name: String,
    /// The program as it was called, `argv[0]`.
    pub program: OsString,
    /// Its flags.
    pub flags: Flags,
}

/// Runs a tool as a program of its own.
pub fn main(tool: &Tool) -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| tool.name.into());
    finish(start(tool, tool.name.to_string(), program, arguments))
}

/// Runs the tool that the first argument names as a verb of `program`.
pub fn main_of_verbs(program: &str, tools: &[&Tool]) -> ExitCode {
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_else(|| program.into());
    finish(start_verb(program, called, tools, arguments))
}

/// One word for each outcome: 0, or 1 after the lines that say what, where and what to do.
fn finish(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&error.report());
            ExitCode::FAILURE
        }
    }
}

fn start(
    tool: &Tool,
    name: String,
    program: OsString,
    arguments: impl Iterator<Item = OsString>,
) -> Result<()> {
    let flags = Flags::parse(&tool.all_groups(), arguments)?;
    if let Some(query) = flags.first_query() {
        let text = match query {
            "help" => Ok(tool.help(&name)),
            "version" => Ok(version(&name)),
            other => (tool.answer)(other, flags.query(other))
                .unwrap_or_else(|| Err(Error::unimplemented(format!("{name} does not answer --{other}")))),
        };
        return output::print(&text?);
    }
    if flags.switch("agents_md") {
        return output::print(tool.guide);
    }
    (tool.run)(&Invocation { name, program, flags })
}

fn start_verb(program: &str, called: OsString, tools: &[&Tool], mut arguments: ArgsOs) -> Result<()> {
    let verb = arguments.next();
    let verb = verb.as_ref().map(|verb| verb.to_string_lossy()).unwrap_or_default();
    if let Some(tool) = tools.iter().find(|tool| tool.verb == verb) {
        return start(tool, format!("{program} {verb}"), called, arguments);
    }
    match verb.trim_start_matches('-') {
        "help" => output::print(&verbs_help(program, tools)),
        "version" => output::print(&version(program)),
        "agents_md" | "agents-md" => {
            let guides: Vec<_> = tools.iter().map(|tool| tool.guide).collect();
            output::print(&guides.join("\n"))
        }
        "" => Err(Error::invalid_argument("no verb is given").advise(verbs(tools))),
        other => Err(unknown_verb(other, tools)),
    }
}

fn unknown_verb(verb: &str, tools: &[&Tool]) -> Error {
    let error = Error::invalid_argument(format!("there is no verb '{verb}'"));
    match tools.iter().find(|tool| crate::tools::is_alike(tool.verb, verb) || tool.name == verb) {
        Some(tool) => error.advise(format!("did you mean '{}'? {}", tool.verb, verbs(tools))),
        None => error.advise(verbs(tools)),
    }
}

fn verbs(tools: &[&Tool]) -> String {
    let verbs: Vec<_> = tools.iter().map(|tool| tool.verb).collect();
    format!("the verbs are {}; VERB --help tells more", verbs.join(", "))
}

fn verbs_help(program: &str, tools: &[&Tool]) -> String {
    let mut text =
        format!("{program} runs compiled programs, and records, replays, dumps and measures them.\n\n");
    text.push_str(&format!("Usage: {program} VERB [flags] [FILE]\n\nVerbs\n"));
    let width = tools.iter().map(|tool| tool.verb.len()).max().unwrap_or_default();
    let mut line = |verb: &str, what: &str| text.push_str(&format!("  {verb:<width$}  {what}\n"));
    for tool in tools {
        let twin =
            if tool.name.starts_with(program) { String::new() } else { format!(" (as {})", tool.name) };
        line(tool.verb, &format!("{}{twin}", tool.summary));
    }
    line("help", "prints this");
    line("version", "prints the version");
    text.push_str(&format!(
        "\n{program} VERB --help prints the flags of a verb, {program} VERB --agents_md a guide for agents.\n"
    ));
    text
}

fn version(name: &str) -> String {
    let of = if name.starts_with("rehal") { "" } else { " of rehal" };
    format!("{name}{of} {}\nreads captures 1.0 and 2.0; follows IREE 3.13.0\n", env!("CARGO_PKG_VERSION"))
}

impl Tool {
    fn all_groups(&self) -> Vec<&'static Group> {
        self.groups.iter().copied().chain([&GENERAL]).collect()
    }

    fn help(&self, name: &str) -> String {
        let mut text = flags::comment(&format!(
            "{name}: {}\n\nUsage: {name} [flags] {}\n\n{}",
            self.summary, self.operands, self.about
        ));
        text.push_str(&flags::help(&self.all_groups()));
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

impl Invocation {
    /// The one capture that the tool works on.
    pub fn capture_path(&self) -> Result<&Path> {
        match self.flags.positionals() {
            [path] => Ok(Path::new(path)),
            [] => Err(Error::invalid_argument(format!("{} needs a capture", self.name))
                .advise(format!("{} [flags] CAPTURE.ireereplay; --help tells more", self.name))),
            several => {
                let shown: Vec<_> = several.iter().map(|it| format!("'{}'", it.display())).collect();
                Err(Error::invalid_argument(format!("{} takes one capture", self.name))
                    .context(format!("given: {}", shown.join(", ")))
                    .advise("values of flags follow '=', as in --device=local-sync"))
            }
        }
    }
}
