//! The workflows of the compiler's substitution flags, for each target: `rehal compile` writes what the
//! compiler writes if that is right, and refuses what the compiler leaves out, crashes on, or compiles to
//! a program that corrupts memory.

use crate::{Outcome, Pair, ensure};
use libtest_mimic::{Failed, Trial};
use oracle::captures;
use oracle::reference::Reference;
use oracle::tool::{self, Ended};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testing::TWO_FUNCTIONS;

/// The executables of `double` and `add`.
const DOUBLE: &str = "double_dispatch_0";
const ADD: &str = "add_dispatch_0";

/// The targets, with the flags of the compiler, and the device that runs their programs here.
const TARGETS: [(&str, &[&str], Option<&str>); 5] = [
    (
        "cpu",
        &[
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host",
        ],
        Some("local-sync"),
    ),
    (
        "vmvx",
        &["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=vmvx"],
        Some("local-sync"),
    ),
    ("vulkan", &["--iree-hal-target-device=vulkan"], Some("vulkan")),
    ("cuda", &["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"], None),
    ("hip", &["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"], None),
];

/// A compiler on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

pub fn add(trials: &mut Vec<Trial>) {
    type Test = fn(&Work) -> Outcome;
    let tests: [(&str, Test); 6] = [
        ("substitution_flags", substitution_flags),
        ("traps", traps),
        ("objects", objects),
        ("benchmarks", benchmarks),
        ("phases", phases),
        ("dispatches", dispatches),
    ];
    for (target, flags, device) in TARGETS {
        for (name, test) in tests {
            let run = move || test(&Work::new(flags, device)?);
            trials.push(Trial::test(format!("compiling::{target}::{name}"), run));
        }
    }
    trials.push(Trial::test("compiling::objects_of_sources", objects_of_sources));
    trials.push(Trial::test("compiling::two_targets", two_targets));
    trials.push(Trial::test("compiling::onnx", onnx));
}

/// A directory with the program, for a target.
struct Work {
    directory: tempfile::TempDir,
    compile: Pair,
    flags: &'static [&'static str],
    device: Option<&'static str>,
}

/// The expected outcome of a flag.
enum Expected<'t> {
    /// Ours writes what the compiler writes.
    Same,
    /// The compiler may do anything, and ours writes nothing and says this.
    Refused(&'t str),
}

impl Work {
    /// With what the compiler dumps, and an edited source and configuration of `double`, which squares.
    fn new(flags: &'static [&'static str], device: Option<&'static str>) -> Result<Self, Failed> {
        let reference = Reference::find(&captures::repository())?;
        let compile = Pair { ours: tool::ours("rehal")?, theirs: reference.tool("iree-compile") };
        let this = Self { directory: tempfile::tempdir()?, compile, flags, device };
        fs::write(this.path("p.mlir"), TWO_FUNCTIONS)?;
        let dump = ["sources", "configurations", "benchmarks"]
            .map(|it| format!("--iree-hal-dump-executable-{it}-to={it}"));
        this.compiled(&dump.iter().map(String::as_str).collect::<Vec<_>>())?;
        this.compiled(&[
            "--iree-hal-link-executables=false",
            "--iree-hal-dump-executable-binaries-to=binaries",
        ])?;
        this.edit("sources", "", "edited.mlir", "arith.addf", "arith.mulf")?;
        this.edit("configurations", "configured_", "configured.mlir", "arith.addf", "arith.mulf")?;
        Ok(this)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a dumped file of `double` in which `from` is `to`.
    fn edit(&self, directory: &str, prefix: &str, name: &str, from: &str, to: &str) -> Outcome {
        let text = fs::read_to_string(self.path(&format!("{directory}/{prefix}my_{DOUBLE}.mlir")))?;
        ensure(text.contains(from), || format!("no '{from}' in\n{text}"))?;
        Ok(fs::write(self.path(name), text.replace(from, to))?)
    }

