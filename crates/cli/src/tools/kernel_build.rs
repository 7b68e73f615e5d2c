//! `rehal kernel build`: compiles the source of a kernel to a library that replaces a function of a capture.

use std::ffi::OsString;

use rehal_base::{Error, Result};
use rehal_session::{CompilerOptions, build_kernel};

use crate::flags::{Group, List};
use crate::output_file::{OUTPUT, OutputFile};
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
    runs_kernels: false,
    run,
};

const COMPILER_FLAG: List<OsString> = List::parsed(
    "compiler_flag",
    "FLAG",
    "an argument of the compiler",
    |value| Ok(value.to_owned()),
    "Passes an argument to the compiler, after those that are always passed. May be repeated.",
);

const BUILD: Group = Group { title: "Library", flags: &[&OUTPUT, &COMPILER_FLAG] };

fn run(invocation: &Invocation) -> Result<()> {
    let source = invocation.operand();
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
    })
}
