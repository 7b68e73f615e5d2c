//! `rehal kernel disassemble`: prints the machine code of a function of a capture, a module or an executable.

use std::fmt::Write;
use std::path::Path;

use rehal::program::{ModuleExecutable, ModuleMode, ModuleSource, ProgramModule};
use rehal_base::{Context, Error, FileKind, MappedFile, Result};
use rehal_kernels::{Caller, CapturedCode, CodeDispatch, CodeFunction, Disassembly};

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
        Some(FileKind::Module) => {
            let module = ProgramModule::read(&ModuleSource::File(path.clone()), ModuleMode::Mmap)?;
            ModuleExecutable::code_functions(module.file(), invocation.flags.get(&EXECUTABLE))?
        }
        Some(kind) if kind.is_code() => CodeFunction::list(None, file.bytes())?,
        _ => {
            let place = format!("'{}'", path.display());
            let error = FileKind::Capture.refuse_other(file.bytes(), &place).unwrap_or_else(|| {
                Error::invalid_argument(format!("{place} is not a capture, a module or an executable"))
            });
            return Err(error.advise(NAME_A_FILE));
        }
    };
    let disassembled = one(&functions, wanted.as_deref())?.disassemble()?;
    invocation.print(&disassembled, invocation.flags.get(&FORMAT), Subject::default())
}

const NAME_A_FILE: &str =
    "name a capture, a compiled module, an ELF image, SPIR-V, PTX, or an executable for a GPU";

/// The function of a capture, below what its dispatches have in common and what they do not.
fn of_capture(invocation: &Invocation, path: &Path) -> Result<()> {
    let flags = &invocation.flags;
    let capture = captures::open(path, &captures::options(flags.get(&replay_flags::RECOVER)))?;
    let plan = replay_flags::compile(&capture)?;
    let function = function_flags::one(flags, &FUNCTION, &plan)?;
    let code = CapturedCode::find(&plan, &function, flags.get(&EXECUTABLE))?;
    let code = code.ok_or_else(|| {
        Error::not_found(format!("no dispatch of '{}' with that executable", escaped(&function)))
            .advise("leave --executable out; rehal info lists executables and their functions")
    })?;
    let called = match function.starts_with('#') {
        false => one(code.functions(), Some(&function))?,
        true => code.called()?,
    };
    let subject = Subject { capture: Some(capture.bytes()), devices: None };
    invocation.print(&code.disassemble(called)?, flags.get(&FORMAT), subject)
}

/// The function that is meant.
fn one<'f>(functions: &'f [CodeFunction], wanted: Option<&str>) -> Result<&'f CodeFunction> {
    CodeFunction::one(functions, wanted).advise(|| {
        let names = functions.iter().map(|it| format!("'{}'", escaped(&it.name)));
        format!("name one with --function: {}", rehal_base::listed(names.collect::<Vec<_>>()))
    })
}

impl Report for Disassembly {
    const SCHEMA: &'static str = "rehal.kernel.disassemble/1";
    const IS_ON_A_LINE: bool = false;

    fn text(&self, _layout: Layout) -> String {
        let mut text = String::new();
        let Caller { executable, dispatches, omitted_dispatches, .. } = &self.caller;
        if let Some(executable) = executable {
            let _ = writeln!(text, "; executable {executable}");
        }
        dispatches.iter().for_each(|it| text.push_str(&self::text(it)));
        if *omitted_dispatches > 0 {
            let _ = writeln!(text, "; more: {omitted_dispatches}");
        }
        let (function, length) = (escaped(&self.function), self.length);
        let _ = match self.address {
            Some(address) => writeln!(text, "; function {function}, {length} bytes at {address:#x}"),
            None => writeln!(text, "; function {function}, in an image of {length} bytes"),
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

fn text(dispatch: &CodeDispatch) -> String {
    let workgroups = match dispatch.workgroup_count {
        Some([x, y, z]) => format!("{x}x{y}x{z} workgroups"),
        None => "workgroups counted in a buffer".into(),
    };
    let constants: Vec<_> = dispatch.constants.iter().map(u32::to_string).collect();
    let constants = match constants.is_empty() {
        true => "no constants".into(),
        false => format!("constants {}", constants.join(" ")),
    };
    format!("; record #{}: {workgroups}, {constants}\n", dispatch.record)
}
