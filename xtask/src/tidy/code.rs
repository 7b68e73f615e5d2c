//! Rules for Rust files: crate docs, allowed places of `unsafe`, file and function length.

use super::source::{code_only, functions, word_lines};
use super::{Problem, tree::Tree};

/// Where `unsafe` is allowed, and why. A path that ends in `/` includes everything below it.
const UNSAFE: [(&str, &str); 17] = [
    ("crates/base/src/c_math.rs", "declares functions of the C library"),
    ("crates/base/src/map.rs", "maps files"),
    ("crates/base/src/memory/", "owns host memory with several writers"),
    (
        "crates/hal/src/device.rs",
        "declares that preparing native code is unsafe, and calls it for callers that vouch for the code",
    ),
    ("crates/crash/src/", "handles signals"),
    ("crates/local/", "loads and runs native code"),
    ("crates/roof/src/", "runs loops over vector instructions that the processor has"),
    ("crates/devices/src/devices.rs", "loads the plugins that its callers vouch for"),
    ("crates/cli/src/devices.rs", "vouches for the plugins that the user names"),
    ("crates/cli/src/own_process.rs", "copies the process of a tool before it starts threads"),
    ("crates/cli/src/bin/rehal.rs", "is `main` without Rust's runtime"),
    ("crates/cli/src/output/at_start.rs", "does what that would do at the start"),
    ("crates/capi/", "takes pointers from programs in C"),
    ("crates/python/src/arrow.rs", "passes structures of a C interface to readers of Arrow"),
    ("crates/python/src/exporter.rs", "fills a slot of a class of Python that its stable ABI lacks"),
    ("crates/vulkan/", "calls the driver"),
    ("crates/cuda/", "calls the driver"),
];

/// Files that call or implement `prepare_executable`, the one unsafe function of the HAL, and document why
/// they trust the bytes; and files that tests need.
const PREPARES: [(&str, &str); 12] = [
    (
        "crates/modules/src/hal/executable.rs",
        "a program's executables are its code, and the user asked to run it",
    ),
    (
        "crates/kernels/src/loaded_executable.rs",
        "the user names an executable to run its code, without a program or a capture",
    ),
    ("crates/replay/src/record/device.rs", "forwards it for callers that vouch for the bytes, unchanged"),
    ("crates/replay/tests/conformance.rs", "prepares the suite's kernels, which are our fixtures"),
    ("crates/cli/tests/tools/redact_counts.rs", "records kernels of the suite, which are our fixtures"),
    ("crates/replay/src/prepare.rs", "replaying a capture runs its code, and the user asked for that"),
    ("crates/replay/tests/common/device.rs", "a test device implements the function and runs nothing"),
    (
        "crates/replay/tests/record/counting.rs",
        "a device that counts calls implements the function and runs nothing",
    ),
    (
        "crates/replay/tests/memory/mod.rs",
        "a counting allocator, to check that the planner's memory is in proportion to the file's size",
    ),
    ("crates/cts/src/forward.rs", "forwards the call to the device underlying a test device"),
    ("crates/cts/tests/faults.rs", "prepares kernels of the device that tests the suite"),
    ("crates/cts/tests/memory_device/mod.rs", "that device: its kernels are Rust functions of the test"),
];

/// The document with the reason and the assumptions of each of those places.
const UNSAFE_DOC: &str = "docs/unsafe.md";

/// Maximum lines of a file.
const FILE_LINES: usize = 900;
/// Maximum lines of a function; about 70 fit on a screen.
const FUNCTION_LINES: usize = 100;
/// Longer functions: file, name, and why.
const LONG_FUNCTIONS: [(&str, &str, &str); 1] = [(
    "crates/vm/src/interpret/dispatch.rs",
    "run",
    "one `match` over the instructions: the compiler lowers it to one jump table, which a split function would not be",
)];

/// Crate roots start with a doc that says what the crate is for and what it must not depend on.
pub fn crate_docs(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust().filter(|path| path.ends_with("/src/lib.rs")) {
        let text = tree.text(path);
        let doc: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        if doc.len() < 3 {
            problems.push(Problem::new(
                path,
                1,
                "the crate doc is missing: what the crate is for, what it must not depend on, who uses it",
            ));
        } else if path.starts_with("crates/") && !says_its_limits(&doc) {
            problems.push(Problem::new(path, 1, "the crate doc must say what the crate must not depend on"));
        }
    }
    problems
}

