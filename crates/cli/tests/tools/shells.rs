//! Completion in shells, and manual pages: each shell runs its script.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Scratch, fail, print, ran};
use rehal_cli::flags::{Effect, GENERAL};
use rehal_cli::tools::ALL;
use rehal_cli::{IREE_NAMES, Tool};

/// Files in the directory in which shells complete.
const FILES: [&str; 5] = ["a b.ireereplay", "m.vmfb", "p.irpa", "p.ireeprof", "x.txt"];

/// A directory with [`FILES`], a directory, and the scripts.
fn scene() -> Scratch {
    let scratch = Scratch::new();
    for name in FILES {
        scratch.file(name, "");
    }
    fs::create_dir(scratch.path("sub")).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        scratch.file(&format!("script.{shell}"), print(&["rehal", "completions", shell]));
    }
    scratch
}

/// The names of the flags that completion has.
fn flags(tool: &Tool) -> BTreeSet<&'static str> {
    let entries = tool.groups.iter().copied().chain([&GENERAL]).flat_map(|group| group.flags);
    let specs = entries.map(|entry| entry.spec());
    let works = |effect| matches!(effect, Effect::Full | Effect::OfDriver(_));
    specs.filter(|spec| works(spec.effect)).map(|spec| spec.name).collect()
}

/// What is shown for a command line, by word.
type Complete = fn(&Path, &str) -> Vec<String>;

fn shown(output: Output) -> Vec<String> {
    let ran = ran(output);
    assert_eq!((ran.status, &*ran.stderr), (Some(0), ""), "{ran:?}");
    ran.stdout.lines().map(ToOwned::to_owned).collect()
}

