//! Compiles the source of a kernel with the system's compiler.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_hal::NeededWorkgroups;
use rehal_jobs::{Job, JobEnd, KeptOutput, Printed};
use rehal_replay::{CalledFunction, Code, Substitution};

use super::KernelLanguage;
use super::dialect::{self, KernelDialect, PlainCall};
use super::shortage::Shortage;
use rehal_jobs::TemporaryDirectory;

/// How kernels are compiled.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompilerOptions {
    /// The command, with arguments after spaces; `None` for `CC` or `RUSTC` in the environment, else `cc` or
    /// `rustc`.
    pub compiler: Option<OsString>,
    /// Arguments after those that are always passed, which they may override.
    pub flags: Vec<OsString>,
    /// The functions that a source may replace: plain functions are called as these are.
    pub functions: Vec<CalledFunction>,
    /// Whether the code becomes a part of a module: without libraries, if the functions are of an embedded
    /// ELF executable.
    pub is_for_module: bool,
}

impl CompilerOptions {
    /// Whether the code may become a part of an embedded ELF executable, which has no libraries. It is linked
    /// alike for a replay, so that it is measured where it will be.
    fn is_for_embedded(&self) -> bool {
        self.functions.iter().any(|it| it.format.starts_with("embedded-elf-"))
    }

    /// Whether the code may have the instructions of this machine.
    fn is_for_this_machine(&self) -> bool {
        let own = system_format();
        let architecture = own.trim_start_matches("system-elf-");
        self.functions.iter().all(|it| !it.format.contains("-elf-") || it.format.ends_with(architecture))
    }
}

/// A compiled kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelLibrary {
    /// The shared library.
    pub bytes: Vec<u8>,
    /// The compiler's messages, such as warnings.
    pub messages: String,
    /// The functions that are plain ones in the source: a dispatch needs one workgroup, and others do
    /// nothing.
    pub called_once: Vec<String>,
}

/// The exit status of `nvrtc.py` without the library.
const NO_NVRTC: i32 = 77;

/// Maximum number of bytes of messages that are kept.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// For C. Results do not depend on whether the CPU can fuse multiplications and additions, unless a flag
/// permits it.
const C_FLAGS: [&str; 7] = [
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    // What kernels cannot observe, and what would prevent vectorization.
    "-fno-math-errno",
    "-fno-trapping-math",
];

const NATIVE: &str = "-march=native";

/// For C without libraries.
const SELF_CONTAINED: [&str; 4] =
    ["-nostdlib", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wl,--hash-style=both"];

/// For what such code may call: loops must not become calls.
const OF_MEMORY: [&str; 8] = [
    "-O3",
    "-fPIC",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-tree-loop-distribute-patterns",
    "-fno-stack-protector",
    "-fvisibility=hidden",
    "-w",
];

/// For CUDA C: for the oldest GPUs that the compiler of programs knows, whose code all later ones run. As for
/// C, nothing is fused unless a flag permits it.
const CUDA_FLAGS: [&str; 3] = ["--gpu-architecture=compute_80", "--fmad=false", "--std=c++17"];

/// For Rust, which never fuses operations. A panic ends the process, as a crash of a kernel does.
const RUST_OPTIONS: [(&str, &str); 3] =
    [("edition", "2024"), ("crate-type", "cdylib"), ("crate-name", "kernel")];
const RUST_CODEGEN: [&str; 3] = ["-Copt-level=3", "-Ctarget-cpu=native", "-Cpanic=abort"];

/// Fails if the compiler of a language refuses flags, with its messages.
pub fn check_kernel_flags(language: KernelLanguage, options: &CompilerOptions) -> Result<()> {
    let directory = TemporaryDirectory::in_temp("rehal-kernel-")?;
    let (name, text) = match language {
        KernelLanguage::C => ("empty.c", "typedef int empty;\n"),
        KernelLanguage::Rust => ("empty.rs", ""),
    };
    let source = directory.path().join(name);
    directory
        .explain(std::fs::write(&source, text).map_err(|error| Error::io("writing a source", &error)))?;
    build_kernel(&source, options).map(drop)
}

/// The kind of a file of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    Source(KernelLanguage),
    /// An object, which the compiler of C links.
    Object,
    /// CUDA C.
    Cuda,
}

impl Input {
    fn of(path: &Path) -> Option<Self> {
        match KernelLanguage::from_path(path) {
            Some(language) => Some(Self::Source(language)),
            None => match path.extension()?.to_str()? {
                "o" => Some(Self::Object),
                "cu" => Some(Self::Cuda),
                _ => None,
            },
        }
    }

