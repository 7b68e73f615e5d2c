use crate::ValueKind;
use crate::access::words as words_of;
use crate::arithmetic::{Math, count, quick_computations};
use crate::operation::Op;

/// A function in the form that the interpreter runs: verified, decoded, its branches resolved.
pub(crate) struct Code {
    /// Which function of its module it is.
    pub(crate) ordinal: u32,
    /// The instructions; the last is [`Insn::End`].
    pub(crate) insns: Box<[Insn]>,
    /// Offset in the bytecode of the instruction that each came from.
    pub(crate) offsets: Box<[u32]>,
    /// 32-bit registers of a frame, an even number.
    pub(crate) words: u16,
    /// Reference registers of a frame.
    pub(crate) refs: u16,
    /// The calls.
    pub(crate) sites: Box<[Site]>,
    /// Lists of registers that instructions name by a [`Slice`].
    pub(crate) registers: Box<[u16]>,
    /// Targets of tables, that of the default last in each.
    pub(crate) tables: Box<[Box<[u32]>]>,
    /// What failures say.
    pub(crate) texts: Box<[Box<str>]>,
}

/// A part of [`Code::registers`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

/// Whether the operands of a computation may change places.
macro_rules! may_swap {
    (SubI32) => {
        false
    };
    (SubI64) => {
        false
    };
    ($other:ident) => {
        true
    };
}

/// The kind of the numbers of a computation.
macro_rules! kind {
    (i32) => {
        ValueKind::I32
    };
    (i64) => {
        ValueKind::I64
    };
    (f32) => {
        ValueKind::F32
    };
    (f64) => {
        ValueKind::F64
    };
}

