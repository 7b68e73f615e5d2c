use rehal_base::{Error, Result, StatusCode};

use crate::arithmetic::{compares, quick, quick_computations};
use crate::budget::Meter;
use crate::code::{Code, Insn, Slice};
use crate::list::ElementKind;
use crate::program::Program;
use crate::registers::{Number, Window};
use crate::{Ref, ValueKind};

use super::refs::{check, look, put, take};
use super::{Exit, Instance, broken, buffers, load_global_ref, other, store_global_ref};

/// What the instructions of a frame refer to.
#[derive(Clone, Copy)]
pub(super) struct Environment<'a> {
    pub(super) code: &'a Code,
    pub(super) program: &'a Program,
    pub(super) instance: &'a Instance,
}

/// Goes on elsewhere.
macro_rules! jump {
    ($to:expr, $insns:ident, $at:ident) => {
        match $insns.get($to as usize..) {
            Some(rest) => $at = rest.iter(),
            None => break Err(broken("a jump out of the function")),
        }
    };
}

/// Goes on elsewhere where something holds: by a branch, which the processor foresees, and not by computing where.
macro_rules! jump_if {
    ($holds:expr, $to:expr, $insns:ident, $at:ident) => {
        if $holds {
            jump!($to, $insns, $at);
        } else {
            // Keeps the compiler from choosing between the two without a branch.
            std::hint::cold_path();
        }
    };
}

/// A comparison whose result is kept and followed.
macro_rules! branch {
    ($type:ty, $operator:tt, $window:ident, $registers:ident, $to:ident, $insns:ident, $at:ident) => {{
        let [left, right, result] = $registers;
        let holds = <$type>::get($window, left) $operator <$type>::get($window, right);
        i32::from(holds).put($window, result);
        jump_if!(holds, $to, $insns, $at);
    }};
}

/// As `branch`, where nobody reads the result.
macro_rules! when {
    ($type:ty, $operator:tt, $window:ident, $registers:ident, $to:ident, $insns:ident, $at:ident) => {{
        let [left, right] = $registers;
        let holds = <$type>::get($window, left) $operator <$type>::get($window, right);
        jump_if!(holds, $to, $insns, $at);
    }};
}