    fn language(self) -> KernelLanguage {
        if let Self::Source(language) = self { language } else { KernelLanguage::C }
    }
}

/// Compiles a source file, or links an object, to a shared library of kernels. Fails with the messages of the
/// compiler if it does. Plain functions are called as the functions of the options are; without these, the
/// library is what the file defines.
///
/// CUDA C becomes PTX.
pub fn build_kernel(source: &Path, options: &CompilerOptions) -> Result<KernelLibrary> {
    let Some(input) = Input::of(source) else {
        let message = format!("'{}' is not the source of a kernel", source.display());
        return Err(
            Error::invalid_argument(message).advise("name a file with the extension .c, .rs, .cu or .o")
        );
    };
    // The compiler's message would be that of a linker without inputs, or name a directory.
    let metadata = source
        .metadata()
        .map_err(|error| Error::io(format!("opening '{}'", source.display()), &error))
        .advise(|| "name a source file")?;
    if !metadata.is_file() {
        return Err(Error::invalid_argument(format!("'{}' is not a regular file", source.display()))
            .advise("name a source file"));
    }
    let directory = TemporaryDirectory::in_temp("rehal-kernel-")?;
    let build = Build { source, input, options, directory: &directory };
    // Not read as a flag.
    let path = if source.is_absolute() { source.to_owned() } else { Path::new(".").join(source) };
    if input == Input::Cuda {
        return build.cuda(&path);
    }
    let built = build.link(&[path.clone().into()])?;
    if options.functions.is_empty() || input == Input::Source(KernelLanguage::Rust) {
        return Ok(built);
    }
    match KernelDialect::of(&built.bytes)? {
        KernelDialect::Library => Ok(built),
        KernelDialect::Functions(defined) => {
            let shown = source.display().to_string();
            let calls = dialect::calls(&options.functions, &defined, &shown)?;
            let wrapped = build.wrap(&path, &calls)?;
            Ok(KernelLibrary { messages: built.messages, ..wrapped })
        }
    }
}

/// A kernel that is compiled.
struct Build<'a> {
    source: &'a Path,
    input: Input,
    options: &'a CompilerOptions,
    directory: &'a TemporaryDirectory,
}

