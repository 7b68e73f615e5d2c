//! Moves and conversions.
//!
//! Source: the PTX ISA, "Data Movement and Conversion Instructions".

use super::super::ast::Operand;
use super::super::op::{Convert, Op, Reg};
use super::super::types::{Bank, Type};
use super::form::Form;
use super::lowering::{Lowered, Lowering};
use super::memory::{SPACES, is_in, place};
use super::operands::Match;
use crate::numbers::Rounding;

impl<'a> Lowering<'a, '_> {
    pub(super) fn mov(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let kind = self.kind_of(form, "pred b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64")?;
        self.expect(form, 2)?;
        match (&form.operands[0], &form.operands[1]) {
            (target, Operand::Vector(elements)) => {
                let (bits, count, list) = self.elements(kind, elements, false)?;
                let d = self.destination(target, kind)?;
                return self.emit(Op::Pack { bits, count }, [d], list);
            }
            (Operand::Vector(elements), source) => {
                let a = self.source(source, kind)?;
                let (bits, count, list) = self.elements(kind, elements, true)?;
                return self.emit(Op::Unpack { bits, count }, [0, a], list);
            }
            _ => {}
        }
        let d = self.destination(&form.operands[0], kind)?;
        let mov = if kind.bank() == Bank::Long { Op::MovLong } else { Op::Mov };
        if let Operand::Name(name) = form.operands[1]
            && self.register(name)?.is_none()
        {
            match (name, kind.bits()) {
                ("%clock" | "%globaltimer_lo", 32) => return self.emit(Op::Clock, [d], 0),
                ("%clock64" | "%globaltimer", 64) => return self.emit(Op::ClockLong, [d], 0),
                _ => {}
            }
            let named = self.named(name)?.filter(|_| kind.bits() >= 32 && !kind.is_float());
            let a = match (named, fixed(name).filter(|_| kind.bits() >= 32)) {
                (Some(named), _) => self.address_of(named, kind.bank())?,
                (None, Some(value)) => self.constant(kind.bank(), value)?,
                (None, None) => self.source(&form.operands[1], kind)?,
            };
            return self.emit(mov, [d, a], 0);
        }
        let a = self.source(&form.operands[1], kind)?;
        self.emit(mov, [d, a], 0)
    }

    /// The bits and the number of the elements of a value, and the list of their registers. Elements that are
    /// not wanted have a register that nothing reads.
    fn elements(
        &mut self,
        kind: Type,
        elements: &[Operand<'a>],
        are_written: bool,
    ) -> Lowered<(u8, u8, i64)> {
        let element = match (kind.bits(), elements.len()) {
            (32, 2) | (64, 4) => Type::B16,
            (64, 2) => Type::B32,
            _ => {
                return Err(self.unsupported("2 elements of 16 bits, or 2 or 4 of 64 bits", "other elements"));
            }
        };
        if !kind.is_bits() {
            return Err(self.corrupt("a type of bits", format!("{kind:?}")));
        }
        let registers = self.all(elements, element, are_written)?;
        Ok((element.bits() as u8, elements.len() as u8, self.list(&registers)))
    }

    pub(super) fn cvt(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        const MODES: [Rounding; 4] = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up];
        let to_integer = form.one_of("rni rzi rmi rpi").map(|it| MODES[it]);
        let ties_away = to_integer.is_none() && form.takes("rna");
        let rounding = if to_integer.is_none() && !ties_away { form.word() } else { None };
        let relu = rounding.is_some() && form.takes("relu");
        let (ftz, sat) = (form.takes("ftz"), form.takes("sat"));
        let from_kinds = "u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64";
        let to = self.kind_of(form, &format!("{from_kinds} tf32 f16x2 bf16x2"))?;
        let from = self.kind_of(form, from_kinds)?;
        let integer = to_integer.is_some();
        let mode = to_integer.or(rounding).unwrap_or(Rounding::Nearest);
        let convert = Convert { from, to, rounding: mode, integer, ftz, sat, relu, ties_away };
        if !is_valid(&convert, rounding.is_some()) {
            let expected = "a rounding mode that the types need, and no other";
            return Err(self.corrupt(expected, "another conversion"));
        }
        if matches!(to, Type::F16x2 | Type::Bf16x2) {
            return self.convert_two(convert, form);
        }
        self.expect(form, 2)?;
        let how = |kind: Type| if kind.is_float() { Match::Exact } else { Match::Wider };
        let (a, given) = self.origin(&form.operands[1], from, how(from))?;
        let (d, wanted) = self.target(&form.operands[0], to, how(to))?;
        if !from.is_float() && !to.is_float() && !sat {
            return self.convert_integer([d, a], given, from, to, wanted);
        }
        let a = self.low_part(a, given, from)?;
        if wanted.bits() == to.bits() {
            return self.emit(Op::Convert(convert), [d, a], 0);
        }
        let t = self.temporary(to.bank())?;
        self.emit(Op::Convert(convert), [t, a], 0)?;
        self.convert_integer([d, t], to, to, to, wanted)
    }

    /// The part of a wider register that has a type.
    fn low_part(&mut self, a: Reg, given: Type, kind: Type) -> Lowered<Reg> {
        if given.bank() == kind.bank() {
            return Ok(a);
        }
        let t = self.temporary(Bank::Short)?;
        self.emit(Op::Truncate, [t, a], 0)?;
        Ok(t)
    }

    /// `cvt.rn.f16x2.f32 d, a, b`: `a` becomes the upper half.
    fn convert_two(&mut self, convert: Convert, form: &Form<'a, '_>) -> Lowered<()> {
        self.expect(form, 3)?;
        let d = self.destination(&form.operands[0], convert.to)?;
        let to = if convert.to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
        let mut halves = [0; 2];
        for (half, operand) in halves.iter_mut().zip([&form.operands[2], &form.operands[1]]) {
            let source = self.source(operand, Type::F32)?;
            *half = self.temporary(Bank::Short)?;
            self.emit(Op::Convert(Convert { to, ..convert }), [*half, source], 0)?;
        }
        let list = self.list(&halves);
        self.emit(Op::Pack { bits: 16, count: 2 }, [d], list)
    }

    /// From an integer in a register of type `given` to one of type `wanted`.
    fn convert_integer(
        &mut self,
        [d, a]: [Reg; 2],
        given: Type,
        from: Type,
        to: Type,
        wanted: Type,
    ) -> Lowered<()> {
        let bits = from.bits().min(to.bits());
        // A wider value takes the sign of its source, a narrower one that of its result.
        let signed = if from.bits() < to.bits() { from.is_signed() } else { to.is_signed() };
        if given.bank() == Bank::Long && wanted.bank() == Bank::Long && bits == 64 {
            return self.emit(Op::MovLong, [d, a], 0);
        }
        let mut short = self.low_part(a, given, if bits == 64 { Type::U32 } else { from.min_32() })?;
        let narrow = |to: u32| Op::Narrow { bits: bits as u8, signed, to: to as u8 };
        if wanted.bank() == Bank::Short {
            let op = if bits >= 32 { Op::Mov } else { narrow(wanted.bits().min(32)) };
            return self.emit(op, [d, short], 0);
        }
        if bits < 32 {
            let t = self.temporary(Bank::Short)?;
            self.emit(narrow(32), [t, short], 0)?;
            short = t;
        }
        self.emit(if signed && bits <= 32 { Op::ExtendSigned } else { Op::Extend }, [d, short], 0)
    }

    pub(super) fn address_conversion(&mut self, form: &mut Form<'a, '_>) -> Lowered<()> {
        let to_space = form.opcode == "cvta" && form.takes("to");
        let Some(place) = place(form) else {
            return Err(self.unsupported(format!("one of '{SPACES}'"), form.shown()));
        };
        if form.opcode == "isspacep" {
            return self.plain(form, Op::IsSpace(place), [Type::Pred, Type::U64]);
        }
        self.kind_of(form, "u64")?;
        self.expect(form, 2)?;
        let d = self.destination(&form.operands[0], Type::U64)?;
        let named = match form.operands[1] {
            Operand::Name(name) if self.register(name)?.is_none() => self.named(name)?,
            _ => None,
        };
        let a = match named {
            Some(named) if !to_space && is_in(named.space, place) => self.address_of(named, Bank::Long)?,
            _ => self.source(&form.operands[1], Type::U64)?,
        };
        self.emit(if to_space { Op::FromGeneric(place) } else { Op::ToGeneric(place) }, [d, a], 0)
    }
}

