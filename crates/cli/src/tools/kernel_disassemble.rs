//! `rehal kernel disassemble`: prints the machine code of a function of a capture, a module or an executable.

use std::ffi::OsString;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rehal_base::{Error, FileKind, MappedFile, Result, StatusCode};
use rehal_session::{
    ElfCode, FunctionCode, Job, KeptOutput, ModuleExecutable, ModuleMode, ModuleSource, ProgramModule,
    TemporaryDirectory, infer_format, spirv_functions,
};

use super::{function_flags, replay_flags};
use crate::flags::{Flag, Group};
use crate::output::{self, escaped};
use crate::tool::RUNNER;
use crate::{Invocation, Operands, Tool, captures, interrupts};

/// See the [module](self).
pub const KERNEL_DISASSEMBLE: Tool = Tool {
    name: "rehal kernel disassemble",
    verb: "kernel disassemble",
    summary: "prints the machine code of a kernel",
    about: "Prints addresses, bytes and instructions of a function of a capture, a module or an executable, with lines of its source if the \
            executable has line tables, and, of a capture, the workgroup counts and constants with which it was dispatched. The \
            disassembler is that of the system: OBJDUMP in the environment, else objdump or llvm-objdump; spirv-dis for SPIR-V.\n\n\
            Functions are found in the file's table of them: nothing of it runs.",
    operands: Operands::One { what: "capture, module or executable", form: "FILE --function=NAME" },
    groups: &[&DISASSEMBLY],
    examples: &[
        ("Disassemble a kernel of a capture", "{tool} --function=main_dispatch_3 model.ireereplay"),
        ("Disassemble a kernel of a module", "{tool} --function=main_dispatch_3 model.vmfb"),
        ("The only function of an executable", "{tool} kernel.so"),
    ],
    guide: include_str!("../guides/kernel_disassemble.md"),
    answer: |_, _, _| None,
    runs_kernels: false,
    run,
};

const FUNCTION: Flag<Option<String>> = function_flags::one_flag(
    "The function: its name, a part that no other name has, or a pattern with * and ? that no other name matches. By default \
     the only one that is dispatched, or that the executable has.",
);

const EXECUTABLE: Flag<Option<u64>> = function_flags::executable_flag(
    "The executable of the capture, if several have a function of this name. By default the first that a dispatch of it uses. Of a \
     module, its number, which rehal executables prints.",
);

const DISASSEMBLY: Group = Group {
    title: "Disassembly",
    flags: &[&FUNCTION, &function_flags::DISPATCH, &EXECUTABLE, &replay_flags::RECOVER],
};

fn run(invocation: &Invocation) -> Result<()> {
    let path = invocation.operand();
    interrupts::handle();
    let file = MappedFile::open(&path).map_err(|error| error.advise(NAME_A_FILE))?;
    let wanted = invocation.flags.get(&FUNCTION);
    match FileKind::from_head(file.bytes()) {
        Some(FileKind::Capture) => of_capture(invocation, &path),
        Some(FileKind::Module) => {
            let functions = of_module(&path, invocation.flags.get(&EXECUTABLE))?;
            output::print(&one(&functions, wanted.as_deref())?.disassembled()?)
        }
        Some(kind) if kind.is_code() => {
            let functions = functions(None, file.bytes())?;
            output::print(&one(&functions, wanted.as_deref())?.disassembled()?)
        }
        _ => {
            let place = format!("'{}'", path.display());
            let error = FileKind::Capture.refuse_other(file.bytes(), &place).unwrap_or_else(|| {
                Error::invalid_argument(format!("{place} is not a capture, a module or an executable"))
            });
            Err(error.advise(NAME_A_FILE))
        }
    }
}

const NAME_A_FILE: &str =
    "name a capture, a compiled module, an ELF image, an executable for Vulkan or a SPIR-V module";

/// A function whose code can be printed.
struct Function {
    name: String,
    code: Code,
}

enum Code {
    /// The image, and where the function is in it.
    Native(Rc<[u8]>, FunctionCode),
    SpirV(Arc<[u32]>),
}

/// The functions of an executable, by ordinal.
fn functions(format: Option<&str>, data: &[u8]) -> Result<Vec<Function>> {
    if FileKind::from_head(data) != Some(FileKind::Elf) {
        let functions = spirv_functions(format, data)?.into_iter();
        return Ok(functions.map(|it| Function { name: it.name, code: Code::SpirV(it.words) }).collect());
    }
    let format = infer_format(data).unwrap_or("an unknown architecture");
    if !format.ends_with(std::env::consts::ARCH) {
        return Err(other_architecture(format.trim_start_matches("embedded-elf-")));
    }
    let ElfCode { image, functions } = ElfCode::read(data)?;
    let image: Rc<[u8]> = image.into();
    let function =
        |it: FunctionCode| Function { name: it.name.clone(), code: Code::Native(image.clone(), it) };
    Ok(functions.into_iter().map(function).collect())
}

