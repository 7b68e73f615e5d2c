//! Instructions executed by a function call out of the dispatch loop: the call is cheap relative to their
//! work.

use rehal_base::{Error, Result, StatusCode};

use crate::code::{Code, OutOfLine, Slice};
use crate::compute;
use crate::isa::instructions;
use crate::operation::Op;
use crate::registers::{Window, look, put, take};
use crate::{Ref, ValueKind};

use super::activation::{Activation, Environment, broken};
use super::refs::check;
use super::{buffers, globals, lists, refs};

/// Executes an instruction of the groups `library` and `routines`.
#[inline(never)]
pub(super) fn run_routine(
    op: Op,
    operands: [u16; 6],
    Environment { code, program, instance }: Environment<'_>,
    window: &mut Window,
    refs: &mut [Ref],
) -> Result<()> {
    if compute::run_library(op, operands, window) {
        return Ok(());
    }
    routine(op, operands, &mut Activation { code, program, instance, window, refs })
}

/// Executes one of the other instructions.
#[inline(never)]
pub(super) fn run(
    insn: OutOfLine,
    Environment { code, program, instance }: Environment<'_>,
    window: &mut Window,
    refs: &mut [Ref],
) -> Result<()> {
    let mut activation = Activation { code, program, instance, window, refs };
    let this = &mut activation;
    match insn {
        OutOfLine::MoveRef { source, target } => {
            let object = take(this.refs, source);
            put(this.refs, target, object);
        }
        OutOfLine::GlobalLoadRef { global, type_id, result } => {
            globals::load_ref_at(this, global, type_id, result)?;
        }
        OutOfLine::GlobalStoreRef { global, type_id, value } => {
            globals::store_ref_at(this, global, type_id, value)?;
        }
        OutOfLine::ListGetRef { list, index, type_id, result } => {
            lists::get_ref(this, [list, index, type_id, result])?;
        }
        OutOfLine::Rodata { segment, result } => {
            let object = program.rodata.get(segment as usize).cloned().unwrap_or_default();
            put(this.refs, result, object);
        }
        OutOfLine::ImportResolved { import, result } => {
            let is_resolved = instance.imports.get(import as usize).is_some_and(Option::is_some);
            this.put(result, i32::from(is_resolved));
        }
        OutOfLine::Discard { registers } => {
            for register in slice(code, registers) {
                put(this.refs, *register, Ref::NULL);
            }
        }
        OutOfLine::Switch { kind, registers } => switch(this, kind, registers),
        OutOfLine::SwitchRef { type_id, registers } => switch_ref(this, type_id, registers)?,
        OutOfLine::Fail { status, text } => {
            let status = this.get(status);
            if status != 0 {
                return Err(failure(status, &code.texts[text as usize]));
            }
        }
        OutOfLine::End => {
            let what = "the function ends without returning";
            return Err(Error::new(StatusCode::FailedPrecondition, what));
        }
    }
    Ok(())
}

macro_rules! routines {
    (
        inline $inline:tt
        fallible $fallible:tt
        library $library:tt
        routines { $($set:ident $opcode:literal $op:ident $mnemonic:literal $($syntax:literal)?
            [$($field:ident)*] = $function:expr $(, $bytes:expr)?;)* }
        $($rest:tt)*
    ) => {
        /// Executes an instruction of the group `routines`.
        fn routine(op: Op, operands: [u16; 6], activation: &mut Activation<'_>) -> Result<()> {
            match op {
                $(Op::$op => $function(operands, activation),)*
                _ => Err(broken("an instruction without a routine")),
            }
        }

        /// Bytes that an instruction of the group `routines` allocates or touches.
        pub(super) fn routine_bytes(op: Op, operands: [u16; 6], window: &Window) -> u64 {
            match op {
                $($(Op::$op => $bytes(operands, window),)?)*
                _ => 0,
            }
        }
    };
}
instructions!(routines);

fn slice(code: &Code, slice: Slice) -> &[u16] {
    &code.registers[slice.start as usize..][..slice.length as usize]
}

/// The register that an index selects among the values, or the default, which precedes them.
fn selected(choices: &[u16], index: u32) -> u16 {
    choices.get((index as usize).saturating_add(1)).copied().unwrap_or(choices[0])
}

/// `switch.*` of numbers.
fn switch(activation: &mut Activation<'_>, kind: ValueKind, registers: Slice) {
    let [index, result, choices @ ..] = slice(activation.code, registers) else { return };
    let source = selected(choices, activation.get(*index));
    match kind {
        ValueKind::I32 | ValueKind::F32 | ValueKind::Ref => {
            activation.put(*result, activation.get::<u32>(source));
        }
        ValueKind::I64 | ValueKind::F64 => activation.put(*result, activation.get::<u64>(source)),
    }
}

/// `switch.ref`
fn switch_ref(activation: &mut Activation<'_>, type_id: u16, registers: Slice) -> Result<()> {
    let [index, result, choices @ ..] = slice(activation.code, registers) else { return Ok(()) };
    let source = selected(choices, activation.get(*index));
    check(look(activation.refs, source), activation.element_kind(type_id))?;
    let object = take(activation.refs, source);
    put(activation.refs, *result, object);
    Ok(())
}

/// The error of `fail` with a nonzero status. As in the reference, the lower five bits are the code; if that
/// is not an error code, the message contains the whole status.
#[cold]
fn failure(status: u32, text: &str) -> Error {
    match StatusCode::from_u32(status & 0x1F) {
        None | Some(StatusCode::Ok) => {
            Error::new(StatusCode::Unknown, format!("{text} (status {})", status as i32))
        }
        Some(code) => Error::new(code, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fail_has_the_code_of_its_status() {
        let code = |status: i32| failure(status as u32, "said so").code();
        assert_eq!((code(1), code(18)), (StatusCode::Cancelled, StatusCode::Incompatible));
        assert_eq!((code(33), code(-32 + 5)), (StatusCode::Cancelled, StatusCode::NotFound));
        for status in [19, 31, 32, 64, -1, i32::MIN, i32::MAX] {
            let error = failure(status as u32, "said so");
            assert_eq!(error.code(), StatusCode::Unknown);
            assert_eq!(error.message(), format!("said so (status {status})"));
        }
        assert_eq!(failure(9, "said so").message(), "said so");
    }
}
