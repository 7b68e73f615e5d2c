//! `rehal kernel build`: compiles the source of a kernel to a library that replaces a function of a capture.

use std::ffi::OsString;

use rehal_base::{Error, Result};
use rehal_build::{CompilerOptions, build_kernel};
use rehal_local::executable::{ElfCode, FunctionCode};
use serde::Serialize;

use super::report_format::{self, Format};
use crate::flags::{Flag, Group, List};
use crate::output_file::{OUTPUT, OutputFile};
use crate::report::Subject;
use crate::{Invocation, Operands, Tool, interrupts, output};

/// See the [module](self).
pub const KERNEL_BUILD: Tool = Tool {
    name: "rehal kernel build",
    verb: "kernel build",
    summary: "compiles a kernel to a library that replaces a captured one",
    about: "Compiles a C or Rust file, such as rehal kernel stub writes, to a shared library that a replay loads in place of a \
            function (--replay_executable_substitution). The compiler is that of the system: CC or RUSTC in the environment, \
            else cc or rustc. What it prints is passed on.\n\n\
            C is compiled with -std=gnu11 -O3 -march=native -fPIC -shared -ffp-contract=off -fno-math-errno \
            -fno-trapping-math, so that results do not depend on fused multiplications and additions.",
    operands: Operands::One { what: "source file", form: "KERNEL.c -o KERNEL.so" },
    groups: &[&BUILD],
    examples: &[
        ("Compile a kernel", "{tool} kernel.c -o kernel.so"),
        (
            "Permit fused multiplications and additions",
            "{tool} --compiler_flag=-ffp-contract=fast kernel.c -o kernel.so",
        ),
        ("Use another compiler", "CC=clang {tool} kernel.c -o kernel.so"),
    ],
    guide: include_str!("../guides/kernel_build.md"),
    answer: |_, _, _| None,
    run,
};

const COMPILER_FLAG: List<OsString> = List::parsed(
    "compiler_flag",
    "FLAG",
    "an argument of the compiler",
    |value| Ok(value.to_owned()),
    "Passes an argument to the compiler, after those that are always passed. May be repeated.",
);

const BUILD: Group = Group { title: "Library", flags: &[&OUTPUT, &COMPILER_FLAG, &FORMAT] };

const FORMAT: Flag<Format> = report_format::flag(
    "text: what the compiler prints, on standard error. json: an object about the library.",
);

fn run(invocation: &Invocation) -> Result<()> {
    let source = invocation.operand();
    let format = report_format::beside_files(&invocation.flags, &FORMAT)?;
    let output = OutputFile::from_flags(&invocation.flags, "kernel.so")?;
    let mut options = CompilerOptions::default();
    options.flags = invocation.flags.list(&COMPILER_FLAG);
    interrupts::handle();
    let library = build_kernel(&source, &options)?;
    if !library.messages.trim().is_empty() {
        output::note(library.messages.trim_end());
    }
    output.write(|sink| {
        sink.write_all(&library.bytes).map_err(|error| Error::io("writing the library", &error))
    })?;
    let Format::Json = format else { return Ok(()) };
    // A library may make its table when it runs.
    let functions = ElfCode::read(&library.bytes).ok().map(|it| it.functions);
    let built = BuildReport {
        path: output.path().display().to_string(),
        source: source.display().to_string(),
        length: library.bytes.len(),
        functions: functions.map(|all| all.into_iter().map(Built::from).collect()),
        called_once: &library.called_once,
        messages: &library.messages,
    };
    output::print(&invocation.line("rehal.kernel.build/1", &built, Subject::default())?)
}

/// A library.
#[derive(Serialize)]
struct BuildReport<'l> {
    path: String,
    source: String,
    length: usize,
    /// Null if the file does not tell.
    functions: Option<Vec<Built>>,
    /// The functions of which a dispatch needs one workgroup.
    called_once: &'l [String],
    /// The output of the compiler.
    messages: &'l str,
}

#[derive(Serialize)]
struct Built {
    name: String,
    address: u64,
    length: u64,
}

impl From<FunctionCode> for Built {
    fn from(it: FunctionCode) -> Self {
        Self { name: it.name, address: it.start, length: it.end - it.start }
    }
}
