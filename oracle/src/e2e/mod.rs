//! Self-checking programs: the list, how the reference release compiles each, and the verdict of our
//! `iree-check-module`.
//!
//! Ours are in `fixtures/e2e`. The reference's are read from a checkout of its source that
//! `REHAL_IREE_SOURCE` names; they are not part of this repository. The pinned release has no
//! `iree-check-module`, so the programs' own expectations are the standard.
//!
//! Targets are plain x86-64, x86-64-v3 with data tiling, a system library, VMVX with and without
//! microkernels, Vulkan with both dispatch ABIs, and CUDA, on `cuda://emulator`. Compiled modules are cached
//! in `target/e2e` by source and flags. A line `// targets: …` excludes targets for which the release
//! generates no code, or incorrect code. Programs that the release does not compile are listed in
//! `refused.rs`; any other compilation error is a failure. Functions of the reference that fail on CUDA for a
//! known reason are listed in `oracle/cuda_failures.txt`.

mod failing;
mod ours;
mod refused;
mod suites;

pub use failing::unknown_programs;
pub use ours::{FAILURES, ours};
pub use suites::{SOURCE_VARIABLE, reference_programs};

use crate::reference::{Reference, VERSION};
use crate::tool::{self, Ended};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Number of modules that this process has begun to compile.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

/// Timeout for compiling one program.
const COMPILER_LIMIT: Duration = Duration::from_secs(900);

/// A program and one compiler configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Unique: set, suite with its target, and program.
    pub name: String,
    /// The source.
    pub source: PathBuf,
    /// Compiler flags.
    pub flags: Vec<String>,
}

/// The compiler's result for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiled {
    /// A module.
    Module(PathBuf),
    /// It does not compile with the pinned release; carries the release's message.
    Refused(String),
}

impl Program {
    /// The devices that it runs on.
    pub fn devices(&self) -> &'static [&'static str] {
        let has = |wanted: [&str; 2]| self.flags.iter().any(|flag| wanted.contains(&flag.as_str()));
        if has([ON_VULKAN, "--iree-hal-target-backends=vulkan-spirv"]) {
            &["vulkan"]
        } else if has([ON_CUDA, BACKEND_CUDA]) {
            &[EMULATOR]
        } else {
            &DEVICES
        }
    }

    /// Compiles it with the pinned release, or returns a cached result from `cache`.
    pub fn compile(&self, reference: &Reference, cache: &Path) -> io::Result<Compiled> {
        let mut hasher = DefaultHasher::new();
        (VERSION, &self.flags, fs::read(&self.source)?).hash(&mut hasher);
        let stem = cache.join(format!("{}.{:016x}", self.name, hasher.finish()));
        let (module, refusal) = (with_end(&stem, "vmfb"), with_end(&stem, "refused"));
        if module.is_file() {
            return Ok(Compiled::Module(module));
        }
        if refusal.is_file() {
            return Ok(Compiled::Refused(fs::read_to_string(refusal)?));
        }
        let directory = stem.parent().unwrap_or(cache);
        fs::create_dir_all(directory)?;
        // Written to a temporary name and renamed when complete: other tests may look for it, and this
        // process may be killed.
        let number = UNFINISHED.fetch_add(1, Ordering::Relaxed);
        let unfinished = with_end(&stem, &format!("{}.{number}.unfinished", std::process::id()));
        let mut arguments =
            vec![self.source.display().to_string(), "-o".into(), unfinished.display().to_string()];
        arguments.extend(self.flags.iter().cloned());
        let ended = tool::run_within(COMPILER_LIMIT, &reference.tool("iree-compile"), &arguments, directory)?;
        if ended.succeeded() {
            fs::rename(&unfinished, &module)?;
            return Ok(Compiled::Module(module));
        }
        let _ = fs::remove_file(&unfinished);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        fs::write(refusal, &said)?;
        Ok(Compiled::Refused(said))
    }
}

/// The flag that compiles for Vulkan.
pub const ON_VULKAN: &str = "--iree-hal-target-device=vulkan";

/// The flags that compile for CUDA, the second for the reference's suites, and the architecture.
const ON_CUDA: &str = "--iree-hal-target-device=cuda";
const BACKEND_CUDA: &str = "--iree-hal-target-backends=cuda";
const CUDA_ARCHITECTURE: &str = "--iree-cuda-target=sm_80";

/// The device that programs for CUDA run on.
const EMULATOR: &str = "cuda://emulator";

/// The devices that programs for CPUs run on.
pub const DEVICES: [&str; 2] = ["local-sync", "local-task"];

/// Runs our `iree-check-module` on a module, with additional flags.
pub fn check(device: &str, module: &Path, flags: &[&str]) -> io::Result<Ended> {
    let program = tool::ours("iree-check-module").map_err(io::Error::other)?;
    let mut arguments = vec![format!("--device={device}"), format!("--module={}", module.display())];
    arguments.extend(flags.iter().map(ToString::to_string));
    tool::run(&program, &arguments, module.parent().unwrap_or(Path::new(".")))
}

/// The report lines of failed tests, for a message; the whole report if no test failed.
pub fn failures(ended: &Ended) -> String {
    let text = String::from_utf8_lossy(&ended.stdout);
    let mut kept: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.starts_with("[ RUN ") || line.starts_with("[       OK ]") {
            open.clear();
        }
        open.push(line);
        if line.starts_with("[  FAILED  ]") {
            kept.append(&mut open);
        }
    }
    let said = if kept.is_empty() { text.into_owned() } else { kept.join("\n") };
    said.chars().take(4000).collect::<String>() + &ended.summary()
}

fn with_end(stem: &Path, end: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(end);
    path.into()
}
