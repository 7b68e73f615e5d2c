//! The instruction set, bytecode 17.0: the one table that decoding, verification, disassembly, lowering and
//! execution are generated from.
//!
//! An instruction is a row: opcode set, opcode, name in code, mnemonic, its syntax in text if that is not its
//! operands in order, its fields, and its semantics. To add one, add a row to its group:
//!
//! - `inline`: computes one number from others and cannot fail; the dispatch loop has an arm for it. The
//!   fields follow from the types. `commutes` marks commutative instructions, whose operands fusion may swap.
//! - `fallible`: the same, but `?` ends the invocation with an error.
//! - `library`: the same as `inline`, but executed out of line: it takes longer than a call.
//! - `routines`: any operation on registers and types. The row names the function that executes it out of
//!   line, and after a comma the function that returns the bytes it allocates or accesses, which are charged
//!   to the budget.
//! - `lowered`: has operands other than registers and types. The row names the method that lowers it to a
//!   [`code::Insn`](crate::code::Insn), which the dispatch loop or `interpret/out_of_line.rs` executes.
//! - `terminators`: the same, but ends its basic block.
//!
//! In a syntax, `{n}` stands for field n. The first four groups need only the row and the function that it
//! names.
//!
//! Specification: `runtime/src/iree/vm/bytecode/isa/isa.json` and `runtime/src/iree/vm/ops.h` of the
//! reference, the latter as compiled by clang (`platform.rs`). Behaviour that is undefined in C is defined
//! here: integers wrap, and out-of-range conversions return what the processor's instructions return.

