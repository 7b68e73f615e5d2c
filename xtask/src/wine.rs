//! Runs what is compiled for Windows under Wine: dumps and replays of the captures of the fixtures, which
//! print and end as on this machine, and modules, whose work is recorded there and replayed here. What has
//! system libraries is refused there.

use crate::fixtures::manifest::{Entry, Manifest};
use crate::machines::each;
use crate::portable::{self, WINDOWS};
use crate::run::{REHAL, cargo, succeed, target};
use crate::{NotRun, Outcome, root, setup};
use oracle::tool::{Ended, run_within};
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const COMPILER: &str = "x86_64-w64-mingw32-gcc";
/// Wine's program, which Debian has outside of PATH.
const WINE: [&str; 3] = ["wine64", "/usr/lib/wine/wine64", "wine"];
/// A part of the names of captures of system libraries.
const OF_LIBRARIES: &str = "syslib";

/// The message of a tool if the system did not start its process.
const NOT_STARTED: &str = "starting a process for kernels: Internal error.";

/// How long a tool may take, which takes a second.
const LIMIT: Duration = Duration::from_secs(120);

/// A tool, and whether it runs the code of captures.
const TOOLS: [(&[&str], bool); 3] =
    [(&["dump"], false), (&["dump", "--format=jsonl"], false), (&["run", "--replay_host_reads=-"], true)];

/// Runs all.
pub fn test() -> Outcome {
    let wine = WINE.into_iter().find(|it| setup::answers(it, &["--version"]));
    let Some(wine) = wine.filter(|_| setup::answers(COMPILER, &["--version"])) else {
        return Err(NotRun(format!("Wine or {COMPILER} is missing: cargo xtask setup installs them")).into());
    };
    if !portable::is_installed(WINDOWS) {
        return Err(NotRun(format!("the standard library is missing: rustup target add {WINDOWS}")).into());
    }
    succeed(cargo(&["build", "--quiet", "--target", WINDOWS]).args(REHAL))?;
    succeed(cargo(&["build", "--quiet"]).args(REHAL))?;
    let programs = target().join(WINDOWS).join("debug");
    let source = root().join("testing/machines/process_prng.c");
    let mut compiler = Command::new(COMPILER);
    compiler.args(["-O1", "-shared"]).arg(source).arg("-o").arg(programs.join("bcryptprimitives.dll"));
    succeed(compiler.arg("-ladvapi32"))?;
    let wine = start(wine)?;
    let (here, there) = (target().join("debug/rehal"), programs.join("rehal.exe"));
    let mut captures = Vec::new();
    for entry in fs::read_dir(root().join("fixtures/captures"))? {
        captures.push(entry?.path());
    }
    captures.retain(|path| path.extension().is_some_and(|it| it == "ireereplay"));
    let works = captures.iter().flat_map(|capture| TOOLS.map(|(tool, runs)| (capture.clone(), tool, runs)));
    let works: Vec<_> = works.collect();
    let count = works.len();
    let failed = each(works, |(capture, tool, runs)| {
        let name = capture.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let what = format!("{} of {name}", tool.join(" "));
        check(&wine, [&here, &there], &capture, tool, runs).map_err(|why| format!("{what}: {why}"))
    })?;
    println!("{WINDOWS}: {} of {count} dumps and replays are as here", count - failed.len());
    let mut modules = Manifest::read(&root().join("fixtures"))?.file;
    modules.retain(|it| it.path.starts_with("captures/") && it.made_by.starts_with("iree-run-module "));
    modules.retain(|it| !it.path.contains(OF_LIBRARIES));
    let count = modules.len();
    let unlike = each(modules, |Entry { path, made_by, .. }| {
        record(&wine, [&here, &there], &path, &made_by).map_err(|why| format!("module of {path}: {why}"))
    })?;
    println!("{WINDOWS}: {} of {count} modules run as here, and are replayed here", count - unlike.len());
    let failed = [failed, unlike].concat();
    if failed.is_empty() { Ok(()) } else { Err(format!("Windows:\n  {}", failed.join("\n  ")).into()) }
}