/// Makes `run` of the quick computations and what is written here: all in one `match`, which becomes one jump.
macro_rules! run {
    (
        quick { $($op:ident ($($argument:ident: $type:ty),*) -> $result:ty { $value:expr })* }
        pairs { $($pair_type:ident $first:ident: $($pair:ident($second:ident))*;)* }
        counts { $($count_type:ident $add:ident: $($count:ident($comparison:ident))*;)* }
        carries { $($carry_type:ident $carried:ident: $carry:ident;)* }
    ) => {
        /// Runs instructions of a frame from `pc` on until one leaves it. `pc` is then the next one; where one fails,
        /// it is the one after that.
        #[inline(always)]
        pub(super) fn run<M: Meter>(
            environment: Environment<'_>,
            window: &mut Window,
            refs: &mut [Ref],
            pc: &mut u32,
            meter: &mut M,
        ) -> Result<Exit> {
            let insns = &*environment.code.insns;
            let Some(rest) = insns.get(*pc as usize..) else { return Err(broken("no instruction")) };
            let mut at = rest.iter();
            let exit = loop {
                let Some(insn) = at.next() else { break Err(broken("no instruction")) };
                if M::LIMITED {
                    let index = insns.len() - at.len() - 1;
                    if let Err(error) = meter.step(environment.code, environment.program, index) {
                        break Err(error);
                    }
                }
                match *insn {
                    $(Insn::$op([$($argument,)* result]) => {
                        quick::$op($(<$type>::get(window, $argument)),*).put(window, result);
                    })*
                    $($(Insn::$pair([left, right, result, other, result_2]) => {
                        let left = <$pair_type>::get(window, left);
                        let right = <$pair_type>::get(window, right);
                        let value = quick::$first(left, right);
                        value.put(window, result);
                        let other = <$pair_type>::get(window, other);
                        quick::$second(value, other).put(window, result_2);
                    })*)*
                    $($(Insn::$count { registers: [left, right, result, other], to } => {
                        let left = <$count_type>::get(window, left);
                        let right = <$count_type>::get(window, right);
                        let value = quick::$add(left, right);
                        value.put(window, result);
                        let _other = <$count_type>::get(window, other);
                        jump_if!(compares!($comparison, value, _other), to, insns, at);
                    })*)*
                    $(Insn::$carry([left, right, source, target, result]) => {
                        let left = <$carry_type>::get(window, left);
                        let right = <$carry_type>::get(window, right);
                        let value = quick::$carried(left, right);
                        <$carry_type>::get(window, source).put(window, target);
                        value.put(window, result);
                    })*
                    Insn::Const32 { result, value } => value.put(window, result),
                    Insn::Const64 { result, value } => value.put(window, result),
                    Insn::Move32 { source, target } => move_32(window, source, target),
                    Insn::Move64 { source, target } => move_64(window, source, target),
                    Insn::Moves32([a, b, c, d]) => {
                        move_32(window, a, b);
                        move_32(window, c, d);
                    }
                    Insn::Moves64([a, b, c, d]) => {
                        move_64(window, a, b);
                        move_64(window, c, d);
                    }
                    Insn::Move32Jump { source, target, to } => {
                        move_32(window, source, target);
                        jump!(to, insns, at);
                    }
                    Insn::Move64Jump { source, target, to } => {
                        move_64(window, source, target);
                        jump!(to, insns, at);
                    }
                    Insn::Moves32Jump { moves: [a, b, c, d], to } => {
                        move_32(window, a, b);
                        move_32(window, c, d);
                        jump!(to, insns, at);
                    }
                    Insn::Moves64Jump { moves: [a, b, c, d], to } => {
                        move_64(window, a, b);
                        move_64(window, c, d);
                        jump!(to, insns, at);
                    }
                    Insn::Jump { to } => jump!(to, insns, at),
                    Insn::If { condition, to } => jump_if!(u32::get(window, condition) != 0, to, insns, at),
                    Insn::IfI64 { condition, to } => jump_if!(u64::get(window, condition) != 0, to, insns, at),
                    Insn::IfEQI32 { registers, to } => branch!(i32, ==, window, registers, to, insns, at),
                    Insn::IfNEI32 { registers, to } => branch!(i32, !=, window, registers, to, insns, at),
                    Insn::IfLTI32S { registers, to } => branch!(i32, <, window, registers, to, insns, at),
                    Insn::IfLTI32U { registers, to } => branch!(u32, <, window, registers, to, insns, at),
                    Insn::IfEQI64 { registers, to } => branch!(i64, ==, window, registers, to, insns, at),
                    Insn::IfNEI64 { registers, to } => branch!(i64, !=, window, registers, to, insns, at),
                    Insn::IfLTI64S { registers, to } => branch!(i64, <, window, registers, to, insns, at),
                    Insn::IfLTI64U { registers, to } => branch!(u64, <, window, registers, to, insns, at),
                    Insn::WhenEQI32 { registers, to } => when!(i32, ==, window, registers, to, insns, at),
                    Insn::WhenNEI32 { registers, to } => when!(i32, !=, window, registers, to, insns, at),
                    Insn::WhenLTI32S { registers, to } => when!(i32, <, window, registers, to, insns, at),
                    Insn::WhenLTI32U { registers, to } => when!(u32, <, window, registers, to, insns, at),
                    Insn::WhenEQI64 { registers, to } => when!(i64, ==, window, registers, to, insns, at),
                    Insn::WhenNEI64 { registers, to } => when!(i64, !=, window, registers, to, insns, at),
                    Insn::WhenLTI64S { registers, to } => when!(i64, <, window, registers, to, insns, at),
                    Insn::WhenLTI64U { registers, to } => when!(u64, <, window, registers, to, insns, at),
                    Insn::AddI32IfLT { registers: [left, right, sum, limit, result], to } => {
                        let value = i32::get(window, left).wrapping_add(i32::get(window, right));
                        value.put(window, sum);
                        let holds = value < i32::get(window, limit);
                        i32::from(holds).put(window, result);
                        jump_if!(holds, to, insns, at);
                    }
                    Insn::AddI64IfLT { registers: [left, right, sum, limit, result], to } => {
                        let value = i64::get(window, left).wrapping_add(i64::get(window, right));
                        value.put(window, sum);
                        let holds = value < i64::get(window, limit);
                        i32::from(holds).put(window, result);
                        jump_if!(holds, to, insns, at);
                    }
                    Insn::JumpTable { index, table } => {
                        let targets = &*environment.code.tables[table as usize];
                        let index = u32::get(window, index) as usize;
                        // Negative ones are beyond any table, which has the default at its end.
                        jump!(targets[index.min(targets.len() - 1)], insns, at);
                    }
                    Insn::Call { site } => break Ok(Exit::Call(site)),
                    Insn::Return { values } => break Ok(Exit::Return(values)),
                    Insn::Yield { to } => {
                        jump!(to, insns, at);
                        break Ok(Exit::Yield);
                    }
                    Insn::GlobalLoad32 { offset, result } => {
                        match environment.instance.globals.load_32(offset) {
                            Ok(value) => value.put(window, result),
                            Err(error) => break Err(error),
                        }
                    }
                    Insn::GlobalLoad64 { offset, result } => {
                        match environment.instance.globals.load_64(offset) {
                            Ok(value) => value.put(window, result),
                            Err(error) => break Err(error),
                        }
                    }
                    Insn::GlobalStore32 { offset, value } => {
                        if let Err(error) = environment.instance.globals.store_32(offset, u32::get(window, value)) {
                            break Err(error);
                        }
                    }
                    Insn::GlobalStore64 { offset, value } => {
                        if let Err(error) = environment.instance.globals.store_64(offset, u64::get(window, value)) {
                            break Err(error);
                        }
                    }
                    Insn::Divide { op, registers } => {
                        if let Err(error) = other::divide(op, registers, window) {
                            break Err(error);
                        }
                    }
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
                    Insn::MoveRef { .. }
                    | Insn::Math(_)
                    | Insn::Fail { .. }
                    | Insn::GlobalLoadRef { .. }
                    | Insn::GlobalStoreRef { .. }
                    | Insn::Rodata { .. }
                    | Insn::ImportResolved { .. }
                    | Insn::Discard { .. }
                    | Insn::Switch { .. }
                    | Insn::SwitchRef { .. }
                    | Insn::Other { .. }
                    | Insn::End => {
                        if M::LIMITED
                            && let Err(error) = meter.take_bytes(bulk_bytes(insn, window))
                        {
                            break Err(error);
                        }
                        if let Err(error) = rare(insn, environment, window, refs) {
                            break Err(error);
                        }
                    }
                }
            };
            *pc = (insns.len() - at.len()) as u32;
            exit
        }
    };
}

quick_computations!(run);

#[inline(always)]
fn move_32(window: &mut Window, source: u16, target: u16) {
    u32::get(window, source).put(window, target);
}

#[inline(always)]
fn move_64(window: &mut Window, source: u16, target: u16) {
    u64::get(window, source).put(window, target);
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
fn rare(insn: &Insn, environment: Environment<'_>, window: &mut Window, refs: &mut [Ref]) -> Result<()> {
    let Environment { code, program, instance } = environment;
    let kind = |type_id: u16| {
        let kind = program.tables.types.get(usize::from(type_id));
        kind.unwrap_or(&ElementKind::AnyRef)
    };
    match *insn {
        Insn::MoveRef { source, target } => {
            let object = take(refs, source);
            put(refs, target, object);
        }
        Insn::Math(math) => math.run(window),
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
            u32::get(window, source).put(window, registers[1]);
        }
        ValueKind::I64 | ValueKind::F64 => u64::get(window, source).put(window, registers[1]),
    }
}
