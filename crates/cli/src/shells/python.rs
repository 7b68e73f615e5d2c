//! The options of the Python package, from the tables of flags: its files `_flags.py` and `_flags.pyi` are
//! what the functions here write, which their test compares.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use super::{Values, first_sentence, has_effect, is_switch, values};
use crate::flags::{Entry, GENERAL, Group, Role};
use crate::tools::ALL;

/// The verbs that are functions of the package, and the flags that these set themselves.
const VERBS: [(&str, &[&str]); 17] = [
    ("benchmark", &["recover"]),
    ("compare", &["recover", "function", "with"]),
    ("diff", &[]),
    ("dump", &["recover"]),
    ("executables", &[]),
    ("info", &["recover"]),
    ("kernels", &["recover"]),
    ("profile", &[]),
    ("races", &["recover"]),
    ("redact", &["recover", "output"]),
    ("reduce", &["recover", "check", "output"]),
    ("run", &["recover", "replay_order"]),
    ("run-module", &["module", "function", "input", "output", "expected_output", "parameters"]),
    ("slice", &["recover", "output"]),
    ("substitute", &["executable", "output"]),
    ("tune", &["function", "space"]),
    ("verify", &["recover"]),
];

/// Flags that no function of the package takes.
const NONE: [&str; 5] = ["device", "format", "benchmark_format", "flagfile", "agents_md"];

/// Words that Python has for itself: an argument has an underscore after them.
const KEYWORDS: [&str; 3] = ["with", "from", "in"];

const HEAD: &str = "\"\"\"The options of verbs, by the flags of the tool. A test of `rehal-cli` writes them:\n\
                    REHAL_WRITE=1 cargo nextest run -p rehal-cli options_of_python\n\"\"\"\n\n\
                    from __future__ import annotations\n";

/// A flag.
#[derive(PartialEq)]
struct Completion {
    name: &'static str,
    summary: String,
    repeats: bool,
    is_switch: bool,
    /// The placeholder of a value; empty if it takes none.
    form: String,
    values: Values,
}

impl Completion {
    fn new(entry: &dyn Entry) -> Self {
        Self {
            name: entry.spec().name,
            summary: first_sentence(entry.spec().help),
            repeats: entry.role() == Role::List,
            is_switch: is_switch(entry),
            form: entry.form(),
            values: values(entry),
        }
    }
}

