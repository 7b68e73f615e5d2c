//! `rehal substitute`: writes a module with other executables.

use rehal::program::{
    ModuleMode, ModuleSource, ProgramModule, SubstitutedExecutable, substitute_executables,
};
use rehal_base::{Error, Result};
use rehal_replay::{Code, Substitution};
use serde::Serialize;

use super::compiler_flags::{COMPILING, SubstituteCompiler, WORKGROUPS};
use super::report_format::{self, Format};
use crate::flags::{Access, Flag, Group, List};
use crate::output_file::{OUTPUT, OutputFile};
use crate::report::{Report, Subject};
use crate::table::{Column, Layout, Table};
use crate::{Invocation, Operands, Tool};

/// See the [module](self).
pub const SUBSTITUTE: Tool = Tool {
    name: "rehal substitute",
    verb: "substitute",
    summary: "writes a compiled module with other executables",
    about: "Writes a copy of a module in which files replace executables, or functions of them; everything else stays, including \
            the names and the alignment of an archive. The result is an ordinary module, which the reference's tools run as well.\n\n\
            The functions of a replacement must be called as those of the executable: names, bindings, constants, workgroup \
            sizes. Code is only read: nothing of it runs.",
    operands: Operands::One { what: "module", form: "MODULE.vmfb --executable=NAME=FILE -o OUT.vmfb" },
    groups: &[&SUBSTITUTE_GROUP, &COMPILING],
    examples: &[
        ("Replace a function", "{tool} model.vmfb --executable=main_dispatch_3=new.so -o new.vmfb"),
        (
            "Replace executables by their numbers",
            "{tool} model.vmfb --executable=1=a.so --executable=4=b.so -o new.vmfb",
        ),
    ],
    guide: include_str!("../guides/substitute.md"),
    answer: |_, _, _| None,
    run,
};

const EXECUTABLE: List<Substitution> = List::parsed(
    "executable",
    "WHICH[@FORMAT]=PATH",
    "WHICH[@FORMAT]=PATH",
    |value| Ok(Substitution::parse(value)?),
    "Replaces an executable, or a function of code for CPUs, by a compiled file, by a dispatch as the compiler dumps it (.mlir), \
     or by a kernel in C. WHICH is its number, its name, the name of one of its functions (rehal executables prints them), with or without the prefixes of \
     dumped files, or all; all=DIRECTORY takes each file for the executable of its name.",
)
.files(|substitution, _| match &substitution.replacement.code {
    Code::File(path) => vec![Access::Read.to(path)],
    Code::Bytes(_) => Vec::new(),
});

const FORMAT: Flag<Format> = report_format::flag("text: a table of what was replaced. json: an object.");

const SUBSTITUTE_GROUP: Group =
    Group { title: "Substitution", flags: &[&EXECUTABLE, &WORKGROUPS, &OUTPUT, &FORMAT] };

fn run(invocation: &Invocation) -> Result<()> {
    let (path, flags) = (invocation.operand(), &invocation.flags);
    let substitutions = flags.list(&EXECUTABLE);
    if substitutions.is_empty() {
        return Err(Error::invalid_argument("--executable is missing")
            .advise("name an executable and what replaces it: --executable=NAME=FILE"));
    }
    let output = OutputFile::from_flags(flags, "new.vmfb")?;
    let module = ProgramModule::read(&ModuleSource::File(path.clone()), ModuleMode::Mmap)?;
    let compiler = SubstituteCompiler::from_flags(flags);
    let build = |resolved: &mut _| compiler.build_for_module(resolved);
    let (bytes, replaced) = substitute_executables(module.file(), &substitutions, &build)?;
    output.write(|sink| {
        std::io::Write::write_all(sink, &bytes).map_err(|error| Error::io("writing the file", &error))
    })?;
    let replaced = replaced.iter().map(Row::from).collect();
    // The module has taken the place of the report.
    if output.is_stdout() {
        return Ok(());
    }
    let report = Substituted { output: output.path().display().to_string(), replaced };
    invocation.print(&report, flags.get(&FORMAT), Subject::default())
}

#[derive(Serialize)]
struct Substituted {
    output: String,
    replaced: Vec<Row>,
}

/// An executable that was replaced.
#[derive(Serialize)]
struct Row {
    id: u64,
    name: String,
    format: String,
    bytes_before: u64,
    bytes_after: u64,
}

impl From<&SubstitutedExecutable> for Row {
    fn from(it: &SubstitutedExecutable) -> Self {
        Self {
            id: it.executable.number,
            name: it.executable.name(),
            format: it.executable.format.clone(),
            bytes_before: it.bytes.0,
            bytes_after: it.bytes.1,
        }
    }
}

impl Report for Substituted {
    const SCHEMA: &'static str = "rehal.substitute/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let columns = [
            Column::right("id"),
            Column::names("replaced executable"),
            Column::left("format").optional(1),
            Column::right("bytes before"),
            Column::right("after"),
        ];
        let mut table = Table::new("", columns);
        for it in &self.replaced {
            let bytes = [it.bytes_before.to_string(), it.bytes_after.to_string()];
            let row = [it.id.to_string(), it.name.clone(), it.format.clone()];
            table.row(row.into_iter().chain(bytes).collect::<Vec<_>>());
        }
        table.text(layout)
    }
}
