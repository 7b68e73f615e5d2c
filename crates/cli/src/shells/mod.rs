//! Scripts by which shells complete commands, from the tables of flags.
//!
//! A script is complete by itself: it does not start this program. All three are written from [`Commands`],
//! and complete the same words: verbs, flags that have an effect, values of flags with a fixed set of them,
//! and files and directories, by the extensions that a tool reads.

mod bash;
mod fish;
#[cfg(test)]
mod python;
mod zsh;

pub(crate) use bash::bash;
pub(crate) use fish::fish;
pub(crate) use zsh::zsh;

use crate::flags::{Effect, Entry, GENERAL, Group, Role};
use crate::names::IREE_NAMES;
use crate::{Operands, Tool};

/// All commands, with their flags by group: most groups belong to several tools.
pub(crate) struct Commands {
    pub commands: Vec<Command>,
    /// The flags of each group.
    pub groups: Vec<Vec<Completion>>,
}

/// A tool.
pub(crate) struct Command {
    pub verb: &'static str,
    /// The name of IREE's tool that is the same.
    pub twin: Option<&'static str>,
    pub summary: &'static str,
    /// Indices of its groups.
    pub groups: Vec<usize>,
    /// Words that may be its first operand.
    pub words: Vec<&'static str>,
    /// Its operands, apart from words.
    pub operands: Values,
}

/// A flag.
#[derive(PartialEq)]
pub(crate) struct Completion {
    pub name: &'static str,
    pub short: Option<char>,
    /// The first sentence of its help.
    pub summary: String,
    /// Whether it may be given more than once.
    pub repeats: bool,
    /// Whether it may be given without a value.
    pub is_switch: bool,
    /// The placeholder of a value; empty if it takes none.
    pub form: String,
    pub values: Values,
}

/// What completes a value.
#[derive(Debug, PartialEq)]
pub(crate) enum Values {
    /// Nothing: any text or number.
    Any,
    /// One of these words.
    Words(Vec<&'static str>),
    /// Files with one of these extensions, or any if there are none.
    Files(Vec<&'static str>),
    Directories,
}

impl Commands {
    pub(crate) fn new(tools: &[&Tool]) -> Self {
        let mut it = Self { commands: Vec::new(), groups: Vec::new() };
        for tool in tools {
            let groups = tool.groups.iter().chain([&&GENERAL]).map(|group| it.group(group)).collect();
            let twin = Some(tool.name).filter(|name| IREE_NAMES.contains(name));
            let (words, operands) = operands(&tool.operands);
            let (verb, summary) = (tool.verb, tool.summary);
            it.commands.push(Command { verb, twin, summary, groups, words, operands });
        }
        it
    }

    /// The index of a group, which is added unless there is an equal one.
    fn group(&mut self, group: &Group) -> usize {
        let flags: Vec<_> = group.flags.iter().filter(|it| has_effect(**it)).map(|it| flag(*it)).collect();
        self.groups.iter().position(|known| *known == flags).unwrap_or_else(|| {
            self.groups.push(flags);
            self.groups.len() - 1
        })
    }

    /// The first words of verbs, each once, with a summary.
    pub(crate) fn first_words(&self) -> Vec<(&'static str, &'static str)> {
        let mut words: Vec<(&str, &str)> = Vec::new();
        for command in &self.commands {
            let (word, summary) = match command.verb.split_once(' ') {
                Some((word, _)) => (word, "has verbs of its own"),
                None => (command.verb, command.summary),
            };
            if words.iter().all(|(known, _)| *known != word) {
                words.push((word, summary));
            }
        }
        words.extend([("help", "prints the verbs, or the flags of one"), ("version", "prints the version")]);
        words
    }

    /// Verbs of two words, as both words, with a summary.
    pub(crate) fn second_words(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.commands.iter().filter_map(|it| it.verb.split_once(' ').map(|(one, two)| (one, two, it.summary)))
    }

    /// Names of IREE's tools, each with its verb.
    pub(crate) fn twins(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.commands.iter().filter_map(|it| it.twin.map(|twin| (twin, it.verb)))
    }
}

fn has_effect(flag: &dyn Entry) -> bool {
    matches!(flag.spec().effect, Effect::Full | Effect::OfDriver(_))
}

fn flag(entry: &dyn Entry) -> Completion {
    let spec = entry.spec();
    let words = entry.words();
    let form = entry.form();
    let is_path = ["PATH", "FILE"].iter().any(|it| form.contains(it)) || entry.has_files();
    let values = match (words.is_empty(), spec.name) {
        (false, _) => Values::Words(words.clone()),
        (true, "directory" | "rehal_kernel_record_dir" | "to") => Values::Directories,
        (true, _) if is_path => Values::Files(spec.endings.to_vec()),
        (true, _) => Values::Any,
    };
    Completion {
        name: spec.name,
        short: spec.short,
        summary: first_sentence(spec.help),
        repeats: entry.role() == Role::List,
        is_switch: entry.role() == Role::Query || words == ["true", "false"],
        form,
        values,
    }
}

fn operands(operands: &Operands) -> (Vec<&'static str>, Values) {
    match operands {
        Operands::One { form, .. }
        | Operands::Forwarded { form, .. }
        | Operands::Several { form, .. }
        | Operands::Two { form, .. } => (Vec::new(), Values::Files(endings(form))),
        Operands::WordAndFile { form, words, .. } => (words(), Values::Files(endings(form))),
        Operands::Word { words, .. } => (words.to_vec(), Values::Any),
        Operands::MaybeDirectory { .. } => (Vec::new(), Values::Directories),
        Operands::None { .. } => (Vec::new(), Values::Any),
    }
}

/// The extensions of the operands in a usage line, which has them before flags.
fn endings(form: &'static str) -> Vec<&'static str> {
    let operands = form.split(' ').take_while(|word| !word.starts_with('-')).flat_map(|word| word.split('|'));
    let mut endings: Vec<_> = operands.filter_map(|it| Some(it.rsplit_once('.')?.1)).collect();
    endings.dedup();
    endings
}

/// The first sentence of a text.
pub(crate) fn first_sentence(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    // A word that ends in a dot before a capital: not `e.g.`, nor a file name.
    let ends = line.match_indices(". ").map(|(at, _)| at);
    let end = ends.into_iter().find(|at| line[at + 2..].starts_with(|it: char| !it.is_ascii_lowercase()));
    line[..end.unwrap_or(line.len())].trim_end_matches('.').to_owned()
}

/// A word of a shell, in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Words, separated by spaces, as one word of a shell.
fn quoted_list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    quoted(&words.into_iter().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_have_the_extensions_of_the_usage_line() {
        assert_eq!(endings("FILE.ireeprof|FILE.ireereplay -o report.html"), ["ireeprof", "ireereplay"]);
        assert_eq!(endings("BEFORE.ireeprof AFTER.ireeprof"), ["ireeprof"]);
        assert_eq!(endings("[COMMAND] FILE.ireeprof"), ["ireeprof"]);
        assert_eq!(endings("--module=FILE.vmfb"), [""; 0]);
    }

    #[test]
    fn sentences_end_before_capitals() {
        assert_eq!(
            first_sentence("A module (.vmfb), or - for input. Repeat it."),
            "A module (.vmfb), or - for input"
        );
        assert_eq!(first_sentence("One sentence.\n\nMore."), "One sentence");
        assert_eq!(first_sentence("A file, e.g. one. Two."), "A file, e.g. one");
    }
}
