//! Floats, comparisons and selections.
//!
//! Source: the PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions" and
//! "Comparison and Selection Instructions".

use super::super::ast::Operand;
use super::super::op::{Cmp, Float, FloatFn, IntOp, IntUnary, Op, Reg, Test, Width};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};
use crate::numbers::Rounding;

impl<'a> Lowering<'a, '_> {
    pub(super) fn float(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let f = match form.opcode {
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
        let is_half = form.last_kind().is_some_and(|it| !matches!(it, Type::F32 | Type::F64));
        let (rounding, is_approximate) = self.float_rounding(f, form)?;
        let ftz = form.takes("ftz");
        let is_sum = matches!(f, FloatFn::Add | FloatFn::Sub | FloatFn::Mul | FloatFn::Fma);
        let is_order = matches!(f, FloatFn::Min | FloatFn::Max);
        let sat = is_sum && form.takes("sat");
        let relu = f == FloatFn::Fma && is_half && !sat && form.takes("relu");
        let nan = is_order && form.takes("NaN");
        let xorsign = is_order && form.takes("xorsign");
        if xorsign {
            self.want(form, "abs")?;
        }
        let kind = self.kind_of(form, kinds(f, is_approximate))?;
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
        self.expect(form, sources + 1)?;
        let mut all = [self.destination(&form.operands[0], kind)?, 0, 0, 0];
        for (reg, operand) in all.iter_mut().zip(form.operands).skip(1) {
            *reg = self.source(operand, kind)?;
        }
        let float = Float { f, kind, rounding, ftz, sat, nan, xorsign, relu };
        self.emit(fast(float), all, 0);
        Ok(())
    }

    /// The rounding mode, and whether the function is approximate. Fails if the instruction needs a mode.
    fn float_rounding(&self, f: FloatFn, form: &mut Form<'a, '_>) -> Lowered<(Rounding, bool)> {
        const MODES: [Rounding; 4] = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up];
        match f {
            FloatFn::Add | FloatFn::Sub | FloatFn::Mul => {
                Ok((form.rounding().unwrap_or(Rounding::Nearest), false))
            }
            // Without a mode, `mad` is from sm_1x.
            FloatFn::Fma => Ok((self.choice(form, "rn rz rm rp", &MODES)?, false)),
            FloatFn::Div | FloatFn::Rcp | FloatFn::Sqrt => {
                let is_full = f == FloatFn::Div && form.last_kind() == Some(Type::F32) && form.takes("full");
                if is_full || form.takes("approx") {
                    return Ok((Rounding::Nearest, true));
                }
                Ok((self.choice(form, "rn rz rm rp", &MODES)?, false))
            }
            FloatFn::Rsqrt | FloatFn::Sin | FloatFn::Cos | FloatFn::Ex2 | FloatFn::Lg2 | FloatFn::Tanh => {
                self.want(form, "approx")?;
                Ok((Rounding::Nearest, true))
            }
            FloatFn::Min | FloatFn::Max | FloatFn::Abs | FloatFn::Neg => Ok((Rounding::Nearest, false)),
        }
    }

    pub(super) fn copysign(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let kind = self.kind_of(form, "f32 f64")?;
        self.expect(form, 3)?;
        let d = self.destination(&form.operands[0], kind)?;
        let (a, b) = (self.source(&form.operands[1], kind)?, self.source(&form.operands[2], kind)?);
        self.emit(Op::Copysign { long: kind == Type::F64 }, [d, a, b, 0], 0);
        Ok(())
    }

    pub(super) fn testp(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let test = self.choice(
            form,
            "finite infinite number notanumber normal subnormal",
            &[Test::Finite, Test::Infinite, Test::Number, Test::NotANumber, Test::Normal, Test::Subnormal],
        )?;
        let kind = self.kind_of(form, "f32 f64")?;
        self.expect(form, 2)?;
        let (d, a) =
            (self.destination(&form.operands[0], Type::Pred)?, self.source(&form.operands[1], kind)?);
        self.emit(Op::Testp { long: kind == Type::F64, test }, [d, a, 0, 0], 0);
        Ok(())
    }

    pub(super) fn compare(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let word = form.next().unwrap_or_default();
        let combine = form.one_of("and or xor", &[IntOp::And, IntOp::Or, IntOp::Xor]);
        let ftz = form.takes("ftz");
        let result = match form.opcode {
            "set" => Some(self.kind_of(form, "u32 s32 f32 f16 bf16")?),
            _ => None,
        };
        let kind = self.kind_of(form, "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2")?;
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
        self.expect(form, if combine.is_some() { 4 } else { 3 })?;
        let (a, b) = (self.source(&form.operands[1], kind)?, self.source(&form.operands[2], kind)?);
        let c = match combine {
            Some(op) => Some((op, self.source(&form.operands[3], Type::Pred)?)),
            None => None,
        };
        if is_packed {
            let Operand::Pair(p, q) = form.operands[0] else {
                return Err(self.corrupt("two predicates", "one operand"));
            };
            return self.compare_packed(Op::Cmp(cmp, half_of(kind), ftz), [a, b], c, [p, q]);
        }
        let (p, q) = match (&form.operands[0], result) {
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
            let d = self.destination(&form.operands[0], result)?;
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

    pub(super) fn select(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let ftz = form.opcode == "slct" && form.takes("ftz");
        let kind = self.kind_of(form, "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64")?;
        let by = match form.opcode {
            "selp" => Type::Pred,
            _ => self.kind_of(form, if ftz { "f32" } else { "s32 f32" })?,
        };
        self.expect(form, 4)?;
        let d = self.destination(&form.operands[0], kind)?;
        let (a, b) = (self.source(&form.operands[1], kind)?, self.source(&form.operands[2], kind)?);
        let mut c = self.source(&form.operands[3], by)?;
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
fn kinds(f: FloatFn, is_approximate: bool) -> &'static str {
    match f {
        FloatFn::Div | FloatFn::Sqrt if is_approximate => "f32",
        FloatFn::Div | FloatFn::Rcp | FloatFn::Sqrt | FloatFn::Rsqrt => "f32 f64",
        FloatFn::Sin | FloatFn::Cos | FloatFn::Lg2 => "f32",
        FloatFn::Ex2 | FloatFn::Tanh => "f32 f16 f16x2 bf16 bf16x2",
        _ => "f32 f64 f16 f16x2 bf16 bf16x2",
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
