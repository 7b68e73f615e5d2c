//! The bodies of the fuzz targets: every operation on untrusted modules and instructions.

use std::sync::Arc;

use rehal_base::{Error, HostMemory, Result};

use crate::dump::{self, AssemblyOptions};
use crate::module_file::schema::id;
use crate::test_programs::YieldableTest;
use crate::{
    Argument, Budget, Context, Function, Invocation, List, Module, ModuleFile, Ref, Step, Value, ValueKind,
};

/// The budget of each call of an untrusted program.
const BUDGET: Budget = Budget { instructions: 20_000, bytes: 64 << 20 };
/// Resumptions of a program that suspends.
const RESUMPTIONS: usize = 100;
/// Exports of a program that are called.
const CALLS: usize = 64;

/// The last stage that [`exercise`] reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// The tables are malformed.
    Nothing,
    /// The tables can be read and printed.
    Tables,
    /// The tables are consistent.
    File,
    /// All instructions are verified.
    Verified,
    /// It was loaded; the given number of functions returned, the others failed.
    Run {
        /// Functions that returned.
        returned: usize,
    },
}

/// Reads, prints, verifies and executes `bytes` as a module, as far as they are valid. Must not panic, must
/// terminate soon, and must use memory in proportion to the input. Loads no native code.
pub fn exercise(bytes: &[u8]) -> Reached {
    let Ok(memory) = HostMemory::constant(bytes) else { return Reached::Nothing };
    let memory = Arc::new(memory);
    let Ok(tables) = ModuleFile::inspect(memory.clone()) else { return Reached::Nothing };
    let mut nowhere = std::io::sink();
    // A dump may fail on a module that cannot be printed.
    let _ = dump::metadata(&tables, &mut nowhere);
    let _ = dump::json(&tables, false, &mut nowhere);
    let Ok(file) = ModuleFile::read(memory) else { return Reached::Tables };
    // A file with a damaged directory cannot be rewritten; what is rewritten can be read.
    if let Ok(rewritten) = file.with_rodata(&[]) {
        let read = ModuleFile::copy(&rewritten);
        assert!(read.is_ok(), "a rewritten module cannot be read: {:?}", read.err());
    }
    let _ = file.calls_with_constants("hal.executable.create");
    let Ok(module) = Module::bytecode(file.clone()) else { return Reached::File };
    let shown = dump::assembly(&file, AssemblyOptions::default(), &mut nowhere);
    assert!(shown.is_ok(), "a verified module cannot be printed: {shown:?}");
    let Ok(beside) = Module::native(YieldableTest) else { return Reached::Verified };
    let Ok(context) = Context::limited(&[beside, module.clone()], BUDGET) else { return Reached::Verified };
    let mut returned = 0;
    for export in module.exports().iter().take(CALLS) {
        let Ok(function) = context.export(1, &export.name) else { continue };
        returned += usize::from(call(&function).is_ok());
    }
    Reached::Run { returned }
}

/// Bytes before the instructions in the input of [`exercise_instructions`].
const HEADER_BYTES: usize = 4;

/// Verifies and executes `input` as instructions, as far as they are valid, in place of those of a function
/// of `template`. The first four bytes give the function's blocks, 32-bit and reference registers (modulo 16,
/// at least one block), and its required features. An input that is itself a module goes to [`exercise`].
///
/// The template is one of our modules whose first function is long enough (`fixtures/vm/template.vmfb`).
pub fn exercise_instructions(template: &[u8], input: &[u8]) -> Reached {
    let Some((header, instructions)) = input.split_at_checked(HEADER_BYTES) else { return Reached::Nothing };
    match exercise(input) {
        Reached::Nothing => {}
        reached => return reached,
    }
    match with_instructions(template, header, instructions) {
        Some(module) => exercise(&module),
        None => Reached::Nothing,
    }
}

/// The template with its first function replaced.
fn with_instructions(template: &[u8], header: &[u8], instructions: &[u8]) -> Option<Vec<u8>> {
    let file = ModuleFile::copy(template).ok()?;
    let bytecode = file.bytecode_range().start + file.function(0)?.bytecode.start;
    let room = file.function(0)?.bytecode.len();
    let instructions = &instructions[..instructions.len().min(room)];
    let descriptor = file.flatbuffer_range().start + file.root().vector(id::MODULE_FUNCTIONS)?.at();
    let mut module = template.to_vec();
    module.get_mut(bytecode..bytecode + instructions.len())?.copy_from_slice(instructions);
    let blocks = u16::from(header[0] % 16).max(1);
    let (words, refs) = (u16::from(header[1] % 16), u16::from(header[2] % 16));
    let mut store = |at: usize, value: &[u8]| -> Option<()> {
        module.get_mut(descriptor + at..descriptor + at + value.len())?.copy_from_slice(value);
        Some(())
    };
    // The layout of `schema::FUNCTION_DESCRIPTOR`.
    store(4, &(instructions.len() as u32).to_le_bytes())?;
    store(8, &u32::from(header[3] % 16).to_le_bytes())?;
    store(14, &blocks.to_le_bytes())?;
    store(16, &words.to_le_bytes())?;
    store(18, &refs.to_le_bytes())?;
    Some(module)
}

/// Calls a function with values of its argument kinds.
fn call(function: &Function) -> Result<()> {
    let mut arguments = Vec::new();
    let mut tuples = Vec::new();
    for argument in function.convention().arguments() {
        match argument {
            Argument::One(kind) => arguments.push(value(*kind)?),
            Argument::Span(kinds) => {
                tuples.push(2);
                for kind in kinds.iter().chain(kinds.iter()) {
                    arguments.push(value(*kind)?);
                }
            }
        }
    }
    let mut invocation = Invocation::new(function);
    let mut step = invocation.start_with_spans(arguments, &tuples)?;
    for _ in 0..RESUMPTIONS {
        match step {
            Step::Done => return Ok(()),
            Step::Yielded | Step::Waiting(_) => step = invocation.resume()?,
        }
    }
    Err(Error::resource_exhausted(format!("the program keeps suspending: resumed {RESUMPTIONS} times")))
}

fn value(kind: ValueKind) -> Result<Value> {
    Ok(match kind {
        ValueKind::I32 => Value::I32(3),
        ValueKind::I64 => Value::I64(5),
        ValueKind::F32 => Value::F32(1.5),
        ValueKind::F64 => Value::F64(-2.5),
        ValueKind::Ref => Value::Ref(Ref::new(List::from_variants(vec![Value::I32(1), Value::NULL]))),
    })
}
