//! `rehal compile`, and the tools that compile what they are given, with the pinned release of the compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use testing::TWO_FUNCTIONS;

use crate::common::{Ran, command, fixture, ran};

pub(crate) const DOUBLE: &str = "double_dispatch_0";

/// A directory with the program, and a cache of its own.
pub(crate) struct Work(pub(crate) TempDir);

impl Work {
    pub(crate) fn new() -> Self {
        let this = Self(TempDir::new().unwrap());
        this.write("p.mlir", TWO_FUNCTIONS);
        this
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Runs a tool in the directory.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        ran(self.output(words))
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let environment = std::env::var_os("REHAL_REFERENCE").filter(|it| !it.is_empty());
        let environment = environment.map_or_else(|| testing::repository().join(".venv"), PathBuf::from);
        let mut command = command(words[0]);
        command
            .args(&words[1..])
            .current_dir(self.0.path())
            .env("REHAL_COMPILER", environment)
            .env("REHAL_CACHE_DIR", self.path("cache"))
            .env("TMPDIR", self.temporary());
        command
    }

    pub fn temporary(&self) -> PathBuf {
        let path = self.path("tmp");
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Compiles the program with more flags; returns standard error.
    pub(crate) fn compile(&self, flags: &[&str]) -> String {
        let ran =
            self.run(&[&["rehal", "compile", "--target=cpu", "p.mlir", "-o", "p.vmfb"], flags].concat());
        assert_eq!(ran.status, Some(0), "{flags:?}: {}", ran.stderr);
        ran.stderr
    }

    /// The same, which must fail, write nothing, and leave no temporary files.
    pub(crate) fn refused(&self, flags: &[&str]) -> String {
        let ran =
            self.run(&[&["rehal", "compile", "--target=cpu", "p.mlir", "-o", "none.vmfb"], flags].concat());
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("\n  try: "), "{flags:?}: {}", ran.stderr);
        assert!(!self.path("none.vmfb").exists());
        ran.stderr
    }

    /// The results of `double` of 1 and `add` of 1 and 2 in a module.
    pub(crate) fn results(&self, module: &str) -> [String; 2] {
        let module = format!("--module={module}");
        let call = |words: &[&str]| {
            let ran = self.run(&[&["iree-run-module", "--device=local-sync", &module], words].concat());
            assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.stderr);
            ran.stdout.lines().last().unwrap().to_owned()
        };
        let double = call(&["--function=double", "--input=4x8xf32=1"]);
        let [double, ..] = [double.split(['[', ' ', ']']).nth(1).unwrap().to_owned()];
        [double, call(&["--function=add", "--input=3xf32=1", "--input=3xf32=2"])]
    }

    /// Dumps of the program, edited: `from` becomes `to` in the file of `double`.
    fn edited(&self, directory: &str, prefix: &str, from: &str, to: &str) -> String {
        let path = self.path(directory).join(format!("{prefix}my_{DOUBLE}.mlir"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} is not in\n{text}");
        self.write("edited.mlir", &text.replace(from, to));
        format!("--substitute={DOUBLE}=edited.mlir")
    }
}

pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn output_is_the_compilers_and_is_cached() {
    let work = Work::new();
    let first = work.compile(&[]);
    assert!(first.contains("compiled by ") && first.contains(" 3.13.0"), "{first}");
    assert!(!first.contains("from the cache"));
    let compiled = fs::read(work.path("p.vmfb")).unwrap();
    assert!(work.compile(&[]).contains("from the cache"));
    assert_eq!(fs::read(work.path("p.vmfb")).unwrap(), compiled);
    assert!(!work.compile(&["--no_cache"]).contains("from the cache"));
    assert_eq!(fs::read(work.path("p.vmfb")).unwrap(), compiled);
    assert_eq!(work.results("p.vmfb"), ["2", "3xf32=3 3 3"]);
    // The output does not depend on where standard input is copied to.
    for is_cached in [false, true] {
        let mut command = work.command(&["rehal", "compile", "--target=cpu", "-", "-o", "stdin.vmfb"]);
        let ran = ran(command.stdin(fs::File::open(work.path("p.mlir")).unwrap()).output().unwrap());
        assert_eq!(
            (ran.status, ran.stderr.contains("from the cache")),
            (Some(0), is_cached),
            "{}",
            ran.stderr
        );
    }
    let from_stdin = fs::read(work.path("stdin.vmfb")).unwrap();
    assert!(!from_stdin.windows(13).any(|it| it == b"rehal-compile"));
    // A changed program is another.
    work.write("p.mlir", &TWO_FUNCTIONS.replace("arith.addf %a, %a", "arith.mulf %a, %a"));
    assert!(!work.compile(&[]).contains("from the cache"));
    assert_eq!(work.results("p.vmfb"), ["1", "3xf32=3 3 3"]);
    assert_eq!(names(&work.temporary()), [""; 0]);
}

#[test]
fn phases_and_formats_pass_through() {
    let work = Work::new();
    let run = |words: &[&str]| {
        let ran = work.run(&[&["rehal", "compile"], words].concat());
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.stderr);
        ran.stdout
    };
    let flow = run(&["--target=cpu", "--compile-to=flow", "p.mlir", "-o", "-"]);
    assert!(flow.contains("flow.dispatch @double_dispatch_0"), "{flow}");
    work.write("flow.mlir", &flow);
    run(&["--target=cpu", "--compile-from=flow", "flow.mlir", "-o", "flow.vmfb"]);
    assert_eq!(work.results("flow.vmfb"), ["2", "3xf32=3 3 3"]);
    let text = run(&["--target=cpu", "--output-format=vm-asm", "p.mlir", "-o", "-"]);
    assert!(text.contains("vm.module"), "{text}");
    assert!(run(&["--iree-list-plugins"]).contains("input_"), "plugins");
    let help = run(&["--help=substitute_executable_SOURCE"]);
    assert!(help.contains("--iree-hal-substitute-executable-sources-from="), "{help}");
    assert!(!help.contains("--iree-cuda-target"), "{help}");
}