impl Build<'_> {
    /// Compiles and links some inputs: without libraries if the code may become a part of an embedded ELF
    /// executable, and needs none.
    fn link(&self, inputs: &[OsString]) -> Result<KernelLibrary> {
        let is_c = self.input.language() == KernelLanguage::C;
        if !is_c && self.options.is_for_module && self.options.is_for_embedded() {
            return self.link_rust_alone(inputs);
        }
        if !is_c || !self.options.is_for_embedded() {
            return self.link_with(inputs, false);
        }
        let libraries = |it: &KernelLibrary| dialect::needed_symbols(&it.bytes);
        let built = match self.link_with(inputs, true) {
            Ok(built) if libraries(&built).iter().any(|it| dialect::MEMORY.contains(&it.as_str())) => {
                self.link_with(&[inputs, &[self.memory()?.into()]].concat(), true)
            }
            built => built,
        };
        match built {
            Ok(built) if self.options.is_for_module || libraries(&built).is_empty() => Ok(built),
            Err(error) if self.options.is_for_module => Err(error),
            _ => self.link_with(inputs, false),
        }
    }

    /// Links the object of a source in Rust without its standard library, of which code without allocations
    /// needs nothing but panics. These end the process here as well.
    fn link_rust_alone(&self, inputs: &[OsString]) -> Result<KernelLibrary> {
        let (object, library) =
            (self.directory.path().join("kernel.o"), self.directory.path().join("kernel.so"));
        let (mut job, name) = compiler(KernelLanguage::Rust, self.options)?;
        job.arguments.extend(RUST_OPTIONS.map(|(name, value)| format!("--{name}={value}").into()));
        job.arguments.extend(RUST_CODEGEN.map(OsString::from));
        job.arguments.extend(["-Ccodegen-units=1", "--emit=obj"].map(OsString::from));
        job.arguments.extend(inputs.iter().cloned());
        job.arguments.extend(["-o".into(), object.clone().into()]);
        job.arguments.extend(self.options.flags.iter().cloned());
        let messages = self.run(job, &name)?;
        let link = |more: &[OsString]| {
            let c = CompilerOptions { compiler: None, ..self.options.clone() };
            let (mut job, name) = compiler(KernelLanguage::C, &c)?;
            job.arguments.extend(["-shared".into(), object.clone().into()]);
            job.arguments.extend(SELF_CONTAINED.map(OsString::from));
            job.arguments.extend(more.iter().cloned());
            job.arguments.extend(["-o".into(), library.clone().into()]);
            self.run(job, &name)?;
            std::fs::read(&library).map_err(|error| Error::io("reading a linked kernel", &error))
        };
        let mut bytes = link(&[])?;
        let needed = dialect::needed_symbols(&bytes);
        if !needed.is_empty() {
            let panics = needed.iter().filter(|it| dialect::is_panic(it));
            let mut more: Vec<OsString> = vec![self.memory()?.into()];
            more.extend(panics.map(|it| format!("-Wl,--defsym={it}=rehal_trap").into()));
            bytes = link(&more)?;
        }
        Ok(KernelLibrary { bytes, messages, called_once: Vec::new() })
    }

    fn link_with(&self, inputs: &[OsString], is_self_contained: bool) -> Result<KernelLibrary> {
        let (language, options) = (self.input.language(), self.options);
        let library = self.directory.path().join("kernel.so");
        let (mut job, name) = compiler(language, options)?;
        match language {
            KernelLanguage::C => {
                job.arguments.extend(C_FLAGS.map(OsString::from));
                job.arguments.extend(options.is_for_this_machine().then(|| NATIVE.into()));
            }
            KernelLanguage::Rust => {
                job.arguments.extend(RUST_OPTIONS.map(|(name, value)| format!("--{name}={value}").into()));
                job.arguments.extend(RUST_CODEGEN.map(OsString::from));
            }
        }
        job.arguments.extend(inputs.iter().cloned());
        if is_self_contained {
            job.arguments.extend(SELF_CONTAINED.map(OsString::from));
        }
        job.arguments.extend(["-o".into(), library.clone().into()]);
        job.arguments.extend(options.flags.iter().cloned());
        if language == KernelLanguage::C && !is_self_contained {
            job.arguments.push("-lm".into());
        }
        let messages = self.run(job.clone(), &name).or_else(|error| {
            // A compiler for other machines than its own has no native processor.
            let is_refusal = |line: &str| line.contains("native") && line.contains("march");
            let refuses =
                error.message().lines().any(is_refusal) && job.arguments.iter().any(|it| it == NATIVE);
            job.arguments.retain(|it| it != NATIVE);
            let messages = if refuses { self.run(job, &name)? } else { return Err(error) };
            Ok(format!("{name} refuses {NATIVE}: compiled for its default processor\n{messages}"))
        })?;
        let other_output = || "leave out flags that change what the compiler writes";
        let bytes = std::fs::read(&library)
            .map_err(|error| {
                let library = library.display();
                Error::io(format!("reading '{library}', which {name} should have written"), &error)
            })
            .advise(other_output)?;
        if !is_shared_object(&bytes) {
            let source = self.source.display();
            let message = format!("{name} wrote a file that is not a shared library for '{source}'");
            return Err(Error::invalid_argument(message).advise(other_output()));
        }
        Ok(KernelLibrary { bytes, messages, called_once: Vec::new() })
    }

    /// Compiles CUDA C to PTX, with NVRTC in a process of Python: neither it nor the source runs in this one.
    fn cuda(&self, path: &Path) -> Result<KernelLibrary> {
        let output = self.directory.path().join("kernel.ptx");
        let mut job = Job::for_program("python3");
        (job.kept, job.joins_streams) = (KeptOutput::First(MAX_MESSAGE_BYTES), true);
        job.arguments =
            vec!["-c".into(), include_str!("nvrtc.py").into(), path.into(), output.clone().into()];
        // NVRTC warns of a flag that is given twice.
        let given: Vec<_> = self.options.flags.iter().map(|it| it.to_string_lossy()).collect();
        let is_given = |own: &str| given.iter().any(|it| it.split('=').next() == own.split('=').next());
        job.arguments.extend(CUDA_FLAGS.into_iter().filter(|it| !is_given(it)).map(OsString::from));
        job.arguments.extend(self.options.flags.iter().cloned());
        let messages = self.run(job, "NVRTC")?;
        let bytes = std::fs::read(&output).map_err(|error| Error::io("reading what NVRTC wrote", &error))?;
        Ok(KernelLibrary { bytes, messages, called_once: Vec::new() })
    }

    /// Makes a library around plain functions. `path` is that of their file.
    fn wrap(&self, path: &Path, calls: &[PlainCall<'_>]) -> Result<KernelLibrary> {
        let is_object = self.input == Input::Object;
        let wrapper = self.directory.path().join("library.c");
        let text = dialect::library(calls, is_object);
        self.directory
            .explain(std::fs::write(&wrapper, text).map_err(|error| Error::io("writing a source", &error)))?;
        let absolute = std::path::absolute(path);
        let absolute = absolute.map_err(|error| Error::io(format!("'{}'", path.display()), &error))?;
        let inputs: Vec<OsString> = match is_object {
            true => vec!["-w".into(), wrapper.into(), path.into()],
            // Its declarations say how the functions are called.
            false => vec!["-w".into(), "-include".into(), absolute.into(), wrapper.into()],
        };
        let built = self.link(&inputs).map_err(|error| {
            let message = format!(
                "a function of '{}' has other parameters\n{}",
                self.source.display(),
                error.message()
            );
            let expected: Vec<_> =
                calls.iter().map(|it| dialect::prototype(&it.called.info, &it.symbol)).collect();
            Error::new(error.code(), message)
                .advise(format!("define {}, or begin with a stub of the kernel", expected.join("; ")))
        })?;
        let called_once = calls.iter().map(|it| it.called.info.name.clone()).collect();
        Ok(KernelLibrary { called_once, ..built })
    }

    /// The object of what compilers call without being asked.
    fn memory(&self) -> Result<PathBuf> {
        let source = self.directory.path().join("memory.c");
        let object = self.directory.path().join("memory.o");
        if object.exists() {
            return Ok(object);
        }
        let text = include_str!("memory.c.in");
        self.directory
            .explain(std::fs::write(&source, text).map_err(|error| Error::io("writing a source", &error)))?;
        let is_c = self.input.language() == KernelLanguage::C;
        let compiler_of_c = self.options.compiler.clone().filter(|_| is_c);
        let options = CompilerOptions { compiler: compiler_of_c, ..self.options.clone() };
        let (mut job, name) = compiler(KernelLanguage::C, &options)?;
        job.arguments.extend(OF_MEMORY.map(OsString::from));
        job.arguments.extend(["-c".into(), source.into(), "-o".into(), object.clone().into()]);
        self.run(job, &name)?;
        Ok(object)
    }

    /// Runs a compiler, and returns its messages.
    fn run(&self, mut job: Job, name: &str) -> Result<String> {
        let (source, directory) = (self.source.display(), self.directory.path());
        // Its own temporary files remain if it is killed.
        job.environment.push(("TMPDIR".into(), Some(directory.into())));
        let outcome = job.run(&mut |_| ControlFlow::Continue(()));
        let outcome = outcome.map_err(|error| match self.input {
            Input::Cuda => Error::io("starting python3, which runs NVRTC", &error)
                .advise("install Python, or compile the source yourself and name the .ptx"),
            input => no_compiler(input.language(), name, &error),
        })?;
        let messages = messages(&outcome.stdout);
        // By a message, if it was a process of the compiler's own.
        let is_killed = |it: &str| it.contains("Killed signal terminated") || it.contains("signal: 9");
        if outcome.end.is_killed() || !outcome.is_success() && is_killed(&messages) {
            let message = format!("{name} was ended {}, with '{source}'", outcome.end);
            return Err(Error::new(StatusCode::Aborted, message).advise("compile it again"));
        }
        if outcome.is_success() {
            return Ok(messages);
        }
        if self.input == Input::Cuda && outcome.end == JobEnd::Exited(NO_NVRTC) {
            let message = format!("'{source}' is CUDA C, and NVRTC, which compiles it, is not here");
            let advice = "install it (pip install nvidia-cuda-nvrtc-cu12), name the library by REHAL_NVRTC=PATH, or compile \
                          the source yourself and name the .ptx";
            return Err(
                Error::not_found(format!("{message}\n{messages}").trim_end().to_owned()).advise(advice)
            );
        }
        let mut message = format!("'{source}' does not compile: {name} ended with {}", how(outcome.end));
        if !messages.trim().is_empty() {
            message.push('\n');
            message.push_str(messages.trim_end());
        }
        if let Some(shortage) = Shortage::find(outcome.end, &messages, Some(directory)) {
            return Err(shortage.explain(message));
        }
        Err(Error::invalid_argument(message).advise("correct the source"))
    }
}