/// The two files.
fn files() -> [String; 2] {
    // Most groups belong to several tools.
    let mut all: Vec<Vec<Completion>> = Vec::new();
    let mut group_of = |group: &Group| {
        let flags = group.flags.iter().filter(|it| has_effect(**it)).map(|it| Completion::new(*it));
        let flags: Vec<_> = flags.collect();
        all.iter().position(|known| *known == flags).unwrap_or_else(|| {
            all.push(flags);
            all.len() - 1
        })
    };
    let tools = ALL.iter().map(|tool| (tool.verb, tool.groups.iter().chain([&&GENERAL])));
    let tools: Vec<_> =
        tools.map(|(verb, groups)| (verb, groups.map(|it| group_of(it)).collect::<Vec<_>>())).collect();
    let (mut names, mut groups, mut verbs) = (HashMap::new(), Vec::new(), Vec::new());
    for (verb, own) in VERBS {
        let (_, its) = tools.iter().find(|(it, _)| *it == verb).expect("a verb");
        let mut parts = Vec::new();
        for &group in its {
            let flags: Vec<_> = all[group].iter().filter(|it| is_option(it, own)).collect();
            if flags.is_empty() {
                continue;
            }
            // The same group may lack other flags.
            let key: Vec<_> =
                flags.iter().map(|it| it.name).chain([group.to_string().leak() as &str]).collect();
            let next = names.len();
            let name = *names.entry(key).or_insert_with(|| {
                groups.push((next, flags));
                next
            });
            parts.push(name);
        }
        verbs.push((verb, parts));
    }
    let mut table = format!(
        "{HEAD}\n#: The type of each option, and the first sentence of its help.\nOptions = dict[str, tuple[str, str]]\n"
    );
    let mut types = format!(
        "{HEAD}\nfrom collections.abc import Sequence\nfrom os import PathLike\nfrom typing import Literal, SupportsFloat, \
         SupportsIndex, TypedDict, Union\n\n_Path = Union[str, PathLike[str]]\n_Integer = SupportsIndex\n\
         _Text = Union[str, SupportsFloat, SupportsIndex]\n\nVERBS: dict[str, dict[str, tuple[str, str]]]\n"
    );
    for (name, flags) in &groups {
        let _ = write!(table, "\n_G{name}: Options = {{\n");
        let _ = write!(types, "\nclass _G{name}(TypedDict, total=False):\n");
        for flag in flags {
            let argument = argument(flag.name);
            let kind = kind(flag);
            let _ = writeln!(
                table,
                "    \"{argument}\": (\n        {},\n{}\n    ),",
                quoted(&kind),
                wrapped(&flag.summary)
            );
            let _ = writeln!(types, "    {argument}: {kind} | None");
        }
        table.push_str("}\n");
    }
    table.push_str("\n#: Those of each verb.\nVERBS: dict[str, Options] = {\n");
    for (verb, parts) in &verbs {
        let all: Vec<_> = parts.iter().map(|it| format!("**_G{it}")).collect();
        let lines: Vec<_> = all.chunks(10).map(|it| it.join(", ")).collect();
        let _ = writeln!(table, "    \"{verb}\": {{{}}},", lines.join(",\n        "));
        let bases: Vec<_> = parts.iter().map(|it| format!("_G{it}")).collect();
        let base = if bases.is_empty() { "TypedDict".into() } else { bases.join(", ") };
        let _ = write!(types, "\nclass {}(\n    {base},\n    total=False,\n): ...\n", class(verb));
    }
    table.push_str("}\n");
    [table, types]
}

fn is_option(flag: &Completion, own: &[&str]) -> bool {
    let is_query = flag.is_switch && flag.form != "true|false";
    !is_query && !NONE.contains(&flag.name) && !own.contains(&flag.name)
}

fn argument(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("{name}_") } else { name.into() }
}

/// The class of the options of a verb, such as `RunModule`.
fn class(verb: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    verb.split('-').map(capital).collect()
}

/// The type of an option.
fn kind(flag: &Completion) -> String {
    let one = match &flag.values {
        Values::Words(words) => {
            let is_boolean = words.contains(&"true");
            let others = words.iter().filter(|word| !is_boolean || !["true", "false"].contains(word));
            let literals: Vec<_> = others.map(|word| format!("\"{word}\"")).collect();
            let mut kinds = Vec::new();
            if is_boolean {
                kinds.push("bool".to_owned());
            }
            if !literals.is_empty() {
                kinds.push(format!("Literal[{}]", literals.join(", ")));
            }
            kinds.join(" | ")
        }
        Values::Files(_) | Values::Directories => "_Path".into(),
        Values::Any if flag.form == "INTEGER" => "_Integer".into(),
        Values::Any | Values::Devices => "_Text".into(),
    };
    if flag.repeats { format!("{one} | Sequence[{one}]") } else { one }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// A text in lines that are short enough, as one literal.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 90;
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        if lines.last().is_some_and(|line| !line.is_empty() && line.len() + word.len() > COLUMNS) {
            lines.push(String::new());
        }
        lines.last_mut().expect("a line").push_str(word);
    }
    let lines: Vec<_> = lines.iter().map(|line| format!("        {}", quoted(line))).collect();
    lines.join("\n") + ","
}

#[test]
fn options_of_python_are_the_flags() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/python/rehal");
    for (name, text) in ["_flags.py", "_flags.pyi"].into_iter().zip(files()) {
        let path = package.join(name);
        if std::env::var_os("REHAL_WRITE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "{} lacks changes of flags: its first lines say how they are written",
            path.display()
        );
    }
}