/// Passes the table to a macro, after the tokens that follow its name.
macro_rules! instructions {
    ($callback:ident $($before:tt)*) => { $callback! { $($before)*
    inline {
        // Selection.
        Core 0x1c SelectI32 "select.i32" "{0} ? {1} : {2}" (c: i32, a: i32, b: i32) -> i32 { if c != 0 { a } else { b } };
        Core 0x1d SelectI64 "select.i64" "{0} ? {1} : {2}" (c: i32, a: i64, b: i64) -> i64 { if c != 0 { a } else { b } };
        F32 0x08 SelectF32 "select.f32" "{0} ? {1} : {2}" (c: i32, a: f32, b: f32) -> f32 { if c != 0 { a } else { b } };
        F64 0x08 SelectF64 "select.f64" "{0} ? {1} : {2}" (c: i32, a: f64, b: f64) -> f64 { if c != 0 { a } else { b } };

        // i32.
        Core 0x22 AddI32 "add.i32" (a: i32, b: i32) -> i32 { a.wrapping_add(b) } commutes;
        Core 0x23 SubI32 "sub.i32" (a: i32, b: i32) -> i32 { a.wrapping_sub(b) };
        Core 0x24 MulI32 "mul.i32" (a: i32, b: i32) -> i32 { a.wrapping_mul(b) } commutes;
        Core 0x29 FMAI32 "fma.i32" (a: i32, b: i32, c: i32) -> i32 { a.wrapping_mul(b).wrapping_add(c) };
        Core 0x77 AbsI32 "abs.i32" (a: i32) -> i32 { a.wrapping_abs() };
        Core 0x7a MinI32S "min.i32.s" (a: i32, b: i32) -> i32 { a.min(b) };
        Core 0x7b MinI32U "min.i32.u" (a: u32, b: u32) -> u32 { a.min(b) };
        Core 0x7c MaxI32S "max.i32.s" (a: i32, b: i32) -> i32 { a.max(b) };
        Core 0x7d MaxI32U "max.i32.u" (a: u32, b: u32) -> u32 { a.max(b) };
        Core 0x32 NotI32 "not.i32" (a: i32) -> i32 { !a };
        Core 0x33 AndI32 "and.i32" (a: i32, b: i32) -> i32 { a & b } commutes;
        Core 0x34 OrI32 "or.i32" (a: i32, b: i32) -> i32 { a | b } commutes;
        Core 0x35 XorI32 "xor.i32" (a: i32, b: i32) -> i32 { a ^ b } commutes;
        Core 0x75 CtlzI32 "ctlz.i32" (a: u32) -> u32 { a.leading_zeros() };
        Core 0x3a ShlI32 "shl.i32" (a: i32, by: u32) -> i32 { a.wrapping_shl(by) };
        Core 0x3b ShrI32S "shr.i32.s" (a: i32, by: u32) -> i32 { a.wrapping_shr(by) };
        Core 0x3c ShrI32U "shr.i32.u" (a: u32, by: u32) -> u32 { a.wrapping_shr(by) };
        Core 0x49 CmpEQI32 "cmp.eq.i32" (a: i32, b: i32) -> i32 { (a == b).into() } commutes;
        Core 0x4a CmpNEI32 "cmp.ne.i32" (a: i32, b: i32) -> i32 { (a != b).into() } commutes;
        Core 0x4b CmpLTI32S "cmp.lt.i32.s" (a: i32, b: i32) -> i32 { (a < b).into() };
        Core 0x4c CmpLTI32U "cmp.lt.i32.u" (a: u32, b: u32) -> i32 { (a < b).into() };
        Core 0x4d CmpNZI32 "cmp.nz.i32" (a: i32) -> i32 { (a != 0).into() };

        // i64.
        Core 0x2a AddI64 "add.i64" (a: i64, b: i64) -> i64 { a.wrapping_add(b) } commutes;
        Core 0x2b SubI64 "sub.i64" (a: i64, b: i64) -> i64 { a.wrapping_sub(b) };
        Core 0x2c MulI64 "mul.i64" (a: i64, b: i64) -> i64 { a.wrapping_mul(b) } commutes;
        Core 0x31 FMAI64 "fma.i64" (a: i64, b: i64, c: i64) -> i64 { a.wrapping_mul(b).wrapping_add(c) };
        Core 0x78 AbsI64 "abs.i64" (a: i64) -> i64 { a.wrapping_abs() };
        Core 0x7e MinI64S "min.i64.s" (a: i64, b: i64) -> i64 { a.min(b) };
        Core 0x7f MinI64U "min.i64.u" (a: u64, b: u64) -> u64 { a.min(b) };
        Core 0x80 MaxI64S "max.i64.s" (a: i64, b: i64) -> i64 { a.max(b) };
        Core 0x81 MaxI64U "max.i64.u" (a: u64, b: u64) -> u64 { a.max(b) };
        Core 0x36 NotI64 "not.i64" (a: i64) -> i64 { !a };
        Core 0x37 AndI64 "and.i64" (a: i64, b: i64) -> i64 { a & b } commutes;
        Core 0x38 OrI64 "or.i64" (a: i64, b: i64) -> i64 { a | b } commutes;
        Core 0x39 XorI64 "xor.i64" (a: i64, b: i64) -> i64 { a ^ b } commutes;
        Core 0x76 CtlzI64 "ctlz.i64" (a: u64) -> i64 { a.leading_zeros().into() };
        Core 0x3d ShlI64 "shl.i64" (a: i64, by: u32) -> i64 { a.wrapping_shl(by) };
        Core 0x3e ShrI64S "shr.i64.s" (a: i64, by: u32) -> i64 { a.wrapping_shr(by) };
        Core 0x3f ShrI64U "shr.i64.u" (a: u64, by: u32) -> u64 { a.wrapping_shr(by) };
        Core 0x4e CmpEQI64 "cmp.eq.i64" (a: i64, b: i64) -> i32 { (a == b).into() } commutes;
        Core 0x4f CmpNEI64 "cmp.ne.i64" (a: i64, b: i64) -> i32 { (a != b).into() } commutes;
        Core 0x50 CmpLTI64S "cmp.lt.i64.s" (a: i64, b: i64) -> i32 { (a < b).into() };
        Core 0x51 CmpLTI64U "cmp.lt.i64.u" (a: u64, b: u64) -> i32 { (a < b).into() };
        Core 0x52 CmpNZI64 "cmp.nz.i64" (a: i64) -> i32 { (a != 0).into() };

        // Integer conversions.
        Core 0x40 TruncI32I8 "trunc.i32.i8" (a: u32) -> u32 { (a as u8).into() };
        Core 0x41 TruncI32I16 "trunc.i32.i16" (a: u32) -> u32 { (a as u16).into() };
        Core 0x42 TruncI64I32 "trunc.i64.i32" (a: u64) -> u32 { a as u32 };
        Core 0x43 ExtI8I32S "ext.i8.i32.s" (a: i32) -> i32 { (a as i8).into() };
        Core 0x44 ExtI8I32U "ext.i8.i32.u" (a: u32) -> u32 { (a as u8).into() };
        Core 0x45 ExtI16I32S "ext.i16.i32.s" (a: i32) -> i32 { (a as i16).into() };
        Core 0x46 ExtI16I32U "ext.i16.i32.u" (a: u32) -> u32 { (a as u16).into() };
        Core 0x47 ExtI32I64S "ext.i32.i64.s" (a: i32) -> i64 { a.into() };
        Core 0x48 ExtI32I64U "ext.i32.i64.u" (a: u32) -> u64 { a.into() };

        // f32.
        F32 0x0a AddF32 "add.f32" (a: f32, b: f32) -> f32 { a + b };
        F32 0x0b SubF32 "sub.f32" (a: f32, b: f32) -> f32 { a - b };
        F32 0x0c MulF32 "mul.f32" (a: f32, b: f32) -> f32 { a * b };
        F32 0x0d DivF32 "div.f32" (a: f32, b: f32) -> f32 { a / b };
        F32 0x0f FMAF32 "fma.f32" (a: f32, b: f32, c: f32) -> f32 { multiply_add_f32(a, b, c) };
        F32 0x10 AbsF32 "abs.f32" (a: f32) -> f32 { a.abs() };
        F32 0x11 NegF32 "neg.f32" (a: f32) -> f32 { -a };
        F32 0x37 MinF32 "min.f32" (a: f32, b: f32) -> f32 { if b < a { b } else { a } };
        F32 0x38 MaxF32 "max.f32" (a: f32, b: f32) -> f32 { if a < b { b } else { a } };
        F32 0x27 SqrtF32 "sqrt.f32" (a: f32) -> f32 { a.sqrt() };
        F32 0x2a CmpEQF32O "cmp.eq.f32.o" (a: f32, b: f32) -> i32 { (a == b).into() };
        F32 0x2b CmpEQF32U "cmp.eq.f32.u" (a: f32, b: f32) -> i32 { (is_unordered(a.into(), b.into()) || a == b).into() };
        // True for unordered operands, as in the reference.
        F32 0x2c CmpNEF32O "cmp.ne.f32.o" (a: f32, b: f32) -> i32 { (a != b).into() };
        F32 0x2d CmpNEF32U "cmp.ne.f32.u" (a: f32, b: f32) -> i32 { (a != b).into() };
        F32 0x2e CmpLTF32O "cmp.lt.f32.o" (a: f32, b: f32) -> i32 { (a < b).into() };
        F32 0x2f CmpLTF32U "cmp.lt.f32.u" (a: f32, b: f32) -> i32 { (is_unordered(a.into(), b.into()) || a < b).into() };
        F32 0x30 CmpLTEF32O "cmp.lte.f32.o" (a: f32, b: f32) -> i32 { (a <= b).into() };
        F32 0x31 CmpLTEF32U "cmp.lte.f32.u" (a: f32, b: f32) -> i32 { (is_unordered(a.into(), b.into()) || a <= b).into() };
        F32 0x32 CmpNaNF32 "cmp.nan.f32" (a: f32) -> i32 { a.is_nan().into() };
        F32 0x14 CastSI32F32 "cast.si32.f32" (a: i32) -> f32 { a as f32 };
        F32 0x18 BitcastI32F32 "bitcast.i32.f32" (a: u32) -> f32 { f32::from_bits(a) };
        F32 0x19 BitcastF32I32 "bitcast.f32.i32" (a: f32) -> u32 { a.to_bits() };

        // f64.
        F64 0x0a AddF64 "add.f64" (a: f64, b: f64) -> f64 { a + b };
        F64 0x0b SubF64 "sub.f64" (a: f64, b: f64) -> f64 { a - b };
        F64 0x0c MulF64 "mul.f64" (a: f64, b: f64) -> f64 { a * b };
        F64 0x0d DivF64 "div.f64" (a: f64, b: f64) -> f64 { a / b };
        F64 0x0f FMAF64 "fma.f64" (a: f64, b: f64, c: f64) -> f64 { multiply_add_f64(a, b, c) };
        F64 0x10 AbsF64 "abs.f64" (a: f64) -> f64 { a.abs() };
        F64 0x11 NegF64 "neg.f64" (a: f64) -> f64 { -a };
        F64 0x3d MinF64 "min.f64" (a: f64, b: f64) -> f64 { if b < a { b } else { a } };
        F64 0x3e MaxF64 "max.f64" (a: f64, b: f64) -> f64 { if a < b { b } else { a } };
        F64 0x2d SqrtF64 "sqrt.f64" (a: f64) -> f64 { a.sqrt() };
        F64 0x30 CmpEQF64O "cmp.eq.f64.o" (a: f64, b: f64) -> i32 { (a == b).into() };
        F64 0x31 CmpEQF64U "cmp.eq.f64.u" (a: f64, b: f64) -> i32 { (is_unordered(a, b) || a == b).into() };
        F64 0x32 CmpNEF64O "cmp.ne.f64.o" (a: f64, b: f64) -> i32 { (a != b).into() };
        F64 0x33 CmpNEF64U "cmp.ne.f64.u" (a: f64, b: f64) -> i32 { (a != b).into() };
        F64 0x34 CmpLTF64O "cmp.lt.f64.o" (a: f64, b: f64) -> i32 { (a < b).into() };
        F64 0x35 CmpLTF64U "cmp.lt.f64.u" (a: f64, b: f64) -> i32 { (is_unordered(a, b) || a < b).into() };
        F64 0x36 CmpLTEF64O "cmp.lte.f64.o" (a: f64, b: f64) -> i32 { (a <= b).into() };
        F64 0x37 CmpLTEF64U "cmp.lte.f64.u" (a: f64, b: f64) -> i32 { (is_unordered(a, b) || a <= b).into() };
        F64 0x38 CmpNaNF64 "cmp.nan.f64" (a: f64) -> i32 { a.is_nan().into() };
        F64 0x14 TruncF64F32 "trunc.f64.f32" (a: f64) -> f32 { a as f32 };
        F64 0x15 ExtF32F64 "ext.f32.f64" (a: f32) -> f64 { a.into() };
        F64 0x16 CastSI32F64 "cast.si32.f64" (a: i32) -> f64 { a.into() };
        F64 0x1a CastSI64F64 "cast.si64.f64" (a: i64) -> f64 { a as f64 };
        F64 0x1e BitcastI64F64 "bitcast.i64.f64" (a: u64) -> f64 { f64::from_bits(a) };
        F64 0x1f BitcastF64I64 "bitcast.f64.i64" (a: f64) -> u64 { a.to_bits() };
    }

    fallible {
        Core 0x25 DivI32S "div.i32.s" (a: i32, b: i32) -> i32 { a.wrapping_div(divisor(b)?) };
        Core 0x26 DivI32U "div.i32.u" (a: u32, b: u32) -> u32 { a.wrapping_div(divisor(b)?) };
        Core 0x27 RemI32S "rem.i32.s" (a: i32, b: i32) -> i32 { a.wrapping_rem(divisor(b)?) };
        Core 0x28 RemI32U "rem.i32.u" (a: u32, b: u32) -> u32 { a.wrapping_rem(divisor(b)?) };
        Core 0x2d DivI64S "div.i64.s" (a: i64, b: i64) -> i64 { a.wrapping_div(divisor(b)?) };
        Core 0x2e DivI64U "div.i64.u" (a: u64, b: u64) -> u64 { a.wrapping_div(divisor(b)?) };
        Core 0x2f RemI64S "rem.i64.s" (a: i64, b: i64) -> i64 { a.wrapping_rem(divisor(b)?) };
        Core 0x30 RemI64U "rem.i64.u" (a: u64, b: u64) -> u64 { a.wrapping_rem(divisor(b)?) };
    }

    library {
        // f32.
        F32 0x0e RemF32 "rem.f32" (a: f32, b: f32) -> f32 { c_math::remainderf(a, b) };
        F32 0x12 CeilF32 "ceil.f32" (a: f32) -> f32 { special::ceil_f32(a) };
        F32 0x13 FloorF32 "floor.f32" (a: f32) -> f32 { special::floor_f32(a) };
        F32 0x36 RoundF32 "round.f32" (a: f32) -> f32 { a.round() };
        F32 0x39 RoundF32Even "round.f32.even" (a: f32) -> f32 { round_even_f32(a) };
        F32 0x1a AtanF32 "atan.f32" (a: f32) -> f32 { a.atan() };
        F32 0x1b Atan2F32 "atan2.f32" (a: f32, b: f32) -> f32 { a.atan2(b) };
        F32 0x1c CosF32 "cos.f32" (a: f32) -> f32 { a.cos() };
        F32 0x1d SinF32 "sin.f32" (a: f32) -> f32 { a.sin() };
        F32 0x1e ExpF32 "exp.f32" (a: f32) -> f32 { a.exp() };
        F32 0x1f Exp2F32 "exp2.f32" (a: f32) -> f32 { a.exp2() };
        F32 0x20 ExpM1F32 "expm1.f32" (a: f32) -> f32 { a.exp_m1() };
        F32 0x21 LogF32 "log.f32" (a: f32) -> f32 { a.ln() };
        F32 0x22 Log10F32 "log10.f32" (a: f32) -> f32 { a.log10() };
        F32 0x23 Log1pF32 "log1p.f32" (a: f32) -> f32 { a.ln_1p() };
        F32 0x24 Log2F32 "log2.f32" (a: f32) -> f32 { a.log2() };
        F32 0x25 PowF32 "pow.f32" (a: f32, b: f32) -> f32 { a.powf(b) };
        F32 0x26 RsqrtF32 "rsqrt.f32" (a: f32) -> f32 { 1.0 / a.sqrt() };
        F32 0x28 TanhF32 "tanh.f32" (a: f32) -> f32 { a.tanh() };
        F32 0x29 ErfF32 "erf.f32" (a: f32) -> f32 { c_math::erff(a) };
        F32 0x3c CastSI64F32 "cast.si64.f32" (a: i64) -> f32 { a as f32 };
        F32 0x15 CastUI32F32 "cast.ui32.f32" (a: u32) -> f32 { a as f32 };
        F32 0x3d CastUI64F32 "cast.ui64.f32" (a: u64) -> f32 { a as f32 };
        F32 0x16 CastF32SI32 "cast.f32.si32" (a: f32) -> i32 { round_to_i64(a.round().into()) as i32 };
        F32 0x3a CastF32SI64 "cast.f32.si64" (a: f32) -> i64 { round_to_i64(a.round().into()) };
        F32 0x17 CastF32UI32 "cast.f32.ui32" (a: f32) -> i32 { round_to_i64(a.round().into()) as i32 };
        F32 0x3b CastF32UI64 "cast.f32.ui64" (a: f32) -> i64 { rounded_f32_to_u64(a.round()) };

        // f64.
        F64 0x0e RemF64 "rem.f64" (a: f64, b: f64) -> f64 { c_math::remainder(a, b) };
        F64 0x12 CeilF64 "ceil.f64" (a: f64) -> f64 { special::ceil_f64(a) };
        F64 0x13 FloorF64 "floor.f64" (a: f64) -> f64 { special::floor_f64(a) };
        F64 0x3c RoundF64 "round.f64" (a: f64) -> f64 { a.round() };
        F64 0x3f RoundF64Even "round.f64.even" (a: f64) -> f64 { round_even_f64(a) };
        F64 0x20 AtanF64 "atan.f64" (a: f64) -> f64 { a.atan() };
        F64 0x21 Atan2F64 "atan2.f64" (a: f64, b: f64) -> f64 { a.atan2(b) };
        F64 0x22 CosF64 "cos.f64" (a: f64) -> f64 { a.cos() };
        F64 0x23 SinF64 "sin.f64" (a: f64) -> f64 { a.sin() };
        F64 0x24 ExpF64 "exp.f64" (a: f64) -> f64 { a.exp() };
        F64 0x25 Exp2F64 "exp2.f64" (a: f64) -> f64 { a.exp2() };
        F64 0x26 ExpM1F64 "expm1.f64" (a: f64) -> f64 { a.exp_m1() };
        F64 0x27 LogF64 "log.f64" (a: f64) -> f64 { special::ln_f64(a) };
        F64 0x28 Log10F64 "log10.f64" (a: f64) -> f64 { a.log10() };
        F64 0x29 Log1pF64 "log1p.f64" (a: f64) -> f64 { a.ln_1p() };
        F64 0x2a Log2F64 "log2.f64" (a: f64) -> f64 { special::log2_f64(a) };
        F64 0x2b PowF64 "pow.f64" (a: f64, b: f64) -> f64 { a.powf(b) };
        F64 0x2c RsqrtF64 "rsqrt.f64" (a: f64) -> f64 { 1.0 / a.sqrt() };
        F64 0x2e TanhF64 "tanh.f64" (a: f64) -> f64 { a.tanh() };
        F64 0x2f ErfF64 "erf.f64" (a: f64) -> f64 { c_math::erf(a) };
        F64 0x17 CastUI32F64 "cast.ui32.f64" (a: u32) -> f64 { a.into() };
        F64 0x1b CastUI64F64 "cast.ui64.f64" (a: u64) -> f64 { a as f64 };
        // By way of f32, as in the reference.
        F64 0x18 CastF64SI32 "cast.f64.si32" (a: f64) -> i32 { round_to_i64((a as f32).round().into()) as i32 };
        F64 0x19 CastF64UI32 "cast.f64.ui32" (a: f64) -> i32 { round_to_i64((a as f32).round().into()) as i32 };
        F64 0x1c CastF64SI64 "cast.f64.si64" (a: f64) -> i64 { round_to_i64(a.round()) };
        F64 0x1d CastF64UI64 "cast.f64.ui64" (a: f64) -> i64 { round_to_i64(a.round()) };
    }

    routines {
        // Globals at a computed offset.
        Core 0x02 GlobalLoadIndirectI32 "global.load.indirect.i32" ".rwdata[{0}]" [read_i32 write_i32] = globals::load_32;
        Core 0x03 GlobalStoreIndirectI32 "global.store.indirect.i32" "{1}, .rwdata[{0}]" [read_i32 read_i32] = globals::store_32;
        Core 0x06 GlobalLoadIndirectI64 "global.load.indirect.i64" ".rwdata[{0}]" [read_i32 write_i64] = globals::load_64;
        Core 0x07 GlobalStoreIndirectI64 "global.store.indirect.i64" "{1}, .rwdata[{0}]" [read_i32 read_i64] = globals::store_64;
        F32 0x02 GlobalLoadIndirectF32 "global.load.indirect.f32" ".rwdata[{0}]" [read_i32 write_f32] = globals::load_32;
        F32 0x03 GlobalStoreIndirectF32 "global.store.indirect.f32" "{1}, .rwdata[{0}]" [read_i32 read_f32] = globals::store_32;
        F64 0x02 GlobalLoadIndirectF64 "global.load.indirect.f64" ".rwdata[{0}]" [read_i32 write_f64] = globals::load_64;
        F64 0x03 GlobalStoreIndirectF64 "global.store.indirect.f64" "{1}, .rwdata[{0}]" [read_i32 read_f64] = globals::store_64;
        Core 0x0a GlobalLoadIndirectRef "global.load.indirect.ref" ".refs[{0}] : {1}" [read_i32 type_id write_ref] = globals::load_ref;
        Core 0x0b GlobalStoreIndirectRef "global.store.indirect.ref" "{2}, .refs[{0}] : {1}" [read_i32 type_id take_ref] = globals::store_ref;

        // References.
        Core 0x10 ConstRefZero "const.ref.zero" [write_ref] = refs::null;
        Core 0x1e SelectRef "select.ref" "{0} ? {2} : {3} -> {1}" [read_i32 type_id take_ref take_ref write_ref] = refs::select;
        Core 0x82 CastAnyRef "cast.any.ref" "{0} : !vm.ref<?> -> {1}" [take_ref type_id write_ref] = refs::cast;
        Core 0x53 CmpEQRef "cmp.eq.ref" [read_ref read_ref write_i32] = refs::compare_eq;
        Core 0x54 CmpNERef "cmp.ne.ref" [read_ref read_ref write_i32] = refs::compare_ne;
        Core 0x55 CmpNZRef "cmp.nz.ref" [read_ref write_i32] = refs::compare_nz;

        // Lists.
        Core 0x12 ListAlloc "list.alloc" "{1} : !vm.list<{0}>" [type_id read_i32 write_ref] = lists::allocate, lists::bytes;
        Core 0x13 ListReserve "list.reserve" [read_ref read_i32] = lists::reserve, lists::bytes;
        Core 0x14 ListSize "list.size" [read_ref write_i32] = lists::size;
        Core 0x15 ListResize "list.resize" [read_ref read_i32] = lists::resize, lists::bytes;
        Core 0x16 ListGetI32 "list.get.i32" [read_ref read_i32 write_i32] = lists::get::<i32>;
        Core 0x17 ListSetI32 "list.set.i32" [read_ref read_i32 read_i32] = lists::set::<i32>;
        Core 0x18 ListGetI64 "list.get.i64" [read_ref read_i32 write_i64] = lists::get::<i64>;
        Core 0x19 ListSetI64 "list.set.i64" [read_ref read_i32 read_i64] = lists::set::<i64>;
        F32 0x06 ListGetF32 "list.get.f32" [read_ref read_i32 write_f32] = lists::get::<f32>;
        F32 0x07 ListSetF32 "list.set.f32" [read_ref read_i32 read_f32] = lists::set::<f32>;
        F64 0x06 ListGetF64 "list.get.f64" [read_ref read_i32 write_f64] = lists::get::<f64>;
        F64 0x07 ListSetF64 "list.set.f64" [read_ref read_i32 read_f64] = lists::set::<f64>;
        Core 0x1b ListSetRef "list.set.ref" [read_ref read_i32 take_ref] = lists::set_ref;

        // Buffers. The bytes accessed are an operand times the element size.
        Core 0x6c BufferAlloc "buffer.alloc" [read_i64 read_i32 write_ref] = buffers::allocate, buffers::bytes::<0, 1>;
        Core 0x6d BufferClone "buffer.clone" [read_ref read_i64 read_i64 read_i32 write_ref] = buffers::clone, buffers::bytes::<2, 1>;
        Core 0x6e BufferLength "buffer.length" [read_ref write_i64] = buffers::length;
        Core 0x6f BufferCopy "buffer.copy" [read_ref read_i64 read_ref read_i64 read_i64] = buffers::copy, buffers::bytes::<4, 1>;
        Core 0x70 BufferCompare "buffer.compare" [read_ref read_i64 read_ref read_i64 read_i64 write_i32] = buffers::compare, buffers::bytes::<4, 1>;
        Core 0x71 BufferFillI8 "buffer.fill.i8" [read_ref read_i64 read_i64 read_i32] = buffers::fill_8, buffers::bytes::<2, 1>;
        Core 0x72 BufferFillI16 "buffer.fill.i16" [read_ref read_i64 read_i64 read_i32] = buffers::fill_16, buffers::bytes::<2, 2>;
        Core 0x73 BufferFillI32 "buffer.fill.i32" [read_ref read_i64 read_i64 read_i32] = buffers::fill_32, buffers::bytes::<2, 4>;
        Core 0x74 BufferFillI64 "buffer.fill.i64" [read_ref read_i64 read_i64 read_i64] = buffers::fill_64, buffers::bytes::<2, 8>;
        F32 0x35 BufferFillF32 "buffer.fill.f32" [read_ref read_i64 read_i64 read_f32] = buffers::fill_32, buffers::bytes::<2, 4>;
        F64 0x3b BufferFillF64 "buffer.fill.f64" [read_ref read_i64 read_i64 read_f64] = buffers::fill_64, buffers::bytes::<2, 8>;
        Core 0x84 BufferHash "buffer.hash" [read_ref read_i64 read_i64 write_i64] = buffers::hash, buffers::bytes::<2, 1>;
    }

    lowered {
        // The marker that each basic block starts with.
        Core 0x79 Block "block" [] => Lowering::start_block;

        // Constants.
        Core 0x0c ConstI32Zero "const.i32.zero" [write_i32] => Lowering::zero_32;
        Core 0x0d ConstI32 "const.i32" [const_i32 write_i32] => Lowering::constant_32;
        Core 0x0e ConstI64Zero "const.i64.zero" [write_i64] => Lowering::zero_64;
        Core 0x0f ConstI64 "const.i64" [const_i64 write_i64] => Lowering::constant_64;
        F32 0x04 ConstF32Zero "const.f32.zero" [write_f32] => Lowering::zero_32;
        F32 0x05 ConstF32 "const.f32" [const_f32 write_f32] => Lowering::constant_32;
        F64 0x04 ConstF64Zero "const.f64.zero" [write_f64] => Lowering::zero_64;
        F64 0x05 ConstF64 "const.f64" [const_f64 write_f64] => Lowering::constant_64;
        Core 0x11 ConstRefRodata "const.ref.rodata" [rodata write_ref] => Lowering::rodata;
        Core 0x5c ImportResolved "import.resolved" [import write_i32] => Lowering::import_resolved;

        // Globals at a constant offset.
        Core 0x00 GlobalLoadI32 "global.load.i32" [global_4 write_i32] => Lowering::load_global_32;
        Core 0x01 GlobalStoreI32 "global.store.i32" "{1}, {0}" [global_4 read_i32] => Lowering::store_global_32;
        Core 0x04 GlobalLoadI64 "global.load.i64" [global_8 write_i64] => Lowering::load_global_64;
        Core 0x05 GlobalStoreI64 "global.store.i64" "{1}, {0}" [global_8 read_i64] => Lowering::store_global_64;
        F32 0x00 GlobalLoadF32 "global.load.f32" [global_4 write_f32] => Lowering::load_global_32;
        F32 0x01 GlobalStoreF32 "global.store.f32" "{1}, {0}" [global_4 read_f32] => Lowering::store_global_32;
        F64 0x00 GlobalLoadF64 "global.load.f64" [global_8 write_f64] => Lowering::load_global_64;
        F64 0x01 GlobalStoreF64 "global.store.f64" "{1}, {0}" [global_8 read_f64] => Lowering::store_global_64;
        Core 0x08 GlobalLoadRef "global.load.ref" [global_ref type_id write_ref] => Lowering::load_global_ref;
        Core 0x09 GlobalStoreRef "global.store.ref" "{2}, {0} : {1}" [global_ref type_id take_ref] => Lowering::store_global_ref;

        // Elements of buffers.
        Core 0x62 BufferLoadI8U "buffer.load.i8.u" [read_ref read_i64 write_i32] => |to, from| to.access(Insn::Load8U, from);
        Core 0x63 BufferLoadI8S "buffer.load.i8.s" [read_ref read_i64 write_i32] => |to, from| to.access(Insn::Load8S, from);
        Core 0x64 BufferLoadI16U "buffer.load.i16.u" [read_ref read_i64 write_i32] => |to, from| to.access(Insn::Load16U, from);
        Core 0x65 BufferLoadI16S "buffer.load.i16.s" [read_ref read_i64 write_i32] => |to, from| to.access(Insn::Load16S, from);
        Core 0x66 BufferLoadI32 "buffer.load.i32" [read_ref read_i64 write_i32] => |to, from| to.access(Insn::Load32, from);
        Core 0x67 BufferLoadI64 "buffer.load.i64" [read_ref read_i64 write_i64] => |to, from| to.access(Insn::Load64, from);
        F32 0x33 BufferLoadF32 "buffer.load.f32" [read_ref read_i64 write_f32] => |to, from| to.access(Insn::Load32, from);
        F64 0x39 BufferLoadF64 "buffer.load.f64" [read_ref read_i64 write_f64] => |to, from| to.access(Insn::Load64, from);
        Core 0x68 BufferStoreI8 "buffer.store.i8" "{2}, {0}, {1}" [read_ref read_i64 read_i32] => |to, from| to.access(Insn::Store8, from);
        Core 0x69 BufferStoreI16 "buffer.store.i16" "{2}, {0}, {1}" [read_ref read_i64 read_i32] => |to, from| to.access(Insn::Store16, from);
        Core 0x6a BufferStoreI32 "buffer.store.i32" "{2}, {0}, {1}" [read_ref read_i64 read_i32] => |to, from| to.access(Insn::Store32, from);
        Core 0x6b BufferStoreI64 "buffer.store.i64" "{2}, {0}, {1}" [read_ref read_i64 read_i64] => |to, from| to.access(Insn::Store64, from);
        F32 0x34 BufferStoreF32 "buffer.store.f32" "{2}, {0}, {1}" [read_ref read_i64 read_f32] => |to, from| to.access(Insn::Store32, from);
        F64 0x3a BufferStoreF64 "buffer.store.f64" "{2}, {0}, {1}" [read_ref read_i64 read_f64] => |to, from| to.access(Insn::Store64, from);

        // References in lists.
        Core 0x1a ListGetRef "list.get.ref" "{0}, {1} : {2}" [read_ref read_i32 type_id write_ref] => Lowering::list_get_ref;

        // Selection by an index.
        Core 0x1f SwitchI32 "switch.i32" "{0}[{2}] else {1}" [read_i32 read_i32 many_i32 write_i32] => |to, from| to.switch(ValueKind::I32, from);
        Core 0x20 SwitchI64 "switch.i64" "{0}[{2}] else {1}" [read_i32 read_i64 many_i64 write_i64] => |to, from| to.switch(ValueKind::I64, from);
        F32 0x09 SwitchF32 "switch.f32" "{0}[{2}] else {1}" [read_i32 read_f32 many_f32 write_f32] => |to, from| to.switch(ValueKind::F32, from);
        F64 0x09 SwitchF64 "switch.f64" "{0}[{2}] else {1}" [read_i32 read_f64 many_f64 write_f64] => |to, from| to.switch(ValueKind::F64, from);
        Core 0x21 SwitchRef "switch.ref" "{0}[{3}] else {2}" [read_i32 type_id take_ref many_ref write_ref] => Lowering::switch_ref;

        // References.
        Core 0x86 AssignRef "assign.ref" [take_ref write_ref] => Lowering::assign_ref;
        Core 0x85 DiscardRefs "discard.refs" "{0}" [operands] => Lowering::discard;

        // Debugging: nothing is traced or printed, as in the reference; references moved into the operands
        // are released.
        Core 0x5e Trace "trace" "{0}({1})" [text operands] => Lowering::discard_moved;
        Core 0x5f Print "print" "{0}({1})" [text operands] => Lowering::discard_moved;

        // Calls.
        Core 0x58 Call "call" "@{0}({1})" [function operands results] => Lowering::plain_call;
        Core 0x59 CallVariadic "call.variadic" "@{0} segments[{1}]({2})" [function segments operands results] => Lowering::variadic_call;
    }

    terminators {
        Core 0x56 Branch "br" "{0}({1})" [target moves] => Lowering::unconditional;
        Core 0x57 CondBranch "cond_br" "{0}, {1}({2}), {3}({4})" [read_i32 target moves target moves] => Lowering::conditional;
        Core 0x83 BranchTable "br_table" "{0} { default: {1}({2}){3} }" [read_i32 target moves cases] => Lowering::branch_table;
        Core 0x61 Break "break" "{0}({1})" [target moves] => Lowering::branch_always;
        Core 0x60 CondBreak "cond_break" "{0}, {1}({2})" [read_i32 target moves] => Lowering::branch_unless_broken;
        Core 0x5d Yield "yield" "{0}({1})" [target moves] => Lowering::yield_to;
        Core 0x87 CallYieldable "call.yieldable" "@{0}({1}) -> {2}({3})" [function operands target results] => Lowering::yieldable_call;
        Core 0x88 CallVariadicYieldable "call.variadic.yieldable" "@{0} segments[{1}]({2}) -> {3}({4})" [function segments operands target results] => Lowering::variadic_yieldable_call;
        Core 0x5a Return "return" [operands] => Lowering::return_values;
        Core 0x5b Fail "fail" [read_i32 text] => Lowering::fail;
    }
    } };
}
pub(crate) use instructions;