/// The compiler of sources in a language that the environment selects: its command, and what it says about
/// its version.
pub fn kernel_compiler_version(language: KernelLanguage) -> Result<String> {
    let options = CompilerOptions::default();
    let (mut job, name) = compiler(language, &options)?;
    job.arguments.push("--version".into());
    let outcome = job.run(&mut |_| ControlFlow::Continue(()));
    let outcome = outcome.map_err(|error| no_compiler(language, &name, &error))?;
    Ok(format!("{name} {:?}\n{}", job.arguments, messages(&outcome.stdout)))
}

/// Whether a file is an ELF image of type `ET_DYN`; an object file, assembly or preprocessed source is not.
fn is_shared_object(bytes: &[u8]) -> bool {
    /// Offset of `e_type`, a 16-bit number.
    const TYPE: usize = 16;
    const ET_DYN: u16 = 3;
    bytes.starts_with(b"\x7FELF") && bytes.get(TYPE..TYPE + 2) == Some(&ET_DYN.to_ne_bytes())
}

/// Compiles each replacement that is a source file or an object. It then replaces the functions that it has,
/// and no others. The functions of the options are those of all executables. `messages` receives what
/// compilers print, by source.
pub fn build_substitutes(
    substitutions: &mut [Substitution],
    options: &CompilerOptions,
    mut messages: impl FnMut(&Path, &str),
) -> Result<()> {
    for substitution in substitutions {
        let functions = CalledFunction::selected(&substitution.selector, &options.functions);
        let options = CompilerOptions { functions, ..options.clone() };
        let mut called_once = Vec::new();
        substitute_sources(std::slice::from_mut(substitution), |source| {
            let built = build_kernel(source, &options)?;
            if !built.messages.trim().is_empty() {
                messages(source, built.messages.trim_end());
            }
            called_once = built.called_once;
            Ok(Some(built.bytes))
        })?;
        // A module dispatches with its own count.
        if !options.is_for_module {
            let once = NeededWorkgroups::Count([1; 3]);
            let counts = called_once.into_iter().map(|name| (Some(name), once.clone()));
            substitution.replacement.workgroups.extend(counts);
        }
    }
    Ok(())
}

