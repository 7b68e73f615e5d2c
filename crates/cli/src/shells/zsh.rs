//! The script for zsh.

use std::fmt::Write;

use super::{Command, Commands, Completion, Values, quoted};

/// Finds the verb, then lets `_arguments` complete its flags and operands.
const RUN: &str = r#"
_rehal() {
    local verb=${_rehal_twins[$service]} used=0
    local -a specs
    if [[ -z $verb ]]; then
        if (( CURRENT == 2 )); then
            _describe -t verbs verb _rehal_first
            return
        elif [[ $words[2] == help ]]; then
            if (( CURRENT == 3 )); then
                _describe -t verbs verb _rehal_first
            elif (( CURRENT == 4 )); then
                _rehal_second $words[3]
            fi
            return
        elif (( CURRENT > 3 )) && [[ -n ${_rehal_verbs[(re)$words[2] $words[3]]} ]]; then
            verb="$words[2] $words[3]" used=2
        else
            verb=$words[2] used=1
            (( CURRENT == 3 )) && _rehal_second $verb
        fi
        shift $used words
        (( CURRENT -= used ))
    fi
    if _rehal_specs $verb; then
        _arguments -S : $specs
    fi
}
"#;

pub(crate) fn zsh(commands: &Commands) -> String {
    let twins: Vec<_> = commands.twins().collect();
    let names: Vec<_> = twins.iter().map(|(name, _)| *name).collect();
    let mut text = format!("#compdef rehal {}\n", names.join(" "));
    let _ = writeln!(text, "# Completions of rehal {} for zsh.\n", env!("CARGO_PKG_VERSION"));
    text.push_str("typeset -gA _rehal_twins=(\n");
    text.extend(twins.iter().map(|(name, verb)| format!("    {name} {}\n", quoted(verb))));
    text.push_str(")\ntypeset -ga _rehal_verbs=(\n");
    text.extend(commands.commands.iter().map(|it| format!("    {}\n", quoted(it.verb))));
    text.push_str(")\ntypeset -ga _rehal_first=(\n");
    text.extend(commands.first_words().iter().map(|(word, what)| format!("    {}\n", described(word, what))));
    text.push_str(")\n\n_rehal_second() {\n    local -a verbs\n    case $1 in\n");
    for (word, _) in commands.first_words() {
        let seconds: Vec<_> = commands.second_words().filter(|(one, ..)| *one == word).collect();
        if !seconds.is_empty() {
            let verbs: Vec<_> = seconds.iter().map(|(_, two, what)| described(two, what)).collect();
            let _ = writeln!(text, "    {word}) verbs=({}) ;;", verbs.join(" "));
        }
    }
    text.push_str("    *) return 1 ;;\n    esac\n    _describe -t verbs verb verbs\n}\n\n");
    for (index, group) in commands.groups.iter().enumerate() {
        let _ = writeln!(text, "typeset -ga _rehal_group_{index}=(");
        text.extend(group.iter().flat_map(flag_specs).map(|spec| format!("    {}\n", quoted(&spec))));
        text.push_str(")\n");
    }
    text.push_str("\n_rehal_specs() {\n    case $1 in\n");
    commands.commands.iter().for_each(|command| text.push_str(&arm(command)));
    text.push_str("    *) return 1 ;;\n    esac\n}\n");
    text.push_str(RUN);
    // Called as a function of the completion system, or read as a file of a user's own.
    text.push_str(
        "\nif [[ $funcstack[1] == _rehal ]]; then\n    _rehal \"$@\"\nelse\n    compdef _rehal rehal ",
    );
    let _ = writeln!(text, "{}\nfi", names.join(" "));
    text
}

/// A word of `_describe`.
fn described(word: &str, what: &str) -> String {
    quoted(&format!("{word}:{what}"))
}

fn arm(command: &Command) -> String {
    let groups: Vec<_> = command.groups.iter().map(|index| format!("$_rehal_group_{index}")).collect();
    let mut specs = String::new();
    if !command.words.is_empty() {
        let _ = write!(specs, " {}", quoted(&format!("1:word:({})", command.words.join(" "))));
    }
    if let Some(action) = action(&command.operands) {
        let _ = write!(specs, " {}", quoted(&format!("*:operand:{action}")));
    }
    format!("    {}) specs=({}{specs}) ;;\n", quoted(command.verb), groups.join(" "))
}

/// What completes a value; `None` for any text.
fn action(values: &Values) -> Option<String> {
    Some(match values {
        Values::Any => return None,
        Values::Words(words) => format!("({})", words.join(" ")),
        Values::Files(endings) if endings.is_empty() => "_files".into(),
        Values::Files(endings) => format!("_files -g \"*.({})(-.)\"", endings.join("|")),
        Values::Directories => "_files -/".into(),
    })
}

/// A flag as `_arguments` takes it, and its short form.
fn flag_specs(flag: &Completion) -> Vec<String> {
    let summary = flag.summary.replace('\\', r"\\").replace('[', r"\[").replace(']', r"\]");
    let star = if flag.repeats { "*" } else { "" };
    let action = action(&flag.values).unwrap_or_default();
    let form = flag.form.replace('\\', r"\\").replace(':', r"\:");
    let value = match (form.is_empty(), flag.is_switch) {
        (true, _) => format!("[{summary}]"),
        // An optional value, in the same word.
        (false, true) => format!("=-[{summary}]::{form}:{action}"),
        (false, false) => format!("=-[{summary}]:{form}:{action}"),
    };
    let mut specs = vec![format!("{star}--{}{value}", flag.name)];
    specs.extend(flag.short.map(|letter| format!("-{letter}+[{summary}]:{form}:{action}")));
    specs
}
