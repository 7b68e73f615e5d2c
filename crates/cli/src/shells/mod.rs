//! Completion of commands in shells: a script asks this program, by its hidden verb [`VERB`], for the words
//! that complete a command line.

#[cfg(test)]
mod python;

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use crate::flags::{Effect, Entry, GENERAL, Role};
use crate::names::IREE_NAMES;
use crate::{Operands, Tool, devices};

/// The verb that scripts call with the words of a command line up to the cursor. It prints the candidates for
/// the last word, one per line: a word, and a tab and its description unless the word is a path. No space
/// follows a candidate that ends in `=` or `/`.
pub(crate) const VERB: &str = "__complete";

/// Bash splits words at `=` and `:`, and replaces only the last part: the words are those of the line, and
/// what precedes that part is removed from the candidates.
const BASH: &str = r#"_rehal() {
    local program=rehal words line=${COMP_LINE:0:COMP_POINT} piece=${COMP_WORDS[COMP_CWORD]//\\/}
    read -a words <<< "$line"
    [[ $line == *[^\\][[:space:]] ]] && words+=('')
    [[ $piece == [=:] ]] && piece=
    [[ ${words[0]} == */rehal ]] && program=${words[0]}
    local last=${words[-1]}
    mapfile -t COMPREPLY < <("$program" __complete "${words[@]}" 2> /dev/null)
    [[ ${COMPREPLY-} != *$'\t'* ]] && compopt -o filenames 2> /dev/null
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
    [[ ${COMPREPLY-} == *[=/] ]] && compopt -o nospace 2> /dev/null
    COMPREPLY=("${COMPREPLY[@]#"${last%"$piece"}"}")
}
complete -F _rehal rehal NAMES
"#;

const FISH: &str = r#"function __rehal
    set -l words (commandline -opc) (commandline -ct | string unescape)
    set -l program rehal
    string match -q '*/rehal' -- $words[1]; and set program $words[1]
    $program __complete $words 2> /dev/null
end
for name in rehal NAMES
    complete -c $name -e
    complete -c $name -f -a '(__rehal)'
end
"#;

/// A function of the completion system, or a file that a user reads.
const ZSH: &str = r#"#compdef rehal NAMES
_rehal() {
    local program=rehal
    local -a lines joined shown
    [[ $words[1] == */rehal ]] && program=$words[1]
    lines=("${(@f)$($program __complete "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)}")
    joined=("${(@M)lines:#*[=/](|$'\t'*)}") lines=("${(@)lines:#(|*[=/](|$'\t'*))}")
    shown=("${(@)lines/$'\t'/  }") && compadd -l -d shown -- "${(@)lines%%$'\t'*}"
    shown=("${(@)joined/$'\t'/  }") && compadd -S '' -l -d shown -- "${(@)joined%%$'\t'*}"
    (( compstate[nmatches] ))
}
if [[ $funcstack[1] == _rehal ]]; then _rehal "$@"; else compdef _rehal rehal NAMES; fi
"#;

/// The script of a shell.
pub(crate) fn script(shell: &str) -> String {
    let text = match shell {
        "bash" => BASH,
        "zsh" => ZSH,
        _ => FISH,
    };
    text.replace("NAMES", &IREE_NAMES.join(" "))
}

/// The completions of a value.
#[derive(Debug, PartialEq)]
pub(crate) enum Values {
    /// Nothing: any text or number.
    Any,
    /// One of these words.
    Words(Vec<&'static str>),
    /// Files with one of these extensions, or any if there are none.
    Files(Vec<&'static str>),
    Directories,
    /// Drivers, and URIs of devices.
    Devices,
}

/// The candidates for the last word of a command line, as [`VERB`] prints them.
pub(crate) fn complete(tools: &[&Tool], words: &[String]) -> String {
    let [name, before @ .., word] = words else { return String::new() };
    let mut found = Candidates { text: String::new(), word };
    let name = Path::new(name).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if IREE_NAMES.contains(&name) {
        if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
            found.add_arguments(tool, before);
        }
        return found.text;
    }
    let is_help = before.first().is_some_and(|first| first == "help");
    let verb = if is_help { &before[1..] } else { before };
    found.add_verbs(tools, verb);
    let is_verb = |tool: &&&Tool, count: usize| {
        before.len() >= count && tool.verb.split(' ').eq(before[..count].iter().map(String::as_str))
    };
    if let Some((tool, count)) =
        [2, 1].iter().find_map(|count| Some((tools.iter().find(|it| is_verb(it, *count))?, count)))
    {
        found.add_arguments(tool, &before[*count..]);
    } else if before.is_empty() {
        found.add("help", "prints the verbs, or the flags of one");
        found.add("version", "prints the version");
    }
    found.text
}

struct Candidates<'w> {
    text: String,
    /// The word to complete.
    word: &'w str,
}