/// A script that runs a program of Windows in a prefix of these tests, whose server it starts.
fn start(wine: &str) -> Result<PathBuf, Box<dyn Error>> {
    let script = target().join("wine.sh");
    let prefix = target().join("wine");
    let variables =
        format!("WINEPREFIX='{}' WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml=", prefix.display());
    fs::write(&script, format!("#!/bin/sh\n{variables} exec {wine} \"$@\"\n"))?;
    succeed(Command::new("chmod").arg("+x").arg(&script))?;
    succeed(Command::new(&script).args(["wineboot", "-i"]))?;
    Ok(script)
}

/// How a tool ends. Wine 8 on a busy machine sometimes does not see that a process has started, and calls
/// that an internal error: then it runs once more.
fn ended<S: AsRef<OsStr>>(program: &Path, arguments: &[S], directory: &Path) -> Result<Ended, String> {
    let run = || run_within(LIMIT, program, arguments, directory).map_err(|error| error.to_string());
    let ended = run()?;
    if String::from_utf8_lossy(&ended.stderr).contains(NOT_STARTED) { run() } else { Ok(ended) }
}

/// Runs a tool on a capture on both systems.
fn check(wine: &Path, programs: [&Path; 2], capture: &Path, tool: &[&str], runs: bool) -> Result<(), String> {
    let [here, there] = programs;
    let capture = capture.display().to_string();
    let mut arguments: Vec<&str> = tool.to_vec();
    arguments.push(&capture);
    let expected = ended(here, &arguments, &root())?;
    let program = there.display().to_string();
    arguments.insert(0, &program);
    let found = ended(wine, &arguments, &root())?;
    if runs && capture.contains(OF_LIBRARIES) {
        return match found.code {
            Some(1) if found.status_name().as_deref() == Some("UNIMPLEMENTED") => Ok(()),
            _ => Err(format!("is not refused: {}", found.summary())),
        };
    }
    if found.code != expected.code {
        return Err(format!("{}, and here {}", found.summary(), expected.summary()));
    }
    if found.stdout != expected.stdout {
        return Err("prints something else than here".into());
    }
    Ok(())
}

/// Runs and records a module on both systems, with the command that made a capture, and replays both records
/// here.
fn record(wine: &Path, programs: [&Path; 2], path: &str, command: &str) -> Result<(), String> {
    let [here, there] = programs;
    let fixtures = root().join("fixtures");
    let words = shlex::split(command).ok_or("its command has an open quote")?;
    let file = path.trim_start_matches("captures/");
    let mut ends = Vec::new();
    for (program, first, name) in [(here, None, "here"), (wine, Some(there), "there")] {
        let directory = target().join("wine-captures").join(name);
        fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let output = directory.join(file).display().to_string();
        let mut arguments: Vec<String> = first.iter().map(|it| it.display().to_string()).collect();
        arguments.push("run-module".into());
        let flags = words[1..].iter().filter(|it| !it.starts_with("--device_replay_output="));
        arguments.extend(flags.cloned().chain([format!("--device_replay_output={output}")]));
        // Wine shows the files of this system on a drive.
        let replay =
            vec!["run".into(), "--replay_host_reads=-".into(), "--replay_file_remap=Z:=".into(), output];
        for (program, arguments) in [(program, arguments), (here, replay)] {
            ends.push(ended(program, &arguments, &fixtures)?);
        }
    }
    // Windows numbers files differently.
    if path.contains("reference.identity") && ends[3].code == Some(1) {
        let status = ends[3].status_name();
        return (status.as_deref() == Some("FAILED_PRECONDITION")).then_some(()).ok_or(ends[3].summary());
    }
    for (here, there) in ends.iter().zip(&ends[2..]) {
        if (here.code, &here.stdout) != (there.code, &there.stdout) {
            return Err(format!("{}, and here {}", there.summary(), here.summary()));
        }
    }
    Ok(())
}
