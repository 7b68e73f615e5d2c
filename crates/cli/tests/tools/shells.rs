//! Completion in shells, and manual pages: each shell runs its script.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rehal_cli::flags::{Effect, GENERAL};
use rehal_cli::tools::ALL;
use rehal_cli::{IREE_NAMES, Tool};

use crate::common::{Scratch, command, fail, print, ran};

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

/// The words that are shown for a command line.
type Complete = fn(&Path, &str) -> Vec<String>;

fn shown(output: Output) -> Vec<String> {
    let ran = ran(output);
    assert_eq!((ran.status, &*ran.stderr), (Some(0), ""), "{ran:?}");
    ran.stdout.lines().map(ToOwned::to_owned).collect()
}

/// A shell in a directory that finds the program by its name.
fn shell(name: &str, directory: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_rehal")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new(name);
    shell.current_dir(directory).env("PATH", path).env("HOME", directory);
    shell
}

/// The program's completions of a command line, without descriptions.
fn said(directory: &Path, line: &str) -> Vec<String> {
    let words: Vec<_> = line.split(' ').collect();
    let mut rehal = command("rehal");
    let lines = shown(
        rehal.arg("__complete").args(words).current_dir(directory).env("HOME", directory).output().unwrap(),
    );
    lines.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

/// The replacements of bash for the last part of the line, split at `=` as bash does.
fn bash(directory: &Path, line: &str) -> Vec<String> {
    const SCRIPT: &str = "source script.bash; read -ra given <<< \"$1\"; [[ $1 == *' ' ]] && given+=('')
        COMP_WORDS=(); for word in \"${given[@]}\"; do
            if [[ $word == *=* ]]; then
                COMP_WORDS+=(\"${word%%=*}\" =); rest=${word#*=}
                while [[ $rest == *=* ]]; do COMP_WORDS+=(\"${rest%%=*}\" =); rest=${rest#*=}; done
                [[ $rest ]] && COMP_WORDS+=(\"$rest\")
            else COMP_WORDS+=(\"$word\"); fi
        done
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$1 COMP_POINT=${#1}
        _rehal \"${COMP_WORDS[0]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = shell("bash", directory);
    bash.args(["--norc", "-c", SCRIPT, "bash", line]);
    shown(bash.output().unwrap()).into_iter().filter(|it| !it.is_empty()).collect()
}

/// The completions that fish shows, without descriptions. Values follow the name of their flag.
fn fish(directory: &Path, line: &str) -> Vec<String> {
    let mut fish = shell("fish", directory);
    fish.args(["--no-config", "-c", "source script.fish; complete -C $argv[1]", line]);
    let word = |line: &String| {
        let word = line.split('\t').next().unwrap_or_default();
        word.rsplit_once('=').filter(|(_, value)| !value.is_empty()).map_or(word, |(_, it)| it).to_owned()
    };
    shown(fish.output().unwrap()).iter().map(word).collect()
}

/// The same in each shell that completes here; flags may end in `=`.
fn assert_completes(complete: Complete, directory: &Path, line: &str, expected: &[&str]) {
    let found: BTreeSet<String> =
        complete(directory, line).iter().map(|it| it.trim_end_matches(['=', '/']).to_owned()).collect();
    let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(found, expected, "{line:?}");
}

/// Command lines, and what completes them.
const LINES: [(&str, &[&str]); 20] = [
    ("rehal ru", &["run", "run-module"]),
    ("rehal kernel st", &["stub"]),
    ("rehal help kernel r", &["record", "replay"]),
    ("rehal completions ", &["bash", "zsh", "fish"]),
    ("rehal run --replay_ord", &["--replay_order"]),
    ("rehal run --replay_file_writes=", &["copy", "in-place", "fail"]),
    ("rehal run --device=local-sync --replay_file_writes=c", &["copy"]),
    ("rehal run --replay-file-writes=c", &["copy"]),
    ("rehal run --device=local-", &["local-sync", "local-task"]),
    ("rehal run --device=local-sync:", &[]),
    ("iree-run-replay --replay_file_writes=", &["copy", "in-place", "fail"]),
    ("iree-dump-replay --format=j", &["jsonl"]),
    ("rehal run ", &["a b.ireereplay", "sub"]),
    ("rehal run-module --module=", &["m.vmfb", "sub"]),
    ("iree-run-module --parameters=p", &["p.irpa"]),
    ("rehal profile report p", &["p.ireeprof"]),
    ("rehal profile report -o p", &["p.irpa", "p.ireeprof"]),
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
    assert_completes(fish, &scene.path(""), r"rehal run a\ ", &["a b.ireereplay"]);
}

#[test]
fn every_verb_and_flag_is_completed() {
    let scene = scene();
    for tool in ALL {
        let lines = [format!("rehal {} --", tool.verb), format!("/usr/bin/{} --", tool.name)];
        for line in &lines[..if IREE_NAMES.contains(&tool.name) { 2 } else { 1 }] {
            let found = said(&scene.path(""), line);
            let found = found.iter().map(|it| it.trim_start_matches('-').trim_end_matches('='));
            assert_eq!(found.collect::<BTreeSet<_>>(), flags(tool), "{line}");
        }
        let (before, last) = tool.verb.rsplit_once(' ').unwrap_or(("", tool.verb));
        let found = said(&scene.path(""), &format!("rehal {before} {last}").replace("  ", " "));
        assert!(found.contains(&last.to_owned()), "{}: {found:?}", tool.verb);
    }
}

#[test]
fn candidates_have_descriptions_and_paths_none() {
    let scene = scene();
    let lines = |line: &[&str]| {
        shown(command("rehal").arg("__complete").args(line).current_dir(scene.path("")).output().unwrap())
    };
    assert_eq!(lines(&["rehal", "run", ""]), ["a b.ireereplay", "sub/"]);
    assert_eq!(lines(&["rehal", "run", "sub/../a"]), ["sub/../a b.ireereplay"]);
    let devices = lines(&["rehal", "run", "--device=local-sync://"]);
    assert!(matches!(&devices[..], [one] if one.starts_with("--device=local-sync://\t")), "{devices:?}");
    assert_eq!(lines(&["rehal", "kernel", "st"]).len(), 1);
    assert!(lines(&["rehal", "kernel", "st"])[0].starts_with("stub\t"));
    assert_eq!(lines(&["rehal", "versio"]), ["version\tprints the version"]);
    assert_eq!(lines(&[]), [""; 0]);
}

/// The completions that zsh shows on its terminal, where alone it completes, for each command line.
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
    let mut zsh = shell("zsh", directory);
    shown(zsh.args(["-f", "-c", SCRIPT, "zsh"]).args(lines).output().unwrap())
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
