//! The script for fish.

use std::fmt::Write;

use super::{Command, Commands, Completion, Values, quoted};

/// Finds the verb of a command line, and files by their extensions.
const RUN: &str = r#"
# Prints the verb of the command line, and how many words precede its operands.
function __rehal_verb
    set -l words (commandline -opc)
    set -l name (string replace -r '.*/' '' -- $words[1])
    set -l at (contains -i -- $name $__rehal_twin_names)
    if test -n "$at"
        echo $__rehal_twin_verbs[$at]
    else if test (count $words) -ge 3; and contains -- "$words[2] $words[3]" $__rehal_verbs
        echo "$words[2] $words[3]"
    else if test (count $words) -ge 2; and contains -- "$words[2]" $__rehal_verbs
        echo $words[2]
    end
end

function __rehal_in
    contains -- (__rehal_verb) $argv
end

# Whether the words after the program's name are these.
function __rehal_after
    set -l words (commandline -opc)
    set -l name (string replace -r '.*/' '' -- $words[1])
    contains -- $name $__rehal_twin_names; and return 1
    test "$words[2..-1]" = "$argv"
end

function __rehal_files
    set -l token (commandline -ct | string replace -r '^--[^=]*=' '')
    for path in $token*
        if test -d $path
            echo $path/
        else
            for ending in $argv
                string match -q -- "*.$ending" $path; and echo $path
            end
        end
    end
end

"#;

pub(crate) fn fish(commands: &Commands) -> String {
    let mut text = format!("# Completions of rehal {} for fish.\n\n", env!("CARGO_PKG_VERSION"));
    let twins: Vec<_> = commands.twins().collect();
    let list = |words: &mut dyn Iterator<Item = &str>| words.map(quoted).collect::<Vec<_>>().join(" ");
    let verbs = list(&mut commands.commands.iter().map(|it| it.verb));
    let (names, of_names) = (list(&mut twins.iter().map(|it| it.0)), list(&mut twins.iter().map(|it| it.1)));
    let _ = writeln!(text, "set -g __rehal_verbs {verbs}");
    let _ = writeln!(text, "set -g __rehal_twin_names {names}\nset -g __rehal_twin_verbs {of_names}");
    text.push_str(RUN);
    let _ = writeln!(
        text,
        "for name in rehal $__rehal_twin_names\n    complete -c $name -e\n    complete -c $name -f\nend"
    );
    for (word, what) in commands.first_words() {
        for before in ["", "help"] {
            let _ = writeln!(text, "{}", word_line(before, word, what));
        }
    }
    for (one, two, what) in commands.second_words() {
        for before in [one.to_owned(), format!("help {one}")] {
            let _ = writeln!(text, "{}", word_line(&before, two, what));
        }
    }
    for command in &commands.commands {
        text.push_str(&operands(command));
    }
    for (index, group) in commands.groups.iter().enumerate() {
        let users: Vec<_> = commands.commands.iter().filter(|it| it.groups.contains(&index)).collect();
        let names: String = users.iter().filter_map(|it| it.twin).map(|twin| format!(" -c {twin}")).collect();
        let verbs: String = users.iter().map(|it| format!(" {}", word(it.verb))).collect();
        let condition = quoted(&format!("__rehal_in{verbs}"));
        for flag in group {
            let _ = writeln!(text, "complete -c rehal{names} -n {condition} {}", flag_options(flag));
        }
    }
    text
}

/// A word of a verb, after others.
fn word_line(before: &str, word: &str, what: &str) -> String {
    let condition = quoted(format!("__rehal_after {before}").trim_end());
    format!("complete -c rehal -n {condition} -a {} -d {}", quoted(word), quoted(what))
}

fn operands(command: &Command) -> String {
    let mut text = String::new();
    let twin = command.twin.map(|twin| format!(" -c {twin}")).unwrap_or_default();
    let condition = quoted(&format!("__rehal_in {}", word(command.verb)));
    if !command.words.is_empty() {
        let words = quoted(&command.words.join(" "));
        let _ = writeln!(text, "complete -c rehal{twin} -n {condition} -a {words}");
    }
    let _ = writeln!(text, "complete -c rehal{twin} -n {condition} {}", options(&command.operands));
    text
}

/// A word within a condition, which is in single quotes itself.
fn word(text: &str) -> String {
    if text.contains(' ') { format!("\"{text}\"") } else { text.to_owned() }
}

fn flag_options(flag: &Completion) -> String {
    let short = flag.short.map(|letter| format!(" -s {letter}")).unwrap_or_default();
    let takes = if flag.is_switch { "" } else { " -r" };
    let values = if flag.form.is_empty() { "-f".into() } else { options(&flag.values) };
    format!("-l {}{short}{takes} {values} -d {}", flag.name, quoted(&flag.summary))
}

fn options(values: &Values) -> String {
    match values {
        Values::Any => "-f".into(),
        Values::Words(words) => format!("-f -a {}", quoted(&words.join(" "))),
        Values::Files(endings) if endings.is_empty() => "-F".into(),
        Values::Files(endings) => {
            format!("-f -a {}", quoted(&format!("(__rehal_files {})", endings.join(" "))))
        }
        Values::Directories => {
            "-f -a '(__fish_complete_directories (commandline -ct | string replace -r \"^--[^=]*=\" \"\"))'"
                .into()
        }
    }
}
