//! Lowered code: what the dispatch loop executes.

use crate::ValueKind;
use crate::isa::instructions;
use crate::operation::Op;
use crate::registers::{Number, REF_MASK, words};
use crate::superinstructions::table::superinstructions;

/// A lowered function: verified, decoded, its jump targets resolved.
pub(crate) struct Code {
    /// Ordinal of the function in its module.
    pub(crate) ordinal: u32,
    /// The instructions; the last is [`OutOfLine::End`].
    pub(crate) insns: Box<[Insn]>,
    /// For each instruction, the offset in the bytecode that it was lowered from; for a superinstruction, of
    /// its last part.
    pub(crate) offsets: Box<[u32]>,
    /// For superinstructions whose first part may fail, their index and that part's offset, ascending.
    pub(crate) first_offsets: Box<[(u32, u32)]>,
    /// 32-bit registers of a frame, an even number.
    pub(crate) words: u16,
    /// Reference registers of a frame.
    pub(crate) refs: u16,
    /// The first reference registers, as bits, whose arguments the function discards without using them.
    pub(crate) unused_refs: u64,
    /// The call sites.
    pub(crate) sites: Box<[Site]>,
    /// Register lists that instructions refer to by a [`Slice`].
    pub(crate) registers: Box<[u16]>,
    /// Jump tables; the default is the last target of each.
    pub(crate) jump_tables: Box<[Box<[u32]>]>,
    /// Messages of `fail`.
    pub(crate) texts: Box<[Box<str>]>,
}

/// Set in a program counter if the first part of the superinstruction before it failed.
pub(crate) const FIRST_PART: u32 = 1 << 31;

impl Code {
    /// Whether the function discards the reference that it is passed in a register.
    pub(crate) fn is_unused(&self, register: u16) -> bool {
        let bit = 1_u64.checked_shl(u32::from(register & REF_MASK)).unwrap_or_default();
        self.unused_refs & bit != 0
    }

    /// The bytecode offset of the instruction before a program counter.
    pub(crate) fn offset_before(&self, pc: u32) -> u32 {
        let index = (pc & !FIRST_PART).saturating_sub(1);
        if pc & FIRST_PART != 0
            && let Ok(at) = self.first_offsets.binary_search_by_key(&index, |(index, _)| *index)
        {
            return self.first_offsets[at].1;
        }
        self.offsets.get(index as usize).copied().unwrap_or(0)
    }
}

/// A part of [`Code::registers`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

/// Limit on the registers of a superinstruction.
pub(crate) const REGISTERS: usize = 7;
/// The same for one that branches or jumps.
pub(crate) const BRANCH_REGISTERS: usize = 5;

/// The operands of an instruction as fusion sees them; missing operands are 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Operands {
    pub(crate) registers: [u16; REGISTERS],
    /// The jump target.
    pub(crate) to: u32,
}

impl Operands {
    /// These registers, and a jump target.
    pub(crate) fn new<const N: usize>(registers: [u16; N], to: u32) -> Self {
        Self { registers: padded(registers), to }
    }
}

/// The registers that a computation accesses, each with its width in 32-bit registers; the result is the
/// last.
pub(crate) type Accessed = smallvec::SmallVec<[(u16, u16); 4]>;

/// `registers`, padded with zeros.
pub(crate) fn padded<const N: usize>(registers: [u16; N]) -> [u16; REGISTERS] {
    std::array::from_fn(|index| registers.get(index).copied().unwrap_or(0))
}

/// The first `N` of padded registers.
pub(crate) fn cut<const N: usize>(registers: [u16; REGISTERS]) -> [u16; N] {
    std::array::from_fn(|index| registers.get(index).copied().unwrap_or(0))
}

