//! The reference's end-to-end programs, taken from its build files.

use super::{BACKEND_CUDA, CUDA_ARCHITECTURE, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the directory of a checkout of the reference's source.
pub const SOURCE_VARIABLE: &str = "REHAL_IREE_SOURCE";

/// The keyword of a suite declaration.
const SUITE: &str = "iree_check_single_backend_test_suite(";

/// The supported backends; suites for others need other devices.
const BACKENDS: [&str; 4] = ["llvm-cpu", "vmvx", "vulkan-spirv", "cuda"];

/// The default target of most suites, also compiled here.
const GENERIC: &str = "--iree-llvmcpu-target-cpu=generic";
const MODERN: &str = "--iree-llvmcpu-target-cpu=x86-64-v3";

/// Every program for a CPU, Vulkan or CUDA of the suites below `tests/e2e` in `source`, with the suites'
/// flags. Suites compiled for the generic CPU are also compiled for x86-64-v3, and for CUDA those of their
/// programs that no suite for CUDA has. Generated sources are written to `generated`.
pub fn reference_programs(source: &Path, generated: &Path) -> io::Result<Vec<Program>> {
    let top = source.join("tests/e2e");
    let mut files = Vec::new();
    build_files(&top, &mut files).map_err(|error| {
        let words = format!("{SOURCE_VARIABLE} must name a checkout of the reference's source: {error}");
        io::Error::new(error.kind(), words)
    })?;
    let mut programs = Vec::new();
    for file in files {
        let directory = file.parent().unwrap_or(&top);
        let below = directory.strip_prefix(&top).unwrap_or(directory).display().to_string();
        let suites = suites(&fs::read_to_string(&file)?);
        let on_cuda = suites.iter().filter(|suite| suite.one("TARGET_BACKEND") == Some("cuda"));
        let on_cuda: BTreeSet<&str> = on_cuda.flat_map(|suite| suite.all("SRCS")).collect();
        for suite in &suites {
            let Some(backend) = suite.one("TARGET_BACKEND").filter(|it| BACKENDS.contains(it)) else {
                continue;
            };
            // Compile-only suites have no driver.
            if suite.one("DRIVER").is_none() {
                continue;
            }
            let name = suite.one("NAME").unwrap_or("unnamed");
            let own: Vec<String> = suite.all("COMPILER_FLAGS").map(unescape).collect();
            for entry in suite.all("SRCS") {
                let path = match entry.strip_prefix("${PROJECT_BINARY_DIR}/") {
                    Some(made) => generate(directory, Path::new(made), generated)?,
                    None => directory.join(entry),
                };
                let program = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
                for (suffix, flags) in variants(backend, &own, on_cuda.contains(entry)) {
                    programs.push(Program {
                        name: format!("reference/{below}/{name}{suffix}/{program}"),
                        source: path.clone(),
                        flags,
                    });
                }
            }
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// The flags for each target that a program of a suite is compiled for, with the suffix of the suite's name.
fn variants(backend: &str, own: &[String], is_on_cuda: bool) -> Vec<(&'static str, Vec<String>)> {
    let with = |first: &str, target: &str| {
        let rest = own.iter().map(|flag| if flag == GENERIC { target } else { flag });
        std::iter::once(first).chain(rest).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let first = format!("--iree-hal-target-backends={backend}");
    let mut variants = vec![("", with(&first, GENERIC))];
    if first == BACKEND_CUDA {
        variants[0].1.push(CUDA_ARCHITECTURE.to_owned());
    }
    if own.iter().any(|flag| flag == GENERIC) {
        variants.push((".x86-64-v3", with(&first, MODERN)));
        if !is_on_cuda {
            variants.push((".cuda", with(BACKEND_CUDA, CUDA_ARCHITECTURE)));
        }
    }
    variants
}

fn build_files(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = fs::read_dir(directory)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            build_files(&entry.path(), found)?;
        } else if entry.file_name() == "CMakeLists.txt" {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// The arguments of one declaration, by keyword.
#[derive(Default)]
struct Suite(BTreeMap<String, Vec<String>>);

impl Suite {
    fn one(&self, keyword: &str) -> Option<&str> {
        self.all(keyword).next()
    }

    fn all(&self, keyword: &str) -> impl Iterator<Item = &str> {
        self.0.get(keyword).into_iter().flatten().map(String::as_str)
    }
}

/// The suites declared in a build file.
fn suites(text: &str) -> Vec<Suite> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let text = lines.join("\n");
    let mut suites = Vec::new();
    for part in text.split(SUITE).skip(1) {
        let mut suite = Suite::default();
        let mut keyword = String::new();
        // A declaration ends with a line that is its closing parenthesis.
        for line in part.lines().take_while(|line| *line != ")") {
            let line = line.trim();
            match line.strip_prefix('"').and_then(|line| line.strip_suffix('"')) {
                Some(value) => suite.0.entry(keyword.clone()).or_default().push(value.to_owned()),
                None if line.is_empty() => {}
                // Keywords are upper-case; other words are values.
                None if line.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') => {
                    line.clone_into(&mut keyword);
                }
                None => suite.0.entry(keyword.clone()).or_default().push(line.to_owned()),
            }
        }
        suites.push(suite);
    }
    suites
}

/// A quoted argument as the build system unescapes it: a backslash escapes the next character.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

/// Generates a program like the build does: the directory's `generate.py` with the cases of the same name.
fn generate(directory: &Path, made: &Path, generated: &Path) -> io::Result<PathBuf> {
    let name = made.file_name().unwrap_or_default();
    let cases = directory.join(name).with_extension("json");
    let output = Command::new("python3")
        .arg(directory.join("generate.py"))
        .arg(format!("--testcases={}", cases.display()))
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("generating {}: {}", made.display(), output.status)));
    }
    fs::create_dir_all(generated)?;
    let path = generated.join(name);
    fs::write(&path, output.stdout)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_source_directory_is_named_with_its_variable() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("no-checkout");
        let error = reference_programs(&source, directory.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let words = error.to_string();
        assert!(words.starts_with("REHAL_IREE_SOURCE must name a checkout"), "{words}");
        assert!(words.contains(&source.join("tests/e2e").display().to_string()), "{words}");
    }

    #[test]
    fn programs_are_compiled_for_more_targets_than_their_suite() {
        let suffixes = |backend, own: &[String], is_on_cuda| {
            variants(backend, own, is_on_cuda).into_iter().map(|(suffix, _)| suffix).collect::<Vec<_>>()
        };
        let own = ["--a".to_owned(), GENERIC.to_owned()];
        assert_eq!(suffixes("llvm-cpu", &own, false), ["", ".x86-64-v3", ".cuda"]);
        assert_eq!(suffixes("llvm-cpu", &own, true), ["", ".x86-64-v3"]);
        assert_eq!(suffixes("vmvx", &own[..1], false), [""]);
        assert_eq!(variants("llvm-cpu", &own, false)[2].1, [BACKEND_CUDA, "--a", CUDA_ARCHITECTURE]);
        assert_eq!(variants("cuda", &own[..1], true)[0].1, [BACKEND_CUDA, "--a", CUDA_ARCHITECTURE]);
    }

    #[test]
    fn declarations_are_read() {
        let text = "iree_add_all_subdirs()\n\n\
            iree_check_single_backend_test_suite(\n  NAME\n    suite_a\n  SRCS\n    # keep sorted\n    \"a.mlir\"\n    \
            \"b.mlir\"\n  TARGET_BACKEND\n    \"llvm-cpu\"\n  COMPILER_FLAGS\n    \
            \"--pipeline=module\\(func\\(x\\)\\)\"\n)\n\n\
            iree_check_single_backend_test_suite(\n  NAME\n    suite_b\n  TARGET_BACKEND\n    \"cuda\"\n)\n";
        let suites = suites(text);
        assert_eq!(suites.len(), 2);
        assert_eq!(suites[0].all("SRCS").collect::<Vec<_>>(), ["a.mlir", "b.mlir"]);
        assert_eq!(suites[0].one("TARGET_BACKEND"), Some("llvm-cpu"));
        assert_eq!(unescape(suites[0].one("COMPILER_FLAGS").unwrap()), "--pipeline=module(func(x))");
        assert_eq!((suites[1].one("NAME"), suites[1].all("SRCS").count()), (Some("suite_b"), 0));
    }
}
