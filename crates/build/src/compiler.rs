//! The compiler of programs, `iree-compile`, as a child process: found, limited, its errors explained, its
//! output cached.
//!
//! [`Compiler`] runs it. [`SourceSubstitutes`] are files that replace executables which it cuts out of a
//! program: they are checked before it sees them.
//!
//! The compiler ends its process when it meets some wrong flags and programs, which is why it is not loaded
//! as a library.

mod affine;
mod cache;
mod candidate;
mod count;
mod dump;
mod failure;
mod find;
mod gpu_object;
mod identity;
mod key;
mod onnx;
mod substitute;
mod substitute_dispatch;
mod target;
mod text;
mod wrapper;

use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cache::{CachedOutput, CompileCache};
use identity::Identity;
use rehal_base::{Context, Error, FileKind, MappedFile, Remedy, Result, StatusCode};
use rehal_jobs::{Job, JobLimits, JobOutcome, JobProgram, KeptOutput, Printed, TemporaryDirectory};

pub use cache::cache_directory;
pub use candidate::CompiledDispatch;
pub use dump::{DumpKind, DumpedExecutables, check_unchanged};
pub use substitute::{SourceSubstitutes, SubstituteFile, SubstituteFlags, SubstituteKind};
pub use substitute_dispatch::compile_dispatches;
pub use target::target_flags;
pub use text::{ExecutableFunction, ExecutableVariant, ProgramExecutable};

/// Which compiler is used, and how it is run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompilerSetup {
    /// The program, a script of its package, or a virtual environment that has the package. `None` for what
    /// the environment has: `REHAL_COMPILER`, the package of the active Python, `PATH`.
    pub path: Option<PathBuf>,
    /// When a compilation is ended. Default: never.
    pub time: Option<Duration>,
    /// Bytes of memory that a compilation may allocate. Default: no limit.
    pub memory_bytes: Option<u64>,
    /// Whether output is kept for later compilations of the same inputs with the same flags. Default: true.
    pub caches: bool,
    /// The directory of cached output. `None` for `rehal` in the user's directory of caches.
    pub cache_directory: Option<PathBuf>,
}

impl CompilerSetup {
    /// The name of [`CompilerSetup::memory_bytes`] in a [`Remedy::SetOption`].
    pub const MEMORY_LIMIT: &'static str = "compiler_memory";
}

impl Default for CompilerSetup {
    fn default() -> Self {
        Self { path: None, time: None, memory_bytes: None, caches: true, cache_directory: None }
    }
}

/// The compiler of programs.
#[derive(Clone, Debug)]
pub struct Compiler {
    identity: Identity,
    version: CompilerVersion,
    limits: JobLimits,
    cache: Option<CompileCache>,
    /// Why there is none.
    refused_cache: Option<String>,
}

/// The version of a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerVersion {
    /// As it prints it, such as `3.13.0rc20261016 @ 89ece87b`.
    pub text: String,
    /// Major and minor number, unless it has none.
    pub release: Option<(u32, u32)>,
}

/// The release whose modules and flags this library follows.
const FOLLOWED: (u32, u32) = (3, 13);

/// Something to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compilation {
    /// The program.
    pub input: PathBuf,
    /// Whether the compiler reads the program from its standard input, and so does not know its path.
    pub is_stdin: bool,
    /// Flags of the compiler, except for that of the output.
    pub flags: Vec<OsString>,
    /// Sources of ours that it is given in place of files, with these.
    stand_ins: Vec<(PathBuf, PathBuf)>,
}

/// The results of the compiler.
#[non_exhaustive]
pub struct Compiled {
    output: Output,
    /// Its standard output.
    pub printed: Vec<u8>,
    /// Its standard error, such as warnings.
    pub messages: String,
}

enum Output {
    /// With the directory that has the file, which is removed after it.
    New(Option<MappedFile>, TemporaryDirectory),
    Cached(CachedOutput),
}

/// The flag of the compiler that puts all executables into one library, by default.
const LINK_FLAG: &str = "iree-hal-link-executables";

/// The limit of the messages of one compilation: with `--mlir-print-ir-after-all`, they are programs.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

