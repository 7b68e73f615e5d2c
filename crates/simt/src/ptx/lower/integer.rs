//! Integers, logic, bits and bytes.
//!
//! Source: the PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic
//! Instructions" and "Logic and Shift Instructions".

use super::super::op::{BitCount, IntOp, IntUnary, Op, Prmt, Reg, Width};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};

const INTEGERS: &str = "u16 u32 u64 s16 s32 s64";

impl<'a> Lowering<'a, '_> {
    pub(super) fn integer_arithmetic(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        match form.opcode {
            "mul" | "mad" | "mul24" | "mad24" => return self.multiply(form),
            "abs" | "neg" => {
                self.expect(form, 2)?;
                let kind = self.kind_of(form, "s16 s32 s64")?;
                let op = if form.opcode == "abs" { IntUnary::Abs } else { IntUnary::Neg };
                let (d, a) =
                    (self.destination(&form.operands[0], kind)?, self.source(&form.operands[1], kind)?);
                self.emit(Op::IntUnary(op, width(kind)), [d, a, 0, 0], 0);
                return Ok(());
            }
            _ => {}
        }
        let is_saturated = matches!(form.opcode, "add" | "sub") && form.takes("sat");
        let sets_carry = matches!(form.opcode, "add" | "sub") && !is_saturated && form.takes("cc");
        let kind = self.kind_of(form, if is_saturated { "s32" } else { INTEGERS })?;
        let signed = kind.is_signed();
        let by_sign = |s, u| if signed { s } else { u };
        let op = match form.opcode {
            "add" => {
                if is_saturated {
                    IntOp::AddSat
                } else {
                    IntOp::Add
                }
            }
            "sub" => {
                if is_saturated {
                    IntOp::SubSat
                } else {
                    IntOp::Sub
                }
            }
            "div" => by_sign(IntOp::DivS, IntOp::DivU),
            "rem" => by_sign(IntOp::RemS, IntOp::RemU),
            "min" => by_sign(IntOp::MinS, IntOp::MinU),
            "max" => by_sign(IntOp::MaxS, IntOp::MaxU),
            _ => by_sign(IntOp::AbsDiffS, IntOp::AbsDiffU),
        };
        self.expect(form, if form.opcode == "sad" { 4 } else { 3 })?;
        let d = self.destination(&form.operands[0], kind)?;
        let (a, b) = (self.source(&form.operands[1], kind)?, self.source(&form.operands[2], kind)?);
        if form.opcode == "sad" {
            let (t, c) = (self.temporary(kind.bank())?, self.source(&form.operands[3], kind)?);
            self.emit(Op::Int(op, width(kind)), [t, a, b, 0], 0);
            self.emit(Op::Int(IntOp::Add, width(kind)), [d, t, c, 0], 0);
        } else if sets_carry {
            if kind.bits() == 16 {
                return Err(self.unsupported("a carry of 32 or 64 bits", "16 bits"));
            }
            let never = self.constant(Bank::Short, 0)?;
            self.sum_with_carry(form.opcode == "sub", kind, [d, a, b], never, true)?;
        } else {
            self.emit(Op::Int(op, width(kind)), [d, a, b, 0], 0);
        }
        Ok(())
    }

    fn multiply(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        #[derive(Clone, Copy, PartialEq)]
        enum Part {
            Low,
            High,
            Wide,
        }
        let is_24 = form.opcode.ends_with("24");
        let words = if is_24 { "lo hi" } else { "lo hi wide" };
        let part = self.choice(form, words, &[Part::Low, Part::High, Part::Wide])?;
        let is_sum = form.opcode.starts_with("mad");
        let is_saturated = is_sum && part == Part::High && form.takes("sat");
        let sets_carry = is_sum && !is_24 && part != Part::Wide && !is_saturated && form.takes("cc");
        let kind = match (is_24 || is_saturated, part) {
            (true, _) => self.kind_of(form, "s32 u32")?,
            (_, Part::Wide) => self.kind_of(form, "u16 s16 u32 s32")?,
            _ => self.kind_of(form, "u16 u32 u64 s16 s32 s64")?,
        };
        self.expect(form, if is_sum { 4 } else { 3 })?;
        let signed = kind.is_signed();
        let result = match (part, kind) {
            (Part::Wide, Type::U16) => Type::U32,
            (Part::Wide, Type::S16) => Type::S32,
            (Part::Wide, Type::U32) => Type::U64,
            (Part::Wide, Type::S32) => Type::S64,
            _ => kind,
        };
        let op = match part {
            _ if is_24 => Op::Mul24 { signed, high: part == Part::High },
            Part::Wide => Op::MulWide { signed, width: width(kind) },
            Part::Low => Op::Int(IntOp::Mul, width(kind)),
            Part::High => Op::Int(if signed { IntOp::MulHiS } else { IntOp::MulHiU }, width(kind)),
        };
        let d = self.destination(&form.operands[0], result)?;
        let (a, b) = (self.source(&form.operands[1], kind)?, self.source(&form.operands[2], kind)?);
        if !is_sum {
            self.emit(op, [d, a, b, 0], 0);
            return Ok(());
        }
        let c = self.source(&form.operands[3], result)?;
        let product = self.temporary(result.bank())?;
        self.emit(op, [product, a, b, 0], 0);
        if sets_carry {
            let never = self.constant(Bank::Short, 0)?;
            return self.sum_with_carry(false, result, [d, product, c], never, true);
        }
        let sum = if is_saturated && signed { IntOp::AddSat } else { IntOp::Add };
        self.emit(Op::Int(sum, width(result)), [d, product, c, 0], 0);
        Ok(())
    }

    /// `addc`, `subc` and `madc`.
    pub(super) fn with_carry(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let is_product = form.opcode == "madc";
        let high = match is_product {
            true => Some(self.choice(form, "lo hi", &[false, true])?),
            false => None,
        };
        let sets_carry = form.takes("cc");
        let kind = self.kind_of(form, "u32 s32 u64 s64")?;
        self.expect(form, if is_product { 4 } else { 3 })?;
        let d = self.destination(&form.operands[0], kind)?;
        let (mut a, mut b) = (self.source(&form.operands[1], kind)?, self.source(&form.operands[2], kind)?);
        if let Some(high) = high {
            let product = self.temporary(kind.bank())?;
            let op = match (high, kind.is_signed()) {
                (false, _) => IntOp::Mul,
                (true, true) => IntOp::MulHiS,
                (true, false) => IntOp::MulHiU,
            };
            self.emit(Op::Int(op, width(kind)), [product, a, b, 0], 0);
            (a, b) = (product, self.source(&form.operands[3], kind)?);
        }
        let carry = self.carry()?;
        self.sum_with_carry(form.opcode == "subc", kind, [d, a, b], carry, sets_carry)
    }

    /// The register that holds the carry of all instructions.
    fn carry(&mut self) -> Lowered<Reg> {
        // Named like no register can be.
        const CARRY: &str = " carry";
        if let Some((reg, _)) = self.scopes[0].used.get(CARRY) {
            return Ok(*reg);
        }
        let reg = self.new_register(Bank::Short)?;
        self.scopes[0].used.insert(CARRY, (reg, Type::Pred));
        Ok(reg)
    }

    fn sum_with_carry(
        &mut self,
        borrow: bool,
        kind: Type,
        [d, a, b]: [Reg; 3],
        carry: Reg,
        sets_carry: bool,
    ) -> Lowered<()> {
        let width = width(kind);
        let (op, t) = (if borrow { IntOp::Sub } else { IntOp::Add }, self.temporary(kind.bank())?);
        let next = self.temporary(Bank::Short)?;
        self.emit(Op::Carry { borrow, width }, [next, a, b, carry], 0);
        self.emit(Op::Int(op, width), [t, a, b, 0], 0);
        // A predicate that is true is -1.
        let minus = match width {
            Width::W64 => {
                let long = self.temporary(Bank::Long)?;
                self.emit(Op::ExtendSigned, [long, carry, 0, 0], 0);
                long
            }
            _ => carry,
        };
        let op = if borrow { IntOp::Add } else { IntOp::Sub };
        self.emit(Op::Int(op, width), [d, t, minus, 0], 0);
        if sets_carry {
            let all = self.carry()?;
            self.emit(Op::Mov, [all, next, 0, 0], 0);
        }
        Ok(())
    }

    pub(super) fn logic(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let is_shift = matches!(form.opcode, "shl" | "shr");
        let kind = match form.opcode {
            "shr" => self.kind_of(form, &format!("b16 b32 b64 {INTEGERS}"))?,
            "shl" | "cnot" => self.kind_of(form, "b16 b32 b64")?,
            _ => self.kind_of(form, "b16 b32 b64 pred")?,
        };
        let is_unary = matches!(form.opcode, "not" | "cnot");
        self.expect(form, if is_unary { 2 } else { 3 })?;
        let (d, a) = (self.destination(&form.operands[0], kind)?, self.source(&form.operands[1], kind)?);
        let width = if kind == Type::Pred { Width::W32 } else { width(kind) };
        if is_unary {
            let op = if form.opcode == "not" { IntUnary::Not } else { IntUnary::Cnot };
            self.emit(Op::IntUnary(op, width), [d, a, 0, 0], 0);
            return Ok(());
        }
        let b = self.source(&form.operands[2], if is_shift { Type::U32 } else { kind })?;
        let op = match form.opcode {
            "and" => IntOp::And,
            "or" => IntOp::Or,
            "xor" => IntOp::Xor,
            "shl" => IntOp::Shl,
            _ if kind.is_signed() => IntOp::ShrS,
            _ => IntOp::ShrU,
        };
        self.emit(Op::Int(op, width), [d, a, b, 0], 0);
        Ok(())
    }

    pub(super) fn bits(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let shift = form.opcode == "bfind" && form.takes("shiftamt");
        let clamp = form.opcode == "bmsk" && !self.choice(form, "wrap clamp", &[true, false])?;
        let kind = match form.opcode {
            "bfe" | "bfind" => self.kind_of(form, "u32 s32 u64 s64")?,
            "bmsk" | "fns" => self.kind_of(form, "b32")?,
            _ => self.kind_of(form, "b32 b64")?,
        };
        let (long, signed) = (kind.bits() == 64, kind.is_signed());
        let count = match form.opcode {
            "popc" | "clz" | "bfind" | "brev" => 2,
            "bmsk" => 3,
            "bfe" | "fns" => 4,
            _ => 5,
        };
        self.expect(form, count)?;
        let counts = matches!(form.opcode, "popc" | "clz" | "bfind");
        let d = self.destination(&form.operands[0], if counts { Type::U32 } else { kind })?;
        let a = self.source(&form.operands[1], kind)?;
        let op = match form.opcode {
            "popc" => Op::BitCount(BitCount::Popc, width(kind)),
            "clz" => Op::BitCount(BitCount::Clz, width(kind)),
            "bfind" if signed => Op::BitCount(BitCount::FindS { shift }, width(kind)),
            "bfind" => Op::BitCount(BitCount::FindU { shift }, width(kind)),
            "brev" => Op::IntUnary(IntUnary::Brev, width(kind)),
            "bmsk" => Op::Bmsk { clamp },
            "fns" => Op::Fns,
            "bfe" => Op::Bfe { signed, long },
            _ => {
                let b = self.source(&form.operands[2], kind)?;
                let (c, length) =
                    (self.source(&form.operands[3], Type::U32)?, self.source(&form.operands[4], Type::U32)?);
                let list = self.list(&[length]);
                self.emit(Op::Bfi { long }, [d, a, b, c], list);
                return Ok(());
            }
        };
        let b = if count > 2 { self.source(&form.operands[2], Type::U32)? } else { 0 };
        let c_kind = if form.opcode == "fns" { Type::S32 } else { Type::U32 };
        let c = if count > 3 { self.source(&form.operands[3], c_kind)? } else { 0 };
        self.emit(op, [d, a, b, c], 0);
        Ok(())
    }

    pub(super) fn bytes(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        match form.opcode {
            "shf" => {
                let left = self.choice(form, "l r", &[true, false])?;
                let wrap = self.choice(form, "wrap clamp", &[true, false])?;
                self.kind_of(form, "b32")?;
                self.ternary(Op::Shf { left, wrap }, form, [Type::B32, Type::B32, Type::B32, Type::U32], 4)
            }
            "prmt" => {
                self.kind_of(form, "b32")?;
                let mode = form.one_of(
                    "f4e b4e rc8 ecl ecr rc16",
                    &[Prmt::F4e, Prmt::B4e, Prmt::Rc8, Prmt::Ecl, Prmt::Ecr, Prmt::Rc16],
                );
                self.ternary(Op::Prmt(mode.unwrap_or(Prmt::Bytes)), form, [Type::B32; 4], 4)
            }
            "lop3" => {
                self.kind_of(form, "b32")?;
                self.ternary(Op::Lop3, form, [Type::B32; 4], 5)
            }
            _ => {
                let high = match form.opcode {
                    "dp2a" => self.choice(form, "lo hi", &[false, true])?,
                    _ => false,
                };
                let a = self.kind_of(form, "u32 s32")?;
                let b = self.kind_of(form, "u32 s32")?;
                let both = if a.is_signed() || b.is_signed() { Type::S32 } else { Type::U32 };
                let (is_a, is_b) = (a.is_signed(), b.is_signed());
                let op = match form.opcode {
                    "dp4a" => Op::Dp4a { a: is_a, b: is_b },
                    _ => Op::Dp2a { a: is_a, b: is_b, high },
                };
                self.ternary(op, form, [both, a, b, both], 4)
            }
        }
    }

    /// An instruction with three sources in registers, and with a constant if it has five form.operands.
    fn ternary(&mut self, op: Op, form: &Form<'a, '_>, kinds: [Type; 4], count: usize) -> Lowered<()> {
        self.expect(form, count)?;
        let d = self.destination(&form.operands[0], kinds[0])?;
        let mut sources = [0; 3];
        for (index, source) in sources.iter_mut().enumerate() {
            *source = self.source(&form.operands[index + 1], kinds[index + 1])?;
        }
        let imm = if count == 5 { self.integer(&form.operands[4], 256)? } else { 0 };
        let [a, b, c] = sources;
        self.emit(op, [d, a, b, c], imm);
        Ok(())
    }
}

pub(super) fn width(kind: Type) -> Width {
    match kind.bits() {
        64 => Width::W64,
        32 => Width::W32,
        _ => Width::W16,
    }
}
