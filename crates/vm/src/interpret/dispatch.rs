//! The dispatch loop: one `match` over the instructions of a frame, which compiles to an indirect jump per
//! instruction.
//!
//! Registers are a `Window`, in which every 16-bit index is in bounds, so that no access needs a check.
//! `Insn` has 16 bytes. `.cargo/config.toml` aligns loops to 32 bytes, without which some programs take up to
//! half longer.

use rehal_base::Result;

use crate::Ref;
use crate::budget::Meter;
use crate::code::{FIRST_PART, Insn, Slice};
use crate::compute::functions;
use crate::isa::instructions;
use crate::registers::{Number, Window};
use crate::superinstructions::*;

use super::activation::{Environment, broken};
use super::elements::{load_into, store_from};
use super::{lists, out_of_line};

/// Why the dispatch loop exited a frame.
pub(super) enum Exit {
    Call(u32),
    Return(Slice),
    Yield,
}

/// Jumps.
macro_rules! jump {
    ($to:expr, $insns:ident, $at:ident) => {
        match $insns.get($to as usize..) {
            Some(rest) => $at = rest.iter(),
            None => break Err(broken("a jump out of the function")),
        }
    };
}

/// Jumps if a condition holds: with a machine branch, which the processor predicts, not a conditional move.
macro_rules! jump_if {
    ($holds:expr, $to:expr, $insns:ident, $at:ident) => {
        if $holds {
            jump!($to, $insns, $at);
        } else {
            // Keeps the compiler from selecting the next instruction without a branch.
            std::hint::cold_path();
        }
    };
}

/// The value of a result; an error exits the loop.
macro_rules! checked {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => break Err(error),
        }
    };
}

/// Generates [`run`] from the tables of instructions and superinstructions and the arms written here.
macro_rules! dispatch {
    (
        fall_through { $($straight:ident = $straight_1:ident + $straight_2:ident: $straight_pattern:ty;)* }
        branches { $($branch:ident = $branch_1:ident + $branch_2:ident: $branch_pattern:ty;)* }
        accesses { $($access:ident = $access_1:ident + $access_2:ident: $access_pattern:ty;)* }
        inline { $($set:ident $opcode:literal $op:ident $mnemonic:literal $($syntax:literal)?
            ($($arg:ident: $type:ident),*) -> $result:ident $value:block $($commutes:ident)?;)* }
        fallible { $($f_set:ident $f_opcode:literal $f_op:ident $f_mnemonic:literal $($f_syntax:literal)?
            ($($f_arg:ident: $f_type:ident),*) -> $f_result:ident $f_value:block;)* }
        $($rest:tt)*
    ) => {
        /// Executes instructions of a frame from `pc` until one exits it. `pc` is then the next one; after an
        /// error, the one after the failed instruction, with [`FIRST_PART`] set if a superinstruction's first
        /// part failed.
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
            let mut failed_first = false;
            let exit = loop {
                let Some(insn) = at.next() else { break Err(broken("no instruction")) };
                if M::LIMITED {
                    let index = insns.len() - at.len() - 1;
                    checked!(meter.step(environment.code, environment.program, index));
                }
                match *insn {
                    $(Insn::$op([$($arg,)* result]) => {
                        functions::$op($(<$type>::get(window, $arg)),*).put(window, result);
                    })*
                    $(Insn::$straight { registers } => {
                        <$straight_pattern>::run(window, registers, parts::$straight_1, parts::$straight_2);
                    })*
                    $(Insn::$branch { registers, to } => {
                        let holds =
                            <$branch_pattern>::run(window, registers, parts::$branch_1, parts::$branch_2);
                        jump_if!(holds, to, insns, at);
                    })*
                    $(Insn::$access { registers } => {
                        if let Err(failed) = <$access_pattern>::run(window, refs, registers) {
                            failed_first = failed.is_first;
                            break Err(failed.error);
                        }
                    })*
                    $(Insn::$f_op([$($f_arg,)* result]) => {
                        checked!(functions::$f_op($(<$f_type>::get(window, $f_arg)),*)).put(window, result);
                    })*
                    Insn::Const32 { result, value } => value.put(window, result),
                    Insn::Const64 { result, value } => value.put(window, result),
                    Insn::Move32([source, target]) => u32::get(window, source).put(window, target),
                    Insn::Move64([source, target]) => u64::get(window, source).put(window, target),
                    Insn::Jump { to } => jump!(to, insns, at),
                    Insn::JumpTable { index, table } => {
                        let targets = &*environment.code.jump_tables[table as usize];
                        let index = u32::get(window, index) as usize;
                        // A negative index is past the end of any table and selects the default.
                        jump!(targets[index.min(targets.len() - 1)], insns, at);
                    }
                    Insn::Call { site } => break Ok(Exit::Call(site)),
                    Insn::Return { values } => break Ok(Exit::Return(values)),
                    Insn::Yield { to } => {
                        jump!(to, insns, at);
                        break Ok(Exit::Yield);
                    }
                    Insn::GlobalLoad32 { offset, result } => {
                        checked!(environment.instance.globals.load_32(offset)).put(window, result);
                    }
                    Insn::GlobalLoad64 { offset, result } => {
                        checked!(environment.instance.globals.load_64(offset)).put(window, result);
                    }
                    Insn::GlobalStore32 { offset, value } => {
                        checked!(environment.instance.globals.store_32(offset, u32::get(window, value)));
                    }
                    Insn::GlobalStore64 { offset, value } => {
                        checked!(environment.instance.globals.store_64(offset, u64::get(window, value)));
                    }
                    Insn::Load8U(of) => {
                        checked!(load_into(of, window, refs, |bytes| u32::from(u8::from_le_bytes(bytes))));
                    }
                    Insn::Load8S(of) => {
                        checked!(load_into(of, window, refs, |bytes| i32::from(i8::from_le_bytes(bytes))));
                    }
                    Insn::Load16U(of) => {
                        checked!(load_into(of, window, refs, |bytes| u32::from(u16::from_le_bytes(bytes))));
                    }
                    Insn::Load16S(of) => {
                        checked!(load_into(of, window, refs, |bytes| i32::from(i16::from_le_bytes(bytes))));
                    }
                    Insn::Load32(of) => checked!(load_into(of, window, refs, u32::from_le_bytes)),
                    Insn::Load64(of) => checked!(load_into(of, window, refs, u64::from_le_bytes)),
                    Insn::Store8(of) => checked!(store_from(of, window, refs, |value: u32| [value as u8])),
                    Insn::Store16(of) => {
                        checked!(store_from(of, window, refs, |value: u32| (value as u16).to_le_bytes()));
                    }
                    Insn::Store32(of) => checked!(store_from(of, window, refs, u32::to_le_bytes)),
                    Insn::Store64(of) => checked!(store_from(of, window, refs, u64::to_le_bytes)),
                    Insn::ListGetBuffer(of) => checked!(lists::get_buffer(of, window, refs)),
                    Insn::Routine { op, operands } => {
                        if M::LIMITED {
                            checked!(meter.take_bytes(out_of_line::routine_bytes(op, operands, window)));
                        }
                        checked!(out_of_line::run_routine(op, operands, environment, window, refs));
                    }
                    Insn::OutOfLine(insn) => checked!(out_of_line::run(insn, environment, window, refs)),
                }
            };
            *pc = (insns.len() - at.len()) as u32;
            if failed_first {
                *pc |= FIRST_PART;
            }
            exit
        }
    };
}

macro_rules! with_instructions {
    ($($superinstructions:tt)*) => {
        instructions!(dispatch $($superinstructions)*);
    };
}
table::superinstructions!(with_instructions);
