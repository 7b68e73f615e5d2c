use rehal_base::{Error, Result, StatusCode};

use crate::budget::Meter;
use crate::code::{Code, Insn, Slice};
use crate::list::ElementKind;
use crate::program::Program;
use crate::registers::{Number, Window};
use crate::{Ref, ValueKind};

use super::refs::{check, look, put, take};
use super::{Exit, Instance, broken, buffers, load_global_ref, other, store_global_ref};

/// Runs instructions of a frame from `pc` on until one leaves it. `pc` is then the next one; where one fails, it is
/// the one after that.
pub(super) fn run<M: Meter>(
    code: &Code,
    program: &Program,
    instance: &Instance,
    window: &mut Window,
    refs: &mut [Ref],
    pc: &mut u32,
    meter: &mut M,
) -> Result<Exit> {
    let insns = &*code.insns;
    let mut at = *pc as usize;
    let exit = loop {
        let Some(insn) = insns.get(at) else { break Err(broken("no instruction")) };
        at += 1;
        if M::LIMITED
            && let Err(error) = meter.step()
        {
            break Err(error);
        }
        match *insn {
            Insn::Compute(compute) => compute.run(window),
            Insn::Const32 { result, value } => value.put(window, result),
            Insn::Const64 { result, value } => value.put(window, result),
            Insn::Move32 { source, target } => u32::get(window, source).put(window, target),
            Insn::Move64 { source, target } => u64::get(window, source).put(window, target),
            Insn::Jump { target } => at = target as usize,
            Insn::If { condition, yes, no } => {
                at = if u32::get(window, condition) != 0 { yes } else { no } as usize;
            }
            Insn::JumpTable { index, table } => {
                let targets = &*code.tables[table as usize];
                let index = u32::get(window, index) as usize;
                // Negative ones are beyond any table, which has the default at its end.
                at = targets[index.min(targets.len() - 1)] as usize;
            }
            Insn::Call { site } => break Ok(Exit::Call(site)),
            Insn::Return { values } => break Ok(Exit::Return(values)),
            Insn::Yield { target } => {
                at = target as usize;
                break Ok(Exit::Yield);
            }
            Insn::GlobalLoad32 { offset, result } => match instance.globals.load_32(offset) {
                Ok(value) => value.put(window, result),
                Err(error) => break Err(error),
            },
            Insn::GlobalLoad64 { offset, result } => match instance.globals.load_64(offset) {
                Ok(value) => value.put(window, result),
                Err(error) => break Err(error),
            },
            Insn::Load { width, registers } => {
                if let Err(error) = buffers::load(width, registers, window, refs) {
                    break Err(error);
                }
            }
            Insn::Store { width, registers } => {
                if let Err(error) = buffers::store(width, registers, window, refs) {
                    break Err(error);
                }
            }
            Insn::Divide { op, registers } => {
                if let Err(error) = other::divide(op, registers, window) {
                    break Err(error);
                }
            }
            insn => {
                if M::LIMITED
                    && let Err(error) = meter.take_bytes(bulk_bytes(&insn, window))
                {
                    break Err(error);
                }
                if let Err(error) = rare(insn, code, program, instance, window, refs) {
                    break Err(error);
                }
            }
        }
    };
    *pc = at as u32;
    exit
}

/// Bytes that an instruction allocates, or reads or writes in bulk.
fn bulk_bytes(insn: &Insn, window: &Window) -> u64 {
    match *insn {
        Insn::Other { op, operands } => other::bulk_bytes(op, operands, window),
        _ => 0,
    }
}

/// Instructions that take longer than getting here.
#[inline(never)]
fn rare(
    insn: Insn,
    code: &Code,
    program: &Program,
    instance: &Instance,
    window: &mut Window,
    refs: &mut [Ref],
) -> Result<()> {
    let kind = |type_id: u16| {
        let kind = program.tables.types.get(usize::from(type_id));
        kind.unwrap_or(&ElementKind::AnyRef)
    };
    match insn {
        Insn::MoveRef { source, target } => {
            let object = take(refs, source);
            put(refs, target, object);
        }
        Insn::GlobalStore32 { offset, value } => {
            instance.globals.store_32(offset, u32::get(window, value))?;
        }
        Insn::GlobalStore64 { offset, value } => {
            instance.globals.store_64(offset, u64::get(window, value))?;
        }
        Insn::GlobalLoadRef { global, type_id, result } => {
            load_global_ref(instance, global, kind(type_id), result, refs)?;
        }
        Insn::GlobalStoreRef { global, type_id, value } => {
            store_global_ref(instance, global, kind(type_id), value, refs)?;
        }
        Insn::Rodata { segment, result } => {
            let object = program.rodata.get(segment as usize).cloned().unwrap_or_default();
            put(refs, result, object);
        }
        Insn::ImportResolved { import, result } => {
            let is_there = instance.imports.get(import as usize).is_some_and(Option::is_some);
            i32::from(is_there).put(window, result);
        }
        Insn::Discard { registers } => {
            for register in slice(code, registers) {
                put(refs, *register, Ref::NULL);
            }
        }
        Insn::Switch { kind, index, registers } => switch(code, kind, index, registers, window),
        Insn::SwitchRef { type_id, index, registers } => {
            let registers = slice(code, registers);
            let source = chosen(registers, u32::get(window, index));
            check(look(refs, source), kind(type_id))?;
            let object = take(refs, source);
            put(refs, registers[1], object);
        }
        Insn::Fail { status, text } => {
            let status = u32::get(window, status);
            if status != 0 {
                return Err(other::failure(status, &code.texts[text as usize]));
            }
        }
        Insn::Other { op, operands } => other::run(op, operands, program, instance, window, refs)?,
        Insn::End => {
            let what = "the function ends without returning";
            return Err(Error::new(StatusCode::FailedPrecondition, what));
        }
        _ => return Err(broken("an instruction out of place")),
    }
    Ok(())
}

fn slice(code: &Code, slice: Slice) -> &[u16] {
    &code.registers[slice.start as usize..][..slice.length as usize]
}

/// Which register an index chooses: a value behind the default and the result, or the default.
fn chosen(registers: &[u16], index: u32) -> u16 {
    registers.get((index as usize).saturating_add(2)).copied().unwrap_or(registers[0])
}

fn switch(code: &Code, kind: ValueKind, index: u16, registers: Slice, window: &mut Window) {
    let registers = slice(code, registers);
    let source = chosen(registers, u32::get(window, index));
    match kind {
        ValueKind::I32 | ValueKind::F32 | ValueKind::Ref => {
            u32::get(window, source).put(window, registers[1])
        }
        ValueKind::I64 | ValueKind::F64 => u64::get(window, source).put(window, registers[1]),
    }
}
