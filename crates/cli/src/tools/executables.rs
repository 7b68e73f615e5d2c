//! `rehal executables`: lists the executables of a program, a module or a capture, and writes files of them.

use std::fs;
use std::path::{Path, PathBuf};

use rehal::program::{ListedExecutable, ModuleMode, ModuleSource, ProgramModule};
use rehal_base::{Context, Error, FileKind, MappedFile, Result, StatusCode};
use rehal_build::{
    Compilation, DumpKind, DumpedExecutables, ExecutableFunction, check_unchanged, is_program_source,
    target_flags,
};
use rehal_capture::CaptureBytes;
use serde::Serialize;

use super::compiler_flags::{self, COMPILING, TARGET};
use super::replay_flags;
use super::report_format::{self, Format};
use crate::flags::{Access, Flag, Flags, Group, NamedFile};
use crate::output_file::OutputFile;
use crate::report::{Report, Subject, write_json};
use crate::table::{Column, Layout, Table};
use crate::{Invocation, Operands, Tool, captures, output};

/// See the [module](self).
pub const EXECUTABLES: Tool = Tool {
    name: "rehal executables",
    verb: "executables",
    summary: "lists the executables of a program, a module or a capture, and writes them to files",
    about: "Prints each executable with its format, its size and its functions: bindings, constants and workgroup size. \
            With --binaries_to, also writes the code of each to a file, and index.json with all that is known. Such a \
            file can replace the executable: in a program, in a module, and in a replay.\n\n\
            Functions are found in the tables of the files: nothing of them runs.\n\n\
            A program that is a source is given to IREE's compiler, which cuts it into executables and dumps these as \
            --sources_to, --configurations_to, --benchmarks_to and --binaries_to say.",
    operands: Operands::One {
        what: "program, module or capture",
        form: "PROGRAM.mlir|MODULE.vmfb|CAPTURE.ireereplay",
    },
    groups: &[&EXECUTABLES_GROUP, &SOURCES_GROUP, &COMPILING],
    examples: &[
        ("List the executables of a module", "{tool} model.vmfb"),
        ("Write the code of each to a file", "{tool} --binaries_to=binaries model.ireereplay"),
        (
            "Write the sources that the compiler makes of a program",
            "{tool} --target=cpu --sources_to=sources model.mlir",
        ),
    ],
    guide: include_str!("../guides/executables.md"),
    answer: |_, _, _| None,
    run,
};

const FORMAT: Flag<Format> = report_format::flag("text: a table. json: an object.");

const BINARIES_TO: Flag<Option<PathBuf>> = Flag::path(
    "binaries_to",
    "Writes the code of each executable to a file of this directory, which is created, and index.json.",
)
.files(index_in);

const SOURCES_TO: Flag<Option<PathBuf>> = Flag::path(
    "sources_to",
    "Writes the executables of a program, before the compiler decides how they are lowered, and index.json.",
)
.files(index_in);

const CONFIGURATIONS_TO: Flag<Option<PathBuf>> = Flag::path(
    "configurations_to",
    "Writes the executables of a program, after the compiler has decided how they are lowered, and index.json.",
)
.files(index_in);

const BENCHMARKS_TO: Flag<Option<PathBuf>> = Flag::path(
    "benchmarks_to",
    "Writes a program for each function of static shapes that calls only it, and index.json.",
)
.files(index_in);

const FORCE: Flag<bool> = Flag::switch(
    "force",
    false,
    "Replaces files of the directories that have other contents, such as edited ones.",
);

const EXECUTABLES_GROUP: Group =
    Group { title: "Executables", flags: &[&FORMAT, &BINARIES_TO, &FORCE, &replay_flags::RECOVER] };

/// Advice about files that would be replaced.
const KEEP: &str = "name another directory, or replace them by --force";

const SOURCES_GROUP: Group = Group {
    title: "Programs that are sources",
    flags: &[&SOURCES_TO, &CONFIGURATIONS_TO, &BENCHMARKS_TO, &TARGET],
};