    /// The compiler compiles the program.
    fn compiled(&self, flags: &[&str]) -> Outcome {
        let ended = self.theirs(&[flags, &["p.mlir", "-o", "theirs.vmfb"]].concat())?;
        ensure(ended.succeeded(), || ended.summary())
    }

    fn theirs(&self, arguments: &[&str]) -> Result<Ended, Failed> {
        let arguments = [self.flags, arguments].concat();
        Ok(tool::run_within(LIMIT, &self.compile.theirs, &arguments, self.directory.path())?)
    }

    fn ours(&self, arguments: &[&str]) -> Result<Ended, Failed> {
        let compiler = format!("--compiler={}", self.compile.theirs.display());
        let arguments = [&["compile", "--no_cache", &compiler], self.flags, arguments].concat();
        Ok(tool::run_within(LIMIT, &self.compile.ours, &arguments, self.directory.path())?)
    }

    fn check(&self, flags: &[&str], expected: &Expected<'_>) -> Outcome {
        self.check_program("p.mlir", flags, expected)
    }

    fn check_program(&self, program: &str, flags: &[&str], expected: &Expected<'_>) -> Outcome {
        let (theirs, ours) = (self.path("theirs.out"), self.path("ours.out"));
        for path in [&theirs, &ours] {
            if path.exists() {
                fs::remove_file(path)?;
            }
        }
        let ended = self.ours(&[flags, &[program, "-o", "ours.out"]].concat())?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        match expected {
            Expected::Same => {
                let reference = self.theirs(&[flags, &[program, "-o", "theirs.out"]].concat())?;
                ensure(reference.succeeded(), || format!("{flags:?}: theirs: {}", reference.summary()))?;
                ensure(ended.succeeded(), || format!("{flags:?}: ours: {}", ended.summary()))?;
                ensure(fs::read(theirs)? == fs::read(ours)?, || format!("{flags:?}: the modules differ"))
            }
            Expected::Refused(text) => {
                ensure(ended.code == Some(1), || format!("{flags:?}: ours: {}", ended.summary()))?;
                ensure(!ours.exists(), || format!("{flags:?}: a file is written"))?;
                let is_clear =
                    said.contains(text) && said.contains("\n  try: ") && !said.contains("INTERNAL");
                ensure(is_clear, || format!("{flags:?}: not '{text}': {said}"))
            }
        }
    }

    /// The value of `double` of 3 in a module, by the reference's tool.
    fn result(&self, module: &str) -> Result<Option<String>, Failed> {
        let Some(device) = self.device else { return Ok(None) };
        let run = Pair::find("iree-run-module")?.theirs;
        let (device, module) = (format!("--device={device}"), format!("--module={module}"));
        let words = [&*device, &module, "--function=double", "--input=4x8xf32=3"];
        let ended = tool::run_within(LIMIT, &run, &words, self.directory.path())?;
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
        // On the software driver, it crashes when it ends.
        ensure(printed.contains("4x8xf32="), || ended.summary())?;
        let elements = printed.split("4x8xf32=[").nth(1).unwrap_or_default();
        Ok(elements.split([' ', ']']).next().map(str::to_owned))
    }

    fn has_nine(&self, module: &str) -> Outcome {
        let result = self.result(module)?;
        ensure(result.as_deref().is_none_or(|it| it == "9"), || format!("the result is {result:?}"))
    }

    fn directory_with(&self, directory: &str, file: &str, source: &str) -> Outcome {
        fs::create_dir_all(self.path(directory))?;
        fs::copy(self.path(source), self.path(directory).join(file))?;
        Ok(())
    }
}

const PHASES: [&str; 12] = [
    "input",
    "abi",
    "preprocessing",
    "global-optimization",
    "dispatch-creation",
    "flow",
    "stream",
    "executable-sources",
    "executable-configurations",
    "executable-targets",
    "hal",
    "vm",
];

