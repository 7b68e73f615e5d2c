//! The rows of `isa.rs` as data: what decoding, verification and disassembly read.

use crate::ValueKind;
use crate::isa::instructions;
use crate::module_file::Features;
use crate::registers::Number;

/// An instruction of the instruction set.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Its name in code.
    pub(crate) op: Op,
    /// The set that its opcode belongs to.
    pub(crate) set: Set,
    /// Its opcode within the set.
    pub(crate) opcode: u8,
    /// Its name in text, without the leading `vm.`.
    pub(crate) mnemonic: &'static str,
    /// Its operands in text, with `{n}` for field n; `None` to list the read operands in order.
    pub(crate) syntax: Option<&'static str>,
    /// The fields after the opcode, in order.
    pub(crate) fields: &'static [Field],
    /// Whether it terminates its basic block.
    pub(crate) is_terminator: bool,
}

/// The sets of opcodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// The core set, which every module may use.
    Core,
    /// After the prefix 0xE0: f32 arithmetic.
    F32,
    /// After the prefix 0xE1: f64 arithmetic.
    F64,
}

impl Set {
    /// The byte before the opcode; `None` for the core set.
    pub(crate) const fn prefix(self) -> Option<u8> {
        match self {
            Self::Core => None,
            Self::F32 => Some(0xE0),
            Self::F64 => Some(0xE1),
        }
    }

    /// The feature that a function must require to use the set.
    pub(crate) const fn feature(self) -> Features {
        match self {
            Self::Core => Features(0),
            Self::F32 => Features::EXT_F32,
            Self::F64 => Features::EXT_F64,
        }
    }
}

/// One part of an encoded instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// A register that is read (u16). A reference is borrowed.
    Read(ValueKind),
    /// A register that is written (u16). For a reference, the move bit says whether the source is moved from.
    Write(ValueKind),
    /// A reference register that is read (u16), and moved from if its move bit is set.
    Take,
    /// A constant (4 or 8 bytes).
    Const(ValueKind),
    /// The byte offset of a global (u32), for an access of the given size.
    GlobalBytes(u32),
    /// A global reference (u32).
    GlobalRef,
    /// A segment of constant data (u32).
    Rodata,
    /// A type of the module's table (u32).
    TypeId,
    /// A function of the module, or an import if the top bit is set (u32).
    Function,
    /// An import, with the top bit set (u32).
    Import,
    /// Text, prefixed with its length in bytes (u16).
    Text,
    /// A jump target: a block by the offset of its marker (u32).
    Target,
    /// Aligned to 2, counted (u16): block arguments, as pairs of registers that are copied in order, source
    /// first.
    Moves,
    /// Aligned to 2, counted (u16): registers that are read.
    Operands,
    /// Aligned to 2, counted (u16): registers that are written.
    Results,
    /// Aligned to 2, counted (u16): the tuple count of each argument; ignored for arguments that are not
    /// spans.
    Segments,
    /// Aligned to 2, counted (u16): registers of one kind that are read; references may be moved.
    Many(ValueKind),
    /// Counted (u16): jump targets, each with its moves.
    Cases,
}

/// The field for a word of the table.
macro_rules! field {
    (read_i32) => {
        Field::Read(ValueKind::I32)
    };
    (read_i64) => {
        Field::Read(ValueKind::I64)
    };
    (read_f32) => {
        Field::Read(ValueKind::F32)
    };
    (read_f64) => {
        Field::Read(ValueKind::F64)
    };
    (read_ref) => {
        Field::Read(ValueKind::Ref)
    };
    (write_i32) => {
        Field::Write(ValueKind::I32)
    };
    (write_i64) => {
        Field::Write(ValueKind::I64)
    };
    (write_f32) => {
        Field::Write(ValueKind::F32)
    };
    (write_f64) => {
        Field::Write(ValueKind::F64)
    };
    (write_ref) => {
        Field::Write(ValueKind::Ref)
    };
    (take_ref) => {
        Field::Take
    };
    (const_i32) => {
        Field::Const(ValueKind::I32)
    };
    (const_i64) => {
        Field::Const(ValueKind::I64)
    };
    (const_f32) => {
        Field::Const(ValueKind::F32)
    };
    (const_f64) => {
        Field::Const(ValueKind::F64)
    };
    (global_4) => {
        Field::GlobalBytes(4)
    };
    (global_8) => {
        Field::GlobalBytes(8)
    };
    (global_ref) => {
        Field::GlobalRef
    };
    (rodata) => {
        Field::Rodata
    };
    (type_id) => {
        Field::TypeId
    };
    (function) => {
        Field::Function
    };
    (import) => {
        Field::Import
    };
    (text) => {
        Field::Text
    };
    (target) => {
        Field::Target
    };
    (moves) => {
        Field::Moves
    };
    (operands) => {
        Field::Operands
    };
    (results) => {
        Field::Results
    };
    (segments) => {
        Field::Segments
    };
    (many_i32) => {
        Field::Many(ValueKind::I32)
    };
    (many_i64) => {
        Field::Many(ValueKind::I64)
    };
    (many_f32) => {
        Field::Many(ValueKind::F32)
    };
    (many_f64) => {
        Field::Many(ValueKind::F64)
    };
    (many_ref) => {
        Field::Many(ValueKind::Ref)
    };
    (cases) => {
        Field::Cases
    };
}

