//! `iree-dump-module`: prints what a compiled module holds.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use rehal_base::{Context, Error, HostMemory, MappedFile, Range, Result};
use rehal_vm::{ModuleFile, dump};

use crate::flags::{Flag, Group};
use crate::{Invocation, Tool, output};

/// See the [module](self).
pub const DUMP_MODULE: Tool = Tool {
    name: "iree-dump-module",
    verb: "dump-module",
    summary: "prints what a compiled module holds",
    about: "Prints what a .vmfb needs and offers, how large its parts are, and its instructions. Nothing of \
            the module is run, and what is printed is what IREE 3.13.0's tool prints, byte for byte.\n\n\
            The metadata and the flatbuffer of modules of other releases can be printed as well; their \
            instructions cannot.",
    operands: "MODULE.vmfb",
    groups: &[&DUMP],
    examples: &[
        ("See what is in a module", "{tool} model.vmfb | less"),
        ("Which functions does it offer, and with which types?", "{tool} --output=metadata model.vmfb"),
        ("Read the instructions of one function", "{tool} --output=disassembly --function=main model.vmfb"),
        (
            "List what it imports",
            "{tool} --output=flatbuffer-json model.vmfb \\\n  | jq -r '.imported_functions[].full_name'",
        ),
    ],
    guide: include_str!("../guides/dump_module.md"),
    answer: |_, _| None,
    run,
};

const DUMP: Group = Group {
    title: "Dump",
    flags: &[
        Flag::text(
            "output",
            "WHAT",
            "all",
            "metadata: names, types, imports, exports, sizes. disassembly: the instructions. all: both. \
             flatbuffer-binary: the tables as they are. flatbuffer-json: the tables as JSON.",
        ),
        Flag::text(
            "function",
            "NAME",
            "",
            "Disassembles one function only: of that name, or of that ordinal.",
        ),
        Flag::switch("bytecode_offsets", false, "Puts its offset before each instruction, in hexadecimal."),
        Flag::switch("pretty", false, "Breaks and indents the lines of JSON."),
    ],
};

/// What to do about a file that is no module.
const NO_MODULE: &str = "name a module, as iree-compile writes it: MODULE.vmfb";

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    let file = MappedFile::open(module_path(invocation)?).advise(|| NO_MODULE.into())?;
    let place = format!("'{}'", file.path().display());
    let whole = Range { offset: 0, length: file.bytes().len() as u64 };
    let memory = Arc::new(HostMemory::over_file(Arc::new(file), whole)?);
    let explain = |error: Error| error.context(place.clone()).advise(NO_MODULE);
    let module = ModuleFile::inspect(memory.clone()).map_err(|error| explain(error.into()))?;

    let mut out = BufWriter::with_capacity(1 << 16, output::stdout()?);
    let assembly = dump::AssemblyOptions {
        function: flags.given_text("function"),
        bytecode_offsets: flags.switch("bytecode_offsets"),
    };
    let done = match flags.text("output") {
        "all" => dump::metadata(&module, &mut out)
            .and_then(|()| Ok(writeln!(out)?))
            .and_then(|()| dump::assembly(&module, assembly, &mut out)),
        "metadata" => dump::metadata(&module, &mut out),
        "disassembly" => dump::assembly(&module, assembly, &mut out),
        "flatbuffer-binary" => out.write_all(module.flatbuffer()).map_err(Into::into),
        "flatbuffer-json" => dump::json(&module, flags.switch("pretty"), &mut out).map_err(Into::into),
        other => {
            let error = Error::invalid_argument(format!("--output={other} is nothing that can be printed"));
            return Err(error.advise("all, metadata, disassembly, flatbuffer-binary or flatbuffer-json"));
        }
    };
    let flushed = out.flush();
    match done {
        Ok(()) => output::written(flushed),
        Err(dump::Error::Write(error)) => output::written(Err(error)),
        Err(dump::Error::Module(error)) => Err(error.context(place)),
    }
}

fn module_path(invocation: &Invocation) -> Result<&Path> {
    let name = &invocation.name;
    match invocation.flags.positionals() {
        [path] => Ok(Path::new(path)),
        [] => Err(Error::invalid_argument(format!("{name} needs a module")).advise(NO_MODULE)),
        _ => Err(Error::invalid_argument(format!("{name} takes one module"))
            .advise("values of flags follow '=', as in --output=metadata")),
    }
}
