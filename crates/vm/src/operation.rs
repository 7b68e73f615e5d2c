//! The instruction set, bytecode 17.0, in one table: decoding, verifying, disassembling and lowering all go by it.
//!
//! Source of the facts: `runtime/src/iree/vm/bytecode/isa/isa.json` of the reference.

use crate::ValueKind;
use crate::module_file::Features;

/// An instruction of the set.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Which it is.
    pub(crate) op: Op,
    /// Where its number counts.
    pub(crate) set: Set,
    /// Its number within the set.
    pub(crate) opcode: u8,
    /// Its name in text, without the leading `vm.`.
    pub(crate) mnemonic: &'static str,
    /// What follows the number, in order.
    pub(crate) fields: &'static [Field],
}

/// The sets that instructions are numbered in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// What every module may use.
    Core,
    /// Behind the prefix 0xE0: arithmetic of binary32.
    F32,
    /// Behind the prefix 0xE1: arithmetic of binary64.
    F64,
}

impl Set {
    /// The byte before the number; nothing for the core set.
    pub(crate) const fn prefix(self) -> Option<u8> {
        match self {
            Self::Core => None,
            Self::F32 => Some(0xE0),
            Self::F64 => Some(0xE1),
        }
    }

    /// The feature that a function must require to use it.
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
    /// A register that is read (u16). A reference is only looked at.
    Read(ValueKind),
    /// A register that is written (u16). For a reference, its move bit says whether the source gives it up.
    Write(ValueKind),
    /// A reference register that is read (u16), and given up where its move bit is set.
    Take,
    /// A number (4 or 8 bytes).
    Const(ValueKind),
    /// A byte offset into the globals (u32), for an access of so many bytes.
    GlobalBytes(u32),
    /// A reference among the globals (u32).
    GlobalRef,
    /// A segment of constant data (u32).
    Rodata,
    /// A type of the module's table (u32).
    TypeId,
    /// A function of the module, or an import where the top bit is set (u32).
    Function,
    /// An import, with the top bit set (u32).
    Import,
    /// Bytes with their count before (u16).
    Text,
    /// A block by the offset of its marker (u32).
    Target,
    /// Aligned to 2, counted (u16): pairs of registers that are copied in order, source first.
    Moves,
    /// Aligned to 2, counted (u16): registers that are read.
    Operands,
    /// Aligned to 2, counted (u16): registers that are written.
    Results,
    /// Aligned to 2, counted (u16): how many tuples each argument has; anything for those that are no span.
    Segments,
    /// Aligned to 2, counted (u16): registers of one kind that are read; references may be given up.
    Many(ValueKind),
    /// Counted (u16): blocks, each with its moves.
    Cases,
}

/// What a word of the table stands for.
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
    ($($set:ident $opcode:literal $op:ident $mnemonic:literal [$($field:ident)*];)*) => {
        /// The instructions by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(clippy::upper_case_acronyms, reason = "names of the instruction set")]
        #[rustfmt::skip]
        pub(crate) enum Op { $($op),* }

        /// All instructions.
        pub(crate) static OPERATIONS: &[Operation] = &[$(Operation {
            op: Op::$op,
            set: Set::$set,
            opcode: $opcode,
            mnemonic: $mnemonic,
            fields: &[$(field!($field)),*],
        }),*];
    };
}

