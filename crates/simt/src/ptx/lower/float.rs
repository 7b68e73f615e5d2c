//! Floats, comparisons and selections.
//!
//! Source: the PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions" and
//! "Comparison and Selection Instructions".

use super::super::ast::Operand;
use super::super::op::{Cmp, Float, FloatFn, IntOp, IntUnary, Op, Reg, Width};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};
use crate::numbers::Rounding;
use crate::words::Word;

impl<'a> Lowering<'a, '_> {
    pub(super) fn float(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        // Without a mode, `mad` is from sm_1x.
        let f = FloatFn::named(form.opcode).unwrap_or(FloatFn::Fma);
        let is_half = form.last_kind().is_some_and(|it| !matches!(it, Type::F32 | Type::F64));
        let is_order = matches!(f, FloatFn::Min | FloatFn::Max);
        let is_sum = matches!(f, FloatFn::Add | FloatFn::Sub | FloatFn::Mul);
        let (rounding, is_approximate) = match f {
            _ if is_sum => (form.word().unwrap_or(Rounding::Nearest), false),
            FloatFn::Min | FloatFn::Max | FloatFn::Abs | FloatFn::Neg => (Rounding::Nearest, false),
            FloatFn::Fma => (self.word(form)?, false),
            FloatFn::Div if form.last_kind() == Some(Type::F32) && form.takes("full") => {
                (Rounding::Nearest, true)
            }
            FloatFn::Div | FloatFn::Rcp | FloatFn::Sqrt if !form.takes("approx") => (self.word(form)?, false),
            FloatFn::Div | FloatFn::Rcp | FloatFn::Sqrt => (Rounding::Nearest, true),
            _ => {
                self.want(form, "approx")?;
                (Rounding::Nearest, true)
            }
        };
        let ftz = form.takes("ftz");
        let sat = (is_sum || f == FloatFn::Fma) && form.takes("sat");
        let relu = f == FloatFn::Fma && is_half && !sat && form.takes("relu");
        let nan = is_order && form.takes("NaN");
        let xorsign = is_order && form.takes("xorsign");
        if xorsign {
            self.want(form, "abs")?;
        }
        let kind = self.kind_of(form, kinds(f, is_approximate))?;
        let has_saturation = matches!(kind, Type::F32 | Type::F16 | Type::F16x2);
        let has_flushing = is_approximate || has_saturation;
        let is_single_only =
            (ftz && !has_flushing) || (sat && !has_saturation) || ((nan || xorsign) && kind == Type::F64);
        if is_single_only || (is_half && rounding != Rounding::Nearest) {
            return Err(self.unsupported("modifiers that the type allows", format!("others with {kind:?}")));
        }
        let op = fast(Float { f, kind, rounding, ftz, sat, nan, xorsign, relu });
        match f {
            FloatFn::Fma => self.plain(form, op, [kind; 4]),
            _ if is_sum || is_order || f == FloatFn::Div => self.plain(form, op, [kind; 3]),
            _ => self.plain(form, op, [kind; 2]),
        }
    }

    pub(super) fn copysign(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let kind = self.kind_of(form, "f32 f64")?;
        self.plain(form, Op::Copysign { long: kind == Type::F64 }, [kind; 3])
    }

    pub(super) fn testp(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let test = self.word(form)?;
        let kind = self.kind_of(form, "f32 f64")?;
        self.plain(form, Op::Testp { long: kind == Type::F64, test }, [Type::Pred, kind])
    }

    pub(super) fn compare(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let word = form.next().unwrap_or_default();
        let combine = form.one_of("and or xor").map(|it| [IntOp::And, IntOp::Or, IntOp::Xor][it]);
        let ftz = form.takes("ftz");
        let result = match form.opcode {
            "set" => Some(self.kind_of(form, "u32 s32 f32 f16 bf16")?),
            _ => None,
        };
        let kind = self.kind_of(form, "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64 f16 f16x2 bf16 bf16x2")?;
        let is_flushed = !ftz || matches!(kind, Type::F32 | Type::F16 | Type::F16x2);
        let Some(cmp) = comparison(word, kind).filter(|_| is_flushed) else {
            return Err(self.unsupported("a comparison of this type", format!("'.{word}' of {kind:?}")));
        };
        let is_packed = matches!(kind, Type::F16x2 | Type::Bf16x2);
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
            let half = if kind == Type::F16x2 { Type::F16 } else { Type::Bf16 };
            return self.compare_packed(Op::Cmp(cmp, half, ftz), [a, b], c, [p, q]);
        }
        let (p, q) = match (&form.operands[0], result) {
            (Operand::Pair(p, q), None) => (self.destination(&Operand::Name(p), Type::Pred)?, Some(*q)),
            (target, None) => (self.destination(target, Type::Pred)?, None),
            (_, Some(_)) => (self.temporary(Bank::Short)?, None),
        };
        if c.is_none() && q.is_none() {
            self.emit(Op::Cmp(cmp, kind, ftz), [p, a, b], 0)?;
        } else {
            let compared = self.temporary(Bank::Short)?;
            self.emit(Op::Cmp(cmp, kind, ftz), [compared, a, b], 0)?;
            self.combine(compared, c, p, q)?;
        }
        let Some(result) = result else { return Ok(()) };
        // All ones, or 1.0 of a float.
        let d = self.destination(&form.operands[0], result)?;
        let ones: u64 = match result {
            Type::F32 => 0x3f80_0000,
            Type::F16 => 0x3c00,
            Type::Bf16 => 0x3f80,
            _ => u32::MAX.into(),
        };
        let (ones, zero) = (self.constant(Bank::Short, ones)?, self.constant(Bank::Short, 0)?);
        self.emit(Op::Select, [d, ones, zero, p], 0)
    }

    /// `p = compared OP c`, and `q = !compared OP c`.
    fn combine(&mut self, compared: Reg, c: Option<(IntOp, Reg)>, p: Reg, q: Option<&'a str>) -> Lowered<()> {
        let (first, second) = (self.temporary(Bank::Short)?, self.temporary(Bank::Short)?);
        // Register 0 is true.
        let (op, c) = c.unwrap_or((IntOp::And, 0));
        self.emit(Op::IntUnary(IntUnary::Not, Width::W32), [second, compared], 0)?;
        self.emit(Op::Int(op, Width::W32), [first, compared, c], 0)?;
        self.emit(Op::Int(op, Width::W32), [second, second, c], 0)?;
        self.emit(Op::Mov, [p, first], 0)?;
        let Some(q) = q else { return Ok(()) };
        let q = self.destination(&Operand::Name(q), Type::Pred)?;
        self.emit(Op::Mov, [q, second], 0)
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
        for (result, (half, by)) in results.iter_mut().zip([(IntOp::And, 0xffff), (IntOp::ShrU, 16)]) {
            let mut parts = [0; 2];
            for (part, source) in parts.iter_mut().zip(sources) {
                *part = self.temporary(Bank::Short)?;
                let by = self.constant(Bank::Short, by)?;
                self.emit(Op::Int(half, Width::W32), [*part, source, by], 0)?;
            }
            *result = self.temporary(Bank::Short)?;
            self.emit(op, [*result, parts[0], parts[1]], 0)?;
            if let Some((op, c)) = c {
                self.emit(Op::Int(op, Width::W32), [*result, *result, c], 0)?;
            }
        }
        for (target, result) in targets.into_iter().zip(results) {
            let target = self.destination(&Operand::Name(target), Type::Pred)?;
            self.emit(Op::Mov, [target, result], 0)?;
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
        let [d, a, b, mut c] = self.registers(form, [kind, kind, kind, by])?;
        if by != Type::Pred {
            let (test, zero) = (self.temporary(Bank::Short)?, self.constant(Bank::Short, 0)?);
            self.emit(Op::Cmp(Cmp::Ge, by, ftz), [test, c, zero], 0)?;
            c = test;
        }
        self.emit(if kind.bank() == Bank::Long { Op::SelectLong } else { Op::Select }, [d, a, b, c], 0)
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
    match float.f {
        FloatFn::Fma if float.is_plain() && float.kind == Type::F32 => Op::Fma32,
        FloatFn::Add if float.is_plain() && float.kind == Type::F32 => Op::Add32,
        FloatFn::Sub if float.is_plain() && float.kind == Type::F32 => Op::Sub32,
        FloatFn::Mul if float.is_plain() && float.kind == Type::F32 => Op::Mul32,
        _ => Op::Float(float),
    }
}

/// The comparison that a word names; for bits only equality.
fn comparison(word: &str, kind: Type) -> Option<Cmp> {
    const UNSIGNED: [(&str, Cmp); 4] = [("lo", Cmp::Lt), ("ls", Cmp::Le), ("hi", Cmp::Gt), ("hs", Cmp::Ge)];
    let unsigned = UNSIGNED.iter().find(|it| it.0 == word && kind.is_integer() && !kind.is_signed());
    let cmp = unsigned.map(|it| it.1).or_else(|| Cmp::named(word))?;
    let is_valid = match cmp {
        Cmp::Eq | Cmp::Ne => true,
        Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge => !kind.is_bits(),
        _ => kind.is_float(),
    };
    is_valid.then_some(cmp)
}