/// What bash replaces the last part of the line by, split at `=` as bash does.
fn bash(directory: &Path, line: &str) -> Vec<String> {
    const SCRIPT: &str = "source script.bash; read -ra given <<< \"$1\"; [[ $1 == *' ' ]] && given+=('')
        COMP_WORDS=(); for word in \"${given[@]}\"; do
            if [[ $word == *=* ]]; then
                COMP_WORDS+=(\"${word%%=*}\" =); rest=${word#*=}
                while [[ $rest == *=* ]]; do COMP_WORDS+=(\"${rest%%=*}\" =); rest=${rest#*=}; done
                [[ $rest ]] && COMP_WORDS+=(\"$rest\")
            else COMP_WORDS+=(\"$word\"); fi
        done
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _rehal; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", SCRIPT, "bash", line]).current_dir(directory);
    shown(bash.output().unwrap()).into_iter().filter(|it| !it.is_empty()).collect()
}

/// What fish shows, without descriptions. Values follow the name of their flag.
fn fish(directory: &Path, line: &str) -> Vec<String> {
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", "source script.fish; complete -C $argv[1]", line]);
    let lines = shown(fish.current_dir(directory).env("HOME", directory).output().unwrap());
    let word = |line: &String| {
        let word = line.split('\t').next().unwrap_or_default();
        word.rsplit_once('=').filter(|(_, value)| !value.is_empty()).map_or(word, |(_, it)| it).to_owned()
    };
    lines.iter().map(word).collect()
}

/// The same in each shell that completes here; flags may end in `=`.
fn assert_completes(complete: Complete, directory: &Path, line: &str, expected: &[&str]) {
    let found: BTreeSet<String> =
        complete(directory, line).iter().map(|it| it.trim_end_matches(['=', '/']).to_owned()).collect();
    let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(found, expected, "{line:?}");
}

/// Command lines, and what completes them.
const LINES: [(&str, &[&str]); 16] = [
    ("rehal ru", &["run", "run-module"]),
    ("rehal kernel st", &["stub"]),
    ("rehal help kernel r", &["record", "replay"]),
    ("rehal completions ", &["bash", "zsh", "fish"]),
    ("rehal run --replay_ord", &["--replay_order"]),
    ("rehal run --replay_file_writes=", &["copy", "in-place", "fail"]),
    ("rehal run --device=local-sync --replay_file_writes=c", &["copy"]),
    ("iree-run-replay --replay_file_writes=", &["copy", "in-place", "fail"]),
    ("iree-dump-replay --format=j", &["jsonl"]),
    ("rehal run ", &["a b.ireereplay", "sub"]),
    ("rehal run-module --module=", &["m.vmfb", "sub"]),
    ("iree-run-module --parameters=p", &["p.irpa"]),
    ("rehal profile report p", &["p.ireeprof"]),
    ("rehal tools --install ", &["sub"]),
    ("rehal man --to=", &["sub"]),
    ("rehal run --no_such=", &[]),
];

#[test]
fn bash_completes_command_lines() {
    let scene = scene();
    for (line, expected) in LINES {
        assert_completes(bash, &scene.path(""), line, expected);
    }
    // A value may name its file behind a key; `=` separates words there, too.
    assert_completes(bash, &scene.path(""), "rehal run-module --parameters=key=p", &["p.irpa"]);
    let verbs = bash(&scene.path(""), "rehal profile ");
    assert!(
        ["report", "timeline", "explain", "p.ireeprof"].iter().all(|it| verbs.contains(&(*it).into())),
        "{verbs:?}"
    );
}

#[test]
fn fish_completes_command_lines() {
    let scene = scene();
    for (line, expected) in LINES {
        assert_completes(fish, &scene.path(""), line, expected);
    }
}

#[test]
fn bash_completes_every_verb_and_flag() {
    let scene = scene();
    for tool in ALL {
        let lines = [format!("rehal {} --", tool.verb), format!("{} --", tool.name)];
        for line in &lines[..if IREE_NAMES.contains(&tool.name) { 2 } else { 1 }] {
            let found = bash(&scene.path(""), line);
            let found = found.iter().map(|it| it.trim_start_matches('-').trim_end_matches('='));
            assert_eq!(found.collect::<BTreeSet<_>>(), flags(tool), "{line}");
        }
    }
}

#[test]
fn fish_completes_every_verb_and_flag() {
    let scene = scene();
    for tool in ALL {
        let found = fish(&scene.path(""), &format!("rehal {} --", tool.verb));
        let found = found.iter().map(|it| it.trim_start_matches('-').trim_end_matches('='));
        assert_eq!(found.collect::<BTreeSet<_>>(), flags(tool), "{}", tool.verb);
    }
}

/// What zsh shows on its terminal, where alone it completes, for each command line.
fn zsh(directory: &Path, lines: &[&str]) -> Vec<String> {
    // Whatever a line does, the next prompt comes after it, so that nothing waits forever.
    const SCRIPT: &str = "zmodload zsh/zpty; zpty shell 'TERM=xterm zsh -f -i'
        zpty -w shell 'fpath+=$PWD/functions; autoload -U compinit; compinit -uD; unsetopt list_ambiguous'
        zpty -w shell \"PS1='RE''ADY '\"
        zpty -r shell shown '*READY *'
        for line; do
            zpty -n -w shell $line$'\\t'; zpty -w shell $'\\x15'\"print E''ND\"
            zpty -r shell shown $'*END*READY '; print -r -- ${${shown%%print*}//[$'\\r\\n']/ }
        done";
    fs::create_dir(directory.join("functions")).unwrap();
    fs::copy(directory.join("script.zsh"), directory.join("functions/_rehal")).unwrap();
    let mut zsh = Command::new("zsh");
    shown(zsh.args(["-f", "-c", SCRIPT, "zsh"]).args(lines).current_dir(directory).output().unwrap())
}

#[test]
fn zsh_completes_command_lines() {
    let scene = scene();
    let screens = zsh(&scene.path(""), &LINES.map(|(line, _)| line));
    assert_eq!(screens.len(), LINES.len());
    for ((line, expected), screen) in LINES.iter().zip(screens) {
        let screen = screen.replace('\\', "");
        let is_shown = |word: &&str| screen.contains(word);
        assert!(expected.iter().all(is_shown) && !screen.contains("x.txt"), "{line:?}: {screen:?}");
    }
}

/// The script passes what it knows to `_arguments`.
#[test]
fn zsh_has_every_verb_and_flag() {
    const SCRIPT: &str =
        "compdef() { :; }; _describe() { print -rl -- ${(P)4} }; _arguments() { print -rl -- $@[3,-1] }
        source ./script.zsh; service=$1; words=($@); CURRENT=$#; _rehal";
    let scene = scene();
    let zsh = |words: &[&str]| {
        let mut zsh = Command::new("zsh");
        shown(zsh.args(["-f", "-c", SCRIPT, "zsh"]).args(words).current_dir(scene.path("")).output().unwrap())
    };
    for tool in ALL {
        let verb: Vec<_> = tool.verb.split(' ').collect();
        let specs = zsh(&[&["rehal"], &verb[..], &["--"]].concat());
        let named = specs.iter().filter_map(|it| it.trim_start_matches('*').strip_prefix("--"));
        let names: BTreeSet<_> = named.map(|it| it.split(['=', '[']).next().unwrap()).collect();
        assert_eq!(names, flags(tool), "{}", tool.verb);
        if IREE_NAMES.contains(&tool.name) {
            // The verb may be followed by others.
            assert!(specs.ends_with(&zsh(&[tool.name, "--"])), "{}", tool.name);
        }
    }
    let specs = zsh(&["rehal", "run", "--"]);
    let file = "*:operand:_files -g \"*.(ireereplay)(-.)\"";
    let word =
        |it: &String| it.starts_with("--replay_file_writes=-[") && it.ends_with(":(copy in-place fail)");
    assert!(specs.iter().any(|it| it == file) && specs.iter().any(word), "{specs:#?}");
    let first = zsh(&["rehal", "r"]);
    assert!(first.iter().any(|it| it.starts_with("run:replays")), "{first:?}");
    let second = zsh(&["rehal", "kernel", "s"]);
    assert!(second.iter().any(|it| it.starts_with("stub:")), "{second:?}");
}

#[test]
fn manual_pages_have_every_verb_and_flag() {
    let scratch = Scratch::new();
    // It is created.
    let directory = scratch.path("share/man1");
    assert_eq!(print(&["rehal", "man", &format!("--to={}", directory.display())]), "");
    let page = |name: &str| fs::read_to_string(directory.join(name)).unwrap().replace("\\-", "-");
    let main = page("rehal.1");
    for tool in ALL {
        let name = format!("rehal-{}", tool.verb.replace(' ', "-"));
        assert!(main.contains(&format!(".BR {name} (1)")), "{name} in {main}");
        let text = page(&format!("{name}.1"));
        for entry in tool.groups.iter().copied().chain([&GENERAL]).flat_map(|group| group.flags) {
            assert!(
                text.contains(&format!("\\fB--{}\\fR", entry.spec().name)),
                "{name} has no {}",
                entry.spec().name
            );
        }
        if IREE_NAMES.contains(&tool.name) {
            assert!(
                main.contains(tool.name) && text.contains(&format!("{name}, {} - ", tool.name)),
                "{text}"
            );
        }
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), ALL.len() + 1);
    let pages = || fs::read_dir(&directory).unwrap().map(|it| it.unwrap().path());
    let mut groff = Command::new("groff");
    let ran_groff = ran(groff.args(["-ww", "-man", "-Tutf8", "-z"]).args(pages()).output().unwrap());
    assert_eq!((ran_groff.status, &*ran_groff.stderr), (Some(0), ""));
    let mut mandoc = Command::new("mandoc");
    let linted = ran(mandoc.args(["-T", "lint", "-W", "warning"]).args(pages()).output().unwrap());
    // Pages of one version are the same on any day.
    let found: Vec<_> = linted.stdout.lines().filter(|line| !line.contains("missing date")).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn completions_and_pages_name_what_is_wrong() {
    for (words, message) in [
        (&["completions"][..], "rehal completions needs a shell (expected bash, zsh or fish)"),
        (&["completions", "tcsh"], "'tcsh' is not a shell (expected bash, zsh or fish)"),
        (&["completions", "bash", "zsh"], "rehal completions takes one shell"),
        (&["man"], "--to is missing"),
        (&["man", "--to=/dev/null/man"], "creating directory '/dev/null/man'"),
        (&["man", "x"], "takes only flags"),
    ] {
        let stderr = fail(&[&["rehal"], words].concat());
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
}