impl Candidates<'_> {
    /// Adds a candidate if it completes the word.
    fn add(&mut self, candidate: &str, description: &str) {
        if candidate.starts_with(self.word) {
            let _ = writeln!(self.text, "{candidate}\t{description}");
        }
    }

    /// Adds the next word of the verbs that begin with the words `before`.
    fn add_verbs(&mut self, tools: &[&Tool], before: &[String]) {
        let mut known = Vec::new();
        for tool in tools {
            let mut words = tool.verb.split(' ');
            if !before.iter().all(|word| words.next() == Some(word)) {
                continue;
            }
            let Some(next) = words.next().filter(|next| !known.contains(next)) else { continue };
            known.push(next);
            self.add(next, if words.next().is_some() { "has verbs of its own" } else { tool.summary });
        }
    }

    /// Adds flags of a tool, values of a flag, or operands, after the arguments `before`.
    fn add_arguments(&mut self, tool: &Tool, before: &[String]) {
        let entries = || tool.groups.iter().chain([&&GENERAL]).flat_map(|group| group.flags);
        let mut entries = entries().copied().filter(|entry| has_effect(*entry));
        if let Some((flag, _)) = self.word.split_once('=').filter(|_| self.word.starts_with("--")) {
            let name = flag[2..].replace('-', "_");
            if let Some(entry) = entries.find(|entry| entry.spec().name == name) {
                self.add_values(&format!("{flag}="), &values(entry));
            }
            return;
        }
        if self.word.starts_with('-') {
            for entry in entries {
                let (spec, end) = (entry.spec(), if is_switch(entry) { "" } else { "=" });
                let summary = first_sentence(spec.help);
                self.add(&format!("--{}{end}", spec.name), &summary);
                if let Some(letter) = spec.short {
                    self.add(&format!("-{letter}"), &summary);
                }
            }
            return;
        }
        let short = before.last().and_then(|it| it.strip_prefix('-')?.parse::<char>().ok());
        if let Some(entry) = short.and_then(|it| entries.find(|entry| entry.spec().short == Some(it))) {
            return self.add_values("", &values(entry));
        }
        let (words, files) = operands(&tool.operands);
        self.add_values("", &Values::Words(words));
        self.add_values("", &files);
    }

    /// Adds values behind `before`, which the word begins with.
    fn add_values(&mut self, before: &str, values: &Values) {
        match values {
            Values::Any => {}
            Values::Words(words) => {
                words.iter().for_each(|word| self.add(&format!("{before}{word}"), ""));
            }
            Values::Devices => {
                for (uri, name) in devices::beginning_with(&self.word[before.len()..]) {
                    self.add(&format!("{before}{uri}"), &name);
                }
            }
            Values::Files(endings) => self.add_files(before, Some(endings)),
            Values::Directories => self.add_files(before, None),
        }
    }

    /// Adds directories, and files with these extensions if there are any.
    fn add_files(&mut self, before: &str, endings: Option<&[&str]>) {
        // A value may name its file behind a key.
        let start = if before.is_empty() { 0 } else { self.word.rfind('=').map_or(0, |at| at + 1) };
        let name = self.word.rfind('/').map_or(start, |at| (at + 1).max(start));
        let directory = match (&self.word[start..name], env::home_dir()) {
            ("", _) => ".".into(),
            (path, Some(home)) if path.starts_with("~/") => home.join(&path[2..]),
            (path, _) => path.into(),
        };
        let mut paths: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().collect();
        paths.sort_by_key(fs::DirEntry::file_name);
        for path in paths {
            let Ok(file) = path.file_name().into_string() else { continue };
            let is_hidden = file.starts_with('.') && !self.word[name..].starts_with('.');
            if is_hidden || !file.starts_with(&self.word[name..]) {
                continue;
            }
            let is_directory = path.path().is_dir();
            let is_named = |endings: &[&str]| {
                endings.is_empty() || endings.iter().any(|ending| file.ends_with(&format!(".{ending}")))
            };
            if is_directory || endings.is_some_and(is_named) {
                let end = if is_directory { "/" } else { "" };
                let _ = writeln!(self.text, "{}{file}{end}", &self.word[..name]);
            }
        }
    }
}

fn has_effect(flag: &dyn Entry) -> bool {
    matches!(flag.spec().effect, Effect::Full | Effect::OfDriver(_))
}

/// Returns true if a flag may be given without a value.
fn is_switch(entry: &dyn Entry) -> bool {
    entry.role() == Role::Query || entry.words() == ["true", "false"]
}

/// The completions of a flag's values.
fn values(entry: &dyn Entry) -> Values {
    let (spec, words, form) = (entry.spec(), entry.words(), entry.form());
    let is_path = ["PATH", "FILE"].iter().any(|it| form.contains(it)) || entry.has_files();
    match (words.is_empty(), spec.name) {
        (false, _) => Values::Words(words),
        (true, "directory" | "rehal_kernel_record_dir" | "to") => Values::Directories,
        (true, "device" | "other_device") => Values::Devices,
        (true, _) if is_path => Values::Files(spec.endings.to_vec()),
        (true, _) => Values::Any,
    }
}

/// The words that may be the first operand, and what completes the others.
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