impl Compilation {
    /// Compiles a program with these flags.
    pub fn new(input: impl Into<PathBuf>, flags: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let flags = flags.into_iter().map(Into::into).collect();
        Self { input: input.into(), is_stdin: false, flags, stand_ins: Vec::new() }
    }

    /// The value of a flag of the compiler, which is given with one dash or two; the last one counts.
    fn value_of(&self, name: &str) -> Option<String> {
        let value = |flag: &OsString| {
            let flag = flag.to_str()?;
            let (given, value) = flag.split_once('=').unwrap_or((flag, ""));
            (given.trim_start_matches('-') == name).then(|| value.to_owned())
        };
        self.flags.iter().rev().find_map(value)
    }

    /// Messages of the compiler, in which substitutes have the names that the user gave.
    fn with_names(&self, mut messages: String) -> String {
        for (ours, file) in &self.stand_ins {
            let ours = format!("MLIR source at `{}`", ours.display());
            messages = messages.replace(&ours, &format!("`{}`", file.display()));
        }
        messages
    }

    /// The path of the input, not read as a flag.
    fn input_argument(&self) -> PathBuf {
        match self.input.as_os_str().as_encoded_bytes().first() {
            _ if self.is_stdin => "-".into(),
            Some(b'-') => Path::new(".").join(&self.input),
            _ => self.input.clone(),
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let of = match &self.output {
            Output::New(_, directory) => format!("in {}", directory.path().display()),
            Output::Cached(_) => "in the cache".into(),
        };
        f.debug_struct("Compiled").field("bytes", &self.bytes().len()).field("output", &of).finish()
    }
}

impl Compiled {
    /// The output; empty if the compiler wrote none, as for `--compile-to=` with only diagnostics.
    pub fn bytes(&self) -> &[u8] {
        match &self.output {
            Output::New(file, _) => file.as_ref().map_or(&[], MappedFile::bytes),
            Output::Cached(it) => it.bytes(),
        }
    }

    /// Whether it was made before.
    pub fn is_cached(&self) -> bool {
        matches!(self.output, Output::Cached(_))
    }
}

impl Compiler {
    /// Finds the compiler, and asks it for its version. Fails if there is none, or if it is another program.
    pub fn find(setup: &CompilerSetup) -> Result<Self> {
        Self::find_in(setup, &|name| std::env::var_os(name))
    }

