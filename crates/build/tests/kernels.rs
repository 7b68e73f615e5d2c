//! Kernels as source files: stubs of invented functions, and what compilers do with sources.

use std::fs;
use std::path::{Path, PathBuf};

use rehal_base::StatusCode;
use rehal_build::{
    CompilerOptions, KernelDialect, KernelLanguage, ObservedBinding, ObservedKernel, ObservedShape,
    build_kernel, build_substitutes,
};
use rehal_hal::{FunctionInfo, FunctionParameter};
use rehal_judge::Interval;
use rehal_local::executable::link::ElfLibrary;
use rehal_replay::{Code, ResolvedSubstitutions, Substitution};

const LANGUAGES: [KernelLanguage; 2] = [KernelLanguage::C, KernelLanguage::Rust];

fn function(name: &str) -> FunctionInfo {
    FunctionInfo { name: name.into(), workgroup_size: [1, 1, 1], ..FunctionInfo::default() }
}

fn stub(function: FunctionInfo, language: KernelLanguage) -> rehal_base::Result<String> {
    let file = format!("kernel.{}", language.extension());
    ObservedKernel::new(vec![4], "embedded-elf-x86_64", function).stub(
        language,
        file.as_ref(),
        "a.ireereplay".as_ref(),
    )
}

/// A directory with a source file.
fn source(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    (directory, path)
}

fn with_compiler(compiler: &str) -> CompilerOptions {
    let mut options = CompilerOptions::default();
    options.compiler = Some(compiler.into());
    options
}

#[test]
fn functions_of_any_shape_and_name_compile() {
    let parameter = FunctionParameter { kind: 1, size: 8, flags: 3, offset: 2, name: String::new() };
    let most = FunctionInfo {
        flags: 3,
        constant_count: 64,
        binding_count: 64,
        workgroup_size: [u32::MAX, u32::MAX, 65535],
        parameter_count: 2,
        parameters: vec![parameter.clone(), parameter],
        ..function("most_f64")
    };
    let functions = [
        function("nothing"),
        most,
        function("*/ \"; #error \\"),
        function("two\nlines // \\\n#error ??/\n#error"),
        function("@NAME@ @OBSERVED@ \u{e9}\u{1f600} {} %s ${HOME} `id`"),
    ];
    for language in LANGUAGES {
        for function in &functions {
            let text = stub(function.clone(), language).unwrap();
            let (_directory, path) = source(&format!("kernel.{}", language.extension()), &text);
            let built = build_kernel(&path, &CompilerOptions::default());
            let built = built.unwrap_or_else(|error| panic!("{error:?}\n{text}"));
            assert_eq!(built.messages, "", "{text}");
            // The library has the exact name.
            let name = function.name.as_bytes();
            assert!(built.bytes.windows(name.len()).any(|bytes| bytes == name), "{:?}", function.name);
        }
    }
}

#[test]
fn functions_that_no_library_can_have_are_refused() {
    for (function, words) in [
        (
            function(""),
            "version 1.0, which 3.12.0rc20260429 to 3.12.0rc20260519 wrote, do not name functions",
        ),
        (function("a\0b"), "NUL"),
        (FunctionInfo { constant_count: 65, ..function("f") }, "more than 64"),
        (FunctionInfo { binding_count: 65, ..function("f") }, "more than 64"),
        (FunctionInfo { workgroup_size: [1, 1, 65536], ..function("f") }, "65536, has more than 16 bits"),
        (FunctionInfo { flags: 4, ..function("f") }, "its flags are 0x4"),
    ] {
        for language in LANGUAGES {
            let error = stub(function.clone(), language).unwrap_err();
            assert_eq!(error.code(), StatusCode::Unimplemented);
            assert!(error.message().contains(words), "{error}");
        }
    }
}

fn shape(constants: &[u32], bindings: &[(u64, Option<u32>, Option<bool>)]) -> ObservedShape {
    let mut shape = ObservedShape::default();
    (shape.count, shape.record, shape.time_ns) = (3, 57, Some(4500));
    shape.workgroup_count = Some([2, 3, 4]);
    shape.constants = constants.to_vec();
    let binding = |(length, alias_of, is_written): &(u64, Option<u32>, Option<bool>)| {
        let mut binding = ObservedBinding::default();
        (binding.length, binding.alias_of, binding.is_written) = (*length, *alias_of, *is_written);
        binding
    };
    shape.bindings = bindings.iter().map(binding).collect();
    shape
}

