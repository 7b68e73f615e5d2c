//! `iree-dump-module`: prints the contents of a compiled module.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rehal_base::{Context, Error, FileKind, HostMemory, MappedFile, Range, Result};
use rehal_vm::{ModuleFile, dump};

use crate::flags::{Flag, Group};
use crate::{Invocation, Operands, Tool, output};

/// See the [module](self).
pub const DUMP_MODULE: Tool = Tool {
    name: "iree-dump-module",
    verb: "dump-module",
    summary: "prints the contents of a compiled module",
    about: "Prints the imports, exports, section sizes and instructions of a .vmfb. Nothing in the module is \
            executed, and the output is byte for byte that of IREE 3.13.0's tool.\n\n\
            The metadata and the FlatBuffer of modules of other releases can be printed as well, but not \
            their instructions.",
    operands: Operands::One { what: "module", form: "MODULE.vmfb" },
    groups: &[&DUMP],
    examples: &[
        ("Read a module", "{tool} model.vmfb | less"),
        ("List its functions and their types", "{tool} --output=metadata model.vmfb"),
        ("Read the instructions of one function", "{tool} --output=disassembly --function=main model.vmfb"),
        (
            "List its imports",
            "{tool} --output=flatbuffer-json model.vmfb \\\n  | jq -r '.imported_functions[].full_name'",
        ),
    ],
    guide: include_str!("../guides/dump_module.md"),
    answer: |_, _, _| None,
    run,
};

/// The parts to print.
#[derive(Clone, Copy)]
enum What {
    All,
    Metadata,
    Disassembly,
    FlatbufferBinary,
    FlatbufferJson,
}

const OUTPUT: Flag<What> = Flag::choice(
    "output",
    "all",
    &[
        ("all", What::All),
        ("metadata", What::Metadata),
        ("disassembly", What::Disassembly),
        ("flatbuffer-binary", What::FlatbufferBinary),
        ("flatbuffer-json", What::FlatbufferJson),
    ],
    "metadata: names, types, imports, exports, sizes. disassembly: the instructions. all: both. \
     flatbuffer-binary: the FlatBuffer. flatbuffer-json: the FlatBuffer as JSON.",
);

const FUNCTION: Flag<Option<String>> =
    Flag::text("function", "NAME", "Disassembles only the function with this name or ordinal.");

const BYTECODE_OFFSETS: Flag<bool> =
    Flag::switch("bytecode_offsets", false, "Prefixes each instruction with its offset, in hexadecimal.");

const PRETTY: Flag<bool> = Flag::switch("pretty", false, "Indents JSON.");

const DUMP: Group = Group { title: "Dump", flags: &[&OUTPUT, &FUNCTION, &BYTECODE_OFFSETS, &PRETTY] };

/// The module, and the parts to print.
struct Options {
    path: PathBuf,
    what: What,
    function: Option<String>,
    bytecode_offsets: bool,
    pretty: bool,
}

/// Advice about a file that is not a module.
const NO_MODULE: &str = "name a module written by iree-compile: MODULE.vmfb";

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    dump_module(&Options {
        path: invocation.operand(),
        what: flags.get(&OUTPUT),
        function: flags.get(&FUNCTION),
        bytecode_offsets: flags.get(&BYTECODE_OFFSETS),
        pretty: flags.get(&PRETTY),
    })
}

fn dump_module(options: &Options) -> Result<()> {
    let file = MappedFile::open(&options.path).advise(|| NO_MODULE)?;
    let place = format!("'{}'", file.path().display());
    let whole = Range { offset: 0, length: file.bytes().len() as u64 };
    let memory = Arc::new(HostMemory::over_file(Arc::new(file), whole)?);
    let explain = |error: Error| error.context(place.clone()).advise(NO_MODULE);
    let module = ModuleFile::inspect(memory.clone()).map_err(|error| {
        let length = memory.length().min(FileKind::HEAD_BYTES as u64);
        let head = memory.bytes(Range { offset: 0, length }).unwrap_or_default();
        FileKind::Module.refuse_other(&head, &place).unwrap_or_else(|| explain(error.into()))
    })?;

    let mut out = BufWriter::with_capacity(1 << 16, output::stdout()?);
    let assembly = dump::AssemblyOptions {
        function: options.function.as_deref(),
        bytecode_offsets: options.bytecode_offsets,
    };
    let done = match options.what {
        What::All => dump::metadata(&module, &mut out)
            .and_then(|()| Ok(writeln!(out)?))
            .and_then(|()| dump::assembly(&module, assembly, &mut out)),
        What::Metadata => dump::metadata(&module, &mut out),
        What::Disassembly => dump::assembly(&module, assembly, &mut out),
        What::FlatbufferBinary => out.write_all(module.flatbuffer()).map_err(Into::into),
        What::FlatbufferJson => dump::json(&module, options.pretty, &mut out).map_err(Into::into),
    };
    let flushed = out.flush();
    match done {
        Ok(()) => output::written(flushed),
        Err(dump::Error::Write(error)) => output::written(Err(error)),
        Err(dump::Error::Module(error)) => Err(error.context(place)),
    }
}
