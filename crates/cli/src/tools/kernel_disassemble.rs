//! `rehal kernel disassemble`: prints the machine code of a function of a capture, a module or an executable.

mod constants;

use std::ffi::OsString;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use rehal::program::{ModuleExecutable, ModuleMode, ModuleSource, ProgramModule};
use rehal_base::{Error, FileKind, MappedFile, Result, StatusCode};
use rehal_devices::spirv_functions;
use rehal_jobs::{Job, KeptOutput, TemporaryDirectory};
use rehal_local::executable::{ElfCode, FunctionCode, infer_format};
use serde::Serialize;

use self::constants::Constant;
use super::report_format::{self, Format};
use super::{function_flags, replay_flags};
use crate::flags::{Flag, Group};
use crate::output::escaped;
use crate::report::{Report, Subject};
use crate::table::Layout;
use crate::{Invocation, Operands, Tool, captures, interrupts};

/// See the [module](self).
pub const KERNEL_DISASSEMBLE: Tool = Tool {
    name: "rehal kernel disassemble",
    verb: "kernel disassemble",
    summary: "prints the machine code of a kernel",
    about: "Prints addresses, bytes and instructions of a function of a capture, a module or an executable, with lines of its source if the \
            executable has line tables, and, of a capture, the workgroup counts and constants with which it was dispatched. Behind \
            instructions of x86-64 that load constants of the code are their values. The disassembler is that of the system: OBJDUMP in the environment, else objdump or llvm-objdump; spirv-dis for SPIR-V.\n\n\
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
    flags: &[&FUNCTION, &function_flags::DISPATCH, &EXECUTABLE, &replay_flags::RECOVER, &FORMAT],
};

const FORMAT: Flag<Format> = report_format::flag("text: what the disassembler prints. json: an object.");

fn run(invocation: &Invocation) -> Result<()> {
    let path = invocation.operand();
    interrupts::handle();
    let file = MappedFile::open(&path).map_err(|error| error.advise(NAME_A_FILE))?;
    let wanted = invocation.flags.get(&FUNCTION);
    let functions = match FileKind::from_head(file.bytes()) {
        Some(FileKind::Capture) => return of_capture(invocation, &path),
        Some(FileKind::Module) => of_module(&path, invocation.flags.get(&EXECUTABLE))?,
        Some(kind) if kind.is_code() => functions(None, file.bytes())?,
        _ => {
            let place = format!("'{}'", path.display());
            let error = FileKind::Capture.refuse_other(file.bytes(), &place).unwrap_or_else(|| {
                Error::invalid_argument(format!("{place} is not a capture, a module or an executable"))
            });
            return Err(error.advise(NAME_A_FILE));
        }
    };
    let disassembled = one(&functions, wanted.as_deref())?.disassembled(Caller::default())?;
    invocation.print(&disassembled, invocation.flags.get(&FORMAT), Subject::default())
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
    Native(Rc<ElfCode>, FunctionCode),
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
    let elf = Rc::new(ElfCode::read(data)?);
    let function =
        |it: &FunctionCode| Function { name: it.name.clone(), code: Code::Native(elf.clone(), it.clone()) };
    Ok(elf.functions.iter().map(function).collect())
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
    let (mut found, mut dispatches, mut omitted) = (None, Vec::new(), 0);
    plan.distinct_dispatches(|it, _| {
        let is_meant = it.name == function.as_bytes() || function == format!("#{}", it.function);
        if !is_meant || wanted.is_some_and(|id| id != it.executable.id) {
            return Ok(());
        }
        let (id, ordinal) = *found.get_or_insert((it.executable.id, it.function));
        if (id, ordinal) != (it.executable.id, it.function) {
            return Ok(());
        }
        if dispatches.len() == MAX_LISTED {
            omitted += 1;
            return Ok(());
        }
        dispatches.push(Dispatch {
            record: it.location.ordinal,
            workgroup_count: it.workgroup_count,
            constants: words(it.constants),
        });
        Ok(())
    })?;
    let Some((id, ordinal)) = found else {
        let error = Error::not_found(format!("no dispatch of '{}' with that executable", escaped(&function)));
        return Err(error.advise("leave --executable out; rehal info lists executables and their functions"));
    };
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
    let caller = Caller { executable: Some(id), dispatches, omitted_dispatches: omitted };
    let disassembled = function.disassembled(caller)?;
    let subject = Subject { capture: Some(capture.bytes()), devices: None };
    invocation.print(&disassembled, flags.get(&FORMAT), subject)
}

/// A function as it is printed.
#[derive(Serialize)]
struct Disassembled {
    function: String,
    #[serde(flatten)]
    caller: Caller,
    /// The address in the image; null of SPIR-V.
    address: Option<u64>,
    /// Bytes of the function, or of the SPIR-V module.
    length: u64,
    /// Null of SPIR-V.
    instructions: Option<Vec<Instruction>>,
    /// What the disassembler prints.
    lines: Vec<String>,
}

/// How a capture calls a function.
#[derive(Default, Serialize)]
struct Caller {
    /// Null unless it is of a capture.
    executable: Option<u64>,
    dispatches: Vec<Dispatch>,
    omitted_dispatches: u64,
}

#[derive(Serialize)]
struct Dispatch {
    record: u32,
    /// Null if it is counted in a buffer.
    workgroup_count: Option<[u32; 3]>,
    constants: Vec<u32>,
}

