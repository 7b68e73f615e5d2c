//! Integers, logic, bits and bytes.
//!
//! Source: the PTX ISA, "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic
//! Instructions" and "Logic and Shift Instructions".

use super::super::op::{BitCount, IntOp, IntUnary, Op, Prmt, Reg, Width};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};
use crate::words::Word;

const INTEGERS: &str = "u16 u32 u64 s16 s32 s64";

impl<'a> Lowering<'a, '_> {
    /// The operation of two integers that words name, with the sign of a type if it matters.
    pub(super) fn int_op(&self, words: &str, kind: Type) -> Lowered<IntOp> {
        let signed = if kind.is_signed() { ".s" } else { ".u" };
        let op = IntOp::named(words).or_else(|| IntOp::named(&format!("{words}{signed}")));
        op.ok_or_else(|| self.unsupported("a known operation of integers", format!("'{words}'")))
    }

    pub(super) fn integer_arithmetic(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        match form.opcode {
            "mul" | "mad" | "mul24" | "mad24" => return self.multiply(form),
            "abs" | "neg" => return self.unary(form, "s16 s32 s64"),
            _ => {}
        }
        let is_sum = matches!(form.opcode, "add" | "sub");
        let is_saturated = is_sum && form.takes("sat");
        let sets_carry = is_sum && !is_saturated && form.takes("cc");
        let kind = self.kind_of(form, if is_saturated { "s32" } else { INTEGERS })?;
        let words = format!("{}{}", form.opcode, if is_saturated { ".sat" } else { "" });
        let op = Op::Int(self.int_op(&words, kind)?, width(kind));
        if form.opcode == "sad" {
            let [d, a, b, c] = self.registers(form, [kind; 4])?;
            let t = self.temporary(kind.bank())?;
            self.emit(op, [t, a, b], 0)?;
            return self.emit(Op::Int(IntOp::Add, width(kind)), [d, t, c], 0);
        }
        let registers = self.registers(form, [kind; 3])?;
        if sets_carry && kind.bits() == 16 {
            return Err(self.unsupported("a carry of 32 or 64 bits", "16 bits"));
        } else if sets_carry {
            let never = self.constant(Bank::Short, 0)?;
            return self.sum_with_carry(form.opcode == "sub", kind, registers, never, true);
        }
        self.emit(op, registers, 0)
    }

    fn unary(&mut self, form: &mut Form<'a, '_>, kinds: &str) -> Lowered<()> {
        let kind = self.kind_of(form, kinds)?;
        let op = IntUnary::named(form.opcode).unwrap_or(IntUnary::Not);
        self.plain(form, Op::IntUnary(op, width(kind)), [kind; 2])
    }

    fn multiply(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let is_24 = form.opcode.ends_with("24");
        let part = self.want(form, if is_24 { "lo hi" } else { "lo hi wide" })?;
        let (is_high, is_wide) = (part == 1, part == 2);
        let is_sum = form.opcode.starts_with("mad");
        let is_saturated = is_sum && is_high && form.takes("sat");
        let sets_carry = is_sum && !is_24 && !is_wide && !is_saturated && form.takes("cc");
        let kinds = match is_wide {
            _ if is_24 || is_saturated => "s32 u32",
            true => "u16 s16 u32 s32",
            false => INTEGERS,
        };
        let kind = self.kind_of(form, kinds)?;
        let signed = kind.is_signed();
        let result = match kind {
            Type::U16 if is_wide => Type::U32,
            Type::S16 if is_wide => Type::S32,
            Type::U32 if is_wide => Type::U64,
            Type::S32 if is_wide => Type::S64,
            _ => kind,
        };
        let op = match is_wide {
            _ if is_24 => Op::Mul24 { signed, high: is_high },
            true => Op::MulWide { signed, width: width(kind) },
            false => Op::Int(self.int_op(if is_high { "mul.hi" } else { "mul.lo" }, kind)?, width(kind)),
        };
        if !is_sum {
            return self.plain(form, op, [result, kind, kind]);
        }
        let [d, a, b, c] = self.registers(form, [result, kind, kind, result])?;
        let product = self.temporary(result.bank())?;
        self.emit(op, [product, a, b], 0)?;
        if sets_carry {
            let never = self.constant(Bank::Short, 0)?;
            return self.sum_with_carry(false, result, [d, product, c], never, true);
        }
        let sum = if is_saturated && signed { IntOp::AddSat } else { IntOp::Add };
        self.emit(Op::Int(sum, width(result)), [d, product, c], 0)
    }

    /// `addc`, `subc` and `madc`.
    pub(super) fn with_carry(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let is_product = form.opcode == "madc";
        let is_high = is_product && self.want(form, "lo hi")? == 1;
        let sets_carry = form.takes("cc");
        let kind = self.kind_of(form, "u32 s32 u64 s64")?;
        let [d, a, b] = if is_product {
            let [d, a, b, c] = self.registers(form, [kind; 4])?;
            let product = self.temporary(kind.bank())?;
            let op = self.int_op(if is_high { "mul.hi" } else { "mul.lo" }, kind)?;
            self.emit(Op::Int(op, width(kind)), [product, a, b], 0)?;
            [d, product, c]
        } else {
            self.registers(form, [kind; 3])?
        };
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
        // A predicate that is true is -1.
        let (op, inverse) = if borrow { (IntOp::Sub, IntOp::Add) } else { (IntOp::Add, IntOp::Sub) };
        let (t, next) = (self.temporary(kind.bank())?, self.temporary(Bank::Short)?);
        self.emit(Op::Carry { borrow, width }, [next, a, b, carry], 0)?;
        self.emit(Op::Int(op, width), [t, a, b], 0)?;
        let mut minus = carry;
        if width == Width::W64 {
            minus = self.temporary(Bank::Long)?;
            self.emit(Op::ExtendSigned, [minus, carry], 0)?;
        }
        self.emit(Op::Int(inverse, width), [d, t, minus], 0)?;
        if sets_carry {
            let all = self.carry()?;
            self.emit(Op::Mov, [all, next], 0)?;
        }
        Ok(())
    }

    pub(super) fn logic(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let kinds = match form.opcode {
            "not" => return self.unary(form, "b16 b32 b64 pred"),
            "cnot" => return self.unary(form, "b16 b32 b64"),
            "shr" => "b16 b32 b64 u16 u32 u64 s16 s32 s64",
            "shl" => "b16 b32 b64",
            _ => "b16 b32 b64 pred",
        };
        let kind = self.kind_of(form, kinds)?;
        let op = Op::Int(self.int_op(form.opcode, kind)?, width(kind));
        let is_shift = matches!(form.opcode, "shl" | "shr");
        self.plain(form, op, [kind, kind, if is_shift { Type::U32 } else { kind }])
    }

    pub(super) fn bits(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let shift = form.opcode == "bfind" && form.takes("shiftamt");
        let clamp = form.opcode == "bmsk" && self.want(form, "wrap clamp")? == 1;
        let kind = match form.opcode {
            "brev" => return self.unary(form, "b32 b64"),
            "bfe" | "bfind" => self.kind_of(form, "u32 s32 u64 s64")?,
            "bmsk" | "fns" => self.kind_of(form, "b32")?,
            _ => self.kind_of(form, "b32 b64")?,
        };
        let (long, signed) = (kind.bits() == 64, kind.is_signed());
        let count = match form.opcode {
            "popc" => BitCount::Popc,
            "clz" => BitCount::Clz,
            "bfind" => BitCount::Find { signed, shift },
            "bmsk" => return self.plain(form, Op::Bmsk { clamp }, [kind, kind, Type::U32]),
            "fns" => return self.plain(form, Op::Fns, [kind, kind, Type::U32, Type::S32]),
            "bfe" => return self.plain(form, Op::Bfe { signed, long }, [kind, kind, Type::U32, Type::U32]),
            _ => {
                let [d, a, b, c, length] = self.registers(form, [kind, kind, kind, Type::U32, Type::U32])?;
                let list = self.list(&[length]);
                return self.emit(Op::Bfi { long }, [d, a, b, c], list);
            }
        };
        self.plain(form, Op::BitCount(count, width(kind)), [Type::U32, kind])
    }

    pub(super) fn bytes(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        const WORDS: [Type; 4] = [Type::B32; 4];
        match form.opcode {
            "shf" => {
                let left = self.want(form, "l r")? == 0;
                let wrap = self.want(form, "wrap clamp")? == 0;
                self.kind_of(form, "b32")?;
                self.plain(form, Op::Shf { left, wrap }, [Type::B32, Type::B32, Type::B32, Type::U32])
            }
            "prmt" => {
                self.kind_of(form, "b32")?;
                let mode = form.word().unwrap_or(Prmt::Bytes);
                self.plain(form, Op::Prmt(mode), WORDS)
            }
            "lop3" => {
                self.kind_of(form, "b32")?;
                self.expect(form, 5)?;
                let table = self.integer(&form.operands[4], 256)?;
                form.operands = &form.operands[..4];
                let registers = self.registers(form, WORDS)?;
                self.emit(Op::Lop3, registers, table)
            }
            _ => {
                let high = form.opcode == "dp2a" && self.want(form, "lo hi")? == 1;
                let kinds = [self.kind_of(form, "u32 s32")?, self.kind_of(form, "u32 s32")?];
                let [a, b] = kinds.map(Type::is_signed);
                let both = if a || b { Type::S32 } else { Type::U32 };
                let op = if form.opcode == "dp4a" { Op::Dp4a { a, b } } else { Op::Dp2a { a, b, high } };
                self.plain(form, op, [both, kinds[0], kinds[1], both])
            }
        }
    }
}

pub(super) fn width(kind: Type) -> Width {
    match kind.bits() {
        64 => Width::W64,
        16 => Width::W16,
        _ => Width::W32,
    }
}
