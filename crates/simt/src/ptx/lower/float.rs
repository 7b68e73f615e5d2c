//! Floats, comparisons and selections.
//!
//! Source: the PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions" and
//! "Comparison and Selection Instructions".

use super::super::ast::Operand;
use super::super::op::{Cmp, Float, FloatFn, IntOp, IntUnary, Op, Reg, Test, Width};
use super::super::types::{Bank, Type};
use super::modifiers::Modifiers;
use super::{Lowered, Lowering};
use crate::numbers::Rounding;

const HALVES: [Type; 4] = [Type::F16, Type::F16x2, Type::Bf16, Type::Bf16x2];

impl<'a> Lowering<'a, '_> {
    pub(super) fn float(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        let f = match opcode {
            "add" => FloatFn::Add,
            "sub" => FloatFn::Sub,
            "mul" => FloatFn::Mul,
            "div" => FloatFn::Div,
            "fma" | "mad" => FloatFn::Fma,
            "min" => FloatFn::Min,
            "max" => FloatFn::Max,
            "abs" => FloatFn::Abs,
            "neg" => FloatFn::Neg,
            "rcp" => FloatFn::Rcp,
            "sqrt" => FloatFn::Sqrt,
            "rsqrt" => FloatFn::Rsqrt,
            "sin" => FloatFn::Sin,
            "cos" => FloatFn::Cos,
            "ex2" => FloatFn::Ex2,
            "lg2" => FloatFn::Lg2,
            _ => FloatFn::Tanh,
        };
        let last = parts.last_kind();
        let is_half = last.is_some_and(|it| HALVES.contains(&it));
        let (rounding, is_approximate) = self.float_rounding(f, opcode, parts, last, is_half)?;
        let ftz = parts.takes("ftz");
        let is_sum = matches!(f, FloatFn::Add | FloatFn::Sub | FloatFn::Mul | FloatFn::Fma);
        let is_order = matches!(f, FloatFn::Min | FloatFn::Max);
        let sat = is_sum && parts.takes("sat");
        let relu = f == FloatFn::Fma && is_half && !sat && parts.takes("relu");
        let nan = is_order && parts.takes("NaN");
        let xorsign = is_order && parts.takes("xorsign");
        if xorsign {
            self.part(parts.takes("abs").then_some(()), parts, ".xorsign.abs")?;
        }
        let kind = self.kind_of(parts, &kinds(f, is_approximate))?;
        let has_flushing = is_approximate || matches!(kind, Type::F32 | Type::F16 | Type::F16x2);
        let has_saturation = matches!(kind, Type::F32 | Type::F16 | Type::F16x2);
        let is_single_only =
            (ftz && !has_flushing) || (sat && !has_saturation) || ((nan || xorsign) && kind == Type::F64);
        let is_wrong_mode = is_half && rounding != Rounding::Nearest;
        if is_single_only || is_wrong_mode {
            return Err(self.unsupported("modifiers that the type allows", format!("others with {kind:?}")));
        }
        let sources = match f {
            FloatFn::Fma => 3,
            FloatFn::Add | FloatFn::Sub | FloatFn::Mul | FloatFn::Div | FloatFn::Min | FloatFn::Max => 2,
            _ => 1,
        };
        self.expect(operands, sources + 1)?;
        let mut all = [self.destination(&operands[0], kind)?, 0, 0, 0];
        for index in 1..=sources {
            all[index] = self.source(&operands[index], kind)?;
        }
        let float = Float { f, kind, rounding, ftz, sat, nan, xorsign, relu };
        self.emit(fast(float), all, 0);
        Ok(())
    }

    /// The rounding mode, and whether the function is approximate. Fails if the instruction needs a mode.
    fn float_rounding(
        &self,
        f: FloatFn,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        last: Option<Type>,
        is_half: bool,
    ) -> Lowered<(Rounding, bool)> {
        let needs = |this: &Self, mode: Option<Rounding>, parts: &Modifiers<'a>| {
            Ok((this.part(mode, parts, "a rounding mode")?, false))
        };
        match f {
            FloatFn::Add | FloatFn::Sub | FloatFn::Mul => {
                Ok((parts.rounding().unwrap_or(Rounding::Nearest), false))
            }
            FloatFn::Fma => {
                let mode = parts.rounding();
                // `mad` without one is from sm_1x.
                let _ = opcode;
                needs(self, mode, parts)
            }
            FloatFn::Div | FloatFn::Rcp | FloatFn::Sqrt => {
                let is_full = f == FloatFn::Div && last == Some(Type::F32) && parts.takes("full");
                if is_full || parts.takes("approx") {
                    return Ok((Rounding::Nearest, true));
                }
                let mode = parts.rounding();
                needs(self, mode, parts)
            }
            FloatFn::Rsqrt | FloatFn::Sin | FloatFn::Cos | FloatFn::Ex2 | FloatFn::Lg2 | FloatFn::Tanh => {
                self.part(parts.takes("approx").then_some(()), parts, ".approx")?;
                Ok((Rounding::Nearest, true))
            }
            FloatFn::Min | FloatFn::Max | FloatFn::Abs | FloatFn::Neg => {
                let _ = is_half;
                Ok((Rounding::Nearest, false))
            }
        }
    }

    pub(super) fn copysign(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        let kind = self.kind_of(parts, &[Type::F32, Type::F64])?;
        self.expect(operands, 3)?;
        let d = self.destination(&operands[0], kind)?;
        let (a, b) = (self.source(&operands[1], kind)?, self.source(&operands[2], kind)?);
        self.emit(Op::Copysign { long: kind == Type::F64 }, [d, a, b, 0], 0);
        Ok(())
    }

    pub(super) fn testp(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        let test = parts.one_of(&[
            ("finite", Test::Finite),
            ("infinite", Test::Infinite),
            ("number", Test::Number),
            ("notanumber", Test::NotANumber),
            ("normal", Test::Normal),
            ("subnormal", Test::Subnormal),
        ]);
        let test = self.part(test, parts, "a test")?;
        let kind = self.kind_of(parts, &[Type::F32, Type::F64])?;
        self.expect(operands, 2)?;
        let (d, a) = (self.destination(&operands[0], Type::Pred)?, self.source(&operands[1], kind)?);
        self.emit(Op::Testp { long: kind == Type::F64, test }, [d, a, 0, 0], 0);
        Ok(())
    }

    pub(super) fn compare(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        let word = parts.next().unwrap_or_default();
        let combine = parts.one_of(&[("and", IntOp::And), ("or", IntOp::Or), ("xor", IntOp::Xor)]);
        let ftz = parts.takes("ftz");
        let result = match opcode {
            "set" => Some(self.kind_of(
                parts,
                &[Type::U32, Type::S32, Type::F32, Type::F16, Type::Bf16, Type::F16x2, Type::Bf16x2],
            )?),
            _ => None,
        };
        let kind = self.part(parts.kind(), parts, "a type")?;
        let is_unordered = word.len() == 3 || word == "num" || word == "nan";
        let cmp = comparison(word, kind).filter(|_| !is_unordered || kind.is_float());
        let is_packed = matches!(kind, Type::F16x2 | Type::Bf16x2);
        let cmp = match cmp {
            Some(cmp)
                if kind.bits() >= 16 && (!ftz || matches!(kind, Type::F32 | Type::F16 | Type::F16x2)) =>
            {
                cmp
            }
            _ => return Err(self.unsupported("a comparison of this type", format!("'.{word}' of {kind:?}"))),
        };
        if is_packed && result.is_some() {
            return Err(self.unsupported("a comparison of single values", format!("{kind:?}")));
        }
        self.expect(operands, if combine.is_some() { 4 } else { 3 })?;
        let (a, b) = (self.source(&operands[1], kind)?, self.source(&operands[2], kind)?);
        let c = match combine {
            Some(op) => Some((op, self.source(&operands[3], Type::Pred)?)),
            None => None,
        };
        if is_packed {
            let Operand::Pair(p, q) = operands[0] else {
                return Err(self.corrupt("two predicates", "one operand"));
            };
            return self.compare_packed(Op::Cmp(cmp, half_of(kind), ftz), [a, b], c, [p, q]);
        }
        let (p, q) = match (&operands[0], result) {
            (Operand::Pair(p, q), None) => (self.destination(&Operand::Name(p), Type::Pred)?, Some(*q)),
            (target, None) => (self.destination(target, Type::Pred)?, None),
            (_, Some(_)) => (self.temporary(Bank::Short)?, None),
        };
        let compared = self.temporary(Bank::Short)?;
        self.emit(
            Op::Cmp(cmp, kind, ftz),
            [if c.is_none() && q.is_none() { p } else { compared }, a, b, 0],
            0,
        );
        if c.is_some() || q.is_some() {
            self.combine(compared, c, p, q)?;
        }
        if let Some(result) = result {
            // All ones, or 1.0 of a float.
            let d = self.destination(&operands[0], result)?;
            let ones: u64 = match result {
                Type::F32 => 0x3f80_0000,
                Type::F16 => 0x3c00,
                Type::Bf16 => 0x3f80,
                _ => u32::MAX.into(),
            };
            let (ones, zero) = (self.constant(Bank::Short, ones)?, self.constant(Bank::Short, 0)?);
            self.emit(Op::Select, [d, ones, zero, p], 0);
        }
        Ok(())
    }

    /// `p = compared OP c`, and `q = !compared OP c`.
    fn combine(&mut self, compared: Reg, c: Option<(IntOp, Reg)>, p: Reg, q: Option<&'a str>) -> Lowered<()> {
        let (first, second) = (self.temporary(Bank::Short)?, self.temporary(Bank::Short)?);
        let (op, c) = match c {
            Some((op, c)) => (op, c),
            None => (IntOp::And, self.constant(Bank::Short, u32::MAX.into())?),
        };
        self.emit(Op::IntUnary(IntUnary::Not, Width::W32), [second, compared, 0, 0], 0);
        self.emit(Op::Int(op, Width::W32), [first, compared, c, 0], 0);
        self.emit(Op::Int(op, Width::W32), [second, second, c, 0], 0);
        self.emit(Op::Mov, [p, first, 0, 0], 0);
        if let Some(q) = q {
            let q = self.destination(&Operand::Name(q), Type::Pred)?;
            self.emit(Op::Mov, [q, second, 0, 0], 0);
        }
        Ok(())
    }

    /// A comparison of two halves each, whose results are two predicates.
    fn compare_packed(
        &mut self,
        op: Op,
        sources: [Reg; 2],
        c: Option<(IntOp, Reg)>,
        targets: [&'a str; 2],
    ) -> Lowered<()> {
        let mut results = [0; 2];
        for (half, result) in results.iter_mut().enumerate() {
            let mut parts = [0; 2];
            for (part, source) in parts.iter_mut().zip(sources) {
                *part = self.temporary(Bank::Short)?;
                let (op, by) = match half {
                    0 => (IntOp::And, 0xffff),
                    _ => (IntOp::ShrU, 16),
                };
                let by = self.constant(Bank::Short, by)?;
                self.emit(Op::Int(op, Width::W32), [*part, source, by, 0], 0);
            }
            *result = self.temporary(Bank::Short)?;
            self.emit(op, [*result, parts[0], parts[1], 0], 0);
            if let Some((op, c)) = c {
                self.emit(Op::Int(op, Width::W32), [*result, *result, c, 0], 0);
            }
        }
        for (target, result) in targets.into_iter().zip(results) {
            let target = self.destination(&Operand::Name(target), Type::Pred)?;
            self.emit(Op::Mov, [target, result, 0, 0], 0);
        }
        Ok(())
    }

    pub(super) fn select(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        let ftz = opcode == "slct" && parts.takes("ftz");
        let all = [
            Type::B16,
            Type::B32,
            Type::B64,
            Type::U16,
            Type::U32,
            Type::U64,
            Type::S16,
            Type::S32,
            Type::S64,
            Type::F32,
            Type::F64,
        ];
        let kind = self.kind_of(parts, &all)?;
        let by = match opcode {
            "selp" => Type::Pred,
            _ => self.kind_of(parts, if ftz { &[Type::F32] } else { &[Type::S32, Type::F32] })?,
        };
        self.expect(operands, 4)?;
        let d = self.destination(&operands[0], kind)?;
        let (a, b) = (self.source(&operands[1], kind)?, self.source(&operands[2], kind)?);
        let mut c = self.source(&operands[3], by)?;
        if by != Type::Pred {
            let (test, zero) = (self.temporary(Bank::Short)?, self.constant(Bank::Short, 0)?);
            self.emit(Op::Cmp(Cmp::Ge, by, ftz), [test, c, zero, 0], 0);
            c = test;
        }
        self.emit(if kind.bank() == Bank::Long { Op::SelectLong } else { Op::Select }, [d, a, b, c], 0);
        Ok(())
    }
}

