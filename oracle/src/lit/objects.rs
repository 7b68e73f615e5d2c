//! Compiles the C sources of the samples: executable plugins, and objects that the compiler links into
//! executables.

use crate::reference::{Reference, VERSION};
use crate::tool;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of directories that this process has created.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

/// Compiler flags for code without a C library.
const FREESTANDING: [&str; 8] = [
    "-std=c17",
    "-O2",
    "-fPIC",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-c",
];

/// Compiler flags for a shared library.
const SHARED: [&str; 4] = ["-std=c17", "-O2", "-fPIC", "-shared"];

/// Linker flags for a library that the embedded ELF loader accepts.
const EMBEDDED: [&str; 13] = [
    "-flavor",
    "gnu",
    "--build-id=none",
    "-nostdlib",
    "-static",
    "-shared",
    "--no-undefined",
    "--gc-sections",
    "-z",
    "now",
    "-z",
    "relro",
    "--hash-style=sysv",
];

/// Functions of the object for the other architecture, without the suffix `_workgroup`.
const FUNCTIONS: [&str; 3] = ["simple_mul", "simple_mul_inplace", "simple_mul_abs_negate"];

/// The return instruction of AArch64.
const RETURN: [u8; 4] = [0xc0, 0x03, 0x5f, 0xd6];

/// All sources, relative to the source tree.
const SOURCES: [&str; 5] = [
    "runtime/src/iree/hal/local/executable_plugin.h",
    "samples/custom_dispatch/cpu/embedded/functions.c",
    "samples/custom_dispatch/cpu/mlp_plugin/mlp_plugin.c",
    "samples/custom_dispatch/cpu/plugin/standalone_plugin.c",
    "samples/custom_dispatch/cpu/plugin/system_plugin.c",
];

/// Compiles everything from the tree `source` into a directory under `cache`, unless already done. Returns
/// the directory, which has the layout of the reference's build directory.
pub fn build(reference: &Reference, source: &Path, cache: &Path) -> io::Result<PathBuf> {
    let samples = Path::new("samples/custom_dispatch/cpu");
    let mut hasher = DefaultHasher::new();
    (VERSION, FREESTANDING, SHARED, EMBEDDED, FUNCTIONS).hash(&mut hasher);
    for name in SOURCES {
        let path = source.join(name);
        let bytes = fs::read(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        bytes.hash(&mut hasher);
    }
    let finished = cache.join(format!("objects.{:016x}", hasher.finish()));
    if finished.is_dir() {
        return Ok(finished);
    }
    // Renamed when complete: other tests look for the directory concurrently.
    let number = UNFINISHED.fetch_add(1, Ordering::Relaxed);
    let directory = cache.join(format!("objects.{}.{number}.unfinished", std::process::id()));
    let builder = Builder {
        reference,
        source: source.join(samples),
        built: directory.join(samples),
        include: source.join("runtime/src"),
    };
    let built = builder.all();
    if built.is_ok() && fs::rename(&directory, &finished).is_ok() {
        return Ok(finished);
    }
    let _ = fs::remove_dir_all(&directory);
    built?;
    // Another test has renamed its directory first.
    Ok(finished)
}

struct Builder<'a> {
    reference: &'a Reference,
    source: PathBuf,
    built: PathBuf,
    include: PathBuf,
}

impl Builder<'_> {
    fn all(&self) -> io::Result<()> {
        for directory in ["plugin", "mlp_plugin", "embedded"] {
            fs::create_dir_all(self.built.join(directory))?;
        }
        self.compile(&SHARED, "plugin/system_plugin.c", "plugin/system_plugin.so")?;
        self.compile(&SHARED, "mlp_plugin/mlp_plugin.c", "mlp_plugin/mlp_plugin.so")?;
        self.compile(&FREESTANDING, "embedded/functions.c", "embedded/functions_x86_64.o")?;
        self.compile(&FREESTANDING, "plugin/standalone_plugin.c", "plugin/standalone_plugin.o")?;
        let (object, library) =
            (self.built("plugin/standalone_plugin.o"), self.built("plugin/standalone_plugin.sos"));
        self.link(&[&EMBEDDED[..], &[&object, "-o", &library]].concat())?;
        self.other_architecture()
    }

    /// A sample links an object for AArch64 too, which never runs here: its functions return immediately.
    fn other_architecture(&self) -> io::Result<()> {
        fs::write(self.built.join("embedded/return"), RETURN)?;
        let object = self.built("embedded/functions_arm_64.o");
        let mut arguments = ["-flavor", "gnu", "-m", "aarch64elf", "-r", "-o", &object].to_vec();
        let symbols =
            FUNCTIONS.map(|name| format!("--defsym={name}_workgroup=_binary_embedded_return_start"));
        arguments.extend(symbols.iter().map(String::as_str));
        arguments.extend(["-b", "binary", "embedded/return"]);
        self.link(&arguments)
    }

    fn link(&self, arguments: &[&str]) -> io::Result<()> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        self.run(&self.reference.tool("iree-lld"), &arguments)
    }

    fn compile(&self, flags: &[&str], source: &str, output: &str) -> io::Result<()> {
        let mut arguments: Vec<String> = flags.iter().map(ToString::to_string).collect();
        arguments.extend([
            "-I".to_owned(),
            self.include.display().to_string(),
            self.source.join(source).display().to_string(),
            "-o".to_owned(),
            self.built(output),
        ]);
        self.run(Path::new("cc"), &arguments)
    }

    fn built(&self, name: &str) -> String {
        self.built.join(name).display().to_string()
    }

    fn run(&self, program: &Path, arguments: &[String]) -> io::Result<()> {
        let ended = tool::run(program, arguments, &self.built)?;
        if ended.succeeded() {
            return Ok(());
        }
        Err(io::Error::other(format!("{} {}: {}", program.display(), arguments.join(" "), ended.summary())))
    }
}