#[test]
fn diagnostics_and_wrong_flags_are_errors() {
    let work = Work::new();
    work.write("p.mlir", &TWO_FUNCTIONS.replace("%a, %b", "%a, %c"));
    let error = work.refused(&[]);
    assert!(error.contains("\np.mlir:7:25: error: use of undeclared SSA value name\n"), "{error}");
    assert!(
        error.contains("    %0 = arith.addf %a, %c : tensor<?xf32>\n                        ^\n"),
        "{error}"
    );
    work.write("p.mlir", TWO_FUNCTIONS);
    for (flag, message) in [
        (
            "--iree-opt-levl=O1",
            "the compiler has no flag '--iree-opt-levl=O1': did you mean '--iree-opt-level=O1'?\n  try: rehal compile --help=WORD",
        ),
        (
            "--iree-opt-level=7",
            "the compiler refuses its flags\niree-compile: for the --iree-opt-level option",
        ),
    ] {
        let error = work.refused(&[flag]);
        assert!(error.contains(message) && !error.contains("not compile"), "{error}");
    }
    let untargeted = work.run(&["rehal", "compile", "p.mlir", "-o", "none.vmfb"]);
    let is_clear = untargeted.stderr.contains("no HAL devices") && untargeted.stderr.contains("--target=cpu");
    assert!(untargeted.status == Some(1) && is_clear, "{}", untargeted.stderr);
    let module = fixture("modules/add4.vmfb");
    let compiled = work.run(&["rehal", "compile", "--target=cpu", &module, "-o", "none.vmfb"]);
    let is_clear =
        compiled.stderr.contains("add4.vmfb' is a compiled module (.vmfb), not a program\n  try: ");
    assert!(compiled.status == Some(1) && is_clear, "{}", compiled.stderr);
    let error = work.refused(&["--target=vulcan"]);
    assert!(error.contains("did you mean vulkan?"), "{error}");
    let error = work.refused(&["--compiler=none"]);
    assert!(error.contains("'none' does not exist") && error.contains("iree-base-compiler"), "{error}");
    let error = work.refused(&["--compiler=/bin/true"]);
    assert!(error.contains("is not a compiler of programs"), "{error}");
    let error = work.refused(&["--compiler=/bin/ls"]);
    assert!(
        error.contains("is not a compiler of programs: ") && error.contains("iree-base-compiler"),
        "{error}"
    );
    work.write("m.onnx", "");
    let ran = work.run(&["rehal", "compile", "--target=cpu", "m.onnx", "-o", "m.vmfb"]);
    let is_missing =
        ran.stderr.contains("needs the Python package onnx") && ran.stderr.contains("pip install onnx");
    assert!(
        ran.status == Some(1) && (is_missing || ran.stderr.contains("cannot be imported")),
        "{}",
        ran.stderr
    );
    assert_eq!(names(&work.temporary()), [""; 0]);
}

#[test]
fn crashes_keep_what_repeats_them() {
    let work = Work::new();
    let error = work.refused(&["--iree-llvmcpu-target-triple=nothing"]);
    assert!(error.contains("the compiler ended by signal 11 in the pass "), "{error}");
    assert!(error.contains("with 'p.mlir'"), "{error}");
    let [kept] = &names(&work.temporary())[..] else { panic!("{error}") };
    assert!(error.contains(kept.as_str()), "{error}");
    let kept = work.temporary().join(kept);
    assert_eq!(fs::read_to_string(kept.join("p.mlir")).unwrap(), TWO_FUNCTIONS);
    let script = fs::read_to_string(kept.join("command.sh")).unwrap();
    assert!(script.contains("'--iree-llvmcpu-target-triple=nothing'"), "{script}");
    assert!(fs::read_to_string(kept.join("messages.txt")).unwrap().contains("Stack dump"));
    // It exits without a diagnostic.
    let error = work.refused(&["--iree-llvmcpu-target-cpu=nothing"]);
    assert!(error.contains("the compiler ended ") && error.contains("Unknown CPU"), "{error}");
    let error = work.refused(&["--compiler_timeout=1ms", "--no_cache"]);
    assert!(error.starts_with("DEADLINE_EXCEEDED; "), "{error}");
    // Less than it needs to begin and to compile; then what is kept has the limits.
    for limit in ["4MB", "20MB"] {
        let flag = format!("--compiler_memory={limit}");
        let error = work.refused(&[&flag, "--no_cache"]);
        assert!(error.contains("000000 bytes of memory"), "{error}");
        assert!(error.contains("use --compiler_memory=") || error.contains("may be the reason"), "{error}");
    }
    let limits = ["--compiler_memory=2GiB", "--compiler_timeout=2m"];
    let error = work.refused(&[&limits[..], &["--iree-llvmcpu-target-triple=nothing"]].concat());
    assert!(error.contains("the limit of 2147483648 bytes of memory may be the reason"), "{error}");
    let kept = names(&work.temporary()).into_iter().find(|it| error.contains(it.as_str())).unwrap();
    let script = work.temporary().join(kept).join("command.sh");
    let text = fs::read_to_string(&script).unwrap();
    assert!(text.contains("ulimit -d 2097152\nexec timeout 120 '") && text.contains(" || exit\n"), "{text}");
    let repeated = Command::new("sh").arg(&script).current_dir("/").output().unwrap();
    assert!(String::from_utf8_lossy(&repeated.stderr).contains("Stack dump"), "{repeated:?}");
}