const SOURCE: &str = "--iree-hal-substitute-executable-source";
const SOURCES_FROM: &str = "--iree-hal-substitute-executable-sources-from";
const CONFIGURATION: &str = "--iree-hal-substitute-executable-configuration";
const CONFIGURATIONS_FROM: &str = "--iree-hal-substitute-executable-configurations-from";
const OBJECT: &str = "--iree-hal-substitute-executable-object";

/// The documented examples of the flags.
fn substitution_flags(work: &Work) -> Outcome {
    work.check(&["--iree-hal-dump-executable-files-to=files"], &Expected::Same)?;
    work.check(&["--iree-hal-dump-executable-intermediates-to=files"], &Expected::Same)?;
    work.check(&[&format!("{SOURCE}={DOUBLE}=edited.mlir")], &Expected::Same)?;
    work.has_nine("ours.out")?;
    work.directory_with("d", &format!("my_{DOUBLE}.mlir"), "edited.mlir")?;
    work.directory_with("e", &format!("{DOUBLE}.mlir"), "edited.mlir")?;
    work.directory_with("c", &format!("my_{DOUBLE}.mlir"), "configured.mlir")?;
    let search = "--iree-hal-executable-object-search-path=d";
    work.check(&[&format!("{SOURCE}={DOUBLE}=my_{DOUBLE}.mlir"), search], &Expected::Same)?;
    work.check(&[&format!("{SOURCES_FROM}=d")], &Expected::Same)?;
    work.check(&[&format!("{SOURCES_FROM}=e")], &Expected::Same)?;
    work.check(&[&format!("{CONFIGURATION}={DOUBLE}=configured.mlir")], &Expected::Same)?;
    work.check(&[&format!("{CONFIGURATIONS_FROM}=c")], &Expected::Same)?;
    work.has_nine("ours.out")?;
    // Ours, by any name of a dump.
    for flag in [
        format!("--substitute={DOUBLE}=edited.mlir"),
        format!("--substitute=my_{DOUBLE}=configured.mlir"),
        "--substitute=all=d".to_owned(),
        "--substitute_from=c".to_owned(),
    ] {
        let ended = work.ours(&[&flag, "p.mlir", "-o", "ours.out"])?;
        ensure(ended.succeeded(), || format!("{flag}: {}", ended.summary()))?;
        work.has_nine("ours.out")?;
    }
    Ok(())
}

fn traps(work: &Work) -> Outcome {
    let refused = |flags: &[&str], text: &str| work.check(flags, &Expected::Refused(text));
    let own = |file: &str| format!("{SOURCE}={DOUBLE}={file}");
    refused(&[&format!("{SOURCE}=duble_dispatch_0=edited.mlir")], "did you mean double_dispatch_0?")?;
    refused(&[&format!("{SOURCE}=my_{DOUBLE}=edited.mlir")], "takes the names of dumped files")?;
    refused(&[&format!("{SOURCES_FROM}=missing")], "reading 'missing'")?;
    refused(&[&own("missing.mlir")], "'missing.mlir' does not exist")?;
    work.directory_with("none", "zzz.mlir", "edited.mlir")?;
    refused(&[&format!("{SOURCES_FROM}=none")], "no executable 'zzz'")?;
    work.directory_with("c", &format!("configured_my_{DOUBLE}.mlir"), "configured.mlir")?;
    refused(&[&format!("{CONFIGURATIONS_FROM}=c")], "takes the names of dumped files")?;
    work.directory_with("d", &format!("my_{DOUBLE}.mlir"), "edited.mlir")?;
    let both = ["--iree-hal-dump-executable-sources-to=d", &format!("{SOURCES_FROM}=d")];
    refused(&both, "would overwrite")?;
    let kept = fs::read(work.path(&format!("d/my_{DOUBLE}.mlir")))?;
    ensure(kept == fs::read(work.path("edited.mlir"))?, || "the edit is lost".to_owned())?;
    refused(&[&own("edited.mlir"), &own("sources/my_double_dispatch_0.mlir")], "names several files")?;
    let text = fs::read_to_string(work.path("edited.mlir"))?;
    let function = text.split("hal.executable.export public @").nth(1).and_then(|it| it.split(' ').next());
    let function = function.ok_or("no function")?;
    work.edit("sources", "", "renamed.mlir", function, "renamed")?;
    let larger = text.replace("32xf32", "64xf32").replace(", sizes = [32]", ", sizes = [64]");
    fs::write(work.path("larger.mlir"), larger)?;
    work.edit("sources", "", "constants.mlir", "bindings = [", "constants = 3, bindings = [")?;
    for (file, text) in [
        ("renamed.mlir", format!("has no function '{function}', but 'renamed'")),
        ("larger.mlir", "bytes of binding 0, where the program has 128".to_owned()),
        ("constants.mlir", "it has 3 constants, and the program passes 0".to_owned()),
    ] {
        refused(&[&own(file)], &text)?;
        refused(&[&format!("--substitute={DOUBLE}={file}")], &text)?;
    }
    Ok(())
}