/// Whether a crate doc names what the crate must not depend on.
fn says_its_limits(doc: &[&str]) -> bool {
    let words: Vec<&str> =
        doc.iter().flat_map(|line| line.trim_start_matches("//!").split_whitespace()).collect();
    let text = words.join(" ");
    ["must not depend on", "never"].iter().any(|phrase| text.contains(phrase))
}

/// `unsafe` occurs only in the listed places; every other crate root forbids it.
pub fn unsafe_code(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust() {
        let text = tree.text(path);
        let code = code_only(&text);
        if is_root(path) {
            let directory = path.split("src/").next().unwrap_or(path);
            let denied = code.contains("#![forbid(unsafe_code)]")
                || (code.contains("#![deny(unsafe_code)]")
                    && places().any(|place| place.starts_with(directory)));
            if !denied {
                problems.push(Problem::new(
                    path,
                    1,
                    "a crate root forbids unsafe code (or denies it, where a module may have it)",
                ));
            }
        }
        if !places().any(|place| covers(place, path)) {
            for line in word_lines(&code, "unsafe") {
                problems.push(Problem::new(
                    path,
                    line,
                    "unsafe is not allowed here; see xtask/src/tidy/code.rs and docs/unsafe.md",
                ));
            }
        }
    }
    problems
}

/// Every place with unsafe code, or its directory, is named in the document about it.
pub fn unsafe_is_documented(tree: &Tree) -> Vec<Problem> {
    let document = tree.text(UNSAFE_DOC);
    let named: Vec<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .filter_map(|row| row.split(" | ").next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let is_named = |path: &str| {
        let path = path.strip_prefix("crates/").unwrap_or(path).replace("/src/", "/");
        named.iter().any(|name| covers(&name.replace("/src/", "/"), &path))
    };
    let mut problems = Vec::new();
    for path in tree.rust().filter(|path| places().any(|place| covers(place, path))) {
        let text = tree.text(path);
        if let Some(line) = word_lines(&code_only(&text), "unsafe").into_iter().next()
            && !is_named(path)
        {
            problems.push(Problem::new(path, line, format!("{UNSAFE_DOC} does not list this file")));
        }
    }
    problems
}

fn places() -> impl Iterator<Item = &'static str> {
    UNSAFE.iter().chain(&PREPARES).map(|(place, _)| *place)
}

fn covers(place: &str, path: &str) -> bool {
    if place.ends_with('/') { path.starts_with(place) } else { path == place }
}

/// Roots of libraries and programs; the entry of a fuzz target is the engine's macro, which needs an unsafe
/// attribute.
fn is_root(path: &str) -> bool {
    let root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/");
    root && !path.starts_with("fuzz/")
}

/// Files and functions stay short enough to read.
pub fn lengths(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in tree.rust() {
        let text = tree.text(path);
        let lines = text.lines().count();
        if lines > FILE_LINES {
            problems.push(Problem::new(
                path,
                0,
                format!("{lines} lines, more than the limit of {FILE_LINES}: split the file"),
            ));
        }
        let is_allowed =
            |name: &str| LONG_FUNCTIONS.iter().any(|(file, function, _)| *file == path && *function == name);
        for function in functions(&code_only(&text))
            .iter()
            .filter(|function| function.lines > FUNCTION_LINES && !is_allowed(&function.name))
        {
            let what = format!(
                "{} has {} lines, more than the limit of {FUNCTION_LINES}: a function should fit on a screen (about 70)",
                function.name, function.lines
            );
            problems.push(Problem::new(path, function.line, what));
        }
    }
    problems
}

/// Crates that may name flags in messages: the tools, and the benchmarks, whose options are Google
/// Benchmark's flags.
const FLAGGED: [&str; 2] = ["crates/cli/", "crates/judge/"];

/// Whether a file has the parameters of a driver, of which flags are made.
pub fn declares_flags(path: &str) -> bool {
    ["local", "vulkan"].iter().any(|driver| path == format!("crates/{driver}/src/parameters.rs"))
}

/// Messages of libraries name no flags, which other interfaces lack: advice is a `Remedy` that the tools put
/// into words.
pub fn flags_in_libraries(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_library = |path: &&str| {
        path.starts_with("crates/")
            && path.contains("/src/")
            && !path.ends_with("tests.rs")
            && !declares_flags(path)
            && !FLAGGED.iter().any(|crate_| path.starts_with(crate_))
    };
    for path in tree.rust().filter(is_library) {
        let text = tree.text(path);
        let code = text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        for (number, line) in code.enumerate() {
            // Arguments of a child process are not messages.
            let is_argument = line.trim_start().starts_with(".arg") || line.contains(".arguments.");
            if !line.trim_start().starts_with("//") && !is_argument && names_flag(line) {
                problems.push(Problem::new(path, number + 1, "a library names a flag: advise a `Remedy`"));
            }
        }
    }
    problems
}