#[test]
fn sources_and_configurations_are_substituted() {
    let work = Work::new();
    let dumps = ["--iree-hal-dump-executable-sources-to=s", "--iree-hal-dump-executable-configurations-to=c"];
    work.compile(&dumps);
    let double = "arith.addf %in, %in : f32";
    let square = "arith.mulf %in, %in : f32";
    for (directory, prefix) in [("s", ""), ("c", "configured_")] {
        let flag = work.edited(directory, prefix, double, square);
        let messages = work.compile(&[&flag]);
        assert!(messages.contains("substituted"), "{messages}");
        assert_eq!(work.results("p.vmfb"), ["1", "3xf32=3 3 3"], "{directory}");
        // From a directory, under the names of the dump.
        let file = format!("{prefix}my_{DOUBLE}.mlir");
        fs::rename(work.path("edited.mlir"), work.path(directory).join(file)).unwrap();
        work.compile(&[]);
        assert_eq!(work.results("p.vmfb"), ["2", "3xf32=3 3 3"]);
        work.compile(&[&format!("--substitute_from={directory}")]);
        assert_eq!(work.results("p.vmfb"), ["1", "3xf32=3 3 3"], "{directory}");
    }
    // The compiler's own flags.
    work.compile(&["--iree-hal-substitute-executable-sources-from=s"]);
    assert_eq!(work.results("p.vmfb"), ["1", "3xf32=3 3 3"]);
    let name = format!("--substitute=configured_my_{DOUBLE}=my_{DOUBLE}.mlir");
    work.compile(&[&name, "--search_path=s"]);
    assert_eq!(work.results("p.vmfb"), ["1", "3xf32=3 3 3"]);
}

#[test]
fn substitutes_that_the_program_cannot_call_are_refused() {
    let work = Work::new();
    work.compile(&["--iree-hal-dump-executable-sources-to=s"]);
    let function = "double_dispatch_0_elementwise_32_f32";
    let text = fs::read_to_string(work.path("s").join(format!("my_{DOUBLE}.mlir"))).unwrap();
    let function = match text.contains(function) {
        true => function.to_owned(),
        false => {
            let at =
                text.find("hal.executable.export public @").unwrap() + "hal.executable.export public @".len();
            text[at..].split(' ').next().unwrap().to_owned()
        }
    };
    let body = format!("func.func @{function}");
    for (from, to, message) in [
        (&*function, "renamed", format!("has no function '{function}', but 'renamed'")),
        (&*body, "func.func @inner", "and defines 'inner'".into()),
        (
            "arith.constant 0 : index",
            "arith.constant 4096 : index",
            "it accesses 4224 bytes of binding 0, where the program has 128".into(),
        ),
        ("@double_dispatch_0 ", "@other ", "has no executable 'double_dispatch_0', but 'other'".into()),
        ("cpu_features = \"", "cpu_features = \"+none,", "is for another target than the program".into()),
        ("@embedded_elf", "@another_elf", "has no variant 'embedded_elf".into()),
        (
            "bindings = [",
            "constants = 1, bindings = [",
            "it has 1 constants, and the program passes 0".into(),
        ),
        (
            "bindings = [",
            "bindings = [#hal.pipeline.binding<storage_buffer, Indirect>, ",
            "it has 3 bindings, and the program passes 2".into(),
        ),
        (
            "count(%arg0: !hal.device)",
            "count(%arg0: !hal.device, %arg1: index)",
            "depends on 1 values".into(),
        ),
    ] {
        let flag = work.edited("s", "", from, to);
        let error = work.refused(&[&flag]);
        assert!(error.contains(&message), "{message}: {error}");
    }
    let larger = text.replace("tensor<32xf32>", "tensor<64xf32>").replace("sizes = [32]", "sizes = [64]");
    assert_ne!(larger, text);
    work.write("edited.mlir", &larger);
    let error = work.refused(&["--substitute=double_dispatch_0=edited.mlir"]);
    assert!(error.contains("bytes of binding 0, where the program has 128"), "{error}");
    let add = fs::read_to_string(work.path("s").join("my_add_dispatch_0.mlir")).unwrap();
    work.write("add.mlir", &add.replace("xf32", "xf64").replace(": f32", ": f64"));
    let error = work.refused(&["--substitute=add_dispatch_0=add.mlir"]);
    assert!(error.contains("binding 0 as elements of 64 bits, where the program has 32"), "{error}");
    let unknown = work.refused(&["--substitute=duble_dispatch_0=edited.mlir"]);
    assert!(
        unknown.contains("did you mean double_dispatch_0? it has double_dispatch_0, add_dispatch_0"),
        "{unknown}"
    );
    let both = ["--substitute=double_dispatch_0=edited.mlir", "--substitute=my_double_dispatch_0=p.mlir"];
    assert!(work.refused(&both).contains("is substituted twice"));
    let same = work.refused(&["--substitute_from=s", "--iree-hal-dump-executable-sources-to=s"]);
    assert!(same.contains("would overwrite"), "{same}");
    // The compiler's own flag, which it warns about only.
    let own = work.refused(&["--iree-hal-substitute-executable-source=none=edited.mlir"]);
    assert!(own.contains("no executable 'none'"), "{own}");
    let own = work.refused(&["--iree-hal-substitute-executable-source=none"]);
    assert!(own.contains("--iree-hal-substitute-executable-source=none names no file"), "{own}");
    work.edited("s", "", &body, "func.func @inner");
    let own = work.refused(&["--iree-hal-substitute-executable-source=double_dispatch_0=edited.mlir"]);
    assert!(own.contains("and defines 'inner'"), "{own}");
    let as_c = work.refused(&["--substitute=double_dispatch_0@c=edited.mlir"]);
    assert!(as_c.contains("edited.mlir' does not compile"), "{as_c}");
    work.write("x.txt", "text");
    let error = work.refused(&["--substitute=double_dispatch_0=x.txt"]);
    assert!(error.contains("not a substitute of a known kind"), "{error}");
}