/// Makes [`Insn`] of the quick computations and what is written here.
macro_rules! insns {
    (
        quick { $($op:ident ($($argument:ident: $type:ty),*) -> $result:ty { $value:expr })* }
        pairs { $($pair_type:ident $first:ident: $($pair:ident($second:ident))*;)* }
        counts { $($count_type:ident $add:ident: $($count:ident($comparison:ident))*;)* }
        carries { $($carry_type:ident $carried:ident: $carry:ident;)* }
    ) => {
        /// One instruction. Registers of references carry the bit that gives them up, where it means something.
        ///
        /// Where one goes on elsewhere only if something holds, it goes on with the next one otherwise.
        #[derive(Debug, Clone, Copy)]
        #[allow(clippy::upper_case_acronyms, reason = "names of the instruction set")]
        pub(crate) enum Insn {
            $($op([u16; count!($($argument)* result)]),)*
            // A computation and another of its result: operands and result of the first, the other operand and the
            // result of the second.
            $($($pair([u16; 5]),)*)*
            // A count, which goes on elsewhere where it compares so: operands, result, and what it is compared with.
            $($($count { registers: [u16; 4], to: u32 },)*)*
            // A computation, a copy, and the result put last: operands, source and target of the copy, and the result.
            $($carry([u16; 5]),)*
            /// A number of 4 bytes.
            Const32 { result: u16, value: u32 },
            /// A number of 8 bytes.
            Const64 { result: u16, value: u64 },
            /// Copies one register.
            Move32 { source: u16, target: u16 },
            /// Copies a pair of registers.
            Move64 { source: u16, target: u16 },
            /// Copies a register, then another: sources and targets in turn.
            Moves32([u16; 4]),
            /// Copies a pair of registers, then another: sources and targets in turn.
            Moves64([u16; 4]),
            /// As `Move32`, then goes on elsewhere.
            Move32Jump { source: u16, target: u16, to: u32 },
            /// As `Move64`, then goes on elsewhere.
            Move64Jump { source: u16, target: u16, to: u32 },
            /// As `Moves32`, then goes on elsewhere.
            Moves32Jump { moves: [u16; 4], to: u32 },
            /// As `Moves64`, then goes on elsewhere.
            Moves64Jump { moves: [u16; 4], to: u32 },
            /// Copies a reference, or moves it.
            MoveRef { source: u16, target: u16 },
            /// Goes on elsewhere.
            Jump { to: u32 },
            /// Goes on elsewhere where the condition is not 0.
            If { condition: u16, to: u32 },
            /// As `If`, with a condition of 8 bytes.
            IfI64 { condition: u16, to: u32 },
            /// As the comparison (left, right, result), and goes on elsewhere where it holds.
            IfEQI32 { registers: [u16; 3], to: u32 },
            /// As above.
            IfNEI32 { registers: [u16; 3], to: u32 },
            /// As above.
            IfLTI32S { registers: [u16; 3], to: u32 },
            /// As above.
            IfLTI32U { registers: [u16; 3], to: u32 },
            /// As above.
            IfEQI64 { registers: [u16; 3], to: u32 },
            /// As above.
            IfNEI64 { registers: [u16; 3], to: u32 },
            /// As above.
            IfLTI64S { registers: [u16; 3], to: u32 },
            /// As above.
            IfLTI64U { registers: [u16; 3], to: u32 },
            /// Adds (left, right, sum), compares the sum (limit, result), and goes on elsewhere where it is less: what
            /// loops end with.
            AddI32IfLT { registers: [u16; 5], to: u32 },
            /// As above.
            AddI64IfLT { registers: [u16; 5], to: u32 },
            /// Compares (left, right), and goes on elsewhere where it holds; nobody reads the result.
            WhenEQI32 { registers: [u16; 2], to: u32 },
            /// As above.
            WhenNEI32 { registers: [u16; 2], to: u32 },
            /// As above.
            WhenLTI32S { registers: [u16; 2], to: u32 },
            /// As above.
            WhenLTI32U { registers: [u16; 2], to: u32 },
            /// As above.
            WhenEQI64 { registers: [u16; 2], to: u32 },
            /// As above.
            WhenNEI64 { registers: [u16; 2], to: u32 },
            /// As above.
            WhenLTI64S { registers: [u16; 2], to: u32 },
            /// As above.
            WhenLTI64U { registers: [u16; 2], to: u32 },
            /// Goes on where the table says.
            JumpTable { index: u16, table: u32 },
            /// Computes what takes a while.
            Math(Math),
            /// Divides integers.
            Divide { op: Division, registers: [u16; 3] },
            /// Calls the function of a site.
            Call { site: u32 },
            /// Returns the values of a list.
            Return { values: Slice },
            /// Lets others run, then goes on elsewhere.
            Yield { to: u32 },
            /// Ends the program where the status is not 0.
            Fail { status: u16, text: u32 },
            /// Reads a global of 4 bytes.
            GlobalLoad32 { offset: u32, result: u16 },
            /// Writes a global of 4 bytes.
            GlobalStore32 { offset: u32, value: u16 },
            /// Reads a global of 8 bytes.
            GlobalLoad64 { offset: u32, result: u16 },
            /// Writes a global of 8 bytes.
            GlobalStore64 { offset: u32, value: u16 },
            /// Reads a reference, or moves it out.
            GlobalLoadRef { global: u32, type_id: u16, result: u16 },
            /// Writes a reference.
            GlobalStoreRef { global: u32, type_id: u16, value: u16 },
            /// A segment of constant data.
            Rodata { segment: u32, result: u16 },
            /// Whether an import is there.
            ImportResolved { import: u32, result: u16 },
            /// Lets go of references.
            Discard { registers: Slice },
            /// Chooses by an index: the list has the default, the result, then the values.
            Switch { kind: ValueKind, index: u16, registers: Slice },
            /// As `Switch`, for references of a type.
            SwitchRef { type_id: u16, index: u16, registers: Slice },
            /// Reads a number from a buffer: buffer, offset in elements, result.
            Load { width: Width, registers: [u16; 3] },
            /// Writes a number to a buffer: buffer, offset in elements, value.
            Store { width: Width, registers: [u16; 3] },
            /// Anything else, with its registers and types in their order.
            Other { op: Op, operands: [u16; 6] },
            /// The end of the function, which no instruction may run into.
            End,
        }

        impl Insn {
            /// The quick computation with these registers, where it is one.
            pub(crate) fn quick(op: Op, register: impl Fn(usize) -> u16) -> Option<Self> {
                Some(match op {
                    $(Op::$op => Self::$op(std::array::from_fn(register)),)*
                    _ => return None,
                })
            }

            /// The two instructions that this one is, where it is a pair.
            pub(crate) fn unpair(self) -> Option<(Self, Self)> {
                match self {
                    $($(Self::$pair([a, b, c, d, e]) => {
                        Some((Self::$first([a, b, c]), Self::$second([c, d, e])))
                    })*)*
                    _ => None,
                }
            }

            /// This count and then a condition as one instruction, where there is one; `None` where the condition keeps
            /// its result, too.
            pub(crate) fn count(self, condition: Self) -> Option<Self> {
                let result = match self {
                    $(Self::$add([_, _, result]) => result,)*
                    _ => return None,
                };
                let (kind, comparison, other, to) = condition.compared(result)?;
                match (self, comparison) {
                    $($((Self::$add([a, b, c]), Comparison::$comparison) if kind == kind!($count_type) => {
                        Some(Self::$count { registers: [a, b, c, other], to })
                    })*)*
                    _ => None,
                }
            }

            /// This computation and two moves as one instruction, where the last of them moves its result, which nobody
            /// reads from now on, and which the first does not touch.
            pub(crate) fn carry(self, moves: Self) -> Option<Self> {
                match (self, moves) {
                    $((Self::$carried([left, right, result]), moves) => {
                        let (words, [a, b, c, d]) = match moves {
                            Self::Moves32(registers) => (1, registers),
                            Self::Moves64(registers) => (2, registers),
                            _ => return None,
                        };
                        let is_apart = |register: u16| !(register..register + words).contains(&result)
                            && !(result..result + words).contains(&register);
                        (words == words_of(kind!($carry_type)) && c == result && is_apart(a) && is_apart(b))
                            .then_some(Self::$carry([left, right, a, b, d]))
                    })*
                    _ => None,
                }
            }

            /// Where a count goes on.
            pub(crate) fn count_target(&mut self) -> Option<&mut u32> {
                match self {
                    $($(Self::$count { to, .. } => Some(to),)*)*
                    _ => None,
                }
            }

            /// This computation and then another of its result as one instruction, where there is one.
            pub(crate) fn pair(self, then: Self) -> Option<Self> {
                match (self, then) {
                    $($((Self::$first([a, b, c]), Self::$second([d, e, f])) if d == c => {
                        Some(Self::$pair([a, b, c, e, f]))
                    }
                    (Self::$first([a, b, c]), Self::$second([d, e, f])) if e == c && may_swap!($second) => {
                        Some(Self::$pair([a, b, c, d, f]))
                    })*)*
                    _ => None,
                }
            }
        }
    };
}
quick_computations!(insns);