/// The types of a function.
fn kinds(f: FloatFn, is_approximate: bool) -> Vec<Type> {
    let with = |halves: &[Type]| [&[Type::F32, Type::F64], halves].concat();
    match f {
        FloatFn::Add | FloatFn::Sub | FloatFn::Mul | FloatFn::Fma => with(&HALVES),
        FloatFn::Min | FloatFn::Max | FloatFn::Abs | FloatFn::Neg => with(&HALVES),
        FloatFn::Div | FloatFn::Sqrt if is_approximate => vec![Type::F32],
        FloatFn::Div | FloatFn::Rcp | FloatFn::Sqrt | FloatFn::Rsqrt => with(&[]),
        FloatFn::Sin | FloatFn::Cos | FloatFn::Lg2 => vec![Type::F32],
        FloatFn::Ex2 | FloatFn::Tanh => [&[Type::F32], &HALVES[..]].concat(),
    }
}

/// The operation of its own that the most frequent instructions have.
fn fast(float: Float) -> Op {
    let plain = Float {
        kind: Type::F32,
        rounding: Rounding::Nearest,
        ftz: false,
        sat: false,
        nan: false,
        xorsign: false,
        relu: false,
        f: float.f,
    };
    match float.f {
        FloatFn::Fma if float == plain => Op::Fma32,
        FloatFn::Add if float == plain => Op::Add32,
        FloatFn::Sub if float == plain => Op::Sub32,
        FloatFn::Mul if float == plain => Op::Mul32,
        _ => Op::Float(float),
    }
}