#[test]
fn what_was_observed_is_said() {
    let info = FunctionInfo { constant_count: 1, binding_count: 2, ..function("scale_f32") };
    let mut kernel = ObservedKernel::new(vec![4, 9], "embedded-elf-x86_64", info);
    kernel.shapes = vec![
        shape(&[7], &[(16, None, Some(false)), (16, None, Some(true))]),
        shape(&[8], &[(32, None, Some(false)), (16, None, Some(false))]),
    ];
    kernel.shapes[1].sample_count = 9;
    kernel.shapes[1].interval_ns = Some(Interval { low: 3000.0, high: 6000.0 });
    let text = |kernel: &ObservedKernel| {
        kernel.stub(KernelLanguage::C, "k.c".as_ref(), "a b.ireereplay".as_ref()).unwrap()
    };
    let c = text(&kernel);
    // Of which shape took longer differs from one run to the next, values do not.
    let declarations = |text: &str| {
        let lines = text.lines().filter(|it| it.contains("= dispatch->")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let mut other = kernel.clone();
    other.shapes.reverse();
    assert_eq!(declarations(&text(&other)), declarations(&c));
    for line in [
        "//   rehal kernel build k.c -o kernel.so",
        // A name that a shell would split is left to the reader.
        "//   iree-run-replay --replay_executable_substitution=scale_f32=k.c CAPTURE.ireereplay",
        "// Observed: 6 dispatches of executables 4 or 9 (embedded-elf-x86_64), in 2 shapes, those that took longest first.",
        "// 1. 3 dispatches of 1.50 us in one replay, the first of record #57: 2 x 3 x 4 workgroups; constants 7 (0x7); bytes 16, 16",
        "// 2. 3 dispatches of 1.50 us (lower quartile of 9 replays, 95 % interval 1.00 us to 2.00 us), the first of record #57: 2 x 3 x 4 workgroups; constants 8 (0x8); bytes 32, 16",
        "// No bindings of a dispatch overlap.",
        "  const float *restrict binding_0 = dispatch->bindings[0];  // 16 or 32 bytes, unchanged",
        "  float *restrict binding_1 = dispatch->bindings[1];  // 16 bytes, changed",
        "  const uint32_t constant_0 = dispatch->constants[0];  // 7 or 8",
        "  const uint64_t item_count = length_1 / sizeof(*binding_1);",
    ] {
        assert!(c.lines().any(|it| it == line), "'{line}' is not in:\n{c}");
    }
    kernel.shapes[1].bindings[1].alias_of = Some(0);
    kernel.shapes[1].bindings[0].is_written = None;
    let c = text(&kernel);
    assert!(!c.contains("restrict binding") && c.contains("Some bindings overlap"), "{c}");
    assert!(c.contains("  float *binding_0 = dispatch->bindings[0];  // 16 or 32 bytes\n"), "{c}");
    kernel.shapes =
        (0..100).map(|constant| shape(&[constant], &[(1, None, None), (1, None, None)])).collect();
    let c = text(&kernel);
    assert!(c.contains("// and 76 more:") && c.contains("// 0, 1, 2, 3, 4, 5, 6, 7 or others"), "{c}");
}

#[test]
fn the_message_of_the_compiler_is_passed_on() {
    for (name, text, words) in [
        ("kernel.c", "int f(void) { return nothing_here; }", "nothing_here"),
        ("kernel.rs", "fn f() { nothing_here }", "nothing_here"),
        ("kernel.c", "#error the reason", "the reason"),
    ] {
        let (directory, path) = source(name, text);
        let error = build_kernel(&path, &CompilerOptions::default()).unwrap_err();
        assert_eq!(error.code(), StatusCode::InvalidArgument);
        let (first, rest) = error.message().split_once('\n').unwrap();
        assert!(first.contains(&format!("'{}' does not compile", path.display())), "{first}");
        assert!(rest.contains(words), "{rest}");
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            1,
            "nothing is written next to the source"
        );
    }
    // Warnings of a source that compiles.
    let (_directory, path) = source("kernel.c", "#warning a warning\n");
    assert!(build_kernel(&path, &CompilerOptions::default()).unwrap().messages.contains("a warning"));
}

#[test]
fn compilers_and_sources_that_do_not_exist_are_errors() {
    let (directory, path) = source("kernel.c", "");
    let error = build_kernel(&path, &with_compiler("no-such-compiler -x")).unwrap_err();
    assert_eq!(error.code(), StatusCode::Unavailable);
    assert!(error.message().contains("starting the compiler 'no-such-compiler'"), "{error}");
    assert!(error.report().contains("CC=PATH"), "{error:?}");
    let error = build_kernel(&path, &with_compiler(" ")).unwrap_err();
    assert!(error.message().contains("CC names no compiler"), "{error}");
    // One that succeeds without a result.
    let error = build_kernel(&path, &with_compiler("true")).unwrap_err();
    assert!(error.message().contains("which true should have written"), "{error}");
    let error = build_kernel(&directory.path().join("missing.c"), &CompilerOptions::default()).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    let error = build_kernel(Path::new("kernel.cpp"), &CompilerOptions::default()).unwrap_err();
    assert!(error.message().contains("'kernel.cpp' is not the source of a kernel"), "{error}");
    let directory_path = directory.path().join("directory_path.rs");
    fs::create_dir(&directory_path).unwrap();
    let error = build_kernel(&directory_path, &CompilerOptions::default()).unwrap_err();
    assert!(error.message().contains("is not a regular file"), "{error}");
}

#[test]
fn flags_follow_those_that_are_always_passed() {
    let (_directory, path) = source("-kernel.c", "#ifndef MINE\n#error without a flag\n#endif\n");
    assert!(build_kernel(&path, &CompilerOptions::default()).is_err());
    let mut options = CompilerOptions::default();
    options.flags = vec!["-DMINE=1".into(), "-O0".into()];
    build_kernel(&path, &options).unwrap();
    // A launcher, and a flag in the command.
    build_kernel(&path, &with_compiler("env cc -DMINE")).unwrap();
}

#[test]
fn substitutions_of_sources_become_libraries() {
    let (_directory, path) = source("kernel.c", "#warning a warning\nint f(void) { return 1; }\n");
    let parse = |text: String| Substitution::parse(&text).unwrap();
    let mut substitutions = vec![
        parse(format!("f={}", path.display())),
        parse(format!("g@embedded-elf-x86_64={}", path.display())),
        parse("4=other.so".into()),
    ];
    let mut printed = Vec::new();
    let print = |path: &Path, text: &str| printed.push((path.to_owned(), text.to_owned()));
    build_substitutes(&mut substitutions, &CompilerOptions::default(), print).unwrap();
    assert_eq!(printed.len(), 2);
    assert!(printed[0].0 == path && printed[0].1.contains("a warning"));
    let [first, second, other] = &substitutions[..] else { unreachable!() };
    let Code::Bytes(bytes) = &first.replacement.code else { panic!("{first:?}") };
    assert!(bytes.starts_with(b"\x7FELF"));
    assert!(first.replacement.keeps_missing);
    assert_eq!(first.replacement.format.as_deref(), Some("system-elf-x86_64"));
    assert_eq!(first.replacement.name.as_deref(), path.to_str());
    assert_eq!(second.replacement.format.as_deref(), Some("embedded-elf-x86_64"));
    assert_eq!(*other, parse("4=other.so".into()));
    fs::write(&path, "#error no").unwrap();
    let mut substitutions = [parse(format!("f={}", path.display()))];
    let error = build_substitutes(&mut substitutions, &CompilerOptions::default(), |_, _| ()).unwrap_err();
    assert!(error.report().contains("the substitute for function or executable 'f'"), "{error:?}");
}

/// A stub in Rust divides, and so may panic: what it needs for that is in its code.
#[test]
fn rust_goes_into_an_image_without_libraries() {
    let mut resolved = ResolvedSubstitutions::default();
    let info = FunctionInfo { binding_count: 1, ..function("f") };
    resolved.add_functions(3, "embedded-elf-x86_64", std::slice::from_ref(&info), 0);
    let kernel = ObservedKernel::new(vec![3], "embedded-elf-x86_64", info);
    let stub = kernel.stub(KernelLanguage::Rust, "k.rs".as_ref(), "a.ireereplay".as_ref()).unwrap();
    let (_directory, path) = source("k.rs", &stub);
    let mut options = CompilerOptions::default();
    options.functions = resolved.functions;
    options.is_for_module = true;
    let built = build_kernel(&path, &options).unwrap();
    assert_eq!(ElfLibrary::read(&built.bytes).unwrap().functions[0].name, "f");
    assert!(rehal_local::executable::elf::Image::parse(&built.bytes).is_ok());
}

/// The definitions in a source decide what is made of it.
#[test]
fn plain_functions_become_libraries() {
    let mut resolved = ResolvedSubstitutions::default();
    let info = |name: &str, constants| FunctionInfo {
        name: name.into(),
        constant_count: constants,
        binding_count: 2,
        workgroup_size: [1; 3],
        ..function(name)
    };
    resolved.add_functions(3, "embedded-elf-x86_64", &[info("f", 1), info("g", 0)], 2);
    let mut options = CompilerOptions::default();
    options.functions = resolved.functions;
    let build = |text: &str, options: &CompilerOptions| {
        let (directory, path) = source("kernel.c", text);
        let built = build_kernel(&path, options);
        (directory, path, built)
    };
    let both = "#include <string.h>\nvoid f(const float *a, float *b, unsigned n) { memcpy(b, a, n); }\n\
                void g_kernel(float *a, float *b) { b[0] = a[0]; }\n";
    for is_for_module in [false, true] {
        options.is_for_module = is_for_module;
        let (_directory, _, built) = build(both, &options);
        let built = built.unwrap();
        assert_eq!(built.called_once, ["f", "g"]);
        assert_eq!(KernelDialect::of(&built.bytes).unwrap(), KernelDialect::Library);
        let library = ElfLibrary::read(&built.bytes).unwrap();
        let shapes: Vec<_> =
            library.functions.iter().map(|it| (it.name.as_str(), it.constant_count)).collect();
        assert_eq!((shapes, library.constant_count), (vec![("f", 1), ("g", 0)], 2));
        // Without libraries, since it can be a part of an embedded image.
        assert!(rehal_local::executable::elf::Image::parse(&built.bytes).is_ok());
        let with = both.replace("b[0] = a[0]", "b[0] = __builtin_erff(a[0])");
        let built = build(&with, &options).2.unwrap();
        assert!(rehal_local::executable::elf::Image::parse(&built.bytes).is_err());
        let is_linked = built.bytes.windows(9).any(|it| it == b"libm.so.6");
        assert_eq!(is_linked, !is_for_module);
    }
    // One of them, by any name if only that is meant.
    let (_directory, _, built) = build("void g(float *a, float *b) {}", &options);
    assert_eq!(built.unwrap().called_once, ["g"]);
    let error = build("void h(float *a, float *b) {}", &options).2.unwrap_err();
    assert!(error.message().contains("kernel.c' defines h, not f, g"), "{error}");
    assert!(
        error
            .report()
            .contains("define void f_kernel(void *binding_0, void *binding_1, uint32_t constant_0)")
    );
    options.functions.retain(|it| it.info.name == "g");
    let (_directory, _, built) = build("void h(float *a, float *b) {}", &options);
    assert_eq!(built.unwrap().called_once, ["g"]);
    let error = build("void h(float *a) {}", &options).2.unwrap_err();
    assert!(error.message().contains("kernel.c' has other parameters"), "{error}");
    let error = build("static int h;", &options).2.unwrap_err();
    assert!(error.message().contains("defines no function, not g"), "{error}");
    // A library stays what it is.
    let kernel = ObservedKernel::new(vec![3], "embedded-elf-x86_64", info("g", 0));
    let stub = kernel.stub(KernelLanguage::C, "k.c".as_ref(), "a.ireereplay".as_ref()).unwrap();
    let (directory, path, built) = build(&stub, &options);
    assert!(built.unwrap().called_once.is_empty());
    // Objects of both.
    let object = |path: &Path| {
        let object = directory.path().join("kernel.o");
        let mut cc = std::process::Command::new("cc");
        assert!(cc.args(["-c", "-fPIC", "-o"]).arg(&object).arg(path).status().unwrap().success());
        object
    };
    let library = object(&path);
    assert_eq!(KernelDialect::of(&fs::read(&library).unwrap()).unwrap(), KernelDialect::Library);
    assert!(build_kernel(&library, &options).unwrap().called_once.is_empty());
    fs::write(&path, "void h(float *a, float *b) {}").unwrap();
    let plain = object(&path);
    let defined = KernelDialect::Functions(vec!["h".into()]);
    assert_eq!(KernelDialect::of(&fs::read(&plain).unwrap()).unwrap(), defined);
    assert_eq!(build_kernel(&plain, &options).unwrap().called_once, ["g"]);
}

#[test]
fn flags_must_leave_the_compiler_write_a_library() {
    let (_directory, path) = source("kernel.c", "int f(void) { return 1; }\n");
    for flag in ["-c", "-S", "-E"] {
        let mut options = CompilerOptions::default();
        options.flags = vec![flag.into()];
        let error = build_kernel(&path, &options).unwrap_err();
        assert!(error.message().contains("is not a shared library"), "{flag}: {error}");
        assert!(error.report().contains("leave out flags"), "{error:?}");
    }
}

/// A compiler that is a shell script.
fn script(directory: &Path, text: &str) -> CompilerOptions {
    let path = directory.join("compiler");
    fs::write(&path, text).unwrap();
    with_compiler(&format!("sh {}", path.display()))
}

#[test]
fn messages_are_kept_up_to_a_limit() {
    let (directory, path) = source("kernel.c", "");
    let options = script(directory.path(), "echo first\nyes | head -c 10000000 >&2\nexit 3\n");
    let error = build_kernel(&path, &options).unwrap_err();
    assert!(error.message().contains("exit status: 3\nfirst\ny\n"), "{:.300}", error.message());
    assert!(error.message().len() < 70_000, "{}", error.message().len());
    assert!(error.message().ends_with("(9934470 more bytes of messages)"), "{}", error.message().len());
}

#[test]
fn what_a_compiler_leaves_behind_is_not_waited_for() {
    let (directory, path) = source("kernel.c", "");
    let [done, late] = ["done", "late"].map(|name| directory.path().join(name));
    // It ends when this test says so, or after a minute.
    let background = format!(
        "(for i in $(seq 600); do test -e {done} && exit; sleep 0.1; done; touch {late}) &\necho a message\nexit 3\n",
        done = done.display(),
        late = late.display()
    );
    let error = build_kernel(&path, &script(directory.path(), &background)).unwrap_err();
    assert!(!late.exists());
    fs::write(done, "").unwrap();
    assert!(error.message().ends_with("a message"), "{error}");
    // One that prints forever ends with the pipe.
    let error = build_kernel(&path, &script(directory.path(), "yes &\nexit 3\n")).unwrap_err();
    assert!(error.message().contains("exit status: 3"), "{:.300}", error.message());
}

#[test]
fn a_stub_names_the_executable_by_which_it_is_selected() {
    let mut kernel = ObservedKernel::new(vec![4], "embedded-elf-x86_64", function("f"));
    let line = |kernel: &ObservedKernel| {
        let text = kernel.stub(KernelLanguage::C, "k.c".as_ref(), "a.ireereplay".as_ref()).unwrap();
        text.lines().find(|line| line.contains("_substitution=")).unwrap().to_string()
    };
    assert!(line(&kernel).contains("_substitution=f=k.c "), "{}", line(&kernel));
    kernel.is_selected_by_id = true;
    assert!(line(&kernel).contains("_substitution=4=k.c "), "{}", line(&kernel));
}

#[test]
fn the_bytes_that_change_are_said() {
    let mut info = function("f");
    info.binding_count = 1;
    let mut kernel = ObservedKernel::new(vec![4], "embedded-elf-x86_64", info);
    for (offset, length) in [(64, 16), (128, 32)] {
        let mut binding = ObservedBinding::default();
        (binding.length, binding.is_written) = (256, Some(true));
        binding.changed = Some(rehal_base::Range { offset, length });
        let mut shape = ObservedShape::default();
        shape.bindings = vec![binding];
        kernel.shapes.push(shape);
    }
    let text = kernel.stub(KernelLanguage::C, "k.c".as_ref(), "a.ireereplay".as_ref()).unwrap();
    assert!(text.contains("// 256 bytes, bytes 64..160 changed\n"), "{text}");
}
