//! Compiles the source of a kernel with the system's compiler.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use rehal_base::{Context, Error, Result, StatusCode};
use rehal_replay::{Code, Substitution};

use super::KernelLanguage;
use super::shortage::Shortage;
use super::temporary::TemporaryDirectory;
use crate::{Job, JobEnd, KeptOutput, LocalRunner, Printed, Runner};

/// How kernels are compiled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompilerOptions {
    /// The command, with arguments after spaces; `None` for `CC` or `RUSTC` in the environment, else `cc` or
    /// `rustc`.
    pub compiler: Option<OsString>,
    /// Arguments after those that are always passed, which they may override.
    pub flags: Vec<OsString>,
    /// Runs the command. It shares the directory for temporary files with this process.
    pub runner: Arc<dyn Runner>,
}

impl Default for CompilerOptions {
    fn default() -> Self {
        Self { compiler: None, flags: Vec::new(), runner: Arc::new(LocalRunner) }
    }
}

/// A compiled kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelLibrary {
    /// The shared library.
    pub bytes: Vec<u8>,
    /// What the compiler printed, such as warnings.
    pub messages: String,
}

/// Maximum number of bytes of messages that are kept.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// For C. Results do not depend on whether the CPU can fuse multiplications and additions, unless a flag
/// permits it.
const C_FLAGS: [&str; 8] = [
    "-std=gnu11",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    // What kernels cannot observe, and what would prevent vectorization.
    "-fno-math-errno",
    "-fno-trapping-math",
];

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

/// Compiles a source file to a shared library. Fails with the messages of the compiler if it does.
pub fn build_kernel(source: &Path, options: &CompilerOptions) -> Result<KernelLibrary> {
    let Some(language) = KernelLanguage::from_path(source) else {
        let message = format!("'{}' is not the source of a kernel", source.display());
        return Err(Error::invalid_argument(message).advise("name a file with the extension .c or .rs"));
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
    let library = directory.path().join("kernel.so");
    let (mut job, name) = compiler(language, options)?;
    // Not read as a flag.
    let path = if source.is_absolute() { source.to_owned() } else { Path::new(".").join(source) };
    match language {
        KernelLanguage::C => job.arguments.extend(C_FLAGS.map(OsString::from)),
        KernelLanguage::Rust => {
            job.arguments.extend(RUST_OPTIONS.map(|(name, value)| format!("--{name}={value}").into()));
            job.arguments.extend(RUST_CODEGEN.map(OsString::from));
        }
    }
    job.arguments.extend([path.into(), "-o".into(), library.clone().into()]);
    job.arguments.extend(options.flags.iter().cloned());
    if language == KernelLanguage::C {
        job.arguments.push("-lm".into());
    }
    // Its own temporary files remain if it is killed.
    job.environment.push(("TMPDIR".into(), Some(directory.path().into())));
    let outcome = options
        .runner
        .run(&job, &mut |_| ControlFlow::Continue(()))
        .map_err(|error| no_compiler(language, &name, &error))?;
    let messages = messages(&outcome.stdout);
    // By a message, if it was a process of the compiler's own.
    let is_killed = |it: &str| it.contains("Killed signal terminated") || it.contains("signal: 9");
    if outcome.end.is_killed() || !outcome.is_success() && is_killed(&messages) {
        let message = format!("{name} was ended {}, with '{}'", outcome.end, source.display());
        return Err(Error::new(StatusCode::Aborted, message).advise("compile it again"));
    }
    if !outcome.is_success() {
        let how = how(outcome.end);
        let mut message = format!("'{}' does not compile: {name} ended with {how}", source.display());
        if !messages.trim().is_empty() {
            message.push('\n');
            message.push_str(messages.trim_end());
        }
        if let Some(shortage) = Shortage::find(outcome.end, &messages, Some(directory.path())) {
            return Err(shortage.explain(message));
        }
        return Err(Error::invalid_argument(message).advise("correct the source"));
    }
    let other_output = || "leave out flags that change what the compiler writes";
    let bytes = std::fs::read(&library)
        .map_err(|error| {
            Error::io(format!("reading '{}', which {name} should have written", library.display()), &error)
        })
        .advise(other_output)?;
    if !is_shared_object(&bytes) {
        let message = format!("{name} wrote a file that is not a shared library for '{}'", source.display());
        return Err(Error::invalid_argument(message).advise(other_output()));
    }
    Ok(KernelLibrary { bytes, messages })
}

/// The compiler of sources in a language that the environment selects: its command, and what it says about
/// its version.
pub fn kernel_compiler_version(language: KernelLanguage) -> Result<String> {
    let options = CompilerOptions::default();
    let (mut job, name) = compiler(language, &options)?;
    job.arguments.push("--version".into());
    let outcome = options.runner.run(&job, &mut |_| ControlFlow::Continue(()));
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

/// Compiles each replacement that is a source file. It then replaces the functions that it has, and no
/// others. `messages` receives what compilers print, by source.
pub fn build_substitutes(
    substitutions: &mut [Substitution],
    options: &CompilerOptions,
    mut messages: impl FnMut(&Path, &str),
) -> Result<()> {
    substitute_sources(substitutions, |source| {
        let KernelLibrary { bytes, messages: printed } = build_kernel(source, options)?;
        if !printed.trim().is_empty() {
            messages(source, printed.trim_end());
        }
        Ok(Some(bytes))
    })
}

/// The same with libraries that have been compiled before, by source; `None` leaves a source as it is.
pub fn substitute_sources(
    substitutions: &mut [Substitution],
    mut library: impl FnMut(&Path) -> Result<Option<Vec<u8>>>,
) -> Result<()> {
    for substitution in substitutions {
        let replacement = &mut substitution.replacement;
        let Code::File(path) = &replacement.code else { continue };
        if KernelLanguage::from_path(path).is_none() {
            continue;
        }
        let source: PathBuf = path.clone();
        let library = library(&source).context(|| format!("the substitute for {}", substitution.selector))?;
        let Some(bytes) = library else { continue };
        replacement.code = Code::Bytes(bytes.into());
        replacement.name = Some(source.display().to_string());
        replacement.keeps_missing = true;
        replacement.format.get_or_insert_with(system_format);
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

/// What a compiler printed, whose first messages say the most.
fn messages(printed: &Printed) -> String {
    let mut text = String::from_utf8_lossy(&printed.bytes).into_owned();
    if printed.dropped != 0 {
        text.push_str(&format!("\n({} more bytes of messages)\n", printed.dropped));
    }
    text
}

/// Describes the end of a compiler as the system does. It has no limits, and is not interrupted.
fn how(end: JobEnd) -> String {
    match end {
        JobEnd::Exited(code) => ExitStatus::from_raw(code << 8).to_string(),
        JobEnd::Signaled(signal) => ExitStatus::from_raw(signal).to_string(),
        end @ (JobEnd::TimedOut { .. } | JobEnd::Interrupted) => end.to_string(),
    }
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