#[test]
fn objects_and_c_are_linked() {
    let work = Work::new();
    work.write(
        "k.c",
        "void k(const float *a, float *out) { for (int i = 0; i < 32; ++i) out[i] = a[i] + 10; }\n",
    );
    let messages = work.compile(&["--substitute=double_dispatch_0=k.c"]);
    assert!(messages.contains("/k.c`") && !messages.contains("rehal-substitutes"), "{messages}");
    assert_eq!(work.results("p.vmfb"), ["11", "3xf32=3 3 3"]);
    let add = "void f(const float *a, const float *b, float *out, unsigned n0, unsigned n1, unsigned n2, unsigned n3) {\n\
               for (unsigned i = 0; i < n0; ++i) out[i] = a[i] * 10 + b[i]; }\n";
    work.write("add.c", add);
    let compiled = Command::new("cc")
        .args(["-c", "-O2", "-ffreestanding", "-fPIC", "-fno-stack-protector", "add.c", "-o", "add.o"])
        .current_dir(work.0.path())
        .status();
    assert!(compiled.unwrap().success());
    work.compile(&["--substitute=double_dispatch_0=k.c", "--substitute=add_dispatch_0=add.o"]);
    assert_eq!(work.results("p.vmfb"), ["11", "3xf32=12 12 12"]);
    work.write("libc.c", "float expf(float);\nvoid k(const float *a, float *o) { o[0] = expf(a[0]); }\n");
    assert!(work.refused(&["--substitute=double_dispatch_0=libc.c"]).contains("needs expf"));
    work.write("two.c", "void k(float *a) {}\nvoid l(float *a) {}\n");
    let error = work.refused(&["--substitute=double_dispatch_0=two.c"]);
    assert!(error.contains("defines k, l, not double_dispatch_0_"), "{error}");
    assert!(error.contains("(const void *binding_0, void *binding_1)"), "{error}");
    work.write("other.c", "void k(const float *a, const float *b, float *out) { out[0] = a[0] + b[0]; }\n");
    let error = work.refused(&["--substitute=double_dispatch_0=other.c"]);
    assert!(error.contains("function 'k' of ") && error.contains("other.c' has other parameters"), "{error}");
    assert!(error.contains("define void k(const void *binding_0, void *binding_1)"), "{error}");
    // The linker would take the first definition for both.
    work.write("add.c", &add.replace("void f(", "void k("));
    let both = ["--substitute=double_dispatch_0=k.c", "--substitute=add_dispatch_0=add.c"];
    let error = work.refused(&both);
    assert!(error.contains("add.c' and '") && error.contains("k.c' both define 'k'"), "{error}");
    for is_separate in ["--iree-hal-link-executables=false", "--iree-hal-link-executables=0"] {
        work.compile(&[&both[..], &[is_separate]].concat());
        assert_eq!(work.results("p.vmfb"), ["11", "3xf32=12 12 12"]);
    }
    // It merges weak definitions, such as inline functions of C++.
    let weak = "__attribute__((weak)) float weak(float x) { return x; }\n";
    work.write("k.c", &format!("{weak}{}", fs::read_to_string(work.path("k.c")).unwrap()));
    work.write("add.c", &format!("{weak}{add}"));
    work.compile(&both);
    assert_eq!(work.results("p.vmfb"), ["11", "3xf32=12 12 12"]);
    let library = format!("--substitute=double_dispatch_0={}", env!("CARGO_BIN_EXE_rehal"));
    assert!(work.refused(&[&library]).contains("a shared library, which the compiler cannot link"));
}

#[test]
fn gpu_objects_are_for_their_targets() {
    let work = Work::new();
    let compile = |words: &[&str]| {
        let ran =
            work.run(&[&["rehal", "compile", "--target=vulkan", "p.mlir", "-o", "v.vmfb"], words].concat());
        (ran.status, ran.stderr)
    };
    let (status, error) = compile(&["--iree-hal-dump-executable-binaries-to=b"]);
    assert_eq!(status, Some(0), "{error}");
    let binaries = names(&work.path("b"));
    let binary = |name: &str| format!("b/{}", binaries.iter().find(|it| it.contains(name)).unwrap());
    let own = format!("--substitute={DOUBLE}={}", binary(DOUBLE));
    let (status, error) = compile(&[&own]);
    assert!(status == Some(0) && error.contains("substituted with object file"), "{error}");
    let (status, error) = compile(&["--substitute_from=b"]);
    assert_eq!(status, Some(0), "{error}");
    let bytes = fs::read(work.path(&binary(DOUBLE))).unwrap();
    // The words of instructions, of which the last one becomes another.
    let changed = |words: &[Option<u32>], value: u32| {
        let mut code: Vec<_> = bytes.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)).collect();
        let is_it = |it: &[u32]| it.iter().zip(words).all(|(it, word)| word.is_none_or(|word| word == *it));
        let at = code.windows(words.len()).position(is_it).unwrap() + words.len() - 1;
        code[at] = value;
        code.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>()
    };
    let local_size = [Some((6 << 16) | 16), None, Some(17), None];
    let binding = [Some((4 << 16) | 71), None, Some(33), Some(1)];
    for (code, message) in [
        (changed(&local_size, 3), "substitute=(constants=0 bindings=2 workgroup_size=[3,1,1])"),
        (changed(&binding, 5), "substitute=(constants=0 bindings=6 workgroup_size=["),
        (bytes[..300].to_vec(), "SPIR-V"),
    ] {
        fs::write(work.path("x.spv"), code).unwrap();
        for flag in ["--substitute", "--iree-hal-substitute-executable-object"] {
            let (status, error) = compile(&[&format!("{flag}={DOUBLE}=x.spv")]);
            assert!(status == Some(1) && error.contains(message), "{message}: {error}");
            assert!(error.contains("x.spv'"), "{error}");
        }
    }
    let (status, error) = compile(&[&format!("--substitute={DOUBLE}={}", binary("add_dispatch_0"))]);
    assert!(status == Some(1) && error.contains("has no function 'double_dispatch_0"), "{error}");
    // Code that gets addresses does not say what it binds.
    let abi = "--iree-vulkan-dispatch-abi=bda";
    let (status, error) = compile(&[abi, "--iree-hal-dump-executable-binaries-to=a"]);
    assert_eq!(status, Some(0), "{error}");
    let (status, error) = compile(&[abi, "--substitute_from=a"]);
    assert!(status == Some(0) && error.contains("substituted with object file"), "{error}");
    let error = work.refused(&[&own]);
    assert!(error.contains("is SPIR-V, and the program is for 'embedded-elf"), "{error}");
    work.write("k.c", "void k() {}");
    let (status, error) = compile(&[&format!("--substitute={DOUBLE}=k.c")]);
    assert!(status == Some(1) && error.contains("is for CPUs, and the program is for 'vulkan"), "{error}");
}