/// The same with libraries that have been compiled before, by source; `None` leaves a source as it is.
pub fn substitute_sources(
    substitutions: &mut [Substitution],
    mut library: impl FnMut(&Path) -> Result<Option<Vec<u8>>>,
) -> Result<()> {
    for substitution in substitutions {
        let replacement = &mut substitution.replacement;
        let Code::File(path) = &replacement.code else { continue };
        if !replacement.is_kernel_source() {
            continue;
        }
        let source: PathBuf = path.clone();
        let library = library(&source).context(|| format!("the substitute for {}", substitution.selector))?;
        let Some(bytes) = library else { continue };
        replacement.code = Code::Bytes(bytes.into());
        replacement.name = Some(source.display().to_string());
        replacement.keeps_missing = true;
        // PTX gets the container of the executable.
        if source.extension().is_none_or(|it| it != "cu") {
            replacement.format.get_or_insert_with(system_format);
        }
    }
    Ok(())
}

/// The format of shared libraries for this machine.
fn system_format() -> String {
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm_64",
        other => other,
    };
    format!("system-elf-{architecture}")
}

/// The messages of a compiler, of which the first say the most.
fn messages(printed: &Printed) -> String {
    let mut text = String::from_utf8_lossy(&printed.bytes).into_owned();
    if printed.dropped != 0 {
        text.push_str(&format!("\n({} more bytes of messages)\n", printed.dropped));
    }
    text
}

/// Describes the end of a compiler as the system does. It has no limits, and is not interrupted.
fn how(end: JobEnd) -> String {
    crate::platform::describe_end(end)
}

/// The compiler, and its name in messages.
fn compiler(language: KernelLanguage, options: &CompilerOptions) -> Result<(Job, String)> {
    let (variable, default) = variable_of(language);
    let given = options.compiler.clone().or_else(|| std::env::var_os(variable));
    let given = given.unwrap_or_else(|| default.into());
    // As build systems read it: a launcher may precede the compiler, and flags follow it.
    let text = given.to_string_lossy();
    let mut words = text.split_whitespace();
    let Some(program) = words.next() else {
        return Err(Error::invalid_argument(format!("{variable} names no compiler"))
            .advise(format!("unset {variable}, or set it to a compiler")));
    };
    let mut job = Job::for_program(program);
    job.arguments = words.map(OsString::from).collect();
    (job.kept, job.joins_streams) = (KeptOutput::First(MAX_MESSAGE_BYTES), true);
    Ok((job, program.to_string()))
}

fn variable_of(language: KernelLanguage) -> (&'static str, &'static str) {
    match language {
        KernelLanguage::C => ("CC", "cc"),
        KernelLanguage::Rust => ("RUSTC", "rustc"),
    }
}

fn no_compiler(language: KernelLanguage, name: &str, error: &std::io::Error) -> Error {
    let (variable, _) = variable_of(language);
    let advice = format!("install the compiler, or name another in the environment: {variable}=PATH");
    let error = Error::io(format!("starting the compiler '{name}'"), error);
    let code = if error.code() == StatusCode::NotFound { StatusCode::Unavailable } else { error.code() };
    Error::new(code, error.message()).advise(advice)
}