/// How a number is compared with another.
#[derive(Debug, Clone, Copy)]
enum Comparison {
    NZ,
    NE,
    LT,
    GT,
}

impl Insn {
    /// How a condition compares `result` with what, by which kind of number, and where it leads if so.
    fn compared(self, result: u16) -> Option<(ValueKind, Comparison, u16, u32)> {
        let other = |[left, right]: [u16; 2]| if left == result { right } else { left };
        let ordered = |[left, _]: [u16; 2]| if left == result { Comparison::LT } else { Comparison::GT };
        let (kind, comparison, registers, to) = match self {
            Self::If { condition, to } => (ValueKind::I32, Comparison::NZ, [condition; 2], to),
            Self::IfI64 { condition, to } => (ValueKind::I64, Comparison::NZ, [condition; 2], to),
            Self::WhenNEI32 { registers, to } => (ValueKind::I32, Comparison::NE, registers, to),
            Self::WhenNEI64 { registers, to } => (ValueKind::I64, Comparison::NE, registers, to),
            Self::WhenLTI32S { registers, to } => (ValueKind::I32, ordered(registers), registers, to),
            Self::WhenLTI64S { registers, to } => (ValueKind::I64, ordered(registers), registers, to),
            _ => return None,
        };
        registers.contains(&result).then(|| (kind, comparison, other(registers), to))
    }
}

const _: () = assert!(size_of::<Insn>() == 16, "instructions are read one after another and should be small");

/// What is divided, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Division {
    DivI32S,
    DivI32U,
    RemI32S,
    RemI32U,
    DivI64S,
    DivI64U,
    RemI64S,
    RemI64U,
}

/// How a number lies in a buffer, and how it becomes one of a register.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Width {
    U8,
    I8,
    U16,
    I16,
    B32,
    B64,
}

/// A call in a function.
pub(crate) struct Site {
    pub(crate) callee: Callee,
    /// The values in the order of the callee's arguments, spans flattened.
    pub(crate) arguments: Box<[Argument]>,
    /// Where each argument starts among them, and the end, where the callee takes spans.
    pub(crate) starts: Option<Box<[u32]>>,
    /// Where the results go.
    pub(crate) results: Box<[(ValueKind, u16)]>,
}

/// What a call calls.
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
    /// Which of the callee's registers it becomes, where the callee is bytecode.
    pub(crate) target: u16,
    /// Whether it is a reference that the caller keeps, passed once: a native function gets it out of the register and
    /// gives it back, which costs less than sharing it.
    pub(crate) is_lent: bool,
}