/// The files that the compiler dumps, by flag.
const DUMPS: [(&Flag<Option<PathBuf>>, DumpKind); 4] = [
    (&SOURCES_TO, DumpKind::Sources),
    (&CONFIGURATIONS_TO, DumpKind::Configurations),
    (&BENCHMARKS_TO, DumpKind::Benchmarks),
    (&BINARIES_TO, DumpKind::Binaries),
];

/// The list in a directory, of the files that a flag writes there.
fn index_in(directory: &Option<PathBuf>, _: &Flags) -> Vec<NamedFile> {
    directory.iter().map(|directory| Access::Write.to(directory.join(INDEX))).collect()
}

/// The first bytes of a program as bytecode, whatever its name.
const MLIR_BYTECODE: &[u8] = b"ML\xEFR";

/// Why an executable may have no benchmark.
const NO_BENCHMARK: &str =
    "the compiler writes benchmarks of functions of static shapes, in programs for one device";

/// The file that lists the others.
const INDEX: &str = "index.json";

fn run(invocation: &Invocation) -> Result<()> {
    let path = invocation.operand();
    let flags = &invocation.flags;
    let head = MappedFile::open(&path);
    let is_bytecode = head.as_ref().is_ok_and(|it| it.bytes().starts_with(MLIR_BYTECODE));
    if is_program_source(&path) || is_bytecode {
        return run_compiler(invocation, path);
    }
    let mut of_sources = DUMPS.iter().filter(|(_, kind)| *kind != DumpKind::Binaries);
    if let Some((flag, kind)) = of_sources.find(|(flag, _)| flags.get(flag).is_some()) {
        let (name, path, word) = (flag.name(), path.display(), kind.word());
        return Err(Error::invalid_argument(format!(
            "--{name} needs the program's source: '{path}' has no {word} of its executables"
        ))
        .advise(format!(
            "rehal executables PROGRAM.mlir --{name}=DIR, or --binaries_to=DIR for their code"
        )));
    }
    let kind = FileKind::from_head(head?.bytes());
    let (found, capture) = match kind {
        Some(FileKind::Capture) => {
            let options = captures::options(flags.get(&replay_flags::RECOVER));
            let capture = captures::open(&path, &options)?;
            let plan = replay_flags::compile(&capture)?;
            (ListedExecutable::of_plan(&plan), Some(capture.bytes().clone()))
        }
        Some(other) if other != FileKind::Module => {
            let place = format!("'{}'", path.display());
            return Err(other.refuse_as(&place, "a program, a module or a capture").advise(
                "name a program (.mlir, .mlirbc, .onnx), a module (.vmfb) or a capture (.ireereplay)",
            ));
        }
        _ => {
            let module = ProgramModule::read(&ModuleSource::File(path.clone()), ModuleMode::Mmap)?;
            (ListedExecutable::of_module(module.file())?, None)
        }
    };
    report(invocation, found, capture.as_ref())
}

fn report(
    invocation: &Invocation,
    executables: Vec<ListedExecutable>,
    capture: Option<&CaptureBytes>,
) -> Result<()> {
    let subject = Subject { capture, devices: None };
    let directory = invocation.flags.get(&BINARIES_TO);
    let list = List { directory: directory.as_ref().map(|it| it.display().to_string()), executables };
    if let Some(directory) = directory {
        if !invocation.flags.get(&FORCE) {
            let files = list.executables.iter().map(|it| (directory.join(&it.file), &it.code[..]));
            check_unchanged(files).advise(|| KEEP)?;
        }
        let mut index = Vec::new();
        output::written(write_json(&list, false, &mut index))?;
        let code = list.executables.iter().map(|it| (it.file.clone(), &it.code[..]));
        let files: Vec<_> = code.chain([(INDEX.to_owned(), &index[..])]).collect();
        write(&directory, &files)?;
    }
    invocation.print(&list, invocation.flags.get(&FORMAT), subject)
}

