//! The script for bash.

use std::fmt::Write;

use super::{Command, Commands, Values, quoted, quoted_list};

/// Completes a word, given what the functions of [`bash`] say about verbs and flags.
///
/// Bash splits the command line at `=` and `:`, so words are joined first; what it replaces is only the last
/// part of the word.
const RUN: &str = r#"
_rehal() {
    local values= words=() word verb= first=1 joins= piece=${COMP_WORDS[COMP_CWORD]}
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 1 && ( $word == [=:]* || ( $joins && $word != --* ) ) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        [[ $word == *[=:] ]] && joins=1 || joins=
    done
    [[ $piece == [=:] ]] && piece=
    local current=${words[-1]} name=${words[0]##*/} count=$((${#words[@]} - 1))
    local groups= operands= kind= endings= found=() prefix= flag value
    COMPREPLY=()
    if _rehal_command "$name"; then
        verb=$name
    elif [[ $count -gt 2 ]] && _rehal_command "${words[1]} ${words[2]}"; then
        verb="${words[1]} ${words[2]}" first=3
    elif [[ $count -gt 1 ]] && _rehal_command "${words[1]}"; then
        verb=${words[1]} first=2
    fi
    if [[ $current == --*=* ]]; then
        flag=${current%%=*} value=${current#*=} prefix=$flag=
        kind= endings=
        for word in $groups; do
            _rehal_values "$word:${flag//-/_}" && break
        done
        operands=$values
    elif [[ $current == -* ]]; then
        kind= operands=
        for word in $groups; do
            operands+=" ${_rehal_flags[word]}"
        done
        value=$current
    else
        value=$current
        [[ $count -eq 1 && -z $verb ]] && operands="$_rehal_first"
        [[ $count -eq 2 || ( $count -eq 3 && ${words[1]} == help ) ]] && operands+=" $(_rehal_second "${words[count - 1]}")"
        [[ $count -eq 2 && ${words[1]} == help ]] && operands=$_rehal_first
    fi
    mapfile -t found < <(compgen -W "$operands" -- "$value")
    case $kind in
    files)
        # A value may name its file behind a key.
        [[ $flag ]] && { prefix=${current%"${value##*=}"} value=${value##*=}; }
        compopt -o filenames 2> /dev/null
        while IFS= read -r word; do
            if [[ -z $endings || -d $word ]]; then
                found+=("$word")
            else
                for joins in $endings; do
                    [[ $word == *."$joins" ]] && found+=("$word")
                done
            fi
        done < <(compgen -f -- "$value")
        ;;
    directories)
        compopt -o filenames 2> /dev/null
        while IFS= read -r word; do found+=("$word"); done < <(compgen -d -- "$value")
        ;;
    esac
    # What bash replaces is the last part of the word.
    local kept=${current%"$piece"}
    for word in "${found[@]}"; do
        word=$prefix$word
        COMPREPLY+=("${word#"$kept"}")
    done
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
"#;

pub(crate) fn bash(commands: &Commands) -> String {
    let mut text = format!("# Completions of rehal {} for bash.\n\n", env!("CARGO_PKG_VERSION"));
    let first = commands.first_words();
    let _ = writeln!(text, "_rehal_first={}", quoted_list(first.iter().map(|(word, _)| *word)));
    text.push_str("_rehal_second() {\n    case $1 in\n");
    for (word, _) in first {
        let seconds: Vec<_> =
            commands.second_words().filter(|(one, ..)| *one == word).map(|(_, two, _)| two).collect();
        if !seconds.is_empty() {
            let _ = writeln!(text, "    {word}) echo {} ;;", quoted_list(seconds));
        }
    }
    text.push_str("    esac\n}\n\n# Sets the groups of flags of a verb, and what completes its operands.\n");
    text.push_str("_rehal_command() {\n    operands= kind= endings=\n    case $1 in\n");
    for command in &commands.commands {
        text.push_str(&arm(command));
    }
    text.push_str("    *) return 1 ;;\n    esac\n}\n\n_rehal_flags=(\n");
    for group in &commands.groups {
        let flags: Vec<_> = group
            .iter()
            .map(|it| format!("--{}{}", it.name, if it.is_switch { "" } else { "=" }))
            .chain(group.iter().filter_map(|it| it.short.map(|letter| format!("-{letter}"))))
            .collect();
        let _ = writeln!(text, "    {}", quoted_list(flags.iter().map(String::as_str)));
    }
    text.push_str(")\n\n# Sets what completes the values of a flag, named by its group.\n");
    text.push_str("_rehal_values() {\n    values=\n    case $1 in\n");
    for (index, group) in commands.groups.iter().enumerate() {
        for flag in group.iter().filter(|flag| flag.values != Values::Any) {
            let _ = writeln!(text, "    {index}:__{}) {} ;;", flag.name, set("values", &flag.values));
        }
    }
    text.push_str("    *) return 1 ;;\n    esac\n}\n");
    text.push_str(RUN);
    let twins: Vec<_> = commands.twins().map(|(name, _)| name).collect();
    let _ = writeln!(text, "\ncomplete -F _rehal rehal {}", twins.join(" "));
    text
}

/// The assignments of a verb.
fn arm(command: &Command) -> String {
    let twin = command.twin.map(|name| format!(" | {name}")).unwrap_or_default();
    let groups: Vec<_> = command.groups.iter().map(usize::to_string).collect();
    let groups = quoted_list(groups.iter().map(String::as_str));
    let mut set = set("operands", &command.operands);
    if !command.words.is_empty() {
        let _ = write!(set, " operands={}", quoted_list(command.words.iter().copied()));
    }
    format!("    {}{twin}) groups={groups} {set} ;;\n", quoted(command.verb))
}

fn set(variable: &str, values: &Values) -> String {
    match values {
        Values::Any => String::new(),
        Values::Words(words) => format!("{variable}={}", quoted_list(words.iter().copied())),
        Values::Files(endings) => format!("kind=files endings={}", quoted_list(endings.iter().copied())),
        Values::Directories => "kind=directories".into(),
    }
}