/// The functions of the executables of a module, or of one of them. Those that are not for this machine are
/// left out, unless there are no others.
fn of_module(path: &Path, wanted: Option<u64>) -> Result<Vec<Function>> {
    let module = ProgramModule::read(&ModuleSource::File(path.into()), ModuleMode::Mmap)?;
    let (mut all, mut failed) = (Vec::new(), None);
    for executable in ModuleExecutable::list(module.file())? {
        let (number, code) = (executable.number, executable.code(module.file()));
        let is_code = FileKind::from_head(code).is_some_and(FileKind::is_code);
        if !is_code || wanted.is_some_and(|wanted| wanted != number) {
            continue;
        }
        match functions(Some(&executable.format).filter(|it| !it.is_empty()).map(String::as_str), code) {
            Ok(functions) => all.extend(functions),
            Err(error) => failed = failed.or(Some(error.context(format!("executable {number}")))),
        }
    }
    match (all.is_empty(), failed) {
        (true, Some(error)) => Err(error),
        (true, None) => Err(Error::not_found("the module has no such machine code or SPIR-V").advise(
            "its VM program is printed by rehal dump-module, and its executables by rehal executables",
        )),
        _ => Ok(all),
    }
}

fn other_architecture(theirs: &str) -> Error {
    let message = format!("the executable is for {theirs}, this machine is {}", std::env::consts::ARCH);
    Error::unimplemented(message).advise("disassemble it with llvm-objdump")
}

/// The function of a capture, below what its dispatches have in common and what they do not.
fn of_capture(invocation: &Invocation, path: &Path) -> Result<()> {
    /// Distinct dispatches that are listed.
    const MAX_LISTED: usize = 16;
    let flags = &invocation.flags;
    let capture = captures::open(path, &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    let function = function_flags::one(flags, &FUNCTION, &plan)?;
    let wanted = flags.get(&EXECUTABLE);
    let (mut found, mut listed, mut omitted) = (None, String::new(), 0);
    let mut count = 0;
    plan.distinct_dispatches(|it, _| {
        let is_meant = it.name == function.as_bytes() || function == format!("#{}", it.function);
        if !is_meant || wanted.is_some_and(|id| id != it.executable.id) {
            return Ok(());
        }
        let (id, ordinal) = *found.get_or_insert((it.executable.id, it.function));
        if (id, ordinal) != (it.executable.id, it.function) {
            return Ok(());
        }
        count += 1;
        if count > MAX_LISTED {
            omitted += 1;
            return Ok(());
        }
        let workgroups = match it.workgroup_count {
            Some([x, y, z]) => format!("{x}x{y}x{z} workgroups"),
            None => "workgroups counted in a buffer".into(),
        };
        let constants: Vec<_> = words(it.constants).iter().map(u32::to_string).collect();
        let constants = match constants.is_empty() {
            true => "no constants".into(),
            false => format!("constants {}", constants.join(" ")),
        };
        let _ = writeln!(listed, "; record #{}: {workgroups}, {constants}", it.location.ordinal);
        Ok(())
    })?;
    let Some((id, ordinal)) = found else {
        let error = Error::not_found(format!("no dispatch of '{}' with that executable", escaped(&function)));
        return Err(error.advise("leave --executable out; rehal info lists executables and their functions"));
    };
    if omitted > 0 {
        let _ = writeln!(listed, "; more: {omitted}");
    }
    let executable = plan.executables().find(|it| it.id == id);
    let executable =
        executable.ok_or_else(|| Error::not_found(format!("executable {id} is not in the capture")))?;
    let format = String::from_utf8_lossy(executable.format);
    if FileKind::from_head(executable.data).is_none_or(|kind| !kind.is_code()) {
        let message =
            format!("executable {id} has format '{}', which is not machine code or SPIR-V", escaped(&format));
        return Err(Error::unimplemented(message).advise("VM programs are printed by rehal dump-module"));
    }
    let functions = functions(Some(&format), executable.data)?;
    // Captures of version 1.0 have no names.
    let function = match function.starts_with('#') {
        false => one(&functions, Some(&function))?,
        true => functions
            .get(ordinal as usize)
            .ok_or_else(|| Error::not_found(format!("the executable has no function {ordinal}")))?,
    };
    output::print(&format!("; executable {id}\n{listed}{}", function.disassembled()?))
}

/// Numbers of 32 bits, little-endian.
fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|it| u32::from_le_bytes(*it)).collect()
}