/// Lists the executables of a source, and has the compiler dump them.
fn run_compiler(invocation: &Invocation, path: PathBuf) -> Result<()> {
    let flags = &invocation.flags;
    let compiler = compiler_flags::compiler(flags)?;
    let targets = flags.get(&TARGET);
    let arguments = compiler_flags::arguments(flags, || match targets.is_empty() {
        true => target_flags("cpu").unwrap_or_default(),
        false => targets,
    });
    let to = |(flag, kind): &(&Flag<Option<PathBuf>>, DumpKind)| Some((*kind, flags.get(flag)?));
    let to: Vec<_> = DUMPS.iter().filter_map(to).collect();
    let dumped = compiler.dump(&Compilation::new(path, arguments), &to, flags.get(&FORCE)).map_err(
        |error| match error.code() {
            StatusCode::AlreadyExists => error.advise(KEEP),
            _ => error,
        },
    )?;
    if !dumped.messages.trim().is_empty() {
        output::note(dumped.messages.trim_end());
    }
    for (written, files) in to.iter().zip(&dumped.files) {
        let mut index = Vec::new();
        output::written(write_json(&ProgramList::new(&dumped, &[(written, files)]), false, &mut index))?;
        put(&written.1.join(INDEX), &index)?;
    }
    let list = ProgramList::new(&dumped, &to.iter().zip(&dumped.files).collect::<Vec<_>>());
    invocation.print(&list, flags.get(&FORMAT), Subject { capture: None, devices: None })
}

/// Files that are written: their kind, directory and names.
type Written<'a> = (&'a (DumpKind, PathBuf), &'a Vec<String>);

/// The executables of a program that is a source.
#[derive(Serialize)]
struct ProgramList<'a> {
    /// Where the files are; `None` if none or several directories were written.
    directory: Option<String>,
    /// All of these directories.
    #[serde(skip)]
    directories: Vec<String>,
    module: String,
    executables: Vec<ProgramRow<'a>>,
}

#[derive(Serialize)]
struct ProgramRow<'a> {
    name: String,
    /// The target as the compiler prints it.
    target: String,
    format: String,
    /// Its files in the directory; with their directories, if there are several.
    files: Vec<String>,
    /// Why it has none there.
    no_files: Option<&'static str>,
    functions: &'a [ExecutableFunction],
}

impl<'a> ProgramList<'a> {
    fn new(dumped: &'a DumpedExecutables, written: &[Written<'_>]) -> Self {
        let has_benchmarks = matches!(written, [((DumpKind::Benchmarks, _), _)]);
        let mut executables = Vec::new();
        for executable in &dumped.executables {
            for variant in &executable.variants {
                let mut files = Vec::new();
                for ((_, directory), all) in written {
                    let named = dumped.files_of(all, executable, variant).into_iter();
                    files.extend(named.map(|file| match written.len() {
                        1 => file.to_owned(),
                        _ => directory.join(file).display().to_string(),
                    }));
                }
                executables.push(ProgramRow {
                    name: executable.name.clone(),
                    target: variant.target.clone(),
                    format: variant.format.clone(),
                    no_files: (has_benchmarks && files.is_empty()).then_some(NO_BENCHMARK),
                    files,
                    functions: &variant.functions,
                });
            }
        }
        let directories: Vec<_> = written.iter().map(|(it, _)| it.1.display().to_string()).collect();
        let directory = directories.first().filter(|_| written.len() == 1).cloned();
        Self { directory, directories, module: dumped.module.clone(), executables }
    }
}

impl Report for ProgramList<'_> {
    const SCHEMA: &'static str = "rehal.program_executables/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let columns = [
            Column::names("executable"),
            Column::names("function"),
            Column::right("bindings"),
            Column::right("constants"),
            Column::left("format").optional(1),
            Column::left("files").shortened().optional(2),
        ];
        let mut table = Table::new("", columns);
        for row in &self.executables {
            let files = if row.files.is_empty() { "-".into() } else { row.files.join(", ") };
            for it in row.functions {
                let numbers = [it.bindings.len().to_string(), it.constants.to_string()];
                let [bindings, constants] = numbers;
                let names = [row.name.clone(), it.name.clone()];
                let ends = [bindings, constants, row.format.clone(), files.clone()];
                table.row(names.into_iter().chain(ends).collect::<Vec<_>>());
            }
        }
        let mut text = table.text(layout);
        for row in &self.executables {
            if let Some(why) = row.no_files {
                text.push_str(&format!("{} has no file: {why}\n", row.name));
            }
        }
        if self.executables.is_empty() {
            text.push_str("no executables\n");
        }
        for directory in &self.directories {
            text.push_str(&format!("written to {directory}\n"));
        }
        text
    }
}