macro_rules! insns {
    (
        fall_through { $($straight:ident = $straight_1:ident + $straight_2:ident: $straight_pattern:ty;)* }
        branches { $($branch:ident = $branch_1:ident + $branch_2:ident: $branch_pattern:ty;)* }
        accesses { $($access:ident = $access_1:ident + $access_2:ident: $access_pattern:ty;)* }
        computed { $($set:ident $opcode:literal $op:ident $mnemonic:literal $($syntax:literal)?
            ($($arg:ident: $type:ident),*) -> $result:ident $value:block $($commutes:ident)?;)* }
    ) => {
        /// A lowered instruction. Reference registers carry the move bit if it has an effect.
        ///
        /// Conditional branches fall through to the next instruction unless their condition holds.
        ///
        /// The tag is a byte, which the dispatch loop extends faster than two, so there are at most 256
        /// variants.
        #[derive(Debug, Clone, Copy)]
        #[repr(u8)]
        #[allow(clippy::upper_case_acronyms, reason = "names of the instruction set")]
        pub(crate) enum Insn {
            // The groups `inline` and `fallible` of `isa.rs`: operands, then the result.
            $($op([u16; count!($($arg)* result)]),)*
            // Superinstructions; their patterns define the registers.
            $($straight { registers: [u16; REGISTERS] },)*
            $($branch { registers: [u16; BRANCH_REGISTERS], to: u32 },)*
            $($access { registers: [u16; REGISTERS] },)*
            /// Sets a register to a constant.
            Const32 { result: u16, value: u32 },
            /// Sets a register pair to a constant.
            Const64 { result: u16, value: u64 },
            /// Copies a register: source, target.
            Move32([u16; 2]),
            /// Copies a register pair: source, target.
            Move64([u16; 2]),
            /// Jumps.
            Jump { to: u32 },
            /// Jumps through a table.
            JumpTable { index: u16, table: u32 },
            /// Calls a function; execution continues at the next instruction, also after a yield or wait.
            Call { site: u32 },
            /// Returns these values.
            Return { values: Slice },
            /// Suspends the invocation, which continues at the target.
            Yield { to: u32 },
            /// Loads a global of 4 bytes.
            GlobalLoad32 { offset: u32, result: u16 },
            /// Stores a global of 4 bytes.
            GlobalStore32 { offset: u32, value: u16 },
            /// Loads a global of 8 bytes.
            GlobalLoad64 { offset: u32, result: u16 },
            /// Stores a global of 8 bytes.
            GlobalStore64 { offset: u32, value: u16 },
            /// Loads an element of a buffer, by its width and how it is extended: buffer, index, result.
            Load8U([u16; 3]),
            Load8S([u16; 3]),
            Load16U([u16; 3]),
            Load16S([u16; 3]),
            Load32([u16; 3]),
            Load64([u16; 3]),
            /// Stores an element of a buffer, by its width: buffer, index, value.
            Store8([u16; 3]),
            Store16([u16; 3]),
            Store32([u16; 3]),
            Store64([u16; 3]),
            /// Loads a reference from a list, null if it is not to a buffer: list, index, result.
            ListGetBuffer([u16; 3]),
            /// An instruction of the groups `library` and `routines` of `isa.rs`: registers and types in
            /// their order.
            Routine { op: Op, operands: [u16; 6] },
            /// An instruction executed by an out-of-line function; together they are one variant.
            OutOfLine(OutOfLine),
        }

        impl Insn {
            /// The instruction `op` with these registers, if it belongs to the groups `inline` and
            /// `fallible`.
            pub(crate) fn computation(op: Op, register: impl Fn(usize) -> u16) -> Option<Self> {
                Some(match op {
                    $(Op::$op => Self::$op(std::array::from_fn(register)),)*
                    _ => return None,
                })
            }

            /// The registers it accesses, if it belongs to the groups `inline` and `fallible`.
            pub(crate) fn accessed(self) -> Option<Accessed> {
                match self {
                    $(Self::$op([$($arg,)* result]) => Some(smallvec::smallvec![
                        $(($arg, words(<$type>::KIND)),)*
                        (result, words(<$result>::KIND)),
                    ]),)*
                    _ => None,
                }
            }

            /// Its operands, if it can be part of a superinstruction.
            pub(crate) fn operands(self) -> Operands {
                match self {
                    $(Self::$op(registers) => Operands { registers: padded(registers), to: 0 },)*
                    $(Self::$straight { registers } => Operands { registers, to: 0 },)*
                    $(Self::$access { registers } => Operands { registers, to: 0 },)*
                    $(Self::$branch { registers, to } => Operands::new(registers, to),)*
                    Self::Load32(registers)
                    | Self::Load8U(registers)
                    | Self::Load8S(registers)
                    | Self::Store32(registers) => Operands::new(registers, 0),
                    Self::Move32(registers) | Self::Move64(registers) => {
                        Operands { registers: padded(registers), to: 0 }
                    }
                    Self::Jump { to } => Operands { to, ..Operands::default() },
                    _ => Operands::default(),
                }
            }

            /// Its jump target.
            pub(crate) fn target_mut(&mut self) -> Option<&mut u32> {
                match self {
                    Self::Jump { to } | Self::Yield { to } => Some(to),
                    $(Self::$branch { to, .. } => Some(to),)*
                    _ => None,
                }
            }

            /// Whether it is a conditional branch.
            pub(crate) fn is_conditional(self) -> bool {
                match self {
                    $(Self::$branch { .. } => true,)*
                    _ => false,
                }
            }

            /// Whether its two operands may be swapped.
            pub(crate) fn commutes(self) -> bool {
                match self {
                    $(Self::$op(_) => crate::compute::commutes::$op,)*
                    _ => false,
                }
            }
        }

        /// Instructions that can be part of a superinstruction, from their operands.
        #[allow(non_snake_case, dead_code, reason = "names of the instruction set; few are used")]
        pub(crate) mod build {
            use super::{Insn, Operands, cut};

            $(pub(crate) fn $op(operands: Operands) -> Insn {
                Insn::$op(cut(operands.registers))
            })*
            $(pub(crate) fn $straight(operands: Operands) -> Insn {
                Insn::$straight { registers: operands.registers }
            })*
            pub(crate) fn Move32(operands: Operands) -> Insn {
                Insn::Move32(cut(operands.registers))
            }
            pub(crate) fn Move64(operands: Operands) -> Insn {
                Insn::Move64(cut(operands.registers))
            }
        }
    };
}

