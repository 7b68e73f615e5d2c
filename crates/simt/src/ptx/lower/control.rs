//! Which function lowers an opcode; jumps and calls.

use super::super::ast::{InstructionText, Operand};
use super::super::op::{Access, Op, Place, Reg};
use super::super::types::{Bank, Type};
use super::modifiers::Modifiers;
use super::{Formal, Jump, JumpPlace, Lowered, Lowering};

impl<'a, 'b> Lowering<'a, 'b> {
    pub(super) fn by_opcode(
        &mut self,
        parts: &mut Modifiers<'a>,
        text: &'b InstructionText<'a>,
    ) -> Lowered<()> {
        let operands = &text.operands;
        let opcode = parts.next().unwrap_or_default();
        match opcode {
            "add" | "sub" | "mul" | "div" | "min" | "max" | "abs" | "neg" | "mad" => {
                match parts.last_kind() {
                    Some(kind) if kind.is_float() => self.float(opcode, parts, operands),
                    _ => self.integer_arithmetic(opcode, parts, operands),
                }
            }
            "fma" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "ex2" | "lg2" | "tanh" => {
                self.float(opcode, parts, operands)
            }
            "copysign" => self.copysign(parts, operands),
            "testp" => self.testp(parts, operands),
            "addc" | "subc" | "madc" => self.with_carry(opcode, parts, operands),
            "rem" | "sad" | "mul24" | "mad24" => self.integer_arithmetic(opcode, parts, operands),
            "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" => self.logic(opcode, parts, operands),
            "popc" | "clz" | "bfind" | "brev" | "bfe" | "bfi" | "bmsk" | "fns" => {
                self.bits(opcode, parts, operands)
            }
            "shf" | "prmt" | "lop3" | "dp4a" | "dp2a" => self.bytes(opcode, parts, operands),
            "setp" | "set" => self.compare(opcode, parts, operands),
            "selp" | "slct" => self.select(opcode, parts, operands),
            "mov" => self.mov(parts, operands),
            "cvt" => self.cvt(parts, operands),
            "cvta" | "isspacep" | "mapa" => self.address_conversion(opcode, parts, operands),
            "ld" | "ldu" => self.load(opcode, parts, operands),
            "st" => self.store(parts, operands),
            "atom" | "red" => self.atomic(opcode, parts, operands),
            "cp" => self.copy_async(parts, operands),
            "prefetch" | "prefetchu" | "membar" | "fence" | "nanosleep" | "pmevent" | "discard"
            | "applypriority" | "griddepcontrol" => self.without_effect(opcode, parts, operands),
            "shfl" => self.shuffle(parts, operands),
            "vote" => self.vote(parts, operands),
            "match" => self.match_sync(parts, operands),
            "redux" => self.redux(parts, operands),
            "activemask" => self.active_mask(parts, operands),
            "elect" => {
                Err(self.unsupported("an instruction of sm_90 or earlier that compilers emit", "'elect'"))
            }
            "bar" | "barrier" => self.barrier(parts, operands),
            "mma" => self.mma(parts, operands),
            "ldmatrix" | "stmatrix" | "movmatrix" => self.move_matrix(opcode, parts, operands),
            "bra" => self.branch(parts, operands),
            "brx" => self.branch_indexed(parts, operands),
            "call" => self.call(parts, operands),
            "ret" | "exit" => {
                self.expect(operands, 0)?;
                parts.takes("uni");
                self.emit(if opcode == "ret" { Op::Return } else { Op::Exit }, [0; 4], 0);
                Ok(())
            }
            "trap" | "brkpt" => {
                self.expect(operands, 0)?;
                self.emit(if opcode == "trap" { Op::Trap } else { Op::Nothing }, [0; 4], 0);
                Ok(())
            }
            _ => Err(self.unsupported("a known instruction", format!("'{opcode}'"))),
        }
    }

