//! Operands: registers, constants and addresses.

use super::super::ast::{Number, Operand};
use super::super::op::{IntUnary, Op, Place, Reg, Width};
use super::super::program::{Special, bits_of};
use super::super::types::{Bank, Type};
use super::lowering::{Address, Lowered, Lowering, Named};
use crate::VARIABLES_ADDRESS;
use crate::words::Word;

/// How much the type of a register may differ from that of the instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    /// Same size, and a type that agrees.
    Exact,
    /// As large or larger ("Operand Size Exceeding Instruction-Type Size").
    Wider,
}

impl<'a> Lowering<'a, '_> {
    pub(super) fn new_register(&mut self, bank: Bank) -> Lowered<Reg> {
        let program = &mut self.program;
        let limit = self.names.limits.registers;
        if program.shorts + program.longs >= limit {
            return Err(self.unsupported(format!("at most {limit} registers"), "more"));
        }
        let count = if bank == Bank::Long { &mut program.longs } else { &mut program.shorts };
        *count += 1;
        Ok(*count - 1)
    }

    /// A register for this instruction only.
    pub(super) fn temporary(&mut self, bank: Bank) -> Lowered<Reg> {
        let index = bank as usize;
        let next = self.used_temporaries[index];
        self.used_temporaries[index] += 1;
        if let Some(reg) = self.temporaries[index].get(next) {
            return Ok(*reg);
        }
        let reg = self.new_register(bank)?;
        self.temporaries[index].push(reg);
        Ok(reg)
    }

    /// The register that always has a value.
    pub(super) fn constant(&mut self, bank: Bank, value: u64) -> Lowered<Reg> {
        let is_long = bank == Bank::Long;
        if let Some(reg) = self.constants.get(&(is_long, value)) {
            return Ok(*reg);
        }
        let reg = self.new_register(bank)?;
        self.constants.insert((is_long, value), reg);
        match is_long {
            true => self.program.long_constants.push((reg, value)),
            false => self.program.short_constants.push((reg, value as u32)),
        }
        Ok(reg)
    }

    fn special(&mut self, special: (Special, usize)) -> Lowered<Reg> {
        if let Some((_, reg)) = self.program.specials.iter().find(|it| it.0 == special) {
            return Ok(*reg);
        }
        let reg = self.new_register(Bank::Short)?;
        self.program.specials.push((special, reg));
        Ok(reg)
    }

    /// A declared register.
    pub(super) fn register(&mut self, name: &'a str) -> Lowered<Option<(Reg, Type)>> {
        for index in self.open.clone().into_iter().rev() {
            if let Some(known) = self.scopes[index].used.get(name) {
                return Ok(Some(*known));
            }
            let scope = &self.scopes[index];
            let digits = name.len() - name.trim_end_matches(|it: char| it.is_ascii_digit()).len();
            let (prefix, number) = name.split_at(name.len() - digits);
            let is_canonical = !number.is_empty() && (number == "0" || !number.starts_with('0'));
            let kind = match (scope.declared.get(name), scope.declared.get(prefix)) {
                (Some((kind, None)), _) => *kind,
                (_, Some((kind, Some(count))))
                    if is_canonical && number.parse::<u32>().is_ok_and(|it| it < *count) =>
                {
                    *kind
                }
                _ => continue,
            };
            let reg = self.new_register(kind.bank())?;
            self.scopes[index].used.insert(name, (reg, kind));
            return Ok(Some((reg, kind)));
        }
        Ok(None)
    }

    pub(super) fn predicate(&mut self, name: &'a str) -> Lowered<Reg> {
        match self.register(name)? {
            Some((reg, Type::Pred)) => Ok(reg),
            _ => Err(self.corrupt("a predicate", format!("'{name}'"))),
        }
    }

    fn checked(&self, name: &str, kind: Type, found: Type, how: Match) -> Lowered<()> {
        let fits = match how {
            Match::Exact => found.bits() == kind.bits() && kind.agrees(found),
            Match::Wider => {
                let is_longer = found.bits() > kind.bits() && !found.is_float();
                (is_longer || found.bits() == kind.bits()) && kind.agrees(found) && found != Type::Pred
            }
        };
        match fits {
            true => Ok(()),
            false => {
                Err(self.corrupt(format!("a register for {kind:?}"), format!("'{name}', which is {found:?}")))
            }
        }
    }

    /// A register that is written, and its type.
    pub(super) fn target(&mut self, operand: &Operand<'a>, kind: Type, how: Match) -> Lowered<(Reg, Type)> {
        match operand {
            // The sink, whose value is never read.
            Operand::Name("_") => Ok((self.temporary(kind.bank())?, kind)),
            Operand::Name(name) => match self.register(name)? {
                Some((reg, found)) => {
                    self.checked(name, kind, found, how)?;
                    Ok((reg, found))
                }
                None => Err(self.corrupt("a declared register", format!("'{name}'"))),
            },
            _ => Err(self.corrupt("a register", "another operand")),
        }
    }

    pub(super) fn destination(&mut self, operand: &Operand<'a>, kind: Type) -> Lowered<Reg> {
        Ok(self.target(operand, kind, Match::Exact)?.0)
    }

    /// A register that is read: declared, special, or constant; and its type.
    pub(super) fn origin(&mut self, operand: &Operand<'a>, kind: Type, how: Match) -> Lowered<(Reg, Type)> {
        match operand {
            Operand::Name(name) => {
                if let Some((reg, found)) = self.register(name)? {
                    self.checked(name, kind, found, how)?;
                    return Ok((reg, found));
                }
                if let Some(special) =
                    special(name).filter(|_| matches!(kind, Type::U32 | Type::B32 | Type::S32))
                {
                    return Ok((self.special(special)?, Type::U32));
                }
                if matches!(*name, "WARP_SZ") && kind.is_integer() {
                    return Ok((self.constant(kind.bank(), 32)?, kind));
                }
                Err(self.corrupt("a declared register", format!("'{name}'")))
            }
            Operand::Not(name) if kind == Type::Pred => {
                let source = self.predicate(name)?;
                let reg = self.temporary(Bank::Short)?;
                let (guard, counts) = (std::mem::take(&mut self.guard), self.counts);
                self.counts = false;
                self.emit(Op::IntUnary(IntUnary::Not, Width::W32), [reg, source], 0)?;
                (self.guard, self.counts) = (guard, counts);
                Ok((reg, kind))
            }
            Operand::Number(number) => {
                let is_literal = !matches!(number, Number::Integer(_)) || !kind.is_float();
                let bits = bits_of(*number, kind).filter(|_| is_literal);
                let Some(bits) = bits else {
                    return Err(self.corrupt(format!("a constant of type {kind:?}"), "another one"));
                };
                let bits = if kind == Type::Pred { u64::from((bits as u32).wrapping_neg()) } else { bits };
                Ok((self.constant(kind.bank(), bits)?, kind))
            }
            _ => Err(self.corrupt(format!("an operand of type {kind:?}"), "another one")),
        }
    }

    pub(super) fn source(&mut self, operand: &Operand<'a>, kind: Type) -> Lowered<Reg> {
        Ok(self.origin(operand, kind, Match::Exact)?.0)
    }

    /// The registers of operands of one type.
    pub(super) fn all(&mut self, all: &[Operand<'a>], kind: Type, are_written: bool) -> Lowered<Vec<Reg>> {
        let mut register = |operand| match are_written {
            true => self.destination(operand, kind),
            false => self.source(operand, kind),
        };
        all.iter().map(&mut register).collect()
    }

    /// A constant integer.
    pub(super) fn integer(&self, operand: &Operand<'a>, limit: i128) -> Lowered<i64> {
        match operand {
            Operand::Number(Number::Integer(value)) if (0..limit).contains(value) => Ok(*value as i64),
            _ => Err(self.corrupt(format!("a constant below {limit}"), "another operand")),
        }
    }

    /// A variable that is in scope.
    pub(super) fn named(&mut self, name: &'a str) -> Lowered<Option<Named>> {
        for index in self.open.iter().rev() {
            if let Some(named) = self.scopes[*index].variables.get(name) {
                return Ok(Some(*named));
            }
        }
        if self.function.is_entry
            && let Some(index) = self.function.parameters.iter().position(|it| it.name == name)
        {
            let offset = self.arguments()?[index].offset;
            return Ok(Some(Named { space: Place::Param, address: Address::Fixed(offset.into()) }));
        }
        let Some((variable, offset)) = self.names.variables.get(name).copied() else { return Ok(None) };
        let address = match (variable.space, variable.bytes) {
            (Place::Shared, None) => {
                self.dynamic_align = self.dynamic_align.max(variable.align);
                Address::Dynamic
            }
            (Place::Shared, Some(bytes)) => {
                if !self.shared.contains_key(name) {
                    let placed = self.memory_bytes(Place::Shared, bytes, variable.align)?;
                    self.shared.insert(name, placed);
                }
                Address::Fixed(self.shared[name].into())
            }
            _ => Address::Fixed(VARIABLES_ADDRESS + u64::from(offset)),
        };
        Ok(Some(Named { space: variable.space, address }))
    }

    /// The register with the address of a variable.
    pub(super) fn address_of(&mut self, named: Named, bank: Bank) -> Lowered<Reg> {
        match named.address {
            Address::Fixed(address) => self.constant(bank, address),
            Address::Dynamic => {
                let is_long = bank == Bank::Long;
                if let Some((_, reg)) = self.dynamic.iter().find(|it| it.0 == is_long) {
                    return Ok(*reg);
                }
                let reg = self.new_register(bank)?;
                self.dynamic.push((is_long, reg));
                Ok(reg)
            }
        }
    }

    /// The register and the offset of an operand in brackets, whether the register is a short one, and the
    /// space of the variable that it names.
    pub(super) fn address(&mut self, operand: &Operand<'a>) -> Lowered<(Reg, i64, bool, Option<Place>)> {
        let Operand::Address { base, offset } = operand else {
            return Err(self.corrupt("an address in brackets", "another operand"));
        };
        let Some(name) = base else {
            return Ok((self.constant(Bank::Long, 0)?, *offset, false, None));
        };
        if let Some((reg, kind)) = self.register(name)? {
            if kind.is_float() || !matches!(kind.bits(), 32 | 64) {
                return Err(
                    self.corrupt("a register with an address", format!("'{name}', which is {kind:?}"))
                );
            }
            return Ok((reg, *offset, kind.bits() == 32, None));
        }
        match self.named(name)? {
            Some(named) => Ok((self.address_of(named, Bank::Long)?, *offset, false, Some(named.space))),
            None => Err(self.corrupt("a register or a variable", format!("'{name}'"))),
        }
    }

    /// Adds registers to the list of the program, and returns where they start.
    pub(super) fn list(&mut self, registers: &[Reg]) -> i64 {
        let start = self.program.lists.len();
        self.program.lists.extend_from_slice(registers);
        start as i64
    }
}

/// The special register with a name, and its dimension.
fn special(name: &str) -> Option<(Special, usize)> {
    let (base, dimension) = match name.rsplit_once('.') {
        Some((base, letter)) => (base, Some(["x", "y", "z"].iter().position(|it| *it == letter)?)),
        None => (name, None),
    };
    let special = Special::named(base)?;
    let is_vector = matches!(special, Special::Thread | Special::Threads | Special::Block | Special::Blocks);
    (is_vector == dimension.is_some()).then_some((special, dimension.unwrap_or(0)))
}