/// The function that is meant: by its name, a part, or a pattern.
fn one<'f>(functions: &'f [Function], wanted: Option<&str>) -> Result<&'f Function> {
    let is = |test: &dyn Fn(&str) -> bool| -> Vec<&Function> {
        functions.iter().filter(|it| test(&it.name)).collect()
    };
    let found = match wanted {
        None => is(&|_| true),
        Some(wanted) => {
            let tests: [&dyn Fn(&str) -> bool; 3] =
                [&|name| name == wanted, &|name| rehal_base::glob::matches(wanted, name), &|name| {
                    name.contains(wanted)
                }];
            tests.iter().map(|test| is(*test)).find(|it| !it.is_empty()).unwrap_or_default()
        }
    };
    match found[..] {
        [function] => Ok(function),
        _ => {
            let names: Vec<_> = functions.iter().map(|it| format!("'{}'", escaped(&it.name))).collect();
            let message = match wanted {
                Some(wanted) => format!("{} functions match '{}'", found.len(), escaped(wanted)),
                None => format!("the executable has {} functions", found.len()),
            };
            Err(Error::not_found(message)
                .advise(format!("name one with --function: {}", rehal_base::listed(names))))
        }
    }
}

impl Function {
    fn disassembled(&self) -> Result<String> {
        match &self.code {
            Code::Native(image, code) => objdump(image, code),
            Code::SpirV(words) => spirv(&self.name, words),
        }
    }
}

/// Calls a function with a temporary file that has these bytes.
fn with_file<T>(bytes: &[u8], run: impl FnOnce(OsString) -> Result<T>) -> Result<T> {
    let directory = TemporaryDirectory::in_temp("rehal-disassemble-")?;
    let file = directory.path().join("executable");
    let written = std::fs::write(&file, bytes)
        .map_err(|error| Error::io(format!("writing '{}'", file.display()), &error));
    directory.explain(written)?;
    run(file.into())
}

/// The instructions of a function, by the system's disassembler.
fn objdump(image: &[u8], function: &FunctionCode) -> Result<String> {
    let arguments = [
        "--disassemble".to_string(),
        "--line-numbers".into(),
        "-M".into(),
        "intel".into(),
        format!("--start-address={:#x}", function.start),
        format!("--stop-address={:#x}", function.end),
    ];
    let arguments = arguments.iter().map(OsString::from);
    let given = std::env::var_os("OBJDUMP").filter(|it| !it.is_empty());
    let names = given.map_or_else(|| vec!["objdump".into(), "llvm-objdump".into()], |name| vec![name]);
    let text = with_file(image, |file| {
        print_of(&names, arguments.chain([file]).collect(), "install binutils or LLVM")
    })?;
    // Before it are the name of the file and of the section.
    let code = text.lines().skip_while(|line| !line.starts_with("Disassembly of")).skip(1);
    let mut printed = format!(
        "; function {}, {} bytes at {:#x}\n",
        escaped(&function.name),
        function.end - function.start,
        function.start
    );
    // The label is of the nearest symbol, which seldom is that of the function.
    let is_label = |line: &str| line.starts_with(|it: char| it.is_ascii_hexdigit()) && line.ends_with(">:");
    for line in code.filter(|line| !line.trim().is_empty() && !is_label(line)) {
        printed.push_str(line);
        printed.push('\n');
    }
    Ok(printed)
}

/// The instructions of a SPIR-V module, of which a function is an entry point.
fn spirv(name: &str, words: &[u32]) -> Result<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = with_file(&bytes, |file| {
        print_of(&["spirv-dis".into()], vec!["--no-color".into(), file], "install SPIRV-Tools")
    })?;
    Ok(format!("; function {}, in a SPIR-V module of {} bytes\n{text}", escaped(name), bytes.len()))
}

/// What the first of these programs that exists prints.
fn print_of(names: &[OsString], arguments: Vec<OsString>, install: &str) -> Result<String> {
    for name in names {
        let shown = name.to_string_lossy();
        let mut job = Job::for_program(name);
        job.arguments.clone_from(&arguments);
        job.environment = vec![("LC_ALL".into(), Some("C".into()))];
        job.kept = KeptOutput::First(usize::MAX);
        match RUNNER.run(&job, &mut |_| ControlFlow::Continue(())) {
            Ok(ran) if ran.is_success() => return Ok(String::from_utf8_lossy(&ran.stdout.bytes).into_owned()),
            Ok(ran) => {
                let said = String::from_utf8_lossy(&ran.stderr.bytes).trim().to_string();
                return Err(Error::new(StatusCode::Aborted, format!("{shown} failed: {said}"))
                    .advise("name another disassembler: OBJDUMP=llvm-objdump"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(format!("starting {shown}"), &error).advise(install)),
        }
    }
    let names: Vec<_> = names.iter().map(|it| it.to_string_lossy()).collect();
    Err(Error::not_found(format!("no disassembler: {} is not in PATH", names.join(" or "))).advise(install))
}