#[test]
fn programs_run_from_their_source() {
    let work = Work::new();
    assert_eq!(work.results("p.mlir"), ["2", "3xf32=3 3 3"]);
    let flags = [
        "--compiler_flag=--iree-hal-target-device=local",
        "--compiler_flag=--iree-hal-local-target-device-backends=vmvx",
    ];
    let words =
        ["iree-run-module", "--module=p.mlir", "--function=add", "--input=3xf32=1", "--input=3xf32=2"];
    let ran = work.run(&[&words[..], &flags].concat());
    assert!(ran.status == Some(0) && ran.stdout.ends_with("3xf32=3 3 3\n"), "{ran:?}");
    work.write("p.mlir", "func.func @f( {");
    let ran = work.run(&["iree-run-module", "--module=p.mlir", "--function=f"]);
    assert!(ran.status == Some(1) && ran.stderr.contains("p.mlir:1:"), "{ran:?}");
}

#[test]
fn dumped_dispatches_replace_captured_executables() {
    let work = Work::new();
    work.compile(&["--iree-hal-dump-executable-sources-to=s"]);
    let record = [
        "iree-run-module",
        "--device=local-sync",
        "--module=p.vmfb",
        "--function=double",
        "--input=4x8xf32=3",
    ];
    let ran = work.run(&[&record[..], &["--device_replay_output=c.ireereplay"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    work.edited("s", "", "arith.addf %in, %in : f32", "arith.mulf %in, %in : f32");
    let function = fs::read_to_string(work.path("edited.mlir")).unwrap();
    let at =
        function.find("hal.executable.export public @").unwrap() + "hal.executable.export public @".len();
    let function = function[at..].split(' ').next().unwrap();
    let reads = |flag: &str| {
        let words = ["rehal", "run", "--device=local-sync", "--replay_host_reads=-", "c.ireereplay"];
        let ran = work.run(&[&words[..], &[flag]].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let captured = reads("--recover=false");
    let replaced = reads(&format!("--replay_executable_substitution={function}=edited.mlir"));
    assert_ne!(replaced, captured);
    // By every name of the dispatch, and from a directory by that of its file.
    let file = format!("my_{DOUBLE}.mlir");
    for name in [DOUBLE, "my_double_dispatch_0", "configured_my_double_dispatch_0", "4"] {
        let flag = format!("--replay_executable_substitution={name}=edited.mlir");
        assert_eq!(reads(&flag), replaced, "{name}");
    }
    fs::create_dir(work.path("d")).unwrap();
    fs::rename(work.path("edited.mlir"), work.path("d").join(&file)).unwrap();
    fs::copy(work.path("s/my_add_dispatch_0.mlir"), work.path("d/my_add_dispatch_9.mlir")).unwrap();
    fs::write(work.path("d/notes.txt"), "").unwrap();
    assert_eq!(reads("--replay_executable_substitution=all=d"), replaced);
    let words = ["rehal", "run", "--device=local-sync", "c.ireereplay"];
    let run = |flag: &str| work.run(&[&words[..], &[flag]].concat());
    let ran = run("--replay_executable_substitution=all=d");
    assert!(ran.stderr.contains("my_add_dispatch_9.mlir' has the name of no executable"), "{}", ran.stderr);
    let unknown = format!("--replay_executable_substitution=double_dispatch_1=d/{file}");
    let ran = run(&unknown);
    assert!(ran.status == Some(1) && ran.stderr.contains("did you mean double_dispatch_0"), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches(function).count(), 1, "{}", ran.stderr);
    // It is found before anything is compiled.
    let ran = work.run(&[&words[..], &[&unknown, "--compiler=nothing"]].concat());
    assert!(ran.stderr.contains("did you mean double_dispatch_0"), "{}", ran.stderr);
    fs::copy(work.path("d").join(&file), work.path("d/double_dispatch_0.mlir")).unwrap();
    let ran = run("--replay_executable_substitution=all=d");
    let both = "is substituted twice: by 'd/double_dispatch_0.mlir' and by 'd/my_double_dispatch_0.mlir'";
    assert!(ran.status == Some(1) && ran.stderr.contains(both), "{}", ran.stderr);
    fs::remove_file(work.path("d/double_dispatch_0.mlir")).unwrap();
    // The same in the program, and in its module.
    let results = |flags: &[&str]| {
        let words = ["iree-run-module", "--device=local-sync", "--function=double", "--input=4x8xf32=3"];
        let ran = work.run(&[&words[..], flags].concat());
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let nine = |flags: &[&str]| results(flags).contains("[9 9 9 9 9 9 9 9]");
    assert!(!nine(&["--module=p.vmfb"]));
    for name in [DOUBLE, "my_double_dispatch_0", function, "all"] {
        let file = if name == "all" { "d".to_owned() } else { format!("d/{file}") };
        let flag = format!("--executable_substitution={name}={file}");
        assert!(nine(&["--module=p.vmfb", &flag]), "{flag}");
    }
    let flag = format!("--executable_substitution=double_dispatch_1=d/{file}");
    let ran = work.run(&["iree-run-module", "--module=p.vmfb", "--function=double", &flag]);
    assert!(ran.status == Some(1) && ran.stderr.contains("did you mean double_dispatch_0"), "{}", ran.stderr);
    let unknown = format!("--executable=double_dispatch_1=d/{file}");
    let ran = work.run(&["rehal", "substitute", "p.vmfb", &unknown, "-o", "new.vmfb", "--compiler=nothing"]);
    assert!(ran.status == Some(1) && ran.stderr.contains("did you mean double_dispatch_0"), "{}", ran.stderr);
    work.compile(&["--iree-hal-link-executables=false"]);
    // An executable with one function has the name of its dispatch.
    let ran = work.run(&[&record[..], &["--device_replay_output=unlinked.ireereplay"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let all = "--replay_executable_substitution=all=d";
    let ran = work.run(&["rehal", "run", "--device=local-sync", "unlinked.ireereplay", all]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let flag = format!("--executable=my_double_dispatch_0=d/{file}");
    let ran = work.run(&["rehal", "substitute", "p.vmfb", &flag, "-o", "new.vmfb"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains("workgroups"), "{}", ran.stderr);
    assert!(nine(&["--module=new.vmfb"]));
    let ran = run(&format!("--replay_executable_substitution={function}=p.mlir"));
    assert!(
        ran.status == Some(1) && ran.stderr.contains("has 0 executables, not one dispatch"),
        "{}",
        ran.stderr
    );
}

/// A program dispatches a variant with the workgroups that it needs. A module keeps its own.
#[test]
fn workgroup_counts_of_variants_are_applied_or_refused() {
    let work = Work::new();
    work.compile(&["--iree-hal-link-executables=false", "--iree-hal-dump-executable-configurations-to=c"]);
    let program = ["iree-run-module", "--module=p.vmfb", "--function=double", "--input=4x8xf32=3"];
    let expected = work.run(&program).stdout;
    assert!(expected.contains("[6 6 6 6 6 6 6 6]"), "{expected}");
    for tile in ["32", "8"] {
        work.edited("c", "configured_", "distribution = [32]", &format!("distribution = [{tile}]"));
        let [in_program, in_module] =
            ["executable_substitution", "executable"].map(|it| format!("--{it}={DOUBLE}=edited.mlir"));
        let ran = work.run(&[&program[..], &[&in_program]].concat());
        assert_eq!((&ran.stdout, ran.stderr.contains("workgroups")), (&expected, false), "{}", ran.stderr);
        let ran = work.run(&["rehal", "substitute", "p.vmfb", "-o", &format!("{tile}.vmfb"), &in_module]);
        match tile {
            "32" => assert!(ran.status == Some(0) && !ran.stderr.contains("workgroups"), "{}", ran.stderr),
            _ => {
                let message = "'edited.mlir' needs 4x1x1 workgroups for 'double_dispatch_0_elementwise_32_f32', and \
                               the module dispatches 1x1x1";
                assert!(ran.status == Some(1) && ran.stderr.contains(message), "{}", ran.stderr);
                assert!(!work.path("8.vmfb").exists());
            }
        }
    }
}

/// They would access other memory, or have no code.
#[test]
fn sources_that_cannot_be_called_are_refused_before_they_are_compiled() {
    let work = Work::new();
    work.compile(&["--iree-hal-dump-executable-sources-to=s", "--iree-hal-link-executables=false"]);
    let program = ["iree-run-module", "--module=p.vmfb", "--function=double", "--input=4x8xf32=3"];
    let ran = work.run(&[&program[..], &["--device_replay_output=c.ireereplay"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let text = fs::read_to_string(work.path("s").join(format!("my_{DOUBLE}.mlir"))).unwrap();
    // What a comment accesses does not count.
    let commented = text.lines().map(|line| match line.contains("binding.subspan") {
        true => format!("{line}\n// {}\n", line.replace("32xf32", "33xf32")),
        false => format!("{line} // }}\n"),
    });
    work.write("commented.mlir", &commented.collect::<String>());
    let flag = format!("--executable_substitution={DOUBLE}=commented.mlir");
    let ran = work.run(&[&program[..], &[&flag]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    work.write("larger.mlir", &text.replace("32xf32", "33xf32").replace("sizes = [32]", "sizes = [33]"));
    work.write("shifted.mlir", &text.replace("arith.constant 0 : index", "arith.constant 64 : index"));
    work.write("renamed.mlir", &text.replace("func.func @", "func.func @inner"));
    for (file, message) in [
        ("larger.mlir", "of 'larger.mlir' accesses 132 bytes of binding 0, of which 128 are bound"),
        ("shifted.mlir", "of 'shifted.mlir' accesses 192 bytes of binding 0, of which 128 are bound"),
        ("renamed.mlir", "and defines 'innerdouble_dispatch_0"),
    ] {
        let flag = |name: &str| format!("--{name}={DOUBLE}={file}");
        for words in [
            [&program[..], &[&flag("executable_substitution")]].concat(),
            vec!["rehal", "substitute", "p.vmfb", "-o", "new.vmfb", &flag("executable")],
            vec!["rehal", "run", "c.ireereplay", &flag("replay_executable_substitution")],
            vec!["rehal", "verify", "c.ireereplay", &flag("replay_executable_substitution")],
        ] {
            let ran = work.run(&[&words[..], &["--compiler=nothing"]].concat());
            assert!(ran.status == Some(1) && ran.stderr.contains(message), "{words:?}: {}", ran.stderr);
        }
    }
    let ran = work.run(&["rehal", "compare", "c.ireereplay", "--with=renamed.mlir", "--compiler=nothing"]);
    assert!(ran.status != Some(0) && ran.stderr.contains("and defines 'inner"), "{}", ran.stderr);
}

#[test]
fn dispatches_replace_functions_of_a_linked_module() {
    let work = Work::new();
    work.compile(&["--iree-hal-dump-executable-sources-to=s"]);
    let edited = work.edited("s", "", "arith.addf", "arith.mulf").replace("--substitute", "--executable");
    for (flag, results) in [
        ("--executable=all=s", ["2", "3xf32=3 3 3"]),
        (&edited, ["1", "3xf32=3 3 3"]),
        ("--executable=my_add_dispatch_0=s/my_add_dispatch_0.mlir", ["2", "3xf32=3 3 3"]),
    ] {
        let ran = work.run(&["rehal", "substitute", "p.vmfb", "-o", "new.vmfb", flag]);
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert_eq!(work.results("new.vmfb"), results, "{flag}");
    }
    let words = ["iree-run-module", "--module=p.vmfb", "--function=double", "--input=4x8xf32=3"];
    let ran = work.run(&[&words[..], &["--executable_substitution=all=s"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
}

/// Files that are written of a program, a module or a capture have other names in the others.
#[test]
fn binaries_replace_executables_wherever_they_are_from() {
    let work = Work::new();
    // Binaries do not say it.
    let same = "--workgroup_count=same";
    let succeed = |words: &[&str]| {
        let ran = work.run(words);
        assert_eq!(ran.status, Some(0), "{words:?}: {}", ran.stderr);
        ran
    };
    let call = ["iree-run-module", "--device=local-sync", "--function=double", "--input=4x8xf32=3"];
    for linked in ["--iree-hal-link-executables", "--iree-hal-link-executables=false"] {
        work.compile(&[linked]);
        let program = [&call[..], &["--module=p.vmfb"]].concat();
        let record = [&program[..], &["--device_replay_output=c.ireereplay"]].concat();
        succeed(&record);
        // Of another function, so that what is replaced is seen.
        let other = TWO_FUNCTIONS.replace("arith.addf %a, %a", "arith.mulf %a, %a");
        work.write("o.mlir", &other);
        succeed(&[
            "rehal",
            "compile",
            "--target=cpu",
            linked,
            "o.mlir",
            "-o",
            "o.vmfb",
            "--iree-hal-dump-executable-binaries-to=program",
        ]);
        let other = ["--module=o.vmfb", "--device_replay_output=o.ireereplay"];
        succeed(&[&call[..], &other].concat());
        for (of, to) in [("o.vmfb", "--binaries_to=module"), ("o.ireereplay", "--binaries_to=capture")] {
            succeed(&["rehal", "executables", of, to]);
        }
        for from in ["program", "module", "capture"] {
            let all = format!("--executable_substitution=all={from}");
            let ran = work.run(&[&program[..], &[&all]].concat());
            let is_refused = ran.stderr.contains("its workgroup count is not known");
            assert!(ran.status == Some(1) && is_refused, "{linked} {from}: {}", ran.stderr);
            let ran = succeed(&[&program[..], &[&all, same]].concat());
            assert!(ran.stdout.contains("[9 9 9 9 9 9 9 9]"), "{linked} {from}: {}", ran.stdout);
            let all = format!("--replay_executable_substitution=all={from}");
            let reads = ["rehal", "run", "--device=local-sync", "--replay_host_reads=-", "c.ireereplay"];
            let ran = succeed(&[&reads[..], &[&all, same]].concat());
            let captured = succeed(&reads);
            assert_ne!(ran.stdout, captured.stdout, "{linked} {from}");
            let all = format!("--executable=all={from}");
            succeed(&["rehal", "substitute", "p.vmfb", &all, same, "-o", "new.vmfb"]);
            let ran = succeed(&[&call[..], &["--module=new.vmfb"]].concat());
            assert!(ran.stdout.contains("[9 9 9 9 9 9 9 9]"), "{linked} {from}: {}", ran.stdout);
            fs::remove_dir_all(work.path(from)).unwrap();
        }
    }
    // Of a program with an executable for each dispatch, in one that has both functions in one executable.
    succeed(&["rehal", "executables", "o.vmfb", "--binaries_to=single"]);
    work.compile(&[]);
    let ran =
        succeed(&[&call[..], &["--module=p.vmfb", "--executable_substitution=all=single", same]].concat());
    assert!(ran.stdout.contains("[9 9 9 9 9 9 9 9]"), "{}", ran.stdout);
    let of_double = names(&work.path("single")).into_iter().find(|it| it.contains(DOUBLE)).unwrap();
    let program = [&call[..], &["--module=p.vmfb"]].concat();
    succeed(&[&program[..], &["--device_replay_output=c.ireereplay"]].concat());
    let place = format!("substitute 'single/{of_double}' for executable ");
    for words in [
        &[&program[..], &[&format!("--executable_substitution=1=single/{of_double}")]].concat()[..],
        &["rehal", "run", "c.ireereplay", &format!("--replay_executable_substitution=4=single/{of_double}")],
        &["rehal", "substitute", "p.vmfb", "-o", "new.vmfb", &format!("--executable=1=single/{of_double}")],
    ] {
        let ran = work.run(words);
        assert_eq!(ran.status, Some(1), "{words:?}");
        let lacks = ran.stderr.contains("it lacks function 'add_dispatch_0_") && ran.stderr.contains(&place);
        assert!(lacks, "{words:?}: {}", ran.stderr);
    }
}

pub(crate) fn print_executables(module: &Path) -> String {
    let ran = ran(command("rehal").arg("executables").arg(module).output().unwrap());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    ran.stdout
}

#[test]
fn flags_of_the_compiler_work_wherever_a_source_is_compiled() {
    let work = Work::new();
    work.compile(&["--iree-hal-dump-executable-sources-to=s"]);
    let record = ["iree-run-module", "--device=local-sync", "--module=p.vmfb", "--function=double"];
    let ran =
        work.run(&[&record[..], &["--input=4x8xf32=3", "--device_replay_output=c.ireereplay"]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let file = format!("s/my_{DOUBLE}.mlir");
    let [in_replay, in_program, with, named] = [
        format!("--replay_executable_substitution={DOUBLE}={file}"),
        format!("--executable_substitution={DOUBLE}={file}"),
        format!("--with={file}"),
        format!("--with={DOUBLE}={file}"),
    ];
    let in_module = format!("--executable=1={file}");
    let tools: [&[&str]; 11] = [
        &["rehal", "compile", "p.mlir", "-o", "x.vmfb"],
        &["rehal", "executables", "p.mlir"],
        &["rehal", "substitute", "p.vmfb", &in_module, "-o", "x.vmfb"],
        &["iree-run-module", "--module=p.mlir", "--function=double"],
        &["iree-benchmark-module", "--module=p.mlir", "--function=double"],
        &["iree-check-module", "--module=p.mlir"],
        &["iree-run-module", "--module=p.vmfb", "--function=double", &in_program],
        &["rehal", "run", "c.ireereplay", &in_replay],
        &["rehal", "benchmark", "c.ireereplay", &named],
        &["rehal", "verify", "c.ireereplay", &in_replay],
        &["rehal", "compare", "c.ireereplay", &with],
    ];
    for words in tools {
        let ran = work.run(&[words, &["--compiler=nothing"]].concat());
        assert!(ran.status != Some(0), "{words:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("the compiler 'nothing' does not exist"), "{words:?}: {said}");
        let ran = work.run(
            &[words, &["--no_cache", "--compiler_timeout=1ms", "--compiler_memory=8000000000"]].concat(),
        );
        assert!(ran.status != Some(0), "{words:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains("DEADLINE_EXCEEDED"), "{words:?}: {said}");
    }
}

#[test]
fn executables_of_sources_are_dumped_with_an_index() {
    let work = Work::new();
    let flags = ["sources", "configurations", "benchmarks", "binaries"].map(|it| format!("--{it}_to={it}"));
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let ran = work.run(&[&["rehal", "executables", "--target=cpu", "p.mlir"], &flags[..]].concat());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("add_dispatch_0") && ran.stdout.contains(DOUBLE), "{}", ran.stdout);
    for (directory, files) in [
        ("sources", ["my_add_dispatch_0.mlir", "my_double_dispatch_0.mlir"]),
        ("configurations", ["configured_my_add_dispatch_0.mlir", "configured_my_double_dispatch_0.mlir"]),
        // The compiler writes none for dynamic shapes.
        ("benchmarks", ["", "my_double_dispatch_0_embedded_elf_x86_64_benchmark.mlir"]),
        (
            "binaries",
            ["my_add_dispatch_0_embedded_elf_x86_64.so", "my_double_dispatch_0_embedded_elf_x86_64.so"],
        ),
    ] {
        let text = fs::read_to_string(work.path(directory).join("index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_str(&text).unwrap();
        let of = |name: &str| {
            let rows = index["executables"].as_array().unwrap();
            rows.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{text}")).clone()
        };
        for (row, file) in [of("add_dispatch_0"), of(DOUBLE)].iter().zip(files) {
            assert_eq!(row["format"], "embedded-elf-x86_64");
            let found: Vec<_> =
                row["files"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
            let expected: Vec<_> = [file].into_iter().filter(|it| !it.is_empty()).collect();
            assert_eq!(found, expected, "{text}");
            assert!(found.iter().all(|it| work.path(directory).join(it).is_file()));
            assert!(row["target"].as_str().unwrap().contains("llvm-cpu"), "{text}");
        }
        let function = |row: serde_json::Value| row["functions"][0].clone();
        let (add, double) = (function(of("add_dispatch_0")), function(of(DOUBLE)));
        assert_eq!(add["bindings"].as_array().unwrap().len(), 3, "{text}");
        assert_eq!((double["ordinal"].as_u64(), double["constants"].as_u64()), (Some(0), Some(0)));
        assert_ne!(add["constants"].as_u64(), Some(0), "{text}");
    }
    // Binaries for Vulkan have the names of functions.
    let ran = work.run(&["rehal", "executables", "--target=vulkan", "p.mlir", "--binaries_to=spirv"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    let index = fs::read_to_string(work.path("spirv/index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    for row in index["executables"].as_array().unwrap() {
        let (name, function) = (&row["name"], &row["functions"][0]["name"]);
        let file = format!("my_{}_{}.spv", name.as_str().unwrap(), function.as_str().unwrap());
        assert_eq!(row["files"], serde_json::json!([file]));
    }
    // What was dumped is what substitutes are edited from.
    let flag = work.edited("sources", "", "arith.addf", "arith.mulf");
    work.compile(&[&flag]);
    assert_eq!(work.results("p.vmfb")[0], "1");
    // The compiler takes the index for a substitute too.
    let messages = work.compile(&["--iree-hal-substitute-executable-sources-from=sources"]);
    assert!(messages.contains("substituted") && !messages.contains("WARNING"), "{messages}");
    // A listing alone writes nothing; directories that hold other files keep these out of the index.
    work.write("sources/my_add_dispatch_0_old.mlir", "");
    let ran = work.run(&["rehal", "executables", "p.mlir", "--sources_to=sources"]);
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(!fs::read_to_string(work.path("sources/index.json")).unwrap().contains("_old"));
    assert_eq!(names(&work.temporary()), [""; 0]);
}

#[test]
fn sources_of_executables_need_the_programs_source() {
    let work = Work::new();
    work.compile(&[]);
    for flag in ["sources_to", "configurations_to", "benchmarks_to"] {
        let ran = work.run(&["rehal", "executables", "p.vmfb", &format!("--{flag}=d")]);
        let expected = format!("--{flag} needs the program's source: 'p.vmfb' has no ");
        assert!(ran.status == Some(1) && ran.stderr.contains(&expected), "{ran:?}");
        assert!(!work.path("d").exists());
    }
    work.write("wrong.mlir", "func.func @f( {");
    let ran = work.run(&["rehal", "executables", "wrong.mlir", "--sources_to=d"]);
    assert!(ran.status == Some(1) && ran.stderr.contains("wrong.mlir:1:"), "{ran:?}");
    assert!(!work.path("d").exists());
}