/// Writes files to a directory, which is created. An error removes those that were not there before.
fn write(directory: &Path, files: &[(String, &[u8])]) -> Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<_> = directory.ancestors().take_while(is_missing).collect();
    let mut created = Vec::new();
    let mut all = || -> Result<()> {
        let made = fs::create_dir_all(directory);
        made.map_err(|error| Error::io(format_args!("creating '{}'", directory.display()), &error))?;
        for (name, bytes) in files {
            let path = directory.join(name);
            if !path.exists() {
                created.push(path.clone());
            }
            let output = OutputFile::new(BINARIES_TO.name(), path)?;
            output
                .write(|sink| sink.write_all(bytes).map_err(|error| Error::io("writing the file", &error)))?;
        }
        Ok(())
    };
    let written = all();
    if written.is_err() {
        created.iter().for_each(|path| drop(fs::remove_file(path)));
        // Only empty ones.
        missing.iter().for_each(|path| drop(fs::remove_dir(path)));
    }
    written
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let output = OutputFile::new(BINARIES_TO.name(), path.to_owned())?;
    output.write(|sink| sink.write_all(bytes).map_err(|error| Error::io("writing the file", &error)))
}

#[derive(Serialize)]
struct List {
    /// Where the binaries are, if they were written.
    directory: Option<String>,
    executables: Vec<ListedExecutable>,
}

impl Report for List {
    const SCHEMA: &'static str = "rehal.executables/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, layout: Layout) -> String {
        let columns = [
            Column::right("id"),
            Column::names("function"),
            Column::right("bindings"),
            Column::right("constants"),
            Column::left("workgroup").optional(1),
            Column::left("format").optional(2),
            Column::right("bytes"),
            Column::left("file").shortened().optional(3),
        ];
        let mut table = Table::new("", columns);
        for row in &self.executables {
            let format = match &row.target {
                Some(target) if !row.format.contains(target.as_str()) => format!("{} ({target})", row.format),
                _ => row.format.clone(),
            };
            let ends = || [format.clone(), row.bytes.to_string(), row.file.clone()];
            let mut push = |name: &str, [bindings, constants, size]: [String; 3]| {
                let start = [row.id.to_string(), name.to_owned(), bindings, constants, size];
                table.row(start.into_iter().chain(ends()).collect::<Vec<_>>());
            };
            match row.functions.as_deref() {
                Some(functions) if !functions.is_empty() => {
                    for it in functions {
                        let [x, y, z] = it.workgroup_size;
                        let size = if [x, y, z] == [0; 3] { "-".into() } else { format!("{x}x{y}x{z}") };
                        push(&it.name, [it.bindings.to_string(), it.constants.to_string(), size]);
                    }
                }
                _ => push(&row.name, ["-".into(), "-".into(), "-".into()]),
            }
        }
        let mut text = table.text(layout);
        for (row, it) in
            self.executables.iter().flat_map(|row| row.functions.iter().flatten().map(move |it| (row, it)))
        {
            if let Some(source) = &it.replaced_by {
                text.push_str(&format!("{} of executable {} is from {source}\n", it.name, row.id));
            }
        }
        for row in self.executables.iter().filter(|row| row.unknown.is_some()) {
            let why = row.unknown.as_deref().unwrap_or_default();
            text.push_str(&format!("functions of executable {} are unknown: {why}\n", row.id));
        }
        if self.executables.is_empty() {
            text.push_str("no executables\n");
        }
        if let Some(directory) = &self.directory {
            text.push_str(&format!("written to {directory}\n"));
        }
        text
    }
}