fn half_of(kind: Type) -> Type {
    match kind {
        Type::F16x2 => Type::F16,
        Type::Bf16x2 => Type::Bf16,
        other => other,
    }
}

/// The comparison that a word names; for bits only equality.
fn comparison(word: &str, kind: Type) -> Option<Cmp> {
    let is_order = |cmp: Cmp| (!kind.is_bits()).then_some(cmp);
    let is_unsigned = kind.is_integer() && !kind.is_signed();
    match word {
        "eq" => Some(Cmp::Eq),
        "ne" => Some(Cmp::Ne),
        "lt" => is_order(Cmp::Lt),
        "le" => is_order(Cmp::Le),
        "gt" => is_order(Cmp::Gt),
        "ge" => is_order(Cmp::Ge),
        "lo" if is_unsigned => Some(Cmp::Lt),
        "ls" if is_unsigned => Some(Cmp::Le),
        "hi" if is_unsigned => Some(Cmp::Gt),
        "hs" if is_unsigned => Some(Cmp::Ge),
        "equ" => Some(Cmp::Equ),
        "neu" => Some(Cmp::Neu),
        "ltu" => Some(Cmp::Ltu),
        "leu" => Some(Cmp::Leu),
        "gtu" => Some(Cmp::Gtu),
        "geu" => Some(Cmp::Geu),
        "num" => Some(Cmp::Num),
        "nan" => Some(Cmp::Nan),
        _ => None,
    }
}