impl Type {
    /// The type if it is in 32 bits, or one that is.
    fn min_32(self) -> Self {
        if self.bits() == 64 { Self::U32 } else { self }
    }
}

/// The value of a special register that is the same everywhere here: one multiprocessor, one grid.
fn fixed(name: &str) -> Option<u64> {
    match name {
        "%smid" | "%gridid" | "%clock_hi" | "%globaltimer_hi" => Some(0),
        "%nsmid" => Some(1),
        _ => None,
    }
}

/// Whether the modifiers of a conversion fit its types.
fn is_valid(it: &Convert, has_rounding: bool) -> bool {
    let (from, to) = (it.from, it.to);
    let is_packed = matches!(to, Type::F16x2 | Type::Bf16x2);
    let between_floats = from.is_float() && to.is_float();
    let is_narrower = between_floats && (to.bits() < from.bits() || is_packed || to == Type::Tf32);
    let between_halves = between_floats && from != to && from.bits() == 16 && to.bits() == 16;
    let needs_rounding = is_narrower || between_halves || (!from.is_float() && to.is_float());
    let needs_integer = from.is_float() && !to.is_float();
    (needs_rounding == (has_rounding || it.ties_away))
        && (!needs_integer || it.integer)
        && (!it.integer || (from.is_float() && (!to.is_float() || to == from)))
        && (!it.ties_away || to == Type::Tf32)
        && (!it.relu || is_packed || matches!(to, Type::F16 | Type::Bf16 | Type::Tf32))
        && (to != Type::Tf32 || from == Type::F32)
        && (!is_packed || from == Type::F32)
        && (!it.ftz || from == Type::F32 || to == Type::F32)
}
