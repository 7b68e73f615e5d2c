//! Integers, logic, bits and bytes.
//!
//! Source: the PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic
//! Instructions" and "Logic and Shift Instructions".

use super::super::ast::Operand;
use super::super::op::{BitCount, IntOp, IntUnary, Op, Prmt, Reg, Width};
use super::super::types::{Bank, Type};
use super::modifiers::Modifiers;
use super::{Lowered, Lowering};

impl<'a> Lowering<'a, '_> {
    pub(super) fn integer_arithmetic(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        match opcode {
            "mul" | "mad" | "mul24" | "mad24" => return self.multiply(opcode, parts, operands),
            "abs" | "neg" => {
                self.expect(operands, 2)?;
                let kind = self.kind_of(parts, &[Type::S16, Type::S32, Type::S64])?;
                let op = if opcode == "abs" { IntUnary::Abs } else { IntUnary::Neg };
                let (d, a) = (self.destination(&operands[0], kind)?, self.source(&operands[1], kind)?);
                self.emit(Op::IntUnary(op, width(kind)), [d, a, 0, 0], 0);
                return Ok(());
            }
            _ => {}
        }
        let is_saturated = matches!(opcode, "add" | "sub") && parts.takes("sat");
        let sets_carry = matches!(opcode, "add" | "sub") && !is_saturated && parts.takes("cc");
        let all = [Type::U16, Type::U32, Type::U64, Type::S16, Type::S32, Type::S64];
        let kind = match is_saturated {
            true => self.kind_of(parts, &[Type::S32])?,
            false => self.kind_of(parts, &all)?,
        };
        let signed = kind.is_signed();
        let by_sign = |s, u| if signed { s } else { u };
        let op = match opcode {
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
        self.expect(operands, if opcode == "sad" { 4 } else { 3 })?;
        let d = self.destination(&operands[0], kind)?;
        let (a, b) = (self.source(&operands[1], kind)?, self.source(&operands[2], kind)?);
        if opcode == "sad" {
            let (t, c) = (self.temporary(kind.bank())?, self.source(&operands[3], kind)?);
            self.emit(Op::Int(op, width(kind)), [t, a, b, 0], 0);
            self.emit(Op::Int(IntOp::Add, width(kind)), [d, t, c, 0], 0);
        } else if sets_carry {
            if kind.bits() == 16 {
                return Err(self.unsupported("a carry of 32 or 64 bits", "16 bits"));
            }
            let never = self.constant(Bank::Short, 0)?;
            self.sum_with_carry(opcode == "sub", kind, [d, a, b], never, true)?;
        } else {
            self.emit(Op::Int(op, width(kind)), [d, a, b, 0], 0);
        }
        Ok(())
    }

    /// A type at the end of the name, of those that an instruction allows.
    pub(super) fn kind_of(&self, parts: &mut Modifiers<'a>, allowed: &[Type]) -> Lowered<Type> {
        let left = parts.left();
        match parts.kind() {
            Some(kind) if allowed.contains(&kind) => Ok(kind),
            _ => {
                let found = left.map_or("none".to_owned(), |it| format!("'.{it}'"));
                Err(self.unsupported("a type of this instruction", found))
            }
        }
    }

    fn multiply(&mut self, opcode: &str, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        #[derive(Clone, Copy, PartialEq)]
        enum Part {
            Low,
            High,
            Wide,
        }
        let is_24 = opcode.ends_with("24");
        let table = [("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];
        let part = parts.one_of(&table[..if is_24 { 2 } else { 3 }]);
        let part = self.part(part, parts, ".lo, .hi or .wide")?;
        let is_sum = opcode.starts_with("mad");
        let is_saturated = is_sum && part == Part::High && parts.takes("sat");
        let sets_carry = is_sum && !is_24 && part != Part::Wide && !is_saturated && parts.takes("cc");
        let kind = match (is_24 || is_saturated, part) {
            (true, _) => self.kind_of(parts, &[Type::S32, Type::U32])?,
            (_, Part::Wide) => self.kind_of(parts, &[Type::U16, Type::S16, Type::U32, Type::S32])?,
            _ => self.kind_of(parts, &[Type::U16, Type::U32, Type::U64, Type::S16, Type::S32, Type::S64])?,
        };
        self.expect(operands, if is_sum { 4 } else { 3 })?;
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
        let d = self.destination(&operands[0], result)?;
        let (a, b) = (self.source(&operands[1], kind)?, self.source(&operands[2], kind)?);
        if !is_sum {
            self.emit(op, [d, a, b, 0], 0);
            return Ok(());
        }
        let c = self.source(&operands[3], result)?;
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
    pub(super) fn with_carry(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        let is_product = opcode == "madc";
        let high = match is_product {
            true => Some(self.part(parts.one_of(&[("lo", false), ("hi", true)]), parts, ".lo or .hi")?),
            false => None,
        };
        let sets_carry = parts.takes("cc");
        let kind = self.kind_of(parts, &[Type::U32, Type::S32, Type::U64, Type::S64])?;
        self.expect(operands, if is_product { 4 } else { 3 })?;
        let d = self.destination(&operands[0], kind)?;
        let (mut a, mut b) = (self.source(&operands[1], kind)?, self.source(&operands[2], kind)?);
        if let Some(high) = high {
            let product = self.temporary(kind.bank())?;
            let op = match (high, kind.is_signed()) {
                (false, _) => IntOp::Mul,
                (true, true) => IntOp::MulHiS,
                (true, false) => IntOp::MulHiU,
            };
            self.emit(Op::Int(op, width(kind)), [product, a, b, 0], 0);
            (a, b) = (product, self.source(&operands[3], kind)?);
        }
        let carry = self.carry()?;
        self.sum_with_carry(opcode == "subc", kind, [d, a, b], carry, sets_carry)
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

    pub(super) fn logic(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        let is_shift = matches!(opcode, "shl" | "shr");
        let bits = [Type::B16, Type::B32, Type::B64];
        let kind = match opcode {
            "shr" => {
                let all = [Type::U16, Type::U32, Type::U64, Type::S16, Type::S32, Type::S64];
                self.kind_of(parts, &[&bits[..], &all[..]].concat())?
            }
            "shl" | "cnot" => self.kind_of(parts, &bits)?,
            _ => self.kind_of(parts, &[&bits[..], &[Type::Pred]].concat())?,
        };
        let is_unary = matches!(opcode, "not" | "cnot");
        self.expect(operands, if is_unary { 2 } else { 3 })?;
        let (d, a) = (self.destination(&operands[0], kind)?, self.source(&operands[1], kind)?);
        let width = if kind == Type::Pred { Width::W32 } else { width(kind) };
        if is_unary {
            let op = if opcode == "not" { IntUnary::Not } else { IntUnary::Cnot };
            self.emit(Op::IntUnary(op, width), [d, a, 0, 0], 0);
            return Ok(());
        }
        let b = self.source(&operands[2], if is_shift { Type::U32 } else { kind })?;
        let op = match opcode {
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

    pub(super) fn bits(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        let shift = opcode == "bfind" && parts.takes("shiftamt");
        let clamp = opcode == "bmsk"
            && !self.part(parts.one_of(&[("wrap", true), ("clamp", false)]), parts, ".wrap or .clamp")?;
        let numbers = [Type::U32, Type::S32, Type::U64, Type::S64];
        let kind = match opcode {
            "bfe" | "bfind" => self.kind_of(parts, &numbers)?,
            "bmsk" | "fns" => self.kind_of(parts, &[Type::B32])?,
            _ => self.kind_of(parts, &[Type::B32, Type::B64])?,
        };
        let (long, signed) = (kind.bits() == 64, kind.is_signed());
        let count = match opcode {
            "popc" | "clz" | "bfind" | "brev" => 2,
            "bmsk" => 3,
            "bfe" | "fns" => 4,
            _ => 5,
        };
        self.expect(operands, count)?;
        let counts = matches!(opcode, "popc" | "clz" | "bfind");
        let d = self.destination(&operands[0], if counts { Type::U32 } else { kind })?;
        let a = self.source(&operands[1], kind)?;
        let op = match opcode {
            "popc" => Op::BitCount(BitCount::Popc, width(kind)),
            "clz" => Op::BitCount(BitCount::Clz, width(kind)),
            "bfind" if signed => Op::BitCount(BitCount::FindS { shift }, width(kind)),
            "bfind" => Op::BitCount(BitCount::FindU { shift }, width(kind)),
            "brev" => Op::IntUnary(IntUnary::Brev, width(kind)),
            "bmsk" => Op::Bmsk { clamp },
            "fns" => Op::Fns,
            "bfe" => Op::Bfe { signed, long },
            _ => {
                let b = self.source(&operands[2], kind)?;
                let (c, length) =
                    (self.source(&operands[3], Type::U32)?, self.source(&operands[4], Type::U32)?);
                let list = self.list(&[length]);
                self.emit(Op::Bfi { long }, [d, a, b, c], list);
                return Ok(());
            }
        };
        let b = if count > 2 { self.source(&operands[2], Type::U32)? } else { 0 };
        let c_kind = if opcode == "fns" { Type::S32 } else { Type::U32 };
        let c = if count > 3 { self.source(&operands[3], c_kind)? } else { 0 };
        self.emit(op, [d, a, b, c], 0);
        Ok(())
    }

    pub(super) fn bytes(
        &mut self,
        opcode: &str,
        parts: &mut Modifiers<'a>,
        operands: &[Operand<'a>],
    ) -> Lowered<()> {
        match opcode {
            "shf" => {
                let left = self.part(parts.one_of(&[("l", true), ("r", false)]), parts, ".l or .r")?;
                let wrap =
                    self.part(parts.one_of(&[("wrap", true), ("clamp", false)]), parts, ".wrap or .clamp")?;
                self.kind_of(parts, &[Type::B32])?;
                self.ternary(
                    Op::Shf { left, wrap },
                    operands,
                    [Type::B32, Type::B32, Type::B32, Type::U32],
                    4,
                )
            }
            "prmt" => {
                self.kind_of(parts, &[Type::B32])?;
                let mode = parts.one_of(&[
                    ("f4e", Prmt::F4e),
                    ("b4e", Prmt::B4e),
                    ("rc8", Prmt::Rc8),
                    ("ecl", Prmt::Ecl),
                    ("ecr", Prmt::Ecr),
                    ("rc16", Prmt::Rc16),
                ]);
                self.ternary(Op::Prmt(mode.unwrap_or(Prmt::Bytes)), operands, [Type::B32; 4], 4)
            }
            "lop3" => {
                self.kind_of(parts, &[Type::B32])?;
                self.ternary(Op::Lop3, operands, [Type::B32; 4], 5)
            }
            _ => {
                let high = match opcode {
                    "dp2a" => self.part(parts.one_of(&[("lo", false), ("hi", true)]), parts, ".lo or .hi")?,
                    _ => false,
                };
                let a = self.kind_of(parts, &[Type::U32, Type::S32])?;
                let b = self.kind_of(parts, &[Type::U32, Type::S32])?;
                let both = if a.is_signed() || b.is_signed() { Type::S32 } else { Type::U32 };
                let (is_a, is_b) = (a.is_signed(), b.is_signed());
                let op = match opcode {
                    "dp4a" => Op::Dp4a { a: is_a, b: is_b },
                    _ => Op::Dp2a { a: is_a, b: is_b, high },
                };
                self.ternary(op, operands, [both, a, b, both], 4)
            }
        }
    }

    /// An instruction with three sources in registers, and with a constant if it has five operands.
    fn ternary(&mut self, op: Op, operands: &[Operand<'a>], kinds: [Type; 4], count: usize) -> Lowered<()> {
        self.expect(operands, count)?;
        let d = self.destination(&operands[0], kinds[0])?;
        let mut sources = [0; 3];
        for (index, source) in sources.iter_mut().enumerate() {
            *source = self.source(&operands[index + 1], kinds[index + 1])?;
        }
        let imm = if count == 5 { self.integer(&operands[4], 256)? } else { 0 };
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