#[derive(Serialize)]
struct Instruction {
    address: u64,
    /// In hexadecimal.
    bytes: String,
    text: String,
    /// The last line of the source before it, if the executable has line tables.
    source: Option<String>,
    constant: Option<Constant>,
    /// The line that it is on.
    #[serde(skip)]
    line: usize,
}

impl Report for Disassembled {
    const SCHEMA: &'static str = "rehal.kernel.disassemble/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, _layout: Layout) -> String {
        let mut text = String::new();
        let Caller { executable, dispatches, omitted_dispatches } = &self.caller;
        if let Some(executable) = executable {
            let _ = writeln!(text, "; executable {executable}");
        }
        dispatches.iter().for_each(|it| text.push_str(&it.text()));
        if *omitted_dispatches > 0 {
            let _ = writeln!(text, "; more: {omitted_dispatches}");
        }
        let (function, length) = (escaped(&self.function), self.length);
        let _ = match self.address {
            Some(address) => writeln!(text, "; function {function}, {length} bytes at {address:#x}"),
            None => writeln!(text, "; function {function}, in a SPIR-V module of {length} bytes"),
        };
        let constants =
            self.instructions.iter().flatten().filter_map(|it| Some((it.line, it.constant.as_ref()?)));
        let mut constants = constants.peekable();
        for (index, line) in self.lines.iter().enumerate() {
            text.push_str(line);
            if let Some((_, constant)) = constants.next_if(|(line, _)| *line == index) {
                text.extend(["  ", &constant.text()]);
            }
            text.push('\n');
        }
        text
    }
}

impl Dispatch {
    fn text(&self) -> String {
        let workgroups = match self.workgroup_count {
            Some([x, y, z]) => format!("{x}x{y}x{z} workgroups"),
            None => "workgroups counted in a buffer".into(),
        };
        let constants: Vec<_> = self.constants.iter().map(u32::to_string).collect();
        let constants = match constants.is_empty() {
            true => "no constants".into(),
            false => format!("constants {}", constants.join(" ")),
        };
        format!("; record #{}: {workgroups}, {constants}\n", self.record)
    }
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
    fn disassembled(&self, caller: Caller) -> Result<Disassembled> {
        let (address, length, instructions, lines) = match &self.code {
            Code::Native(elf, code) => {
                let lines = objdump(&elf.image, code)?;
                let instructions = instructions(&lines, |address, length| elf.constant(address, length));
                (Some(code.start), code.end - code.start, Some(instructions), lines)
            }
            Code::SpirV(words) => (None, 4 * words.len() as u64, None, spirv(words)?),
        };
        Ok(Disassembled { function: self.name.clone(), caller, address, length, instructions, lines })
    }
}

/// The instructions of what a disassembler prints: an address and a colon, the bytes, and behind a tab the
/// text. Other lines name the source. Bytes that do not fit a line are on the next, without a text.
fn instructions<'b>(lines: &[String], read: impl Fn(u64, usize) -> Option<&'b [u8]>) -> Vec<Instruction> {
    let (mut instructions, mut source) = (Vec::<Instruction>::new(), None);
    for (index, line) in lines.iter().enumerate() {
        let code = line
            .trim_start()
            .split_once(':')
            .and_then(|(address, rest)| Some((u64::from_str_radix(address, 16).ok()?, rest.trim_start())));
        let Some((address, rest)) = code else {
            let of_source = line.trim_start_matches("; ");
            if of_source
                .rsplit_once(':')
                .is_some_and(|(_, it)| it.starts_with(|it: char| it.is_ascii_digit()))
            {
                source = Some(of_source.to_owned());
            }
            continue;
        };
        let (bytes, text) = rest.split_once('\t').unwrap_or((rest, ""));
        let bytes: String = bytes.split_whitespace().collect();
        match instructions.last_mut() {
            Some(last) if text.trim().is_empty() => last.bytes.push_str(&bytes),
            _ => {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let constant = Constant::loaded(&text, &read);
                let source = source.clone();
                instructions.push(Instruction { address, bytes, text, source, constant, line: index });
            }
        }
    }
    instructions
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

/// The lines of a function, by the system's disassembler.
fn objdump(image: &[u8], function: &FunctionCode) -> Result<Vec<String>> {
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
    // The label is of the nearest symbol, which seldom is that of the function.
    let is_label = |line: &str| line.starts_with(|it: char| it.is_ascii_hexdigit()) && line.ends_with(">:");
    Ok(code.filter(|line| !line.trim().is_empty() && !is_label(line)).map(str::to_owned).collect())
}

/// The lines of a SPIR-V module, of which a function is an entry point.
fn spirv(words: &[u32]) -> Result<Vec<String>> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let text = with_file(&bytes, |file| {
        print_of(&["spirv-dis".into()], vec!["--no-color".into(), file], "install SPIRV-Tools")
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// What the first of these programs that exists prints.
fn print_of(names: &[OsString], arguments: Vec<OsString>, install: &str) -> Result<String> {
    for name in names {
        let shown = name.to_string_lossy();
        let mut job = Job::for_program(name);
        job.arguments.clone_from(&arguments);
        job.environment = vec![("LC_ALL".into(), Some("C".into()))];
        job.kept = KeptOutput::First(usize::MAX);
        match job.run(&mut |_| ControlFlow::Continue(())) {
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