/// Code in place of an executable: of GPUs, it is taken; of CPUs, the compiler crashes.
fn objects(work: &Work) -> Outcome {
    let files: Vec<_> = fs::read_dir(work.path("binaries"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    let file = |name: &str| {
        let found = files.iter().find(|it| it.contains(name) && !it.ends_with(".mlir"));
        found.map(|it| format!("binaries/{it}")).ok_or_else(|| format!("no {name} in {files:?}"))
    };
    let flag = format!("{OBJECT}={DOUBLE}={}", file(DOUBLE)?);
    let other = format!("{OBJECT}={DOUBLE}={}", file(ADD)?);
    let is_cpu = work.flags.iter().any(|it| it.contains("=local"));
    if is_cpu {
        work.check(&[&flag], &Expected::Refused("the compiler crashes with an object"))?;
    } else {
        work.check(&[&flag], &Expected::Same)?;
        work.check(&[&other], &Expected::Refused("has no function 'double_dispatch_0"))?;
        // Before code is generated, only MLIR can be taken.
        let source = format!("{SOURCE}={DOUBLE}={}", file(DOUBLE)?);
        work.check(&[&source], &Expected::Refused("is code, not MLIR"))?;
        let ended = work.ours(&["--substitute=all=binaries", "p.mlir", "-o", "ours.out"])?;
        ensure(ended.succeeded(), || ended.summary())?;
    }
    Ok(())
}

/// Dumped benchmarks have the edit, and compile and run without flags.
fn benchmarks(work: &Work) -> Outcome {
    let dump = "--iree-hal-dump-executable-benchmarks-to=edited_benchmarks";
    work.check(&[dump, &format!("{SOURCE}={DOUBLE}=edited.mlir")], &Expected::Same)?;
    let mut files: Vec<_> = fs::read_dir(work.path("edited_benchmarks"))?
        .filter_map(|entry| Some(entry.ok()?.path().display().to_string()))
        .collect();
    files.sort();
    // Of functions of static shapes only.
    let [file] = &files[..] else { return Err(format!("{files:?}").into()) };
    ensure(fs::read_to_string(file)?.contains("arith.mulf"), || format!("{file} lacks the edit"))?;
    let compiler = format!("--compiler={}", work.compile.theirs.display());
    let words = ["compile", "--no_cache", &compiler, file, "-o", "benchmark.vmfb"];
    let ended = tool::run_within(LIMIT, &work.compile.ours, &words, work.directory.path())?;
    ensure(ended.succeeded(), || ended.summary())?;
    let Some(device) = work.device else { return Ok(()) };
    let device = format!("--device={device}");
    let words = ["benchmark-module", &device, "--module=benchmark.vmfb", "--benchmark_min_time=1x"];
    let ended = tool::run_within(LIMIT, &work.compile.ours, &words, work.directory.path())?;
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    ensure(ended.succeeded() && printed.contains(DOUBLE), || format!("{printed}{}", ended.summary()))
}

/// Each phase is what the compiler writes, and a program again, also as bytecode. The first phases are the
/// same for all targets.
fn phases(work: &Work) -> Outcome {
    let (first, of_target) = PHASES.split_at(7);
    let is_first_target = work.flags == TARGETS[0].1;
    for phase in first.iter().filter(|_| is_first_target).chain(of_target) {
        work.check(&[&format!("--compile-to={phase}")], &Expected::Same)?;
        fs::rename(work.path("ours.out"), work.path("phase.mlir"))?;
        work.check_program("phase.mlir", &[&format!("--compile-from={phase}")], &Expected::Same)?;
    }
    let bytecode = ["--compile-to=flow", "--emit-mlir-bytecode"];
    work.check(&bytecode, &Expected::Same)?;
    fs::rename(work.path("ours.out"), work.path("phase.mlirbc"))?;
    work.check_program("phase.mlirbc", &["--compile-from=flow"], &Expected::Same)
}

/// A dispatch by itself, as what replaces a captured executable.
fn dispatches(work: &Work) -> Outcome {
    let compile = ["--compile-mode=hal-executable"];
    work.check_program("edited.mlir", &compile, &Expected::Same)?;
    let Some(device) = work.device else { return Ok(()) };
    let device = format!("--device={device}");
    work.compiled(&[])?;
    let compiler = format!("--compiler={}", work.compile.theirs.display());
    let run = |words: &[&str]| -> Result<Ended, Failed> {
        let ended = tool::run_within(LIMIT, &work.compile.ours, words, work.directory.path())?;
        ensure(ended.succeeded(), || format!("{words:?}: {}", ended.summary()))?;
        Ok(ended)
    };
    let call = ["--module=theirs.vmfb", "--function=double", "--input=4x8xf32=3"];
    let module = [&["run-module", &device, &compiler][..], &call].concat();
    run(&[&module[..], &["--device_replay_output=c.ireereplay"]].concat())?;
    work.directory_with("d", &format!("my_{DOUBLE}.mlir"), "edited.mlir")?;
    let reads = |flag: Option<&String>| -> Result<Vec<u8>, Failed> {
        let words = ["run", &device, &compiler, "--replay_host_reads=-", "c.ireereplay"];
        let words: Vec<_> = words.into_iter().chain(flag.map(String::as_str)).collect();
        Ok(run(&words)?.stdout)
    };
    let captured = reads(None)?;
    let mut replaced = Vec::new();
    for which in [format!("my_{DOUBLE}=edited.mlir"), format!("{DOUBLE}=edited.mlir"), "all=d".to_owned()] {
        let flag = format!("--executable_substitution={which}");
        let ended = run(&[&module[..], &[&flag]].concat())?;
        let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
        ensure(printed.contains("[9 9 9 9 9 9 9 9]"), || format!("{flag}: {printed}"))?;
        let flag = format!("--replay_executable_substitution={which}");
        replaced.push(reads(Some(&flag))?);
    }
    let is_replaced = replaced.iter().all(|it| *it != captured && *it == replaced[0]);
    ensure(is_replaced, || "the replays read other results".to_owned())
}

/// SPIR-V and PTX that a dumped source names, without a body; its dumped benchmark compiles too.
fn objects_of_sources() -> Outcome {
    for (name, flags, device) in TARGETS.into_iter().filter(|it| ["vulkan", "cuda"].contains(&it.0)) {
        let work = Work::new(flags, device)?;
        let object = fs::read_dir(work.path("binaries"))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .find(|it| it.contains(DOUBLE) && !it.ends_with(".mlir"))
            .ok_or("no object")?;
        let text = fs::read_to_string(work.path(&format!("sources/my_{DOUBLE}.mlir")))?;
        let export = text.find("hal.executable.export").ok_or("no export")?;
        let body = export + text[export..].find("    builtin.module {").ok_or("no body")?;
        let head = text[..export].trim_end();
        let variant = head.strip_suffix('{').ok_or("no variant")?;
        let objects = format!("objects([#hal.executable.object<{{path = \"{object}\"}}>]) {{\n");
        let count = text[export..body].split(" {\n").next().ok_or("no count")?;
        let count = format!(
            "{count} {{\n      %c1 = arith.constant 1 : index\n      hal.return %c1, %c1, %c1 : index, index, index\n    }}\n"
        );
        fs::write(work.path("own.mlir"), format!("{variant}{objects}    {count}  }}\n}}\n"))?;
        let substitute = format!("--substitute={DOUBLE}=own.mlir");
        let dump = "--iree-hal-dump-executable-benchmarks-to=own_benchmarks";
        let ended = work.ours(&[&substitute, "--search_path=binaries", dump, "p.mlir", "-o", "ours.out"])?;
        ensure(ended.succeeded(), || format!("{name}: {}", ended.summary()))?;
        let result = work.result("ours.out")?;
        ensure(result.as_deref().is_none_or(|it| it == "6"), || format!("{name}: {result:?}"))?;
    }
    Ok(())
}

/// Two back ends are two variants of each executable.
fn two_targets() -> Outcome {
    const BOTH: [&str; 4] = [
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-hal-local-target-device-backends=vmvx",
        "--iree-llvmcpu-target-cpu=host",
    ];
    let work = Work::new(&BOTH, Some("local-sync"))?;
    work.check(&[&format!("{SOURCE}={DOUBLE}=edited.mlir")], &Expected::Same)?;
    work.has_nine("ours.out")?;
    fs::write(work.path("k.c"), "void k(const float *a, float *out) {}\n")?;
    let refused = Expected::Refused("is compiled for 2 targets (embedded-elf-x86_64, vmvx-bytecode-fb)");
    work.check(&[&format!("--substitute={DOUBLE}=k.c")], &refused)?;
    let compiler = format!("--compiler={}", work.compile.theirs.display());
    let flags: Vec<_> = BOTH.iter().map(|it| format!("--compiler_flag={it}")).collect();
    let words = ["executables", "--no_cache", &compiler, "p.mlir", "--binaries_to=b", "--benchmarks_to=m"];
    let words: Vec<_> = words.into_iter().chain(flags.iter().map(String::as_str)).collect();
    let ended = tool::run_within(LIMIT, &work.compile.ours, &words, work.directory.path())?;
    ensure(ended.succeeded(), || ended.summary())?;
    let index: serde_json::Value = serde_json::from_slice(&fs::read(work.path("b/index.json"))?)?;
    let rows = index["executables"].as_array().ok_or("no rows")?;
    ensure(rows.len() == 4, || format!("{index}"))?;
    for row in rows {
        let format = row["format"].as_str().unwrap_or_default().replace('-', "_");
        let expected = format!("my_{}_{format}.", row["name"].as_str().unwrap_or_default());
        let files = row["files"].as_array().ok_or("no files")?;
        let is_right = files.len() == 1 && files[0].as_str().is_some_and(|it| it.starts_with(&expected));
        ensure(is_right, || format!("{row}"))?;
    }
    let index: serde_json::Value = serde_json::from_slice(&fs::read(work.path("m/index.json"))?)?;
    let add = index["executables"].as_array().ok_or("no rows")?.iter().find(|it| it["name"] == ADD);
    let why = add.and_then(|it| it["no_files"].as_str()).unwrap_or_default();
    ensure(why.contains("static shapes"), || format!("{index}"))
}

/// Without the package that imports models, ours says what to install.
fn onnx() -> Outcome {
    let work = Work::new(TARGETS[0].1, None)?;
    fs::write(work.path("m.onnx"), "")?;
    let python = work.compile.theirs.ancestors().nth(7).map(|it| it.join("bin/python3"));
    let has_package = python.is_some_and(|python| {
        let found = tool::run_within(LIMIT, &python, &["-c", "import onnx"], Path::new("/"));
        found.is_ok_and(|ran| ran.succeeded())
    });
    let text = if has_package { "cannot be imported" } else { "needs the Python package onnx" };
    work.check_program("m.onnx", &[], &Expected::Refused(text))
}