    fn find_in(setup: &CompilerSetup, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self> {
        let identity = Identity::of(&find::find(setup.path.as_deref(), variable)?)?;
        let mut limits = JobLimits::default();
        (limits.time, limits.memory_bytes) = (setup.time, setup.memory_bytes);
        let cache = match setup.caches {
            true => CompileCache::new(setup.cache_directory.clone(), variable),
            false => None,
        };
        let (cache, refused_cache) = match cache {
            Some(Ok(cache)) => (Some(cache), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let version = CompilerVersion { text: String::new(), release: None };
        let mut this = Self { identity, version, limits, cache, refused_cache };
        this.version = this.known_version()?;
        Ok(this)
    }

    /// The program.
    pub fn path(&self) -> &Path {
        &self.identity.path
    }

    /// Its version.
    pub fn version(&self) -> &CompilerVersion {
        &self.version
    }

    /// Why the directory of cached output is not used, if it is not: others can write to it.
    pub fn refused_cache(&self) -> Option<&str> {
        self.refused_cache.as_deref()
    }

    /// Compiles a program, unless its output is in the cache.
    pub fn compile(&self, compilation: &Compilation) -> Result<Compiled> {
        check_input(&compilation.input)?;
        target::check_chip(&compilation.flags)?;
        if onnx::is_model(&compilation.input) {
            let imported = onnx::import(self, &compilation.input)?;
            return self.compile(&Compilation { input: imported.path().into(), ..compilation.clone() });
        }
        let cached = self.cache.as_ref().and_then(|cache| {
            let key = key::key(compilation, &self.identity, &self.version)?;
            Some((cache, key))
        });
        if let Some((cache, key)) = &cached
            && let Some((output, printed, messages)) = cache.get(key)
        {
            return Ok(Compiled { output: Output::Cached(output), printed, messages });
        }
        let directory = TemporaryDirectory::in_temp("rehal-compile-")?;
        let path = directory.path().join("output");
        let mut arguments = vec![compilation.input_argument().into_os_string()];
        arguments.extend(compilation.flags.iter().cloned());
        arguments.extend(["-o".into(), path.clone().into_os_string()]);
        let mut job = self.job(&self.identity.path, arguments);
        job.input = compilation.is_stdin.then(|| compilation.input.clone());
        // Its own temporary files remain if it is killed.
        job.environment.push(("TMPDIR".into(), Some(directory.path().into())));
        let outcome = self.run(&job)?;
        let messages = compilation.with_names(messages(&outcome.stderr));
        if !outcome.is_success() {
            return Err(failure::explain(self, compilation, &outcome, &messages, Some(directory.path())));
        }
        if let Some(error) = failure::silent(&messages) {
            return Err(error);
        }
        let file = match path.exists() {
            true => Some(MappedFile::open(&path)?),
            false => None,
        };
        let printed = outcome.stdout.bytes;
        if let (Some((cache, key)), Some(file)) = (&cached, &file) {
            cache.put(key, &printed, &messages, file.bytes());
        }
        Ok(Compiled { output: Output::New(file, directory), printed, messages })
    }

    /// Runs the compiler with flags that make it print something, such as `--iree-list-plugins`. Returns what
    /// it printed.
    pub fn query(&self, flags: &[OsString]) -> Result<Vec<u8>> {
        let outcome = self.ask(flags.to_vec())?;
        if !outcome.is_success() {
            let messages = messages(&outcome.stderr);
            return Err(failure::of_query(self, &outcome, &messages));
        }
        Ok(outcome.stdout.bytes)
    }

    /// Fails if the compiler does not know these flags, or refuses their values. Nothing is compiled.
    pub fn check_flags(&self, flags: &[String]) -> Result<()> {
        let arguments = flags.iter().map(OsString::from).chain(["-version".into()]).collect();
        let outcome = self.ask(arguments)?;
        let messages = messages(&outcome.stderr);
        match outcome.is_success() && !failure::is_diagnosed(&messages) {
            true => Ok(()),
            false => Err(failure::of_query(self, &outcome, &messages)),
        }
    }

    /// The flags of the compiler of which the name or the description has this text, as it describes them;
    /// all, if it is empty.
    pub fn help(&self, text: &str) -> Result<String> {
        let help = self.query(&["-help-hidden".into()])?;
        Ok(matching(&String::from_utf8_lossy(&help), text))
    }

    /// Fails if a program is not one that the compiler can read. Nothing is compiled.
    pub fn check_source(&self, path: &Path) -> Result<()> {
        self.text(path).map(drop)
    }

    /// Another program of the compiler's package.
    fn sibling(&self, name: &str) -> PathBuf {
        self.identity.path.with_file_name(name)
    }

    /// The text of a program, without aliases of types and attributes.
    fn text(&self, path: &Path) -> Result<String> {
        check_input(path)?;
        let compilation = Compilation::new(path, ["--mlir-print-local-scope"]);
        let program = self.sibling("iree-opt");
        let arguments = vec![compilation.input_argument().into(), "--mlir-print-local-scope".into()];
        let outcome = self.run(&self.job(&program, arguments))?;
        if !outcome.is_success() {
            return Err(failure::explain(self, &compilation, &outcome, &messages(&outcome.stderr), None));
        }
        Ok(String::from_utf8_lossy(&outcome.stdout.bytes).into_owned())
    }

    /// Runs the compiler when it does not compile: the limit of memory is not for that.
    fn ask(&self, arguments: Vec<OsString>) -> Result<JobOutcome> {
        let mut job = self.job(&self.identity.path, arguments);
        job.limits.memory_bytes = None;
        self.run(&job)
    }

    fn job(&self, program: &Path, arguments: Vec<OsString>) -> Job {
        let mut job = Job::for_program(program);
        (job.arguments, job.limits, job.kept) =
            (arguments, self.limits, KeptOutput::First(MAX_MESSAGE_BYTES));
        job
    }

    fn run(&self, job: &Job) -> Result<JobOutcome> {
        let program = match &job.program {
            JobProgram::Named(program) => Path::new(program).display(),
            JobProgram::Worker { .. } => self.path().display(),
        };
        job.run(&mut |_| ControlFlow::Continue(()))
            .map_err(|error| Error::io(format!("starting '{program}'"), &error))
            .advise(|| Remedy::InstallCompiler)
    }

    /// The version, which the cache knows of a program that has not changed.
    fn known_version(&self) -> Result<CompilerVersion> {
        let known = self.cache.as_ref().and_then(|cache| cache.version(&self.identity));
        if let Some(version) = known.as_deref().and_then(CompilerVersion::parse) {
            return Ok(version);
        }
        let other = |why: &str| {
            let message = format!("'{}' is not a compiler of programs{why}", self.path().display());
            Error::invalid_argument(message).advise(Remedy::InstallCompiler)
        };
        let printed = self.query(&["-version".into()]).map_err(|error| match error.code() {
            // Other programs do not have the flag.
            StatusCode::InvalidArgument => other(&format!(": {}", error.message())),
            _ => error,
        })?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let version = CompilerVersion::parse(&printed).ok_or_else(|| other(""))?;
        if let Some(cache) = &self.cache {
            cache.put_version(&self.identity, &printed);
        }
        Ok(version)
    }
}

impl CompilerVersion {
    /// Reads what `--version` prints.
    fn parse(printed: &str) -> Option<Self> {
        let text = printed.lines().find_map(|line| line.trim().strip_prefix("IREE compiler version "))?;
        let mut numbers = text.split(['.', ' ']).map(|it| it.parse().ok());
        let release = numbers.next().flatten().zip(numbers.next().flatten());
        Some(Self { text: text.trim().to_owned(), release })
    }

    /// Whether it is a release whose modules this library may not run, or whose flags may differ.
    pub fn is_other(&self) -> bool {
        self.release.is_some_and(|release| release != FOLLOWED)
    }
}

impl Display for CompilerVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn check_input(path: &Path) -> Result<()> {
    let place = format!("'{}'", path.display());
    let opening = |error| Error::io(format!("opening {place}"), &error);
    let check = || {
        let metadata = path.metadata().map_err(opening)?;
        if metadata.is_dir() {
            return Err(Error::invalid_argument(format!("{place} is a directory")));
        }
        // What a pipe has is not read twice.
        let mut head = Vec::new();
        if metadata.is_file() {
            let file = File::open(path).map_err(opening)?;
            file.take(FileKind::HEAD_BYTES as u64).read_to_end(&mut head).map_err(opening)?;
        }
        match FileKind::from_head(&head) {
            None | Some(FileKind::Text | FileKind::Empty) => Ok(()),
            Some(other) => Err(other.refuse_as(&place, "a program")),
        }
    };
    check().advise(|| "name a program: a file of MLIR, as text or bytecode")
}

fn messages(printed: &Printed) -> String {
    let text = String::from_utf8_lossy(&printed.bytes);
    let mut text: String = text.split_inclusive('\n').filter(|it| !failure::is_of_index(it)).collect();
    if printed.dropped != 0 {
        text.push_str(&format!("\n({} more bytes of messages)\n", printed.dropped));
    }
    text
}

/// The options in the help of a compiler that have a text, each with its values.
fn matching(help: &str, text: &str) -> String {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let wanted = plain(text);
    let mut shown = String::new();
    let mut option = String::new();
    // An option begins at this depth; its values and what wraps are deeper.
    let begins = |line: &str| line.starts_with("  -") || !line.starts_with(' ');
    for line in help.lines().chain([""]) {
        if begins(line) {
            if option.starts_with("  -") && plain(&option).contains(&wanted) {
                shown.push_str(&option);
            }
            option.clear();
        }
        option.push_str(&without_padding(line));
        option.push('\n');
    }
    shown
}

/// A line of the help without the spaces that align descriptions beyond the width of a screen.
fn without_padding(line: &str) -> String {
    match line.split_once("  - ") {
        Some((name, description)) => format!("{}  - {}", name.trim_end(), description.trim_start()),
        None => line.trim_end().to_owned(),
    }
}

/// Whether a file is a program for the compiler, by its extension.
pub fn is_program_source(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    matches!(extension, Some("mlir" | "mlirbc" | "onnx"))
}

#[cfg(test)]
mod tests;