/// Gives a macro both tables: superinstructions, then the groups `inline` and `fallible` of `isa.rs` as
/// `computed`.
macro_rules! both_tables {
    (
        $callback:ident
        fall_through { $($straight:tt)* }
        branches { $($branches:tt)* }
        accesses { $($accesses:tt)* }
        inline { $($inline:tt)* }
        fallible { $($fallible:tt)* }
        $($rest:tt)*
    ) => {
        $callback! {
            fall_through { $($straight)* }
            branches { $($branches)* }
            accesses { $($accesses)* }
            computed { $($inline)* $($fallible)* }
        }
    };
}

/// The first step to [`both_tables`].
macro_rules! with_instructions {
    ($($superinstructions:tt)*) => {
        instructions!(both_tables $($superinstructions)*);
    };
}

/// Counts identifiers.
macro_rules! count {
    ($($name:ident)*) => { 0 $(+ { let _ = stringify!($name); 1 })* };
}

superinstructions!(with_instructions insns);

const _: () =
    assert!(size_of::<Insn>() == 16, "the dispatch loop reads instructions sequentially: keep them small");

/// Instructions that only lowering creates, executed by `interpret/out_of_line.rs`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OutOfLine {
    /// Copies a reference, or moves it.
    MoveRef { source: u16, target: u16 },
    /// Fails unless the status is 0.
    Fail { status: u16, text: u32 },
    /// Loads a global reference, or moves it out.
    GlobalLoadRef { global: u32, type_id: u16, result: u16 },
    /// Stores a global reference.
    GlobalStoreRef { global: u32, type_id: u16, value: u16 },
    /// Loads a reference from a list, or moves it out.
    ListGetRef { list: u16, index: u16, type_id: u16, result: u16 },
    /// Loads a buffer over a constant data segment.
    Rodata { segment: u32, result: u16 },
    /// Sets a register to 1 if an optional import is resolved, else to 0.
    ImportResolved { import: u32, result: u16 },
    /// Releases references.
    Discard { registers: Slice },
    /// Selects by index: the list has the index, the result, the default, then the values.
    Switch { kind: ValueKind, registers: Slice },
    /// The same for references of one type.
    SwitchRef { type_id: u16, registers: Slice },
    /// The end of the function; a verified program reaches it only by falling through its last `fail`.
    End,
}

/// A call site.
pub(crate) struct Site {
    pub(crate) callee: Callee,
    /// The values in the order of the callee's arguments, spans flattened.
    pub(crate) arguments: Box<[Argument]>,
    /// The registers from which references are moved into the call.
    pub(crate) moved: Box<[u16]>,
    /// The start of each argument among them, and the end, if the callee takes spans.
    pub(crate) starts: Option<Box<[u32]>>,
    /// Kind and register of each result.
    pub(crate) results: Box<[(ValueKind, u16)]>,
}

/// The callee of a call site.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callee {
    /// A function of the module.
    Function(u32),
    /// An import of the module.
    Import(u32),
}

/// A value that a call passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument {
    pub(crate) kind: ValueKind,
    /// The caller's register.
    pub(crate) source: u16,
    /// The callee's register, if the callee is bytecode.
    pub(crate) target: u16,
}