macro_rules! operations {
    (
        inline { $($inline:tt)* }
        fallible { $($fallible:tt)* }
        library { $($library:tt)* }
        routines { $($routines:tt)* }
        lowered { $($lowered:tt)* }
        terminators { $($terminators:tt)* }
    ) => {
        operations! {
            computed { $($inline)* $($fallible)* $($library)* }
            routines { $($routines)* }
            lowered { $($lowered)* }
            terminators { $($terminators)* }
        }
    };
    (
        computed { $($c_set:ident $c_opcode:literal $c_op:ident $c_mnemonic:literal $($c_syntax:literal)?
            ($($c_arg:ident: $c_type:ident),*) -> $c_result:ident $c_value:block $($c_commutes:ident)?;)* }
        routines { $($r_set:ident $r_opcode:literal $r_op:ident $r_mnemonic:literal $($r_syntax:literal)?
            [$($r_field:ident)*] = $r_function:expr $(, $r_bytes:expr)?;)* }
        lowered { $($l_set:ident $l_opcode:literal $l_op:ident $l_mnemonic:literal $($l_syntax:literal)?
            [$($l_field:ident)*] => $l_lower:expr;)* }
        terminators { $($t_set:ident $t_opcode:literal $t_op:ident $t_mnemonic:literal $($t_syntax:literal)?
            [$($t_field:ident)*] => $t_lower:expr;)* }
    ) => {
        /// The instructions by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(clippy::upper_case_acronyms, reason = "names of the instruction set")]
        #[rustfmt::skip]
        pub(crate) enum Op { $($c_op,)* $($r_op,)* $($l_op,)* $($t_op,)* }

        /// All instructions.
        pub(crate) static OPERATIONS: &[Operation] = &[
            $(Operation {
                fields: &[
                    $(Field::Read(<$c_type as Number>::KIND),)*
                    Field::Write(<$c_result as Number>::KIND),
                ],
                ..operation!($c_set $c_opcode $c_op $c_mnemonic $($c_syntax)?)
            },)*
            $(Operation {
                fields: &[$(field!($r_field)),*],
                ..operation!($r_set $r_opcode $r_op $r_mnemonic $($r_syntax)?)
            },)*
            $(Operation {
                fields: &[$(field!($l_field)),*],
                ..operation!($l_set $l_opcode $l_op $l_mnemonic $($l_syntax)?)
            },)*
            $(Operation {
                fields: &[$(field!($t_field)),*],
                is_terminator: true,
                ..operation!($t_set $t_opcode $t_op $t_mnemonic $($t_syntax)?)
            },)*
        ];
    };
}

/// The columns common to all groups.
macro_rules! operation {
    ($set:ident $opcode:literal $op:ident $mnemonic:literal $($syntax:literal)?) => {
        Operation {
            op: Op::$op,
            set: Set::$set,
            opcode: $opcode,
            mnemonic: $mnemonic,
            syntax: syntax!($($syntax)?),
            fields: &[],
            is_terminator: false,
        }
    };
}

macro_rules! syntax {
    () => {
        None
    };
    ($syntax:literal) => {
        Some($syntax)
    };
}

instructions!(operations);

/// Index of each instruction in [`OPERATIONS`], by set and opcode.
static BY_OPCODE: [[u16; 256]; 3] = index();

const fn index() -> [[u16; 256]; 3] {
    let mut table = [[u16::MAX; 256]; 3];
    let mut at = 0;
    while at < OPERATIONS.len() {
        table[OPERATIONS[at].set as usize][OPERATIONS[at].opcode as usize] = at as u16;
        at += 1;
    }
    table
}

/// The instruction with the given set and opcode.
pub(crate) fn lookup(set: Set, opcode: u8) -> Option<&'static Operation> {
    OPERATIONS.get(usize::from(BY_OPCODE[set as usize][usize::from(opcode)]))
}

/// The opcode of the marker that each block starts with.
pub(crate) const BLOCK: u8 = 0x79;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_is_found_by_its_opcode() {
        for operation in OPERATIONS {
            let found = lookup(operation.set, operation.opcode).unwrap();
            assert_eq!(found.op, operation.op, "two instructions of {:?} share an opcode", operation.set);
        }
        assert_eq!(lookup(Set::Core, BLOCK).unwrap().op, Op::Block);
        assert!(lookup(Set::Core, 0xE0).is_none() && lookup(Set::F32, 0xFF).is_none());
        // 137 of the core set, without the two prefixes; 62 and 64 of the extensions.
        let of = |set| OPERATIONS.iter().filter(|operation| operation.set == set).count();
        assert_eq!((of(Set::Core), of(Set::F32), of(Set::F64)), (137, 62, 64));
    }
}