    /// Fails unless an instruction has this number of operands.
    pub(super) fn expect(&self, operands: &[Operand<'a>], count: usize) -> Lowered<()> {
        match operands.len() == count {
            true => Ok(()),
            false => Err(self.corrupt(format!("{count} operands"), operands.len().to_string())),
        }
    }

    /// Fails unless the instruction has between these numbers of operands.
    pub(super) fn expect_within(&self, operands: &[Operand<'a>], least: usize, most: usize) -> Lowered<()> {
        match (least..=most).contains(&operands.len()) {
            true => Ok(()),
            false => Err(self.corrupt(format!("{least} to {most} operands"), operands.len().to_string())),
        }
    }

    /// A part of the name that is missing or unknown.
    pub(super) fn part<T>(&self, part: Option<T>, parts: &Modifiers<'a>, expected: &str) -> Lowered<T> {
        part.ok_or_else(|| {
            self.unsupported(expected, parts.left().map_or("none".to_owned(), |it| format!("'.{it}'")))
        })
    }

    fn branch(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.expect(operands, 1)?;
        parts.takes("uni");
        let Operand::Name(label) = operands[0] else {
            return Err(self.corrupt("a label", "another operand"));
        };
        self.jump(JumpPlace::Instruction(self.program.code.len()), label);
        self.emit(Op::Branch, [0; 4], 0);
        Ok(())
    }

    fn branch_indexed(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        self.expect(operands, 2)?;
        self.part(parts.takes("idx").then_some(()), parts, "brx.idx")?;
        parts.takes("uni");
        let index = self.source(&operands[0], Type::U32)?;
        let labels = match operands[1] {
            Operand::Name(name) => {
                let found = self.open.iter().rev().find_map(|it| self.scopes[*it].targets.get(name));
                found.cloned().ok_or_else(|| self.corrupt("a list of targets", format!("'{name}'")))?
            }
            _ => return Err(self.corrupt("a list of targets", "another operand")),
        };
        let start = self.list(&vec![0; labels.len()]);
        for (entry, label) in labels.iter().enumerate() {
            self.jump(JumpPlace::List(start as usize + entry), label);
        }
        self.emit(Op::BranchIndexed, [labels.len() as u32, index, 0, 0], start);
        Ok(())
    }

    fn jump(&mut self, place: JumpPlace, label: &'a str) {
        self.jumps.push(Jump { at: self.at, place, label, scopes: self.open.clone() });
    }

    /// Sets the targets of the jumps of a function. A label of another function is unknown here.
    pub(super) fn resolve_jumps(&mut self) -> Lowered<()> {
        for jump in std::mem::take(&mut self.jumps) {
            let found = jump.scopes.iter().rev().find_map(|it| self.scopes[*it].labels.get(jump.label));
            let Some(target) = found else {
                self.at = jump.at;
                return Err(self.corrupt("a label of this function", format!("'{}'", jump.label)));
            };
            match jump.place {
                JumpPlace::Instruction(index) => self.program.code[index].imm = i64::from(*target),
                JumpPlace::List(index) => self.program.lists[index] = *target,
            }
        }
        Ok(())
    }

    fn call(&mut self, parts: &mut Modifiers<'a>, operands: &[Operand<'a>]) -> Lowered<()> {
        parts.takes("uni");
        let none = Vec::new();
        let (returns, rest) = match operands {
            [Operand::List(returns), rest @ ..] => (returns, rest),
            rest => (&none, rest),
        };
        let (name, arguments) = match rest {
            [Operand::Name(name)] => (*name, &none),
            [Operand::Name(name), Operand::List(arguments)] => (*name, arguments),
            _ => return Err(self.unsupported("the name of a function and its arguments", "another call")),
        };
        if self.register(name)?.is_some() {
            return Err(
                self.unsupported("the name of a function", format!("a call by the address in '{name}'"))
            );
        }
        if name == "__assertfail" {
            self.emit(Op::Trap, [0; 4], 0);
            return Ok(());
        }
        let callee = self.callee(name)?;
        if callee.parameters.len() != arguments.len() || callee.returns.len() != returns.len() {
            let expected =
                format!("{} arguments and {} results", callee.parameters.len(), callee.returns.len());
            return Err(self.corrupt(expected, format!("{} and {}", arguments.len(), returns.len())));
        }
        for (formal, argument) in callee.parameters.iter().zip(arguments) {
            self.pass(*formal, argument, true)?;
        }
        self.edges.entry(self.function.name).or_default().insert(name);
        self.calls.push((self.program.code.len(), name));
        self.queue.push(name);
        self.emit(Op::Call, [0; 4], 0);
        for (formal, result) in callee.returns.iter().zip(returns) {
            self.pass(*formal, result, false)?;
        }
        Ok(())
    }

    /// Copies an argument to its parameter, or a result from its place.
    fn pass(&mut self, formal: Formal, operand: &Operand<'a>, is_argument: bool) -> Lowered<()> {
        match formal {
            Formal::Register { reg, kind } => {
                let mov = if kind.bank() == Bank::Long { Op::MovLong } else { Op::Mov };
                let (to, from) = if is_argument {
                    (reg, self.source(operand, kind)?)
                } else {
                    (self.destination(operand, kind)?, reg)
                };
                self.emit(mov, [to, from, 0, 0], 0);
                Ok(())
            }
            Formal::Memory { offset, bytes, align } => {
                let named = match operand {
                    Operand::Name(name) => self.named(name)?,
                    _ => None,
                };
                let Some(named) = named else {
                    return Err(self.unsupported("a variable in .param", "another argument"));
                };
                let other = self.address_of(named, Bank::Long)?;
                let own = self.constant(Bank::Long, offset.into())?;
                let (to, from) = if is_argument { (own, other) } else { (other, own) };
                let place = match named.space {
                    super::super::ast::Space::Param if is_argument => Place::Argument,
                    _ => Place::Local,
                };
                self.copy(to, from, bytes, align, place)
            }
        }
    }

    /// Copies bytes between parameters, in pieces as large as their alignment allows.
    fn copy(&mut self, to: Reg, from: Reg, bytes: u32, align: u32, place: Place) -> Lowered<()> {
        let through = self.temporary(Bank::Long)?;
        let mut offset = 0;
        while offset < bytes {
            let mut size = align.min(8);
            while size > bytes - offset {
                size /= 2;
            }
            let access = Access {
                place,
                bytes: size as u8,
                signed: false,
                count: 1,
                long: true,
                short_address: false,
            };
            self.emit(Op::Load(access), [through, from, 0, 0], offset.into());
            let access = Access { place: Place::Local, ..access };
            self.emit(Op::Store(access), [0, to, through, 0], offset.into());
            offset += size;
        }
        Ok(())
    }
}