/// Whether a string in this line has `--` and a letter after a quote or a space. Flags of the compiler are
/// the same in all interfaces.
fn names_flag(line: &str) -> bool {
    line.match_indices("--").any(|(at, _)| {
        let name = &line[at + 2..];
        line[..at].ends_with(['"', ' ', '(', '`', '=', '\''])
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && !["iree-", "mlir-", "compile-"].iter().any(|of_compiler| name.starts_with(of_compiler))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::made_up;
    use super::*;

    const GOOD: &str = "//! Does one thing.\n//! It must not depend on\n//! another.\n//! All crates use it.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn a_good_crate_passes() {
        let (_directory, tree) = made_up(&[("crates/x/src/lib.rs", GOOD)]);
        assert!(crate_docs(&tree).is_empty() && unsafe_code(&tree).is_empty() && lengths(&tree).is_empty());
    }

    #[test]
    fn crate_docs_are_required() {
        let (_directory, tree) = made_up(&[
            ("crates/x/src/lib.rs", "pub fn f() {}\n"),
            ("crates/y/src/lib.rs", "//! A\n//! B\n//! C\n"),
        ]);
        let lines: Vec<_> = crate_docs(&tree).iter().map(|problem| problem.path.clone()).collect();
        assert_eq!(lines, ["crates/x/src/lib.rs", "crates/y/src/lib.rs"]);
    }

    #[test]
    fn unsafe_needs_an_allowed_place() {
        let (_directory, tree) = made_up(&[
            ("crates/base/src/lib.rs", "#![deny(unsafe_code)]\n"),
            ("crates/base/src/map.rs", "fn f() { unsafe {} }\n"),
            ("crates/base/src/other.rs", "// unsafe in a comment\nfn f() { unsafe {} }\n"),
            ("crates/capture/src/lib.rs", "#![deny(unsafe_code)]\n"),
            ("crates/cli/src/bin/tool.rs", "fn main() {}\n"),
        ]);
        let found: Vec<_> = unsafe_code(&tree).iter().map(|p| (p.path.clone(), p.line)).collect();
        let expected = [
            ("crates/base/src/other.rs", 2),
            ("crates/capture/src/lib.rs", 1),
            ("crates/cli/src/bin/tool.rs", 1),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }

    #[test]
    fn unsafe_needs_a_row() {
        let code = "fn f() { unsafe {} }\n";
        let rows = "| place | why |\n| --- | --- |\n| `base/src/map.rs`, `local/src/platform/` | maps |\n";
        let (_directory, tree) = made_up(&[
            (UNSAFE_DOC, rows),
            ("crates/base/src/map.rs", code),
            ("crates/local/src/platform/linux.rs", code),
            ("crates/local/src/device.rs", code),
            ("crates/local/src/execute.rs", "fn safe() {}\n"),
        ]);
        let found: Vec<_> = unsafe_is_documented(&tree).into_iter().map(|problem| problem.path).collect();
        assert_eq!(found, ["crates/local/src/device.rs"]);
    }

    #[test]
    fn long_files_and_functions_are_reported() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES));
        let (_directory, tree) =
            made_up(&[("crates/x/src/a.rs", &long), ("crates/x/src/b.rs", &"\n".repeat(FILE_LINES + 1))]);
        let problems = lengths(&tree);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].what.starts_with("f has 102 lines"), "{}", problems[0]);
    }

    #[test]
    fn libraries_that_name_flags_are_found() {
        let found = |path: &str, text: &str| {
            let (_directory, tree) = made_up(&[(path, text)]);
            flags_in_libraries(&tree).iter().map(|problem| problem.line).collect::<Vec<_>>()
        };
        let text = "// --x\nlet a = \"use --recover\";\nlet b = \"--x=1\";\nlet c = \"a -- b\";\n#[cfg(test)]\n\"--x\"\n";
        assert_eq!(found("crates/hal/src/a.rs", text), [2, 3]);
        for path in
            ["crates/cli/src/a.rs", "crates/hal/tests/a.rs", "crates/hal/src/tests.rs", "oracle/src/a.rs"]
        {
            assert!(found(path, text).is_empty(), "{path}");
        }
    }
}