operations! {
    Core 0x00 GlobalLoadI32 "global.load.i32" [global_4 write_i32];
    Core 0x01 GlobalStoreI32 "global.store.i32" [global_4 read_i32];
    Core 0x02 GlobalLoadIndirectI32 "global.load.indirect.i32" [read_i32 write_i32];
    Core 0x03 GlobalStoreIndirectI32 "global.store.indirect.i32" [read_i32 read_i32];
    Core 0x04 GlobalLoadI64 "global.load.i64" [global_8 write_i64];
    Core 0x05 GlobalStoreI64 "global.store.i64" [global_8 read_i64];
    Core 0x06 GlobalLoadIndirectI64 "global.load.indirect.i64" [read_i32 write_i64];
    Core 0x07 GlobalStoreIndirectI64 "global.store.indirect.i64" [read_i32 read_i64];
    Core 0x08 GlobalLoadRef "global.load.ref" [global_ref type_id write_ref];
    Core 0x09 GlobalStoreRef "global.store.ref" [global_ref type_id take_ref];
    Core 0x0a GlobalLoadIndirectRef "global.load.indirect.ref" [read_i32 type_id write_ref];
    Core 0x0b GlobalStoreIndirectRef "global.store.indirect.ref" [read_i32 type_id take_ref];
    Core 0x0c ConstI32Zero "const.i32.zero" [write_i32];
    Core 0x0d ConstI32 "const.i32" [const_i32 write_i32];
    Core 0x0e ConstI64Zero "const.i64.zero" [write_i64];
    Core 0x0f ConstI64 "const.i64" [const_i64 write_i64];
    Core 0x10 ConstRefZero "const.ref.zero" [write_ref];
    Core 0x11 ConstRefRodata "const.ref.rodata" [rodata write_ref];
    Core 0x12 ListAlloc "list.alloc" [type_id read_i32 write_ref];
    Core 0x13 ListReserve "list.reserve" [read_ref read_i32];
    Core 0x14 ListSize "list.size" [read_ref write_i32];
    Core 0x15 ListResize "list.resize" [read_ref read_i32];
    Core 0x16 ListGetI32 "list.get.i32" [read_ref read_i32 write_i32];
    Core 0x17 ListSetI32 "list.set.i32" [read_ref read_i32 read_i32];
    Core 0x18 ListGetI64 "list.get.i64" [read_ref read_i32 write_i64];
    Core 0x19 ListSetI64 "list.set.i64" [read_ref read_i32 read_i64];
    Core 0x1a ListGetRef "list.get.ref" [read_ref read_i32 type_id write_ref];
    Core 0x1b ListSetRef "list.set.ref" [read_ref read_i32 take_ref];
    Core 0x1c SelectI32 "select.i32" [read_i32 read_i32 read_i32 write_i32];
    Core 0x1d SelectI64 "select.i64" [read_i32 read_i64 read_i64 write_i64];
    Core 0x1e SelectRef "select.ref" [read_i32 type_id take_ref take_ref write_ref];
    Core 0x1f SwitchI32 "switch.i32" [read_i32 read_i32 many_i32 write_i32];
    Core 0x20 SwitchI64 "switch.i64" [read_i32 read_i64 many_i64 write_i64];
    Core 0x21 SwitchRef "switch.ref" [read_i32 type_id take_ref many_ref write_ref];
    Core 0x22 AddI32 "add.i32" [read_i32 read_i32 write_i32];
    Core 0x23 SubI32 "sub.i32" [read_i32 read_i32 write_i32];
    Core 0x24 MulI32 "mul.i32" [read_i32 read_i32 write_i32];
    Core 0x25 DivI32S "div.i32.s" [read_i32 read_i32 write_i32];
    Core 0x26 DivI32U "div.i32.u" [read_i32 read_i32 write_i32];
    Core 0x27 RemI32S "rem.i32.s" [read_i32 read_i32 write_i32];
    Core 0x28 RemI32U "rem.i32.u" [read_i32 read_i32 write_i32];
    Core 0x29 FMAI32 "fma.i32" [read_i32 read_i32 read_i32 write_i32];
    Core 0x2a AddI64 "add.i64" [read_i64 read_i64 write_i64];
    Core 0x2b SubI64 "sub.i64" [read_i64 read_i64 write_i64];
    Core 0x2c MulI64 "mul.i64" [read_i64 read_i64 write_i64];
    Core 0x2d DivI64S "div.i64.s" [read_i64 read_i64 write_i64];
    Core 0x2e DivI64U "div.i64.u" [read_i64 read_i64 write_i64];
    Core 0x2f RemI64S "rem.i64.s" [read_i64 read_i64 write_i64];
    Core 0x30 RemI64U "rem.i64.u" [read_i64 read_i64 write_i64];
    Core 0x31 FMAI64 "fma.i64" [read_i64 read_i64 read_i64 write_i64];
    Core 0x32 NotI32 "not.i32" [read_i32 write_i32];
    Core 0x33 AndI32 "and.i32" [read_i32 read_i32 write_i32];
    Core 0x34 OrI32 "or.i32" [read_i32 read_i32 write_i32];
    Core 0x35 XorI32 "xor.i32" [read_i32 read_i32 write_i32];
    Core 0x36 NotI64 "not.i64" [read_i64 write_i64];
    Core 0x37 AndI64 "and.i64" [read_i64 read_i64 write_i64];
    Core 0x38 OrI64 "or.i64" [read_i64 read_i64 write_i64];
    Core 0x39 XorI64 "xor.i64" [read_i64 read_i64 write_i64];
    Core 0x3a ShlI32 "shl.i32" [read_i32 read_i32 write_i32];
    Core 0x3b ShrI32S "shr.i32.s" [read_i32 read_i32 write_i32];
    Core 0x3c ShrI32U "shr.i32.u" [read_i32 read_i32 write_i32];
    Core 0x3d ShlI64 "shl.i64" [read_i64 read_i32 write_i64];
    Core 0x3e ShrI64S "shr.i64.s" [read_i64 read_i32 write_i64];
    Core 0x3f ShrI64U "shr.i64.u" [read_i64 read_i32 write_i64];
    Core 0x40 TruncI32I8 "trunc.i32.i8" [read_i32 write_i32];
    Core 0x41 TruncI32I16 "trunc.i32.i16" [read_i32 write_i32];
    Core 0x42 TruncI64I32 "trunc.i64.i32" [read_i64 write_i32];
    Core 0x43 ExtI8I32S "ext.i8.i32.s" [read_i32 write_i32];
    Core 0x44 ExtI8I32U "ext.i8.i32.u" [read_i32 write_i32];
    Core 0x45 ExtI16I32S "ext.i16.i32.s" [read_i32 write_i32];
    Core 0x46 ExtI16I32U "ext.i16.i32.u" [read_i32 write_i32];
    Core 0x47 ExtI32I64S "ext.i32.i64.s" [read_i32 write_i64];
    Core 0x48 ExtI32I64U "ext.i32.i64.u" [read_i32 write_i64];
    Core 0x49 CmpEQI32 "cmp.eq.i32" [read_i32 read_i32 write_i32];
    Core 0x4a CmpNEI32 "cmp.ne.i32" [read_i32 read_i32 write_i32];
    Core 0x4b CmpLTI32S "cmp.lt.i32.s" [read_i32 read_i32 write_i32];
    Core 0x4c CmpLTI32U "cmp.lt.i32.u" [read_i32 read_i32 write_i32];
    Core 0x4d CmpNZI32 "cmp.nz.i32" [read_i32 write_i32];
    Core 0x4e CmpEQI64 "cmp.eq.i64" [read_i64 read_i64 write_i32];
    Core 0x4f CmpNEI64 "cmp.ne.i64" [read_i64 read_i64 write_i32];
    Core 0x50 CmpLTI64S "cmp.lt.i64.s" [read_i64 read_i64 write_i32];
    Core 0x51 CmpLTI64U "cmp.lt.i64.u" [read_i64 read_i64 write_i32];
    Core 0x52 CmpNZI64 "cmp.nz.i64" [read_i64 write_i32];
    Core 0x53 CmpEQRef "cmp.eq.ref" [read_ref read_ref write_i32];
    Core 0x54 CmpNERef "cmp.ne.ref" [read_ref read_ref write_i32];
    Core 0x55 CmpNZRef "cmp.nz.ref" [read_ref write_i32];
    Core 0x56 Branch "br" [target moves];
    Core 0x57 CondBranch "cond_br" [read_i32 target moves target moves];
    Core 0x58 Call "call" [function operands results];
    Core 0x59 CallVariadic "call.variadic" [function segments operands results];
    Core 0x5a Return "return" [operands];
    Core 0x5b Fail "fail" [read_i32 text];
    Core 0x5c ImportResolved "import.resolved" [import write_i32];
    Core 0x5d Yield "yield" [target moves];
    Core 0x5e Trace "trace" [text operands];
    Core 0x5f Print "print" [text operands];
    Core 0x60 CondBreak "cond_break" [read_i32 target moves];
    Core 0x61 Break "break" [target moves];
    Core 0x62 BufferLoadI8U "buffer.load.i8.u" [read_ref read_i64 write_i32];
    Core 0x63 BufferLoadI8S "buffer.load.i8.s" [read_ref read_i64 write_i32];
    Core 0x64 BufferLoadI16U "buffer.load.i16.u" [read_ref read_i64 write_i32];
    Core 0x65 BufferLoadI16S "buffer.load.i16.s" [read_ref read_i64 write_i32];
    Core 0x66 BufferLoadI32 "buffer.load.i32" [read_ref read_i64 write_i32];
    Core 0x67 BufferLoadI64 "buffer.load.i64" [read_ref read_i64 write_i64];
    Core 0x68 BufferStoreI8 "buffer.store.i8" [read_ref read_i64 read_i32];
    Core 0x69 BufferStoreI16 "buffer.store.i16" [read_ref read_i64 read_i32];
    Core 0x6a BufferStoreI32 "buffer.store.i32" [read_ref read_i64 read_i32];
    Core 0x6b BufferStoreI64 "buffer.store.i64" [read_ref read_i64 read_i64];
    Core 0x6c BufferAlloc "buffer.alloc" [read_i64 read_i32 write_ref];
    Core 0x6d BufferClone "buffer.clone" [read_ref read_i64 read_i64 read_i32 write_ref];
    Core 0x6e BufferLength "buffer.length" [read_ref write_i64];
    Core 0x6f BufferCopy "buffer.copy" [read_ref read_i64 read_ref read_i64 read_i64];
    Core 0x70 BufferCompare "buffer.compare" [read_ref read_i64 read_ref read_i64 read_i64 write_i32];
    Core 0x71 BufferFillI8 "buffer.fill.i8" [read_ref read_i64 read_i64 read_i32];
    Core 0x72 BufferFillI16 "buffer.fill.i16" [read_ref read_i64 read_i64 read_i32];
    Core 0x73 BufferFillI32 "buffer.fill.i32" [read_ref read_i64 read_i64 read_i32];
    Core 0x74 BufferFillI64 "buffer.fill.i64" [read_ref read_i64 read_i64 read_i64];
    Core 0x75 CtlzI32 "ctlz.i32" [read_i32 write_i32];
    Core 0x76 CtlzI64 "ctlz.i64" [read_i64 write_i64];
    Core 0x77 AbsI32 "abs.i32" [read_i32 write_i32];
    Core 0x78 AbsI64 "abs.i64" [read_i64 write_i64];
    Core 0x79 Block "block" [];
    Core 0x7a MinI32S "min.i32.s" [read_i32 read_i32 write_i32];
    Core 0x7b MinI32U "min.i32.u" [read_i32 read_i32 write_i32];
    Core 0x7c MaxI32S "max.i32.s" [read_i32 read_i32 write_i32];
    Core 0x7d MaxI32U "max.i32.u" [read_i32 read_i32 write_i32];
    Core 0x7e MinI64S "min.i64.s" [read_i64 read_i64 write_i64];
    Core 0x7f MinI64U "min.i64.u" [read_i64 read_i64 write_i64];
    Core 0x80 MaxI64S "max.i64.s" [read_i64 read_i64 write_i64];
    Core 0x81 MaxI64U "max.i64.u" [read_i64 read_i64 write_i64];
    Core 0x82 CastAnyRef "cast.any.ref" [take_ref type_id write_ref];
    Core 0x83 BranchTable "br_table" [read_i32 target moves cases];
    Core 0x84 BufferHash "buffer.hash" [read_ref read_i64 read_i64 write_i64];
    Core 0x85 DiscardRefs "discard.refs" [operands];
    Core 0x86 AssignRef "assign.ref" [take_ref write_ref];
    Core 0x87 CallYieldable "call.yieldable" [function operands target results];
    Core 0x88 CallVariadicYieldable "call.variadic.yieldable" [function segments operands target results];
    F32 0x00 GlobalLoadF32 "global.load.f32" [global_4 write_f32];
    F32 0x01 GlobalStoreF32 "global.store.f32" [global_4 read_f32];
    F32 0x02 GlobalLoadIndirectF32 "global.load.indirect.f32" [read_i32 write_f32];
    F32 0x03 GlobalStoreIndirectF32 "global.store.indirect.f32" [read_i32 read_f32];
    F32 0x04 ConstF32Zero "const.f32.zero" [write_f32];
    F32 0x05 ConstF32 "const.f32" [const_f32 write_f32];
    F32 0x06 ListGetF32 "list.get.f32" [read_ref read_i32 write_f32];
    F32 0x07 ListSetF32 "list.set.f32" [read_ref read_i32 read_f32];
    F32 0x08 SelectF32 "select.f32" [read_i32 read_f32 read_f32 write_f32];
    F32 0x09 SwitchF32 "switch.f32" [read_i32 read_f32 many_f32 write_f32];
    F32 0x0a AddF32 "add.f32" [read_f32 read_f32 write_f32];
    F32 0x0b SubF32 "sub.f32" [read_f32 read_f32 write_f32];
    F32 0x0c MulF32 "mul.f32" [read_f32 read_f32 write_f32];
    F32 0x0d DivF32 "div.f32" [read_f32 read_f32 write_f32];
    F32 0x0e RemF32 "rem.f32" [read_f32 read_f32 write_f32];
    F32 0x0f FMAF32 "fma.f32" [read_f32 read_f32 read_f32 write_f32];
    F32 0x10 AbsF32 "abs.f32" [read_f32 write_f32];
    F32 0x11 NegF32 "neg.f32" [read_f32 write_f32];
    F32 0x12 CeilF32 "ceil.f32" [read_f32 write_f32];
    F32 0x13 FloorF32 "floor.f32" [read_f32 write_f32];
    F32 0x14 CastSI32F32 "cast.si32.f32" [read_i32 write_f32];
    F32 0x15 CastUI32F32 "cast.ui32.f32" [read_i32 write_f32];
    F32 0x16 CastF32SI32 "cast.f32.si32" [read_f32 write_i32];
    F32 0x17 CastF32UI32 "cast.f32.ui32" [read_f32 write_i32];
    F32 0x18 BitcastI32F32 "bitcast.i32.f32" [read_i32 write_f32];
    F32 0x19 BitcastF32I32 "bitcast.f32.i32" [read_f32 write_i32];
    F32 0x1a AtanF32 "atan.f32" [read_f32 write_f32];
    F32 0x1b Atan2F32 "atan2.f32" [read_f32 read_f32 write_f32];
    F32 0x1c CosF32 "cos.f32" [read_f32 write_f32];
    F32 0x1d SinF32 "sin.f32" [read_f32 write_f32];
    F32 0x1e ExpF32 "exp.f32" [read_f32 write_f32];
    F32 0x1f Exp2F32 "exp2.f32" [read_f32 write_f32];
    F32 0x20 ExpM1F32 "expm1.f32" [read_f32 write_f32];
    F32 0x21 LogF32 "log.f32" [read_f32 write_f32];
    F32 0x22 Log10F32 "log10.f32" [read_f32 write_f32];
    F32 0x23 Log1pF32 "log1p.f32" [read_f32 write_f32];
    F32 0x24 Log2F32 "log2.f32" [read_f32 write_f32];
    F32 0x25 PowF32 "pow.f32" [read_f32 read_f32 write_f32];
    F32 0x26 RsqrtF32 "rsqrt.f32" [read_f32 write_f32];
    F32 0x27 SqrtF32 "sqrt.f32" [read_f32 write_f32];
    F32 0x28 TanhF32 "tanh.f32" [read_f32 write_f32];
    F32 0x29 ErfF32 "erf.f32" [read_f32 write_f32];
    F32 0x2a CmpEQF32O "cmp.eq.f32.o" [read_f32 read_f32 write_i32];
    F32 0x2b CmpEQF32U "cmp.eq.f32.u" [read_f32 read_f32 write_i32];
    F32 0x2c CmpNEF32O "cmp.ne.f32.o" [read_f32 read_f32 write_i32];
    F32 0x2d CmpNEF32U "cmp.ne.f32.u" [read_f32 read_f32 write_i32];
    F32 0x2e CmpLTF32O "cmp.lt.f32.o" [read_f32 read_f32 write_i32];
    F32 0x2f CmpLTF32U "cmp.lt.f32.u" [read_f32 read_f32 write_i32];
    F32 0x30 CmpLTEF32O "cmp.lte.f32.o" [read_f32 read_f32 write_i32];
    F32 0x31 CmpLTEF32U "cmp.lte.f32.u" [read_f32 read_f32 write_i32];
    F32 0x32 CmpNaNF32 "cmp.nan.f32" [read_f32 write_i32];
    F32 0x33 BufferLoadF32 "buffer.load.f32" [read_ref read_i64 write_f32];
    F32 0x34 BufferStoreF32 "buffer.store.f32" [read_ref read_i64 read_f32];
    F32 0x35 BufferFillF32 "buffer.fill.f32" [read_ref read_i64 read_i64 read_f32];
    F32 0x36 RoundF32 "round.f32" [read_f32 write_f32];
    F32 0x37 MinF32 "min.f32" [read_f32 read_f32 write_f32];
    F32 0x38 MaxF32 "max.f32" [read_f32 read_f32 write_f32];
    F32 0x39 RoundF32Even "round.f32.even" [read_f32 write_f32];
    F32 0x3a CastF32SI64 "cast.f32.si64" [read_f32 write_i64];
    F32 0x3b CastF32UI64 "cast.f32.ui64" [read_f32 write_i64];
    F32 0x3c CastSI64F32 "cast.si64.f32" [read_i64 write_f32];
    F32 0x3d CastUI64F32 "cast.ui64.f32" [read_i64 write_f32];
    F64 0x00 GlobalLoadF64 "global.load.f64" [global_8 write_f64];
    F64 0x01 GlobalStoreF64 "global.store.f64" [global_8 read_f64];
    F64 0x02 GlobalLoadIndirectF64 "global.load.indirect.f64" [read_i32 write_f64];
    F64 0x03 GlobalStoreIndirectF64 "global.store.indirect.f64" [read_i32 read_f64];
    F64 0x04 ConstF64Zero "const.f64.zero" [write_f64];
    F64 0x05 ConstF64 "const.f64" [const_f64 write_f64];
    F64 0x06 ListGetF64 "list.get.f64" [read_ref read_i32 write_f64];
    F64 0x07 ListSetF64 "list.set.f64" [read_ref read_i32 read_f64];
    F64 0x08 SelectF64 "select.f64" [read_i32 read_f64 read_f64 write_f64];
    F64 0x09 SwitchF64 "switch.f64" [read_i32 read_f64 many_f64 write_f64];
    F64 0x0a AddF64 "add.f64" [read_f64 read_f64 write_f64];
    F64 0x0b SubF64 "sub.f64" [read_f64 read_f64 write_f64];
    F64 0x0c MulF64 "mul.f64" [read_f64 read_f64 write_f64];
    F64 0x0d DivF64 "div.f64" [read_f64 read_f64 write_f64];
    F64 0x0e RemF64 "rem.f64" [read_f64 read_f64 write_f64];
    F64 0x0f FMAF64 "fma.f64" [read_f64 read_f64 read_f64 write_f64];
    F64 0x10 AbsF64 "abs.f64" [read_f64 write_f64];
    F64 0x11 NegF64 "neg.f64" [read_f64 write_f64];
    F64 0x12 CeilF64 "ceil.f64" [read_f64 write_f64];
    F64 0x13 FloorF64 "floor.f64" [read_f64 write_f64];
    F64 0x14 TruncF64F32 "trunc.f64.f32" [read_f64 write_f32];
    F64 0x15 ExtF32F64 "ext.f32.f64" [read_f32 write_f64];
    F64 0x16 CastSI32F64 "cast.si32.f64" [read_i32 write_f64];
    F64 0x17 CastUI32F64 "cast.ui32.f64" [read_i32 write_f64];
    F64 0x18 CastF64SI32 "cast.f64.si32" [read_f64 write_i32];
    F64 0x19 CastF64UI32 "cast.f64.ui32" [read_f64 write_i32];
    F64 0x1a CastSI64F64 "cast.si64.f64" [read_i64 write_f64];
    F64 0x1b CastUI64F64 "cast.ui64.f64" [read_i64 write_f64];
    F64 0x1c CastF64SI64 "cast.f64.si64" [read_f64 write_i64];
    F64 0x1d CastF64UI64 "cast.f64.ui64" [read_f64 write_i64];
    F64 0x1e BitcastI64F64 "bitcast.i64.f64" [read_i64 write_f64];
    F64 0x1f BitcastF64I64 "bitcast.f64.i64" [read_f64 write_i64];
    F64 0x20 AtanF64 "atan.f64" [read_f64 write_f64];
    F64 0x21 Atan2F64 "atan2.f64" [read_f64 read_f64 write_f64];
    F64 0x22 CosF64 "cos.f64" [read_f64 write_f64];
    F64 0x23 SinF64 "sin.f64" [read_f64 write_f64];
    F64 0x24 ExpF64 "exp.f64" [read_f64 write_f64];
    F64 0x25 Exp2F64 "exp2.f64" [read_f64 write_f64];
    F64 0x26 ExpM1F64 "expm1.f64" [read_f64 write_f64];
    F64 0x27 LogF64 "log.f64" [read_f64 write_f64];
    F64 0x28 Log10F64 "log10.f64" [read_f64 write_f64];
    F64 0x29 Log1pF64 "log1p.f64" [read_f64 write_f64];
    F64 0x2a Log2F64 "log2.f64" [read_f64 write_f64];
    F64 0x2b PowF64 "pow.f64" [read_f64 read_f64 write_f64];
    F64 0x2c RsqrtF64 "rsqrt.f64" [read_f64 write_f64];
    F64 0x2d SqrtF64 "sqrt.f64" [read_f64 write_f64];
    F64 0x2e TanhF64 "tanh.f64" [read_f64 write_f64];
    F64 0x2f ErfF64 "erf.f64" [read_f64 write_f64];
    F64 0x30 CmpEQF64O "cmp.eq.f64.o" [read_f64 read_f64 write_i32];
    F64 0x31 CmpEQF64U "cmp.eq.f64.u" [read_f64 read_f64 write_i32];
    F64 0x32 CmpNEF64O "cmp.ne.f64.o" [read_f64 read_f64 write_i32];
    F64 0x33 CmpNEF64U "cmp.ne.f64.u" [read_f64 read_f64 write_i32];
    F64 0x34 CmpLTF64O "cmp.lt.f64.o" [read_f64 read_f64 write_i32];
    F64 0x35 CmpLTF64U "cmp.lt.f64.u" [read_f64 read_f64 write_i32];
    F64 0x36 CmpLTEF64O "cmp.lte.f64.o" [read_f64 read_f64 write_i32];
    F64 0x37 CmpLTEF64U "cmp.lte.f64.u" [read_f64 read_f64 write_i32];
    F64 0x38 CmpNaNF64 "cmp.nan.f64" [read_f64 write_i32];
    F64 0x39 BufferLoadF64 "buffer.load.f64" [read_ref read_i64 write_f64];
    F64 0x3a BufferStoreF64 "buffer.store.f64" [read_ref read_i64 read_f64];
    F64 0x3b BufferFillF64 "buffer.fill.f64" [read_ref read_i64 read_i64 read_f64];
    F64 0x3c RoundF64 "round.f64" [read_f64 write_f64];
    F64 0x3d MinF64 "min.f64" [read_f64 read_f64 write_f64];
    F64 0x3e MaxF64 "max.f64" [read_f64 read_f64 write_f64];
    F64 0x3f RoundF64Even "round.f64.even" [read_f64 write_f64];
}

/// Where each instruction stands in [`OPERATIONS`], by set and number.
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

/// The instruction of that number in that set.
pub(crate) fn lookup(set: Set, opcode: u8) -> Option<&'static Operation> {
    OPERATIONS.get(usize::from(BY_OPCODE[set as usize][usize::from(opcode)]))
}

/// The number of the marker that each block starts with.
pub(crate) const BLOCK: u8 = 0x79;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_is_found_by_its_number() {
        for operation in OPERATIONS {
            let found = lookup(operation.set, operation.opcode).unwrap();
            assert_eq!(found.op, operation.op, "two instructions of {:?} share a number", operation.set);
        }
        assert_eq!(lookup(Set::Core, BLOCK).unwrap().op, Op::Block);
        assert!(lookup(Set::Core, 0xE0).is_none() && lookup(Set::F32, 0xFF).is_none());
        // 137 of the core set, without the two prefixes; 62 and 64 of the extensions.
        let of = |set| OPERATIONS.iter().filter(|operation| operation.set == set).count();
        assert_eq!((of(Set::Core), of(Set::F32), of(Set::F64)), (137, 62, 64));
    }
}
