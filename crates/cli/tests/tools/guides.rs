//! The guides for agents: each tool prints its own, and guides name only flags that exist.

use std::collections::BTreeSet;

use crate::common::print;

/// The command lines of the tools, and their guides.
const GUIDES: [(&[&str], &str); 36] = [
    (&["iree-benchmark-executable"], include_str!("../../src/guides/benchmark_executable.md")),
    (&["iree-benchmark-module"], include_str!("../../src/guides/benchmark_module.md")),
    (&["iree-benchmark-replay"], include_str!("../../src/guides/benchmark_replay.md")),
    (&["iree-check-module"], include_str!("../../src/guides/check_module.md")),
    (&["iree-convert-parameters"], include_str!("../../src/guides/convert_parameters.md")),
    (&["iree-create-parameters"], include_str!("../../src/guides/create_parameters.md")),
    (&["iree-dump-module"], include_str!("../../src/guides/dump_module.md")),
    (&["iree-dump-parameters"], include_str!("../../src/guides/dump_parameters.md")),
    (&["iree-dump-replay"], include_str!("../../src/guides/dump_replay.md")),
    (&["rehal", "executables"], include_str!("../../src/guides/executables.md")),
    (&["rehal", "substitute"], include_str!("../../src/guides/substitute.md")),
    (&["rehal", "info"], include_str!("../../src/guides/info.md")),
    (&["rehal", "profile", "report"], include_str!("../../src/guides/profile_report.md")),
    (&["rehal", "profile", "timeline"], include_str!("../../src/guides/profile_timeline.md")),
    (&["rehal", "profile", "compare"], include_str!("../../src/guides/profile_compare.md")),
    (&["rehal", "compare"], include_str!("../../src/guides/compare.md")),
    (&["rehal", "compile"], include_str!("../../src/guides/compile.md")),
    (&["rehal", "completions"], include_str!("../../src/guides/completions.md")),
    (&["rehal", "man"], include_str!("../../src/guides/man.md")),
    (&["rehal", "diff"], include_str!("../../src/guides/diff.md")),
    (&["rehal", "kernel", "build"], include_str!("../../src/guides/kernel_build.md")),
    (&["rehal", "kernel", "disassemble"], include_str!("../../src/guides/kernel_disassemble.md")),
    (&["rehal", "kernel", "record"], include_str!("../../src/guides/kernel_record.md")),
    (&["rehal", "kernel", "replay"], include_str!("../../src/guides/kernel_replay.md")),
    (&["rehal", "kernel", "stub"], include_str!("../../src/guides/kernel_stub.md")),
    (&["rehal", "kernels"], include_str!("../../src/guides/kernels.md")),
    (&["rehal", "machine"], include_str!("../../src/guides/machine.md")),
    (&["rehal", "races"], include_str!("../../src/guides/races.md")),
    (&["rehal", "redact"], include_str!("../../src/guides/redact.md")),
    (&["rehal", "reduce"], include_str!("../../src/guides/reduce.md")),
    (&["rehal", "slice"], include_str!("../../src/guides/slice.md")),
    (&["rehal", "tools"], include_str!("../../src/guides/tools.md")),
    (&["rehal", "tune"], include_str!("../../src/guides/tune.md")),
    (&["rehal", "verify"], include_str!("../../src/guides/verify.md")),
    (&["iree-run-module"], include_str!("../../src/guides/run_module.md")),
    (&["iree-run-replay"], include_str!("../../src/guides/run_replay.md")),
];

#[test]
fn each_tool_prints_its_own_guide() {
    for (tool, guide) in GUIDES {
        assert!(guide.starts_with("# ") && guide.contains("Exit status"), "{tool:?}");
        assert_eq!(print(&[tool, &["--agents_md"]].concat()), guide, "{tool:?}");
        let others = GUIDES.iter().filter(|(_, other)| *other == guide);
        assert_eq!(others.count(), 1, "{tool:?} has the guide of another tool");
    }
}

#[test]
fn the_guide_of_replays_names_what_they_refuse() {
    let guide = print(&["iree-run-replay", "--agents_md"]);
    let (_, section) = guide.split_once("\n## What is refused\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    for what in [
        "persistently for writing",
        "host call",
        "channel",
        "collective",
        "imports host memory",
        "exports a buffer",
        "opaque handle",
        "identity",
        "replacement of an executable",
    ] {
        assert!(section.contains(what), "{what} is not in\n{section}");
    }
}

/// The flags in a text (`--name`), except those of other programs.
fn flags(text: &str) -> BTreeSet<String> {
    let names = text.split("--").skip(1).map(|rest| {
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    // The compiler's flags are `--iree-…` and `--compile-…`.
    names.filter(|name| !name.is_empty() && !matches!(&**name, "iree" | "compile")).collect()
}

#[test]
fn guides_name_only_flags_that_exist() {
    let helps: Vec<_> =
        GUIDES.iter().map(|(tool, _)| flags(&print(&[*tool, &["--help=all"]].concat()))).collect();
    for (index, (tool, guide)) in GUIDES.iter().enumerate() {
        let named = flags(guide);
        // `--task_*` names all flags with that prefix.
        let exists = |flag: &str| {
            let is_it = |known: &String| known == flag || flag.ends_with('_') && known.starts_with(flag);
            helps.iter().flatten().any(is_it)
        };
        let unknown: Vec<_> = named.iter().filter(|flag| !exists(flag)).collect();
        assert!(unknown.is_empty(), "the guide of {tool:?} names {unknown:?}, which no tool has");
        assert!(named.iter().any(|flag| helps[index].contains(flag)), "{tool:?} names no flag of its own");
    }
}
