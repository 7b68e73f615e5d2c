//! Runs the commands of docs/replay.md and docs/profiles.md, and compares their output with the pages.

use std::path::Path;
use std::process::Command;

/// The command blocks of a page, each with the output block that follows it.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut lines = page.lines();
    let mut follows = false;
    while let Some(line) = lines.next() {
        let mut body =
            || lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        match line {
            "```bash" => blocks.push((body(), String::new())),
            "```text" => {
                assert!(follows, "text without commands before it: {line}");
                blocks.last_mut().unwrap().1 = body();
            }
            _ => {}
        }
        follows = line == "```bash";
    }
    blocks
}

#[test]
fn the_workflows_of_the_replay_page() {
    run_commands(include_str!("../../../../docs/replay.md"), 10);
}

#[test]
fn the_workflows_of_the_profiles_page() {
    run_commands(include_str!("../../../../docs/profiles.md"), 3);
}

/// Runs the commands of a page with more blocks of them than `count`.
fn run_commands(page: &str, count: usize) {
    let blocks = blocks(page);
    assert!(blocks.len() > count, "{blocks:?}");
    let scratch = crate::common::Scratch::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize().unwrap();
    std::os::unix::fs::symlink(fixtures, scratch.path("fixtures")).unwrap();
    let tools = Path::new(env!("CARGO_BIN_EXE_rehal")).parent().unwrap();
    let path = std::env::join_paths(
        [tools.to_path_buf()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    for (commands, expected) in blocks {
        let mut shell = Command::new("bash");
        shell.args(["-e", "-o", "pipefail", "-c", &format!("exec 2>&1\n{commands}")]);
        shell.current_dir(scratch.path("")).env("PATH", path.as_ref().unwrap());
        let output = shell.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, expected, "{commands}");
        assert!(output.status.success(), "{commands}");
    }
}
